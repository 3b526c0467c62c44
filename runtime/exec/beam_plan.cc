#include "runtime/exec/beam_plan.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <utility>

#include "hal/backends.h"
#include "hal/base/clock.h"
#include "hal/target.h"

#include "runtime/codegen/lower.h"
#include "runtime/exec/beam_compile.h"
#include "runtime/exec/beam_judge.h"
#include "runtime/exec/beam_kernel.h"
#include "runtime/exec/kernel_ast.h"
#include "runtime/exec/lower_and_compile.h"
#include "runtime/exec/prepare.h"
#include "runtime/exec/retune.h"
#include "runtime/ir/print.h"

namespace modeld::exec {

using ir::Node;

namespace {

// The processor's own name: times of one are nothing to another.
std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 1);
  return "?";
}

// What a search starts from besides nothing: the rule's choice, as far as it got.
std::vector<ir::Opts> prefixes(const ir::Opts& rule) {
  std::vector<ir::Opts> out;
  for (size_t n = 1; n <= rule.size(); ++n) out.emplace_back(rule.begin(), rule.begin() + n);
  return out;
}

// One kernel on its way.
struct Job {
  const Node* ast = nullptr;
  Hash256 key;
  bool is_open = true;  // wants a search
};

class Tuner {
 public:
  Tuner(Plan& plan, const BeamOptions& options)
      : plan_(plan), options_(options), cache_(options.compile.cache_dir) {}
  Result<BeamReport> run();

 private:
  Status prepare();
  Status open_jobs();
  Hash256 plan_key() const;
  bool take_cached_plan();
  Status measure_rule(size_t i);
  void leave_small_ones();
  Status search(size_t i);
  Result<ir::Opts> search_opts(size_t i, KernelBench& bench, CandidateCompiler& compiler);
  Status judge(size_t i, KernelBench& bench, CandidateCompiler& compiler);
  Recipes recipes() const;
  std::vector<size_t> winners() const;
  Status judge_plan(const Plan& tuned);
  Status apply_winners();
  Status keep_what_pays();
  void keep_plan() const;
  CandidateCompiler compiler_of(size_t i) const;

  Plan& plan_;
  const BeamOptions& options_;
  BeamCache cache_;
  ir::Graph g_;
  CompileOptions compile_;
  Backend backend_;
  BeamSetting setting_;
  std::unique_ptr<hal::Device> device_;
  std::vector<Job> jobs_;
  BeamReport report_;
};

Status Tuner::prepare() {
  if (const std::string missing = hal::missing_on_host(plan_.target);
      !plan_.target.is_cpu() || !missing.empty())
    return fail(Errc::kUnsupported,
                strf("a search times kernels on the target, and %s is not here%s%s",
                     hal::print_target(plan_.target).c_str(), missing.empty() ? "" : ": lacks ",
                     missing.c_str()));
  ASSIGN_OR_RETURN(compile_, plan_options(plan_, options_.compile));
  compile_.compile_timeout_ms = options_.compile_limit_ms;
  ASSIGN_OR_RETURN(backend_, make_backend(compile_));
  hal::DeviceConfig config;
  config.threads = plan_.target.threads;
  config.profile = true;
  ASSIGN_OR_RETURN(device_, hal::open_device("cpu", config));
  setting_ = {options_.width, options_.limits, plan_.codegen_config, backend_.compiler->identity(),
              strf("%s %s turns=%d gain=%a share=%a processor=", device_->info().name.c_str(),
                   device_->info().target.c_str(), options_.turns, options_.least_gain,
                   options_.least_share) +
                  processor()};
  return {};
}

Status Tuner::open_jobs() {
  for (size_t i = 0; i < plan_.programs.size(); ++i) {
    const ProgramRow& row = plan_.programs[i];
    Job job;
    ASSIGN_OR_RETURN(job.ast, kernel_ast(g_, row, first_use(plan_, static_cast<uint32_t>(i))));
    job.key = beam_key(setting_, kernel_identity(g_, job.ast, row.no_contract).hex());
    BeamKernel kernel;
    kernel.name = row.name;
    for (const Entry& e : plan_.entries)
      for (const CallRow& c : e.calls)
        kernel.calls += c.kind == CallRow::Kind::kProgram && c.program == i ? 1 : 0;
    ASSIGN_OR_RETURN(kernel.finding.heuristic, ir::parse_opts(row.applied_opts));
    if (has_explicit_opts(job.ast)) {
      job.is_open = false;
      kernel.finding.note = "asks for its opts by name";
    }
    jobs_.push_back(job);
    report_.kernels.push_back(std::move(kernel));
  }
  return {};
}

