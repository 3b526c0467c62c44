#include "selftest/systemd/stage.h"

#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>

#include "hal/base/fs.h"
#include "hal/base/json.h"
#include "hal/base/text.h"

#include "selftest/e2e/bundle_damage.h"

namespace modeld::systemd_check {
namespace {

constexpr const char* kManagerDir = "/run/stage/manager";
constexpr const char* kRoot = "/run/stage/root";
constexpr const char* kPrefix = "/opt/modeld";
constexpr const char* kManagerLog = "/run/stage/manager.log";
constexpr int64_t kPollMs = 20;

void pause_ms(int64_t ms) {
  const timespec t{ms / 1000, (ms % 1000) * kNsPerMs};
  nanosleep(&t, nullptr);
}

Status mount_empty(const char* at, const char* options = "mode=0755") {
  if (mount("tmpfs", at, "tmpfs", 0, options) == 0) return {};
  return fail_errno(Errc::kIo, std::string("mounting a tmpfs on ") + at, errno);
}

// Nodes that units' hidden paths show instead; systemd makes them for its own instances.
Status make_inaccessible_nodes(const std::string& dir) {
  RETURN_IF_ERROR(make_dirs(dir));
  const struct {
    const char* name;
    mode_t mode;
  } nodes[] = {
      {"reg", S_IFREG}, {"fifo", S_IFIFO}, {"sock", S_IFSOCK}, {"chr", S_IFCHR}, {"blk", S_IFBLK}};
  for (const auto& node : nodes) {
    const std::string path = join_path(dir, node.name);
    // Without the right to make devices systemd takes the socket.
    if (mknod(path.c_str(), node.mode, makedev(0, 0)) != 0 && errno != EEXIST && errno != EPERM)
      return fail_errno(Errc::kIo, path, errno);
  }
  return make_dirs(join_path(dir, "dir"), 0);
}

// Targets that every unit hangs on, without those of a whole machine.
constexpr const char* kTargets[] = {"basic",      "default",  "exit",   "local-fs",
                                    "multi-user", "shutdown", "sysinit"};

std::string source_root() {
  return MODELD_SOURCE_ROOT;
}

}  // namespace

Result<std::string> tool_output(const std::vector<std::string>& argv, int64_t timeout_ms) {
  ProcSpec spec;
  spec.argv = argv;
  spec.timeout_ms = timeout_ms;
  ASSIGN_OR_RETURN(const ProcResult r, run_process(spec));
  if (r.succeeded()) return r.out + r.err;
  return fail(Errc::kInvalid, join(argv, " ") + strf(": exit %d: ", r.exit_code) +
                                  std::string(trim(r.err + r.out)));
}

Status run_tool(const std::vector<std::string>& argv, int64_t timeout_ms) {
  ASSIGN_OR_RETURN([[maybe_unused]] const std::string out, tool_output(argv, timeout_ms));
  return {};
}

Result<std::unique_ptr<Stage>> Stage::create(int64_t slack) {
  std::unique_ptr<Stage> stage(new Stage(slack));
  RETURN_IF_ERROR(stage->cover());
  RETURN_IF_ERROR(stage->install());
  RETURN_IF_ERROR(stage->make_bundles());
  RETURN_IF_ERROR(stage->start_manager());
  return stage;
}

Stage::~Stage() {
  tap_.reset();
  camera_.reset();
  manager_.reset();
}

Status Stage::cover() {
  RETURN_IF_ERROR(mount_empty("/run"));
  for (const char* dir : {"/run/systemd/system", kUnitDir, kManagerDir, kRoot, "/run/lock"})
    RETURN_IF_ERROR(make_dirs(dir));
  RETURN_IF_ERROR(make_inaccessible_nodes("/run/systemd/inaccessible"));
  RETURN_IF_ERROR(make_inaccessible_nodes(join_path(kManagerDir, "systemd/inaccessible")));
  // /etc with all it holds, for the accounts that are added to it.
  RETURN_IF_ERROR(make_dirs("/run/stage/etc"));
  RETURN_IF_ERROR(run_tool({"cp", "-a", "/etc/.", "/run/stage/etc"}));
  if (mount("/run/stage/etc", "/etc", nullptr, MS_BIND, nullptr) != 0)
    return fail_errno(Errc::kIo, "binding a copy of /etc", errno);
  for (const char* dir : {"/opt", "/var/lib", "/var/cache"}) RETURN_IF_ERROR(mount_empty(dir));
  return mount_empty("/dev/shm", "mode=1777");
}

// What install.sh lays down, put in its place.
Status Stage::install() {
  RETURN_IF_ERROR(run_tool({join_path(source_root(), "deploy/install.sh"), "--destdir", kRoot,
                            "--prefix", kPrefix, "--builddir", MODELD_BUILD_ROOT}));
  const std::string root = kRoot;
  RETURN_IF_ERROR(run_tool({"cp", "-a", root + kPrefix, kPrefix}));
  RETURN_IF_ERROR(run_tool({"cp", "-a", root + "/etc/.", "/etc"}));
  RETURN_IF_ERROR(run_tool({"systemd-sysusers", root + "/usr/lib/sysusers.d/modeld.conf"}));
  RETURN_IF_ERROR(
      run_tool({"systemd-tmpfiles", "--create", root + "/usr/lib/tmpfiles.d/modeld.conf"}));
  const std::string from = root + "/usr/lib/systemd/system";
  ASSIGN_OR_RETURN(const auto names, list_dir(from));
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(units_[name], read_text(join_path(from, name)));
  }
  for (const char* target : kTargets)
    RETURN_IF_ERROR(write_text_atomic(strf("%s/%s.target", kUnitDir, target),
                                      strf("[Unit]\nDescription=%s\n", target)));
  return restore_units();
}

