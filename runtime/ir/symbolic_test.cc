#include "runtime/ir/symbolic.h"

#include <functional>
#include <random>

#include "runtime/ir/derived.h"
#include "runtime/ir/print.h"

namespace modeld::ir {
namespace {

// Value of an integer/bool expression for given leaf values; nullopt = Invalid.
std::optional<int64_t> eval(const Node* n, const std::map<const Node*, int64_t>& env) {
  std::map<const Node*, std::optional<int64_t>> memo;
  for (const Node* x : toposort(n)) {
    if (auto it = env.find(x); it != env.end()) {
      memo[x] = it->second;
      continue;
    }
    if (is_invalid(x)) {
      memo[x] = std::nullopt;
      continue;
    }
    if (x->op == Op::kConst) {
      memo[x] = int_value(x);
      continue;
    }
    auto v = [&](size_t i) { return memo.at(x->src(i)); };
    if (x->op == Op::kWhere) {
      memo[x] = !v(0) ? std::nullopt : (*v(0) ? v(1) : v(2));
      continue;
    }
    if (x->nsrc != 2 || !v(0) || !v(1)) {
      memo[x] = std::nullopt;
      if (x->op == Op::kCast && v(0)) memo[x] = v(0);
      if (x->op == Op::kNeg && v(0)) memo[x] = -*v(0);
      continue;
    }
    const int64_t a = *v(0);
    const int64_t b = *v(1);
    auto fdiv = [](int64_t p, int64_t q) {
      return p / q - ((p % q != 0) && ((p < 0) != (q < 0)) ? 1 : 0);
    };
    switch (x->op) {
      case Op::kAdd:
        memo[x] = a + b;
        break;
      case Op::kSub:
        memo[x] = a - b;
        break;
      case Op::kMul:
        memo[x] = a * b;
        break;
      case Op::kMax:
        memo[x] = std::max(a, b);
        break;
      case Op::kFloorDiv:
        memo[x] = fdiv(a, b);
        break;
      case Op::kFloorMod:
        memo[x] = a - fdiv(a, b) * b;
        break;
      case Op::kCmpLt:
        memo[x] = a < b;
        break;
      case Op::kCmpNe:
        memo[x] = a != b;
        break;
      case Op::kCmpEq:
        memo[x] = a == b;
        break;
      case Op::kAnd:
        memo[x] = a & b;
        break;
      case Op::kOr:
        memo[x] = a | b;
        break;
      default:
        ADD_FAILURE() << "unexpected op " << op_name(x->op);
    }
  }
  return memo.at(n);
}

class Expressions {
 public:
  Expressions(Graph& g, uint64_t seed) : g_(g), rng_(seed) {
    const int64_t sizes[] = {3, 4, 6};
    for (int64_t i = 0; i < 3; ++i) vars_.push_back(range(g, sizes[i], i, AxisType::kWeak));
  }
  const NodeVec& vars() const { return vars_; }
  int64_t pick(int64_t n) { return static_cast<int64_t>(rng_() % static_cast<uint64_t>(n)); }

  const Node* integer(int depth) {
    if (depth == 0)
      return pick(4) == 0 ? const_int(g_, pick(13) - 3) : vars_[static_cast<size_t>(pick(3))];
    static constexpr int64_t kDivisors[] = {1, 2, 3, 4, 5, 6, 8, 12};
    const Node* a = integer(depth - 1);
    switch (pick(7)) {
      case 0:
      case 1:
        return add(g_, a, integer(depth - 1));
      case 2:
        return mul_const(g_, a, pick(9) - 2);
      case 3:
        return alu(g_, Op::kFloorDiv, {a, const_int(g_, kDivisors[pick(8)])});
      case 4:
        return alu(g_, Op::kFloorMod, {a, const_int(g_, kDivisors[pick(8)])});
      case 5:
        return alu(g_, Op::kSub, {a, integer(depth - 1)});
      default:
        return where(g_, boolean(depth - 1), a, integer(depth - 1));
    }
  }
  const Node* boolean(int depth) {
    const Node* c = lt(g_, integer(depth), const_int(g_, pick(20) - 4));
    if (pick(3) == 0) c = logical_not(g_, c);
    if (depth > 0 && pick(2) == 0)
      c = alu(g_, pick(2) ? Op::kAnd : Op::kOr, {c, boolean(depth - 1)});
    return c;
  }

