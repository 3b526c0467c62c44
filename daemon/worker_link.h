// WorkerLink: a worker as its supervisor sees it: started, fed one job at a time, killed, reaped.
// The real one is a process (worker_process.h); tests have one without. Contract: nothing blocks.
// After kExited the link may be started again. Threading: one thread (frame loop).
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "hal/base/status.h"

#include "daemon/hop.h"

namespace modeld::daemon {

struct WorkerEvent {
  enum class Kind : uint8_t { kSelftest, kHello, kFailure, kAnswer, kExited };
  Kind kind = Kind::kExited;
  WorkerHello hello;      // kHello
  WorkerFailure failure;  // kFailure
  std::string text;       // kExited: how it ended
};

class WorkerLink {
 public:
  virtual ~WorkerLink() = default;
  virtual Status start(const WorkerSetup& setup) = 0;
  // From start() until kExited was taken.
  virtual bool is_alive() const = 0;
  virtual void kill() = 0;
  virtual int pid() const = 0;

  // The next thing that happened; false if nothing did. Answers do not allocate.
  virtual bool poll(WorkerEvent& event) = 0;
  virtual int poll_fd() const = 0;

  virtual Status send_buffers(const CameraBuffers& buffers, std::span<const int> fds) = 0;
  virtual void post(const Job& job) = 0;
  // Of the last kAnswer event: a copy in the supervisor's own memory, sizes checked.
  virtual const Answer& answer() const = 0;
  virtual std::span<const float> raw() const = 0;
  // Where answer().capture_bytes lie; -1: nowhere.
  virtual int capture_fd() const = 0;
  // Its trace, also of a worker that has ended, until the next start; empty when there is none.
  virtual std::span<const std::byte> trace() const = 0;
};

}  // namespace modeld::daemon