// With a timing budget that a busy machine keeps: the boot self-test looks at it.
Status Stage::make_bundles() {
  for (const char* role : {"road", "cabin"}) {
    const std::string to = strf("/var/lib/modeld/%s.bundle", role);
    e2e::set_budget(e2e::tiny_bundle(role), to, 10'000, 20'000);
    RETURN_IF_ERROR(run_tool({"chown", "modeld:modeld", to}));
  }
  return {};
}

Status Stage::restore_units() {
  for (const auto& [name, text] : units_) {
    RETURN_IF_ERROR(write_text_atomic(join_path(kUnitDir, name), text));
    RETURN_IF_ERROR(run_tool({"rm", "-rf", join_path(kUnitDir, name + ".d")}));
  }
  return {};
}

Status Stage::start_manager() {
  // What units print goes where the manager's own lines go; there is no journal.
  RETURN_IF_ERROR(make_dirs("/etc/systemd"));
  RETURN_IF_ERROR(write_text_atomic("/etc/systemd/user.conf",
                                    "[Manager]\nDefaultStandardOutput=inherit\n"
                                    "DefaultStandardError=inherit\nLogTarget=console\n"));
  // Sockets of a system's manager are for everybody.
  umask(0);
  manager_ = std::make_unique<e2e::Child>(
      std::vector<std::string>{"/lib/systemd/systemd", "--user", "--unit=default.target"},
      std::vector<std::string>{strf("XDG_RUNTIME_DIR=%s", kManagerDir),
                               strf("SYSTEMD_UNIT_PATH=%s", kUnitDir), "SYSTEMD_LOG_TARGET=console",
                               "SYSTEMD_LOG_LEVEL=info"},
      kManagerLog);
  umask(022);
  return wait_for(
      "the service manager is up", [&] { return systemctl({"is-system-running"}).ok(); }, 20'000);
}

Status Stage::systemctl(std::vector<std::string> args, int64_t timeout_ms) {
  args.insert(args.begin(), {"env", strf("XDG_RUNTIME_DIR=%s", kManagerDir), "systemctl", "--user",
                             "--no-pager"});
  return run_tool(args, timeout_ms);
}

std::string Stage::show(const std::string& unit, const std::string& property) {
  const auto out = tool_output({"env", strf("XDG_RUNTIME_DIR=%s", kManagerDir), "systemctl",
                                "--user", "show", unit, "--value", "-p", property});
  return out.ok() ? std::string(trim(*out)) : "";
}

int64_t Stage::number(const std::string& unit, const std::string& property) {
  return parse_int(show(unit, property)).value_or(-1);
}

Status Stage::wait_for(const std::string& what,
                       const std::function<bool()>& holds,
                       int64_t timeout_ms) {
  const Deadline deadline = Deadline::in_ms(timeout_ms);
  while (!holds()) {
    if (deadline.has_passed())
      return fail(Errc::kTimeout,
                  strf("not within %lld ms: ", static_cast<long long>(timeout_ms)) + what);
    pause_ms(kPollMs);
  }
  return {};
}

Status Stage::reset() {
  camera_.reset();
  tap_.reset();
  for (const char* unit : {kDaemon, kUnavailable, kSelftest})
    RETURN_IF_ERROR(systemctl({"stop", unit}));
  RETURN_IF_ERROR(restore_units());
  RETURN_IF_ERROR(replace_daemon("modeld"));
  RETURN_IF_ERROR(systemctl({"daemon-reload"}));
  RETURN_IF_ERROR(systemctl({"reset-failed"}));
  RETURN_IF_ERROR(remove_file("/dev/shm/msgq_sendcan"));
  return write_config(good_config());
}

Status Stage::apply(const Edit& edit) {
  const std::string path = join_path(kUnitDir, edit.unit);
  ASSIGN_OR_RETURN(std::string text, read_text(path));
  const size_t at = text.find(edit.from);
  if (at == std::string::npos)
    return fail(Errc::kNotFound, std::string(edit.unit) + " has no text " + edit.from);
  text.replace(at, std::string(edit.from).size(), edit.to);
  RETURN_IF_ERROR(write_text_atomic(path, text));
  return systemctl({"daemon-reload"});
}

Status Stage::replace_daemon(const std::string& program) {
  const std::string to = join_path(kPrefix, "bin/modeld");
  RETURN_IF_ERROR(run_tool({"cp", "-L", e2e::program(program), to + ".new"}));
  return run_tool({"mv", to + ".new", to});
}

Status Stage::drop_in(const std::string& unit, const std::string& lines) {
  const std::string dir = join_path(kUnitDir, unit + ".d");
  RETURN_IF_ERROR(make_dirs(dir));
  RETURN_IF_ERROR(write_text_atomic(join_path(dir, "row.conf"), lines));
  return systemctl({"daemon-reload"});
}

Status Stage::write_config(const std::string& text) {
  return write_text_atomic(kConfigPath, text);
}

std::string Stage::good_config() const {
  std::string out = "user = \"modeld\"\n";
  for (const char* role : {"road", "cabin"})
    out += strf("[model.%s]\nbundle = \"/var/lib/modeld/%s.bundle\"\nprepare = \"never\"\n", role,
                role);
  return out;
}

std::string Stage::status_text() {
  ProcSpec spec;
  spec.argv = {join_path(kPrefix, "bin/modelctl"), "status", "--json", "--dir", kRuntimeDir};
  const auto r = run_process(spec);
  return r.ok() && r->succeeded() ? r->out : "";
}

std::string Stage::standing(const std::string& model) {
  const auto json = Json::parse(status_text());
  const Json* const models = json.ok() ? json->find("models") : nullptr;
  if (models == nullptr) return "";
  const auto text = [](const Json& object, const char* key) {
    const Json* const value = object.find(key);
    return value == nullptr ? std::string() : value->string_or("");
  };
  for (const Json& m : models->items()) {
    if (text(m, "name") != model) continue;
    const std::string reason = text(m, "reason");
    return text(m, "state") + (reason.empty() || reason == "none" ? "" : "(" + reason + ")");
  }
  return "";
}

void Stage::fresh_tap() {
  tap_.reset();
  tap_ = std::make_unique<e2e::Tap>(kRuntimeDir);
}

void Stage::start_camera() {
  camera_ = std::make_unique<e2e::Child>(
      std::vector<std::string>{join_path(kPrefix, "bin/modelcam"), "--source", "synth", "--dir",
                               kRuntimeDir},
      std::vector<std::string>{}, "/run/stage/camera.log");
}

std::string Stage::log_tail() const {
  const std::string all = e2e::proc_text(kManagerLog);
  return all.size() > 6000 ? all.substr(all.size() - 6000) : all;
}

}  // namespace modeld::systemd_check
