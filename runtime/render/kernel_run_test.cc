// Rendered kernels against the interpreter: values, guards, widths, types.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "runtime/ir/derived.h"

#include "selftest/testing/compiled_kernel.h"
#include "selftest/testing/kernel_builder.h"
#include "selftest/testing/kernel_interp.h"

namespace modeld {
namespace {

using ir::DType;
using ir::Node;
using ir::Op;
using testing::host_options;
using testing::KernelBatch;
using testing::KernelBuilder;
using testing::KernelStorage;
using N = const Node*;

std::vector<DType> param_types(N ast, std::vector<int64_t>* sizes) {
  std::map<int64_t, std::pair<DType, int64_t>> found;
  for (N n : ir::toposort(ast)) {
    if (n->op != Op::kParam || n->as<ir::ParamArg>().slot < 0) continue;
    found[n->as<ir::ParamArg>().slot] = {n->dtype, ir::int_value(n->src(0)).value_or(1)};
  }
  std::vector<DType> types;
  for (const auto& [slot, what] : found) {
    types.push_back(what.first);
    sizes->push_back(what.second);
  }
  return types;
}

// Small whole-ish values, so that sums in any order agree closely.
std::vector<KernelStorage> seeded(N ast, uint32_t seed) {
  std::vector<int64_t> sizes;
  const std::vector<DType> types = param_types(ast, &sizes);
  std::mt19937 rng(seed);
  std::vector<KernelStorage> out;
  for (size_t k = 0; k < types.size(); ++k) {
    KernelStorage s = KernelStorage::of(types[k], static_cast<size_t>(sizes[k]));
    for (double& v : s.f) v = static_cast<double>(static_cast<int>(rng() % 257) - 128) / 32;
    for (int64_t& v : s.i) {
      const int64_t small = static_cast<int>(rng() % 41) - 20;
      v = types[k] == DType::kBool ? small & 1 : ir::wrap_to(types[k], small);
      // The interpreter orders 64-bit values as signed.
      if (types[k] == DType::kU64) v = std::abs(small);
    }
    out.push_back(std::move(s));
  }
  return out;
}

std::vector<KernelStorage*> pointers(std::vector<KernelStorage>& v) {
  std::vector<KernelStorage*> out;
  for (KernelStorage& s : v) out.push_back(&s);
  return out;
}

// Absolute and relative error of output values; integers must be equal.
void expect_close(const KernelStorage& got,
                  const KernelStorage& want,
                  double tolerance,
                  const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double scale = 1;
  for (size_t n = 0; n < want.size(); ++n) {
    if (std::isfinite(want.at(n))) scale = std::max(scale, std::fabs(want.at(n)));
  }
  for (size_t n = 0; n < want.size(); ++n) {
    if (!ir::is_float(want.dtype)) {
      ASSERT_EQ(got.i[n], want.i[n]) << what << " element " << n;
    } else if (std::isnan(want.f[n])) {
      ASSERT_TRUE(std::isnan(got.f[n])) << what << " element " << n << " is " << got.f[n];
    } else if (std::isinf(want.f[n])) {
      ASSERT_EQ(got.f[n], want.f[n]) << what << " element " << n;
    } else {
      ASSERT_LE(std::fabs(got.f[n] - want.f[n]), tolerance * scale)
          << what << " element " << n << ": " << got.f[n] << " wanted " << want.f[n];
    }
  }
}

struct Case {
  std::string name;
  N ast;
  double tolerance = 2e-6;
};

std::vector<std::pair<std::string, codegen::CodegenOptions>> variants() {
  std::vector<std::pair<std::string, codegen::CodegenOptions>> out;
  out.emplace_back("cpu", host_options());
  codegen::CodegenOptions o = host_options();
  o.noopt = true;
  out.emplace_back("noopt", o);
  o = host_options();
  o.heuristic = codegen::Heuristic::kReference;
  o.caps.unaligned_vectors = false;
  out.emplace_back("reference", o);
  return out;
}

// Every case under every variant, all in one compiler call.
void run_cases(ir::Graph& g, const std::vector<Case>& cases) {
  ASSERT_TRUE(g.status().ok()) << g.status().error().what;
  KernelBatch batch;
  std::vector<size_t> number;
  for (const Case& c : cases) {
    for (const auto& [name, options] : variants()) {
      auto k = batch.add(g, c.ast, options);
      ASSERT_TRUE(k.ok()) << c.name << " " << name << ": " << k.error().what;
      number.push_back(*k);
    }
  }
  const Status built = batch.build();
  ASSERT_TRUE(built.ok()) << built.error().what;
  size_t at = 0;
  for (const Case& c : cases) {
    std::vector<KernelStorage> want = seeded(c.ast, 7);
    const Status ran = testing::run_kernel(g, c.ast, pointers(want));
    ASSERT_TRUE(ran.ok()) << c.name << ": " << ran.error().what;
    for (const auto& [name, options] : variants()) {
      std::vector<KernelStorage> got = seeded(c.ast, 7);
      const Status ok = batch.run(number[at], pointers(got), {}, at % 3);
      ++at;
      ASSERT_TRUE(ok.ok()) << c.name << " " << name << ": " << ok.error().what;
      expect_close(got[0], want[0], c.tolerance, c.name + " " + name);
    }
  }
}

TEST(KernelRun, ConvolutionsOfOddShapes) {
  ir::Graph g;
  std::vector<Case> cases;
  const auto conv = [&](int64_t ic, int64_t oc, int64_t h, int64_t w, int64_t k, int64_t pad) {
    KernelBuilder b(g);
    cases.push_back({strf("conv %lld %lld %lld %lld %lld", static_cast<long long>(ic),
                          static_cast<long long>(oc), static_cast<long long>(h),
                          static_cast<long long>(w), static_cast<long long>(k)),
                     b.conv(ic, oc, h, w, k, pad)});
  };
  conv(3, 8, 9, 16, 3, 1);
  conv(4, 6, 7, 7, 3, 1);
  conv(5, 3, 5, 13, 3, 0);
  conv(8, 16, 14, 14, 1, 0);
  conv(2, 4, 10, 20, 5, 2);
  conv(1, 1, 1, 1, 1, 0);
  run_cases(g, cases);
}

// op x type over a length that is no multiple of any width.
TEST(KernelRun, ElementwiseOfEveryOpAndType) {
  ir::Graph g;
  std::vector<Case> cases;
  const std::vector<DType> types = {DType::kI8,  DType::kU8,   DType::kI16, DType::kU16,
                                    DType::kI32, DType::kU32,  DType::kI64, DType::kU64,
                                    DType::kF16, DType::kBF16, DType::kF32, DType::kF64};
  const auto tolerance = [](DType t) {
    return t == DType::kF16 ? 2e-3 : t == DType::kBF16 ? 1.6e-2 : t == DType::kF64 ? 1e-14 : 1e-6;
  };
  for (DType t : types) {
    const bool flt = ir::is_float(t);
    std::vector<Op> ops = {Op::kAdd,   Op::kMul,   Op::kSub,   Op::kMax,
                           Op::kCmpLt, Op::kCmpEq, Op::kCmpNe, Op::kWhere};
    if (flt) ops.insert(ops.end(), {Op::kFDiv});
    if (!flt) ops.insert(ops.end(), {Op::kAnd, Op::kOr, Op::kXor, Op::kCDiv, Op::kCMod});
    for (size_t k = 0; k < ops.size(); ++k) {
      // Odd and even lengths: 37 gives no vectors of the heuristic, 48 gives whole ones.
      const int64_t n = k % 2 ? 37 : 48;
      KernelBuilder b(g);
      N i = b.loop(n);
      N x = b.at(b.param(1, n, t), i);
      N y = b.at(b.param(2, n, t), i);
      const bool divides = ops[k] == Op::kCDiv || ops[k] == Op::kCMod || ops[k] == Op::kFDiv;
      if (divides) y = ir::where(g, b.op(Op::kCmpEq, {y, b.f(0, t)}), b.f(3, t), y);
      N v = ops[k] == Op::kWhere ? ir::where(g, ir::lt(g, x, y), x, ir::mul(g, y, x))
                                 : b.op(ops[k], {x, y});
      cases.push_back({strf("%s %s", ir::op_name(ops[k]), ir::dtype_name(t)),
                       b.kernel(b.param(0, n, v->dtype), i, v, {i}), tolerance(t)});
    }
  }
  run_cases(g, cases);
}

TEST(KernelRun, CastsBetweenAllTypes) {
  ir::Graph g;
  std::vector<Case> cases;
  const std::vector<DType> types = {DType::kBool, DType::kI8,  DType::kU8,  DType::kI16,
                                    DType::kI32,  DType::kU32, DType::kI64, DType::kF16,
                                    DType::kBF16, DType::kF32, DType::kF64};
  for (DType from : types) {
    for (DType to : types) {
      if (from == to) continue;
      // Negative floats into unsigned types have no value to agree on.
      const bool undefined = ir::is_float(from) && (ir::is_unsigned(to) && to != DType::kBool);
      KernelBuilder b(g);
      N i = b.loop(32);
      N x = b.at(b.param(1, 32, from), i);
      if (undefined) x = b.op(Op::kMax, {x, b.f(0, from)});
      cases.push_back({strf("%s to %s", ir::dtype_name(from), ir::dtype_name(to)),
                       b.kernel(b.param(0, 32, to), i, ir::cast(g, x, to), {i}),
                       to == DType::kBF16 ? 1e-2 : 1e-3});
    }
  }
  run_cases(g, cases);
}

TEST(KernelRun, ReducesOfOddShapes) {
  ir::Graph g;
  std::vector<Case> cases;
  for (int64_t rows : {1, 3, 8}) {
    for (int64_t cols : {1, 2, 5, 7, 16, 33, 64}) {
      for (Op op : {Op::kAdd, Op::kMax}) {
        KernelBuilder b(g);
        N i = b.loop(rows), r = b.reduce_loop(cols);
        N v = b.reduce(op, b.at(b.param(1, rows * cols), b.add(b.times(i, cols), r)), {r});
        cases.push_back(
            {strf("rows %lld %lld", static_cast<long long>(rows), static_cast<long long>(cols)),
             b.kernel(b.param(0, rows), i, v, {i})});
        KernelBuilder c(g);
        N j = c.loop(cols), q = c.reduce_loop(rows);
        N w = c.reduce(op, c.at(c.param(1, rows * cols, DType::kI32), c.add(c.times(q, cols), j)),
                       {q});
        cases.push_back({"columns", c.kernel(c.param(0, cols, DType::kI32), j, w, {j})});
      }
    }
  }
  run_cases(g, cases);
}

// Mean and variance in one kernel share a loop; softmax's sum needs the maximum first.
TEST(KernelRun, SeveralReducesInOneKernel) {
  ir::Graph g;
  std::vector<Case> cases;
  for (int64_t n : {12, 35, 64}) {
    KernelBuilder b(g);
    N i = b.loop(5), r = b.reduce_loop(n);
    N x = b.at(b.param(1, 5 * n), b.add(b.times(i, n), r));
    N mean = b.mul(b.reduce(Op::kAdd, x, {r}), b.f(1.0 / static_cast<double>(n)));
    N square = b.mul(b.reduce(Op::kAdd, b.mul(x, x), {r}), b.f(1.0 / static_cast<double>(n)));
    cases.push_back({"variance",
                     b.kernel(b.param(0, 5), i, b.op(Op::kSub, {square, b.mul(mean, mean)}), {i}),
                     1e-5});
    KernelBuilder c(g);
    N j = c.loop(5), q = c.reduce_loop(n);
    N y = c.at(c.param(1, 5 * n), c.add(c.times(j, n), q));
    N p = c.reduce_loop(n);
    N z = c.at(c.param(1, 5 * n), c.add(c.times(j, n), p));
    N top = c.reduce(Op::kMax, z, {p});
    N sum = c.reduce(Op::kAdd, c.unary(Op::kExp2, c.op(Op::kSub, {y, top})), {q});
    cases.push_back({"softmax sum", c.kernel(c.param(0, 5), j, sum, {j}), 1e-5});
  }
  run_cases(g, cases);
}

TEST(KernelRun, PadsFlipsTransposesAndGathers) {
  ir::Graph g;
  std::vector<Case> cases;
  for (int64_t n : {5, 16, 23}) {
    KernelBuilder b(g);
    N i = b.loop(n), j = b.loop(n + 3);
    N gate = b.inside(j, 2, n + 2);
    N x = b.padded(b.param(1, n * n), gate, b.add(b.times(i, n), b.add(j, b.i(-2))));
    cases.push_back({"pad", b.kernel(b.param(0, n * (n + 3)), b.add(b.times(i, n + 3), j),
                                     b.add(b.unary(Op::kSqrt, b.mul(x, x)), b.f(1)), {i, j})});
    KernelBuilder c(g);
    N k = c.loop(n), l = c.loop(8);
    N flipped = c.add(c.i(8 * n - 1), c.times(c.add(c.times(k, 8), l), -1));
    cases.push_back({"flip", c.kernel(c.param(0, 8 * n), c.add(c.times(k, 8), l),
                                      c.at(c.param(1, 8 * n), flipped), {k, l})});
    KernelBuilder d(g);
    N p = d.loop(n), q = d.loop(12);
    cases.push_back(
        {"transpose", d.kernel(d.param(0, 12 * n), d.add(d.times(p, 12), q),
                               d.at(d.param(1, 12 * n), d.add(d.times(q, n), p)), {p, q})});
    KernelBuilder e(g);
    N row = e.loop(6), col = e.loop(n);
    // Indices -20 .. 20 are gated to 0 .. 8.
    N pick = ir::cast(g, e.at(e.param(2, 6, DType::kI64), row), DType::kWeakInt);
    N valid = e.inside(pick, 0, 9);
    cases.push_back(
        {"gather",
         e.kernel(e.param(0, 6 * n), e.add(e.times(row, n), col),
                  e.padded(e.param(1, 9 * n), valid, e.add(e.times(pick, n), col)), {row, col})});
  }
  run_cases(g, cases);
}

TEST(KernelRun, OneHotSumReadsTheElement) {
  ir::Graph g;
  std::vector<Case> cases;
  KernelBuilder b(g);
  N i = b.loop(6), r = b.reduce_loop(9);
  N at = b.at(b.param(2, 6, DType::kI32), i);
  N hit = b.op(Op::kCmpNe, {at, ir::cast(g, r, DType::kI32)});
  N v = b.reduce(Op::kAdd, ir::where(g, hit, b.f(0), b.at(b.param(1, 9), r)), {r});
  cases.push_back({"one hot", b.kernel(b.param(0, 6), i, v, {i})});
  run_cases(g, cases);
}

TEST(KernelRun, BooleanValuesAndMasks) {
  ir::Graph g;
  std::vector<Case> cases;
  for (int64_t n : {16, 21}) {
    KernelBuilder b(g);
    N i = b.loop(n);
    N x = b.at(b.param(1, n, DType::kBool), i);
    N y = b.at(b.param(2, n, DType::kBool), i);
    N v = b.op(Op::kOr, {b.op(Op::kAnd, {x, ir::logical_not(g, y)}), b.op(Op::kXor, {x, y})});
    cases.push_back({"bool", b.kernel(b.param(0, n, DType::kBool), i, v, {i})});
    KernelBuilder c(g);
    N j = c.loop(n);
    N p = c.at(c.param(1, n), j);
    N q = c.at(c.param(2, n, DType::kBool), j);
    N m = ir::land(g, ir::lt(g, p, c.f(0.5)), q);
    cases.push_back(
        {"mask", c.kernel(c.param(0, n), j, ir::where(g, m, c.mul(p, c.f(3)), c.f(-1)), {j})});
    KernelBuilder d(g);
    N k = d.loop(n);
    cases.push_back({"iota below", d.kernel(d.param(0, n, DType::kI32), k,
                                            ir::where(g, ir::lt(g, k, d.i(9)),
                                                      d.at(d.param(1, n, DType::kI32), k),
                                                      ir::const_int(g, -5, DType::kI32)),
                                            {k})});
  }
  run_cases(g, cases);
}

TEST(KernelRun, IndexValuesBecomeData) {
  ir::Graph g;
  std::vector<Case> cases;
  KernelBuilder b(g);
  N i = b.loop(7), j = b.loop(16);
  N v =
      ir::cast(g, b.op(Op::kFloorMod, {b.add(b.times(i, 5), b.times(j, -3)), b.i(7)}), DType::kF32);
  cases.push_back({"iota", b.kernel(b.param(0, 112), b.add(b.times(i, 16), j), v, {i, j})});
  run_cases(g, cases);
}

// ---- random kernels ----

// A random expression over loops: reads with affine, padded or flipped indices, arithmetic,
// possibly one reduce.
class RandomKernel {
 public:
  RandomKernel(ir::Graph& g, uint32_t seed) : b_(g), rng_(seed) {}

