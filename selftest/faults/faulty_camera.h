// A camera server of the row's own that does what real ones do on bad days: repeats frames, loses
// them, dates them wrong, shifts one stream against the other, or stops telling of the vehicle. It
// speaks the real protocol (ipc/frame_server.h) on the real socket; modelcam never misbehaves.
// Contract: 20 Hz by the clock; `twist` sees every tick before it is sent and changes what it
// likes. Threading: its own thread; twist() from any, the function runs in the camera's thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "hal/base/unique_fd.h"

#include "ipc/frame.h"
#include "ipc/message_types.h"

namespace modeld::faults {

// What one tick sends.
struct Shot {
  std::array<bool, ipc::kStreamCount> sends{true, true, true};
  std::array<uint64_t, ipc::kStreamCount> id{};
  std::array<int64_t, ipc::kStreamCount> sof_ns{};
  bool sends_vehicle = true;
  ipc::VehicleInputs vehicle;
};

class FaultyCamera final {
 public:
  using Twist = std::function<void(Shot&)>;
  explicit FaultyCamera(const std::string& dir);
  ~FaultyCamera();
  FaultyCamera(const FaultyCamera&) = delete;
  FaultyCamera& operator=(const FaultyCamera&) = delete;

  // From the next tick on; an empty one mends the camera.
  void twist(Twist twist);

 private:
  void loop();

  std::string dir_;
  std::mutex mutex_;  // guards twist_
  Twist twist_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// Offers pictures in memory whose size nobody sealed: whoever maps them can be made to fault.
class UnsealedCamera final {
 public:
  explicit UnsealedCamera(const std::string& dir);
  ~UnsealedCamera();
  UnsealedCamera(const UnsealedCamera&) = delete;
  UnsealedCamera& operator=(const UnsealedCamera&) = delete;
  int refused() const { return refused_; }  // connections that ended after the handshake

 private:
  void loop();

  std::string dir_;
  std::atomic<int> refused_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace modeld::faults
