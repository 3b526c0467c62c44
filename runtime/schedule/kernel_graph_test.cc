// From a prepared tensor graph to kernels, on graphs made by hand: what run_rangeify stages, what
// get_kernel_graph leaves of it, how split_store cuts. The decisions alone are in decide_test.cc
// and remove_bufferize_test.cc; whole models and values in selftest/schedule.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/ir/derived.h"
#include "runtime/ir/graph.h"
#include "runtime/ir/print.h"
#include "runtime/ir/rewrite.h"
#include "runtime/ir/spec.h"
#include "runtime/schedule/create_schedule.h"
#include "runtime/schedule/expr_util.h"
#include "runtime/schedule/get_kernel_graph.h"
#include "runtime/schedule/run_rangeify.h"
#include "runtime/schedule/split_store.h"

namespace modeld::schedule {
namespace {

using ir::AxisType;
using ir::DType;
using ir::Fault;
using ir::Graph;
using ir::Ints;
using ir::Node;
using ir::NodeVec;
using ir::Op;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class KernelGraph : public ::testing::Test {
 protected:
  KernelGraph() { g.reserve_fresh(1000); }  // above the slots and loops the tests name
  const Node* flat(int64_t slot, int64_t n, DType t = DType::kF32) {
    return ir::buffer(g, slot, t, n, ir::AddrSpace::kGlobal, "CPU");
  }
  const Node* reshape(const Node* x, const Ints& d) {
    return g.make(Op::kReshape, x->dtype, {x, ir::shape_node(g, d)});
  }
  const Node* matrix(int64_t slot, int64_t rows, int64_t columns) {
    return reshape(flat(slot, rows * columns), {rows, columns});
  }
  const Node* permute(const Node* x, Ints order) {
    return g.make(Op::kPermute, x->dtype, {x}, std::move(order));
  }
  const Node* window(Op op, const Node* x, const Ints& at, const Ints& size) {
    return g.make(op, x->dtype, {x, ir::shape_node(g, at), ir::shape_node(g, size)});
  }
  const Node* expand(const Node* x, const Ints& added) {
    return g.make(Op::kExpand, x->dtype, {x, ir::shape_node(g, added)});
  }
  const Node* reduce(const Node* x, int64_t axes, Op op = Op::kAdd) {
    return g.make(Op::kReduce, x->dtype, {x}, ir::ReduceArg{op, axes});
  }
  const Node* contiguous(const Node* x, ir::Arg arg = {}) {
    return g.make(Op::kContiguous, x->dtype, {x}, std::move(arg));
  }
  const Node* exp2(const Node* x) { return g.make(Op::kExp2, x->dtype, {x}); }
  const Node* assign(const Node* state, const Node* target, const Node* value) {
    return g.make(Op::kAfter, state->dtype,
                  {state, g.make(Op::kStore, DType::kVoid, {target, value})});
  }
  // AFTER(out, STORE(out, value)) on a fresh buffer of the value's shape.
  const Node* written(const Node* value) {
    const Node* out = flat(next_out_++, ir::element_count(g, value), ir::strong(value->dtype));
    const Ints dims = ir::max_shape(g, value);
    return assign(out, dims == Ints{ir::element_count(g, out)} ? out : reshape(out, dims), value);
  }
  // The SINK after run_rangeify.
  const Node* ranged(const NodeVec& effects) {
    const auto r = run_rangeify(g, ir::sink(g, effects));
    EXPECT_TRUE(r.ok()) << r.error().what;
    return r.ok() ? *r : ir::sink(g, NodeVec{});
  }
  // The value a lone effect stores, after run_rangeify.
  const Node* stored(const Node* value) {
    const Node* effect = ranged({written(value)})->src(0)->src(1);
    return (effect->op == Op::kEnd ? effect->src(0) : effect)->src(1);
  }
  static NodeVec all(const Node* root, Op op) {
    NodeVec found;
    for (const Node* n : ir::toposort(root)) {
      if (n->op == op) found.push_back(n);
    }
    return found;
  }
  // The kernels of a graph, in order.
  Result<NodeVec> calls(const NodeVec& effects, const ScheduleOptions& options = {}) {
    ASSIGN_OR_RETURN(const Node* graph, get_kernel_graph(g, ir::sink(g, effects), options));
    ASSIGN_OR_RETURN(const Node* linear, create_schedule(g, graph));
    return NodeVec(linear->src().begin(), linear->src().end());
  }
  size_t kernels(const NodeVec& effects, const ScheduleOptions& options = {}) {
    const auto r = calls(effects, options);
    EXPECT_TRUE(r.ok()) << r.error().what;
    return r.ok() ? r->size() : 0;
  }

  Graph g;
  int64_t next_out_ = 100;
};

// ---- run_rangeify ----

class RunRangeify : public KernelGraph {
 protected:
  // Where the lone read of the value happens; loops of the store are r0, r1, ...
  std::string place(const Node* value) {
    const Node* end = ranged({written(exp2(value))})->src(0)->src(1);
    ir::NodeMap names;
    for (size_t i = 1; i < end->nsrc; i++) {
      names[end->src(i)] =
          ir::range(g, ir::vmax(g, end->src(i)) + 1, static_cast<int64_t>(i) - 1, AxisType::kWeak);
    }
    for (const Node* n : all(end->src(0)->src(1), Op::kIndex)) {
      return ir::expr(ir::substitute(g, n->src(1), names));
    }
    return "nothing read";
  }
};

TEST_F(RunRangeify, EveryMovementOpBecomesIndexMath) {
  const Node* m = matrix(1, 4, 6);
  EXPECT_EQ(place(m), "((r0*6)+r1)");
  EXPECT_EQ(place(permute(m, {1, 0})), "((r1*6)+r0)");
  EXPECT_EQ(place(g.make(Op::kFlip, DType::kF32, {m}, Ints{1, 0})), "(((r0*-6)+r1)+18)");
  EXPECT_EQ(place(window(Op::kShrink, m, {1, 2}, {2, 3})), "(((r0*6)+r1)+8)");
  EXPECT_EQ(place(reshape(m, {24})), "r0");
  EXPECT_EQ(place(expand(m, {5})), "((r1*6)+r2)");
}

TEST_F(RunRangeify, APadIsAGateOnTheReadAndAZeroAroundIt) {
  const Node* value = stored(exp2(window(Op::kPad, flat(1, 4), {1}, {6})));
  const Node* where = value->src(0);
  ASSERT_EQ(where->op, Op::kWhere);
  EXPECT_EQ(ir::num_value(where->src(2)), 0.0);
  EXPECT_EQ(index_access(g, where->src(1)).valid, where->src(0));
}

TEST_F(RunRangeify, AStackChoosesByItsLeadingLoop) {
  const Node* stack = g.make(Op::kStack, DType::kF32, {flat(1, 4), flat(2, 4), flat(3, 4)});
  const Node* value = stored(stack);
  EXPECT_EQ(all(value, Op::kWhere).size(), 2U);
  EXPECT_EQ(all(value, Op::kIndex).size(), 3U);
  EXPECT_TRUE(all(value, Op::kStage).empty());
}

TEST_F(RunRangeify, AReduceHoldsItsOwnLoops) {
  const Node* value = stored(reduce(matrix(1, 4, 6), 1));
  ASSERT_EQ(value->op, Op::kReduce);
  EXPECT_EQ(value->as<ir::ReduceArg>().axes, 0);
  ASSERT_EQ(value->nsrc, 2U);
  EXPECT_EQ(value->src(1)->as<ir::RangeArg>().type, AxisType::kReduce);
  EXPECT_EQ(ir::vmax(g, value->src(1)), 3);
}

TEST_F(RunRangeify, IndicesAreReadThroughMovementOps) {
  // Rows of a transposed matrix: columns of the storage.
  const Node* rows = flat(2, 3, DType::kI32);
  const Node* picked = g.make(Op::kIndex, DType::kF32, {permute(matrix(1, 4, 6), {1, 0}), rows});
  const Node* value = stored(exp2(picked));
  EXPECT_EQ(value->src(0)->src(0), flat(1, 24));
  EXPECT_EQ(all(value, Op::kIndex).size(), 2U);
}

TEST_F(RunRangeify, UsersOfTheSamePlacesShareTheValue) {
  const Node* e = exp2(matrix(1, 4, 4));
  EXPECT_TRUE(all(ranged({written(ir::add(g, e, ir::mul(g, e, e)))}), Op::kStage).empty());
}

TEST_F(RunRangeify, UsersOfDifferentPlacesGetItStaged) {
  const Node* e = exp2(matrix(1, 4, 4));
  const NodeVec stages = all(ranged({written(ir::add(g, e, permute(e, {1, 0})))}), Op::kStage);
  ASSERT_EQ(stages.size(), 1U);
  EXPECT_EQ(stages[0]->nsrc, 3U);
  EXPECT_TRUE(stages[0]->as<ir::StageArg>().removable);
}

TEST_F(RunRangeify, MasksOfSeveralUsersAreJoined) {
  // Both pads ask for the same places, under other masks: the value is needed under either.
  const Node* e = exp2(flat(1, 4));
  const Node* all_of_it = window(Op::kPad, e, {0}, {6});
  const Node* some = window(Op::kPad, window(Op::kShrink, e, {0}, {3}), {0}, {6});
  const Node* sink = ranged({written(ir::add(g, all_of_it, some))});
  EXPECT_TRUE(all(sink, Op::kStage).empty());
  const Node* value = sink->src(0)->src(1)->src(0)->src(1);
  const NodeVec reads = all(value, Op::kIndex);
  ASSERT_EQ(reads.size(), 1U);
  const Node* valid = index_access(g, reads[0]).valid;
  ASSERT_NE(valid, nullptr);
  EXPECT_EQ(valid->op, Op::kOr);
}

TEST_F(RunRangeify, AReduceIsNeverRepeatedByABroadcast) {
  const Node* m = matrix(1, 4, 6);
  const Node* sum = reshape(reduce(permute(m, {1, 0}), 1), {4, 1});
  for (const Node* graph : {ir::add(g, m, sum), ir::add(g, m, exp2(sum)),
                            ir::add(g, permute(expand(reduce(m, 2), {4}), {0}), flat(9, 4))}) {
    const Node* sink = ranged({written(graph)});
    // Every REDUCE stands in a STAGE of its own axes, none in the broadcasting store itself.
    for (const Node* n : all(sink, Op::kReduce)) {
      bool staged = false;
      for (const Node* s : all(sink, Op::kStage)) {
        const NodeVec inside = expression_nodes(s->src(0));
        staged = staged || std::find(inside.begin(), inside.end(), n) != inside.end();
      }
      EXPECT_TRUE(staged) << ir::expr(sink->src(0)->src(1));
    }
  }
}

TEST_F(RunRangeify, AnElementwiseProducerOfABroadcastIsStagedForTheCleanUpToJudge) {
  const Node* e = exp2(flat(1, 4));
  EXPECT_EQ(all(ranged({written(ir::add(g, matrix(2, 4, 4), expand(e, {4})))}), Op::kStage).size(),
            1U);
}

TEST_F(RunRangeify, EveryStageIsWholeAndGlobal) {
  const Node* m = matrix(1, 4, 6);
  const Node* e = exp2(m);
  const Node* sum = reshape(reduce(permute(e, {1, 0}), 1), {4, 1});
  const Node* graph = ir::add(g, ir::add(g, e, sum), reshape(permute(e, {1, 0}), {4, 6}));
  const NodeVec stages = all(ranged({written(contiguous(graph))}), Op::kStage);
  EXPECT_GE(stages.size(), 3U);
  for (const Node* s : stages) {
    // No loop of a user stays open in what is stored once for all of them.
    EXPECT_THAT(ir::ranges(g, s), ElementsAre()) << ir::expr(s);
    EXPECT_EQ(s->as<ir::StageArg>().addrspace, ir::AddrSpace::kGlobal);
    EXPECT_EQ(s->as<ir::StageArg>().device, "CPU");
  }
}

TEST_F(RunRangeify, WhatTheUserWantsInMemoryMayNotBeRemoved) {
  const NodeVec stages = all(ranged({written(exp2(contiguous(exp2(flat(1, 4)))))}), Op::kStage);
  ASSERT_EQ(stages.size(), 1U);
  EXPECT_FALSE(stages[0]->as<ir::StageArg>().removable);
}

TEST_F(RunRangeify, ArgumentsOfACustomKernelGetMemory) {
  const Node* out = flat(50, 4);
  const Node* body = ir::sink(g, NodeVec{}, ir::KernelInfo{});
  const Node* call = g.make(Op::kCall, DType::kVoid, {body, out, exp2(flat(1, 4)), flat(2, 4)});
  const Node* sink = ranged({g.make(Op::kAfter, DType::kF32, {out, call})});
  const Node* ranged_call = sink->src(0)->src(1);
  ASSERT_EQ(ranged_call->op, Op::kCall);
  EXPECT_EQ(ranged_call->src(1), out);
  ASSERT_EQ(ranged_call->src(2)->op, Op::kStage);
  EXPECT_FALSE(ranged_call->src(2)->as<ir::StageArg>().removable);
  EXPECT_EQ(ranged_call->src(3), flat(2, 4));
}

TEST_F(RunRangeify, APaddedViewIsNoPlaceToStore) {
  const Node* out = flat(50, 4);
  const Node* target = window(Op::kPad, out, {1}, {6});
  const auto r = run_rangeify(g, ir::sink(g, NodeVec{assign(out, target, flat(1, 6))}));
  ASSERT_FALSE(r.ok());
  EXPECT_THAT(r.error().what, HasSubstr("padded view"));
}

// ---- get_kernel_graph ----

using GetKernelGraph = KernelGraph;

TEST_F(GetKernelGraph, ResultIsAGraphOfStatesAndKernels) {
  const Node* m = matrix(1, 4, 6);
  const Node* sum = reshape(reduce(permute(m, {1, 0}), 1), {4, 1});
  const auto graph = get_kernel_graph(g, ir::sink(g, NodeVec{written(ir::add(g, m, sum))}));
  ASSERT_TRUE(graph.ok()) << graph.error().what;
  EXPECT_TRUE(ir::verify_kernel_graph(g, *graph).ok());
  const NodeVec kernels = all(*graph, Op::kCall);
  ASSERT_EQ(kernels.size(), 2U);
  for (const Node* k : kernels) EXPECT_TRUE(ir::verify_kernel(g, k->src(0)).ok());
}

TEST_F(GetKernelGraph, APairOfStatesOfOneBufferInAKernelIsRefused) {
  const Node* a = flat(1, 4);
  const Node* a1 = assign(a, a, flat(2, 4));
  const auto r = calls({written(ir::add(g, a1, ir::mul(g, a, a)))});
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().code, Errc::kCycle);
  EXPECT_EQ(ir::fault_of(r.error()), Fault::kIndexCycle);
  EXPECT_THAT(r.error().what, HasSubstr("cycle detected while indexing: the kernel writing buffer "
                                        "100 reads buffer 1 before and after it is written"));
}

TEST_F(GetKernelGraph, TheSamePairThroughMemoryIsLegal) {
  const Node* a = flat(1, 4);
  const Node* a1 = assign(a, a, flat(2, 4));
  EXPECT_EQ(kernels({written(ir::add(g, a1, contiguous(ir::mul(g, a, a))))}), 3U);
}

TEST_F(GetKernelGraph, UpdatesThatMoveElementsAreStaged) {
  const Node* x = flat(1, 16);
  const Node* m = reshape(x, {4, 4});
  const auto one_more = [this](const Node* v) {
    return ir::add(g, v, ir::const_float(g, 1, DType::kF32));
  };
  EXPECT_EQ(kernels({assign(x, m, one_more(m))}), 1U);
  EXPECT_EQ(kernels({assign(x, m, one_more(permute(m, {1, 0})))}), 2U);
  EXPECT_EQ(kernels({assign(x, m, one_more(g.make(Op::kFlip, DType::kF32, {m}, Ints{0, 1})))}), 2U);
  const Node *high = window(Op::kShrink, x, {4}, {4}), *low = window(Op::kShrink, x, {0}, {4});
  EXPECT_EQ(kernels({assign(x, high, low)}), 2U);
  EXPECT_EQ(kernels({assign(x, high, one_more(high))}), 1U);
}

TEST_F(GetKernelGraph, BufferLimitCutsSums) {
  const auto limited = [this](int64_t inputs, int64_t max) {
    const Node* sum = flat(1, 4);
    for (int64_t n = 2; n <= inputs; n++) sum = ir::add(g, sum, flat(n, 4));
    ScheduleOptions options;
    options.max_kernel_buffers = max;
    std::vector<int> args;
    const auto r = calls({written(sum)}, options);
    EXPECT_TRUE(r.ok());
    for (const Node* c : *r) args.push_back(static_cast<int>(c->nsrc) - 1);
    return args;
  };
  EXPECT_THAT(limited(40, 31), ElementsAre(31, 12));
  EXPECT_THAT(limited(10, 4), ElementsAre(4, 4, 4, 4, 3));
  EXPECT_THAT(limited(7, 8), ElementsAre(8));
  EXPECT_THAT(limited(8, 8), ElementsAre(8, 3));
  EXPECT_THAT(limited(40, 0), ElementsAre(41));
}

TEST_F(GetKernelGraph, BufferLimitHoldsOnEveryDevice) {
  ScheduleOptions options;
  options.max_kernel_buffers = 4;
  const auto on = [this](int64_t slot) {
    return ir::buffer(g, slot, DType::kF32, 4, ir::AddrSpace::kGlobal, "CPU:1");
  };
  const Node* sum = on(1);
  for (int64_t n = 2; n <= 10; n++) sum = ir::add(g, sum, on(n));
  const auto r = calls({assign(on(50), on(50), sum)}, options);
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(r->size(), 5U);
  for (const Node* c : *r) EXPECT_EQ(ir::device(g, c->src(1)), "CPU:1");
}

TEST_F(GetKernelGraph, AxesTheValueDoesNotUseTakeNoMemory) {
  // The same row four times, staged because its REDUCE reads memory.
  const Node* row = reduce(matrix(1, 8, 6), 1);
  const Node* wide = ir::add(g, expand(row, {4}), matrix(2, 4, 6));
  const auto r = calls({written(wide)});
  ASSERT_TRUE(r.ok());
  ASSERT_EQ(r->size(), 2U);
  EXPECT_EQ(ir::element_count(g, (*r)[0]->src(1)), 6);
}

TEST_F(GetKernelGraph, ConstantsAreFoldedIntoTheKernel) {
  const Node* two = ir::const_float(g, 2, DType::kF32);
  const Node* zeros = ir::mul(g, expand(two, {4}), expand(ir::const_float(g, 3, DType::kF32), {4}));
  const auto r = calls({written(contiguous(zeros))});
  ASSERT_TRUE(r.ok());
  const Node* last = r->back();
  EXPECT_EQ(last->nsrc, 2U);
  EXPECT_EQ(r->size(), 1U);
  EXPECT_EQ(all(last->src(0), Op::kMul).size(), 0U);
}

TEST_F(GetKernelGraph, MemoryOfWhatIsInMemoryIsNotCopied) {
  EXPECT_EQ(kernels({written(exp2(contiguous(contiguous(exp2(matrix(1, 4, 4))))))}), 2U);
  // Another order of elements is other memory.
  EXPECT_EQ(
      kernels({written(exp2(contiguous(permute(contiguous(exp2(matrix(1, 4, 4))), {1, 0}))))}), 3U);
}

TEST_F(GetKernelGraph, StoresOfNoValueAreNoKernels) {
  const Node* a = flat(1, 4);
  const Node* none = expand(ir::const_invalid(g, DType::kF32), {4});
  const Node* a1 = assign(a, a, none);
  EXPECT_EQ(kernels({a1}), 0U);
  // Written afterwards it is a buffer like any other; read before, what is computed is no value.
  EXPECT_EQ(kernels({assign(a1, a1, flat(2, 4))}), 1U);
  EXPECT_EQ(kernels({written(exp2(a1))}), 0U);
}

TEST_F(GetKernelGraph, ALoopLeftOverIsASchedulerBug) {
  const Node* out = flat(1, 4);
  const Node* loop = ir::range(g, 4, 0, AxisType::kWeak);
  const Node* call =
      g.make(Op::kCall, DType::kVoid, {ir::sink(g, NodeVec{}, ir::KernelInfo{}), out});
  const Node* end = g.make(Op::kEnd, DType::kVoid, {call, loop});
  const Status s =
      ir::verify_kernel_graph(g, ir::sink(g, NodeVec{g.make(Op::kAfter, DType::kF32, {out, end})}));
  ASSERT_FALSE(s.ok());
  EXPECT_EQ(ir::fault_of(s.error()), Fault::kOpenRange);
}

// ---- split_store ----

class SplitStore : public KernelGraph {
 protected:
  const Node* read(const Node* state, const Node* at) {
    return index_node(g, state, {at}, nullptr);
  }
  const Node* effect(const Node* to, const Node* at, const Node* value, NodeVec loops) {
    NodeVec src{g.make(Op::kStore, DType::kVoid, {read(to, at), value})};
    src.insert(src.end(), loops.begin(), loops.end());
    return loops.empty() ? src[0] : g.make(Op::kEnd, DType::kVoid, src);
  }
  const Node* split(const NodeVec& effects) {
    const auto r = split_store(g, ir::sink(g, effects));
    EXPECT_TRUE(r.ok()) << r.error().what;
    return r.ok() ? *r : ir::sink(g, NodeVec{});
  }
  const Node* loop(int64_t n, int64_t id, AxisType type = AxisType::kWeak) {
    return ir::range(g, n, id, type);
  }
  const Node* state(const Node* buffer, const Node* item) {
    return g.make(Op::kAfter, buffer->dtype, {buffer, item});
  }
};

TEST_F(SplitStore, TheDestinationIsArgumentZeroThenFirstVisitCounts) {
  const Node *out = flat(9, 4), *a = flat(5, 4), *b = flat(2, 4), *i = loop(4, 7);
  const Node* value = ir::add(g, ir::mul(g, read(a, i), read(b, i)), read(a, i));
  const Node* call = split({state(out, effect(out, i, value, {i}))})->src(0)->src(1);
  ASSERT_EQ(call->op, Op::kCall);
  ASSERT_TRUE(call->src(0)->has<ir::KernelInfo>());
  const NodeVec params = all(call->src(0), Op::kParam);
  ASSERT_EQ(call->nsrc, 4U);
  EXPECT_EQ(call->src(1), out);
  const Node* store = call->src(0)->src(0)->src(0);
  EXPECT_EQ(store->src(0)->src(0)->as<ir::ParamArg>().slot, 0);
  // PARAM k is argument k.
  for (const Node* p : params) {
    const auto slot = static_cast<size_t>(p->as<ir::ParamArg>().slot);
    EXPECT_EQ(ir::element_count(g, p), ir::element_count(g, call->src(slot + 1)));
  }
  EXPECT_EQ(call->src(0)->src(0)->src(1), loop(4, 0));
}

TEST_F(SplitStore, EqualKernelsAreOneNode) {
  const auto call = [this](int64_t slot, int64_t id) {
    const Node *out = flat(slot, 4), *in = flat(slot + 1, 4), *i = loop(4, id);
    const Node* r = loop(8, id + 1, AxisType::kReduce);
    const Node* sum = g.make(Op::kReduce, DType::kF32, {ir::mul(g, read(in, i), read(in, i)), r},
                             ir::ReduceArg{Op::kAdd, 0});
    return split({state(out, effect(out, i, sum, {i}))})->src(0)->src(1);
  };
  const Node *first = call(10, 30), *second = call(20, 3);
  EXPECT_EQ(first->src(0), second->src(0));
  EXPECT_NE(first, second);
}

TEST_F(SplitStore, OptionsOfTheUserTravelWithTheKernel) {
  const ir::Opts opts{{ir::OptOp::kUpcast, 0, 4}, {ir::OptOp::kUnroll, 0, 2}};
  const auto r = calls({written(contiguous(exp2(flat(1, 8)), opts))});
  ASSERT_TRUE(r.ok());
  ASSERT_EQ(r->size(), 1U);
  EXPECT_EQ((*r)[0]->src(0)->as<ir::KernelInfo>().opts_to_apply, opts);
  EXPECT_TRUE(all((*r)[0]->src(0), Op::kContiguous).empty());
  // Without any nothing is set: an empty list would mean "none".
  const auto plain = calls({written(exp2(flat(1, 8)))});
  ASSERT_TRUE(plain.ok());
  EXPECT_FALSE((*plain)[0]->src(0)->as<ir::KernelInfo>().opts_to_apply.has_value());
}

TEST_F(SplitStore, StatesBecomeArgumentsTheirWritersStayOutside) {
  const Node *a = flat(1, 4), *b = flat(2, 4), *out = flat(3, 4), *i = loop(4, 0);
  const Node* a1 = state(a, effect(a, i, read(b, i), {i}));
  const Node* sink = split({state(out, effect(out, i, read(a1, i), {i}))});
  const Node* call = sink->src(0)->src(1);
  ASSERT_EQ(call->nsrc, 3U);
  ASSERT_EQ(call->src(2)->op, Op::kAfter);
  EXPECT_EQ(call->src(2)->src(1)->op, Op::kCall);
  EXPECT_TRUE(all(call->src(0), Op::kAfter).empty());
}

TEST_F(SplitStore, AStoreWithAnOpenLoopIsNotCutButReported) {
  const Node *out = flat(3, 4), *i = loop(4, 0);
  const Node* open = effect(out, i, ir::const_float(g, 1, DType::kF32), {});
  const Node* sink = split({state(out, open)});
  EXPECT_EQ(sink->src(0)->src(1)->op, Op::kStore);
  const Status s = ir::verify_kernel_graph(g, sink);
  ASSERT_FALSE(s.ok());
  EXPECT_EQ(ir::fault_of(s.error()), Fault::kOpenRange);
}

TEST_F(SplitStore, ALoopOverDevicesMayStayOpen) {
  const Node *out = flat(3, 8), *i = loop(4, 0), *d = loop(2, 1, AxisType::kDevice);
  const Node* at = ir::add(g, ir::mul_const(g, d, 4), i);
  const Node* call =
      split({state(out, effect(out, at, ir::const_float(g, 1, DType::kF32), {i}))})->src(0)->src(1);
  ASSERT_EQ(call->op, Op::kCall);
  EXPECT_THAT(ir::expr(call->src(0)), HasSubstr("_device_num"));
}

TEST_F(SplitStore, VariablesKeepTheirNameAndAreNoArguments) {
  const Node *out = flat(3, 4), *i = loop(4, 0);
  const Node* n = ir::variable(g, "n", 0, 9);
  ir::ParamArg numbered = n->as<ir::ParamArg>();
  numbered.slot = 5;
  const Node* value = ir::cast(g, g.with_arg(n, numbered), DType::kF32);
  const Node* call = split({state(out, effect(out, i, value, {i}))})->src(0)->src(1);
  EXPECT_EQ(call->nsrc, 2U);
  const NodeVec params = all(call->src(0), Op::kParam);
  ASSERT_EQ(params.size(), 2U);
  EXPECT_NE(std::find(params.begin(), params.end(), n), params.end());
}

TEST_F(SplitStore, TheValueOfABoundVariableIsNoKernel) {
  const Node* n = ir::variable(g, "n", 0, 9);
  const Node* store = g.make(Op::kStore, DType::kVoid, {n, ir::const_int(g, 3, DType::kI32)});
  const Node* bound = g.make(Op::kAfter, DType::kI32, {n, store});
  EXPECT_EQ(split({bound})->src(0), bound);
  EXPECT_TRUE(ir::verify_kernel_graph(g, ir::sink(g, NodeVec{bound})).ok());
}

TEST_F(SplitStore, GroupsOfStoresAreAKernelEach) {
  const Node* out = flat(3, 8);
  const Node* low =
      g.make(Op::kStore, DType::kVoid, {window(Op::kShrink, out, {0}, {4}), flat(1, 4)});
  const Node* high =
      g.make(Op::kStore, DType::kVoid, {window(Op::kShrink, out, {4}, {4}), exp2(flat(2, 4))});
  const Node* both = g.make(Op::kGroup, DType::kVoid, {low, high});
  EXPECT_EQ(kernels({g.make(Op::kAfter, DType::kF32, {out, both})}), 2U);
}

}  // namespace
}  // namespace modeld::schedule
