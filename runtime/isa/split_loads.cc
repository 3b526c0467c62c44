#include "runtime/isa/split_loads.h"

#include <algorithm>
#include <set>

namespace modeld::isa {

namespace {

class Splitter {
 public:
  Splitter(Function& f, const RegisterFile& file) : f_(f), file_(file) {}

  void run() {
    index();
    for (uint32_t i = 0; i < f_.lines.size(); ++i)
      if (can_repeat(f_.lines[i])) split(i);
    insert();
  }

 private:
  Function& f_;
  const RegisterFile& file_;
  std::vector<std::vector<uint32_t>> reads_;     // lines, ascending, by register
  std::vector<uint32_t> writes_;                 // number of them
  std::vector<uint32_t> block_;                  // by line
  std::vector<uint32_t> alive_[kRegClasses];     // values at each line
  std::set<int64_t> stored_;                     // buffers
  std::vector<std::pair<uint32_t, Line>> made_;  // (before this line, load)

  void index() {
    const size_t n = f_.registers.size();
    reads_.resize(n);
    writes_.resize(n, 0);
    std::vector<uint32_t> first(n, UINT32_MAX), last(n, 0);
    uint32_t block = 0;
    for (uint32_t i = 0; i < f_.lines.size(); ++i) {
      const Line& l = f_.lines[i];
      const bool border = l.kind == LineKind::kLoop || l.kind == LineKind::kEnd;
      block += border ? 1 : 0;
      block_.push_back(block);
      block += border ? 1 : 0;
      if (l.effect == Effect::kStore) stored_.insert(l.space);
      for (uint8_t k = 0; k < l.uses; ++k) {
        if (l.use[k] == kNoReg) continue;
        reads_[l.use[k]].push_back(i);
        last[l.use[k]] = i;
      }
      if (l.def == kNoReg) continue;
      ++writes_[l.def];
      first[l.def] = std::min(first[l.def], i);
      last[l.def] = std::max(last[l.def], i);
    }
    for (auto& a : alive_) a.assign(f_.lines.size() + 1, 0);
    for (Reg v = 0; v < n; ++v) {
      if (first[v] == UINT32_MAX) continue;
      auto& a = alive_[static_cast<size_t>(f_.registers[v].cls)];
      a[first[v]] += 1;
      a[last[v] + 1] -= 1;
    }
    for (auto& a : alive_)
      for (size_t i = 1; i < a.size(); ++i) a[i] += a[i - 1];
  }

  bool can_repeat(const Line& l) const {
    return l.kind == LineKind::kIns && l.effect == Effect::kLoad && !l.gated && l.def != kNoReg &&
           writes_[l.def] == 1 && !stored_.contains(l.space);
  }

  // Readers after a crowded stretch get the value from a load of their own.
  void split(uint32_t i) {
    Line load = f_.lines[i];
    const Reg value = load.def;
    const auto c = static_cast<size_t>(f_.registers[value].cls);
    const std::vector<uint32_t> readers = reads_[value];
    for (const uint32_t r : readers)
      if (block_[r] != block_[i]) return;
    uint32_t before = i;
    for (const uint32_t r : readers) {
      auto& a = alive_[c];
      const bool crowded =
          r > before + 1 &&
          *std::max_element(a.begin() + before + 1, a.begin() + r) > file_.free[c].size();
      if (crowded) {
        for (uint32_t k = before + 1; k < r; ++k) --a[k];
        load.def = f_.fresh(f_.registers[value].cls, f_.registers[value].bytes);
        made_.emplace_back(r, load);
      }
      for (uint8_t k = 0; k < f_.lines[r].uses; ++k)
        if (f_.lines[r].use[k] == value) f_.lines[r].use[k] = load.def;
      before = r;
    }
  }

  void insert() {
    std::stable_sort(made_.begin(), made_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Line> out;
    size_t next = 0;
    for (uint32_t i = 0; i < f_.lines.size(); ++i) {
      while (next < made_.size() && made_[next].first == i) out.push_back(made_[next++].second);
      out.push_back(f_.lines[i]);
    }
    f_.lines = std::move(out);
  }
};

}  // namespace

void split_loads(Function& f, const RegisterFile& file) {
  Splitter(f, file).run();
}

}  // namespace modeld::isa
