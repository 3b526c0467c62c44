#include "selftest/fuzz/graph_batch.h"

#include <memory>
#include <utility>

#include "selftest/fuzz/graph_builder.h"
#include "selftest/fuzz/graph_generator.h"

namespace modeld::fuzz {

namespace {

Rng rng_of(uint64_t seed, uint64_t number, uint64_t what) {
  Rng mix(seed);
  return Rng(mix.next() ^ (number * 0x9e3779b97f4a7c15u) ^ (what << 56));
}

template <class T, size_t N>
T one_of(Rng& rng, const T (&list)[N]) {
  return list[rng.below(N)];
}

bool is_program(const Program& p) {
  Engine engine;
  for (size_t i = 0; i < p.steps.size(); ++i) {
    const Step& s = p.steps[i];
    if (s.kind != StepKind::kRealize) {
      if (!engine.apply(s, i).ok()) return false;
      continue;
    }
    const auto f = engine.forecast(s);
    if (!f.ok() || (s.must_fail && !f->may_fail())) return false;
    if (!f->may_fail()) engine.commit(s);
  }
  return true;
}

// The same graph on other data; what is not exact with them stays as it is.
Program with_other_values(const Program& p, Rng& rng) {
  Program other = p;
  for (Step& s : other.steps) {
    if (s.kind == StepKind::kInput) s.data = random_data(rng, s.data.size(), s.dtype);
    if (s.kind == StepKind::kVariable)
      s.data[0] = static_cast<double>(1 + (static_cast<int64_t>(s.data[0]) + 3) % 9);
  }
  return is_program(other) ? other : p;
}

// Cases that share a Subject.
class Batch {
 public:
  Batch(const exec::SessionOptions& options, bool interpret) : subject_(options, interpret) {}

  bool is_usable() { return subject_.graph().status().ok(); }

  void schedule(GraphResult* result, const Program& program, Saboteur* saboteur) {
    cases_.push_back(std::make_unique<GraphCase>(program));
    results_.push_back(result);
    result->finding = cases_.back()->schedule(subject_, saboteur);
    result->facts = cases_.back()->facts();
  }

  void finish(exec::CompileStats* stats) {
    std::vector<exec::SessionLinear*> all;
    for (size_t i = 0; i < cases_.size(); ++i) {
      if (results_[i]->finding) continue;
      for (exec::SessionLinear* l : cases_[i]->linears()) all.push_back(l);
    }
    const bool compiled = is_usable() && subject_.compile(all).ok();
    for (size_t i = 0; i < cases_.size(); ++i) {
      Finding& f = results_[i]->finding;
      if (f) continue;
      // One bad kernel fails the whole unit: find out whose it is.
      if (!compiled) {
        if (Status s = subject_.compile(cases_[i]->linears()); !s.ok()) {
          f = {Finding::Kind::kRun, s.error().what};
          continue;
        }
      }
      f = cases_[i]->run(subject_);
    }
    add(subject_.compile_stats(), stats);
  }

 private:
  static void add(const exec::CompileStats& s, exec::CompileStats* to) {
    to->kernels += s.kernels;
    to->lowered += s.lowered;
    to->cold += s.cold;
    to->lower_ns += s.lower_ns;
    to->compile_ns += s.compile_ns;
  }

  Subject subject_;
  std::vector<std::unique_ptr<GraphCase>> cases_;
  std::vector<GraphResult*> results_;
};

}  // namespace

Program numbered_program(uint64_t seed, uint64_t number) {
  const bool repeats = number % 8 == 7;
  Rng rng = rng_of(seed, repeats ? number - 1 : number, 1);
  const Program p = generate_graph(rng);
  return repeats ? with_other_values(p, rng) : p;
}

exec::SessionOptions numbered_options(uint64_t seed, uint64_t number) {
  Rng rng = rng_of(seed, number / kBatchSize, 2);
  exec::SessionOptions o;
  o.schedule.memory_planner = !rng.one_in(8);
  o.schedule.best_fit = rng.one_in(2);
  o.schedule.inline_max_buffers = one_of<int64_t>(rng, {3, 3, 1, 0, 8});
  o.schedule.max_kernel_buffers = one_of<int64_t>(rng, {31, 31, 8, 5});
  o.schedule.split_threshold = one_of<int64_t>(rng, {32768, 8, 2});
  o.schedule.split_size_log2 = one_of<int64_t>(rng, {22, 7});
  o.schedule.stage_padded_reduce = rng.one_in(2);
  o.schedule.cache = !rng.one_in(8);
  o.compile.noopt = rng.one_in(2);
  if (auto target = hal::parse_target("cpu"); target.ok()) o.compile.target = *target;
  o.compile.target.threads = rng.one_in(2) ? 1 : 2;
  o.compile.target.renderer = rng.one_in(2) ? "c" : "x86";
  return o;
}

std::string print(const exec::SessionOptions& o) {
  const schedule::ScheduleOptions& s = o.schedule;
  return strf(
      "planner=%d best_fit=%d inline=%lld buffers=%lld split=%lld,2^%lld padded=%d cache=%d "
      "noopt=%d threads=%d renderer=%s",
      s.memory_planner ? 1 : 0, s.best_fit ? 1 : 0, static_cast<long long>(s.inline_max_buffers),
      static_cast<long long>(s.max_kernel_buffers), static_cast<long long>(s.split_threshold),
      static_cast<long long>(s.split_size_log2), s.stage_padded_reduce ? 1 : 0, s.cache ? 1 : 0,
      o.compile.noopt ? 1 : 0, o.compile.target.threads, o.compile.target.renderer.c_str());
}

BatchResult run_batch(const std::vector<uint64_t>& numbers,
                      const std::vector<Program>& programs,
                      const exec::SessionOptions& options,
                      bool interpret,
                      Saboteur* saboteur) {
  BatchResult out;
  out.cases.resize(numbers.size());
  auto batch = std::make_unique<Batch>(options, interpret);
  for (size_t i = 0; i < numbers.size(); ++i) {
    out.cases[i].number = numbers[i];
    if (!batch->is_usable()) {  // the program before broke the graph; it has its finding
      batch->finish(&out.compile);
      batch = std::make_unique<Batch>(options, interpret);
    }
    batch->schedule(&out.cases[i], programs[i], saboteur);
  }
  batch->finish(&out.compile);
  return out;
}

}  // namespace modeld::fuzz
