// ModelUnit: the supervision of one model: its worker's life, its deadlines, its state, its
// messages. It knows no process (WorkerLink), no clock (times are handed in) and no socket
// (OutputTopic), so all of its behaviour is tested without any. Contract: tick() is called at least
// every 20 ms; what must happen by a deadline happens at the first tick after it. In the steady
// state nothing allocates, locks or logs. Times: ns of CLOCK_MONOTONIC. Threading: frame loop.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <string>

#include "hal/base/unique_fd.h"

#include "ipc/frame_client.h"
#include "ipc/message_types.h"

#include "daemon/bundle_choice.h"
#include "daemon/config.h"
#include "daemon/drop_filter.h"
#include "daemon/flight_recorder.h"
#include "daemon/frame_sync.h"
#include "daemon/journal.h"
#include "daemon/outputs.h"
#include "daemon/realtime.h"
#include "daemon/state_machine.h"
#include "daemon/worker_link.h"

namespace modeld::daemon {

// What the model is fed, as of now.
struct Feed {
  const ipc::VehicleInputs* vehicle = nullptr;  // newest received, null: never
  bool camera_connected = false;
};

// Deadlines that are the same for every model.
inline constexpr int64_t kInputStaleNs = 500'000'000;
inline constexpr int64_t kInputAheadNs = 10'000'000;  // dated later than this: another clock's
inline constexpr int64_t kCameraFaultNs = 150'000'000;
inline constexpr int64_t kInputGraceNs = 1'000'000'000;  // after WARMING began
inline constexpr int64_t kHeartbeatNs = 50'000'000;
// After a frame's own message: the next frame's is due before a heartbeat is.
inline constexpr int64_t kFrameQuietNs = 75'000'000;
inline constexpr int64_t kGoodForNs =
    10'000'000'000;  // READY for so long: the back-off starts over
inline constexpr int64_t kHeartbeatsLastNs =
    1'100'000'000;  // at least 1 s from entry into UNAVAILABLE
inline constexpr int64_t kReapNs = 2'000'000'000;
inline constexpr int64_t kFirstBackOffNs = 100'000'000;
inline constexpr int64_t kLongestBackOffNs = 5'000'000'000;
inline constexpr size_t kEventsPerTick = 16;
inline constexpr size_t kLateWindow = 100;
inline constexpr size_t kLateAllowed = 3;

// What the state message does not say.
struct UnitCounts {
  std::array<uint64_t, ipc::kReasonCount> unavailable{};  // entries, by reason
  uint64_t valid_sent = 0;
  uint64_t invalid_sent = 0;
};

// Whether a unit's messages go out, and as what.
struct Voice {
  bool speaks = true;
  bool stands_in = false;  // as the fallback of a primary that is out for `reason`
  Reason reason = Reason::kNone;
  int64_t after_sof_ns = 0;  // the other unit told of the frames up to the one that began then
};

class ModelUnit {
 public:
  // `link` and `topic` are borrowed. `setup` is what every worker of this unit is started with.
  ModelUnit(const ModelConfig& config, WorkerSetup setup, WorkerLink& link, OutputTopic& topic);

  // Whom transitions are told to, and who keeps a record of failures (null: nobody). Before the
  // first tick().
  void set_tell(TellTransition tell) { tell_ = tell; }
  void set_flight(FlightRecorder* flight) { flight_ = flight; }

  // Everything that time and the worker bring.
  void tick(int64_t now, const Feed& feed);
  // True when a frame handed over now would be run.
  bool wants_frame(int64_t now, const Feed& feed) const;
  void hand_over(FrameSet&& frames, const Feed& feed, int64_t now);
  // A new camera connection: its descriptors, for this worker and the next ones.
  Status set_buffers(const CameraBuffers& buffers, std::span<const int> fds, int64_t now);

  // Tries again at once what only a change of file or config can mend; restarts a running worker if
  // asked to.
  void reload(WorkerSetup setup, const ModelConfig& config, bool restart, int64_t now);
  // Out for good: no worker is started, or started again.
  void refuse(Reason reason, int64_t now, const std::string& text);
  void stop();
  void set_voice(const Voice& voice) { voice_ = voice; }
  void set_source(const std::string& source) { source_ = source; }
  void count_dropped(uint64_t total) { status_.frames_dropped = total; }

