#include "runtime/codegen/scheduler.h"

#include <algorithm>

#include "runtime/codegen/graph_util.h"
#include "runtime/ir/symbolic.h"

namespace modeld::codegen {

using ir::AxisType;
using ir::Fault;
using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;
using ir::Opt;
using ir::OptOp;

namespace {

constexpr int64_t kMaxUpcast = 16;
constexpr int64_t kMaxUnroll = 32;

AxisType axis_type(const Node* r) {
  return r->as<ir::RangeArg>().type;
}

tl::unexpected<Error> illegal(Fault fault, const Opt& opt, const std::string& why) {
  return ir::fail(fault, strf("opt %s: %s", ir::opt_text(opt).c_str(), why.c_str()));
}

long long ll(int64_t v) {
  return static_cast<long long>(v);
}

AxisType type_made(OptOp op) {
  switch (op) {
    case OptOp::kUpcast:
      return AxisType::kUpcast;
    case OptOp::kUnroll:
      return AxisType::kUnroll;
    case OptOp::kLocal:
      return AxisType::kLocal;
    case OptOp::kThread:
      return AxisType::kThread;
    default:
      return AxisType::kGroupReduce;
  }
}

// [CAST of] MUL with both factors 0 where not valid, below the casts that widen them.
const Node* masked_product(Graph& g, const Node* n, const Node* valid) {
  const auto masked = [&](const Node* f) {
    NodeVec casts;
    for (; f->op == Op::kCast; f = f->src(0)) casts.push_back(f);
    f = ir::where(g, valid, f, ir::const_of(g, f->dtype, 0));
    for (size_t i = casts.size(); i-- > 0;) f = g.with_src(casts[i], {f});
    return f;
  };
  if (n->op == Op::kCast) return g.with_src(n, {masked_product(g, n->src(0), valid)});
  return g.with_src(n, {masked(n->src(0)), masked(n->src(1))});
}

}  // namespace

int64_t next_range_id(const Node* ast) {
  int64_t id = 0;
  for (const Node* r : all_ranges(ast)) id = std::max(id, r->as<ir::RangeArg>().id + 1);
  return id;
}

Scheduler::Scheduler(Graph& g, const Node* ast, const CodegenOptions& options)
    : g_(&g), options_(std::make_shared<const CodegenOptions>(options)), ast_(ast) {
  if (ast->has<ir::KernelInfo>()) {
    applied_ = ast->as<ir::KernelInfo>().applied_opts;
    dont_use_locals_ = ast->as<ir::KernelInfo>().dont_use_locals;
  }
  set_ast(ast);
}

void Scheduler::set_ast(const Node* ast) {
  ast_ = ast;
  axes_ = all_ranges(ast);
}

int64_t Scheduler::size(size_t axis) const {
  return range_size(*g_, axes_[axis]);
}
AxisType Scheduler::type(size_t axis) const {
  return axis_type(axes_[axis]);
}

std::vector<size_t> Scheduler::axes_of(std::initializer_list<AxisType> types) const {
  std::vector<size_t> out;
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (std::find(types.begin(), types.end(), type(i)) != types.end()) out.push_back(i);
  }
  return out;
}

namespace {

std::vector<size_t> concrete(const Scheduler& s, std::vector<size_t> axes) {
  std::erase_if(axes,
                [&](size_t a) { return !ir::is_const(s.axes()[a]->src(0)) || s.size(a) <= 1; });
  return axes;
}

}  // namespace

std::vector<size_t> Scheduler::upcastable() const {
  return concrete(*this,
                  axes_of({AxisType::kGlobal, AxisType::kLocal, AxisType::kWeak, AxisType::kLoop}));
}
std::vector<size_t> Scheduler::unrollable() const {
  return concrete(*this, axes_of({AxisType::kReduce, AxisType::kGroupReduce}));
}

int64_t Scheduler::upcast_size() const {
  int64_t p = 1;
  for (size_t a : axes_of({AxisType::kUpcast, AxisType::kUnroll})) p *= size(a);
  return p;
}
int64_t Scheduler::output_upcast() const {
  int64_t p = 1;
  for (size_t a : axes_of({AxisType::kUpcast})) p *= size(a);
  return p;
}

NodeVec Scheduler::buffers() const {
  NodeVec out;
  for (const Node* n : ir::toposort(ast_)) {
    if (n->op == Op::kIndex && is_address(n)) out.push_back(n);
  }
  return out;
}

NodeVec Scheduler::reduces() const {
  NodeVec out;
  for (const Node* n : ir::toposort(ast_)) {
    if (n->op == Op::kReduce) out.push_back(n);
  }
  return out;
}

