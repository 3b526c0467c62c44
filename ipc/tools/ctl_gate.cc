// modelctl gate: the example consumer on the daemon's topics.
#include <cstdio>
#include <utility>
#include <vector>

#include "hal/base/json.h"

#include "ipc/consumer/consumer.h"
#include "ipc/tools/ctl_commands.h"
#include "ipc/tools/feed.h"
#include "ipc/tools/stop_signal.h"

namespace modeld::ipc {
namespace {

// Without --seconds: long enough for state and outputs to arrive if there are any.
constexpr int64_t kSettleNs = kNsPerSecond;
constexpr int64_t kStepNs = 10 * kNsPerMs;  // as a driving stack's own loop
constexpr size_t kMaxLog = 1000;

// A change of mind: when, what, why, and what was last acted on.
struct LogEntry {
  int64_t time_ns = 0;
  Verdict verdict;
  LastValid road;
  LastValid cabin;
};

int64_t age_ms(const LogEntry& e, const LastValid& last) {
  return (e.time_ns - last.received_ns) / kNsPerMs;
}

std::string last_valid_text(const LogEntry& e) {
  std::string out;
  for (const auto& [name, last] : {std::pair{"road", e.road}, std::pair{"cabin", e.cabin}}) {
    out += out.empty() ? "" : ", ";
    out += last.received_ns == 0
               ? strf("%s none", name)
               : strf("%s %llu %lld ms ago", name, static_cast<unsigned long long>(last.frame_id),
                      static_cast<long long>(age_ms(e, last)));
  }
  return out;
}

Json last_valid_json(const LogEntry& e, const LastValid& last) {
  Json out = Json::object();
  if (last.received_ns == 0) return out;
  out.set("frame_id", last.frame_id);
  out.set("received_ns", last.received_ns);
  out.set("age_ms", age_ms(e, last));
  return out;
}

Json entry_json(const LogEntry& e) {
  Json out = Json::object();
  out.set("time_ns", e.time_ns);
  out.set("decision", decision_name(e.verdict.decision));
  out.set("because", e.verdict.because);
  out.set("last_valid_road", last_valid_json(e, e.road));
  out.set("last_valid_cabin", last_valid_json(e, e.cabin));
  return out;
}

void print_line(const LogEntry& e) {
  std::printf("%s, because %s (last valid: %s)\n", decision_name(e.verdict.decision),
              e.verdict.because.c_str(), last_valid_text(e).c_str());
  std::fflush(stdout);
}

// What the consumer decided, change by change.
class GateLog final {
 public:
  explicit GateLog(const Clock& clock) : clock_(clock), start_ns_(clock.now()) {}

  // True when the entry is new and worth telling. Silence means something only once it has lasted.
  bool take(const Consumer& consumer, Verdict verdict) {
    const bool is_early = clock_.now() - start_ns_ < kConsumerTimeoutNs;
    const bool is_first = entries_.empty();
    if (is_first && is_early && !verdict.may_engage()) return false;
    if (!is_first && verdict.decision == entries_.back().verdict.decision) return false;
    if (verdict.must_disengage()) ++disengagements_;
    if (entries_.size() == kMaxLog) entries_.erase(entries_.begin());
    entries_.push_back({clock_.now(), std::move(verdict), consumer.last_valid_road(),
                        consumer.last_valid_cabin()});
    return true;
  }
  const LogEntry& last() const { return entries_.back(); }
  Json to_json(const Verdict& now) const {
    Json out = Json::object();
    out.set("may_engage", now.may_engage());
    out.set("must_disengage", now.must_disengage());
    out.set("decision", decision_name(now.decision));
    out.set("because", now.because);
    out.set("disengagements", disengagements_);
    Json log = Json::array();
    for (const LogEntry& e : entries_) log.push(entry_json(e));
    out.set("log", std::move(log));
    return out;
  }

 private:
  const Clock& clock_;
  int64_t start_ns_;
  std::vector<LogEntry> entries_;
  uint64_t disengagements_ = 0;  // soft or immediate, after "may engage"
};

}  // namespace

int cmd_gate(const CtlOptions& options) {
  install_stop_signals();
  const auto feed = Feed::open(options.dir);
  if (!feed.ok()) return ctl_fail(feed.error());
  const SteadyClock clock;
  Consumer consumer(clock);
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
  } else if (!follow) {
    print_line({now_ns(), verdict, consumer.last_valid_road(), consumer.last_valid_cabin()});
  }
  return verdict.may_engage() ? 0 : 1;
}

}  // namespace modeld::ipc
