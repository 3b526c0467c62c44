#include "daemon/frame_loop.h"

#include <unistd.h>

#include <algorithm>

#include "hal/base/json.h"
#include "hal/base/log.h"
#include "hal/base/trace.h"

#include "ipc/state_json.h"
#include "ipc/subscriber.h"

namespace modeld::daemon {

FrameLoop::FrameLoop(Parts parts)
    : parts_(std::move(parts)),
      state_out_(parts_.state),
      health_(parts_.metrics, parts_.metrics_path, parts_.models, parts_.realtime_missing) {
  camera_at_ = poller_.add(parts_.camera.poll_fd());
  vehicle_at_ = poller_.add(parts_.vehicle.poll_fd());
  poller_.add(parts_.control.poll_fd());
  poller_.add(parts_.metrics_text.poll_fd());
  for (ModelPair* m : parts_.models) {
    poller_.add(m->primary().link().poll_fd());
    if (m->fallback() != nullptr) poller_.add(m->fallback()->link().poll_fd());
  }
  state_.pid = static_cast<uint32_t>(getpid());
  state_.start_ns = now_ns();
  state_.version = MODELD_VERSION;
  state_.models.resize(parts_.models.size());
}

Status FrameLoop::step() {
  // 1. Wait for a frame, an answer, a vehicle input or a question; never longer than the next
  // deadline may need.
  ASSIGN_OR_RETURN(const int ready, poller_.wait_until(Deadline::in_ns(kMaxWaitNs)));
  // Whoever has nothing to say is not asked: an answer does not wait for it. A step that only time
  // woke asks everybody.
  const auto may_speak = [&](int at) { return ready == 0 || poller_.is_ready(at); };
  const int64_t woken_ns = now_ns();
  TraceZone zone("step");
  // 2. Camera: newest frames by reference; another connection hands its buffers to the workers.
  if (may_speak(camera_at_)) receive_camera(woken_ns);
  // 3. Vehicle inputs: the newest message.
  if (may_speak(vehicle_at_)) receive_vehicle();
  // Read after what was received, so that nothing of it seems to come from the future.
  const int64_t now = now_ns();
  // 4. Each model: its worker's answer -> parsed, checked, published; deadlines, restarts,
  // heartbeats.
  supervise(now);
  // 5. Frames that belong together -> an idle worker. Frames it has no time for replace each other.
  hand_over_frames(now);
  // 6. State (10 Hz and at once on every transition) and metrics.
  publish_health(now);
  // 7. Questions over control.sock and metrics.sock.
  parts_.control.service([this](std::string_view request) { return answer_control(request); });
  parts_.metrics_text.service([&] { return health_.render(now, feed_health()); });
  // 8. The watchdog hears of a step that got here, whatever state it reports.
  {
    TraceZone told("progress");
    parts_.watchdog.progress(now, parts_.models);
  }
  parts_.flight.collect();
  health_.observe(now_ns() - woken_ns);
  return {};
}

void FrameLoop::receive_camera(int64_t now) {
  // Tried again many times a second: the same trouble is told once.
  if (Status s = parts_.camera.poll(); !s.ok() && s.error().what != camera_trouble_) {
    camera_trouble_ = s.error().what;
    LOG_WARN("daemon", "camera: %s; trying again", camera_trouble_.c_str());
  }
  if (parts_.camera.epoch() == camera_epoch_ || !parts_.camera.connected()) return;
  camera_epoch_ = parts_.camera.epoch();
  camera_trouble_.clear();
  CameraBuffers buffers;
  buffers.epoch = camera_epoch_;
  std::vector<int> fds;
  for (int i = 0; i < ipc::kStreamCount; ++i) {
    const auto stream = static_cast<ipc::StreamId>(i);
    const ipc::StreamInfo* info = parts_.camera.stream(stream);
    if (info == nullptr) continue;
    const std::span<const int> slots = parts_.camera.slot_fds(stream);
    buffers.streams.push_back({*info, static_cast<uint32_t>(fds.size())});
    buffers.streams.back().info.slots = static_cast<uint32_t>(slots.size());
    fds.insert(fds.end(), slots.begin(), slots.end());
  }
  state_.source = parts_.camera.handshake() != nullptr ? parts_.camera.handshake()->source : "";
  LOG_INFO("daemon", "camera connected: %zu streams from %s", buffers.streams.size(),
           state_.source.c_str());
  for (ModelPair* m : parts_.models) {
    m->set_source(state_.source);
    if (Status s = m->set_buffers(buffers, fds, now); !s.ok())
      LOG_WARN("daemon", "%s: %s", m->name().c_str(), s.error().what.c_str());
  }
}

void FrameLoop::receive_vehicle() {
  (void)!ipc::for_each_message(parts_.vehicle, vehicle_scratch_,
                               [this](const ipc::VehicleMessage& v) {
                                 vehicle_.inputs = v.inputs;
                                 vehicle_seen_ = true;
                               })
      .ok();
}

void FrameLoop::supervise(int64_t now) {
  const Feed feed{vehicle_seen_ ? &vehicle_.inputs : nullptr, parts_.camera.connected()};
  for (ModelPair* m : parts_.models) m->tick(now, feed);
}

void FrameLoop::hand_over_frames(int64_t now) {
  const Feed feed{vehicle_seen_ ? &vehicle_.inputs : nullptr, parts_.camera.connected()};
  for (ModelPair* m : parts_.models) {
    if (m->wants_frame(now, feed) && match(*m, now)) m->hand_over(std::move(matched_), feed, now);
    m->count_dropped(
        parts_.camera.dropped(m->name() == "road" ? ipc::StreamId::kRoad : ipc::StreamId::kCabin));
  }
}

bool FrameLoop::match(ModelPair& model, int64_t now) {
  const int64_t begin_ns = now_ns();
  if (!model.sync().match(parts_.camera, matched_, now)) return false;
  // Which frame it is about is known only now.
  trace_span("match", begin_ns, now_ns(), static_cast<int64_t>(matched_.main().meta().frame_id),
             model.name().c_str());
  return true;
}

void FrameLoop::publish_health(int64_t now) {
  bool changed = false;
  bool answer_is_near = false;
  for (ModelPair* m : parts_.models) {
    changed = m->take_changed() || changed;
    answer_is_near = answer_is_near || m->awaits_answer(now);
  }
  // What is due waits for an answer that may come any moment, so that no frame is told later for
  // it.
  if (changed || (now >= next_state_ns_ && !answer_is_near)) publish_state(now);
  if (now >= next_metrics_ns_ && !answer_is_near) {
    next_metrics_ns_ = now + kNsPerSecond;
    health_.publish(now, feed_health());
  }
}

FeedHealth FrameLoop::feed_health() const {
  FeedHealth out;
  out.camera_connected = parts_.camera.connected();
  out.camera_connections = parts_.camera.epoch();
  for (size_t i = 0; i < out.frames_lost.size(); ++i)
    out.frames_lost[i] = parts_.camera.dropped(static_cast<ipc::StreamId>(i));
  out.flights_written = parts_.flight.written();
  out.flights_failed = parts_.flight.failed();
  out.flights_dropped = parts_.flight.dropped();
  out.vehicle_seen = vehicle_seen_;
  out.vehicle_time_ns = vehicle_.inputs.time_ns;
  return out;
}

void FrameLoop::publish_state(int64_t now) {
  // Keeps its rate though steps come when they come.
  const bool keeps_pace = now >= next_state_ns_ && now - next_state_ns_ < kStatePeriodNs;
  next_state_ns_ = (keeps_pace ? next_state_ns_ : now) + kStatePeriodNs;
  for (size_t i = 0; i < parts_.models.size(); ++i) state_.models[i] = parts_.models[i]->status();
  state_.camera_connected = parts_.camera.connected();
  state_.header.valid = true;
  (void)!state_out_.publish(state_).ok();
}

// Every process of ours on one axis.
std::string FrameLoop::trace_text() const {
  std::vector<std::string> names;
  std::vector<TraceSource> sources;
  names.reserve(2 * parts_.models.size());
  const auto add = [&](const ModelUnit& unit, const char* what) {
    names.push_back(unit.name() + what);
    // A worker that has ended keeps its last seconds; a number that is no process stands for it.
    const int pid = unit.link().pid() > 0 ? unit.link().pid() : -static_cast<int>(names.size());
    sources.push_back({pid, names.back().c_str(), unit.link().trace()});
  };
  for (ModelPair* m : parts_.models) {
    add(m->primary(), " worker");
    if (m->fallback() != nullptr) add(*m->fallback(), " fallback worker");
  }
  return trace_dump_json("supervisor", sources);
}

std::string FrameLoop::answer_control(std::string_view request) {
  const auto parsed = Json::parse(request);
  const std::string command = parsed.ok() && parsed->find("command") != nullptr
                                  ? parsed->find("command")->string_or("")
                                  : "";
  if (command == "status") return ipc::state_to_json(state_, now_ns()).dump();
  if (command == "trace") return trace_text();
  Json reply = Json::object();
  if (command == "reload") {
    reload_wanted_ = true;
    return reply.set("ok", true).dump();
  }
  reply.set("ok", false).set("error", "unknown command; known are status, trace, reload");
  return reply.dump();
}

}  // namespace modeld::daemon
