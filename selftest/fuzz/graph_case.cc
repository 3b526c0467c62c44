#include "selftest/fuzz/graph_case.h"

#include <utility>

#include "runtime/ir/fault.h"

#include "selftest/fuzz/graph_linear_check.h"

namespace modeld::fuzz {

using ir::Fault;

namespace {

Finding finding(Finding::Kind kind, size_t step, const std::string& text) {
  return {kind, strf("step %zu: %s", step, text.c_str())};
}

// Is this error one of those that the program's own shape calls for?
bool is_foretold(Fault fault, const Forecast& f) {
  switch (fault) {
    case Fault::kAssignCycle:
    case Fault::kIndexCycle:
      return f.has_cycle;
    case Fault::kStaleReader:
      return f.reads_stale;
    case Fault::kBindMismatch:
      return f.mixes_values;
    default:
      return false;
  }
}

// True if values of few buffers may get memory of their own, which undoes cycles.
bool may_stage(const schedule::ScheduleOptions& o) {
  return o.inline_max_buffers < 3 || o.max_kernel_buffers < 8;
}

}  // namespace

Finding GraphCase::schedule(Subject& subject, Saboteur* saboteur) {
  subject.begin();
  facts_.nodes = node_count(program_);
  for (size_t i = 0; i < program_.steps.size(); ++i) {
    const Step& s = program_.steps[i];
    facts_.has_devices |= s.device > 0 || s.kind == StepKind::kShard;
    facts_.has_variable |= s.kind == StepKind::kVariable;
    if (s.kind == StepKind::kRealize) {
      if (Finding f = realize(subject, i, saboteur)) return f;
      continue;
    }
    if (Status fits = engine_.apply(s, i); !fits.ok())
      return finding(Finding::Kind::kRun, i, "not a program: " + fits.error().what);
    if (Status made = subject.apply(s, i); !made.ok())
      return finding(Finding::Kind::kRefused, i, made.error().what);
    if (s.kind == StepKind::kAssign) facts_.has_overlap |= engine_.last_assign_overlaps();
  }
  return {};
}

Finding GraphCase::realize(Subject& subject, size_t number, Saboteur* saboteur) {
  const Step& step = program_.steps[number];
  const auto forecast = engine_.forecast(step);
  if (!forecast.ok())
    return finding(Finding::Kind::kRun, number, "not a program: " + forecast.error().what);
  if (step.must_fail && !forecast->may_fail())
    return finding(Finding::Kind::kRun, number, "not a program: nothing to refuse");
  facts_.has_war |= forecast->has_war;
  auto work = subject.realize(step);
  if (!work.ok()) return refused(work.error(), *forecast, number);
  const schedule::ScheduleOptions& options = subject.options().schedule;
  if (step.must_fail && !(forecast->has_cycle && may_stage(options)))
    return finding(Finding::Kind::kNotRefused, number, "a cycle or a stale reader went through");
  engine_.commit(step);
  Run run{number, std::move(*work), {}};
  facts_.kernels += run.work.linear->nsrc;
  if (saboteur != nullptr) saboteur->damage(subject.graph(), run.work);
  if (Finding f = expect(subject, &run)) return f;
  const std::string wrong = look_at(subject, run, saboteur);
  if (!wrong.empty()) return finding(Finding::Kind::kSchedule, number, wrong);
  runs_.push_back(std::move(run));
  return {};
}

std::string GraphCase::look_at(Subject& subject, const Run& run, Saboteur* saboteur) {
  const schedule::ScheduleOptions& options = subject.options().schedule;
  const std::optional<schedule::ScheduleOptions> promised =
      saboteur == nullptr ? options : saboteur->promised(options);
  if (!promised) return "";
  std::vector<const ir::Node*> kept;
  for (const Expected& e : run.memory) kept.push_back(e.buffer);
  return check_linear(subject.graph(), run.work, kept, *promised);
}

Finding GraphCase::refused(const Error& e, const Forecast& f, size_t number) {
  if (!is_foretold(ir::fault_of(e), f)) return finding(Finding::Kind::kRefused, number, e.what);
  facts_.has_refusal = true;
  return {};
}

// What every live tensor's memory must hold after this realize.
Finding GraphCase::expect(Subject& subject, Run* run) {
  for (const size_t t : engine_.tensors()) {
    const auto values = engine_.memory(t);
    if (!values || engine_.device(t) >= kSeveralDevices) continue;
    const auto place = subject.place(t);
    if (!place)
      return finding(Finding::Kind::kMismatch, run->step,
                     strf("tensor t%zu was computed but names no buffer", t));
    const bool is_new = engine_.is_realized(t);
    if (is_new && place->is_run)
      run->memory.push_back({t, place->buffer, static_cast<size_t>(place->first), *values});
    else if (engine_.owns_buffer(t))
      run->memory.push_back({t, place->buffer, 0, *engine_.whole_memory(t)});
  }
  return {};
}

std::vector<exec::SessionLinear*> GraphCase::linears() {
  std::vector<exec::SessionLinear*> out;
  for (Run& r : runs_) out.push_back(&r.work);
  return out;
}

Finding GraphCase::run(Subject& subject) {
  for (const Run& r : runs_) {
    if (Status done = subject.run(r.work); !done.ok())
      return finding(Finding::Kind::kRun, r.step, done.error().what);
    for (const Expected& e : r.memory) {
      const auto have = subject.contents(e.buffer);
      if (!have.ok())
        return finding(Finding::Kind::kMismatch, r.step,
                       strf("memory of t%zu: %s", e.tensor, have.error().what.c_str()));
      if (Finding f = compare(e, *have, r.step)) return f;
    }
  }
  return {};
}

Finding GraphCase::compare(const Expected& want, const std::vector<double>& have, size_t step) {
  if (have.size() < want.first + want.values.size())
    return finding(Finding::Kind::kMismatch, step,
                   strf("memory of t%zu has %zu elements, wanted %zu from %zu", want.tensor,
                        have.size(), want.values.size(), want.first));
  for (size_t i = 0; i < want.values.size(); ++i) {
    const double x = have[want.first + i];
    if (!(x == want.values[i]))
      return finding(
          Finding::Kind::kMismatch, step,
          strf("memory of t%zu, element %zu is %g, wanted %g", want.tensor, i, x, want.values[i]));
  }
  return {};
}

}  // namespace modeld::fuzz
