#include "daemon/daemon.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "hal/base/fs.h"
#include "hal/base/log.h"
#include "hal/base/text.h"
#include "hal/base/trace.h"

#include "ipc/publisher.h"
#include "ipc/runtime_dir.h"
#include "ipc/subscriber.h"

#include "daemon/frame_loop.h"
#include "daemon/instance_lock.h"
#include "daemon/privilege.h"
#include "daemon/realtime.h"
#include "daemon/sandbox.h"
#include "daemon/worker_process.h"

namespace modeld::daemon {
namespace {

// Set by signal handlers only.
std::atomic<bool> stop_wanted{false};
std::atomic<bool> reload_wanted{false};

void on_signal(int signal) {
  (signal == SIGHUP ? reload_wanted : stop_wanted).store(true);
}

void install_signals() {
  struct sigaction a {};
  a.sa_handler = on_signal;
  for (int s : {SIGINT, SIGTERM, SIGHUP}) sigaction(s, &a, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

constexpr int kFallbackNice = 10;

// The fallback as a model of its own.
ModelConfig fallback_of(const ModelConfig& m) {
  ModelConfig f = m;
  f.bundle = m.fallback_bundle;
  f.device = m.fallback_device;
  f.priority = std::max<int64_t>(m.priority - 1, 0);  // it must not take time from the primary
  // A limit that was meant for a device of the other kind.
  if (is_slow_simulator(f.device) != is_slow_simulator(m.device))
    f.timeout_ms = is_slow_simulator(f.device) ? kSimTimeoutMs : ModelConfig().timeout_ms;
  return f;
}

WorkerSetup setup_of(const Config& c, const ModelConfig& m, int nice = 0) {
  WorkerSetup s;
  s.name = m.name;
  s.bundle = m.bundle;
  s.device = m.device;
  s.prepare = m.prepare;
  s.keys_dir = c.keys_dir;
  s.require_signature = c.require_signature;
  s.cpus = m.cpus;
  s.priority = m.priority;
  s.load_s = m.load_s;
  s.nice = nice;
  return s;
}

int highest_priority(const Config& c) {
  int64_t highest = 0;
  for (const ModelConfig& m : c.models) highest = std::max(highest, m.priority);
  return static_cast<int>(highest);
}

// Above every worker, so that deadlines are seen while workers compute; what it starts loads in the
// normal class.
RealtimeMissing enter_realtime(const Config& c) {
  constexpr int kHighest = 99;
  RealtimeWish wish;
  wish.priority = highest_priority(c);
  if (wish.priority > 0) wish.priority = std::min(wish.priority + 1, kHighest);
  wish.children_normal = true;
  const RealtimeResult r = apply_realtime(wish);
  for (const std::string& text : r.texts) LOG_WARN("daemon", "supervisor: %s", text.c_str());
  return r.missing;
}

// The rights go first, the proof that they are gone comes second.
Status give_up_rights(const std::string& user) {
  RETURN_IF_ERROR(drop_to_user(user));
  RETURN_IF_ERROR(lock_supervisor_calls());
  return probe_actuators();
}

FlightOptions flight_options(const Config& c, const std::string& dir) {
  FlightOptions o;
  o.dir = c.flight_dir.empty() ? join_path(dir, "flight") : c.flight_dir;
  o.limit_bytes = static_cast<uint64_t>(c.flight_limit_mb) << 20;
  o.runs = static_cast<size_t>(c.flight_runs);
  return o;
}

}  // namespace

// One worker and what it feeds; destroyed in reverse order.
struct ServedUnit {
  std::unique_ptr<OutputTopic> topic;
  std::unique_ptr<WorkerProcess> worker;
  std::unique_ptr<ModelUnit> unit;
};

// One role: its topic, its primary and perhaps a fallback.
struct Served {
  std::unique_ptr<ipc::Sender> sender;
  std::unique_ptr<ipc::Publisher> publisher;
  ServedUnit primary;
  ServedUnit fallback;
  std::unique_ptr<ModelPair> pair;
};

struct Daemon::Parts {
  Config config;
  std::string dir;
  UniqueFd exe;
  UniqueFd lock;
  ipc::ZmqContext zmq;
  std::unique_ptr<ipc::FrameClient> camera;
  std::unique_ptr<ipc::Receiver> vehicle;
  std::unique_ptr<ipc::Sender> state;
  std::unique_ptr<ipc::Sender> metrics;
  std::unique_ptr<ipc::ControlServer> control;
  std::unique_ptr<ipc::TextServer> metrics_text;
  std::unique_ptr<FlightRecorder> flight;
  Watchdog watchdog;
  std::vector<Served> models;
  std::unique_ptr<FrameLoop> loop;
  std::string privilege;  // rights that could not be given up, "" when all are gone

  Status build();
  std::string worker_privilege() const;
  Status build_models();
  // `unit` names it in the runtime directory: road, road-fallback.
  Result<ServedUnit> build_unit(const std::string& unit,
                                const ModelConfig& m,
                                WorkerSetup setup,
                                ipc::Publisher& publisher);
};

Status Daemon::Parts::build() {
  // Opened before any drop of rights: workers start from it whatever the user may execute.
  exe.reset(open("/proc/self/exe", O_PATH | O_CLOEXEC));
  if (!exe.is_open()) return fail_errno(Errc::kIo, "modeld: /proc/self/exe", errno);
  dir = ipc::runtime_dir("", config.runtime_dir);
  const bool is_new = !file_exists(dir);
  RETURN_IF_ERROR(ipc::make_runtime_dir(dir));
  // Not an error of the start: consumers are told first.
  Status rights = is_new ? give_to_user(config.user, dir) : Status();
  if (rights.ok()) rights = give_up_rights(config.user);
  if (!rights.ok()) privilege = rights.error().what;
  // By the user itself: it must be able to open the file the next time.
  ASSIGN_OR_RETURN(lock, lock_instance(dir, "modeld"));
  const bool absolute = config.camera_socket.rfind('/', 0) == 0;
  camera = std::make_unique<ipc::FrameClient>(absolute ? config.camera_socket
                                                       : join_path(dir, config.camera_socket));
  ASSIGN_OR_RETURN(vehicle, ipc::connect_topic(zmq, dir, ipc::Topic::kVehicle));
  ASSIGN_OR_RETURN(state, ipc::bind_topic(zmq, dir, ipc::Topic::kState));
  ASSIGN_OR_RETURN(metrics, ipc::bind_topic(zmq, dir, ipc::Topic::kMetrics));
  ASSIGN_OR_RETURN(ipc::ControlServer server, ipc::ControlServer::listen(dir));
  control = std::make_unique<ipc::ControlServer>(std::move(server));
  ASSIGN_OR_RETURN(ipc::TextServer text, ipc::TextServer::listen(dir, ipc::kMetricsSocket));
  metrics_text = std::make_unique<ipc::TextServer>(std::move(text));
  flight = std::make_unique<FlightRecorder>(flight_options(config, dir));
  RETURN_IF_ERROR(build_models());
  std::vector<ModelPair*> pairs;
  for (Served& m : models) pairs.push_back(m.pair.get());
  // Before the loop, whose writer of metrics.prom keeps the normal class.
  const RealtimeMissing missing = enter_realtime(config);
  loop = std::make_unique<FrameLoop>(FrameLoop::Parts{*camera, *vehicle, *state, *metrics, *control,
                                                      *metrics_text, *flight, watchdog, pairs,
                                                      join_path(dir, "metrics.prom"), missing});
  return {};
}

// Of a worker that could not lock itself down.
std::string Daemon::Parts::worker_privilege() const {
  for (const Served& m : models) {
    if (m.pair->status().reason == Reason::kPrivilege) return m.pair->status().text;
  }
  return "";
}

Result<ServedUnit> Daemon::Parts::build_unit(const std::string& unit,
                                             const ModelConfig& m,
                                             WorkerSetup setup,
                                             ipc::Publisher& publisher) {
  ServedUnit u;
  ASSIGN_OR_RETURN(u.topic, make_output_topic(m.name, publisher, config.publish_raw));
  ASSIGN_OR_RETURN(u.worker, WorkerProcess::create(exe.get(), join_path(dir, unit)));
  u.unit = std::make_unique<ModelUnit>(m, std::move(setup), *u.worker, *u.topic);
  u.unit->set_tell(tell_journal);
  u.unit->set_flight(flight.get());
  return u;
}

Status Daemon::Parts::build_models() {
  for (const ModelConfig& m : config.models) {
    // Simulated devices get their time by default; whoever reads the log is told.
    if (m.timeout_ms >= kSimTimeoutMs)
      LOG_INFO("daemon", "%s: device %s answers within %lld ms", m.name.c_str(), m.device.c_str(),
               static_cast<long long>(m.timeout_ms));
    Served served;
    ASSIGN_OR_RETURN(
        served.sender,
        ipc::bind_topic(zmq, dir, m.name == "road" ? ipc::Topic::kRoad : ipc::Topic::kCabin));
    served.publisher = std::make_unique<ipc::Publisher>(*served.sender);
    ASSIGN_OR_RETURN(served.primary, build_unit(m.name, m, setup_of(config, m), *served.publisher));
    if (!m.fallback_bundle.empty()) {
      const ModelConfig f = fallback_of(m);
      ASSIGN_OR_RETURN(served.fallback,
                       build_unit(m.name + "-fallback", f, setup_of(config, f, kFallbackNice),
                                  *served.publisher));
    }
    served.pair = std::make_unique<ModelPair>(*served.primary.unit, served.fallback.unit.get());
    models.push_back(std::move(served));
  }
  return {};
}

Daemon::Daemon(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Daemon::~Daemon() = default;

Result<std::unique_ptr<Daemon>> Daemon::create(Config config) {
  auto parts = std::make_unique<Parts>();
  parts->config = std::move(config);
  RETURN_IF_ERROR(parts->build());
  return std::unique_ptr<Daemon>(new Daemon(std::move(parts)));
}

int Daemon::run() {
  install_signals();
  trace_enable(true);
  trace_prepare_thread("supervisor");
  if (!parts_->privilege.empty()) return leave_for_privilege(parts_->privilege);
  LOG_INFO("daemon", "running in %s with %zu models; camera %s, vehicle inputs ipc://%s/vehicle",
           parts_->dir.c_str(), parts_->models.size(), parts_->camera->path().c_str(),
           parts_->dir.c_str());
  while (!stop_wanted.load()) {
    if (Status s = parts_->loop->step(); !s.ok()) {
      LOG_ERROR("daemon", "frame loop: %s", s.error().what.c_str());
      return 1;
    }
    if (const std::string text = parts_->worker_privilege(); !text.empty())
      return leave_for_privilege(text);
    if (reload_wanted.exchange(false) || parts_->loop->take_reload()) reload();
  }
  LOG_INFO("daemon", "stopping");
  parts_->watchdog.stopping();
  for (Served& m : parts_->models) {
    m.primary.unit->stop();
    if (m.fallback.unit) m.fallback.unit->stop();
  }
  return 0;
}

// The state is told and the outputs are declared invalid for a second before the exit, so that
// consumers learn why.
int Daemon::leave_for_privilege(const std::string& text) {
  LOG_ERROR("daemon", "%s", text.c_str());
  for (Served& m : parts_->models) m.pair->refuse(Reason::kPrivilege, now_ns(), text);
  const Deadline end = Deadline::in_ns(kHeartbeatsLastNs);
  while (!end.has_passed() && !stop_wanted.load()) {
    if (Status s = parts_->loop->step(); !s.ok()) break;
  }
  return kExitConfig;
}

namespace {

// What concerns the primary alone.
ModelConfig primary_of(ModelConfig m) {
  m.fallback_bundle.clear();
  m.fallback_device.clear();
  return m;
}

// Whoever is not concerned by what changed keeps running; `old` null: not known any more.
void reload_units(Served& m,
                  const Config& config,
                  const ModelConfig& model,
                  const ModelConfig* old,
                  bool restart_all) {
  const int64_t now = now_ns();
  const bool all = restart_all || old == nullptr;
  m.primary.unit->reload(setup_of(config, model), model,
                         all || primary_of(model) != primary_of(*old), now);
  if (!m.fallback.unit || model.fallback_bundle.empty()) return;
  const ModelConfig f = fallback_of(model);
  m.fallback.unit->reload(setup_of(config, f, kFallbackNice), f, all || f != fallback_of(*old),
                          now);
}

const ModelConfig* model_of(const Config& c, const std::string& name) {
  const auto at = std::find_if(c.models.begin(), c.models.end(),
                               [&](const ModelConfig& m) { return m.name == name; });
  return at == c.models.end() ? nullptr : &*at;
}

// The keys that differ and that a running daemon cannot follow; "" when there are none.
std::string needs_restart(const Config& old, const Config& fresh) {
  std::string keys;
  const auto note = [&](bool differs, const std::string& key) {
    if (differs) keys += (keys.empty() ? "" : ", ") + key;
  };
  note(old.runtime_dir != fresh.runtime_dir, "runtime_dir");
  note(old.user != fresh.user, "user");
  note(old.camera_socket != fresh.camera_socket, "camera.socket");
  note(old.publish_raw != fresh.publish_raw, "publish.raw");
  note(old.flight_dir != fresh.flight_dir || old.flight_limit_mb != fresh.flight_limit_mb ||
           old.flight_runs != fresh.flight_runs,
       "flight");
  note(highest_priority(old) != highest_priority(fresh),
       "the supervisor's priority above its workers");
  for (const ModelConfig& m : fresh.models) {
    const ModelConfig* before = model_of(old, m.name);
    note(before == nullptr, "model." + m.name);
    note(before != nullptr && before->fallback_bundle.empty() != m.fallback_bundle.empty(),
         "model." + m.name + ".fallback_bundle");
  }
  return keys;
}

}  // namespace

void Daemon::reload() {
  auto fresh = load_config(parts_->config.path);
  if (!fresh.ok()) {
    LOG_ERROR("daemon", "reload: %s; keeping the configuration as it was",
              fresh.error().what.c_str());
    return;
  }
  for (Served& m : parts_->models) {
    const ModelConfig* at = model_of(*fresh, m.pair->name());
    if (at == nullptr) {
      LOG_WARN("daemon", "reload: model.%s is gone from the file; it keeps running until a restart",
               m.pair->name().c_str());
      continue;
    }
    const bool trust_changed = fresh->keys_dir != parts_->config.keys_dir ||
                               fresh->require_signature != parts_->config.require_signature;
    reload_units(m, *fresh, *at, model_of(parts_->config, at->name), trust_changed);
  }
  const std::string late = needs_restart(parts_->config, *fresh);
  if (!late.empty())
    LOG_WARN("daemon", "reload: changed, but only the next start will heed it: %s", late.c_str());
  parts_->config = std::move(*fresh);
  LOG_INFO("daemon", "reloaded %s", parts_->config.path.c_str());
}

}  // namespace modeld::daemon
