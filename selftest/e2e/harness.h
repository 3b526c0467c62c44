// What the end-to-end tests share: the built programs as child processes, a runtime directory of
// their own, and a tap that keeps everything the daemon publishes with the time it came.
// This is not a model of the daemon: tests look only at what any client of it sees.
// Contract: nothing outlives its object; every child leads its own process group and dies with the
// test; every wait has a deadline and a failed one is a test failure that shows the daemon's log.
// Units: ns of CLOCK_MONOTONIC unless the name says otherwise. Threading: main thread; the tap has
// its own.
#pragma once

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "hal/base/clock.h"
#include "hal/base/fs.h"
#include "hal/base/json.h"
#include "hal/base/proc.h"

#include "ipc/message_types.h"

namespace modeld::e2e {

// Limits of the issue are for an idle machine; the suite allows three times as much.
inline constexpr int64_t kSlack = 3;

// The built program, found beside this test's own executable; fails loudly when it is not there.
std::string program(const std::string& name);
// Text of a file that tells no size, as those below /proc; "" when there is none.
std::string proc_text(const std::string& path);
// There, and not a corpse that nobody has fetched.
bool is_alive(int pid);
// MODELD_SHARED, or ../shared beside the checkout; "" when neither is there.
std::string shared_dir();

// Runs a program to its end. `env`: "NAME=value" on top of this process's own.
ProcResult run(const std::vector<std::string>& argv,
               const std::vector<std::string>& env = {},
               int64_t timeout_ms = 120'000);
ProcResult modelc(std::vector<std::string> args, const std::vector<std::string>& env = {});

// One clear line: text on stderr, one line of it, nothing of a crash.
::testing::AssertionResult is_one_clear_line(const ProcResult& result, int exit_code);

// A directory for the whole test program, removed at its end.
const std::string& scratch_dir();
// A tiny reference bundle, built once per test program and kind. `variant` as modelc reference.
std::string tiny_onnx(const std::string& role, const std::string& variant = "clean");
std::string tiny_bundle(const std::string& role, const std::string& variant = "clean");
// The same in another size.
std::string standin_bundle(const std::string& role,
                           const std::string& size,
                           const std::string& variant = "clean");

// A long-lived child.
class Child {
 public:
  // `log` receives stdout and stderr.
  Child(std::vector<std::string> argv, std::vector<std::string> env, std::string log);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  int pid() const { return pid_; }
  void signal(int number) const;
  bool is_running();
  // Exit code (128 + signal), or nothing at the deadline.
  std::optional<int> wait(int64_t timeout_ms);
  // SIGTERM, then after `grace_ms` SIGKILL for the whole group.
  void stop(int64_t grace_ms = 3000);
  std::string log_text() const;

 private:
  int pid_ = 0;
  std::optional<int> exit_;
  std::string log_;
};

// One message of a model's topic.
struct Output {
  int64_t at_ns = 0;  // when it arrived here
  ipc::Header header;
  ipc::Timings timings;
  ipc::RunIdentity run;
  uint64_t frame_id = 0;
  bool is_finite = true;    // every parsed number and the raw vector
  uint64_t digest = 0;      // of every number
  size_t plan_numbers = 0;  // lists keep their size
};

std::vector<Output> valid_ones(const std::vector<Output>& all);

// What a busy machine alone brings about: camera or vehicle were not scheduled.
bool is_of_the_machine(ipc::Reason reason);

// What one model's state became, once per change.
struct Transition {
  int64_t at_ns = 0;
  ipc::ModelStatus status;
};

// Subscribes to state, road and cabin and keeps what comes.
class Tap {
 public:
  explicit Tap(std::string dir);
  ~Tap();
  Tap(const Tap&) = delete;
  Tap& operator=(const Tap&) = delete;

  std::vector<Output> outputs(const std::string& model) const;
  std::vector<Transition> transitions(const std::string& model) const;
  std::optional<ipc::ModelStatus> status(const std::string& model) const;
  // When the first state message that names `models` models came; 0 before.
  int64_t first_state_ns(size_t models) const;
  // True as soon as `holds` does; false at the deadline.
  bool wait_for(const std::function<bool()>& holds, int64_t timeout_ms) const;
  bool wait_state(const std::string& model,
                  ipc::ModelState state,
                  int64_t timeout_ms,
                  int64_t after_ns = 0) const;
  // The first time at or after `after_ns` that the model went out for a reason of its own.
  std::optional<Transition> find_fault(const std::string& model, int64_t after_ns = 0) const;
  // The first transition into `state` at or after `after_ns`.
  std::optional<Transition> find(const std::string& model,
                                 ipc::ModelState state,
                                 int64_t after_ns = 0) const;

 private:
  void loop();
  template <class M>
  void keep(const std::string& model, const M& message, uint64_t frame_id);
  void keep(const ipc::StateMessage& message);

  std::string dir_;
  mutable std::mutex mutex_;  // guards all below
  std::map<std::string, std::vector<Output>> outputs_;
  std::map<std::string, std::vector<Transition>> transitions_;
  std::map<std::string, ipc::ModelStatus> now_;
  std::map<size_t, int64_t> first_state_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

class Rig;

struct RigOptions {
  std::map<std::string, std::string> bundles;  // model name -> bundle file
  std::vector<std::string> camera;             // more arguments of modelcam
  std::vector<std::string> env;                // of modeld
  // Models that are held to the contract's late_ms and timeout_ms. The others have as much time as
  // a busy machine may take: most tests are not about time.
  std::set<std::string> strict;
  bool publish_raw = true;
  std::string top;    // lines before the tables
  std::string extra;  // more lines of the [model.*] tables, put into each
  std::map<std::string, std::string> model_extra;  // by model, lines of its own table
  std::string tail;                                // lines after the tables
  std::string device = "cpu";
  bool start_camera = true;
  bool keeps_messages = true;                                  // false: no tap
  std::optional<std::pair<unsigned, unsigned>> run_dir_owner;  // uid and gid; needs root
  std::string daemon_program = "modeld";
  std::vector<std::string> daemon_under;  // a program that becomes the daemon, with its arguments
  // Between the camera's start and the daemon's.
  std::function<void(const Rig&)> before_daemon;
};

// Camera, daemon and tap in a runtime directory of their own.
class Rig {
 public:
  explicit Rig(RigOptions options);
  ~Rig();

  const std::string& dir() const { return run_dir_; }
  std::string file(const std::string& name) const;  // in the rig's temporary directory
  Child& daemon() { return *daemon_; }
  Tap& tap() { return *tap_; }
  std::string config_path() const { return file("modeld.toml"); }
  // Returns when it listens. `instead`: of the rig's own arguments.
  void start_camera(const std::vector<std::string>& instead = {});
  void stop_camera() { camera_.reset(); }
  Child* camera() { return camera_.get(); }
  // Another daemon in the same place; the one before must have ended or is stopped.
  void start_daemon();
  // The worker of a model, by its place in the process table; 0 when there is none.
  int worker_pid(const std::string& model) const;
  // Every child of the daemon, loading or not.
  std::vector<int> worker_pids() const;
  // modelctl with this rig's directory.
  ProcResult ctl(std::vector<std::string> args, int64_t timeout_ms = 60'000) const;
  std::unique_ptr<Child> ctl_child(std::vector<std::string> args, const std::string& log) const;
  std::string log_text() const;

 private:
  RigOptions options_;
  TempDir temp_;
  std::string run_dir_;
  std::unique_ptr<Tap> tap_;
  std::unique_ptr<Child> camera_;
  std::unique_ptr<Child> daemon_;
};

std::string config_text(const RigOptions& options);

}  // namespace modeld::e2e
