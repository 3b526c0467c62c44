#include "runtime/schedule/copy_from_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/ir/derived.h"
#include "runtime/ir/graph.h"
#include "runtime/schedule/assert_all_same_devices.h"

#include "selftest/testing/kernel_interp.h"

namespace modeld::schedule {
namespace {

using ir::AxisType;
using ir::DType;
using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;
using ::testing::HasSubstr;

// Calls by hand: a kernel of PARAM 0 and 1 with 8 elements each, on buffers of devices.
class CopyFromStore : public ::testing::Test {
 protected:
  const Node* buffer(int64_t slot, const std::string& device, int64_t n = 8) {
    return ir::buffer(g, slot, DType::kF32, n, ir::AddrSpace::kGlobal, device);
  }
  const Node* loop(int64_t n) { return ir::range(g, n, 0, AxisType::kWeak); }
  const Node* p(int64_t slot, int64_t n = 8, DType t = DType::kF32) {
    return ir::param(g, slot, t, n, "CPU");
  }
  const Node* index(const Node* source, const Node* at) {
    return g.make(Op::kIndex, source->dtype, {source, at});
  }
  // dst[at] = value over `range` (nullptr: once).
  const Node* kernel(const Node* at, const Node* value, const Node* range, int64_t n = 8) {
    const Node* store = g.make(Op::kStore, DType::kVoid, {index(p(0, n), at), value});
    const Node* body = range == nullptr ? store : g.make(Op::kEnd, DType::kVoid, {store, range});
    return ir::sink(g, NodeVec{body}, ir::KernelInfo{});
  }
  const Node* linear(const Node* body, const Node* dst, const Node* src) {
    const Node* call = g.make(Op::kCall, DType::kVoid, {body, dst, src});
    return g.make(Op::kLinear, DType::kVoid, {call});
  }
  // The only call after copy_from_store.
  const Node* result(const Node* body, const Node* dst, const Node* src) {
    return copy_from_store(g, linear(body, dst, src))->src(0);
  }
  const Node* shrunk(const Node* b, int64_t at, int64_t n) {
    return g.make(Op::kShrink, b->dtype,
                  {b, ir::shape_node(g, ir::Ints{at}), ir::shape_node(g, ir::Ints{n})});
  }

