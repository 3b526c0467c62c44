// A flight record: what modeld keeps of one failure, and `modelc run --replay` computes again. It
// holds the runs before the failure (identities, vehicle inputs, raw outputs), the run that failed,
// and either every input and output tensor of that run as the model had them (states included: the
// run can be made again bit for bit, however long the drive was) or, when the worker could not tell
// them any more, the camera's pictures. File: "MDLDFLT1", the body's
// size, the body (version, texts, two recordings (recording.h), tensors, what the pictures are with
// an XXH128 each), XXH128 of all bytes before it, then the pixels. Little-endian. Contract: the
// reader trusts nothing; a file cut at any byte or with any bit changed is an error. Threading:
// plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "hal/base/status.h"

#include "ipc/frame.h"
#include "ipc/model_state.h"
#include "ipc/recording.h"

namespace modeld::ipc {

inline constexpr uint64_t kMaxFlightBytes = uint64_t{256} << 20;
inline constexpr uint32_t kMaxFlightTensors = 4096;
inline constexpr const char* kFlightSuffix = ".flight";

struct FlightTensor {
  bool is_output = false;
  std::string name;  // of entry run
  std::vector<std::byte> bytes;
  bool operator==(const FlightTensor&) const = default;
};

struct FlightPicture {
  StreamId stream = StreamId::kRoad;
  uint64_t frame_id = 0;
  uint32_t width = 0, height = 0, stride = 0, uv_offset = 0;
  std::span<const uint8_t> nv12;  // borrowed
};

struct Flight {
  Reason reason = Reason::kNone;
  std::string text;       // as the state message said
  std::string bundle_id;  // SHA-256 of the model, hex
  std::string device;
  int64_t time_ns = 0;  // of the failure, CLOCK_MONOTONIC
  std::string source;   // of the camera
  std::vector<RecordedRun> before;
  RecordedRun failed;  // raw is empty when the worker gave none
  std::vector<FlightTensor> tensors;
  std::vector<FlightPicture> pictures;  // of a parsed record: into its bytes
};

// The tensors as the file has them, for whoever writes them piece by piece: a count, then this head
// before each tensor's bytes.
std::vector<std::byte> encode_tensor_count(uint32_t count);
std::vector<std::byte> encode_tensor_head(bool is_output, const std::string& name, uint64_t bytes);
Result<std::vector<FlightTensor>> parse_tensors(std::span<const std::byte> bytes);

// All but the pixels, which follow it in the pictures' order: they are large, and whoever writes a
// record need not have them twice.
std::vector<std::byte> encode_flight_body(const Flight& flight);
std::vector<std::byte> encode_flight(const Flight& flight);
// Pictures borrow from `bytes`.
Result<Flight> parse_flight(std::span<const std::byte> bytes);
bool is_flight(std::span<const std::byte> bytes);

}  // namespace modeld::ipc