  N make() {
    constexpr int64_t kSizes[] = {1, 2, 3, 4, 5, 7, 8, 16};
    const size_t dims = 1 + pick(3);
    for (size_t k = 0; k < dims; ++k) sizes_.push_back(kSizes[pick(8)]);
    N index = b_.i(0);
    int64_t total = 1;
    std::vector<N> loops;
    for (int64_t s : sizes_) {
      loops.push_back(b_.loop(s));
      index = b_.add(b_.times(index, s), loops.back());
      total *= s;
    }
    loops_ = loops;
    N value;
    if (pick(2) == 0) {
      N r = b_.reduce_loop(kSizes[pick(8)]);
      loops_.push_back(r);
      sizes_.push_back(ir::vmax(b_.g, r) + 1);
      N inner = expression(3);
      value = b_.reduce(pick(2) ? Op::kAdd : Op::kMax, inner, {r});
      loops_.pop_back();
      sizes_.pop_back();
      if (pick(2)) value = b_.add(value, expression(1));
    } else {
      value = expression(4);
    }
    ir::NodeVec src{b_.store(b_.param(0, total), index, value)};
    src.insert(src.end(), loops.begin(), loops.end());
    return ir::sink(b_.g, ir::NodeVec{b_.g.make(Op::kEnd, DType::kVoid, src)}, ir::KernelInfo{});
  }