  Graph g;
  const Node* r8 = loop(8);
  const Node* whole = kernel(r8, index(p(1), r8), r8);
};

TEST_F(CopyFromStore, AWholeBufferMovedToAnotherDeviceIsACopy) {
  const Node* call = result(whole, buffer(7, "CPU:1"), buffer(8, "CPU"));
  ASSERT_EQ(call->src(0)->op, Op::kCopy);
  EXPECT_EQ(call->src(0)->as<std::string>(), "CPU:1");
  EXPECT_EQ(call->src(0)->src(0), ir::param(g, 1, DType::kF32, 8, "CPU"));
  EXPECT_EQ(call->src(1), buffer(7, "CPU:1"));
  EXPECT_EQ(call->src(2), buffer(8, "CPU"));
}

TEST_F(CopyFromStore, OneItemIsACopy) {
  const Node* zero = ir::const_int(g, 0);
  const Node* one = kernel(zero, index(p(1, 1), zero), nullptr, 1);
  EXPECT_EQ(result(one, buffer(7, "CPU:1", 1), buffer(8, "CPU", 1))->src(0)->op, Op::kCopy);
}

TEST_F(CopyFromStore, OneItemOfMoreIsACopyOfThatItem) {
  const Node* k = kernel(ir::const_int(g, 5), index(p(1), ir::const_int(g, 2)), nullptr);
  const Node* call = result(k, buffer(7, "CPU:1"), buffer(8, "CPU"));
  ASSERT_EQ(call->src(0)->op, Op::kCopy);
  EXPECT_EQ(call->src(1), shrunk(buffer(7, "CPU:1"), 5, 1));
  EXPECT_EQ(call->src(2), shrunk(buffer(8, "CPU"), 2, 1));
}

TEST_F(CopyFromStore, PartsOfBuffersAreCopiesOfSubBuffers) {
  const Node* r = loop(4);
  const Node* k = kernel(ir::add_const(g, r, 3), index(p(1), ir::add_const(g, r, 2)), r);
  const Node* call = result(k, buffer(7, "CPU:1"), buffer(8, "CPU"));
  ASSERT_EQ(call->src(0)->op, Op::kCopy);
  EXPECT_EQ(call->src(0)->src(0), ir::param(g, 1, DType::kF32, 4, "CPU"));
  EXPECT_EQ(call->src(1), shrunk(buffer(7, "CPU:1"), 3, 4));
  EXPECT_EQ(call->src(2), shrunk(buffer(8, "CPU"), 2, 4));
  testing::BufferMap buffers;
  const double from[] = {0, 1, 2, 3, 4, 5, 6, 7}, to[] = {9, 9, 9, 9, 9, 9, 9, 9};
  buffers[buffer(7, "CPU:1")] = testing::KernelStorage::floats(to);
  buffers[buffer(8, "CPU")] = testing::KernelStorage::floats(from);
  ASSERT_TRUE(testing::run_linear(g, g.make(Op::kLinear, DType::kVoid, {call}), &buffers).ok());
  EXPECT_THAT(buffers.at(buffer(7, "CPU:1")).doubles(),
              ::testing::ElementsAre(9, 9, 9, 2, 3, 4, 5, 9));
}

TEST_F(CopyFromStore, AViewAsAnArgumentIsCopiedAsItIs) {
  const Node* r = loop(4);
  const Node* k = kernel(r, index(p(1, 4), r), r, 4);
  const Node* part = shrunk(buffer(8, "CPU"), 4, 4);
  EXPECT_EQ(result(k, buffer(7, "CPU:1", 4), part)->src(2), part);
}

TEST_F(CopyFromStore, DevicesOfOneKindAreDifferentDevices) {
  EXPECT_EQ(result(whole, buffer(7, "CPU:1"), buffer(8, "CPU:2"))->src(0)->op, Op::kCopy);
  EXPECT_EQ(result(whole, buffer(7, "CPU"), buffer(8, "CPU:2"))->src(0)->op, Op::kCopy);
  EXPECT_EQ(result(whole, buffer(7, "CPU:2"), buffer(8, "CPU:2"))->src(0), whole);
}

TEST_F(CopyFromStore, OnOneDeviceOnlyDiskCopies) {
  EXPECT_EQ(result(whole, buffer(7, "CPU"), buffer(8, "CPU"))->src(0), whole);
  EXPECT_EQ(result(whole, buffer(7, "DISK:x"), buffer(8, "DISK:x"))->src(0)->op, Op::kCopy);
}

// What only looks like a copy stays a kernel, and is then refused.
TEST_F(CopyFromStore, AlmostCopiesStayKernels) {
  const Node* r4 = loop(4);
  const Node* strided = ir::mul_const(g, r4, 2);
  const Node* backward = ir::add_const(g, ir::mul_const(g, r8, -1), 7);
  const Node* gated =
      ir::where(g, ir::lt(g, r8, ir::const_int(g, 3)), r8, ir::const_invalid(g, DType::kWeakInt));
  const Node* two = ir::range(g, 2, 1, AxisType::kWeak);
  const Node* transposed = ir::add(g, ir::mul_const(g, r4, 2), two);
  const Node* straight = ir::add(g, ir::mul_const(g, two, 4), r4);
  const Node* store =
      g.make(Op::kStore, DType::kVoid, {index(p(0), straight), index(p(1), transposed)});
  const std::pair<const char*, const Node*> almost[] = {
      {"cast", kernel(r8, ir::cast(g, index(p(1, 8, DType::kF16), r8), DType::kF32), r8)},
      {"permuted",
       ir::sink(g, NodeVec{g.make(Op::kEnd, DType::kVoid, {store, two, r4})}, ir::KernelInfo{})},
      {"backward", kernel(r8, index(p(1), backward), r8)},
      {"strided", kernel(r4, index(p(1), strided), r4)},
      {"gated", kernel(r8, index(p(1), gated), r8)},
      {"computed", kernel(r8, ir::add(g, index(p(1), r8), index(p(1), r8)), r8)},
      {"a filled value", kernel(r8, ir::const_float(g, 1, DType::kF32), r8)},
      {"repeated", kernel(r8, index(p(1), ir::const_int(g, 0)), r8)}};
  for (const auto& [what, body] : almost) {
    const Node* l = linear(body, buffer(7, "CPU:1"), buffer(8, "CPU"));
    EXPECT_EQ(copy_from_store(g, l), l) << what;
    const Status s = assert_all_same_devices(g, l);
    ASSERT_FALSE(s.ok()) << what;
    EXPECT_EQ(ir::fault_of(s.error()), ir::Fault::kMixedDevices) << what;
  }
}

using AssertAllSameDevices = CopyFromStore;

TEST_F(AssertAllSameDevices, AKernelOnOneDeviceAndACopyBetweenTwoPass) {
  EXPECT_TRUE(
      assert_all_same_devices(g, linear(whole, buffer(7, "CPU:1"), buffer(8, "CPU:1"))).ok());
  const Node* copy = copy_from_store(g, linear(whole, buffer(7, "CPU:1"), buffer(8, "CPU")));
  EXPECT_TRUE(assert_all_same_devices(g, copy).ok());
}

TEST_F(AssertAllSameDevices, AMixedKernelIsRefusedNamingCallBuffersAndDevices) {
  const Node* sum = kernel(r8, ir::add(g, index(p(1), r8), index(p(1), r8)), r8);
  const Node* fine = g.make(Op::kCall, DType::kVoid, {sum, buffer(1, "CPU"), buffer(2, "CPU")});
  const Node* mixed =
      g.make(Op::kCall, DType::kVoid, {sum, buffer(1, "CPU"), shrunk(buffer(2, "CPU:1", 9), 1, 8)});
  const Status s = assert_all_same_devices(g, g.make(Op::kLinear, DType::kVoid, {fine, mixed}));
  ASSERT_FALSE(s.ok());
  EXPECT_EQ(s.error().code, Errc::kMismatch);
  EXPECT_EQ(ir::fault_of(s.error()), ir::Fault::kMixedDevices);
  EXPECT_EQ(s.error().what,
            "all buffers must be on the same device: in the kernel of call 1 argument 0 (buffer 1) "
            "is on CPU, argument 1 (buffer 2) is on CPU:1");
}

TEST_F(AssertAllSameDevices, ArgumentsWithoutADeviceGoWithAny) {
  const Node* n = ir::variable(g, "n", 0, 3);
  const Node* call =
      g.make(Op::kCall, DType::kVoid, {whole, n, buffer(1, "CPU:3"), buffer(2, "CPU:3")});
  EXPECT_TRUE(assert_all_same_devices(g, g.make(Op::kLinear, DType::kVoid, {call})).ok());
}

}  // namespace
}  // namespace modeld::schedule
