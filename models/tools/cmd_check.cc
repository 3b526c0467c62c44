// modelc check: a bundle's numbers on a device against the reference, per output or per kernel.
#include <CLI/CLI.hpp>

#include "hal/backends.h"
#include "hal/base/usage.h"

#include "models/tools/commands.h"
#include "models/tools/golden.h"
#include "models/tools/kernel_check.h"
#include "models/tools/progress.h"
#include "models/tools/reference_plan.h"

namespace modeld::tools {
namespace {

struct Args {
  BundleArgs bundle;
  std::string device = "cpu";
  bool layers = false;
  uint64_t seed = 0;
  int jobs = 2;
};

struct Row {
  std::string name, used_by;
  Comparison comparison;
};

Result<std::vector<Row>> compare_layers(const bundle::Manifest& m,
                                        const KernelSide& subject,
                                        const KernelSide& truth,
                                        uint64_t seed) {
  ASSIGN_OR_RETURN(const auto kernels, check_kernels(m, subject, truth, seed));
  std::vector<Row> rows;
  for (const KernelResult& k : kernels) rows.push_back({k.name, k.used_by, k.worst});
  return rows;
}

Result<std::vector<Row>> compare_outputs(const bundle::Manifest& m,
                                         const KernelSide& subject,
                                         const KernelSide& truth,
                                         uint64_t seed) {
  ASSIGN_OR_RETURN(const GoldenData golden, make_golden(m, truth, seed));
  ASSIGN_OR_RETURN(const auto outputs, check_golden(m, golden.row, golden.bytes, subject));
  std::vector<Row> rows;
  for (const OutputResult& o : outputs) rows.push_back({o.name, "output of run", o.comparison});
  return rows;
}

void print_rows(Context& ctx, const std::vector<Row>& rows, size_t bad) {
  Json list = Json::array();
  for (const Row& r : rows) {
    Json row = Json::object();
    row.set("name", r.name);
    row.set("used_by", r.used_by);
    row.set("ok", r.comparison.is_equal_enough);
    row.set("max_abs_error", r.comparison.max_abs_error);
    row.set("limit", r.comparison.limit);
    row.set("max_reference", r.comparison.max_reference);
    list.push(std::move(row));
    if (!ctx.json)
      print_text(strf("%s  %s  (%s)  %s\n", r.comparison.is_equal_enough ? "ok  " : "FAIL",
                      r.name.c_str(), r.used_by.c_str(), r.comparison.text().c_str()));
  }
  if (ctx.json) {
    Json out = Json::object();
    out.set("ok", bad == 0);
    out.set("rows", std::move(list));
    print_json(ctx, out);
  } else {
    print_text(strf("%zu of %zu within tolerance\n", rows.size() - bad, rows.size()));
  }
}

Status run(const Args& args, Context& ctx) {
  ASSIGN_OR_RETURN(const auto b, open_bundle(ctx, args.bundle));
  const bundle::Manifest& m = b->manifest();
  ASSIGN_OR_RETURN(const auto device, open_device_for(ctx, *b, args.device));
  ASSIGN_OR_RETURN(const auto cpu, hal::open_device("cpu"));
  const exec::Plan plan = b->to_plan();
  ASSIGN_OR_RETURN(const hal::Target host, hal::parse_target("cpu"));
  exec::CompileOptions options = exec::default_compile_options(host);
  options.jobs = args.jobs;
  Progress progress;
  options.progress = [&](const exec::CompileProgress& p) {
    progress.show(std::string("reference ") + p.stage, p.done, p.total);
  };
  ASSIGN_OR_RETURN(const exec::Plan reference, reference_plan(plan, options));
  progress.clear();
  exec::PlanSources truth_sources;
  truth_sources.weights = b->sources().weights;
  const KernelSide subject{&plan, b->sources(), device.get()};
  const KernelSide truth{&reference, truth_sources, cpu.get()};
  const auto compare_all = args.layers ? compare_layers : compare_outputs;
  ASSIGN_OR_RETURN(const auto rows, compare_all(m, subject, truth, args.seed));
  size_t bad = 0;
  for (const Row& r : rows) bad += r.comparison.is_equal_enough ? 0 : 1;
  print_rows(ctx, rows, bad);
  if (bad > 0)
    return fail(Errc::kMismatch, strf("%zu of %zu differ from the reference", bad, rows.size()));
  return {};
}

}  // namespace

Command add_check(CLI::App& app) {
  auto args = std::make_shared<Args>();
  add_bundle_options(app, args->bundle);
  app.add_option("--device", args->device, "device URI")->capture_default_str();
  app.add_flag("--layers", args->layers, "every kernel alone instead of the outputs");
  app.add_option("--seed", args->seed, "of the inputs")
      ->capture_default_str()
      ->check(whole_number_defect);
  app.add_option("--jobs", args->jobs, "compiler processes")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  return [args](Context& ctx) { return run(*args, ctx); };
}

}  // namespace modeld::tools
