#include "runtime/isa/fold_loads.h"

#include <algorithm>
#include <set>

namespace modeld::isa {

namespace {

// Reader with the load's address in place of operand `k`, which must be the last register.
Line folded(const Line& reader, const Line& load, uint8_t k) {
  Line out = reader;
  out.uses = k;
  std::fill(out.use.begin() + k, out.use.end(), kNoReg);
  out.mem_at = static_cast<int8_t>(k);
  const auto at = static_cast<size_t>(load.mem_at);
  out.add_use(load.use[at]);
  out.add_use(load.use[at + 1]);
  out.scale = load.scale;
  out.disp = load.disp;
  out.effect = Effect::kLoad;
  out.space = load.space;
  return out;
}

}  // namespace

void fold_loads(Function& f, const InstructionSet& set) {
  std::vector<uint32_t> reads(f.registers.size(), 0), writes(f.registers.size(), 0);
  std::set<int64_t> stored;
  for (const Line& l : f.lines) {
    for (uint8_t k = 0; k < l.uses; ++k)
      if (l.use[k] != kNoReg) ++reads[l.use[k]];
    if (l.def != kNoReg) ++writes[l.def];
    if (l.effect == Effect::kStore) stored.insert(l.space);
  }
  std::vector<uint32_t> loader(f.registers.size(), UINT32_MAX);  // of this block
  std::vector<bool> gone(f.lines.size(), false);
  for (uint32_t i = 0; i < f.lines.size(); ++i) {
    Line& l = f.lines[i];
    if (l.kind == LineKind::kLoop || l.kind == LineKind::kEnd)
      std::fill(loader.begin(), loader.end(), UINT32_MAX);
    if (l.kind != LineKind::kIns) continue;
    if (l.effect == Effect::kLoad && !l.gated && l.def != kNoReg && l.uses == 2 &&
        reads[l.def] == 1 && writes[l.def] == 1 && !stored.contains(l.space)) {
      loader[l.def] = i;
      continue;
    }
    if (l.mem_at >= 0 || l.pool >= 0 || l.gated || l.uses < 2) continue;
    const auto last = static_cast<uint8_t>(l.uses - 1);
    const auto from = [&](uint8_t k) { return l.use[k] == kNoReg ? UINT32_MAX : loader[l.use[k]]; };
    if (from(last) == UINT32_MAX && set.can_swap(l) &&
        from(static_cast<uint8_t>(last - 1)) != UINT32_MAX)
      std::swap(l.use[last], l.use[last - 1]);
    const uint32_t load = from(last);
    if (load == UINT32_MAX || !set.can_fold(f.lines[load], l)) continue;
    l = folded(l, f.lines[load], last);
    gone[load] = true;
  }
  std::vector<Line> kept;
  for (uint32_t i = 0; i < f.lines.size(); ++i)
    if (!gone[i]) kept.push_back(f.lines[i]);
  f.lines = std::move(kept);
}

}  // namespace modeld::isa
