#include "runtime/exec/dependency_tracker.h"

#include <algorithm>
#include <utility>

namespace modeld::exec {

std::vector<uint32_t> DependencyTracker::add(uint32_t call,
                                             std::span<const ByteRange> reads,
                                             std::span<const ByteRange> writes) {
  std::vector<uint32_t> out;
  for (const ByteRange& r : reads) collect(memories_[r.base].writers, r, out);
  for (const ByteRange& w : writes) {
    collect(memories_[w.base].writers, w, out);
    collect(memories_[w.base].readers, w, out);
  }
  // Entered only now, so that a call that works in place does not find itself.
  for (const ByteRange& r : reads)
    if (r.begin < r.end) memories_[r.base].readers.push_back({r.begin, r.end, call});
  for (const ByteRange& w : writes) {
    if (w.begin >= w.end) continue;
    Memory& memory = memories_[w.base];
    trim(memory.writers, w);
    trim(memory.readers, w);
    memory.writers.push_back({w.begin, w.end, call});
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

void DependencyTracker::collect(const std::vector<Access>& from,
                                const ByteRange& range,
                                std::vector<uint32_t>& out) {
  if (range.begin >= range.end) return;
  for (const Access& a : from)
    if (a.begin < range.end && range.begin < a.end) out.push_back(a.call);
}

void DependencyTracker::trim(std::vector<Access>& list, const ByteRange& range) {
  std::vector<Access> kept;
  for (const Access& a : list) {
    if (a.end <= range.begin || range.end <= a.begin) {
      kept.push_back(a);
      continue;
    }
    if (a.begin < range.begin) kept.push_back({a.begin, range.begin, a.call});
    if (range.end < a.end) kept.push_back({range.end, a.end, a.call});
  }
  list = std::move(kept);
}

}  // namespace modeld::exec
