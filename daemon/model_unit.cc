#include "daemon/model_unit.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include "hal/base/log.h"
#include "hal/base/trace.h"

namespace modeld::daemon {
namespace {

std::array<bool, ipc::kStreamCount> streams_of(const std::string& name) {
  const bool road = name == "road";
  return {road, road, !road};
}

models::VehicleState vehicle_state(const ipc::VehicleInputs& v) {
  models::VehicleState s;
  for (size_t i = 0; i < 3; ++i) s.rpy[i] = static_cast<double>(v.rpy_calibration[i]);
  s.is_calibrated = v.calibration_known;
  s.desire = v.desire;
  s.is_right_hand_drive = v.right_hand_drive;
  s.lateral_action_time = v.lateral_action_time;
  s.longitudinal_action_time = v.longitudinal_action_time;
  s.speed = v.speed;
  return s;
}

uint64_t stamp_of(const struct stat& st) {
  return static_cast<uint64_t>(st.st_ino) * 1000003 +
         static_cast<uint64_t>(st.st_mtim.tv_sec) * 1000000007 +
         static_cast<uint64_t>(st.st_mtim.tv_nsec) + static_cast<uint64_t>(st.st_size);
}

// Changes whenever the file does; 0 when there is none.
uint64_t stamp_of(const std::string& path) {
  struct stat st {};
  return stat(path.c_str(), &st) == 0 ? stamp_of(st) : 0;
}

uint64_t stamp_of(const UniqueFd& file) {
  struct stat st {};
  return file.is_open() && fstat(file.get(), &st) == 0 ? stamp_of(st) : 0;
}

// Older than 0.5 s, or of a clock that is not ours: nothing a model may be fed with.
bool is_stale(const ipc::VehicleInputs& v, int64_t now) {
  return now - v.time_ns > kInputStaleNs || v.time_ns - now > kInputAheadNs;
}

// What is wrong with them, null: nothing.
const char* vehicle_trouble(const Feed& feed, int64_t now) {
  if (feed.vehicle == nullptr) return "no vehicle input yet";
  if (is_stale(*feed.vehicle, now))
    return feed.vehicle->time_ns > now ? "vehicle inputs are dated in the future"
                                       : "no vehicle input for 0.5 s";
  return feed.vehicle->calibration_known ? nullptr : "calibration unknown";
}

// Of no file: whatever is there differs from it.
constexpr uint64_t kNoStamp = ~uint64_t{0};

bool can_run(ModelState s) {
  return s == ModelState::kWarming || s == ModelState::kReady || s == ModelState::kDegraded ||
         s == ModelState::kUnavailable;
}

}  // namespace

ModelUnit::ModelUnit(const ModelConfig& config,
                     WorkerSetup setup,
                     WorkerLink& link,
                     OutputTopic& topic)
    : config_(config),
      setup_(std::move(setup)),
      link_(link),
      topic_(topic),
      sync_(streams_of(config.name)) {
  status_.name = config.name;
  title_ = config.name;
  status_.bundle_path = config.bundle;
  status_.device = config.device;
  status_.text = "starting";
}

// ---- what time and the worker bring ----

void ModelUnit::tick(int64_t now, const Feed& feed) {
  WorkerEvent event;
  // A worker may say more than can be heard: the rest is for the next tick.
  for (size_t i = 0; i < kEventsPerTick && link_.poll(event); ++i) on_event(event, now);
  check_deadlines(now);
  if (warm_since_ns_ != 0 && kill_ns_ == 0) resend_buffers();
  check_inputs(now, feed);
  restart_if_due(now);
  heartbeat_if_due(now);
}

void ModelUnit::on_event(const WorkerEvent& event, int64_t now) {
  switch (event.kind) {
    case WorkerEvent::Kind::kAnswer:
      return on_answer(now);
    case WorkerEvent::Kind::kSelftest:
      return apply(next(standing_, Event::kSelftest), now,
                   "bundle opened, running its golden vectors");
    case WorkerEvent::Kind::kHello:
      return on_hello(event.hello, now);
    case WorkerEvent::Kind::kFailure:
      return fault(event.failure.reason, now, event.failure.text);
    case WorkerEvent::Kind::kExited:
      return on_exit(event.text, now);
  }
}

void ModelUnit::on_hello(const WorkerHello& hello, int64_t now) {
  status_.bundle_id = hello.bundle_id;
  status_.device = hello.device;
  status_.simulated = hello.is_simulated;
  status_.context_frames = hello.context_frames;
  status_.compiled_calls += hello.compiled_calls;  // of every worker so far
  realtime_missing_ = RealtimeMissing(hello.realtime_missing);
  geometries_ = hello.geometries;
  if (auto s = topic_.bind(hello.slices, hello.raw_size); !s.ok())
    return fault(Reason::kBundleInvalid, now, s.error().what);
  if (flight_ != nullptr)
    last_runs_.prepare(recorded_model(), flight_->options().runs, hello.raw_size);
  warm_since_ns_ = now;
  last_frame_ns_ = now;
  late_.reset();
  resend_buffers();
  apply(next(standing_, Event::kWarm), now,
        switched_text_ + "golden vectors right, filling the context");
}

void ModelUnit::on_exit(const std::string& text, int64_t now) {
  const bool was_killed = std::exchange(kill_ns_, 0) != 0;
  restart_at_ns_ = now + back_off_ns_;
  back_off_ns_ = std::min(back_off_ns_ * 2, kLongestBackOffNs);
  // The reason may be known already: why it was killed, or what it said before it ended.
  const bool is_known =
      standing_.state == ModelState::kUnavailable && !worker_survives(standing_.reason);
  if (!was_killed && !is_known)
    fault(is_loading() ? Reason::kLoadFailed : Reason::kDeviceLost, now, text);
  in_flight_ = false;
  for (ipc::FrameRef& f : frames_.frames) f.reset();
}

void ModelUnit::on_answer(int64_t now) {
  if (!in_flight_) return;
  TraceZone zone("on_answer", static_cast<int64_t>(report_.frame_id), status_.name.c_str());
  const Answer& a = link_.answer();
  // Ready too late is no answer: the deadline takes its course.
  if (a.done_ns - handed_over_ns_ > config_.timeout_ms * kNsPerMs) return;
  in_flight_ = false;
  last_frame_ns_ = now;
  report_.timings.answered_ns = now;
  report_.timings.warp_ns = a.warp_ns;
  report_.timings.run_ns = a.run_ns;
  report_.run.accepted = false;
  has_answer_ = true;
  if (a.status == AnswerStatus::kAccepted) {
    on_accepted(now);
  } else {
    if (a.status == AnswerStatus::kNonFinite) ++status_.non_finite;
    fault(a.status == AnswerStatus::kNonFinite ? Reason::kNonFinite : a.reason, now, a.text.data());
    send(report_, false, now, {}, kFrameQuietNs);
  }
  has_answer_ = false;
  for (ipc::FrameRef& f : frames_.frames) f.reset();
}

void ModelUnit::on_accepted(int64_t now) {
  // Begun before a fault that reset the model: its state is of a past that does not count any more.
  if (reset_pending_) return;
  // The worker runs what it has mapped and has checked once. Another file of the same name is none
  // of its business; the same file with other bytes is: nobody knows what it computed.
  if (stamp_of(bundle_fd_) != bundle_stamp_) {
    fault(Reason::kBundleInvalid, now, choice_.file + " was written to while it ran");
    return send(report_, false, now, {}, kFrameQuietNs);
  }
  // The worker checked the raw vector; parsed numbers (exp of a sigma) must be finite as well.
  if (const Status parsed = parse_outputs(); !parsed.ok()) {
    ++status_.non_finite;
    fault(Reason::kNonFinite, now, parsed.error().what);
    return send(report_, false, now, {}, kFrameQuietNs);
  }
  const bool context_full = since_reset_ >= status_.context_frames;
  ++since_reset_;
  ++status_.frames_accepted;
  status_.context_filled =
      static_cast<uint32_t>(std::min<uint64_t>(since_reset_, status_.context_frames));
  report_.run.accepted = true;
  report_.run.since_reset = since_reset_;
  last_runs_.note(report_, link_.raw());
  if (standing_.state == ModelState::kUnavailable)
    apply(next(standing_, Event::kAccepted), now, "inputs are back, filling the context");
  const Step step = next(standing_, Event::kAccepted, Reason::kNone, context_full);
  if (step.to == standing_) {
    count_late(now);
  } else {
    apply(step, now, switched_text_ + "context full");
  }
  const bool valid =
      standing_.state == ModelState::kReady || standing_.state == ModelState::kDegraded;
  // An answer in time that was seen late (this process itself was stopped) is of the past.
  const int64_t oldest_ns = kFrameOldNs + config_.timeout_ms * kNsPerMs;
  if (valid && now - report_.timings.sof_ns > oldest_ns)
    return send(report_, false, now, {}, kFrameQuietNs);
  // The other unit told of this frame.
  if (valid && report_.timings.sof_ns <= voice_.after_sof_ns) return;
  if (valid) last_valid_ns_ = now;
  if (valid && now - status_.since_ns > kGoodForNs) back_off_ns_ = kFirstBackOffNs;
  send(report_, valid, now, link_.raw(), kFrameQuietNs);
  last_timings_ = report_.timings;
  last_timings_.latency_ns = topic_.last_latency_ns();
}

Status ModelUnit::parse_outputs() {
  TraceZone zone("parse", static_cast<int64_t>(report_.frame_id), status_.name.c_str());
  return topic_.parse(link_.raw());
}

void ModelUnit::count_late(int64_t now) {
  if (standing_.state != ModelState::kReady && standing_.state != ModelState::kDegraded) return;
  const bool late = now - handed_over_ns_ > config_.late_ms * kNsPerMs;
  if (late) ++status_.frames_late;
  late_[late_at_] = late;
  late_at_ = (late_at_ + 1) % kLateWindow;
  const bool too_often = late_.count() > kLateAllowed;
  if (too_often == (standing_.state == ModelState::kDegraded)) return;
  if (too_often) {
    apply(next(standing_, Event::kLateTooOften, Reason::kTimeout), now,
          strf("%zu of the last %zu frames took more than %lld ms", late_.count(), kLateWindow,
               static_cast<long long>(config_.late_ms)));
  } else {
    apply(next(standing_, Event::kLateFine), now, "frames are in time again");
  }
}

// ---- deadlines ----

void ModelUnit::check_deadlines(int64_t now) {
  if (in_flight_ && kill_ns_ == 0 && now - handed_over_ns_ > config_.timeout_ms * kNsPerMs) {
    ++status_.timeouts;
    fault(Reason::kTimeout, now,
          strf("frame %llu: no answer within %lld ms",
               static_cast<unsigned long long>(report_.frame_id),
               static_cast<long long>(config_.timeout_ms)));
  }
  if (link_.is_alive() && is_loading() && kill_ns_ == 0 &&
      now - started_ns_ > config_.load_s * kNsPerSecond) {
    fault(Reason::kLoadFailed, now,
          strf("not loaded within %lld s", static_cast<long long>(config_.load_s)));
  }
  if (kill_ns_ != 0 && now - kill_ns_ > kReapNs && standing_.reason != Reason::kDeviceLost) {
    fault(
        Reason::kDeviceLost, now,
        strf("worker %d does not end: its device is wedged, no second worker on it", link_.pid()));
  }
}

void ModelUnit::check_inputs(int64_t now, const Feed& feed) {
  if (!can_run(standing_.state) || !link_.is_alive() || kill_ns_ != 0 || warm_since_ns_ == 0)
    return;
  if (now - warm_since_ns_ < kInputGraceNs) return;
  const bool is_out = standing_.state == ModelState::kUnavailable;
  if (is_out && !is_input_fault(standing_.reason)) return;
  if (const char* text = vehicle_trouble(feed, now); text != nullptr) {
    // No frame is asked for meanwhile; how long none came counts from when one could be run.
    last_frame_ns_ = now;
    const bool camera_first = is_out && standing_.reason == Reason::kCameraFault;
    if (!camera_first || camera_is_back(now, feed)) input_fault(Reason::kInputStale, now, text);
  } else if (!in_flight_ && now - last_frame_ns_ > kCameraFaultNs) {
    input_fault(Reason::kCameraFault, now, no_frame_text(feed));
  }
}

// While the model is out, what is told stays true: a cause that is gone makes room for the one that
// is left.
void ModelUnit::input_fault(Reason reason, int64_t now, const std::string& text) {
  if (standing_ != Standing{ModelState::kUnavailable, reason}) return fault(reason, now, text);
  if (status_.text != text) status_.text = text;
}

bool ModelUnit::camera_is_back(int64_t now, const Feed& feed) const {
  return feed.camera_connected && has_streams() && unknown_geometry() == nullptr &&
         camera_since_ns_ > status_.since_ns && now - camera_since_ns_ > kInputGraceNs;
}

std::string ModelUnit::no_frame_text(const Feed& feed) const {
  if (!feed.camera_connected) return "camera not connected";
  if (!has_streams()) return "the camera does not serve every stream of this model";
  if (const StreamBuffers* s = unknown_geometry(); s != nullptr)
    return strf("the bundle has no warp for %s pictures of %ux%u", ipc::stream_name(s->info.stream),
                s->info.geometry.width, s->info.geometry.height);
  const std::string trouble = sync_.trouble();
  return "no frame for 150 ms" + (trouble.empty() ? "" : ": " + trouble);
}

void ModelUnit::restart_if_due(int64_t now) {
  if (refused_ || link_.is_alive() || now < restart_at_ns_) return;
  if (standing_.state == ModelState::kUnavailable && is_permanent(standing_.reason)) {
    if (now < next_file_look_ns_) return;
    next_file_look_ns_ = now + kNsPerSecond;
    if (!bundle_changed()) return;
  }
  start_worker(now);
}

void ModelUnit::start_worker(int64_t now) {
  started_ns_ = now;
  warm_since_ns_ = 0;
  buffers_sent_ = false;
  reset_pending_ = true;
  Result<BundleChoice> choice =
      forced_ != '\0' ? choose_other(config_.bundle, forced_) : choose_bundle(config_.bundle);
  if (choice.ok()) choice_ = std::move(*choice);
  bundle_fd_.reset(open(choice_.file.c_str(), O_PATH | O_CLOEXEC));
  bundle_stamp_ = stamp_of(bundle_fd_);
  file_stamp_ = stamp_of_choice();
  if (!choice.ok()) return fault(Reason::kBundleInvalid, now, choice.error().what);
  setup_.bundle = choice_.file;
  status_.bundle_path = choice_.file;
  ++status_.worker_starts;
  if (auto s = link_.start(setup_); !s.ok()) {
    restart_at_ns_ = now + back_off_ns_;
    back_off_ns_ = std::min(back_off_ns_ * 2, kLongestBackOffNs);
    const bool is_held = s.error().code == Errc::kBusy;
    return fault(is_held ? Reason::kDeviceLost : Reason::kLoadFailed, now, s.error().what);
  }
  apply(next(standing_, Event::kWorkerStarted), now, switched_text_ + "loading " + choice_.file);
}

// Of an a/b pair the other one gets its chance when the active one fails before it is warm: by a
// fault of its own, or by what its golden run does to its worker.
bool ModelUnit::try_other_bundle(Reason reason, const std::string& text) {
  const bool broke_its_worker =
      standing_.state == ModelState::kSelftest && reason == Reason::kLoadFailed;
  if (!is_loading() || !(is_bundle_fault(reason) || broke_its_worker) || choice_.active == '\0' ||
      !choice_.has_other || other_tried_)
    return false;
  other_tried_ = true;
  const char other = choice_.active == 'a' ? 'b' : 'a';
  switched_text_ = strf("%c.bundle failed (%s: %s), using %c.bundle", choice_.active,
                        ipc::reason_name(reason), text.c_str(), other);
  // Where the choice cannot be written down it holds for this daemon.
  if (auto s = switch_active(config_.bundle, other); !s.ok()) {
    forced_ = other;
    switched_text_ += " for now (" + s.error().what + ")";
  }
  LOG_WARN("daemon", "%s: %s", title_.c_str(), switched_text_.c_str());
  switched_text_ += ": ";
  return true;
}

uint64_t ModelUnit::stamp_of_choice() const {
  return stamp_of(config_.bundle) * 31 + stamp_of(choice_.file);
}

bool ModelUnit::bundle_changed() {
  return stamp_of_choice() != file_stamp_;
}

// ---- transitions ----

void ModelUnit::fault(Reason reason, int64_t now, const std::string& text) {
  if (try_other_bundle(reason, text)) {  // started at once
    next_file_look_ns_ = 0;
    file_stamp_ = kNoStamp;
  }
  record_failure(reason, now, text);
  apply(next(standing_, Event::kFault, reason), now, text);
}

ipc::RecordedModel ModelUnit::recorded_model() const {
  return status_.name == "road" ? ipc::RecordedModel::kRoad : ipc::RecordedModel::kCabin;
}

// Of failures of a run, not of what the model is fed with. The run is the one under way, or the one
// that was just answered.
void ModelUnit::record_failure(Reason reason, int64_t now, const std::string& text) {
  const bool is_of_a_run =
      reason == Reason::kTimeout || reason == Reason::kNonFinite || reason == Reason::kDeviceLost;
  const bool is_news = standing_.state != ModelState::kUnavailable;
  if (flight_ == nullptr || !flight_->is_on() || !is_of_a_run || !is_news) return;
  if (!has_answer_ && !in_flight_) return;
  FlightJob job;
  ipc::Flight& f = job.flight;
  f.reason = reason;
  f.text = text;
  f.bundle_id = status_.bundle_id;
  f.device = status_.device;
  f.time_ns = now;
  f.source = source_;
  f.before = last_runs_.runs();
  f.failed =
      recorded_run(recorded_model(), report_, has_answer_ ? link_.raw() : std::span<const float>());
  if (has_answer_ && link_.answer().capture_bytes > 0 && link_.capture_fd() >= 0) {
    job.capture.reset(fcntl(link_.capture_fd(), F_DUPFD_CLOEXEC, 0));
    if (job.capture.is_open()) job.capture_bytes = link_.answer().capture_bytes;
  }
  for (const ipc::FrameRef& frame : frames_.frames) {
    if (frame) job.pictures.push_back(frame.share());
  }
  flight_->submit(std::move(job));
}

void ModelUnit::end_worker(int64_t now) {
  if (!link_.is_alive() || kill_ns_ != 0) return;
  link_.kill();
  kill_ns_ = now;
}

void ModelUnit::apply(const Step& step, int64_t now, const std::string& text) {
  if ((step.actions & kResetModel) != 0) {
    reset_pending_ = true;
    since_reset_ = 0;
    drops_.reset();
    status_.context_filled = 0;
  }
  if ((step.actions & kStopWorker) != 0) end_worker(now);
  if ((step.actions & kStartHeartbeats) != 0) owe_heartbeats(now);
  if ((step.actions & kCountUnavailable) != 0) {
    ++status_.unavailable_entries;
    ++counts_.unavailable[static_cast<size_t>(step.to.reason)];
    if (status_.ready_once) ++status_.unavailable_after_ready;
  }
  if (step.to == standing_) return;
  standing_ = step.to;
  status_.state = standing_.state;
  status_.reason = standing_.reason;
  status_.text = text;
  status_.since_ns = now;
  status_.ready_once = status_.ready_once || standing_.state == ModelState::kReady;
  if (standing_.state == ModelState::kReady) other_tried_ = false;
  settled_ = settled_ || !is_loading();
  changed_ = true;
  trace_instant(ipc::model_state_name(standing_.state), static_cast<int64_t>(standing_.reason));
  tell_status(status_);
}

void ModelUnit::tell_status(const ipc::ModelStatus& s) const {
  tell_({title_, s.state, s.reason, report_.frame_id, s.bundle_id, s.device, s.text});
}

void ModelUnit::owe_heartbeats(int64_t now) {
  heartbeats_until_ns_ = now + kHeartbeatsLastNs;
  next_heartbeat_ns_ = now;
}

// ---- frames ----

bool ModelUnit::wants_frame(int64_t now, const Feed& feed) const {
  if (in_flight_ || kill_ns_ != 0 || warm_since_ns_ == 0 || !link_.is_alive() ||
      !can_run(standing_.state) || !buffers_sent_)
    return false;
  return feed.vehicle != nullptr && feed.vehicle->calibration_known &&
         !is_stale(*feed.vehicle, now);
}

void ModelUnit::hand_over(FrameSet&& frames, const Feed& feed, int64_t now) {
  const ipc::FrameRef& main = frames.main();
  TraceZone zone("hand_over", static_cast<int64_t>(main.meta().frame_id), status_.name.c_str());
  if (main.epoch() != buffers_.epoch) return;  // of a connection that is gone
  if (reset_pending_) ++status_.resets;
  ++job_.number;
  job_.camera_epoch = main.epoch();
  job_.deadline_ns = now + config_.timeout_ms * kNsPerMs;
  job_.reset = std::exchange(reset_pending_, false);
  job_.may_capture = flight_ != nullptr && flight_->is_on() && flight_->is_idle();
  for (size_t i = 0; i < job_.frames.size(); ++i) {
    const ipc::FrameRef& f = frames.frames[i];
    job_.frames[i].is_present = static_cast<bool>(f);
    if (f) job_.frames[i] = {f.meta().slot, true, f.meta().frame_id, f.meta().sof_ns};
  }
  job_.vehicle = vehicle_state(*feed.vehicle);
  report_.frame_id = main.meta().frame_id;
  const ipc::FrameRef& wide = frames.frames[static_cast<size_t>(ipc::StreamId::kWide)];
  report_.wide_frame_id = wide ? wide.meta().frame_id : 0;
  report_.timings = {};
  report_.timings.sof_ns = main.meta().sof_ns;
  report_.timings.eof_ns = main.meta().eof_ns;
  report_.timings.received_ns = frames.received_ns();
  report_.timings.handed_over_ns = now;
  report_.run = {status_.resets, since_reset_, false};
  report_.vehicle = *feed.vehicle;
  drops_.run(report_.frame_id);
  report_.frame_drop_percent = static_cast<float>(drops_.percent());
  frames_ = std::move(frames);
  handed_over_ns_ = now;
  last_frame_ns_ = now;
  in_flight_ = true;
  link_.post(job_);
}

Status ModelUnit::set_buffers(const CameraBuffers& buffers, std::span<const int> fds, int64_t now) {
  const bool was_fed = std::exchange(buffers_sent_, false);
  const CameraBuffers before = std::exchange(buffers_, {buffers.epoch, {}});
  buffer_fds_.clear();
  camera_since_ns_ = now;
  const auto wants = streams_of(config_.name);
  for (const StreamBuffers& s : buffers.streams) {
    if (!wants[static_cast<size_t>(s.info.stream)]) continue;
    StreamBuffers mine = s;
    mine.first_fd = static_cast<uint32_t>(buffer_fds_.size());
    buffer_fds_.insert(buffer_fds_.end(), fds.begin() + s.first_fd,
                       fds.begin() + s.first_fd + s.info.slots);
    buffers_.streams.push_back(mine);
  }
  // A locked worker does not learn another picture size: the next one does.
  if (was_fed && !same_geometry(before)) {
    fault(Reason::kCameraFault, now, "the camera's picture size changed, starting again");
    end_worker(now);
  }
  resend_buffers();
  return {};
}

void ModelUnit::resend_buffers() {
  if (buffers_.epoch == 0 || buffers_sent_ || !link_.is_alive() || geometries_.empty()) return;
  if (unknown_geometry() != nullptr) return;
  const Status sent = link_.send_buffers(buffers_, buffer_fds_);
  // Tried again with every tick, told once.
  if (!sent.ok() && !buffers_refused_)
    LOG_WARN("daemon", "%s: %s; trying again", title_.c_str(), sent.error().what.c_str());
  buffers_refused_ = !sent.ok();
  buffers_sent_ = sent.ok();
}

bool ModelUnit::same_geometry(const CameraBuffers& other) const {
  return std::equal(buffers_.streams.begin(), buffers_.streams.end(), other.streams.begin(),
                    other.streams.end(), [](const StreamBuffers& a, const StreamBuffers& b) {
                      return a.info.stream == b.info.stream && a.info.geometry == b.info.geometry;
                    });
}

bool ModelUnit::has_streams() const {
  const auto wants = streams_of(config_.name);
  return static_cast<size_t>(std::count(wants.begin(), wants.end(), true)) ==
         buffers_.streams.size();
}

// A stream the bundle has no warp for, null: none. No frame is handed over then: a camera fault.
const StreamBuffers* ModelUnit::unknown_geometry() const {
  for (const StreamBuffers& s : buffers_.streams) {
    const bool known =
        std::any_of(geometries_.begin(), geometries_.end(), [&](const bundle::GeometryRow& g) {
          return g.stream == ipc::stream_name(s.info.stream) && g.width == s.info.geometry.width &&
                 g.height == s.info.geometry.height;
        });
    if (!known) return &s;
  }
  return nullptr;
}

// ---- messages ----

void ModelUnit::heartbeat_if_due(int64_t now) {
  const bool owed = standing_.state == ModelState::kWarming || now < heartbeats_until_ns_;
  const bool speaks =
      standing_.state == ModelState::kReady || standing_.state == ModelState::kDegraded;
  if (!owed || speaks || now < next_heartbeat_ns_) return;
  // Not the report of the run under way, whose times are still to be told.
  RunReport beat = report_;
  beat.timings = {};
  beat.run = {status_.resets, since_reset_, false};
  send(beat, false, now, {}, kHeartbeatNs);
}

void ModelUnit::send(
    RunReport& report, bool valid, int64_t now, std::span<const float> raw, int64_t quiet_ns) {
  // Heartbeats keep their rate though steps come when they come.
  const bool keeps_pace = quiet_ns == kHeartbeatNs && now - next_heartbeat_ns_ < kHeartbeatNs;
  next_heartbeat_ns_ = (keeps_pace ? next_heartbeat_ns_ : now) + quiet_ns;
  ipc::Header& h = report.header;
  h.frame_id = report.frame_id;
  h.valid = valid;
  h.degraded = standing_.state == ModelState::kDegraded;
  h.state = standing_.state;
  h.reason = standing_.reason;
  h.simulated = status_.simulated;
  if (!voice_.speaks) return;
  if (voice_.stands_in) {
    h.degraded = true;
    h.state = ModelState::kDegraded;
    h.reason = voice_.reason;
  }
  if (valid) told_sof_ns_ = report.timings.sof_ns;
  ++(valid ? counts_.valid_sent : counts_.invalid_sent);
  (void)!topic_.publish(report, raw).ok();  // a full queue costs the message, nothing else
}

// ---- control ----

void ModelUnit::reload(WorkerSetup setup, const ModelConfig& config, bool restart, int64_t now) {
  const bool is_alive = link_.is_alive();
  const bool is_other_file = is_alive && bundle_changed();
  setup_ = std::move(setup);
  config_ = config;
  // A worker that keeps running keeps the stamp of what it runs.
  if (!is_alive || restart || is_other_file) file_stamp_ = kNoStamp;
  next_file_look_ns_ = 0;
  restart_at_ns_ = 0;
  back_off_ns_ = kFirstBackOffNs;
  other_tried_ = false;
  forced_ = '\0';
  switched_text_.clear();
  if (is_alive && (restart || is_other_file))
    fault(Reason::kConfig, now,
          restart ? "the configuration changed, starting again"
                  : "the bundle's file changed, starting again");
}

void ModelUnit::refuse(Reason reason, int64_t now, const std::string& text) {
  refused_ = true;
  fault(reason, now, text);
}

void ModelUnit::stop() {
  if (link_.is_alive()) link_.kill();
}

}  // namespace modeld::daemon
