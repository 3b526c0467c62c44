#include <cmath>

#include "runtime/tensor/tensor.h"

#include "selftest/testing/tensor_interp.h"

namespace modeld::tensor {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pointwise;

class Reduce : public ::testing::Test {
 protected:
  modeld::testing::TensorLab lab;
};

TEST_F(Reduce, SumsAnyAxes) {
  const Tensor x = lab.floats({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(lab.run(x.sum()), ElementsAre(21));
  EXPECT_THAT(lab.run(x.sum({0})), ElementsAre(5, 7, 9));
  EXPECT_THAT(lab.run(x.sum({-1})), ElementsAre(6, 15));
  EXPECT_EQ(x.sum({0}, true).dims(), (Dims{1, 3}));
  EXPECT_THAT(lab.run(x.max({1})), ElementsAre(3, 6));
  EXPECT_THAT(lab.run(x.min({0})), ElementsAre(1, 2, 3));
  EXPECT_THAT(lab.run(x.prod({1})), ElementsAre(6, 120));
  EXPECT_THAT(lab.run(x.mean({1})), ElementsAre(2, 5));
  EXPECT_THAT(lab.run(x.var({1})), ElementsAre(1, 1));
}

TEST_F(Reduce, ReducesTheLeadingAxesOfAPermutation) {
  const Tensor y = lab.random({2, 3, 4}, 1).sum({0, 2});
  EXPECT_TRUE(y.node()->is(ir::Op::kReduce));
  EXPECT_EQ(y.node()->as<ir::ReduceArg>().axes, 2);
  EXPECT_TRUE(y.node()->src(0)->is(ir::Op::kPermute));
  EXPECT_FALSE(lab.random({1, 3}, 2).sum({0}).node()->is(ir::Op::kReduce));  // size 1: no loop
}

TEST_F(Reduce, AccumulatorTypes) {
  EXPECT_EQ(lab.ints({2}, {1, 2}, DType::kU8).sum().dtype(), DType::kU32);
  EXPECT_EQ(lab.ints({2}, {1, 2}, DType::kI8).sum().dtype(), DType::kI32);
  EXPECT_EQ(lab.ints({2}, {1, 1}, DType::kBool).sum().dtype(), DType::kI32);
  EXPECT_EQ(lab.ints({2}, {1, 2}).mean().dtype(), DType::kF32);
  const Tensor h = lab.floats({3}, {2048, 1, 1}, DType::kF16);
  EXPECT_EQ(h.sum().dtype(), DType::kF16);
  EXPECT_THAT(lab.run(h.sum()),
              ElementsAre(2050));  // 2049 is not a half: steps of f16 would stay at 2048
}

TEST_F(Reduce, IntegersAndBools) {
  EXPECT_THAT(lab.run(lab.ints({3}, {200, 3, 100}, DType::kU8).min()), ElementsAre(3));
  EXPECT_THAT(lab.run(lab.ints({3}, {INT32_MIN, 3, -1}).min()), ElementsAre(INT32_MIN));
  EXPECT_THAT(lab.run(lab.ints({3}, {1, 0, 1}, DType::kBool).min()), ElementsAre(0));
  EXPECT_THAT(lab.run(lab.ints({3}, {1, 0, 1}, DType::kBool).max()), ElementsAre(1));
}

TEST_F(Reduce, ArgmaxTakesTheFirstOrTheLast) {
  const Tensor x = lab.floats({2, 4}, {1, 5, 5, 0, 7, 7, 7, 7});
  EXPECT_THAT(lab.run(x.argmax(1)), ElementsAre(1, 0));
  EXPECT_THAT(lab.run(x.argmax(1, true, true)), ElementsAre(2, 3));
  EXPECT_EQ(x.argmax(1, true).dims(), (Dims{2, 1}));
}

TEST_F(Reduce, CumulativeSum) {
  EXPECT_THAT(lab.run(lab.floats({2, 3}, {1, 2, 3, 4, 5, 6}).cumsum(1)),
              ElementsAre(1, 3, 6, 4, 9, 15));
  EXPECT_THAT(lab.run(lab.floats({2, 2}, {1, 2, 3, 4}).cumsum(0)), ElementsAre(1, 2, 4, 6));
}

struct MatmulCase {
  Dims a;
  Dims b;
  Dims out;
};

class Matmul : public ::testing::TestWithParam<MatmulCase> {};

TEST_P(Matmul, MatchesALoop) {
  modeld::testing::TensorLab lab;
  const MatmulCase& c = GetParam();
  const Tensor a = lab.random(c.a, 1);
  const Tensor b = lab.random(c.b, 2);
  const Tensor y = a.matmul(b);
  ASSERT_EQ(y.dims(), c.out);
  // Both seen as (batch, m, k) x (batch, k, n) with batch broadcasting from size 1.
  const int64_t k = c.a.back();
  const int64_t m = c.a.size() == 1 ? 1 : c.a[c.a.size() - 2];
  const int64_t n = c.b.size() == 1 ? 1 : c.b.back();
  const int64_t batch = product(c.out) / (m * n);
  const int64_t batch_a = a.count() / (m * k);
  const int64_t batch_b = b.count() / (k * n);
  std::vector<double> want;
  for (int64_t i = 0; i < batch; ++i) {
    for (int64_t r = 0; r < m; ++r) {
      for (int64_t s = 0; s < n; ++s) {
        double sum = 0;
        for (int64_t t = 0; t < k; ++t) {
          sum += lab.data(a)[static_cast<size_t>(((i % batch_a) * m + r) * k + t)] *
                 lab.data(b)[static_cast<size_t>(((i % batch_b) * k + t) * n + s)];
        }
        want.push_back(sum);
      }
    }
  }
  EXPECT_THAT(lab.run(y), Pointwise(DoubleNear(1e-5), want));
}

INSTANTIATE_TEST_SUITE_P(Reduce,
                         Matmul,
                         ::testing::Values(MatmulCase{{2, 3}, {3, 4}, {2, 4}},
                                           MatmulCase{{3}, {3, 4}, {4}},
                                           MatmulCase{{2, 3}, {3}, {2}},
                                           MatmulCase{{3}, {3}, {}},
                                           MatmulCase{{5, 2, 3}, {5, 3, 4}, {5, 2, 4}},
                                           MatmulCase{{5, 2, 3}, {3, 1}, {5, 2, 1}},
                                           MatmulCase{{2, 3}, {4, 3, 2}, {4, 2, 2}},
                                           MatmulCase{{2, 1}, {1, 3}, {2, 3}}));

TEST_F(Reduce, HalfMatmulRoundsOnce) {
  const Tensor a = lab.floats({1, 3}, {2048, 1, 1}, DType::kF16);
  const Tensor b = lab.floats({3, 1}, {1, 1, 1}, DType::kF16);
  EXPECT_EQ(a.matmul(b).dtype(), DType::kF16);
  EXPECT_THAT(lab.run(a.matmul(b)), ElementsAre(2050));
}

}  // namespace
}  // namespace modeld::tensor