  const ipc::ModelStatus& status() const { return status_; }
  FrameSync& sync() { return sync_; }
  WorkerLink& link() { return link_; }
  const WorkerLink& link() const { return link_; }
  const std::string& name() const { return status_.name; }
  // What log and journal call it, when that is not its name.
  void set_title(const std::string& title) { title_ = title; }
  void tell_status(const ipc::ModelStatus& status) const;
  // A second of valid=false from now on: nobody else speaks for the role any more.
  void owe_heartbeats(int64_t now);
  // Left LOADING and SELFTEST at least once.
  bool has_settled() const { return settled_; }
  bool is_loading() const {
    return standing_.state == ModelState::kLoading || standing_.state == ModelState::kSelftest;
  }
  // True once per transition: the state topic must go out now.
  bool take_changed() { return std::exchange(changed_, false); }
  int64_t last_valid_ns() const { return last_valid_ns_; }
  // When the frame began that the last valid message told of.
  int64_t told_sof_ns() const { return told_sof_ns_; }
  // Of the last accepted run; latency_ns to the return of its send.
  const ipc::Timings& last_timings() const { return last_timings_; }
  float frame_drop_percent() const { return report_.frame_drop_percent; }
  const UnitCounts& counts() const { return counts_; }
  // A frame is with the worker since this long; a negative number when none is.
  int64_t in_flight_ns(int64_t now) const { return in_flight_ ? now - handed_over_ns_ : -1; }
  // Of the worker that is or was last warm.
  RealtimeMissing realtime_missing() const { return realtime_missing_; }

 private:
  void apply(const Step& step, int64_t now, const std::string& text);
  void fault(Reason reason, int64_t now, const std::string& text);
  ipc::RecordedModel recorded_model() const;
  void record_failure(Reason reason, int64_t now, const std::string& text);
  void on_event(const WorkerEvent& event, int64_t now);
  void on_hello(const WorkerHello& hello, int64_t now);
  void on_exit(const std::string& text, int64_t now);
  void on_answer(int64_t now);
  void on_accepted(int64_t now);
  Status parse_outputs();
  void count_late(int64_t now);
  void check_deadlines(int64_t now);
  void check_inputs(int64_t now, const Feed& feed);
  void input_fault(Reason reason, int64_t now, const std::string& text);
  bool camera_is_back(int64_t now, const Feed& feed) const;
  std::string no_frame_text(const Feed& feed) const;
  void restart_if_due(int64_t now);
  bool bundle_changed();
  uint64_t stamp_of_choice() const;
  void start_worker(int64_t now);
  bool try_other_bundle(Reason reason, const std::string& text);
  void heartbeat_if_due(int64_t now);
  void send(
      RunReport& report, bool valid, int64_t now, std::span<const float> raw, int64_t quiet_ns);
  void resend_buffers();
  void end_worker(int64_t now);
  const StreamBuffers* unknown_geometry() const;
  bool has_streams() const;
  bool same_geometry(const CameraBuffers& buffers) const;

  ModelConfig config_;
  WorkerSetup setup_;
  WorkerLink& link_;
  OutputTopic& topic_;
  FrameSync sync_;
  Standing standing_;
  ipc::ModelStatus status_;
  std::string title_;
  std::vector<bundle::GeometryRow> geometries_;
  bool changed_ = true;
  bool settled_ = false;
  Voice voice_;
  BundleChoice choice_;
  bool other_tried_ = false;   // of an a/b pair, since the last READY or reload
  char forced_ = '\0';         // of an a/b pair whose file `active` cannot be written: the choice
  std::string switched_text_;  // why the other bundle is in use

  // The job under way.
  bool in_flight_ = false;
  Job job_;
  FrameSet frames_;
  RunReport report_;
  int64_t handed_over_ns_ = 0;

  // What is kept of failures.
  TellTransition tell_ = tell_on_stderr;
  FlightRecorder* flight_ = nullptr;
  FlightRing last_runs_;
  std::string source_;       // of the camera
  bool has_answer_ = false;  // of the run that just ended: link_.answer() and raw() are its own

  // Camera buffers as last announced.
  CameraBuffers buffers_;
  std::vector<int> buffer_fds_;
  bool buffers_sent_ = false;
  bool buffers_refused_ = false;  // the last attempt failed
  int64_t camera_since_ns_ = 0;   // when they were announced
  bool refused_ = false;

  // Deadlines and counters.
  int64_t started_ns_ = 0;  // of the worker
  int64_t warm_since_ns_ = 0;
  int64_t last_frame_ns_ = 0;  // a frame was handed over or a run ended
  int64_t heartbeats_until_ns_ = 0;
  int64_t next_heartbeat_ns_ = 0;
  int64_t kill_ns_ = 0;  // when the worker was killed, 0: it was not
  int64_t restart_at_ns_ = 0;
  int64_t back_off_ns_ = kFirstBackOffNs;
  int64_t last_valid_ns_ = 0;
  int64_t told_sof_ns_ = 0;
  ipc::Timings last_timings_;
  UnitCounts counts_;
  RealtimeMissing realtime_missing_;
  bool reset_pending_ = true;
  uint64_t since_reset_ = 0;
  DropFilter drops_;
  std::bitset<kLateWindow> late_;
  size_t late_at_ = 0;
  uint64_t file_stamp_ = 0;  // of the bundle file that failed for good
  int64_t next_file_look_ns_ = 0;
  UniqueFd bundle_fd_;         // of the worker's bundle, only to look at
  uint64_t bundle_stamp_ = 0;  // when the worker was started
};

}  // namespace modeld::daemon
