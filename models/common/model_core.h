// ModelCore: what road and cabin models share: buffers, patch slots, state pairs, warps, raw
// outputs. It knows tensors by name and index and nothing of what they mean. Contract: create()
// checks the manifest's interface against what is asked of it; afterwards every call is bounded and
// allocates nothing. State pairs: two buffers each; commit() swaps, reset() zeroes both.
// Units: bytes, ns. Threading: one thread, as Model. The manifest and the plan must outlive the
// core.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hal/base/clock.h"
#include "hal/base/status.h"
#include "hal/buffer.h"

#include "runtime/exec/loaded_plan.h"

#include "models/bundle/manifest.h"
#include "models/common/raw_check.h"
#include "models/common/warp_matrix.h"
#include "models/model.h"

namespace modeld::models {

class ModelCore final {
 public:
  static Result<std::unique_ptr<ModelCore>> create(const bundle::Manifest& manifest,
                                                   exec::LoadedPlan& plan);

  const bundle::Manifest& manifest() const { return manifest_; }
  const exec::Entry& run_entry() const { return *run_; }

  // Index of an input of entry run with `count` numbers of a float type (count 0: any size, any
  // type).
  Result<uint32_t> find_input(std::string_view name, size_t count) const;
  // The model's own view of a stream.
  Result<Pinhole> model_camera(std::string_view stream) const;

  // Converts to the input's dtype.
  Status write_input(uint32_t input, std::span<const float> values);
  hal::DevAddr input_address(uint32_t input) const { return run_slots_[run_->inputs[input].slot]; }
  uint64_t input_bytes(uint32_t input) const { return run_->inputs[input].bytes; }
  // Binds an input to memory of the caller for the next run; `memory` stays where it is.
  void bind_input(uint32_t input, const hal::Buffer& memory) {
    run_slots_[run_->inputs[input].slot] = memory.addr();
    bound_[input] = &memory;
  }
  // Zeroed memory that the host can see where the device allows it.
  Result<hal::Buffer> make_buffer(uint64_t bytes) const;
  Status zero(const hal::Buffer& buffer);

  // Every warp of a stream must write exactly `bytes`.
  Status check_warps(std::string_view stream, uint64_t bytes) const;
  // Chooses the warp for the frame's geometry and queues it for the next run, writing to `image`.
  Status stage_warp(Stream stream,
                    const FrameView& frame,
                    const Matrix3f& matrix,
                    hal::DevAddr image);
  void clear_warps() { staged_count_ = 0; }

  Status run(Deadline deadline);
  Result<Finding> check(Deadline deadline);
  std::span<const float> raw() const { return raw_; }
  // What the next check() reads output `output` from; self-tests put numbers there that are none.
  const hal::Buffer& output_memory(uint32_t output) const;
  uint32_t raw_output() const { return raw_output_; }  // its index in entry run
  Status visit_tensors(const TensorVisitor& visit, Deadline deadline);
  void commit();
  Status reset();
  RunTimes times() const { return times_; }

 private:
  struct Warp {
    std::string stream;
    uint32_t width = 0, height = 0;
    exec::EntryId id;
    std::vector<uint64_t> slots;
    uint32_t nv12 = 0, matrix = 0, stride = 0, uv_offset = 0, image = 0;  // slots
    int64_t max_stride = 0, max_uv_offset = 0;
    uint64_t nv12_bytes = 0, image_bytes = 0;
    hal::Buffer matrix_memory;
  };
  struct State {
    uint32_t input_slot = 0, output_slot = 0;
    uint32_t input = 0, output = 0;     // indices into the entry's inputs and outputs
    std::array<hal::Buffer, 2> memory;  // [current] is read, the other written
  };

  ModelCore(const bundle::Manifest& manifest, exec::LoadedPlan& plan)
      : manifest_(manifest), plan_(plan) {}
  Status bind_run();
  Status bind_states();
  Status bind_outputs();
  Status add_warp(const bundle::GeometryRow& row);
  void point_states();
  Status write(const hal::Buffer& buffer, std::span<const std::byte> bytes);
  Result<std::span<const std::byte>> read(const hal::Buffer& buffer, Deadline deadline);
  // Where this run reads; null when nothing is bound.
  const hal::Buffer* input_memory(uint32_t input) const;
  Finding find_bad(const exec::TensorInfo& info, std::span<const std::byte> bytes) const;
  void take_raw(const exec::TensorInfo& info, std::span<const std::byte> bytes);

  const bundle::Manifest& manifest_;
  exec::LoadedPlan& plan_;
  const exec::Entry* run_ = nullptr;
  exec::EntryId run_id_;
  std::vector<uint64_t> run_slots_;
  std::vector<hal::Buffer> inputs_;        // empty where a state or the caller owns the memory
  std::vector<const hal::Buffer*> bound_;  // what each input reads, null: a state
  std::vector<hal::Buffer> outputs_;       // of this run, by index
  std::vector<State> states_;
  size_t current_ = 0;
  uint32_t raw_output_ = 0;
  std::vector<float> raw_;
  std::vector<std::byte>
      scratch_;  // as large as the largest tensor that must be converted or copied
  std::vector<Warp> warps_;
  std::array<Warp*, kStreams> staged_{};
  size_t staged_count_ = 0;
  RunTimes times_;
};

}  // namespace modeld::models
