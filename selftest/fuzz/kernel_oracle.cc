#include "selftest/fuzz/kernel_oracle.h"

#include <cmath>

#include "selftest/fuzz/fuzz_main.h"

namespace modeld::fuzz {

namespace {

using ir::DType;
using ir::Op;
using testing::KernelStorage;

double special_float(Rng& rng) {
  static constexpr double kValues[] = {INFINITY, -INFINITY, NAN, 0.0, -0.0};
  return kValues[rng.below(5)];
}

double random_float(Rng& rng, bool has_specials) {
  if (has_specials && rng.one_in(6)) return special_float(rng);
  const auto q = static_cast<double>(static_cast<int64_t>(rng.below(513)) - 256);
  return rng.one_in(4) ? q * 0x1.234568p-5 : q / 64;
}

int64_t random_int(Rng& rng, const RecipeBuffer& b) {
  if (b.index_limit > 0)
    return ir::wrap_to(b.dtype, static_cast<int64_t>(rng.below(b.index_limit + 4)) - 2);
  if (rng.one_in(8)) return ir::wrap_to(b.dtype, static_cast<int64_t>(rng.next()));
  return ir::wrap_to(b.dtype, static_cast<int64_t>(rng.below(61)) - 30);
}

// Loads, loops and reduces of one recipe.
class Oracle {
 public:
  Oracle(const KernelRecipe& r, const std::vector<KernelStorage>& data)
      : r_(r), data_(data), loop_(r.loops.size()), known_(r.steps.size()), memo_(r.steps.size()) {
    find_dependents();
  }

  Expected run() {
    Expected out;
    for (size_t k = 0; k < r_.outputs.size(); ++k) out.push_back(held(k));
    std::vector<size_t> loops;
    for (size_t l = 0; l < r_.loops.size(); ++l)
      if (!r_.loops[l].is_reduce) loops.push_back(l);
    over(loops, 0, [&] {
      for (size_t k = 0; k < r_.outputs.size(); ++k) store(k, &out[k]);
    });
    return out;
  }

 private:
  const KernelRecipe& r_;
  const std::vector<KernelStorage>& data_;
  std::vector<int64_t> loop_;
  std::vector<bool> known_;
  std::vector<Approx> memo_;
  std::vector<std::vector<size_t>> dependents_;  // per loop, the steps its value changes

  void find_dependents() {
    std::vector<uint64_t> uses(r_.steps.size());
    for (size_t i = 0; i < r_.steps.size(); ++i) {
      const KernelStep& s = r_.steps[i];
      for (size_t a : s.src) uses[i] |= uses[a];
      for (const Term& t : s.terms) {
        uses[i] |= uint64_t{1} << t.loop | uint64_t{1} << t.other;
        if (t.form == TermForm::kGather) uses[i] |= uses[t.step];
      }
      if (s.kind == StepKind::kIota || s.kind == StepKind::kInside)
        uses[i] |= uint64_t{1} << s.loop;
    }
    dependents_.resize(r_.loops.size());
    for (size_t l = 0; l < r_.loops.size(); ++l)
      for (size_t i = 0; i < uses.size(); ++i)
        if (uses[i] >> l & 1) dependents_[l].push_back(i);
  }

  void set_loop(size_t l, int64_t v) {
    loop_[l] = v;
    for (size_t i : dependents_[l]) known_[i] = false;
  }

  template <class F>
  void over(const std::vector<size_t>& loops, size_t depth, const F& f) {
    if (depth == loops.size()) return f();
    for (int64_t v = 0; v < r_.loops[loops[depth]].size; ++v) {
      set_loop(loops[depth], v);
      over(loops, depth + 1, f);
    }
  }

  std::vector<Approx> held(size_t k) const {
    std::vector<Approx> out;
    for (size_t n = 0; n < data_[k].size(); ++n) out.push_back(element(k, n));
    return out;
  }
  Approx element(size_t buffer, size_t n) const {
    const KernelStorage& s = data_[buffer];
    return ir::is_float(s.dtype) ? Approx::of_float(s.f[n]) : Approx::of_int(s.i[n]);
  }

  bool is_inside(size_t loop, int64_t low, int64_t high) const {
    return loop_[loop] >= low && loop_[loop] < high;
  }

