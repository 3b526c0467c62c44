// Compiler: turns rendered kernel sources into finished images, one back-end tool per
// implementation. It is not a cache (kernel_cache.h) and does not choose batches (compile_batch.h).
// Contract: an image depends only on its own source, the flags and the compiler, never on the other
// sources of the batch. Sources of one batch may be concatenated: file-scope names other than the
// kernel are guarded or repeated word for word. Errors name the kernel.
// Threading: do_compile may be called from several threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hal/base/status.h"
#include "hal/target.h"

namespace modeld::compile {

// One kernel: for a CPU a C function NAME(const uint64_t*, uint32_t) as hal/program.h defines it,
// for a GPU a __kernel function NAME.
struct KernelSource {
  std::string name;
  std::string source;
  bool no_contract = false;  // no fused multiply-add that the source does not spell out
};

struct CompiledImage {
  std::vector<std::byte> code;
  uint64_t entry_offset = 0;
  uint64_t alignment = 64;
  bool operator==(const CompiledImage&) const = default;
};

class Compiler {
 public:
  virtual ~Compiler() = default;
  // Name, version and every flag: part of disk keys and of the manifest.
  virtual const std::string& identity() const = 0;
  // One batch: one child process. All sources agree in no_contract. kCompile, kTimeout, kNotFound.
  virtual Result<std::vector<CompiledImage>> do_compile(std::span<const KernelSource> batch) = 0;
};

struct ClangOptions {
  std::string program = "clang-19";
  std::string linker = "ld.lld-19";  // AMD only: CPU objects are cut, not linked
  int64_t timeout_ms = 60'000;       // of one child process, killed with its group past it
  // 2: about 25 % faster than 1 on kernels with array accumulators, for 15 % more compile time.
  int opt_level = 2;
  std::string prelude;  // typedefs and helpers, once per translation unit, before any kernel
};

// CPU targets. kNotFound when the program cannot be run, kUnsupported for other targets.
Result<std::unique_ptr<Compiler>> make_clang_compiler(const hal::Target& target,
                                                      const ClangOptions& options = {});

// AMD targets: one code object per kernel; entry_offset is its descriptor's place in the file.
Result<std::unique_ptr<Compiler>> make_amd_compiler(const hal::Target& target,
                                                    const ClangOptions& options = {});

struct OpenClOptions {
  std::string prelude;        // before every kernel; it guards itself
  std::string build_options;  // what the driver must be given; part of the identity
};
// Nothing is compiled here: the image is the source, for the device's driver.
std::unique_ptr<Compiler> make_opencl_compiler(const OpenClOptions& options);

// The command lines after the program's name, without input and output.
std::vector<std::string> amd_flags(const hal::Target& target, bool no_contract);
std::vector<std::string> clang_flags(const hal::Target& target, bool no_contract, int opt_level);

}  // namespace modeld::compile
