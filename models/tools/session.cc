#include "models/tools/session.h"

#include <algorithm>

namespace modeld::tools {
namespace {

constexpr int64_t kCopyLimitMs = 30'000;

}  // namespace

std::vector<ModelInput> model_inputs(const bundle::Manifest& m, const exec::Entry& entry) {
  std::vector<ModelInput> out;
  const bool is_run = entry.name == "run";
  for (uint32_t i = 0; i < entry.inputs.size(); ++i) {
    const bool is_state =
        is_run && std::any_of(m.states.begin(), m.states.end(),
                              [&](const bundle::StatePair& s) { return s.input == i; });
    if (is_state) continue;
    const bundle::SplitInput* split = is_run ? m.split_of(i) : nullptr;
    if (split == nullptr) {
      out.push_back({entry.inputs[i], {i}});
      continue;
    }
    if (split->parts[0] != i) continue;  // the whole stands where its first part does
    ModelInput whole{entry.inputs[i], split->parts};
    whole.info.name = split->name;
    whole.info.dims = split->dims;
    whole.info.bytes = entry.inputs[i].bytes * split->parts.size();
    out.push_back(std::move(whole));
  }
  return out;
}

Result<std::unique_ptr<Session>> Session::create(const bundle::Manifest& m,
                                                 const std::string& entry,
                                                 exec::LoadedPlan& plan) {
  std::unique_ptr<Session> s(new Session(m, plan));
  s->entry_ = m.plan.find_entry(entry);
  if (s->entry_ == nullptr) {
    std::string names;
    for (const exec::Entry& e : m.plan.entries) names += " " + e.name;
    return fail(Errc::kNotFound,
                strf("entry '%s' is not in the bundle; it has:%s", entry.c_str(), names.c_str()));
  }
  ASSIGN_OR_RETURN(s->id_, plan.entry(entry));
  s->inputs_ = model_inputs(m, *s->entry_);
  RETURN_IF_ERROR(s->make_buffers());
  return s;
}

Result<hal::Buffer> Session::zeroed(uint64_t bytes) {
  hal::BufferDesc desc;
  desc.size_bytes = bytes;
  desc.flags = hal::Mem::kZero;
  return plan_.device().allocator().alloc(desc);
}

Status Session::make_buffers() {
  const bool is_run = entry_->name == "run";
  in_.resize(entry_->inputs.size());
  out_.resize(entry_->outputs.size());
  slots_.assign(entry_->slot_count(), 0);
  if (is_run)
    for (const bundle::StatePair& pair : manifest_.states) {
      State state{pair.input, pair.output, {}};
      for (hal::Buffer& b : state.memory) {
        ASSIGN_OR_RETURN(b, zeroed(entry_->inputs[pair.input].bytes));
      }
      states_.push_back(std::move(state));
    }
  for (size_t i = 0; i < in_.size(); ++i) {
    ASSIGN_OR_RETURN(in_[i], zeroed(entry_->inputs[i].bytes));
  }
  for (size_t i = 0; i < out_.size(); ++i) {
    ASSIGN_OR_RETURN(out_[i], zeroed(entry_->outputs[i].bytes));
  }
  for (const exec::ScalarInfo& s : entry_->scalars) slots_[s.slot] = static_cast<uint64_t>(s.vmin);
  bind();
  return {};
}

void Session::bind() {
  for (const State& s : states_) {
    in_[s.input] = s.memory[current_];
    out_[s.output] = s.memory[1 - current_];
  }
  for (size_t i = 0; i < in_.size(); ++i) slots_[entry_->inputs[i].slot] = in_[i].addr();
  for (size_t i = 0; i < out_.size(); ++i) slots_[entry_->outputs[i].slot] = out_[i].addr();
}

Status Session::set_input(const std::string& name, std::span<const std::byte> bytes) {
  const auto it = std::find_if(inputs_.begin(), inputs_.end(),
                               [&](const ModelInput& i) { return i.info.name == name; });
  if (it == inputs_.end()) {
    std::string names;
    for (const ModelInput& i : inputs_) names += " " + i.info.name;
    return fail(Errc::kNotFound, strf("input '%s' is not one of entry %s; it has:%s", name.c_str(),
                                      entry_->name.c_str(), names.c_str()));
  }
  if (bytes.size() != it->info.bytes)
    return fail(Errc::kMismatch,
                strf("input %s: %zu bytes, expected %llu", name.c_str(), bytes.size(),
                     static_cast<unsigned long long>(it->info.bytes)));
  for (const uint32_t part : it->parts) {
    const uint64_t size = entry_->inputs[part].bytes;
    RETURN_IF_ERROR(set_entry_input(part, bytes.first(size)));
    bytes = bytes.subspan(size);
  }
  return {};
}

Status Session::set_entry_input(size_t index, std::span<const std::byte> bytes) {
  hal::Device& device = plan_.device();
  ASSIGN_OR_RETURN(const hal::TimelinePoint done, device.upload(in_[index], 0, bytes));
  return device.wait(done, Deadline::in_ms(kCopyLimitMs));
}

Status Session::set_scalar(const std::string& name, int64_t value) {
  for (const exec::ScalarInfo& s : entry_->scalars) {
    if (s.name != name) continue;
    if (value < s.vmin || value > s.vmax)
      return fail(
          Errc::kInvalid,
          strf("input %s: %lld is not in %lld..%lld", name.c_str(), static_cast<long long>(value),
               static_cast<long long>(s.vmin), static_cast<long long>(s.vmax)));
    slots_[s.slot] = static_cast<uint64_t>(value);
    return {};
  }
  return fail(Errc::kNotFound,
              strf("entry %s has no scalar '%s'", entry_->name.c_str(), name.c_str()));
}

Status Session::set_seeded(uint64_t seed) {
  for (const ModelInput& i : inputs_)
    RETURN_IF_ERROR(
        set_input(i.info.name, seeded_tensor(seed, i.info.name, i.info.dtype, i.info.bytes)));
  return {};
}

Status Session::run(Deadline deadline) {
  return plan_.run(id_, slots_, deadline);
}

void Session::commit() {
  if (states_.empty()) return;
  current_ = 1 - current_;
  bind();
}

Status Session::reset() {
  for (State& s : states_)
    for (const hal::Buffer& b : s.memory) {
      const Bytes zeroes(b.size());
      ASSIGN_OR_RETURN(const hal::TimelinePoint done, plan_.device().upload(b, 0, zeroes));
      RETURN_IF_ERROR(plan_.device().wait(done, Deadline::in_ms(kCopyLimitMs)));
    }
  return {};
}

Result<Bytes> Session::output(size_t index) {
  Bytes bytes(entry_->outputs[index].bytes);
  RETURN_IF_ERROR(plan_.device().download(bytes, out_[index], 0, Deadline::in_ms(kCopyLimitMs)));
  return bytes;
}

}  // namespace modeld::tools
