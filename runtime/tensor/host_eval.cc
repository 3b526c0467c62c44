#include "runtime/tensor/host_eval.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include "hal/base/check.h"

#include "runtime/ir/derived.h"

namespace modeld::tensor {
namespace {

using ir::Node;
using ir::Op;

// A strided look at shared cells.
struct View {
  DType dtype = DType::kF32;
  Dims dims;
  Dims strides;
  int64_t offset = 0;
  std::shared_ptr<std::vector<Cell>> cells;
};

Dims row_major(const Dims& dims) {
  Dims s(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) s[i - 1] = s[i] * dims[i];
  return s;
}

View fresh(DType dtype, const Dims& dims) {
  return {dtype, dims, row_major(dims), 0,
          std::make_shared<std::vector<Cell>>(static_cast<size_t>(product(dims)))};
}

// Calls fn(offsets of each operand) for every element of dims in row-major order; the last axis is
// the inner loop.
template <size_t N, class Fn>
void for_each(const Dims& dims,
              std::array<const Dims*, N> strides,
              std::array<int64_t, N> start,
              Fn fn) {
  if (product(dims) == 0) return;
  const size_t rank = dims.size();
  const int64_t inner = rank == 0 ? 1 : dims[rank - 1];
  Dims counter(rank, 0);
  for (;;) {
    std::array<int64_t, N> o = start;
    for (int64_t i = 0; i < inner; ++i) {
      fn(o);
      if (rank != 0) {
        for (size_t k = 0; k < N; ++k) o[k] += (*strides[k])[rank - 1];
      }
    }
    if (rank < 2) return;
    size_t axis = rank - 1;
    for (;;) {
      if (axis == 0) return;
      --axis;
      for (size_t k = 0; k < N; ++k) start[k] += (*strides[k])[axis];
      if (++counter[axis] < dims[axis]) break;
      for (size_t k = 0; k < N; ++k) start[k] -= (*strides[k])[axis] * dims[axis];
      counter[axis] = 0;
    }
  }
}

View dense(const View& v) {
  const bool all = v.offset == 0 && v.strides == row_major(v.dims) &&
                   static_cast<int64_t>(v.cells->size()) == product(v.dims);
  if (all) return v;
  View out = fresh(v.dtype, v.dims);
  Cell* to = out.cells->data();
  const Cell* from = v.cells->data();
  for_each<1>(v.dims, {&v.strides}, {v.offset},
              [&](const std::array<int64_t, 1>& o) { *to++ = from[o[0]]; });
  return out;
}

// Strides of v seen as `dims` by broadcasting.
Dims broadcast_strides(const View& v, const Dims& dims) {
  Dims s(dims.size(), 0);
  const size_t lead = dims.size() - v.dims.size();
  for (size_t i = 0; i < v.dims.size(); ++i) s[lead + i] = v.dims[i] == 1 ? 0 : v.strides[i];
  return s;
}

Dims broadcast(const Dims& a, const Dims& b) {
  Dims out = a.size() >= b.size() ? a : b;
  const Dims& other = a.size() >= b.size() ? b : a;
  for (size_t i = 0; i < other.size(); ++i) {
    int64_t& d = out[out.size() - other.size() + i];
    if (d == 1) d = other[i];
  }
  return out;
}

Cell rounded(DType t, Cell c) {
  if (ir::is_float(t))
    c.f = ir::round_to(t, c.f);
  else
    c.i = ir::wrap_to(t, c.i);
  return c;
}

Cell of(double v) {
  return Cell{.f = v};
}
Cell of_int(int64_t v) {
  return Cell{.i = v};
}

int64_t wrapping(Op op, int64_t a, int64_t b) {
  const auto x = static_cast<uint64_t>(a);
  const auto y = static_cast<uint64_t>(b);
  return static_cast<int64_t>(op == Op::kAdd ? x + y : (op == Op::kSub ? x - y : x * y));
}

// Division by 0 gives 0 here; the smallest number by -1 wraps instead of trapping.
int64_t trunc_div(int64_t a, int64_t b) {
  if (b == 0) return 0;
  return b == -1 ? wrapping(Op::kSub, 0, a) : a / b;
}

int64_t trunc_mod(int64_t a, int64_t b) {
  return b == 0 || b == -1 ? 0 : a % b;
}

int64_t floor_div(int64_t a, int64_t b) {
  const int64_t q = trunc_div(a, b);
  return trunc_mod(a, b) != 0 && ((a < 0) != (b < 0)) ? q - 1 : q;
}

// Binary ops. ok = false: not an op of this type.
Cell float_binary(Op op, Cell a, Cell b, bool& ok) {
  switch (op) {
    case Op::kAdd:
      return of(a.f + b.f);
    case Op::kSub:
      return of(a.f - b.f);
    case Op::kMul:
      return of(a.f * b.f);
    case Op::kFDiv:
      return of(a.f / b.f);
    case Op::kPow:
      return of(std::pow(a.f, b.f));
    case Op::kMax:
      return of(a.f < b.f || std::isnan(b.f) ? b.f : a.f);  // a NaN comes through
    case Op::kCmpLt:
      return of_int(a.f < b.f);
    case Op::kCmpNe:
      return of_int(a.f != b.f);
    case Op::kCmpEq:
      return of_int(a.f == b.f);
    default:
      ok = false;
      return a;
  }
}

Cell int_binary(Op op, DType in, Cell a, Cell b, bool& ok) {
  const bool less =
      in == DType::kU64 ? static_cast<uint64_t>(a.i) < static_cast<uint64_t>(b.i) : a.i < b.i;
  switch (op) {
    case Op::kAdd:
    case Op::kSub:
    case Op::kMul:
      return of_int(wrapping(op, a.i, b.i));
    case Op::kMax:
      return less ? b : a;
    case Op::kCmpLt:
      return of_int(less);
    case Op::kCmpNe:
      return of_int(a.i != b.i);
    case Op::kCmpEq:
      return of_int(a.i == b.i);
    case Op::kCDiv:
      return of_int(trunc_div(a.i, b.i));
    case Op::kCMod:
      return of_int(trunc_mod(a.i, b.i));
    case Op::kFloorDiv:
      return of_int(floor_div(a.i, b.i));
    case Op::kFloorMod:
      return of_int(
          b.i == 0 ? 0 : wrapping(Op::kSub, a.i, wrapping(Op::kMul, floor_div(a.i, b.i), b.i)));
    case Op::kXor:
      return of_int(a.i ^ b.i);
    case Op::kAnd:
      return of_int(a.i & b.i);
    case Op::kOr:
      return of_int(a.i | b.i);
    case Op::kShl:
      return of_int(static_cast<int64_t>(static_cast<uint64_t>(a.i) << (b.i & 63)));
    case Op::kShr:
      return of_int(ir::is_unsigned(in)
                        ? static_cast<int64_t>(static_cast<uint64_t>(a.i) >> (b.i & 63))
                        : a.i >> (b.i & 63));
    default:
      ok = false;
      return a;
  }
}

Cell binary(Op op, DType in, Cell a, Cell b, bool& ok) {
  return ir::is_float(in) ? float_binary(op, a, b, ok) : int_binary(op, in, a, b, ok);
}

Cell unary(Op op, DType t, Cell a, bool& ok) {
  switch (op) {
    case Op::kExp2:
      return of(std::exp2(a.f));
    case Op::kLog2:
      return of(std::log2(a.f));
    case Op::kSin:
      return of(std::sin(a.f));
    case Op::kSqrt:
      return of(std::sqrt(a.f));
    case Op::kReciprocal:
      return of(1.0 / a.f);
    case Op::kNeg:
      return ir::is_float(t) ? of(-a.f) : of_int(wrapping(Op::kSub, 0, a.i));
    case Op::kTrunc:
      return ir::is_float(t) ? of(std::trunc(a.f)) : a;
    default:
      ok = false;
      return a;
  }
}

Cell converted(DType from, DType to, Cell c) {
  if (ir::is_float(from) && ir::is_float(to)) return c;
  if (ir::is_float(from)) {
    if (to == DType::kBool) return of_int(c.f != 0);
    const double t = std::trunc(c.f);
    return of_int(std::isnan(t) ? 0 : static_cast<int64_t>(std::clamp(t, -9.2e18, 9.2e18)));
  }
  if (to == DType::kBool) return of_int(c.i != 0);
  if (!ir::is_float(to)) return c;
  return of(from == DType::kU64 ? static_cast<double>(static_cast<uint64_t>(c.i))
                                : static_cast<double>(c.i));
}

void store_item(DType t, Cell c, std::byte* out) {
  const auto n = static_cast<size_t>(ir::item_size(t));
  if (t == DType::kF64)
    std::memcpy(out, &c.f, n);
  else if (t == DType::kF32) {
    const auto v = static_cast<float>(c.f);
    std::memcpy(out, &v, n);
  } else if (ir::is_narrow_float(t)) {
    const uint16_t v = ir::to_narrow_bits(t, c.f);
    std::memcpy(out, &v, n);
  } else {
    std::memcpy(out, &c.i, n);  // little endian
  }
}

Cell load_item(DType t, const std::byte* in) {
  const auto n = static_cast<size_t>(ir::item_size(t));
  if (t == DType::kF64) {
    Cell c{};
    std::memcpy(&c.f, in, n);
    return c;
  }
  if (t == DType::kF32) {
    float v = 0;
    std::memcpy(&v, in, n);
    return of(static_cast<double>(v));
  }
  uint64_t raw = 0;
  std::memcpy(&raw, in, n);
  if (ir::is_narrow_float(t))
    return of(static_cast<double>(ir::from_narrow_bits(t, static_cast<uint16_t>(raw))));
  if (t == DType::kBool) return of_int(raw != 0);
  return of_int(ir::wrap_to(t, static_cast<int64_t>(raw)));
}

// The walk over one graph.
class Walk {
 public:
  Walk(ir::Graph& g,
       const WeightStore* weights,
       const std::unordered_map<const Node*, HostArray>& bound,
       const std::map<std::string, int64_t>& variables)
      : g_(g), weights_(weights), bound_(bound), variables_(variables) {}

