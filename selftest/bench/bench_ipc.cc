// bench_ipc: what the daemon itself costs, without the model: from recvmsg of the frame in the
// supervisor to the return of zmq_send, over the hop to the worker and back. The device is `null`
// (it answers with the bundle's golden outputs), models are the small ones, cameras run at 20 Hz.
// A subscriber's receipt is shown beside it. Contract: one JSON object, one closing line with the
// strict limits; a limit that is not held is printed, not failed. A start of the daemon without
// samples is: it has no figures.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <optional>

#include "hal/base/env.h"

#include "selftest/e2e/harness.h"

namespace modeld::bench {
namespace {

using e2e::Output;

constexpr double kLimitP50Us = 150;
constexpr double kLimitP99Us = 1000;
constexpr int64_t kLoadMs = 60'000;

struct Figures {
  double p50_us = 0, p99_us = 0;                  // to the return of zmq_send
  double receipt_p50_us = 0, receipt_p99_us = 0;  // to the subscriber
};

double quantile_us(std::vector<int64_t>& ns, double p) {
  std::sort(ns.begin(), ns.end());
  const auto at = static_cast<size_t>(p * static_cast<double>(ns.size()));
  return static_cast<double>(ns[std::min(at, ns.size() - 1)]) / 1e3;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// One start of the daemon, `count` valid messages of `model`; nothing if it sent none.
std::optional<Figures> measure(const std::string& model, size_t count) {
  e2e::RigOptions options;
  options.bundles[model] = e2e::standin_bundle(model, "small");
  options.device = "null";
  options.publish_raw = false;
  e2e::Rig rig(options);
  const auto valid = [&] {
    std::vector<Output> out;
    for (const Output& o : rig.tap().outputs(model)) {
      if (o.header.valid) out.push_back(o);
    }
    return out;
  };
  // One more: a message tells how long the one before it took.
  const auto limit_ms = static_cast<int64_t>(count) * 100 + kLoadMs;
  EXPECT_TRUE(rig.tap().wait_for([&] { return valid().size() > count; }, limit_ms));
  std::vector<int64_t> sent, received;
  const std::vector<Output> all = valid();
  for (size_t i = 0; i + 1 < all.size(); ++i) {
    if (all[i + 1].timings.previous_latency_ns > 0)
      sent.push_back(all[i + 1].timings.previous_latency_ns);
    received.push_back(all[i].at_ns - all[i].timings.received_ns);
  }
  if (sent.empty() || received.empty()) return std::nullopt;
  return Figures{quantile_us(sent, 0.50), quantile_us(sent, 0.99), quantile_us(received, 0.50),
                 quantile_us(received, 0.99)};
}

const char* verdict(bool held) {
  return held ? "held" : "NOT HELD";
}

bool run(size_t count, int runs) {
  for (const char* model : {"road", "cabin"}) {
    std::vector<double> p50, p99, receipt_p50, receipt_p99;
    for (int i = 0; i < runs; ++i) {
      const std::optional<Figures> f = measure(model, count);
      if (!f.has_value()) {
        std::printf("bench_ipc: %s no samples\n", model);
        return false;
      }
      p50.push_back(f->p50_us);
      p99.push_back(f->p99_us);
      receipt_p50.push_back(f->receipt_p50_us);
      receipt_p99.push_back(f->receipt_p99_us);
    }
    Json out = Json::object();
    out.set("model", std::string(model) + " small").set("device", "null");
    out.set("frames", count).set("runs", runs);
    out.set("p50_us", median(p50)).set("p99_us", median(p99));
    out.set("receipt_p50_us", median(receipt_p50)).set("receipt_p99_us", median(receipt_p99));
    std::printf("%s\n", out.dump().c_str());
    std::printf(
        "bench_ipc: %s p50 %.0f us (limit 150, %s), p99 %.0f us (limit 1000, %s); subscriber has "
        "it after %.0f us, p99 %.0f us\n",
        model, median(p50), verdict(median(p50) <= kLimitP50Us), median(p99),
        verdict(median(p99) <= kLimitP99Us), median(receipt_p50), median(receipt_p99));
  }
  return true;
}

}  // namespace
}  // namespace modeld::bench

int main(int argc, char** argv) {
  CLI::App app("The daemon's own time per frame, without the model");
  size_t count = 2000;
  int runs = 5;
  app.add_option("--count", count, "frames per run")
      ->check(CLI::Range(10, 1'000'000))
      ->capture_default_str();
  app.add_option("--runs", runs, "starts of the daemon, the median counts")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  app.footer(modeld::env_help());
  CLI11_PARSE(app, argc, argv);
  const bool has_figures = modeld::bench::run(count, runs);
  return has_figures && !testing::Test::HasFailure() ? 0 : 1;
}
