// What unit tests of supervision use instead of a process and a socket: a worker and a topic that
// do what the test says.
#pragma once

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "hal/base/fs.h"

#include "ipc/frame_server.h"

#include "daemon/model_unit.h"
#include "daemon/outputs.h"
#include "daemon/worker_link.h"

namespace modeld::daemon {

// A worker that does what the test says.
class FakeWorker final : public WorkerLink {
 public:
  Status start(const WorkerSetup& setup) override {
    ++starts;
    alive = true;
    last_setup = setup;
    return {};
  }
  bool is_alive() const override { return alive; }
  void kill() override {
    ++kills;
    if (dies_when_killed) exit("worker ended by signal 9");
  }
  int pid() const override { return 42; }
  bool poll(WorkerEvent& event) override {
    if (events.empty()) return false;
    event = events.front();
    events.pop_front();
    if (event.kind == WorkerEvent::Kind::kExited) alive = false;
    return true;
  }
  int poll_fd() const override { return -1; }
  Status send_buffers(const CameraBuffers& buffers, std::span<const int>) override {
    if (refusals > 0 && refusals-- > 0) return ::modeld::fail(Errc::kBusy, "queue full");
    buffers_epoch = buffers.epoch;
    return {};
  }
  void post(const Job& job) override { jobs.push_back(job); }
  const Answer& answer() const override { return answer_; }
  std::span<const float> raw() const override { return raw_; }
  std::span<const std::byte> trace() const override { return {}; }
  int capture_fd() const override { return capture; }

  void exit(const std::string& text) {
    WorkerEvent e;
    e.kind = WorkerEvent::Kind::kExited;
    e.text = text;
    events.push_back(e);
  }
  void phase(WorkerEvent::Kind kind, uint32_t context = 0) {
    WorkerEvent e;
    e.kind = kind;
    e.hello.raw_size = 4;
    e.hello.context_frames = context;
    e.hello.geometries = {{"cabin", 64, 48, 1}};
    events.push_back(e);
  }
  void fail(ipc::Reason reason, const std::string& text) {
    WorkerEvent e;
    e.kind = WorkerEvent::Kind::kFailure;
    e.failure = {reason, text};
    events.push_back(e);
  }
  void reply(AnswerStatus status,
             ipc::Reason reason = ipc::Reason::kNone,
             const std::string& text = "",
             int64_t done_ns = 0) {
    answer_.done_ns = done_ns;
    answer_.status = status;
    answer_.reason = reason;
    std::copy_n(text.c_str(), text.size() + 1, answer_.text.begin());
    WorkerEvent e;
    e.kind = WorkerEvent::Kind::kAnswer;
    events.push_back(e);
    ++answered;
  }

  int capture = -1;
  int starts = 0;
  size_t answered = 0;
  int kills = 0;
  int refusals = 0;  // of camera buffers, from now on
  bool alive = false;
  bool dies_when_killed = true;
  uint64_t buffers_epoch = 0;
  std::deque<WorkerEvent> events;
  std::vector<Job> jobs;
  WorkerSetup last_setup;

 private:
  Answer answer_;
  std::vector<float> raw_{1, 2, 3, 4};
};

class FakeTopic final : public OutputTopic {
 public:
  Status bind(std::span<const bundle::SliceRow>, size_t) override { return {}; }
  Status parse(std::span<const float>) override {
    if (parse_fails) return fail(Errc::kInvalid, "plan[3] sigma is inf");
    return {};
  }
  Status publish(const RunReport& report, std::span<const float>) override {
    sent.push_back(report);
    return {};
  }
  int64_t last_latency_ns() const override { return latency_ns; }
  bool parse_fails = false;
  int64_t latency_ns = 0;
  std::vector<RunReport> sent;
};

// A cabin camera of 64x48 pixels: real channel, frames on demand.
class TestCamera final {
 public:
  explicit TestCamera(const std::string& dir) : client_(dir + "/camera.sock") {
    ipc::Handshake h;
    h.stream_count = 1;
    h.streams[0].stream = ipc::StreamId::kCabin;
    h.streams[0].geometry = *ipc::nv12_geometry(64, 48);
    h.streams[0].intrinsics = ipc::default_intrinsics(ipc::StreamId::kCabin, 64, 48);
    h.streams[0].slots = ipc::kDefaultSlots;
    h.streams[0].fps = 20;
    auto server = ipc::FrameServer::create(dir, dir + "/camera.sock", h);
    EXPECT_TRUE(server.ok()) << server.error().what;
    server_ = std::move(*server);
    for (int i = 0; i < 100 && !client_.connected(); ++i) {
      EXPECT_TRUE(client_.poll().ok());
      server_->service();
    }
    EXPECT_TRUE(client_.connected());
  }
  ipc::FrameClient& client() { return client_; }
  ipc::FrameServer& server() { return *server_; }

  // The client has it unread afterwards.
  void publish(int64_t now) {
    const auto writable = server_->begin_frame(ipc::StreamId::kCabin);
    ASSERT_TRUE(writable.has_value());
    server_->publish({ipc::StreamId::kCabin, writable->slot, ++frame_id_, now, now});
    server_->service();
    EXPECT_TRUE(client_.poll().ok());
  }
  CameraBuffers buffers() {
    CameraBuffers b;
    b.epoch = client_.epoch();
    b.streams.push_back({*client_.stream(ipc::StreamId::kCabin), 0});
    b.streams[0].info.slots = static_cast<uint32_t>(fds().size());
    return b;
  }
  std::span<const int> fds() { return client_.slot_fds(ipc::StreamId::kCabin); }

 private:
  std::unique_ptr<ipc::FrameServer> server_;
  ipc::FrameClient client_;
  uint64_t frame_id_ = 0;
};

}  // namespace modeld::daemon
