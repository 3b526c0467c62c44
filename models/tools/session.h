// Session: one entry of a plan on a device with its own buffers, for tools: set inputs, run, read
// outputs; states start at zero and are committed between runs by swapping. This is not the
// daemon's model (models/model.h): no camera, no warp, no finite check. Contract: inputs are set by
// the model's names; an input that entry run takes in parts is set as a whole. Every wait has a
// deadline. Threading: one thread. The plan, its sources and the device must outlive the session.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hal/device.h"

#include "runtime/exec/loaded_plan.h"

#include "models/bundle/manifest.h"
#include "models/tools/tensor_io.h"

namespace modeld::tools {

// An input as the model's user sees it: no states, parts put together again.
struct ModelInput {
  exec::TensorInfo info;        // slot unused
  std::vector<uint32_t> parts;  // inputs of the entry, in order
};
// Entry run of a bundle; other entries have no states and no parts.
std::vector<ModelInput> model_inputs(const bundle::Manifest& m, const exec::Entry& entry);

class Session {
 public:
  static Result<std::unique_ptr<Session>> create(const bundle::Manifest& m,
                                                 const std::string& entry,
                                                 exec::LoadedPlan& plan);

  const exec::Entry& entry() const { return *entry_; }
  const std::vector<ModelInput>& inputs() const { return inputs_; }

  // kNotFound lists the names there are.
  Status set_input(const std::string& name, std::span<const std::byte> bytes);
  // An input of the entry by index, states included.
  Status set_entry_input(size_t index, std::span<const std::byte> bytes);
  Status set_scalar(const std::string& name, int64_t value);
  // All inputs of the model, numbers by tensor_io's seeded_tensor; scalars take their lowest value.
  Status set_seeded(uint64_t seed);
  // One run; states are not yet committed.
  Status run(Deadline deadline);
  // next_X becomes X.
  void commit();
  Status reset();
  Result<Bytes> output(size_t index);

 private:
  struct State {
    size_t input = 0, output = 0;
    hal::Buffer memory[2];
  };

  Session(const bundle::Manifest& m, exec::LoadedPlan& plan) : manifest_(m), plan_(plan) {}
  Result<hal::Buffer> zeroed(uint64_t bytes);
  Status make_buffers();
  void bind();

  const bundle::Manifest& manifest_;
  exec::LoadedPlan& plan_;
  const exec::Entry* entry_ = nullptr;
  exec::EntryId id_;
  std::vector<ModelInput> inputs_;
  std::vector<hal::Buffer> in_, out_;  // by index of the entry; states rebind theirs
  std::vector<State> states_;
  std::vector<uint64_t> slots_;
  size_t current_ = 0;  // which half of a state is read
};

constexpr int64_t kRunLimitMs = 120'000;

}  // namespace modeld::tools
