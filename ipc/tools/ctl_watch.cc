// modelctl watch and record: the daemon's outputs, live or kept.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <utility>

#include "ipc/recording.h"
#include "ipc/tools/ctl_commands.h"
#include "ipc/tools/feed.h"
#include "ipc/tools/stop_signal.h"
#include "ipc/tools/watch_stats.h"

namespace modeld::ipc {
namespace {

// Rows of plan: position 3, velocity 3, ...; entry 14 of 33 lies at 10 * (14/32)^2 = 1.91 s.
constexpr size_t kPlanColumns = 15;
constexpr size_t kPlanRowAt2s = 14;
constexpr int64_t kLinePeriodNs = 500 * kNsPerMs;
constexpr int kTableLines = 5;

// The live table: redrawn in place on a terminal, a line every half second elsewhere.
class LiveTable final {
 public:
  explicit LiveTable(bool enabled) : enabled_(enabled), is_terminal_(isatty(STDOUT_FILENO) == 1) {}

  void observe(const RoadMessage& m) {
    road_ = m;
    road_seen_ = true;
  }
  void observe(const CabinMessage& m) {
    cabin_ = m;
    cabin_seen_ = true;
  }
  void draw(const WatchStats& stats) {
    if (!enabled_) return;
    const int64_t now = now_ns();
    if (!is_terminal_ && now - last_ns_ < kLinePeriodNs) return;
    last_ns_ = now;
    if (is_terminal_) {
      draw_table(stats, now);
    } else {
      draw_line(stats, now);
    }
    std::fflush(stdout);
  }

 private:
  static std::string state_of(const WatchStats& stats, const char* name) {
    for (const ModelStatus& model : stats.state().models) {
      if (model.name == name)
        return std::string(model_state_name(model.state)) +
               (model.reason == Reason::kNone ? ""
                                              : std::string("(") + reason_name(model.reason) + ")");
    }
    return "no state";
  }

  std::string road_text() const {
    if (!road_seen_) return "no message";
    const float* const at = &road_.plan.mean[kPlanRowAt2s * kPlanColumns];
    return strf(
        "frame %-6llu %s  plan(2s) x %7.2f y %6.2f m  v %6.2f m/s  lanes %.2f %.2f %.2f %.2f  lead "
        "%.2f",
        static_cast<unsigned long long>(road_.road_frame_id),
        road_.header.valid ? "valid  " : "INVALID", static_cast<double>(at[0]),
        static_cast<double>(at[1]), static_cast<double>(at[3]),
        static_cast<double>(road_.lane_line_probs[0]),
        static_cast<double>(road_.lane_line_probs[1]),
        static_cast<double>(road_.lane_line_probs[2]),
        static_cast<double>(road_.lane_line_probs[3]), static_cast<double>(road_.lead_probs[0]));
  }

  std::string cabin_text() const {
    if (!cabin_seen_) return "no message";
    const CabinSide& side = cabin_.vehicle.right_hand_drive ? cabin_.rhd : cabin_.lhd;
    return strf(
        "frame %-6llu %s  face %.2f  eyes %.2f %.2f  blink %.2f %.2f  phone %.2f  sleep %.2f",
        static_cast<unsigned long long>(cabin_.cabin_frame_id),
        cabin_.header.valid ? "valid  " : "INVALID", static_cast<double>(side.face_prob),
        static_cast<double>(side.left_eye_prob), static_cast<double>(side.right_eye_prob),
        static_cast<double>(side.left_blink_prob), static_cast<double>(side.right_blink_prob),
        static_cast<double>(side.using_phone_prob), static_cast<double>(side.sleep_prob));
  }

  static std::string rate_text(const OutputStats& stats, int64_t now) {
    return strf("%5.2f Hz  p50 %6.2f ms  p99 %6.2f ms", stats.rate_hz(now), stats.latency_ms(50),
                stats.latency_ms(99));
  }

  void draw_table(const WatchStats& stats, int64_t now) {
    if (drawn_) std::printf("\033[%dA", kTableLines);
    drawn_ = true;
    std::printf("\033[Kroad   %-28s %s\n\033[K       %s\n", state_of(stats, "road").c_str(),
                rate_text(stats.road(), now).c_str(), road_text().c_str());
    std::printf("\033[Kcabin  %-28s %s\n\033[K       %s\n", state_of(stats, "cabin").c_str(),
                rate_text(stats.cabin(), now).c_str(), cabin_text().c_str());
    std::printf("\033[Kunavailable events %llu%s\n",
                static_cast<unsigned long long>(stats.unavailable_events()),
                stats.simulated() ? "  (simulated device)" : "");
  }

  void draw_line(const WatchStats& stats, int64_t now) {
    std::printf("road %s %s | %s || cabin %s %s | %s\n", state_of(stats, "road").c_str(),
                rate_text(stats.road(), now).c_str(), road_text().c_str(),
                state_of(stats, "cabin").c_str(), rate_text(stats.cabin(), now).c_str(),
                cabin_text().c_str());
  }

  bool enabled_;
  bool is_terminal_;
  bool drawn_ = false;
  bool road_seen_ = false;
  bool cabin_seen_ = false;
  int64_t last_ns_ = 0;
  RoadMessage road_;
  CabinMessage cabin_;
};

// What both commands do: feed statistics, table and recorder until the time is over.
class Session final {
 public:
  Session(const CtlOptions& options, bool show)
      : options_(options),
        is_choice_open_(options.models.empty() && !options.require),
        table_(show),
        stats_(ModelChoice::of(options.models)) {}

