#include "models/tools/replay.h"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <optional>
#include <vector>

#include "models/model.h"
#include "models/tools/session.h"

#include "ipc/frame_source.h"
#include "ipc/recording.h"

namespace modeld::tools {
namespace {

using models::Stream;

constexpr ipc::StreamId kIpcStream[] = {ipc::StreamId::kRoad, ipc::StreamId::kWide,
                                        ipc::StreamId::kCabin};

models::VehicleState vehicle_state(const ipc::VehicleInputs& in) {
  models::VehicleState out;
  for (size_t i = 0; i < out.rpy.size(); ++i) out.rpy[i] = double{in.rpy_calibration[i]};
  out.is_calibrated = in.calibration_known;
  std::copy(in.desire.begin(), in.desire.end(), out.desire.begin());
  out.is_right_hand_drive = in.right_hand_drive;
  out.lateral_action_time = in.lateral_action_time;
  out.longitudinal_action_time = in.longitudinal_action_time;
  out.speed = in.speed;
  return out;
}

// One device buffer per stream and the pixels that go into it.
class Pixels {
 public:
  static Result<Pixels> open(const std::string& source,
                             hal::Device& device,
                             const models::Model& model);
  Result<models::FrameView> frame(Stream stream, uint64_t frame_id);

 private:
  struct Slot {
    hal::Buffer buffer;
    std::vector<uint8_t> nv12;
    ipc::StreamInfo info;
  };
  explicit Pixels(hal::Device& device) : device_(&device) {}

  hal::Device* device_;
  std::unique_ptr<ipc::FrameSource> source_;
  std::array<Slot, models::kStreams> slots_;
};

Result<Pixels> Pixels::open(const std::string& source,
                            hal::Device& device,
                            const models::Model& model) {
  Pixels out(device);
  ASSIGN_OR_RETURN(const ipc::SourceSpec spec, ipc::parse_source(source));
  ASSIGN_OR_RETURN(out.source_, ipc::FrameSource::open(spec));
  for (const Stream stream : model.streams()) {
    const auto index = static_cast<size_t>(stream);
    const ipc::StreamInfo* info = out.source_->stream(kIpcStream[index]);
    if (info == nullptr)
      return fail(Errc::kInvalid, strf("source '%s' has no stream %s", source.c_str(),
                                       models::stream_name(stream)));
    Slot& slot = out.slots_[index];
    slot.info = *info;
    slot.nv12.resize(info->geometry.size);
    hal::BufferDesc desc;
    desc.size_bytes = info->geometry.size;
    ASSIGN_OR_RETURN(slot.buffer, device.allocator().alloc(desc));
  }
  return out;
}

Result<models::FrameView> Pixels::frame(Stream stream, uint64_t frame_id) {
  const auto index = static_cast<size_t>(stream);
  Slot& slot = slots_[index];
  RETURN_IF_ERROR(source_->draw(kIpcStream[index], frame_id, slot.nv12));
  ASSIGN_OR_RETURN(const hal::TimelinePoint done,
                   device_->upload(slot.buffer, 0, std::as_bytes(std::span(slot.nv12))));
  RETURN_IF_ERROR(device_->wait(done, Deadline::in_ms(kRunLimitMs)));
  models::FrameView view;
  view.nv12 = slot.buffer.addr();
  view.bytes = slot.nv12.size();
  view.width = slot.info.geometry.width;
  view.height = slot.info.geometry.height;
  view.stride = slot.info.geometry.stride;
  view.uv_offset = slot.info.geometry.uv_offset;
  const ipc::CameraIntrinsics& k = slot.info.intrinsics;
  view.camera = {k.fx, k.fy, k.cx, k.cy};
  view.frame_id = frame_id;
  return view;
}

// Index of the first float whose bits differ, or nothing.
std::optional<size_t> first_difference(std::span<const float> a, std::span<const float> b) {
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i])) return i;
  if (a.size() != b.size()) return std::min(a.size(), b.size());
  return std::nullopt;
}

Status replay_run(models::Model& model, Pixels& pixels, const ipc::RecordedRun& run) {
  models::FrameInputs inputs;
  inputs.vehicle = vehicle_state(run.vehicle);
  for (const Stream stream : model.streams()) {
    const uint64_t id = stream == Stream::kWide ? run.wide_frame_id : run.frame_id;
    ASSIGN_OR_RETURN(inputs.frames[static_cast<size_t>(stream)], pixels.frame(stream, id));
  }
  RETURN_IF_ERROR(model.stage(inputs));
  RETURN_IF_ERROR(model.run(Deadline::in_ms(kRunLimitMs)));
  ASSIGN_OR_RETURN(const models::Finding finding, model.check(Deadline::in_ms(kRunLimitMs)));
  if (!finding.is_good) return fail(Errc::kMismatch, finding.text);
  const auto at = first_difference(model.raw(), run.raw);
  if (at) {
    const auto value = [&](std::span<const float> v) { return *at < v.size() ? v[*at] : 0.0f; };
    return fail(Errc::kMismatch, strf("outputs[%zu] is %.9g, recorded %.9g", *at,
                                      double{value(model.raw())}, double{value(run.raw)}));
  }
  model.commit();
  return {};
}

}  // namespace

Result<ReplayReport> replay(const bundle::Bundle& b,
                            hal::Device& device,
                            const std::string& recording_path) {
  ASSIGN_OR_RETURN(const ipc::Recording recording, ipc::read_recording(recording_path));
  const exec::Plan plan = b.to_plan();
  ASSIGN_OR_RETURN(const auto loaded, exec::LoadedPlan::load(plan, device, b.sources()));
  ASSIGN_OR_RETURN(const auto model, models::make_model(b.manifest(), *loaded));
  ASSIGN_OR_RETURN(Pixels pixels, Pixels::open(recording.source, device, *model));
  const auto kind =
      model->role() == bundle::Role::kRoad ? ipc::RecordedModel::kRoad : ipc::RecordedModel::kCabin;
  ReplayReport report;
  std::optional<uint64_t> resets;
  for (const ipc::RecordedRun& run : recording.runs) {
    if (run.model != kind) continue;
    if (resets != run.resets) RETURN_IF_ERROR(model->reset());
    resets = run.resets;
    Status s = replay_run(*model, pixels, run);
    if (!s.ok())
      return fail(std::move(s).error().with(strf("replay of %s: frame %llu", recording_path.c_str(),
                                                 static_cast<unsigned long long>(run.frame_id))));
    ++report.runs;
    report.numbers += run.raw.size();
  }
  if (report.runs == 0)
    return fail(Errc::kNotFound, strf("replay of %s: no runs of role %s", recording_path.c_str(),
                                      bundle::role_name(b.manifest().role)));
  return report;
}

}  // namespace modeld::tools
