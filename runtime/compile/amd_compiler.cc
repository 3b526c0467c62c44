// AMD targets: clang's OpenCL C front end for amdgcn and lld, joined by pipes, one code object per
// kernel. No device library is linked; what would need one is an undefined symbol and an error.
#include <utility>

#include "hal/base/bytes.h"
#include "hal/base/hash.h"
#include "hal/base/proc.h"
#include "hal/base/text.h"

#include "runtime/compile/amd_code_object.h"
#include "runtime/compile/compiler.h"
#include "runtime/compile/compiler_text.h"

namespace modeld::compile {

namespace {

constexpr uint64_t kChildMemoryBytes = uint64_t{6} << 30;
// Instructions start 256-aligned in the object; keep that wherever the object lies.
constexpr uint64_t kObjectAlign = 256;

const char* const kLinkerFlags[] = {"-shared", "--no-undefined", "--strip-all", "/dev/stdin", "-o",
                                    "-"};

class AmdCompiler final : public Compiler {
 public:
  AmdCompiler(hal::Target target, ClangOptions options, const std::string& versions)
      : target_(std::move(target)), options_(std::move(options)) {
    identity_ = versions;
    for (const std::string& f : amd_flags(target_, false)) identity_ += " " + f;
    for (const char* f : kLinkerFlags) identity_ += std::string(" ") + f;
    identity_ += " prelude=" + blake2b(options_.prelude).hex().substr(0, 16);
  }

  const std::string& identity() const override { return identity_; }
  Result<std::vector<CompiledImage>> do_compile(std::span<const KernelSource> batch) override;

 private:
  Result<std::string> run(std::vector<std::string> argv,
                          std::string input,
                          const KernelSource& kernel) const;
  Result<CompiledImage> compile(const KernelSource& kernel) const;

  hal::Target target_;
  ClangOptions options_;
  std::string identity_;
};

Result<std::string> AmdCompiler::run(std::vector<std::string> argv,
                                     std::string input,
                                     const KernelSource& kernel) const {
  ProcSpec spec;
  spec.argv = std::move(argv);
  spec.stdin_text = std::move(input);
  spec.timeout_ms = options_.timeout_ms;
  spec.memory_limit_bytes = kChildMemoryBytes;
  auto result = run_process(spec);
  if (!result.ok()) return fail(std::move(result).error().with("compile of " + kernel.name));
  if (result->succeeded()) return std::move(result->out);
  const std::string how = result->signal != 0 ? strf("died of signal %d", result->signal)
                                              : strf("exit code %d", result->exit_code);
  return fail(Errc::kCompile,
              strf("kernel %s: %s: %s: %s", kernel.name.c_str(), spec.argv[0].c_str(), how.c_str(),
                   first_error(result->err).c_str()));
}

Result<CompiledImage> AmdCompiler::compile(const KernelSource& kernel) const {
  if (!is_identifier(kernel.name))
    return fail(Errc::kInvalid, strf("kernel name '%s' is no C identifier", kernel.name.c_str()));
  std::vector<std::string> argv{options_.program};
  for (std::string& f : amd_flags(target_, kernel.no_contract)) argv.push_back(std::move(f));
  for (const char* f : {"-c", "-o", "-", "-"}) argv.emplace_back(f);
  const std::string text = "#line 1 \"prelude\"\n" + options_.prelude + "\n#line 1 \"" +
                           kernel.name + "\"\n" + kernel.source;
  ASSIGN_OR_RETURN(std::string object, run(std::move(argv), text, kernel));
  std::vector<std::string> link{options_.linker};
  for (const char* f : kLinkerFlags) link.emplace_back(f);
  ASSIGN_OR_RETURN(const std::string linked, run(std::move(link), std::move(object), kernel));
  const std::span<const std::byte> bytes = bytes_of(linked);
  ASSIGN_OR_RETURN(const AmdKernelFacts facts,
                   parse_amd_code_object(bytes, target_.arch, kernel.name));
  CompiledImage image;
  image.code.assign(bytes.begin(), bytes.end());
  image.entry_offset = facts.descriptor_offset;
  image.alignment = kObjectAlign;
  return image;
}

Result<std::vector<CompiledImage>> AmdCompiler::do_compile(std::span<const KernelSource> batch) {
  std::vector<CompiledImage> images;
  for (const KernelSource& k : batch) {
    ASSIGN_OR_RETURN(CompiledImage image, compile(k));
    images.push_back(std::move(image));
  }
  return images;
}

}  // namespace

std::vector<std::string> amd_flags(const hal::Target& target, bool no_contract) {
  return {"-x", "cl", "-cl-std=CL2.0", "-cl-no-stdinc", "--target=amdgcn-amd-amdhsa",
          "-mcpu=" + target.arch, "-O3", no_contract ? "-ffp-contract=off" : "-ffp-contract=fast",
          // No device library; one wave per SIMD shares nothing; objects without a build's traces.
          "-nogpulib", "-mcumode", "-fno-ident", "-mcode-object-version=5", "-w",
          "-fno-color-diagnostics", "-fno-caret-diagnostics", "-fno-crash-diagnostics"};
}

Result<std::unique_ptr<Compiler>> make_amd_compiler(const hal::Target& target,
                                                    const ClangOptions& options) {
  if (target.kind != "amd")
    return fail(Errc::kUnsupported,
                strf("no amdgcn compiler for target %s", hal::print_target(target).c_str()));
  std::string versions;
  for (const std::string& program : {options.program, options.linker}) {
    ASSIGN_OR_RETURN(const std::string version, tool_version(program, options.timeout_ms));
    versions += (versions.empty() ? "" : " + ") + version;
  }
  return std::make_unique<AmdCompiler>(target, options, versions);
}

}  // namespace modeld::compile
