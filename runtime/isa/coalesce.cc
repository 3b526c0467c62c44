#include "runtime/isa/coalesce.h"

#include <algorithm>

namespace modeld::isa {

namespace {

class Coalescer {
 public:
  explicit Coalescer(Function& f) : f_(f) {}

  void run() {
    index();
    for (uint32_t i = 0; i < f_.lines.size(); ++i)
      if (is_copy(i) && defs_[f_.lines[i].use[0]].size() > 1) drop_read(i);
    for (uint32_t i = 0; i < f_.lines.size(); ++i)
      if (is_copy(i) && defs_[f_.lines[i].def].size() > 1) write_in_place(i);
    remove_dead();
  }

 private:
  Function& f_;
  std::vector<std::vector<uint32_t>> defs_, reads_;  // lines, ascending, by register
  std::vector<uint32_t> block_;                      // by line
  std::vector<bool> gone_;

  bool is_copy(uint32_t i) const { return !gone_[i] && f_.lines[i].kind == LineKind::kMove; }

  void index() {
    defs_.resize(f_.registers.size());
    reads_.resize(f_.registers.size());
    gone_.assign(f_.lines.size(), false);
    uint32_t block = 0;
    for (uint32_t i = 0; i < f_.lines.size(); ++i) {
      const Line& line = f_.lines[i];
      const bool border = line.kind == LineKind::kLoop || line.kind == LineKind::kEnd;
      if (border) ++block;
      block_.push_back(block);
      if (border) ++block;
      for (uint8_t k = 0; k < line.uses; ++k)
        if (line.use[k] != kNoReg) reads_[line.use[k]].push_back(i);
      if (line.def != kNoReg) defs_[line.def].push_back(i);
    }
  }

  // Any entry strictly between the two lines.
  static bool between(const std::vector<uint32_t>& at, uint32_t from, uint32_t to) {
    const auto it = std::upper_bound(at.begin(), at.end(), from);
    return it != at.end() && *it < to;
  }

  void rename_reads(Reg from, Reg to) {
    for (const uint32_t i : reads_[from]) {
      Line& line = f_.lines[i];
      for (uint8_t k = 0; k < line.uses; ++k)
        if (line.use[k] == from) line.use[k] = to;
      reads_[to].push_back(i);
    }
    std::sort(reads_[to].begin(), reads_[to].end());
    reads_[from].clear();
  }

  // t = acc; readers of t, all here and before the next write of acc, read acc.
  void drop_read(uint32_t i) {
    const Reg acc = f_.lines[i].use[0];
    const Reg t = f_.lines[i].def;
    if (defs_[t].size() != 1) return;
    for (const uint32_t r : reads_[t])
      if (block_[r] != block_[i] || between(defs_[acc], i, r)) return;
    std::erase(reads_[acc], i);
    rename_reads(t, acc);
    gone_[i] = true;
  }

  // A tied line that reads acc beside its tied operand: acc must live until there, so that operand
  // cannot be made in acc's register.
  bool needs_old(uint32_t d, Reg acc) const {
    const Line& line = f_.lines[d];
    if (!line.tied) return false;
    for (uint8_t k = 1; k < line.uses; ++k)
      if (line.use[k] == acc) return true;
    return false;
  }

  // acc = u: the line that makes u makes acc, and so on up the chain of tied operands.
  void write_in_place(uint32_t i) {
    const Reg acc = f_.lines[i].def;
    Reg u = f_.lines[i].use[0];
    uint32_t reader = i;
    while (true) {
      if (u == acc || defs_[u].size() != 1) return;
      const uint32_t d = defs_[u][0];
      const bool whole = reads_[u].size() == 1 && f_.registers[u].cls == f_.registers[acc].cls;
      if (f_.lines[d].remat && reader == i) {
        // A constant: make it where it is needed.
        f_.lines[i] = f_.lines[d];
        f_.lines[i].def = acc;
        f_.lines[i].remat = false;
        std::erase(reads_[u], i);
        return;
      }
      if (!whole || block_[d] != block_[reader] || f_.lines[d].kind != LineKind::kIns) return;
      if (between(defs_[acc], d, reader) || between(reads_[acc], d, reader)) return;
      if (needs_old(d, acc)) return;
      f_.lines[d].def = acc;
      defs_[acc].insert(std::lower_bound(defs_[acc].begin(), defs_[acc].end(), d), d);
      defs_[u].clear();
      if (reader == i) {
        std::erase(defs_[acc], i);
        gone_[i] = true;
      } else {
        rename_reads(u, acc);
      }
      if (!f_.lines[d].tied) return;
      u = f_.lines[d].use[0];
      reader = d;
    }
  }

  void remove_dead() {
    std::vector<uint32_t> count(f_.registers.size(), 0);
    const auto add = [&](const Line& line, int by) {
      for (uint8_t k = 0; k < line.uses; ++k)
        if (line.use[k] != kNoReg) count[line.use[k]] += static_cast<uint32_t>(by);
    };
    for (uint32_t i = 0; i < f_.lines.size(); ++i)
      if (!gone_[i]) add(f_.lines[i], 1);
    for (uint32_t i = static_cast<uint32_t>(f_.lines.size()); i-- > 0;) {
      const Line& line = f_.lines[i];
      const bool pure = line.kind == LineKind::kIns || line.kind == LineKind::kMove;
      if (gone_[i] || !pure || line.def == kNoReg || count[line.def] > 0) continue;
      gone_[i] = true;
      add(line, -1);
    }
    std::vector<Line> kept;
    for (uint32_t i = 0; i < f_.lines.size(); ++i)
      if (!gone_[i]) kept.push_back(f_.lines[i]);
    f_.lines = std::move(kept);
  }
};

}  // namespace

void coalesce(Function& f) {
  Coalescer(f).run();
}

}  // namespace modeld::isa
