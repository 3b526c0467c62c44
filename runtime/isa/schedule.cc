#include "runtime/isa/schedule.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace modeld::isa {

namespace {

class Block {
 public:
  Block(const Function& f,
        const std::vector<uint32_t>& defs,
        const std::vector<uint32_t>& reads,
        const std::set<int64_t>& stored,
        uint32_t from,
        uint32_t to)
      : f_(f), defs_(defs), reads_(reads), stored_(stored), from_(from), n_(to - from) {}

  void run(std::vector<Line>& out) {
    find_order();
    for (const uint32_t i : roots()) emit(i, out);
  }

 private:
  const Function& f_;
  const std::vector<uint32_t>& defs_;   // writes of each register in the whole function
  const std::vector<uint32_t>& reads_;  // reads, likewise
  const std::set<int64_t>& stored_;     // buffers the kernel writes
  uint32_t from_, n_;
  std::vector<std::vector<uint32_t>> before_;  // per line: lines of the block that come first
  std::vector<uint32_t> step_;                 // how many updates of its accumulator precede it
  std::vector<uint32_t> group_;                // of updates: the line they share
  std::vector<bool> is_root_, done_;

  const Line& line(uint32_t i) const { return f_.lines[from_ + i]; }
  bool is_accumulator(Reg v) const { return defs_[v] > 1; }

  void find_order() {
    before_.resize(n_);
    step_.assign(n_, 0);
    group_.assign(n_, 0);
    is_root_.assign(n_, false);
    done_.assign(n_, false);
    std::vector<uint32_t> maker(f_.registers.size(), UINT32_MAX);
    std::vector<uint32_t> inside(f_.registers.size(), 0);
    std::vector<std::vector<uint32_t>> readers(f_.registers.size());
    std::vector<uint32_t> updates(f_.registers.size(), 0);
    std::vector<uint32_t> loads, stores;
    for (uint32_t i = 0; i < n_; ++i) {
      const Line& l = line(i);
      for (uint8_t k = 0; k < l.uses; ++k) {
        const Reg v = l.use[k];
        if (v == kNoReg) continue;
        ++inside[v];
        if (maker[v] != UINT32_MAX) before_[i].push_back(maker[v]);
        if (is_accumulator(v)) readers[v].push_back(i);
      }
      order_memory(i, loads, stores);
      if (l.def == kNoReg) continue;
      if (is_accumulator(l.def)) {
        for (const uint32_t r : readers[l.def])
          if (r != i) before_[i].push_back(r);
        if (maker[l.def] != UINT32_MAX) before_[i].push_back(maker[l.def]);
        readers[l.def].clear();
        step_[i] = updates[l.def]++;
        is_root_[i] = true;
      }
      maker[l.def] = i;
    }
    for (uint32_t i = 0; i < n_; ++i) {
      const Line& l = line(i);
      is_root_[i] = is_root_[i] || l.effect == Effect::kStore || l.def == kNoReg ||
                    l.kind == LineKind::kArg || reads_[l.def] > inside[l.def];
    }
    find_groups(maker);
  }

  void order_memory(uint32_t i, std::vector<uint32_t>& loads, std::vector<uint32_t>& stores) {
    const Line& l = line(i);
    if (l.effect == Effect::kNone || !stored_.contains(l.space)) return;
    for (const uint32_t s : stores) before_[i].push_back(s);
    if (l.effect == Effect::kLoad) {
      loads.push_back(i);
      return;
    }
    for (const uint32_t s : loads) before_[i].push_back(s);
    loads.clear();
    stores = {i};
  }

  // Updates of one step that read the same short-lived value stand together: the operand with the
  // fewest readers.
  void find_groups(const std::vector<uint32_t>& maker) {
    for (uint32_t i = 0; i < n_; ++i) {
      const Line& l = line(i);
      if (l.def == kNoReg || !is_accumulator(l.def)) continue;
      uint32_t fewest = UINT32_MAX;
      for (uint8_t k = 0; k < l.uses; ++k) {
        const Reg v = l.use[k];
        if (v == kNoReg || v == l.def || maker[v] == UINT32_MAX || reads_[v] >= fewest) continue;
        fewest = reads_[v];
        group_[i] = maker[v];
      }
    }
  }

  std::vector<uint32_t> roots() const {
    std::vector<uint32_t> out;
    for (uint32_t i = 0; i < n_; ++i)
      if (is_root_[i]) out.push_back(i);
    const auto rank = [&](uint32_t i) {
      const Line& l = line(i);
      const bool update = l.def != kNoReg && is_accumulator(l.def);
      // Values for other blocks first, then the updates, then the stores.
      const int part = update ? 1 : l.effect == Effect::kStore ? 2 : 0;
      return std::tuple(part, update ? step_[i] : 0, update ? group_[i] : 0, i);
    };
    std::sort(out.begin(), out.end(), [&](uint32_t a, uint32_t b) { return rank(a) < rank(b); });
    return out;
  }

  // The line with all it needs; depth first on a stack of our own.
  void emit(uint32_t root, std::vector<Line>& out) {
    std::vector<std::pair<uint32_t, size_t>> stack{{root, 0}};
    while (!stack.empty()) {
      auto& [i, next] = stack.back();
      if (done_[i]) {
        stack.pop_back();
        continue;
      }
      if (next < before_[i].size()) {
        const uint32_t s = before_[i][next++];
        if (!done_[s]) stack.emplace_back(s, 0);
        continue;
      }
      done_[i] = true;
      out.push_back(line(i));
      stack.pop_back();
    }
  }
};

}  // namespace

void schedule(Function& f) {
  std::vector<uint32_t> defs(f.registers.size(), 0), reads(f.registers.size(), 0);
  std::set<int64_t> stored;
  for (const Line& l : f.lines) {
    for (uint8_t k = 0; k < l.uses; ++k)
      if (l.use[k] != kNoReg) ++reads[l.use[k]];
    if (l.def != kNoReg) ++defs[l.def];
    if (l.effect == Effect::kStore) stored.insert(l.space);
  }
  std::vector<Line> out;
  const auto count = static_cast<uint32_t>(f.lines.size());
  for (uint32_t i = 0; i < count;) {
    const LineKind kind = f.lines[i].kind;
    if (kind == LineKind::kLoop || kind == LineKind::kEnd || kind == LineKind::kArg) {
      out.push_back(f.lines[i++]);
      continue;
    }
    uint32_t to = i;
    while (to < count && f.lines[to].kind != LineKind::kLoop && f.lines[to].kind != LineKind::kEnd)
      ++to;
    Block(f, defs, reads, stored, i, to).run(out);
    i = to;
  }
  f.lines = std::move(out);
}

}  // namespace modeld::isa