  void store(size_t k, std::vector<Approx>* out) {
    const RecipeOutput& o = r_.outputs[k];
    if (o.is_gated && !is_inside(o.gate_loop, o.low, o.high)) return;
    int64_t at = 0;
    for (size_t i = 0; i < o.order.size(); ++i) {
      const int64_t n = r_.loops[o.order[i]].size;
      at = at * n + (o.flipped[i] ? n - 1 - loop_[o.order[i]] : loop_[o.order[i]]);
    }
    const DType t = r_.buffers[k].dtype;
    const Approx v = value(o.value);
    (*out)[static_cast<size_t>(at * o.stride + o.offset)] = ir::is_float(t) ? rounded(t, v) : v;
  }

  // -1: no access.
  int64_t position(const Term& t) {
    const int64_t l = loop_[t.loop], m = loop_[t.other];
    const int64_t joint = l * r_.loops[t.other].size + m;
    const auto inside = [&](int64_t x) { return x >= 0 && x < extent(r_, t) ? x : -1; };
    switch (t.form) {
      case TermForm::kFlip:
        return r_.loops[t.loop].size - 1 - l;
      case TermForm::kPad:
        return inside(l - t.p);
      case TermForm::kStride:
        return l * t.p + t.q;
      case TermForm::kShift:
        return l + t.p;
      case TermForm::kMod:
        return l % t.p;
      case TermForm::kDiv:
        return l / t.p;
      case TermForm::kWindow:
        return l + m;
      case TermForm::kPadWindow:
        return inside(l + m - t.p);
      case TermForm::kJointMod:
        return joint % t.p;
      case TermForm::kJointDiv:
        return joint / t.p;
      case TermForm::kGather:
        return inside(value(t.step).i);
      case TermForm::kVariable:
        return l + r_.variable;
      default:
        return l;
    }
  }

  Approx read(const KernelStep& s) {
    int64_t at = 0;
    for (const Term& t : s.terms) {
      if (t.form == TermForm::kGather && !value(t.step).is_known) return Approx::unknown();
      const int64_t x = position(t);
      if (x < 0) return Approx{};
      at = at * extent(r_, t) + x;
    }
    return element(s.buffer, static_cast<size_t>(at + s.offset));
  }

  Approx reduce(const KernelStep& s) {
    ApproxReduce sum(s.op, s.dtype);
    const std::vector<int64_t> before = loop_;
    over(s.loops, 0, [&] { sum.add(value(s.src[0])); });
    for (size_t l : s.loops) set_loop(l, before[l]);
    return sum.result();
  }

  Approx constant(DType t, double v) const {
    if (!ir::is_float(t)) return Approx::of_int(ir::wrap_to(t, static_cast<int64_t>(v)));
    return Approx::of_float(ir::round_to(t, v));
  }

  Approx value(size_t i) {
    if (known_[i]) return memo_[i];
    const Approx v = compute(r_.steps[i]);
    memo_[i] = v;
    known_[i] = true;
    return v;
  }

  Approx compute(const KernelStep& s) {
    switch (s.kind) {
      case StepKind::kRead:
        return read(s);
      case StepKind::kConst:
        return constant(s.dtype, s.value);
      case StepKind::kIota:
        return approx_cast(DType::kI64, s.dtype, Approx::of_int(loop_[s.loop]));
      case StepKind::kInside:
        return Approx::of_int(is_inside(s.loop, s.low, s.high));
      case StepKind::kVariable:
        return approx_cast(DType::kI64, s.dtype, Approx::of_int(r_.variable));
      case StepKind::kReduce:
        return reduce(s);
      case StepKind::kCast:
        return approx_cast(r_.steps[s.src[0]].dtype, s.dtype, value(s.src[0]));
      case StepKind::kBitCast:
        return approx_bitcast(r_.steps[s.src[0]].dtype, s.dtype, value(s.src[0]));
      default:
        break;
    }
    Approx a[3];
    for (size_t k = 0; k < s.src.size(); ++k) a[k] = value(s.src[k]);
    if (s.op == Op::kWhere) return approx_where(s.dtype, a[0], a[1], a[2]);
    return approx_alu(s.op, r_.steps[s.src[0]].dtype, a);
  }
};

}  // namespace

std::vector<KernelStorage> recipe_data(const KernelRecipe& r) {
  std::vector<KernelStorage> out;
  for (const RecipeBuffer& b : r.buffers) {
    KernelStorage s = KernelStorage::of(b.dtype, static_cast<size_t>(b.size));
    Rng rng(b.seed);
    for (double& v : s.f) v = ir::round_to(b.dtype, random_float(rng, b.has_specials));
    for (int64_t& v : s.i) v = random_int(rng, b);
    out.push_back(std::move(s));
  }
  return out;
}

Expected recipe_result(const KernelRecipe& r, const std::vector<KernelStorage>& data) {
  return Oracle(r, data).run();
}

}  // namespace modeld::fuzz
