#include <cmath>
#include <functional>

#include "runtime/tensor/tensor.h"

#include "selftest/testing/tensor_interp.h"

namespace modeld::tensor {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

class Elementwise : public ::testing::Test {
 protected:
  modeld::testing::TensorLab lab;
  Tensor line(double low, double high, int n) {
    std::vector<double> v;
    for (int i = 0; i < n; ++i)
      v.push_back(static_cast<double>(static_cast<float>(low + (high - low) * i / (n - 1))));
    return lab.floats({n}, v);
  }
  // Largest distance to a double precision function over a line.
  double worst(const std::function<Tensor(const Tensor&)>& op,
               double (*f)(double),
               double low,
               double high,
               bool relative = false) {
    const Tensor x = line(low, high, 4001);
    const auto got = lab.run(op(x));
    double w = got.size() == 4001 ? 0 : 1e9;
    for (size_t i = 0; i < got.size(); ++i) {
      const double want = f(lab.data(x)[i]);
      const double e = std::fabs(got[i] - want);
      w = std::max(w, relative && want != 0 ? e / std::fabs(want) : e);
    }
    return w;
  }
};

TEST_F(Elementwise, BroadcastsRightAligned) {
  const Tensor a = lab.floats({2, 1, 2}, {1, 2, 3, 4});
  const Tensor b = lab.floats({3, 1}, {10, 20, 30});
  const Tensor c = a + b;
  EXPECT_EQ(c.dims(), (Dims{2, 3, 2}));
  EXPECT_THAT(lab.run(c), ElementsAre(11, 12, 21, 22, 31, 32, 13, 14, 23, 24, 33, 34));
}

TEST_F(Elementwise, PromotesByTheLattice) {
  const Tensor u8 = lab.ints({1}, {1}, DType::kU8);
  const Tensor i8 = lab.ints({1}, {1}, DType::kI8);
  const Tensor i32 = lab.ints({1}, {1});
  const Tensor f16 = lab.floats({1}, {1}, DType::kF16);
  const Tensor f32 = lab.floats({1}, {1});
  EXPECT_EQ((u8 + i8).dtype(), DType::kI16);
  EXPECT_EQ((u8 + 3).dtype(), DType::kU8);
  EXPECT_EQ((i32 + 0.5).dtype(), DType::kF32);
  EXPECT_EQ((f16 + 0.5).dtype(), DType::kF16);
  EXPECT_EQ((f16 + i32).dtype(), DType::kF16);
  EXPECT_EQ((f16 * f32).dtype(), DType::kF32);
  EXPECT_EQ((i32 / i32).dtype(), DType::kF32);
  EXPECT_EQ(i32.lt(i32).dtype(), DType::kBool);
  EXPECT_EQ((i32.lt(2) + 1).dtype(), DType::kI32);
  ASSERT_TRUE(lab.g.status().ok());
}

TEST_F(Elementwise, ExactOnes) {
  const Tensor x = lab.floats({8}, {-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, -3.0, 2.75});
  EXPECT_THAT(lab.run(x.round()), ElementsAre(-2, -2, 0, 0, 2, 2, -3, 3));
  EXPECT_THAT(lab.run(x.floor()), ElementsAre(-3, -2, -1, 0, 1, 2, -3, 2));
  EXPECT_THAT(lab.run(x.ceil()), ElementsAre(-2, -1, 0, 1, 2, 3, -3, 3));
  EXPECT_THAT(lab.run(x.abs()), ElementsAre(2.5, 1.5, 0.5, 0.5, 1.5, 2.5, 3, 2.75));
  EXPECT_THAT(lab.run(x.sign()), ElementsAre(-1, -1, -1, 1, 1, 1, -1, 1));
  EXPECT_THAT(lab.run(x.clamp(-1, 2)), ElementsAre(-1, -1, -0.5, 0.5, 1.5, 2, -1, 2));
  EXPECT_THAT(lab.run(1 - x), ElementsAre(3.5, 2.5, 1.5, 0.5, -0.5, -1.5, 4, -1.75));
  EXPECT_THAT(lab.run(x.ge(0.5).cast(DType::kF32)), ElementsAre(0, 0, 0, 1, 1, 1, 0, 1));
  EXPECT_THAT(lab.run(x.gt(0.5).where(x, x.literal(9))),
              ElementsAre(9, 9, 9, 9, 1.5, 2.5, 9, 2.75));
}

TEST_F(Elementwise, RoundDoesNotMoveTheNumberBelowHalf) {
  const double below = std::nextafter(0.5F, 0.0F);
  EXPECT_THAT(lab.run(lab.floats({2}, {below, -below}).round()), ElementsAre(0, 0));
}

TEST_F(Elementwise, IntegerOps) {
  const Tensor a = lab.ints({4}, {7, -7, 7, -7});
  const Tensor b = lab.ints({4}, {2, 2, -2, -2});
  EXPECT_THAT(lab.run(a.floor_div(b)), ElementsAre(3, -4, -4, 3));
  EXPECT_THAT(lab.run(a.trunc_div(b)), ElementsAre(3, -3, -3, 3));
  EXPECT_THAT(lab.run(a.floor_mod(b)), ElementsAre(1, 1, -1, -1));
  EXPECT_THAT(lab.run(a.trunc_mod(b)), ElementsAre(1, -1, 1, -1));
  EXPECT_THAT(lab.run(a.minimum(b)), ElementsAre(2, -7, -2, -7));
  EXPECT_THAT(lab.run(a.bit_and(a.literal(3))), ElementsAre(3, 1, 3, 1));
  EXPECT_THAT(lab.run(lab.ints({2}, {250, 3}, DType::kU8) + 10), ElementsAre(4, 13));  // wraps
  EXPECT_THAT(lab.run(lab.ints({2}, {3, 200}, DType::kU8) - lab.ints({2}, {5, 100}, DType::kU8)),
              ElementsAre(254, 100));
}

TEST_F(Elementwise, HostDivisionNeverTraps) {
  const Tensor low = lab.ints({2}, {INT64_MIN, 5}, DType::kI64);
  const Tensor by = lab.ints({2}, {-1, 0}, DType::kI64);
  for (const Tensor& t :
       {low.trunc_div(by), low.floor_div(by), low.trunc_mod(by), low.floor_mod(by)}) {
    EXPECT_EQ(lab.run(t).size(), 2U);
  }
}

TEST_F(Elementwise, NanSurvivesClampAndCompare) {
  const Tensor x = lab.floats({2}, {std::nan(""), 1});
  EXPECT_TRUE(std::isnan(lab.run(x.clamp(0, 6))[0]));
  EXPECT_TRUE(std::isnan(lab.run(x.sign())[0]));
  EXPECT_TRUE(std::isnan(lab.run(x.erf())[0]));
  EXPECT_TRUE(std::isnan(lab.run(x.tanh())[0]));
  EXPECT_TRUE(std::isnan(lab.run(x.sigmoid())[0]));
  EXPECT_THAT(lab.run(x.ge(x).cast(DType::kI32)), ElementsAre(0, 1));
  EXPECT_THAT(lab.run(x.le(2).cast(DType::kI32)), ElementsAre(0, 1));
}

TEST_F(Elementwise, FunctionsAreAccurate) {
  EXPECT_LE(worst([](const Tensor& x) { return x.erf(); }, std::erf, -6, 6), 2e-7);
  EXPECT_LE(worst([](const Tensor& x) { return x.tanh(); }, std::tanh, -12, 12, true), 5e-7);
  EXPECT_LE(worst([](const Tensor& x) { return x.exp(); }, std::exp, -20, 20, true), 3e-6);
  EXPECT_LE(worst([](const Tensor& x) { return x.log(); }, std::log, 1e-3, 50), 1e-6);
  EXPECT_LE(worst([](const Tensor& x) { return x.sin(); }, std::sin, -7, 7), 2e-7);
  EXPECT_LE(worst([](const Tensor& x) { return x.cos(); }, std::cos, -3, 3), 5e-7);
  EXPECT_LE(worst([](const Tensor& x) { return x.rsqrt(); },
                  [](double v) { return 1 / std::sqrt(v); }, 0.01, 9, true),
            3e-7);
  EXPECT_LE(worst([](const Tensor& x) { return x.sigmoid(); },
                  [](double v) { return 1 / (1 + std::exp(-v)); }, -100, 100),
            3e-7);
}

TEST_F(Elementwise, PowFollowsIeee) {
  const Tensor x = lab.floats({6}, {-2, -1, 0, 0.5, 2, 9});
  EXPECT_THAT(lab.run(x.pow(2)), ElementsAre(4, 1, 0, 0.25, 4, 81));
  EXPECT_THAT(lab.run(x.pow(3)), ElementsAre(-8, -1, 0, 0.125, 8, 729));
  EXPECT_THAT(lab.run(x.pow(0)), ElementsAre(1, 1, 1, 1, 1, 1));
  EXPECT_THAT(lab.run(x.pow(0.5)),
              ElementsAre(::testing::IsNan(), ::testing::IsNan(), 0,
                          DoubleNear(std::sqrt(0.5), 1e-6), DoubleNear(std::sqrt(2.0), 1e-6), 3));
  const Tensor y = lab.floats({6}, {3, 2, 0, -2, 0.5, 1.5});
  const auto got = lab.run(x.pow(y));
  EXPECT_THAT(got,
              Pointwise(DoubleNear(2e-5), std::vector<double>{-8, 1, 1, 4, std::sqrt(2.0), 27}));
}

TEST_F(Elementwise, HalfDividesInSinglePrecision) {
  const Tensor a = lab.floats({1}, {65504}, DType::kF16);
  const Tensor b = lab.floats({1}, {49152}, DType::kF16);
  EXPECT_THAT(lab.run(a / b), ElementsAre(ir::round_to(DType::kF16, 65504.0 / 49152.0)));
}

TEST_F(Elementwise, CastsAndBitcasts) {
  const Tensor x = lab.floats({3}, {-1.7, 0, 2.9});
  EXPECT_THAT(lab.run(x.cast(DType::kI32)), ElementsAre(-1, 0, 2));
  EXPECT_THAT(lab.run(x.cast(DType::kBool)), ElementsAre(1, 0, 1));
  EXPECT_THAT(lab.run(lab.floats({2}, {1, -2}).bitcast(DType::kU32)),
              ElementsAre(0x3f800000, 0xc0000000));
  const Tensor bytes = lab.floats({2}, {1, -2}).bitcast(DType::kU8);
  EXPECT_EQ(bytes.dims(), (Dims{8}));
  EXPECT_THAT(lab.run(bytes), ElementsAre(0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0));
}

TEST_F(Elementwise, VariablesTakePart) {
  const Tensor v = Tensor::variable(lab.g, "t", 0, 9);
  lab.interp.set_variable("t", 4);
  EXPECT_THAT(lab.run(lab.floats({2}, {1, 2}) * v), ElementsAre(4, 8));
}

TEST_F(Elementwise, FirstErrorIsKeptAndChainsGoOn) {
  const Tensor bad = lab.random({2, 3}, 1) + lab.random({2, 4}, 2);
  const Tensor more = bad.exp().reshape({7, 7}).sum({5});
  EXPECT_EQ(more.dims(), Dims{});
  ASSERT_FALSE(bad.status().ok());
  EXPECT_THAT(bad.status().error().what, HasSubstr("2x3 and 2x4"));
}

}  // namespace
}  // namespace modeld::tensor
