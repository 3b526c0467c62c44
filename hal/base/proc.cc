#include "hal/base/proc.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "hal/base/clock.h"
#include "hal/base/env.h"
#include "hal/base/text.h"
#include "hal/base/unique_fd.h"

namespace modeld {

namespace {

struct Pipe {
  UniqueFd read, write;
};

Result<Pipe> make_pipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return fail_errno(Errc::kIo, "pipe", errno);
  Pipe p{UniqueFd(fds[0]), UniqueFd(fds[1])};
  return p;
}

struct Pipes {
  Pipe in, out, err, exec_error;
};

Result<Pipes> make_pipes() {
  Pipes p;
  ASSIGN_OR_RETURN(p.in, make_pipe());
  ASSIGN_OR_RETURN(p.out, make_pipe());
  ASSIGN_OR_RETURN(p.err, make_pipe());
  ASSIGN_OR_RETURN(p.exec_error, make_pipe());
  return p;
}

Result<std::string> find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    if (access(name.c_str(), X_OK) == 0) return name;
    return fail_errno(Errc::kNotFound, "program " + name, errno);
  }
  const std::string path = env_text("PATH");
  for (const std::string& dir : split(path, ':')) {
    const std::string candidate = (dir.empty() ? "." : dir) + "/" + name;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return fail(Errc::kNotFound, strf("program '%s' is not in PATH %s", name.c_str(), path.c_str()));
}

struct Launch {
  const char* program;
  char* const* argv;
  const char* working_dir;  // may be null
  uint64_t memory_limit_bytes;
  pid_t parent;
};

// Between fork and exec: async-signal-safe calls only, no allocation.
[[noreturn]] void run_child(const Launch& launch, const Pipes& pipes) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launch.parent) _exit(127);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int sig : {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGCHLD}) signal(sig, SIG_DFL);
  bool ok = dup2(pipes.in.read.get(), STDIN_FILENO) >= 0 &&
            dup2(pipes.out.write.get(), STDOUT_FILENO) >= 0 &&
            dup2(pipes.err.write.get(), STDERR_FILENO) >= 0;
  // A tool that crashes says so by its signal; its memory would only lie in the caller's folder.
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  if (launch.memory_limit_bytes > 0) {
    const rlimit limit{launch.memory_limit_bytes, launch.memory_limit_bytes};
    setrlimit(RLIMIT_AS, &limit);
  }
  if (ok && launch.working_dir != nullptr) ok = chdir(launch.working_dir) == 0;
  if (ok) execv(launch.program, launch.argv);
  const int err = errno;
  [[maybe_unused]] const ssize_t n = write(pipes.exec_error.write.get(), &err, sizeof(err));
  _exit(127);
}

// Parent's ends: non-blocking, the child's ends closed.
Status keep_parent_ends(Pipes& pipes) {
  pipes.in.read.reset();
  pipes.out.write.reset();
  pipes.err.write.reset();
  pipes.exec_error.write.reset();
  for (const int fd : {pipes.in.write.get(), pipes.out.read.get(), pipes.err.read.get()}) {
    if (fcntl(fd, F_SETFL, O_NONBLOCK) != 0) return fail_errno(Errc::kIo, "fcntl", errno);
  }
  return {};
}

