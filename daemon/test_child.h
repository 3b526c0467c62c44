// What tests of irreversible things share: a function in a child of its own, and what it said and
// how it ended. Contract: the child is single-threaded, ends by _exit, and is killed with a failed
// test when it takes longer than a minute. Threading: main thread.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

namespace modeld::daemon {

struct ChildReport {
  std::string text;  // what it said, a line each
  int exit_code = -1;
  int signal = 0;  // that ended it
};

// One line, written at once: what comes after may end the process.
using ChildSay = std::function<void(const std::string& line)>;

inline ChildReport in_child(const std::function<void(const ChildSay&)>& body) {
  constexpr int kWaitMs = 60'000;
  ChildReport report;
  int ends[2];
  if (pipe(ends) != 0) {
    ADD_FAILURE() << "no pipe";
    return report;
  }
  const pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    body([&](const std::string& line) {
      const std::string text = line + "\n";
      if (write(ends[1], text.data(), text.size()) != static_cast<ssize_t>(text.size())) _exit(99);
    });
    _exit(0);
  }
  close(ends[1]);
  if (pid < 0) ADD_FAILURE() << "no child";
  // Its end is the end, though a child of its own may still hold the pipe.
  const int pid_fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  char buffer[4096];
  for (bool has_ended = false; pid > 0 && !has_ended;) {
    pollfd p[2] = {{ends[0], POLLIN, 0}, {pid_fd, POLLIN, 0}};
    if (poll(p, 2, kWaitMs) <= 0) {
      ADD_FAILURE() << "the child neither speaks nor ends";
      kill(pid, SIGKILL);
      break;
    }
    has_ended = p[1].revents != 0;
    for (ssize_t n = 0; (n = read(ends[0], buffer, sizeof buffer)) > 0;)
      report.text.append(buffer, static_cast<size_t>(n));
  }
  close(pid_fd);
  close(ends[0]);
  int status = 0;
  if (pid > 0 && waitpid(pid, &status, 0) == pid) {
    if (WIFEXITED(status)) report.exit_code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) report.signal = WTERMSIG(status);
  }
  return report;
}

}  // namespace modeld::daemon
