#include "runtime/ir/sharding.h"

#include "runtime/ir/derived.h"
#include "runtime/ir/print.h"
#include "runtime/ir/spec.h"

namespace modeld::ir {
namespace {

const std::string kTwo = "CPU:0,CPU:1";

// A value of `dims` per device, sharded along `axis` of the global one.
const Node* sharded(Graph& g, std::vector<int64_t> local, int64_t axis, const std::string& tuple) {
  int64_t n = 1;
  for (int64_t d : local) n *= d;
  const Node* b = buffer(g, g.fresh(), DType::kF32, n, AddrSpace::kGlobal, tuple, "x");
  const Node* view = g.make(Op::kReshape, DType::kF32, {b, shape_node(g, local)});
  return unshard(g, view, {{axis}, {device_range(g, device_count(tuple))}});
}
const Node* reshape(Graph& g, const Node* x, std::vector<int64_t> d) {
  return g.make(Op::kReshape, x->dtype, {x, shape_node(g, d)});
}

TEST(Shard, DeviceTuplesAreNamesJoinedByCommas) {
  EXPECT_EQ(split_devices(kTwo), (std::vector<std::string>{"CPU:0", "CPU:1"}));
  EXPECT_EQ(join_devices(split_devices(kTwo)), kTwo);
  EXPECT_TRUE(split_devices("").empty());
  EXPECT_EQ(device_count(""), 0);
  EXPECT_EQ(device_count("CPU"), 1);
  EXPECT_EQ(device_count(kTwo), 2);
  EXPECT_EQ(device_position(kTwo, "CPU:1"), 1);
  EXPECT_EQ(device_position(kTwo, "CPU"), -1);
}

TEST(Shard, UnshardMultipliesTheAxis) {
  Graph g;
  const Node* x = sharded(g, {2, 6}, 0, kTwo);
  EXPECT_EQ(max_shape(g, x), (std::vector<int64_t>{4, 6}));
  EXPECT_EQ(device(g, x), kTwo);
  EXPECT_EQ(shard_axis(g, x), 0);
  EXPECT_EQ(local_shape(g, x), (std::vector<int64_t>{2, 6}));
  EXPECT_TRUE(has_buffer_identity(x));
  EXPECT_TRUE(ranges(g, x).empty());
  EXPECT_TRUE(verify_tensor(g, sink(g, NodeVec{x})).ok());
}

TEST(Shard, MSelectPicksAndMStackJoinsDevices) {
  Graph g;
  const Node* multi = buffer(g, 0, DType::kF32, 4, AddrSpace::kGlobal, kTwo);
  const Node* part = g.make(Op::kMSelect, DType::kF32, {multi}, int64_t{1});
  EXPECT_EQ(device(g, part), "CPU:1");
  const Node* other = buffer(g, 1, DType::kF32, 4, AddrSpace::kGlobal, "CPU:7");
  EXPECT_EQ(device(g, g.make(Op::kMStack, DType::kF32, {part, other})), "CPU:1,CPU:7");
  const Node* all = g.make(Op::kAllReduce, DType::kF32, {multi}, AllReduceArg{Op::kAdd, "CPU:9"});
  EXPECT_EQ(device(g, all), "CPU:9");
}

TEST(Shard, AxisFollowsTheOps) {
  Graph g;
  const Node* x = sharded(g, {2, 6}, 0, kTwo);
  const Node* y = sharded(g, {4, 3}, 1, kTwo);
  EXPECT_EQ(shard_axis(g, add(g, x, y)), 1);  // the last one wins
  EXPECT_EQ(shard_axis(g, add(g, y, x)), 0);
  const Node* row = sharded(g, {3}, 0, kTwo);
  EXPECT_EQ(shard_axis(g, add(g, reshape(g, const_float(g, 1, DType::kF32), {1, 1}), row)), 1);
  EXPECT_EQ(shard_axis(g, g.make(Op::kPermute, DType::kF32, {x}, Ints{1, 0})), 1);
  EXPECT_EQ(shard_axis(g, g.make(Op::kExpand, DType::kF32, {x, shape_node(g, Ints{5, 7})})), 2);
  EXPECT_EQ(shard_axis(g, g.make(Op::kStack, DType::kF32, {x, x})), 1);
  EXPECT_EQ(shard_axis(g, g.make(Op::kReduce, DType::kF32, {y}, ReduceArg{Op::kAdd, 1})), 0);
  EXPECT_EQ(shard_axis(g, g.make(Op::kReduce, DType::kF32, {x}, ReduceArg{Op::kAdd, 1})),
            std::nullopt);
  EXPECT_EQ(shard_axis(g, g.make(Op::kCopy, DType::kF32, {x}, std::string("CPU:0"))), std::nullopt);
  EXPECT_EQ(shard_axis(g, g.make(Op::kCopy, DType::kF32, {x}, kTwo)), 0);
  const auto shrink = [&](Ints at, Ints size) {
    return g.make(Op::kShrink, DType::kF32, {x, shape_node(g, at), shape_node(g, size)});
  };
  EXPECT_EQ(shard_axis(g, shrink({0, 1}, {4, 2})), 0);
  EXPECT_EQ(shard_axis(g, shrink({2, 0}, {2, 6})), std::nullopt);
}

TEST(Shard, ReshapeKeepsTheParts) {
  Graph g;
  const Node* x = sharded(g, {2, 6}, 0, kTwo);
  EXPECT_EQ(shard_axis(g, reshape(g, x, {24})), 0);
  EXPECT_EQ(shard_axis(g, reshape(g, x, {1, 4, 6})), 1);
  EXPECT_EQ(shard_axis(g, reshape(g, x, {8, 3})), 0);
  const Node* y = sharded(g, {4, 3}, 1, kTwo);
  EXPECT_EQ(shard_axis(g, reshape(g, y, {2, 2, 6})), 2);
  EXPECT_EQ(shard_axis(g, reshape(g, y, {4, 2, 3})), 1);
  EXPECT_TRUE(g.status().ok());
}

TEST(Shard, ReshapeThatMovesItemsBetweenShardsIsRefused) {
  Graph g;
  sharding(g, reshape(g, sharded(g, {2, 3}, 0, kTwo), {3, 4}));
  ASSERT_FALSE(g.status().ok());
  EXPECT_EQ(fault_of(g.status().error()), Fault::kMovedShards);
  EXPECT_NE(g.status().error().what.find("moved items between shards"), std::string::npos);
  EXPECT_NE(g.status().error().what.find("x"), std::string::npos);
}

TEST(Shard, ParameterOfAFunctionCarriesItsAxis) {
  Graph g;
  ParamArg arg;
  arg.slot = 0;
  arg.device = kTwo;
  arg.axis = 1;
  const Node* p = g.make(Op::kParam, DType::kF32, {shape_node(g, Ints{4, 6})}, arg);
  EXPECT_EQ(shard_axis(g, p), 1);
  const auto back = parse(g, print(p));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, p);
}

TEST(Shard, SpecRefusesMalformedMultiNodes) {
  Graph g;
  const Node* multi = buffer(g, 0, DType::kF32, 4, AddrSpace::kGlobal, kTwo);
  const Node* single = buffer(g, 1, DType::kF32, 4, AddrSpace::kGlobal, "CPU:0");
  const Node* bad[] = {
      g.make(Op::kMSelect, DType::kF32, {multi}, int64_t{2}),
      g.make(Op::kMSelect, DType::kF32, {single}, int64_t{1}),
      g.make(Op::kMSelect, DType::kF32, {sharded(g, {4}, 0, kTwo)}, int64_t{0}),
      g.make(Op::kMStack, DType::kF32, {single, multi}),
      g.make(Op::kMStack, DType::kF32, {single}),
      g.make(Op::kUnshard, DType::kF32, {multi, device_range(g, 2)}),
      g.make(Op::kUnshard, DType::kF32, {multi, device_range(g, 2)}, Ints{0, 1}),
      g.make(Op::kAllReduce, DType::kF32, {multi}, AllReduceArg{Op::kSub, "CPU:0"}),
  };
  for (const Node* n : bad) EXPECT_FALSE(verify_tensor(g, sink(g, NodeVec{n})).ok()) << print(n);
}

TEST(Shard, LaunchArgumentIsTheBufferOfOneDevice) {
  Graph g;
  const Node* multi = buffer(g, 0, DType::kF32, 4, AddrSpace::kGlobal, kTwo);
  const Node* single = buffer(g, 1, DType::kF32, 4, AddrSpace::kGlobal, "CPU:1");
  const Node* part0 = g.make(Op::kMSelect, DType::kF32, {multi}, int64_t{0});
  EXPECT_EQ(launch_argument(g, single, 0), single);
  EXPECT_EQ(launch_argument(g, multi, 0), part0);
  EXPECT_EQ(launch_argument(g, part0, 0), part0);
  const Node* stack = g.make(Op::kMStack, DType::kF32, {part0, single});
  EXPECT_EQ(launch_argument(g, stack, 0), part0);
  EXPECT_EQ(launch_argument(g, stack, 1), single);
}

}  // namespace
}  // namespace modeld::ir
