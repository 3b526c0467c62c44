#include <algorithm>
#include <utility>

#include "hal/base/bytes.h"
#include "hal/base/hash.h"
#include "hal/base/proc.h"
#include "hal/base/text.h"

#include "runtime/compile/compiler.h"
#include "runtime/compile/compiler_text.h"
#include "runtime/compile/image_cut.h"

namespace modeld::compile {

namespace {

constexpr uint64_t kChildMemoryBytes = uint64_t{6} << 30;

std::string unit_symbol(size_t i) {
  return strf("modeld_kernel_%zu", i);
}

// All sources of a batch in one text. Each kernel gets a symbol of its own (two kernels may bear
// one name) and its name as file name, so that messages say which kernel they mean.
std::string unit_text(const std::string& prelude, std::span<const KernelSource> batch) {
  std::string text = "#line 1 \"prelude\"\n" + prelude + "\n";
  for (size_t i = 0; i < batch.size(); ++i) {
    const KernelSource& k = batch[i];
    text += strf("#define %s %s\n#line 1 \"%s\"\n", k.name.c_str(), unit_symbol(i).c_str(),
                 k.name.c_str());
    text += k.source;
    text += strf("\n#undef %s\n", k.name.c_str());
  }
  return text;
}

// The kernel whose name starts the message, or null.
const KernelSource* named_in(std::span<const KernelSource> batch, const std::string& message) {
  for (const KernelSource& k : batch)
    if (message.rfind(k.name + ":", 0) == 0) return &k;
  return nullptr;
}

class ClangCompiler final : public Compiler {
 public:
  ClangCompiler(hal::Target target, ClangOptions options, const std::string& version)
      : target_(std::move(target)), options_(std::move(options)) {
    identity_ = version;
    for (const std::string& f : clang_flags(target_, false, options_.opt_level))
      identity_ += " " + f;
    identity_ += " prelude=" + blake2b(options_.prelude).hex().substr(0, 16);
  }

  const std::string& identity() const override { return identity_; }
  Result<std::vector<CompiledImage>> do_compile(std::span<const KernelSource> batch) override;

 private:
  Result<ProcResult> run(std::span<const KernelSource> batch) const;
  Error explain(std::span<const KernelSource> batch, const ProcResult& result) const;

