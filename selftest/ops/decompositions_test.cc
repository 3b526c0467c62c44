// Decompositions run to the last value of small types and over edges and random values of wide
// ones: division, modulo, powers, Threefry, halves by their bits.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "selftest/ops/op_reference.h"
#include "selftest/testing/compiled_kernel.h"
#include "selftest/testing/kernel_builder.h"

namespace modeld::ops {
namespace {

using ir::DType;
using ir::Op;
using testing::host_options;
using testing::KernelBatch;
using testing::KernelBuilder;
using testing::KernelStorage;
using N = const ir::Node*;

constexpr Op kDivisions[] = {Op::kCDiv, Op::kCMod, Op::kFloorDiv, Op::kFloorMod};

// Kernels y = op(x, constant) over one x array; all in one call of the compiler.
class ConstantKernels {
 public:
  ConstantKernels(DType t, std::vector<int64_t> x) : t_(t), x_(std::move(x)) {}

  void add(Op op, int64_t d, bool fast) {
    KernelBuilder b(g_);
    const auto n = static_cast<int64_t>(x_.size());
    N i = b.loop(n);
    N y = b.op(op, {b.at(b.param(1, n, t_), i), ir::const_int(g_, d, t_)});
    codegen::CodegenOptions o = host_options();
    o.fast_idiv = fast;
    const auto k = batch_.add(g_, b.kernel(b.param(0, n, t_), i, y, {i}), o);
    ASSERT_TRUE(k.ok()) << ir::op_name(op) << " by " << d << ": " << k.error().what;
    cases_.push_back({op, d, fast, *k});
  }

  void check() {
    const Status built = batch_.build();
    ASSERT_TRUE(built.ok()) << built.error().what;
    KernelStorage in = KernelStorage::ints(x_, t_);
    for (const Case& c : cases_) {
      KernelStorage out = KernelStorage::of(t_, x_.size());
      std::vector<KernelStorage*> args{&out, &in};
      ASSERT_TRUE(batch_.run(c.kernel, args).ok());
      for (size_t k = 0; k < x_.size(); ++k) {
        const Element a[2] = {{0, in.i[k]}, {0, ir::wrap_to(t_, c.d)}};
        ASSERT_EQ(out.i[k], reference(c.op, t_, a).i)
            << ir::op_name(c.op) << " " << ir::dtype_name(t_) << ": " << in.i[k] << " by " << c.d
            << (c.fast ? ", fast" : "");
      }
    }
  }

