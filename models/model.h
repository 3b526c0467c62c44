// Model: what a loaded road or cabin model offers the daemon's worker, one frame at a time.
// Contract, per frame: stage -> run -> check -> (good: commit | anything else: reset). raw() is
// what the last check() read, valid until the next stage(). Before commit() nothing of the frame is
// part of the state; after reset() the model is as after load (states, image history and input
// history empty). An error of stage() leaves the state alone. Nothing allocates, locks or logs
// while all goes well. Units: ns, pixels, bytes, s, rad, m/s. Threading: one thread; the device is
// idle between the calls, except after a run that missed its deadline: then the caller ends the
// worker or synchronises before reset().
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "hal/base/clock.h"
#include "hal/base/status.h"
#include "hal/signal.h"

#include "runtime/exec/loaded_plan.h"

#include "models/bundle/manifest.h"
#include "models/common/raw_check.h"
#include "models/common/warp_matrix.h"

namespace modeld::models {

enum class Stream : uint8_t { kRoad, kWide, kCabin };
inline constexpr size_t kStreams = 3;
const char* stream_name(Stream stream);  // "road", "wide", "cabin": the bundle's words

// An NV12 picture that the device can read where it is.
struct FrameView {
  hal::DevAddr nv12 = 0;  // 64-byte aligned
  uint64_t bytes = 0;     // mapped from there on
  uint32_t width = 0;
  uint32_t height = 0;
  uint32_t stride = 0;
  uint32_t uv_offset = 0;
  Pinhole camera;
  uint64_t frame_id = 0;
  int64_t sof_ns = 0;
};

struct VehicleState {
  std::array<double, 3> rpy{};  // calibration: device from calibrated frame
  bool is_calibrated = false;
  std::array<float, 8> desire{};
  bool is_right_hand_drive = false;
  float lateral_action_time = 0;
  float longitudinal_action_time = 0;
  float speed = 0;
};

struct FrameInputs {
  std::array<FrameView, kStreams> frames{};  // by Stream; only those of streams() are read
  VehicleState vehicle;
};

struct RunTimes {
  int64_t warp_ns = 0;
  int64_t run_ns = 0;
};

enum class TensorSide : uint8_t { kInput, kOutput };
// The bytes live for the call; an error ends the visit.
using TensorVisitor =
    std::function<Status(TensorSide, const exec::TensorInfo&, std::span<const std::byte>)>;

class Model {
 public:
  virtual ~Model() = default;

  virtual bundle::Role role() const = 0;
  virtual std::span<const Stream> streams() const = 0;
  virtual std::span<const bundle::SliceRow> slices() const = 0;
  virtual std::span<const bundle::GeometryRow> geometries() const = 0;
  virtual uint32_t context_frames() const = 0;
  virtual size_t raw_size() const = 0;

  // kMismatch: a camera geometry that the bundle has no warp for. kInvalid: not calibrated, or a
  // picture or number that cannot be.
  virtual Status stage(const FrameInputs& inputs) = 0;
  // Warps, then the model; both bounded by the deadline. Device errors as they come (kTimeout,
  // kDeviceLost, ...).
  virtual Status run(Deadline deadline) = 0;
  // Looks at every number of every float output, next_ states included, and at a raw vector whose
  // numbers are all equal. An error is the device's; a bad number is a Finding.
  virtual Result<Finding> check(Deadline deadline) = 0;
  virtual std::span<const float> raw() const = 0;
  // Every input of the last run() as it was read, states and histories included, and every output:
  // what makes it again. Only between run() and commit() or reset(); it may allocate.
  virtual Status visit_tensors(const TensorVisitor& visit, Deadline deadline) = 0;
  virtual void commit() = 0;
  virtual Status reset() = 0;
  virtual RunTimes times() const = 0;  // of the last run()
};

// The model of a bundle's role. Borrows both arguments. kUnsupported for role generic; kInvalid
// names what a road or cabin model must have and this bundle lacks.
Result<std::unique_ptr<Model>> make_model(const bundle::Manifest& manifest, exec::LoadedPlan& plan);

}  // namespace modeld::models
