// ModelPair: one role of the daemon: the primary unit and, where configured, a fallback kept warm
// that speaks while the primary cannot. Exactly one of them publishes at any time.
//   primary READY or DEGRADED         the primary speaks
//   primary not, fallback READY       the fallback speaks: state DEGRADED with the primary's
//                                     reason, valid stays true
//   neither                           the primary speaks (heartbeats, then silence)
// Contract and threading: as ModelUnit.
#pragma once

#include <cstdint>
#include <span>

#include "daemon/model_unit.h"

namespace modeld::daemon {

// The hop and a model that takes no time: within it an answer is not made to wait for anything.
inline constexpr int64_t kAnswerNearNs = 2'000'000;

class ModelPair {
 public:
  // `fallback` may be null. Both are borrowed.
  ModelPair(ModelUnit& primary, ModelUnit* fallback);

  void tick(int64_t now, const Feed& feed);
  bool wants_frame(int64_t now, const Feed& feed) const;
  // Both run the frame if they have time for it; the fallback never delays the primary.
  void hand_over(FrameSet&& frames, const Feed& feed, int64_t now);
  Status set_buffers(const CameraBuffers& buffers, std::span<const int> fds, int64_t now);
  FrameSync& sync() { return primary_.sync(); }
  // The camera's source string, of the connection that set_buffers() announced.
  void set_source(const std::string& source);

  const std::string& name() const { return primary_.name(); }
  // As consumers see the role.
  const ipc::ModelStatus& status() const { return status_; }
  bool has_settled() const { return primary_.has_settled(); }
  bool take_changed();
  // Of whoever speaks.
  const ipc::Timings& last_timings() const { return speaker().last_timings(); }
  int64_t last_valid_ns() const { return speaker().last_valid_ns(); }
  float frame_drop_percent() const { return speaker().frame_drop_percent(); }
  bool fallback_speaks() const { return fallback_speaks_; }
  uint64_t messages(bool valid) const;
  // A frame was handed over so shortly before that its answer may come any moment.
  bool awaits_answer(int64_t now) const;
  // `total`: frames the camera's client lost; those that were of no use come on top.
  void count_dropped(uint64_t total);
  void refuse(Reason reason, int64_t now, const std::string& text);
  ModelUnit& primary() { return primary_; }
  ModelUnit* fallback() { return fallback_; }

 private:
  const ModelUnit& speaker() const { return fallback_speaks_ ? *fallback_ : primary_; }
  void choose_speaker(int64_t now);
  void refresh_status();
  void note_reason();

  ModelUnit& primary_;
  ModelUnit* fallback_;
  bool fallback_speaks_ = false;
  bool changed_ = true;
  int64_t switched_ns_ = 0;
  Reason out_reason_ = Reason::kNone;  // why the primary does not speak
  ipc::ModelStatus status_;
};

}  // namespace modeld::daemon
