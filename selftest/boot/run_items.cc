// Items that run the loaded model: golden vectors, the checks around a run, time.
#include <algorithm>

#include "selftest/boot/frames.h"
#include "selftest/boot/subject.h"

namespace modeld::selftest {
namespace {

constexpr int64_t kStepMs = 60'000;  // no step of a healthy model, simulated ones included
constexpr uint64_t kPictures = 4;

double ms(int64_t ns) {
  return static_cast<double>(ns) / 1e6;
}

// Both findings of the golden cases come from the same runs.
Status run_golden_once(Subject& s) {
  if (s.golden) return {};
  ASSIGN_OR_RETURN(s.golden, models::run_golden_cases(
                                 s.manifest(), s.bundle->section(bundle::SectionKind::kGolden),
                                 *s.loaded, s.load_deadline()));
  return {};
}

Outcome outcome_of(const Result<models::CaseResult>& result, const char* good) {
  if (!result.ok()) return failed(result.error().what);
  return result->has_passed ? passed(good) : failed(result->text);
}

// ---- time ----

struct Percentiles {
  int64_t p50_ns = 0, p99_ns = 0, worst_ns = 0;
};

// Nearest rank; of fewer than 100 samples p99 is the largest.
Percentiles percentiles(std::vector<int64_t> samples) {
  std::sort(samples.begin(), samples.end());
  const size_t rank = (samples.size() * 99 + 99) / 100;
  return {samples[samples.size() / 2], samples[std::max<size_t>(rank, 1) - 1], samples.back()};
}

void remember(Subject& s, const Percentiles& p, size_t frames) {
  s.times.p50_ns = p.p50_ns;
  s.times.p99_ns = p.p99_ns;
  s.times.worst_ns = p.worst_ns;
  s.times.frames = frames;
}

// Measured times against what the manifest allows.
Outcome judge_budget(const Subject& s, const Percentiles& p, const std::string& what) {
  const bundle::TimingBudget& budget = s.manifest().budget;
  const std::vector<Figure> figures = {{"p50_ms", ms(p.p50_ns)},
                                       {"p99_ms", ms(p.p99_ns)},
                                       {"worst_ms", ms(p.worst_ns)},
                                       {"budget_p50_ms", budget.p50_ms},
                                       {"budget_p99_ms", budget.p99_ms}};
  const std::string seen =
      strf("p50 %.2f of %g ms, p99 %.2f of %g ms, worst %.2f ms, %s", ms(p.p50_ns), budget.p50_ms,
           ms(p.p99_ns), budget.p99_ms, ms(p.worst_ns), what.c_str());
  if (budget.p50_ms <= 0 || budget.p99_ms <= 0)
    return failed("the manifest states no timing budget; " + seen, figures);
  if (ms(p.p50_ns) > budget.p50_ms || ms(p.p99_ns) > budget.p99_ms)
    return failed("over the manifest's timing budget: " + seen, figures);
  return passed(seen, figures);
}

// One frame, timed.
Result<int64_t> timed_step(models::Model& model, const models::FrameInputs& inputs) {
  const int64_t start = now_ns();
  RETURN_IF_ERROR(step(model, inputs, Deadline::in_ms(kStepMs)));
  return now_ns() - start;
}

// At least kFewest frames, then until kMost or the time is up.
Result<std::vector<int64_t>> boot_samples(models::Model& model, const Frames& frames) {
  constexpr size_t kFewest = 20, kMost = 100;
  constexpr int64_t kEnoughMs = 600;
  constexpr uint64_t kWarmUp = 3;
  RETURN_IF_ERROR(model.reset());
  std::vector<int64_t> out;
  const Deadline enough = Deadline::in_ms(kEnoughMs);
  for (uint64_t i = 0; out.size() < kMost && (out.size() < kFewest || !enough.has_passed()); ++i) {
    ASSIGN_OR_RETURN(const int64_t took, timed_step(model, frames.inputs(i)));
    if (i >= kWarmUp) out.push_back(took);
  }
  RETURN_IF_ERROR(model.reset());
  return out;
}

// ---- many replays ----

constexpr uint64_t kCycle = 25;  // frames after which a model starts anew and must repeat itself

struct Replays {
  std::vector<int64_t> samples;
  std::string flaw;  // "" or the first replay that differs
};

Hash128 digest(std::span<const float> raw) {
  return xxh128(std::as_bytes(raw));
}

Result<Replays> replay_many(models::Model& model, const Frames& frames, uint64_t count) {
  Replays out;
  std::vector<Hash128> first;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t at = i % kCycle;
    if (at == 0) RETURN_IF_ERROR(model.reset());
    ASSIGN_OR_RETURN(const int64_t took, timed_step(model, frames.inputs(at)));
    out.samples.push_back(took);
    const Hash128 seen = digest(model.raw());
    if (first.size() <= at) {
      first.push_back(seen);
    } else if (first[at] != seen && out.flaw.empty()) {
      out.flaw = strf("replay %llu has other bits than replay %llu of the same frames",
                      static_cast<unsigned long long>(i), static_cast<unsigned long long>(at));
    }
  }
  RETURN_IF_ERROR(model.reset());
  return out;
}

}  // namespace

