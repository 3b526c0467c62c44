// The stages of a PROGRAM, one by one: SINK -> +LINEAR -> +SOURCE, or +SOURCE and +BINARY at once
// where an instruction set of ours makes the code; each with the renderers that are the product's.
#include <gtest/gtest.h>

#include <regex>

#include "hal/base/fs.h"

#include "runtime/codegen/linearize.h"
#include "runtime/codegen/lower.h"
#include "runtime/codegen/program_info.h"
#include "runtime/codegen/to_program.h"
#include "runtime/isa/x86/x86.h"
#include "runtime/render/render_amd.h"
#include "runtime/render/render_cpu.h"
#include "runtime/render/render_opencl.h"

#include "selftest/testing/compiled_kernel.h"
#include "selftest/testing/kernel_builder.h"

namespace modeld::codegen {
namespace {

using ir::DType;
using ir::Graph;
using ir::Node;
using ir::Op;
using ir::OptOp;
using testing::KernelBatch;
using testing::KernelBuilder;
using testing::KernelStorage;
using N = const Node*;

CodegenOptions options(const std::string& text) {
  const hal::Target target = *hal::parse_target(text);
  CodegenOptions o = target.is_cpu() ? cpu_options(target) : gpu_options(target);
  o.render = target.is_cpu()        ? render::cpu_renderer(target).render
             : target.kind == "amd" ? render::amd_renderer(target).render
                                    : render::opencl_renderer().render;
  return o;
}

CodegenOptions x86_options() {
  hal::Target target = *hal::parse_target("cpu:x86-64-v3");
  target.renderer = "x86";
  target.threads = 1;
  return isa::x86::x86_options(target).value();
}

constexpr const char* kTargets[] = {"cpu:x86-64-v3", "cpu:aarch64", "cl", "amd:gfx1100"};

// A PROGRAM with its SINK only.
N program_of(Graph& g, N ast, const CodegenOptions& o) {
  auto sink = full_rewrite_to_sink(g, ast, o, true);
  EXPECT_TRUE(sink.ok()) << (sink.ok() ? "" : sink.error().what);
  if (o.select) sink = o.select(g, *sink);
  EXPECT_TRUE(sink.ok()) << (sink.ok() ? "" : sink.error().what);
  const ir::ProgramInfo info = program_info(g, *sink, "stages");
  return g.make(Op::kProgram, DType::kVoid, {*sink}, info);
}

N copy(KernelBuilder& b, int64_t n) {
  N i = b.loop(n);
  return b.kernel(b.param(0, n), i, b.add(b.at(b.param(1, n), i), b.f(1)), {i});
}

// out[i - 3] = a sum, for 3 <= i < 17 of 20: three stores at either end must not happen.
N gated(KernelBuilder& b) {
  N i = b.loop(20), r = b.reduce_loop(64);
  N sum = b.reduce(Op::kAdd, b.add(b.at(b.param(1, 64), r), ir::cast(b.g, i, DType::kF32)), {r});
  N at = b.gated(b.inside(i, 3, 17), b.add(i, b.i(-3)));
  return b.kernel({b.end(b.store(b.param(0, 14), at, sum), {i})});
}

size_t gated_stores(N linear) {
  size_t n = 0;
  for (N s : linear->src()) n += s->op == Op::kStore && s->nsrc == 3 ? 1 : 0;
  return n;
}

size_t matches(const std::string& text, const std::string& pattern) {
  const std::regex what(pattern);
  return static_cast<size_t>(
      std::distance(std::sregex_iterator(text.begin(), text.end(), what), std::sregex_iterator()));
}

// ---- do_linearize ----

TEST(DoLinearize, AddsTheOrderToABareProgramAndToNoOther) {
  Graph g;
  KernelBuilder b(g);
  N bare = program_of(g, copy(b, 64), options("cpu:x86-64-v3"));
  const auto ordered = do_linearize(g, bare);
  ASSERT_TRUE(ordered.ok()) << ordered.error().what;
  ASSERT_EQ((*ordered)->nsrc, 2U);
  EXPECT_EQ((*ordered)->src(0), bare->src(0));
  EXPECT_EQ((*ordered)->src(1)->op, Op::kLinear);
  const ir::NodeVec order = linearize(g, bare->src(0));
  EXPECT_TRUE(std::ranges::equal((*ordered)->src(1)->src(), order));
  EXPECT_EQ(*do_linearize(g, *ordered), *ordered);
}

// ---- do_render ----

TEST(DoRender, AddsTheSourceAndLeavesTheOrderOnEveryTarget) {
  for (const char* target : kTargets) {
    SCOPED_TRACE(target);
    Graph g;
    KernelBuilder b(g);
    const CodegenOptions o = options(target);
    const auto ordered = do_linearize(g, program_of(g, copy(b, 64), o));
    ASSERT_TRUE(ordered.ok());
    const auto rendered = do_render(g, *ordered, o);
    ASSERT_TRUE(rendered.ok()) << rendered.error().what;
    ASSERT_EQ((*rendered)->nsrc, 3U);
    EXPECT_EQ((*rendered)->src(1), (*ordered)->src(1));
    EXPECT_NE((*rendered)->src(2)->as<std::string>().find(" stages("), std::string::npos);
    EXPECT_EQ(*do_render(g, *rendered, o), *rendered);
  }
}

TEST(DoRender, NeedsAnOrderAndARenderer) {
  Graph g;
  KernelBuilder b(g);
  CodegenOptions o = options("cpu:x86-64-v3");
  N bare = program_of(g, copy(b, 64), o);
  EXPECT_EQ(*do_render(g, bare, o), bare) << "without LINEAR there is nothing to print";
  const auto ordered = do_linearize(g, bare);
  ASSERT_TRUE(ordered.ok());
  o.render = nullptr;
  EXPECT_FALSE(do_render(g, *ordered, o).ok());
  o.render = [](Graph&, std::span<const Node* const>, const std::string&) -> Result<std::string> {
    return fail(Errc::kUnsupported, "no word for it");
  };
  const auto refused = do_render(g, *ordered, o);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Errc::kUnsupported);
}

// Every gated STORE stands behind its own `if`; none is printed without.
TEST(DoRender, AGatedStoreIsAlwaysGuarded) {
  for (const char* target : kTargets) {
    for (const bool noopt : {false, true}) {
      SCOPED_TRACE(std::string(target) + (noopt ? " noopt" : ""));
      Graph g;
      KernelBuilder b(g);
      CodegenOptions o = options(target);
      o.noopt = noopt;
      const auto ordered = do_linearize(g, program_of(g, gated(b), o));
      ASSERT_TRUE(ordered.ok());
      const auto rendered = do_render(g, *ordered, o);
      ASSERT_TRUE(rendered.ok()) << rendered.error().what;
      const size_t gates = gated_stores((*ordered)->src(1));
      const std::string& text = (*rendered)->src(2)->as<std::string>();
      ASSERT_GT(gates, 0U) << text;
      // "if (...) d0[...] =", "if (...) *(...)(d0+...) =", "if (...) vstore4(..., d0+...)".
      EXPECT_EQ(matches(text, "\n *if \\(.*\\bd0\\b"), gates) << text;
      EXPECT_EQ(matches(text, "\n.*\\bd0\\[[^=\n]* = |\n.*\\(d0\\+[^=\n]* = |\n.*vstore"), gates)
          << text;
    }
  }
}

// ---- do_assemble ----

TEST(DoAssemble, AddsListingAndMachineCodeAtOnce) {
  Graph g;
  KernelBuilder b(g);
  const CodegenOptions o = x86_options();
  const auto ordered = do_linearize(g, program_of(g, copy(b, 64), o));
  ASSERT_TRUE(ordered.ok());
  for (N line : (*ordered)->src(1)->src())
    EXPECT_TRUE(line->op == Op::kIns || line->op == Op::kRange || line->dtype == DType::kVoid ||
                ir::is_const(line))
        << ir::op_name(line->op);
  const auto made = do_assemble(g, *ordered, o);
  ASSERT_TRUE(made.ok()) << made.error().what;
  ASSERT_EQ((*made)->nsrc, 4U);
  EXPECT_EQ((*made)->src(1), (*ordered)->src(1));
  EXPECT_EQ((*made)->src(2)->op, Op::kSource);
  EXPECT_EQ((*made)->src(3)->op, Op::kBinary);
  EXPECT_FALSE((*made)->src(3)->as<std::string>().empty());
  EXPECT_EQ(*do_assemble(g, *made, o), *made);
  // A finished PROGRAM passes through to_program as it is.
  const auto p = to_program(g, *made, o);
  ASSERT_TRUE(p.ok()) << p.error().what;
  EXPECT_EQ(p->source, (*made)->src(2)->as<std::string>());
  EXPECT_EQ(p->code.size(), (*made)->src(3)->as<std::string>().size());
}

bool can_run_x86() {
  return isa::x86::missing_features(*hal::parse_target("cpu")).empty();
}

// Runs a kernel of this path, all arguments seeded, and compares with the interpreter.
void expect_right(Graph& g, N ast, std::vector<KernelStorage> buffers, const std::string& needs) {
  KernelBatch batch;
  const auto k = batch.add(g, ast, x86_options());
  ASSERT_TRUE(k.ok()) << k.error().what;
  const std::string& listing = batch.program(*k).source;
  ASSERT_NE(listing.find(needs), std::string::npos) << listing;
  ASSERT_TRUE(batch.build().ok());
  std::vector<KernelStorage> want = buffers;
  std::vector<KernelStorage*> args, truth;
  for (KernelStorage& s : buffers) args.push_back(&s);
  for (KernelStorage& s : want) truth.push_back(&s);
  const Status ran = batch.run(*k, args);
  ASSERT_TRUE(ran.ok()) << ran.error().what;
  ASSERT_TRUE(testing::run_kernel(g, ast, truth).ok());
  for (size_t i = 0; i < buffers[0].size(); ++i)
    ASSERT_EQ(buffers[0].at(i), want[0].at(i)) << "element " << i;
}

KernelStorage counted(int64_t n) {
  KernelStorage s = KernelStorage::of(DType::kF32, static_cast<size_t>(n));
  for (size_t i = 0; i < s.f.size(); ++i) s.f[i] = static_cast<double>(i % 23) - 11;
  return s;
}

// 32 accumulators of eight lanes where there are 16 registers.
TEST(DoAssemble, SpillsExecute) {
  if (!can_run_x86()) GTEST_SKIP() << "this CPU lacks what the x86 path needs";
  Graph g;
  KernelBuilder b(g);
  constexpr int64_t kSize = 32;
  N i = b.loop(kSize), j = b.loop(kSize), r = b.reduce_loop(kSize);
  N x = b.at(b.param(1, kSize * kSize), b.add(b.times(i, kSize), r));
  N y = b.at(b.param(2, kSize * kSize), b.add(b.times(r, kSize), j));
  ir::KernelInfo info;
  info.opts_to_apply = ir::Opts{{OptOp::kUpcast, 0, 16}, {OptOp::kUpcast, 1, 16}};
  N ast = b.kernel(b.param(0, kSize * kSize), b.add(b.times(i, kSize), j),
                   b.reduce(Op::kAdd, b.mul(x, y), {r}), {i, j}, info);
  constexpr int64_t kAll = kSize * kSize;
  expect_right(g, ast, {KernelStorage::of(DType::kF32, kAll), counted(kAll), counted(kAll)},
               "[rsp");
}

// Four loops inside one another, one of them a reduce, and two side by side.
TEST(DoAssemble, LoopsExecute) {
  if (!can_run_x86()) GTEST_SKIP() << "this CPU lacks what the x86 path needs";
  Graph g;
  KernelBuilder b(g);
  N i = b.loop(3), j = b.loop(5), k = b.loop(7), r = b.reduce_loop(33);
  N row = b.add(b.times(b.add(b.times(i, 5), j), 7), k);
  N read = b.at(b.param(1, 105 * 33), b.add(b.times(row, 33), r));
  N sum = b.reduce(Op::kAdd, read, {r}), top = b.reduce(Op::kMax, b.mul(read, b.f(-1)), {r});
  ir::KernelInfo info;
  info.opts_to_apply = ir::Opts{};
  N swapped = b.add(b.times(b.add(b.times(k, 5), j), 3), i);
  N ast = b.kernel(b.param(0, 105), swapped, b.add(sum, top), {i, j, k}, info);
  expect_right(g, ast, {KernelStorage::of(DType::kF32, 105), counted(105 * 33)}, " jl .");
}

// Guard bytes around the buffers change where an ungated store would write.
TEST(DoAssemble, AGatedStoreIsAlwaysGuarded) {
  if (!can_run_x86()) GTEST_SKIP() << "this CPU lacks what the x86 path needs";
  Graph g;
  KernelBuilder b(g);
  expect_right(g, gated(b), {KernelStorage::of(DType::kF32, 14), counted(64)}, "ret");
}

}  // namespace
}  // namespace modeld::codegen
