// The supervisor's frame loop: one step() from "something may have happened" to "everybody knows".
// Read step() first: it is the map of the daemon.
// Contract: a step lasts at most kMaxWaitNs of waiting plus the work at hand; nothing in it blocks.
// In the steady state it does not allocate outside libzmq, lock, log or look up. Threading: one
// thread owns the loop and all it refers to.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "hal/base/status.h"

#include "ipc/bus.h"
#include "ipc/control.h"
#include "ipc/frame_client.h"
#include "ipc/message_types.h"
#include "ipc/poller.h"
#include "ipc/publisher.h"
#include "ipc/text_server.h"

#include "daemon/health.h"
#include "daemon/model_pair.h"
#include "daemon/watchdog.h"

namespace modeld::daemon {

inline constexpr int64_t kMaxWaitNs = 10'000'000;
inline constexpr int64_t kStatePeriodNs = 100'000'000;

class FrameLoop final {
 public:
  struct Parts {
    ipc::FrameClient& camera;
    ipc::Receiver& vehicle;
    ipc::Sender& state;
    ipc::Sender& metrics;
    ipc::ControlServer& control;
    ipc::TextServer& metrics_text;
    FlightRecorder& flight;
    Watchdog& watchdog;
    std::vector<ModelPair*> models;
    std::string metrics_path;          // metrics.prom
    RealtimeMissing realtime_missing;  // of this process
  };
  explicit FrameLoop(Parts parts);

  Status step();

  // Set by a control request; the owner reloads the configuration and clears it.
  bool take_reload() { return std::exchange(reload_wanted_, false); }
  const ipc::StateMessage& state() const { return state_; }
  // Sends the state message now (also the last thing before an exit).
  void publish_state(int64_t now);

 private:
  void receive_camera(int64_t now);
  void receive_vehicle();
  void supervise(int64_t now);
  void hand_over_frames(int64_t now);
  void publish_health(int64_t now);
  FeedHealth feed_health() const;
  bool match(ModelPair& model, int64_t now);
  std::string trace_text() const;
  std::string answer_control(std::string_view request);

  Parts parts_;
  ipc::Poller poller_;
  ipc::Publisher state_out_;
  Health health_;
  ipc::StateMessage state_;
  ipc::VehicleMessage vehicle_;
  ipc::VehicleMessage vehicle_scratch_;
  bool vehicle_seen_ = false;
  uint64_t camera_epoch_ = 0;
  std::string camera_trouble_;  // as last told
  int64_t next_state_ns_ = 0;
  int64_t next_metrics_ns_ = 0;
  FrameSet matched_;
  int camera_at_ = 0, vehicle_at_ = 0;  // in the poller
  bool reload_wanted_ = false;
};

}  // namespace modeld::daemon
