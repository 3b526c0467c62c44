#include "models/common/model_core.h"

#include <algorithm>
#include <cstring>

#include "models/common/scalar_warp.h"

namespace modeld::models {

namespace {

using ir::DType;

constexpr uint64_t kAddressAlign = 64;

uint64_t item_bytes(DType type) {
  return static_cast<uint64_t>(ir::item_size(type));
}

bool is_convertible(DType type) {
  return type == DType::kF32 || type == DType::kF16;
}

const exec::ScalarInfo* find_scalar(const exec::Entry& entry, std::string_view name) {
  for (const exec::ScalarInfo& scalar : entry.scalars) {
    if (scalar.name == name) return &scalar;
  }
  return nullptr;
}

}  // namespace

const char* stream_name(Stream stream) {
  switch (stream) {
    case Stream::kRoad:
      return "road";
    case Stream::kWide:
      return "wide";
    case Stream::kCabin:
      return "cabin";
  }
  return "?";
}

Result<std::unique_ptr<ModelCore>> ModelCore::create(const bundle::Manifest& manifest,
                                                     exec::LoadedPlan& plan) {
  std::unique_ptr<ModelCore> core(new ModelCore(manifest, plan));
  RETURN_IF_ERROR(core->bind_run());
  RETURN_IF_ERROR(core->bind_states());
  RETURN_IF_ERROR(core->bind_outputs());
  for (const bundle::GeometryRow& row : manifest.geometries) RETURN_IF_ERROR(core->add_warp(row));
  core->point_states();
  return core;
}

Status ModelCore::bind_run() {
  run_ = manifest_.plan.find_entry("run");
  if (run_ == nullptr) return fail(Errc::kInvalid, "model: the bundle has no entry 'run'");
  ASSIGN_OR_RETURN(run_id_, plan_.entry("run"));
  if (!run_->scalars.empty()) return fail(Errc::kInvalid, "model: entry 'run' takes scalars");
  run_slots_.assign(run_->slot_count(), 0);
  inputs_.resize(run_->inputs.size());
  bound_.resize(run_->inputs.size());
  uint64_t largest = 0;
  for (const exec::TensorInfo& info : run_->inputs) largest = std::max(largest, info.bytes);
  for (const exec::TensorInfo& info : run_->outputs) largest = std::max(largest, info.bytes);
  scratch_.resize(largest);
  for (uint32_t i = 0; i < run_->inputs.size(); ++i) {
    const bool is_state = std::any_of(manifest_.states.begin(), manifest_.states.end(),
                                      [&](const auto& pair) { return pair.input == i; });
    // Parts of an image history are bound to the ring of whoever asked for them.
    if (is_state || manifest_.split_of(i) != nullptr) continue;
    ASSIGN_OR_RETURN(inputs_[i], make_buffer(run_->inputs[i].bytes));
    bind_input(i, inputs_[i]);
  }
  return {};
}

Status ModelCore::bind_states() {
  for (const bundle::StatePair& pair : manifest_.states) {
    const exec::TensorInfo& in = run_->inputs[pair.input];
    const exec::TensorInfo& out = run_->outputs[pair.output];
    State state{in.slot, out.slot, pair.input, pair.output, {}};
    for (hal::Buffer& memory : state.memory) {
      ASSIGN_OR_RETURN(memory, make_buffer(std::max(in.bytes, out.bytes)));
    }
    states_.push_back(std::move(state));
  }
  return {};
}

Status ModelCore::bind_outputs() {
  outputs_.resize(run_->outputs.size());
  bool has_raw = false;
  for (uint32_t i = 0; i < run_->outputs.size(); ++i) {
    const exec::TensorInfo& info = run_->outputs[i];
    if (ir::is_float(info.dtype) && !is_convertible(info.dtype)) {
      return fail(Errc::kUnsupported, strf("model: output '%s' is %s, wanted f32 or f16",
                                           info.name.c_str(), ir::dtype_name(info.dtype)));
    }
    if (info.name == "outputs" && is_convertible(info.dtype)) {
      has_raw = true;
      raw_output_ = i;
      raw_.assign(info.bytes / item_bytes(info.dtype), 0.0f);
    }
    const bool is_state = std::any_of(states_.begin(), states_.end(),
                                      [&](const State& state) { return state.output == i; });
    if (is_state) continue;
    ASSIGN_OR_RETURN(outputs_[i], make_buffer(info.bytes));
    run_slots_[info.slot] = outputs_[i].addr();
  }
  if (!has_raw) return fail(Errc::kInvalid, "model: entry 'run' has no float output 'outputs'");
  return {};
}

Status ModelCore::add_warp(const bundle::GeometryRow& row) {
  const exec::Entry& entry = manifest_.plan.entries[row.entry];
  const exec::TensorInfo* nv12 = entry.find_input("nv12");
  const exec::TensorInfo* matrix = entry.find_input("matrix");
  const exec::TensorInfo* image = entry.find_output("image");
  const exec::ScalarInfo* stride = find_scalar(entry, "stride");
  // A picture without chroma lookups has no use for its offset.
  const exec::ScalarInfo* uv_offset = find_scalar(entry, "uv_offset");
  if (nv12 == nullptr || matrix == nullptr || image == nullptr || stride == nullptr ||
      matrix->bytes != sizeof(Matrix3f) || matrix->dtype != DType::kF32 ||
      image->dtype != DType::kU8) {
    return fail(Errc::kInvalid, strf("model: entry '%s' is no warp", entry.name.c_str()));
  }
  Warp warp{.stream = row.stream, .width = row.width, .height = row.height};
  ASSIGN_OR_RETURN(warp.id, plan_.entry(entry.name));
  warp.slots.assign(entry.slot_count(), 0);
  warp.nv12 = nv12->slot;
  warp.matrix = matrix->slot;
  warp.stride = stride->slot;
  // Without an offset its value goes where the stride is written next, which is harmless.
  warp.uv_offset = uv_offset != nullptr ? uv_offset->slot : stride->slot;
  warp.image = image->slot;
  warp.max_stride = stride->vmax;
  warp.max_uv_offset = uv_offset != nullptr ? uv_offset->vmax : INT64_MAX;
  warp.nv12_bytes = nv12->bytes;
  warp.image_bytes = image->bytes;
  ASSIGN_OR_RETURN(warp.matrix_memory, make_buffer(sizeof(Matrix3f)));
  warp.slots[warp.matrix] = warp.matrix_memory.addr();
  warps_.push_back(std::move(warp));
  return {};
}

Result<uint32_t> ModelCore::find_input(std::string_view name, size_t count) const {
  for (uint32_t i = 0; i < run_->inputs.size(); ++i) {
    const exec::TensorInfo& info = run_->inputs[i];
    if (info.name != name) continue;
    if (count == 0 || (is_convertible(info.dtype) && info.bytes == count * item_bytes(info.dtype)))
      return i;
    return fail(Errc::kInvalid,
                strf("model: input '%s' has %zu bytes of %s, wanted %zu floats", info.name.c_str(),
                     size_t{info.bytes}, ir::dtype_name(info.dtype), count));
  }
  return fail(Errc::kInvalid,
              strf("model: no input '%.*s'", static_cast<int>(name.size()), name.data()));
}

Result<Pinhole> ModelCore::model_camera(std::string_view stream) const {
  const bundle::IntrinsicsRow* row = manifest_.find_intrinsics(stream);
  if (row == nullptr) {
    return fail(Errc::kInvalid, strf("model: the bundle has no intrinsics for '%.*s'",
                                     static_cast<int>(stream.size()), stream.data()));
  }
  return Pinhole{row->f, row->f, row->cx, row->cy};
}

Result<hal::Buffer> ModelCore::make_buffer(uint64_t bytes) const {
  return plan_.device().allocator().alloc(
      {.size_bytes = bytes, .flags = hal::Mem::kCpu | hal::Mem::kZero});
}

Status ModelCore::write(const hal::Buffer& buffer, std::span<const std::byte> bytes) {
  const std::span<std::byte> memory = buffer.cpu();
  if (memory.empty()) {
    const Result<hal::TimelinePoint> point = plan_.device().upload(buffer, 0, bytes);
    if (!point.ok()) return fail(point.error());
    return {};
  }
  std::memcpy(memory.data(), bytes.data(), bytes.size());
  return {};
}

Result<std::span<const std::byte>> ModelCore::read(const hal::Buffer& buffer, Deadline deadline) {
  const std::span<std::byte> memory = buffer.cpu();
  if (!memory.empty()) return std::span<const std::byte>(memory);
  const std::span<std::byte> copy =
      std::span(scratch_).first(std::min(scratch_.size(), buffer.size()));
  RETURN_IF_ERROR(plan_.device().download(copy, buffer, 0, deadline));
  return std::span<const std::byte>(copy);
}

Status ModelCore::zero(const hal::Buffer& buffer) {
  const std::span<std::byte> memory = buffer.cpu();
  if (!memory.empty()) {
    std::memset(memory.data(), 0, memory.size());
    return {};
  }
  const std::vector<std::byte> zeroes(buffer.size());  // reset is not the steady state
  return write(buffer, zeroes);
}

Status ModelCore::write_input(uint32_t input, std::span<const float> values) {
  const exec::TensorInfo& info = run_->inputs[input];
  if (info.bytes != values.size() * item_bytes(info.dtype) || !inputs_[input]) {
    return fail(Errc::kInternal,
                strf("model: %zu numbers for input '%s'", values.size(), info.name.c_str()));
  }
  if (info.dtype == DType::kF32) return write(inputs_[input], std::as_bytes(values));
  const std::span<std::byte> halves = std::span(scratch_).first(info.bytes);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t half = ir::f32_to_f16_bits(values[i]);
    std::memcpy(halves.data() + i * sizeof half, &half, sizeof half);
  }
  return write(inputs_[input], halves);
}

