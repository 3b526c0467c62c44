// What `modelctl watch` counts: rates, latencies, states, and whether the outputs are alive. The
// final JSON object and the rule behind `--require` (product's demo) are made here. Threading: one
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hal/base/json.h"
#include "hal/base/status.h"

#include "ipc/message_types.h"
#include "ipc/tools/model_choice.h"

namespace modeld::ipc {

// Sequence of one output topic.
class OutputStats final {
 public:
  // `digest` names the content of the parsed outputs; `finite` says whether they all are.
  void observe(const Header& header, const Timings& timings, uint64_t digest, bool finite);

  uint64_t valid() const { return valid_; }
  uint64_t non_finite_valid() const { return non_finite_valid_; }
  bool simulated() const { return simulated_; }
  // Valid messages after the first one, per second up to `now`.
  double rate_hz(int64_t now) const;
  // Nearest-rank percentile of the latencies of valid messages, ms.
  double latency_ms(int percent) const;
  // At least half of the valid messages differ from the one before.
  bool changes() const;

 private:
  uint64_t valid_ = 0;
  uint64_t changed_ = 0;
  uint64_t non_finite_valid_ = 0;
  bool simulated_ = false;
  int64_t first_valid_ns_ = 0;
  uint64_t last_digest_ = 0;
  bool last_valid_ = false;
  uint64_t last_sequence_ = 0;
  std::vector<int64_t> latencies_ns_;
};

class WatchStats final {
 public:
  explicit WatchStats(ModelChoice choice = {}) : choice_(choice) {}
  // The models that count from now on: in the figures, and for require().
  void choose(ModelChoice choice) { choice_ = choice; }
  ModelChoice choice() const { return choice_; }

  void observe(const StateMessage& message);
  void observe(const RoadMessage& message);
  void observe(const CabinMessage& message);

  const OutputStats& road() const { return road_; }
  const OutputStats& cabin() const { return cabin_; }
  // Chosen, and without a valid message so far.
  ModelChoice missing() const {
    return {choice_.road && road_.valid() == 0, choice_.cabin && cabin_.valid() == 0};
  }
  const StateMessage& state() const { return state_; }
  // READY only if every model is; else the worst state that any model is in.
  std::string overall_state() const;
  uint64_t unavailable_events() const;
  bool simulated() const;

  // frames: of road, or of cabin where road is not chosen.
  // {"frames","road_hz","cabin_hz","road_ms_p50","road_ms_p99","cabin_ms_p50","cabin_ms_p99","state",
  //  "unavailable_events","simulated"}
  Json summary(int64_t now) const;
  // Every condition of the demo that does not hold, in one line.
  Status require(int64_t now) const;

 private:
  std::vector<const ModelStatus*> chosen() const;
  ModelChoice choice_;
  StateMessage state_;
  OutputStats road_;
  OutputStats cabin_;
};

}  // namespace modeld::ipc
