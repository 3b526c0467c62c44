#include "selftest/fuzz/kernel_generate.h"

#include <algorithm>
#include <bit>

namespace modeld::fuzz {

namespace {

using ir::DType;
using ir::Op;

constexpr int64_t kMostOutputs = 768;
constexpr int64_t kMostSteps = 6144;  // output elements times reduce steps
constexpr int64_t kMostBuffer = 16384;

template <class T, size_t N>
T one_of(Rng& rng, const T (&list)[N]) {
  return list[rng.below(N)];
}

class Generator {
 public:
  explicit Generator(Rng& rng) : rng_(rng) {}

  KernelRecipe make() {
    make_loops();
    r_.has_variable = rng_.one_in(6);
    r_.variable_max = one_of<int64_t>(rng_, {1, 4, 7, 31});
    r_.variable = static_cast<int64_t>(rng_.below(static_cast<uint64_t>(r_.variable_max) + 1));
    is_special_ = rng_.one_in(10);
    const size_t outputs = rng_.one_in(5) ? 2 : 1;
    std::vector<size_t> roots;
    for (size_t k = 0; k < outputs; ++k) {
      r_.buffers.emplace_back();
      r_.outputs.emplace_back();
    }
    for (size_t k = 0; k < outputs; ++k) {
      make_output(k);
      if (outputs == 1 && rng_.one_in(6)) r_.outputs[0].value = update_in_place();
    }
    return tidied(r_);
  }

 private:
  Rng& rng_;
  KernelRecipe r_;
  std::vector<uint64_t> open_;  // per step
  std::vector<size_t> depth_;
  size_t outer_ = 0;
  bool is_special_ = false;

  int64_t dim() { return one_of<int64_t>(rng_, {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 17, 24, 32}); }
  size_t any_loop(uint64_t allowed) {
    std::vector<size_t> all;
    for (size_t l = 0; l < r_.loops.size(); ++l)
      if (!r_.loops[l].is_reduce || (allowed >> l & 1)) all.push_back(l);
    return all[rng_.below(all.size())];
  }
  int64_t amount(int64_t below) {
    return static_cast<int64_t>(rng_.below(static_cast<uint64_t>(std::max<int64_t>(below, 1))));
  }

  void make_loops() {
    const size_t outer = 1 + rng_.below(3), inner = rng_.below(3);
    int64_t total = 1;
    for (size_t l = 0; l < outer + inner; ++l) {
      const bool is_reduce = l >= outer;
      const int64_t limit = (is_reduce ? kMostSteps : kMostOutputs) / total;
      const int64_t size = std::max<int64_t>(1, std::min(dim(), limit));
      r_.loops.push_back({size, is_reduce});
      total *= size;
    }
    outer_ = outer;
  }

  size_t push(KernelStep s) {
    size_t depth = 0;
    for (size_t a : s.src) depth = std::max(depth, depth_[a] + 1);
    r_.steps.push_back(std::move(s));
    open_.push_back(0);
    depth_.push_back(depth);
    open_ = open_loops(r_);
    return r_.steps.size() - 1;
  }

  // ---- outputs ----

  DType any_type() {
    return one_of<DType>(
        rng_, {DType::kF32, DType::kF32, DType::kF32, DType::kF32, DType::kF16, DType::kBF16,
               DType::kF64, DType::kI32, DType::kI32, DType::kU32, DType::kI8, DType::kU8,
               DType::kI16, DType::kU16, DType::kI64, DType::kU64, DType::kBool});
  }

  uint64_t reduce_mask() {
    uint64_t m = 0;
    for (size_t l = 0; l < r_.loops.size(); ++l)
      if (r_.loops[l].is_reduce) m |= uint64_t{1} << l;
    return m;
  }

  void make_output(size_t k) {
    const DType t = any_type();
    size_t v = expression(t, 2 + rng_.below(3), reduce_mask());
    v = closed(v);
    if (rng_.one_in(3)) v = combine(t, v, expression(t, 1, 0));
    RecipeOutput& o = r_.outputs[k];
    o.value = v;
    for (size_t l = 0; l < outer_; ++l) o.order.push_back(l);
    if (rng_.one_in(3)) std::swap(o.order[0], o.order[rng_.below(outer_)]);
    for (size_t l = 0; l < outer_; ++l) o.flipped.push_back(rng_.one_in(10));
    o.stride = rng_.one_in(8) ? 2 + amount(2) : 1;
    o.offset = rng_.one_in(5) ? 1 + amount(4) : 0;
    o.is_gated = rng_.one_in(8);
    o.gate_loop = rng_.below(outer_);
    o.low = amount(2);
    o.high = r_.loops[o.gate_loop].size - amount(3);
    r_.buffers[k].dtype = t;
    r_.buffers[k].seed = rng_.next();
    r_.buffers[k].size = output_size(r_, o) + amount(3);
  }

