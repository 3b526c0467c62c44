// Transfers between devices and tuples of them: the table of copies, and the values that arrive.
#include "selftest/schedule/multi_lab.h"

namespace modeld::schedule::test {
namespace {

using Copies = std::vector<int64_t>;

// What the hand-book measured on 2 devices, (4,6) sharded along 0 (rows of section 5.3).
TEST(CopyMulti, TableOfTheHandBook) {
  MultiLab lab;
  const auto x = lab.sharded({4, 6}, 0, 1), same = lab.sharded({4, 6}, 0, 2),
             other = lab.sharded({4, 6}, 1, 3), row = lab.replicated({6}, 4),
             whole = lab.replicated({4, 6}, 5), w = lab.replicated({6, 8}, 6),
             columns = lab.sharded({6, 8}, 1, 7), inner = lab.sharded({4, 6}, 1, 8),
             depth = lab.sharded({6, 8}, 0, 9);
  struct Row {
    const char* what;
    Tensor multi, whole;
    Copies copies;
    int64_t axis;
  };
  const Row rows[] = {
      {"+same axis", x.multi + same.multi, x.whole + same.whole, {}, 0},
      {"+scalar", x.multi + 1, x.whole + 1, {}, 0},
      {"+replicated", x.multi + whole.multi, x.whole + whole.whole, {}, 0},
      {"+row", x.multi + row.multi, x.whole + row.whole, {}, 0},
      {"+axis 1", x.multi + other.multi, x.whole + other.whole, {24, 24}, 1},
      {"to one device", tensor::to(x.multi, "CPU"), x.whole, {12, 12}, -1},
      {"sum(axis 1)", x.multi.sum({1}), x.whole.sum({1}), {}, 0},
      {"sum(axis 0)", x.multi.sum({0}), x.whole.sum({0}), {6, 6}, -1},
      {"X(0)@W(none)", x.multi.matmul(w.multi), x.whole.matmul(w.whole), {}, 0},
      {"X(none)@W(1)", whole.multi.matmul(columns.multi), whole.whole.matmul(columns.whole), {}, 1},
      {"X(1)@W(0)", inner.multi.matmul(depth.multi), inner.whole.matmul(depth.whole), {32, 32}, -1},
  };
  for (const Row& r : rows) {
    SCOPED_TRACE(r.what);
    EXPECT_EQ(lab.check(r.multi, r.whole, 1e-5).copies, r.copies);
    EXPECT_EQ(ir::shard_axis(lab.g, r.multi.node()).value_or(-1), r.axis);
  }
}

TEST(CopyMulti, ShardedToOneDeviceIsOneConcatKernel) {
  for (int64_t axis : {0, 1}) {
    MultiLab lab;
    const auto x = lab.sharded({4, 6}, axis, 1);
    const Traffic t = lab.check(tensor::to(x.multi, "CPU"), x.whole);
    EXPECT_EQ(t.copies, (Copies{12, 12}));
    EXPECT_EQ(t.kernels, 1);
    EXPECT_EQ(t.links, 2U);
  }
}

TEST(CopyMulti, APartOnTheTargetStaysWhereItIs) {
  MultiLab lab;
  const auto x = lab.sharded({4, 6}, 1, 1);
  const Traffic t = lab.check(tensor::to(x.multi, lab.devices[1]), x.whole);
  EXPECT_EQ(t.copies, Copies{12});
}

TEST(CopyMulti, ConcatJoinsTheLastAxisFirst) {
  MultiLab lab(4);
  const auto x = lab.mesh({4, 6}, {{0, 1}, {2, 2}}, 1);
  const Traffic t = lab.check(tensor::to(x.multi, "CPU"), x.whole);
  EXPECT_EQ(t.copies, (Copies{6, 6, 6, 6}));
  EXPECT_EQ(t.kernels, 1);
  lab.check(tensor::to(x.multi.transpose(0, 1), "CPU"), x.whole.transpose(0, 1));
  MultiLab six(6);
  const auto y = six.mesh({4, 6, 3}, {{0, 2}, {2, 3}}, 2);
  six.check(tensor::to(y.multi, "CPU"), y.whole);
}

TEST(CopyMulti, ToTheSameTupleIsNothing) {
  MultiLab lab;
  const auto x = lab.sharded({4, 6}, 0, 1);
  const Tensor same(lab.g, lab.g.make(Op::kCopy, DType::kF32, {x.multi.node()}, lab.tuple));
  const Traffic t = lab.check(same + 1, x.whole + 1);
  EXPECT_TRUE(t.copies.empty());
  EXPECT_EQ(t.kernels, 1);
}

TEST(CopyMulti, PartsAreSpreadOtherwiseThroughOneDevice) {
  MultiLab lab;
  const auto x = lab.sharded({4, 6}, 0, 1);
  const Tensor other = tensor::shard(x.multi, lab.devices, 1);
  EXPECT_EQ(lab.check(other, x.whole).copies, (Copies{12, 12}));
  EXPECT_EQ(ir::shard_axis(lab.g, other.node()), 1);
  const Tensor whole = tensor::replicate(x.multi, lab.devices);
  EXPECT_EQ(lab.check(whole, x.whole).copies, (Copies{12, 24}));
}

TEST(CopyMulti, ShardedToAnotherTupleIsGatheredThere) {
  MultiLab lab;
  const auto x = lab.sharded({4, 6}, 0, 1);
  const tensor::Devices there{"CPU:7", "CPU:8", "CPU:9"};
  const Tensor y = tensor::replicate(x.multi, there);
  const Traffic t = lab.check(y, x.whole);
  EXPECT_EQ(t.copies, Copies(6, 24));  // both padded parts to three targets
  EXPECT_EQ(ir::device(lab.g, lab.last.output_storage[0]), ir::join_devices(there));
}

TEST(CopyMulti, ReplicatedToOneIsACopyOfPartZero) {
  MultiLab lab;
  const auto x = lab.replicated({4, 6}, 1);
  const Traffic t = lab.check(tensor::to(x.multi, "CPU"), x.whole);
  EXPECT_EQ(t.copies, Copies{24});
  EXPECT_EQ(t.kernels, 0);
  EXPECT_EQ(ir::device(lab.g, lab.last.linear->src(0)->src(2)), lab.devices[0]);
}

TEST(CopyMulti, ReplicatedToOneOfItsOwnNeedsNoCopy) {
  MultiLab lab;
  const auto x = lab.replicated({4, 6}, 1);
  EXPECT_TRUE(lab.check(tensor::to(x.multi, lab.devices[1]) + 1, x.whole + 1).copies.empty());
}

TEST(CopyMulti, ReplicatedToAnotherTupleSharesWhatIsThere) {
  MultiLab lab;
  const auto x = lab.replicated({4, 6}, 1);
  const tensor::Devices there{"CPU:2", "CPU:9"};
  EXPECT_EQ(lab.check(tensor::replicate(x.multi, there) + 1, x.whole + 1).copies, Copies{24});
}

TEST(CopyMulti, OneToManyAndBack) {
  MultiLab lab;
  const Tensor x = lab.random({4, 6}, 1);
  const Tensor there = tensor::shard(x + 1, lab.devices, 0) * 2;
  const Traffic t = lab.check(tensor::to(there, "CPU"), (x + 1) * 2);
  EXPECT_EQ(t.copies, (Copies{12, 12, 12, 12}));
}

TEST(CopyMulti, IntegersBooleansAndHalvesArrive) {
  for (const DType t : {DType::kI32, DType::kU8, DType::kF16, DType::kBF16, DType::kI64}) {
    MultiLab lab;
    const Tensor x = lab.random({4, 6}, 1).abs().cast(t);
    lab.check(tensor::to(tensor::shard(x, lab.devices, 1), "CPU:9"), x);
  }
  MultiLab lab;
  const Tensor x = lab.random({4, 6}, 1).lt(0.0);
  lab.check(tensor::to(tensor::shard(x, lab.devices, 1), "CPU:9"), x);
}

TEST(CopyMulti, PartsOfStacksAndSelectionsAreFoundAgain) {
  MultiLab lab;
  const Tensor a = lab.random({4}, 1), b = lab.random({4}, 2);
  const Tensor a1 = tensor::to(a, lab.devices[0]), b2 = tensor::to(b, lab.devices[1]);
  const Node* stack = lab.g.make(Op::kMStack, DType::kF32, {a1.node(), b2.node()});
  const Node* picked = lab.g.make(Op::kMSelect, DType::kF32, {stack}, int64_t{1});
  EXPECT_EQ(lab.check(Tensor(lab.g, picked) + 1, b + 1).copies, Copies{4});
  // Movement ops go below the selection.
  const Node* flipped = Tensor(lab.g, stack).flip({0}).node();
  const Node* part = lab.g.make(Op::kMSelect, DType::kF32, {flipped}, int64_t{0});
  EXPECT_EQ(lab.check(Tensor(lab.g, part) + 1, a.flip({0}) + 1).copies, Copies{4});
  // A computed value gets memory on all devices first.
  const Node* doubled = (Tensor(lab.g, stack) * 2).node();
  const Node* second = lab.g.make(Op::kMSelect, DType::kF32, {doubled}, int64_t{1});
  EXPECT_EQ(lab.check(Tensor(lab.g, second) + 1, b * 2 + 1).copies, (Copies{4, 4}));
}

TEST(CopyMulti, OnePureCopyPerDeviceNeverOneForAll) {
  MultiLab lab;
  const auto x = lab.sharded({4, 6}, 0, 1);
  lab.check(tensor::to(x.multi.exp2(), "CPU"), x.whole.exp2(), 1e-6);
  for (const Node* call : lab.last.linear->src()) {
    if (call->src(0)->op != Op::kCopy) continue;
    EXPECT_EQ(ir::device_count(ir::device(lab.g, call->src(1))), 1);
    EXPECT_EQ(ir::device_count(ir::device(lab.g, call->src(2))), 1);
  }
}

}  // namespace
}  // namespace modeld::schedule::test