Outcome golden_item(Subject& s) {
  if (const Status ran = run_golden_once(s); !ran.ok()) return failed(ran.error().what);
  if (s.golden->empty()) return failed("the bundle holds no golden vectors");
  double worst = 0;
  for (const models::CaseResult& r : *s.golden) {
    if (!r.matches_golden) return failed(r.name + ": " + r.text);
    worst = std::max(worst, r.worst_error);
  }
  return passed(strf("%zu run%s, worst error %.2g of the largest number", s.golden->size(),
                     s.golden->size() == 1 ? "" : "s", worst),
                {{"worst_error", worst}});
}

Outcome repeat_item(Subject& s) {
  if (const Status ran = run_golden_once(s); !ran.ok()) return failed(ran.error().what);
  if (s.golden->empty()) return failed("the bundle holds no golden vectors");
  for (const models::CaseResult& r : *s.golden) {
    if (!r.is_repeatable) return failed(r.name + ": the second run differs from the first");
  }
  return passed("bit-equal");
}

Outcome finite_item(Subject& s) {
  return outcome_of(models::run_finite_case(s.manifest(), *s.loaded, s.load_deadline()),
                    "nan, inf, -inf and equal numbers found in every output");
}

Outcome deadline_item(Subject& s) {
  const Outcome stalled =
      outcome_of(models::run_deadline_case(*s.device),
                 strf("a stall of %lld ms was a timeout, and the device works again",
                      static_cast<long long>(models::kStallMs))
                     .c_str());
  if (stalled.verdict != Verdict::kPassed) return stalled;
  const Status again = s.loaded->dry_run(s.load_deadline());
  return again.ok() ? stalled : failed("after the stall: " + again.error().what);
}

Outcome timing_item(Subject& s) {
  const auto frames = Frames::create(*s.device, *s.driver, kPictures);
  if (!frames.ok()) return failed(frames.error().what);
  const auto samples = boot_samples(*s.driver, *frames);
  if (!samples.ok()) return failed(samples.error().what);
  const Percentiles p = percentiles(*samples);
  remember(s, p, samples->size());
  return judge_budget(s, p, strf("%zu frames", samples->size()));
}

Outcome worst_case_item(Subject& s) {
  const auto frames = Frames::create(*s.device, *s.driver, kPictures);
  if (!frames.ok()) return failed(frames.error().what);
  // One cycle first: what is made once is made now.
  if (const auto warm = replay_many(*s.driver, *frames, kCycle); !warm.ok())
    return failed(warm.error().what);
  const hal::MemStats before = s.device->allocator().stats();
  const auto replays =
      replay_many(*s.driver, *frames, static_cast<uint64_t>(std::max(s.world.replays, 1)));
  if (!replays.ok()) return failed(replays.error().what);
  const hal::MemStats after = s.device->allocator().stats();
  const Percentiles p = percentiles(replays->samples);
  remember(s, p, replays->samples.size());
  Outcome out = judge_budget(s, p, strf("%zu replays", replays->samples.size()));
  if (out.verdict != Verdict::kPassed) return out;
  if (!replays->flaw.empty()) return failed(replays->flaw, out.figures);
  if (after.live_bytes != before.live_bytes || after.live_buffers != before.live_buffers)
    return failed(strf("device memory grew from %llu to %llu bytes",
                       static_cast<unsigned long long>(before.live_bytes),
                       static_cast<unsigned long long>(after.live_bytes)),
                  out.figures);
  if (ms(p.worst_ns) > static_cast<double>(s.model.timeout_ms))
    return failed(strf("the slowest replay took %.1f ms, timeout_ms is %lld", ms(p.worst_ns),
                       static_cast<long long>(s.model.timeout_ms)),
                  out.figures);
  return out;
}

}  // namespace modeld::selftest
