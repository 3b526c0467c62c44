// modelc build, from an ONNX file to a checked bundle: import, graph, compile, reference, golden
// vectors, write, self-check, report. Contract: on any error there is no new bundle and an old one
// is untouched; same file and options give the same bytes, but for a search, whose result is
// measured (options.recipes repeats it). Times are measured in two parts: the build, and what
// proves it (reference, golden vectors, self-check). Threading: one thread calls; compiling uses
// options.jobs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hal/base/json.h"
#include "hal/target.h"

#include "runtime/exec/beam_plan.h"
#include "runtime/exec/compile_plan.h"
#include "runtime/exec/retune.h"

#include "models/bundle/bundle_writer.h"
#include "models/tools/build_graph.h"
#include "models/tools/import_model.h"
#include "models/tools/report/report.h"
#include "models/tools/self_check.h"

namespace modeld::tools {

struct BuildOptions {
  std::string onnx_path, output_path;
  hal::Target target;
  bundle::Role role = bundle::Role::kGeneric;
  std::map<std::string, std::vector<int64_t>> shapes;  // by input name
  std::vector<CameraSize> cameras;
  bundle::SelfCheck self_check = bundle::SelfCheck::kQuick;
  int jobs = 2;
  int beam = 0;  // width of a search of opts by timing; 0: the rule decides
  // Opts recorded in another bundle; every kernel must have its own there.
  std::optional<exec::Recipes> recipes;
  std::string report_dir;  // "": no report
  std::function<void(const std::string& stage, size_t done, size_t total)> progress;
};

struct BuildReport {
  bundle::WrittenBundle written;
  exec::CompileStats stats;
  std::optional<exec::BeamReport> beam;
  std::vector<exec::ArenaUse> arena_uses;
  // Per kernel, only with report_dir; times only where this host runs the target.
  std::vector<std::string> sources;
  std::vector<PassHistory> histories;
  std::vector<int64_t> times_ns;
  int64_t import_ns = 0, compile_ns = 0, write_ns = 0;  // compiling without the search
  int64_t reference_ns = 0, golden_ns = 0;
  SelfCheckReport check;

  int64_t build_ns() const { return import_ns + compile_ns + write_ns; }
  int64_t proof_ns() const { return reference_ns + golden_ns + check.total_ns; }
};

Result<BuildReport> build_model(const BuildOptions& options);

// The same from a graph that is there already: everything after the import.
Result<BuildReport> build_source(ir::Graph& g, ImportedFile model, const BuildOptions& options);

// What the pages of --report show; borrows from `report`.
ReportData report_data(const BuildOptions& options, const BuildReport& report);
// Measured times and counts, for OUTPUT.report.json beside the bundle; modeld never reads it.
Json report_json(const BuildOptions& options, const BuildReport& report);
// The one line at the end.
std::string report_line(const BuildOptions& options, const BuildReport& report);

constexpr const char* kCompilerVersion = "0.1.0";

}  // namespace modeld::tools
