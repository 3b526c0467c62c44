#include "selftest/faults/world.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hal/base/text.h"
#include "hal/base/unique_fd.h"

namespace modeld::faults {
namespace {

constexpr int kNewTimeNamespace = 0x80;  // CLONE_NEWTIME, which older headers lack
constexpr size_t kHogBytes = size_t{16} << 20;
constexpr int kHogs = 6;  // together twice the limit, each smaller than what is to be chosen
constexpr const char* kHogLimit = "50331648";  // 48 MiB

// One line into a file that exists; false where it cannot be.
bool put_line(const std::string& path, const std::string& line) {
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return fd.is_open() &&
         write(fd.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size());
}

std::string group_name() {
  return "modeld-faults-" + std::to_string(getpid());
}

constexpr const char* kGroups = "/sys/fs/cgroup";

// Version 2 has one tree for all controllers, version 1 one for each.
bool has_groups_v2() {
  return file_exists(join_path(kGroups, "cgroup.controllers"));
}

// A new control group of one controller, removed with the row.
std::string make_group(Scene& scene, const char* controller) {
  const std::string tree = has_groups_v2() ? kGroups : join_path(kGroups, controller);
  const std::string path = join_path(tree, group_name());
  if (mkdir(path.c_str(), 0755) != 0) {
    scene.skip(path + ": " + strerror(errno));
    return "";
  }
  scene.at_end([path] {
    for (int i = 0; i < 200 && rmdir(path.c_str()) != 0 && errno == EBUSY; ++i) usleep(10'000);
  });
  return path;
}

// False where the group has no such limit: on version 2 the tree may lack the controller.
bool limit_memory(const std::string& group, const char* bytes) {
  if (!has_groups_v2()) return put_line(group + "/memory.limit_in_bytes", bytes);
  const std::string swap = group + "/memory.swap.max";
  return put_line(group + "/memory.max", bytes) && (!file_exists(swap) || put_line(swap, "0"));
}

// Takes memory without end; only write(2)-like calls after fork.
[[noreturn]] void hog_memory(int start_fd) {
  char go = 0;
  if (read(start_fd, &go, 1) != 1) _exit(1);
  auto* const at = static_cast<char*>(
      mmap(nullptr, kHogBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (at == MAP_FAILED) _exit(1);
  for (size_t i = 0; i < kHogBytes; i += 4096) at[i] = 1;
  while (true) pause();
}

}  // namespace

bool enter_mount_namespace(Scene& scene) {
  if (unshare(CLONE_NEWNS) != 0) {
    scene.skip(std::string("no mount namespace: ") + strerror(errno));
    return false;
  }
  // What is mounted here stays here.
  EXPECT_EQ(mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
  return true;
}

void mount_empty(Scene& scene, const std::string& path) {
  EXPECT_TRUE(make_dirs(path).ok());
  if (mount("modeld-faults", path.c_str(), "tmpfs", 0, "size=1m") != 0)
    scene.skip("no tmpfs at " + path + ": " + strerror(errno));
}

void mount_full_disk(Scene& scene, const std::string& path) {
  mount_empty(scene, path);
  if (!scene.skipped().empty()) return;
  const UniqueFd fd(open(join_path(path, "all-there-is").c_str(), O_WRONLY | O_CREAT, 0600));
  const std::string block(4096, 'x');
  while (write(fd.get(), block.data(), block.size()) > 0) {
  }
  EXPECT_EQ(errno, ENOSPC);
}

void replace_compiler(Scene& scene, const std::string& script) {
  if (!enter_mount_namespace(scene)) return;
  const ProcResult version = e2e::run({"clang-19", "--version"});
  const ProcResult where = e2e::run({"sh", "-c", "readlink -f \"$(command -v clang-19)\""});
  const std::string first_line = split(version.out, '\n').front();
  const std::string fake = scene.file("clang");
  const std::string text = "#!/bin/sh\nif [ \"$1\" = --version ]; then echo '" + first_line +
                           "'; exit 0; fi\n" + script + "\n";
  EXPECT_TRUE(write_text_atomic(fake, text, 0755).ok());
  const std::string real(trim(where.out));
  if (mount(fake.c_str(), real.c_str(), nullptr, MS_BIND, nullptr) != 0)
    scene.skip("no bind mount over " + real + ": " + strerror(errno));
}

void shift_clock(Scene& scene, int64_t seconds) {
  if (unshare(kNewTimeNamespace) != 0)
    return scene.skip(std::string("no time namespace: ") + strerror(errno));
  if (!put_line("/proc/self/timens_offsets",
                strf("monotonic %lld 0\n", static_cast<long long>(seconds))))
    scene.skip(std::string("the clock cannot be shifted: ") + strerror(errno));
}

void run_out_of_memory(Scene& scene, int pid) {
  const std::string group = make_group(scene, "memory");
  if (group.empty()) return;
  if (!limit_memory(group, kHogLimit)) return scene.skip(group + ": no memory limit");
  int start[2];
  ASSERT_EQ(pipe2(start, O_CLOEXEC), 0);
  // Not one of the hogs is to be chosen.
  bool moved = put_line(strf("/proc/%d/oom_score_adj", pid), "1000") &&
               put_line(group + "/cgroup.procs", std::to_string(pid));
  std::vector<pid_t> hogs;
  for (int i = 0; i < kHogs; ++i) {
    const pid_t hog = fork();
    if (hog == 0) hog_memory(start[0]);
    hogs.push_back(hog);
    moved = put_line(group + "/cgroup.procs", std::to_string(hog)) && moved;
  }
  if (!moved) scene.skip(group + ": processes cannot be moved");
  scene.require(write(start[1], "gggggg", kHogs) == kHogs, "the hogs do not start");
  scene.tap().wait_for([&] { return !e2e::is_alive(pid); }, 3000);
  for (const pid_t hog : hogs) {
    kill(hog, SIGKILL);
    waitpid(hog, nullptr, 0);
  }
  close(start[0]);
  close(start[1]);
}

void freeze(Scene& scene, int pid) {
  if (has_groups_v2())
    return scene.skip("control groups of version 2: what they freeze, SIGKILL still ends");
  const std::string group = make_group(scene, "freezer");
  if (group.empty()) return;
  if (!put_line(group + "/cgroup.procs", std::to_string(pid)) ||
      !put_line(group + "/freezer.state", "FROZEN"))
    return scene.skip(group + ": cannot freeze");
  scene.at_end([group] { (void)put_line(group + "/freezer.state", "THAWED"); });
}

void thaw(Scene& scene) {
  scene.require(put_line("/sys/fs/cgroup/freezer/" + group_name() + "/freezer.state", "THAWED"),
                "no thaw");
}

int count_processes(const std::string& text) {
  int count = 0;
  const auto entries = list_dir("/proc");
  for (const std::string& name : entries.ok() ? *entries : std::vector<std::string>()) {
    if (!parse_int(name).ok()) continue;
    if (e2e::proc_text("/proc/" + name + "/cmdline").find(text) != std::string::npos) ++count;
  }
  return count;
}

int64_t resident_bytes(int pid) {
  const auto fields = split(e2e::proc_text("/proc/" + std::to_string(pid) + "/statm"), ' ');
  if (fields.size() < 2) return 0;
  return parse_int(fields[1]).value_or(0) * sysconf(_SC_PAGESIZE);
}

}  // namespace modeld::faults
