// The worker's frame path: wait for a job, stage, warp, run, finite check, commit or reset, answer.
// Contract: between jobs nothing of a model is half done: a run that is not accepted leaves reset
// state. step() does not allocate, lock, log or look up while all goes well. Threading: one thread
// (the worker's main).
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "hal/base/status.h"
#include "hal/buffer.h"
#include "hal/device.h"

#include "models/model.h"

#include "ipc/fd_channel.h"

#include "daemon/hop.h"

namespace modeld::daemon {

class WorkerLoop final {
 public:
  WorkerLoop(models::Model& model,
             hal::Device& device,
             HopPage& page,
             ipc::FdChannel& channel,
             int job_fd,
             int answer_fd,
             int capture_fd);

  // One job, or a bounded wait for one. False when the supervisor is gone.
  Result<bool> step();

 private:
  struct StreamMap {
    ipc::StreamInfo info;
    std::vector<hal::Buffer> slots;  // device-visible pictures
  };

  Status take_buffers(std::span<const std::byte> bytes, std::vector<UniqueFd> fds);
  bool drain_channel();
  Status fill_inputs(const Job& job);
  void run_job(const Job& job);
  Status run_checked(const Job& job, models::Finding& finding);
  void capture(const Job& job);
  void answer(AnswerStatus status, ipc::Reason reason, const std::string* text);

  models::Model& model_;
  hal::Device& device_;
  HopPage& page_;
  ipc::FdChannel& channel_;
  int job_fd_;
  int answer_fd_;
  int capture_fd_;
  uint64_t camera_epoch_ = 0;
  std::array<StreamMap, models::kStreams> streams_;
  const char* role_;       // whose frames the trace's zones are of
  uint64_t frame_id_ = 0;  // of the job under way
  models::FrameInputs inputs_;
  std::vector<std::byte> packet_;
};

// The state reason that an error of a run stands for.
ipc::Reason reason_of_run(const Error& error);

}  // namespace modeld::daemon
