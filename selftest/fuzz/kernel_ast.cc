#include "selftest/fuzz/kernel_ast.h"

#include <utility>

namespace modeld::fuzz {

namespace {

using ir::DType;
using ir::Node;
using ir::NodeVec;
using ir::Op;

class AstMaker {
 public:
  AstMaker(ir::Graph& g, const KernelRecipe& r) : g_(g), r_(r) {}

  const Node* make() {
    for (size_t l = 0; l < r_.loops.size(); ++l) {
      const ir::AxisType type = r_.loops[l].is_reduce ? ir::AxisType::kReduce : ir::AxisType::kWeak;
      loops_.push_back(ir::range(g_, r_.loops[l].size, static_cast<int64_t>(l), type));
    }
    for (size_t b = 0; b < r_.buffers.size(); ++b)
      params_.push_back(
          ir::param(g_, static_cast<int64_t>(b), r_.buffers[b].dtype, r_.buffers[b].size));
    for (const KernelStep& s : r_.steps) values_.push_back(value(s));
    NodeVec ends;
    for (size_t k = 0; k < r_.outputs.size(); ++k) ends.push_back(store(k));
    return ir::sink(g_, ends, ir::KernelInfo{});
  }

 private:
  ir::Graph& g_;
  const KernelRecipe& r_;
  NodeVec loops_, params_, values_;

  const Node* k(int64_t v) { return ir::const_int(g_, v); }
  const Node* op(Op o, const Node* a, const Node* b) { return ir::alu(g_, o, {a, b}); }
  const Node* plus(const Node* a, int64_t c) { return ir::add(g_, a, k(c)); }
  const Node* times(const Node* a, int64_t c) { return ir::mul(g_, a, k(c)); }
  const Node* inside(const Node* x, int64_t low, int64_t high) {
    return ir::land(g_, ir::logical_not(g_, ir::lt(g_, x, k(low))), ir::lt(g_, x, k(high)));
  }
  void also(const Node** gate, const Node* more) {
    *gate = *gate == nullptr ? more : ir::land(g_, *gate, more);
  }
  const Node* gated(const Node* gate, const Node* index) {
    return gate == nullptr ? index : ir::where(g_, gate, index, ir::const_invalid(g_));
  }
  const Node* variable() {
    return ir::cast(g_, ir::variable(g_, kRecipeVariable, 0, r_.variable_max), DType::kWeakInt);
  }

  const Node* joint(const Term& t) {
    return ir::add(g_, times(loops_[t.loop], r_.loops[t.other].size), loops_[t.other]);
  }

  const Node* position(const Term& t, const Node** gate) {
    const Node* l = loops_[t.loop];
    const int64_t n = r_.loops[t.loop].size;
    switch (t.form) {
      case TermForm::kFlip:
        return plus(times(l, -1), n - 1);
      case TermForm::kPad:
        also(gate, inside(l, t.p, n - t.q));
        return plus(l, -t.p);
      case TermForm::kStride:
        return plus(times(l, t.p), t.q);
      case TermForm::kShift:
        return plus(l, t.p);
      case TermForm::kMod:
        return op(Op::kFloorMod, l, k(t.p));
      case TermForm::kDiv:
        return op(Op::kFloorDiv, l, k(t.p));
      case TermForm::kWindow:
        return ir::add(g_, l, loops_[t.other]);
      case TermForm::kPadWindow: {
        const Node* sum = ir::add(g_, l, loops_[t.other]);
        also(gate, inside(sum, t.p, t.p + extent(r_, t)));
        return plus(sum, -t.p);
      }
      case TermForm::kJointMod:
        return op(Op::kFloorMod, joint(t), k(t.p));
      case TermForm::kJointDiv:
        return op(Op::kFloorDiv, joint(t), k(t.p));
      case TermForm::kGather: {
        const Node* pick = ir::cast(g_, values_[t.step], DType::kWeakInt);
        also(gate, inside(pick, 0, t.p));
        return pick;
      }
      case TermForm::kVariable:
        return ir::add(g_, l, variable());
      default:
        return l;
    }
  }

  const Node* read(const KernelStep& s) {
    const Node* gate = nullptr;
    const Node* index = k(s.offset);
    int64_t stride = 1;
    for (size_t i = s.terms.size(); i-- > 0;) {
      index = ir::add(g_, index, times(position(s.terms[i], &gate), stride));
      stride *= extent(r_, s.terms[i]);
    }
    const Node* element = g_.make(Op::kIndex, s.dtype, {params_[s.buffer], gated(gate, index)});
    if (gate == nullptr) return element;
    return ir::where(g_, gate, element, ir::const_of(g_, s.dtype, 0));
  }

  const Node* value(const KernelStep& s) {
    const auto src = [&](size_t i) { return values_[s.src[i]]; };
    switch (s.kind) {
      case StepKind::kRead:
        return read(s);
      case StepKind::kConst:
        return ir::const_of(g_, s.dtype, s.value);
      case StepKind::kIota:
        return ir::cast(g_, loops_[s.loop], s.dtype);
      case StepKind::kInside:
        return inside(loops_[s.loop], s.low, s.high);
      case StepKind::kVariable:
        return ir::cast(g_, variable(), s.dtype);
      case StepKind::kCast:
        return ir::cast(g_, src(0), s.dtype);
      case StepKind::kBitCast:
        return g_.make(Op::kBitCast, s.dtype, {src(0)});
      case StepKind::kReduce: {
        NodeVec all{src(0)};
        for (size_t l : s.loops) all.push_back(loops_[l]);
        return g_.make(Op::kReduce, s.dtype, all, ir::ReduceArg{s.op, 0});
      }
      default: {
        NodeVec all;
        for (size_t a : s.src) all.push_back(values_[a]);
        return g_.make(s.op, s.dtype, all);
      }
    }
  }

  const Node* store(size_t number) {
    const RecipeOutput& o = r_.outputs[number];
    const Node* index = k(0);
    for (size_t i = 0; i < o.order.size(); ++i) {
      const int64_t n = r_.loops[o.order[i]].size;
      const Node* l = loops_[o.order[i]];
      index = ir::add(g_, times(index, n), o.flipped[i] ? plus(times(l, -1), n - 1) : l);
    }
    index = plus(times(index, o.stride), o.offset);
    const Node* gate = o.is_gated ? inside(loops_[o.gate_loop], o.low, o.high) : nullptr;
    const Node* at =
        g_.make(Op::kIndex, params_[number]->dtype, {params_[number], gated(gate, index)});
    NodeVec end{g_.make(Op::kStore, DType::kVoid, {at, values_[o.value]})};
    for (size_t l = 0; l < loops_.size(); ++l)
      if (!r_.loops[l].is_reduce) end.push_back(loops_[l]);
    return end.size() == 1 ? end[0] : g_.make(Op::kEnd, DType::kVoid, end);
  }
};

}  // namespace

const ir::Node* kernel_ast(ir::Graph& g, const KernelRecipe& r) {
  return AstMaker(g, r).make();
}

const ir::Node* with_opts(ir::Graph& g, const ir::Node* ast, const ir::Opts& opts) {
  ir::KernelInfo info = ast->as<ir::KernelInfo>();
  info.opts_to_apply = opts;
  return g.with_arg(ast, std::move(info));
}

}  // namespace modeld::fuzz
