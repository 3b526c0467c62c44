// 8-bit floats in kernels: every pattern widened, every place between two patterns narrowed, and
// arithmetic, on whichever renderer the program is linked with (host_options()), against the
// formats' definitions.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "selftest/testing/compiled_kernel.h"
#include "selftest/testing/float8_truth.h"
#include "selftest/testing/kernel_builder.h"
#include "selftest/testing/kernel_interp.h"

namespace modeld {
namespace {

using ir::DType;
using ir::Op;
using testing::float8_nearest;
using testing::float8_value;
using testing::host_options;
using testing::KernelBatch;
using testing::KernelBuilder;
using testing::KernelStorage;
using testing::kFloat8Types;
using N = const ir::Node*;

KernelStorage ran(ir::Graph& g, N ast, DType out_type, KernelStorage in, bool noopt = false) {
  codegen::CodegenOptions o = host_options();
  o.noopt = noopt;
  KernelBatch batch;
  KernelStorage out = KernelStorage::of(out_type, in.size());
  const auto k = batch.add(g, ast, o);
  EXPECT_TRUE(k.ok()) << (k.ok() ? "" : k.error().what);
  const Status built = batch.build();
  EXPECT_TRUE(built.ok()) << (built.ok() ? "" : built.error().what);
  if (!k.ok() || !built.ok()) return out;
  KernelStorage* args[] = {&out, &in};
  const Status ok = batch.run(*k, args);
  EXPECT_TRUE(ok.ok()) << (ok.ok() ? "" : ok.error().what);
  return out;
}

// The patterns as bytes, made floats by the kernel.
TEST(Float8Run, EveryPatternIsWidened) {
  for (const DType t : kFloat8Types) {
    for (const bool noopt : {false, true}) {
      SCOPED_TRACE(std::string(ir::dtype_name(t)) + (noopt ? " noopt" : ""));
      ir::Graph g;
      KernelBuilder b(g);
      N i = b.loop(256);
      N x = g.make(Op::kBitCast, t, {b.at(b.param(1, 256, DType::kU8), i)});
      N ast = b.kernel(b.param(0, 256), i, ir::cast(g, x, DType::kF32), {i});
      KernelStorage in = KernelStorage::of(DType::kU8, 256);
      for (int k = 0; k < 256; ++k) in.i[static_cast<size_t>(k)] = k;
      const KernelStorage out = ran(g, ast, DType::kF32, in, noopt);
      for (int k = 0; k < 256; ++k) {
        const double got = out.f[static_cast<size_t>(k)], want = float8_value(t, k);
        ASSERT_TRUE(got == want || (std::isnan(got) && std::isnan(want))) << k << " is " << got;
        if (!std::isnan(want)) {
          ASSERT_EQ(std::signbit(got), std::signbit(want)) << k;
        }
      }
    }
  }
}

// Patterns, middles, and the floats next to both.
std::vector<double> places(DType t) {
  std::vector<double> in = {0.0,     -0.0,     1e38,      -1e38,     0x1p-149, -0x1p-126,
                            1e-20,   INFINITY, -INFINITY, NAN,       65504,    -65519,
                            0x1p-18, -0x1p-18, 0x1.8p-17, 0x1.8p-10, -0x1p-10, 0x1.1p-10};
  for (int bits = 0; bits < 255; ++bits) {
    const double v = float8_value(t, bits), next = float8_value(t, bits + 1);
    if (!std::isfinite(v)) continue;
    const double middle = std::isfinite(next) ? (v + next) / 2 : 1.03125 * v;
    for (const double at : {v, middle}) {
      const auto f = static_cast<float>(at);
      in.insert(in.end(), {at, std::nextafter(f, 1e9F), std::nextafter(f, -1e9F)});
    }
  }
  in.resize((in.size() + 15) / 16 * 16);
  return in;
}

TEST(Float8Run, NarrowingTakesTheNearestAndSaturates) {
  for (const DType t : kFloat8Types) {
    SCOPED_TRACE(ir::dtype_name(t));
    const std::vector<double> in = places(t);
    const auto n = static_cast<int64_t>(in.size());
    ir::Graph g;
    KernelBuilder b(g);
    N i = b.loop(n);
    N y = g.make(Op::kBitCast, DType::kU8, {ir::cast(g, b.at(b.param(1, n), i), t)});
    N ast = b.kernel(b.param(0, n, DType::kU8), i, y, {i});
    const KernelStorage out = ran(g, ast, DType::kU8, KernelStorage::floats(in));
    for (size_t k = 0; k < in.size(); ++k) {
      const auto bits = static_cast<int>(out.i[k]);
      if (std::isnan(in[k])) {
        ASSERT_TRUE(std::isnan(float8_value(t, bits))) << "NaN became " << bits;
      } else {
        ASSERT_EQ(bits, float8_nearest(t, in[k])) << in[k];
      }
    }
  }
}

// Loads, products in f32, one rounding at the store; sums of many in f32.
TEST(Float8Run, ArithmeticIsDoneInSinglePrecision) {
  for (const DType t : kFloat8Types) {
    SCOPED_TRACE(ir::dtype_name(t));
    ir::Graph g;
    KernelBuilder b(g);
    N i = b.loop(256);
    N x = b.at(b.param(1, 256, t), i);
    N y = b.add(b.mul(x, x), b.f(0.4375, t));
    N ast = b.kernel(b.param(0, 256, t), i, y, {i});
    KernelStorage in = KernelStorage::of(t, 256);
    for (int k = 0; k < 256; ++k) in.f[static_cast<size_t>(k)] = float8_value(t, k);
    const KernelStorage out = ran(g, ast, t, in);
    const double c = float8_value(t, float8_nearest(t, 0.4375));
    for (size_t k = 0; k < 256; ++k) {
      const double v = in.f[k];
      const double sum = static_cast<double>(static_cast<float>(v * v + c));
      const int bits = float8_nearest(t, sum);
      if (bits < 0) {
        ASSERT_TRUE(std::isnan(out.f[k])) << v;
      } else {
        ASSERT_EQ(out.f[k], float8_value(t, bits)) << v;
      }
    }
  }
}

TEST(Float8Run, SumsOfManyDoNotRoundOnTheWay) {
  for (const DType t : kFloat8Types) {
    ir::Graph g;
    KernelBuilder b(g);
    N i = b.loop(2), r = b.reduce_loop(256);
    N x = ir::cast(g, b.at(b.param(1, 512, t), b.add(b.times(i, 256), r)), DType::kF32);
    N ast = b.kernel(b.param(0, 2), i, b.reduce(Op::kAdd, x, {r}), {i});
    KernelStorage in = KernelStorage::of(t, 512);
    for (size_t k = 0; k < 512; ++k) in.f[k] = k < 256 ? 1.125 : -0.5;
    for (double& v : in.f) v = ir::round_to(t, v);
    codegen::CodegenOptions o = host_options();
    KernelBatch batch;
    KernelStorage out = KernelStorage::of(DType::kF32, 2);
    const auto k = batch.add(g, ast, o);
    ASSERT_TRUE(k.ok()) << k.error().what;
    ASSERT_TRUE(batch.build().ok());
    KernelStorage* args[] = {&out, &in};
    ASSERT_TRUE(batch.run(*k, args).ok());
    EXPECT_EQ(out.f[0], 256 * in.f[0]) << ir::dtype_name(t);
    EXPECT_EQ(out.f[1], -128) << ir::dtype_name(t);
  }
}

}  // namespace
}  // namespace modeld