bool Scheduler::has_axis(AxisType t) const {
  return !axes_of({t}).empty();
}

// ---- legality: one fault per condition of pipeline hand-book 6.2 ----

Result<size_t> Scheduler::real_axis(const Opt& opt) const {
  std::vector<size_t> numbering;
  const char* of = "axes";
  if (opt.op == OptOp::kUnroll) {
    numbering = unrollable();
    of = "reduce axes of more than one step";
  } else if (opt.op == OptOp::kGroup || opt.op == OptOp::kGroupTop) {
    numbering = axes_of({AxisType::kReduce});
    of = "REDUCE axes";
  } else {
    for (size_t i = 0; i < axes_.size(); ++i) numbering.push_back(i);
  }
  if (opt.axis < 0 || opt.axis >= static_cast<int64_t>(numbering.size())) {
    return illegal(Fault::kOptAxis, opt,
                   strf("axis %lld of %zu %s", ll(opt.axis), numbering.size(), of));
  }
  return numbering[static_cast<size_t>(opt.axis)];
}

int64_t Scheduler::axis_size_of(const Opt& opt) const {
  if (opt.op == OptOp::kNoLocals || opt.op == OptOp::kTc) return 0;
  const Result<size_t> axis = real_axis(opt);
  return axis.ok() ? size(*axis) : 0;
}

Status Scheduler::check_amount(const Opt& opt, size_t axis, int64_t amount) const {
  if (!ir::is_const(axes_[axis]->src(0))) {
    return illegal(Fault::kOptSymbolic, opt, "the axis has a symbolic size");
  }
  // 0 is the whole axis, which for padding means nothing.
  if (amount < 1 || (opt.op == OptOp::kPadTo && opt.arg < 1)) {
    return illegal(Fault::kOptAmount, opt, strf("amount %lld is below 1", ll(opt.arg)));
  }
  if (opt.op != OptOp::kPadTo && size(axis) % amount != 0) {
    return illegal(Fault::kOptDivide, opt,
                   strf("axis size %lld is not divisible by %lld", ll(size(axis)), ll(amount)));
  }
  return {};
}

Status Scheduler::check_locals(const Opt& opt) const {
  if (!options_->caps.has_locals) {
    return illegal(Fault::kOptNoLocals, opt,
                   "renderer " + options_->caps.name + " has no work groups");
  }
  if (dont_use_locals_) return illegal(Fault::kOptLocalsOff, opt, "not after NOLOCALS");
  return {};
}

Status Scheduler::check_group(const Opt& opt, size_t axis) const {
  RETURN_IF_ERROR(check_locals(opt));
  for (const Opt& o : applied_) {
    if (o.op == OptOp::kTc) return illegal(Fault::kOptGroupTc, opt, "not after TC");
  }
  for (const Node* r : reduces()) {
    const bool mine =
        std::find(r->src().begin() + 1, r->src().end(), axes_[axis]) != r->src().end();
    if (!mine) continue;
    for (const Node* outer : reduces()) {
      for (const Node* s : ir::toposort(outer->src(0))) {
        if (s != r) continue;
        return illegal(Fault::kOptGroupNested, opt, "its reduce is nested inside another reduce");
      }
    }
  }
  return {};
}

Status Scheduler::check_shared(const Opt& opt, int64_t amount) const {
  const bool grouping = opt.op == OptOp::kGroup || opt.op == OptOp::kGroupTop;
  const bool exempt = opt.op == OptOp::kNoLocals || opt.op == OptOp::kPadTo;
  if (exempt || (!grouping && !has_axis(AxisType::kGroupReduce))) return {};
  int64_t bytes = amount;
  for (size_t a :
       axes_of({AxisType::kUpcast, AxisType::kWarp, AxisType::kLocal, AxisType::kGroupReduce})) {
    bytes *= size(a);
  }
  const NodeVec all = reduces();
  if (!all.empty()) bytes *= ir::item_size(all.back()->dtype);
  if (bytes <= options_->caps.shared_max) return {};
  return illegal(Fault::kOptShared, opt,
                 strf("needs %lld bytes of shared memory, limit %lld", ll(bytes),
                      ll(options_->caps.shared_max)));
}

Status Scheduler::check_pad(const Opt& opt, size_t axis) const {
  const AxisType t = type(axis);
  if (t == AxisType::kUpcast || t == AxisType::kUnroll || t == AxisType::kThread ||
      t == AxisType::kWarp) {
    return illegal(Fault::kOptPadAxis, opt,
                   strf("axis is %s: lanes and threads cannot be padded", ir::axis_name(t)));
  }
  // Below four times the axis nothing can overflow.
  const bool growth = opt.arg / 4 >= size(axis);
  const int64_t padded = growth ? opt.arg : (size(axis) + opt.arg - 1) / opt.arg * opt.arg;
  if (!growth && padded < 4 * size(axis)) return {};
  return illegal(
      Fault::kOptPadGrowth, opt,
      strf("padding makes %lld of %lld, four times the axis", ll(padded), ll(size(axis))));
}

