#include "daemon/metrics_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hal/base/clock.h"
#include "hal/base/futex.h"
#include "hal/base/log.h"
#include "hal/base/unique_fd.h"

namespace modeld::daemon {
namespace {

constexpr uint32_t kFull = 1;
constexpr uint32_t kStop = 2;

constexpr int kWriterNice = 19;  // figures may wait for whatever else wants the processor

}  // namespace

MetricsFile::MetricsFile(std::string path, size_t limit_bytes)
    : path_(std::move(path)), temp_path_(path_ + ".new") {
  if (path_.empty()) return;
  text_.assign(limit_bytes, '\0');  // touched once: no page of it is missing later
  text_.clear();
  thread_ = std::thread([this] { serve(); });
}

MetricsFile::~MetricsFile() {
  if (!is_on()) return;
  state_.fetch_or(kStop, std::memory_order_release);
  futex_wake_all(&state_);
  thread_.join();
}

void MetricsFile::offer(std::string_view text) {
  if (!is_on()) return;
  const bool is_busy = (state_.load(std::memory_order_acquire) & kFull) != 0;
  if (is_busy || text.size() > text_.capacity()) {
    dropped_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  text_.assign(text);
  state_.fetch_or(kFull, std::memory_order_release);
  futex_wake_all(&state_);
}

// What was taken is written also when the end was asked for meanwhile.
void MetricsFile::serve() {
  (void)pthread_setname_np(pthread_self(), "metrics_file");
  // Only this thread.
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kWriterNice);
  while (true) {
    const uint32_t state = state_.load(std::memory_order_acquire);
    if ((state & kFull) != 0) {
      write_text();
      state_.fetch_and(~kFull, std::memory_order_release);
    } else if ((state & kStop) != 0) {
      return;
    } else {
      futex_wait(&state_, state, kNsPerSecond);
    }
  }
}

void MetricsFile::write_text() {
  const Status s = replace_file();
  (s.ok() ? written_ : failed_).fetch_add(1, std::memory_order_relaxed);
  if (!s.ok() && !fails_)
    LOG_WARN("daemon", "%s; trying again each time, metrics.sock has the figures",
             s.error().what.c_str());
  fails_ = !s.ok();
}

Status MetricsFile::replace_file() const {
  UniqueFd fd(open(temp_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640));
  if (!fd.is_open()) return fail_errno(Errc::kIo, "writing " + temp_path_, errno);
  const ssize_t n = ::write(fd.get(), text_.data(), text_.size());
  if (n < 0) return fail_errno(Errc::kIo, "writing " + temp_path_, errno);
  if (static_cast<size_t>(n) != text_.size())
    return fail(Errc::kIo,
                strf("writing %s: %zd of %zu bytes", temp_path_.c_str(), n, text_.size()));
  fd.reset();
  if (rename(temp_path_.c_str(), path_.c_str()) != 0)
    return fail_errno(Errc::kIo, "renaming " + temp_path_, errno);
  return {};
}

}  // namespace modeld::daemon
