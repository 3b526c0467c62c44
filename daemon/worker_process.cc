#include "daemon/worker_process.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "hal/base/log.h"

#include "daemon/capture.h"
#include "daemon/device_lock.h"
#include "daemon/worker_rights.h"

namespace modeld::daemon {
namespace {

// Descriptors of the parent that the child gets under the hop's fixed numbers.
struct ChildFds {
  int exe;
  // For the hop, in the order of its numbers.
  std::array<int, kWorkerCaptureFd - kWorkerPageFd + 1> hop;
  int device_lock;  // -1: the device needs none
};

// Only async-signal-safe calls: between fork and exec of a process that has threads (ZeroMQ's).
[[noreturn]] void exec_worker(const ChildFds& fds, char* const argv[], char* const envp[]) {
  // First out of the way of the fixed numbers, then into place; dup2 clears close-on-exec.
  const int exe = fcntl(fds.exe, F_DUPFD_CLOEXEC, 64);
  std::array<int, std::tuple_size_v<decltype(fds.hop)>> high{};
  for (size_t i = 0; i < high.size(); ++i) high[i] = fcntl(fds.hop[i], F_DUPFD, 64);
  for (size_t i = 0; i < high.size(); ++i) {
    if (exe < 0 || high[i] < 0 || dup2(high[i], kWorkerPageFd + static_cast<int>(i)) < 0)
      _exit(127);
  }
  // Everything else goes, except stdio and the program itself (close-on-exec).
  for (int fd : high) ::close(fd);
  if (fds.device_lock >= 0) {
    const int lock = fcntl(fds.device_lock, F_DUPFD, 64);
    if (lock < 0 || dup2(lock, kWorkerDeviceLockFd) < 0) _exit(127);
    ::close(lock);
  } else {
    ::close(kWorkerDeviceLockFd);
  }
  syscall(SYS_close_range, kWorkerDeviceLockFd + 1, exe - 1, 0);
  syscall(SYS_close_range, exe + 1, ~0U, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  syscall(SYS_execveat, exe, "", argv, envp, AT_EMPTY_PATH);
  _exit(127);
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status))
    return strf("worker ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return strf("worker ended with exit code %d", WEXITSTATUS(status));
}

}  // namespace

Result<std::unique_ptr<WorkerProcess>> WorkerProcess::create(int exe_fd,
                                                             const std::string& lock_stem) {
  std::unique_ptr<WorkerProcess> w(new WorkerProcess());
  w->exe_fd_ = exe_fd;
  w->lock_stem_ = lock_stem;
  w->epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  if (!w->epoll_.is_open()) return fail_errno(Errc::kIo, "worker: epoll", errno);
  w->raw_ = std::make_unique<float[]>(kMaxRawFloats);
  w->packet_.resize(kMaxHopPacket);
  return w;
}

WorkerProcess::~WorkerProcess() {
  if (pid_ <= 0) return;
  kill();
  // Bounded: a worker in an uninterruptible wait is left to init.
  for (int i = 0; i < 200 && waitpid(pid_, nullptr, WNOHANG) == 0; ++i) usleep(5000);
}

void WorkerProcess::watch(int fd) {
  epoll_event e{};
  e.events = EPOLLIN;
  e.data.fd = fd;
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &e);
}

Status WorkerProcess::start(const WorkerSetup& setup) {
  const bool is_driven = has_driver(setup.device);
  UniqueFd device_lock;
  if (is_driven) {
    ASSIGN_OR_RETURN(device_lock, lock_device(lock_stem_, setup.device));
  }
  // A fresh page and fresh eventfds: nothing an old worker still writes can reach the new one's
  // supervisor.
  ASSIGN_OR_RETURN(page_fd_, create_memfd("modeld-hop", kHopBytes));
  RETURN_IF_ERROR(seal_size(page_fd_.get()));
  ASSIGN_OR_RETURN(mapping_, Mapping::map_fd(page_fd_.get(), 0, kHopBytes, MapMode::kReadWrite));
  new (mapping_.data()) HopPage();
  ASSIGN_OR_RETURN(capture_fd_, create_memfd("modeld-capture", kCaptureLimitBytes));
  RETURN_IF_ERROR(seal_size(capture_fd_.get()));
  job_fd_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  answer_fd_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!job_fd_.is_open() || !answer_fd_.is_open())
    return fail_errno(Errc::kIo, "worker: eventfd", errno);
  ASSIGN_OR_RETURN(auto ends, ipc::FdChannel::pair());
  channel_ = std::move(ends.first);
  posted_ = 0;
  turn_ = WorkerTurn(is_driven);

  std::string flag = "--worker";
  std::string program = "modeld";
  char* argv[] = {program.data(), flag.data(), nullptr};
  const ChildFds fds{
      exe_fd_,
      {page_fd_.get(), ends.second.fd(), job_fd_.get(), answer_fd_.get(), capture_fd_.get()},
      device_lock.get()};
  const pid_t pid = fork();
  if (pid < 0) return fail_errno(Errc::kIo, "worker: fork", errno);
  if (pid == 0) exec_worker(fds, argv, environ);
  pid_ = pid;
  if (is_driven) name_holder(device_lock, pid);
  pid_fd_.reset(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (pid_fd_.is_open()) watch(pid_fd_.get());
  watch(channel_.fd());
  watch(answer_fd_.get());
  ASSIGN_OR_RETURN(const bool sent, channel_.send(encode(setup)));
  if (!sent) return fail(Errc::kBusy, "worker: set-up does not fit its queue");
  return {};
}

