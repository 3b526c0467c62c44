#include "runtime/tensor/nn.h"

#include <cmath>
#include <limits>

#include "selftest/testing/tensor_interp.h"

namespace modeld::tensor {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

// A two-axis problem; one-axis ones use height 1.
struct Case {
  const char* name;
  int64_t batch, channels, height, width, out, kernel_h, kernel_w, groups;
  Dims strides, dilations, begin, end;
};

std::string case_name(const ::testing::TestParamInfo<Case>& p) {
  return p.param.name;
}

const Case kCases[] = {
    {"plain", 1, 3, 5, 6, 4, 3, 3, 1, {}, {}, {}, {}},
    {"pointwise", 2, 4, 3, 3, 5, 1, 1, 1, {}, {}, {}, {}},
    {"pointwise_strided", 1, 4, 5, 7, 2, 1, 1, 1, {2, 3}, {}, {}, {}},
    {"padded_strided", 1, 2, 7, 8, 3, 3, 3, 1, {2, 2}, {}, {1, 1}, {1, 1}},
    {"one_sided", 1, 2, 6, 5, 3, 3, 2, 1, {2, 1}, {}, {0, 1}, {1, 0}},
    {"dilated", 1, 2, 9, 9, 2, 3, 3, 1, {}, {2, 3}, {2, 3}, {2, 3}},
    {"dilated_strided", 1, 1, 11, 10, 2, 3, 2, 1, {2, 3}, {3, 2}, {1, 0}, {0, 2}},
    {"depthwise", 1, 4, 6, 6, 4, 3, 3, 4, {}, {}, {1, 1}, {1, 1}},
    {"grouped", 2, 6, 5, 5, 4, 3, 3, 2, {2, 2}, {}, {1, 1}, {1, 1}},
    {"apart", 1, 2, 7, 6, 3, 2, 2, 1, {3, 2}, {}, {}, {}},
    {"large_kernel", 1, 1, 4, 4, 1, 4, 4, 1, {}, {}, {}, {}},
    {"large_stride", 1, 2, 9, 9, 2, 2, 2, 1, {5, 8}, {}, {}, {}},
};

int64_t one(const Dims& d, size_t i, int64_t fallback) {
  return d.empty() ? fallback : d[i];
}

class Conv : public ::testing::TestWithParam<Case> {};

TEST_P(Conv, MatchesALoop) {
  const Case& c = GetParam();
  modeld::testing::TensorLab lab;
  const Tensor x = lab.random({c.batch, c.channels, c.height, c.width}, 1);
  const int64_t per = c.channels / c.groups;
  const Tensor w = lab.random({c.out, per, c.kernel_h, c.kernel_w}, 2);
  const Tensor b = lab.random({c.out}, 3);
  ConvSpec spec{c.strides, c.dilations, c.begin, c.end, {}, c.groups};
  const Tensor y = conv(x, w, b, spec);
  const int64_t sh = one(c.strides, 0, 1), sw = one(c.strides, 1, 1), dh = one(c.dilations, 0, 1),
                dw = one(c.dilations, 1, 1);
  const int64_t ph = one(c.begin, 0, 0), pw = one(c.begin, 1, 0);
  const int64_t oh = (c.height + ph + one(c.end, 0, 0) - dh * (c.kernel_h - 1) - 1) / sh + 1;
  const int64_t ow = (c.width + pw + one(c.end, 1, 0) - dw * (c.kernel_w - 1) - 1) / sw + 1;
  ASSERT_TRUE(y.status().ok()) << y.status().error().what;
  ASSERT_EQ(y.dims(), (Dims{c.batch, c.out, oh, ow}));
  std::vector<double> want;
  for (int64_t n = 0; n < c.batch; ++n) {
    for (int64_t o = 0; o < c.out; ++o) {
      for (int64_t i = 0; i < oh * ow; ++i) {
        double sum = lab.data(b)[static_cast<size_t>(o)];
        for (int64_t p = 0; p < per; ++p) {
          for (int64_t k = 0; k < c.kernel_h * c.kernel_w; ++k) {
            const int64_t r = i / ow * sh + k / c.kernel_w * dh - ph;
            const int64_t s = i % ow * sw + k % c.kernel_w * dw - pw;
            if (r < 0 || r >= c.height || s < 0 || s >= c.width) continue;
            const int64_t channel = o / (c.out / c.groups) * per + p;
            sum += lab.data(x)[static_cast<size_t>(
                       ((n * c.channels + channel) * c.height + r) * c.width + s)] *
                   lab.data(w)[static_cast<size_t>((o * per + p) * c.kernel_h * c.kernel_w + k)];
          }
        }
        want.push_back(sum);
      }
    }
  }
  EXPECT_THAT(lab.run(y), Pointwise(DoubleNear(1e-5), want));
}

INSTANTIATE_TEST_SUITE_P(Nn, Conv, ::testing::ValuesIn(kCases), case_name);

class ConvTranspose : public ::testing::TestWithParam<Case> {};

TEST_P(ConvTranspose, MatchesALoop) {
  const Case& c = GetParam();
  modeld::testing::TensorLab lab;
  const int64_t per = c.out / c.groups;
  const Tensor x = lab.random({c.batch, c.channels, c.height, c.width}, 1);
  const Tensor w = lab.random({c.channels, per, c.kernel_h, c.kernel_w}, 2);
  const int64_t sh = one(c.strides, 0, 1), sw = one(c.strides, 1, 1), dh = one(c.dilations, 0, 1),
                dw = one(c.dilations, 1, 1);
  const int64_t ph = one(c.begin, 0, 0), pw = one(c.begin, 1, 0);
  for (const int64_t extra : {0, 1}) {
    if (extra >= sh || extra >= sw) continue;
    ConvSpec spec{c.strides, c.dilations, c.begin, c.end, {extra, extra}, c.groups};
    const Tensor y = conv_transpose(x, w, std::nullopt, spec);
    ASSERT_TRUE(y.status().ok()) << y.status().error().what;
    const int64_t oh =
        (c.height - 1) * sh + dh * (c.kernel_h - 1) + 1 - ph - one(c.end, 0, 0) + extra;
    const int64_t ow =
        (c.width - 1) * sw + dw * (c.kernel_w - 1) + 1 - pw - one(c.end, 1, 0) + extra;
    ASSERT_EQ(y.dims(), (Dims{c.batch, c.out, oh, ow}));
    std::vector<double> want(static_cast<size_t>(product(y.dims())), 0);
    for (int64_t n = 0; n < c.batch; ++n) {
      for (int64_t ci = 0; ci < c.channels; ++ci) {
        for (int64_t i = 0; i < c.height * c.width; ++i) {
          for (int64_t p = 0; p < per; ++p) {
            for (int64_t k = 0; k < c.kernel_h * c.kernel_w; ++k) {
              const int64_t r = i / c.width * sh + k / c.kernel_w * dh - ph;
              const int64_t s = i % c.width * sw + k % c.kernel_w * dw - pw;
              if (r < 0 || r >= oh || s < 0 || s >= ow) continue;
              const int64_t o = ci / (c.channels / c.groups) * per + p;
              want[static_cast<size_t>(((n * c.out + o) * oh + r) * ow + s)] +=
                  lab.data(x)[static_cast<size_t>((n * c.channels + ci) * c.height * c.width + i)] *
                  lab.data(w)[static_cast<size_t>((ci * per + p) * c.kernel_h * c.kernel_w + k)];
            }
          }
        }
      }
    }
    EXPECT_THAT(lab.run(y), Pointwise(DoubleNear(1e-5), want)) << "output_padding " << extra;
  }
}

INSTANTIATE_TEST_SUITE_P(Nn, ConvTranspose, ::testing::ValuesIn(kCases), case_name);

struct PoolCase {
  const char* name;
  int64_t height, width;
  WindowSpec spec;
  int64_t out_h, out_w;
};

// ceil_mode last: sizes as ONNX Runtime gives them.
const PoolCase kPools[] = {
    {"even", 4, 6, {{2, 2}, {2, 2}, {}, {}, {}, false, false}, 2, 3},
    {"overlap", 7, 7, {{3, 3}, {2, 2}, {}, {}, {}, false, false}, 3, 3},
    {"padded", 5, 5, {{3, 3}, {2, 2}, {}, {1, 1}, {1, 1}, false, false}, 3, 3},
    {"padded_counted", 5, 5, {{3, 3}, {1, 1}, {}, {1, 0}, {0, 1}, false, true}, 4, 4},
    {"ceil", 6, 5, {{3, 2}, {2, 2}, {}, {}, {}, true, false}, 3, 3},
    {"ceil_padded", 6, 6, {{3, 3}, {2, 2}, {}, {1, 1}, {1, 1}, true, false}, 4, 4},
    {"ceil_starts_inside", 4, 4, {{1, 1}, {3, 2}, {}, {}, {}, true, false}, 2, 2},
    {"ceil_counted", 6, 6, {{3, 3}, {2, 2}, {}, {1, 1}, {1, 1}, true, true}, 4, 4},
    {"dilated", 7, 8, {{2, 3}, {1, 2}, {3, 2}, {1, 1}, {1, 1}, false, false}, 6, 3},
};

class Pool : public ::testing::TestWithParam<PoolCase> {};

TEST_P(Pool, MatchesALoop) {
  const PoolCase& c = GetParam();
  modeld::testing::TensorLab lab;
  const Tensor x = lab.random({1, 2, c.height, c.width}, 5);
  const Tensor most = max_pool(x, c.spec);
  const Tensor mean = average_pool(x, c.spec);
  ASSERT_TRUE(x.status().ok()) << x.status().error().what;
  ASSERT_EQ(most.dims(), (Dims{1, 2, c.out_h, c.out_w}));
  ASSERT_EQ(mean.dims(), most.dims());
  const WindowSpec& s = c.spec;
  const int64_t ph = one(s.pads_begin, 0, 0), pw = one(s.pads_begin, 1, 0);
  const int64_t dh = one(s.dilations, 0, 1), dw = one(s.dilations, 1, 1);
  const int64_t high_h = c.height + (s.count_include_pad ? one(s.pads_end, 0, 0) : 0);
  const int64_t high_w = c.width + (s.count_include_pad ? one(s.pads_end, 1, 0) : 0);
  std::vector<double> want_max, want_mean;
  for (int64_t n = 0; n < 2 * c.out_h * c.out_w; ++n) {
    const int64_t channel = n / (c.out_h * c.out_w);
    double best = -std::numeric_limits<double>::infinity(), sum = 0, count = 0;
    for (int64_t k = 0; k < s.kernel[0] * s.kernel[1]; ++k) {
      const int64_t r = n / c.out_w % c.out_h * s.strides[0] + k / s.kernel[1] * dh - ph;
      const int64_t q = n % c.out_w * s.strides[1] + k % s.kernel[1] * dw - pw;
      const bool counted = s.count_include_pad ? r < high_h && q < high_w
                                               : r >= 0 && q >= 0 && r < high_h && q < high_w;
      count += counted ? 1 : 0;
      if (r < 0 || q < 0 || r >= c.height || q >= c.width) continue;
      const double v = lab.data(x)[static_cast<size_t>((channel * c.height + r) * c.width + q)];
      best = std::max(best, v);
      sum += v;
    }
    want_max.push_back(best);
    want_mean.push_back(sum / count);
  }
  EXPECT_THAT(lab.run(most), Pointwise(DoubleNear(0), want_max));
  EXPECT_THAT(lab.run(mean), Pointwise(DoubleNear(1e-6), want_mean));
}

INSTANTIATE_TEST_SUITE_P(Nn, Pool, ::testing::ValuesIn(kPools), [](const auto& p) {
  return std::string(p.param.name);
});

class Nn : public ::testing::Test {
 protected:
  modeld::testing::TensorLab lab;
};

TEST_F(Nn, ConvOneAxisAndHalf) {
  const Tensor x = lab.floats({1, 1, 4}, {1, 2, 3, 4}, DType::kF16);
  const Tensor w = lab.floats({1, 1, 2}, {1, -1}, DType::kF16);
  const Tensor y = conv(x, w, std::nullopt, {});
  EXPECT_EQ(y.dtype(), DType::kF16);
  EXPECT_THAT(lab.run(y), ElementsAre(-1, -1, -1));
}

TEST_F(Nn, ConvErrorsShowTheGeometry) {
  conv(lab.random({1, 3, 4, 4}, 1), lab.random({2, 2, 3, 3}, 2), std::nullopt, {});
  EXPECT_THAT(lab.g.status().error().what,
              HasSubstr("conv: input 1x3x4x4, weight 2x2x3x3, groups 1"));
}

TEST_F(Nn, ConvKernelMustFit) {
  conv(lab.random({1, 1, 2, 2}, 1), lab.random({1, 1, 3, 3}, 2), std::nullopt, {});
  EXPECT_THAT(lab.g.status().error().what, HasSubstr("conv: input 1x1x2x2"));
}

TEST_F(Nn, SoftmaxIsStableAndSumsToOne) {
  const Tensor x = lab.floats({2, 3}, {1000, 1001, 1002, -1, 0, 1});
  const auto p = lab.run(softmax(x, 1));
  const double a = 1 / (1 + std::exp(1.0) + std::exp(2.0));
  EXPECT_THAT(
      p, Pointwise(DoubleNear(1e-6), std::vector<double>{a, a * std::exp(1.0), a * std::exp(2.0), a,
                                                         a * std::exp(1.0), a * std::exp(2.0)}));
  const auto l = lab.run(log_softmax(x, -1));
  EXPECT_NEAR(l[0], std::log(a), 1e-5);
  const auto first = lab.run(softmax(x, 0));
  EXPECT_NEAR(first[0] + first[3], 1, 1e-6);
}

TEST_F(Nn, LayerNormOverTrailingAxes) {
  const Tensor x = lab.floats({2, 4}, {1, 2, 3, 4, -1, -1, 1, 1});
  const auto y = lab.run(layer_norm(x, -1, 0));
  const double s = std::sqrt(1.25);
  EXPECT_THAT(y, Pointwise(DoubleNear(2e-6), std::vector<double>{-1.5 / s, -0.5 / s, 0.5 / s,
                                                                 1.5 / s, -1, -1, 1, 1}));
}

TEST_F(Nn, BatchNormUsesItsConstants) {
  const Tensor x = lab.floats({1, 2, 1, 2}, {1, 2, 3, 4});
  const Tensor y = batch_norm(x, lab.floats({2}, {2, 1}), lab.floats({2}, {0, 10}),
                              lab.floats({2}, {1, 3}), lab.floats({2}, {4, 1}), 0);
  EXPECT_THAT(lab.run(y), Pointwise(DoubleNear(1e-5), std::vector<double>{0, 1, 10, 11}));
}

TEST_F(Nn, InstanceNormPerChannel) {
  const Tensor x = lab.floats({1, 2, 2}, {1, 3, 10, 30});
  EXPECT_THAT(lab.run(instance_norm(x, 0)),
              Pointwise(DoubleNear(1e-6), std::vector<double>{-1, 1, -1, 1}));
}

TEST_F(Nn, ActivationsMatchTheirFormulas) {
  std::vector<double> v;
  for (int i = -80; i <= 80; ++i) v.push_back(i / 8.0);
  const Tensor x = lab.floats({161}, v);
  auto check = [&](const Tensor& y, double (*f)(double)) {
    std::vector<double> want;
    for (const double a : v) want.push_back(f(a));
    EXPECT_THAT(lab.run(y), Pointwise(DoubleNear(4e-6), want));
  };
  check(relu(x), [](double a) { return std::max(a, 0.0); });
  check(relu6(x), [](double a) { return std::min(std::max(a, 0.0), 6.0); });
  check(leaky_relu(x, 0.1), [](double a) { return a < 0 ? 0.1 * a : a; });
  check(elu(x, 1.5), [](double a) { return a < 0 ? 1.5 * (std::exp(a) - 1) : a; });
  check(silu(x), [](double a) { return a / (1 + std::exp(-a)); });
  check(gelu(x), [](double a) { return 0.5 * a * (1 + std::erf(a / std::sqrt(2.0))); });
  check(gelu(x, true), [](double a) {
    return 0.5 * a * (1 + std::tanh(std::sqrt(2 / M_PI) * (a + 0.044715 * a * a * a)));
  });
  check(hard_sigmoid(x, 0.2, 0.5),
        [](double a) { return std::min(std::max(0.2 * a + 0.5, 0.0), 1.0); });
  check(hard_swish(x), [](double a) { return a * std::min(std::max(a / 6 + 0.5, 0.0), 1.0); });
  check(softplus(x), [](double a) { return std::log1p(std::exp(a)); });
  check(mish(x), [](double a) { return a * std::tanh(std::log1p(std::exp(a))); });
}

TEST_F(Nn, AttentionMatchesALoop) {
  const Tensor q = lab.random({2, 3, 4}, 1);
  const Tensor k = lab.random({2, 5, 4}, 2);
  const Tensor v = lab.random({2, 5, 2}, 3);
  std::vector<double> want;
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t i = 0; i < 3; ++i) {
      double p[5], sum = 0;
      for (int64_t j = 0; j < 5; ++j) {
        double dot = 0;
        for (int64_t d = 0; d < 4; ++d)
          dot += lab.data(q)[static_cast<size_t>((b * 3 + i) * 4 + d)] *
                 lab.data(k)[static_cast<size_t>((b * 5 + j) * 4 + d)];
        p[j] = std::exp(dot / 2);
        sum += p[j];
      }
      for (int64_t o = 0; o < 2; ++o) {
        double r = 0;
        for (int64_t j = 0; j < 5; ++j)
          r += p[j] / sum * lab.data(v)[static_cast<size_t>((b * 5 + j) * 2 + o)];
        want.push_back(r);
      }
    }
  }
  EXPECT_THAT(lab.run(scaled_dot_product_attention(q, k, v)), Pointwise(DoubleNear(2e-6), want));
}

