// Targets whose driver compiles: the image of a kernel is its source with the prelude before it.
// Images may be concatenated: that is the one program of a bundle.
#include <utility>

#include "hal/base/bytes.h"
#include "hal/base/hash.h"

#include "runtime/compile/compiler.h"
#include "runtime/compile/compiler_text.h"

namespace modeld::compile {

namespace {

class OpenClCompiler final : public Compiler {
 public:
  explicit OpenClCompiler(OpenClOptions options) : options_(std::move(options)) {
    identity_ = "OpenCL C source " + options_.build_options +
                " prelude=" + blake2b(options_.prelude).hex().substr(0, 16);
  }

  const std::string& identity() const override { return identity_; }
  Result<std::vector<CompiledImage>> do_compile(std::span<const KernelSource> batch) override;

 private:
  OpenClOptions options_;
  std::string identity_;
};

Result<std::vector<CompiledImage>> OpenClCompiler::do_compile(std::span<const KernelSource> batch) {
  std::vector<CompiledImage> images;
  for (const KernelSource& k : batch) {
    if (!is_identifier(k.name))
      return fail(Errc::kInvalid, strf("kernel name '%s' is no C identifier", k.name.c_str()));
    std::string text = options_.prelude;
    // One program holds kernels of both kinds: the switch stands around the text.
    if (k.no_contract) text += "#pragma OPENCL FP_CONTRACT OFF\n";
    text += k.source;
    if (k.no_contract) text += "#pragma OPENCL FP_CONTRACT ON\n";
    const std::span<const std::byte> bytes = bytes_of(text);
    CompiledImage image;
    image.code.assign(bytes.begin(), bytes.end());
    images.push_back(std::move(image));
  }
  return images;
}

}  // namespace

std::unique_ptr<Compiler> make_opencl_compiler(const OpenClOptions& options) {
  return std::make_unique<OpenClCompiler>(options);
}

}  // namespace modeld::compile