Status ModelCore::check_warps(std::string_view stream, uint64_t bytes) const {
  for (const Warp& warp : warps_) {
    if (warp.stream == stream && warp.image_bytes != bytes) {
      return fail(
          Errc::kInvalid,
          strf("model: warp of %s %ux%u writes %zu bytes, the model takes %zu", warp.stream.c_str(),
               warp.width, warp.height, size_t{warp.image_bytes}, size_t{bytes}));
    }
  }
  return {};
}

Status ModelCore::stage_warp(Stream stream,
                             const FrameView& frame,
                             const Matrix3f& matrix,
                             hal::DevAddr image) {
  const char* name = stream_name(stream);
  const auto hit = std::find_if(warps_.begin(), warps_.end(), [&](const Warp& warp) {
    return warp.stream == name && warp.width == frame.width && warp.height == frame.height;
  });
  if (hit == warps_.end()) {
    return fail(Errc::kMismatch, strf("camera %s is %ux%u: the bundle has no warp for it", name,
                                      frame.width, frame.height));
  }
  ASSIGN_OR_RETURN(const uint64_t used,
                   nv12_used_bytes(frame.width, frame.height, frame.stride, frame.uv_offset));
  if (used > frame.bytes || used > hit->nv12_bytes || frame.stride > hit->max_stride ||
      frame.uv_offset > hit->max_uv_offset) {
    return fail(
        Errc::kInvalid,
        strf("camera %s: picture needs %zu bytes (stride %u, chroma at %u), has %zu of at most %zu",
             name, size_t{used}, frame.stride, frame.uv_offset, size_t{frame.bytes},
             size_t{hit->nv12_bytes}));
  }
  if (frame.nv12 == 0 || frame.nv12 % kAddressAlign != 0) {
    return fail(Errc::kInvalid,
                strf("camera %s: address is not %zu-byte aligned", name, size_t{kAddressAlign}));
  }
  RETURN_IF_ERROR(write(hit->matrix_memory, std::as_bytes(std::span(matrix))));
  hit->slots[hit->nv12] = frame.nv12;
  hit->slots[hit->uv_offset] = frame.uv_offset;
  hit->slots[hit->stride] = frame.stride;
  hit->slots[hit->image] = image;
  staged_[staged_count_++] = &*hit;
  return {};
}

