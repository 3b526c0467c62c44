#include "selftest/fuzz/graph_shrink.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "selftest/fuzz/graph_engine.h"

namespace modeld::fuzz {

namespace {

// The program without the steps marked, and without those that need them. A realize loses the
// arguments only.
Program without(const Program& p, std::vector<bool> gone) {
  Program out;
  std::vector<size_t> renamed(p.steps.size());
  for (size_t i = 0; i < p.steps.size(); ++i) {
    if (gone[i]) continue;
    Step s = p.steps[i];
    const auto is_gone = [&](size_t a) { return gone[a]; };
    if (s.kind == StepKind::kRealize) {
      std::erase_if(s.args, is_gone);
      if (s.args.empty()) continue;
    } else if (std::any_of(s.args.begin(), s.args.end(), is_gone)) {
      gone[i] = true;
      continue;
    }
    for (size_t& a : s.args) a = renamed[a];
    renamed[i] = out.steps.size();
    out.steps.push_back(std::move(s));
  }
  return out;
}

// Step i as memory that holds what it computes.
std::optional<Program> as_input(const Program& p, size_t i) {
  const StepKind kind = p.steps[i].kind;
  if (!makes_tensor(kind) || kind <= StepKind::kVariable) return {};
  Engine engine;
  for (size_t k = 0; k <= i; ++k) {
    if (p.steps[k].kind == StepKind::kRealize) continue;  // values do not depend on it
    if (!engine.apply(p.steps[k], k).ok()) return {};
  }
  const testing::EagerArray& value = engine.value(i);
  Program out = p;
  Step s = step_of(StepKind::kInput);
  s.dtype = value.dtype;
  s.a = value.dims;
  s.data = value.v;
  s.device = std::max(engine.device(i), 0);
  out.steps[i] = std::move(s);
  return without(out, std::vector<bool>(p.steps.size()));
}

class Shrinker {
 public:
  Shrinker(Program program, const StillFails& still_fails, int limit)
      : best_(std::move(program)), still_fails_(still_fails), left_(limit) {}

  Program run() {
    for (bool smaller = true; smaller && left_ > 0;) {
      smaller = false;
      for (size_t n = best_.steps.size() / 2; n > 0; n /= 2) smaller |= take_out(n);
      smaller |= ask_for_less();
      smaller |= put_inputs();
    }
    return std::move(best_);
  }

 private:
  bool accept(const Program& p) {
    if (left_ <= 0) return false;
    --left_;
    if (!still_fails_(p)) return false;
    best_ = p;
    return true;
  }

  // Runs of n steps, from the end.
  bool take_out(size_t n) {
    bool any = false;
    for (size_t end = best_.steps.size(); end > 0; end = end > n ? end - n : 0) {
      if (end > best_.steps.size()) continue;
      std::vector<bool> gone(best_.steps.size());
      for (size_t i = end - std::min(n, end); i < end; ++i) gone[i] = true;
      any |= accept(without(best_, std::move(gone)));
    }
    return any;
  }

  bool ask_for_less() {
    bool any = false;
    for (size_t i = 0; i < best_.steps.size(); ++i) {
      for (size_t a = 0; best_.steps[i].kind == StepKind::kRealize &&
                         a < best_.steps[i].args.size() && best_.steps[i].args.size() > 1;
           ++a) {
        Program p = best_;
        p.steps[i].args.erase(p.steps[i].args.begin() + static_cast<int64_t>(a));
        any |= accept(p);
      }
    }
    return any;
  }

  bool put_inputs() {
    bool any = false;
    for (size_t i = best_.steps.size(); i-- > 0;) {
      if (i >= best_.steps.size()) continue;
      if (const auto p = as_input(best_, i)) any |= accept(*p);
    }
    return any;
  }

  Program best_;
  const StillFails& still_fails_;
  int left_;
};

}  // namespace

Program shrink(Program program, const StillFails& still_fails, int limit) {
  return Shrinker(std::move(program), still_fails, limit).run();
}

}  // namespace modeld::fuzz
