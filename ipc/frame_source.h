// Where a camera server's pixels and vehicle inputs come from, as one line of text that makes them
// again: the "source string" of handshake, vehicle and state messages and of recordings. With it
// `modelc run --replay` regenerates frames.
//   synth;seed=1;vehicle=straight;fps=20;road=1928x1208;wide=1928x1208;cabin=1928x1208[;black_at=K]
//   y4m;seed=1;vehicle=straight;fps=20;road=/path/a.y4m;...
// Contract: for synth, frame and inputs are pure functions of the string, the stream and the frame
// id. Threading: one thread per FrameSource.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "hal/base/status.h"

#include "ipc/frame.h"
#include "ipc/message_types.h"
#include "ipc/vehicle_synth.h"

namespace modeld::ipc {

struct StreamSource {
  bool present = false;
  uint32_t width = 0;   // synth
  uint32_t height = 0;  // synth
  std::string path;     // y4m
  bool operator==(const StreamSource&) const = default;
};

struct SourceSpec {
  bool synth = true;
  uint64_t seed = 1;
  VehiclePattern vehicle = VehiclePattern::kStraight;
  uint32_t fps = 20;
  std::optional<uint64_t> black_at;
  std::array<StreamSource, kStreamCount> streams{};
  bool operator==(const SourceSpec&) const = default;
};

// The source string; refuses what it cannot carry (a path with ';' or longer than the handshake
// allows).
Result<std::string> format_source(const SourceSpec& spec);
Result<SourceSpec> parse_source(std::string_view text);

class FrameSource {
 public:
  virtual ~FrameSource() = default;
  static Result<std::unique_ptr<FrameSource>> open(const SourceSpec& spec);

  const SourceSpec& spec() const { return spec_; }
  // nullptr if the source does not have the stream. `slots` is 0: pools are the server's matter.
  const StreamInfo* stream(StreamId stream) const;
  // Writes the whole NV12 buffer (info.geometry.size bytes).
  virtual Status draw(StreamId stream, uint64_t frame_id, std::span<uint8_t> nv12) = 0;
  // Nothing for `vehicle=off`.
  std::optional<VehicleInputs> vehicle(uint64_t frame_id) const {
    return synth_vehicle(spec_.seed, spec_.vehicle, frame_id);
  }

 protected:
  explicit FrameSource(const SourceSpec& spec) : spec_(spec) {}
  void set_info(StreamId stream, const Nv12Geometry& geometry);
  Status check_buffer(StreamId stream, std::span<const uint8_t> nv12) const;

  SourceSpec spec_;
  std::array<StreamInfo, kStreamCount> infos_{};
};

}  // namespace modeld::ipc
