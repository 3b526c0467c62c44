#include "runtime/schedule/run_rangeify.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "hal/base/check.h"

#include "runtime/ir/derived.h"
#include "runtime/schedule/decide.h"
#include "runtime/schedule/expr_util.h"
#include "runtime/schedule/index_transform.h"

namespace modeld::schedule {

using ir::AxisType;
using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;

namespace {

// What the walk found out about one value.
struct Info {
  NodeVec consumers;      // each once, in discovery order
  NodeVec ending;         // loops opened below by broadcasts
  bool marked = false;    // must be materialised
  bool removable = true;  // the clean-up may inline it again
  bool ranged = false;    // out and in are set
  bool realized = false;
  bool reduces = false;             // a REDUCE may be computed where this value is
  Access out;                       // indices of an element of the value
  Access in;                        // indices its sources are asked at
  const Node* pad_valid = nullptr;  // PAD: where the source exists
};

void add_once(NodeVec* list, const Node* n) {
  if (std::find(list->begin(), list->end(), n) == list->end()) list->push_back(n);
}

void add_ranges(Graph& g, NodeVec* list, const Node* index) {
  for (const Node* r : ir::ranges(g, index)) {
    if (!is_device_range(r)) add_once(list, r);
  }
}

// Sources that carry values or order; shape operands and bodies are not walked.
std::span<const Node* const> value_sources(const Node* n) {
  if (ir::kMovementOps.has(n->op) || n->op == Op::kReduce) return n->src().first(1);
  if (n->op == Op::kBuffer || n->op == Op::kParam || n->op == Op::kRange) return {};
  if (n->op == Op::kCall) return n->src().subspan(1);
  return n->src();
}

// Sources first. With `stop_at_states`, buffer states are listed but not entered.
NodeVec value_toposort(const Node* root, bool stop_at_states = false) {
  NodeVec out;
  ir::VisitSet seen;
  std::vector<std::pair<const Node*, size_t>> stack;
  seen.insert(root);
  stack.emplace_back(root, 0);
  while (!stack.empty()) {
    const Node* n = stack.back().first;
    const auto src =
        stop_at_states && is_state(n) ? std::span<const Node* const>() : value_sources(n);
    if (stack.back().second < src.size()) {
      const Node* s = src[stack.back().second++];
      if (seen.insert(s)) stack.emplace_back(s, 0);
      continue;
    }
    out.push_back(n);
    stack.pop_back();
  }
  return out;
}

class Rangeify {
 public:
  Rangeify(Graph& g, const ScheduleOptions& options) : g_(g), options_(options), transform_(g) {}

  const Node* run(const Node* sink) {
    topo_ = value_toposort(sink);
    place_.resize(g_.node_count());
    for (size_t i = 0; i < topo_.size(); i++) place_[topo_[i]->id] = i;
    infos_.resize(topo_.size());
    for (const Node* n : topo_) {
      // A consumer that uses s twice comes twice in a row; s may have thousands of them.
      for (const Node* s : value_sources(n)) {
        NodeVec& consumers = info(s).consumers;
        if (consumers.empty() || consumers.back() != n) consumers.push_back(n);
      }
      mark(n);
    }
    for (size_t i = topo_.size(); i-- > 0 && !g_.failed();) visit(topo_[i]);
    if (g_.failed()) return sink;
    built_.resize(topo_.size(), nullptr);
    staged_.resize(topo_.size(), nullptr);
    for (const Node* n : topo_) {
      built_[place_[n->id]] = build(n);
      if (g_.failed()) return sink;
    }
    return built_[place_[sink->id]];
  }

 private:
  Info& info(const Node* n) { return infos_[place_[n->id]]; }
  const Node* built(const Node* n) { return built_[place_[n->id]]; }

  // ---- which values need memory whatever their consumers say ----
  // A movement chain over storage (or a constant) is a view: indexed where it is used.
  static bool is_view(const Node* n) {
    const Node* b = ir::base(n);
    return is_never_staged(b) || is_scalar_param(b);
  }
  void mark(const Node* n);
  void mark_padded(const Node* n);

  // ---- the walk ----
  void visit(const Node* x);
  std::vector<Access> asked_by(const Node* x, const Node* consumer);
  Access broadcast_access(const Node* x, const Node* consumer, const Access& in);
  void collect_broadcast(const Node* x, NodeVec* ranges);
  const Node* new_range(const Node* dim, AxisType type);
  Access fresh_access(const Node* shaped);
  void set_in(const Node* x, Info* i);