// Reads what is there; closes the fd at its end. kInvalid past the limit.
Status drain(UniqueFd& fd, std::string& to, size_t limit) {
  std::array<char, 16384> chunk{};
  while (fd.is_open()) {
    const ssize_t n = read(fd.get(), chunk.data(), chunk.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return {};
    if (n <= 0) {
      fd.reset();
      return {};
    }
    to.append(chunk.data(), static_cast<size_t>(n));
    if (to.size() > limit)
      return fail(Errc::kInvalid, strf("more than %zu bytes of output", limit));
  }
  return {};
}

void feed(UniqueFd& fd, const std::string& text, size_t& done) {
  while (fd.is_open() && done < text.size()) {
    const ssize_t n = write(fd.get(), text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) break;  // EPIPE: the child does not want it
    done += static_cast<size_t>(n);
  }
  fd.reset();
}

// Moves bytes until both outputs are closed. A grandchild may hold them open: the deadline ends
// that too.
Status pump(Pipes& pipes, const ProcSpec& spec, Deadline deadline, ProcResult& result) {
  size_t fed = 0;
  while (pipes.out.read.is_open() || pipes.err.read.is_open()) {
    feed(pipes.in.write, spec.stdin_text, fed);
    pollfd fds[] = {{pipes.out.read.get(), POLLIN, 0},
                    {pipes.err.read.get(), POLLIN, 0},
                    {pipes.in.write.get(), POLLOUT, 0}};
    const int left_ms = deadline.left_ms();
    if (left_ms == 0)
      return fail(Errc::kTimeout,
                  strf("not done after %lld ms", static_cast<long long>(spec.timeout_ms)));
    if (poll(fds, 3, left_ms) < 0 && errno != EINTR) return fail_errno(Errc::kIo, "poll", errno);
    RETURN_IF_ERROR(drain(pipes.out.read, result.out, spec.output_limit_bytes));
    RETURN_IF_ERROR(drain(pipes.err.read, result.err, spec.output_limit_bytes));
  }
  return {};
}

// The outputs are closed, so the child is about to end; one that closed them and lives on is
// bounded all the same.
Status reap(pid_t pid, Deadline deadline, ProcResult& result) {
  int status = 0;
  timespec nap{0, 200'000};
  while (true) {
    const pid_t got = waitpid(pid, &status, WNOHANG);
    if (got == pid) break;
    if (got < 0 && errno != EINTR) return fail_errno(Errc::kIo, "waitpid", errno);
    if (deadline.has_passed()) return fail(Errc::kTimeout, "closed its output but did not end");
    nanosleep(&nap, nullptr);
    if (nap.tv_nsec < 10'000'000) nap.tv_nsec *= 2;
  }
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  return {};
}

// Writing to a child that is gone must be EPIPE, whatever the program's own SIGPIPE setting: block
// it for this thread and eat one that became pending.
class SigpipeBlock {
 public:
  SigpipeBlock() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &old_);
  }
  ~SigpipeBlock() {
    const timespec zero{0, 0};
    if (sigismember(&old_, SIGPIPE) == 0) sigtimedwait(&pipe_, nullptr, &zero);
    pthread_sigmask(SIG_SETMASK, &old_, nullptr);
  }
  SigpipeBlock(const SigpipeBlock&) = delete;
  SigpipeBlock& operator=(const SigpipeBlock&) = delete;

 private:
  sigset_t pipe_{}, old_{};
};

}  // namespace

Result<ProcResult> run_process(const ProcSpec& spec) {
  if (spec.argv.empty()) return fail(Errc::kInvalid, "run_process: empty argv");
  ASSIGN_OR_RETURN(const std::string program, find_program(spec.argv[0]));
  ASSIGN_OR_RETURN(Pipes pipes, make_pipes());
  std::vector<char*> argv;
  for (const std::string& arg : spec.argv) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  const Launch launch{program.c_str(), argv.data(),
                      spec.working_dir.empty() ? nullptr : spec.working_dir.c_str(),
                      spec.memory_limit_bytes, getpid()};
  const SigpipeBlock no_sigpipe;
  const Deadline deadline = Deadline::in_ms(spec.timeout_ms);
  const pid_t pid = fork();
  if (pid < 0) return fail_errno(Errc::kIo, "fork for " + program, errno);
  if (pid == 0) run_child(launch, pipes);
  setpgid(pid, pid);  // in both processes: whoever is first; fails harmlessly after exec

  ProcResult result;
  Status status = keep_parent_ends(pipes);
  int exec_errno = 0;
  // Closed by exec, so this read ends as soon as the program runs.
  ssize_t got;
  do {
    got = read(pipes.exec_error.read.get(), &exec_errno, sizeof(exec_errno));
  } while (got < 0 && errno == EINTR);
  if (status.ok() && got == sizeof(exec_errno))
    status = fail_errno(Errc::kIo, "cannot be started", exec_errno);
  if (status.ok()) status = pump(pipes, spec, deadline, result);
  if (status.ok()) status = reap(pid, deadline, result);
  if (!status.ok()) {
    kill(-pid, SIGKILL);
    kill(pid, SIGKILL);
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    return fail(std::move(status).error().with(program));
  }
  return result;
}

}  // namespace modeld
