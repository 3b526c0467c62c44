// From a model's raw output vector to messages on its topic: the only place that knows both the
// models' structs and the messages. One object per worker; it owns parser and message and
// reuses them for every frame. Contract: a message with valid=true has only finite numbers; invalid
// messages have full-size lists of zeros. After bind() nothing allocates outside libzmq. Threading:
// frame loop.
#pragma once

#include <memory>
#include <span>

#include "hal/base/status.h"

#include "models/bundle/manifest.h"

#include "ipc/message_types.h"
#include "ipc/publisher.h"

namespace modeld::daemon {

// What a message says beside the numbers.
struct RunReport {
  ipc::Header header;          // frame_id, valid, degraded, state, reason, simulated
  uint64_t frame_id = 0;       // road or cabin camera
  uint64_t wide_frame_id = 0;  // road only
  ipc::Timings timings;
  ipc::RunIdentity run;
  ipc::VehicleInputs vehicle;
  float frame_drop_percent = 0;
};

class OutputTopic {
 public:
  virtual ~OutputTopic() = default;
  // The model that now feeds the topic. kInvalid names the slice that does not fit.
  virtual Status bind(std::span<const bundle::SliceRow> slices, size_t raw_size) = 0;
  // Parses into the message; an error (a number that is not finite) leaves it unusable for a valid
  // message.
  virtual Status parse(std::span<const float> raw) = 0;
  // Sends what parse() gave (raw: only with publish.raw), or with valid=false zeros.
  virtual Status publish(const RunReport& report, std::span<const float> raw) = 0;
  // Receipt of the frame to the return of the last send; 0 for a message of no frame.
  virtual int64_t last_latency_ns() const = 0;
};

// `role`: "road" or "cabin". The publisher (one per topic, whoever speaks) must outlive the result.
Result<std::unique_ptr<OutputTopic>> make_output_topic(const std::string& role,
                                                       ipc::Publisher& publisher,
                                                       bool with_raw);

}  // namespace modeld::daemon
