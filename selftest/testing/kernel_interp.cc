#include "selftest/testing/kernel_interp.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "runtime/ir/derived.h"
#include "runtime/ir/rewrite.h"
#include "runtime/ir/sharding.h"

#include "selftest/testing/scalar_alu.h"
#include "selftest/testing/unit_layout.h"

namespace modeld::testing {

using ir::DType;
using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;

KernelStorage KernelStorage::of(DType dtype, size_t count) {
  KernelStorage s;
  s.dtype = dtype;
  if (ir::is_float(dtype)) {
    s.f.assign(count, 0.0);
  } else {
    s.i.assign(count, 0);
  }
  return s;
}

KernelStorage KernelStorage::floats(std::span<const double> values, DType dtype) {
  KernelStorage s = of(dtype, values.size());
  for (size_t n = 0; n < values.size(); n++) s.f[n] = ir::round_to(dtype, values[n]);
  return s;
}

KernelStorage KernelStorage::ints(std::span<const int64_t> values, DType dtype) {
  KernelStorage s = of(dtype, values.size());
  for (size_t n = 0; n < values.size(); n++) s.i[n] = values[n];
  return s;
}

std::vector<double> KernelStorage::doubles() const {
  std::vector<double> out;
  for (size_t n = 0; n < size(); n++) out.push_back(at(n));
  return out;
}

namespace {

using Value = Scalar;

int64_t wrap(DType t, int64_t v) {
  return ir::is_weak(t) ? v : ir::wrap_to(t, v);
}

double reduce_identity(Op op) {
  return op == Op::kMax ? -std::numeric_limits<double>::infinity() : (op == Op::kMul ? 1 : 0);
}

// Evaluates expressions with the loop variables of the moment; a node is computed again only after
// a loop it depends on has moved.
class Interp {
 public:
  Interp(Graph& g, std::span<KernelStorage* const> args, const KernelVars& vars, InterpOptions o)
      : g_(g), args_(args), vars_(vars), options_(o) {}

  Status run(const Node* sink) {
    for (const Node* root : sink->src()) RETURN_IF_ERROR(run_effect(root));
    return {};
  }

 private:
  struct Slot {
    Value value;
    uint64_t stamp = 0;  // 0 = never computed
  };

  Status run_effect(const Node* n) {
    if (n->op == Op::kGroup || n->op == Op::kSink || n->op == Op::kNoop) {
      for (const Node* s : n->src()) RETURN_IF_ERROR(run_effect(s));
      return {};
    }
    if (n->op == Op::kEnd) {
      return loop(NodeVec(n->src().begin() + 1, n->src().end()), 0,
                  [&] { return run_effect(n->src(0)); });
    }
    if (n->op == Op::kStore) return store(n);
    return fail(Errc::kUnsupported, strf("kernel_interp: effect %s", ir::op_name(n->op)));
  }

  template <class Body>
  Status loop(const NodeVec& ranges, size_t at, const Body& body) {
    if (at == ranges.size()) return body();
    ASSIGN_OR_RETURN(const Value bound, eval(ranges[at]->src(0)));
    for (int64_t v = 0; v < bound.i; v++) {
      range_value_[ranges[at]] = v;
      range_stamp_[ranges[at]] = ++clock_;
      RETURN_IF_ERROR(loop(ranges, at + 1, body));
    }
    return {};
  }

  Status store(const Node* n) {
    const Node* place = n->src(0);
    if (n->nsrc > 2) {
      ASSIGN_OR_RETURN(const Value on, eval(n->src(2)));
      if (on.i == 0) return {};
    }
    ASSIGN_OR_RETURN(const int64_t at, address(place));
    if (at < 0) return {};
    ASSIGN_OR_RETURN(const Value v, eval(n->src(1)));
    if (v.invalid) return {};
    KernelStorage* s = storage_;
    ASSIGN_OR_RETURN(s, buffer(place->src(0)));
    const auto e = static_cast<size_t>(at);
    if (ir::is_float(s->dtype)) {
      s->f[e] = ir::round_to(s->dtype, v.f);
    } else {
      s->i[e] = wrap(s->dtype, v.i);
    }
    if (!s->written.empty()) s->written[e] = true;
    clock_++;  // values read before the store are old now
    stored_ = clock_;
    return {};
  }