  // ---- the new graph ----
  const Node* build(const Node* n);
  const Node* build_value(const Node* n);
  const Node* build_stack(const Node* n);
  const Node* build_gather(const Node* n);
  const Node* build_after(const Node* n);
  const Node* build_store(const Node* n);
  const Node* build_call(const Node* n);
  const Node* read(const Node* x, const Node* consumer, const Access& ask);
  const Node* read_view(const Node* x, const Access& ask);
  const Node* stage_of(const Node* x);
  const Node* make_stage(const Node* like, const Node* value, const NodeVec& idx, bool removable);
  const Node* flat_index(const Node* storage, const Access& a);

  Graph& g_;
  const ScheduleOptions& options_;
  IndexTransform transform_;
  NodeVec topo_;
  std::vector<size_t> place_;  // in topo_, by node id
  std::vector<Info> infos_;
  std::vector<const Node*> built_;   // value expression, or rebuilt state / effect
  std::vector<const Node*> staged_;  // STAGE of a realised value
};

// A REDUCE fused below a PAD runs for the padding too; a concat of heads would run every head for
// each element. Such values get memory; the clean-up takes it back where no REDUCE is left in them.
void Rangeify::mark_padded(const Node* n) {
  static constexpr int64_t kWasteNumerator = 3, kWasteDenominator = 2;
  const bool passes =
      ir::kElementwiseOps.has(n->op) || ir::kMovementOps.has(n->op) || n->op == Op::kStack;
  Info& i = info(n);
  i.reduces = n->op == Op::kReduce;
  for (const Node* s : value_sources(n)) i.reduces = i.reduces || (passes && info(s).reduces);
  if (!options_.stage_padded_reduce || (n->op != Op::kPad && n->op != Op::kStack)) return;
  for (const Node* s : value_sources(n)) {
    const int64_t own = ir::element_count(g_, s);
    const bool wasteful = ir::element_count(g_, n) / kWasteNumerator >= own / kWasteDenominator;
    if (info(s).reduces && wasteful) info(s).marked = true;
  }
}

void Rangeify::mark(const Node* n) {
  mark_padded(n);
  switch (n->op) {
    case Op::kContiguous:
      info(n).marked = true;
      info(n).removable = false;
      break;
    case Op::kStore: {
      info(n).marked = true;
      const Node* value = n->src(1);
      const Node* target = ir::base(n->src(0));
      // CONTIGUOUS with kernel options right below a store only carries the options.
      if (value->op == Op::kContiguous && value->has<ir::Opts>()) info(value).marked = false;
      if (is_view(value) || value->op == Op::kContiguous) break;
      for (const Node* s : value_toposort(value, true)) {
        if (s == target) info(value).marked = true;
      }
      break;
    }
    case Op::kIndex:
      if (!is_view(n->src(0))) info(ir::base(n->src(0))).marked = true;
      break;
    case Op::kCall:
      for (const Node* arg : n->src().subspan(1)) {
        if (is_view(arg)) continue;
        info(arg).marked = true;
        info(arg).removable = false;
      }
      break;
    default:
      break;
  }
}

const Node* Rangeify::new_range(const Node* dim, AxisType type) {
  if (ir::is_int_const(dim, 1)) return ir::const_int(g_, 0);
  return g_.make(Op::kRange, ir::DType::kWeakInt, {dim}, ir::RangeArg{g_.fresh(), type});
}

Access Rangeify::fresh_access(const Node* shaped) {
  Access a;
  for (const Node* d : ir::Shape(ir::shape(g_, shaped)))
    a.idx.push_back(new_range(d, AxisType::kWeak));
  return a;
}

Access Rangeify::broadcast_access(const Node* x, const Node* consumer, const Access& in) {
  const ir::Shape xs = ir::shape(g_, x);
  const size_t drop = in.idx.size() - xs.size();
  (void)consumer;
  Access a;
  a.valid = in.valid;
  for (size_t i = 0; i < xs.size(); i++) {
    a.idx.push_back(ir::is_int_const(xs[i], 1) ? ir::const_int(g_, 0) : in.idx[drop + i]);
  }
  return a;
}

// How `consumer` asks for x, once per place it uses it at.
std::vector<Access> Rangeify::asked_by(const Node* x, const Node* consumer) {
  const Info& c = info(consumer);
  if (!c.ranged) return {};
  switch (consumer->op) {
    case Op::kIndex: {
      std::vector<Access> asks;
      size_t at = 0;
      for (const Node* s : consumer->src().subspan(1)) {
        const size_t rank = ir::shape(g_, s).size();
        if (s == x) {
          const auto from = c.in.idx.begin() + static_cast<std::ptrdiff_t>(at);
          asks.push_back({NodeVec(from, from + static_cast<std::ptrdiff_t>(rank)), c.in.valid});
        }
        at += rank;
      }
      return asks;
    }
    case Op::kStore:
      if (consumer->src(1) != x) return {};
      return {broadcast_access(x, consumer, c.in)};
    case Op::kStack:
      return {c.in};
    default:
      if (ir::kElementwiseOps.has(consumer->op)) return {broadcast_access(x, consumer, c.in)};
      return {c.in};
  }
}

// Loops over which a consumer repeats x because x has no such axis, or one of size 1.
void Rangeify::collect_broadcast(const Node* x, NodeVec* ranges) {
  const ir::Shape xs = ir::shape(g_, x);
  for (const Node* c : info(x).consumers) {
    const Info& ci = info(c);
    if (!ci.ranged || (!ir::kElementwiseOps.has(c->op) && c->op != Op::kStore)) continue;
    const size_t drop = ci.in.idx.size() - xs.size();
    for (size_t i = 0; i < ci.in.idx.size(); i++) {
      if (i < drop || ir::is_int_const(xs[i - drop], 1)) add_ranges(g_, ranges, ci.in.idx[i]);
    }
  }
}

void Rangeify::set_in(const Node* x, Info* i) {
  i->in = i->out;
  if (ir::kMovementOps.has(x->op)) {
    i->in = transform_.apply(x, i->out);
    if (x->op == Op::kPad) i->pad_valid = transform_.apply(x, {i->out.idx, nullptr}).valid;
  } else if (x->op == Op::kStack) {
    i->in.idx.erase(i->in.idx.begin());
  } else if (x->op == Op::kReduce) {
    const ir::Shape in_shape = ir::shape(g_, x->src(0));
    const auto k = static_cast<size_t>(x->as<ir::ReduceArg>().axes);
    NodeVec idx;
    for (size_t a = 0; a < k; a++) idx.push_back(new_range(in_shape[a], AxisType::kReduce));
    idx.insert(idx.end(), i->out.idx.begin(), i->out.idx.end());
    i->in.idx = std::move(idx);
  }
  if (x->op == Op::kExpand) {
    const size_t added = i->out.idx.size() - i->in.idx.size();
    for (size_t a = 0; a < added; a++) add_ranges(g_, &i->ending, i->out.idx[a]);
  }
}

void Rangeify::visit(const Node* x) {
  static constexpr ir::OpSet kNoRanges = {Op::kSink,     Op::kAfter,  Op::kCall,
                                          Op::kFunction, Op::kLinear, Op::kEnd,
                                          Op::kGroup,    Op::kMStack, Op::kMSelect};
  if (kNoRanges.has(x->op) || (x->op != Op::kStore && is_view(x))) return;
  Info& i = info(x);
  for (const Node* c : i.consumers) {
    for (const Node* r : info(c).ending) add_once(&i.ending, r);
  }
  if (x->op == Op::kStore) {
    i.out = fresh_access(x->src(0));
    i.in = i.out;
    i.ranged = true;
    i.ending.clear();
    return;
  }
  NodeVec broadcast;
  collect_broadcast(x, &broadcast);
  if (x->op == Op::kReduce) {
    for (const Node* r : broadcast) add_once(&i.ending, r);
  }
  DecideInput in;
  in.node = x;
  in.marked = i.marked;
  in.has_ending = !i.ending.empty();
  for (const Node* c : i.consumers) {
    for (Access& a : asked_by(x, c)) in.consumers.push_back(std::move(a));
  }
  Decision d = decide(g_, in);
  if (d.kind == Decision::Kind::kSkip) return;
  if (d.kind == Decision::Kind::kRealize) {
    i.realized = true;
    i.out = fresh_access(x);
  } else {
    i.out = std::move(d.out);
  }
  if (d.clears_ending) i.ending.clear();
  for (const Node* r : broadcast) add_once(&i.ending, r);
  set_in(x, &i);
  i.ranged = true;
}

// ---- building ----

const Node* Rangeify::flat_index(const Node* storage, const Access& a) {
  return a.idx.size() == 1 ? a.idx[0] : transform_.flatten(ir::max_shape(g_, storage), a.idx);
}

const Node* Rangeify::make_stage(const Node* like,
                                 const Node* value,
                                 const NodeVec& idx,
                                 bool removable) {
  NodeVec src{value};
  for (const Node* r : idx) {
    if (r->op == Op::kRange) src.push_back(r);
  }
  ir::StageArg arg;
  arg.device = ir::device(g_, like);
  if (arg.device.empty()) arg.device = options_.device;
  arg.removable = removable;
  return g_.make(Op::kStage, value->dtype, src, std::move(arg));
}

const Node* Rangeify::stage_of(const Node* x) {
  const Node*& s = staged_[place_[x->id]];
  if (s == nullptr) s = make_stage(x, built(x), info(x).out.idx, info(x).removable);
  return s;
}

// The element of view x (movement ops over storage, a constant or a realised value) at `ask`.
const Node* Rangeify::read_view(const Node* x, const Access& ask) {
  Access a{ask.idx, nullptr};
  for (; ir::kMovementOps.has(x->op) && !info(x).realized; x = x->src(0))
    a = transform_.apply(x, a);
  const Node* element = nullptr;
  if (x->op == Op::kConst) {
    element = x;
  } else if (is_scalar_param(x)) {
    element = x->op == Op::kAfter ? x->src(0) : x;
  } else if (is_state(x)) {
    element = index_node(g_, built(x), {flat_index(x, a)}, and_valid(g_, ask.valid, a.valid));
  } else {
    CHECK(info(x).realized);
    NodeVec idx;
    for (size_t i = 0; i < a.idx.size(); i++) {
      if (info(x).out.idx[i]->op == Op::kRange) idx.push_back(a.idx[i]);
    }
    element = index_node(g_, stage_of(x), idx, and_valid(g_, ask.valid, a.valid));
  }
  return a.valid == nullptr ? element
                            : ir::where(g_, a.valid, element, zero_of(g_, element->dtype));
}

const Node* Rangeify::read(const Node* x, const Node* consumer, const Access& ask) {
  (void)consumer;
  if (is_view(x) || info(x).realized) return read_view(x, ask);
  return built(x);
}

const Node* Rangeify::build_stack(const Node* n) {
  const Info& i = info(n);
  const Node* value = nullptr;
  for (size_t e = n->nsrc; e-- > 0;) {
    const Node* element = read(n->src(e), n, i.in);
    if (value == nullptr) {
      value = element;
      continue;
    }
    const Node* here = ir::lt(g_, i.out.idx[0], ir::const_int(g_, static_cast<int64_t>(e) + 1));
    value = ir::where(g_, here, element, value);
  }
  return value;
}

const Node* Rangeify::build_gather(const Node* n) {
  const Info& i = info(n);
  Access a;
  a.valid = i.out.valid;
  size_t at = 0;
  for (const Node* s : n->src().subspan(1)) {
    const size_t rank = ir::shape(g_, s).size();
    const auto from = i.out.idx.begin() + static_cast<std::ptrdiff_t>(at);
    const Access ask{NodeVec(from, from + static_cast<std::ptrdiff_t>(rank)), i.out.valid};
    a.idx.push_back(ir::cast(g_, read(s, n, ask), ir::DType::kWeakInt));
    at += rank;
  }
  a.idx.insert(a.idx.end(), i.out.idx.begin() + static_cast<std::ptrdiff_t>(at), i.out.idx.end());
  return read_view(n->src(0), a);
}

const Node* Rangeify::build_value(const Node* n) {
  const Info& i = info(n);
  if (ir::kMovementOps.has(n->op)) {
    const Node* v = read(n->src(0), n, i.in);
    return i.pad_valid == nullptr ? v : ir::where(g_, i.pad_valid, v, zero_of(g_, v->dtype));
  }
  switch (n->op) {
    case Op::kIndex:
      return build_gather(n);
    case Op::kStack:
      return build_stack(n);
    case Op::kContiguous: {
      const Node* v = read(n->src(0), n, i.in);
      return n->has<ir::Opts>() ? g_.with_src(n, {v}) : v;
    }
    case Op::kReduce: {
      NodeVec src{read(n->src(0), n, i.in)};
      const auto k = static_cast<size_t>(n->as<ir::ReduceArg>().axes);
      for (size_t a = 0; a < k; a++) {
        if (i.in.idx[a]->op == Op::kRange) src.push_back(i.in.idx[a]);
      }
      if (src.size() == 1) return src[0];
      return g_.make(Op::kReduce, n->dtype, src, ir::ReduceArg{n->as<ir::ReduceArg>().op, 0});
    }
    default:
      break;
  }
  if (!ir::kElementwiseOps.has(n->op)) {
    g_.fail(Errc::kUnsupported, strf("rangeify: op %s cannot be indexed", ir::op_name(n->op)));
    return n;
  }
  NodeVec src;
  for (const Node* s : n->src()) {
    src.push_back(is_view(s) || info(s).realized ? read(s, n, broadcast_access(s, n, i.in))
                                                 : built(s));
  }
  return g_.with_src(n, src);
}

const Node* Rangeify::build_store(const Node* n) {
  const Info& i = info(n);
  const Node* target = n->src(0);
  Access a{i.out.idx, nullptr};
  for (; ir::kMovementOps.has(target->op); target = target->src(0)) a = transform_.apply(target, a);
  if (!is_state(target) || a.valid != nullptr) {
    g_.fail(Errc::kInvalid,
            strf("store: the target is %s over %s, not a view of a buffer",
                 a.valid != nullptr ? "a padded view" : "a view", ir::op_name(target->op)));
    return n;
  }
  const Node* value = read(n->src(1), n, broadcast_access(n->src(1), n, i.in));
  if (value->dtype != target->dtype && ir::is_weak(value->dtype)) {
    value = ir::cast(g_, value, target->dtype);
  }
  const Node* place = index_node(g_, built(target), {flat_index(target, a)}, nullptr);
  NodeVec end{g_.make(Op::kStore, ir::DType::kVoid, {place, value})};
  for (const Node* r : i.out.idx) {
    if (r->op == Op::kRange) end.push_back(r);
  }
  return end.size() == 1 ? end[0] : g_.make(Op::kEnd, ir::DType::kVoid, end);
}

// Arguments of a call are buffer states: views with the buffer's own layout pass it, other values
// get memory.
const Node* Rangeify::build_call(const Node* n) {
  NodeVec src{n->src(0)};
  for (const Node* arg : n->src().subspan(1)) {
    const Node* b = arg;
    while (b->op == Op::kReshape) b = b->src(0);
    if (is_state(b) || is_scalar_param(b)) {
      src.push_back(is_state(b) ? built(b) : b);
    } else if (is_view(arg)) {
      const Access a = fresh_access(arg);
      src.push_back(make_stage(arg, read_view(arg, a), a.idx, false));
    } else {
      src.push_back(stage_of(arg));
    }
  }
  return g_.with_src(n, src);
}

const Node* Rangeify::build_after(const Node* n) {
  if (is_scalar_param(n)) return n;
  NodeVec src{built(n->src(0))};
  for (const Node* d : n->src().subspan(1)) {
    NodeVec items{d};
    while (!items.empty()) {
      const Node* item = items.back();
      items.pop_back();
      if (item->op == Op::kGroup) {
        items.insert(items.end(), item->src().rbegin(), item->src().rend());
      } else {
        src.push_back(built(item));
      }
    }
  }
  return g_.with_src(n, src);
}

const Node* Rangeify::build(const Node* n) {
  switch (n->op) {
    case Op::kBuffer:
    case Op::kParam:
    case Op::kConst:
    case Op::kRange:
      return n;
    case Op::kAfter:
      return build_after(n);
    case Op::kStore:
      return is_scalar_param(n->src(0)) ? n : build_store(n);
    case Op::kCall:
      return build_call(n);
    case Op::kSink:
    case Op::kEnd:
    case Op::kMSelect:
    case Op::kMStack:
    case Op::kGroup: {
      NodeVec src;
      for (const Node* s : n->src()) src.push_back(built(s));
      return g_.with_src(n, src);
    }
    default:
      return info(n).ranged ? build_value(n) : n;
  }
}

}  // namespace

Result<const Node*> run_rangeify(Graph& g, const Node* sink, const ScheduleOptions& options) {
  const Node* result = Rangeify(g, options).run(sink);
  if (g.failed()) return fail(g.status().error());
  return result;
}

}  // namespace modeld::schedule
