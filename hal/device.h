// The device interface: memory, programs, recordings, one timeline, bounded waits. This is not a
// scheduler: exec decides what runs, a device runs it in submission order.
// Contract: each submission ends by setting the device's timeline to its own value (1, 2, ...).
// Errors are sticky until recover(). Buffers, programs, signals and recordings share the device's
// core and may outlive the Device; then they answer kDeviceLost. Destructors wait a bounded time
// and rather leak (with a log line) than free memory in use.
// Threading: load, submit, make_signal, record, wait and the allocator: any thread. Destruction:
// one thread, last.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hal/base/clock.h"
#include "hal/base/status.h"
#include "hal/buffer.h"
#include "hal/program.h"
#include "hal/queue.h"
#include "hal/signal.h"

namespace modeld::hal {

enum class QueueKind : uint8_t { kCompute, kCopy };
enum class DevState : uint8_t { kBooting, kReady, kRecovering, kContextLost, kAbsent, kClosed };
const char* dev_state_name(DevState state);

struct DeviceInfo {
  std::string uri;     // canonical, "cpu:0"
  std::string name;    // for people
  std::string target;  // print_target() of what it runs
  uint32_t index = 0;
  int threads = 1;
  uint64_t memory_bytes = 0;  // 0: unknown
  bool has_copy_queue = false, is_unified = false, is_recoverable = false, is_simulated = false;
};

struct ProfileRange {
  std::string name;
  int64_t start_ns = 0, end_ns = 0;
};

struct DeviceConfig {
  int threads = 2;        // CPU: workers including the one that owns the queue; at least 1
  std::vector<int> cpus;  // CPU: thread t is pinned to cpus[t % size]; empty: not pinned
  bool profile = false;   // record a range per launch (take_profile)
  int64_t submit_wait_ms =
      30'000;  // no-progress limit of a submit that must wait for its previous run
  uint64_t first_timeline_value = 1;  // tests start near 2^32
  // null device: called in submit with the recording's label and inputs; writes golden outputs
  // where the caller wants.
  std::function<void(const std::string& label, std::span<const uint64_t> inputs)> on_null_run;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  virtual DevState state() const = 0;
  virtual uint64_t epoch() const = 0;
  virtual Allocator& allocator() = 0;
  virtual Result<std::shared_ptr<Program>> load(const ProgramImage& image) = 0;
  virtual Result<Signal> make_signal(uint64_t initial = 0) = 0;
  // `label` names the recording in traces and for the null device ("run", "warp/road/1928x1208").
  virtual std::unique_ptr<Recorder> record(QueueKind kind, std::string label = {}) = 0;
  // One-shot: binds, submits without inputs and keeps the recording until it has run.
  virtual Result<TimelinePoint> submit(std::unique_ptr<Recorder> recorder) = 0;
  // kTimeout past the deadline; kContextLost / kDeviceLost when the point can no longer be reached.
  virtual Status wait(TimelinePoint point, Deadline deadline) = 0;
  virtual Status synchronize(Deadline deadline) = 0;  // everything submitted so far
  // Copies before return; ordered after everything submitted so far.
  virtual Result<TimelinePoint> upload(const Buffer& to,
                                       size_t offset,
                                       std::span<const std::byte> bytes) = 0;
  virtual Status download(std::span<std::byte> to,
                          const Buffer& from,
                          size_t offset,
                          Deadline deadline) = 0;
  virtual Status recover(Deadline deadline) = 0;
  virtual std::vector<ProfileRange> take_profile() = 0;
};

}  // namespace modeld::hal
