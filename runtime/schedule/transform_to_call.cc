#include "runtime/schedule/transform_to_call.h"

#include <unordered_map>
#include <unordered_set>

#include "runtime/ir/base_storage.h"
#include "runtime/ir/derived.h"
#include "runtime/ir/sharding.h"
#include "runtime/schedule/byte_view.h"
#include "runtime/schedule/create_linear_with_vars.h"
#include "runtime/schedule/create_schedule.h"
#include "runtime/schedule/expr_util.h"
#include "runtime/schedule/multi_check.h"
#include "runtime/schedule/precompiled_call.h"

namespace modeld::schedule {

using ir::Fault;
using ir::Graph;
using ir::Node;
using ir::NodeMap;
using ir::NodeVec;
using ir::Op;

namespace {

std::string device_kind(const std::string& device) {
  return device.substr(0, device.find(':'));
}

bool has_sub_buffers(const std::string& device) {
  return device_kind(device) != "CL" && device_kind(device) != "WEBGPU";
}

bool is_disk(const std::string& device) {
  return device_kind(device) == "DISK";
}

// Memory of the host program: what lies there must be copied before anybody computes with it.
bool is_host_like(const std::string& device) {
  return is_disk(device) || device_kind(device) == "HOST";
}

const Node* below_reshape(const Node* n) {
  while (n->op == Op::kReshape || n->op == Op::kDetach) n = n->src(0);
  return n;
}

class Transform {
 public:
  Transform(Graph& g, const ScheduleOptions& options) : g_(g), options_(options) {}

  Result<CallAndMap> run(const Node* sink) {
    number(sink);
    for (const Node* n : ir::toposort(sink)) {
      done_[n] = visit(n);
      if (g_.failed()) return fail(g_.status().error());
    }
    CallAndMap out;
    const NodeVec effects = collect_effects(sink);
    out.call = normalise(effects);
    out.map = std::move(map_);
    out.writes = std::move(writes_);
    if (g_.failed()) return fail(g_.status().error());
    return out;
  }

 private:
  // Read only: which nodes get a buffer whatever uses them, and which buffers are written.
  void number(const Node* sink) {
    for (const Node* r : sink->src()) {
      const Node* b = ir::base(r);
      const bool state = ir::unsharded_base(b)->op == Op::kAfter;
      const bool wanted = !state && !is_variable(b) && ir::needs_storage(g_, b);
      if (wanted) wanted_.insert(b);
    }
    for (const Node* n : ir::toposort(sink)) {
      if (n->op == Op::kAfter && !is_scalar_param(n)) number_state(n);
      if (n->op == Op::kFunction && is_precompiled(n)) {
        for (const size_t i : written_args(n)) written_.insert(ir::base_storage(g_, n->src(i + 1)));
      }
      for (const Node* s : n->src()) users_[s]++;
    }
  }

  void number_state(const Node* after) {
    written_.insert(ir::base_storage(g_, after));
    for (const Node* d : after->src().subspan(1)) {
      const bool copied = d->op == Op::kStore && d->src(1)->op == Op::kCopy;
      if (copied && below_reshape(d->src(0)) == below_reshape(after->src(0)))
        stored_whole_.insert(d->src(1));
    }
  }

  const Node* rebuild(const Node* n) {
    NodeVec src(n->src().begin(), n->src().end());
    for (size_t i = n->op == Op::kCall || n->op == Op::kFunction ? 1 : 0; i < src.size(); i++) {
      src[i] = done_.at(src[i]);
    }
    return g_.with_src(n, src);
  }

  const Node* visit(const Node* n) {
    const Node* built = rebuild(n);
    switch (n->op) {
      case Op::kDetach:
      case Op::kContiguousBackward:
        return built->src(0);
      case Op::kContiguous:
        return contiguous(n, built);
      case Op::kAfter:
        return after(n, built);
      case Op::kCopy:
        return copy(n, built);
      case Op::kFunction:
        return function(n, built);
      case Op::kGetTuple:
        return get_tuple(n, built);
      case Op::kBitCast:  // between item sizes it would have to be computed
        if (ir::item_size(n->dtype) != ir::item_size(n->src(0)->dtype) && argument_view(built)) {
          return built;
        }
        break;
      default:
        break;
    }
    return wanted_.contains(n) ? store_or_view(n, built) : built;
  }

  // ---- views that cost nothing ----

  // x as a part of a realised buffer that stays as it is during this call; nullptr if it is none.
  const Node* still_view(const Node* x) {
    const auto view = byte_view(g_, x);
    if (!view || view->buffer->op != Op::kBuffer || written_.contains(view->buffer)) return nullptr;
    if (!has_sub_buffers(ir::device(g_, x)) && !ir::has_buffer_identity(x)) return nullptr;
    return x;
  }

  // The same, passed as an argument of its own unless the buffer itself does.
  const Node* argument_view(const Node* x) {
    if (ir::element_count(g_, x) == 0 || still_view(x) == nullptr) return nullptr;
    if (!ir::has_buffer_identity(x)) views_.insert(x);
    return x;
  }

