// KernelBatch through OpenCL: all kernels of a batch are one program, built by the driver; buffers
// carry the usual guards; what lowering made an image is an image.
#include <algorithm>

#include "runtime/codegen/image_shape.h"
#include "runtime/render/render_opencl.h"

#include "selftest/testing/compiled_kernel.h"
#include "selftest/testing/kernel_memory.h"
#include "selftest/testing/opencl_lab.h"

namespace modeld::testing {

namespace {

// One driver for the whole test program: opening it takes longer than most tests.
Result<OpenClLab*> shared_lab() {
  static const Result<std::unique_ptr<OpenClLab>> lab = open_opencl_lab();
  if (!lab.ok()) return fail(Error(lab.error()));
  return lab->get();
}

// Whether argument `slot` of the rendered kernel is an image.
bool is_image(const std::string& source, size_t slot) {
  return source.find(strf("image2d_t d%zu", slot)) != std::string::npos;
}

// A buffer between guards inside one OpenCL buffer would need a sub-buffer: the guards are checked
// around the bytes that come back instead, and the interpreter of work groups checks every index.
OpenClArg argument(const codegen::Program& p,
                   size_t slot,
                   const KernelStorage& s,
                   GuardedMemory& memory) {
  OpenClArg a;
  a.bytes = {memory.first, memory.used};
  if (!is_image(p.source, slot)) return a;
  const auto shape = codegen::image_shape(static_cast<int64_t>(s.size()), s.dtype);
  a.kind = OpenClArg::Kind::kImage;
  a.width = shape ? shape->width : 0;
  a.height = shape ? shape->height : 0;
  a.is_half = s.dtype == ir::DType::kF16;
  return a;
}

}  // namespace

KernelBatch::~KernelBatch() = default;

Result<size_t> KernelBatch::add(ir::Graph& g,
                                const ir::Node* ast,
                                const codegen::CodegenOptions& options) {
  ASSIGN_OR_RETURN(codegen::Program p, codegen::to_program(g, ast, options));
  programs_.push_back(std::move(p));
  return programs_.size() - 1;
}

Status KernelBatch::build(const std::string&) {
  std::string text;
  std::vector<std::string> written;
  for (const codegen::Program& p : programs_) {
    if (std::find(written.begin(), written.end(), p.name) != written.end()) continue;
    written.push_back(p.name);
    text += render::opencl_prelude() + p.source;
  }
  ASSIGN_OR_RETURN(OpenClLab * lab, shared_lab());
  return lab->build(text, render::kOpenClBuildOptions);
}

Status KernelBatch::run(size_t kernel,
                        std::span<KernelStorage* const> args,
                        std::span<const int64_t> vars,
                        size_t) const {
  const codegen::Program& p = programs_[kernel];
  ASSIGN_OR_RETURN(OpenClLab * lab, shared_lab());
  std::vector<GuardedMemory> memory;
  for (const KernelStorage* s : args) memory.emplace_back(*s, 0);
  // Arguments that lowering found unused at the end are none of the kernel's.
  const size_t buffers =
      p.info.globals.empty()
          ? 0
          : std::min(args.size(), static_cast<size_t>(p.info.globals.back()) + 1);
  std::vector<OpenClArg> list;
  for (size_t k = 0; k < buffers; ++k) list.push_back(argument(p, k, *args[k], memory[k]));
  for (int64_t v : vars) {
    list.push_back({OpenClArg::Kind::kScalar, {}, 0, 0, false, static_cast<int32_t>(v)});
  }
  RETURN_IF_ERROR(lab->run(p.name, list, p.info.global_size, p.info.local_size));
  for (size_t k = 0; k < args.size(); ++k) memory[k].read_back(*args[k]);
  return {};
}

}  // namespace modeld::testing