 private:
  struct Case {
    Op op;
    int64_t d;
    bool fast;
    size_t kernel;
  };
  ir::Graph g_;
  KernelBatch batch_;
  DType t_;
  std::vector<int64_t> x_;
  std::vector<Case> cases_;
};

bool is_quick() {
  return host_options().caps.name == "x86";  // no compiler: all divisors are affordable
}

std::vector<int64_t> all_values(DType t) {
  std::vector<int64_t> out;
  for (int64_t v = ir::int_min(t); v <= ir::int_max(t); ++v) out.push_back(v);
  return out;
}

TEST(Division, ByEveryConstantIsExhaustiveOnBytes) {
  for (const DType t : {DType::kI8, DType::kU8}) {
    ConstantKernels kernels(t, all_values(t));
    int64_t turn = 0;
    for (int64_t d = ir::int_min(t); d <= ir::int_max(t); ++d) {
      if (d == 0 || (!is_quick() && d % 23 != 0 && std::abs(d) > 8)) continue;
      for (const Op op : kDivisions) kernels.add(op, d, ++turn % 2 == 0);
    }
    kernels.check();
  }
}

TEST(Division, ByConstantsIsExhaustiveOnSixteenBits) {
  for (const DType t : {DType::kI16, DType::kU16}) {
    ConstantKernels kernels(t, all_values(t));
    std::vector<int64_t> divisors = {1, 2, 3, 5, 7, 10, 255, 256, 641, ir::int_max(t)};
    if (t == DType::kI16) divisors.insert(divisors.end(), {-1, -2, -3, -7, -256, ir::int_min(t)});
    for (const int64_t d : divisors) {
      for (const Op op : kDivisions) {
        kernels.add(op, d, false);
        kernels.add(op, d, true);
      }
    }
    kernels.check();
  }
}

std::vector<int64_t> wide_values(DType t, uint32_t seed) {
  const int64_t low = ir::int_min(t), high = t == DType::kU64 ? -1 : ir::int_max(t);
  std::vector<int64_t> out = {0, 1, 2, low, low + 1, high, high - 1, high / 2, 1000000007};
  if (!ir::is_unsigned(t)) out.insert(out.end(), {-1, -2, -7, -1000000007});
  for (int64_t& v : out) v = ir::wrap_to(t, v);
  std::mt19937_64 rng(seed);
  while (out.size() < 4096) {
    const auto v = static_cast<int64_t>(rng() >> (rng() % 60));
    out.push_back(ir::wrap_to(t, rng() % 2 ? v : -v));
  }
  return out;
}

TEST(Division, ByRandomConstantsOfWideTypes) {
  for (const DType t : {DType::kI32, DType::kU32, DType::kI64, DType::kU64}) {
    ConstantKernels kernels(t, wide_values(t, 7));
    std::vector<int64_t> divisors = wide_values(t, 8);
    divisors.resize(24);
    for (const int64_t d : divisors) {
      if (d == 0) continue;
      for (const Op op : kDivisions) kernels.add(op, d, d % 2 == 0);
    }
    kernels.check();
  }
}

// y = op(a, b) over pairs.
void expect_pairs(Op op, DType t, const std::vector<int64_t>& a, const std::vector<int64_t>& d) {
  ir::Graph g;
  KernelBuilder b(g);
  const auto n = static_cast<int64_t>(a.size());
  N i = b.loop(n);
  N y = b.op(op, {b.at(b.param(1, n, t), i), b.at(b.param(2, n, t), i)});
  KernelBatch batch;
  const auto k = batch.add(g, b.kernel(b.param(0, n, t), i, y, {i}), host_options());
  ASSERT_TRUE(k.ok()) << k.error().what;
  ASSERT_TRUE(batch.build().ok());
  KernelStorage out = KernelStorage::of(t, a.size());
  KernelStorage x = KernelStorage::ints(a, t), by = KernelStorage::ints(d, t);
  std::vector<KernelStorage*> args{&out, &x, &by};
  ASSERT_TRUE(batch.run(*k, args).ok());
  for (size_t m = 0; m < a.size(); ++m) {
    const Element e[2] = {{0, a[m]}, {0, d[m]}};
    ASSERT_EQ(out.i[m], reference(op, t, e).i)
        << ir::op_name(op) << " " << ir::dtype_name(t) << ": " << a[m] << ", " << d[m];
  }
}

TEST(Division, OfVariablesIsExhaustiveOnBytes) {
  for (const DType t : {DType::kI8, DType::kU8}) {
    std::vector<int64_t> a, d;
    for (const int64_t x : all_values(t)) {
      for (const int64_t y : all_values(t)) {
        if (y == 0) continue;
        a.push_back(x);
        d.push_back(y);
      }
    }
    for (const Op op : kDivisions) expect_pairs(op, t, a, d);
  }
}

TEST(Division, OfVariablesAtRandomInWiderTypes) {
  for (const DType t :
       {DType::kI16, DType::kU16, DType::kI32, DType::kU32, DType::kI64, DType::kU64}) {
    std::vector<int64_t> a = wide_values(t, 1), d = wide_values(t, 2);
    for (size_t k = 0; k < 13; ++k) {  // every edge by every edge
      for (size_t m = 0; m < 13; ++m) {
        a.push_back(wide_values(t, 1)[k]);
        d.push_back(wide_values(t, 1)[m]);
      }
    }
    for (int64_t& v : d) v = v == 0 ? 3 : v;
    for (const Op op : kDivisions) expect_pairs(op, t, a, d);
  }
}

TEST(Powers, OfIntegersWrapAndNegativeOnesAreFractions) {
  for (const DType t : {DType::kI8, DType::kI32, DType::kU32, DType::kI64, DType::kU64}) {
    std::vector<int64_t> a, e;
    for (int64_t base = ir::is_unsigned(t) ? 0 : -12; base <= 12; ++base) {
      for (int64_t power = ir::is_unsigned(t) ? 0 : -3; power <= 70; ++power) {
        a.push_back(base);
        e.push_back(power);
      }
    }
    expect_pairs(Op::kPow, t, a, e);
  }
}

// POW with a constant exponent goes by squaring; half an exponent adds a square root.
TEST(Powers, OfConstantExponents) {
  const std::vector<double> x = {0.5, 1, 1.5, 2, 3, 10, 0.001};
  for (const double e : {0.0, 1.0, 2.0, 3.0, 7.0, -1.0, -2.0, 0.5, 1.5, -0.5, 2.25}) {
    ir::Graph g;
    KernelBuilder b(g);
    const auto n = static_cast<int64_t>(x.size());
    N i = b.loop(n);
    N y = b.op(Op::kPow, {b.at(b.param(1, n), i), b.f(e)});
    KernelBatch batch;
    const auto k = batch.add(g, b.kernel(b.param(0, n), i, y, {i}), host_options());
    ASSERT_TRUE(k.ok()) << k.error().what;
    ASSERT_TRUE(batch.build().ok());
    KernelStorage out = KernelStorage::of(DType::kF32, x.size());
    KernelStorage in = KernelStorage::floats(x);
    std::vector<KernelStorage*> args{&out, &in};
    ASSERT_TRUE(batch.run(*k, args).ok());
    for (size_t m = 0; m < x.size(); ++m) {
      const long double want = std::pow(static_cast<long double>(static_cast<float>(x[m])), e);
      EXPECT_LE(units_off(DType::kF32, out.f[m], want), 4) << x[m] << " ^ " << e;
    }
  }
}

// The published vectors of Threefry-2x32 with 20 rounds (Random123, kat_vectors).
TEST(Threefry, KnownAnswers) {
  const auto packed = [](uint64_t low, uint64_t high) {
    return static_cast<int64_t>(high << 32 | low);
  };
  const std::vector<int64_t> counters = {0, -1, packed(0x243f6a88, 0x85a308d3)};
  const std::vector<int64_t> keys = {0, -1, packed(0x13198a2e, 0x03707344)};
  const std::vector<int64_t> want = {packed(0x6b200159, 0x99ba4efe), packed(0x1cb996fc, 0xbb002be7),
                                     packed(0xc4923a9c, 0x483df7a0)};
  for (size_t k = 0; k < want.size(); ++k) {
    const Element e[2] = {{0, counters[k]}, {0, keys[k]}};
    EXPECT_EQ(reference(Op::kThreefry, DType::kU64, e).i, want[k]);
  }
  expect_pairs(Op::kThreefry, DType::kU64, counters, keys);
}

// f16 and bf16 as integers: every value widens exactly, and floats around every rounding boundary
// round to nearest even; overflow is infinity, NaN stays.
void expect_half_trip(DType t, bool native) {
  std::vector<double> in;
  const auto value = [&](uint32_t bits) -> double {
    return t == DType::kF16 ? ir::f16_bits_to_f32(static_cast<uint16_t>(bits))
                            : ir::bf16_bits_to_f32(static_cast<uint16_t>(bits));
  };
  const uint32_t infinity = t == DType::kF16 ? 0x7c00 : 0x7f80;
  for (uint32_t h = 0; h < infinity; h += t == DType::kF16 ? 1 : 3) {
    const double low = value(h), high = value(h + 1);
    const float middle = static_cast<float>(low + (std::isinf(high) ? 0 : (high - low) / 2));
    in.insert(in.end(), {low, -low, middle, std::nextafter(middle, 0.0F),
                         -static_cast<double>(std::nextafter(middle, INFINITY))});
  }
  in.insert(in.end(), {65519, 65520, 3.4e38, -3.4e38, INFINITY, -INFINITY, NAN, 0x1p-149});
  ir::Graph g;
  KernelBuilder b(g);
  const auto n = static_cast<int64_t>(in.size());
  N i = b.loop(n);
  N half = ir::cast(g, b.at(b.param(1, n), i), t);
  codegen::CodegenOptions o = host_options();
  o.caps.native_f16 = native && o.caps.native_f16;
  KernelBatch batch;
  const auto k = batch.add(g, b.kernel(b.param(0, n, t), i, half, {i}), o);
  ASSERT_TRUE(k.ok()) << k.error().what;
  ASSERT_TRUE(batch.build().ok());
  KernelStorage out = KernelStorage::of(t, in.size()), src = KernelStorage::floats(in);
  std::vector<KernelStorage*> args{&out, &src};
  ASSERT_TRUE(batch.run(*k, args).ok());
  for (size_t m = 0; m < in.size(); ++m) {
    const double want = ir::round_to(t, static_cast<float>(in[m]));
    ASSERT_TRUE(out.f[m] == want || (std::isnan(out.f[m]) && std::isnan(want)))
        << in[m] << " became " << out.f[m] << ", wanted " << want;
    ASSERT_EQ(std::signbit(out.f[m]), std::signbit(want)) << in[m];
  }
}

TEST(DtypeEmulation, HalvesRoundToNearestEven) {
  expect_half_trip(DType::kF16, true);
  expect_half_trip(DType::kBF16, true);
}

TEST(DtypeEmulation, HalvesByBitsRoundAsTheInstructionDoes) {
  if (is_quick()) GTEST_SKIP() << "x86 converts halves by F16C only; the C path runs this";
  expect_half_trip(DType::kF16, false);
}

// A sum of halves is not rounded on the way, a cast to half is.
TEST(DtypeEmulation, ExplicitCastsRoundArithmeticInF32DoesNot) {
  for (const DType t : {DType::kF16, DType::kBF16}) {
    ir::Graph g;
    KernelBuilder b(g);
    N i = b.loop(4);
    N x = b.at(b.param(1, 4, DType::kF32), i);
    N y = ir::cast(g, ir::cast(g, x, t), DType::kF32);
    KernelBatch batch;
    const auto k = batch.add(g, b.kernel(b.param(0, 4), i, y, {i}), host_options());
    ASSERT_TRUE(k.ok());
    ASSERT_TRUE(batch.build().ok());
    KernelStorage out = KernelStorage::of(DType::kF32, 4);
    KernelStorage in = KernelStorage::floats(std::vector<double>{1.001, 3.14159, -2.7182, 1e-3});
    std::vector<KernelStorage*> args{&out, &in};
    ASSERT_TRUE(batch.run(*k, args).ok());
    for (size_t m = 0; m < 4; ++m)
      EXPECT_EQ(out.f[m], ir::round_to(t, static_cast<float>(in.f[m]))) << ir::dtype_name(t);
  }
}

}  // namespace
}  // namespace modeld::ops
