// Reduces under every way of splitting them (UPCAST, UNROLL, groups), on whichever renderer the
// program is linked with: integers are exact, floats stay within the error of a sum in any order.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "selftest/testing/compiled_kernel.h"
#include "selftest/testing/kernel_builder.h"
#include "selftest/testing/kernel_interp.h"

namespace modeld {
namespace {

using ir::DType;
using ir::Op;
using ir::OptOp;
using testing::host_options;
using testing::KernelBatch;
using testing::KernelBuilder;
using testing::KernelStorage;
using N = const ir::Node*;

constexpr int64_t kRows = 8;
constexpr int64_t kColumns = 64;

std::vector<ir::Opts> recipes() {
  std::vector<ir::Opts> out = {{},
                               {{OptOp::kUnroll, 0, 2}},
                               {{OptOp::kUnroll, 0, 4}},
                               {{OptOp::kUnroll, 0, 8}, {OptOp::kUpcast, 0, 2}},
                               {{OptOp::kUpcast, 0, 8}, {OptOp::kUnroll, 0, 4}},
                               {{OptOp::kUpcast, 0, 0}}};
  if (host_options().caps.has_locals) {
    out.insert(out.end(), {{{OptOp::kGroup, 0, 8}},
                           {{OptOp::kGroupTop, 0, 16}},
                           {{OptOp::kGroup, 0, 4}, {OptOp::kUpcast, 0, 4}},
                           {{OptOp::kGroupTop, 0, 8}, {OptOp::kUnroll, 0, 4}},
                           {{OptOp::kLocal, 0, 2}, {OptOp::kGroup, 0, 4}}});
  }
  return out;
}

N row_reduce(KernelBuilder& b, Op op, DType in, DType sum, ir::Opts opts) {
  N i = b.loop(kRows), r = b.reduce_loop(kColumns);
  N x = ir::cast(b.g, b.at(b.param(1, kRows * kColumns, in), b.add(b.times(i, kColumns), r)), sum);
  ir::KernelInfo info;
  info.opts_to_apply = std::move(opts);
  return b.kernel(b.param(0, kRows, sum), i, b.reduce(op, x, {r}), {i}, info);
}

KernelStorage input(DType t) {
  KernelStorage s = KernelStorage::of(t, kRows * kColumns);
  std::mt19937 rng(7);
  for (double& v : s.f)
    v = ir::round_to(
        t, std::ldexp(static_cast<double>(rng()) - 0x1p31, static_cast<int>(rng() % 9) - 34));
  for (int64_t& v : s.i) v = ir::wrap_to(t, static_cast<int64_t>(rng()));
  return s;
}

struct Case {
  Op op;
  DType in, sum;
};

// Every case under every recipe, in one batch; `judge` sees what each gave.
void run_all(
    const std::vector<Case>& cases,
    const std::function<void(const Case&, const KernelStorage& in, const KernelStorage& got)>&
        judge) {
  ir::Graph g;
  KernelBatch batch;
  std::vector<std::pair<Case, ir::Opts>> made;
  for (const Case& c : cases) {
    for (const ir::Opts& opts : recipes()) {
      KernelBuilder b(g);
      const auto k = batch.add(g, row_reduce(b, c.op, c.in, c.sum, opts), host_options());
      ASSERT_TRUE(k.ok()) << k.error().what;
      ASSERT_EQ(batch.program(*k).applied_opts, opts) << ir::opts_text(opts);
      made.emplace_back(c, opts);
    }
  }
  const Status built = batch.build();
  ASSERT_TRUE(built.ok()) << built.error().what;
  for (size_t k = 0; k < made.size(); ++k) {
    const auto& [c, opts] = made[k];
    SCOPED_TRACE(std::string(ir::op_name(c.op)) + " " + ir::dtype_name(c.in) + " " +
                 ir::opts_text(opts));
    KernelStorage in = input(c.in), out = KernelStorage::of(c.sum, kRows);
    KernelStorage* args[] = {&out, &in};
    const Status ok = batch.run(k, args);
    ASSERT_TRUE(ok.ok()) << ok.error().what;
    judge(c, in, out);
  }
}

// Sums and products that wrap are exact too.
TEST(ExpandReduce, IntegersAreExactWhateverTheOpts) {
  std::vector<Case> cases;
  for (const Op op : {Op::kAdd, Op::kMul, Op::kMax})
    for (const auto& [in, sum] : {std::pair{DType::kI8, DType::kI32},
                                  {DType::kI32, DType::kI32},
                                  {DType::kU8, DType::kU32},
                                  {DType::kI64, DType::kI64}})
      cases.push_back({op, in, sum});
  run_all(cases, [](const Case& c, const KernelStorage& in, const KernelStorage& got) {
    for (size_t i = 0; i < kRows; ++i) {
      uint64_t want = static_cast<uint64_t>(in.i[i * kColumns]);
      for (size_t r = 1; r < kColumns; ++r) {
        const int64_t x = in.i[i * kColumns + r];
        const auto u = static_cast<uint64_t>(x);
        want = c.op == Op::kAdd   ? want + u
               : c.op == Op::kMul ? want * u
                                  : static_cast<uint64_t>(std::max(static_cast<int64_t>(want), x));
      }
      ASSERT_EQ(got.i[i], ir::wrap_to(c.sum, static_cast<int64_t>(want))) << i;
    }
  });
}

// n - 1 roundings of at most the sum of the magnitudes each, whatever the order.
TEST(ExpandReduce, FloatsStayWithinTheErrorOfASum) {
  run_all({{Op::kAdd, DType::kF32, DType::kF32}, {Op::kAdd, DType::kF16, DType::kF32}},
          [](const Case&, const KernelStorage& in, const KernelStorage& got) {
            for (size_t i = 0; i < kRows; ++i) {
              long double sum = 0, magnitude = 0;
              for (size_t r = 0; r < kColumns; ++r) {
                sum += in.f[i * kColumns + r];
                magnitude += std::fabs(in.f[i * kColumns + r]);
              }
              const long double bound = (kColumns - 1) * 0x1p-24L * magnitude;
              ASSERT_LE(std::fabs(got.f[i] - sum), bound) << i;
            }
          });
}

TEST(ExpandReduce, TheLargestOfFloatsIsExact) {
  run_all({{Op::kMax, DType::kF32, DType::kF32}, {Op::kMax, DType::kF16, DType::kF32}},
          [](const Case&, const KernelStorage& in, const KernelStorage& got) {
            for (size_t i = 0; i < kRows; ++i) {
              const auto row = in.f.begin() + static_cast<std::ptrdiff_t>(i * kColumns);
              ASSERT_EQ(got.f[i], *std::max_element(row, row + kColumns)) << i;
            }
          });
}

}  // namespace
}  // namespace modeld
