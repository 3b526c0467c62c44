#include "runtime/ir/derived.h"

#include <algorithm>
#include <numeric>

#include "runtime/ir/memo.h"
#include "runtime/ir/sharding.h"

namespace modeld::ir {
namespace {

__extension__ typedef __int128 Wide;  // exact corners before clamping

const Shape kScalar;
const std::string kNoDevice;

// ---- shape ----

// s0 of BUFFER/PARAM: one size, or a Stack of dims.
Shape storage_shape(const Node* size) {
  if (size->op == Op::kStack) return {size->src().begin(), size->src().end()};
  return {size};
}

Shape stack_values(const Node* stack) {
  if (stack->op == Op::kStack) return {stack->src().begin(), stack->src().end()};
  return {stack};
}

const Shape& known(Graph& g, const Node* n) {
  return *memo_at(g.memo().shapes, n);
}

Shape broadcast_shape(Graph& g, const Node* n) {
  Shape out;
  for (const Node* s : n->src()) {
    const Shape& in = known(g, s);
    if (in.size() > out.size()) out.insert(out.begin(), in.size() - out.size(), const_int(g, 1));
    for (size_t i = 0; i < in.size(); ++i) {
      const Node*& o = out[out.size() - in.size() + i];
      if (o == in[i] || is_int_const(in[i], 1)) continue;
      if (is_int_const(o, 1)) {
        o = in[i];
        continue;
      }
      g.fail(Fault::kBadShape,
             strf("%s: cannot broadcast dimension %lld against %lld", op_name(n->op),
                  static_cast<long long>(vmax(g, o)), static_cast<long long>(vmax(g, in[i]))));
      return {};
    }
  }
  return out;
}

int64_t product(Graph& g, const Shape& s) {
  int64_t p = 1;
  for (const Node* d : s) {
    const Wide wide = static_cast<Wide>(p) * vmax(g, d);
    p = static_cast<int64_t>(std::clamp<Wide>(wide, INT64_MIN, INT64_MAX));
  }
  return p;
}

Shape reshape_shape(Graph& g, const Node* n) {
  Shape out = stack_values(n->src(1));
  for (const Node* d : out) {
    if (vmin(g, d) < 0)
      g.fail(Fault::kBadShape,
             strf("reshape: negative dimension %lld", static_cast<long long>(vmin(g, d))));
  }
  const int64_t want = product(g, known(g, n->src(0)));
  const int64_t have = product(g, out);
  if (want != have) {
    g.fail(Fault::kBadShape, strf("reshape: %lld elements into a shape of %lld",
                                  static_cast<long long>(want), static_cast<long long>(have)));
  }
  return out;
}

Shape permute_shape(Graph& g, const Node* n) {
  const Shape& in = known(g, n->src(0));
  const Ints& perm = n->as<Ints>();
  std::vector<bool> seen(in.size(), false);
  Shape out;
  for (int64_t p : perm) {
    if (perm.size() != in.size() || p < 0 || p >= static_cast<int64_t>(in.size()) ||
        seen[static_cast<size_t>(p)]) {
      g.fail(Fault::kBadShape, strf("permute: not a permutation of %zu axes", in.size()));
      return {};
    }
    seen[static_cast<size_t>(p)] = true;
    out.push_back(in[static_cast<size_t>(p)]);
  }
  return out;
}

// SHRINK as a movement op (rank = rank of s0) and as the vector slice of programs (flat buffer).
Shape window_shape(Graph& g, const Node* n, bool pad) {
  const Shape& in = known(g, n->src(0));
  const Shape at = stack_values(n->src(1));
  const Shape size = stack_values(n->src(2));
  if (at.size() != in.size() || size.size() != in.size()) {
    g.fail(Fault::kBadShape, strf("%s: %zu starts and %zu sizes for %zu axes", op_name(n->op),
                                  at.size(), size.size(), in.size()));
    return {};
  }
  for (size_t i = 0; i < in.size(); ++i) {
    if (!is_const(at[i]) || !is_const(size[i])) continue;
    const int64_t start = vmin(g, at[i]);
    const int64_t inner = vmax(g, pad ? in[i] : size[i]);
    const int64_t outer = vmax(g, pad ? size[i] : in[i]);
    if (start < 0 || inner < 0 || inner > outer || start > outer - inner) {
      g.fail(Fault::kBadShape,
             strf("%s: %lld items from %lld on are out of bounds of axis %zu with size %lld",
                  op_name(n->op), static_cast<long long>(inner), static_cast<long long>(start), i,
                  static_cast<long long>(outer)));
      return {};
    }
  }
  return size;
}

Shape index_shape(Graph& g, const Node* n) {
  const Shape& in = known(g, n->src(0));
  Shape out;
  for (const Node* i : n->src().subspan(1)) {
    const Shape& s = known(g, i);
    out.insert(out.end(), s.begin(), s.end());
  }
  const size_t indexed = n->nsrc - 1;
  if (indexed > in.size()) {
    g.fail(Fault::kBadShape, strf("index: %zu indices into %zu axes", indexed, in.size()));
    return {};
  }
  out.insert(out.end(), in.begin() + static_cast<std::ptrdiff_t>(indexed), in.end());
  return out;
}

Shape bitcast_shape(Graph& g, const Node* n) {
  Shape s = known(g, n->src(0));
  const int from = item_size(n->src(0)->dtype);
  const int to = item_size(n->dtype);
  if (from == to) return s;
  const Wide bytes = s.empty() ? 0 : Wide{vmax(g, s.back())} * from;
  if (s.empty() || bytes % to != 0 || bytes / to > INT64_MAX || bytes < 0) {
    g.fail(
        Fault::kBadShape,
        strf("bitcast: last dimension does not divide from %d-byte into %d-byte items", from, to));
    return {};
  }
  s.back() = const_int(g, static_cast<int64_t>(bytes / to));
  return s;
}

Shape reduce_shape(Graph& g, const Node* n) {
  const Shape& in = known(g, n->src(0));
  const auto k = static_cast<size_t>(n->as<ReduceArg>().axes);
  if (k > in.size()) {
    g.fail(Fault::kBadShape, strf("reduce: %zu axes of a value with %zu", k, in.size()));
    return {};
  }
  return {in.begin() + static_cast<std::ptrdiff_t>(k), in.end()};
}

Shape stage_shape(Graph& g, const Node* n) {
  Shape out;
  for (const Node* r : n->src().subspan(1))
    out.push_back(r->op == Op::kRange ? r->src(0) : const_int(g, vmax(g, r) + 1));
  const Shape& inner = known(g, n->src(0));
  out.insert(out.end(), inner.begin(), inner.end());
  return out;
}

// The global shape: each sharded axis holds as many parts as its coordinate counts.
Shape unshard_shape(Graph& g, const Node* n) {
  Shape out = known(g, n->src(0));
  const Ints& axes = n->as<Ints>();
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] < 0 || axes[i] >= static_cast<int64_t>(out.size()) || i + 1 >= n->nsrc) {
      g.fail(Fault::kBadShape, strf("unshard: axis %lld of a value with %zu axes",
                                    static_cast<long long>(axes[i]), out.size()));
      return {};
    }
    const Node*& d = out[static_cast<size_t>(axes[i])];
    d = const_int(g, vmax(g, d) * part_count(g, n->src(i + 1)));
  }
  return out;
}

