// Kernels for AArch64, run under qemu-user: one emulator process per run.
#include <cstring>
#include <map>

#include "hal/device.h"

#include "runtime/compile/compiler.h"
#include "runtime/render/render_cpu.h"

#include "models/tools/emulator.h"

#include "selftest/testing/compiled_kernel.h"

namespace modeld::testing {
namespace {

constexpr size_t kAlign = 64;

class EmulatedMachine final : public ForeignMachine {
 public:
  EmulatedMachine(hal::Target target, std::unique_ptr<hal::Device> device)
      : target_(std::move(target)), device_(std::move(device)) {}
  Status build(std::span<const codegen::Program> programs) override;
  Status run(size_t kernel,
             std::span<const Memory> buffers,
             std::span<const int64_t> vars) override;

 private:
  struct Loaded {
    std::vector<std::byte> code;
    uint64_t entry_offset = 0;
    uint64_t cores = 1;
    std::string name;
  };
  Result<std::shared_ptr<hal::Program>> load(const Loaded& k, size_t buffers, size_t vars);

  hal::Target target_;
  std::unique_ptr<hal::Device> device_;
  std::vector<Loaded> kernels_;
};

Status EmulatedMachine::build(std::span<const codegen::Program> programs) {
  compile::ClangOptions options;
  options.prelude = render::cpu_prelude(target_);
  options.opt_level = 1;
  ASSIGN_OR_RETURN(const auto compiler, compile::make_clang_compiler(target_, options));
  std::map<std::string, size_t> known;  // equal kernels are one source
  std::vector<compile::KernelSource> sources;
  for (const codegen::Program& p : programs)
    if (known.emplace(p.name, sources.size()).second) sources.push_back({p.name, p.source, false});
  ASSIGN_OR_RETURN(const auto images, compiler->do_compile(sources));
  for (const codegen::Program& p : programs) {
    const compile::CompiledImage& image = images[known.at(p.name)];
    kernels_.push_back(
        {image.code, image.entry_offset, static_cast<uint64_t>(p.info.global_size[0]), p.name});
  }
  return {};
}

Result<std::shared_ptr<hal::Program>> EmulatedMachine::load(const Loaded& k,
                                                            size_t buffers,
                                                            size_t vars) {
  hal::ProgramImage image;
  image.name = k.name;
  image.code = k.code;
  image.entry_offset = k.entry_offset;
  for (size_t i = 0; i < buffers + vars; ++i)
    image.args.push_back(
        {i < buffers ? hal::ArgKind::kBuffer : hal::ArgKind::kScalar, static_cast<uint16_t>(i)});
  return device_->load(image);
}

Status EmulatedMachine::run(size_t kernel,
                            std::span<const Memory> buffers,
                            std::span<const int64_t> vars) {
  const Loaded& k = kernels_[kernel];
  ASSIGN_OR_RETURN(const auto program, load(k, buffers.size(), vars.size()));
  std::vector<hal::Buffer> there;
  std::vector<size_t> offsets;
  std::vector<hal::Word> words;
  for (const Memory& m : buffers) {
    offsets.push_back(reinterpret_cast<uintptr_t>(m.bytes.data()) % kAlign);
    hal::BufferDesc desc;
    desc.size_bytes = m.bytes.size() + kAlign;
    ASSIGN_OR_RETURN(hal::Buffer b, device_->allocator().alloc(desc));
    std::memcpy(b.cpu().data() + offsets.back(), m.bytes.data(), m.bytes.size());
    words.push_back(hal::Word::value(b.addr() + offsets.back() + m.first));
    there.push_back(std::move(b));
  }
  for (const int64_t v : vars) words.push_back(hal::Word::value(static_cast<uint64_t>(v)));
  auto recorder = device_->record(hal::QueueKind::kCompute, k.name);
  recorder->launch(program, words, {hal::Word::value(k.cores)});
  ASSIGN_OR_RETURN(const auto done, device_->submit(std::move(recorder)));
  RETURN_IF_ERROR(device_->wait(done, Deadline::in_ms(0)));  // submit ran it
  for (size_t i = 0; i < buffers.size(); ++i)
    std::memcpy(buffers[i].bytes.data(), there[i].cpu().data() + offsets[i],
                buffers[i].bytes.size());
  return {};
}

hal::Target arm() {
  hal::Target target = *hal::parse_target("cpu:aarch64");
  target.threads = 1;
  return target;
}

}  // namespace

codegen::CodegenOptions host_options() {
  codegen::CodegenOptions o = codegen::cpu_options(arm());
  o.render = render::cpu_renderer(arm()).render;
  return o;
}

Result<std::unique_ptr<ForeignMachine>> foreign_machine() {
  ASSIGN_OR_RETURN(auto device, tools::open_emulator_for(arm()));
  return std::unique_ptr<ForeignMachine>(
      std::make_unique<EmulatedMachine>(arm(), std::move(device)));
}

}  // namespace modeld::testing
