// Example consumer of model outputs (what a driving stack must do): from state, road and cabin
// messages to "may engage / soft disable / immediate disable, because". Nothing is assumed that was
// not seen, nothing is held beyond 0.5 s. A model may be used while
//   seen, alive   a state message and an output are younger than 0.5 s
//   valid         the state says READY or DEGRADED and the last output is valid
//   fresh         that output is of a frame that began after the last one's and not 0.5 s ago
//   rate          outputs come at 16 to 24 Hz, over the last second or the last ten
//   frames        at most 1 % of the camera's frames were lost on the way to the model
// While one of these fails the last good output may carry the car for 0.5 s: soft disable, which
// takes itself back when the fault is gone within 3 s. After that, or without a state message for
// 0.5 s, there is nothing left to act on: immediate disable. The switch to degraded outputs demands
// one soft disable. Threading: one thread. Time comes from the clock handed in.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "hal/base/clock.h"

#include "ipc/message_types.h"

namespace modeld::ipc {

inline constexpr int64_t kConsumerTimeoutNs = 500 * kNsPerMs;
inline constexpr int64_t kSoftDisableNs = 3 * kNsPerSecond;  // how long "take control" is shown
inline constexpr double kMinRateHz = 16;
inline constexpr double kMaxRateHz = 24;
inline constexpr float kMaxFrameDropPercent = 1;

enum class Decision : uint8_t { kNoEntry, kMayEngage, kSoftDisable, kImmediateDisable };
inline constexpr size_t kDecisionCount = 4;
const char* decision_name(Decision decision);  // "no entry", "may engage", ...

struct Verdict {
  Decision decision = Decision::kNoEntry;
  std::string because;  // one line, never empty
  bool may_engage() const { return decision == Decision::kMayEngage; }
  bool must_disengage() const {
    return decision == Decision::kSoftDisable || decision == Decision::kImmediateDisable;
  }
  bool operator==(const Verdict&) const = default;
};

// The newest output that could be acted on.
struct LastValid {
  uint64_t frame_id = 0;
  int64_t sof_ns = 0;  // when that frame began; frame ids start over with the camera, this goes on
  int64_t received_ns = 0;  // 0: there was none
};

// Receipt times of one topic: mean rate over the last second's and the last ten seconds' worth of
// messages.
class RateWindow final {
 public:
  void add(int64_t received_ns);
  // Unknown, and so not fine, before the first interval.
  bool is_fine() const;
  double recent_hz() const { return mean_hz(kRecent); }

 private:
  static constexpr size_t kRecent = 20;
  static constexpr size_t kLong = 200;
  double mean_hz(size_t intervals) const;

  std::array<int64_t, kLong + 1> times_{};
  uint64_t count_ = 0;
};

class Consumer final {
 public:
  explicit Consumer(const Clock& clock, bool need_road = true, bool need_cabin = true);

  void observe(const StateMessage& message);
  void observe(const RoadMessage& message);
  void observe(const CabinMessage& message);

  // The verdict now, for a driver who engages as soon as he may. Call it at 100 Hz.
  Verdict step();
  LastValid last_valid_road() const { return road_.last_valid; }
  LastValid last_valid_cabin() const { return cabin_.last_valid; }

 private:
  struct Model {
    const char* name = "";
    bool needed = true;
    bool listed = false;  // in the last state message
    ModelState state = ModelState::kLoading;
    Reason reason = Reason::kNone;
    std::string text;
    bool seen = false;
    int64_t received_ns = 0;
    Header header;
    float frame_drop_percent = 0;
    std::string defect;  // of the last output, "" if it can be acted on
    LastValid last_valid;
    RateWindow rate;
    bool degraded_reported = false;
  };
  struct Finding {
    Decision demands = Decision::kMayEngage;  // kSoftDisable or kImmediateDisable when something is
    std::string because;
  };
  void observe(Model& model, const Header& header, const Timings& timings, float drop_percent);
  std::string defect_of_time(const char* what, int64_t sent_ns) const;
  std::string defect_of(const Model& model, const Header& header, const Timings& timings) const;
  std::string objection(const Model& model) const;
  Finding judge_state() const;
  Finding judge(Model& model);
  Finding judge_all();

  const Clock& clock_;
  int64_t state_received_ns_ = 0;  // 0: none was seen
  int64_t state_accepted_ns_ = 0;  // the last one that could be acted on
  std::string state_defect_;       // of the last state message, "" if it can be acted on
  Model road_;
  Model cabin_;
  bool engaged_ = false;
  int64_t soft_since_ns_ = 0;  // 0: no soft disable under way
};

}  // namespace modeld::ipc
