// modelc prepare: compiles the calls that lack a binary on this device and writes the completed
// bundle. Everything else of it stays as it is.
#include <CLI/CLI.hpp>

#include "runtime/exec/prepare.h"

#include "models/bundle/bundle_writer.h"
#include "models/tools/commands.h"
#include "models/tools/progress.h"
#include "models/tools/session.h"

namespace modeld::tools {
namespace {

struct Args {
  BundleArgs bundle;
  std::string device, output;
  int jobs = 2;
};

bundle::BundleContent content_of(const bundle::Bundle& b, exec::Plan plan) {
  bundle::BundleContent out;
  out.manifest = b.manifest();
  out.manifest.plan = std::move(plan);
  out.weights = b.section(bundle::SectionKind::kWeights);
  const auto golden = b.section(bundle::SectionKind::kGolden);
  out.golden.assign(golden.begin(), golden.end());
  out.keep_sources = !b.section(bundle::SectionKind::kSources).empty();
  return out;
}

// The new file must load and run once on the device before it gets its name.
Status dry_run_file(const std::string& path, hal::Device& device) {
  ASSIGN_OR_RETURN(const auto b, bundle::Bundle::open(path));
  const exec::Plan plan = b->to_plan();
  ASSIGN_OR_RETURN(const auto loaded, exec::LoadedPlan::load(plan, device, b->sources()));
  return loaded->dry_run(Deadline::in_ms(kRunLimitMs));
}

Status run(const Args& args, Context& ctx) {
  ASSIGN_OR_RETURN(const auto b, open_bundle(ctx, args.bundle));
  ASSIGN_OR_RETURN(const auto device, open_device_for(ctx, *b, args.device));
  exec::Plan plan = b->to_plan(true);
  exec::CompileOptions options = exec::default_compile_options(plan.target);
  options.jobs = args.jobs;
  Progress progress;
  options.progress = [&](const exec::CompileProgress& p) {
    progress.show(p.stage, p.done, p.total);
  };
  ASSIGN_OR_RETURN(const exec::PrepareReport report,
                   exec::prepare(plan, exec::PreparePolicy::kMissing, options));
  progress.clear();
  const size_t kernels = plan.programs.size();
  ASSIGN_OR_RETURN(
      const bundle::WrittenBundle written,
      bundle::write_bundle(args.output, content_of(*b, std::move(plan)),
                           [&](const std::string& temp) { return dry_run_file(temp, *device); }));
  if (!ctx.json) {
    print_text(
        strf("wrote %s: %zu of %zu kernels compiled (%llu cold, %llu from memory, %llu from "
             "disk), %s\n",
             args.output.c_str(), report.prepared, kernels,
             static_cast<unsigned long long>(report.stats.cold),
             static_cast<unsigned long long>(report.stats.memory_hits),
             static_cast<unsigned long long>(report.stats.disk_hits),
             bytes_text(written.file_bytes).c_str()));
    return {};
  }
  Json out = Json::object();
  out.set("bundle", args.output);
  out.set("prepared", report.prepared);
  out.set("kernels", kernels);
  out.set("cold", report.stats.cold);
  out.set("memory_hits", report.stats.memory_hits);
  out.set("disk_hits", report.stats.disk_hits);
  out.set("file_bytes", written.file_bytes);
  print_json(ctx, out);
  return {};
}

}  // namespace

Command add_prepare(CLI::App& app) {
  auto args = std::make_shared<Args>();
  add_bundle_options(app, args->bundle);
  app.add_option("--device", args->device, "device URI")->required();
  app.add_option("-o,--output", args->output, "bundle to write")->required();
  app.add_option("--jobs", args->jobs, "compiler processes")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  return [args](Context& ctx) { return run(*args, ctx); };
}

}  // namespace modeld::tools
