// modelctl gate: the example consumer on the daemon's topics.
#include <cstdio>

#include "ipc/consumer/consumer.h"
#include "ipc/consumer/gate_log.h"
#include "ipc/tools/ctl_commands.h"
#include "ipc/tools/feed.h"
#include "ipc/tools/model_choice.h"
#include "ipc/tools/stop_signal.h"

namespace modeld::ipc {
namespace {

// Without --seconds: long enough for state and outputs to arrive if there are any.
constexpr int64_t kSettleNs = kNsPerSecond;
constexpr int64_t kStepNs = 10 * kNsPerMs;  // as a driving stack's own loop

void print_line(const GateChange& change) {
  std::printf("%s\n", change.text().c_str());
  std::fflush(stdout);
}

// Of a gate that was followed: how often it left, and what it had in hand then.
void print_counts(const GateLog& log) {
  const DecisionCount& soft = log.count(Decision::kSoftDisable);
  const DecisionCount& hard = log.count(Decision::kImmediateDisable);
  const auto ms = [](int64_t ns) { return static_cast<long long>(ns / kNsPerMs); };
  std::printf(
      "may engage: %llu; soft disable: %llu, last valid frame at most %lld ms old; "
      "immediate disable: %llu, at most %lld ms\n",
      static_cast<unsigned long long>(log.count(Decision::kMayEngage).changes),
      static_cast<unsigned long long>(soft.changes), ms(soft.max_age_ns),
      static_cast<unsigned long long>(hard.changes), ms(hard.max_age_ns));
}

}  // namespace

int cmd_gate(const CtlOptions& options) {
  install_stop_signals();
  const auto feed = Feed::open(options.dir);
  if (!feed.ok()) return ctl_fail(feed.error());
  const SteadyClock clock;
  const ModelChoice needed = ModelChoice::of(options.models);
  Consumer consumer(clock, needed.road, needed.cabin);
  const Feed::Handlers handlers{[&](const StateMessage& m) { consumer.observe(m); },
                                [&](const RoadMessage& m) { consumer.observe(m); },
                                [&](const CabinMessage& m) { consumer.observe(m); }};
  const bool follow = options.seconds.has_value();
  const int64_t end_ns =
      now_ns() + (follow ? static_cast<int64_t>(*options.seconds * 1e9) : kSettleNs);
  GateLog log(clock);
  Verdict verdict = consumer.step();
  while (now_ns() < end_ns && !stop_requested()) {
    const Status pumped = (*feed)->pump(Deadline{std::min(end_ns, now_ns() + kStepNs)}, handlers);
    if (!pumped.ok()) return ctl_fail(pumped.error());
    verdict = consumer.step();
    const bool is_new = log.take(consumer, verdict);
    if (is_new && follow && !options.json) print_line(log.last());
    if (!follow && verdict.may_engage()) break;
  }
  if (options.json) {
    std::printf("%s\n", log.to_json(verdict).dump().c_str());
  } else if (follow) {
    print_counts(log);
  } else {
    print_line({now_ns(), verdict, consumer.last_valid_road(), consumer.last_valid_cabin()});
  }
  return verdict.may_engage() ? 0 : 1;
}

}  // namespace modeld::ipc