Shape concat_shape(const Shape& a, const Shape& b) {
  Shape out = a;
  out.insert(out.end(), b.begin(), b.end());
  return out;
}

Shape compute_shape(Graph& g, const Node* n) {
  switch (n->op) {
    case Op::kBuffer:
    case Op::kParam:
      return storage_shape(n->src(0));
    case Op::kStack:
      return n->nsrc == 0 ? Shape{const_int(g, 0)}
                          : concat_shape({const_int(g, n->nsrc)}, known(g, n->src(0)));
    case Op::kIndex:
      return index_shape(g, n);
    case Op::kReshape:
      return reshape_shape(g, n);
    case Op::kExpand:
      return concat_shape(stack_values(n->src(1)), known(g, n->src(0)));
    case Op::kPermute:
      return permute_shape(g, n);
    case Op::kPad:
      return window_shape(g, n, true);
    case Op::kShrink:
      return window_shape(g, n, false);
    case Op::kReduce:
      return reduce_shape(g, n);
    case Op::kStage:
      return stage_shape(g, n);
    case Op::kBitCast:
      return bitcast_shape(g, n);
    case Op::kGetTuple: {
      const Node* t = n->src(0)->op == Op::kFunction ? n->src(0)->src(0) : n->src(0);
      return shape(g, t->src(static_cast<size_t>(n->as<int64_t>())));
    }
    case Op::kWmma:
      return known(g, n->src(2));
    case Op::kUnshard:
      return unshard_shape(g, n);
    case Op::kAfter:
    case Op::kLoad:
    case Op::kFlip:
    case Op::kCopy:
    case Op::kAllReduce:
    case Op::kContiguous:
    case Op::kContiguousBackward:
    case Op::kDetach:
    case Op::kMSelect:
    case Op::kMStack:
    case Op::kNoop:
      return n->nsrc > 0 ? known(g, n->src(0)) : kScalar;
    default:
      return kElementwiseOps.has(n->op) ? broadcast_shape(g, n) : kScalar;
  }
}