Status Scheduler::check_thread(const Opt& opt, size_t axis, int64_t amount) const {
  if (!options_->caps.has_threads) {
    return illegal(Fault::kOptNoThreads, opt,
                   "renderer " + options_->caps.name + " has no threads");
  }
  if (amount > options_->caps.global_max[0]) {
    return illegal(Fault::kOptThreadCount, opt,
                   strf("%lld threads, limit %lld", ll(amount), ll(options_->caps.global_max[0])));
  }
  if (has_axis(AxisType::kThread)) {
    return illegal(Fault::kOptThreadTwice, opt, "a THREAD axis exists");
  }
  const AxisType t = type(axis);
  if (t != AxisType::kGlobal && t != AxisType::kWeak && t != AxisType::kLoop) {
    return illegal(Fault::kOptThreadAxis, opt,
                   strf("axis is %s, not an output loop", ir::axis_name(t)));
  }
  for (const Node* end : ir::toposort(ast_)) {
    if (end->op == Op::kEnd && !ir::depends_on(*g_, end->src(0), axes_[axis])) {
      return illegal(Fault::kOptThreadStores, opt, "axis is not part of every store");
    }
  }
  return {};
}

Status Scheduler::check_legal(const Opt& opt, size_t axis, int64_t amount) const {
  const AxisType t = type(axis);
  const bool output = t == AxisType::kGlobal || t == AxisType::kWeak || t == AxisType::kLoop;
  switch (opt.op) {
    case OptOp::kUpcast:
      if (!output && t != AxisType::kLocal) {
        return illegal(Fault::kOptUpcastAxis, opt,
                       strf("axis is %s, not an output axis", ir::axis_name(t)));
      }
      if (amount <= kMaxUpcast) return {};
      return illegal(Fault::kOptUpcastSize, opt,
                     strf("%lld lanes, limit %lld", ll(amount), ll(kMaxUpcast)));
    case OptOp::kUnroll:  // its numbering holds reduce axes only
      if (amount <= kMaxUnroll) return {};
      return illegal(Fault::kOptUnrollSize, opt,
                     strf("%lld steps, limit %lld", ll(amount), ll(kMaxUnroll)));
    case OptOp::kLocal:
      RETURN_IF_ERROR(check_locals(opt));
      if (output) return {};
      return illegal(Fault::kOptLocalAxis, opt,
                     strf("axis is %s, not GLOBAL or WEAK", ir::axis_name(t)));
    case OptOp::kThread:
      return check_thread(opt, axis, amount);
    default:
      return check_group(opt, axis);
  }
}

// ---- application ----

void Scheduler::shift(size_t axis, int64_t amount, AxisType made, bool top) {
  Graph& g = *g_;
  const Node* r = axes_[axis];
  const auto& arg = r->as<ir::RangeArg>();
  const int64_t rest = range_size(g, r) / amount;
  const Node* fresh = ir::range(g, amount, next_range_id(ast_), made);
  const Node* kept = rest == 1 ? ir::const_int(g, 0) : ir::range(g, rest, arg.id, arg.type);
  const Node* index;
  if (rest == 1) {
    index = fresh;
  } else if (amount == 1) {
    index = kept;
  } else {
    index = top ? ir::add(g, ir::mul_const(g, fresh, rest), kept)
                : ir::add(g, ir::mul_const(g, kept, amount), fresh);
  }
  set_ast(replace_ranges(g, ast_, {{r, index}}));
}

void Scheduler::pad_to(size_t axis, int64_t multiple, Mask mask) {
  Graph& g = *g_;
  const Node* r = axes_[axis];
  const auto& arg = r->as<ir::RangeArg>();
  const int64_t old_size = range_size(g, r);
  const Node* padded =
      ir::range(g, (old_size + multiple - 1) / multiple * multiple, arg.id, arg.type);
  const Node* valid = ir::lt(g, padded, ir::const_int(g, old_size));
  set_ast(map_graph(g, ast_, [&](const Node* n, NodeVec& src) -> const Node* {
    if (n == r) return padded;
    if (n->op == Op::kIndex && is_address(n) && ir::depends_on(g, n->src(1), r)) {
      const GatedIndex at = split_gate(src[1]);
      src[1] = join_gate(g, at.gate != nullptr ? ir::land(g, at.gate, valid) : valid, at.index);
    }
    const bool mine = n->op == Op::kReduce &&
                      std::find(n->src().begin() + 1, n->src().end(), r) != n->src().end();
    if (mine && mask == Mask::kFactors) {
      src[0] = masked_product(g, src[0], valid);
    } else if (mine) {
      // Padded steps must not change the result, whatever the value computes from zeros.
      const Node* neutral = identity_of(g, n->as<ir::ReduceArg>().op, n->dtype);
      src[0] = ir::where(g, valid, src[0], neutral);
    }
    return rebuilt(g, n, src);
  }));
}

