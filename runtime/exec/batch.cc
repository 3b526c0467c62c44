#include "runtime/exec/batch.h"

#include <algorithm>
#include <set>
#include <utility>

namespace modeld::exec {

namespace {

// Devices a call touches; the first is the one whose queue runs it.
std::vector<uint32_t> devices_of(const CompiledLinear& linear, const CompiledCall& call) {
  std::vector<uint32_t> out{call.device};
  for (const CallArg& arg : call.args) {
    if (!is_address(arg)) continue;
    const uint32_t d = arg.ref.kind == ArgRef::Kind::kBuffer ? linear.memories[arg.ref.index].device
                                                             : linear.inputs[arg.ref.index].device;
    if (std::find(out.begin(), out.end(), d) == out.end()) out.push_back(d);
  }
  return out;
}

class Batcher {
 public:
  Batcher(const CompiledLinear& linear,
          std::span<const GraphDevice> devices,
          const BatchOptions& options)
      : linear_(linear), devices_(devices), options_(options), limit_(options.limit) {}

  std::vector<Batch> run() {
    for (uint32_t i = 0; i < linear_.calls.size(); ++i) add(i);
    flush();
    return std::move(out_);
  }

 private:
  void add(uint32_t i) {
    const std::vector<uint32_t> own = devices_of(linear_, linear_.calls[i]);
    std::set<uint32_t> together = in_batch_;
    together.insert(own.begin(), own.end());
    const bool is_full = limit_ != 0 && count_ >= limit_;
    if (is_full || !can_join(i, together)) flush();
    if (!can_join(i, {own.begin(), own.end()})) {
      out_.push_back(Batch{i, 1, false, {}});
      return;
    }
    if (count_ == 0) first_ = i;
    ++count_;
    in_batch_.insert(own.begin(), own.end());
  }

  bool can_join(uint32_t i, const std::set<uint32_t>& devices) const {
    if (options_.no_graphs) return false;
    const bool is_copy = linear_.calls[i].kind == CallRow::Kind::kCopy;
    const bool needs_peers = is_copy || devices.size() > 1;
    return std::all_of(devices.begin(), devices.end(), [&](uint32_t d) {
      const GraphDevice& device = devices_[d];
      if (device.support == GraphSupport::kNone) return false;
      if (!needs_peers) return true;
      return device.support == GraphSupport::kPeers &&
             device.type == devices_[*devices.begin()].type;
    });
  }

  void flush() {
    if (count_ == 0) return;
    if (count_ > 1 || options_.graph_one_kernel) {
      out_.push_back(Batch{first_, count_, true, inputs_of(first_, count_)});
      limit_ *= 2;
    } else {
      out_.push_back(Batch{first_, 1, false, {}});
    }
    count_ = 0;
    in_batch_.clear();
  }

  std::vector<uint32_t> inputs_of(uint32_t first, uint32_t count) const {
    std::vector<uint32_t> out;
    for (uint32_t i = first; i < first + count; ++i)
      for (const CallArg& arg : linear_.calls[i].args)
        if (arg.ref.kind == ArgRef::Kind::kSlot &&
            std::find(out.begin(), out.end(), arg.ref.index) == out.end())
          out.push_back(arg.ref.index);
    return out;
  }

  const CompiledLinear& linear_;
  std::span<const GraphDevice> devices_;
  const BatchOptions options_;
  size_t limit_;
  uint32_t first_ = 0, count_ = 0;  // the running batch
  std::set<uint32_t> in_batch_;     // its devices
  std::vector<Batch> out_;
};

}  // namespace

std::vector<Batch> batch_calls(const CompiledLinear& linear,
                               std::span<const GraphDevice> devices,
                               const BatchOptions& options) {
  return Batcher(linear, devices, options).run();
}

}  // namespace modeld::exec
