#include "selftest/testing/eager_array.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace modeld::testing {

using ir::DType;
using ir::Op;

namespace {

size_t at(int64_t i) {
  return static_cast<size_t>(i);
}

// Coordinates of element n, and back.
Ints coordinates(const Ints& dims, int64_t n) {
  Ints c(dims.size());
  for (size_t i = dims.size(); i-- > 0; n /= dims[i]) c[i] = n % dims[i];
  return c;
}
int64_t position(const Ints& dims, const Ints& c) {
  int64_t n = 0;
  for (size_t i = 0; i < dims.size(); ++i) n = n * dims[i] + c[i];
  return n;
}

// For every element of `out`: where `source_of` finds it.
template <class F>
Movement each(const Ints& in, Ints out, F source_of) {
  Movement m;
  m.from.reserve(at(count_of(out)));
  for (int64_t n = 0; n < count_of(out); ++n) {
    const Ints c = source_of(coordinates(out, n));
    m.from.push_back(c.size() == in.size() ? position(in, c) : -1);
  }
  m.dims = std::move(out);
  return m;
}

double compute(Op op, DType t, double x, double y) {
  switch (op) {
    case Op::kAdd:
      return t == DType::kBool ? (x != 0 || y != 0) : x + y;
    case Op::kSub:
      return x - y;
    case Op::kMul:
      return x * y;
    case Op::kMax:
      return x < y ? y : x;
    case Op::kNeg:
      return -x;
    case Op::kTrunc:
      return std::trunc(x);
    case Op::kCmpLt:
      return x < y;
    case Op::kCmpNe:
      return x != y;
    case Op::kCmpEq:
      return x == y;
    case Op::kAnd:
      return static_cast<double>(static_cast<int64_t>(x) & static_cast<int64_t>(y));
    case Op::kOr:
      return static_cast<double>(static_cast<int64_t>(x) | static_cast<int64_t>(y));
    case Op::kXor:
      return static_cast<double>(static_cast<int64_t>(x) ^ static_cast<int64_t>(y));
    default:
      std::abort();  // the program that asks is ours
  }
}

bool is_comparison(Op op) {
  return op == Op::kCmpLt || op == Op::kCmpNe || op == Op::kCmpEq;
}

}  // namespace

int64_t count_of(const Ints& dims) {
  int64_t n = 1;
  for (const int64_t d : dims) n *= d;
  return n;
}

Movement move_reshape(const Ints& dims, const Ints& to) {
  return each(dims, to, [&](const Ints& c) { return coordinates(dims, position(to, c)); });
}

Movement move_permute(const Ints& dims, const Ints& order) {
  Ints out;
  for (const int64_t axis : order) out.push_back(dims[at(axis)]);
  return each(dims, out, [&](const Ints& c) {
    Ints s(c.size());
    for (size_t i = 0; i < c.size(); ++i) s[at(order[i])] = c[i];
    return s;
  });
}

Movement move_expand(const Ints& dims, const Ints& to) {
  const size_t added = to.size() - dims.size();
  return each(dims, to, [&](const Ints& c) {
    Ints s(dims.size());
    for (size_t i = 0; i < s.size(); ++i) s[i] = dims[i] == 1 ? 0 : c[added + i];
    return s;
  });
}

Movement move_shrink(const Ints& dims, const Ints& starts, const Ints& lengths) {
  return each(dims, lengths, [&](Ints c) {
    for (size_t i = 0; i < c.size(); ++i) c[i] += starts[i];
    return c;
  });
}

Movement move_pad(const Ints& dims, const Ints& before, const Ints& after) {
  Ints out;
  for (size_t i = 0; i < dims.size(); ++i) out.push_back(before[i] + dims[i] + after[i]);
  Movement m = each(dims, out, [&](Ints c) {
    for (size_t i = 0; i < c.size(); ++i) {
      c[i] -= before[i];
      if (c[i] < 0 || c[i] >= dims[i]) return Ints(dims.size() + 1);  // no element of the source
    }
    return c;
  });
  return m;
}

Movement move_flip(const Ints& dims, const Ints& axes) {
  return each(dims, dims, [&](Ints c) {
    for (const int64_t a : axes) c[at(a)] = dims[at(a)] - 1 - c[at(a)];
    return c;
  });
}

