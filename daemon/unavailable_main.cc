// modeld-unavailable: speaks for a modeld that is down for good, until one is started again.
// Started by systemd (OnFailure= of modeld.service). Consumers get a positive statement: the state
// topic at 10 Hz, a second of valid=false on the models' own topics, answers on control.sock, one
// line in the journal. It holds modeld's lock meanwhile, so the two never speak at once.
#include <signal.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <exception>
#include <memory>

#include "hal/base/clock.h"
#include "hal/base/json.h"
#include "hal/base/log.h"

#include "ipc/control.h"
#include "ipc/poller.h"
#include "ipc/publisher.h"
#include "ipc/runtime_dir.h"
#include "ipc/state_json.h"

#include "daemon/frame_loop.h"
#include "daemon/instance_lock.h"
#include "daemon/model_unit.h"
#include "daemon/unavailable.h"

namespace modeld::daemon {
namespace {

constexpr const char* kAbout =
    "Says that modeld's models are unavailable, and why, while modeld itself cannot run.\n"
    "Started by modeld-unavailable.service; ends when modeld is started again, or by SIGTERM.";

// Set by the signal handler only.
std::atomic<bool> stop_wanted{false};

void install_signals() {
  struct sigaction a {};
  a.sa_handler = [](int) { stop_wanted.store(true); };
  for (int s : {SIGINT, SIGTERM}) sigaction(s, &a, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

// valid=false on one model's topic.
class Heartbeats {
 public:
  static Result<Heartbeats> create(ipc::ZmqContext& zmq,
                                   const std::string& dir,
                                   const std::string& model) {
    Heartbeats h;
    h.is_road_ = model == "road";
    ASSIGN_OR_RETURN(
        h.sender_, ipc::bind_topic(zmq, dir, h.is_road_ ? ipc::Topic::kRoad : ipc::Topic::kCabin));
    h.publisher_ = std::make_unique<ipc::Publisher>(*h.sender_);
    return h;
  }

  Status send(ipc::Reason reason) {
    ipc::Header header;
    header.state = ipc::ModelState::kUnavailable;
    header.reason = reason;
    if (is_road_) {
      road_->header = header;
      return publisher_->publish(*road_);
    }
    cabin_->header = header;
    return publisher_->publish(*cabin_);
  }

 private:
  bool is_road_ = false;
  std::unique_ptr<ipc::Sender> sender_;
  std::unique_ptr<ipc::Publisher> publisher_;
  std::unique_ptr<ipc::RoadMessage> road_ = std::make_unique<ipc::RoadMessage>();
  std::unique_ptr<ipc::CabinMessage> cabin_ = std::make_unique<ipc::CabinMessage>();
};

ipc::StateMessage statement(const std::string& config_path, std::string& dir) {
  const auto config = load_config(config_path);
  dir = ipc::runtime_dir("", config.ok() ? config->runtime_dir : "");
  ipc::StateMessage m;
  m.models = unavailable_models(service_end_of_environment(), config, now_ns());
  m.pid = static_cast<uint32_t>(getpid());
  m.start_ns = now_ns();
  m.version = MODELD_VERSION;
  m.header.valid = true;  // the message is; its models are not
  return m;
}

std::string answer(const ipc::StateMessage& state, std::string_view request) {
  const auto asked = Json::parse(request);
  const Json* const command = asked.ok() ? asked->find("command") : nullptr;
  if (command != nullptr && command->string_or("") == "status")
    return ipc::state_to_json(state, now_ns()).dump();
  Json out = Json::object();
  out.set("ok", false);
  out.set("error", "modeld does not run: " + state.models.front().text);
  return out.dump();
}

void tell(const ipc::StateMessage& state) {
  for (const ipc::ModelStatus& s : state.models)
    LOG_ERROR("unavailable", "%s: %s(%s): %s", s.name.c_str(), ipc::model_state_name(s.state),
              ipc::reason_name(s.reason), s.text.c_str());
  const ipc::ModelStatus& first = state.models.front();
  sd_notify(0, strf("READY=1\nSTATUS=%s(%s): %s", ipc::model_state_name(first.state),
                    ipc::reason_name(first.reason), first.text.c_str())
                   .c_str());
}

Status speak(ipc::StateMessage state, const std::string& dir) {
  ipc::ZmqContext zmq;
  ASSIGN_OR_RETURN(const auto sender, ipc::bind_topic(zmq, dir, ipc::Topic::kState));
  ipc::Publisher publisher(*sender);
  std::vector<Heartbeats> topics;
  for (const ipc::ModelStatus& s : state.models) {
    ASSIGN_OR_RETURN(Heartbeats h, Heartbeats::create(zmq, dir, s.name));
    topics.push_back(std::move(h));
  }
  ASSIGN_OR_RETURN(ipc::ControlServer control, ipc::ControlServer::listen(dir));
  tell(state);
  ipc::Poller poller;
  poller.add(control.poll_fd());
  const int64_t heartbeats_end_ns = now_ns() + kHeartbeatsLastNs;
  int64_t next_state_ns = 0;
  int64_t next_heartbeat_ns = 0;
  while (!stop_wanted.load()) {
    const int64_t now = now_ns();
    if (now >= next_state_ns) {
      next_state_ns = now + kStatePeriodNs;
      RETURN_IF_ERROR(publisher.publish(state));
    }
    if (now >= next_heartbeat_ns && now < heartbeats_end_ns) {
      next_heartbeat_ns = now + kHeartbeatNs;
      for (size_t i = 0; i < topics.size(); ++i)
        RETURN_IF_ERROR(topics[i].send(state.models[i].reason));
    }
    ASSIGN_OR_RETURN([[maybe_unused]] const int ready,
                     poller.wait_until(Deadline::in_ns(kMaxWaitNs)));
    control.service([&](std::string_view request) { return answer(state, request); });
  }
  return {};
}

Status speak_for(const std::string& config_path) {
  std::string dir;
  ipc::StateMessage state = statement(config_path, dir);
  RETURN_IF_ERROR(ipc::make_runtime_dir(dir));
  ASSIGN_OR_RETURN(const UniqueFd lock, lock_instance(dir, "modeld-unavailable"));
  return speak(std::move(state), dir);
}

int run(int argc, char** argv) {
  CLI::App app(kAbout);
  std::string path = "/etc/modeld/modeld.toml";
  app.add_option("--config", path, "modeld's configuration file")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  install_signals();
  const Status s = speak_for(path);
  if (s.ok()) return 0;
  std::fprintf(stderr, "%s\n", s.error().what.c_str());
  return 1;
}

}  // namespace
}  // namespace modeld::daemon

int main(int argc, char** argv) {
  try {
    const int code = modeld::daemon::run(argc, argv);
    return code > 2 ? 2 : code;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "modeld-unavailable: %s\n", e.what());
    return 1;
  }
}