std::span<const std::byte> WorkerProcess::trace() const {
  if (mapping_.size() < kHopBytes) return {};
  return {mapping_.data() + kHopTraceOffset, kTraceMemoryBytes};
}

void WorkerProcess::kill() {
  if (pid_ > 0) ::kill(pid_, SIGKILL);
}

bool WorkerProcess::poll(WorkerEvent& event) {
  if (pid_ <= 0) return false;
  if (take_answer()) {
    event.kind = WorkerEvent::Kind::kAnswer;
    return true;
  }
  if (channel_.is_open() && take_packet(event)) return true;
  return take_exit(event);
}

bool WorkerProcess::take_answer() {
  uint64_t n = 0;
  if (::read(answer_fd_.get(), &n, sizeof n) != sizeof n) return false;
  std::atomic_thread_fence(std::memory_order_acquire);
  // Copied before it is looked at: the page is the worker's, and it may lie.
  answer_ = page().answer;
  if (answer_.number != posted_ || posted_ == 0) return false;
  answer_.raw_size = std::min(answer_.raw_size, kMaxRawFloats);
  answer_.capture_bytes = std::min(answer_.capture_bytes, kCaptureLimitBytes);
  answer_.text.back() = '\0';
  for (char& c : answer_.text) {
    if (c != '\0' && (c < ' ' || c > '~')) c = '?';
  }
  if (static_cast<uint8_t>(answer_.status) > static_cast<uint8_t>(AnswerStatus::kFailed))
    answer_.status = AnswerStatus::kFailed;
  if (answer_.status == AnswerStatus::kFailed)
    answer_.reason = WorkerTurn::believed_of_run(answer_.reason);
  std::copy_n(page().raw.begin(), answer_.raw_size, raw_.get());
  posted_ = 0;
  return true;
}

bool WorkerProcess::take_packet(WorkerEvent& event) {
  auto got = channel_.receive(packet_);
  if (!got.ok() || got->got == ipc::FdChannel::Got::kClosed) {
    channel_.close();
    return false;
  }
  if (got->got == ipc::FdChannel::Got::kNothing) return false;
  const std::span<const std::byte> bytes = std::span<const std::byte>(packet_).first(got->bytes);
  const auto kind = packet_kind(bytes);
  const bool in_turn = kind.ok() && turn_.accepts(*kind);
  if (in_turn && *kind == Packet::kSelftest) {
    event.kind = WorkerEvent::Kind::kSelftest;
    return true;
  }
  if (in_turn && *kind == Packet::kHello) {
    if (auto hello = decode_hello(bytes); hello.ok()) {
      event.kind = WorkerEvent::Kind::kHello;
      event.hello = std::move(*hello);
      return true;
    }
  }
  event.kind = WorkerEvent::Kind::kFailure;
  if (in_turn && *kind == Packet::kFailure) {
    if (auto failure = decode_failure(bytes); failure.ok()) {
      event.failure = {turn_.believed(failure->reason), printable(std::move(failure->text))};
      return true;
    }
  }
  // One that talks out of turn is not listened to any more.
  event.failure = {ipc::Reason::kDeviceLost,
                   strf("worker sent %zu bytes that are no packet it may send now", got->bytes)};
  channel_.close();
  kill();
  return true;
}

bool WorkerProcess::take_exit(WorkerEvent& event) {
  int status = 0;
  const pid_t r = waitpid(pid_, &status, WNOHANG);
  if (r == 0 || (r < 0 && errno == EINTR)) return false;
  event.kind = WorkerEvent::Kind::kExited;
  event.text = r == pid_ ? how_it_ended(status) : "worker is gone";
  pid_ = 0;
  pid_fd_.reset();
  channel_.close();
  answer_fd_.reset();
  job_fd_.reset();
  return true;
}

// Opened anew, read-only: a worker may look at the camera's pictures, which others look at, too.
// What cannot be opened anew (a dma-buf) goes as it is.
Status WorkerProcess::send_buffers(const CameraBuffers& buffers, std::span<const int> fds) {
  std::vector<UniqueFd> read_only;
  std::vector<int> sent_fds;
  for (const int fd : fds) {
    read_only.emplace_back(open(strf("/proc/self/fd/%d", fd).c_str(), O_RDONLY | O_CLOEXEC));
    sent_fds.push_back(read_only.back().is_open() ? read_only.back().get() : fd);
  }
  ASSIGN_OR_RETURN(const bool sent, channel_.send(encode(buffers), sent_fds));
  if (!sent) return fail(Errc::kBusy, "worker: camera buffers do not fit its queue");
  return {};
}

void WorkerProcess::post(const Job& job) {
  page().job = job;
  posted_ = job.number;
  std::atomic_thread_fence(std::memory_order_release);
  const uint64_t one = 1;
  // The eventfd's counter cannot be full: one job at a time.
  (void)!::write(job_fd_.get(), &one, sizeof one);
}

}  // namespace modeld::daemon