  // ---- CONTIGUOUS, COPY, wanted values ----

  // A contiguous run of a realised buffer needs no copy; storage under RESHAPE is what was asked
  // for already.
  const Node* contiguous(const Node* n, const Node* built) {
    const Node* x = built->src(0);
    const Node* under = below_reshape(x);
    if (under->op == Op::kAfter && is_state(under)) {
      map_[n] = without_states(x);
      return x;
    }
    if (ir::is_virtual(g_, x) || is_disk(ir::device(g_, x)) || ir::element_count(g_, x) == 0) {
      return ir::is_virtual(g_, x) || is_disk(ir::device(g_, x)) ? built : x;
    }
    if (argument_view(x) != nullptr) {
      map_[n] = x;
      return x;
    }
    // Part of a buffer this call writes: others read it in place, in the right order.
    const bool in_place = ir::has_buffer_identity(x) && !wanted_.contains(n);
    if (in_place) return x;
    return store(n, x, n->has<ir::Opts>() ? built : x);
  }

  const Node* copy(const Node* n, const Node* built) {
    if (ir::is_weak(n->dtype)) {
      g_.fail(Fault::kWeakStorage, strf("copy to %s: a value of dtype %s has no width yet",
                                        n->as<std::string>().c_str(), ir::dtype_name(n->dtype)));
      return built;
    }
    if (const Node* view = argument_view(built->src(0))) built = g_.with_src(built, {view});
    const bool own = is_host_like(ir::device(g_, built->src(0))) || is_disk(n->as<std::string>());
    if (!wanted_.contains(n) && !(own && !is_taken_over(n))) return built;
    return ir::element_count(g_, built) == 0 ? built : store(n, built, built);
  }

  // A copy that only an assignment to a whole buffer uses lands in that buffer.
  bool is_taken_over(const Node* copy) { return users_[copy] == 1 && stored_whole_.contains(copy); }

  const Node* store_or_view(const Node* n, const Node* x) {
    if (ir::element_count(g_, x) == 0) return x;
    if (argument_view(x) == nullptr) return store(n, x, x);
    if (x != n) map_[n] = x;
    return x;
  }

  // A new buffer for `original`, holding `value`, which has x's shape.
  const Node* store(const Node* original, const Node* x, const Node* value) {
    std::string device = ir::device(g_, x);
    if (device.empty()) device = options_.device;
    const Node* buffer = ir::buffer(g_, g_.fresh(), ir::strong(x->dtype), ir::local_count(g_, x),
                                    ir::AddrSpace::kGlobal, device);
    const Node* storage = in_shape_of(g_, buffer, x);
    const Node* write = g_.make(Op::kStore, ir::DType::kVoid, {storage, value});
    const Node* state = g_.make(Op::kAfter, buffer->dtype, {buffer, write});
    map_[original] = storage;
    return in_shape_of(g_, state, x);
  }

  // ---- states ----

  const Node* after(const Node* n, const Node* built) {
    if (is_scalar_param(built)) return built;
    for (const Node* d : built->src().subspan(1)) {
      if (d->op != Op::kStore) continue;
      const Node* target = below_views(d->src(0));
      if (is_state(target)) continue;
      // All of a value without memory: the new value simply takes its place.
      if (below_reshape(d->src(0)) == below_reshape(built->src(0)))
        return store(n, built->src(0), d->src(1));
      g_.fail(Fault::kAssignUnrealised,
              strf("assign: the target is a view of an unrealised %s, the write would be lost; "
                   "make it contiguous first",
                   ir::op_name(target->op)));
      return built;
    }
    map_[n] = without_states(built->src(0));
    writes_.push_back({n, state_below(n->src(0))});
    take_over_copies(n);
    return built;
  }

  void take_over_copies(const Node* after) {
    for (const Node* d : after->src().subspan(1)) {
      if (d->op != Op::kStore || d->src(1)->op != Op::kCopy) continue;
      const Node* c = d->src(1);
      if (is_taken_over(c))
        map_[c] = in_shape_of(g_, without_states(below_reshape(done_.at(after->src(0)))), c);
    }
  }

  // The state a view looks at, in the caller's graph.
  static const Node* state_below(const Node* n) { return below_views(n); }

  // The storage a view of a state looks at once all writes are done.
  const Node* without_states(const Node* view) {
    NodeVec chain;
    while (view->op == Op::kAfter || ir::kMovementOps.has(view->op) || view->op == Op::kBitCast) {
      if (const auto it = bare_.find(view); it != bare_.end()) {
        view = it->second;
        break;
      }
      chain.push_back(view);
      view = view->src(0);
    }
    for (size_t i = chain.size(); i-- > 0;) {
      if (chain[i]->op != Op::kAfter) {
        NodeVec src(chain[i]->src().begin(), chain[i]->src().end());
        src[0] = view;
        view = g_.with_src(chain[i], src);
      }
      bare_[chain[i]] = view;
    }
    return view;
  }

  // ---- precompiled functions ----