// ---- bounds ----

Bounds clamp(Wide lo, Wide hi, DType t) {
  const Wide min = int_min(t);
  const Wide max = int_max(t);
  // A value that leaves its type wraps: nothing is known any more.
  const bool wraps = !is_weak(t) && (lo < min || hi > max);
  if (wraps) return {int_min(t), int_max(t)};
  return {static_cast<int64_t>(std::max(lo, min)), static_cast<int64_t>(std::min(hi, max))};
}

Wide floor_div(Wide a, Wide b) {
  const Wide q = a / b;
  return q - ((a % b != 0) && ((a < 0) != (b < 0)) ? 1 : 0);
}

template <class F>
Bounds corners(Bounds a, Bounds b, DType t, F f) {
  const Wide c[4] = {f(Wide{a.vmin}, Wide{b.vmin}), f(Wide{a.vmin}, Wide{b.vmax}),
                     f(Wide{a.vmax}, Wide{b.vmin}), f(Wide{a.vmax}, Wide{b.vmax})};
  return clamp(*std::min_element(c, c + 4), *std::max_element(c, c + 4), t);
}

Bounds mod_bounds(Bounds a, Bounds b, bool floored, DType t) {
  if (b.vmin <= 0) return {int_min(t), int_max(t)};
  if (a.vmin >= 0) return {0, std::min(a.vmax, b.vmax - 1)};
  if (floored) return {0, b.vmax - 1};
  return {std::max(a.vmin, -(b.vmax - 1)), a.vmax <= 0 ? 0 : std::min(a.vmax, b.vmax - 1)};
}

// A u64 interval that ends at the top of int64 goes on to 2^64 - 1: only that end is known.
bool is_open(DType t, Bounds b) {
  return t == DType::kU64 && b.vmax == int_max(t);
}

Bounds compare_bounds(Op op, DType t, Bounds a, Bounds b) {
  const bool open = is_open(t, a) || is_open(t, b);
  switch (op) {
    case Op::kCmpLt:
      return {!is_open(t, a) && a.vmax < b.vmin ? 1 : 0, is_open(t, b) || a.vmin < b.vmax ? 1 : 0};
    case Op::kCmpEq:
      return {!open && a.vmin == a.vmax && b.vmin == b.vmax && a.vmin == b.vmin ? 1 : 0,
              a.vmin <= b.vmax && b.vmin <= a.vmax ? 1 : 0};
    default:
      return {a.vmax < b.vmin || b.vmax < a.vmin ? 1 : 0,
              !open && a.vmin == a.vmax && b.vmin == b.vmax && a.vmin == b.vmin ? 0 : 1};
  }
}