 private:
  KernelBuilder b_;
  std::mt19937 rng_;
  std::vector<N> loops_;
  std::vector<int64_t> sizes_;
  int64_t slots_ = 1;

  size_t pick(size_t n) { return rng_() % n; }

  N read() {
    N index = b_.i(0);
    N gate = nullptr;
    int64_t total = 1;
    for (size_t k = loops_.size(); k-- > 0;) {
      if (pick(4) == 0) continue;  // broadcast
      N at = loops_[k];
      int64_t size = sizes_[k];
      if (pick(4) == 0) at = b_.add(b_.i(size - 1), b_.times(at, -1));
      if (pick(3) == 0 && size > 1) {
        const auto low = static_cast<int64_t>(pick(2));
        N valid = b_.inside(at, low, size - static_cast<int64_t>(pick(2)));
        gate = gate == nullptr ? valid : ir::land(b_.g, gate, valid);
      }
      index = b_.add(index, b_.times(at, total));
      total *= size;
    }
    N buffer = b_.param(slots_++, total);
    return gate == nullptr ? b_.at(buffer, index) : b_.padded(buffer, gate, index);
  }

  N expression(int depth) {
    if (depth == 0 || slots_ > 5) return slots_ > 5 ? b_.f(0.5) : read();
    switch (pick(6)) {
      case 0:
        return b_.add(expression(depth - 1), expression(depth - 1));
      case 1:
        return b_.mul(expression(depth - 1), b_.f(0.25));
      case 2:
        return b_.op(Op::kMax, {expression(depth - 1), expression(depth - 1)});
      case 3:
        return ir::where(b_.g, ir::lt(b_.g, expression(depth - 1), b_.f(0)), expression(depth - 1),
                         b_.f(1));
      case 4:
        return ir::where(b_.g, ir::lt(b_.g, loops_[pick(loops_.size())], b_.i(2)),
                         expression(depth - 1), b_.f(-2));
      default:
        return read();
    }
  }
};

TEST(KernelRun, RandomKernelsAgreeWithInterpreter) {
  ir::Graph g;
  std::vector<Case> cases;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    cases.push_back({strf("random kernel, seed %u", seed), RandomKernel(g, seed).make()});
  }
  run_cases(g, cases);
}

// ---- threads, variables, in place ----

TEST(KernelRun, ThreadsSplitTheWork) {
  if (!host_options().caps.has_threads) GTEST_SKIP() << "a renderer without threads";
  ir::Graph g;
  KernelBuilder b(g);
  N i = b.loop(12), j = b.loop(10);
  N at = b.add(b.times(i, 10), j);
  ir::KernelInfo info;
  info.opts_to_apply = ir::Opts{{ir::OptOp::kThread, 0, 3}};
  N ast = b.kernel(b.param(0, 120), at, b.mul(b.at(b.param(1, 120), at), b.f(2)), {i, j}, info);
  KernelBatch batch;
  auto k = batch.add(g, ast, host_options());
  ASSERT_TRUE(k.ok()) << k.error().what;
  EXPECT_EQ(batch.program(*k).info.global_size[0], 3);
  ASSERT_TRUE(batch.build().ok());
  std::vector<KernelStorage> got = seeded(ast, 3);
  ASSERT_TRUE(batch.run(*k, pointers(got)).ok());
  for (size_t n = 0; n < 120; ++n) EXPECT_EQ(got[0].f[n], 2 * got[1].f[n]);
}

TEST(KernelRun, VariablesAreWordsAfterTheBuffers) {
  ir::Graph g;
  KernelBuilder b(g);
  N i = b.loop(16);
  N v = ir::variable(g, "start", 0, 48);
  N ast = b.kernel(b.param(0, 16), i,
                   b.at(b.param(1, 64), b.add(ir::cast(g, v, DType::kWeakInt), i)), {i});
  KernelBatch batch;
  auto k = batch.add(g, ast, host_options());
  ASSERT_TRUE(k.ok()) << k.error().what;
  EXPECT_EQ(batch.program(*k).info.vars, std::vector<std::string>{"start"});
  ASSERT_TRUE(batch.build().ok());
  for (int64_t start : {0, 1, 17, 48}) {
    std::vector<KernelStorage> got = seeded(ast, 3);
    const std::vector<int64_t> vars{start};
    ASSERT_TRUE(batch.run(*k, pointers(got), vars).ok());
    for (size_t n = 0; n < 16; ++n)
      EXPECT_EQ(got[0].f[n], got[1].f[n + static_cast<size_t>(start)]);
  }
}

TEST(KernelRun, InPlaceUpdateReadsBeforeItWrites) {
  ir::Graph g;
  KernelBuilder b(g);
  N i = b.loop(64);
  N p = b.param(0, 64);
  run_cases(g, {{"in place", b.kernel(p, i, b.add(b.mul(b.at(p, i), b.f(2)), b.f(1)), {i})}});
}

TEST(KernelRun, DoubleAccumulatorsKeepWhatFloatsLose) {
  ir::Graph g;
  KernelBuilder b(g);
  N r = b.reduce_loop(1000);
  N ast = b.kernel(b.param(0, 1), b.i(0), b.reduce(Op::kAdd, b.at(b.param(1, 1000), r), {r}), {});
  codegen::CodegenOptions o = host_options();
  o.noopt = true;
  o.double_acc = true;
  KernelBatch batch;
  auto k = batch.add(g, ast, o);
  ASSERT_TRUE(k.ok()) << k.error().what;
  ASSERT_TRUE(batch.build().ok());
  std::vector<KernelStorage> got = seeded(ast, 3);
  for (size_t n = 0; n < 1000; ++n) got[1].f[n] = n == 0 ? 0x1p25 : 1;
  ASSERT_TRUE(batch.run(*k, pointers(got)).ok());
  EXPECT_EQ(got[0].f[0], static_cast<float>(0x1p25 + 999));
}

// ---- special values and transcendentals ----

// Runs one unary op over `inputs`.
std::vector<double> unary_over(Op op,
                               const std::vector<double>& inputs,
                               DType t,
                               const std::function<void(codegen::CodegenOptions&)>& adjust = {}) {
  ir::Graph g;
  KernelBuilder b(g);
  const auto n = static_cast<int64_t>(inputs.size());
  N i = b.loop(n);
  N ast = b.kernel(b.param(0, n, t), i, b.unary(op, b.at(b.param(1, n, t), i)), {i});
  codegen::CodegenOptions o = host_options();
  if (adjust) adjust(o);
  KernelBatch batch;
  auto k = batch.add(g, ast, o);
  EXPECT_TRUE(k.ok()) << k.error().what;
  EXPECT_TRUE(batch.build().ok());
  KernelStorage out = KernelStorage::of(t, inputs.size());
  KernelStorage in = KernelStorage::floats(inputs, t);
  std::vector<KernelStorage*> args{&out, &in};
  EXPECT_TRUE(batch.run(*k, args).ok());
  return out.f;
}

double ulps_f32(double got, double want) {
  const auto w = static_cast<float>(want);
  if (std::isnan(want)) return std::isnan(got) ? 0 : INFINITY;
  if (std::isinf(w) || std::isinf(got)) return static_cast<float>(got) == w ? 0 : INFINITY;
  const double step =
      std::max(std::ldexp(1.0, std::ilogb(std::max(std::fabs(want), 0x1p-126)) - 23), 0x1p-149);
  return std::fabs(got - want) / step;
}

std::vector<double> sweep(double low, double high, int n) {
  std::vector<double> out;
  std::mt19937 rng(11);
  for (int k = 0; k < n; ++k) {
    const double t = (static_cast<double>(k) + static_cast<double>(rng() % 1000) / 1000) / n;
    out.push_back(static_cast<float>(low + (high - low) * t));
  }
  return out;
}

double worst_ulps(Op op,
                  const std::vector<double>& inputs,
                  const std::function<double(double)>& truth) {
  const std::vector<double> got = unary_over(op, inputs, DType::kF32);
  double worst = 0;
  for (size_t n = 0; n < inputs.size(); ++n)
    worst = std::max(worst, ulps_f32(got[n], truth(inputs[n])));
  return worst;
}

// A NaN that relu or max-pool hid would pass the finite check of what it poisoned.
TEST(KernelRun, MaximumLetsANanThrough) {
  for (const int64_t at : {0, 1, 5, 15, 16, 34}) {
    constexpr int64_t kSize = 35;
    ir::Graph g;
    KernelBatch batch;
    std::vector<size_t> kernels;
    KernelBuilder relu(g);
    N i = relu.loop(kSize);
    N x = relu.at(relu.param(1, kSize), i);
    N clipped = relu.op(Op::kMax, {x, relu.f(0)});
    KernelBuilder pair(g);
    N j = pair.loop(kSize);
    N flat = pair.op(Op::kMax, {pair.f(3), pair.at(pair.param(1, kSize), j)});
    KernelBuilder pool(g);
    N k = pool.loop(1), r = pool.reduce_loop(kSize);
    N top = pool.reduce(Op::kMax, pool.at(pool.param(1, kSize), r), {r});
    const N asts[] = {relu.kernel(relu.param(0, kSize), i, clipped, {i}),
                      pair.kernel(pair.param(0, kSize), j, flat, {j}),
                      pool.kernel(pool.param(0, 1), k, top, {k})};
    for (N ast : asts) {
      auto added = batch.add(g, ast, host_options());
      ASSERT_TRUE(added.ok()) << added.error().what;
      kernels.push_back(*added);
    }
    ASSERT_TRUE(batch.build().ok());
    std::vector<double> values(kSize, 1.0);
    values[static_cast<size_t>(at)] = NAN;
    for (size_t n = 0; n < kernels.size(); ++n) {
      KernelStorage out = KernelStorage::of(DType::kF32, n == 2 ? 1 : kSize);
      KernelStorage in = KernelStorage::floats(values, DType::kF32);
      std::vector<KernelStorage*> args{&out, &in};
      ASSERT_TRUE(batch.run(kernels[n], args).ok());
      EXPECT_TRUE(std::isnan(out.f[n == 2 ? 0 : static_cast<size_t>(at)]))
          << "kernel " << n << " NaN at " << at;
    }
  }
}

TEST(Transcendental, Exp2WithinOneUlp) {
  EXPECT_LE(worst_ulps(Op::kExp2, sweep(-152, 130, 40000), [](double x) { return std::exp2(x); }),
            1);
}

TEST(Transcendental, Log2WithinOneUlp) {
  std::vector<double> in = sweep(0.5, 2, 20000);
  for (double e = -148; e < 127; e += 0.37) in.push_back(static_cast<float>(std::exp2(e)));
  EXPECT_LE(worst_ulps(Op::kLog2, in, [](double x) { return std::log2(x); }), 1);
}

TEST(Transcendental, SinWithinOneUlpSmallAndHuge) {
  std::vector<double> in = sweep(-40, 40, 20000);
  for (double e = 4; e < 127; e += 0.171) {
    in.push_back(static_cast<float>(std::exp2(e) * 1.234567));
    in.push_back(-static_cast<float>(std::exp2(e) * 1.7));
  }
  EXPECT_LE(worst_ulps(Op::kSin, in, [](double x) { return std::sin(x); }), 1);
}

TEST(Transcendental, SpecialValues) {
  const double inf = INFINITY;
  const std::vector<double> in = {0.0, -0.0, inf, -inf, NAN, 1, -1, 200, -200, 0x1p-149};
  const auto bits = [](double v) { return std::signbit(v); };
  const std::vector<double> e = unary_over(Op::kExp2, in, DType::kF32);
  EXPECT_EQ(e[0], 1);
  EXPECT_EQ(e[2], inf);
  EXPECT_EQ(e[3], 0);
  EXPECT_TRUE(std::isnan(e[4]));
  EXPECT_EQ(e[5], 2);
  EXPECT_EQ(e[7], inf);
  EXPECT_EQ(e[8], 0);
  const std::vector<double> l = unary_over(Op::kLog2, in, DType::kF32);
  EXPECT_EQ(l[0], -inf);
  EXPECT_EQ(l[1], -inf);
  EXPECT_EQ(l[2], inf);
  EXPECT_TRUE(std::isnan(l[3]));
  EXPECT_TRUE(std::isnan(l[4]));
  EXPECT_EQ(l[5], 0);
  EXPECT_TRUE(std::isnan(l[6]));
  EXPECT_EQ(l[9], -149);
  const std::vector<double> s = unary_over(Op::kSin, in, DType::kF32);
  EXPECT_TRUE(s[0] == 0 && !bits(s[0]));
  EXPECT_TRUE(s[1] == 0 && bits(s[1]));
  EXPECT_TRUE(std::isnan(s[2]) && std::isnan(s[3]) && std::isnan(s[4]));
  const std::vector<double> q = unary_over(Op::kSqrt, in, DType::kF32);
  EXPECT_EQ(q[2], inf);
  EXPECT_TRUE(std::isnan(q[6]));
}

TEST(Transcendental, DoublePrecision) {
  const std::vector<double> in = sweep(0.01, 20, 5000);
  const std::vector<double> e = unary_over(Op::kExp2, in, DType::kF64);
  const std::vector<double> l = unary_over(Op::kLog2, in, DType::kF64);
  const std::vector<double> s = unary_over(Op::kSin, in, DType::kF64);
  for (size_t n = 0; n < in.size(); ++n) {
    EXPECT_NEAR(e[n] / std::exp2(in[n]), 1, 5e-16);
    EXPECT_NEAR(l[n], std::log2(in[n]), 1e-15);
    EXPECT_NEAR(s[n], std::sin(in[n]), 3e-16);
  }
}

// The same value in lane 3 of a vector, in a tail and alone.
TEST(Transcendental, DoNotDependOnVectorWidth) {
  std::vector<double> in(48, 0);
  for (size_t n = 0; n < in.size(); ++n) in[n] = 0.37 * static_cast<double>(n) - 5;
  for (Op op : {Op::kExp2, Op::kSin}) {
    const std::vector<double> wide = unary_over(op, in, DType::kF32);
    const std::vector<double> scalar =
        unary_over(op, in, DType::kF32, [](auto& o) { o.noopt = true; });
    EXPECT_EQ(wide, scalar) << ir::op_name(op);
  }
}

TEST(Transcendental, TruncWithoutInstructionEqualsTrunc) {
  const std::vector<double> in = {0.0,  -0.0,  0.5,      -0.5, 1.5, -1.5, 8388607.5, -8388607.5,
                                  1e10, -1e30, INFINITY, NAN,  2.0, -3.0, 0.999,     -0.999};
  const auto no_trunc = [](codegen::CodegenOptions& o) { o.caps.has_trunc = false; };
  const std::vector<double> got = unary_over(Op::kTrunc, in, DType::kF32, no_trunc);
  for (size_t n = 0; n < in.size(); ++n) {
    if (std::isnan(in[n])) {
      EXPECT_TRUE(std::isnan(got[n]));
      continue;
    }
    EXPECT_EQ(got[n], std::trunc(static_cast<float>(in[n]))) << in[n];
    EXPECT_EQ(std::signbit(got[n]), std::signbit(in[n])) << in[n];
  }
}

// Every half value survives the trip through f32 by bits, and every f32 near a rounding boundary
// rounds as the table functions of the IR do.
TEST(HalfByBits, EqualsIeeeConversion) {
  std::vector<double> in;
  for (uint32_t h = 0; h < 0x7c00; h += 3) {
    const double v = ir::f16_bits_to_f32(static_cast<uint16_t>(h));
    const double next = ir::f16_bits_to_f32(static_cast<uint16_t>(h + 1));
    in.insert(in.end(), {v, -v, (v + next) / 2, v + (next - v) * 0.51});
  }
  in.insert(in.end(), {65519, 65520, 1e30, -1e30, INFINITY, 0x1p-26, 0x1p-25});
  for (double& v : in) v = static_cast<float>(v);
  ir::Graph g;
  KernelBuilder b(g);
  const auto n = static_cast<int64_t>(in.size());
  N i = b.loop(n);
  N half = ir::cast(g, b.at(b.param(1, n), i), DType::kF16);
  N ast = b.kernel(b.param(0, n), i, ir::cast(g, half, DType::kF32), {i});
  codegen::CodegenOptions o = host_options();
  o.caps.native_f16 = false;
  KernelBatch batch;
  auto k = batch.add(g, ast, o);
  ASSERT_TRUE(k.ok()) << k.error().what;
  ASSERT_TRUE(batch.build().ok());
  KernelStorage out = KernelStorage::of(DType::kF32, in.size());
  KernelStorage src = KernelStorage::floats(in, DType::kF32);
  std::vector<KernelStorage*> args{&out, &src};
  ASSERT_TRUE(batch.run(*k, args).ok());
  for (size_t m = 0; m < in.size(); ++m) {
    const float want = ir::f16_bits_to_f32(ir::f32_to_f16_bits(static_cast<float>(in[m])));
    ASSERT_EQ(out.f[m], want) << in[m];
  }
}

TEST(Division, EdgesOfEveryWidth) {
  ir::Graph g;
  for (DType t : {DType::kI32, DType::kI64, DType::kI8}) {
    KernelBuilder b(g);
    N i = b.loop(8);
    N x = b.at(b.param(1, 8, t), i);
    N y = b.at(b.param(2, 8, t), i);
    N ast = b.kernel(b.param(0, 8, t), i, b.op(Op::kCDiv, {x, y}), {i});
    KernelBatch batch;
    auto k = batch.add(g, ast, host_options());
    ASSERT_TRUE(k.ok()) << k.error().what;
    ASSERT_TRUE(batch.build().ok());
    const int64_t least = ir::int_min(t);
    const std::vector<int64_t> a = {7, -7, 7, -7, least, 5, least, 0};
    const std::vector<int64_t> d = {2, 2, -2, -2, -1, 0, 1, 3};
    const std::vector<int64_t> want = {3, -3, -3, 3, least, 0, least, 0};
    KernelStorage out = KernelStorage::of(t, 8);
    KernelStorage p = KernelStorage::ints(a, t);
    KernelStorage q = KernelStorage::ints(d, t);
    std::vector<KernelStorage*> args{&out, &p, &q};
    ASSERT_TRUE(batch.run(*k, args).ok());
    EXPECT_EQ(out.i, want) << ir::dtype_name(t);
  }
}

TEST(Division, FloorFormsOfConstantsAreExhaustiveOnBytes) {
  ir::Graph g;
  KernelBatch batch;
  std::vector<std::pair<int64_t, size_t>> kernels;
  for (Op op : {Op::kFloorDiv, Op::kFloorMod}) {
    for (int64_t d : {1, 2, 3, 7, 8, 100, -3, -8}) {
      KernelBuilder b(g);
      N i = b.loop(256);
      N x = b.at(b.param(1, 256, DType::kI8), i);
      N v = b.op(op, {x, ir::const_int(g, d, DType::kI8)});
      auto k = batch.add(g, b.kernel(b.param(0, 256, DType::kI8), i, v, {i}), host_options());
      ASSERT_TRUE(k.ok()) << k.error().what;
      kernels.emplace_back(op == Op::kFloorDiv ? d : d + 1000, *k);
    }
  }
  ASSERT_TRUE(batch.build().ok());
  for (const auto& [code, k] : kernels) {
    const bool mod = code > 900;
    const int64_t d = mod ? code - 1000 : code;
    KernelStorage out = KernelStorage::of(DType::kI8, 256);
    KernelStorage in = KernelStorage::of(DType::kI8, 256);
    for (int64_t n = 0; n < 256; ++n) in.i[static_cast<size_t>(n)] = n - 128;
    std::vector<KernelStorage*> args{&out, &in};
    ASSERT_TRUE(batch.run(k, args).ok());
    for (size_t n = 0; n < 256; ++n) {
      const double q = std::floor(static_cast<double>(in.i[n]) / static_cast<double>(d));
      const int64_t want = mod ? in.i[n] - static_cast<int64_t>(q) * d : static_cast<int64_t>(q);
      ASSERT_EQ(out.i[n], ir::wrap_to(DType::kI8, want))
          << in.i[n] << " by " << d << (mod ? " mod" : "");
    }
  }
}

}  // namespace
}  // namespace modeld
