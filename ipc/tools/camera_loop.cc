#include "ipc/tools/camera_loop.h"

#include <algorithm>

#include "hal/base/clock.h"
#include "hal/base/fs.h"

#include "ipc/poller.h"
#include "ipc/runtime_dir.h"
#include "ipc/tools/stop_signal.h"

namespace modeld::ipc {
namespace {

constexpr int64_t kVehiclePeriodNs = 50 * kNsPerMs;

}  // namespace

Result<std::unique_ptr<CameraLoop>> CameraLoop::create(const CameraOptions& options) {
  auto loop = std::unique_ptr<CameraLoop>(new CameraLoop(options));
  ASSIGN_OR_RETURN(loop->source_, FrameSource::open(options.source));
  Handshake handshake;
  ASSIGN_OR_RETURN(handshake.source, format_source(options.source));
  for (int i = 0; i < kStreamCount; ++i) {
    const StreamInfo* const info = loop->source_->stream(static_cast<StreamId>(i));
    if (info == nullptr) continue;
    StreamInfo& out = handshake.streams[handshake.stream_count++];
    out = *info;
    out.slots = kDefaultSlots;
  }
  RETURN_IF_ERROR(make_runtime_dir(options.dir));
  ASSIGN_OR_RETURN(
      loop->server_,
      FrameServer::create(options.dir, join_path(options.dir, "camera.sock"), handshake));
  if (options.source.vehicle != VehiclePattern::kOff) {
    ASSIGN_OR_RETURN(loop->vehicle_sender_,
                     bind_topic(loop->context_, options.dir, Topic::kVehicle));
    loop->vehicle_ = std::make_unique<Publisher>(*loop->vehicle_sender_);
  }
  loop->vehicle_message_.source = handshake.source;
  return loop;
}

Result<CameraCounts> CameraLoop::run() {
  const int64_t period_ns = kNsPerSecond / options_.source.fps;
  uint64_t frame_id = options_.first_frame;
  uint64_t shown_id = frame_id;
  int64_t next_frame_ns = now_ns() + period_ns;
  int64_t next_vehicle_ns = next_frame_ns;
  while (!stop_requested() && (!options_.frames.has_value() || counts_.frames < *options_.frames)) {
    RETURN_IF_ERROR(wait_until(std::min(next_frame_ns, next_vehicle_ns)));
    const int64_t now = now_ns();
    const bool frame_due = now >= next_frame_ns;
    if (frame_due && now - next_frame_ns > period_ns) {
      const int64_t missed = (now - next_frame_ns) / period_ns;
      counts_.skipped += static_cast<uint64_t>(missed);
      frame_id += static_cast<uint64_t>(missed);
      next_frame_ns += missed * period_ns;
    }
    if (frame_due) shown_id = frame_id;
    // The vehicle goes first, so that a frame finds the inputs of its own time.
    if (now >= next_vehicle_ns) {
      RETURN_IF_ERROR(send_vehicle(shown_id, now));
      next_vehicle_ns += ((now - next_vehicle_ns) / kVehiclePeriodNs + 1) * kVehiclePeriodNs;
    }
    if (!frame_due) continue;
    RETURN_IF_ERROR(send_frame(frame_id, next_frame_ns));
    ++counts_.frames;
    ++frame_id;
    next_frame_ns += period_ns;
  }
  counts_.lost_for_slow = server_->lost_for_slow_clients();
  counts_.lost_for_all = server_->lost_for_all();
  return counts_;
}

// Waits, and serves clients meanwhile. A signal ends it early.
Status CameraLoop::wait_until(int64_t time_ns) {
  Poller poller;
  poller.add(server_->listen_fd());
  while (now_ns() < time_ns && !stop_requested()) {
    ASSIGN_OR_RETURN(const int ready, poller.wait_until(Deadline{time_ns}));
    if (ready > 0) server_->service();
  }
  return {};
}

Status CameraLoop::send_frame(uint64_t frame_id, int64_t sof_ns) {
  server_->service();
  std::array<FrameMeta, kStreamCount> drawn;
  size_t count = 0;
  for (int i = 0; i < kStreamCount; ++i) {
    const auto stream = static_cast<StreamId>(i);
    if (source_->stream(stream) == nullptr) continue;
    const auto writable = server_->begin_frame(stream);
    if (!writable.has_value()) continue;
    RETURN_IF_ERROR(source_->draw(stream, frame_id, writable->pixels));
    drawn[count++] = FrameMeta{stream, writable->slot, frame_id, sof_ns, 0};
  }
  const int64_t eof_ns = now_ns();
  for (size_t i = 0; i < count; ++i) {
    drawn[i].eof_ns = eof_ns;
    server_->publish(drawn[i]);
  }
  return {};
}

Status CameraLoop::send_vehicle(uint64_t frame_id, int64_t time_ns) {
  const auto inputs = source_->vehicle(frame_id);
  if (!inputs.has_value() || vehicle_ == nullptr) return {};
  vehicle_message_.inputs = *inputs;
  vehicle_message_.inputs.time_ns = time_ns;
  vehicle_message_.header.frame_id = frame_id;
  vehicle_message_.header.valid = inputs->calibration_known;
  return vehicle_->publish(vehicle_message_);
}

}  // namespace modeld::ipc
