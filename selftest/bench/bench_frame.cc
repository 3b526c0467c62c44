#include "selftest/bench/bench_frame.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "hal/base/check.h"
#include "hal/base/env.h"

#include "models/reference/reference.h"

namespace modeld::bench {

Stats summarize(std::vector<double> values) {
  CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const size_t p99 = (values.size() * 99 + 99) / 100;
  return {values.front(), values[values.size() / 2], values[std::max<size_t>(p99, 1) - 1],
          values.back()};
}

Json stats_json(const Stats& stats) {
  Json out = Json::object();
  out.set("min", stats.min);
  out.set("median", stats.median);
  out.set("p99", stats.p99);
  out.set("max", stats.max);
  return out;
}

Result<std::string> make_onnx(const Options& options, const std::string& dir) {
  reference::ReferenceOptions what;
  ASSIGN_OR_RETURN(what.role, reference::parse_role(options.role));
  ASSIGN_OR_RETURN(what.size, reference::parse_size(options.size));
  ASSIGN_OR_RETURN(what.dtype, reference::parse_dtype(options.dtype));
  const std::string path = join_path(dir, options.role + ".onnx");
  auto made = reference::write_reference(what, path);
  if (!made.ok()) return fail(std::move(made).error());
  return path;
}

Result<Built> build_bundle(const Options& options,
                           const std::string& onnx,
                           const std::string& dir,
                           bool is_cold) {
  tools::BuildOptions what;
  what.onnx_path = onnx;
  what.output_path = join_path(dir, options.role + ".bundle");
  ASSIGN_OR_RETURN(what.target, hal::parse_target("cpu"));
  what.target.renderer = options.renderer;
  what.target.threads = options.role == "cabin" ? 1 : 2;
  ASSIGN_OR_RETURN(what.role, bundle::parse_role(options.role));
  ASSIGN_OR_RETURN(what.cameras, tools::parse_cameras("1928x1208,1344x760"));
  what.jobs = options.jobs;
  // The build's own cache rule, pointed at an empty place.
  if (is_cold) setenv("MODELD_CACHE_DIR", join_path(dir, "cache").c_str(), 1);
  ASSIGN_OR_RETURN(tools::BuildReport report, tools::build_model(what));
  return Built{what.output_path, std::move(report)};
}

Result<std::string> bundle_to_measure(const Options& options, const std::string& dir) {
  if (!options.bundle.empty()) return options.bundle;
  ASSIGN_OR_RETURN(const std::string onnx, make_onnx(options, dir));
  ASSIGN_OR_RETURN(const Built built, build_bundle(options, onnx, dir, false));
  return built.path;
}

std::string verdict(double value, double limit) {
  return strf("limit %g, %s", limit, value <= limit ? "held" : "NOT HELD");
}

int bench_main(int argc,
               char** argv,
               const char* about,
               const Options& defaults,
               const std::function<Status(const Options&, const std::string& dir)>& body) {
  CLI::App app(about);
  Options options = defaults;
  app.add_option("--role", options.role, "stand-in: road or cabin")->capture_default_str();
  app.add_option("--size", options.size, "tiny, small or full")->capture_default_str();
  app.add_option("--dtype", options.dtype, "f32 or f16")->capture_default_str();
  app.add_option("--bundle", options.bundle, "measure this file instead of a stand-in");
  app.add_option("--count", options.count, "repetitions")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--jobs", options.jobs, "compiler processes")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  app.footer(env_help());
  CLI11_PARSE(app, argc, argv);
  const auto dir = TempDir::create("modeld-bench");
  const Status done = dir.ok() ? body(options, dir->path()) : Status(fail(Error(dir.error())));
  if (done.ok()) return 0;
  std::fprintf(stderr, "%s: %s\n", argv[0], done.error().what.c_str());
  return 1;
}

}  // namespace modeld::bench