Status ModelCore::run(Deadline deadline) {
  const int64_t start = now_ns();
  // The device works in order: waiting for the last warp waits for all.
  hal::TimelinePoint last;
  for (size_t i = 0; i < staged_count_; ++i) {
    ASSIGN_OR_RETURN(last, plan_.submit(staged_[i]->id, staged_[i]->slots));
  }
  if (staged_count_ > 0) RETURN_IF_ERROR(plan_.wait(last, deadline));
  clear_warps();
  const int64_t warped = now_ns();
  RETURN_IF_ERROR(plan_.run(run_id_, run_slots_, deadline));
  times_ = {warped - start, now_ns() - warped};
  return {};
}

Finding ModelCore::find_bad(const exec::TensorInfo& info, std::span<const std::byte> bytes) const {
  const size_t count = info.bytes / item_bytes(info.dtype);
  // Device memory is 64-byte aligned and holds objects of the tensor's type.
  if (info.dtype == DType::kF32) {
    return find_non_finite({reinterpret_cast<const float*>(bytes.data()), count},
                           info.name.c_str());
  }
  if (info.dtype == DType::kF16) {
    return find_non_finite_half({reinterpret_cast<const uint16_t*>(bytes.data()), count},
                                info.name.c_str());
  }
  return {};
}

