#include "selftest/faults/faulty_camera.h"

#include <sys/mman.h>
#include <unistd.h>

#include "hal/base/clock.h"
#include "hal/base/fs.h"

#include "ipc/fd_channel.h"
#include "ipc/frame_server.h"
#include "ipc/frame_source.h"
#include "ipc/poller.h"
#include "ipc/publisher.h"

namespace modeld::faults {
namespace {

using ipc::StreamId;

constexpr const char* kSource =
    "synth;seed=1;vehicle=straight;fps=20;road=1344x760;wide=1344x760;cabin=1344x760";
constexpr int64_t kPeriodNs = 50 * kNsPerMs;

ipc::Handshake handshake_of(const ipc::FrameSource& source, uint32_t slots) {
  ipc::Handshake h;
  h.source = kSource;
  for (int i = 0; i < ipc::kStreamCount; ++i) {
    ipc::StreamInfo& out = h.streams[h.stream_count++];
    out = *source.stream(static_cast<StreamId>(i));
    out.slots = slots;
  }
  return h;
}

std::unique_ptr<ipc::FrameSource> open_source() {
  auto spec = ipc::parse_source(kSource);
  auto source = ipc::FrameSource::open(*spec);
  if (source.ok()) return std::move(*source);
  ADD_FAILURE() << source.error().what;
  return nullptr;
}

std::string socket_in(const std::string& dir) {
  return join_path(dir, "camera.sock");
}

void wait_until(int64_t time_ns, ipc::FrameServer& server, const std::atomic<bool>& stop) {
  ipc::Poller poller;
  poller.add(server.listen_fd());
  while (now_ns() < time_ns && !stop) {
    const auto ready = poller.wait_until(Deadline{time_ns});
    if (ready.ok() && *ready > 0) server.service();
  }
}

}  // namespace

FaultyCamera::FaultyCamera(const std::string& dir) : dir_(dir), thread_([this] { loop(); }) {}

FaultyCamera::~FaultyCamera() {
  stop_ = true;
  thread_.join();
}

void FaultyCamera::twist(Twist twist) {
  const std::scoped_lock lock(mutex_);
  twist_ = std::move(twist);
}

void FaultyCamera::loop() {
  const auto source = open_source();
  if (!source) return;
  auto server =
      ipc::FrameServer::create(dir_, socket_in(dir_), handshake_of(*source, ipc::kDefaultSlots));
  ipc::ZmqContext context;
  const auto sender = ipc::bind_topic(context, dir_, ipc::Topic::kVehicle);
  if (!server.ok() || !sender.ok()) {
    ADD_FAILURE() << "the row's camera cannot serve in " << dir_;
    return;
  }
  ipc::Publisher vehicle(**sender);
  ipc::VehicleMessage message;
  message.source = kSource;
  int64_t next = now_ns();
  for (uint64_t tick = 0; !stop_; ++tick) {
    wait_until(next, **server, stop_);
    Shot shot;
    shot.id.fill(tick);
    shot.sof_ns.fill(next);
    shot.vehicle = *source->vehicle(tick);
    shot.vehicle.time_ns = now_ns();
    {
      const std::scoped_lock lock(mutex_);
      if (twist_) twist_(shot);
    }
    message.inputs = shot.vehicle;
    message.header.valid = message.inputs.calibration_known;
    if (shot.sends_vehicle) (void)!vehicle.publish(message).ok();
    (*server)->service();
    for (int i = 0; i < ipc::kStreamCount; ++i) {
      if (!shot.sends[i]) continue;
      const auto stream = static_cast<StreamId>(i);
      const auto writable = (*server)->begin_frame(stream);
      if (!writable) continue;
      EXPECT_TRUE(source->draw(stream, tick, writable->pixels).ok());
      (*server)->publish({stream, writable->slot, shot.id[i], shot.sof_ns[i], shot.sof_ns[i]});
    }
    next = std::max(next + kPeriodNs, now_ns() - kPeriodNs);
  }
}

UnsealedCamera::UnsealedCamera(const std::string& dir) : dir_(dir), thread_([this] { loop(); }) {}

UnsealedCamera::~UnsealedCamera() {
  stop_ = true;
  thread_.join();
}

void UnsealedCamera::loop() {
  constexpr uint32_t kSlots = 2;
  const auto source = open_source();
  auto listener = ipc::FdListener::listen(dir_, socket_in(dir_));
  if (!source || !listener.ok()) {
    ADD_FAILURE() << "the row's camera cannot listen in " << dir_;
    return;
  }
  const ipc::Handshake handshake = handshake_of(*source, kSlots);
  ipc::PacketBuffer packet;
  const auto size = ipc::encode_handshake(handshake, packet);
  std::vector<UniqueFd> owned;
  std::vector<int> fds;
  for (uint32_t i = 0; i < handshake.stream_count * kSlots; ++i) {
    owned.emplace_back(memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    EXPECT_EQ(ftruncate(owned.back().get(), handshake.streams[0].geometry.size), 0);
    fds.push_back(owned.back().get());
  }
  ipc::ZmqContext context;
  const auto sender = ipc::bind_topic(context, dir_, ipc::Topic::kVehicle);
  if (!sender.ok()) ADD_FAILURE() << sender.error().what;
  if (!sender.ok()) return;
  ipc::Publisher vehicle(**sender);
  ipc::VehicleMessage message;
  ipc::FdChannel client;
  for (uint64_t tick = 0; !stop_; ++tick) {
    usleep(5000);
    if (tick % 10 == 0) {
      message.inputs = *source->vehicle(tick);
      message.inputs.time_ns = now_ns();
      (void)!vehicle.publish(message).ok();
    }
    if (!client.is_open()) {
      auto accepted = listener->accept();
      if (!accepted.ok() || !accepted->is_open()) continue;
      client = std::move(*accepted);
      EXPECT_TRUE(client.send(std::span(packet).first(*size), fds).ok());
    }
    ipc::PacketBuffer answer;
    const auto got = client.receive(answer);
    if (got.ok() && got->got != ipc::FdChannel::Got::kClosed) continue;
    client.close();
    ++refused_;
  }
}

}  // namespace modeld::faults