EagerArray moved(const EagerArray& x, const Movement& m) {
  EagerArray out{x.dtype, m.dims, {}};
  out.v.reserve(m.from.size());
  for (const int64_t n : m.from) out.v.push_back(n < 0 ? 0 : x.v[at(n)]);
  return out;
}

bool broadcasts(const Ints& a, const Ints& b) {
  for (size_t i = 1; i <= std::min(a.size(), b.size()); ++i) {
    const int64_t x = a[a.size() - i];
    const int64_t y = b[b.size() - i];
    if (x != y && x != 1 && y != 1) return false;
  }
  return true;
}

Ints broadcast(const Ints& a, const Ints& b) {
  Ints out = a.size() < b.size() ? b : a;
  const Ints& other = a.size() < b.size() ? a : b;
  for (size_t i = 1; i <= other.size(); ++i) {
    int64_t& d = out[out.size() - i];
    if (d == 1) d = other[other.size() - i];
  }
  return out;
}

EagerArray elementwise(Op op, std::span<const EagerArray* const> args) {
  Ints dims;
  for (const EagerArray* a : args) dims = broadcast(dims, a->dims);
  std::vector<Movement> moves;
  for (const EagerArray* a : args) moves.push_back(move_expand(a->dims, dims));
  EagerArray out{args.back()->dtype, dims, {}};
  if (is_comparison(op)) out.dtype = DType::kBool;
  for (size_t n = 0; n < at(count_of(dims)); ++n) {
    const auto arg = [&](size_t i) { return args[i]->v[at(moves[i].from[n])]; };
    const double r = op == Op::kWhere ? arg(arg(0) != 0 ? 1 : 2)
                                      : compute(op, args[0]->dtype, arg(0), arg(args.size() - 1));
    out.v.push_back(stored(out.dtype, r));
  }
  return out;
}

EagerArray converted(const EagerArray& x, DType to) {
  EagerArray out{to, x.dims, {}};
  for (const double v : x.v) {
    const double whole = ir::is_float(x.dtype) && !ir::is_float(to) ? std::trunc(v) : v;
    out.v.push_back(to == DType::kBool ? v != 0 : stored(to, whole));
  }
  return out;
}

EagerArray reduced(Op op, const EagerArray& x, const Ints& axes) {
  Ints dims = x.dims;
  for (const int64_t a : axes) dims[at(a)] = 1;
  const bool adds = op == Op::kAdd;
  EagerArray out{adds && !ir::is_float(x.dtype) ? ir::sum_dtype(x.dtype) : x.dtype, dims, {}};
  std::vector<bool> seen(at(count_of(dims)));
  out.v.assign(seen.size(), 0);
  for (size_t n = 0; n < x.v.size(); ++n) {
    Ints c = coordinates(x.dims, static_cast<int64_t>(n));
    for (const int64_t a : axes) c[at(a)] = 0;
    const size_t to = at(position(dims, c));
    const double before = out.v[to];
    out.v[to] = !seen[to] ? x.v[n] : adds ? before + x.v[n] : std::max(before, x.v[n]);
    seen[to] = true;
  }
  for (double& v : out.v) v = stored(out.dtype, v);
  return out;
}

EagerArray joined(std::span<const EagerArray* const> parts, int64_t axis) {
  EagerArray out{parts[0]->dtype, parts[0]->dims, {}};
  out.dims[at(axis)] = 0;
  for (const EagerArray* p : parts) out.dims[at(axis)] += p->dims[at(axis)];
  for (int64_t n = 0; n < count_of(out.dims); ++n) {
    Ints c = coordinates(out.dims, n);
    size_t part = 0;
    for (; c[at(axis)] >= parts[part]->dims[at(axis)]; ++part) {
      c[at(axis)] -= parts[part]->dims[at(axis)];
    }
    out.v.push_back(parts[part]->v[at(position(parts[part]->dims, c))]);
  }
  return out;
}

double stored(DType t, double v) {
  if (t == DType::kBool) return v != 0;
  if (ir::is_float(t)) return ir::round_to(t, v);
  const auto bits = static_cast<uint64_t>(static_cast<int64_t>(v));
  switch (t) {
    case DType::kU8:
      return static_cast<uint8_t>(bits);
    case DType::kI32:
      return static_cast<int32_t>(bits);
    case DType::kU32:
      return static_cast<uint32_t>(bits);
    default:
      std::abort();
  }
}

}  // namespace modeld::testing