Bounds bit_bounds(Op op, Bounds a, Bounds b, DType t) {
  if (t == DType::kBool) {
    if (op == Op::kAnd) return {std::min(a.vmin, b.vmin), std::min(a.vmax, b.vmax)};
    if (op == Op::kOr) return {std::max(a.vmin, b.vmin), std::max(a.vmax, b.vmax)};
    return {0, 1};
  }
  if (op == Op::kAnd && b.vmin >= 0) return {0, a.vmin >= 0 ? std::min(a.vmax, b.vmax) : b.vmax};
  if (op == Op::kAnd && a.vmin >= 0) return {0, a.vmax};
  return {int_min(t), int_max(t)};
}

// Operands of type u64 of which at least one is open.
Bounds open_bounds(Op op, Bounds a, Bounds b) {
  const Bounds all{0, int_max(DType::kU64)};
  const auto top = [](uint64_t v) {
    return static_cast<int64_t>(std::min<uint64_t>(v, INT64_MAX));
  };
  const bool is_fixed = b.vmin == b.vmax && !is_open(DType::kU64, b);
  switch (op) {
    case Op::kMax:
      return {std::max(a.vmin, b.vmin), all.vmax};
    case Op::kAnd:
      return {0, std::min(a.vmax, b.vmax)};
    case Op::kCMod:
    case Op::kFloorMod:
      return b.vmin > 0 && !is_open(DType::kU64, b) ? Bounds{0, b.vmax - 1} : all;
    case Op::kCDiv:
    case Op::kFloorDiv:
      return is_fixed && b.vmin > 0 ? Bounds{0, top(UINT64_MAX / static_cast<uint64_t>(b.vmin))}
                                    : all;
    case Op::kShr:
      return is_fixed && b.vmin < 64 ? Bounds{0, top(UINT64_MAX >> b.vmin)} : all;
    default:
      return all;
  }
}

Bounds binary_bounds(Op op, DType t, Bounds a, Bounds b) {
  const Bounds all{int_min(t), int_max(t)};
  if (is_open(t, a) || is_open(t, b)) return open_bounds(op, a, b);
  const bool fixed_shift = b.vmin == b.vmax && b.vmin >= 0 && b.vmin < 63;
  switch (op) {
    case Op::kAdd:
      return clamp(Wide{a.vmin} + b.vmin, Wide{a.vmax} + b.vmax, t);
    case Op::kSub:
      return clamp(Wide{a.vmin} - b.vmax, Wide{a.vmax} - b.vmin, t);
    case Op::kMul:
      return corners(a, b, t, [](Wide x, Wide y) { return x * y; });
    case Op::kMax:
      return {std::max(a.vmin, b.vmin), std::max(a.vmax, b.vmax)};
    case Op::kCDiv:
      return b.vmin > 0 || b.vmax < 0 ? corners(a, b, t, [](Wide x, Wide y) { return x / y; })
                                      : all;
    case Op::kFloorDiv:
      return b.vmin > 0 || b.vmax < 0 ? corners(a, b, t, floor_div) : all;
    case Op::kCMod:
      return mod_bounds(a, b, false, t);
    case Op::kFloorMod:
      return mod_bounds(a, b, true, t);
    case Op::kShl:
      return fixed_shift ? clamp(Wide{a.vmin} << b.vmin, Wide{a.vmax} << b.vmin, t) : all;
    case Op::kShr:
      return fixed_shift ? Bounds{a.vmin >> b.vmin, a.vmax >> b.vmin} : all;
    case Op::kAnd:
    case Op::kOr:
    case Op::kXor:
      return bit_bounds(op, a, b, t);
    default:
      return all;
  }
}

Bounds const_bounds(const Node* n) {
  const auto whole = int_value(n);
  if (whole && n->dtype == DType::kU64 && *whole < 0) return {int_min(n->dtype), int_max(n->dtype)};
  if (whole) return {*whole, *whole};
  if (n->has<double>()) {
    const double v = n->as<double>();
    // Whole numbers that a double holds exactly; a NaN is within nothing.
    const bool fits = v >= -9e15 && v <= 9e15;
    if (fits && v == static_cast<double>(static_cast<int64_t>(v)))
      return {static_cast<int64_t>(v), static_cast<int64_t>(v)};
  }
  return {int_min(n->dtype), int_max(n->dtype)};
}

const Bounds& bounds_of(Graph& g, const Node* n) {
  return *memo_at(g.memo().bounds, n);
}

