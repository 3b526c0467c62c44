// Scheduler::apply_opt(TC): finds a reduce that is a sum of products, splits its axes into the
// shape of a matrix unit and puts WMMA in place of the innermost steps (pipeline hand-book 6.5).
// The work is done on a copy, so that a refusal half way leaves the Scheduler as it was.
#include <algorithm>
#include <optional>

#include "runtime/codegen/graph_util.h"
#include "runtime/codegen/scheduler.h"
#include "runtime/codegen/tensor_cores.h"
#include "runtime/ir/symbolic.h"

namespace modeld::codegen {

using ir::AxisType;
using ir::DType;
using ir::Fault;
using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;
using ir::Opt;

namespace {

tl::unexpected<Error> illegal(Fault fault, const Opt& opt, const std::string& why) {
  return ir::fail(fault, strf("opt %s: %s", ir::opt_text(opt).c_str(), why.c_str()));
}

// A reduce that sums products, and its factors without the casts that lose nothing.
struct Product {
  const Node* reduce;
  const Node* mul;
};

std::optional<Product> product_of(const Node* reduce) {
  if (reduce->as<ir::ReduceArg>().op != Op::kAdd) return std::nullopt;
  const Node* mul = reduce->src(0);
  if (mul->op == Op::kCast) mul = mul->src(0);
  if (mul->op != Op::kMul) return std::nullopt;
  return Product{reduce, mul};
}

// Every value of `from` is a value of `to`.
bool keeps_values(DType from, DType to) {
  if (ir::is_float(from)) return ir::is_float(to) && ir::item_bits(to) >= ir::item_bits(from);
  if (!ir::is_int(to)) return false;
  const int64_t low = ir::is_unsigned(from) ? 0 : ir::int_min(from);
  return ir::int_min(to) <= low && ir::int_max(to) >= ir::int_max(from);
}

// The factor as a value of type t, or null.
const Node* factor_of_type(const Node* n, DType t) {
  while (n->dtype != t) {
    if (n->op != Op::kCast || !keeps_values(n->src(0)->dtype, n->dtype)) return nullptr;
    n = n->src(0);
  }
  return n;
}

// Integer products must fit the type they are multiplied in; those of halves may be exact.
bool product_fits(const TensorCore& core, const Node* mul) {
  if (ir::is_float(core.a)) return ir::is_float(mul->dtype);
  return ir::item_bits(mul->dtype) >= ir::item_bits(core.a) + ir::item_bits(core.b);
}

struct Factors {
  const TensorCore* core;
  size_t first;  // which operand of the product is A
};

// Ranges `a` needs and `b` does not, by id descending.
NodeVec only_in(Graph& g, const Node* a, const Node* b, const NodeVec& reduced) {
  NodeVec out;
  const NodeVec others = ir::ranges(g, b);
  for (const Node* r : ir::ranges(g, a)) {
    const bool shared = std::find(others.begin(), others.end(), r) != others.end() ||
                        std::find(reduced.begin(), reduced.end(), r) != reduced.end();
    if (!shared) out.push_back(r);
  }
  return out;
}

void by_id_descending(NodeVec& v) {
  std::stable_sort(v.begin(), v.end(), [](const Node* a, const Node* b) {
    return a->as<ir::RangeArg>().id > b->as<ir::RangeArg>().id;
  });
}

// N, M and K of one choice.
struct Axes {
  const Node* n;
  const Node* m;
  const Node* k;
};

// The choice of number `at`: N varies slowest, K fastest; choices past the last of this order of
// factors count down `at`.
std::optional<Axes> pick_axes(Graph& g, const Product& p, size_t first, int64_t* at) {
  const Node* in0 = p.mul->src(first);
  const Node* in1 = p.mul->src(1 - first);
  NodeVec ks(p.reduce->src().begin() + 1, p.reduce->src().end());
  NodeVec ns = only_in(g, in1, in0, ks);
  NodeVec ms = only_in(g, in0, in1, ks);
  std::erase_if(
      ks, [&](const Node* r) { return !ir::depends_on(g, in0, r) || !ir::depends_on(g, in1, r); });
  by_id_descending(ns);
  by_id_descending(ms);
  by_id_descending(ks);
  const auto count = static_cast<int64_t>(ns.size() * ms.size() * ks.size());
  if (*at >= count) {
    *at -= count;
    return std::nullopt;
  }
  const auto i = static_cast<size_t>(*at);
  return Axes{ns[i / (ms.size() * ks.size())], ms[i / ks.size() % ms.size()], ks[i % ks.size()]};
}

const Node* bit_of(Graph& g, const Node* lane, size_t bit) {
  const Node* high = ir::alu(g, Op::kFloorDiv, {lane, ir::const_int(g, int64_t{1} << bit)});
  return ir::alu(g, Op::kFloorMod, {bit == 0 ? lane : high, ir::const_int(g, 2)});
}

// The operand as the unit holds it: every bit where the swizzle puts it.
const Node* swizzled(Graph& g,
                     const Node* value,
                     const NodeVec& bits,
                     const std::vector<size_t>& swizzle) {
  ir::NodeMap map;
  for (size_t i = 0; i < bits.size(); ++i) {
    if (swizzle[i] != i) map[bits[i]] = bits[swizzle[i]];
  }
  return replace_ranges(g, value, map);
}

std::vector<int64_t> element_ids(const NodeVec& bits, const TensorBits& names, int64_t elements) {
  std::vector<int64_t> out;
  for (size_t at : names.elements_order) {
    if (int64_t{1} << out.size() >= elements) break;
    out.push_back(bits[at]->as<ir::RangeArg>().id);
  }
  return out;
}

// WMMA over the bits, read at the element the register bits name.
const Node* unit_step(Graph& g,
                      const TensorCore& core,
                      const TensorBits& names,
                      const NodeVec& bits,
                      const Node* a,
                      const Node* b) {
  const NodeVec zeros(static_cast<size_t>(core.c_elements), ir::const_of(g, core.c, 0));
  NodeVec src{swizzled(g, a, bits, names.for_a), swizzled(g, b, bits, names.for_b),
              g.make(Op::kStack, core.c, zeros)};
  const Node* element = ir::const_int(g, 0);
  int64_t weight = 1;
  for (size_t i = 0; i < bits.size(); ++i) {
    if (names.names[i][0] == 'l') continue;
    src.push_back(bits[i]);
    if (names.names[i][0] != 'u') continue;
    const Node* term = ir::mul_const(g, bits[i], weight);
    element = weight == 1 ? term : ir::add(g, element, term);
    weight *= 2;
  }
  ir::WmmaArg arg{core.name, element_ids(bits, names, core.a_elements),
                  element_ids(bits, names, core.b_elements)};
  const Node* step = g.make(Op::kWmma, core.c, src, arg);
  return g.make(Op::kIndex, core.c, {step, element});
}

// A core whose types fit the product and for which the axes exist.
struct Match {
  Factors factors;
  Axes axes;
};

Result<Match> find_match(Graph& g,
                         const Opt& opt,
                         const Product& p,
                         const std::vector<std::string>& names,
                         int64_t select) {
  bool types = false;
  int64_t at = opt.axis;
  for (size_t first :
       {size_t{0}, size_t{1}}) {  // the product's own order of factors before the other
    int64_t left = at;
    for (size_t i = 0; i < names.size(); ++i) {
      if (select >= 0 && static_cast<size_t>(select) != i) continue;
      const TensorCore* core = find_tensor_core(names[i]);
      if (core == nullptr || core->c != p.reduce->dtype || !product_fits(*core, p.mul)) continue;
      const bool fits = factor_of_type(p.mul->src(first), core->a) != nullptr &&
                        factor_of_type(p.mul->src(1 - first), core->b) != nullptr;
      if (!fits) continue;
      types = true;
      left = at;
      if (const auto axes = pick_axes(g, p, first, &left)) return Match{{core, first}, *axes};
    }
    at = left;
  }
  if (types) return illegal(Fault::kTcAxes, opt, "no such choice of axes N, M and K");
  return illegal(
      Fault::kTcType, opt,
      strf("no tensor core multiplies %s by %s into %s", ir::dtype_name(p.mul->src(0)->dtype),
           ir::dtype_name(p.mul->src(1)->dtype), ir::dtype_name(p.reduce->dtype)));
}

}  // namespace

Result<const Node*> Scheduler::tc_reduce(const Opt& opt) const {
  const TcChoice choice = tc_choice(opt.arg);
  const auto cores = static_cast<int64_t>(options_->caps.tensor_cores.size());
  if (!applied_.empty()) return illegal(Fault::kTcFirst, opt, "TC must be the first opt");
  if (cores == 0) {
    return illegal(Fault::kTcMissing, opt,
                   "renderer " + options_->caps.name + " has no tensor cores on this target");
  }
  if (options_->double_acc || options_->no_contract) {
    return illegal(Fault::kTcMissing, opt, "exact arithmetic uses no tensor cores");
  }
  const bool ok = opt.axis >= 0 && choice.select >= -1 && choice.select < cores &&
                  choice.level >= 0 && choice.level <= 2 && choice.use >= 1 && choice.use <= 2;
  if (!ok) {
    return illegal(Fault::kTcArgument, opt,
                   strf("select %lld of %lld, level %lld (0 to 2), use %lld (1 to 2)",
                        static_cast<long long>(choice.select), static_cast<long long>(cores),
                        static_cast<long long>(choice.level), static_cast<long long>(choice.use)));
  }
  const NodeVec all = reduces();
  if (all.empty() || !product_of(all[0])) {
    return illegal(Fault::kTcReduce, opt, "the first reduce is no sum of products");
  }
  const bool many = all.size() != 1 || all[0]->nsrc != 2;
  if (many && choice.level == 0) {
    return illegal(Fault::kTcReduce, opt, "more than one reduce axis needs level 1");
  }
  return all[0];
}

// Splits one axis by two; gives the new bit, and the rest in *rest (null when nothing is left).
const Node* Scheduler::split_bit(const Node** rest, AxisType type) {
  Graph& g = *g_;
  const Node* r = *rest;
  const auto& arg = r->as<ir::RangeArg>();
  const int64_t left = range_size(g, r) / 2;
  const Node* bit = ir::range(g, 2, std::max(next_range_id(ast_), arg.id + 1), type);
  const Node* kept = left == 1 ? nullptr : ir::range(g, left, arg.id, arg.type);
  set_ast(replace_ranges(
      g, ast_, {{r, kept == nullptr ? bit : ir::add(g, ir::mul_const(g, kept, 2), bit)}}));
  *rest = kept;
  return bit;
}

Status Scheduler::apply_tc(const Opt& opt) {
  ASSIGN_OR_RETURN(const Node* reduce, tc_reduce(opt));
  const TcChoice choice = tc_choice(opt.arg);
  const Product product = *product_of(reduce);
  ASSIGN_OR_RETURN(const Match match,
                   find_match(*g_, opt, product, options_->caps.tensor_cores, choice.select));
  Scheduler trial = *this;
  RETURN_IF_ERROR(trial.apply_core(opt, *match.factors.core, match.factors.first,
                                   {match.axes.n, match.axes.m, match.axes.k}));
  trial.applied_.push_back(opt);
  trial.tc_ids_[0] = match.axes.n->as<ir::RangeArg>().id;
  trial.tc_ids_[1] = match.axes.m->as<ir::RangeArg>().id;
  *this = std::move(trial);
  return {};
}

std::optional<size_t> Scheduler::tc_axis(size_t of) const {
  for (size_t a = 0; a < axes_.size(); ++a) {
    if (axes_[a]->as<ir::RangeArg>().id == tc_ids_[of]) return a;
  }
  return std::nullopt;
}

Status Scheduler::pad_for_core(const Opt& opt, const TensorCore& core, NodeVec& axes) {
  const int64_t dims[3] = {core.n, core.m, core.k};
  for (size_t i = 0; i < 3; ++i) {
    const auto at = std::find(axes_.begin(), axes_.end(), axes[i]);
    const auto axis = static_cast<size_t>(at - axes_.begin());
    if (!ir::is_const(axes[i]->src(0))) {
      return illegal(Fault::kOptSymbolic, opt, "an axis has a symbolic size");
    }
    const bool reduce_axis = type(axis) == AxisType::kReduce;
    if (reduce_axis != (i == 2)) {
      return illegal(Fault::kTcReduceAxis, opt, "N or M is an axis of a reduce");
    }
    if (size(axis) % dims[i] == 0) continue;
    if (tc_choice(opt.arg).level < 2) {
      return illegal(Fault::kTcPad, opt,
                     strf("axis size %lld is no multiple of %lld, and padding needs level 2",
                          static_cast<long long>(size(axis)), static_cast<long long>(dims[i])));
    }
    const Opt pad{ir::OptOp::kPadTo, static_cast<int64_t>(axis), dims[i]};
    RETURN_IF_ERROR(check_pad(pad, axis));
    const int64_t id = axes[i]->as<ir::RangeArg>().id;
    pad_to(axis, dims[i], Mask::kFactors);
    for (const Node* r : axes_) {
      if (r->as<ir::RangeArg>().id == id) axes[i] = r;
    }
  }
  return {};
}

Status Scheduler::apply_core(const Opt& opt, const TensorCore& core, size_t first, NodeVec axes) {
  Graph& g = *g_;
  RETURN_IF_ERROR(pad_for_core(opt, core, axes));
  ASSIGN_OR_RETURN(const TensorBits names, tensor_bits(core));
  NodeVec bits(names.names.size());
  for (size_t at : names.opts) {
    const bool lane = names.names[at][0] == 'l';
    const auto axis = static_cast<size_t>(names.axis[at]);
    bits[at] = split_bit(&axes[axis], lane ? AxisType::kWarp : AxisType::kUpcast);
  }
  for (size_t at = 0; at < bits.size(); ++at) {
    if (names.axis[at] == 2) bits[at] = split_bit(&axes[2], AxisType::kUnroll);
  }
  if (tc_choice(opt.arg).use == 1) {
    const Node* reduce = reduces()[0];
    const Node* mul = product_of(reduce)->mul;
    const Node* step = unit_step(g, core, names, bits, factor_of_type(mul->src(first), core.a),
                                 factor_of_type(mul->src(1 - first), core.b));
    NodeVec src{step};
    for (const Node* r : reduce->src().subspan(1)) {
      if (std::find(bits.begin(), bits.end(), r) == bits.end()) src.push_back(r);
    }
    const Node* sum = src.size() == 1 ? step : g.with_src(reduce, src);
    set_ast(map_graph(g, ast_, [&](const Node* n, const NodeVec& s) -> const Node* {
      return n == reduce ? sum : rebuilt(g, n, s);
    }));
  }
  return bind_lanes(core, names, bits);
}

// Lane bits become bits of one range, the lanes of the group.
Status Scheduler::bind_lanes(const TensorCore& core, const TensorBits& names, const NodeVec& bits) {
  if (core.threads == 1) return {};
  const Node* warp = ir::range(*g_, core.threads, next_range_id(ast_), AxisType::kWarp);
  ir::NodeMap map;
  for (size_t i = 0; i < bits.size(); ++i) {
    if (names.names[i][0] == 'l') map[bits[i]] = bit_of(*g_, warp, i);
  }
  set_ast(replace_ranges(*g_, ast_, map));
  return {};
}

}  // namespace modeld::codegen
