#include "selftest/boot/frames.h"

#include <algorithm>

#include "ipc/frame_source.h"

namespace modeld::selftest {
namespace {

constexpr int64_t kCopyMs = 10'000;

// The synthetic camera with the streams of the model, in the sizes its bundle knows.
Result<ipc::SourceSpec> source_of(const models::Model& model) {
  ipc::SourceSpec out;
  for (const models::Stream stream : model.streams()) {
    const auto geometries = model.geometries();
    const auto row = std::find_if(geometries.begin(), geometries.end(), [&](const auto& g) {
      return g.stream == models::stream_name(stream);
    });
    if (row == geometries.end())
      return fail(Errc::kInvalid,
                  strf("the bundle has no warp for stream %s", models::stream_name(stream)));
    ipc::StreamSource& source = out.streams[static_cast<size_t>(stream)];
    source.present = true;
    source.width = row->width;
    source.height = row->height;
  }
  return out;
}

models::FrameView view_of(const ipc::StreamInfo& info, const hal::Buffer& buffer) {
  models::FrameView view;
  view.nv12 = buffer.addr();
  view.bytes = info.geometry.size;
  view.width = info.geometry.width;
  view.height = info.geometry.height;
  view.stride = info.geometry.stride;
  view.uv_offset = info.geometry.uv_offset;
  view.camera = {info.intrinsics.fx, info.intrinsics.fy, info.intrinsics.cx, info.intrinsics.cy};
  return view;
}

}  // namespace

Result<Frames> Frames::create(hal::Device& device, const models::Model& model, uint64_t count) {
  ASSIGN_OR_RETURN(const ipc::SourceSpec spec, source_of(model));
  ASSIGN_OR_RETURN(const auto source, ipc::FrameSource::open(spec));
  Frames out;
  for (const models::Stream stream : model.streams()) {
    const auto id = static_cast<ipc::StreamId>(stream);
    const ipc::StreamInfo& info = *source->stream(id);
    std::vector<uint8_t> pixels(info.geometry.size);
    for (uint64_t i = 0; i < count; ++i) {
      RETURN_IF_ERROR(source->draw(id, i, pixels));
      hal::BufferDesc desc;
      desc.size_bytes = info.geometry.size;
      ASSIGN_OR_RETURN(hal::Buffer buffer, device.allocator().alloc(desc));
      ASSIGN_OR_RETURN(const hal::TimelinePoint done,
                       device.upload(buffer, 0, std::as_bytes(std::span(pixels))));
      RETURN_IF_ERROR(device.wait(done, Deadline::in_ms(kCopyMs)));
      out.views_[static_cast<size_t>(stream)].push_back(view_of(info, buffer));
      out.memory_.push_back(std::move(buffer));
    }
  }
  return out;
}

models::FrameInputs Frames::inputs(uint64_t frame) const {
  models::FrameInputs in;
  for (size_t s = 0; s < views_.size(); ++s) {
    if (views_[s].empty()) continue;
    in.frames[s] = views_[s][frame % views_[s].size()];
    in.frames[s].frame_id = frame;
  }
  in.vehicle.is_calibrated = true;
  in.vehicle.desire[0] = 1;
  in.vehicle.lateral_action_time = 0.2f;
  in.vehicle.longitudinal_action_time = 0.3f;
  in.vehicle.speed = 20;
  return in;
}

Status step(models::Model& model, const models::FrameInputs& inputs, Deadline deadline) {
  RETURN_IF_ERROR(model.stage(inputs));
  RETURN_IF_ERROR(model.run(deadline));
  ASSIGN_OR_RETURN(const models::Finding finding, model.check(deadline));
  if (!finding.is_good) return fail(Errc::kMismatch, finding.text);
  model.commit();
  return {};
}

}  // namespace modeld::selftest