// ---- resize ----

struct Line {
  const char* name;
  int64_t in;
  int64_t out;
  ResizeMode mode;
  ResizeCoord coord;
  ResizeNearest nearest;
  std::vector<double> want;  // for the input 0 10 20 30 ...
};

class ResizeLine : public ::testing::TestWithParam<Line> {};

TEST_P(ResizeLine, TakesTheRightElements) {
  const Line& c = GetParam();
  modeld::testing::TensorLab lab;
  std::vector<double> v;
  for (int64_t i = 0; i < c.in; ++i) v.push_back(static_cast<double>(10 * i));
  const Tensor x = lab.floats({1, 1, 1, c.in}, v);
  ResizeSpec spec{{1, 1, 1, c.out}, {}, {}, c.mode, c.coord, c.nearest, 0};
  EXPECT_THAT(lab.run(resize(x, spec, lab.store)), Pointwise(DoubleNear(1e-4), c.want));
}

constexpr auto kN = ResizeMode::kNearest;
constexpr auto kL = ResizeMode::kLinear;
using C = ResizeCoord;
using R = ResizeNearest;
// Expected lists checked with ONNX Runtime 1.30.
INSTANTIATE_TEST_SUITE_P(
    Nn,
    ResizeLine,
    ::testing::Values(
        Line{"up2_floor", 3, 6, kN, C::kAsymmetric, R::kFloor, {0, 0, 10, 10, 20, 20}},
        Line{"up_odd", 4, 6, kN, C::kAsymmetric, R::kFloor, {0, 0, 10, 20, 20, 30}},
        Line{"down2", 6, 3, kN, C::kAsymmetric, R::kFloor, {0, 20, 40}},
        Line{"half_prefer_floor",
             4,
             6,
             kN,
             C::kHalfPixel,
             R::kRoundPreferFloor,
             {0, 0, 10, 20, 20, 30}},
        Line{"down_half_prefer_floor", 4, 2, kN, C::kHalfPixel, R::kRoundPreferFloor, {0, 20}},
        Line{"down_half_prefer_ceil", 4, 2, kN, C::kHalfPixel, R::kRoundPreferCeil, {10, 30}},
        Line{"ceil", 4, 6, kN, C::kAsymmetric, R::kCeil, {0, 10, 20, 20, 30, 30}},
        Line{"linear_half", 2, 4, kL, C::kHalfPixel, R::kFloor, {0, 2.5, 7.5, 10}},
        Line{"linear_align", 2, 4, kL, C::kAlignCorners, R::kFloor, {0, 10.0 / 3, 20.0 / 3, 10}},
        Line{"linear_asymmetric", 2, 4, kL, C::kAsymmetric, R::kFloor, {0, 5, 10, 10}},
        Line{"linear_pytorch_one", 4, 1, kL, C::kPytorchHalfPixel, R::kFloor, {0}},
        Line{"linear_down", 5, 2, kL, C::kHalfPixel, R::kFloor, {7.5, 32.5}}),
    [](const auto& p) { return std::string(p.param.name); });