Bounds cast_bounds(Graph& g, const Node* n) {
  const Node* s = n->src(0);
  if (is_float(n->dtype) || is_float(s->dtype)) return {int_min(n->dtype), int_max(n->dtype)};
  const Bounds b = bounds_of(g, s);
  if (n->dtype == DType::kBool)
    return {b.vmin > 0 || b.vmax < 0 ? 1 : 0, b.vmin == 0 && b.vmax == 0 ? 0 : 1};
  if (is_open(s->dtype, b) && !is_weak(n->dtype)) return {int_min(n->dtype), int_max(n->dtype)};
  return clamp(b.vmin, b.vmax, n->dtype);
}

Bounds compute_bounds(Graph& g, const Node* n) {
  const Bounds all{int_min(n->dtype), int_max(n->dtype)};
  switch (n->op) {
    case Op::kConst:
      return const_bounds(n);
    case Op::kRange:
    case Op::kSpecial:
      return {0, std::max<int64_t>(bounds_of(g, n->src(0)).vmax - 1, 0)};
    case Op::kParam:
    case Op::kBuffer: {
      const auto& p = n->as<ParamArg>();
      return p.addrspace == AddrSpace::kAlu ? Bounds{p.vmin, p.vmax} : all;
    }
    case Op::kWhere: {
      if (is_float(n->dtype)) return all;
      const Bounds a = bounds_of(g, n->src(1));
      const Bounds b = bounds_of(g, n->src(2));
      if (is_invalid(n->src(2))) return a;
      if (is_invalid(n->src(1))) return b;
      return {std::min(a.vmin, b.vmin), std::max(a.vmax, b.vmax)};
    }
    case Op::kCast:
      return cast_bounds(g, n);
    case Op::kAfter:
      return bounds_of(g, n->src(0));
    case Op::kStack: {
      if (n->nsrc == 0) return {0, 0};
      Bounds b = bounds_of(g, n->src(0));
      for (const Node* s : n->src())
        b = {std::min(b.vmin, bounds_of(g, s).vmin), std::max(b.vmax, bounds_of(g, s).vmax)};
      return b;
    }
    default:
      break;
  }
  if (kComparisonOps.has(n->op)) {
    if (is_float(n->src(0)->dtype)) return {0, 1};
    return compare_bounds(n->op, n->src(0)->dtype, bounds_of(g, n->src(0)),
                          bounds_of(g, n->src(1)));
  }
  if (kBinaryOps.has(n->op) && !is_float(n->dtype)) {
    return binary_bounds(n->op, n->dtype, bounds_of(g, n->src(0)), bounds_of(g, n->src(1)));
  }
  if (n->op == Op::kNeg && !is_float(n->dtype)) {
    const Bounds a = bounds_of(g, n->src(0));
    if (is_open(n->dtype, a)) return all;
    return clamp(-Wide{a.vmax}, -Wide{a.vmin}, n->dtype);
  }
  return all;
}

// ---- ranges ----

size_t first_closed(const Node* n) {
  switch (n->op) {
    case Op::kEnd:
    case Op::kReduce:
    case Op::kStage:
    case Op::kCall:
    case Op::kUnshard:
      return 1;
    case Op::kWmma:
      return 3;
    default:
      return n->nsrc;
  }
}

// What an effect has closed: its own closed sources, or for an AFTER (or GROUP, BARRIER) those of
// its dependencies.
void ended_ranges(const Node* n, NodeVec& out) {
  NodeVec work{n};
  while (!work.empty()) {
    const Node* at = work.back();
    work.pop_back();
    if (at->op == Op::kAfter || at->op == Op::kGroup || at->op == Op::kBarrier) {
      for (size_t i = at->op == Op::kAfter ? 1 : 0; i < at->nsrc; ++i) work.push_back(at->src(i));
      continue;
    }
    for (size_t i = first_closed(at); i < at->nsrc; ++i) out.push_back(at->src(i));
  }
}