  void preset(const Node* n, View v) { values_[n] = std::move(v); }
  Result<View> run(const Node* root);

 private:
  std::vector<const Node*> data_sources(const Node* n) const;
  const Node* fused_product(const Node* reduce) const;
  Result<View> eval(const Node* n);
  Result<View> leaf(const Node* n);
  Result<View> movement(const Node* n);
  Result<View> elementwise(const Node* n);
  Result<View> reduce(const Node* n);
  View reduce_product(const Node* n, const Node* product);
  Result<View> index(const Node* n);
  Result<View> after(const Node* n);
  Result<View> stack(const Node* n);
  const View& value(const Node* n) const { return values_.at(n); }

  ir::Graph& g_;
  const WeightStore* weights_;
  const std::unordered_map<const Node*, HostArray>& bound_;
  const std::map<std::string, int64_t>& variables_;
  std::unordered_map<const Node*, View> values_;
  std::unordered_map<const Node*, int> users_;
};

// REDUCE(PERMUTE*(MUL)) with nobody else looking: the product is never held as a whole.
const Node* Walk::fused_product(const Node* reduce) const {
  const Node* n = reduce->src(0);
  while (n->is(Op::kPermute) && users_.at(n) == 1) n = n->src(0);
  return n->is(Op::kMul) && users_.at(n) == 1 && reduce->as<ir::ReduceArg>().op == Op::kAdd
             ? n
             : nullptr;
}

std::vector<const Node*> Walk::data_sources(const Node* n) const {
  switch (n->op) {
    case Op::kReshape:
    case Op::kExpand:
    case Op::kPad:
    case Op::kShrink:
      return {n->src(0)};
    case Op::kBuffer:
    case Op::kParam:
      return {};
    case Op::kAfter: {
      std::vector<const Node*> out = {n->src(0)};
      for (const Node* dep : n->src().subspan(1))
        out.push_back(dep->is(Op::kStore) ? dep->src(1) : dep);
      return out;
    }
    default:
      return {n->src().begin(), n->src().end()};
  }
}

Result<View> Walk::run(const Node* root) {
  std::vector<const Node*> order;
  std::vector<std::pair<const Node*, size_t>> stack = {{root, 0}};
  std::unordered_map<const Node*, bool> seen = {{root, true}};
  while (!stack.empty()) {
    auto& [n, i] = stack.back();
    const auto src = values_.count(n) ? std::vector<const Node*>{} : data_sources(n);
    if (i < src.size()) {
      const Node* s = src[i++];
      ++users_[s];
      if (!std::exchange(seen[s], true)) stack.emplace_back(s, 0);
      continue;
    }
    order.push_back(n);
    stack.pop_back();
  }
  ++users_[root];
  std::unordered_map<const Node*, bool> skipped;
  for (const Node* n : order) {
    if (!n->is(Op::kReduce)) continue;
    const Node* product = fused_product(n);
    for (const Node* s = n->src(0); product != nullptr; s = s->src(0)) {
      skipped[s] = true;
      if (s == product) break;
    }
  }
  std::unordered_map<const Node*, int> left = users_;
  for (const Node* n : order) {
    if (values_.count(n) || skipped.count(n)) continue;
    ASSIGN_OR_RETURN(View v, eval(n));
    if (v.dims != ir::dims(g_, n))
      return fail(Errc::kInternal, strf("host evaluation: %s gave %s", ir::op_name(n->op),
                                        dims_text(v.dims).c_str()));
    values_[n] = std::move(v);
    const Node* reader = n;
    if (n->is(Op::kReduce) && skipped.count(n->src(0))) reader = fused_product(n);
    for (const Node* s : data_sources(reader)) {
      if (--left[s] == 0) values_.erase(s);
    }
  }
  return value(root);
}

Result<View> Walk::eval(const Node* n) {
  if (ir::kElementwiseOps.has(n->op)) return elementwise(n);
  if (ir::kMovementOps.has(n->op)) return movement(n);
  switch (n->op) {
    case Op::kBuffer:
    case Op::kParam:
    case Op::kConst:
      return leaf(n);
    case Op::kReduce:
      return reduce(n);
    case Op::kIndex:
      return index(n);
    case Op::kAfter:
      return after(n);
    case Op::kStack:
      return stack(n);
    case Op::kContiguous:
    case Op::kDetach:
    case Op::kCopy:
      return value(n->src(0));
    default:
      return fail(Errc::kUnsupported, strf("host evaluation: op %s", ir::op_name(n->op)));
  }
}

View view_of(const HostArray& a) {
  return {a.dtype, a.dims, row_major(a.dims), 0, std::make_shared<std::vector<Cell>>(a.cells)};
}

Result<View> Walk::leaf(const Node* n) {
  if (n->is(Op::kConst)) {
    View v = fresh(n->dtype, {});
    const double f = ir::num_value(n).value_or(0);
    (*v.cells)[0] = ir::is_float(n->dtype) ? of(f) : of_int(ir::int_value(n).value_or(0));
    return v;
  }
  if (const auto it = bound_.find(n); it != bound_.end()) return view_of(it->second);
  const auto& arg = n->as<ir::ParamArg>();
  if (arg.addrspace == ir::AddrSpace::kAlu) {
    const auto it = variables_.find(arg.name);
    if (it == variables_.end())
      return fail(Errc::kNotFound,
                  strf("host evaluation: variable '%s' has no value", arg.name.c_str()));
    View v = fresh(n->dtype, {});
    (*v.cells)[0] = of_int(it->second);
    return v;
  }
  const Weight* w = weights_ == nullptr ? nullptr : weights_->find(arg.slot);
  if (w == nullptr)
    return fail(Errc::kNotFound,
                strf("host evaluation: buffer '%s' is not bound", arg.name.c_str()));
  ASSIGN_OR_RETURN(HostArray a,
                   from_bytes(n->dtype, {w->size_bytes() / ir::item_size(w->dtype)}, *w->bytes));
  return view_of(a);
}

Result<View> Walk::movement(const Node* n) {
  View v = value(n->src(0));
  switch (n->op) {
    case Op::kReshape: {
      v = dense(v);
      v.dims = ir::const_ints(n->src(1));
      v.strides = row_major(v.dims);
      return v;
    }
    case Op::kPermute: {
      const View in = v;
      const auto& order = n->as<ir::Ints>();
      for (size_t i = 0; i < order.size(); ++i) {
        v.dims[i] = in.dims[static_cast<size_t>(order[i])];
        v.strides[i] = in.strides[static_cast<size_t>(order[i])];
      }
      return v;
    }
    case Op::kFlip: {
      const auto& flags = n->as<ir::Ints>();
      for (size_t i = 0; i < flags.size(); ++i) {
        if (flags[i] == 0) continue;
        v.offset += v.strides[i] * (v.dims[i] - 1);
        v.strides[i] = -v.strides[i];
      }
      return v;
    }
    case Op::kExpand: {
      const Dims lead = ir::const_ints(n->src(1));
      v.dims.insert(v.dims.begin(), lead.begin(), lead.end());
      v.strides.insert(v.strides.begin(), lead.size(), 0);
      return v;
    }
    case Op::kShrink: {
      const Dims start = ir::const_ints(n->src(1));
      for (size_t i = 0; i < start.size(); ++i) v.offset += start[i] * v.strides[i];
      v.dims = ir::const_ints(n->src(2));
      return v;
    }
    case Op::kPad: {
      const Dims before = ir::const_ints(n->src(1));
      View out = fresh(n->dtype, ir::const_ints(n->src(2)));
      std::fill(out.cells->begin(), out.cells->end(), Cell{.i = 0});  // all zero bits are 0.0 too
      int64_t start = 0;
      for (size_t i = 0; i < before.size(); ++i) start += before[i] * out.strides[i];
      for_each<2>(v.dims, {&v.strides, &out.strides}, {v.offset, start},
                  [&](const std::array<int64_t, 2>& o) {
                    (*out.cells)[static_cast<size_t>(o[1])] = (*v.cells)[static_cast<size_t>(o[0])];
                  });
      return out;
    }
    default:
      return fail(Errc::kInternal, "host evaluation: movement");
  }
}

Result<View> bitcast(const View& in, DType to) {
  const View v = dense(in);
  std::vector<std::byte> bytes(v.cells->size() * static_cast<size_t>(ir::item_size(v.dtype)));
  for (size_t i = 0; i < v.cells->size(); ++i)
    store_item(v.dtype, (*v.cells)[i],
               bytes.data() + i * static_cast<size_t>(ir::item_size(v.dtype)));
  Dims dims = v.dims;
  if (!dims.empty()) dims.back() = dims.back() * ir::item_size(v.dtype) / ir::item_size(to);
  ASSIGN_OR_RETURN(HostArray a, from_bytes(to, dims, bytes));
  return view_of(a);
}

Result<View> Walk::elementwise(const Node* n) {
  if (n->is(Op::kBitCast)) return bitcast(value(n->src(0)), n->dtype);
  std::array<const View*, 3> in{};
  Dims dims;
  for (size_t i = 0; i < n->nsrc; ++i) {
    in[i] = &value(n->src(i));
    dims = broadcast(dims, in[i]->dims);
  }
  for (size_t i = n->nsrc; i < 3; ++i) in[i] = in[0];
  View out = fresh(n->dtype, dims);
  std::array<Dims, 3> strides;
  for (size_t i = 0; i < 3; ++i) strides[i] = broadcast_strides(*in[i], dims);
  const Op op = n->op;
  const DType type = in[0]->dtype;
  const DType to = n->dtype;
  bool ok = true;
  Cell* next = out.cells->data();
  const Cell* a = in[0]->cells->data();
  const Cell* b = in[1]->cells->data();
  const Cell* c = in[2]->cells->data();
  for_each<3>(dims, {&strides[0], &strides[1], &strides[2]},
              {in[0]->offset, in[1]->offset, in[2]->offset}, [&](const std::array<int64_t, 3>& o) {
                Cell r{};
                if (op == Op::kWhere)
                  r = a[o[0]].i != 0 ? b[o[1]] : c[o[2]];
                else if (op == Op::kCast)
                  r = converted(type, to, a[o[0]]);
                else if (op == Op::kMulAcc)
                  r = binary(Op::kAdd, type, binary(Op::kMul, type, a[o[0]], b[o[1]], ok), c[o[2]],
                             ok);
                else if (ir::kUnaryOps.has(op))
                  r = unary(op, type, a[o[0]], ok);
                else
                  r = binary(op, type, a[o[0]], b[o[1]], ok);
                *next++ = rounded(to, r);
              });
  if (!ok)
    return fail(Errc::kInvalid,
                strf("host evaluation: %s on %s", ir::op_name(op), ir::dtype_name(type)));
  return out;
}

Result<View> Walk::reduce(const Node* n) {
  if (const Node* product = fused_product(n)) return reduce_product(n, product);
  const auto& arg = n->as<ir::ReduceArg>();
  const View& v = value(n->src(0));
  const auto k = static_cast<int64_t>(arg.axes);
  View out = fresh(n->dtype, Dims(v.dims.begin() + k, v.dims.end()));
  const bool is_float = ir::is_float(n->dtype);
  const Cell start = arg.op == Op::kAdd ? (is_float ? of(0) : of_int(0))
                     : arg.op == Op::kMul
                         ? (is_float ? of(1) : of_int(1))
                         : (is_float ? of(-INFINITY) : of_int(ir::int_min(n->dtype)));
  std::fill(out.cells->begin(), out.cells->end(), start);
  Dims strides(static_cast<size_t>(k), 0);
  strides.insert(strides.end(), out.strides.begin(), out.strides.end());
  bool ok = true;
  for_each<2>(v.dims, {&v.strides, &strides}, {v.offset, 0}, [&](const std::array<int64_t, 2>& o) {
    Cell& acc = (*out.cells)[static_cast<size_t>(o[1])];
    acc = binary(arg.op, n->dtype, acc, (*v.cells)[static_cast<size_t>(o[0])], ok);
  });
  for (Cell& c : *out.cells) c = rounded(n->dtype, c);
  return out;
}

View Walk::reduce_product(const Node* n, const Node* product) {
  const View& a = value(product->src(0));
  const View& b = value(product->src(1));
  Dims dims = broadcast(a.dims, b.dims);
  Dims sa = broadcast_strides(a, dims);
  Dims sb = broadcast_strides(b, dims);
  std::vector<const Node*> moves;
  for (const Node* m = n->src(0); m != product; m = m->src(0)) moves.push_back(m);
  for (size_t i = moves.size(); i-- > 0;) {
    const Dims order = moves[i]->as<ir::Ints>();
    const std::array<Dims, 3> old = {dims, sa, sb};
    for (size_t j = 0; j < order.size(); ++j) {
      dims[j] = old[0][static_cast<size_t>(order[j])];
      sa[j] = old[1][static_cast<size_t>(order[j])];
      sb[j] = old[2][static_cast<size_t>(order[j])];
    }
  }
  const auto k = n->as<ir::ReduceArg>().axes;
  auto tail = [&](const Dims& d) { return Dims(d.begin() + k, d.end()); };
  auto head = [&](const Dims& d) { return Dims(d.begin(), d.begin() + k); };
  const Dims inner = head(dims), ia = head(sa), ib = head(sb), oa = tail(sa), ob = tail(sb);
  View out = fresh(n->dtype, tail(dims));
  Cell* next = out.cells->data();
  const Cell* x = a.cells->data();
  const Cell* y = b.cells->data();
  const DType t = product->dtype;
  for_each<2>(out.dims, {&oa, &ob}, {a.offset, b.offset}, [&](const std::array<int64_t, 2>& o) {
    Cell acc{};
    if (t == DType::kF32) {
      double sum = 0;
      for_each<2>(inner, {&ia, &ib}, o, [&](const std::array<int64_t, 2>& p) {
        sum += static_cast<double>(static_cast<float>(x[p[0]].f * y[p[1]].f));
      });
      acc = of(sum);
    } else {
      bool ok = true;
      acc = ir::is_float(t) ? of(0) : of_int(0);
      for_each<2>(inner, {&ia, &ib}, o, [&](const std::array<int64_t, 2>& p) {
        acc = binary(Op::kAdd, t, acc, rounded(t, binary(Op::kMul, t, x[p[0]], y[p[1]], ok)), ok);
      });
    }
    *next++ = rounded(n->dtype, acc);
  });
  return out;
}

// INDEX(value, i...): i select along the leading axes; what is left comes last. Out of range is an
// error.
Result<View> Walk::index(const Node* n) {
  const View v = value(n->src(0));
  Dims dims;
  for (const Node* s : n->src().subspan(1)) dims = broadcast(dims, value(s).dims);
  const size_t k = n->nsrc - 1;
  View base = fresh(DType::kI64, dims);
  std::fill(base.cells->begin(), base.cells->end(), of_int(v.offset));
  for (size_t i = 0; i < k; ++i) {
    const View& idx = value(n->src(i + 1));
    const Dims strides = broadcast_strides(idx, dims);
    bool inside = true;
    for_each<2>(dims, {&strides, &base.strides}, {idx.offset, 0},
                [&](const std::array<int64_t, 2>& o) {
                  const int64_t at = (*idx.cells)[static_cast<size_t>(o[0])].i;
                  inside = inside && at >= 0 && at < v.dims[i];
                  (*base.cells)[static_cast<size_t>(o[1])].i += at * v.strides[i];
                });
    if (!inside) return fail(Errc::kInvalid, "host evaluation: index out of range");
  }
  const Dims rest(v.dims.begin() + static_cast<int64_t>(k), v.dims.end());
  const Dims rest_strides(v.strides.begin() + static_cast<int64_t>(k), v.strides.end());
  Dims out_dims = dims;
  out_dims.insert(out_dims.end(), rest.begin(), rest.end());
  View out = fresh(n->dtype, out_dims);
  Cell* next = out.cells->data();
  for (const Cell& c : *base.cells) {
    for_each<1>(rest, {&rest_strides}, {c.i}, [&](const std::array<int64_t, 1>& o) {
      *next++ = (*v.cells)[static_cast<size_t>(o[0])];
    });
  }
  return out;
}

// The state with each store's value written where the store's target, seen over positions, points.
Result<View> Walk::after(const Node* n) {
  const Node* state = n->src(0);
  View out = dense(value(state));
  out.cells = std::make_shared<std::vector<Cell>>(*out.cells);
  for (const Node* dep : n->src().subspan(1)) {
    if (!dep->is(Op::kStore)) continue;
    View positions = fresh(DType::kI64, out.dims);
    for (size_t i = 0; i < positions.cells->size(); ++i)
      (*positions.cells)[i] = of_int(static_cast<int64_t>(i));
    Walk inner(g_, weights_, bound_, variables_);
    inner.preset(state, positions);
    ASSIGN_OR_RETURN(const View target, inner.run(dep->src(0)));
    const View& x = value(dep->src(1));
    const Dims strides = broadcast_strides(x, target.dims);
    for_each<2>(target.dims, {&target.strides, &strides}, {target.offset, x.offset},
                [&](const std::array<int64_t, 2>& o) {
                  const auto at = static_cast<size_t>((*target.cells)[static_cast<size_t>(o[0])].i);
                  (*out.cells)[at] = (*x.cells)[static_cast<size_t>(o[1])];
                });
  }
  return out;
}

Result<View> Walk::stack(const Node* n) {
  Dims dims = {static_cast<int64_t>(n->nsrc)};
  View out;
  for (size_t i = 0; i < n->nsrc; ++i) {
    const View v = dense(value(n->src(i)));
    if (i == 0) {
      dims.insert(dims.end(), v.dims.begin(), v.dims.end());
      out = fresh(n->dtype, dims);
    }
    std::copy(v.cells->begin(), v.cells->end(),
              out.cells->begin() + static_cast<int64_t>(i * v.cells->size()));
  }
  return out;
}

}  // namespace

Result<HostArray> from_bytes(ir::DType dtype, const Dims& dims, std::span<const std::byte> bytes) {
  const auto item = static_cast<size_t>(ir::item_size(dtype));
  const auto count = static_cast<size_t>(product(dims));
  if (item == 0 || bytes.size() != count * item)
    return fail(Errc::kInvalid,
                strf("host evaluation: %zu bytes for %s", bytes.size(), dims_text(dims).c_str()));
  HostArray a{dtype, dims, std::vector<Cell>(count)};
  for (size_t i = 0; i < count; ++i) a.cells[i] = load_item(dtype, bytes.data() + i * item);
  return a;
}

std::vector<std::byte> to_bytes(const HostArray& a) {
  const auto item = static_cast<size_t>(ir::item_size(a.dtype));
  std::vector<std::byte> out(a.cells.size() * item);
  for (size_t i = 0; i < a.cells.size(); ++i)
    store_item(a.dtype, a.cells[i], out.data() + i * item);
  return out;
}

HostArray host_floats(const Dims& dims, const std::vector<double>& v, ir::DType dtype) {
  HostArray a{dtype, dims, {}};
  for (const double x : v) a.cells.push_back(rounded(dtype, of(x)));
  return a;
}

HostArray host_ints(const Dims& dims, const std::vector<int64_t>& v, ir::DType dtype) {
  HostArray a{dtype, dims, {}};
  for (const int64_t x : v) a.cells.push_back(rounded(dtype, of_int(x)));
  return a;
}

void HostEval::bind(const Tensor& input, HostArray value) {
  const Node* n = ir::base(input.node());
  CHECK(n->is(Op::kBuffer) || n->is(Op::kParam));
  value.dims = {static_cast<int64_t>(value.cells.size())};
  bound_[n] = std::move(value);
}

Result<HostArray> HostEval::run(const Node* n) {
  RETURN_IF_ERROR(g_.status());
  ASSIGN_OR_RETURN(const View v, Walk(g_, weights_, bound_, variables_).run(n));
  const View d = dense(v);
  return HostArray{d.dtype, d.dims, *d.cells};
}

}  // namespace modeld::tensor
