// The flight recorder: of each failure of a run (timeout, numbers nobody may use, a device that is
// gone) one file with the runs before it and the run itself (ipc/flight.h), in one directory whose
// size is capped, the oldest going first. A FlightRing per model keeps the last runs in memory made
// once; FlightRecorder writes on a thread of its own, so that no frame waits for a disk. Contract:
// note() allocates nothing; submit() is for failures and may; a record that finds the recorder
// behind, or comes within 10 s of the last one of its model, is dropped and counted. Threading:
// frame loop; the writing thread touches only jobs under way; FrameRefs are made and given
// back by the frame loop alone.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "hal/base/unique_fd.h"

#include "ipc/flight.h"
#include "ipc/frame_client.h"

#include "daemon/outputs.h"

namespace modeld::daemon {

// The last runs of one model.
class FlightRing {
 public:
  // `runs` of at most `raw_size` numbers each. Forgets what was there.
  void prepare(ipc::RecordedModel model, size_t runs, size_t raw_size);
  void note(const RunReport& report, std::span<const float> raw);
  // Oldest first.
  std::vector<ipc::RecordedRun> runs() const;

 private:
  std::vector<ipc::RecordedRun> runs_;
  uint64_t noted_ = 0;
};

ipc::RecordedRun recorded_run(ipc::RecordedModel model,
                              const RunReport& report,
                              std::span<const float> raw);

struct FlightJob {
  ipc::Flight flight;
  // What the worker wrote of the run's tensors, `capture_bytes` of it; 0: nothing.
  UniqueFd capture;
  uint64_t capture_bytes = 0;
  // Written only when there are no tensors.
  std::vector<ipc::FrameRef> pictures;
};

struct FlightOptions {
  std::string dir;
  uint64_t limit_bytes = 64 << 20;  // 0: nothing is recorded
  size_t runs = 20;
};

class FlightRecorder final {
 public:
  static constexpr int64_t kQuietNs = 10'000'000'000;
  static constexpr size_t kMaxJobs = 4;

  explicit FlightRecorder(FlightOptions options);
  // Waits for the record under way.
  ~FlightRecorder();

  const FlightOptions& options() const { return options_; }
  bool is_on() const { return options_.limit_bytes > 0; }
  // Nothing is being written: a worker may write its tensors again.
  bool is_idle() const { return pending_.load(std::memory_order_acquire) == 0; }
  void submit(FlightJob job);
  // Gives back what finished jobs borrowed. Every step; costs one load when there is nothing.
  void collect();

  uint64_t written() const { return written_.load(std::memory_order_relaxed); }
  uint64_t failed() const { return failed_.load(std::memory_order_relaxed); }
  uint64_t dropped() const { return dropped_; }

 private:
  struct Task {
    FlightJob job;
    std::atomic<bool> is_done{false};
  };
  void serve();
  Status write(FlightJob& job);
  Status make_room(uint64_t bytes) const;

  FlightOptions options_;
  std::array<int64_t, 2> last_ns_{};  // by model, 0: none yet
  uint64_t dropped_ = 0;
  std::atomic<int> pending_{0};  // submitted and not collected
  std::atomic<int> done_{0};     // written and not collected
  std::atomic<uint64_t> written_{0};
  std::atomic<uint64_t> failed_{0};
  std::mutex mutex_;  // guards tasks_ and stop_
  std::condition_variable wake_;
  std::deque<std::unique_ptr<Task>> tasks_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace modeld::daemon