  // The output's own elements as one more operand, read where they are written.
  size_t update_in_place() {
    const RecipeOutput& o = r_.outputs[0];
    KernelStep s;
    s.kind = StepKind::kRead;
    s.dtype = r_.buffers[0].dtype;
    s.buffer = 0;
    if (o.stride != 1) return o.value;
    s.offset = o.offset;
    for (size_t i = 0; i < o.order.size(); ++i)
      s.terms.push_back({o.flipped[i] ? TermForm::kFlip : TermForm::kPlain, o.order[i]});
    return combine(s.dtype, o.value, push(s));
  }

  // ---- values ----

  size_t closed(size_t v) {
    while (open_[v] != 0) v = reduced(v, open_[v]);
    return v;
  }

  size_t reduced(size_t v, uint64_t loops) {
    const DType t = r_.steps[v].dtype;
    KernelStep s;
    s.kind = StepKind::kReduce;
    s.op = t == DType::kBool ? Op::kMax
           : rng_.one_in(3)  ? Op::kMax
           : rng_.one_in(6)  ? Op::kMul
                             : Op::kAdd;
    // Sums of narrow types are taken in a wider one, as the front end does, or not.
    const DType wide = ir::sum_dtype(t);
    if (s.op == Op::kAdd && wide != t && !rng_.one_in(3)) {
      v = cast(v, wide);
    }
    s.dtype = r_.steps[v].dtype;
    s.src = {v};
    for (size_t l = 0; l < r_.loops.size(); ++l)
      if (loops >> l & 1) s.loops.push_back(l);
    const size_t sum = push(s);
    return s.dtype == t ? sum : cast(sum, t);
  }

  size_t cast(size_t v, DType t) {
    KernelStep s;
    s.kind = StepKind::kCast;
    s.dtype = t;
    s.src = {v};
    return push(s);
  }

  size_t alu(Op op, DType t, std::vector<size_t> src) {
    KernelStep s;
    s.kind = StepKind::kAlu;
    s.op = op;
    s.dtype = t;
    s.src = std::move(src);
    return push(s);
  }

  size_t constant(DType t, double v) {
    KernelStep s;
    s.kind = StepKind::kConst;
    s.dtype = t;
    s.value = ir::is_float(t) ? ir::round_to(t, v)
                              : static_cast<double>(ir::wrap_to(t, static_cast<int64_t>(v)));
    return push(s);
  }

  size_t random_constant(DType t) {
    if (t == DType::kBool) return constant(t, rng_.one_in(2));
    if (ir::is_float(t)) return constant(t, one_of<double>(rng_, {0, 1, -1, 0.5, 2, -3.25, 0.1}));
    return constant(t, one_of<double>(rng_, {0, 1, -1, 2, 3, 7, 8, 100}));
  }

  size_t expression(DType t, size_t depth, uint64_t loops) {
    if (depth == 0) return leaf(t, loops);
    if (rng_.one_in(6)) {
      for (size_t tries = 0; tries < 4 && !r_.steps.empty(); ++tries) {
        const size_t v = rng_.below(r_.steps.size());
        if (r_.steps[v].dtype == t && (open_[v] & ~loops) == 0 && depth_[v] < 5) return v;
      }
    }
    if (loops != 0 && rng_.one_in(5)) {  // a reduce inside
      const size_t v = expression(t, depth - 1, loops);
      if (open_[v] != 0) return reduced(v, open_[v]);
      return v;
    }
    if (t == DType::kBool) return boolean(depth, loops);
    if (rng_.one_in(6)) return cast(expression(any_type(), depth - 1, loops), t);
    if (rng_.one_in(8)) return select(t, depth, loops);
    if (rng_.one_in(14) && t != DType::kF16 && t != DType::kBF16 && t != DType::kF64)
      if (const size_t v = same_bits(t, depth, loops); v != 0) return v;
    return ir::is_float(t) ? floating(t, depth, loops) : integer(t, depth, loops);
  }

