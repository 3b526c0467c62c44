#include "selftest/fuzz/kernel_opts.h"

#include <algorithm>

#include "runtime/codegen/lower.h"
#include "runtime/ir/derived.h"

namespace modeld::fuzz {

namespace {

using codegen::Scheduler;
using ir::AxisType;
using ir::Opt;
using ir::OptOp;

constexpr int64_t kMostLanes = 64;  // keeps the generated code short

bool is_fixed(const Scheduler& s, size_t axis) {
  return ir::is_const(s.axes()[axis]->src(0));
}

bool is_output(AxisType t) {
  return t == AxisType::kGlobal || t == AxisType::kWeak || t == AxisType::kLoop;
}

// Axis numbers an opt may speak of, in its own numbering.
std::vector<size_t> numbering(const Scheduler& s, OptOp op) {
  std::vector<size_t> out;
  for (size_t a = 0; a < s.axes().size(); ++a) {
    const AxisType t = s.type(a);
    const bool reduces = t == AxisType::kReduce || t == AxisType::kGroupReduce;
    const bool counts = op == OptOp::kUnroll ? reduces && is_fixed(s, a) && s.size(a) > 1
                        : op == OptOp::kGroup || op == OptOp::kGroupTop ? t == AxisType::kReduce
                                                                        : true;
    if (counts) out.push_back(a);
  }
  return out;
}

bool has_type(const Scheduler& s, std::initializer_list<AxisType> types) {
  for (size_t a = 0; a < s.axes().size(); ++a)
    if (std::find(types.begin(), types.end(), s.type(a)) != types.end()) return true;
  return false;
}

// Threads share out every store, so every store has to depend on the axis.
bool is_in_every_store(const Scheduler& s, const ir::Node* range) {
  for (const ir::Node* n : ir::toposort(s.ast())) {
    if (n->op != ir::Op::kEnd) continue;
    bool closes = false;
    for (const ir::Node* below : ir::toposort(n->src(0))) closes = closes || below == range;
    if (!closes) return false;
  }
  return true;
}

std::string pad_rule(const Scheduler& s, size_t axis, int64_t to) {
  const AxisType t = s.type(axis);
  if (to < 1) return "amount";
  if (t == AxisType::kUpcast || t == AxisType::kUnroll || t == AxisType::kThread)
    return "axis type";
  const int64_t up = (s.size(axis) + to - 1) / to * to;
  return s.size(axis) > up / 4 ? "" : "four times larger";
}

// Whether the reduce that loops over the axis is itself read by another.
bool is_nested_reduce(const Scheduler& s, const ir::Node* range) {
  const auto closes = [&](const ir::Node* n) {
    return std::find(n->src().begin() + 1, n->src().end(), range) != n->src().end();
  };
  for (const ir::Node* outer : ir::toposort(s.ast())) {
    if (outer->op != ir::Op::kReduce) continue;
    for (const ir::Node* below : ir::toposort(outer->src(0)))
      if (below->op == ir::Op::kReduce && closes(below)) return true;
  }
  return false;
}

// Bytes of local memory once the opt has cut `n` off a reduce, or a lane off an output.
std::string shared_rule(const Scheduler& s, const Opt& opt, int64_t n) {
  const bool groups = opt.op == OptOp::kGroup || opt.op == OptOp::kGroupTop;
  if (!groups && !has_type(s, {AxisType::kGroupReduce})) return "";
  int64_t bytes = n;
  for (size_t a = 0; a < s.axes().size(); ++a) {
    const AxisType t = s.type(a);
    const bool counts = t == AxisType::kUpcast || t == AxisType::kWarp || t == AxisType::kLocal ||
                        t == AxisType::kGroupReduce;
    bytes *= counts ? s.size(a) : 1;
  }
  int64_t item = 1;
  for (const ir::Node* r : ir::toposort(s.ast()))
    if (r->op == ir::Op::kReduce) item = ir::item_size(r->dtype);
  return bytes * item <= s.options().caps.shared_max ? "" : "shared memory";
}

std::string local_rule(const Scheduler& s, const Opt& opt, size_t axis) {
  if (!s.options().caps.has_locals) return "locals";
  for (const Opt& o : s.applied_opts())
    if (o.op == OptOp::kNoLocals) return "after NOLOCALS";
  if (opt.op == OptOp::kLocal) {
    const AxisType t = s.type(axis);
    return t == AxisType::kGlobal || t == AxisType::kWeak || t == AxisType::kLoop ? ""
                                                                                  : "axis type";
  }
  return is_nested_reduce(s, s.axes()[axis]) ? "nested reduce" : "";
}

std::string type_rule(const Scheduler& s, const Opt& opt, size_t axis, int64_t n) {
  const AxisType t = s.type(axis);
  const codegen::RendererCaps& caps = s.options().caps;
  switch (opt.op) {
    case OptOp::kUpcast:
      return !is_output(t) && t != AxisType::kLocal ? "axis type" : n > 16 ? "amount" : "";
    case OptOp::kUnroll:
      return n > 32 ? "amount" : "";
    case OptOp::kThread:
      if (!caps.has_threads || n > caps.global_max[0]) return "threads";
      if (has_type(s, {AxisType::kThread})) return "second";
      if (!is_output(t)) return "axis type";
      return is_in_every_store(s, s.axes()[axis]) ? "" : "not in every store";
    default:
      return local_rule(s, opt, axis);
  }
}

std::string swap_rule(const Scheduler& s, const Opt& opt, size_t axis) {
  if (opt.arg < 0 || opt.arg >= static_cast<int64_t>(s.axes().size())) return "second axis";
  const auto other = static_cast<size_t>(opt.arg);
  const bool both = s.type(axis) == AxisType::kGlobal && s.type(other) == AxisType::kGlobal;
  return both ? "" : "not GLOBAL";
}

Opt random_opt(const Scheduler& s, Rng& rng) {
  static constexpr OptOp kOps[] = {
      OptOp::kUpcast, OptOp::kUpcast, OptOp::kUpcast,   OptOp::kUpcast,  OptOp::kUnroll,
      OptOp::kUnroll, OptOp::kUnroll, OptOp::kThread,   OptOp::kThread,  OptOp::kPadTo,
      OptOp::kPadTo,  OptOp::kPadTo,  OptOp::kSwap,     OptOp::kLocal,   OptOp::kGroup,
      OptOp::kLocal,  OptOp::kTc,     OptOp::kGroupTop, OptOp::kNoLocals};
  static constexpr int64_t kAmounts[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 33};
  Opt o;
  o.op = kOps[rng.below(std::size(kOps))];
  const std::vector<size_t> axes = numbering(s, o.op);
  o.axis = static_cast<int64_t>(rng.below(axes.size() + 1)) - (rng.one_in(20) ? 1 : 0);
  o.arg = kAmounts[rng.below(std::size(kAmounts))];
  const bool exists = o.axis >= 0 && o.axis < static_cast<int64_t>(axes.size());
  if (exists && o.op != OptOp::kPadTo && !rng.one_in(3)) {  // one that divides
    const int64_t size = s.size(axes[static_cast<size_t>(o.axis)]);
    std::vector<int64_t> divisors;
    for (int64_t d = 2; d <= std::min<int64_t>(size, 16); ++d)
      if (size % d == 0) divisors.push_back(d);
    if (!divisors.empty()) o.arg = divisors[rng.below(divisors.size())];
  }
  return o;
}

// The state of a Scheduler that a refusal must not touch.
struct Snapshot {
  const ir::Node* ast;
  ir::NodeVec axes;
  ir::Opts applied;
  explicit Snapshot(const Scheduler& s) : ast(s.ast()), axes(s.axes()), applied(s.applied_opts()) {}
  bool operator==(const Snapshot&) const = default;
};

std::string text(const Opt& o) {
  return ir::opt_text(o);
}

// One opt on the scheduler; "" or the finding.
std::string attempt_one(Scheduler& s, const Opt& o, TryOpt attempt, OptsPlan* plan) {
  const std::string rule = forecast(s, o);
  const Snapshot before(s);
  const Status done = attempt(s, o);
  if (done.ok() != rule.empty()) {
    return done.ok()
               ? strf("opt %s was applied against the rule: %s", text(o).c_str(), rule.c_str())
               : "a legal opt was refused: " + done.error().what;
  }
  if (!done.ok()) {
    plan->refused.push_back(o);
    if (!(Snapshot(s) == before)) return strf("refused opt %s left a mark", text(o).c_str());
    return "";
  }
  plan->applied.push_back(o);
  return s.applied_opts() == plan->applied ? "" : "applied_opts() is not what was applied";
}

}  // namespace

std::string forecast(const Scheduler& s, const Opt& opt) {
  if (opt.op == OptOp::kTc) return "no tensor cores";
  if (opt.op == OptOp::kNoLocals) {
    const bool late = has_type(s, {AxisType::kWarp, AxisType::kLocal, AxisType::kGroupReduce});
    return late ? "locals exist" : "";
  }
  const std::vector<size_t> axes = numbering(s, opt.op);
  if (opt.axis < 0 || opt.axis >= static_cast<int64_t>(axes.size())) return "axis";
  const size_t axis = axes[static_cast<size_t>(opt.axis)];
  if (opt.op == OptOp::kSwap) return swap_rule(s, opt, axis);
  if (!is_fixed(s, axis)) return "symbolic";
  if (opt.op == OptOp::kPadTo) return pad_rule(s, axis, opt.arg);
  const int64_t n = opt.arg == 0 ? s.size(axis) : opt.arg;
  if (n < 1 || s.size(axis) % n != 0) return "amount";
  const std::string shared = shared_rule(s, opt, n);
  return shared.empty() ? type_rule(s, opt, axis, n) : shared;
}

Status try_opt(Scheduler& s, const Opt& opt) {
  return s.apply_opt(opt);
}

Result<OptsPlan> plan_opts(ir::Graph& g,
                           const ir::Node* ast,
                           const codegen::CodegenOptions& options,
                           Rng& rng,
                           TryOpt attempt) {
  ASSIGN_OR_RETURN(const ir::Node* clean,
                   codegen::run_kernel_passes(g, ast, options, true, "simplify_ranges"));
  Scheduler s(g, clean, options);
  s.convert_weak_to_global();
  OptsPlan plan;
  const size_t tries = 1 + rng.below(9);
  for (size_t k = 0; k < tries && plan.finding.empty(); ++k) {
    const Opt o = random_opt(s, rng);
    const bool widens = o.op == OptOp::kUpcast || o.op == OptOp::kUnroll;
    if (widens && forecast(s, o).empty()) {
      const int64_t n =
          o.arg == 0 ? s.size(numbering(s, o.op)[static_cast<size_t>(o.axis)]) : o.arg;
      if (s.upcast_size() * n > kMostLanes) continue;
    }
    const size_t refused = plan.refused.size();
    plan.finding = attempt_one(s, o, attempt, &plan);
    if (plan.bad_list.empty() && plan.refused.size() > refused && rng.one_in(8)) {
      plan.bad_list = plan.applied;
      plan.bad_list.push_back(o);
    }
  }
  return plan;
}

}  // namespace modeld::fuzz
