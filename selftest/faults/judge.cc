#include "selftest/faults/judge.h"

#include <gtest/gtest-spi.h>

#include <algorithm>
#include <map>

#include "hal/base/text.h"

namespace modeld::faults {
namespace {

using e2e::Output;
using e2e::Transition;
using ipc::ModelState;
using ipc::Reason;

constexpr int64_t kLoadMs = 30'000;
constexpr size_t kSettledOutputs = 25;  // 1.25 s
constexpr int64_t kPeriodNs = 50 * kNsPerMs;
constexpr int64_t kGateExitMs = 600;
// Frame (150 ms at most) plus run (150 ms at most): older than this no valid output may be.
constexpr int64_t kOldestOutputNs = 350 * kNsPerMs;
constexpr int64_t kHeartbeatNs = 1'000'000'000;
// After that much silence there was an outage, and the gate must have been out.
constexpr int64_t kOutageNs = 650 * kNsPerMs;

std::string state_text(ModelState state, Reason reason) {
  std::string out = ipc::model_state_name(state);
  if (reason != Reason::kNone) out += std::string("(") + ipc::reason_name(reason) + ")";
  return out;
}

bool is_live(ModelState s) {
  return s == ModelState::kReady || s == ModelState::kDegraded;
}

// ---- every message ----

class MessageCheck {
 public:
  MessageCheck(Scene& scene, const std::string& model) : scene_(scene), model_(model) {}

  void look(const Output& o) {
    const bool lists_are_whole = model_ != "road" || o.plan_numbers == size_t{33 * 15};
    expect(lists_are_whole, o, "has lists of another size");
    if (!o.header.valid) return;
    expect(o.is_finite, o, "is valid with a number that is not finite");
    expect(is_live(o.header.state), o, "is valid in a state that cannot give outputs");
    expect(o.run.accepted, o, "is valid though its run was not accepted");
    expect(o.header.time_ns - o.timings.sof_ns <= kOldestOutputNs, o,
           "is valid and of a frame that began long before");
    expect(o.timings.sof_ns > last_sof_, o, "is valid and of no new frame");
    const auto first = digests_.emplace(o.digest, o.frame_id).first;
    expect(first->second == o.frame_id || o.header.simulated, o,
           "repeats the numbers of an earlier one");
    last_sof_ = o.timings.sof_ns;
    ++valid_;
  }
  uint64_t valid() const { return valid_; }

 private:
  void expect(bool holds, const Output& o, const char* what) {
    if (holds || told_) return;
    told_ = true;  // one line says it
    scene_.require(false, strf("%s output of frame %llu %s", model_.c_str(),
                               static_cast<unsigned long long>(o.frame_id), what));
  }

  Scene& scene_;
  std::string model_;
  int64_t last_sof_ = 0;
  std::map<uint64_t, uint64_t> digests_;  // numbers to the frame that gave them first
  uint64_t valid_ = 0;
  bool told_ = false;
};

// ---- one row ----

class RowRun {
 public:
  RowRun(const Row& row, Scene& scene, int64_t slack) : row_(row), scene_(scene), slack_(slack) {
    out_.row = row.name;
  }

  Verdict run() {
    if (row_.setup != nullptr) row_.setup(scene_);
    if (scene_.skipped().empty()) play();
    out_.skipped = scene_.skipped();
    out_.note = scene_.noted();
    out_.findings = scene_.findings();
    out_.late = scene_.late();
    return out_;
  }

 private:
  void play() {
    start_ns_ = now_ns();
    scene_.start();
    if (row_.inject == nullptr || !row_.settles || settle()) play_fault();
    if (!scene_.skipped().empty()) return;
    judge_messages();
    replay();
  }

  // Whatever was valid is made again.
  void replay() {
    std::vector<std::string> models;
    for (const char* model : {"road", "cabin"}) {
      if (valid_count(model) > 0) models.emplace_back(model);
    }
    out_.replayed = scene_.replay(models);
  }

  void play_fault() {
    fault_ns_ = now_ns();
    if (row_.inject == nullptr) fault_ns_ = start_ns_;
    if (row_.inject != nullptr) row_.inject(scene_);
    if (!scene_.skipped().empty()) return;
    watch();
    recover();
    // What follows from a state that never came is no finding of its own.
    if (is_told() && row_.verify != nullptr) row_.verify(scene_);
    const auto gate_log = scene_.stop_gate(row_.model);
    for (const GateEntry& e : gate_log) out_.gate_log.push(entry_json(e));
    if (is_told()) judge_gate(gate_log);
  }

