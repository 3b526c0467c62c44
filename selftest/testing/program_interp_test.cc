// The interpreter of lowered programs must find what it exists for: each defect of lowering below
// is made on purpose.
#include "selftest/testing/program_interp.h"

#include <gtest/gtest.h>

#include <cstring>

#include "runtime/codegen/linearize.h"
#include "runtime/codegen/lower.h"
#include "runtime/codegen/program_info.h"

#include "selftest/testing/gpu_kernels.h"

namespace modeld::testing {
namespace {

using codegen::CodegenOptions;
using ir::Op;
using ir::OptOp;
using N = const ir::Node*;

// What is left out of lowering.
struct Defect {
  const char* pass = "";
  bool (*drop)(N) = nullptr;  // nodes that go after lowering, their first source in their place
};

N without(ir::Graph& g, N root, bool (*drop)(N)) {
  std::map<N, N> done;
  for (N n : ir::toposort(root)) {
    ir::NodeVec src;
    for (N s : n->src()) src.push_back(done.at(s));
    done[n] = drop(n) ? src[0] : g.with_src(n, src);
  }
  return done.at(root);
}

Status run_with(ir::Graph& g, N ast, const Defect& defect, std::vector<KernelStorage> args) {
  const CodegenOptions o = codegen::gpu_options(*hal::parse_target("cl"));
  N at = ast;
  for (N n : ir::toposort(ast)) {
    if (n->op == Op::kRange) g.reserve_fresh(n->as<ir::RangeArg>().id);
  }
  g.reserve_fresh(1000);
  for (const codegen::KernelPass& p : codegen::kernel_passes()) {
    if (std::strcmp(p.name, defect.pass) != 0) at = p.fn(g, at, o);
    RETURN_IF_ERROR(g.status());
  }
  if (defect.drop != nullptr) at = without(g, at, defect.drop);
  const ir::NodeVec linear = codegen::linearize(g, at);
  std::vector<KernelStorage*> pointers;
  for (KernelStorage& s : args) pointers.push_back(&s);
  return run_program(g, linear, codegen::program_info(g, at, "k"), pointers);
}

std::vector<KernelStorage> floats(std::initializer_list<size_t> sizes) {
  std::vector<KernelStorage> out;
  for (size_t n : sizes) out.push_back(KernelStorage::of(ir::DType::kF32, n));
  return out;
}

std::string error(const Status& s) {
  return s.ok() ? "" : s.error().what;
}

Status grouped_sum(const Defect& defect) {
  ir::Graph g;
  KernelBuilder b(g);
  return run_with(g, row_reduce(b, 4, 64, {{OptOp::kGroup, 0, 8}}), defect, floats({4, 256}));
}

TEST(ProgramInterp, CorrectProgramsRun) {
  EXPECT_EQ(error(grouped_sum({})), "");
}

TEST(ProgramInterp, FindsALostRawBarrier) {
  EXPECT_NE(error(grouped_sum({"implicit_barriers", nullptr})).find("before it is written"),
            std::string::npos)
      << "the first item runs ahead of the others";
}

TEST(ProgramInterp, FindsALostWarBarrier) {
  ir::Graph g;
  KernelBuilder b(g);
  N ast = sums_in_loops(b, 64, {{OptOp::kGroup, 0, 8}, {OptOp::kGroup, 1, 8}});
  const auto is_war = [](N n) { return n->op == Op::kBarrier && n->nsrc > 1; };
  const std::string found = error(run_with(g, ast, {"", is_war}, floats({3, 5, 3 * 64, 5 * 64})));
  EXPECT_NE(found.find("without a barrier between"), std::string::npos) << found;
  ir::Graph h;
  KernelBuilder c(h);
  N sound = sums_in_loops(c, 64, {{OptOp::kGroup, 0, 8}, {OptOp::kGroup, 1, 8}});
  EXPECT_EQ(error(run_with(h, sound, {}, floats({3, 5, 3 * 64, 5 * 64}))), "");
}

TEST(ProgramInterp, FindsAStoreThatEveryItemDoes) {
  const auto is_gate = [](N n) {
    return n->op == Op::kStore && n->nsrc == 3;  // becomes its address: no store at all
  };
  ir::Graph g;
  KernelBuilder b(g);
  const CodegenOptions o = codegen::gpu_options(*hal::parse_target("cl"));
  N ast = row_reduce(b, 4, 64, {{OptOp::kGroup, 0, 8}});
  auto sink = codegen::full_rewrite_to_sink(g, ast, o, true);
  ASSERT_TRUE(sink.ok()) << sink.error().what;
  // The gate of the one global store is dropped.
  std::map<N, N> done;
  for (N n : ir::toposort(*sink)) {
    ir::NodeVec src;
    for (N s : n->src()) src.push_back(done.at(s));
    if (is_gate(n)) src.pop_back();
    done[n] = g.with_src(n, src);
  }
  N at = done.at(*sink);
  std::vector<KernelStorage> args = floats({4, 256});
  std::vector<KernelStorage*> pointers{&args[0], &args[1]};
  const std::string found =
      error(run_program(g, codegen::linearize(g, at), codegen::program_info(g, at, "k"), pointers));
  EXPECT_NE(found.find("write one element"), std::string::npos) << found;
}

TEST(ProgramInterp, FindsBarriersThatNotEveryItemReaches) {
  ir::Graph g;
  KernelBuilder b(g);
  // A loop as long as the item's number: items leave it at different times.
  N item = g.make(Op::kSpecial, ir::DType::kI32, {g.make(Op::kCast, ir::DType::kI32, {b.i(4)})},
                  std::string("lidx0"));
  N one = g.make(Op::kCast, ir::DType::kI32, {b.i(1)});
  N bound = g.make(Op::kAdd, ir::DType::kI32, {item, one});
  N loop = g.make(Op::kRange, ir::DType::kI32, {bound}, ir::RangeArg{7, ir::AxisType::kReduce});
  N wait = g.make(Op::kBarrier, ir::DType::kVoid, {loop});
  N end = g.make(Op::kEnd, ir::DType::kVoid, {wait, loop});
  const ir::NodeVec linear = ir::toposort(ir::sink(g, ir::NodeVec{end}));
  ir::ProgramInfo info;
  info.local_size[0] = 4;
  EXPECT_EQ(error(run_program(g, linear, info, {})),
            "program_interp: not every item reaches the same barrier");
}

TEST(ProgramInterp, FindsAnIndexOutsideOfItsBuffer) {
  EXPECT_EQ(error(grouped_sum({})), "");
  ir::Graph g;
  KernelBuilder b(g);
  N ast = row_reduce(b, 4, 64, {{OptOp::kGroup, 0, 8}});
  const std::string found = error(run_with(g, ast, {}, floats({4, 255})));
  EXPECT_NE(found.find("of 255"), std::string::npos) << found;
}

}  // namespace
}  // namespace modeld::testing
