// Sharded tensors computed for real: compiled kernels on several CPU devices of this process, with
// every transfer a copy between their memories. Values are compared with sums in double.
#include <cmath>

#include "runtime/ir/sharding.h"
#include "runtime/tensor/shard.h"

#include "selftest/testing/session_lab.h"

namespace modeld::exec::test {
namespace {

// Small multiples of 1/8, the same for the same seed.
std::vector<float> numbers(int64_t count, uint64_t seed) {
  std::vector<float> v;
  uint64_t state = seed * 977 + 13;
  for (int64_t i = 0; i < count; i++) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    v.push_back(static_cast<float>(static_cast<int64_t>((state >> 40) % 33) - 16) / 8);
  }
  return v;
}

class ShardSession : public ::testing::Test {
 protected:
  void use(int64_t devices, const std::function<void(SessionOptions&)>& change = {}) {
    SessionOptions options = lab_options();
    if (change) change(options);
    s = std::make_unique<Session>(g, store, options);
    for (int64_t i = 0; i < devices; i++) names.push_back("CPU:" + std::to_string(i));
  }
  Tensor upload(const Dims& dims, const std::vector<float>& v) {
    auto t = s->upload(v, dims, "CPU");
    EXPECT_TRUE(t.ok()) << t.error().what;
    kept.push_back(*t);
    return s->value(kept.back());
  }
  // A sharded tensor that lies on the devices.
  Live spread(const Dims& dims, const std::vector<float>& v, int64_t axis) {
    const Live t = s->track(tensor::shard(upload(dims, v), names, axis));
    realize(t);
    return t;
  }
  Live spread(const Dims& dims, const std::vector<float>& v) {
    const Live t = s->track(tensor::replicate(upload(dims, v), names));
    realize(t);
    return t;
  }
  void realize(const Live& t) {
    const Status done = s->realize({t});
    ASSERT_TRUE(done.ok()) << done.error().what;
  }
  Values read(const Tensor& t) { return read(s->track(t)); }
  Values read(const Live& t) {
    const auto v = s->read(t);
    EXPECT_TRUE(v.ok()) << v.error().what;
    return v.ok() ? v->to_doubles() : Values{};
  }
  // (m,k) x (k,n) in double.
  static Values product(
      const std::vector<float>& a, const std::vector<float>& b, size_t m, size_t k, size_t n) {
    Values out(m * n, 0);
    for (size_t i = 0; i < m * n; i++) {
      for (size_t j = 0; j < k; j++)
        out[i] += static_cast<double>(a[i / n * k + j]) * static_cast<double>(b[j * n + i % n]);
    }
    return out;
  }
  static void expect_close(const Values& have, const Values& want) {
    ASSERT_EQ(have.size(), want.size());
    double largest = 0;
    for (double w : want) largest = std::max(largest, std::fabs(w));
    for (size_t i = 0; i < want.size(); i++) ASSERT_NEAR(have[i], want[i], 1e-5 * largest) << i;
  }
  // X(m,k) @ W(k,n) with both on the devices, sharded along these axes (-1: whole).
  void matmul(int64_t m, int64_t k, int64_t n, int64_t x_axis, int64_t w_axis) {
    const std::vector<float> a = numbers(m * k, 1), b = numbers(k * n, 2);
    const Live x = x_axis < 0 ? spread({m, k}, a) : spread({m, k}, a, x_axis);
    const Live w = w_axis < 0 ? spread({k, n}, b) : spread({k, n}, b, w_axis);
    const SessionStats before = s->stats();
    const Live y = s->track(s->value(x).matmul(s->value(w)));
    realize(y);
    launches = s->stats().launches - before.launches;
    copies = s->stats().copies - before.copies;
    EXPECT_EQ(ir::device(g, y.node()), ir::join_devices(names));
    expect_close(read(y), product(a, b, static_cast<size_t>(m), static_cast<size_t>(k),
                                  static_cast<size_t>(n)));
  }

