#include "daemon/health.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "hal/base/clock.h"
#include "hal/base/unique_fd.h"

namespace modeld::daemon {
namespace {

constexpr size_t kTextSize = 128 * 1024;
// After the role's name: what concerns its fallback alone.
constexpr const char* kFallback = "-fallback";

struct CounterRow {
  const char* name;
  uint64_t ipc::ModelStatus::*field;
  const char* help;
};
constexpr CounterRow kCounters[] = {
    {"modeld_frames_accepted_total", &ipc::ModelStatus::frames_accepted,
     "Frames that ran, passed the finite check and were committed."},
    {"modeld_frames_late_total", &ipc::ModelStatus::frames_late, "Frames answered after late_ms."},
    {"modeld_frames_dropped_total", &ipc::ModelStatus::frames_dropped,
     "Camera frames that were not run: lost, replaced unread or unusable."},
    {"modeld_timeouts_total", &ipc::ModelStatus::timeouts, "Frames without an answer in time."},
    {"modeld_non_finite_total", &ipc::ModelStatus::non_finite,
     "Runs whose numbers nobody may use."},
    {"modeld_unavailable_entries_total", &ipc::ModelStatus::unavailable_entries,
     "Entries into UNAVAILABLE."},
    {"modeld_resets_total", &ipc::ModelStatus::resets, "Times the model's state began from zero."},
    {"modeld_worker_starts_total", &ipc::ModelStatus::worker_starts,
     "Worker processes started, restarts included."},
    {"modeld_compiled_calls_total", &ipc::ModelStatus::compiled_calls,
     "Calls compiled on this machine because the bundle lacked them."},
};

// A frame's way through the daemon, and where its parts begin and end.
struct PartRow {
  const char* name;  // of the topic's quantiles and, with _seconds, of the histogram
  int64_t (*of)(const ipc::Timings&);
  const char* help;
};
constexpr PartRow kParts[] = {
    {"modeld_queue", [](const ipc::Timings& t) { return t.handed_over_ns - t.received_ns; },
     "Receipt of the newest frame of a run to its hand-over to the worker."},
    {"modeld_warp", [](const ipc::Timings& t) { return t.warp_ns; }, "Camera warps of a run."},
    {"modeld_run", [](const ipc::Timings& t) { return t.run_ns; }, "The model itself."},
    {"modeld_hop",
     [](const ipc::Timings& t) { return t.answered_ns - t.handed_over_ns - t.warp_ns - t.run_ns; },
     "Hand-over to answer without warp and model: wake-ups, staging, finite check."},
    {"modeld_latency", [](const ipc::Timings& t) { return t.latency_ns; },
     "Receipt of the newest frame of a run to the return of the send."},
};

double seconds(int64_t ns) {
  return static_cast<double>(ns) / 1e9;
}

// Resident memory of a process, 0 when it cannot be told.
double resident_bytes(int pid) {
  char path[40];
  snprintf(path, sizeof path, "/proc/%d/statm", pid);
  const UniqueFd fd(open(path, O_RDONLY | O_CLOEXEC));
  char text[128] = {};
  if (!fd.is_open() || ::read(fd.get(), text, sizeof text - 1) <= 0) return 0;
  long long total = 0, resident = 0;
  if (sscanf(text, "%lld %lld", &total, &resident) != 2) return 0;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

}  // namespace

void LatencyWindow::add(int64_t ns) {
  samples_[count_++ % kSize] = ns;
}

int64_t LatencyWindow::quantile(double p) {
  const size_t n = std::min<uint64_t>(count_, kSize);
  if (n == 0) return 0;
  std::copy_n(samples_.begin(), n, sorted_.begin());
  std::sort(sorted_.begin(), sorted_.begin() + static_cast<std::ptrdiff_t>(n));
  const auto at = static_cast<size_t>(std::ceil(p * static_cast<double>(n)));
  return sorted_[std::clamp<size_t>(at, 1, n) - 1];
}

int64_t LatencyWindow::max() const {
  const size_t n = std::min<uint64_t>(count_, kSize);
  return n == 0 ? 0
                : *std::max_element(samples_.begin(),
                                    samples_.begin() + static_cast<std::ptrdiff_t>(n));
}

Health::Health(ipc::Sender& sender,
               std::string path,
               const std::vector<ModelPair*>& units,
               RealtimeMissing own)
    : publisher_(sender),
      own_(own),
      start_ns_(now_ns()),
      text_(kTextSize),
      file_(std::move(path), kTextSize) {
  static_assert(std::size(kParts) == kPartCount);
  for (ModelPair* u : units) {
    rows_.push_back({u});
    const std::string label = "{model=\"" + u->name() + "\"}";
    for (const CounterRow& c : kCounters) message_.counters.push_back({c.name + label, 0});
    message_.counters.push_back({"modeld_state" + label, 0});
    for (const PartRow& p : kParts)
      message_.latencies.push_back({std::string(p.name) + "_ns" + label, 0, 0, 0, 0, 0});
  }
  add_realtime("supervisor");
  for (ModelPair* u : units) {
    add_realtime(u->name());
    if (u->fallback() != nullptr) add_realtime(u->name() + kFallback);
  }
}

// 1: wanted by the configuration and refused by the system.
void Health::add_realtime(const std::string& process) {
  for (const RealtimePart part : kRealtimeParts)
    message_.counters.push_back({"modeld_realtime_missing{process=\"" + process + "\",part=\"" +
                                     realtime_part_name(part) + "\"}",
                                 0});
}

void Health::fill_realtime(RealtimeMissing missing, size_t& at) {
  for (const RealtimePart part : kRealtimeParts)
    message_.counters[at++].value = missing.has(part) ? 1 : 0;
}

void Health::observe(int64_t busy_ns) {
  ++step_count_;
  steps_.add(busy_ns);
  for (Row& r : rows_) {
    const std::array<const ModelUnit*, 2> units = {&r.unit->primary(), r.unit->fallback()};
    bool is_new = false;
    for (size_t i = 0; i < units.size(); ++i) {
      if (units[i] == nullptr) continue;
      const uint64_t n = units[i]->status().frames_accepted;
      if (n != std::exchange(r.seen[i], n)) is_new |= (i == 1) == r.unit->fallback_speaks();
    }
    if (!is_new) continue;
    const ipc::Timings& t = r.unit->last_timings();
    for (size_t i = 0; i < kPartCount; ++i) {
      const int64_t ns = std::max<int64_t>(kParts[i].of(t), 0);
      r.parts[i].add(ns);
      r.recent[i].add(ns);
    }
  }
}

// ---- the topic ----

void Health::fill() {
  size_t at = 0, part = 0;
  for (Row& r : rows_) {
    const ipc::ModelStatus& s = r.unit->status();
    for (const CounterRow& c : kCounters)
      message_.counters[at++].value = static_cast<double>(s.*c.field);
    message_.counters[at++].value = static_cast<double>(s.state);
    for (LatencyWindow& w : r.recent) {
      ipc::LatencyValue& l = message_.latencies[part++];
      l.count = w.count();
      l.p50_ns = w.quantile(0.50);
      l.p90_ns = w.quantile(0.90);
      l.p99_ns = w.quantile(0.99);
      l.max_ns = w.max();
    }
  }
  fill_realtime(own_, at);
  for (const Row& r : rows_) {
    fill_realtime(r.unit->primary().realtime_missing(), at);
    if (r.unit->fallback() != nullptr) fill_realtime(r.unit->fallback()->realtime_missing(), at);
  }
}

void Health::publish(int64_t now, const FeedHealth& feed) {
  fill();
  (void)!publisher_.publish(message_).ok();
  if (file_.is_on()) file_.offer(render(now, feed));
}

// ---- the text ----

std::string_view Health::render(int64_t now, const FeedHealth& feed) {
  text_.clear();
  write_daemon(now);
  write_feed(now, feed);
  write_flights(feed);
  write_counters();
  write_causes();
  write_states(now);
  write_gauges(now);
  write_latencies();
  write_realtime();
  write_memory();
  write_file_counts();
  return text_.text();
}

void Health::write_daemon(int64_t now) {
  text_.family("modeld_build_info", MetricType::kGauge, "Always 1; the version is a label.");
  text_.sample({{"version", MODELD_VERSION}}, 1);
  text_.family("modeld_uptime_seconds", MetricType::kGauge, "Since the daemon began.");
  text_.sample({}, seconds(now - start_ns_));
  text_.family("modeld_steps_total", MetricType::kCounter, "Steps of the frame loop.");
  text_.sample({}, static_cast<double>(step_count_));
  text_.family("modeld_step_seconds", MetricType::kHistogram,
               "Work of one step of the frame loop, its wait not counted.");
  text_.histogram({}, steps_);
}

void Health::write_feed(int64_t now, const FeedHealth& feed) {
  text_.family("modeld_camera_connected", MetricType::kGauge, "1 while the camera serves frames.");
  text_.sample({}, feed.camera_connected ? 1 : 0);
  text_.family("modeld_camera_connections_total", MetricType::kCounter,
               "Handshakes with a camera server.");
  text_.sample({}, static_cast<double>(feed.camera_connections));
  text_.family("modeld_camera_frames_lost_total", MetricType::kCounter,
               "Frames of a stream that were replaced unread or never came.");
  for (size_t i = 0; i < feed.frames_lost.size(); ++i)
    text_.sample({{"stream", ipc::stream_name(static_cast<ipc::StreamId>(i))}},
                 static_cast<double>(feed.frames_lost[i]));
  text_.family("modeld_vehicle_age_seconds", MetricType::kGauge,
               "Age of the newest vehicle inputs; +Inf before the first.");
  text_.sample({}, feed.vehicle_seen ? seconds(now - feed.vehicle_time_ns)
                                     : std::numeric_limits<double>::infinity());
}

void Health::write_flights(const FeedHealth& feed) {
  text_.family("modeld_flight_records_total", MetricType::kCounter,
               "Records of failures: written, failed to be written, left out.");
  text_.sample({{"outcome", "written"}}, static_cast<double>(feed.flights_written));
  text_.sample({{"outcome", "failed"}}, static_cast<double>(feed.flights_failed));
  text_.sample({{"outcome", "dropped"}}, static_cast<double>(feed.flights_dropped));
}

void Health::write_counters() {
  for (const CounterRow& c : kCounters) {
    text_.family(c.name, MetricType::kCounter, c.help);
    for (const Row& r : rows_) {
      text_.sample({{"model", r.unit->name()}}, static_cast<double>(r.unit->status().*c.field));
      if (const ModelUnit* f = r.unit->fallback(); f != nullptr)
        text_.sample({{"model", r.unit->name() + kFallback}},
                     static_cast<double>(f->status().*c.field));
    }
  }
}

void Health::write_causes() {
  text_.family("modeld_frames_unusable_total", MetricType::kCounter,
               "Frames that came and were no part of a run, by cause; apart and alone: unpaired.");
  for (const Row& r : rows_) {
    for (size_t i = 1; i < kTroubleCount; ++i) {
      const auto cause = static_cast<Trouble>(i);
      text_.sample({{"model", r.unit->name()}, {"cause", trouble_name(cause)}},
                   static_cast<double>(r.unit->sync().dropped(cause)));
    }
  }
  text_.family("modeld_unavailable_total", MetricType::kCounter,
               "Entries into UNAVAILABLE, by reason.");
  const auto entries = [&](const std::string& model, const ModelUnit& unit) {
    for (size_t i = 1; i < ipc::kReasonCount; ++i)
      text_.sample({{"model", model}, {"reason", ipc::reason_name(static_cast<Reason>(i))}},
                   static_cast<double>(unit.counts().unavailable[i]));
  };
  for (const Row& r : rows_) {
    entries(r.unit->name(), r.unit->primary());
    if (r.unit->fallback() != nullptr) entries(r.unit->name() + kFallback, *r.unit->fallback());
  }
  text_.family("modeld_messages_total", MetricType::kCounter,
               "Messages on the model's topic, heartbeats included.");
  for (const Row& r : rows_) {
    for (const bool valid : {true, false})
      text_.sample({{"model", r.unit->name()}, {"valid", valid ? "true" : "false"}},
                   static_cast<double>(r.unit->messages(valid)));
  }
}

void Health::write_states(int64_t now) {
  text_.family("modeld_model_state", MetricType::kGauge, "1 for the state the model is in.");
  for (const Row& r : rows_) {
    for (int i = 0; i < ipc::kModelStateCount; ++i) {
      const auto state = static_cast<ModelState>(i);
      text_.sample({{"model", r.unit->name()}, {"state", ipc::model_state_name(state)}},
                   r.unit->status().state == state ? 1 : 0);
    }
  }
  text_.family("modeld_model_reason", MetricType::kGauge, "1 for the reason the state carries.");
  for (const Row& r : rows_) {
    for (size_t i = 0; i < ipc::kReasonCount; ++i) {
      const auto reason = static_cast<Reason>(i);
      text_.sample({{"model", r.unit->name()}, {"reason", ipc::reason_name(reason)}},
                   r.unit->status().reason == reason ? 1 : 0);
    }
  }
  text_.family("modeld_model_state_seconds", MetricType::kGauge, "Since the state was entered.");
  for (const Row& r : rows_)
    text_.sample({{"model", r.unit->name()}}, seconds(now - r.unit->status().since_ns));
}

void Health::write_gauges(int64_t now) {
  const auto each = [&](const char* name, const char* help, const auto& value) {
    text_.family(name, MetricType::kGauge, help);
    for (const Row& r : rows_) text_.sample({{"model", r.unit->name()}}, value(*r.unit));
  };
  each("modeld_last_valid_age_seconds", "Since the last valid message; +Inf before the first.",
       [&](const ModelPair& m) {
         const int64_t last = m.last_valid_ns();
         return last == 0 ? std::numeric_limits<double>::infinity() : seconds(now - last);
       });
  each("modeld_frame_drop_ratio", "Share of the camera's frames not run, over about 10 s.",
       [](const ModelPair& m) { return m.frame_drop_percent() / 100; });
  each("modeld_context_missing_frames", "Accepted frames the context still lacks.",
       [](const ModelPair& m) {
         return static_cast<double>(m.status().context_frames - m.status().context_filled);
       });
  each("modeld_fallback_in_use", "1 while the fallback bundle speaks.",
       [](const ModelPair& m) { return m.fallback_speaks() ? 1.0 : 0.0; });
  each("modeld_simulated", "1 when the device is a simulator.",
       [](const ModelPair& m) { return m.status().simulated ? 1.0 : 0.0; });
}

void Health::write_latencies() {
  for (size_t i = 0; i < kPartCount; ++i) {
    char name[64];
    snprintf(name, sizeof name, "%s_seconds", kParts[i].name);
    text_.family(name, MetricType::kHistogram, kParts[i].help);
    for (const Row& r : rows_) text_.histogram({{"model", r.unit->name()}}, r.parts[i]);
  }
}

void Health::write_realtime() {
  text_.family("modeld_realtime_missing", MetricType::kGauge,
               "1 for what the configuration wants of real time and the system refuses.");
  const auto of = [&](const std::string& process, RealtimeMissing missing) {
    for (const RealtimePart part : kRealtimeParts)
      text_.sample({{"process", process}, {"part", realtime_part_name(part)}},
                   missing.has(part) ? 1 : 0);
  };
  of("supervisor", own_);
  for (const Row& r : rows_) {
    of(r.unit->name(), r.unit->primary().realtime_missing());
    if (r.unit->fallback() != nullptr)
      of(r.unit->name() + kFallback, r.unit->fallback()->realtime_missing());
  }
}

void Health::write_memory() {
  text_.family("modeld_resident_bytes", MetricType::kGauge, "Resident memory of a process.");
  text_.sample({{"process", "supervisor"}}, resident_bytes(getpid()));
  const auto of = [&](const std::string& process, int pid) {
    if (pid > 0) text_.sample({{"process", process}}, resident_bytes(pid));
  };
  for (const Row& r : rows_) {
    of(r.unit->name(), r.unit->primary().link().pid());
    if (r.unit->fallback() != nullptr)
      of(r.unit->name() + kFallback, r.unit->fallback()->link().pid());
  }
}

void Health::write_file_counts() {
  text_.family("modeld_metrics_file_total", MetricType::kCounter,
               "Texts for metrics.prom: written, failed to be written, left out as the writer was "
               "busy.");
  text_.sample({{"outcome", "written"}}, static_cast<double>(file_.written()));
  text_.sample({{"outcome", "failed"}}, static_cast<double>(file_.failed()));
  text_.sample({{"outcome", "dropped"}}, static_cast<double>(file_.dropped()));
}

}  // namespace modeld::daemon