  Result<KernelStorage*> buffer(const Node* param) {
    if (param->op != Op::kParam) {
      return fail(Errc::kUnsupported, strf("kernel_interp: storage %s", ir::op_name(param->op)));
    }
    const int64_t slot = param->as<ir::ParamArg>().slot;
    if (slot < 0 || slot >= static_cast<int64_t>(args_.size())) {
      return fail(Errc::kInvalid,
                  strf("kernel_interp: no argument for slot %lld", static_cast<long long>(slot)));
    }
    return args_[static_cast<size_t>(slot)];
  }

  // Element number, -1 = gated off.
  Result<int64_t> address(const Node* index) {
    if (index->op != Op::kIndex || index->nsrc != 2) {
      return fail(Errc::kUnsupported, "kernel_interp: an address is INDEX(param, idx)");
    }
    ASSIGN_OR_RETURN(const Value at, eval(index->src(1)));
    if (at.invalid) return -1;
    ASSIGN_OR_RETURN(const KernelStorage* s, buffer(index->src(0)));
    if (at.i < 0 || at.i >= static_cast<int64_t>(s->size())) {
      return fail(
          Errc::kInvalid,
          strf("kernel_interp: element %lld of %zu in slot %lld", static_cast<long long>(at.i),
               s->size(), static_cast<long long>(index->src(0)->as<ir::ParamArg>().slot)));
    }
    return at.i;
  }

  Result<Value> eval(const Node* n) {
    if (n->op == Op::kRange) {
      const auto it = range_value_.find(n);
      if (it == range_value_.end())
        return fail(Errc::kInvalid, "kernel_interp: a loop is not open");
      return Value{0, it->second, false};
    }
    Slot& slot = slots_[n];
    if (slot.stamp != 0 && slot.stamp >= newest(n)) return slot.value;
    ASSIGN_OR_RETURN(Value v, compute(n));
    if (options_.round_floats && ir::is_float(n->dtype) && !ir::is_weak(n->dtype)) {
      v.f = ir::round_to(n->dtype, v.f);
    }
    Slot& again = slots_[n];  // compute may have grown the table
    again.value = v;
    again.stamp = clock_ + 1;
    clock_++;
    return v;
  }

  uint64_t newest(const Node* n) {
    uint64_t s = stored_ + 1;
    for (const Node* r : ir::ranges(g_, n)) s = std::max(s, range_stamp_[r] + 1);
    return s;
  }

  Result<Value> compute(const Node* n) {
    switch (n->op) {
      case Op::kConst:
        return scalar_constant(n);
      case Op::kParam:
        return variable(n);
      case Op::kIndex:
        return n->src(0)->op == Op::kWmma ? unit_element(n) : load(n);
      case Op::kLoad:
        return gated_load(n);
      case Op::kReduce:
        return reduce(n);
      case Op::kWhere: {
        ASSIGN_OR_RETURN(const Value c, eval(n->src(0)));
        return eval(n->src(c.i != 0 ? 1 : 2));
      }
      case Op::kCast: {
        ASSIGN_OR_RETURN(const Value v, eval(n->src(0)));
        return scalar_convert(n->src(0)->dtype, n->dtype, v);
      }
      case Op::kBitCast: {
        ASSIGN_OR_RETURN(const Value v, eval(n->src(0)));
        return scalar_bitcast(n->src(0)->dtype, n->dtype, v);
      }
      case Op::kAfter:
      case Op::kContiguous:
        return eval(n->src(0));
      default:
        break;
    }
    if (!ir::kAluOps.has(n->op)) {
      return fail(Errc::kUnsupported, strf("kernel_interp: op %s", ir::op_name(n->op)));
    }
    Value a[3];
    for (size_t s = 0; s < n->nsrc; s++) {
      ASSIGN_OR_RETURN(a[s], eval(n->src(s)));
      if (a[s].invalid) return a[s];
    }
    return scalar_alu(n, a);
  }

