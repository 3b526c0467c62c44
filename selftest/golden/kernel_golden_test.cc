// Rendered source of representative kernels, one file per target and kernel in kernels/. The text
// is what a reviewer reads and a compiler gets; that it computes the right thing is the business of
// kernel_run, kernel_run_gpu and kernel_run_cl. After a change that is meant to give other text:
// `build/selftest/golden/kernel_golden_test --update`, then read the difference.
#include <gtest/gtest.h>

#include <cstring>

#include "hal/base/fs.h"

#include "runtime/codegen/to_program.h"
#include "runtime/render/render_amd.h"
#include "runtime/render/render_cpu.h"
#include "runtime/render/render_opencl.h"

#include "selftest/testing/gpu_kernels.h"

namespace modeld {
namespace {

using ir::DType;
using ir::Op;
using ir::OptOp;
using testing::KernelBuilder;
using N = const ir::Node*;

bool g_update = false;

struct Kernel {
  const char* name;
  N (*make)(KernelBuilder&);
};

N by_heuristic(KernelBuilder& b, N ast) {
  return b.g.with_arg(ast, ir::KernelInfo{});
}

N elementwise(KernelBuilder& b) {
  N i = b.loop(4096);
  N x = b.at(b.param(1, 4096), i);
  return b.kernel(b.param(0, 4096), i,
                  b.op(Op::kMax, {b.add(b.mul(x, b.f(0.5)), b.at(b.param(2, 4096), i)), b.f(0)}),
                  {i});
}

N matmul(KernelBuilder& b) {
  return by_heuristic(b, testing::product(b, 32, 64, 48, {}));
}

N conv(KernelBuilder& b) {
  return b.conv(4, 8, 16, 16, 3, 1);
}

N sigmoid(KernelBuilder& b) {
  N i = b.loop(64);
  N e = b.unary(Op::kExp2, b.mul(b.at(b.param(1, 64), i), b.f(-1.4426950408889634)));
  return b.kernel(b.param(0, 64), i, b.unary(Op::kReciprocal, b.add(e, b.f(1))), {i});
}

N row_sum(KernelBuilder& b) {
  return by_heuristic(b, testing::row_reduce(b, 16, 1024, {}));
}

N masked_pad(KernelBuilder& b) {
  N i = b.loop(16), j = b.loop(20);
  N x = b.padded(b.param(1, 256), b.inside(j, 2, 18), b.add(b.times(i, 16), b.add(j, b.i(-2))));
  return b.kernel(b.param(0, 320), b.add(b.times(i, 20), j), b.add(x, b.f(1)), {i, j});
}

N half_scale(KernelBuilder& b) {
  N i = b.loop(1024);
  N x = ir::cast(b.g, b.at(b.param(1, 1024, DType::kF16), i), DType::kF32);
  return b.kernel(b.param(0, 1024, DType::kF16), i, ir::cast(b.g, b.mul(x, b.f(0.25)), DType::kF16),
                  {i});
}

N half_matmul(KernelBuilder& b) {
  N i = b.loop(16), j = b.loop(16), r = b.reduce_loop(32);
  N x = b.at(b.param(1, 16 * 32, DType::kF16), b.add(b.times(i, 32), r));
  N y = b.at(b.param(2, 32 * 16, DType::kF16), b.add(b.times(r, 16), j));
  N sum =
      b.reduce(Op::kAdd, b.mul(ir::cast(b.g, x, DType::kF32), ir::cast(b.g, y, DType::kF32)), {r});
  return b.kernel(b.param(0, 16 * 16, DType::kF16), b.add(b.times(i, 16), j),
                  ir::cast(b.g, sum, DType::kF16), {i, j});
}

constexpr Kernel kKernels[] = {
    {"elementwise", elementwise}, {"matmul", matmul},   {"conv", conv},
    {"sigmoid", sigmoid},         {"row_sum", row_sum}, {"masked_pad", masked_pad},
    {"half_scale", half_scale}};

codegen::CodegenOptions options(const std::string& target_text) {
  const hal::Target target = *hal::parse_target(target_text);
  codegen::CodegenOptions o =
      target.is_cpu() ? codegen::cpu_options(target) : codegen::gpu_options(target);
  o.render = target.is_cpu()        ? render::cpu_renderer(target).render
             : target.kind == "amd" ? render::amd_renderer(target).render
                                    : render::opencl_renderer().render;
  return o;
}

// The source with a name that does not change with every option: r_16_32 for r_16_32_0123456789ab.
Result<std::string> text_of(const Kernel& kernel, const codegen::CodegenOptions& o) {
  ir::Graph g;
  KernelBuilder b(g);
  ASSIGN_OR_RETURN(codegen::Program p, codegen::to_program(g, kernel.make(b), o));
  const std::string plain = p.name.substr(0, p.name.rfind('_'));
  const size_t at = p.source.find(p.name);
  if (at != std::string::npos) p.source.replace(at, p.name.size(), plain);
  return "// " + ir::opts_text(p.applied_opts) + "\n" + p.source;
}

void compare(const std::string& target, const Kernel& kernel, const codegen::CodegenOptions& o) {
  const auto text = text_of(kernel, o);
  ASSERT_TRUE(text.ok()) << text.error().what;
  const std::string dir = join_path(MODELD_SOURCE_ROOT, "selftest/golden/kernels/" + target);
  const std::string path = join_path(dir, std::string(kernel.name) + ".txt");
  if (g_update) {
    ASSERT_TRUE(make_dirs(dir).ok());
    ASSERT_TRUE(write_text_atomic(path, *text).ok());
    return;
  }
  const auto stored = read_text(path);
  ASSERT_TRUE(stored.ok()) << stored.error().what;
  EXPECT_EQ(*text, *stored) << path;
}

TEST(KernelGolden, Cpu) {
  for (const Kernel& k : kKernels) compare("cpu", k, options("cpu:x86-64-v3"));
}

TEST(KernelGolden, OpenCl) {
  for (const Kernel& k : kKernels) compare("cl", k, options("cl"));
}

TEST(KernelGolden, OpenClImages) {
  codegen::CodegenOptions o = options("cl");
  o.caps.image = true;
  for (const Kernel& k :
       {Kernel{"image_elementwise", elementwise}, Kernel{"image_half", half_scale}}) {
    compare("cl", k, o);
  }
}

TEST(KernelGolden, Amd) {
  for (const Kernel& k : kKernels) compare("amd", k, options("amd:gfx1100"));
}

TEST(KernelGolden, AmdMatrixUnits) {
  compare("amd", {"half_matmul_gfx1100", half_matmul}, options("amd:gfx1100"));
  compare("amd", {"half_matmul_gfx1201", half_matmul}, options("amd:gfx1201"));
}

}  // namespace
}  // namespace modeld

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  modeld::g_update = argc > 1 && std::strcmp(argv[1], "--update") == 0;
  return RUN_ALL_TESTS();
}