  hal::Target target_;
  ClangOptions options_;
  std::string identity_;
};

Result<std::vector<CompiledImage>> ClangCompiler::do_compile(std::span<const KernelSource> batch) {
  std::vector<CompiledImage> images;
  if (batch.empty()) return images;
  for (const KernelSource& k : batch) {
    if (!is_identifier(k.name))
      return fail(Errc::kInvalid, strf("kernel name '%s' is no C identifier", k.name.c_str()));
    if (k.no_contract != batch[0].no_contract)
      return fail(Errc::kInternal, "a batch mixes contraction settings");
  }
  ASSIGN_OR_RETURN(const ProcResult result, run(batch));
  if (!result.succeeded()) return fail(explain(batch, result));
  auto object = ElfObject::parse(bytes_of(result.out));
  if (!object.ok())
    return fail(Errc::kCompile,
                strf("%s made no usable object for kernel %s: %s", options_.program.c_str(),
                     batch[0].name.c_str(), object.error().what.c_str()));
  for (size_t i = 0; i < batch.size(); ++i) {
    auto image = cut_image(*object, unit_symbol(i));
    if (!image.ok()) return fail(std::move(image).error().with("kernel " + batch[i].name));
    images.push_back(std::move(*image));
  }
  return images;
}

Result<ProcResult> ClangCompiler::run(std::span<const KernelSource> batch) const {
  ProcSpec spec;
  spec.argv = {options_.program};
  for (std::string& f : clang_flags(target_, batch[0].no_contract, options_.opt_level))
    spec.argv.push_back(std::move(f));
  // Object to stdout: no temporary file can be left behind.
  for (const char* f : {"-c", "-o", "-", "-"}) spec.argv.emplace_back(f);
  spec.stdin_text = unit_text(options_.prelude, batch);
  spec.timeout_ms = options_.timeout_ms;
  spec.memory_limit_bytes = kChildMemoryBytes;
  auto result = run_process(spec);
  if (!result.ok()) {
    Error e = std::move(result).error();
    return fail(std::move(e).with(
        strf("compile of %zu kernels, first %s", batch.size(), batch[0].name.c_str())));
  }
  return result;
}

Error ClangCompiler::explain(std::span<const KernelSource> batch, const ProcResult& result) const {
  const auto because = [&](const ProcResult& r, const std::string& name) {
    const std::string how =
        r.signal != 0 ? strf("died of signal %d", r.signal) : strf("exit code %d", r.exit_code);
    return Error{Errc::kCompile,
                 strf("kernel %s: %s: %s: %s", name.c_str(), options_.program.c_str(), how.c_str(),
                      first_error(r.err).c_str())};
  };
  if (const KernelSource* k = named_in(batch, first_error(result.err)))
    return because(result, k->name);
  // No name in the message (the compiler crashed): find the kernel by compiling one at a time.
  for (size_t i = 0; batch.size() > 1 && i < batch.size(); ++i) {
    auto one = run(batch.subspan(i, 1));
    if (!one.ok()) return std::move(one).error();
    if (!one->succeeded()) return because(*one, batch[i].name);
  }
  return because(result, batch.size() == 1
                             ? batch[0].name
                             : strf("%s and %zu more", batch[0].name.c_str(), batch.size() - 1));
}

void add_arch_flags(const hal::Target& target, std::vector<std::string>& out) {
  if (target.arch == "aarch64") {
    std::string march = "-march=armv8-a";
    for (const std::string& f : target.features) march += "+" + f;
    // Tiny code model: constants by a plain PC-relative address, so images need no page alignment.
    out.insert(out.end(),
               {"--target=aarch64-none-unknown-elf", march, "-mcmodel=tiny", "-ffixed-x18"});
    return;
  }
  out.push_back("--target=x86_64-none-unknown-elf");
  out.push_back("-march=" + target.arch);
  for (const std::string& f : target.features) out.push_back("-m" + f);
  if (target.has_feature("avx512f")) out.push_back("-mprefer-vector-width=512");
  out.push_back("-fcf-protection=none");
}

}  // namespace

std::vector<std::string> clang_flags(const hal::Target& target, bool no_contract, int opt_level) {
  std::vector<std::string> out = {"-x", "c", "-std=gnu17", strf("-O%d", opt_level)};
  add_arch_flags(target, out);
  // Numbers: no -ffast-math ever. Half precision rounds after every operation on every target.
  out.insert(out.end(), {no_contract ? "-ffp-contract=off" : "-ffp-contract=fast",
                         "-fno-math-errno", "-Xclang", "-ffloat16-excess-precision=none", "-Xclang",
                         "-fbfloat16-excess-precision=none", "-fno-strict-aliasing"});
  // Shape of the object: one section per function and constant, labels of constants kept,
  // nothing that needs a linker.
  out.insert(out.end(),
             {"-ffreestanding", "-fPIC", "-fvisibility=hidden", "-ffunction-sections",
              "-fdata-sections", "-fno-jump-tables", "-fno-stack-protector",
              "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-ident", "-Wa,-L"});
  out.insert(out.end(),
             {"-w", "-fno-color-diagnostics", "-fno-caret-diagnostics", "-fno-crash-diagnostics"});
  return out;
}

Result<std::unique_ptr<Compiler>> make_clang_compiler(const hal::Target& target,
                                                      const ClangOptions& options) {
  const bool known = target.arch == "aarch64" || target.arch.rfind("x86-64", 0) == 0;
  if (!target.is_cpu() || !known)
    return fail(Errc::kUnsupported,
                strf("no compiler for target %s", hal::print_target(target).c_str()));
  ASSIGN_OR_RETURN(const std::string version, tool_version(options.program, options.timeout_ms));
  if (version.find("clang version") == std::string::npos)
    return fail(Errc::kCompile, options.program + " --version: not a clang");
  return std::make_unique<ClangCompiler>(target, options, version);
}

}  // namespace modeld::compile
