#include "selftest/fuzz/kernel_defects.h"

#include <cinttypes>
#include <cstdio>
#include <string>
#include <vector>

#include "selftest/fuzz/kernel_damage.h"
#include "selftest/fuzz/kernel_run.h"

namespace modeld::fuzz {

namespace {

// ---- faulty legality ----

Status take_too_wide(codegen::Scheduler& s, const ir::Opt& opt) {
  const Status done = s.apply_opt(opt);
  return opt.op == ir::OptOp::kThread ? Status{} : done;
}

Status refuse_unroll(codegen::Scheduler& s, const ir::Opt& opt) {
  if (opt.op == ir::OptOp::kUnroll) return fail(Errc::kInvalid, "no");
  return s.apply_opt(opt);
}

Status leave_mark(codegen::Scheduler& s, const ir::Opt& opt) {
  const Status done = s.apply_opt(opt);
  if (!done.ok()) (void)s.apply_opt({ir::OptOp::kNoLocals, 0, 0});
  return done;
}

struct RuleDefect {
  const char* name;
  TryOpt attempt;
};

constexpr RuleDefect kRules[] = {{"an illegal THREAD is taken", take_too_wide},
                                 {"a legal UNROLL is refused", refuse_unroll},
                                 {"a refused opt leaves its mark", leave_mark}};

struct Found {
  uint64_t kernels = 0;
  std::string text;  // "": not found
};

// Random kernels until one shows the defect and is sound without it.
Found search(uint64_t seed, const KernelDefect* defect, TryOpt attempt) {
  constexpr uint64_t kStep = 16;
  constexpr uint64_t kMost = 1600;
  RunOptions faulty{seed, true, false, false, defect, attempt};
  // Our own instruction set needs no compiler: each try is quick.
  if (host_has_x86_path()) faulty.with_x86 = true, faulty.with_c = false;
  RunOptions sound = faulty;
  sound.defect = nullptr;
  sound.attempt = try_opt;
  Found out;
  for (uint64_t first = 0; first < kMost && out.text.empty(); first += kStep) {
    std::vector<KernelTrial> trials;
    for (uint64_t i = first; i < first + kStep; ++i) trials.push_back(numbered_trial(seed, i));
    const std::vector<TrialResult> results = run_trials(trials, faulty);
    for (size_t i = 0; i < results.size() && out.text.empty(); ++i) {
      ++out.kernels;
      if (!results[i].finding) continue;
      if (!run_trials({trials[i]}, sound)[0].finding) out.text = results[i].finding.text;
    }
  }
  return out;
}

bool show(const char* name, const Found& f) {
  const bool found = !f.text.empty();
  std::printf("kernel-fuzz: defect %s: %s (%" PRIu64 " kernels)%s%s\n", name,
              found ? "found" : "NOT FOUND", f.kernels, found ? ": " : "", f.text.c_str());
  return found;
}

}  // namespace

int prove_kernel_fuzz(uint64_t seed) {
  size_t found = 0, all = 0;
  for (const KernelDefect& d : kernel_damages()) {
    ++all;
    found += show(d.name, search(seed, &d, try_opt)) ? 1 : 0;
  }
  for (const RuleDefect& d : kRules) {
    ++all;
    found += show(d.name, search(seed, nullptr, d.attempt)) ? 1 : 0;
  }
  std::printf("self-proof: %zu of %zu defects found\n", found, all);
  return found == all ? 0 : 1;
}

}  // namespace modeld::fuzz