  bool is_told() const { return row_.see != See::kState || seen_ns_ != 0; }

  // Both models READY, the second of grace over and the gate in: only then a fault means something.
  bool settle() {
    for (const char* model : {"road", "cabin"}) {
      const auto enough = [&] { return valid_count(model) >= kSettledOutputs; };
      if (scene_.tap().wait_for(enough, kLoadMs)) continue;
      scene_.require_in_time(false, std::string(model) + " did not get READY before the fault");
      return false;
    }
    return true;
  }

  size_t valid_count(const std::string& model) {
    const auto all = scene_.tap().outputs(model);
    return static_cast<size_t>(
        std::count_if(all.begin(), all.end(), [](const Output& o) { return o.header.valid; }));
  }

  std::optional<Transition> expected_transition() {
    for (const Transition& t : scene_.tap().transitions(row_.model)) {
      if (t.at_ns >= fault_ns_ && t.status.state == row_.state && t.status.reason == row_.reason)
        return t;
    }
    return std::nullopt;
  }

  void watch() {
    switch (row_.see) {
      case See::kState:
        return watch_state();
      case See::kUnaffected:
        return watch_nothing();
      case See::kSilence:
        return watch_silence();
    }
  }

  void watch_state() {
    const int64_t limit = row_.bound_ms * slack_;
    scene_.tap().wait_for([&] { return expected_transition().has_value(); }, limit + 3000);
    if (scene_.fault_ns) fault_ns_ = *scene_.fault_ns;
    const auto seen = expected_transition();
    if (!seen) return tell_not_seen();
    seen_ns_ = seen->at_ns;
    out_.seen = state_text(seen->status.state, seen->status.reason);
    out_.seen_ms = (seen->at_ns - fault_ns_) / kNsPerMs;
    out_.state_text = seen->status.text;
    scene_.require_in_time(out_.seen_ms <= limit, strf("state came after %lld ms, bound %lld",
                                                       static_cast<long long>(out_.seen_ms),
                                                       static_cast<long long>(limit)));
    if (out_.state_text.find(row_.text) == std::string::npos)
      scene_.refuse(seen->status, std::string("the text does not say '") + row_.text + "'");
    if (is_live(row_.state)) return;
    // No other reason may come before the right one.
    for (const Transition& t : scene_.tap().transitions(row_.model)) {
      const bool before = t.at_ns >= fault_ns_ && t.at_ns < seen_ns_;
      const bool blames = t.status.state == ModelState::kUnavailable;
      if (before && blames)
        scene_.refuse(t.status, "first came " + state_text(t.status.state, t.status.reason));
    }
  }

  // Late, unless another reason was given instead.
  void tell_not_seen() {
    out_.seen = "not seen";
    std::string states;
    bool blames_another = false;
    for (const Transition& t : scene_.tap().transitions(row_.model)) {
      states += " " + state_text(t.status.state, t.status.reason);
      const bool blames = t.status.state == ModelState::kUnavailable && t.at_ns >= fault_ns_;
      blames_another = blames_another || (blames && !is_lateness(t.status));
    }
    const std::string what = "expected " + state_text(row_.state, row_.reason) + ", seen" + states;
    scene_.require(!blames_another, what);
    scene_.require_in_time(blames_another, what);
  }

  void watch_nothing() {
    const size_t before = valid_count(row_.model);
    scene_.pause_ms(row_.bound_ms);
    out_.seen = "READY";
    out_.seen_ms = 0;
    for (const char* model : {"road", "cabin"}) {
      for (const Transition& t : scene_.tap().transitions(model)) {
        if (t.at_ns < fault_ns_ || t.status.state == ModelState::kReady) continue;
        out_.seen = state_text(t.status.state, t.status.reason);
        scene_.refuse(t.status, std::string(model) + " became " + out_.seen);
      }
    }
    const auto expected = static_cast<size_t>(row_.bound_ms / 50 * 8 / 10);
    scene_.require_in_time(valid_count(row_.model) - before >= expected,
                           strf("%zu valid outputs in %lld ms", valid_count(row_.model) - before,
                                static_cast<long long>(row_.bound_ms)));
  }

