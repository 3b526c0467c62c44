#include "selftest/fuzz/kernel_recipe.h"

#include <algorithm>

#include "hal/base/status.h"

namespace modeld::fuzz {

namespace {

using ll = long long;

bool uses_other(TermForm f) {
  return f == TermForm::kWindow || f == TermForm::kPadWindow || f == TermForm::kJointMod ||
         f == TermForm::kJointDiv;
}

uint64_t loop_bit(const KernelRecipe& r, size_t loop) {
  return r.loops[loop].is_reduce ? uint64_t{1} << loop : 0;
}

bool is_sound_term(const KernelRecipe& r, const Term& t, size_t step) {
  if (t.loop >= r.loops.size() || (uses_other(t.form) && t.other >= r.loops.size())) return false;
  if (t.form == TermForm::kGather && (t.step >= step || !ir::is_int(r.steps[t.step].dtype)))
    return false;
  if (t.form == TermForm::kVariable && !r.has_variable) return false;
  return extent(r, t) >= 1;
}

bool is_sound_step(const KernelRecipe& r, size_t i) {
  const KernelStep& s = r.steps[i];
  for (size_t a : s.src)
    if (a >= i) return false;
  switch (s.kind) {
    case StepKind::kRead:
      if (s.buffer >= r.buffers.size() || r.buffers[s.buffer].dtype != s.dtype) return false;
      for (const Term& t : s.terms)
        if (!is_sound_term(r, t, i)) return false;
      return r.buffers[s.buffer].size >= read_size(r, s);
    case StepKind::kIota:
    case StepKind::kInside:
      return s.loop < r.loops.size();
    case StepKind::kVariable:
      return r.has_variable;
    case StepKind::kReduce:
      for (size_t l : s.loops)
        if (l >= r.loops.size() || !r.loops[l].is_reduce) return false;
      return s.src.size() == 1 && r.steps[s.src[0]].dtype == s.dtype && !s.loops.empty();
    case StepKind::kCast:
    case StepKind::kBitCast:
      return s.src.size() == 1;
    default:
      return true;
  }
}

bool is_sound_output(const KernelRecipe& r, size_t k, const std::vector<uint64_t>& open) {
  const RecipeOutput& o = r.outputs[k];
  if (o.value >= r.steps.size() || open[o.value] != 0) return false;
  if (r.buffers[k].dtype != r.steps[o.value].dtype) return false;
  if (o.is_gated && (o.gate_loop >= r.loops.size() || r.loops[o.gate_loop].is_reduce)) return false;
  for (size_t l : o.order)
    if (l >= r.loops.size() || r.loops[l].is_reduce) return false;
  return r.buffers[k].size >= output_size(r, o);
}

std::string print_term(const Term& t) {
  static const char* const kForms[] = {"L",       "flip L", "pad L",     "L*p+q",   "L+p",
                                       "L%p",     "L/p",    "L+M",       "pad L+M", "joint%p",
                                       "joint/p", "gather", "L+variable"};
  return strf("{%s L=%zu M=%zu p=%lld q=%lld v%zu}", kForms[static_cast<size_t>(t.form)], t.loop,
              t.other, static_cast<ll>(t.p), static_cast<ll>(t.q), t.step);
}

std::string print_step(const KernelStep& s, size_t i) {
  static const char* const kKinds[] = {"read", "const", "iota",    "inside", "variable",
                                       "",     "cast",  "bitcast", "reduce"};
  std::string out =
      strf("  v%zu:%s = %s", i, ir::dtype_name(s.dtype),
           s.kind == StepKind::kAlu ? ir::op_name(s.op) : kKinds[static_cast<size_t>(s.kind)]);
  if (s.kind == StepKind::kReduce) out += strf(" %s over", ir::op_name(s.op));
  for (size_t l : s.loops) out += strf(" L%zu", l);
  for (size_t a : s.src) out += strf(" v%zu", a);
  if (s.kind == StepKind::kConst) out += strf(" %.17g", s.value);
  if (s.kind == StepKind::kIota) out += strf(" L%zu", s.loop);
  if (s.kind == StepKind::kInside)
    out += strf(" %lld <= L%zu < %lld", static_cast<ll>(s.low), s.loop, static_cast<ll>(s.high));
  if (s.kind == StepKind::kRead) {
    out += strf(" b%zu + %lld", s.buffer, static_cast<ll>(s.offset));
    for (const Term& t : s.terms) out += " " + print_term(t);
  }
  return out + "\n";
}

}  // namespace

int64_t extent(const KernelRecipe& r, const Term& t) {
  const int64_t n = r.loops[t.loop].size;
  const int64_t m = uses_other(t.form) ? r.loops[t.other].size : 1;
  switch (t.form) {
    case TermForm::kPad:
      return n - t.p - t.q;
    case TermForm::kStride:
      return n * t.p + t.q;
    case TermForm::kShift:
      return n + t.p;
    case TermForm::kMod:
    case TermForm::kJointMod:
    case TermForm::kGather:
      return t.p;
    case TermForm::kDiv:
      return (n + t.p - 1) / t.p;
    case TermForm::kWindow:
      return n + m - 1;
    case TermForm::kPadWindow:
      return n + m - 1 - t.p - t.q;
    case TermForm::kJointDiv:
      return (n * m + t.p - 1) / t.p;
    case TermForm::kVariable:
      return n + r.variable_max;
    default:
      return n;
  }
}

int64_t output_count(const KernelRecipe& r) {
  int64_t n = 1;
  for (const RecipeLoop& l : r.loops) n *= l.is_reduce ? 1 : l.size;
  return n;
}

int64_t output_size(const KernelRecipe& r, const RecipeOutput& o) {
  return (output_count(r) - 1) * o.stride + o.offset + 1;
}

int64_t read_size(const KernelRecipe& r, const KernelStep& s) {
  int64_t n = 1;
  for (const Term& t : s.terms) n *= extent(r, t);
  return n + s.offset;
}

std::vector<uint64_t> open_loops(const KernelRecipe& r) {
  std::vector<uint64_t> open(r.steps.size());
  for (size_t i = 0; i < r.steps.size(); ++i) {
    const KernelStep& s = r.steps[i];
    for (size_t a : s.src) open[i] |= open[a];
    for (const Term& t : s.terms) {
      open[i] |= t.form == TermForm::kGather ? open[t.step] : loop_bit(r, t.loop);
      if (uses_other(t.form)) open[i] |= loop_bit(r, t.other);
    }
    if (s.kind == StepKind::kIota || s.kind == StepKind::kInside) open[i] |= loop_bit(r, s.loop);
    for (size_t l : s.loops) open[i] &= ~(uint64_t{1} << l);
  }
  return open;
}

bool is_sound(const KernelRecipe& r) {
  if (r.loops.size() > 60 || r.outputs.empty() || r.buffers.size() < r.outputs.size()) return false;
  for (const RecipeLoop& l : r.loops)
    if (l.size < 1) return false;
  for (size_t i = 0; i < r.steps.size(); ++i)
    if (!is_sound_step(r, i)) return false;
  const std::vector<uint64_t> open = open_loops(r);
  for (size_t k = 0; k < r.outputs.size(); ++k)
    if (!is_sound_output(r, k, open)) return false;
  return true;
}

KernelRecipe tidied(const KernelRecipe& r) {
  std::vector<bool> is_used(r.steps.size());
  for (const RecipeOutput& o : r.outputs) is_used[o.value] = true;
  for (size_t i = r.steps.size(); i-- > 0;) {
    if (!is_used[i]) continue;
    for (size_t a : r.steps[i].src) is_used[a] = true;
    for (const Term& t : r.steps[i].terms)
      if (t.form == TermForm::kGather) is_used[t.step] = true;
  }
  KernelRecipe out = r;
  out.steps.clear();
  std::vector<size_t> renamed(r.steps.size());
  for (RecipeBuffer& b : out.buffers) b.size = 1;
  for (size_t i = 0; i < r.steps.size(); ++i) {
    if (!is_used[i]) continue;
    KernelStep s = r.steps[i];
    for (size_t& a : s.src) a = renamed[a];
    for (Term& t : s.terms) t.step = t.form == TermForm::kGather ? renamed[t.step] : 0;
    renamed[i] = out.steps.size();
    if (s.kind == StepKind::kRead)
      out.buffers[s.buffer].size = std::max(out.buffers[s.buffer].size, read_size(r, s));
    out.steps.push_back(std::move(s));
  }
  for (size_t k = 0; k < r.outputs.size(); ++k) {
    out.outputs[k].value = renamed[r.outputs[k].value];
    out.buffers[k].size = std::max(out.buffers[k].size, output_size(r, r.outputs[k]));
  }
  return out;
}

std::string print(const KernelRecipe& r) {
  std::string out = "  loops";
  for (size_t l = 0; l < r.loops.size(); ++l)
    out += strf(" L%zu%s=%lld", l, r.loops[l].is_reduce ? "(reduce)" : "",
                static_cast<ll>(r.loops[l].size));
  if (r.has_variable)
    out += strf(", variable %lld of 0..%lld", static_cast<ll>(r.variable),
                static_cast<ll>(r.variable_max));
  out += "\n";
  for (size_t b = 0; b < r.buffers.size(); ++b)
    out += strf("  b%zu: %s[%lld]%s\n", b, ir::dtype_name(r.buffers[b].dtype),
                static_cast<ll>(r.buffers[b].size), r.buffers[b].has_specials ? " specials" : "");
  for (size_t i = 0; i < r.steps.size(); ++i) out += print_step(r.steps[i], i);
  for (size_t k = 0; k < r.outputs.size(); ++k) {
    const RecipeOutput& o = r.outputs[k];
    out += strf("  b%zu[", k);
    for (size_t i = 0; i < o.order.size(); ++i)
      out += strf("%sL%zu ", o.flipped[i] ? "-" : "", o.order[i]);
    out +=
        strf("*%lld+%lld] = v%zu", static_cast<ll>(o.stride), static_cast<ll>(o.offset), o.value);
    if (o.is_gated)
      out += strf(" where %lld <= L%zu < %lld", static_cast<ll>(o.low), o.gate_loop,
                  static_cast<ll>(o.high));
    out += "\n";
  }
  return out;
}

}  // namespace modeld::fuzz
