// EXP2, LOG2, SIN: a stride through every type, the places where methods change, special values.
// The whole of f32 is ulp-sweep's.
#include <gtest/gtest.h>

#include <cmath>

#include "selftest/ops/op_cases.h"
#include "selftest/ops/op_reference.h"
#include "selftest/ops/ulp_sweep.h"
#include "selftest/testing/compiled_kernel.h"
#include "selftest/testing/kernel_builder.h"

namespace modeld::ops {
namespace {

using ir::DType;
using ir::Op;
using testing::host_options;
using testing::KernelBuilder;
using testing::KernelStorage;

constexpr Op kFunctions[] = {Op::kExp2, Op::kLog2, Op::kSin};

void expect_within(Op op, DType t, uint64_t stride, uint64_t count) {
  const auto r = run_sweep(whole_sweep(op, t, stride, count), host_options());
  ASSERT_TRUE(r.ok()) << r.error().what;
  EXPECT_EQ(r->wrong, 0U) << ir::op_name(op) << " " << ir::dtype_name(t) << ": worst " << r->worst
                          << " units at " << r->worst_at;
  EXPECT_GE(r->values, 65536U);
}

TEST(Transcendental, SinglePrecisionIsWithinOneUnit) {
  for (const Op op : kFunctions) expect_within(op, DType::kF32, 10007, 0);
}

TEST(Transcendental, HalvesAreExhaustive) {
  for (const Op op : kFunctions) {
    expect_within(op, DType::kF16, 1, 0);
    expect_within(op, DType::kBF16, 1, 0);
  }
}

TEST(Transcendental, DoublePrecisionOverTheWholeType) {
  for (const Op op : kFunctions) expect_within(op, DType::kF64, 1, 100000);
}

// Runs one op over values of type t.
std::vector<double> over(Op op, DType t, const std::vector<double>& in, bool noopt = false) {
  ir::Graph g;
  KernelBuilder b(g);
  const auto n = static_cast<int64_t>(in.size());
  const ir::Node* i = b.loop(n);
  const ir::Node* y = b.unary(op, b.at(b.param(1, n, t), i));
  codegen::CodegenOptions o = host_options();
  o.noopt = noopt;
  testing::KernelBatch batch;
  const auto k = batch.add(g, b.kernel(b.param(0, n, t), i, y, {i}), o);
  EXPECT_TRUE(k.ok()) << k.error().what;
  EXPECT_TRUE(batch.build().ok());
  KernelStorage out = KernelStorage::of(t, in.size()), src = KernelStorage::floats(in, t);
  std::vector<KernelStorage*> args{&out, &src};
  EXPECT_TRUE(batch.run(*k, args).ok());
  return out.f;
}

// Arguments next to multiples of pi/2: the bits of the quotient cancel.
TEST(Transcendental, SinNearMultiplesOfPi) {
  std::vector<double> in;
  for (int k = 1; k < 4000; k = k * 5 / 4 + 1) {
    for (const long double at : {1.5707963267948966192313216916397514L * k}) {
      const auto x = static_cast<double>(at);
      in.insert(in.end(), {x, std::nextafter(x, 0), std::nextafter(x, 1e9), -x});
    }
  }
  // Doubles closest to a multiple of pi/2 (6381956970095103 * 2^797) and the ends of the type.
  in.insert(in.end(), {std::ldexp(6381956970095103.0, 797), 0x1p20, std::nextafter(0x1p20, 0),
                       0x1.fffffffffffffp1023, 0x1p1023, 1e22, 5e15, -3.7e300});
  const std::vector<double> got = over(Op::kSin, DType::kF64, in);
  for (size_t k = 0; k < in.size(); ++k) {
    const long double want = std::sin(static_cast<long double>(in[k]));
    EXPECT_LE(units_off(DType::kF64, got[k], want), 2) << in[k];
  }
}

TEST(Transcendental, SpecialValuesOfEveryType) {
  for (const DType t : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    const std::vector<double> in = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1, -1};
    const std::vector<double> e = over(Op::kExp2, t, in);
    const std::vector<double> l = over(Op::kLog2, t, in);
    const std::vector<double> s = over(Op::kSin, t, in);
    EXPECT_EQ(e[0], 1);
    EXPECT_EQ(e[1], 1);
    EXPECT_EQ(e[2], INFINITY);
    EXPECT_EQ(e[3], 0);
    EXPECT_TRUE(std::isnan(e[4]));
    EXPECT_EQ(e[5], 2);
    EXPECT_EQ(e[6], 0.5);
    EXPECT_EQ(l[0], -INFINITY);
    EXPECT_EQ(l[1], -INFINITY);
    EXPECT_EQ(l[2], INFINITY);
    EXPECT_TRUE(std::isnan(l[3]) && std::isnan(l[4]) && std::isnan(l[6]));
    EXPECT_EQ(l[5], 0);
    EXPECT_TRUE(s[0] == 0 && !std::signbit(s[0]) && s[1] == 0 && std::signbit(s[1]));
    EXPECT_TRUE(std::isnan(s[2]) && std::isnan(s[3]) && std::isnan(s[4]));
    EXPECT_EQ(s[5], -s[6]);
  }
}

TEST(Transcendental, ResultsDoNotDependOnVectorWidth) {
  std::vector<double> in;
  for (int k = 0; k < 96; ++k) in.push_back(0.73 * k - 31 + 1e5 * (k % 7 == 0));
  for (const DType t : {DType::kF16, DType::kF32, DType::kF64}) {
    for (const Op op : kFunctions) {
      const std::vector<double> wide = over(op, t, in), one = over(op, t, in, true);
      for (size_t k = 0; k < in.size(); ++k)
        EXPECT_TRUE(wide[k] == one[k] || (std::isnan(wide[k]) && std::isnan(one[k])))
            << ir::op_name(op) << " " << ir::dtype_name(t) << " of " << in[k];
    }
  }
}

}  // namespace
}  // namespace modeld::ops