 private:
  Graph& g_;
  std::mt19937_64 rng_;
  NodeVec vars_;
};

void expect_equal_everywhere(
    Graph& g, const NodeVec& vars, const Node* a, const Node* b, uint64_t seed) {
  for (int64_t x = 0; x < 3; ++x) {
    for (int64_t y = 0; y < 4; ++y) {
      for (int64_t z = 0; z < 6; ++z) {
        const std::map<const Node*, int64_t> env{{vars[0], x}, {vars[1], y}, {vars[2], z}};
        ASSERT_EQ(eval(a, env), eval(b, env))
            << "seed " << seed << " at " << x << "," << y << "," << z << "\n"
            << expr(a) << "\n"
            << expr(b);
        const Bounds bd = bounds(g, a);
        const auto v = eval(a, env);
        ASSERT_TRUE(v && *v >= bd.vmin && *v <= bd.vmax) << "bounds of " << expr(a);
      }
    }
  }
}

TEST(Symbolic, RandomExpressionsKeepTheirValueAndAreIdempotent) {
  for (uint64_t seed = 1; seed <= 4000; ++seed) {
    Graph g;
    Expressions e(g, seed);
    const Node* x = seed % 4 == 0 ? e.boolean(3) : e.integer(4);
    const Node* s = simplify(g, x);
    ASSERT_TRUE(g.status().ok()) << "seed " << seed << ": " << g.status().error().what << "\n"
                                 << expr(x);
    expect_equal_everywhere(g, e.vars(), x, s, seed);
    if (HasFatalFailure()) return;
    const Node* again = simplify(g, s);
    ASSERT_EQ(again, s) << "seed " << seed << "\n"
                        << expr(x) << "\n"
                        << expr(s) << "\n"
                        << expr(again);
  }
}

TEST(Symbolic, SimplifyGivenKeepsTheValueWhereTheGateHolds) {
  for (uint64_t seed = 1; seed <= 1500; ++seed) {
    Graph g;
    Expressions e(g, seed);
    const Node* x = simplify(g, e.integer(3));
    const Node* valid = simplify(g, e.boolean(1));
    const Node* s = simplify_given(g, x, valid);
    ASSERT_TRUE(g.status().ok());
    for (int64_t a = 0; a < 3; ++a) {
      for (int64_t b = 0; b < 4; ++b) {
        for (int64_t c = 0; c < 6; ++c) {
          const std::map<const Node*, int64_t> env{
              {e.vars()[0], a}, {e.vars()[1], b}, {e.vars()[2], c}};
          if (eval(valid, env) != 1) continue;
          ASSERT_EQ(eval(x, env), eval(s, env)) << "seed " << seed << "\n"
                                                << expr(x) << "\n"
                                                << expr(s) << "\n"
                                                << expr(valid);
        }
      }
    }
  }
}

struct Case {
  const char* name;
  std::function<const Node*(Graph&, const Node*, const Node*)> in;  // r0 in [0,8), r1 in [0,16)
  std::function<const Node*(Graph&, const Node*, const Node*)> out;
};

const Node* fdiv(Graph& g, const Node* a, int64_t c) {
  return alu(g, Op::kFloorDiv, {a, const_int(g, c)});
}
const Node* fmod(Graph& g, const Node* a, int64_t c) {
  return alu(g, Op::kFloorMod, {a, const_int(g, c)});
}

TEST(Symbolic, KnownForms) {
  const std::vector<Case> cases = {
      {"quotient and remainder recombine",
       [](Graph& g, auto*, auto* b) {
         return add(g, mul_const(g, fdiv(g, b, 4), 4), fmod(g, b, 4));
       },
       [](Graph&, auto*, auto* b) { return b; }},
      {"flatten then split",
       [](Graph& g, auto* a, auto* b) { return fdiv(g, add(g, mul_const(g, a, 16), b), 16); },
       [](Graph&, auto* a, auto*) { return a; }},
      {"flatten then remainder",
       [](Graph& g, auto* a, auto* b) { return fmod(g, add(g, mul_const(g, a, 16), b), 16); },
       [](Graph&, auto*, auto* b) { return b; }},
      {"partial recombination",
       [](Graph& g, auto*, auto* b) {
         return add(g, mul_const(g, fmod(g, fdiv(g, b, 2), 4), 2), fmod(g, b, 2));
       },
       [](Graph& g, auto*, auto* b) { return simplify(g, fmod(g, b, 8)); }},
      {"division of a division", [](Graph& g, auto*, auto* b) { return fdiv(g, fdiv(g, b, 2), 3); },
       [](Graph& g, auto*, auto* b) { return fdiv(g, b, 6); }},
      {"compare through a division",
       [](Graph& g, auto*, auto* b) { return lt(g, fdiv(g, b, 4), const_int(g, 2)); },
       [](Graph& g, auto*, auto* b) { return lt(g, b, const_int(g, 8)); }},
      {"compare drops the small part",
       [](Graph& g, auto* a, auto* b) {
         return lt(g, add(g, mul_const(g, a, 16), b), const_int(g, 32));
       },
       [](Graph& g, auto* a, auto*) { return lt(g, a, const_int(g, 2)); }},
      {"like terms",
       [](Graph& g, auto* a, auto*) { return add(g, mul_const(g, a, 3), add(g, a, a)); },
       [](Graph& g, auto* a, auto*) { return mul_const(g, a, 5); }},
      {"not less",
       [](Graph& g, auto* a, auto*) { return logical_not(g, lt(g, a, const_int(g, 3))); },
       [](Graph& g, auto* a, auto*) { return lt(g, const_int(g, 2), a); }},
      {"gate moves out of arithmetic",
       [](Graph& g, auto* a, auto* b) {
         return add(g, where(g, lt(g, a, const_int(g, 3)), b, const_invalid(g)), const_int(g, 1));
       },
       [](Graph& g, auto* a, auto* b) {
         return where(g, lt(g, a, const_int(g, 3)), add_const(g, b, 1), const_invalid(g));
       }},
      {"zero does not delete a gate",
       [](Graph& g, auto* a, auto* b) {
         return mul(g, where(g, lt(g, a, const_int(g, 3)), b, const_invalid(g)), const_int(g, 0));
       },
       [](Graph& g, auto* a, auto*) {
         return where(g, lt(g, a, const_int(g, 3)), const_int(g, 0), const_invalid(g));
       }},
  };
  for (const Case& c : cases) {
    Graph g;
    const Node* a = range(g, 8, 0, AxisType::kWeak);
    const Node* b = range(g, 16, 1, AxisType::kWeak);
    const Node* got = simplify(g, c.in(g, a, b));
    EXPECT_EQ(got, c.out(g, a, b)) << c.name << ": " << expr(got);
  }
}

TEST(Symbolic, NestedDoublingsStayLinear) {
  Graph g;
  const Node* x = range(g, 8, 0, AxisType::kWeak);
  const Node* n = x;
  for (int i = 0; i < 24; ++i) n = add(g, n, n);
  EXPECT_EQ(simplify(g, n), mul_const(g, x, 1 << 24));
}

// A u64 may be above what int64 holds: its interval is open there.
// Under UBSan: a NaN is not made an integer to find out.
TEST(Bounds, FloatsThatAreNoNumbersAreOpen) {
  Graph g;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  for (const double v : {nan, inf, -inf, 1e300, 0.5}) {
    const Bounds b = bounds(g, const_float(g, v, DType::kF32));
    EXPECT_LT(b.vmin, b.vmax) << v;
  }
  const Bounds whole = bounds(g, const_float(g, -3.0, DType::kF32));
  EXPECT_TRUE(whole.vmin == -3 && whole.vmax == -3);
}

TEST(Bounds, UnsignedSixtyFourBitsAreOpenAtTheTop) {
  Graph g;
  const Node* x = param(g, 0, DType::kU64, 4);
  const Node* top = const_int(g, -1, DType::kU64);  // 2^64 - 1
  EXPECT_EQ(simplify(g, alu(g, Op::kMax, {x, top})), alu(g, Op::kMax, {x, top}));
  EXPECT_FALSE(is_const(simplify(g, lt(g, x, top))));
  EXPECT_FALSE(is_const(simplify(g, lt(g, const_int(g, INT64_MAX, DType::kU64), x))));
  EXPECT_EQ(vmax(g, alu(g, Op::kShr, {x, const_int(g, 2, DType::kU64)})), (int64_t{1} << 62) - 1);
  EXPECT_EQ(vmax(g, alu(g, Op::kCDiv, {x, const_int(g, 4, DType::kU64)})), (int64_t{1} << 62) - 1);
  EXPECT_EQ(vmin(g, cast(g, x, DType::kI64)), INT64_MIN);
  // What is small stays known.
  const Node* small = alu(g, Op::kAnd, {x, const_int(g, 7, DType::kU64)});
  EXPECT_EQ(vmax(g, small), 7);
  EXPECT_EQ(simplify(g, lt(g, small, const_int(g, 8, DType::kU64))), const_bool(g, true));
}

TEST(Symbolic, DivisionByZeroIsAnError) {
  Graph g;
  simplify(g, fdiv(g, range(g, 8, 0, AxisType::kWeak), 0));
  ASSERT_FALSE(g.status().ok());
  EXPECT_NE(g.status().error().what.find("division by zero"), std::string::npos);
}

TEST(Symbolic, WeakIntegersDoNotWrap) {
  Graph g;
  const Node* big = const_int(g, INT64_MAX);
  const Node* sum = add(g, big, big);
  EXPECT_EQ(simplify(g, sum), sum);
}

TEST(Symbolic, FloatConstantsKeepBitIdentity) {
  Graph g;
  EXPECT_NE(const_float(g, 0.0, DType::kF32), const_float(g, -0.0, DType::kF32));
  EXPECT_EQ(const_float(g, std::nan("1"), DType::kF32),
            const_float(g, -std::nan("2"), DType::kF32));
}

}  // namespace
}  // namespace modeld::ir
