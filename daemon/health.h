// Counters and latencies of the daemon: the metrics topic and the Prometheus text, which goes to
// metrics.prom once a second (metrics_file.h) and to whoever asks at metrics.sock. Contract:
// observe() and publish() neither allocate after construction nor wait for a disk. Counters never
// fall while the daemon lives. Threading: frame loop.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "ipc/bus.h"
#include "ipc/frame.h"
#include "ipc/publisher.h"

#include "daemon/metrics_file.h"
#include "daemon/model_pair.h"
#include "daemon/prometheus.h"

namespace modeld::daemon {

// The last kSize samples of one latency.
class LatencyWindow {
 public:
  static constexpr size_t kSize = 256;
  void add(int64_t ns);
  // p in [0, 1]; 0 when empty.
  int64_t quantile(double p);
  uint64_t count() const { return count_; }
  int64_t max() const;

 private:
  std::array<int64_t, kSize> samples_{};
  std::array<int64_t, kSize> sorted_{};
  uint64_t count_ = 0;
};

// What the daemon is fed with, and what it keeps of failures, as of now.
struct FeedHealth {
  bool camera_connected = false;
  uint64_t camera_connections = 0;
  std::array<uint64_t, ipc::kStreamCount> frames_lost{};
  uint64_t flights_written = 0, flights_failed = 0, flights_dropped = 0;
  bool vehicle_seen = false;
  int64_t vehicle_time_ns = 0;  // of the newest inputs
};

class Health {
 public:
  // `path`: of the text's file, "": none. `own`: what the supervisor itself lacks of real time.
  Health(ipc::Sender& sender,
         std::string path,
         const std::vector<ModelPair*>& units,
         RealtimeMissing own);
  // After every step; `busy_ns`: how long it worked, its wait not counted.
  void observe(int64_t busy_ns);
  void publish(int64_t now, const FeedHealth& feed);
  // The Prometheus text as of now; valid until the next call of anything here.
  std::string_view render(int64_t now, const FeedHealth& feed);

 private:
  // The parts of a frame's way; kParts in health.cc names them.
  static constexpr size_t kPartCount = 5;
  struct Row {
    ModelPair* unit;
    std::array<Histogram, kPartCount> parts{};
    std::array<LatencyWindow, kPartCount> recent{};
    std::array<uint64_t, 2> seen{};  // frames accepted by primary and fallback when last looked at
  };
  void fill();
  void add_realtime(const std::string& process);
  void fill_realtime(RealtimeMissing missing, size_t& at);
  void write_daemon(int64_t now);
  void write_feed(int64_t now, const FeedHealth& feed);
  void write_flights(const FeedHealth& feed);
  void write_counters();
  void write_causes();
  void write_states(int64_t now);
  void write_gauges(int64_t now);
  void write_latencies();
  void write_realtime();
  void write_memory();
  void write_file_counts();

  ipc::Publisher publisher_;
  std::vector<Row> rows_;
  RealtimeMissing own_;
  Histogram steps_;
  uint64_t step_count_ = 0;
  int64_t start_ns_;
  ipc::MetricsMessage message_;
  PrometheusText text_;
  MetricsFile file_;
};

}  // namespace modeld::daemon