bool range_less(const Node* a, const Node* b) {
  const auto& x = a->as<RangeArg>();
  const auto& y = b->as<RangeArg>();
  const int px = axis_position(x.type);
  const int py = axis_position(y.type);
  if (px != py) return px < py;
  if (x.id != y.id) return x.id < y.id;
  return structural_less(a, b);
}

void merge(NodeVec& into, const NodeVec& other) {
  if (other.empty()) return;
  NodeVec out;
  out.reserve(into.size() + other.size());
  std::set_union(into.begin(), into.end(), other.begin(), other.end(), std::back_inserter(out),
                 range_less);
  into = std::move(out);
}

NodeVec compute_ranges(Graph& g, const Node* n) {
  NodeVec out;
  const size_t body = (n->op == Op::kCall || n->op == Op::kFunction) ? 1 : 0;
  for (size_t i = body; i < n->nsrc; ++i) merge(out, *memo_at(g.memo().ranges, n->src(i)));
  NodeVec ended;
  ended_ranges(n, ended);
  for (const Node* e : ended) {
    // A RANGE closes itself, not what it has to wait for; an index expression closes the ranges in
    // it.
    const NodeVec closed = e->op == Op::kRange ? NodeVec{e} : ranges(g, e);
    std::erase_if(out, [&](const Node* r) {
      return std::find(closed.begin(), closed.end(), r) != closed.end();
    });
  }
  if (n->op == Op::kRange) merge(out, {n});
  return out;
}

}  // namespace

const Shape& shape(Graph& g, const Node* n) {
  if (memo_at(g.memo().shapes, n) == nullptr) {
    const NodeVec order =
        toposort_until(n, [&](const Node* s) { return memo_at(g.memo().shapes, s) != nullptr; });
    for (const Node* s : order) {
      if (memo_at(g.memo().shapes, s) != nullptr) continue;
      auto computed = std::make_unique<Shape>(compute_shape(g, s));
      memo_at(g.memo().shapes, s) = std::move(computed);
    }
  }
  return *memo_at(g.memo().shapes, n);
}

std::vector<int64_t> max_shape(Graph& g, const Node* n) {
  std::vector<int64_t> out;
  for (const Node* d : Shape(shape(g, n))) out.push_back(vmax(g, d));
  return out;
}

std::vector<int64_t> dims(Graph& g, const Node* n) {
  std::vector<int64_t> out;
  for (const Node* d : Shape(shape(g, n))) {
    const auto v = int_value(d);
    if (!v)
      g.fail(Errc::kInvalid,
             strf("%s: a symbolic dimension where a fixed one is needed", op_name(n->op)));
    out.push_back(v.value_or(vmax(g, d)));
  }
  return out;
}

int64_t element_count(Graph& g, const Node* n) {
  return product(g, Shape(shape(g, n)));
}

std::vector<int64_t> const_ints(const Node* stack) {
  std::vector<int64_t> out;
  if (stack->op != Op::kStack) return {int_value(stack).value_or(0)};
  for (const Node* s : stack->src()) out.push_back(int_value(s).value_or(0));
  return out;
}

Bounds bounds(Graph& g, const Node* n) {
  if (!memo_at(g.memo().bounds, n)) {
    const NodeVec order =
        toposort_until(n, [&](const Node* s) { return memo_at(g.memo().bounds, s).has_value(); });
    for (const Node* s : order) {
      if (memo_at(g.memo().bounds, s)) continue;
      const Bounds b = compute_bounds(g, s);
      memo_at(g.memo().bounds, s) = b;
    }
  }
  return *memo_at(g.memo().bounds, n);
}

const NodeVec& ranges(Graph& g, const Node* n) {
  if (memo_at(g.memo().ranges, n) == nullptr) {
    const NodeVec order =
        toposort_until(n, [&](const Node* s) { return memo_at(g.memo().ranges, s) != nullptr; });
    for (const Node* s : order) {
      if (memo_at(g.memo().ranges, s) != nullptr) continue;
      auto computed = std::make_unique<NodeVec>(compute_ranges(g, s));
      memo_at(g.memo().ranges, s) = std::move(computed);
    }
  }
  return *memo_at(g.memo().ranges, n);
}

