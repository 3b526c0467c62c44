// What the topics carry, as plain structs: the daemon fills them, consumers read them, and only
// ipc/message.cc knows that Cap'n Proto lies between. Lists have their full size always, valid or
// not. Units: m, s, rad, ns of CLOCK_MONOTONIC. Threading: plain values. No steady-state
// allocation: strings and `raw` keep their capacity when a struct is used again.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ipc/model_state.h"

namespace modeld::ipc {

inline constexpr int kDesireCount = 8;
inline constexpr int kMetaCount = 55;
// The largest raw output vector a message may carry (floats).
inline constexpr uint32_t kMaxRawFloats = 65536;
inline constexpr int kMaxModels = 8;
inline constexpr int kMaxMetrics = 256;

// Mean and sigma of N quantities, row-major.
template <size_t N>
struct Mdn {
  static constexpr size_t kSize = N;
  std::array<float, N> mean{};
  std::array<float, N> std{};
  bool operator==(const Mdn&) const = default;
};

// The part every message has. `sequence` and `time_ns` are set by the publisher at send.
struct Header {
  int64_t time_ns = 0;
  uint64_t sequence = 0;
  uint64_t frame_id = 0;
  bool valid = false;
  bool degraded = false;
  ModelState state = ModelState::kLoading;
  Reason reason = Reason::kNone;
  bool simulated = false;
  bool operator==(const Header&) const = default;
};

struct VehicleInputs {
  int64_t time_ns = 0;
  bool calibration_known = false;
  std::array<float, 3> rpy_calibration{};
  std::array<float, kDesireCount> desire{};
  bool right_hand_drive = false;
  float lateral_action_time = 0;
  float longitudinal_action_time = 0;
  float speed = 0;
  bool operator==(const VehicleInputs&) const = default;
};

struct VehicleMessage {
  Header header;
  VehicleInputs inputs;
  std::string source;  // source string of the publisher, ipc/frame_source.h
};

// CLOCK_MONOTONIC ns; 0 where a step was not reached.
struct Timings {
  int64_t sof_ns = 0;
  int64_t eof_ns = 0;
  int64_t received_ns = 0;  // recvmsg of the newest frame of the run
  int64_t handed_over_ns = 0;
  int64_t answered_ns = 0;
  int64_t latency_ns = 0;  // received_ns to just before this message's send (publisher fills it)
  int64_t previous_latency_ns =
      0;  // previous message's received_ns to the return of its send (publisher fills it)
  int64_t warp_ns = 0;
  int64_t run_ns = 0;
  bool operator==(const Timings&) const = default;
};

// Which run a message belongs to: what a recording needs to make it again.
struct RunIdentity {
  uint64_t resets = 0;       // state resets since start, before this run
  uint64_t since_reset = 0;  // accepted frames since the last reset, this one included
  bool accepted = false;     // passed the finite check, state committed
  bool operator==(const RunIdentity&) const = default;
};

struct RoadMessage {
  Header header;
  uint64_t road_frame_id = 0;
  uint64_t wide_frame_id = 0;
  Timings timings;
  RunIdentity run;
  VehicleInputs vehicle;  // the inputs this run used
  Mdn<33 * 15> plan;
  Mdn<4 * 33 * 2> lane_lines;
  std::array<float, 4> lane_line_probs{};
  Mdn<2 * 33 * 2> road_edges;
  Mdn<3 * 6 * 4> leads;
  std::array<float, 3> lead_probs{};
  Mdn<6> pose;
  Mdn<6> road_transform;
  Mdn<3> wide_from_device_euler;
  std::array<float, kMetaCount> meta{};
  std::array<float, 4 * kDesireCount> desire_pred{};
  std::array<float, kDesireCount> desire_state{};
  std::array<float, 2> action{};
  bool has_action = false;
  std::vector<float> raw;        // empty unless publish.raw
  float frame_drop_percent = 0;  // of the camera's frames, over about 10 s; 0 right after a reset
};

struct CabinSide {
  Mdn<6> face;  // orientation 3, position 2, size 1
  float face_prob = 0;
  float left_eye_prob = 0;
  float right_eye_prob = 0;
  float left_blink_prob = 0;
  float right_blink_prob = 0;
  float sunglasses_prob = 0;
  float using_phone_prob = 0;
  float sleep_prob = 0;
  bool operator==(const CabinSide&) const = default;
};

struct CabinMessage {
  Header header;
  uint64_t cabin_frame_id = 0;
  Timings timings;
  RunIdentity run;
  VehicleInputs vehicle;
  CabinSide lhd;
  CabinSide rhd;
  float wheel_on_right_prob = 0;
  std::vector<float> raw;
  float frame_drop_percent = 0;
};

struct ModelStatus {
  std::string name;
  ModelState state = ModelState::kLoading;
  Reason reason = Reason::kNone;
  std::string text;
  int64_t since_ns = 0;
  std::string bundle_path;
  std::string bundle_id;
  std::string device;
  bool simulated = false;
  uint32_t context_frames = 0;
  uint32_t context_filled = 0;
  uint64_t resets = 0;
  uint64_t unavailable_entries = 0;
  uint64_t unavailable_after_ready = 0;
  uint64_t frames_accepted = 0;
  uint64_t frames_late = 0;
  uint64_t frames_dropped = 0;
  uint64_t timeouts = 0;
  uint64_t non_finite = 0;
  uint64_t worker_starts = 0;
  uint64_t compiled_calls = 0;
  bool ready_once = false;
  bool operator==(const ModelStatus&) const = default;
};

struct StateMessage {
  Header header;
  std::vector<ModelStatus> models;
  std::string source;  // of the camera server
  bool camera_connected = false;
  uint32_t pid = 0;
  int64_t start_ns = 0;
  std::string version;
};

struct CounterValue {
  std::string name;  // Prometheus style with labels
  double value = 0;
};

struct LatencyValue {
  std::string name;
  uint64_t count = 0;
  int64_t p50_ns = 0;
  int64_t p90_ns = 0;
  int64_t p99_ns = 0;
  int64_t max_ns = 0;
};

struct MetricsMessage {
  Header header;
  std::vector<CounterValue> counters;
  std::vector<LatencyValue> latencies;
};

}  // namespace modeld::ipc