  const Node* function(const Node* n, const Node* built) {
    if (!is_precompiled(n)) return built;
    NodeVec src(built->src().begin(), built->src().end());
    for (size_t i = 1; i < src.size(); i++) {
      if (const Node* view = argument_view(src[i])) src[i] = view;
    }
    built = g_.with_src(built, src);
    auto results = precompiled_call(g_, built, options_);
    if (!results.ok()) {
      g_.fail(ir::fault_of(results.error()), results.error().what);
      return built;
    }
    calls_[n] = std::move(*results);
    return built;
  }

  const Node* get_tuple(const Node* n, const Node* built) {
    const auto it = calls_.find(n->src(0));
    if (it == calls_.end()) return wanted_.contains(n) ? store_or_view(n, built) : built;
    const auto i = static_cast<size_t>(n->as<int64_t>());
    if (i >= it->second.size()) {
      g_.fail(Fault::kFunctionSlots, strf("function result %zu of %zu", i, it->second.size()));
      return built;
    }
    const CallResult& r = it->second[i];
    if (r.storage != nullptr) {
      map_[n] = r.storage;
    } else if (r.written_arg >= 0) {
      map_[n] = without_states(r.value);
      const Node* arg = n->src(0)->src(static_cast<size_t>(r.written_arg) + 1);
      writes_.push_back({n, state_below(arg)});
    }
    return r.value;
  }

  // ---- the call ----

  NodeVec collect_effects(const Node* sink) {
    NodeVec effects;
    std::unordered_set<const Node*> seen;
    for (const Node* r : sink->src()) {
      const Node* b = ir::unsharded_base(done_.at(r));
      if (b->op == Op::kAfter && !is_scalar_param(b) && seen.insert(b).second) effects.push_back(b);
    }
    // States on the way are effects too: live tensors will name what they wrote, even where the
    // value that reads them turns out not to need it (x * 0).
    for (const Node* n : ir::toposort(ir::sink(g_, effects))) {
      if (n->op == Op::kAfter && !is_scalar_param(n) && seen.insert(n).second) effects.push_back(n);
    }
    return effects;
  }

  // BUFFERs, recorded views and bound values leave the body: slots in order of first visit.
  const Node* normalise(const NodeVec& effects) {
    const Node* body = ir::sink(g_, effects);
    NodeMap formals;
    NodeVec call{nullptr};
    const auto stop = [this](const Node* n) { return is_bound_variable(n) || views_.contains(n); };
    for (const Node* n : ir::toposort_until(body, stop)) {
      const auto slot = static_cast<int64_t>(call.size()) - 1;
      const Node* f = formal(n, slot);
      if (f == nullptr) continue;
      formals[n] = f;
      call.push_back(n);
    }
    call[0] = ir::substitute(g_, body, formals);
    return g_.make(Op::kCall, ir::DType::kVoid, call);
  }

  // nullptr: stays in the body.
  const Node* formal(const Node* n, int64_t slot) {
    if (is_bound_variable(n)) {
      ir::ParamArg arg = n->src(0)->as<ir::ParamArg>();
      arg.slot = slot;
      arg.name = strf("p%lld", static_cast<long long>(slot));
      return g_.with_arg(n->src(0), std::move(arg));
    }
    const bool view = views_.contains(n);
    const bool storage =
        n->op == Op::kBuffer && n->as<ir::ParamArg>().addrspace == ir::AddrSpace::kGlobal;
    if (!view && !storage) return nullptr;
    ir::ParamArg arg = below_views(n)->as<ir::ParamArg>();
    arg.slot = slot;
    arg.name.clear();
    const Node* shape = view ? ir::shape_node(g_, ir::max_shape(g_, n)) : n->src(0);
    return g_.make(Op::kParam, n->dtype, {shape}, std::move(arg));
  }

  Graph& g_;
  const ScheduleOptions& options_;
  std::unordered_set<const Node*> wanted_, written_;
  std::unordered_set<const Node*> stored_whole_;  // COPYs that are the value of a whole STORE
  std::unordered_set<const Node*> views_;         // arguments of their own
  std::unordered_map<const Node*, int> users_;
  std::unordered_map<const Node*, const Node*> done_;
  std::unordered_map<const Node*, std::vector<CallResult>> calls_;
  NodeMap bare_;  // of without_states: states of one buffer form long chains
  NodeMap map_;
  std::vector<StateWrite> writes_;
};

}  // namespace

Result<CallAndMap> transform_to_call(Graph& g, const Node* sink, const ScheduleOptions& options) {
  if (sink->op != Op::kSink) {
    return fail(Errc::kInvalid, strf("transform_to_call: %s is not a SINK", ir::op_name(sink->op)));
  }
  RETURN_IF_ERROR(g.status());
  RETURN_IF_ERROR(check_multi(g, sink));  // while buffers have names
  return Transform(g, options).run(sink);
}

NodeVec apply_map_to_tensors(Graph& g, const NodeVec& live, const NodeMap& map) {
  // Bodies of functions name buffers of their surroundings too.
  const Node* after = ir::substitute(g, ir::sink(g, live), map, {.enter_calls = true});
  return {after->src().begin(), after->src().end()};
}

}  // namespace modeld::schedule
