#include "runtime/schedule/prepare_rangeify.h"

#include <gtest/gtest.h>

#include <limits>

#include "runtime/ir/derived.h"
#include "runtime/ir/graph.h"
#include "runtime/schedule/fix_store_hazard.h"
#include "runtime/schedule/resolve_function.h"
#include "runtime/schedule/split_reduceop.h"

namespace modeld::schedule {
namespace {

using ir::DType;
using ir::Graph;
using ir::Ints;
using ir::Node;
using ir::NodeVec;
using ir::Op;

class PrepareRangeify : public ::testing::Test {
 protected:
  const Node* buffer(int64_t slot, int64_t n, const std::string& device = "CPU") {
    return ir::buffer(g, slot, DType::kF32, n, ir::AddrSpace::kGlobal, device);
  }
  const Node* reshape(const Node* x, Ints d) {
    return g.make(Op::kReshape, x->dtype, {x, ir::shape_node(g, d)});
  }
  const Node* permute(const Node* x, Ints p) { return g.make(Op::kPermute, x->dtype, {x}, p); }
  const Node* shrink(const Node* x, Ints at, Ints size) {
    return g.make(Op::kShrink, x->dtype, {x, ir::shape_node(g, at), ir::shape_node(g, size)});
  }
  const Node* assign(const Node* buffer_node, const Node* target, const Node* value) {
    const Node* store = g.make(Op::kStore, DType::kVoid, {target, value});
    return g.make(Op::kAfter, buffer_node->dtype, {buffer_node, store});
  }
  // The value stored by the only effect after preparing AFTER(out, STORE(out, value)).
  const Node* prepared(const Node* value) {
    const Node* out = buffer(90, ir::element_count(g, value));
    const Node* target = reshape(out, ir::max_shape(g, value));
    const auto result = prepare_rangeify(g, ir::sink(g, NodeVec{assign(out, target, value)}));
    EXPECT_TRUE(result.ok()) << result.error().what;
    return result.ok() ? (*result)->src(0)->src(1)->src(1) : value;
  }
  const Node* one_more(const Node* x) { return ir::add(g, x, ir::const_float(g, 1, DType::kF32)); }

