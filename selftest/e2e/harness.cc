#include "selftest/e2e/harness.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "hal/base/env.h"
#include "hal/base/text.h"

extern char** environ;

namespace modeld::e2e {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kPollMs = 2;
constexpr int64_t kListenMs = 60'000;
constexpr const char* kPatience = "late_ms = 10000\ntimeout_ms = 10000\n";

void pause_ms(int64_t ms) {
  const timespec t{ms / 1000, (ms % 1000) * kNsPerMs};
  nanosleep(&t, nullptr);
}

// When the file came to be; 0: there is none.
int64_t birth_ns(const std::string& path) {
  struct stat st {};
  if (stat(path.c_str(), &st) != 0) return 0;
  return st.st_ctim.tv_sec * kNsPerSecond + st.st_ctim.tv_nsec;
}

// The build directory: the first one above this executable that has a `bin`.
fs::path build_root() {
  fs::path at = fs::read_symlink("/proc/self/exe").parent_path();
  while (at.has_relative_path() && !fs::exists(at / "build.ninja")) at = at.parent_path();
  return at;
}

// This process's environment with `extra` on top, later entries winning.
std::vector<std::string> merged_env(const std::vector<std::string>& extra) {
  std::map<std::string, std::string> vars;
  const auto put = [&](const std::string& text) {
    const size_t eq = text.find('=');
    if (eq != std::string::npos) vars[text.substr(0, eq)] = text.substr(eq + 1);
  };
  for (char** e = environ; *e != nullptr; ++e) put(*e);
  for (const std::string& text : extra) put(text);
  std::vector<std::string> out;
  for (const auto& [name, value] : vars) out.push_back(name + "=" + value);
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& t : texts) out.push_back(t.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace

std::string proc_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

bool is_alive(int pid) {
  const std::string stat = proc_text("/proc/" + std::to_string(pid) + "/stat");
  const size_t name_end = stat.rfind(") ");
  return name_end != std::string::npos && stat.at(name_end + 2) != 'Z';
}

std::string program(const std::string& name) {
  const fs::path root = build_root();
  for (const char* folder : {"bin", "models/tools", "ipc/tools", "daemon", "selftest/boot",
                             "selftest/e2e", "selftest/faults", "selftest/systemd"}) {
    const fs::path at = root / folder / name;
    if (fs::is_regular_file(at)) return at.string();
  }
  ADD_FAILURE() << name << " is not built below " << root;
  return "/nonexistent/" + name;
}

std::string shared_dir() {
  if (const auto dir = env_value("MODELD_SHARED")) return fs::is_directory(*dir) ? *dir : "";
  const fs::path beside = build_root().parent_path().parent_path() / "shared";
  return fs::is_directory(beside / "models") ? beside.string() : "";
}

ProcResult run(const std::vector<std::string>& argv,
               const std::vector<std::string>& env,
               int64_t timeout_ms) {
  ProcSpec spec;
  spec.timeout_ms = timeout_ms;
  // env(1) keeps run_process free of a second way to start programs.
  if (!env.empty()) {
    spec.argv.push_back("env");
    spec.argv.insert(spec.argv.end(), env.begin(), env.end());
  }
  spec.argv.insert(spec.argv.end(), argv.begin(), argv.end());
  const auto result = run_process(spec);
  if (result.ok()) return *result;
  ADD_FAILURE() << argv[0] << ": " << result.error().what;
  return {};
}

ProcResult modelc(std::vector<std::string> args, const std::vector<std::string>& env) {
  args.insert(args.begin(), program("modelc"));
  return run(args, env, 300'000);
}

::testing::AssertionResult is_one_clear_line(const ProcResult& result, int exit_code) {
  const std::string said = "exit " + std::to_string(result.exit_code) + " signal " +
                           std::to_string(result.signal) + "\nstdout: " + result.out +
                           "\nstderr: " + result.err;
  if (result.exit_code != exit_code)
    return ::testing::AssertionFailure() << "wanted exit " << exit_code << ", got " << said;
  const std::string_view line = trim(result.err);
  if (line.empty()) return ::testing::AssertionFailure() << "no reason on stderr: " << said;
  if (line.find('\n') != std::string_view::npos)
    return ::testing::AssertionFailure() << "more than one line: " << said;
  return ::testing::AssertionSuccess() << line;
}

const std::string& scratch_dir() {
  static const auto dir = TempDir::create("modeld-e2e");
  static const std::string path = dir.ok() ? dir->path() : "/nonexistent";
  return path;
}

namespace {

std::string standin_onnx(const std::string& role,
                         const std::string& size,
                         const std::string& variant) {
  const std::string path = join_path(scratch_dir(), role + "-" + size + "-" + variant + ".onnx");
  if (file_exists(path)) return path;
  const ProcResult r = modelc(
      {"reference", role, "--size", size, "--dtype", "f32", "--variant", variant, "-o", path});
  EXPECT_EQ(r.exit_code, 0) << r.err;
  return path;
}

}  // namespace

std::string tiny_onnx(const std::string& role, const std::string& variant) {
  return standin_onnx(role, "tiny", variant);
}

std::string tiny_bundle(const std::string& role, const std::string& variant) {
  return standin_bundle(role, "tiny", variant);
}

std::string standin_bundle(const std::string& role,
                           const std::string& size,
                           const std::string& variant) {
  const std::string path = join_path(scratch_dir(), role + "-" + size + "-" + variant + ".bundle");
  if (file_exists(path)) return path;
  std::vector<std::string> args = {
      "build", standin_onnx(role, size, variant), "--target", "cpu", "--role", role, "-o", path};
  if (role == "cabin") args.insert(args.end(), {"--threads", "1"});
  const ProcResult r = modelc(args);
  EXPECT_EQ(r.exit_code, 0) << r.err;
  return path;
}

// ---- children ----

Child::Child(std::vector<std::string> argv, std::vector<std::string> env, std::string log)
    : log_(std::move(log)) {
  env = merged_env(env);
  const std::vector<char*> argp = pointers(argv);
  const std::vector<char*> envp = pointers(env);
  const int out = open(log_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const int parent = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    setpgid(0, 0);
    // Whatever happens to the test, the child does not stay.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execve(argp[0], argp.data(), envp.data());
    _exit(127);
  }
  if (pid_ > 0) setpgid(pid_, pid_);
  if (out >= 0) close(out);
  EXPECT_GT(pid_, 0) << argv[0];
}

Child::~Child() {
  stop();
}

void Child::signal(int number) const {
  if (pid_ > 0 && !exit_) kill(pid_, number);
}

bool Child::is_running() {
  return !wait(0).has_value();
}

std::optional<int> Child::wait(int64_t timeout_ms) {
  const Deadline deadline = Deadline::in_ms(timeout_ms);
  while (!exit_ && pid_ > 0) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_)
      exit_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    else if (deadline.has_passed())
      break;
    else
      pause_ms(kPollMs);
  }
  return exit_;
}

void Child::stop(int64_t grace_ms) {
  if (pid_ <= 0) return;
  signal(SIGCONT);
  signal(SIGTERM);
  if (!wait(grace_ms)) {
    kill(-pid_, SIGKILL);
    EXPECT_TRUE(wait(5000).has_value()) << "process " << pid_ << " does not end";
  }
  kill(-pid_, SIGKILL);  // what it may have left behind in its group
}

std::string Child::log_text() const {
  return proc_text(log_);
}

// ---- the rig ----

namespace {

std::string line_of(const std::map<std::string, std::string>& lines, const std::string& name) {
  const auto at = lines.find(name);
  return at == lines.end() ? "" : at->second;
}

}  // namespace

std::string config_text(const RigOptions& options) {
  std::string out = options.top;
  for (const auto& [name, bundle] : options.bundles)
    out += "[model." + name + "]\nbundle = \"" + bundle + "\"\ndevice = \"" + options.device +
           "\"\n" + (options.strict.contains(name) ? "" : kPatience) + options.extra +
           line_of(options.model_extra, name);
  return out + "[publish]\nraw = " + (options.publish_raw ? "true" : "false") + "\n" + options.tail;
}

namespace {

// In memory, as a vehicle's /run is: the daemon's files must not queue behind what a build or
// another test just wrote to the disk.
TempDir make_temp() {
  const bool has_memory = access("/dev/shm", W_OK | X_OK) == 0;
  auto dir = has_memory ? TempDir::create("/dev/shm/modeld-rig") : TempDir::create("modeld-rig");
  if (!dir.ok()) {
    ADD_FAILURE() << dir.error().what;
    std::abort();
  }
  return std::move(*dir);
}

}  // namespace

Rig::Rig(RigOptions options) : options_(std::move(options)), temp_(make_temp()) {
  run_dir_ = file("run");
  EXPECT_TRUE(make_dirs(run_dir_, 0750).ok());
  EXPECT_TRUE(write_text_atomic(config_path(), config_text(options_)).ok());
  if (options_.run_dir_owner) {
    EXPECT_EQ(chmod(temp_.path().c_str(), 0755), 0);
    const auto [uid, gid] = *options_.run_dir_owner;
    EXPECT_EQ(chown(run_dir_.c_str(), uid, gid), 0);
  }
  if (options_.keeps_messages) tap_ = std::make_unique<Tap>(run_dir_);
  if (options_.start_camera) start_camera();
  if (options_.before_daemon) options_.before_daemon(*this);
  start_daemon();
}

void Rig::start_daemon() {
  daemon_.reset();
  std::vector<std::string> env = options_.env;
  env.push_back("MODELD_RUNTIME_DIR=" + run_dir_);
  std::vector<std::string> argv = options_.daemon_under;
  argv.insert(argv.end(), {program(options_.daemon_program), "--config", config_path()});
  daemon_ = std::make_unique<Child>(argv, env, file("modeld.log"));
}

Rig::~Rig() {
  if (::testing::Test::HasFailure()) std::fprintf(stderr, "%s", log_text().c_str());
  daemon_.reset();
  camera_.reset();
  tap_.reset();
}

std::string Rig::file(const std::string& name) const {
  return join_path(temp_.path(), name);
}

void Rig::start_camera(const std::vector<std::string>& instead) {
  std::vector<std::string> argv = {program("modelcam"), "--source", "synth", "--dir", run_dir_};
  const std::vector<std::string>& args = instead.empty() ? options_.camera : instead;
  argv.insert(argv.end(), args.begin(), args.end());
  const std::string socket = join_path(run_dir_, "camera.sock");
  const int64_t before = birth_ns(socket);  // of a camera that was killed, perhaps
  camera_ = std::make_unique<Child>(argv, std::vector<std::string>{}, file("modelcam.log"));
  const Deadline end = Deadline::in_ms(kListenMs);
  const auto listens = [&] { return birth_ns(socket) != 0 && birth_ns(socket) != before; };
  while (!listens() && camera_->is_running() && !end.has_passed()) pause_ms(kPollMs);
}

std::vector<int> Rig::worker_pids() const {
  std::vector<int> out;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const auto pid = parse_int(entry.path().filename().string());
    if (!pid.ok() || *pid == daemon_->pid()) continue;
    const std::string stat = proc_text(entry.path() / "stat");
    const size_t name_end = stat.rfind(") ");
    if (name_end == std::string::npos) continue;
    const auto fields = split(stat.substr(name_end + 2), ' ');
    if (fields.size() >= 2 && fields[1] == std::to_string(daemon_->pid()))
      out.push_back(static_cast<int>(*pid));
  }
  return out;
}

int Rig::worker_pid(const std::string& model) const {
  // A worker has its bundle mapped; its command line does not name the model.
  const std::string& bundle = options_.bundles.at(model);
  for (const int pid : worker_pids()) {
    if (proc_text("/proc/" + std::to_string(pid) + "/maps").find(bundle) != std::string::npos)
      return pid;
  }
  return 0;
}

ProcResult Rig::ctl(std::vector<std::string> args, int64_t timeout_ms) const {
  args.insert(args.begin(), program("modelctl"));
  args.insert(args.end(), {"--dir", run_dir_});
  return run(args, {}, timeout_ms);
}

std::unique_ptr<Child> Rig::ctl_child(std::vector<std::string> args, const std::string& log) const {
  args.insert(args.begin(), program("modelctl"));
  args.insert(args.end(), {"--dir", run_dir_});
  return std::make_unique<Child>(args, std::vector<std::string>{}, file(log));
}

std::string Rig::log_text() const {
  return "---- modeld\n" + proc_text(file("modeld.log")) + "---- modelcam\n" +
         proc_text(file("modelcam.log"));
}

}  // namespace modeld::e2e
