// How long scheduling takes with nothing cached, and how its cost grows with the graph: a model's
// `run` entry cold, and chains of 1 000 to 10 000 nodes with the exponent of their growth.
// Contract: strict limits times --slack; a missed one exits 1. Threading: one thread, so "one
// core".
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <vector>

#include "hal/base/env.h"
#include "hal/base/fs.h"

#include "runtime/schedule/schedule.h"

#include "models/onnx/onnx_import.h"
#include "models/reference/reference.h"

namespace modeld::bench {
namespace {

constexpr double kModelLimitS = 0.5;
constexpr std::array<int64_t, 4> kLengths = {1000, 2000, 5000, 10000};
constexpr int kRepeats = 3;

struct Args {
  std::string model;  // an ONNX file instead of the stand-in
  std::vector<std::string> shapes;
  std::string role = "road", size = "full";
  bool chain = false;
  double slack = 1;
};

// What this thread worked, so that other work on the machine does not count.
double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

schedule::ScheduleOptions cold() {
  schedule::ScheduleOptions options;
  options.cache = false;
  return options;
}

std::string verdict(double value, double limit) {
  return strf("limit %g, %s", limit, value <= limit ? "held" : "NOT HELD");
}

// ---- a model ----

struct Scheduled {
  double seconds = 0;
  size_t calls = 0, nodes = 0;
};

Result<Scheduled> schedule_file(const std::string& path, const Args& args) {
  onnx_import::ImportOptions options;
  for (const std::string& s : args.shapes) {
    ASSIGN_OR_RETURN(auto shape, onnx_import::parse_shape_option(s));
    options.shapes.insert(std::move(shape));
  }
  ir::Graph g;
  ASSIGN_OR_RETURN(const auto model, onnx_import::import_onnx(g, path, options));
  ir::NodeVec outputs;
  for (const auto& out : model.outputs) outputs.push_back(out.tensor.node());
  Scheduled result;
  result.nodes = ir::toposort(ir::sink(g, outputs)).size();
  const double start = cpu_seconds();
  ASSIGN_OR_RETURN(const auto s, schedule::make_schedule(g, outputs, cold()));
  result.seconds = cpu_seconds() - start;
  result.calls = s.linear->nsrc;
  return result;
}

Status bench_model(const Args& args, const std::string& dir, bool* held) {
  std::string path = args.model;
  std::string name = args.model;
  if (path.empty()) {
    reference::ReferenceOptions standin;
    ASSIGN_OR_RETURN(standin.role, reference::parse_role(args.role));
    ASSIGN_OR_RETURN(standin.size, reference::parse_size(args.size));
    path = join_path(dir, "standin.onnx");
    RETURN_IF_ERROR(reference::write_reference(standin, path));
    name = args.role + " " + args.size;
  }
  std::vector<double> times;
  Scheduled last;
  for (int i = 0; i < kRepeats; i++) {
    ASSIGN_OR_RETURN(last, schedule_file(path, args));
    times.push_back(last.seconds);
  }
  std::sort(times.begin(), times.end());
  const double median = times[times.size() / 2];
  const double limit = kModelLimitS * args.slack;
  *held = *held && median < limit;
  std::printf("bench_schedule: %s, %zu nodes to %zu calls, cold in %.3f s on one core (%s)\n",
              name.c_str(), last.nodes, last.calls, median, verdict(median, limit).c_str());
  return {};
}

// ---- chains ----

const ir::Node* input(ir::Graph& g) {
  return ir::buffer(g, g.fresh(), ir::DType::kF32, 16, ir::AddrSpace::kGlobal, "CPU");
}

// One kernel whose body is as long as the chain.
const ir::Node* elementwise_chain(ir::Graph& g, int64_t n) {
  const ir::Node *x = input(g), *a = input(g), *b = input(g);
  for (int64_t i = 0; i < n; i++)
    x = i % 2 == 0 ? ir::add(g, x, a) : ir::alu(g, ir::Op::kMax, {x, b});
  return x;
}

// A kernel per node: each waits on the one before.
const ir::Node* kernel_chain(ir::Graph& g, int64_t n) {
  const ir::Node *x = input(g), *a = input(g);
  for (int64_t i = 0; i < n; i++)
    x = g.make(ir::Op::kContiguous, ir::DType::kF32, {ir::add(g, x, a)});
  return x;
}

// States of one buffer, each read and written by the next.
const ir::Node* assign_chain(ir::Graph& g, int64_t n) {
  const ir::Node *x = input(g), *a = input(g);
  for (int64_t i = 0; i < n; i++) {
    const ir::Node* store = g.make(ir::Op::kStore, ir::DType::kVoid, {x, ir::add(g, x, a)});
    x = g.make(ir::Op::kAfter, ir::DType::kF32, {x, store});
  }
  return x;
}

struct Chain {
  const char* name;
  const ir::Node* (*make)(ir::Graph&, int64_t);
};
constexpr Chain kChains[] = {
    {"elementwise", elementwise_chain}, {"kernels", kernel_chain}, {"assigns", assign_chain}};

Result<double> chain_seconds(const Chain& chain, int64_t n) {
  double best = 0;
  for (int i = 0; i < kRepeats; i++) {
    ir::Graph g;
    const ir::Node* x = chain.make(g, n);
    const double start = cpu_seconds();
    ASSIGN_OR_RETURN(const auto s, schedule::make_schedule(g, std::span(&x, 1), cold()));
    const double seconds = cpu_seconds() - start;
    best = i == 0 ? seconds : std::min(best, seconds);
    if (s.linear->nsrc == 0) return fail(Errc::kInternal, "an empty schedule");
  }
  return best;
}

// Least squares of log(t) against log(n): t ~ n^slope.
double slope(const std::vector<double>& seconds, double (*cost)(double)) {
  double sx = 0, sy = 0, sxx = 0, sxy = 0;
  const auto count = static_cast<double>(seconds.size());
  for (size_t i = 0; i < seconds.size(); i++) {
    const double x = std::log(cost(static_cast<double>(kLengths[i])));
    const double y = std::log(seconds[i]);
    sx += x, sy += y, sxx += x * x, sxy += x * y;
  }
  return (count * sxy - sx * sy) / (count * sxx - sx * sx);
}

// Against n log n the slope is 1 at most; what is above it is noise of the clock and of caches.
constexpr double kSlopeLimit = 1.0;
constexpr double kSlopeNoise = 0.15;

Status bench_chains(const Args& args, bool* held) {
  for (const Chain& chain : kChains) {
    std::vector<double> seconds;
    std::string figures;
    for (const int64_t n : kLengths) {
      ASSIGN_OR_RETURN(const double s, chain_seconds(chain, n));
      seconds.push_back(s);
      figures += strf(" %lld: %.4f s", static_cast<long long>(n), s);
    }
    const double fit = slope(seconds, [](double n) { return n * std::log2(n); });
    const double limit = kSlopeLimit + kSlopeNoise * args.slack;
    *held = *held && fit <= limit;
    std::printf("bench_schedule: chain of %s,%s; cost ~ (n log n)^%.2f (%s)\n", chain.name,
                figures.c_str(), fit, verdict(fit, limit).c_str());
  }
  return {};
}

Status run(const Args& args, bool* held) {
  ASSIGN_OR_RETURN(const TempDir dir, TempDir::create("modeld-bench"));
  if (!args.chain) RETURN_IF_ERROR(bench_model(args, dir.path(), held));
  RETURN_IF_ERROR(bench_chains(args, held));
  std::printf("bench_schedule: %s\n", *held ? "every limit held" : "a limit was NOT HELD");
  return {};
}

}  // namespace
}  // namespace modeld::bench

int main(int argc, char** argv) {
  using namespace modeld;
  CLI::App app("Time of scheduling a model cold, and its growth with the graph");
  bench::Args args;
  CLI::Option* model = app.add_option("--model", args.model, "an ONNX file instead of a stand-in");
  app.add_option("--shape", args.shapes, "NAME=1x3x320x320, binds dynamic dimensions")
      ->needs(model);
  app.add_option("--role", args.role, "stand-in: road or cabin")
      ->capture_default_str()
      ->excludes(model);
  app.add_option("--size", args.size, "tiny, small or full")
      ->capture_default_str()
      ->excludes(model);
  app.add_flag("--chain", args.chain, "only the chains");
  app.add_option("--slack", args.slack, "multiplies the limits; for busy machines")
      ->capture_default_str()
      ->check(CLI::Range(1.0, 100.0));
  app.footer(env_help());
  CLI11_PARSE(app, argc, argv);
  bool held = true;
  const Status done = bench::run(args, &held);
  if (done.ok()) return held ? 0 : 1;
  std::fprintf(stderr, "%s: %s\n", argv[0], done.error().what.c_str());
  return 1;
}