  size_t same_bits(DType t, size_t depth, uint64_t loops) {
    if (ir::item_bits(t) != 32) return 0;
    const DType from = t == DType::kF32 ? DType::kI32 : DType::kF32;
    KernelStep s;
    s.kind = StepKind::kBitCast;
    s.dtype = t;
    s.src = {expression(from, depth > 1 ? 1 : 0, loops)};
    return push(s);
  }

  size_t select(DType t, size_t depth, uint64_t loops) {
    const size_t c = expression(DType::kBool, depth - 1, loops);
    const size_t yes = expression(t, depth - 1, loops);
    return alu(Op::kWhere, t, {c, yes, expression(t, depth - 1, loops)});
  }

  size_t boolean(size_t depth, uint64_t loops) {
    const size_t what = rng_.below(6);
    if (what == 0) {
      KernelStep s;
      s.kind = StepKind::kInside;
      s.dtype = DType::kBool;
      s.loop = any_loop(loops);
      s.low = amount(3);
      s.high = s.low + amount(r_.loops[s.loop].size + 1);
      return push(s);
    }
    if (what <= 2) {
      const size_t a = expression(DType::kBool, depth - 1, loops);
      const size_t b = expression(DType::kBool, depth - 1, loops);
      return alu(one_of<Op>(rng_, {Op::kAnd, Op::kOr, Op::kXor}), DType::kBool, {a, b});
    }
    const DType t = any_type();
    const size_t a = expression(t, depth - 1, loops);
    const size_t b = rng_.one_in(2) ? random_constant(t) : expression(t, depth - 1, loops);
    return alu(one_of<Op>(rng_, {Op::kCmpLt, Op::kCmpLt, Op::kCmpEq, Op::kCmpNe}), DType::kBool,
               {a, b});
  }

  size_t combine(DType t, size_t a, size_t b) {
    if (t == DType::kBool) return alu(one_of<Op>(rng_, {Op::kAnd, Op::kOr, Op::kXor}), t, {a, b});
    return alu(one_of<Op>(rng_, {Op::kAdd, Op::kAdd, Op::kMul, Op::kSub, Op::kMax}), t, {a, b});
  }

  size_t floating(DType t, size_t depth, uint64_t loops) {
    const size_t a = expression(t, depth - 1, loops);
    switch (rng_.below(12)) {
      case 0:
        return alu(Op::kNeg, t, {a});
      case 1:
        return alu(one_of<Op>(rng_, {Op::kTrunc, Op::kSqrt, Op::kReciprocal}), t, {a});
      case 2:
        return alu(one_of<Op>(rng_, {Op::kExp2, Op::kLog2, Op::kSin}), t, {a});
      case 3:
        return alu(Op::kFDiv, t, {a, expression(t, depth - 1, loops)});
      case 4:
        return combine(t, a, random_constant(t));
      default:
        return combine(t, a, expression(t, depth - 1, loops));
    }
  }

  size_t integer(DType t, size_t depth, uint64_t loops) {
    const size_t a = expression(t, depth - 1, loops);
    switch (rng_.below(10)) {
      case 0:
        return alu(Op::kNeg, t, {a});
      case 1: {
        const auto by = static_cast<double>(amount(ir::item_bits(t)));
        return alu(one_of<Op>(rng_, {Op::kShl, Op::kShr}), t, {a, constant(t, by)});
      }
      case 2:
      case 3:
        return division(t, a, depth, loops);
      case 4: {
        const Op op = one_of<Op>(rng_, {Op::kAnd, Op::kOr, Op::kXor});
        return alu(op, t, {a, expression(t, depth - 1, loops)});
      }
      case 5:
        return combine(t, a, random_constant(t));
      default:
        return combine(t, a, expression(t, depth - 1, loops));
    }
  }

  size_t division(DType t, size_t a, size_t depth, uint64_t loops) {
    const Op op = one_of<Op>(rng_, {Op::kCDiv, Op::kCMod, Op::kFloorDiv, Op::kFloorMod});
    size_t by = 0;
    if (rng_.one_in(2)) {
      by = constant(t, one_of<double>(rng_, {1, 2, 3, 5, 7, 8, 10, 64, 100}) *
                           (ir::is_unsigned(t) || !rng_.one_in(3) ? 1 : -1));
    } else {  // odd, so never zero
      by = alu(Op::kOr, t, {expression(t, depth - 1, loops), constant(t, 1)});
    }
    return alu(op, t, {a, by});
  }

