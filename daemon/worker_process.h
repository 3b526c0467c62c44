// The worker as a process: the same binary, started from a descriptor of /proc/self/exe opened
// before any drop of rights, with the hop's descriptors at fixed numbers and nothing else
// inherited. Contract and threading: worker_link.h.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "hal/base/mapping.h"
#include "hal/base/unique_fd.h"

#include "ipc/fd_channel.h"

#include "daemon/worker_link.h"
#include "daemon/worker_turn.h"

namespace modeld::daemon {

class WorkerProcess final : public WorkerLink {
 public:
  // `exe_fd` is borrowed: it must outlive this object. `lock_stem`: where the locks of devices lie
  // (device_lock.h). A device that another worker holds is kBusy.
  static Result<std::unique_ptr<WorkerProcess>> create(int exe_fd, const std::string& lock_stem);
  ~WorkerProcess() override;

  Status start(const WorkerSetup& setup) override;
  bool is_alive() const override { return pid_ > 0; }
  void kill() override;
  int pid() const override { return pid_; }
  bool poll(WorkerEvent& event) override;
  int poll_fd() const override { return epoll_.get(); }
  Status send_buffers(const CameraBuffers& buffers, std::span<const int> fds) override;
  void post(const Job& job) override;
  const Answer& answer() const override { return answer_; }
  std::span<const float> raw() const override { return {raw_.get(), answer_.raw_size}; }
  std::span<const std::byte> trace() const override;
  int capture_fd() const override { return capture_fd_.get(); }

 private:
  WorkerProcess() = default;
  HopPage& page() { return *reinterpret_cast<HopPage*>(mapping_.data()); }
  bool take_answer();
  bool take_packet(WorkerEvent& event);
  bool take_exit(WorkerEvent& event);
  void watch(int fd);

  int exe_fd_ = -1;
  std::string lock_stem_;
  UniqueFd epoll_;
  UniqueFd page_fd_;
  UniqueFd capture_fd_;
  UniqueFd job_fd_;
  UniqueFd answer_fd_;
  UniqueFd pid_fd_;
  ipc::FdChannel channel_;
  Mapping mapping_;
  int pid_ = 0;
  WorkerTurn turn_;
  uint64_t posted_ = 0;  // number of the job the worker has
  Answer answer_;
  std::unique_ptr<float[]> raw_;
  std::vector<std::byte> packet_;
};

}  // namespace modeld::daemon