  ir::Graph g;
  tensor::WeightStore store;
  std::unique_ptr<Session> s;
  tensor::Devices names;
  std::vector<Live> kept;
  uint64_t launches = 0, copies = 0;
};

TEST_F(ShardSession, RowsTimesWholeOnTwoDevices) {
  use(2);
  matmul(8, 12, 6, 0, -1);
  EXPECT_EQ(launches, 2U);  // one kernel, once per device
  EXPECT_EQ(copies, 0U);
}

TEST_F(ShardSession, WholeTimesColumnsOnFourDevices) {
  use(4);
  matmul(8, 12, 16, -1, 1);
  EXPECT_EQ(launches, 4U);
  EXPECT_EQ(copies, 0U);
}

TEST_F(ShardSession, InnerAxisIsAllReducedOnTwoDevices) {
  use(2);
  matmul(8, 12, 6, 1, 0);
  EXPECT_EQ(copies, 2U);
}

TEST_F(ShardSession, InnerAxisIsAllReducedOnFourDevicesEveryWay) {
  for (const auto& [ring, all2all] : {std::pair{1, 0}, std::pair{2, 0}, std::pair{0, 2}}) {
    for (const bool in_place : {true, false}) {
      names.clear();
      use(4, [&, r = ring, a = all2all](SessionOptions& o) {
        o.schedule.ring = r;
        o.schedule.all2all = a;
        o.schedule.allreduce_in_place = in_place;
      });
      matmul(8, 16, 10, 1, 0);
      EXPECT_EQ(copies, ring < 2 && all2all < 2 ? 12U : 24U);
    }
  }
}

TEST_F(ShardSession, OptimisedKernelsAndThreadsGiveTheSame) {
  use(4, [](SessionOptions& o) {
    o.compile.noopt = false;
    o.device.threads = 2;
  });
  matmul(64, 64, 32, 0, -1);
  matmul(64, 64, 32, 1, 0);
}

TEST_F(ShardSession, AChainKeepsItsTemporariesOnEachDevice) {
  use(2);
  const std::vector<float> v = numbers(8 * 6, 3);
  const Live x = spread({8, 6}, v, 0);
  const Tensor h = (s->value(x) * 2 + 1).contiguous();
  const Tensor y = ((h * h).contiguous().sum({1}, true) + h).contiguous().sum({0});
  Values want(6, 0);
  for (size_t r = 0; r < 8; r++) {
    double row = 0;
    for (size_t c = 0; c < 6; c++) row += std::pow(v[r * 6 + c] * 2.0 + 1, 2);
    for (size_t c = 0; c < 6; c++) want[c] += row + v[r * 6 + c] * 2.0 + 1;
  }
  expect_close(read(y), want);
}

TEST_F(ShardSession, SumsOfVariableLengthGoTheNaiveWay) {
  use(3, [](SessionOptions& o) { o.schedule.ring = 2; });
  const std::vector<float> v = numbers(6 * 8, 8);
  const Live x = spread({6, 8}, v, 0);
  const Node* n = ir::variable(g, "n", 1, 8);
  for (const int64_t length : {5, 8}) {
    const auto bound = schedule::bind(g, n, length);
    ASSERT_TRUE(bound.ok()) << bound.error().what;
    const ir::NodeVec sizes{ir::const_int(g, 6), ir::cast(g, *bound, DType::kWeakInt)};
    const Node* head = g.make(Op::kShrink, DType::kF32,
                              {s->value(x).node(), ir::shape_node(g, ir::Ints{0, 0}),
                               g.make(Op::kStack, DType::kWeakInt, sizes)});
    const Live sum =
        s->track({g, g.make(Op::kReduce, DType::kF32, {head}, ir::ReduceArg{Op::kAdd, 1})});
    const uint64_t before = s->stats().copies;
    realize(sum);
    EXPECT_EQ(s->stats().copies - before, 6U);  // 3 x 2, never around a ring
    Values want(static_cast<size_t>(length), 0);
    for (size_t i = 0; i < want.size(); i++) {
      for (size_t r = 0; r < 6; r++) want[i] += static_cast<double>(v[r * 8 + i]);
    }
    expect_close(read(sum), want);
  }
}

TEST_F(ShardSession, AssignmentStaysInPlace) {
  use(2);
  const std::vector<float> v = numbers(4 * 6, 4);
  const Live x = spread({4, 6}, v, 1);
  const Node* before = s->canonical(ir::unsharded_base(x.node()));
  const Status done = s->assign(x, s->value(x) * 3);
  ASSERT_TRUE(done.ok()) << done.error().what;
  realize(x);
  EXPECT_EQ(s->canonical(ir::unsharded_base(x.node())), before);
  Values want;
  for (float f : v) want.push_back(3.0 * f);
  expect_close(read(x), want);
}

TEST_F(ShardSession, AssignmentAcrossAxesIsRefused) {
  use(2);
  const Live x = spread({4, 6}, numbers(24, 5), 0), y = spread({4, 6}, numbers(24, 6), 1);
  const Status done = s->assign(x, s->value(y) + 1);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(ir::fault_of(done.error()), Fault::kAssignAxis);
}

TEST_F(ShardSession, AStaleReadOfAPartKeepsTheOldValues) {
  for (const bool old_first : {true, false}) {
    names.clear();
    use(2);
    const std::vector<float> v = numbers(4 * 6, 7);
    const Live x = spread({4, 6}, v, 0);
    const Live old = s->track(tensor::to(s->value(x), "CPU:0"));
    ASSERT_TRUE(s->assign(x, Tensor::full(g, {4, 6}, 10, DType::kF32)).ok());
    if (old_first) realize(old);
    realize(x);
    Values want(v.begin(), v.end());
    expect_close(read(old), want);
    expect_close(read(x), Values(24, 10.0));
  }
}

TEST_F(ShardSession, APlanIsRefused) {
  use(2);
  const Tensor x = tensor::shard(Tensor::input(g, "x", {4}, DType::kF32), names, 0) + 1;
  const Node* outputs[] = {x.node()};
  const auto made = exec::realize(g, outputs, store, {{"x", std::vector<std::byte>(16)}});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, Errc::kUnsupported);
  EXPECT_NE(made.error().what.find("a plan sits on one device"), std::string::npos)
      << made.error().what;
}

TEST_F(ShardSession, UnshardedWorkBesideItIsUntouched) {
  use(2);
  const Tensor a = upload({4}, {1, 2, 3, 4});
  EXPECT_EQ(read(a + 1), (Values{2, 3, 4, 5}));
  const Live x = spread({4}, {1, 2, 3, 4}, 0);
  EXPECT_EQ(read(tensor::to(s->value(x), "CPU") + a), (Values{2, 4, 6, 8}));
}

}  // namespace
}  // namespace modeld::exec::test
