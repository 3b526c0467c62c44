// LoadedPlan: a Plan on a device: code mapped, weights in place, arenas allocated, one recording
// per entry. It compiles nothing and never changes the plan. Contract: run() binds every input,
// output and scalar by its slot: slots[TensorInfo::slot] is a device address (element aligned, at
// least TensorInfo::bytes long, alive until the run is over), slots[ScalarInfo::slot] a value.
// After load, submit/wait/run do not allocate, lock, log or look up. Two runs may be submitted
// without waiting; they execute in order. An output must not overlap an input of the same run.
// Threading: one thread at a time. The device must outlive this object.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "hal/base/clock.h"
#include "hal/base/status.h"
#include "hal/device.h"

#include "runtime/exec/plan.h"

namespace modeld::exec {

// Where bytes that the plan itself does not hold come from.
struct PlanSources {
  // The weights section. When 64-byte aligned and the device shares memory with the host it is used
  // in place and must outlive the LoadedPlan, otherwise it is copied once. Empty:
  // Plan::weight_bytes, which are always copied, so that the plan may go after load().
  std::span<const std::byte> weights;
  // The program section of a bundle file, for images without code of their own. Borrowed for
  // load().
  int program_fd = -1;
  uint64_t program_fd_offset = 0;
  uint64_t program_fd_length = 0;
};

struct EntryId {
  uint32_t index = 0;
  bool operator==(const EntryId&) const = default;
};

class LoadedPlan {
 public:
  // kCompile naming the first call without a binary, kMismatch for another target, kCorrupt,
  // kOutOfMemory.
  static Result<std::unique_ptr<LoadedPlan>> load(const Plan& plan,
                                                  hal::Device& device,
                                                  const PlanSources& sources = {});
  ~LoadedPlan();
  LoadedPlan(const LoadedPlan&) = delete;
  LoadedPlan& operator=(const LoadedPlan&) = delete;

  Result<EntryId> entry(std::string_view name) const;  // kNotFound
  uint32_t slot_count(EntryId id) const;

  // kInvalid when there are fewer slots than the entry has.
  Result<hal::TimelinePoint> submit(EntryId id, std::span<const uint64_t> slots);
  Status wait(hal::TimelinePoint point, Deadline deadline);
  Status run(EntryId id, std::span<const uint64_t> slots, Deadline deadline);

  // Runs every entry once at its final launch size on scratch inputs (zeroes) and outputs.
  Status dry_run(Deadline deadline);

  // The arenas' memory, for tests that poison it between runs.
  std::span<const hal::Buffer> arenas() const;
  uint64_t bound_bytes() const;  // device memory this object allocated
  hal::Device& device() const;

 private:
  struct State;
  explicit LoadedPlan(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace modeld::exec
