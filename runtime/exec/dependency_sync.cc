#include "runtime/exec/dependency_sync.h"

#include <algorithm>

#include "runtime/exec/dependency_tracker.h"

namespace modeld::exec {

namespace {

// Inputs and memories are distinct: whoever binds an input sees to that.
ByteRange range_of(const CallArg& arg) {
  const uint64_t space = arg.ref.kind == ArgRef::Kind::kSlot ? 1 : 0;
  return {uint64_t{arg.ref.index} * 2 + space, arg.ref.offset, arg.ref.offset + arg.bytes};
}

std::vector<ByteRange> ranges_of(const CompiledCall& call, const std::vector<uint32_t>& positions) {
  std::vector<ByteRange> out;
  out.reserve(positions.size());
  for (const uint32_t at : positions) out.push_back(range_of(call.args[at]));
  return out;
}

// Per device: its calls below this number are known to be finished.
using Clock = std::vector<uint32_t>;

}  // namespace

std::vector<CallSync> sync_calls(const CompiledLinear& linear) {
  std::vector<CallSync> out(linear.calls.size());
  std::vector<Clock> known(linear.devices.size(), Clock(linear.devices.size()));
  std::vector<Clock> after(linear.calls.size());  // what a call's end tells who waited for it
  DependencyTracker tracker;
  for (uint32_t j = 0; j < linear.calls.size(); ++j) {
    const CompiledCall& call = linear.calls[j];
    const CallAccess access = access_of(linear, call);
    const std::vector<uint32_t> deps =
        tracker.add(j, ranges_of(call, access.reads), ranges_of(call, access.writes));
    Clock& mine = known[call.device];
    // Latest first: it may imply the others.
    for (auto dep = deps.rbegin(); dep != deps.rend(); ++dep) {
      const uint32_t other = linear.calls[*dep].device;
      if (other == call.device || mine[other] > *dep) continue;
      out[j].waits.push_back({other, *dep});
      out[*dep].is_signalled = true;
      for (size_t d = 0; d < mine.size(); ++d) mine[d] = std::max(mine[d], after[*dep][d]);
    }
    after[j] = mine;
    after[j][call.device] = j + 1;
  }
  return out;
}

}  // namespace modeld::exec