Hash256 Tuner::plan_key() const {
  std::string what = "plan";
  for (const ProgramRow& row : plan_.programs) what += " " + row.key.hex();
  for (const Entry& e : plan_.entries) {
    what += " entry " + e.name;
    for (const CallRow& c : e.calls) what += strf(" %u", c.program);
  }
  return beam_key(setting_, what);
}

// A plan's entry holds a finding per kernel and one more for the whole run.
bool Tuner::take_cached_plan() {
  const auto found = cache_.find(plan_key());
  if (!found || found->size() != report_.kernels.size() + 1) return false;
  for (size_t i = 0; i < report_.kernels.size(); ++i) {
    BeamKernel& k = report_.kernels[i];
    if ((*found)[i].heuristic != k.finding.heuristic) return false;
    k.finding = (*found)[i];
    k.origin = k.finding.winner_us > 0 ? BeamKernel::Origin::kCached : BeamKernel::Origin::kSkipped;
  }
  const BeamFinding& whole = found->back();
  report_.heuristic_ms = whole.heuristic_us / 1e3;
  report_.winner_ms = whole.winner_us / 1e3;
  report_.is_kept = whole.is_winner;
  report_.is_cached = true;
  return true;
}

void Tuner::keep_plan() const {
  std::vector<BeamFinding> all;
  for (const BeamKernel& k : report_.kernels) all.push_back(k.finding);
  BeamFinding whole;
  whole.heuristic_us = report_.heuristic_ms * 1e3;
  whole.winner_us = report_.winner_ms * 1e3;
  whole.is_winner = report_.is_kept;
  all.push_back(std::move(whole));
  cache_.store(plan_key(), all);
}

CandidateCompiler Tuner::compiler_of(size_t i) const {
  return {jobs_[i].ast,
          plan_.programs[i].no_contract,
          backend_,
          {options_.compile.jobs, options_.limits.instructions}};
}

// How long the rule's choice takes, to know which kernels matter.
Status Tuner::measure_rule(size_t i) {
  BeamKernel& k = report_.kernels[i];
  const auto known = cache_.find(jobs_[i].key);
  if (known && known->size() == 1 && (*known)[0].heuristic == k.finding.heuristic) {
    k.finding = (*known)[0];
    k.origin = BeamKernel::Origin::kCached;
    jobs_[i].is_open = false;
    return {};
  }
  auto bench = KernelBench::create(*device_, g_, jobs_[i].ast);
  if (!bench.ok()) {
    k.finding.note = bench.error().what;
    jobs_[i].is_open = false;
    return {};
  }
  CandidateCompiler compiler = compiler_of(i);
  ASSIGN_OR_RETURN(const Candidate rule, compiler.compile_one(k.finding.heuristic));
  ASSIGN_OR_RETURN(KernelBench::Loaded loaded, (*bench)->load(rule));
  const auto us = codegen::guarded_time(options_.limits.runs, HUGE_VAL, [&] {
    const auto t = (*bench)->run_us(loaded);
    return t.ok() ? std::optional<double>(*t) : std::nullopt;
  });
  if (!us) return fail(Errc::kInternal, strf("kernel %s could not be timed", k.name.c_str()));
  k.finding.heuristic_us = *us;
  return {};
}

void Tuner::leave_small_ones() {
  double total = 0;
  const auto cost = [](const BeamKernel& k) {
    return k.finding.heuristic_us * static_cast<double>(k.calls);
  };
  for (const BeamKernel& k : report_.kernels) total += cost(k);
  for (size_t i = 0; i < jobs_.size(); ++i) {
    BeamKernel& k = report_.kernels[i];
    if (!jobs_[i].is_open || cost(k) >= options_.least_share * total) continue;
    jobs_[i].is_open = false;
    k.finding.note = strf("takes %.2f %% of the plan", 100 * cost(k) / total);
  }
}