void ModelCore::take_raw(const exec::TensorInfo& info, std::span<const std::byte> bytes) {
  if (info.dtype == DType::kF32) {
    std::memcpy(raw_.data(), bytes.data(), info.bytes);
    return;
  }
  for (size_t i = 0; i < raw_.size(); ++i) {
    uint16_t half = 0;
    std::memcpy(&half, bytes.data() + i * sizeof half, sizeof half);
    raw_[i] = ir::f16_bits_to_f32(half);
  }
}

const hal::Buffer* ModelCore::input_memory(uint32_t input) const {
  for (const State& state : states_) {
    if (state.input == input) return &state.memory[current_];
  }
  return bound_[input];
}

const hal::Buffer& ModelCore::output_memory(uint32_t output) const {
  for (const State& state : states_) {
    if (state.output == output) return state.memory[1 - current_];
  }
  return outputs_[output];
}

Status ModelCore::visit_tensors(const TensorVisitor& visit, Deadline deadline) {
  const auto tell = [&](TensorSide side, const exec::TensorInfo& info,
                        const hal::Buffer* memory) -> Status {
    if (memory == nullptr)
      return fail(Errc::kInvalid, strf("model: nothing is bound to '%s'", info.name.c_str()));
    ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, read(*memory, deadline));
    return visit(side, info, bytes.first(std::min<size_t>(bytes.size(), info.bytes)));
  };
  for (uint32_t i = 0; i < run_->inputs.size(); ++i)
    RETURN_IF_ERROR(tell(TensorSide::kInput, run_->inputs[i], input_memory(i)));
  for (uint32_t i = 0; i < run_->outputs.size(); ++i)
    RETURN_IF_ERROR(tell(TensorSide::kOutput, run_->outputs[i], &output_memory(i)));
  return {};
}

Result<Finding> ModelCore::check(Deadline deadline) {
  Finding first;
  for (uint32_t i = 0; i < run_->outputs.size(); ++i) {
    const exec::TensorInfo& info = run_->outputs[i];
    ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, read(output_memory(i), deadline));
    if (i == raw_output_) take_raw(info, bytes);
    Finding finding = find_bad(info, bytes);
    if (first.is_good && !finding.is_good) first = std::move(finding);
  }
  if (first.is_good) first = find_all_equal(raw_, "outputs");
  return first;
}

void ModelCore::point_states() {
  for (const State& state : states_) {
    run_slots_[state.input_slot] = state.memory[current_].addr();
    run_slots_[state.output_slot] = state.memory[1 - current_].addr();
  }
}

void ModelCore::commit() {
  current_ = 1 - current_;
  point_states();
}

Status ModelCore::reset() {
  clear_warps();
  for (const State& state : states_) {
    for (const hal::Buffer& memory : state.memory) RETURN_IF_ERROR(zero(memory));
  }
  return {};
}

}  // namespace modeld::models
