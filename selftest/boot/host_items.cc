// Items of the host: what a process with the daemon's rights must not be able to do.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "hal/base/unique_fd.h"

#include "daemon/sandbox.h"

#include "selftest/boot/subject.h"

namespace modeld::selftest {
namespace {

constexpr int64_t kProbeMs = 5000;

// The child's answer: one letter, then the reason.
constexpr char kHeld = 'h', kOpen = 'o', kNoRights = 'n';

std::string tally(const std::vector<daemon::Probe>& probes) {
  const auto absent = std::count_if(probes.begin(), probes.end(),
                                    [](const daemon::Probe& p) { return p.error == ENOENT; });
  return strf("%zu probes: none opened, %zu refused, %zu not there", probes.size(),
              probes.size() - static_cast<size_t>(absent), static_cast<size_t>(absent));
}

// As the daemon does at its start: the rights go first, then the proof that they are gone.
std::string probe_with_daemon_rights(const World& world, const std::string& user) {
  if (const Status s = daemon::drop_to_user(user); !s.ok()) return kNoRights + s.error().what;
  if (const Status s = daemon::lock_supervisor_calls(); !s.ok()) return kNoRights + s.error().what;
  const std::vector<daemon::Probe> probes = daemon::run_probes(world.actuators);
  for (const daemon::Probe& probe : probes)
    if (probe.opened) return kOpen + ("privilege: " + probe.what + " can be opened");
  return kHeld + tally(probes);
}

[[noreturn]] void be_the_probe(const World& world, const std::string& user, int to_parent) {
  const std::string text = probe_with_daemon_rights(world, user);
  (void)!::write(to_parent, text.data(), text.size());
  _exit(0);
}

// What the child wrote before it ended; "" when it said nothing in time.
std::string read_answer(int fd, Deadline deadline) {
  std::string out;
  while (true) {
    pollfd p{fd, POLLIN, 0};
    if (::poll(&p, 1, deadline.left_ms()) <= 0) return "";
    char chunk[512];
    const ssize_t n = ::read(fd, chunk, sizeof chunk);
    if (n <= 0) return out;
    out.append(chunk, static_cast<size_t>(n));
  }
}

}  // namespace

Outcome privilege_item(Subject& s) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return failed(fail_errno(Errc::kIo, "privilege: no pipe for the probe", errno).value().what);
  UniqueFd from_child(ends[0]), to_parent(ends[1]);
  // Rights that are given up do not come back: a child gives them up for us.
  const pid_t pid = fork();
  if (pid < 0)
    return failed(fail_errno(Errc::kIo, "privilege: no process for the probe", errno).value().what);
  if (pid == 0) be_the_probe(s.world, s.config.user, to_parent.get());
  to_parent.reset();
  const std::string answer = read_answer(from_child.get(), Deadline::in_ms(kProbeMs));
  kill(pid, SIGKILL);  // it has ended, or has not in time
  int status = 0;
  waitpid(pid, &status, 0);
  if (answer.empty()) return failed("privilege: the probe ended without an answer");
  const std::string text = answer.substr(1);
  if (answer[0] == kNoRights) return refused(text);
  if (answer[0] != kHeld) return failed(text);
  return passed(s.config.user.empty() ? text : text + ", as " + s.config.user);
}

}  // namespace modeld::selftest