  Result<Value> variable(const Node* n) {
    const auto it = vars_.find(n->as<ir::ParamArg>().name);
    if (it == vars_.end()) {
      return fail(Errc::kInvalid, strf("unbound Variable %s", n->as<ir::ParamArg>().name.c_str()));
    }
    return Value{static_cast<double>(it->second), it->second, false};
  }

  Result<Value> load(const Node* n) {
    ASSIGN_OR_RETURN(const int64_t at, address(n));
    if (at < 0) return Value{};
    ASSIGN_OR_RETURN(const KernelStorage* s, buffer(n->src(0)));
    const auto e = static_cast<size_t>(at);
    if (!s->written.empty() && !s->written[e]) {
      return fail(Errc::kInvalid, strf("kernel_interp: element %lld of slot %lld is read before it "
                                       "is written",
                                       static_cast<long long>(at),
                                       static_cast<long long>(n->src(0)->as<ir::ParamArg>().slot)));
    }
    return ir::is_float(s->dtype) ? Value{s->f[e], 0, false} : Value{0, s->i[e], false};
  }

  Result<Value> gated_load(const Node* n) {
    if (n->nsrc == 3) {
      ASSIGN_OR_RETURN(const Value on, eval(n->src(2)));
      if (on.i == 0) return eval(n->src(1));
    }
    return eval(n->src(0));
  }

  // A factor of a matrix unit's step as lane `lane` holds it in element `element`.
  Result<Value> held(const Node* step, size_t factor, int64_t lane, int64_t element) {
    const auto& arg = step->as<ir::WmmaArg>();
    const Node* value = step->src(factor);
    if (value->op == Op::kStack && step->nsrc == 3) {  // expanded already
      value = value->src(static_cast<size_t>(element));
    }
    std::vector<std::pair<const Node*, int64_t>> moved;
    const std::vector<int64_t>& axes = factor == 0 ? arg.a_axes : arg.b_axes;
    for (size_t bit = 0; bit < axes.size(); bit++) {
      for (const Node* r : step->src().subspan(3)) {
        if (r->as<ir::RangeArg>().id == axes[bit]) moved.emplace_back(r, element >> bit & 1);
      }
    }
    for (const Node* r : ir::ranges(g_, value)) {
      if (r->as<ir::RangeArg>().type == ir::AxisType::kWarp) moved.emplace_back(r, lane);
    }
    std::vector<std::optional<int64_t>> before;
    for (const auto& [r, v] : moved) {
      const auto it = range_value_.find(r);
      before.push_back(it == range_value_.end() ? std::nullopt : std::optional(it->second));
      range_value_[r] = v;
      range_stamp_[r] = ++clock_;
    }
    Result<Value> out = eval(value);
    for (size_t i = 0; i < moved.size(); i++) {
      if (before[i]) range_value_[moved[i].first] = *before[i];
      if (!before[i]) range_value_.erase(moved[i].first);
      range_stamp_[moved[i].first] = ++clock_;
    }
    return out;
  }

  // The place of every number of a factor: (lane, element) by position in the matrix.
  using Places = std::map<std::pair<int64_t, int64_t>, std::pair<int64_t, int64_t>>;
  struct UnitPlaces {
    UnitLayout unit;
    Places a, b;
  };
  const UnitPlaces* unit_places(const std::string& core) {
    const auto it = units_.find(core);
    if (it != units_.end()) return &it->second;
    const auto unit = unit_layout(core);
    if (!unit) return nullptr;
    UnitPlaces& out = units_[core];
    out.unit = *unit;
    for (int64_t lane = 0; lane < unit->threads; lane++) {
      for (int64_t e = 0; e < unit->a_elements; e++)
        out.a.emplace(unit->a(lane, e), std::pair{lane, e});
      for (int64_t e = 0; e < unit->b_elements; e++)
        out.b.emplace(unit->b(lane, e), std::pair{lane, e});
    }
    return &out;
  }

