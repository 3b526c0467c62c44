// Work on sharded values, against the single-device oracle: which transfers each rule makes, what
// the result is sharded along, and what is refused.
#include "runtime/schedule/create_schedule.h"

#include "selftest/schedule/multi_lab.h"

namespace modeld::schedule::test {
namespace {

using Copies = std::vector<int64_t>;
using ir::Fault;

int64_t axis_of(const Tensor& t) {
  return ir::shard_axis(t.graph(), t.node()).value_or(-1);
}

// ---- shard() ----

TEST(Shard, OnlyThePartTravels) {
  for (int64_t axis : {0, 1}) {
    MultiLab lab;
    const Tensor x = lab.random({4, 6}, 1);
    const Traffic t = lab.check(tensor::shard(x, lab.devices, axis), x);
    EXPECT_EQ(t.copies, (Copies{12, 12})) << axis;
  }
}

TEST(Shard, APartThatIsThereAlreadyDoesNotTravel) {
  MultiLab lab;
  const Tensor x = lab.random({4, 6}, 1);
  lab.devices = {"CPU", "CPU:1"};
  EXPECT_EQ(lab.check(tensor::shard(x, lab.devices, 1), x).copies, Copies{12});
}

TEST(Shard, ReplicateCopiesTheWholeToEach) {
  MultiLab lab(3);
  const Tensor x = lab.random({4, 6}, 1);
  EXPECT_EQ(lab.check(tensor::replicate(x, lab.devices), x).copies, (Copies{24, 24, 24}));
}

TEST(Shard, ConstantsAreEverywhereForFree) {
  MultiLab lab;
  const Tensor c = Tensor::full(lab.g, {4, 6}, 3.0, DType::kF32);
  EXPECT_TRUE(lab.check(tensor::shard(c, lab.devices, 0), c).copies.empty());
  EXPECT_TRUE(lab.check(tensor::replicate(c, lab.devices) + lab.replicated({4, 6}, 1).multi,
                        c + lab.random({4, 6}, 1))
                  .copies.empty());
  const auto x = lab.sharded({4, 6}, 1, 1);
  const Tensor again = tensor::shard(c, lab.devices, 1);
  EXPECT_TRUE(lab.check(again + x.multi, c + x.whole).copies.empty());
  EXPECT_TRUE(lab.check(tensor::to(tensor::shard(c, lab.devices, 0), "CPU"), c).copies.empty());
}

TEST(Shard, OneDeviceIsACopyToIt) {
  MultiLab lab;
  const Tensor x = lab.random({4, 6}, 1);
  const Tensor there = tensor::shard(x, {"CPU:7"}, 0);
  EXPECT_EQ(axis_of(there), -1);
  EXPECT_EQ(lab.check(there, x).copies, Copies{24});
}

TEST(Shard, FourWaysOverTwoAxes) {
  MultiLab lab(4);
  const Tensor x = lab.random({4, 6}, 1);
  const Traffic t = lab.check(tensor::shard(x, lab.devices, {{0, 1}, {2, 2}}), x);
  EXPECT_EQ(t.copies, (Copies{6, 6, 6, 6}));
}

TEST(Shard, UnevenAxisIsRefused) {
  MultiLab lab;
  const Tensor x = lab.random({4, 5}, 1);
  tensor::shard(x, lab.devices, 1);
  ASSERT_FALSE(lab.g.status().ok());
  const Error e = lab.g.status().error();
  EXPECT_EQ(ir::fault_of(e), Fault::kUnevenShards);
  EXPECT_NE(e.what.find("multi axis uneven"), std::string::npos);
  EXPECT_NE(e.what.find("t0"), std::string::npos) << e.what;
}

TEST(Shard, BadDevicesAndMeshesAreRefused) {
  const auto fault = [](const std::function<void(MultiLab&, const Tensor&)>& make) {
    MultiLab lab;
    make(lab, lab.random({4, 6}, 1));
    EXPECT_FALSE(lab.g.status().ok());
    return lab.g.status().ok() ? Fault::kNone : ir::fault_of(lab.g.status().error());
  };
  using Lab = MultiLab;
  EXPECT_EQ(fault([](Lab&, auto& x) {
              tensor::shard(x, {"CPU:1", "CPU:1"}, 0);
            }),
            Fault::kDeviceTuple);
  EXPECT_EQ(fault([](Lab&, auto& x) { tensor::replicate(x, {}); }), Fault::kDeviceTuple);
  EXPECT_EQ(fault([](Lab&, auto& x) { tensor::to(x, "CPU:1,CPU:2"); }), Fault::kDeviceTuple);
  EXPECT_EQ(
      fault([](Lab& l, auto&) { tensor::to(Tensor::constant(l.g, 1, DType::kWeakInt), "CPU:1"); }),
      Fault::kWeakStorage);
  fault([](Lab& l, auto& x) { tensor::shard(x, l.devices, 2); });
  fault([](Lab& l, auto& x) { tensor::shard(x, l.devices, {{0, 1}, {2, 2}}); });
  fault([](Lab& l, auto& x) { tensor::shard(x, l.devices, {{1, 0}, {2, 1}}); });
}

TEST(Shard, AssignmentStaysOnTheParts) {
  MultiLab lab;
  const auto x = lab.sharded({4, 6}, 0, 1), y = lab.sharded({4, 6}, 0, 2);
  const Tensor next = tensor::assign(x.multi, x.multi * 2 + y.multi);
  const Traffic t = lab.check(next, x.whole * 2 + y.whole);
  EXPECT_EQ(t.kernels, 1);
  EXPECT_TRUE(t.copies.empty());
  EXPECT_EQ(lab.last.output_storage[0], base_buffer(x.multi.node()));
}

TEST(Shard, StaleReaderOfAPartGoesBeforeTheOverwrite) {
  MultiLab lab;
  const auto x = lab.sharded({4, 6}, 0, 1);
  const Tensor old = tensor::to(x.multi, "CPU");
  const Tensor next = tensor::assign(x.multi, x.multi * 10);
  for (const bool old_first : {true, false}) {
    auto s =
        lab.schedule(old_first ? std::vector<Tensor>{old, next} : std::vector<Tensor>{next, old});
    ASSERT_TRUE(s.ok()) << s.error().what;
    lab.last = *s;
    const auto buffers = lab.executed();
    EXPECT_EQ(buffers.at(s->output_storage[old_first ? 0 : 1]).doubles(), lab.data(x.whole));
    EXPECT_EQ(lab.gathered(next, s->output_storage[old_first ? 1 : 0], buffers),
              lab.run(x.whole * 10));
  }
}

TEST(Shard, PartOfAShardedTargetIsRefused) {
  MultiLab lab;
  const auto x = lab.sharded({4, 6}, 0, 1);
  const Error e = lab.refusal(
      tensor::assign(x.multi.shrink({0, 0}, {2, 6}), Tensor::full(lab.g, {2, 6}, 1, DType::kF32)));
  EXPECT_EQ(ir::fault_of(e), Fault::kShrinkSharded);
  EXPECT_NE(e.what.find("x0"), std::string::npos) << e.what;
}

TEST(Shard, OutputsAskedForTwiceAndInputsGetParts) {
  MultiLab lab;
  const auto x = lab.sharded({4, 6}, 1, 1);
  const Tensor y = x.multi + 1;
  auto s = lab.schedule({y, y, x.multi, y.reshape({4, 2, 3})});
  ASSERT_TRUE(s.ok()) << s.error().what;
  lab.last = *s;
  const auto buffers = lab.executed();
  const std::vector<double> want = lab.run(x.whole + 1);
  EXPECT_EQ(lab.gathered(y, s->output_storage[0], buffers), want);
  EXPECT_EQ(lab.gathered(y, s->output_storage[1], buffers), want);
  EXPECT_EQ(lab.gathered(x.multi, s->output_storage[2], buffers), lab.data(x.whole));
  EXPECT_EQ(lab.gathered(y.reshape({4, 2, 3}), s->output_storage[3], buffers), want);
}

TEST(Shard, BuffersOfATuplePlanAsOne) {
  MultiLab lab;
  const auto x = lab.sharded({4, 6}, 0, 1);
  lab.check((x.multi.exp2().contiguous() * 2).contiguous().sum({1}), (x.whole.exp2() * 2).sum({1}),
            1e-6);
  ASSERT_EQ(lab.last.plan.lanes.size(), 1U);
  EXPECT_EQ(lab.last.plan.lanes[0].device, lab.tuple);
}

// ---- alu_multi ----

TEST(AluMulti, AlignedOperandsNeedNoTransfer) {
  MultiLab lab;
  const auto x = lab.sharded({4, 6}, 0, 1), y = lab.sharded({4, 6}, 0, 2);
  const Tensor sum = x.multi + y.multi;
  const Traffic t = lab.check(sum, x.whole + y.whole);
  EXPECT_EQ(t.kernels, 1);
  EXPECT_TRUE(t.copies.empty());
  EXPECT_EQ(axis_of(sum), 0);
}

TEST(AluMulti, ScalarsReplicatedValuesAndRowsNeedNoTransfer) {
  MultiLab lab;
  for (int64_t axis : {0, 1}) {
    const auto x = lab.sharded({4, 6}, axis, 1);
    const auto whole = lab.replicated({4, 6}, 2), row = lab.replicated({6}, 3),
               column = lab.replicated({4, 1}, 4), one = lab.replicated({1, 1}, 5);
    EXPECT_TRUE(lab.check(x.multi + 2, x.whole + 2).copies.empty());
    EXPECT_TRUE(lab.check(x.multi + whole.multi, x.whole + whole.whole).copies.empty());
    EXPECT_TRUE(lab.check(x.multi * row.multi, x.whole * row.whole).copies.empty());
    EXPECT_TRUE(lab.check(x.multi * column.multi, x.whole * column.whole).copies.empty());
    EXPECT_TRUE(lab.check(x.multi - one.multi, x.whole - one.whole).copies.empty());
  }
}

TEST(AluMulti, ShardedRowLinesUpFromTheRight) {
  MultiLab lab;
  const auto row = lab.sharded({6}, 0, 1);
  const auto x = lab.sharded({4, 6}, 1, 2), whole = lab.replicated({4, 6}, 3);
  EXPECT_TRUE(lab.check(x.multi + row.multi, x.whole + row.whole).copies.empty());
  const Tensor widened = whole.multi + row.multi;
  EXPECT_EQ(axis_of(widened), 1);
  EXPECT_TRUE(lab.check(widened, whole.whole + row.whole).copies.empty());
}

TEST(AluMulti, OtherAxisIsGatheredAndTheLastOneWins) {
  MultiLab lab;
  const auto x = lab.sharded({4, 6}, 0, 1), y = lab.sharded({4, 6}, 1, 2);
  const Tensor sum = x.multi + y.multi;
  const Traffic t = lab.check(sum, x.whole + y.whole);
  EXPECT_EQ(t.copies, (Copies{24, 24}));
  EXPECT_EQ(axis_of(sum), 1);
  EXPECT_EQ(axis_of(y.multi + x.multi), 0);
  EXPECT_EQ(lab.check(y.multi + x.multi, x.whole + y.whole).copies, (Copies{24, 24}));
}

TEST(AluMulti, ThreeOperandsAndCasts) {
  MultiLab lab;
  const auto x = lab.sharded({4, 6}, 0, 1), y = lab.replicated({6}, 2);
  const auto i = lab.sharded({4, 6}, 0, 3, DType::kI32);
  EXPECT_TRUE(lab.check(x.multi.lt(y.multi).where(x.multi, i.multi.cast(DType::kF32)),
                        x.whole.lt(y.whole).where(x.whole, i.whole.cast(DType::kF32)))
                  .copies.empty());
}

TEST(AluMulti, BooleansAreGatheredToo) {
  MultiLab lab;
  const auto x = lab.sharded({4, 6}, 0, 1), y = lab.sharded({4, 6}, 1, 2);
  lab.check(x.multi.lt(0.0).bit_and(y.multi.lt(0.0)).where(x.multi, y.multi),
            x.whole.lt(0.0).bit_and(y.whole.lt(0.0)).where(x.whole, y.whole));
}

TEST(AluMulti, OtherDevicesAreRefused) {
  MultiLab lab;
  const auto x = lab.sharded({4, 6}, 0, 1);
  MultiLab other;
  const Tensor single = lab.random({4, 6}, 2);
  const Tensor far = tensor::shard(single, {"CPU:8", "CPU:9"}, 0);
  for (const Tensor& y : {single, far, tensor::replicate(single, {"CPU:2", "CPU:1"})}) {
    const Error e = lab.refusal(x.multi + y);
    EXPECT_EQ(ir::fault_of(e), Fault::kDeviceTuple);
    EXPECT_NE(e.what.find("all buffers must have the same device"), std::string::npos) << e.what;
    EXPECT_NE(e.what.find("x0"), std::string::npos) << e.what;
  }
}

TEST(AluMulti, WhatAKernelSeesIsOnePartAndItsNumber) {
  MultiLab lab;
  const auto x = lab.sharded({4, 6}, 0, 1), whole = lab.replicated({4, 6}, 2);
  lab.check(x.multi + whole.multi, x.whole + whole.whole);
  ASSERT_EQ(lab.last.linear->nsrc, 1U);
  const Node* kernel = lab.last.linear->src(0)->src(0);
  std::set<std::string> names;
  for (const Node* n : ir::toposort(kernel)) {
    EXPECT_FALSE(n->op == Op::kRange && n->as<ir::RangeArg>().type == ir::AxisType::kDevice);
    if (n->op == Op::kParam) names.insert(n->as<ir::ParamArg>().name);
  }
  EXPECT_EQ(names, (std::set<std::string>{"", ir::kDeviceNum}));
  EXPECT_TRUE(lab.last.vars.empty());  // the launch binds it
}

// ---- reduce ----

TEST(AluMulti, ReduceOfOtherAxesIsLocal) {
  MultiLab lab;
  const auto x = lab.sharded({4, 6, 2}, 1, 1);
  const Tensor sum = x.multi.sum({0});
  EXPECT_TRUE(lab.check(sum, x.whole.sum({0}), 1e-6).copies.empty());
  EXPECT_EQ(axis_of(sum), 0);
  EXPECT_EQ(axis_of(x.multi.max({2})), 1);
  EXPECT_TRUE(lab.check(x.multi.max({2}), x.whole.max({2})).copies.empty());
}

TEST(AluMulti, ReduceOfTheShardedAxisIsAllReduced) {
  MultiLab lab;
  const auto x = lab.sharded({4, 6}, 0, 1);
  EXPECT_TRUE(lab.check(x.multi.sum({1}), x.whole.sum({1}), 1e-6).copies.empty());
  const Tensor sum = x.multi.sum({0});
  EXPECT_EQ(axis_of(sum), -1);
  EXPECT_EQ(lab.check(sum, x.whole.sum({0}), 1e-6).copies, (Copies{6, 6}));
  EXPECT_EQ(lab.check(x.multi.max({0}), x.whole.max({0})).copies, (Copies{6, 6}));
  EXPECT_EQ(lab.check(x.multi.sum(), x.whole.sum(), 1e-6).copies, (Copies{1, 1}));
  EXPECT_EQ(lab.check(x.multi.mean({0}), x.whole.mean({0}), 1e-6).copies, (Copies{6, 6}));
}

TEST(AluMulti, MatrixProducts) {
  MultiLab lab;
  const auto rows = lab.sharded({4, 6}, 0, 1), inner = lab.sharded({4, 6}, 1, 1);
  const auto whole = lab.replicated({4, 6}, 1);
  const auto w = lab.replicated({6, 8}, 2), columns = lab.sharded({6, 8}, 1, 2);
  const auto depth = lab.sharded({6, 8}, 0, 2);
  const Tensor want = rows.whole.matmul(w.whole);
  EXPECT_TRUE(lab.check(rows.multi.matmul(w.multi), want, 1e-5).copies.empty());
  EXPECT_TRUE(lab.check(whole.multi.matmul(columns.multi), want, 1e-5).copies.empty());
  EXPECT_EQ(lab.check(inner.multi.matmul(depth.multi), want, 1e-5).copies, (Copies{32, 32}));
  EXPECT_EQ(axis_of(rows.multi.matmul(w.multi)), 0);
  EXPECT_EQ(axis_of(whole.multi.matmul(columns.multi)), 1);
  EXPECT_EQ(axis_of(inner.multi.matmul(depth.multi)), -1);
}

TEST(AluMulti, HalfPrecisionSumsTravelAsTheyCame) {
  for (const bool narrow : {true, false}) {
    MultiLab lab;
    lab.options.allreduce_cast = narrow;
    const auto x = lab.sharded({4, 6}, 0, 1, DType::kF16);
    lab.check(x.multi.sum({0}), x.whole.sum({0}), 4e-3);
    int copies = 0;
    for (const Node* call : lab.last.linear->src()) {
      if (call->src(0)->op != Op::kCopy) continue;
      copies++;
      EXPECT_EQ(call->src(1)->dtype, narrow ? DType::kF16 : DType::kF32);
    }
    EXPECT_EQ(copies, 2);
  }
}

TEST(AluMulti, PartOfTheShardedAxesReducedIsRefused) {
  MultiLab lab(4);
  const auto x = lab.mesh({4, 6}, {{0, 1}, {2, 2}}, 1);
  lab.check(x.multi.sum(), x.whole.sum(), 1e-6);
  const Error e = lab.refusal(x.multi.sum({0}));
  EXPECT_EQ(ir::fault_of(e), Fault::kMixedAxes);
  EXPECT_NE(e.what.find("x0"), std::string::npos) << e.what;
}

// ---- movement ----

TEST(AluMulti, MovementThatKeepsThePartsIsLocal) {
  MultiLab lab;
  const auto x = lab.sharded({4, 6}, 0, 1), y = lab.sharded({4, 6}, 1, 2);
  const auto local = [&](const MultiLab::Twin& t, auto f) {
    const Tensor moved = f(t.multi);
    EXPECT_TRUE(lab.check(moved + 1, f(t.whole) + 1).copies.empty());
    return axis_of(moved);
  };
  using T = const Tensor&;
  EXPECT_EQ(local(x, [](T t) { return t.reshape({2, 2, 6}); }), 0);
  EXPECT_EQ(local(x, [](T t) { return t.reshape({24}); }), 0);
  EXPECT_EQ(local(x, [](T t) { return t.reshape({1, 4, 6, 1}); }), 1);
  EXPECT_EQ(local(y, [](T t) { return t.reshape({4, 2, 3}); }), 1);
  EXPECT_EQ(local(x, [](T t) { return t.transpose(0, 1); }), 1);
  EXPECT_EQ(local(y, [](T t) { return t.permute({1, 0}); }), 0);
  EXPECT_EQ(local(x, [](T t) { return t.unsqueeze({0}).expand({3, 4, 6}); }), 1);
  EXPECT_EQ(local(x, [](T t) { return t.pad({0, 1}, {0, 2}); }), 0);
  EXPECT_EQ(local(y, [](T t) { return t.pad({1, 0}, {0, 0}); }), 1);
  EXPECT_EQ(local(x, [](T t) { return t.flip({1}); }), 0);
  EXPECT_EQ(local(x, [](T t) { return t.shrink({0, 1}, {4, 3}); }), 0);
  EXPECT_EQ(local(y, [](T t) { return t.slice({{1, 3}}); }), 1);
}

TEST(AluMulti, StackAndConcatFollow) {
  MultiLab lab;
  const auto x = lab.sharded({4, 6}, 0, 1), y = lab.sharded({4, 6}, 0, 2);
  const Tensor parts[] = {x.multi, y.multi}, whole[] = {x.whole, y.whole};
  EXPECT_TRUE(lab.check(tensor::stack(parts, 0), tensor::stack(whole, 0)).copies.empty());
  EXPECT_TRUE(lab.check(tensor::concat(parts, 1), tensor::concat(whole, 1)).copies.empty());
  const Node* stacked = lab.g.make(Op::kStack, DType::kF32, {x.multi.node(), y.multi.node()});
  EXPECT_EQ(axis_of({lab.g, stacked}), 1);
  EXPECT_TRUE(lab.check({lab.g, stacked}, tensor::stack(whole, 0)).copies.empty());
}

TEST(AluMulti, GatherByAShardedIndexIsLocal) {
  MultiLab lab;
  const auto table = lab.replicated({5, 3}, 1);
  const Tensor whole = lab.ints({4}, {3, 0, 4, 1});
  const Tensor index = tensor::shard(whole, lab.devices, 0);
  const Traffic t =
      lab.check(tensor::gather(table.multi, index, 0), tensor::gather(table.whole, whole, 0));
  EXPECT_EQ(t.copies, (Copies{2, 2}));  // of the index
}

TEST(AluMulti, OnePartitionIsCopiedToAll) {
  MultiLab lab;
  const auto x = lab.sharded({4, 6}, 0, 1);
  for (int64_t part : {0, 1}) {
    const Tensor rows = x.multi.shrink({2 * part, 0}, {2, 6});
    EXPECT_EQ(axis_of(rows), -1);
    EXPECT_EQ(lab.check(rows, x.whole.shrink({2 * part, 0}, {2, 6})).copies, Copies{12});
    EXPECT_EQ(
        lab.check(x.multi.shrink({2 * part, 1}, {2, 3}), x.whole.shrink({2 * part, 1}, {2, 3}))
            .copies,
        Copies{6});
  }
}

TEST(AluMulti, ItsOwnShardResolvesLocally) {
  MultiLab lab;
  const auto x = lab.sharded({4, 6}, 0, 1);
  EXPECT_TRUE(lab.check(tensor::shard(x.multi, lab.devices, 0) + 1, x.whole + 1).copies.empty());
}

TEST(AluMulti, MovementAcrossPartsIsRefused) {
  const auto refused = [](const std::function<Tensor(const Tensor&)>& f) {
    MultiLab lab;
    const Error e = lab.refusal(f(lab.sharded({4, 6}, 0, 1).multi) + 1);
    EXPECT_NE(e.what.find("x0"), std::string::npos) << e.what;
    return ir::fault_of(e);
  };
  EXPECT_EQ(refused([](auto& t) { return t.reshape({3, 8}); }), Fault::kMovedShards);
  EXPECT_EQ(refused([](auto& t) {
              return t.transpose(0, 1).reshape({8, 3});
            }),
            Fault::kMovedShards);
  EXPECT_EQ(refused([](auto& t) { return t.pad({1, 0}, {0, 0}); }), Fault::kPadSharded);
  EXPECT_EQ(refused([](auto& t) { return t.flip({0}); }), Fault::kFlipSharded);
  EXPECT_EQ(refused([](auto& t) { return t.shrink({0, 0}, {3, 6}); }), Fault::kShrinkSharded);
  EXPECT_EQ(refused([](auto& t) { return t.shrink({1, 0}, {2, 6}); }), Fault::kShrinkSharded);
}

TEST(AluMulti, ReshapeMessageOfTheHandBook) {
  MultiLab lab;
  const Error e = lab.refusal(lab.sharded({4, 3}, 0, 1).multi.reshape({3, 4}) + 1);
  EXPECT_EQ(ir::fault_of(e), Fault::kMovedShards);
  EXPECT_NE(e.what.find("moved items between shards"), std::string::npos);
}

// ---- functions ----

const Node* formal(
    Graph& g, int64_t slot, const Dims& dims, const std::string& device, int64_t axis) {
  ir::ParamArg arg;
  arg.slot = slot;
  arg.device = device;
  arg.axis = axis;
  return g.make(Op::kParam, DType::kF32, {ir::shape_node(g, dims)}, arg);
}

TEST(AluMulti, ResultsOfAFunctionKeepTheirOwnSharding) {
  MultiLab lab;
  const auto x = lab.sharded({4, 6}, 0, 1), w = lab.replicated({6, 8}, 2);
  const Tensor p(lab.g, formal(lab.g, 0, {4, 6}, lab.tuple, 0));
  const Tensor q(lab.g, formal(lab.g, 1, {6, 8}, lab.tuple, -1));
  const Node* body = lab.g.make(Op::kTuple, DType::kVoid, {p.matmul(q).node(), p.sum({0}).node()});
  const Node* f = lab.g.make(Op::kFunction, DType::kVoid, {body, x.multi.node(), w.multi.node()});
  const Tensor product(lab.g, lab.g.make(Op::kGetTuple, DType::kF32, {f}, int64_t{0}));
  const Tensor sum(lab.g, lab.g.make(Op::kGetTuple, DType::kF32, {f}, int64_t{1}));
  EXPECT_EQ(axis_of(product), 0);
  EXPECT_EQ(axis_of(sum), -1);
  EXPECT_TRUE(lab.check(product + 1, x.whole.matmul(w.whole) + 1, 1e-5).copies.empty());
  EXPECT_EQ(lab.check(sum + 1, x.whole.sum({0}) + 1, 1e-5).copies, (Copies{6, 6}));
}

TEST(AluMulti, ArgumentShardedOtherwiseIsRefused) {
  MultiLab lab;
  const Tensor p(lab.g, formal(lab.g, 0, {4, 6}, lab.tuple, 0));
  const Node* body = lab.g.make(Op::kTuple, DType::kVoid, {(p + 1).node()});
  for (const auto& x : {lab.sharded({4, 6}, 1, 1), lab.replicated({4, 6}, 2)}) {
    const Node* f = lab.g.make(Op::kFunction, DType::kVoid, {body, x.multi.node()});
    const Tensor r(lab.g, lab.g.make(Op::kGetTuple, DType::kF32, {f}, int64_t{0}));
    EXPECT_EQ(ir::fault_of(lab.refusal(r + 1)), Fault::kFunctionAxis);
  }
}

}  // namespace
}  // namespace modeld::schedule::test
