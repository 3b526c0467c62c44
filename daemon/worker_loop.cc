#include "daemon/worker_loop.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "hal/base/fault.h"
#include "hal/base/log.h"
#include "hal/base/trace.h"

#include "daemon/capture.h"

namespace modeld::daemon {
namespace {

constexpr int kWaitMs = 500;  // a bounded wait: notices a supervisor that is gone

void copy_text(const std::string& from, std::array<char, kTextBytes>& to) {
  const size_t n = std::min(from.size(), to.size() - 1);
  std::memcpy(to.data(), from.data(), n);
  to[n] = '\0';
}

}  // namespace

ipc::Reason reason_of_run(const Error& error) {
  switch (error.code) {
    case Errc::kTimeout:
      return ipc::Reason::kTimeout;
    case Errc::kMismatch:
      return ipc::Reason::kCameraFault;  // a geometry the bundle has no warp for
    case Errc::kInvalid:
      return ipc::Reason::kInputStale;  // not calibrated, or a number that cannot be
    default:
      return ipc::Reason::kDeviceLost;
  }
}

WorkerLoop::WorkerLoop(models::Model& model,
                       hal::Device& device,
                       HopPage& page,
                       ipc::FdChannel& channel,
                       int job_fd,
                       int answer_fd,
                       int capture_fd)
    : model_(model),
      device_(device),
      page_(page),
      channel_(channel),
      job_fd_(job_fd),
      answer_fd_(answer_fd),
      capture_fd_(capture_fd),
      role_(bundle::role_name(model.role())),
      packet_(kMaxHopPacket) {}

Result<bool> WorkerLoop::step() {
  pollfd fds[2] = {{job_fd_, POLLIN, 0}, {channel_.fd(), POLLIN, 0}};
  const int ready = ::poll(fds, 2, kWaitMs);
  if (ready < 0 && errno != EINTR) return fail_errno(Errc::kIo, "worker: poll", errno);
  if (ready <= 0) return true;
  // Buffers of a new camera connection come before the first job that uses them.
  if ((fds[1].revents & (POLLIN | POLLHUP)) != 0 && !drain_channel()) return false;
  uint64_t n = 0;
  if (::read(job_fd_, &n, sizeof n) != sizeof n) return true;
  std::atomic_thread_fence(std::memory_order_acquire);
  const Job job = page_.job;
  frame_id_ = 0;
  for (const JobFrame& f : job.frames) frame_id_ = f.is_present ? f.frame_id : frame_id_;
  // Of the three the main one: road before wide.
  if (job.frames[0].is_present) frame_id_ = job.frames[0].frame_id;
  TraceZone zone("run_job", static_cast<int64_t>(frame_id_), role_);
  run_job(job);
  return true;
}

bool WorkerLoop::drain_channel() {
  while (true) {
    std::array<UniqueFd, ipc::kMaxFdsPerPacket> fds;
    auto got = channel_.receive(packet_, fds);
    if (!got.ok() || got->got == ipc::FdChannel::Got::kClosed) return false;
    if (got->got == ipc::FdChannel::Got::kNothing) return true;
    const std::span<const std::byte> bytes = std::span<const std::byte>(packet_).first(got->bytes);
    const auto kind = packet_kind(bytes);
    if (!kind.ok() || *kind != Packet::kBuffers) continue;
    std::vector<UniqueFd> owned;
    for (size_t i = 0; i < got->fds; ++i) owned.push_back(std::move(fds[i]));
    if (Status s = take_buffers(bytes, std::move(owned)); !s.ok())
      LOG_ERROR("worker", "camera buffers: %s", s.error().what.c_str());
  }
}

Status WorkerLoop::take_buffers(std::span<const std::byte> bytes, std::vector<UniqueFd> fds) {
  camera_epoch_ = 0;
  for (StreamMap& s : streams_) s.slots.clear();
  ASSIGN_OR_RETURN(const CameraBuffers buffers, decode_buffers(bytes));
  for (const StreamBuffers& s : buffers.streams) {
    StreamMap& map = streams_[static_cast<size_t>(s.info.stream)];
    map.info = s.info;
    if (s.first_fd > fds.size() || s.info.slots > fds.size() - s.first_fd) {
      return fail(Errc::kProtocol, strf("camera buffers: %u slots from %u, %zu descriptors",
                                        s.info.slots, s.first_fd, fds.size()));
    }
    for (uint32_t i = 0; i < s.info.slots; ++i) {
      hal::BufferDesc desc;
      desc.size_bytes = s.info.geometry.size;
      desc.fd = fds[s.first_fd + i].get();
      desc.read_only = true;
      ASSIGN_OR_RETURN(hal::Buffer b, device_.allocator().alloc(desc));
      map.slots.push_back(std::move(b));
    }
  }
  camera_epoch_ = buffers.epoch;
  return {};
}

Status WorkerLoop::fill_inputs(const Job& job) {
  if (job.camera_epoch != camera_epoch_) {
    return fail(Errc::kMismatch, strf("worker: frame of camera connection %llu, buffers of %llu",
                                      static_cast<unsigned long long>(job.camera_epoch),
                                      static_cast<unsigned long long>(camera_epoch_)));
  }
  for (size_t i = 0; i < models::kStreams; ++i) {
    const JobFrame& f = job.frames[i];
    models::FrameView& v = inputs_.frames[i];
    v = {};
    if (!f.is_present) continue;
    const StreamMap& s = streams_[i];
    if (f.slot >= s.slots.size())
      return fail(Errc::kMismatch, strf("worker: slot %u of %zu", f.slot, s.slots.size()));
    v.nv12 = s.slots[f.slot].addr();
    v.bytes = s.slots[f.slot].size();
    v.width = s.info.geometry.width;
    v.height = s.info.geometry.height;
    v.stride = s.info.geometry.stride;
    v.uv_offset = s.info.geometry.uv_offset;
    v.camera = {s.info.intrinsics.fx, s.info.intrinsics.fy, s.info.intrinsics.cx,
                s.info.intrinsics.cy};
    v.frame_id = f.frame_id;
    v.sof_ns = f.sof_ns;
  }
  inputs_.vehicle = job.vehicle;
  return {};
}

Status WorkerLoop::run_checked(const Job& job, models::Finding& finding) {
  const Deadline deadline{job.deadline_ns};
  const auto id = static_cast<int64_t>(frame_id_);
  if (job.reset) RETURN_IF_ERROR(model_.reset());
  {
    TraceZone zone("fill_inputs", id, role_);
    RETURN_IF_ERROR(fill_inputs(job));
  }
  // The device goes away once, at this frame, when the world is told to be so.
  if (fault::kBuilt && fault::number("device_lost_at", 0) == static_cast<int64_t>(job.number))
    return fail(Errc::kDeviceLost, "device: lost by MODELD_FAULT");
  {
    TraceZone zone("stage", id, role_);
    RETURN_IF_ERROR(model_.stage(inputs_));
  }
  {
    TraceZone zone("run", id, role_);
    RETURN_IF_ERROR(model_.run(deadline));
  }
  TraceZone zone("check", id, role_);
  ASSIGN_OR_RETURN(finding, model_.check(deadline));
  return {};
}

void WorkerLoop::run_job(const Job& job) {
  page_.answer.number = job.number;
  page_.answer.capture_bytes = 0;
  page_.answer.raw_size = 0;
  models::Finding finding;
  const Status status = run_checked(job, finding);
  if (!status.ok()) {
    // After a missed deadline the device may still be at work: the supervisor ends this process,
    // nothing is touched.
    const ipc::Reason reason = reason_of_run(status.error());
    if (reason != ipc::Reason::kTimeout) (void)!model_.reset().ok();
    return answer(AnswerStatus::kFailed, reason, &status.error().what);
  }
  const std::span<const float> raw = model_.raw();
  page_.answer.raw_size = static_cast<uint32_t>(std::min<size_t>(raw.size(), kMaxRawFloats));
  std::copy_n(raw.begin(), page_.answer.raw_size, page_.raw.begin());
  page_.answer.warp_ns = model_.times().warp_ns;
  page_.answer.run_ns = model_.times().run_ns;
  if (finding.is_good) {
    {
      TraceZone zone("commit", static_cast<int64_t>(frame_id_), role_);
      model_.commit();
    }
    return answer(AnswerStatus::kAccepted, ipc::Reason::kNone, nullptr);
  }
  capture(job);
  if (const Status reset = model_.reset(); !reset.ok()) {
    return answer(AnswerStatus::kFailed, ipc::Reason::kDeviceLost, &reset.error().what);
  }
  answer(AnswerStatus::kNonFinite, ipc::Reason::kNonFinite, &finding.text);
}

// Before anything of the run is forgotten. What cannot be told is left out: the failure itself is
// what has to reach the supervisor, and in time.
void WorkerLoop::capture(const Job& job) {
  if (!job.may_capture) return;
  TraceZone zone("capture", static_cast<int64_t>(frame_id_), role_);
  const auto bytes = write_capture(model_, capture_fd_, Deadline{job.deadline_ns});
  if (bytes.ok()) page_.answer.capture_bytes = *bytes;
}

void WorkerLoop::answer(AnswerStatus status, ipc::Reason reason, const std::string* text) {
  // The answer arrives late when the world is told to be slow.
  if (const int64_t ms = fault::number("answer_delay_ms", 0); ms > 0)
    usleep(static_cast<useconds_t>(ms * 1000));
  TraceZone zone("answer", static_cast<int64_t>(frame_id_), role_);
  page_.answer.done_ns = now_ns();
  page_.answer.status = status;
  page_.answer.reason = reason;
  page_.answer.text[0] = '\0';
  if (text != nullptr) copy_text(*text, page_.answer.text);
  std::atomic_thread_fence(std::memory_order_release);
  const uint64_t one = 1;
  (void)!::write(answer_fd_, &one, sizeof one);
}

}  // namespace modeld::daemon
