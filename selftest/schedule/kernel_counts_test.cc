// The kernel count table: how many kernels each graph takes, and that they compute the right
// values.
#include "runtime/schedule/create_linear_with_vars.h"
#include "runtime/schedule/transform_to_call.h"

#include "selftest/schedule/schedule_lab.h"

namespace modeld::schedule::test {
namespace {

using tensor::ConvSpec;
using tensor::WindowSpec;

TEST(KernelCount, ElementwiseChainWithMovementIsOneKernel) {
  ScheduleLab lab;
  const Tensor x = lab.random({4, 6}, 1);
  EXPECT_EQ(lab.kernels({(x * 2 + 1).reshape({6, 4}).permute({1, 0}).pad({1, 0}, {0, 2}).exp2()}),
            1);
}

TEST(KernelCount, ConcatIsOneKernel) {
  ScheduleLab lab;
  const Tensor parts[] = {lab.random({2, 3}, 1).exp2(), lab.random({4, 3}, 2),
                          lab.random({1, 3}, 3)};
  EXPECT_EQ(lab.kernels({tensor::concat(parts, 0).slice({{1, 6}, {0, 2}}).flip({0})}), 1);
}

TEST(KernelCount, ValueUsedTwiceWithTheSameIndexingIsOneKernel) {
  ScheduleLab lab;
  const Tensor e = lab.random({4, 4}, 1).exp2();
  EXPECT_EQ(lab.kernels({e * 3 + e}), 1);
}

TEST(KernelCount, ValuePlusItsTransposeIsOneKernel) {
  ScheduleLab lab;
  const Tensor e = lab.random({4, 4}, 1).exp2();
  EXPECT_EQ(lab.kernels({e + e.transpose(0, 1)}), 1);
}

TEST(KernelCount, BroadcastElementwiseIsRecomputedInOneKernel) {
  ScheduleLab lab;
  const Tensor e = lab.random({4}, 1).exp2();
  EXPECT_EQ(lab.kernels({lab.random({4, 4}, 2) + e.expand({4, 4})}), 1);
}

TEST(KernelCount, SumThenBroadcastAddIsTwoKernels) {
  ScheduleLab lab;
  const Tensor x = lab.random({4, 5}, 1);
  EXPECT_EQ(lab.kernels({x + x.sum({1}, true)}), 2);
  EXPECT_EQ(lab.kernels({lab.random({5, 4}, 2) + x.sum({1})}), 2);
}

TEST(KernelCount, MinusMaxSoftmaxLayerNormVar) {
  ScheduleLab lab;
  const Tensor x = lab.random({4, 6}, 1);
  EXPECT_EQ(lab.kernels({x - x.max({1}, true)}), 2);
  EXPECT_EQ(lab.kernels({tensor::softmax(x, 1)}), 3);
  EXPECT_EQ(lab.kernels({tensor::layer_norm(x, 1, 1e-5)}), 3);
  EXPECT_EQ(lab.kernels({x.var({1})}), 2);
}

TEST(KernelCount, ConvWithItsEpilogueIsOneKernel) {
  ScheduleLab lab;
  const Tensor x = lab.random({1, 3, 6, 7}, 1), w = lab.random({3, 3, 3, 3}, 2);
  ConvSpec same;
  same.pads_begin = {1, 1};
  same.pads_end = {1, 1};
  const Tensor y = tensor::conv(x, w, {}, same);
  EXPECT_EQ(lab.kernels({y}), 1);
  EXPECT_EQ(lab.kernels({tensor::relu(y)}), 1);
  const Tensor scale = lab.random({3}, 3), bias = lab.random({3}, 4);
  EXPECT_EQ(lab.kernels({tensor::relu(tensor::channel_affine(y, scale, bias)) + x}), 1);
}

TEST(KernelCount, ConvVariants) {
  ScheduleLab lab;
  const Tensor x = lab.random({1, 4, 7, 8}, 1);
  ConvSpec strided;
  strided.strides = {2, 2};
  strided.pads_begin = {1, 1};
  strided.pads_end = {0, 1};
  strided.groups = 2;
  EXPECT_EQ(
      lab.kernels({tensor::conv(x, lab.random({6, 2, 3, 3}, 2), lab.random({6}, 3), strided)}), 1);
  ConvSpec dilated;
  dilated.dilations = {2, 2};
  EXPECT_EQ(lab.kernels({tensor::conv(x, lab.random({2, 4, 3, 3}, 2), {}, dilated)}), 1);
  ConvSpec depthwise;
  depthwise.groups = 4;
  depthwise.pads_begin = {1, 1};
  depthwise.pads_end = {1, 1};
  EXPECT_EQ(lab.kernels({tensor::conv(x, lab.random({4, 1, 3, 3}, 2), {}, depthwise)}), 1);
}

TEST(KernelCount, ConvConvAndMatmulReluMatmulAreTwoKernels) {
  ScheduleLab lab;
  ConvSpec same;
  same.pads_begin = {1, 1};
  same.pads_end = {1, 1};
  const Tensor x = lab.random({1, 2, 5, 5}, 1);
  const Tensor y = tensor::conv(x, lab.random({3, 2, 3, 3}, 2), {}, same);
  EXPECT_EQ(lab.kernels({tensor::conv(y, lab.random({2, 3, 3, 3}, 3), {}, same)}), 2);
  const Tensor a = lab.random({4, 5}, 1), b = lab.random({5, 6}, 2), c = lab.random({6, 3}, 3);
  EXPECT_EQ(lab.kernels({tensor::relu(a.matmul(b)).matmul(c)}), 2);
}

TEST(KernelCount, ReduceIntoReduceIsOneNestedKernel) {
  ScheduleLab lab;
  const Tensor x = lab.random({3, 4, 5}, 1);
  EXPECT_EQ(lab.kernels({tensor::relu(x.sum({2})).sum({1})}), 1);
}

TEST(KernelCount, ResnetBlockIsTwoKernels) {
  ScheduleLab lab;
  ConvSpec same;
  same.pads_begin = {1, 1};
  same.pads_end = {1, 1};
  const Tensor x = lab.random({1, 3, 4, 4}, 1);
  const auto bn = [&](const Tensor& t, uint64_t seed) {
    const auto channel = [&](uint64_t s) {
      return lab.random({3}, seed + s).reshape({1, 3, 1, 1});
    };
    const Tensor factor = channel(0) * (channel(1).square() + 1e-5).rsqrt();
    return (t - channel(2)) * factor + channel(3);
  };
  const Tensor y = tensor::relu(bn(tensor::conv(x, lab.random({3, 3, 3, 3}, 2), {}, same), 10));
  const Tensor z = bn(tensor::conv(y, lab.random({3, 3, 3, 3}, 3), {}, same), 20);
  EXPECT_EQ(lab.kernels({tensor::relu(z + x)}), 2);
}

TEST(KernelCount, PoolsCumsumGatherAndConcatConvAreOneKernelEach) {
  ScheduleLab lab;
  const Tensor x = lab.random({1, 2, 6, 6}, 1);
  WindowSpec pool;
  pool.kernel = {2, 2};
  pool.strides = {2, 2};
  EXPECT_EQ(lab.kernels({tensor::max_pool(x, pool)}), 1);
  EXPECT_EQ(lab.kernels({tensor::average_pool(x, pool)}), 1);
  EXPECT_EQ(lab.kernels({lab.random({512}, 2).cumsum(0)}, 1e-4), 1);
  const Tensor table = lab.random({10, 3}, 3), index = lab.ints({4}, {7, 0, 9, 3});
  EXPECT_EQ(lab.kernels({tensor::gather(table, index, 0)}), 1);
  const Tensor parts[] = {lab.random({1, 2, 4, 4}, 4), lab.random({1, 3, 4, 4}, 5)};
  EXPECT_EQ(
      lab.kernels({tensor::conv(tensor::concat(parts, 1), lab.random({4, 5, 1, 1}, 6), {}, {})}),
      1);
}

TEST(KernelCount, BilinearResizeIsTwoKernels) {
  ScheduleLab lab;
  // One axis after the other: the second pass reads elements of the first at computed places.
  const auto lerp = [&](const Tensor& x, int64_t axis, const Tensor& at) {
    const Tensor low = at.trunc().cast(DType::kI32);
    Dims shape(static_cast<size_t>(x.rank()), 1);
    shape[static_cast<size_t>(axis)] = at.count();
    const Tensor part = (at - at.trunc()).reshape(shape);
    const Tensor a = tensor::gather(x, low, axis), b = tensor::gather(x, low + 1, axis);
    return a + (b - a) * part;
  };
  const Tensor x = lab.random({2, 4, 5}, 1);
  const Tensor rows = Tensor::arange(lab.g, 7, DType::kF32) * 0.5,
               cols = Tensor::arange(lab.g, 9, DType::kF32) * 0.5;
  EXPECT_EQ(lab.kernels({lerp(lerp(x, 2, cols), 1, rows)}), 2);
  tensor::ResizeSpec spec;
  spec.dims = {1, 2, 8, 10};
  spec.mode = tensor::ResizeMode::kLinear;
  EXPECT_EQ(lab.kernels({tensor::resize(lab.random({1, 2, 4, 5}, 2), spec, lab.store)}), 1);
}

TEST(KernelCount, AttentionIsFourKernels) {
  ScheduleLab lab;
  const Tensor q = lab.random({2, 3, 4}, 1), k = lab.random({2, 5, 4}, 2),
               v = lab.random({2, 5, 4}, 3);
  EXPECT_EQ(lab.kernels({tensor::scaled_dot_product_attention(q, k, v)}), 4);
}

TEST(KernelCount, EqualExpressionsAreOneKernelByHashConsing) {
  ScheduleLab lab;
  const Tensor a = lab.random({4}, 1), b = lab.random({4}, 2);
  const Tensor s = a + b;
  EXPECT_EQ(lab.kernels({s * 2 + (a + b) * 2}), 1);
  ScheduleLab twice;
  const Tensor c = twice.random({4}, 1), d = twice.random({4}, 2);
  // The second request for one value is a copy of the first, so each output has its own storage.
  EXPECT_EQ(twice.kernels({c + d, c + d}), 2);
}

// The scheduler alone, below make_schedule's promise of a buffer per output: [D] there an output
// that is an input's view, a constant or a repeat is copied, so each of these is one kernel more.
size_t calls_of(ScheduleLab* lab, const std::vector<Tensor>& values) {
  NodeVec nodes;
  for (const Tensor& t : values) nodes.push_back(t.node());
  const auto call = transform_to_call(lab->g, ir::sink(lab->g, nodes), lab->options);
  EXPECT_TRUE(call.ok()) << call.error().what;
  if (!call.ok()) return 0;
  const auto linear = create_linear_with_vars(lab->g, call->call, lab->options);
  EXPECT_TRUE(linear.ok()) << linear.error().what;
  return linear.ok() ? linear->linear->nsrc : 0;
}

TEST(KernelCount, WhatNeedsNoStorageTakesNoKernel) {
  ScheduleLab lab;
  const Tensor x = lab.random({8, 4}, 1);
  EXPECT_EQ(calls_of(&lab, {Tensor::arange(lab.g, 16, DType::kI32)}), 0U);
  EXPECT_EQ(calls_of(&lab, {x.slice({{2, 5}}).contiguous()}), 0U);
  EXPECT_EQ(calls_of(&lab, {x.reshape({32})}), 0U);
  EXPECT_EQ(lab.kernels({Tensor::arange(lab.g, 16, DType::kF32)}), 1);
  EXPECT_EQ(lab.kernels({x.slice({{2, 5}})}), 1);
}

TEST(KernelCount, TheSameExpressionAskedForTwiceIsOneKernel) {
  ScheduleLab lab;
  const Tensor a = lab.random({4}, 1), b = lab.random({4}, 2);
  EXPECT_EQ(calls_of(&lab, {a + b, a + b}), 1U);
  EXPECT_EQ(lab.kernels({a + b, a + b}), 2);
}

TEST(KernelCount, TwoOutputsOfOneProducer) {
  ScheduleLab lab;
  const Tensor e = lab.random({4, 4}, 1).exp2();
  EXPECT_EQ(lab.kernels({e + 1, e * 2}), 2);
  const Tensor c = lab.random({4, 4}, 1).exp2().contiguous();
  EXPECT_EQ(lab.kernels({c + 1, c * 2}), 3);
}

TEST(KernelCount, HeadsBelowAConcatDoNotRunForEachOther) {
  ScheduleLab lab;
  const Tensor x = lab.random({1, 8}, 1);
  std::vector<Tensor> heads;
  for (uint64_t n = 0; n < 3; n++)
    heads.push_back(tensor::relu(x.matmul(lab.random({8, 5}, n + 2))));
  EXPECT_EQ(lab.kernels({tensor::concat(heads, 1)}), 4);
  lab.options.stage_padded_reduce = false;
  EXPECT_EQ(lab.kernels({tensor::concat(heads, 1)}), 1);
}

TEST(KernelCount, ASmallBorderAroundAReduceStaysOneKernel) {
  ScheduleLab lab;
  EXPECT_EQ(lab.kernels({lab.random({8, 8, 3}, 1).sum({2}).pad({0, 1}, {0, 1})}), 1);
}

TEST(KernelCount, HugeSumIsTwoKernels) {
  ScheduleLab lab;
  const Tensor x = lab.random({1 << 16}, 1);
  EXPECT_EQ(lab.kernels({x.sum()}, 1e-4), 2);
  lab.options.split_reduceop = false;
  EXPECT_EQ(lab.kernels({x.sum()}, 1e-4), 1);
}

}  // namespace
}  // namespace modeld::schedule::test
