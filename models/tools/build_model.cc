#include "models/tools/build_model.h"

#include <algorithm>

#include "hal/backends.h"
#include "hal/base/fs.h"

#include "runtime/exec/lower_and_compile.h"
#include "runtime/exec/prepare.h"
#include "runtime/ir/print.h"

#include "models/bundle/bundle_reader.h"
#include "models/tools/cli.h"
#include "models/tools/golden.h"
#include "models/tools/kernel_time.h"
#include "models/tools/reference_plan.h"

namespace modeld::tools {
namespace {

constexpr uint64_t kGoldenSeed = 1;

exec::CompileOptions compile_options(const BuildOptions& options, const char* prefix) {
  exec::CompileOptions out = exec::default_compile_options(options.target);
  out.jobs = options.jobs;
  out.keep_sources = !options.report_dir.empty();  // the bundle itself stays the same
  if (options.progress)
    out.progress = [&options, prefix](const exec::CompileProgress& p) {
      options.progress(std::string(prefix) + p.stage, p.done, p.total);
    };
  return out;
}

// Every kernel with the opts another bundle recorded. Those that differ from the rule's choice are
// lowered again before anything is compiled.
Status replay_opts(exec::Plan& plan,
                   const exec::Recipes& recipes,
                   const exec::CompileOptions& options) {
  exec::CompileOptions lower = options;
  lower.lower_only = true;
  const uint64_t lowered = plan.stats.lowered;
  auto changed = exec::retune(plan, recipes, exec::NoRecipe::kRefuse, lower);
  if (!changed.ok()) return fail(std::move(changed).error().with("opts of another bundle"));
  ASSIGN_OR_RETURN(const exec::PrepareReport made,
                   exec::prepare(plan, exec::PreparePolicy::kMissing, options));
  if (made.prepared == 0) return {};
  plan.stats.kernels = made.stats.kernels;
  plan.stats.lowered = std::min(lowered, made.stats.kernels);
  plan.stats.cold = made.stats.cold;
  plan.stats.memory_hits = made.stats.memory_hits;
  plan.stats.disk_hits = made.stats.disk_hits;
  plan.stats.lower_ns += made.stats.lower_ns;
  plan.stats.compile_ns += made.stats.compile_ns;
  return {};
}

Status search_opts(exec::Plan& plan,
                   const BuildOptions& options,
                   const exec::CompileOptions& compile,
                   BuildReport& report) {
  exec::BeamOptions beam;
  beam.width = options.beam;
  beam.compile = compile;
  beam.progress = options.progress;
  auto found = exec::beam_plan(plan, beam);
  if (!found.ok()) return fail(std::move(found).error().with("--beam"));
  report.beam = std::move(*found);
  return {};
}

// What the compiled model and its reference have in common.
struct Draft {
  bundle::Manifest manifest;
  exec::Plan reference;
  GoldenData golden;
};

Status compile_model(ir::Graph& g,
                     ImportedFile model,
                     const BuildOptions& options,
                     Draft& draft,
                     BuildReport& report) {
  const int64_t start = now_ns();
  ASSIGN_OR_RETURN(BuildGraph build,
                   make_build_graph(g, std::move(model.source), options.role, options.cameras));
  draft.manifest = std::move(build.manifest);
  draft.manifest.model_sha256 = model.sha256;
  draft.manifest.compiler_version = kCompilerVersion;
  exec::CompileOptions compile = compile_options(options, "");
  compile.program_cache = exec::make_program_cache(compile.cache_dir);
  compile.lower_only = options.recipes.has_value();
  ASSIGN_OR_RETURN(draft.manifest.plan,
                   exec::compile_plan(g, build.entries, model.weights, compile));
  compile.lower_only = false;
  exec::Plan& plan = draft.manifest.plan;
  if (options.recipes) RETURN_IF_ERROR(replay_opts(plan, *options.recipes, compile));
  if (options.beam > 0) RETURN_IF_ERROR(search_opts(plan, options, compile, report));
  report.stats = plan.stats;
  report.arena_uses = plan.arena_uses;
  if (!options.report_dir.empty())
    for (const exec::ProgramRow& p : plan.programs) report.sources.push_back(p.source);
  report.compile_ns = now_ns() - start - (report.beam ? report.beam->search_ns : 0);
  return {};
}

// Reference kernels and golden vectors: computed on this host whatever the target is.
Status prove_model(const BuildOptions& options, Draft& draft, BuildReport& report) {
  int64_t start = now_ns();
  ASSIGN_OR_RETURN(draft.reference,
                   reference_plan(draft.manifest.plan, compile_options(options, "reference ")));
  report.reference_ns = now_ns() - start;
  start = now_ns();
  ASSIGN_OR_RETURN(const auto cpu, hal::open_device("cpu"));
  const KernelSide truth{&draft.reference, {}, cpu.get()};
  ASSIGN_OR_RETURN(draft.golden, make_golden(draft.manifest, truth, kGoldenSeed));
  report.golden_ns = now_ns() - start;
  return {};
}

// What only the pages of --report show: read back from the file, so that it is about what was
// written.
Status study_kernels(const BuildOptions& options, hal::Device* device, BuildReport& report) {
  ASSIGN_OR_RETURN(const auto b, bundle::Bundle::open(options.output_path));
  const exec::Plan plan = b->to_plan();
  const exec::CompileOptions compile = compile_options(options, "");
  ASSIGN_OR_RETURN(codegen::CodegenOptions codegen, exec::make_codegen_options(compile));
  const exec::Backend backend{std::move(codegen), nullptr};
  for (size_t i = 0; i < plan.programs.size(); ++i) {
    const exec::ProgramRow& program = plan.programs[i];
    ASSIGN_OR_RETURN(PassHistory history,
                     pass_history(program, backend.options_for(program.no_contract)));
    report.histories.push_back(std::move(history));
    if (options.progress) options.progress("report", i + 1, plan.programs.size());
  }
  // Times of an emulator would say nothing.
  if (device == nullptr || device->info().is_simulated) return {};
  ASSIGN_OR_RETURN(report.times_ns,
                   time_kernels(b->manifest(), {&plan, b->sources(), device}, kGoldenSeed));
  return {};
}

}  // namespace

Result<BuildReport> build_model(const BuildOptions& options) {
  const int64_t start = now_ns();
  // A folder that cannot be written or made should not be found out after minutes. The file goes
  // away at once.
  if (auto probe = AtomicFile::create(options.output_path); !probe.ok())
    return fail(std::move(probe).error());
  if (!options.report_dir.empty()) RETURN_IF_ERROR(make_dirs(options.report_dir));
  ir::Graph graph;
  ASSIGN_OR_RETURN(ImportedFile model, import_model(graph, options.onnx_path, options.shapes));
  const int64_t import_ns = now_ns() - start;
  ASSIGN_OR_RETURN(BuildReport report, build_source(graph, std::move(model), options));
  report.import_ns = import_ns;
  RETURN_IF_ERROR(write_text_atomic(options.output_path + ".report.json",
                                    report_json(options, report).dump(2) + "\n"));
  return report;
}

Result<BuildReport> build_source(ir::Graph& g, ImportedFile model, const BuildOptions& options) {
  BuildReport report;
  Draft draft;
  RETURN_IF_ERROR(compile_model(g, std::move(model), options, draft, report));
  RETURN_IF_ERROR(prove_model(options, draft, report));

  const int64_t start = now_ns();
  ASSIGN_OR_RETURN(const auto device, open_check_device(draft.manifest.plan.target));
  bundle::BundleContent content;
  content.manifest = std::move(draft.manifest);
  content.manifest.golden = {draft.golden.row};
  content.manifest.self_check = device == nullptr ? bundle::SelfCheck::kNone : options.self_check;
  content.golden = std::move(draft.golden.bytes);
  ASSIGN_OR_RETURN(
      report.written,
      bundle::write_bundle(
          options.output_path, std::move(content), [&](const std::string& temp) -> Status {
            if (device == nullptr) return {};
            ASSIGN_OR_RETURN(report.check,
                             self_check(temp, options.self_check, *device, draft.reference));
            return {};
          }));
  report.write_ns = now_ns() - start - report.check.total_ns;
  if (options.report_dir.empty()) return report;
  RETURN_IF_ERROR(study_kernels(options, device.get(), report));
  RETURN_IF_ERROR(write_report(options.report_dir, report_data(options, report)));
  return report;
}

ReportData report_data(const BuildOptions& options, const BuildReport& r) {
  ReportData out;
  out.title = base_name(options.output_path);
  out.file_bytes = r.written.file_bytes;
  out.manifest = &r.written.manifest;
  out.stats = r.stats;
  out.arena_uses = r.arena_uses;
  out.sources = r.sources;
  out.histories = r.histories;
  out.times_ns = r.times_ns;
  out.beam = r.beam ? &*r.beam : nullptr;
  return out;
}

namespace {

const char* origin_name(exec::BeamKernel::Origin origin) {
  switch (origin) {
    case exec::BeamKernel::Origin::kSearched:
      return "searched";
    case exec::BeamKernel::Origin::kCached:
      return "cached";
    case exec::BeamKernel::Origin::kSkipped:
      return "skipped";
  }
  return "?";
}

Json beam_json(const exec::BeamReport& b) {
  Json out = Json::object();
  out.set("entry", b.entry);
  out.set("rule_ms", b.heuristic_ms);
  out.set("winner_ms", b.winner_ms);
  out.set("is_kept", b.is_kept);
  out.set("is_cached", b.is_cached);
  out.set("changed", b.changed);
  out.set("tried", b.tried);
  out.set("compiled", b.compiled);
  out.set("timed", b.timed);
  out.set("search_ms", static_cast<double>(b.search_ns) / 1e6);
  Json kernels = Json::array();
  for (const exec::BeamKernel& k : b.kernels) {
    Json row = Json::object();
    row.set("name", k.name);
    row.set("calls", k.calls);
    row.set("origin", origin_name(k.origin));
    row.set("rule_opts", ir::opts_text(k.finding.heuristic));
    row.set("winner_opts", ir::opts_text(k.finding.winner));
    row.set("rule_us", k.finding.heuristic_us);
    row.set("winner_us", k.finding.winner_us);
    row.set("is_winner", k.finding.is_winner);
    row.set("note", k.finding.note);
    kernels.push(std::move(row));
  }
  out.set("kernels", std::move(kernels));
  return out;
}

// "; beam 4: 12 of 57 kernels changed, run 8.31 ms -> 7.02 ms"
std::string beam_text(const BuildOptions& options, const exec::BeamReport& b) {
  std::string out =
      strf("; beam %d: %zu of %zu kernels changed", options.beam, b.changed, b.kernels.size());
  if (b.heuristic_ms > 0)
    out += strf(", %s %.3f ms -> %.3f ms%s", b.entry.c_str(), b.heuristic_ms, b.winner_ms,
                b.is_kept ? "" : " (not kept)");
  return out + strf(", %s%s", b.is_cached ? "from cache, " : "", time_text(b.search_ns).c_str());
}

// "quick: 57 kernels, 2 outputs in 4.1 s", "none: this host lacks sse4a; golden vectors in 4.1 s"
std::string self_check_text(const BuildReport& r) {
  const bundle::Manifest& m = r.written.manifest;
  const std::string time = time_text(r.proof_ns());
  if (m.self_check == bundle::SelfCheck::kNone)
    return strf("none: %s; golden vectors in %s", why_no_check_device(m.plan.target).c_str(),
                time.c_str());
  return strf("%s: %zu kernels, %zu outputs in %s", bundle::self_check_name(m.self_check),
              r.check.kernels, r.check.outputs, time.c_str());
}

}  // namespace

Json report_json(const BuildOptions& options, const BuildReport& r) {
  const auto ms = [](int64_t ns) { return static_cast<double>(ns) / 1e6; };
  const bundle::Manifest& m = r.written.manifest;
  Json out = Json::object();
  out.set("bundle", base_name(options.output_path));
  out.set("bytes", r.written.file_bytes);
  out.set("target", hal::print_target(m.plan.target));
  uint64_t calls = 0;
  for (const exec::Entry& e : m.plan.entries) calls += e.calls.size();
  out.set("kernels", m.plan.programs.size());
  out.set("calls", calls);
  Json compiled = Json::object();
  compiled.set("schedule_hits", r.stats.schedule_hits);
  compiled.set("schedule_misses", r.stats.schedule_misses);
  compiled.set("asked", r.stats.kernels);
  compiled.set("program_hits", r.stats.kernels - r.stats.lowered);
  compiled.set("cold", r.stats.cold);
  compiled.set("memory_hits", r.stats.memory_hits);
  compiled.set("disk_hits", r.stats.disk_hits);
  compiled.set("lower_ms", ms(r.stats.lower_ns));
  compiled.set("compile_ms", ms(r.stats.compile_ns));
  out.set("compiled", std::move(compiled));
  Json memory = Json::object();
  memory.set("sum_bytes", m.plan.memory.sum_bytes);
  memory.set("planned_bytes", m.plan.memory.planned_bytes);
  memory.set("bound_bytes", m.plan.arena_bound());
  memory.set("resident_bytes", m.plan.memory.resident_bytes);
  out.set("memory", std::move(memory));
  Json times = Json::object();
  times.set("import_ms", ms(r.import_ns));
  times.set("compile_ms", ms(r.compile_ns));
  times.set("write_ms", ms(r.write_ns));
  times.set("build_ms", ms(r.build_ns()));
  times.set("reference_ms", ms(r.reference_ns));
  times.set("golden_ms", ms(r.golden_ns));
  times.set("self_check_ms", ms(r.check.total_ns));
  times.set("proof_ms", ms(r.proof_ns()));
  times.set("is_cold", r.stats.cold == r.stats.kernels);
  out.set("times", std::move(times));
  Json check = Json::object();
  check.set("kind", bundle::self_check_name(m.self_check));
  check.set("kernels", r.check.kernels);
  check.set("outputs", r.check.outputs);
  check.set("max_abs_error", r.check.worst_output.max_abs_error);
  check.set("limit", r.check.worst_output.limit);
  out.set("self_check", std::move(check));
  if (r.beam) out.set("beam", beam_json(*r.beam));
  return out;
}

std::string report_line(const BuildOptions& options, const BuildReport& r) {
  const bundle::Manifest& m = r.written.manifest;
  uint64_t calls = 0;
  for (const exec::Entry& e : m.plan.entries) calls += e.calls.size();
  return strf(
      "%s: %s, %zu kernels (%llu cold, %llu memory, %llu disk), %llu calls, memory sum %s planned "
      "%s "
      "bound %s, built in %s; self-check %s%s\n",
      options.output_path.c_str(), bytes_text(r.written.file_bytes).c_str(), m.plan.programs.size(),
      static_cast<unsigned long long>(r.stats.cold),
      static_cast<unsigned long long>(r.stats.memory_hits),
      static_cast<unsigned long long>(r.stats.disk_hits), static_cast<unsigned long long>(calls),
      bytes_text(m.plan.memory.sum_bytes).c_str(), bytes_text(m.plan.memory.planned_bytes).c_str(),
      bytes_text(m.plan.arena_bound()).c_str(), time_text(r.build_ns()).c_str(),
      self_check_text(r).c_str(), r.beam ? beam_text(options, *r.beam).c_str() : "");
}

}  // namespace modeld::tools
