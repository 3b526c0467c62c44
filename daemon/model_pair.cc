#include "daemon/model_pair.h"

#include "hal/base/log.h"

namespace modeld::daemon {
namespace {

// A frame that waits behind a busy primary for so long is about to be replaced by the next one.
constexpr int64_t kHandOnNs = 75'000'000;

constexpr const char* kInUse = "fallback in use: ";

bool can_speak(const ModelUnit& u) {
  const ModelState s = u.status().state;
  return s == ModelState::kReady || s == ModelState::kDegraded;
}

}  // namespace

ModelPair::ModelPair(ModelUnit& primary, ModelUnit* fallback)
    : primary_(primary), fallback_(fallback) {
  if (fallback_ != nullptr) {
    fallback_->set_voice({.speaks = false});
    fallback_->set_title(name() + " fallback");
  }
  refresh_status();
}

void ModelPair::tick(int64_t now, const Feed& feed) {
  primary_.tick(now, feed);
  note_reason();
  if (fallback_ != nullptr) {
    choose_speaker(now);
    fallback_->tick(now, feed);
    choose_speaker(now);
  }
  if (primary_.take_changed()) changed_ = true;
  if (fallback_ != nullptr && fallback_->take_changed()) changed_ = true;
  if (changed_) refresh_status();
}

void ModelPair::choose_speaker(int64_t now) {
  const bool fallback_speaks = !can_speak(primary_) && can_speak(*fallback_);
  if (fallback_speaks == fallback_speaks_) return;
  fallback_speaks_ = fallback_speaks;
  switched_ns_ = now;
  changed_ = true;
  // No frame is told of twice: the slower of the two may still be at the one the other told last.
  primary_.set_voice({.speaks = !fallback_speaks, .after_sof_ns = fallback_->told_sof_ns()});
  fallback_->set_voice({.speaks = fallback_speaks,
                        .stands_in = true,
                        .reason = out_reason_,
                        .after_sof_ns = primary_.told_sof_ns()});
  // A primary that is READY again has told so itself.
  if (!fallback_speaks && can_speak(primary_)) return;
  if (!fallback_speaks) primary_.owe_heartbeats(now);
  refresh_status();
  if (!fallback_speaks) status_.text = "the fallback is out as well: " + status_.text;
  primary_.tell_status(status_);
}

// The reason outlives the primary's way back through LOADING, SELFTEST and WARMING.
void ModelPair::note_reason() {
  const Reason reason = primary_.status().reason;
  if (reason == out_reason_ || (reason == Reason::kNone && !can_speak(primary_))) return;
  out_reason_ = reason;
  if (fallback_speaks_)
    fallback_->set_voice({.speaks = true,
                          .stands_in = true,
                          .reason = out_reason_,
                          .after_sof_ns = primary_.told_sof_ns()});
}

void ModelPair::refresh_status() {
  status_ = primary_.status();
  if (!fallback_speaks_) return;
  const ipc::ModelStatus& f = fallback_->status();
  status_.state = ModelState::kDegraded;
  status_.reason = out_reason_;
  status_.text.assign(kInUse).append(primary_.status().text);  // keeps its memory
  status_.since_ns = switched_ns_;
  status_.bundle_path = f.bundle_path;
  status_.bundle_id = f.bundle_id;
  status_.device = f.device;
  status_.simulated = f.simulated;
}

bool ModelPair::take_changed() {
  refresh_status();  // counters move without a transition
  return std::exchange(changed_, false);
}

bool ModelPair::wants_frame(int64_t now, const Feed& feed) const {
  if (primary_.wants_frame(now, feed)) return true;
  // A primary that is busy gets the next frame. The fallback takes this one only while the primary
  // is out, or hangs: its own context must have no gap when it takes over.
  const bool is_left = !can_speak(primary_) || primary_.in_flight_ns(now) > kHandOnNs;
  return fallback_ != nullptr && is_left && fallback_->wants_frame(now, feed);
}

void ModelPair::hand_over(FrameSet&& frames, const Feed& feed, int64_t now) {
  if (fallback_ != nullptr && fallback_->wants_frame(now, feed)) {
    FrameSet shared;
    for (size_t i = 0; i < frames.frames.size(); ++i) shared.frames[i] = frames.frames[i].share();
    fallback_->hand_over(std::move(shared), feed, now);
  }
  if (primary_.wants_frame(now, feed)) return primary_.hand_over(std::move(frames), feed, now);
  for (ipc::FrameRef& f : frames.frames) f.reset();
}

Status ModelPair::set_buffers(const CameraBuffers& buffers, std::span<const int> fds, int64_t now) {
  if (fallback_ != nullptr) RETURN_IF_ERROR(fallback_->set_buffers(buffers, fds, now));
  return primary_.set_buffers(buffers, fds, now);
}

void ModelPair::set_source(const std::string& source) {
  primary_.set_source(source);
  if (fallback_ != nullptr) fallback_->set_source(source);
}

uint64_t ModelPair::messages(bool valid) const {
  const auto of = [&](const ModelUnit& u) {
    return valid ? u.counts().valid_sent : u.counts().invalid_sent;
  };
  return of(primary_) + (fallback_ != nullptr ? of(*fallback_) : 0);
}

bool ModelPair::awaits_answer(int64_t now) const {
  const int64_t since = speaker().in_flight_ns(now);
  return since >= 0 && since < kAnswerNearNs;
}

void ModelPair::count_dropped(uint64_t total) {
  primary_.count_dropped(total + primary_.sync().dropped());
}

void ModelPair::refuse(Reason reason, int64_t now, const std::string& text) {
  primary_.refuse(reason, now, text);
  if (fallback_ != nullptr) fallback_->refuse(reason, now, text);
}

}  // namespace modeld::daemon
