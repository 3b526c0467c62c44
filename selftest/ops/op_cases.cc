#include "selftest/ops/op_cases.h"

#include <cmath>
#include <limits>

#include "runtime/ir/narrow_float.h"

#include "selftest/fuzz/kernel_approx.h"
#include "selftest/ops/op_reference.h"
#include "selftest/testing/kernel_builder.h"

namespace modeld::ops {

namespace {

using ir::DType;
using ir::Node;
using ir::Op;
using testing::KernelBuilder;
using testing::KernelStorage;
using N = const Node*;

constexpr int64_t kSpecials = 17;  // of each type; pairs of them fill a table

// The smallest number without leading zeros in its mantissa.
double smallest_normal(DType t) {
  if (const ir::Float8* f = ir::float8_format(t)) return std::ldexp(1.0, 1 - f->bias);
  return t == DType::kF64 ? 0x1p-1022 : t == DType::kF16 ? 0x1p-14 : 0x1p-126;
}

double float_special(DType t, int64_t k) {
  const auto smallest = static_cast<double>(2 * fuzz::tiny_of(t));
  const auto top = static_cast<double>(fuzz::largest_of(t));
  const double normal = smallest_normal(t);
  const double values[kSpecials] = {
      0.0,    -0.0,           1,   -1,   INFINITY, -INFINITY, NAN,      smallest, -3 * smallest,
      normal, -0.75 * normal, top, -top, 0.5,      -2.5,      3.140625, 100.5};
  return ir::round_to(t, values[k % kSpecials]);
}

int64_t int_special(DType t, int64_t k) {
  const int64_t low = t == DType::kU64 ? 0 : ir::int_min(t);
  const int64_t high = t == DType::kU64 ? -1 : ir::int_max(t);  // by its bits
  const auto near = [](int64_t v, int64_t by) {
    return static_cast<int64_t>(static_cast<uint64_t>(v) + static_cast<uint64_t>(by));
  };
  const int64_t values[kSpecials] = {0,
                                     1,
                                     -1,
                                     2,
                                     3,
                                     7,
                                     -7,
                                     10,
                                     low,
                                     near(low, 1),
                                     near(low, 3),
                                     high,
                                     near(high, -1),
                                     near(high, -6),
                                     high / 2,
                                     64,
                                     -100};
  return ir::wrap_to(t, values[k % kSpecials]);
}

// A walk through values of every size, the same on every host.
uint64_t mixed(uint64_t k) {
  k = (k + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
  return k ^ (k >> 29);
}

double float_value(DType t, int64_t k) {
  if (k % 3 == 0) return float_special(t, k / 3);
  const uint64_t m = mixed(static_cast<uint64_t>(k));
  const auto mantissa = static_cast<double>(static_cast<int64_t>(m % 4001) - 2000) / 97;
  return ir::round_to(t, std::ldexp(mantissa, static_cast<int>(m >> 32) % 9));
}

int64_t int_value(DType t, int64_t k) {
  if (t == DType::kBool) return static_cast<int64_t>(mixed(static_cast<uint64_t>(k)) >> 7 & 1);
  if (k % 3 == 0) return int_special(t, k / 3);
  const auto m = static_cast<int64_t>(mixed(static_cast<uint64_t>(k)));
  return ir::wrap_to(t, k % 3 == 1 ? m >> 48 : m);
}

double power_operand(DType t, bool is_base, int64_t k) {
  static constexpr double kBases[] = {0, 1, -1, 2, -2, 3, 0.5, 10, 1.5, -3, 7};
  static constexpr double kExponents[] = {0, 1, 2, 3, -1, 0.5, -2, 5, 1.25, 4, 6};
  double v = is_base ? kBases[k % 11] : kExponents[(k / 11 + k) % 11];
  if (!ir::is_float(t)) v = std::trunc(v);
  return ir::is_unsigned(t) ? std::fabs(v) : ir::is_float(t) ? ir::round_to(t, v) : v;
}

// Element k of operand `which`.
void set(KernelStorage& s, size_t at, const Row& row, int which, int64_t k, int64_t columns) {
  const DType t = s.dtype;
  const bool is_table = columns == kSpecials;  // every pair of specials
  const int64_t n = is_table ? (which == 0   ? k % columns
                                : which == 1 ? k / columns
                                             : k)
                             : k * 3 + which * 7;
  if (row.domain == Domain::kPower) {
    const double v = power_operand(t, which == 0, k);
    if (ir::is_float(t))
      s.f[at] = v;
    else
      s.i[at] = static_cast<int64_t>(v);
    return;
  }
  if (ir::is_float(t)) {
    s.f[at] = is_table ? float_special(t, n) : float_value(t, n / 2);
    return;
  }
  int64_t v = t == DType::kBool ? int_value(t, k + which)
              : is_table        ? int_special(t, n)
                                : int_value(t, n / 2);
  if (which == 1 && row.domain == Domain::kNotByZero && v == 0) v = 5;
  if (which == 1 && row.domain == Domain::kShift) v = (k * 7 + 3) % ir::item_bits(t);
  s.i[at] = v;
}

struct Loops {
  N row = nullptr, column = nullptr, flat = nullptr;
};

Loops open_loops(KernelBuilder& b, const Shape& s) {
  Loops l;
  l.column = b.loop(s.columns);
  l.row = b.loop(s.rows);
  l.flat = b.add(b.times(l.row, s.columns), l.column);
  return l;
}

N operand(KernelBuilder& b, const Shape& s, const Loops& l, int64_t slot, DType t) {
  const int64_t offset = (slot - 1) * s.offset;
  N buffer = b.param(slot, s.rows * s.columns + offset, t);
  N index = b.add(l.flat, b.i(offset));
  if (!s.is_masked) return b.at(buffer, index);
  return b.padded(buffer, b.inside(l.column, 1, s.columns - 1), index);
}

N finished(KernelBuilder& b, const Shape& s, const Loops& l, N value) {
  N index = l.flat;
  if (s.is_masked) index = b.gated(b.inside(l.row, 0, s.rows - 1), index);
  N out = b.param(0, s.rows * s.columns, value->dtype);
  return b.kernel(out, index, value, {l.row, l.column});
}

KernelStorage filled(DType t, const Shape& s, const Row& row, int which) {
  const int64_t offset = which * s.offset;
  KernelStorage out = KernelStorage::of(t, static_cast<size_t>(s.rows * s.columns + offset));
  for (int64_t k = -offset; k < s.rows * s.columns; ++k)
    set(out, static_cast<size_t>(k + offset), row, which, std::abs(k), s.columns);
  return out;
}

// Storage of the output holds this where nothing is written.
KernelStorage untouched(DType t, const Shape& s) {
  KernelStorage out = KernelStorage::of(t, static_cast<size_t>(s.rows * s.columns));
  for (double& v : out.f) v = ir::round_to(t, 77);
  for (int64_t& v : out.i) v = t == DType::kBool ? 1 : 77;
  return out;
}

bool is_padding(const Shape& s, int64_t k) {
  const int64_t column = k % s.columns;
  return s.is_masked && (column < 1 || column >= s.columns - 1);
}

Element element(const KernelStorage& s, size_t n) {
  return ir::is_float(s.dtype) ? Element{s.f[n], 0} : Element{0, s.i[n]};
}

// Casts of floats outside of the target's range have no result to agree on.
bool is_defined_cast(DType from, DType to, Element a) {
  if (!ir::is_float(from) || ir::is_float(to) || to == DType::kBool) return true;
  const auto low = static_cast<long double>(to == DType::kU64 ? 0 : ir::int_min(to));
  const long double high =
      to == DType::kU64 ? 0x1p64L : static_cast<long double>(ir::int_max(to)) + 1;
  return a.f > low - 1 && a.f < high;
}

std::string text(DType t, Element e) {
  return ir::is_float(t) ? strf("%.17g", static_cast<double>(e.f))
                         : strf("%lld", static_cast<long long>(e.i));
}

std::string judge(const OpCase& c, Element want, const KernelStorage& got, size_t k) {
  const Element is = element(got, k);
  if (!ir::is_float(c.result))
    return is.i == want.i ? "" : "is " + text(c.result, is) + ", wanted " + text(c.result, want);
  const double limit = c.result == DType::kF64   ? c.row.f64
                       : c.result == DType::kF32 ? c.row.f32
                                                 : c.row.halves;
  const long double off = units_off(c.result, got.f[k], want.f);
  const ir::Float8* byte = ir::float8_format(c.result);
  const bool has_sign = byte == nullptr || !byte->is_unsigned_zero;
  const bool wrong_zero = c.row.sign_of_zero && has_sign && want.f == 0 &&
                          std::signbit(want.f) != std::signbit(got.f[k]);
  if (off <= limit * 1.0000001L && !wrong_zero) return "";
  return "is " + text(c.result, is) + ", wanted " + text(c.result, want) +
         strf(" (%.4g units, allowed %g)", static_cast<double>(off), limit);
}

DType result_type(const Row& row, DType t) {
  return ir::kComparisonOps.has(row.op) ? DType::kBool : t;
}

}  // namespace

const std::vector<Row>& op_table() {
#define ROW(op, types, domain, f64, f32, halves, sign) \
  {#op, Op::k##op, Types::types, Domain::domain, f64, f32, halves, sign},
  static const std::vector<Row> kTable = {
#include "selftest/ops/op_table.def"
  };
#undef ROW
  return kTable;
}

std::vector<DType> types_of(Types t) {
  const std::vector<DType> floats = {DType::kF8E4M3,     DType::kF8E4M3Fnuz, DType::kF8E5M2,
                                     DType::kF8E5M2Fnuz, DType::kF16,        DType::kBF16,
                                     DType::kF32,        DType::kF64};
  const std::vector<DType> ints = {DType::kI8,  DType::kU8,  DType::kI16, DType::kU16,
                                   DType::kI32, DType::kU32, DType::kI64, DType::kU64};
  std::vector<DType> out;
  const auto add = [&](const std::vector<DType>& more) {
    out.insert(out.end(), more.begin(), more.end());
  };
  if (t == Types::kU64Only) return {DType::kU64};
  if (t == Types::kAll || t == Types::kBits) add({DType::kBool});
  if (t != Types::kFloats) add(ints);
  if (t == Types::kFloats || t == Types::kNumbers || t == Types::kAll) add(floats);
  return out;
}

const std::vector<Shape>& op_shapes() {
  static const std::vector<Shape> kShapes = {
      {"table of specials", kSpecials, kSpecials, 0, false},
      {"33x5 masked", 33, 5, 1, true},
      {"1", 1, 1, 1, false},
      {"3, offset 1", 1, 3, 1, false},
      {"7, offset 2", 1, 7, 2, false},
      {"17, offset 3", 17, 1, 3, false},
      {"33x5, offset 2", 33, 5, 2, false},
  };
  return kShapes;
}

OpCase make_case(ir::Graph& g, const Row& row, DType t, const Shape& shape) {
  KernelBuilder b(g);
  const Loops l = open_loops(b, shape);
  OpCase c{std::string(row.name) + " " + ir::dtype_name(t) + " " + shape.name,
           row,
           t,
           result_type(row, t),
           shape,
           nullptr,
           {}};
  c.buffers.push_back(untouched(c.result, shape));
  ir::NodeVec src;
  for (int k = 0; k < ir::op_arity(row.op); ++k) {
    const DType operand_type = row.op == Op::kWhere && k == 0 ? DType::kBool : t;
    src.push_back(operand(b, shape, l, k + 1, operand_type));
    c.buffers.push_back(filled(operand_type, shape, row, k));
  }
  // Padding reads 0, which these may not divide by.
  if (shape.is_masked && row.domain == Domain::kNotByZero)
    src[1] = ir::where(g, b.inside(l.column, 1, shape.columns - 1), src[1], b.f(1, t));
  c.ast = finished(b, shape, l, g.make(row.op, c.result, src));
  return c;
}

OpCase make_cast_case(ir::Graph& g, Op op, DType from, DType to, const Shape& shape) {
  const Row row{
      op == Op::kCast ? "Cast" : "BitCast", op, Types::kAll, Domain::kAny, 0.5, 0.5, 0.5, true};
  KernelBuilder b(g);
  const Loops l = open_loops(b, shape);
  OpCase c{std::string(row.name) + " " + ir::dtype_name(from) + " to " + ir::dtype_name(to) + " " +
               shape.name,
           row,
           from,
           to,
           shape,
           nullptr,
           {}};
  c.buffers = {untouched(to, shape), filled(from, shape, row, 0)};
  c.ast = finished(b, shape, l, g.make(op, to, {operand(b, shape, l, 1, from)}));
  return c;
}

std::string check_case(const OpCase& c, const KernelStorage& got) {
  for (int64_t k = 0; k < c.shape.rows * c.shape.columns; ++k) {
    const auto at = static_cast<size_t>(k);
    const bool unwritten = c.shape.is_masked && k / c.shape.columns == c.shape.rows - 1;
    Element want = element(c.buffers[0], at);
    Element a[3];
    for (size_t n = 1; n < c.buffers.size(); ++n) {
      const auto offset = static_cast<size_t>(static_cast<int64_t>(n - 1) * c.shape.offset);
      if (!is_padding(c.shape, k)) a[n - 1] = element(c.buffers[n], at + offset);
    }
    if (is_padding(c.shape, k) && c.row.domain == Domain::kNotByZero) a[1].i = 1;
    const bool is_cast = c.row.op == Op::kCast;
    if (is_cast && !unwritten && !is_defined_cast(c.type, c.result, a[0])) continue;
    if (!unwritten) {
      want = is_cast                    ? reference_cast(c.type, c.result, a[0])
             : c.row.op == Op::kBitCast ? reference_bitcast(c.type, c.result, a[0])
                                        : reference(c.row.op, c.type, a);
    }
    const std::string wrong = judge(c, want, got, at);
    if (!wrong.empty()) {
      std::string operands;
      for (size_t n = 1; n < c.buffers.size(); ++n)
        operands += " " + text(c.buffers[n].dtype, a[n - 1]);
      return c.name + strf(" element %lld of", static_cast<long long>(k)) + operands + " " + wrong;
    }
  }
  return "";
}

}  // namespace modeld::ops
