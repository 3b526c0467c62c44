// What the benchmarks share: options, a stand-in bundle to measure, statistics, the closing line.
// This is not a test: a figure over its limit is printed as such, and only an error exits 1.
// Contract: fixed inputs; stdout carries one JSON object per measurement and one closing line;
// limits are those of the issues, strict, for an idle machine. Units are in the names. Threading:
// one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hal/base/fs.h"
#include "hal/base/json.h"
#include "hal/base/status.h"

#include "models/tools/build_model.h"

namespace modeld::bench {

struct Options {
  std::string role = "road";
  std::string size = "full";
  std::string dtype = "f32";
  std::string renderer = "c";
  std::string bundle;  // measure this file instead of a stand-in
  int count = 0;       // 0: the benchmark's own
  int jobs = 2;
};

struct Stats {
  double min = 0, median = 0, p99 = 0, max = 0;
};
// Nearest rank; CHECK(values is not empty).
Stats summarize(std::vector<double> values);
Json stats_json(const Stats& stats);

// The stand-in's ONNX file in `dir`.
Result<std::string> make_onnx(const Options& options, const std::string& dir);
// What `modelc build` does, with a kernel cache of its own in `dir` (cold) or the user's.
struct Built {
  std::string path;
  tools::BuildReport report;
};
Result<Built> build_bundle(const Options& options,
                           const std::string& onnx,
                           const std::string& dir,
                           bool is_cold);
// options.bundle, or a stand-in built into `dir` with the user's kernel cache.
Result<std::string> bundle_to_measure(const Options& options, const std::string& dir);

// "limit 60, held" or "limit 60, NOT HELD".
std::string verdict(double value, double limit);

// Parses the options and runs the body in a temporary directory.
int bench_main(int argc,
               char** argv,
               const char* about,
               const Options& defaults,
               const std::function<Status(const Options&, const std::string& dir)>& body);

}  // namespace modeld::bench