  // One result of a matrix unit, by where the hardware keeps rows, columns and steps.
  Result<Value> unit_element(const Node* n) {
    const Node* step = n->src(0);
    const UnitPlaces* at = unit_places(step->as<ir::WmmaArg>().core);
    if (at == nullptr)
      return fail(Errc::kUnsupported, "kernel_interp: a matrix unit nobody described");
    ASSIGN_OR_RETURN(const Value element, eval(n->src(1)));
    int64_t lane = 0;
    for (const Node* r : ir::ranges(g_, step)) {
      if (r->as<ir::RangeArg>().type == ir::AxisType::kWarp) lane = range_value_[r];
    }
    const auto [row, column] = at->unit.c(lane, element.i);
    ASSIGN_OR_RETURN(Value sum, eval(step->src(2)->src(static_cast<size_t>(element.i))));
    for (int64_t k = 0; k < at->unit.k; k++) {
      const auto [a_lane, a_element] = at->a.at({row, k});
      const auto [b_lane, b_element] = at->b.at({k, column});
      ASSIGN_OR_RETURN(const Value x, held(step, 0, a_lane, a_element));
      ASSIGN_OR_RETURN(const Value y, held(step, 1, b_lane, b_element));
      sum.f += x.f * y.f;
      sum.i = wrap(n->dtype, sum.i + x.i * y.i);
    }
    return sum;
  }

  Result<Value> reduce(const Node* n) {
    const Op op = n->as<ir::ReduceArg>().op;
    const DType t = n->dtype;
    Value acc;
    acc.f = reduce_identity(op);
    acc.i = op == Op::kMax ? ir::int_min(t) : (op == Op::kMul ? 1 : 0);
    RETURN_IF_ERROR(loop(NodeVec(n->src().begin() + 1, n->src().end()), 0, [&]() -> Status {
      ASSIGN_OR_RETURN(const Value v, eval(n->src(0)));
      switch (op) {
        case Op::kMax:
          acc.f = acc.f < v.f || std::isnan(v.f) ? v.f : acc.f;
          acc.i = std::max(acc.i, v.i);
          break;
        case Op::kMul:
          acc.f *= v.f;
          acc.i = wrap(
              t, static_cast<int64_t>(static_cast<uint64_t>(acc.i) * static_cast<uint64_t>(v.i)));
          break;
        default:
          acc.f += v.f;
          acc.i = t == DType::kBool ? (acc.i | v.i) : wrap(t, acc.i + v.i);
          break;
      }
      if (options_.round_floats && ir::is_float(t)) acc.f = ir::round_to(t, acc.f);
      return {};
    }));
    return acc;
  }