  void watch_silence() {
    scene_.pause_ms(row_.bound_ms);
    out_.seen = "silence";
    const auto all = scene_.tap().outputs(row_.model);
    const int64_t last = all.empty() ? 0 : all.back().at_ns;
    out_.seen_ms = std::max<int64_t>(0, (last - fault_ns_) / kNsPerMs);
    scene_.require_in_time(
        out_.seen_ms <= 2 * kPeriodNs / kNsPerMs * slack_,
        strf("outputs went on for %lld ms", static_cast<long long>(out_.seen_ms)));
  }

  // A model that is out says so at 20 Hz for a second, then nothing.
  void judge_heartbeats() {
    if (seen_ns_ == 0 || row_.state != ModelState::kUnavailable) return;
    const int64_t until = now_ns();
    int64_t last = fault_ns_, longest = 0, last_invalid = 0;
    size_t beats = 0;
    for (const Output& o : scene_.tap().outputs(row_.model)) {
      if (o.at_ns < seen_ns_ - kPeriodNs) continue;
      if (o.at_ns <= seen_ns_ + kHeartbeatNs && beats > 0)
        longest = std::max(longest, o.at_ns - last);
      last = o.at_ns;
      if (o.header.valid) continue;
      ++beats;
      last_invalid = o.at_ns;
    }
    const auto all = scene_.tap().transitions(row_.model);
    const bool stayed_out = all.back().at_ns == seen_ns_;
    const bool watched_a_second = until - seen_ns_ >= kHeartbeatNs && stayed_out;
    scene_.require_in_time(beats > 0, "no heartbeat said that the model is out");
    scene_.require_in_time(
        longest <= 5 * kPeriodNs * slack_,
        strf("%lld ms without a heartbeat", static_cast<long long>(longest / kNsPerMs)));
    if (watched_a_second && row_.back == Back::kStays)
      scene_.require_in_time(last_invalid - seen_ns_ <= 1500 * kNsPerMs * slack_ &&
                                 last_invalid - seen_ns_ >= kHeartbeatNs * 9 / 10,
                             strf("heartbeats for %lld ms instead of a second",
                                  static_cast<long long>((last_invalid - seen_ns_) / kNsPerMs)));
  }

  void recover() {
    if (!is_told()) return;
    int64_t from = std::max(fault_ns_, seen_ns_);
    if (row_.back != Back::kItself || row_.gate == Gate::kNoEntry) {
      // Long enough for the gate to act and for the heartbeats to end.
      if (row_.see == See::kState) scene_.pause_ms(1700);
      judge_heartbeats();
    }
    if (row_.back == Back::kStays) {
      const auto status = scene_.tap().status(row_.model);
      if (row_.see != See::kState || is_live(status->state) == is_live(row_.state)) return;
      const std::string what = std::string("did not stay ") + ipc::model_state_name(row_.state) +
                               ", became " + state_text(status->state, status->reason);
      // A busy machine can put a model out; it cannot bring one back that is out for good.
      is_live(row_.state) ? scene_.require_in_time(false, what) : scene_.require(false, what);
      return;
    }
    if (row_.repair != nullptr) {
      from = now_ns();
      row_.repair(scene_);
    }
    const int64_t limit = row_.back_ms * slack_;
    std::optional<int64_t> back;
    scene_.tap().wait_for([&] { return (back = ready_since(from)).has_value(); }, limit + 3000);
    if (!back) return scene_.require_in_time(false, "not READY again");
    out_.back_ms = std::max<int64_t>(0, (*back - from) / kNsPerMs);
    scene_.require_in_time(out_.back_ms <= limit, strf("READY again after %lld ms, bound %lld",
                                                       static_cast<long long>(out_.back_ms),
                                                       static_cast<long long>(limit)));
    // Outputs of the recovered model are looked at, too.
    const size_t before = valid_count(row_.model);
    scene_.tap().wait_for([&] { return valid_count(row_.model) >= before + 12; }, 3000);
    if (row_.back == Back::kItself) judge_heartbeats();
  }

