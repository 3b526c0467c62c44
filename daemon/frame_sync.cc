#include "daemon/frame_sync.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

namespace modeld::daemon {
namespace {

constexpr auto kRoad = static_cast<size_t>(ipc::StreamId::kRoad);
constexpr auto kWide = static_cast<size_t>(ipc::StreamId::kWide);
constexpr auto kCabin = static_cast<size_t>(ipc::StreamId::kCabin);

}  // namespace

const ipc::FrameRef& FrameSet::main() const {
  return frames[kRoad] ? frames[kRoad] : frames[kCabin];
}

int64_t FrameSet::received_ns() const {
  int64_t newest = 0;
  for (const ipc::FrameRef& f : frames) {
    if (f) newest = std::max(newest, f.received_ns());
  }
  return newest;
}

void FrameSync::reset() {
  for (ipc::FrameRef& f : held_.frames) f.reset();
  seen_ = {};
  trouble_ = Trouble::kNone;
}

void FrameSync::drop(ipc::FrameRef& frame, Trouble trouble, int64_t ns) {
  trouble_ = trouble;
  trouble_id_ = frame.meta().frame_id;
  trouble_ns_ = ns;
  frame.reset();
  ++dropped_[static_cast<size_t>(trouble)];
}

// False for a frame of another time: it is dropped.
bool FrameSync::is_timely(ipc::FrameRef& frame, int64_t now) {
  const int64_t age = now - frame.meta().sof_ns;
  if (age > kFrameOldNs) {
    drop(frame, Trouble::kOld, age);
  } else if (age < -kFrameAheadNs) {
    drop(frame, Trouble::kAhead, -age);
  }
  return static_cast<bool>(frame);
}

void FrameSync::accept(size_t stream, ipc::FrameRef frame, int64_t now) {
  const uint64_t id = frame.meta().frame_id;
  if (seen_[stream] && id <= last_id_[stream]) return drop(frame, Trouble::kRepeated, 0);
  if (!is_timely(frame, now)) return;
  seen_[stream] = true;
  last_id_[stream] = id;
  // One that is still held found no partner.
  if (held_.frames[stream]) drop(held_.frames[stream], Trouble::kAlone, 0);
  held_.frames[stream] = std::move(frame);
}

bool FrameSync::pair_differs() {
  if (!wants_[kRoad] || !wants_[kWide]) return false;
  ipc::FrameRef& road = held_.frames[kRoad];
  ipc::FrameRef& wide = held_.frames[kWide];
  const int64_t apart = road.meta().sof_ns - wide.meta().sof_ns;
  if (std::abs(apart) <= kPairToleranceNs) return false;
  drop(apart < 0 ? road : wide, Trouble::kApart, std::abs(apart));
  return true;
}

bool FrameSync::match(ipc::FrameClient& client, FrameSet& out, int64_t now) {
  if (client.epoch() != epoch_) {
    epoch_ = client.epoch();
    reset();
  }
  bool complete = true;
  for (size_t i = 0; i < wants_.size(); ++i) {
    if (!wants_[i]) continue;
    const auto stream = static_cast<ipc::StreamId>(i);
    if (client.has_unread(stream)) accept(i, client.take(stream), now);
    // It may have grown old while its partner was waited for.
    complete = (held_.frames[i] && is_timely(held_.frames[i], now)) && complete;
  }
  if (!complete || pair_differs()) return false;
  trouble_ = Trouble::kNone;
  out = std::move(held_);
  return true;
}

uint64_t FrameSync::dropped() const {
  return std::accumulate(dropped_.begin(), dropped_.end(), uint64_t{0});
}

const char* trouble_name(Trouble trouble) {
  static constexpr const char* kNames[kTroubleCount] = {"none",  "repeated", "old",
                                                        "ahead", "apart",    "alone"};
  return kNames[static_cast<size_t>(trouble)];
}

std::string FrameSync::trouble() const {
  const auto id = static_cast<unsigned long long>(trouble_id_);
  const auto ms = static_cast<long long>(trouble_ns_ / kNsPerMs);
  switch (trouble_) {
    case Trouble::kNone:
      return "";
    case Trouble::kRepeated:
      return strf("frame %llu came again or out of order", id);
    case Trouble::kOld:
      return strf("frame %llu began %lld ms ago", id, ms);
    case Trouble::kAhead:
      return strf("frame %llu begins %lld ms from now", id, ms);
    case Trouble::kApart:
      return strf("road and wide frames begin %lld ms apart", ms);
    case Trouble::kAlone:
      return strf("frame %llu has no partner of the other stream", id);
  }
  return "";
}

}  // namespace modeld::daemon