  Graph g;
};

TEST_F(PrepareRangeify, MovementOpsMergeAndNoopsVanish) {
  const Node* x = buffer(1, 24);
  EXPECT_EQ(prepared(one_more(reshape(reshape(x, {4, 6}), {2, 12}))),
            one_more(reshape(x, {2, 12})));
  const Node* m = reshape(x, {4, 6});
  EXPECT_EQ(prepared(one_more(permute(permute(m, {1, 0}), {1, 0}))), one_more(m));
  EXPECT_EQ(prepared(one_more(shrink(m, {0, 0}, {4, 6}))), one_more(m));
  EXPECT_EQ(prepared(one_more(g.make(Op::kFlip, DType::kF32, {m}, Ints{0, 0}))), one_more(m));
}

TEST_F(PrepareRangeify, StatesMoveBelowViews) {
  const Node* x = buffer(1, 24);
  const Node* view = reshape(x, {4, 6});
  const Node* written = assign(view, view, reshape(buffer(2, 24), {4, 6}));
  const Node* value = prepared(one_more(written));
  ASSERT_EQ(value->src(0)->op, Op::kReshape);
  EXPECT_EQ(value->src(0)->src(0)->op, Op::kAfter);
  EXPECT_EQ(value->src(0)->src(0)->src(0), x);
}

TEST_F(PrepareRangeify, MultiDimensionalParamsBecomeFlat) {
  const Node* p = g.make(Op::kParam, DType::kF32, {ir::shape_node(g, Ints{4, 6})},
                         ir::ParamArg{.slot = 0, .device = "CPU"});
  const Node* value = prepared(one_more(p));
  ASSERT_EQ(value->src(0)->op, Op::kReshape);
  EXPECT_EQ(value->src(0)->src(0), ir::param(g, 0, DType::kF32, 24, "CPU"));
}

TEST_F(PrepareRangeify, ReduceOfNothingIsTheIdentity) {
  const Node* empty = shrink(buffer(1, 8), {0}, {0});
  const auto reduced = [&](Op op) {
    const Node* r = g.make(Op::kReduce, DType::kF32, {empty}, ir::ReduceArg{op, 1});
    return prepared(ir::add(g, reshape(r, {1}), buffer(2, 1)))->src(0);
  };
  EXPECT_EQ(ir::base(reduced(Op::kAdd)), ir::const_float(g, 0, DType::kF32));
  EXPECT_EQ(ir::base(reduced(Op::kMul)), ir::const_float(g, 1, DType::kF32));
  EXPECT_EQ(ir::num_value(ir::base(reduced(Op::kMax))), -std::numeric_limits<double>::infinity());
}

TEST_F(PrepareRangeify, StoreOfNothingVanishes) {
  const Node* out = buffer(90, 8);
  const Node* target = shrink(out, {3}, {0});
  const Node* value = shrink(buffer(1, 8), {0}, {0});
  const auto result = prepare_rangeify(g, ir::sink(g, NodeVec{assign(out, target, value)}));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ((*result)->nsrc, 0U);
}

TEST_F(PrepareRangeify, StoringABuffersOwnContentsVanishes) {
  const Node* x = buffer(1, 8);
  const auto result = prepare_rangeify(g, ir::sink(g, NodeVec{assign(x, x, x)}));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ((*result)->nsrc, 0U);
}

TEST_F(PrepareRangeify, CopyBecomesAStoreOnTheOtherDevice) {
  const Node* x = reshape(buffer(1, 8), {2, 4});
  const Node* value = prepared(one_more(g.make(Op::kCopy, DType::kF32, {x}, std::string("DEV1"))));
  const Node* state = ir::base(value->src(0));
  ASSERT_EQ(state->op, Op::kAfter);
  EXPECT_EQ(state->src(0)->as<ir::ParamArg>().device, "DEV1");
  EXPECT_EQ(state->src(1)->src(1), buffer(1, 8));
}

TEST_F(PrepareRangeify, CopyToTheSameDeviceIsNothing) {
  const Node* x = reshape(buffer(1, 8), {2, 4});
  EXPECT_EQ(prepared(one_more(g.make(Op::kCopy, DType::kF32, {x}, std::string("CPU")))),
            one_more(x));
}

TEST_F(PrepareRangeify, ACopyOfARunOfABufferMovesThatRunAlone) {
  const Node* x = shrink(buffer(1, 8), {2}, {4});
  const Node* value = prepared(one_more(g.make(Op::kCopy, DType::kF32, {x}, std::string("CPU:1"))));
  EXPECT_EQ(ir::base(value->src(0))->src(1)->src(1), x);
  // Rows of a matrix are a run, columns are not.
  const Node* m = reshape(buffer(1, 12), {3, 4});
  const auto source = [&](const Node* part) {
    const Node* copied = g.make(Op::kCopy, DType::kF32, {part}, std::string("CPU:1"));
    return ir::base(prepared(one_more(copied))->src(0))->src(1)->src(1);
  };
  EXPECT_EQ(source(shrink(m, {1, 0}, {2, 4})), shrink(buffer(1, 12), {4}, {8}));
  EXPECT_EQ(ir::base(source(shrink(m, {0, 1}, {3, 2})))->op, Op::kContiguous);
}

TEST_F(PrepareRangeify, ACopyOfSomethingComputedIsComputedFirst) {
  const Node* sum = one_more(buffer(1, 8));
  const Node* value =
      prepared(one_more(g.make(Op::kCopy, DType::kF32, {sum}, std::string("CPU:1"))));
  EXPECT_EQ(ir::base(value->src(0))->src(1)->src(1), g.make(Op::kContiguous, DType::kF32, {sum}));
}

TEST_F(PrepareRangeify, DevicesWithoutSubBuffersCopyAPartComputedFirst) {
  const Node* x = shrink(buffer(1, 8, "CL"), {2}, {4});
  const Node* out = buffer(90, 4, "CPU");
  const Node* copy = g.make(Op::kCopy, DType::kF32, {x}, std::string("CPU"));
  const auto result = prepare_rangeify(g, ir::sink(g, NodeVec{assign(out, out, copy)}));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ((*result)->src(0)->src(1)->src(1)->op, Op::kContiguous);
}

TEST_F(PrepareRangeify, ACopyLandsWhereItIsStored) {
  const Node* out = buffer(90, 16, "CPU:1");
  const auto stored = [&](const Node* target, const Node* x) -> const Node* {
    const Node* copy = g.make(Op::kCopy, DType::kF32, {x}, std::string("CPU:1"));
    const auto r = prepare_rangeify(g, ir::sink(g, NodeVec{assign(out, target, copy)}));
    EXPECT_TRUE(r.ok());
    return r.ok() ? (*r)->src(0)->src(1) : nullptr;
  };
  // Into the whole buffer, and into a part of it.
  const Node* whole = stored(out, buffer(1, 16));
  EXPECT_EQ(whole->src(0), out);
  EXPECT_EQ(whole->src(1), buffer(1, 16));
  const Node* part = stored(shrink(out, {4}, {8}), buffer(2, 8));
  EXPECT_EQ(part->src(0), shrink(out, {4}, {8}));
  EXPECT_EQ(part->src(1), buffer(2, 8));
  // Columns are no run: the copy has a buffer of its own.
  const Node* columns = shrink(reshape(out, {4, 4}), {0, 0}, {4, 2});
  EXPECT_EQ(ir::base(stored(columns, reshape(buffer(2, 8), {4, 2}))->src(1))->op, Op::kAfter);
}

TEST_F(PrepareRangeify, TheSameStoreTwiceIsStoredOnce) {
  const Node* out = buffer(90, 8);
  const Node* view = reshape(out, {2, 4});
  const Node* v = reshape(buffer(1, 8), {2, 4});
  const Node* once = assign(out, view, v);
  const Node* again = assign(once, reshape(once, {2, 4}), v);
  const auto r = prepare_rangeify(g, ir::sink(g, NodeVec{again}));
  ASSERT_TRUE(r.ok());
  EXPECT_EQ((*r)->src(0)->src(0), out);
  // Another value, or another place, is another store.
  const Node* other = assign(once, reshape(once, {2, 4}), one_more(v));
  const auto kept = prepare_rangeify(g, ir::sink(g, NodeVec{other}));
  ASSERT_TRUE(kept.ok());
  EXPECT_EQ((*kept)->src(0)->src(0)->op, Op::kAfter);
  const Node* half = shrink(buffer(1, 8), {0}, {4});
  const Node* low = assign(out, shrink(out, {0}, {4}), half);
  const auto two =
      prepare_rangeify(g, ir::sink(g, NodeVec{assign(low, shrink(low, {4}, {4}), half)}));
  ASSERT_TRUE(two.ok());
  EXPECT_EQ((*two)->src(0)->src(0)->op, Op::kAfter);
}

TEST_F(PrepareRangeify, OnlyTheNewestContentsAreABuffersOwn) {
  const Node* x = buffer(1, 8);
  const Node* x1 = assign(x, x, buffer(2, 8));
  const auto own = prepare_rangeify(g, ir::sink(g, NodeVec{assign(x1, x, x1)}));
  ASSERT_TRUE(own.ok());
  EXPECT_EQ((*own)->src(0)->src(0), x);
}

TEST_F(PrepareRangeify, StoresToVolatileStorageAllCount) {
  ir::ParamArg arg = buffer(7, 8)->as<ir::ParamArg>();
  arg.is_volatile = true;
  const Node* port = g.with_arg(buffer(7, 8), arg);
  const Node* once = assign(port, port, buffer(1, 8));
  const auto r = prepare_rangeify(
      g, ir::sink(g, NodeVec{assign(once, once, buffer(1, 8)), assign(port, port, port)}));
  ASSERT_TRUE(r.ok());
  ASSERT_EQ((*r)->nsrc, 2U);
  EXPECT_EQ((*r)->src(0)->src(0)->op, Op::kAfter);
}

TEST_F(PrepareRangeify, FunctionCallsAreInlinedFirst) {
  const Node* formal =
      g.make(Op::kParam, DType::kF32, {ir::shape_node(g, Ints{2, 4})}, ir::ParamArg{.slot = 0});
  const Node* body = g.make(Op::kTuple, DType::kVoid, {one_more(formal), formal});
  const Node* x = reshape(buffer(1, 8), {2, 4});
  const Node* f = g.make(Op::kFunction, DType::kVoid, {body, x});
  const Node* first = g.make(Op::kGetTuple, DType::kF32, {f}, int64_t{0});
  EXPECT_EQ(prepared(one_more(first)), one_more(one_more(x)));
}

// ---- indices ----

TEST_F(PrepareRangeify, IndexOfIndexIsOneIndex) {
  const Node* x = reshape(buffer(1, 24), {4, 6});
  const auto ints = [&](int64_t slot, int64_t n) {
    return ir::buffer(g, slot, DType::kI32, n, ir::AddrSpace::kGlobal, "CPU");
  };
  const Node *rows = ints(2, 3), *picks = ints(3, 2), *columns = ints(4, 5);
  const Node* inner = g.make(Op::kIndex, DType::kF32, {x, rows});
  // The outer index picks among the rows, then among the columns.
  const Node* both = g.make(Op::kIndex, DType::kF32, {inner, picks, columns});
  const Node* picked = g.make(Op::kIndex, DType::kI32, {rows, picks});
  EXPECT_EQ(prepared(one_more(both)),
            one_more(g.make(Op::kIndex, DType::kF32, {x, picked, columns})));
}

TEST_F(PrepareRangeify, ConstIndexOfAStackIsTheElement) {
  const Node *a = buffer(1, 4), *b = buffer(2, 4);
  const Node* stack = g.make(Op::kStack, DType::kF32, {a, b});
  const auto element = [&](int64_t i) {
    return prepared(one_more(g.make(Op::kIndex, DType::kF32, {stack, ir::const_int(g, i)})));
  };
  EXPECT_EQ(element(0), one_more(a));
  EXPECT_EQ(element(1), one_more(b));
}

// ---- bitcasts ----

TEST_F(PrepareRangeify, AStoreIntoABitcastStoresTheBits) {
  const Node* out = buffer(90, 8);
  const Node* bits = g.make(Op::kBitCast, DType::kI32, {out});
  const Node* v = ir::buffer(g, 1, DType::kI32, 8, ir::AddrSpace::kGlobal, "CPU");
  const auto r = prepare_rangeify(
      g,
      ir::sink(g, NodeVec{g.make(Op::kAfter, DType::kI32,
                                 {bits, g.make(Op::kStore, DType::kVoid,
                                               {shrink(bits, {2}, {4}), shrink(v, {0}, {4})})})}));
  ASSERT_TRUE(r.ok()) << r.error().what;
  ASSERT_EQ((*r)->nsrc, 1U);
  const Node* store = (*r)->src(0)->src(1);
  EXPECT_EQ((*r)->src(0)->src(0), out);
  EXPECT_EQ(store->src(0), shrink(out, {2}, {4}));
  EXPECT_EQ(store->src(1), g.make(Op::kBitCast, DType::kF32, {shrink(v, {0}, {4})}));
}

TEST_F(PrepareRangeify, BitcastsBetweenItemSizesBecomeShifts) {
  const auto resized = [&](DType from, DType to, int64_t n) {
    const Node* x = ir::buffer(g, 1, from, n, ir::AddrSpace::kGlobal, "CPU");
    const Node* cast = g.make(Op::kBitCast, to, {x});
    const Node* value = prepared(ir::alu(g, Op::kMax, {cast, cast}));
    std::string ops;
    for (const Node* node : ir::toposort(value)) {
      if (node->op == Op::kBitCast) {
        EXPECT_EQ(ir::item_size(node->dtype), ir::item_size(node->src(0)->dtype));
      }
      if (node->op == Op::kShl) ops += "<";
      if (node->op == Op::kShr) ops += ">";
    }
    EXPECT_EQ(ir::max_shape(g, value), ir::max_shape(g, cast));
    return ops;
  };
  EXPECT_EQ(resized(DType::kU8, DType::kF32, 16), "<<<");
  EXPECT_EQ(resized(DType::kF32, DType::kU8, 4), ">>>");
  EXPECT_EQ(resized(DType::kF16, DType::kI64, 16), "<<<");
  EXPECT_EQ(resized(DType::kF32, DType::kI32, 4), "");
}

TEST_F(PrepareRangeify, BytesOfADiskAreBitcastAfterTheirTransfer) {
  const Node* file = ir::buffer(g, 1, DType::kU8, 16, ir::AddrSpace::kGlobal, "DISK:weights");
  const Node* floats = g.make(Op::kBitCast, DType::kF32, {file});
  const Node* copy = g.make(Op::kCopy, DType::kF32, {floats}, std::string("CPU"));
  const Node* value = prepared(one_more(copy));
  bool travels_as_bytes = false;
  for (const Node* n : ir::toposort(value)) {
    if (n->op == Op::kStore) travels_as_bytes = n->src(1) == file;
  }
  EXPECT_TRUE(travels_as_bytes);
}

// ---- fix_store_hazard ----

TEST_F(PrepareRangeify, ElementForElementUpdateIsNoHazard) {
  const Node* x = reshape(buffer(1, 16), {4, 4});
  const Node* store = g.make(Op::kStore, DType::kVoid, {x, one_more(x)});
  EXPECT_EQ(fix_store_hazard(g, store), nullptr);
}

TEST_F(PrepareRangeify, TransposedFlippedOrShiftedSelfReadIsStaged) {
  const Node* x = reshape(buffer(1, 16), {4, 4});
  const auto is_staged = [&](const Node* target, const Node* value) {
    const Node* fixed = fix_store_hazard(g, g.make(Op::kStore, DType::kVoid, {target, value}));
    return fixed != nullptr && fixed->src(1)->op == Op::kContiguous;
  };
  EXPECT_TRUE(is_staged(x, one_more(permute(x, {1, 0}))));
  EXPECT_TRUE(is_staged(x, g.make(Op::kFlip, DType::kF32, {x}, Ints{1, 0})));
  const Node* flat = buffer(1, 16);
  EXPECT_TRUE(is_staged(shrink(flat, {4}, {4}), shrink(flat, {0}, {4})));
  EXPECT_TRUE(is_staged(x, ir::add(g, x, shrink(x, {3, 0}, {1, 4}))));
}

TEST_F(PrepareRangeify, AMovedTargetIsAHazardForAReadOfTheUnmovedBuffer) {
  const Node* x = reshape(buffer(1, 16), {4, 4});
  const Node* flipped = g.make(Op::kFlip, DType::kF32, {x}, Ints{1, 0});
  for (const Node* target : {flipped, permute(x, {1, 0})}) {
    const Node* store = g.make(Op::kStore, DType::kVoid, {target, one_more(x)});
    ASSERT_NE(fix_store_hazard(g, store), nullptr);
    // Through the same view every element meets itself.
    const Node* own = g.make(Op::kStore, DType::kVoid, {target, one_more(target)});
    EXPECT_EQ(fix_store_hazard(g, own), nullptr);
  }
}

TEST_F(PrepareRangeify, TheSameViewReadAndWrittenIsNoHazard) {
  const Node* view = shrink(buffer(1, 16), {4}, {4});
  EXPECT_EQ(fix_store_hazard(g, g.make(Op::kStore, DType::kVoid, {view, one_more(view)})), nullptr);
}

TEST_F(PrepareRangeify, OtherBuffersAreNoHazard) {
  const Node* x = reshape(buffer(1, 16), {4, 4});
  const Node* y = reshape(buffer(2, 16), {4, 4});
  EXPECT_EQ(fix_store_hazard(g, g.make(Op::kStore, DType::kVoid, {x, permute(y, {1, 0})})),
            nullptr);
}

// ---- split_reduceop ----

TEST_F(PrepareRangeify, SplitTakesTheLargestDivisorOfTheFirstDataAxis) {
  const ScheduleOptions options;
  const auto split = choose_split(Ints{1 << 20}, 1, {false}, options);
  ASSERT_TRUE(split.has_value());
  EXPECT_EQ(split->axis, 0U);
  EXPECT_EQ(split->divisor, 256);
  EXPECT_EQ(choose_split(Ints{3 * 32768, 1}, 1, {false, false}, options)->divisor, 256);
  EXPECT_EQ(choose_split(Ints{32771 * 9}, 1, {false}, options)->divisor, 9);
}

TEST_F(PrepareRangeify, SplitSkipsSmallRatiosBroadcastAxesAndPrimes) {
  ScheduleOptions options;
  EXPECT_FALSE(choose_split(Ints{32767}, 1, {false}, options).has_value());
  EXPECT_TRUE(choose_split(Ints{32768}, 1, {false}, options).has_value());
  EXPECT_FALSE(choose_split(Ints{32768, 2}, 2, {true, false}, options).has_value());
  EXPECT_EQ(choose_split(Ints{4, 65536}, 2, {false, false}, options)->axis, 1U);
  EXPECT_FALSE(choose_split(Ints{65537}, 1, {false}, options).has_value());
  options.split_reduceop = false;
  EXPECT_FALSE(choose_split(Ints{1 << 20}, 1, {false}, options).has_value());
}

TEST_F(PrepareRangeify, SplitIsBoundedByTheIntermediatesSize) {
  const ScheduleOptions options;
  // 2^22 / 2^18 outputs = at most 16 parts.
  EXPECT_EQ(choose_split(Ints{32768, 1 << 18}, 1, {false, false}, options)->divisor, 16);
}

TEST_F(PrepareRangeify, TheSecondHalfOfASplitIsNotSplitAgain) {
  ScheduleOptions options;
  options.split_threshold = 8;  // below the parts a split leaves
  options.split_size_log2 = 7;
  const Node* sum = g.make(Op::kReduce, DType::kF32, {reshape(buffer(1, 48), {3, 16})},
                           ir::ReduceArg{Op::kAdd, 2});
  const Node* out = buffer(90, 1);
  const auto r =
      prepare_rangeify(g, ir::sink(g, NodeVec{assign(out, out, reshape(sum, {1}))}), options);
  ASSERT_TRUE(r.ok()) << r.error().what;
  size_t reduces = 0;
  for (const Node* n : ir::toposort(*r)) reduces += n->op == Op::kReduce ? 1 : 0;
  EXPECT_EQ(reduces, 2U);
}

TEST_F(PrepareRangeify, SplitReduceKeepsShapeAndStagesThePartials) {
  const Node* x = reshape(buffer(1, 65536 * 3), {65536, 3});
  const Node* r = g.make(Op::kReduce, DType::kF32, {x}, ir::ReduceArg{Op::kMax, 1});
  const Node* split = split_reduceop(g, r, {});
  ASSERT_NE(split, nullptr);
  EXPECT_EQ(ir::max_shape(g, split), Ints{3});
  EXPECT_EQ(split->src(0)->src(0)->op, Op::kContiguous);
  EXPECT_EQ(ir::max_shape(g, split->src(0)), (Ints{256, 3}));
}

// ---- resolve_function ----

class ResolveFunction : public PrepareRangeify {
 protected:
  const Node* formal(int64_t slot, Ints dims, DType t = DType::kF32) {
    return g.make(Op::kParam, t, {ir::shape_node(g, dims)}, ir::ParamArg{.slot = slot});
  }
  const Node* tuple(NodeVec values) { return g.make(Op::kTuple, DType::kVoid, values); }
  const Node* function(const Node* body, NodeVec args) {
    NodeVec src{body};
    src.insert(src.end(), args.begin(), args.end());
    return g.make(Op::kFunction, DType::kVoid, src);
  }
  const Node* result(const Node* f, int64_t i, DType t = DType::kF32) {
    return g.make(Op::kGetTuple, t, {f}, i);
  }
};

TEST_F(ResolveFunction, SlotsTakeTheirArguments) {
  const Node* a = reshape(buffer(1, 8), {2, 4});
  const Node* b = reshape(buffer(2, 8), {2, 4});
  const Node* body =
      tuple({ir::add(g, formal(0, {2, 4}), ir::mul(g, formal(1, {2, 4}), formal(1, {2, 4})))});
  const auto inlined = resolve_function(g, function(body, {a, b}));
  ASSERT_TRUE(inlined.ok());
  EXPECT_EQ((*inlined)->src(0), ir::add(g, a, ir::mul(g, b, b)));
}

TEST_F(ResolveFunction, ParamsInsideArgumentsAreNotCapturedAgain) {
  const Node* outer = formal(1, {4});
  const Node* body = tuple({ir::add(g, formal(0, {4}), formal(1, {4}))});
  const auto inlined = resolve_function(g, function(body, {outer, buffer(2, 4)}));
  ASSERT_TRUE(inlined.ok());
  EXPECT_EQ((*inlined)->src(0), ir::add(g, outer, buffer(2, 4)));
}

TEST_F(ResolveFunction, NestedFunctionsAndSeveralResults) {
  const Node* inner =
      function(tuple({one_more(formal(0, {4})), ir::mul(g, formal(0, {4}), formal(0, {4}))}),
               {formal(0, {4})});
  const Node* outer =
      function(tuple({ir::add(g, result(inner, 0), result(inner, 1))}), {buffer(1, 4)});
  const auto resolved = resolve_functions(g, ir::sink(g, NodeVec{result(outer, 0)}));
  ASSERT_TRUE(resolved.ok()) << resolved.error().what;
  const Node* x = buffer(1, 4);
  EXPECT_EQ((*resolved)->src(0), ir::add(g, one_more(x), ir::mul(g, x, x)));
}

TEST_F(ResolveFunction, ShapeMismatchIsRefused) {
  const auto r = resolve_function(g, function(tuple({one_more(formal(0, {4}))}), {buffer(1, 5)}));
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().code, Errc::kMismatch);
  EXPECT_NE(r.error().what.find("shape (5), the parameter has (4)"), std::string::npos);
}

TEST_F(ResolveFunction, DtypeMismatchIsRefused) {
  const Node* half = ir::buffer(g, 3, DType::kF16, 4, ir::AddrSpace::kGlobal, "CPU");
  const auto r = resolve_function(g, function(tuple({one_more(formal(0, {4}))}), {half}));
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().code, Errc::kMismatch);
}

TEST_F(ResolveFunction, StrictWantsEverySlot) {
  const Node* f = function(tuple({one_more(formal(1, {4}))}), {buffer(1, 4), buffer(2, 4)});
  EXPECT_TRUE(resolve_function(g, f).ok());
  EXPECT_FALSE(resolve_function(g, f, true).ok());
  const Node* g2 = function(tuple({one_more(formal(2, {4}))}), {buffer(1, 4), buffer(2, 4)});
  EXPECT_FALSE(resolve_function(g, g2).ok());
}

}  // namespace
}  // namespace modeld::schedule