TEST_F(Nn, ResizeLinearIsSeparable) {
  const Tensor x = lab.random({1, 2, 3, 4}, 9);
  ResizeSpec rows{{1, 2, 5, 4}, {}, {}, kL, C::kHalfPixel, R::kFloor, 0};
  ResizeSpec columns{{1, 2, 5, 7}, {}, {}, kL, C::kHalfPixel, R::kFloor, 0};
  const Tensor once = resize(x, columns, lab.store);
  const Tensor twice = resize(resize(x, rows, lab.store), columns, lab.store);
  EXPECT_EQ(once.dims(), (Dims{1, 2, 5, 7}));
  EXPECT_THAT(lab.run(once), Pointwise(DoubleNear(1e-5), lab.run(twice)));
}

TEST_F(Nn, ResizeCropsAndExtrapolates) {
  const Tensor x = lab.floats({1, 1, 1, 4}, {0, 10, 20, 30});
  ResizeSpec spec{{1, 1, 1, 3}, {}, {0, 0, 0, 0.5, 1, 1, 1, 1.5}, kL, C::kTfCropAndResize,
                  R::kFloor,    -1};
  EXPECT_THAT(lab.run(resize(x, spec, lab.store)), ElementsAre(15, 30, -1));
}

TEST_F(Nn, NearestEnlargementIsAMoveOnly) {
  const Tensor x = lab.random({1, 1, 2, 2}, 1);
  const Tensor y = resize(x, {{1, 1, 6, 4}, {}, {}, kN, C::kAsymmetric, R::kFloor, 0}, lab.store);
  EXPECT_EQ(lab.store.count(), 0U);
  for (const ir::Node* n : ir::toposort(y.node())) EXPECT_FALSE(n->is(ir::Op::kIndex));
}

}  // namespace
}  // namespace modeld::tensor
