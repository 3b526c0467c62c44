#include "selftest/faults/scene.h"

#include <signal.h>
#include <time.h>

#include <algorithm>
#include <map>

#include "hal/base/text.h"

namespace modeld::faults {
namespace {

using e2e::Child;
using e2e::Rig;

TempDir make_temp() {
  auto dir = TempDir::create("modeld-row");
  if (!dir.ok()) std::abort();
  return std::move(*dir);
}

std::string text_of(const Json& object, const char* key) {
  const Json* at = object.find(key);
  return at == nullptr ? "" : at->string_or("");
}

int64_t number_of(const Json& object, const char* key) {
  const Json* at = object.find(key);
  return at == nullptr ? 0 : at->int_or(0);
}

}  // namespace

bool is_lateness(const ipc::ModelStatus& status) {
  const auto says = [&](const char* text) { return status.text.find(text) != std::string::npos; };
  return status.reason == ipc::Reason::kTimeout || says("no frame for 150 ms") ||
         says("no vehicle input for 0.5 s");
}

Scene::Scene(std::string defect) : defect_(std::move(defect)), temp_(make_temp()) {
  options.bundles = {{"road", e2e::tiny_bundle("road")}, {"cabin", e2e::tiny_bundle("cabin")}};
  options.camera = {"--camera", "1344x760"};
  options.strict = {"road", "cabin"};
  if (defect_.empty()) return;
  options.daemon_program = "modeld_defect_probe";
}

Scene::~Scene() {
  gate_.reset();
  recorder_.reset();
  rig_.reset();
  camera_.reset();
  for (auto undo = undo_.rbegin(); undo != undo_.rend(); ++undo) (*undo)();
}

void Scene::start() {
  if (!defect_.empty()) switches += (switches.empty() ? "defect=" : ",defect=") + defect_;
  options.env.push_back("MODELD_FAULT=" + switches);
  options.start_camera = options.start_camera && !own_camera;
  const auto then = options.before_daemon;
  options.before_daemon = [this, then](const Rig& rig) {
    if (own_camera) camera_ = std::make_unique<FaultyCamera>(rig.dir());
    start_clients(rig);
    if (then) then(rig);
  };
  rig_ = std::make_unique<Rig>(options);
}

// Before the daemon: both are there when it says its first word.
void Scene::start_clients(const Rig& rig) {
  const std::vector<std::string> env = {"MODELD_FAULT=defect=" + defect_};
  const std::string ctl = e2e::program(defect_.empty() ? "modelctl" : "modelctl_defect_probe");
  gate_ = std::make_unique<Child>(
      std::vector<std::string>{ctl, "gate", "--json", "--seconds", "600", "--dir", rig.dir()}, env,
      file("gate.json"));
  if (!records) return;
  recorder_ =
      std::make_unique<Child>(std::vector<std::string>{e2e::program("modelctl"), "record",
                                                       file("recording"), "--dir", rig.dir()},
                              std::vector<std::string>{}, file("record.log"));
}

std::string Scene::file(const std::string& name) const {
  return join_path(temp_.path(), name);
}

std::string Scene::copy_of(const std::string& path, const std::string& name) const {
  const auto bytes = read_file(path);
  EXPECT_TRUE(bytes.ok() && write_file_atomic(file(name), *bytes).ok()) << path;
  return file(name);
}

void Scene::signal_worker(const std::string& model, int signal) {
  const int pid = rig_->worker_pid(model);
  require(pid > 0, model + " has no worker");
  if (pid > 0) kill(pid, signal);
}

void Scene::pause_ms(int64_t ms) const {
  const timespec t{ms / 1000, (ms % 1000) * kNsPerMs};
  nanosleep(&t, nullptr);
}

void Scene::skip(const std::string& why) {
  if (skipped_.empty()) skipped_ = why;
}

void Scene::require(bool holds, const std::string& what) {
  if (!holds) findings_.push_back(what);
}

void Scene::require_in_time(bool holds, const std::string& what) {
  if (!holds) late_.push_back(what);
}

void Scene::refuse(const ipc::ModelStatus& status, const std::string& what) {
  (is_lateness(status) ? late_ : findings_).push_back(what + ": " + status.text);
}

void Scene::require_starts(const std::string& model, uint64_t starts, const std::string& what) {
  const auto status = tap().status(model);
  const bool holds = status && status->worker_starts == starts;
  const auto all = tap().transitions(model);
  const bool timed_out = std::any_of(all.begin(), all.end(), [](const e2e::Transition& t) {
    return t.status.state == ipc::ModelState::kUnavailable &&
           t.status.reason == ipc::Reason::kTimeout;
  });
  if (!holds) (timed_out ? late_ : findings_).push_back(what);
}

std::vector<GateEntry> Scene::stop_gate(const std::string& model) {
  gate_->signal(SIGINT);
  require(gate_->wait(20'000).has_value(), "modelctl gate does not stop");
  const auto json = Json::parse(gate_->log_text());
  require(json.ok() && json->find("log") != nullptr, "modelctl gate gave no log");
  std::vector<GateEntry> out;
  if (!json.ok() || json->find("log") == nullptr) return out;
  for (const Json& e : json->find("log")->items()) {
    GateEntry entry{number_of(e, "time_ns"), text_of(e, "decision"), text_of(e, "because"), 0, 0};
    if (const Json* last = e.find(("last_valid_" + model).c_str())) {
      entry.frame_id = static_cast<uint64_t>(number_of(*last, "frame_id"));
      entry.frame_received_ns = number_of(*last, "received_ns");
    }
    out.push_back(std::move(entry));
  }
  check_gate_counts(*json);
  return out;
}

// Counted a second time from the log.
void Scene::check_gate_counts(const Json& gate) {
  std::map<std::string, int64_t> changes, oldest_ms;
  for (const Json& e : gate.find("log")->items()) {
    const std::string decision = text_of(e, "decision");
    ++changes[decision];
    for (const char* last : {"last_valid_road", "last_valid_cabin"})
      oldest_ms[decision] = std::max(oldest_ms[decision], number_of(*e.find(last), "age_ms"));
  }
  for (const char* decision : {"no entry", "may engage", "soft disable", "immediate disable"}) {
    const Json* const counts = gate.find("decisions");
    const Json* const n = counts == nullptr ? nullptr : counts->find(decision);
    require(n != nullptr && number_of(*n, "changes") == changes[decision],
            strf("the gate's count of '%s' is not that of its log", decision));
    const bool is_exit = std::string_view(decision).find("disable") != std::string_view::npos;
    require(
        n == nullptr || !is_exit || number_of(*n, "last_valid_age_ms_max") == oldest_ms[decision],
        strf("the gate's oldest frame at '%s' is not that of its log", decision));
  }
}

uint64_t Scene::replay(const std::vector<std::string>& models) {
  if (!recorder_ || models.empty()) return 0;
  recorder_->signal(SIGINT);
  const auto code = recorder_->wait(20'000);
  // It joined too late, or lost a message.
  require_in_time(code == 0, std::string(trim(recorder_->log_text())));
  uint64_t runs = 0;
  for (const std::string& model : models) runs += code == 0 ? replay(model) : 0;
  return runs;
}

uint64_t Scene::replay(const std::string& model) {
  const std::string bundle =
      model == "road" && !replay_bundle.empty() ? replay_bundle : options.bundles.at(model);
  const ProcResult r = e2e::modelc({"run", bundle, "--replay", file("recording"), "--json"});
  const std::string said(trim(r.err));
  if (said.find("no runs of role") != std::string::npos) {
    require_in_time(false, "nothing of " + model + " was recorded");
    return 0;
  }
  require(r.exit_code == 0, "outputs are not those of the model: " + said);
  const auto json = Json::parse(r.out);
  return json.ok() ? static_cast<uint64_t>(number_of(*json, "runs")) : 0;
}

}  // namespace modeld::faults