Result<ir::Opts> Tuner::search_opts(size_t i, KernelBench& bench, CandidateCompiler& compiler) {
  std::vector<std::optional<Candidate>> made;
  std::vector<std::optional<KernelBench::Loaded>> loaded;
  codegen::BeamHooks hooks;
  hooks.compile = [&](std::span<const ir::Opts> lists) {
    made = compiler.compile(lists);
    loaded.clear();
    loaded.resize(made.size());
    std::vector<std::optional<codegen::BeamProgram>> out(made.size());
    for (size_t c = 0; c < made.size(); ++c)
      if (made[c])
        out[c] = codegen::BeamProgram{made[c]->bytes, made[c]->program.instructions,
                                      made[c]->program.info.flops};
    return out;
  };
  hooks.run_us = [&](size_t c) -> std::optional<double> {
    if (!loaded[c]) {
      auto fresh = bench.load(*made[c]);
      if (!fresh.ok()) return std::nullopt;
      loaded[c] = std::move(*fresh);
    }
    const auto us = bench.run_us(*loaded[c]);
    return us.ok() ? std::optional<double>(*us) : std::nullopt;
  };
  const ir::Opts& rule = report_.kernels[i].finding.heuristic;
  const std::string stage = strf("beam %zu/%zu", i + 1, jobs_.size());
  if (options_.progress) {
    options_.progress(stage, 0, 0);
    hooks.progress = [&](size_t done, size_t total) { options_.progress(stage, done, total); };
  }
  codegen::CodegenOptions codegen = backend_.options_for(plan_.programs[i].no_contract);
  codegen.search = [&](const codegen::Scheduler& start, int64_t width) -> Result<ir::Opts> {
    const codegen::BeamResult r =
        codegen::beam_search(start, width, options_.limits, hooks, prefixes(rule));
    report_.tried += r.tried;
    report_.compiled += r.compiled;
    report_.timed += r.timed;
    return r.opts;
  };
  ir::Graph g;
  const Node* ast = g.import(jobs_[i].ast);
  ir::KernelInfo info = ast->as<ir::KernelInfo>();
  info.beam = options_.width;
  ASSIGN_OR_RETURN(const Node* found, codegen::run_kernel_passes(g, g.with_arg(ast, info), codegen,
                                                                 true, "apply_opts"));
  return found->as<ir::KernelInfo>().applied_opts;
}

Status Tuner::judge(size_t i, KernelBench& bench, CandidateCompiler& compiler) {
  BeamFinding& f = report_.kernels[i].finding;
  ASSIGN_OR_RETURN(const Candidate plain, compiler.compile_one({}));
  ASSIGN_OR_RETURN(const Candidate rule, compiler.compile_one(f.heuristic));
  ASSIGN_OR_RETURN(const Candidate winner, compiler.compile_one(f.winner));
  ASSIGN_OR_RETURN(Verdict v, judge_winner(bench, {&plain, &rule, &winner},
                                           {options_.turns, options_.least_gain,
                                            plan_.programs[i].no_contract}));
  if (v.rule_us > 0) f.heuristic_us = v.rule_us;
  f.winner_us = v.winner_us;
  f.is_winner = v.is_winner;
  f.note = std::move(v.note);
  return {};
}

Status Tuner::search(size_t i) {
  BeamKernel& k = report_.kernels[i];
  k.origin = BeamKernel::Origin::kSearched;
  ASSIGN_OR_RETURN(const auto bench, KernelBench::create(*device_, g_, jobs_[i].ast));
  CandidateCompiler compiler = compiler_of(i);
  ASSIGN_OR_RETURN(k.finding.winner, search_opts(i, *bench, compiler));
  if (k.finding.winner == k.finding.heuristic)
    k.finding.note = "the rule's choice";
  else
    RETURN_IF_ERROR(judge(i, *bench, compiler));
  cache_.store(jobs_[i].key, {k.finding});
  return {};
}

