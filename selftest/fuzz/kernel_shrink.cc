#include "selftest/fuzz/kernel_shrink.h"

#include <utility>

namespace modeld::fuzz {

namespace {

class Shrinker {
 public:
  Shrinker(KernelTrial trial, const std::function<bool(const KernelTrial&)>& still_fails, int limit)
      : best_(std::move(trial)), still_fails_(still_fails), left_(limit) {}

  KernelTrial run() {
    for (bool smaller = true; smaller && left_ > 0;) {
      smaller = drop_opts();
      smaller |= drop_output();
      smaller |= cut_values();
      smaller |= cut_loops();
      smaller |= plain_places();
    }
    return std::move(best_);
  }

 private:
  KernelTrial best_;
  const std::function<bool(const KernelTrial&)>& still_fails_;
  int left_;

  bool accept(KernelTrial t) {
    if (left_ <= 0) return false;
    t.recipe = tidied(t.recipe);
    --left_;
    if (!is_sound(t.recipe) || !still_fails_(t)) return false;
    best_ = std::move(t);
    return true;
  }
  template <class F>
  bool change(F f) {
    KernelTrial t = best_;
    f(t);
    return accept(std::move(t));
  }

  bool drop_opts() {
    bool any = false;
    for (size_t i = best_.opts ? best_.opts->size() : 0; i-- > 0;)
      any |= change([i](KernelTrial& t) { t.opts->erase(t.opts->begin() + static_cast<long>(i)); });
    return any;
  }

  bool drop_output() {
    if (best_.recipe.outputs.size() < 2) return false;
    // Output k is buffer k, so only the last one may go without new numbers; its buffer stays as
    // one nobody reads.
    return change([](KernelTrial& t) { t.recipe.outputs.pop_back(); });
  }

  // A value becomes one of its operands, or a constant.
  bool cut_values() {
    bool any = false;
    for (size_t i = best_.recipe.steps.size(); i-- > 0;) {
      if (i >= best_.recipe.steps.size()) continue;
      const KernelStep step = best_.recipe.steps[i];
      bool cut = false;
      for (size_t k = 0; k < step.src.size() && !cut; ++k) {
        if (best_.recipe.steps[step.src[k]].dtype != step.dtype) continue;
        cut = change([&](KernelTrial& t) { rename(t.recipe, i, step.src[k]); });
      }
      if (!cut && step.kind != StepKind::kConst) {
        cut = change([&](KernelTrial& t) {
          KernelStep c;
          c.dtype = step.dtype;
          c.value = 1;
          t.recipe.steps[i] = c;
        });
      }
      any |= cut;
    }
    return any;
  }

  static void rename(KernelRecipe& r, size_t from, size_t to) {
    for (size_t i = from + 1; i < r.steps.size(); ++i) {
      for (size_t& a : r.steps[i].src) a = a == from ? to : a;
      for (Term& t : r.steps[i].terms)
        if (t.form == TermForm::kGather && t.step == from) t.step = to;
    }
    for (RecipeOutput& o : r.outputs) o.value = o.value == from ? to : o.value;
  }

  bool cut_loops() {
    bool any = false;
    for (size_t l = 0; l < best_.recipe.loops.size(); ++l) {
      const int64_t size = best_.recipe.loops[l].size;
      for (const int64_t smaller : {int64_t{1}, size / 2, size - 1}) {
        if (smaller < 1 || smaller >= best_.recipe.loops[l].size) continue;
        any |= change([&](KernelTrial& t) { t.recipe.loops[l].size = smaller; });
      }
    }
    return any;
  }

  bool plain_places() {
    bool any = false;
    for (size_t k = 0; k < best_.recipe.outputs.size(); ++k) {
      const RecipeOutput o = best_.recipe.outputs[k];
      if (o.is_gated) any |= change([k](KernelTrial& t) { t.recipe.outputs[k].is_gated = false; });
      if (o.stride != 1 || o.offset != 0)
        any |= change([k](KernelTrial& t) {
          t.recipe.outputs[k].stride = 1;
          t.recipe.outputs[k].offset = 0;
        });
    }
    for (size_t i = 0; i < best_.recipe.steps.size(); ++i) {
      for (size_t n = 0; i < best_.recipe.steps.size() && n < best_.recipe.steps[i].terms.size();
           ++n) {
        if (best_.recipe.steps[i].terms[n].form != TermForm::kPlain)
          any |=
              change([&](KernelTrial& t) { t.recipe.steps[i].terms[n].form = TermForm::kPlain; });
        any |= change([&](KernelTrial& t) {
          t.recipe.steps[i].terms.erase(t.recipe.steps[i].terms.begin() + static_cast<long>(n));
        });
      }
      if (i < best_.recipe.steps.size() && best_.recipe.steps[i].offset != 0)
        any |= change([i](KernelTrial& t) { t.recipe.steps[i].offset = 0; });
    }
    return any;
  }
};

}  // namespace

KernelTrial shrink(KernelTrial trial,
                   const std::function<bool(const KernelTrial&)>& still_fails,
                   int limit) {
  return Shrinker(std::move(trial), still_fails, limit).run();
}

}  // namespace modeld::fuzz