  // When the model spoke valid again after `from`.
  std::optional<int64_t> ready_since(int64_t from) {
    if (row_.see == See::kUnaffected) return from;
    for (const Output& o : scene_.tap().outputs(row_.model)) {
      if (o.header.valid && o.header.state == ModelState::kReady && o.at_ns > from) return o.at_ns;
    }
    return std::nullopt;
  }

  void judge_messages() {
    for (const char* model : {"road", "cabin"}) {
      MessageCheck check(scene_, model);
      const auto all = scene_.tap().outputs(model);
      for (const Output& o : all) check.look(o);
      out_.messages += all.size();
      out_.valid += check.valid();
    }
    if (row_.gate == Gate::kNoEntry && row_.back == Back::kStays && !is_live(row_.state)) {
      scene_.require(valid_count(row_.model) == 0,
                     "a valid output though the model never was good");
    }
  }

  void judge_gate(const std::vector<GateEntry>& log) {
    const auto is_out = [](const GateEntry& e) {
      return e.decision == "soft disable" || e.decision == "immediate disable";
    };
    if (row_.gate == Gate::kNoEntry) return judge_no_entry(log);
    const bool was_in = std::any_of(log.begin(), log.end(), [&](const GateEntry& e) {
      return e.decision == "may engage" && e.time_ns < std::max(fault_ns_, seen_ns_);
    });
    scene_.require_in_time(was_in, "the gate was not in before the fault");
    const GateEntry* exit = nullptr;
    for (const GateEntry& e : log) {
      if (e.time_ns < fault_ns_ - kPeriodNs || !is_out(e)) continue;
      if (exit == nullptr) exit = &e;
      if (e.decision == "immediate disable") {
        exit = &e;
        break;
      }
    }
    if (exit == nullptr) {
      out_.gate = "may engage";
      return scene_.require(row_.gate == Gate::kStays, "the gate stayed in");
    }
    out_.gate = exit->decision;
    out_.gate_frame = exit->frame_id;
    out_.gate_frame_ms = (fault_ns_ - exit->frame_received_ns) / kNsPerMs;
    const int64_t first_missed = exit->frame_received_ns + kPeriodNs;
    out_.gate_ms = std::max<int64_t>(0, (exit->time_ns - first_missed) / kNsPerMs);
    judge_last_frame(*exit);
    scene_.require_in_time(row_.gate != Gate::kStays, "the gate left: " + exit->because);
    scene_.require_in_time(row_.gate != Gate::kSoft || exit->decision == "soft disable",
                           "the gate left at once: " + exit->because);
    scene_.require(row_.gate != Gate::kLeaves || longest_gap_ns() < kOutageNs ||
                       exit->decision == "immediate disable",
                   "the gate never left for good");
    scene_.require_in_time(
        out_.gate_ms <= kGateExitMs * slack_,
        strf("the gate left %lld ms after the first missed frame, bound %lld",
             static_cast<long long>(out_.gate_ms), static_cast<long long>(kGateExitMs * slack_)));
  }

  // What the gate says it used last is what everybody saw last: valid, of that number, at that
  // time, and nothing valid came between it and the decision.
  void judge_last_frame(const GateEntry& exit) {
    const int64_t tolerance_ns = 2 * kPeriodNs * slack_;
    bool was_valid = false, was_then = false;
    int64_t newest_ns = 0;
    const auto all = scene_.tap().outputs(row_.model);
    for (const Output& o : all) {
      if (!o.header.valid) continue;
      if (o.at_ns < exit.time_ns - tolerance_ns) newest_ns = o.at_ns;
      if (o.frame_id != exit.frame_id) continue;
      was_valid = true;
      was_then = was_then || std::abs(o.at_ns - exit.frame_received_ns) < tolerance_ns;
    }
    const std::string says = strf("the gate says it used frame %llu last, ",
                                  static_cast<unsigned long long>(exit.frame_id));
    scene_.require(was_valid, says + "which nobody else saw valid");
    scene_.require_in_time(was_then, says + "which others got at another time");
    scene_.require_in_time(newest_ns <= exit.frame_received_ns + tolerance_ns,
                           says + "others came after it");
  }