bool depends_on(Graph& g, const Node* n, const Node* rng) {
  const NodeVec& r = ranges(g, n);
  return std::find(r.begin(), r.end(), rng) != r.end();
}

const Node* base(const Node* n) {
  while (kMovementOps.has(n->op) || n->op == Op::kDetach) n = n->src(0);
  return n;
}

const Node* unsharded_base(const Node* n) {
  while (kMovementOps.has(n->op) || n->op == Op::kDetach || n->op == Op::kUnshard) n = n->src(0);
  return n;
}

namespace {

const std::string& known_device(Graph& g, const Node* n) {
  const std::string* d = memo_at(g.memo().devices, n);
  return d == nullptr ? kNoDevice : *d;
}

const std::string& interned(Graph& g, std::string tuple) {
  return *g.memo().tuples.insert(std::move(tuple)).first;
}

const std::string& stacked_device(Graph& g, const Node* n) {
  std::vector<std::string> names;
  for (const Node* s : n->src()) names.push_back(known_device(g, s));
  return interned(g, join_devices(names));
}

const std::string& selected_device(Graph& g, const Node* n) {
  const std::string& all = known_device(g, n->src(0));
  const int64_t i = n->has<int64_t>() ? n->as<int64_t>() : 0;
  if (i < 0 || i >= device_count(all)) return all;
  return interned(g, split_devices(all)[static_cast<size_t>(i)]);
}

// A result of a FUNCTION is where its body computes it; a body without devices follows the
// arguments.
const std::string& result_device(Graph& g, const Node* n) {
  const Node* f = n->src(0);
  const Node* body = f->op == Op::kFunction && f->nsrc > 0 ? f->src(0) : f;
  const auto i = n->has<int64_t>() ? n->as<int64_t>() : -1;
  if (body->op == Op::kTuple && i >= 0 && i < static_cast<int64_t>(body->nsrc)) {
    const std::string& inside = device(g, body->src(static_cast<size_t>(i)));
    if (!inside.empty()) return inside;
  }
  return known_device(g, f);
}

const std::string& compute_device(Graph& g, const Node* n) {
  if (n->has<ParamArg>() && !n->as<ParamArg>().device.empty()) return n->as<ParamArg>().device;
  if (n->has<StageArg>() && !n->as<StageArg>().device.empty()) return n->as<StageArg>().device;
  if (n->has<AllReduceArg>()) return n->as<AllReduceArg>().device;
  if (n->op == Op::kCopy && n->has<std::string>()) return n->as<std::string>();
  if (n->op == Op::kMStack && n->nsrc > 0) return stacked_device(g, n);
  if (n->op == Op::kMSelect) return selected_device(g, n);
  if (n->op == Op::kGetTuple) return result_device(g, n);
  for (size_t i = n->op == Op::kCall || n->op == Op::kFunction ? 1 : 0; i < n->nsrc; ++i) {
    const std::string& d = known_device(g, n->src(i));
    if (!d.empty()) return d;
  }
  return kNoDevice;
}

}  // namespace

const std::string& device(Graph& g, const Node* n) {
  if (memo_at(g.memo().devices, n) == nullptr) {
    const NodeVec order =
        toposort_until(n, [&](const Node* s) { return memo_at(g.memo().devices, s) != nullptr; });
    for (const Node* s : order) {
      if (memo_at(g.memo().devices, s) != nullptr) continue;
      const std::string* computed = &compute_device(g, s);
      memo_at(g.memo().devices, s) = computed;
    }
  }
  return *memo_at(g.memo().devices, n);
}

AddrSpace addrspace(Graph& g, const Node* n) {
  while (true) {
    if (n->has<ParamArg>()) return n->as<ParamArg>().addrspace;
    if (n->has<StageArg>()) return n->as<StageArg>().addrspace;
    const bool view = kMovementOps.has(n->op) || n->op == Op::kIndex || n->op == Op::kAfter ||
                      n->op == Op::kBitCast || n->op == Op::kContiguous || n->op == Op::kDetach ||
                      n->op == Op::kMSelect;
    if (!view || n->nsrc == 0) break;
    n = n->src(0);
  }
  (void)g;
  return AddrSpace::kAlu;
}

