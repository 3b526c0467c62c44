// A recording: what `modelctl record` writes, `modelcam` and `modelc run --replay` read. Pixels are
// not in it; they are made again from the source string. Per model it holds the accepted runs since
// a reset, first to last without a gap: frame ids, the vehicle inputs used, and the raw output
// vector. File: "MDLDREC1", version, source, runs, end mark with the number of runs, XXH128 of all
// bytes before it. Little-endian. Contract: the reader trusts nothing; a file cut at any byte or
// with any bit changed is an error. Threading: plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "hal/base/status.h"

#include "ipc/message_types.h"

namespace modeld::ipc {

enum class RecordedModel : uint8_t { kRoad, kCabin };

struct RecordedRun {
  RecordedModel model = RecordedModel::kRoad;
  uint64_t frame_id = 0;       // road or cabin camera
  uint64_t wide_frame_id = 0;  // road only
  uint64_t resets = 0;         // which reset this run follows
  uint64_t since_reset = 0;    // 1 for the first run after it
  VehicleInputs vehicle;
  std::vector<float> raw;
  bool operator==(const RecordedRun&) const = default;
};

struct Recording {
  std::string source;
  std::vector<RecordedRun> runs;  // in time order; models interleaved
};

inline constexpr uint64_t kMaxRecordingBytes = uint64_t{2} << 30;

std::vector<std::byte> encode_recording(const Recording& recording);
Result<Recording> parse_recording(std::span<const std::byte> bytes);
Status write_recording(const std::string& path, const Recording& recording);
Result<Recording> read_recording(const std::string& path);

// Accepted runs that a recording does not hold, by what came between.
struct LeftOut {
  uint64_t before_reset = 0;  // it joined in the middle
  uint64_t after_missed = 0;  // a message was missed: that run and those up to the next reset
  uint64_t without_raw = 0;   // the message carried no raw vector: those up to the next reset
  uint64_t beyond_limit = 0;  // the recording was full
  uint64_t total() const { return before_reset + after_missed + without_raw + beyond_limit; }
  std::string text() const;  // "12 runs left out: 10 after a missed message, ..."; "" without any
  bool operator==(const LeftOut&) const = default;
};

// Collects messages into a recording. Only accepted runs that follow a reset without a gap are
// kept: a recording that joins in the middle waits for the next reset, one that lost a message
// starts over at the next. What is not kept is counted.
class Recorder final {
 public:
  explicit Recorder(uint64_t limit_bytes = kMaxRecordingBytes / 2) : limit_bytes_(limit_bytes) {}

  void observe(const StateMessage& message);
  void observe(const RoadMessage& message);
  void observe(const CabinMessage& message);
  size_t runs(RecordedModel model) const { return tracks_[static_cast<size_t>(model)].runs.size(); }
  // One line saying why a model has no runs yet ("joined after the reset: ...", "publish.raw is
  // off", ...); empty if it has.
  std::string why_empty(RecordedModel model) const;
  const LeftOut& left_out(RecordedModel model) const {
    return tracks_[static_cast<size_t>(model)].left_out;
  }
  Recording finish() const;

 private:
  struct Kept {
    int64_t time_ns = 0;
    RecordedRun run;
  };
  struct Track {
    std::vector<Kept> runs;
    bool open = false;                                  // the chain from the reset is unbroken
    uint64_t LeftOut::*cause = &LeftOut::before_reset;  // why it is not
    LeftOut left_out;
    uint64_t seen = 0;
    uint64_t earlier_resets = 0;  // of daemons that ran before this one: each counts from its start
  };
  void observe(const Header& header, const RunIdentity& id, RecordedRun&& run);
  uint64_t limit_bytes_;
  std::string source_;
  Track tracks_[2];
  uint64_t bytes_ = 0;
};

}  // namespace modeld::ipc
