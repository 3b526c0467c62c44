#include "runtime/schedule/split_store.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "runtime/ir/base_storage.h"
#include "runtime/ir/derived.h"
#include "runtime/ir/rewrite.h"
#include "runtime/ir/sharding.h"
#include "runtime/ir/symbolic.h"
#include "runtime/schedule/create_schedule.h"
#include "runtime/schedule/expr_util.h"

namespace modeld::schedule {

using ir::Graph;
using ir::Node;
using ir::NodeMap;
using ir::NodeVec;
using ir::Op;

namespace {

int64_t flat_size(Graph& g, const Node* buffer) {
  return ir::element_count(g, buffer);
}

// What one kernel body names from outside, in order of first visit.
struct Outside {
  NodeVec states;  // argument per PARAM
  NodeMap locals;  // state / range / variable / CONTIGUOUS -> its name inside
  ir::KernelInfo info;
};

// Loops are numbered in the order they were made: outer before inner, whatever order the operands
// of commutative operations stand in.
void number_ranges(Graph& g, NodeVec ranges, NodeMap* locals) {
  std::sort(ranges.begin(), ranges.end(), [](const Node* a, const Node* b) {
    return a->as<ir::RangeArg>().id < b->as<ir::RangeArg>().id;
  });
  int64_t number = 0;
  for (const Node* r : ranges) {
    const ir::AxisType type = r->as<ir::RangeArg>().type;
    (*locals)[r] = g.make(Op::kRange, r->dtype, r->src(), ir::RangeArg{number++, type});
  }
}

// The buffer a kernel's store goes to.
const Node* written_by(const Node* body) {
  while (body->op == Op::kEnd) body = body->src(0);
  return base_buffer(body->src(0));
}

// Collects and renumbers; false = error latched.
bool collect(Graph& g, const Node* body, Outside* out) {
  std::unordered_map<const Node*, const Node*> state_of;  // base buffer -> state
  NodeVec ranges;
  for (const Node* n : expression_nodes(body)) {
    if (is_device_range(n)) {
      // Which device runs the kernel is a variable that the launch binds.
      const Node* number = ir::variable(g, ir::kDeviceNum, 0, ir::vmax(g, n));
      out->locals[n] = ir::cast(g, number, n->dtype);
    } else if (n->op == Op::kRange) {
      ranges.push_back(n);
    } else if (is_scalar_param(n)) {
      ir::ParamArg arg = (n->op == Op::kAfter ? n->src(0) : n)->as<ir::ParamArg>();
      arg.slot = -1;
      const Node* variable = n->op == Op::kAfter ? n->src(0) : n;
      out->locals[n] = g.with_arg(variable, std::move(arg));
    } else if (is_state(n)) {
      NodeVec parts;  // of a multi-device state
      states_of(n, &parts);
      for (const Node* s : parts) {
        const Node* base = ir::base_storage(g, s);
        if (state_of.try_emplace(base, s).first->second == s) continue;
        g.fail(ir::Fault::kIndexCycle,
               strf("cycle detected while indexing: the kernel writing %s reads %s before and "
                    "after it is written",
                    storage_name(written_by(body)).c_str(), storage_name(base).c_str()));
        return false;
      }
      const auto slot = static_cast<int64_t>(out->states.size());
      out->locals[n] = ir::param(g, slot, n->dtype, flat_size(g, n), ir::device(g, n));
      out->states.push_back(n);
    } else if (n->op == Op::kContiguous && n->has<ir::Opts>()) {
      out->info.opts_to_apply = n->as<ir::Opts>();
    }
  }
  number_ranges(g, std::move(ranges), &out->locals);
  return true;
}

class SplitStore {
 public:
  explicit SplitStore(Graph& g) : g_(g) {
    strip_.on({Op::kContiguous}, "contiguous", [](Graph&, const Node* n) { return n->src(0); });
    strip_.append(ir::symbolic_rules());
  }

  const Node* run(const Node* sink) {
    done_.resize(g_.node_count());
    for (const Node* n : ir::toposort(sink)) {
      const Node* result = visit(n);
      done_[n->id] = result;
      if (g_.failed()) return sink;
    }
    return done_[sink->id];
  }

 private:
  const Node* visit(const Node* n) {
    const bool effect = n->op == Op::kEnd || n->op == Op::kStore;
    // The store of a bound variable is no kernel; a store inside an END belongs to that END.
    if (effect && !is_bound_store(n) && is_closed(n)) return to_call(n);
    static constexpr ir::OpSet kOuter = {Op::kAfter, Op::kSink, Op::kCall, Op::kMSelect,
                                         Op::kMStack};
    if (!kOuter.has(n->op)) return n;
    NodeVec src(n->src().begin(), n->src().end());
    for (size_t i = n->op == Op::kCall ? 1 : 0; i < src.size(); i++) src[i] = done_[src[i]->id];
    return g_.with_src(n, src);
  }

  // Every loop is closed; the one over devices stays open.
  bool is_closed(const Node* n) {
    const NodeVec& open = ir::ranges(g_, n);
    return std::all_of(open.begin(), open.end(), is_device_range);
  }

  static bool is_bound_store(const Node* n) {
    return n->op == Op::kStore && is_scalar_param(n->src(0));
  }

  const Node* to_call(const Node* body) {
    Outside out;
    if (!collect(g_, body, &out)) return body;
    const Node* local = ir::substitute(g_, body, out.locals);
    // Renumbering may change the canonical order of operands: equal kernels must be equal nodes.
    local = ir::rewrite(g_, local, strip_);
    NodeVec src{ir::sink(g_, NodeVec{local}, std::move(out.info))};
    for (const Node* s : out.states) src.push_back(done_[s->id]);
    return g_.make(Op::kCall, ir::DType::kVoid, src);
  }

  Graph& g_;
  ir::RuleSet strip_;
  NodeVec done_;  // by id, of the nodes that were there before
};

}  // namespace

Result<const Node*> split_store(Graph& g, const Node* sink) {
  const Node* result = SplitStore(g).run(sink);
  if (g.failed()) return fail(g.status().error());
  return result;
}

}  // namespace modeld::schedule
