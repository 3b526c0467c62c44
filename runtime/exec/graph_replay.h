// GraphReplay: a compiled LINEAR on devices: batches recorded once, one command list per device of
// a batch, plain calls recorded when they run. It compiles nothing and owns no memory: the caller
// binds memory and keeps it. Contract: submit() may follow submit() without a wait between them;
// the second waits for the first before it patches a word. Only words whose input or variable
// changed are rewritten. run() returns success only after every device has finished; after a
// timeout or a failed submission no result is valid and every call fails at once with the first
// error until reinit(). Queues of several devices wait for one another through signals that are
// zeroed between runs, when nobody uses them.
// Threading: one thread at a time. Devices must outlive this object.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "hal/base/clock.h"
#include "hal/base/status.h"
#include "hal/device.h"

#include "runtime/exec/batch.h"
#include "runtime/exec/compiled_linear.h"

namespace modeld::exec {

// What a LINEAR's rows stand for here: one entry per row.
struct ReplayBinding {
  std::vector<hal::Device*> devices;
  std::vector<hal::Buffer> memories;
  // Per program: loaded on each device that runs it, null elsewhere (shared: recordings keep them).
  std::vector<std::vector<std::shared_ptr<hal::Program>>> programs;
};

// Loads the images of all programs on the devices whose calls use them. kCompile naming the first
// kernel without a binary.
Result<std::vector<std::vector<std::shared_ptr<hal::Program>>>> load_programs(
    const CompiledLinear& linear, std::span<hal::Device* const> devices);

class GraphReplay {
 public:
  // `linear` is copied where needed; kInvalid when the binding does not fit it.
  static Result<std::unique_ptr<GraphReplay>> load(const CompiledLinear& linear,
                                                   ReplayBinding binding,
                                                   const BatchOptions& options = {});
  ~GraphReplay();
  GraphReplay(const GraphReplay&) = delete;
  GraphReplay& operator=(const GraphReplay&) = delete;

  // Inputs in the order of linear.inputs, each at least as long as its row says, and values in the
  // order of linear.variables. Inputs must overlap neither each other nor memory that is written.
  Status submit(std::span<const hal::Buffer> inputs,
                std::span<const int64_t> variables,
                Deadline deadline);
  Status wait(Deadline deadline);  // for everything submitted
  Status run(std::span<const hal::Buffer> inputs,
             std::span<const int64_t> variables,
             Deadline deadline);

  // After a failure: recovers the devices and forgets the error.
  Status reinit(Deadline deadline);
  bool is_failed() const;

  const std::vector<Batch>& batches() const;
  size_t recorded_lists() const;   // command lists recorded once, all batches and devices
  uint64_t patched_words() const;  // rewritten by the last submit

 private:
  struct State;
  explicit GraphReplay(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace modeld::exec
