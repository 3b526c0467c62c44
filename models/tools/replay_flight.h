// A flight record run again: entry run of the bundle with exactly the inputs the failed run had,
// states included; every output must come out bit for bit, numbers that are none as well. Contract:
// kMismatch names tensor and byte of the first difference, and a bundle that is not the one that
// failed; kNotFound when the record holds no tensors (the worker was gone before it could tell
// them). Threading: one thread.
#pragma once

#include <cstdint>
#include <string>

#include "hal/device.h"

#include "models/bundle/bundle_reader.h"

#include "ipc/flight.h"

namespace modeld::tools {

struct FlightReport {
  ipc::Reason reason = ipc::Reason::kNone;
  std::string text;
  uint64_t frame_id = 0;
  uint64_t runs_before = 0;
  uint64_t inputs = 0;   // tensors
  uint64_t outputs = 0;  // tensors, all equal
  uint64_t bytes = 0;    // of the outputs
};

// True when the file begins as a flight record does.
bool is_flight_file(const std::string& path);
Result<FlightReport> replay_flight(const bundle::Bundle& b,
                                   hal::Device& device,
                                   const std::string& path);

}  // namespace modeld::tools