  Status run() {
    ASSIGN_OR_RETURN(const auto feed, Feed::open(options_.dir));
    const Feed::Handlers handlers{
        [this](const StateMessage& m) { observe(m); },
        [this](const RoadMessage& m) { observe_output(m, stats_.choice().road); },
        [this](const CabinMessage& m) { observe_output(m, stats_.choice().cabin); }};
    const int64_t give_up_ns = now_ns() + static_cast<int64_t>(options_.wait_s * 1e9);
    while (!stop_requested()) {
      const int64_t now = now_ns();
      // The time asked for counts from the first valid message of every model that counts.
      const std::string missing = stats_.missing().text();
      if (end_ns_ == 0 && missing.empty() && options_.seconds.has_value())
        end_ns_ = now + static_cast<int64_t>(*options_.seconds * 1e9);
      if (end_ns_ != 0 && now >= end_ns_) return {};
      if (end_ns_ == 0 && options_.seconds.has_value() && now >= give_up_ns)
        return fail(Errc::kTimeout,
                    strf("no valid message of %s in %g s: state %s", missing.c_str(),
                         options_.wait_s, stats_.overall_state().c_str()));
      RETURN_IF_ERROR(
          feed->pump(Deadline{std::min(now + 100 * kNsPerMs,
                                       end_ns_ == 0 ? give_up_or_later(now, give_up_ns) : end_ns_)},
                     handlers));
      table_.draw(stats_);
    }
    return {};
  }

  const WatchStats& stats() const { return stats_; }
  const Recorder& recorder() const { return recorder_; }

 private:
  static int64_t give_up_or_later(int64_t now, int64_t give_up_ns) {
    return give_up_ns > now ? give_up_ns : now + 100 * kNsPerMs;
  }
  void observe(const StateMessage& message) {
    // Of a modeld that runs one model the other is not waited for, unless it was asked for.
    if (is_choice_open_) stats_.choose(ModelChoice::of(message));
    stats_.observe(message);
    recorder_.observe(message);
  }
  template <class M>
  void observe_output(const M& message, bool counts) {
    if (!counts) return;
    stats_.observe(message);
    table_.observe(message);
    if (!options_.file.empty()) recorder_.observe(message);
  }

  const CtlOptions& options_;
  bool is_choice_open_;
  LiveTable table_;
  WatchStats stats_;
  Recorder recorder_;
  int64_t end_ns_ = 0;
};

// "road: A; cabin: B" of what `text` has to say of the chosen models; "" if it has nothing.
std::string of_each(ModelChoice choice, const std::function<std::string(RecordedModel)>& text) {
  std::string out;
  for (const auto& [name, model] :
       {std::pair{"road", RecordedModel::kRoad}, std::pair{"cabin", RecordedModel::kCabin}}) {
    const std::string said = choice.has(name) ? text(model) : "";
    if (!said.empty()) out += strf("%s%s: %s", out.empty() ? "" : "; ", name, said.c_str());
  }
  return out;
}

// Writes what was recorded; an empty recording or one without a source is an error that says why,
// one that lacks runs is said to on stderr.
Status keep_recording(const std::string& file, const Session& session) {
  const Recorder& recorder = session.recorder();
  const ModelChoice choice = session.stats().choice();
  const Recording recording = recorder.finish();
  if (recording.runs.empty())
    return fail(Errc::kNotFound, "nothing recorded: " + of_each(choice, [&](RecordedModel m) {
                                   return recorder.why_empty(m);
                                 }));
  if (recording.source.empty())
    return fail(Errc::kNotFound, "nothing recorded: the state messages name no camera source");
  RETURN_IF_ERROR(write_recording(file, recording));
  const std::string lacks =
      of_each(choice, [&](RecordedModel m) { return recorder.left_out(m).text(); });
  if (!lacks.empty())
    std::fprintf(stderr, "modelctl: %s lacks runs: %s\n", file.c_str(), lacks.c_str());
  return {};
}

Json left_out_json(const LeftOut& left_out) {
  Json out = Json::object();
  out.set("before_reset", left_out.before_reset);
  out.set("after_missed", left_out.after_missed);
  out.set("without_raw", left_out.without_raw);
  out.set("beyond_limit", left_out.beyond_limit);
  return out;
}

}  // namespace

int cmd_watch(const CtlOptions& options) {
  install_stop_signals();
  Session session(options, !options.json);
  const Status ran = session.run();
  const int64_t now = now_ns();
  int code = ran.ok() ? 0 : ctl_fail(ran.error());
  if (!options.file.empty() && code == 0) {
    const Status kept = keep_recording(options.file, session);
    if (!kept.ok()) code = ctl_fail(kept.error());
  }
  if (options.require && code == 0) {
    const Status good = session.stats().require(now);
    if (!good.ok()) code = ctl_fail(good.error());
  }
  if (options.json || options.summary || options.require)
    std::printf("%s\n", session.stats().summary(now).dump().c_str());
  return code;
}

int cmd_record(const CtlOptions& options) {
  install_stop_signals();
  Session session(options, false);
  const Status ran = session.run();
  if (!ran.ok()) return ctl_fail(ran.error());
  const Status kept = keep_recording(options.file, session);
  if (!kept.ok()) return ctl_fail(kept.error());
  const size_t road = session.recorder().runs(RecordedModel::kRoad);
  const size_t cabin = session.recorder().runs(RecordedModel::kCabin);
  if (options.json) {
    Json out = Json::object();
    out.set("file", options.file);
    out.set("road_runs", road);
    out.set("cabin_runs", cabin);
    out.set("road_left_out", left_out_json(session.recorder().left_out(RecordedModel::kRoad)));
    out.set("cabin_left_out", left_out_json(session.recorder().left_out(RecordedModel::kCabin)));
    std::printf("%s\n", out.dump().c_str());
  } else {
    std::printf("%zu road and %zu cabin runs written to %s\n", road, cabin, options.file.c_str());
  }
  return 0;
}

}  // namespace modeld::ipc