  Json entry_json(const GateEntry& e) const {
    Json out = Json::object();
    out.set("after_fault_ms", (e.time_ns - fault_ns_) / kNsPerMs);
    out.set("decision", e.decision).set("because", e.because);
    if (e.frame_received_ns == 0) return out;
    out.set("last_frame", e.frame_id);
    out.set("last_frame_age_ms", (e.time_ns - e.frame_received_ns) / kNsPerMs);
    return out;
  }

  void judge_no_entry(const std::vector<GateEntry>& log) {
    out_.gate = "no entry";
    int64_t first_valid = 0;
    for (const Output& o : scene_.tap().outputs(row_.model)) {
      if (o.header.valid && first_valid == 0) first_valid = o.at_ns;
    }
    for (const GateEntry& e : log) {
      if (e.decision != "may engage") continue;
      scene_.require(first_valid != 0 && e.time_ns >= first_valid - kPeriodNs,
                     "the gate let in: " + e.because);
    }
  }

  // Between two valid outputs of the model, or from the last one to the end.
  int64_t longest_gap_ns() {
    int64_t last = 0, longest = 0;
    for (const Output& o : scene_.tap().outputs(row_.model)) {
      if (!o.header.valid) continue;
      if (last != 0 && o.at_ns > fault_ns_) longest = std::max(longest, o.at_ns - last);
      last = o.at_ns;
    }
    return last == 0 ? 0 : std::max(longest, now_ns() - last);
  }

  const Row& row_;
  Scene& scene_;
  int64_t slack_;
  Verdict out_;
  int64_t start_ns_ = 0;
  int64_t fault_ns_ = 0;
  int64_t seen_ns_ = 0;
};

Json list_json(const std::vector<std::string>& texts) {
  Json out = Json::array();
  for (const std::string& text : texts) out.push(text);
  return out;
}

}  // namespace

Verdict run_row(const Row& row, const std::string& defect, int64_t slack) {
  // What the harness itself cannot do is a finding of the row as well.
  testing::TestPartResultArray failures;
  Verdict out;
  {
    const testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ALL_THREADS, &failures);
    Scene scene(defect);
    scene.slack = slack;
    out = RowRun(row, scene, slack).run();
  }
  for (int i = 0; i < failures.size(); ++i)
    out.findings.emplace_back(trim(failures.GetTestPartResult(i).message()));
  return out;
}

Json to_json(const Verdict& v) {
  Json out = Json::object();
  out.set("row", v.row);
  out.set("passed", v.passed());
  out.set("seen", v.seen).set("seen_ms", v.seen_ms).set("text", v.state_text);
  out.set("back_ms", v.back_ms);
  out.set("gate", v.gate).set("gate_frame", v.gate_frame);
  out.set("gate_frame_ms", v.gate_frame_ms).set("gate_ms", v.gate_ms);
  out.set("gate_log", v.gate_log);
  out.set("messages", v.messages).set("valid", v.valid).set("replayed", v.replayed);
  out.set("skipped", v.skipped).set("note", v.note);
  out.set("findings", list_json(v.findings)).set("late", list_json(v.late));
  out.set("late_in_earlier_tries", list_json(v.earlier));
  return out;
}

Verdict from_json(const Json& json) {
  const auto text = [&](const char* key) { return json.find(key)->string_or(""); };
  const auto number = [&](const char* key) { return json.find(key)->int_or(0); };
  Verdict v;
  v.row = text("row");
  v.seen = text("seen");
  v.seen_ms = number("seen_ms");
  v.state_text = text("text");
  v.back_ms = number("back_ms");
  v.gate = text("gate");
  v.gate_frame = static_cast<uint64_t>(number("gate_frame"));
  v.gate_frame_ms = number("gate_frame_ms");
  v.gate_ms = number("gate_ms");
  v.gate_log = *json.find("gate_log");
  v.messages = static_cast<uint64_t>(number("messages"));
  v.valid = static_cast<uint64_t>(number("valid"));
  v.replayed = static_cast<uint64_t>(number("replayed"));
  v.skipped = text("skipped");
  v.note = text("note");
  const auto list = [&](const char* key) {
    std::vector<std::string> out;
    for (const Json& item : json.find(key)->items()) out.push_back(item.string_or(""));
    return out;
  };
  v.findings = list("findings");
  v.late = list("late");
  v.earlier = list("late_in_earlier_tries");
  return v;
}

}  // namespace modeld::faults