Status Scheduler::apply_swap(const Opt& opt, size_t axis) {
  if (opt.arg < 0 || opt.arg >= static_cast<int64_t>(axes_.size())) {
    return illegal(Fault::kOptSwapAxis, opt,
                   strf("second axis %lld of %zu", ll(opt.arg), axes_.size()));
  }
  const auto other = static_cast<size_t>(opt.arg);
  if (type(axis) != AxisType::kGlobal || type(other) != AxisType::kGlobal) {
    return illegal(Fault::kOptSwapType, opt,
                   strf("axes are %s and %s, both must be global", ir::axis_name(type(axis)),
                        ir::axis_name(type(other))));
  }
  const Node* a = axes_[axis];
  const Node* b = axes_[other];
  const auto renamed = [&](const Node* r, const Node* id_of) {
    return g_->with_arg(r, ir::RangeArg{id_of->as<ir::RangeArg>().id, axis_type(r)});
  };
  set_ast(replace_ranges(*g_, ast_, {{a, renamed(a, b)}, {b, renamed(b, a)}}));
  applied_.push_back(opt);
  return {};
}

Status Scheduler::apply_no_locals(const Opt& opt) {
  if (has_axis(AxisType::kWarp) || has_axis(AxisType::kLocal) || has_axis(AxisType::kGroupReduce)) {
    return illegal(Fault::kOptHasLocals, opt, "a WARP, LOCAL or GROUP_REDUCE axis exists");
  }
  dont_use_locals_ = true;
  applied_.push_back(opt);
  return {};
}

Status Scheduler::apply_opt(const Opt& opt) {
  if (opt.op == OptOp::kTc) return apply_tc(opt);
  if (opt.op == OptOp::kNoLocals) return apply_no_locals(opt);
  ASSIGN_OR_RETURN(const size_t axis, real_axis(opt));
  if (opt.op == OptOp::kSwap) return apply_swap(opt, axis);
  const int64_t amount = opt.arg == 0 ? size(axis) : opt.arg;
  RETURN_IF_ERROR(check_amount(opt, axis, amount));
  RETURN_IF_ERROR(check_shared(opt, amount));
  if (opt.op == OptOp::kPadTo) {
    RETURN_IF_ERROR(check_pad(opt, axis));
    pad_to(axis, amount, Mask::kValue);
  } else {
    RETURN_IF_ERROR(check_legal(opt, axis, amount));
    shift(axis, amount, type_made(opt.op), opt.op == OptOp::kThread || opt.op == OptOp::kGroupTop);
  }
  applied_.push_back(opt);
  return {};
}

void Scheduler::convert_weak_to_global() {
  if (!options_->caps.has_locals) return;
  ir::NodeMap map;
  for (const Node* r : axes_) {
    // A launch grid has fixed sizes: a symbolic loop stays a loop inside each work item.
    bool everywhere = axis_type(r) == AxisType::kWeak && ir::is_const(r->src(0));
    for (const Node* end : ir::toposort(ast_)) {
      if (end->op == Op::kEnd) {
        everywhere = everywhere && ir::depends_on(*g_, end->src(0), r);
      }
    }
    if (everywhere) {
      map[r] = g_->with_arg(r, ir::RangeArg{r->as<ir::RangeArg>().id, AxisType::kGlobal});
    }
  }
  set_ast(replace_ranges(*g_, ast_, map));
}

std::string Scheduler::auto_name() const {
  std::string name = reduces().empty() ? "E" : "r";
  for (size_t i = 0; i < axes_.size(); ++i) {
    name += strf("_%lld", static_cast<long long>(size(i)));
  }
  return name;
}

const Node* Scheduler::optimised_ast(const std::string& name) const {
  ir::KernelInfo info;
  if (ast_->has<ir::KernelInfo>()) info = ast_->as<ir::KernelInfo>();
  info.name = name;
  info.applied_opts = applied_;
  info.opts_to_apply.reset();
  info.beam = 0;
  info.dont_use_locals = dont_use_locals_;
  return g_->with_tag(g_->with_arg(ast_, info), 1);
}

}  // namespace modeld::codegen
