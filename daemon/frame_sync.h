// Which camera frames make up one run: for road a road and a wide frame taken at the same time, for
// cabin one frame. Contract: frames whose starts differ by more than 10 ms are never one run; the
// older of two that do not match is dropped. Frame ids must increase within a camera connection; a
// repeated or older frame is dropped. A frame that began more than 150 ms ago, or in the future, is
// dropped however new it is here: a model fed with it would speak of the past. Every frame dropped
// here is counted. Threading: frame loop. No allocation but for trouble().
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "ipc/frame_client.h"

namespace modeld::daemon {

inline constexpr int64_t kPairToleranceNs = 10'000'000;
inline constexpr int64_t kFrameOldNs = 150'000'000;
inline constexpr int64_t kFrameAheadNs = 10'000'000;

struct FrameSet {
  std::array<ipc::FrameRef, ipc::kStreamCount> frames;  // by stream; only those the model wants
  const ipc::FrameRef& main() const;                    // road or cabin
  int64_t received_ns() const;                          // of the newest of them
};

// What can be wrong with a frame that came.
enum class Trouble : uint8_t { kNone, kRepeated, kOld, kAhead, kApart, kAlone };
inline constexpr size_t kTroubleCount = 6;
const char* trouble_name(Trouble trouble);  // "repeated", ...

class FrameSync {
 public:
  // `wants`: by stream.
  explicit FrameSync(std::array<bool, ipc::kStreamCount> wants) : wants_(wants) {}

  // Takes unread frames from the client; true when `out` got a complete set.
  bool match(ipc::FrameClient& client, FrameSet& out, int64_t now);
  // Frames held back go, ids start over (another camera connection).
  void reset();

  // Frames that came and were of no use.
  uint64_t dropped() const;
  uint64_t dropped(Trouble cause) const { return dropped_[static_cast<size_t>(cause)]; }
  // What was wrong with the last frame since the last complete set, for a line of text; "" if
  // nothing was.
  std::string trouble() const;

 private:
  void accept(size_t stream, ipc::FrameRef frame, int64_t now);
  void drop(ipc::FrameRef& frame, Trouble trouble, int64_t ns);
  bool is_timely(ipc::FrameRef& frame, int64_t now);
  bool pair_differs();

  std::array<bool, ipc::kStreamCount> wants_;
  FrameSet held_;
  std::array<uint64_t, ipc::kStreamCount> last_id_{};
  std::array<bool, ipc::kStreamCount> seen_{};
  uint64_t epoch_ = 0;
  std::array<uint64_t, kTroubleCount> dropped_{};  // by Trouble
  Trouble trouble_ = Trouble::kNone;
  uint64_t trouble_id_ = 0;
  int64_t trouble_ns_ = 0;
};

}  // namespace modeld::daemon
