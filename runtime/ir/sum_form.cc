#include "runtime/ir/sum_form.h"

#include <algorithm>
#include <numeric>

#include "runtime/ir/derived.h"

namespace modeld::ir {
namespace {

struct Pending {
  const Node* node;
  int64_t coefficient;
};

bool mul_ok(int64_t a, int64_t b, int64_t* out) {
  return !__builtin_mul_overflow(a, b, out);
}

void add_term(std::vector<std::pair<const Node*, int64_t>>& terms, const Node* n, int64_t c) {
  for (auto& [t, k] : terms) {
    if (t == n) {
      k += c;
      return;
    }
  }
  terms.emplace_back(n, c);
}

void normalise(SumForm& s) {
  std::erase_if(s.terms, [](const auto& t) { return t.second == 0; });
  std::sort(s.terms.begin(), s.terms.end(),
            [](const auto& a, const auto& b) { return structural_less(a.first, b.first); });
}

bool collect(const Node* root, int64_t scale, SumForm& out) {
  std::vector<Pending> work{{root, scale}};
  while (!work.empty()) {
    const Pending p = work.back();
    work.pop_back();
    int64_t c = 0;
    switch (p.node->op) {
      case Op::kAdd:
        work.push_back({p.node->src(1), p.coefficient});
        work.push_back({p.node->src(0), p.coefficient});
        break;
      case Op::kSub:
        work.push_back({p.node->src(1), -p.coefficient});
        work.push_back({p.node->src(0), p.coefficient});
        break;
      case Op::kNeg:
        work.push_back({p.node->src(0), -p.coefficient});
        break;
      case Op::kConst: {
        const auto v = int_value(p.node);
        if (!v || !mul_ok(*v, p.coefficient, &c) ||
            __builtin_add_overflow(out.constant, c, &out.constant))
          return false;
        break;
      }
      case Op::kMul: {
        const size_t at = is_const(p.node->src(1)) ? 1 : 0;
        const auto v = int_value(p.node->src(at));
        if (v) {
          if (!mul_ok(*v, p.coefficient, &c)) return false;
          work.push_back({p.node->src(1 - at), c});
          break;
        }
        add_term(out.terms, p.node, p.coefficient);
        break;
      }
      default:
        add_term(out.terms, p.node, p.coefficient);
    }
    if (work.size() > 4096 || out.terms.size() > 512) return false;
  }
  normalise(out);
  return true;
}

int64_t floor_div(int64_t a, int64_t b) {
  return a / b - ((a % b != 0) && ((a < 0) != (b < 0)) ? 1 : 0);
}
int64_t floor_mod(int64_t a, int64_t b) {
  return a - floor_div(a, b) * b;
}

const Node* div_node(Graph& g, const Node* x, int64_t c) {
  const Node* simpler = simplify_div(g, x, c);
  return simpler != nullptr ? simpler : alu(g, Op::kFloorDiv, {x, const_int(g, c)});
}

const Node* mod_node(Graph& g, const Node* x, int64_t c) {
  const Node* simpler = simplify_mod(g, x, c);
  return simpler != nullptr ? simpler : alu(g, Op::kFloorMod, {x, const_int(g, c)});
}

// Modulus of a FloorMod by a positive constant.
std::optional<int64_t> modulus(const Node* n, Op op) {
  if (n->op != op) return std::nullopt;
  const auto c = int_value(n->src(1));
  return c && *c > 0 ? c : std::nullopt;
}

// True if `part * scale` is contained in `sum` term by term; then it is taken out.
bool take_out(SumForm& sum, const SumForm& part, int64_t scale) {
  SumForm rest = sum;
  for (const auto& [t, k] : part.terms) {
    int64_t need = 0;
    if (!mul_ok(k, scale, &need)) return false;
    auto it = std::find_if(rest.terms.begin(), rest.terms.end(),
                           [&, term = t](const auto& r) { return r.first == term; });
    if (it == rest.terms.end() || it->second != need) return false;
    rest.terms.erase(it);
  }
  int64_t constant = 0;
  if (!mul_ok(part.constant, scale, &constant)) return false;
  rest.constant -= constant;
  sum = std::move(rest);
  return true;
}

// (x % c) * m + (x // c) * (c * m) -> x * m, and the partial form with a wider modulus
// (x % c) * m + ((x // c) % d) * (c * m) -> (x % (c * d)) * m.
bool recombine_one(Graph& g, SumForm& sum) {
  for (size_t i = 0; i < sum.terms.size(); ++i) {
    const auto [term, m] = sum.terms[i];
    const auto c = modulus(term, Op::kFloorMod);
    int64_t scale = 0;
    if (!c || !mul_ok(*c, m, &scale)) continue;
    const Node* x = term->src(0);
    SumForm rest = sum;
    rest.terms.erase(rest.terms.begin() + static_cast<std::ptrdiff_t>(i));
    const auto quotient = sum_form(div_node(g, x, *c));
    if (quotient && !quotient->terms.empty() && take_out(rest, *quotient, scale)) {
      SumForm whole = rest;
      if (!collect(x, m, whole)) continue;
      sum = whole;
      return true;
    }
    for (const auto& [other, k] : rest.terms) {
      const auto d = modulus(other, Op::kFloorMod);
      int64_t wide = 0;
      if (!d || k != scale || !mul_ok(*c, *d, &wide)) continue;
      if (mod_node(g, div_node(g, x, *c), *d) != other) continue;
      const Node* taken = other;
      std::erase_if(rest.terms, [&](const auto& t) { return t.first == taken; });
      if (!collect(mod_node(g, x, wide), m, rest)) return false;
      sum = rest;
      return true;
    }
  }
  return false;
}

// Splits x into terms whose coefficient `c` divides (already divided) and the rest with the
// constant's remainder.
struct Split {
  SumForm quotient;
  SumForm rest;
};
Split split_by(const SumForm& s, int64_t c) {
  Split out;
  for (const auto& [t, k] : s.terms) {
    if (k % c == 0) {
      out.quotient.terms.emplace_back(t, k / c);
    } else {
      out.rest.terms.emplace_back(t, k);
    }
  }
  out.quotient.constant = floor_div(s.constant, c);
  out.rest.constant = floor_mod(s.constant, c);
  return out;
}

Bounds form_bounds(Graph& g, const SumForm& s) {
  return bounds(g, build_sum(g, s));
}

bool one_period(Bounds b, int64_t c) {
  return floor_div(b.vmin, c) == floor_div(b.vmax, c) && b.vmin > INT64_MIN / 2 &&
         b.vmax < INT64_MAX / 2;
}

// Each factor replaced by what is left of it modulo c (or that minus c, whichever is nearer 0): x =
// c * quotient + rest.
Split congruent(const SumForm& s, int64_t c, bool nearest) {
  Split out;
  for (const auto& [t, k] : s.terms) {
    int64_t r = floor_mod(k, c);
    if (nearest && r > c - r) r -= c;
    if (r != 0) out.rest.terms.emplace_back(t, r);
    const int64_t q = (k - r) / c;
    if (q != 0) out.quotient.terms.emplace_back(t, q);
  }
  out.quotient.constant = floor_div(s.constant, c);
  out.rest.constant = floor_mod(s.constant, c);
  return out;
}

int64_t factor_gcd(const SumForm& s, int64_t start) {
  int64_t d = start;
  for (const auto& term : s.terms) d = std::gcd(d, term.second);
  return d;
}

SumForm divided(const SumForm& s, int64_t d) {
  SumForm out;
  for (const auto& [t, k] : s.terms) out.terms.emplace_back(t, k / d);
  out.constant = floor_div(s.constant, d);
  return out;
}

// Candidate factors for nesting: |coefficients| that properly divide c, largest first.
std::vector<int64_t> nesting_factors(const SumForm& s, int64_t c) {
  std::vector<int64_t> out;
  for (const auto& term : s.terms) {
    const int64_t f = term.second < 0 ? -term.second : term.second;
    if (f > 1 && f < c && c % f == 0 && std::find(out.begin(), out.end(), f) == out.end())
      out.push_back(f);
  }
  std::sort(out.begin(), out.end(), std::greater<>());
  return out;
}

// (x // a) // c -> x // (a c), and (x % (k c)) // c -> (x // c) % k, for x that is a single such
// term.
const Node* div_of_div_mod(Graph& g, const SumForm& s, int64_t c) {
  if (s.terms.size() != 1 || s.terms[0].second != 1) return nullptr;
  const Node* t = s.terms[0].first;
  int64_t wide = 0;
  if (const auto a = modulus(t, Op::kFloorDiv); a && mul_ok(*a, c, &wide)) {
    int64_t shift = 0;
    if (!mul_ok(s.constant, *a, &shift)) return nullptr;
    return div_node(g, canonical_sum(g, add_const(g, t->src(0), shift)), wide);
  }
  if (const auto m = modulus(t, Op::kFloorMod); m && s.constant == 0 && *m % c == 0) {
    return mod_node(g, div_node(g, t->src(0), c), *m / c);
  }
  return nullptr;
}

}  // namespace

std::optional<SumForm> sum_form(const Node* n) {
  SumForm s;
  if (!collect(n, 1, s)) return std::nullopt;
  return s;
}

const Node* build_sum(Graph& g, const SumForm& sum) {
  const Node* out = nullptr;
  for (const auto& [t, k] : sum.terms) {
    const Node* term = mul_const(g, t, k);
    out = out == nullptr ? term : add(g, out, term);
  }
  if (out == nullptr) return const_int(g, sum.constant);
  return add_const(g, out, sum.constant);
}

const Node* canonical_sum(Graph& g, const Node* n) {
  auto s = sum_form(n);
  if (!s) return n;
  for (int rounds = 0; rounds < 64 && recombine_one(g, *s); ++rounds) normalise(*s);
  return build_sum(g, *s);
}

const Node* simplify_div(Graph& g, const Node* x, int64_t c) {
  if (c == 1) return x;
  const Bounds b = bounds(g, x);
  if (one_period(b, c)) return const_int(g, floor_div(b.vmin, c));
  const auto s = sum_form(x);
  if (!s) return nullptr;
  if (const Node* nested = div_of_div_mod(g, *s, c)) return nested;

  const Split exact = split_by(*s, c);
  const bool taken = !exact.quotient.terms.empty() || exact.quotient.constant != 0;
  const Bounds rest = form_bounds(g, exact.rest);
  if (one_period(rest, c)) {
    SumForm q = exact.quotient;
    q.constant += floor_div(rest.vmin, c);
    return canonical_sum(g, build_sum(g, q));
  }
  for (const bool nearest : {false, true}) {
    const Split mod = congruent(*s, c, nearest);
    const Bounds r = form_bounds(g, mod.rest);
    if (!one_period(r, c)) continue;
    SumForm q = mod.quotient;
    q.constant += floor_div(r.vmin, c);
    return canonical_sum(g, build_sum(g, q));
  }
  if (taken) {
    const Node* q = build_sum(g, exact.quotient);
    return canonical_sum(g, add(g, q, div_node(g, build_sum(g, exact.rest), c)));
  }
  if (const int64_t d = factor_gcd(*s, c); d > 1)
    return div_node(g, canonical_sum(g, build_sum(g, divided(*s, d))), c / d);
  for (const int64_t f : nesting_factors(*s, c)) {
    const Split by_f = split_by(*s, f);
    const Bounds r = form_bounds(g, by_f.rest);
    if (!one_period(r, f)) continue;
    SumForm q = by_f.quotient;
    q.constant += floor_div(r.vmin, f);
    return div_node(g, canonical_sum(g, build_sum(g, q)), c / f);
  }
  return nullptr;
}

const Node* simplify_mod(Graph& g, const Node* x, int64_t c) {
  if (c == 1) return const_int(g, 0);
  const Bounds b = bounds(g, x);
  if (one_period(b, c)) {
    const int64_t shift = floor_div(b.vmin, c) * c;
    return canonical_sum(g, add_const(g, x, -shift));
  }
  auto s = sum_form(x);
  if (!s) return nullptr;

  // Inner modulos that c sees through, multiples of c, and the constant's multiple of c drop out.
  SumForm small;
  small.constant = floor_mod(s->constant, c);
  bool changed = small.constant != s->constant;
  for (const auto& [t, k] : s->terms) {
    const auto m = modulus(t, Op::kFloorMod);
    int64_t period = 0;
    if (m && mul_ok(*m, k, &period) && period % c == 0) {
      changed = true;
      if (!collect(t->src(0), k, small)) return nullptr;
      continue;
    }
    if (k % c == 0) {
      changed = true;
      continue;
    }
    add_term(small.terms, t, k);
  }
  normalise(small);
  if (changed) return mod_node(g, canonical_sum(g, build_sum(g, small)), c);

  for (const bool nearest : {false, true}) {
    const Split mod = congruent(*s, c, nearest);
    const Bounds r = form_bounds(g, mod.rest);
    if (!one_period(r, c)) continue;
    SumForm rest = mod.rest;
    rest.constant -= floor_div(r.vmin, c) * c;
    return canonical_sum(g, build_sum(g, rest));
  }
  if (const int64_t d = factor_gcd(*s, c); d > 1) {
    const int64_t left = floor_mod(s->constant, d);
    const Node* inner = mod_node(g, canonical_sum(g, build_sum(g, divided(*s, d))), c / d);
    return canonical_sum(g, add_const(g, mul_const(g, inner, d), left));
  }
  for (const int64_t f : nesting_factors(*s, c)) {
    const Split by_f = split_by(*s, f);
    const Bounds r = form_bounds(g, by_f.rest);
    if (!one_period(r, f)) continue;
    SumForm q = by_f.quotient;
    const int64_t whole = floor_div(r.vmin, f);
    q.constant += whole;
    SumForm left = by_f.rest;
    left.constant -= whole * f;
    const Node* high = mul_const(g, mod_node(g, canonical_sum(g, build_sum(g, q)), c / f), f);
    return canonical_sum(g, add(g, high, build_sum(g, left)));
  }
  // Smaller factors of the same residue class keep the expression small.
  const Split reduced = congruent(*s, c, false);
  if (!reduced.quotient.terms.empty())
    return mod_node(g, canonical_sum(g, build_sum(g, reduced.rest)), c);
  return nullptr;
}

}  // namespace modeld::ir
