#include "ipc/consumer/gate_log.h"

#include <algorithm>
#include <utility>

#include "hal/base/status.h"

namespace modeld::ipc {
namespace {

constexpr Decision kDecisions[] = {Decision::kNoEntry, Decision::kMayEngage, Decision::kSoftDisable,
                                   Decision::kImmediateDisable};
static_assert(std::size(kDecisions) == kDecisionCount);

int64_t age_ns(const GateChange& c, const LastValid& last) {
  return last.received_ns == 0 ? 0 : c.time_ns - last.received_ns;
}

Json last_valid_json(const GateChange& c, const LastValid& last) {
  Json out = Json::object();
  if (last.received_ns == 0) return out;
  out.set("frame_id", last.frame_id);
  out.set("received_ns", last.received_ns);
  out.set("age_ms", age_ns(c, last) / kNsPerMs);
  return out;
}

Json change_json(const GateChange& c) {
  Json out = Json::object();
  out.set("time_ns", c.time_ns);
  out.set("decision", decision_name(c.verdict.decision));
  out.set("because", c.verdict.because);
  out.set("last_valid_road", last_valid_json(c, c.road));
  out.set("last_valid_cabin", last_valid_json(c, c.cabin));
  return out;
}

Json count_json(const DecisionCount& n, bool is_exit) {
  Json out = Json::object();
  out.set("changes", n.changes);
  if (!is_exit || n.changes == 0) return out;
  out.set("last_valid_age_ms", n.last_age_ns / kNsPerMs);
  out.set("last_valid_age_ms_max", n.max_age_ns / kNsPerMs);
  return out;
}

}  // namespace

int64_t GateChange::age_ns() const {
  return std::max(ipc::age_ns(*this, road), ipc::age_ns(*this, cabin));
}

std::string GateChange::text() const {
  std::string frames;
  for (const auto& [name, last] : {std::pair{"road", road}, std::pair{"cabin", cabin}}) {
    frames += frames.empty() ? "" : ", ";
    frames +=
        last.received_ns == 0
            ? strf("%s none", name)
            : strf("%s %llu %lld ms ago", name, static_cast<unsigned long long>(last.frame_id),
                   static_cast<long long>(ipc::age_ns(*this, last) / kNsPerMs));
  }
  return strf("%s, because %s (last valid: %s)", decision_name(verdict.decision),
              verdict.because.c_str(), frames.c_str());
}

bool GateLog::take(const Consumer& consumer, Verdict verdict) {
  const bool is_early = clock_.now() - start_ns_ < kConsumerTimeoutNs;
  const bool is_first = changes_.empty();
  if (is_first && is_early && !verdict.may_engage()) return false;
  if (!is_first && verdict.decision == changes_.back().verdict.decision) return false;
  if (changes_.size() == kMaxEntries) changes_.erase(changes_.begin());
  changes_.push_back(
      {clock_.now(), std::move(verdict), consumer.last_valid_road(), consumer.last_valid_cabin()});
  DecisionCount& n = counts_[static_cast<size_t>(last().verdict.decision)];
  ++n.changes;
  if (!last().verdict.must_disengage()) return true;
  n.last_age_ns = last().age_ns();
  n.max_age_ns = std::max(n.max_age_ns, n.last_age_ns);
  return true;
}

uint64_t GateLog::disengagements() const {
  return count(Decision::kSoftDisable).changes + count(Decision::kImmediateDisable).changes;
}

Json GateLog::to_json(const Verdict& now) const {
  Json out = Json::object();
  out.set("may_engage", now.may_engage());
  out.set("must_disengage", now.must_disengage());
  out.set("decision", decision_name(now.decision));
  out.set("because", now.because);
  out.set("disengagements", disengagements());
  Json counts = Json::object();
  for (const Decision d : kDecisions)
    counts.set(decision_name(d), count_json(count(d), Verdict{d, ""}.must_disengage()));
  out.set("decisions", std::move(counts));
  Json log = Json::array();
  for (const GateChange& c : changes_) log.push(change_json(c));
  out.set("log", std::move(log));
  return out;
}

}  // namespace modeld::ipc