  // ---- leaves ----

  size_t leaf(DType t, uint64_t loops) {
    if (rng_.one_in(9)) return random_constant(t);
    if (rng_.one_in(9) && t != DType::kBool) {
      KernelStep s;
      s.kind = StepKind::kIota;
      s.dtype = t;
      s.loop = any_loop(loops);
      return push(s);
    }
    if (r_.has_variable && rng_.one_in(6) && t != DType::kBool) {
      KernelStep s;
      s.kind = StepKind::kVariable;
      s.dtype = t;
      return push(s);
    }
    return read(t, loops);
  }

  Term term(size_t loop, uint64_t loops) {
    const int64_t n = r_.loops[loop].size;
    Term t;
    t.loop = loop;
    t.other = any_loop(loops);
    if (rng_.below(5) < 3) return t;
    t.form = static_cast<TermForm>(rng_.below(13));
    const int64_t joint = n * r_.loops[t.other].size;
    switch (t.form) {
      case TermForm::kPad:
        t.p = amount(std::min<int64_t>(n, 4));
        t.q = amount(std::min<int64_t>(n - t.p, 4));
        break;
      case TermForm::kStride:
        t.p = 2 + amount(2);
        t.q = amount(t.p);
        break;
      case TermForm::kShift:
        t.p = amount(5);
        break;
      case TermForm::kMod:
      case TermForm::kDiv:
        t.p = 1 + amount(n + 1);
        break;
      case TermForm::kPadWindow:
        t.p = amount(3);
        t.q = amount(3);
        break;
      case TermForm::kJointMod:
      case TermForm::kJointDiv:
        t.p = 1 + amount(std::min<int64_t>(joint + 1, 40));
        break;
      case TermForm::kGather:
        return gather(t);
      default:
        break;
    }
    const bool is_self =
        t.other == t.loop && t.form >= TermForm::kWindow && t.form <= TermForm::kJointDiv;
    const bool is_void = t.form == TermForm::kVariable && !r_.has_variable;
    if (is_self || is_void || extent(r_, t) < 1) return {TermForm::kPlain, loop, t.other};
    return t;
  }

  // Rows picked by a table that also names rows outside.
  Term gather(Term t) {
    t.form = TermForm::kGather;
    t.p = 1 + amount(12);
    KernelStep s;
    s.kind = StepKind::kRead;
    s.dtype = one_of<DType>(rng_, {DType::kI32, DType::kI64, DType::kU8, DType::kI16});
    s.terms = {{TermForm::kPlain, t.loop}};
    s.buffer = r_.buffers.size();
    r_.buffers.push_back({s.dtype, read_size(r_, s), rng_.next(), false, t.p});
    t.step = push(s);
    return t;
  }

  size_t read(DType t, uint64_t loops) {
    KernelStep s;
    s.kind = StepKind::kRead;
    s.dtype = t;
    int64_t size = 1;
    for (size_t l = 0; l < r_.loops.size(); ++l) {
      const bool is_allowed = !r_.loops[l].is_reduce || (loops >> l & 1);
      if (!is_allowed || rng_.one_in(5)) continue;
      Term one = term(l, loops);
      if (size * extent(r_, one) > kMostBuffer) continue;
      size *= extent(r_, one);
      s.terms.push_back(one);
    }
    if (s.terms.size() > 1 && rng_.one_in(4))
      std::swap(s.terms[0], s.terms[rng_.below(s.terms.size())]);
    s.offset = rng_.one_in(4) ? amount(5) : 0;
    s.buffer = buffer_for(t, read_size(r_, s));
    return push(s);
  }

  // A new buffer, or one that is there already.
  size_t buffer_for(DType t, int64_t size) {
    for (size_t b = r_.outputs.size(); b < r_.buffers.size(); ++b) {
      if (r_.buffers[b].dtype != t || r_.buffers[b].index_limit > 0 || rng_.one_in(2)) continue;
      r_.buffers[b].size = std::max(r_.buffers[b].size, size);
      return b;
    }
    r_.buffers.push_back({t, size, rng_.next(), is_special_ && ir::is_float(t), 0});
    return r_.buffers.size() - 1;
  }
};

}  // namespace

KernelRecipe generate_kernel(Rng& rng) {
  return Generator(rng).make();
}

}  // namespace modeld::fuzz