Recipes Tuner::recipes() const {
  Recipes out;
  ir::Graph g;
  for (size_t i = 0; i < jobs_.size(); ++i)
    if (report_.kernels[i].finding.is_winner)
      out[kernel_identity(g, g.import(jobs_[i].ast), plan_.programs[i].no_contract)] =
          report_.kernels[i].finding.winner;
  return out;
}

Status Tuner::judge_plan(const Plan& tuned) {
  hal::DeviceConfig config;
  config.threads = plan_.target.threads;
  ASSIGN_OR_RETURN(const auto device, hal::open_device("cpu", config));
  ASSIGN_OR_RETURN(const auto rule, PlanBench::create(plan_, report_.entry, *device));
  ASSIGN_OR_RETURN(const auto winner, PlanBench::create(tuned, report_.entry, *device));
  ASSIGN_OR_RETURN(const Turns t, take_turns(
                                      options_.turns, [&] { return rule->run_us(); },
                                      [&] { return winner->run_us(); }));
  report_.heuristic_ms = t.first / 1e3;
  report_.winner_ms = t.second / 1e3;
  report_.is_kept = t.second < t.first;
  return {};
}

// Winners, most time saved first.
std::vector<size_t> Tuner::winners() const {
  std::vector<size_t> out;
  const auto saved = [&](size_t i) {
    const BeamKernel& k = report_.kernels[i];
    return (k.finding.heuristic_us - k.finding.winner_us) * static_cast<double>(k.calls);
  };
  for (size_t i = 0; i < report_.kernels.size(); ++i)
    if (report_.kernels[i].finding.is_winner) out.push_back(i);
  std::stable_sort(out.begin(), out.end(), [&](size_t a, size_t b) { return saved(a) > saved(b); });
  return out;
}

Status Tuner::apply_winners() {
  ASSIGN_OR_RETURN(const RetuneReport retuned,
                   retune(plan_, recipes(), NoRecipe::kKeep, options_.compile));
  report_.changed = retuned.changed;
  return {};
}

// A kernel alone may be faster and the whole not: other threads wake, other data is in the caches.
// Where that is so, the half of the winners that saves least goes back, until the whole is faster.
Status Tuner::keep_what_pays() {
  std::vector<size_t> left = winners();
  while (!left.empty()) {
    Plan tuned = plan_;
    ASSIGN_OR_RETURN(const RetuneReport retuned,
                     retune(tuned, recipes(), NoRecipe::kKeep, options_.compile));
    RETURN_IF_ERROR(judge_plan(tuned));
    if (report_.is_kept) {
      report_.changed = retuned.changed;
      keep_plan();
      plan_ = std::move(tuned);
      return {};
    }
    for (size_t back = (left.size() + 1) / 2; back > 0; --back) {
      BeamFinding& f = report_.kernels[left.back()].finding;
      f.is_winner = false;
      f.note = "faster alone, but not in the whole run";
      left.pop_back();
    }
  }
  keep_plan();
  return {};
}

Result<BeamReport> Tuner::run() {
  const int64_t start = now_ns();
  RETURN_IF_ERROR(prepare());
  RETURN_IF_ERROR(open_jobs());
  if (plan_.entries.empty()) return fail(Errc::kInvalid, "a plan without entries");
  report_.entry = plan_.find_entry("run") != nullptr ? "run" : plan_.entries[0].name;
  if (!take_cached_plan()) {
    for (size_t i = 0; i < jobs_.size(); ++i) {
      if (options_.progress) options_.progress("beam: times", i, jobs_.size());
      if (jobs_[i].is_open) RETURN_IF_ERROR(measure_rule(i));
    }
    leave_small_ones();
    for (size_t i = 0; i < jobs_.size(); ++i)
      if (jobs_[i].is_open) RETURN_IF_ERROR(search(i));
  }
  RETURN_IF_ERROR(report_.is_cached ? apply_winners() : keep_what_pays());
  report_.search_ns = now_ns() - start;
  return std::move(report_);
}

}  // namespace

Result<BeamReport> beam_plan(Plan& plan, const BeamOptions& options) {
  return Tuner(plan, options).run();
}

}  // namespace modeld::exec
