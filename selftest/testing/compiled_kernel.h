// Kernel ASTs compiled for this host by the whole chain (to_program, C renderer, clang; or an
// instruction set of ours) and run on KernelStorage, so that tests compare them with the
// interpreter (kernel_interp.h). All kernels of a batch that need a compiler share one call. This
// is not the product's compile step: no cache, no image cutting. Contract: buffers get guard bytes
// on both sides; a changed guard is an error. Threading: one thread.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hal/base/mapping.h"
#include "hal/base/status.h"

#include "runtime/codegen/to_program.h"

#include "selftest/testing/kernel_interp.h"

namespace modeld::testing {

// As the test program links them: options for this host, one thread, with the C renderer
// (host_options.cc) or with the x86 instruction set (host_options_x86.cc); or for a GPU
// (host_options_gpu.cc), whose kernels run in an interpreter of work groups (interp_batch.cc) or
// through OpenCL (opencl_batch.cc).
codegen::CodegenOptions host_options();

// A machine that is not this host, for batches whose options are for it.
class ForeignMachine {
 public:
  struct Memory {
    std::span<std::byte> bytes;  // copied there, and back after the run; keeps its alignment to 64
    size_t first = 0;            // what the kernel gets the address of
  };
  virtual ~ForeignMachine() = default;
  // In the order in which they are run.
  virtual Status build(std::span<const codegen::Program> programs) = 0;
  virtual Status run(size_t kernel,
                     std::span<const Memory> buffers,
                     std::span<const int64_t> vars) = 0;
};
// The one that host_options() is for; null for this host.
Result<std::unique_ptr<ForeignMachine>> foreign_machine();

struct GuardedMemory;

class KernelBatch final {
 public:
  explicit KernelBatch(std::unique_ptr<ForeignMachine> machine = nullptr)
      : machine_(std::move(machine)) {}
  ~KernelBatch();
  KernelBatch(const KernelBatch&) = delete;
  KernelBatch& operator=(const KernelBatch&) = delete;

  // Lowers and renders; the number of the kernel in this batch.
  Result<size_t> add(ir::Graph& g, const ir::Node* ast, const codegen::CodegenOptions& options);
  // A program made elsewhere.
  size_t add(codegen::Program program);
  const codegen::Program& program(size_t kernel) const { return programs_[kernel]; }
  // One clang call; undefined symbols are an error. `flags` come after the usual ones.
  Status build(const std::string& flags = "");
  // The machine code, after build(): for those who call it on memory of their own.
  const void* entry(size_t kernel) const;
  // args[k] is PARAM k; `vars` are the words after the buffers, in order. Runs every core's share.
  // `misalign` shifts every buffer by that many elements from a 64-byte boundary.
  Status run(size_t kernel,
             std::span<KernelStorage* const> args,
             std::span<const int64_t> vars = {},
             size_t misalign = 0) const;

 private:
  Status call(size_t kernel, std::span<GuardedMemory> buffers, std::span<const int64_t> vars) const;

  std::unique_ptr<ForeignMachine> machine_;
  std::vector<codegen::Program> programs_;
  std::string directory_;
  void* library_ = nullptr;
  std::vector<Mapping> images_;  // per kernel, empty where clang made it
  // What other ways of running need; shared_ptr because it alone destroys a type not known here.
  std::shared_ptr<void> extra_;
};

}  // namespace modeld::testing