bool is_virtual(Graph& g, const Node* n) {
  return is_weak(n->dtype) || device(g, n).empty();
}

bool has_buffer_identity(const Node* n) {
  while (n->op == Op::kReshape || n->op == Op::kUnshard || n->op == Op::kMSelect) n = n->src(0);
  return n->op == Op::kBuffer || n->op == Op::kParam;
}

bool needs_storage(Graph& g, const Node* n) {
  return !is_virtual(g, n) && !has_buffer_identity(n);
}

namespace {

// Row-major run check: sizes of 1 carry no stride.
bool is_run(const std::vector<int64_t>& d, const std::vector<int64_t>& strides) {
  int64_t expect = 1;
  for (size_t i = d.size(); i-- > 0;) {
    if (d[i] == 1) continue;
    if (strides[i] != expect) return false;
    expect *= d[i];
  }
  return true;
}

std::vector<int64_t> row_major(const std::vector<int64_t>& d) {
  std::vector<int64_t> s(d.size(), 1);
  for (size_t i = d.size(); i-- > 1;) s[i - 1] = s[i] * d[i];
  return s;
}

}  // namespace

std::optional<View> contiguous_view(Graph& g, const Node* n) {
  NodeVec chain;
  const Node* at = n;
  for (; kMovementOps.has(at->op) || at->op == Op::kDetach; at = at->src(0)) chain.push_back(at);
  if (at->op != Op::kBuffer && at->op != Op::kParam) return std::nullopt;
  std::vector<int64_t> d = dims(g, at);
  std::vector<int64_t> strides = row_major(d);
  int64_t offset = 0;
  for (size_t i = chain.size(); i-- > 0;) {
    const Node* m = chain[i];
    switch (m->op) {
      case Op::kReshape:
        if (!is_run(d, strides)) return std::nullopt;
        d = dims(g, m);
        strides = row_major(d);
        break;
      case Op::kPermute: {
        const std::vector<int64_t> old_d = d;
        const std::vector<int64_t> old_s = strides;
        const Ints& p = m->as<Ints>();
        for (size_t a = 0; a < p.size(); ++a) {
          d[a] = old_d[static_cast<size_t>(p[a])];
          strides[a] = old_s[static_cast<size_t>(p[a])];
        }
        break;
      }
      case Op::kShrink: {
        const std::vector<int64_t> starts = const_ints(m->src(1));
        for (const Node* s : stack_values(m->src(1))) {
          if (!is_const(s)) return std::nullopt;
        }
        for (size_t a = 0; a < d.size(); ++a) offset += starts[a] * strides[a];
        d = dims(g, m);
        break;
      }
      case Op::kDetach:
        break;
      default:
        return std::nullopt;
    }
  }
  if (!is_run(d, strides)) return std::nullopt;
  return View{at, offset};
}

int64_t const_factor(Graph& g, const Node* n) {
  int64_t& memo = memo_at(g.memo().factors, n);
  if (memo != 0) return memo;
  int64_t f = 1;
  const auto magnitude = [](int64_t v) { return v == INT64_MIN ? int64_t{1} : (v < 0 ? -v : v); };
  if (const auto v = int_value(n)) {
    f = *v == 0 ? 0 : magnitude(*v);
    return f;  // 0 is divided by everything; not memoised because 0 means unknown
  }
  if (n->op == Op::kAdd) {
    f = std::gcd(const_factor(g, n->src(0)), const_factor(g, n->src(1)));
  } else if (n->op == Op::kMul && is_const(n->src(1))) {
    f = const_factor(g, n->src(0)) * magnitude(int_value(n->src(1)).value_or(1));
  } else if (n->op == Op::kParam && n->as<ParamArg>().addrspace == AddrSpace::kAlu) {
    f = std::max<int64_t>(1, n->as<ParamArg>().multiple_of);
  } else if (n->op == Op::kWhere && is_invalid(n->src(2))) {
    f = const_factor(g, n->src(1));
  }
  memo_at(g.memo().factors, n) = std::max<int64_t>(f, 1);
  return std::max<int64_t>(f, 1);
}

}  // namespace modeld::ir
