#include "runtime/exec/compile_plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "hal/base/bytes.h"
#include "hal/base/clock.h"
#include "hal/base/env.h"
#include "hal/base/log.h"
#include "hal/base/trace.h"

#include "runtime/exec/compile_plan_builder.h"
#include "runtime/exec/lower_and_compile.h"
#include "runtime/ir/derived.h"
#include "runtime/ir/spec.h"
#include "runtime/schedule/lower_sink_to_linear.h"
#include "runtime/schedule/schedule.h"

namespace modeld::exec {

namespace {

// One entry between scheduling and the plan.
struct Scheduled {
  const EntrySpec* spec;
  schedule::Schedule schedule;
  std::vector<std::optional<Hash128>> keys;  // per call: program key, none for copies
};

// The calls of an entry in order, for MODELD_DEBUG=3: what each writes and reads, by buffer number.
std::string schedule_text(const EntrySpec& spec, const schedule::Schedule& schedule) {
  std::string out =
      strf("-- schedule of entry %s: %u calls", spec.name.c_str(), schedule.linear->nsrc);
  for (uint32_t i = 0; i < schedule.linear->nsrc; ++i) {
    out += strf("\ncall %u:", i);
    for (const ir::Node* arg : schedule.linear->src(i)->src().subspan(1)) {
      const auto& p = arg->as<ir::ParamArg>();
      out += p.name.empty() ? strf(" b%lld", static_cast<long long>(p.slot)) : " " + p.name;
    }
  }
  return out;
}

Result<schedule::Schedule> schedule_entry(ir::Graph& g, const EntrySpec& spec) {
  ir::NodeVec outputs;
  for (const Binding& b : spec.outputs) outputs.push_back(b.node);
  TraceZone zone("schedule");
  auto result = schedule::make_schedule(g, outputs);
  if (!result.ok()) return fail(std::move(result).error().with("entry " + spec.name));
  if (debug_level() >= 3) debug_text(3, schedule_text(spec, *result));
  return result;
}

// Distinct kernels of all entries by program key.
using Requests = std::map<Hash128, KernelRequest>;

Status collect_kernels(Scheduled& s, const codegen::CodegenOptions& base, Requests& requests) {
  codegen::CodegenOptions options = base;
  options.no_contract = s.spec->no_contract;
  const auto calls = s.schedule.linear->src();
  for (size_t i = 0; i < calls.size(); ++i) {
    const ir::Node* call = calls[i];
    if (call->op != ir::Op::kCall || call->nsrc == 0)
      return fail(Errc::kInternal,
                  strf("entry %s: call %zu is %s", s.spec->name.c_str(), i, ir::op_name(call->op)));
    const ir::Node* body = call->src(0);
    if (body->op == ir::Op::kCopy) {
      s.keys.emplace_back(std::nullopt);
      continue;
    }
    const Hash128 key = codegen::to_program_key(body, options);
    s.keys.emplace_back(key);
    requests.try_emplace(key, KernelRequest{body, s.spec->no_contract,
                                            strf("call %zu of entry %s", i, s.spec->name.c_str())});
  }
  return {};
}

Status check_specs(std::span<const EntrySpec> entries) {
  std::set<std::string> names;
  for (const EntrySpec& e : entries) {
    if (e.name.empty() || !names.insert(e.name).second)
      return fail(Errc::kInvalid, strf("entry '%s' is unnamed or appears twice", e.name.c_str()));
    if (e.outputs.empty())
      return fail(Errc::kInvalid, strf("entry %s has no outputs", e.name.c_str()));
    std::set<std::string> tensors[2];
    for (int is_output = 0; is_output < 2; ++is_output)
      for (const Binding& b : is_output ? e.outputs : e.inputs)
        if (b.node == nullptr || !tensors[is_output].insert(b.name).second)
          return fail(Errc::kInvalid, strf("entry %s: tensor '%s' has no node or appears twice",
                                           e.name.c_str(), b.name.c_str()));
  }
  return {};
}

}  // namespace

CompileOptions default_compile_options(const hal::Target& target) {
  CompileOptions out;
  out.target = target;
  out.cache_dir = modeld::cache_dir();
  return out;
}

std::shared_ptr<ProgramCache> make_program_cache(const std::string& image_dir) {
  return std::make_shared<ProgramCache>(image_dir);
}

Result<Plan> compile_plan(ir::Graph& g,
                          std::span<const EntrySpec> entries,
                          const tensor::WeightStore& weights,
                          const CompileOptions& options) {
  const int64_t start = now_ns();
  RETURN_IF_ERROR(check_specs(entries));
  RETURN_IF_ERROR(g.status());
  ASSIGN_OR_RETURN(Backend backend, make_backend(options));

  std::vector<Scheduled> scheduled;
  Requests requests;
  const schedule::ScheduleCacheStats cache_before = schedule::schedule_cache_stats();
  for (const EntrySpec& spec : entries) {
    if (options.progress)
      options.progress(CompileProgress{"schedule", scheduled.size(), entries.size()});
    ASSIGN_OR_RETURN(schedule::Schedule s, schedule_entry(g, spec));
    scheduled.push_back(Scheduled{&spec, std::move(s), {}});
    RETURN_IF_ERROR(collect_kernels(scheduled.back(), backend.codegen, requests));
  }

  const schedule::ScheduleCacheStats cache_after = schedule::schedule_cache_stats();

  std::vector<KernelRequest> distinct;  // by key: the order of Plan::programs
  for (const auto& [key, request] : requests) distinct.push_back(request);
  const auto cache =
      options.program_cache ? options.program_cache : make_program_cache(options.cache_dir);
  Plan plan;
  plan.target = options.target;
  plan.codegen_config = codegen::options_text(backend.codegen);
  plan.compiler = backend.compiler->identity();
  ASSIGN_OR_RETURN(const std::vector<LoweredRow> rows,
                   lower_and_compile(distinct, backend, *cache, options, plan.stats));

  plan.stats.schedule_hits = static_cast<uint64_t>(cache_after.hits - cache_before.hits);
  plan.stats.schedule_misses = static_cast<uint64_t>(cache_after.misses - cache_before.misses);
  PlanBuilder builder(g, weights, rows, plan);
  for (const Scheduled& s : scheduled) {
    const Status added = builder.add_entry(*s.spec, s.schedule, s.keys);
    if (!added.ok()) return fail(Error(added.error()).with("entry " + s.spec->name));
  }
  RETURN_IF_ERROR(builder.finish());
  plan.stats.total_ns = now_ns() - start;
  return plan;
}

}  // namespace modeld::exec