  Graph& g_;
  std::span<KernelStorage* const> args_;
  const KernelVars& vars_;
  InterpOptions options_;
  KernelStorage* storage_ = nullptr;
  uint64_t clock_ = 0;
  uint64_t stored_ = 0;  // when the last store happened
  std::unordered_map<const Node*, Slot> slots_;
  std::unordered_map<const Node*, int64_t> range_value_;
  std::unordered_map<const Node*, uint64_t> range_stamp_;
  std::map<std::string, UnitPlaces> units_;
};

KernelStorage* find_or_make(Graph& g, const Node* buffer, BufferMap* buffers) {
  const auto it = buffers->find(buffer);
  if (it != buffers->end()) return &it->second;
  const auto count = static_cast<size_t>(ir::element_count(g, buffer));
  KernelStorage s = KernelStorage::of(buffer->dtype, count);
  s.written.assign(count, false);
  return &(*buffers)[buffer].operator=(std::move(s));
}

// One side of a copy: a buffer, or a contiguous run of one.
struct Run {
  KernelStorage* storage = nullptr;
  size_t offset = 0, count = 0;
};

Result<Run> run_of(Graph& g, const Node* arg, BufferMap* buffers) {
  const Node* buffer = ir::base(arg);
  // One device's part of a multi-device buffer is storage like any other.
  const Node* flat = ir::param(g, 0, buffer->dtype, ir::element_count(g, buffer));
  const auto view = ir::contiguous_view(g, ir::substitute(g, arg, {{buffer, flat}}));
  buffer = ir::launch_argument(g, buffer, 0);
  if (!view || (buffer->op != Op::kBuffer && buffer->op != Op::kMSelect)) {
    return fail(Errc::kInvalid, strf("kernel_interp: a copy of %s, not of a run of a buffer",
                                     ir::op_name(arg->op)));
  }
  return Run{find_or_make(g, buffer, buffers), static_cast<size_t>(view->offset),
             static_cast<size_t>(ir::element_count(g, arg))};
}

template <class T>
void copy_items(
    const std::vector<T>& from, size_t from_at, size_t count, size_t to_at, std::vector<T>* to) {
  if (from.empty() || to->empty()) return;
  for (size_t i = 0; i < count; i++) (*to)[to_at + i] = from[from_at + i];
}

Status run_copy(const Run& to, const Run& from) {
  if (to.storage->dtype != from.storage->dtype || to.count != from.count) {
    return fail(Errc::kMismatch, "kernel_interp: a copy between buffers of other size or type");
  }
  const std::vector<bool> all(from.storage->size(), true);
  const std::vector<bool>& written = from.storage->written.empty() ? all : from.storage->written;
  copy_items(from.storage->f, from.offset, from.count, to.offset, &to.storage->f);
  copy_items(from.storage->i, from.offset, from.count, to.offset, &to.storage->i);
  copy_items(written, from.offset, from.count, to.offset, &to.storage->written);
  return {};
}

// One kernel, once per device its buffers are on.
Status run_launches(
    Graph& g, const Node* call, BufferMap* buffers, KernelVars vars, const InterpOptions& options) {
  int64_t devices = 1;
  for (const Node* a : call->src().subspan(1))
    devices = std::max(devices, ir::device_count(ir::device(g, a)));
  for (int64_t i = 0; i < devices; i++) {
    std::vector<KernelStorage*> args;
    for (const Node* a : call->src().subspan(1))
      args.push_back(find_or_make(g, ir::launch_argument(g, a, i), buffers));
    if (devices > 1) vars[ir::kDeviceNum] = i;
    RETURN_IF_ERROR(run_kernel(g, call->src(0), args, vars, options));
  }
  return {};
}

}  // namespace

Status run_kernel(Graph& g,
                  const Node* sink,
                  std::span<KernelStorage* const> args,
                  const KernelVars& vars,
                  const InterpOptions& options) {
  return Interp(g, args, vars, options).run(sink);
}

Status run_linear(Graph& g,
                  const Node* linear,
                  BufferMap* buffers,
                  const KernelVars& vars,
                  const InterpOptions& options) {
  for (size_t n = 0; n < linear->nsrc; n++) {
    const Node* call = linear->src(n);
    Status done;
    if (call->src(0)->op == Op::kCopy) {
      ASSIGN_OR_RETURN(const Run to, run_of(g, call->src(1), buffers));
      ASSIGN_OR_RETURN(const Run from, run_of(g, call->src(2), buffers));
      done = run_copy(to, from);
    } else {
      done = run_launches(g, call, buffers, vars, options);
    }
    if (!done.ok()) return fail(Error(done.error()).with(strf("call %zu", n)));
  }
  return {};
}

}  // namespace modeld::testing
