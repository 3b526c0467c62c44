#include "runtime/isa/regalloc.h"

#include <algorithm>

namespace modeld::isa {

namespace {

constexpr uint32_t kNever = UINT32_MAX;
// Registers that a loop's head leaves for what the body makes itself.
constexpr size_t kSlack[kRegClasses] = {3, 3};

// Where a value is. A value may be in a register and in its slot at once.
struct Place {
  Reg reg = kNoReg;
  bool in_slot = false;
};

struct Loop {
  uint32_t head = 0, end = 0;
  std::vector<bool> redefined;  // by virtual register
  std::vector<Place> entry;     // the state that holds at the head, from either side
};

class Allocator {
 public:
  Allocator(Function& f, const RegisterFile& file) : f_(f), file_(file) {}
  Status run();

 private:
  Function& f_;
  const RegisterFile& file_;
  std::vector<Line> out_;
  std::vector<Loop> loops_;
  std::vector<std::vector<uint32_t>> reads_;  // per register: lines that read it, ascending
  std::vector<size_t> cursor_;                // first entry of reads_ not before the present line
  std::vector<uint32_t> first_, last_;        // lines between which it lives
  std::vector<int64_t> slot_;                 // bytes into the frame, -1 = none
  std::vector<const Line*> remat_;            // the line to repeat, or null
  std::vector<Place> place_;
  std::vector<uint32_t> pressure_[kRegClasses];  // values alive at each line
  std::vector<Line> before_;                     // the lines as they were
  Reg owner_[64] = {};
  uint64_t pinned_ = 0;  // physical registers this line must not lose
  uint32_t at_ = 0;

  void find_loops();
  void find_reads();
  void find_pressure();
  uint32_t next_read(Reg v);
  size_t capacity(Reg v) const { return file_.free[cls(v)].size(); }
  size_t cls(Reg v) const { return static_cast<size_t>(f_.registers[v].cls); }
  void put(Reg v, Reg r);
  void release(Reg v);
  void spill(Reg v);
  void fill(Reg v, Reg r);
  void move(Reg from, Reg to);
  Result<Reg> take(Reg v);
  Status bring_in(Reg v);
  Status plain(const Line& line);
  Result<Reg> place_def(const Line& line, Line& made);
  void make_room(const Loop& loop);
  Status head(const Line& line);
  Status end(const Line& line);
  void restore(const Loop& loop);
};

// ---- what is known before the scan ----

void Allocator::find_loops() {
  for (uint32_t i = 0; i < before_.size(); ++i) {
    const Line& line = before_[i];
    if (line.kind != LineKind::kLoop && line.kind != LineKind::kEnd) continue;
    if (loops_.size() <= line.loop) loops_.resize(line.loop + size_t{1});
    (line.kind == LineKind::kLoop ? loops_[line.loop].head : loops_[line.loop].end) = i;
  }
  for (Loop& loop : loops_) {
    loop.redefined.resize(f_.registers.size(), false);
    for (uint32_t i = loop.head; i <= loop.end; ++i)
      if (before_[i].def != kNoReg) loop.redefined[before_[i].def] = true;
  }
}

void Allocator::find_reads() {
  const size_t n = f_.registers.size();
  reads_.resize(n);
  cursor_.resize(n, 0);
  first_.resize(n, kNever);
  last_.resize(n, 0);
  slot_.resize(n, -1);
  remat_.resize(n, nullptr);
  place_.resize(n);
  std::vector<uint32_t> defs(n, 0);
  std::vector<uint32_t> open;  // ends of the loops around the line
  const auto touch = [&](Reg v, uint32_t i) {
    // Made before a loop and used inside: it must survive to the loop's end.
    for (const uint32_t number : open) {
      const Loop& loop = loops_[number];
      if (first_[v] < loop.head) {
        reads_[v].push_back(loop.end);
        break;  // the outermost such loop contains the others
      }
    }
    last_[v] = std::max(last_[v], i);
  };
  for (uint32_t i = 0; i < before_.size(); ++i) {
    const Line& line = before_[i];
    if (line.kind == LineKind::kLoop) open.push_back(line.loop);
    for (uint8_t k = 0; k < line.uses; ++k) {
      if (line.use[k] == kNoReg) continue;
      reads_[line.use[k]].push_back(i);
      touch(line.use[k], i);
    }
    if (line.def != kNoReg) {
      first_[line.def] = std::min(first_[line.def], i);
      touch(line.def, i);
      ++defs[line.def];
      remat_[line.def] = line.remat && defs[line.def] == 1 ? &line : nullptr;
    }
    if (line.kind == LineKind::kEnd) open.pop_back();
  }
  for (Reg v = 0; v < n; ++v) {
    std::sort(reads_[v].begin(), reads_[v].end());
    if (!reads_[v].empty()) last_[v] = std::max(last_[v], reads_[v].back());
  }
}

void Allocator::find_pressure() {
  for (auto& p : pressure_) p.assign(before_.size() + 1, 0);
  for (Reg v = 0; v < f_.registers.size(); ++v) {
    if (first_[v] == kNever) continue;
    pressure_[cls(v)][first_[v]] += 1;
    pressure_[cls(v)][last_[v] + 1] -= 1;
  }
  for (auto& p : pressure_)
    for (size_t i = 1; i < p.size(); ++i) p[i] += p[i - 1];
}

uint32_t Allocator::next_read(Reg v) {
  size_t& c = cursor_[v];
  while (c < reads_[v].size() && reads_[v][c] < at_) ++c;
  return c < reads_[v].size() ? reads_[v][c] : kNever;
}

// ---- moving values about ----

void Allocator::put(Reg v, Reg r) {
  if (place_[v].reg != kNoReg && owner_[place_[v].reg] == v) owner_[place_[v].reg] = kNoReg;
  place_[v].reg = r;
  owner_[r] = v;
}

void Allocator::release(Reg v) {
  if (place_[v].reg != kNoReg) owner_[place_[v].reg] = kNoReg;
  place_[v].reg = kNoReg;
}

void Allocator::spill(Reg v) {
  if (place_[v].in_slot || remat_[v] != nullptr) return;
  if (slot_[v] < 0) {
    const uint32_t bytes = f_.registers[v].bytes > 16 ? 32 : f_.registers[v].bytes > 8 ? 16 : 8;
    slot_[v] = f_.frame_bytes;
    f_.frame_bytes += bytes;
  }
  Line line;
  line.kind = LineKind::kSpill;
  line.add_use(place_[v].reg);
  line.imm = slot_[v];
  line.scale = f_.registers[v].bytes;
  out_.push_back(line);
  place_[v].in_slot = true;
}

void Allocator::fill(Reg v, Reg r) {
  Line line;
  if (remat_[v] != nullptr) {
    line = *remat_[v];
  } else {
    line.kind = LineKind::kFill;
    line.imm = slot_[v];
    line.scale = f_.registers[v].bytes;
  }
  line.def = r;
  out_.push_back(line);
  put(v, r);
}

void Allocator::move(Reg from, Reg to) {
  Line line;
  line.kind = LineKind::kMove;
  line.add_use(from);
  line.def = to;
  out_.push_back(line);
}

// A register of v's class that nothing pinned holds.
Result<Reg> Allocator::take(Reg v) {
  const std::vector<Reg>& all = file_.free[cls(v)];
  for (const Reg r : all)
    if (owner_[r] == kNoReg && (pinned_ >> r & 1) == 0) return r;
  Reg best = kNoReg;
  uint32_t furthest = 0;
  for (const Reg r : all) {
    if (pinned_ >> r & 1) continue;
    const uint32_t next = next_read(owner_[r]);
    if (best != kNoReg && next <= furthest) continue;
    best = r;
    furthest = next;
  }
  if (best == kNoReg)
    return fail(Errc::kInternal,
                strf("%s: line %u needs more registers than there are", f_.name.c_str(), at_));
  spill(owner_[best]);
  release(owner_[best]);
  return best;
}

Status Allocator::bring_in(Reg v) {
  if (place_[v].reg == kNoReg) {
    if (!place_[v].in_slot && remat_[v] == nullptr)
      return fail(Errc::kInternal,
                  strf("%s: line %u reads a register nobody wrote", f_.name.c_str(), at_));
    ASSIGN_OR_RETURN(const Reg r, take(v));
    fill(v, r);
  }
  pinned_ |= uint64_t{1} << place_[v].reg;
  return {};
}

// ---- lines ----

// The register for the line's result; `made` gets def and, if tied, use[0].
Result<Reg> Allocator::place_def(const Line& line, Line& made) {
  const Reg d = line.def;
  const Reg own = place_[d].reg;
  const auto dies = [&](Reg v) { return last_[v] <= at_; };
  const auto release_dying = [&] {
    for (uint8_t k = 0; k < line.uses; ++k)
      if (line.use[k] != kNoReg && line.use[k] != d && dies(line.use[k])) release(line.use[k]);
  };
  Reg r = kNoReg;
  if (line.tied) {
    const Reg source = line.use[0];
    const Reg at = made.use[0];
    if (source == d) {
      r = at;
    } else if (dies(source)) {
      release(source);
      r = at;
    } else {
      ASSIGN_OR_RETURN(r, take(d));
      move(at, r);
    }
    made.use[0] = r;
    release_dying();
  } else if (line.kind == LineKind::kMove && own == kNoReg && dies(line.use[0])) {
    r = made.use[0];
    release_dying();
  } else if (own != kNoReg && (!line.early || !line.reads(d))) {
    r = own;
    release_dying();
  } else if (line.early) {
    ASSIGN_OR_RETURN(r, take(d));
    release_dying();
  } else {
    release_dying();
    pinned_ = 0;
    for (uint8_t k = 0; k < line.uses; ++k)
      if (line.use[k] != kNoReg && place_[line.use[k]].reg != kNoReg)
        pinned_ |= uint64_t{1} << place_[line.use[k]].reg;
    ASSIGN_OR_RETURN(r, take(d));
  }
  put(d, r);
  place_[d].in_slot = false;
  made.def = r;
  return r;
}

Status Allocator::plain(const Line& line) {
  Line made = line;
  for (uint8_t k = 0; k < line.uses; ++k) {
    if (line.use[k] == kNoReg) continue;
    // Those already in place first, so that filling one does not evict another.
    if (place_[line.use[k]].reg != kNoReg) pinned_ |= uint64_t{1} << place_[line.use[k]].reg;
  }
  for (uint8_t k = 0; k < line.uses; ++k)
    if (line.use[k] != kNoReg) RETURN_IF_ERROR(bring_in(line.use[k]));
  for (uint8_t k = 0; k < line.uses; ++k)
    if (line.use[k] != kNoReg) made.use[k] = place_[line.use[k]].reg;
  if (line.kind == LineKind::kArg) {
    put(line.def, static_cast<Reg>(line.imm));
    made.def = static_cast<Reg>(line.imm);
  } else if (line.def != kNoReg) {
    RETURN_IF_ERROR(place_def(line, made));
  }
  for (uint8_t k = 0; k < line.uses; ++k)
    if (line.use[k] != kNoReg && last_[line.use[k]] <= at_) release(line.use[k]);
  if (line.def != kNoReg && last_[line.def] <= at_) release(line.def);
  if (made.kind != LineKind::kMove || made.def != made.use[0]) out_.push_back(made);
  return {};
}

// ---- loops ----

// Where the body needs more registers than there are, values that it does not read go first:
// inside they would be stored and read back on every pass.
void Allocator::make_room(const Loop& loop) {
  for (size_t c = 0; c < kRegClasses; ++c) {
    const auto& p = pressure_[c];
    const size_t most = *std::max_element(p.begin() + loop.head, p.begin() + loop.end + 1);
    for (size_t need = most; need > file_.free[c].size(); --need) {
      Reg victim = kNoReg;
      for (const Reg r : file_.free[c]) {
        const Reg v = owner_[r];
        if (v == kNoReg || next_read(v) < loop.end) continue;
        if (victim == kNoReg || next_read(v) > next_read(victim)) victim = v;
      }
      if (victim == kNoReg) break;
      spill(victim);
      release(victim);
    }
  }
}

Status Allocator::head(const Line& line) {
  Loop& loop = loops_[line.loop];
  make_room(loop);
  // Accumulators first: outside of a register they cost a read and a write.
  std::vector<Reg> wanted;
  for (Reg v = 0; v < f_.registers.size(); ++v) {
    const bool alive = first_[v] < at_ && last_[v] >= at_;
    if (alive && next_read(v) < loop.end) wanted.push_back(v);
  }
  std::stable_sort(wanted.begin(), wanted.end(), [&](Reg a, Reg b) {
    if (loop.redefined[a] != loop.redefined[b]) return bool(loop.redefined[a]);
    return next_read(a) < next_read(b);
  });
  size_t count[kRegClasses] = {};
  for (const Reg v : wanted) {
    const size_t room = capacity(v) > kSlack[cls(v)] ? capacity(v) - kSlack[cls(v)] : 1;
    const bool needed = line.reads(v);
    if (count[cls(v)] >= room && !needed) continue;
    ++count[cls(v)];
    if (place_[v].reg == kNoReg || needed)
      RETURN_IF_ERROR(bring_in(v));
    else
      pinned_ |= uint64_t{1} << place_[v].reg;
  }
  RETURN_IF_ERROR(plain(line));
  for (Reg v = 0; v < f_.registers.size(); ++v)
    if (place_[v].reg != kNoReg && loop.redefined[v]) place_[v].in_slot = false;
  loop.entry = place_;
  return {};
}

void Allocator::restore(const Loop& loop) {
  std::vector<Reg> wrong;
  for (Reg v = 0; v < f_.registers.size(); ++v) {
    if (first_[v] >= loop.head || last_[v] < at_) continue;
    const Place& want = loop.entry[v];
    if (want.reg == kNoReg) {
      if (place_[v].reg != kNoReg) spill(v);
      release(v);
    } else if (place_[v].reg != want.reg) {
      wrong.push_back(v);
    }
  }
  // What the body made is dead here: only values of the entry state hold registers that matter.
  for (const Reg& entry : owner_) {
    const Reg v = entry;  // release() writes the entry
    if (v != kNoReg && (first_[v] >= loop.head || last_[v] < at_)) release(v);
  }
  bool moved = true;
  while (moved) {
    moved = false;
    for (const Reg v : wrong) {
      const Reg to = loop.entry[v].reg;
      if (place_[v].reg == kNoReg || place_[v].reg == to || owner_[to] != kNoReg) continue;
      move(place_[v].reg, to);
      put(v, to);
      moved = true;
    }
  }
  // Cycles go through memory.
  for (const Reg v : wrong) {
    if (place_[v].reg == kNoReg || place_[v].reg == loop.entry[v].reg) continue;
    spill(v);
    release(v);
  }
  for (const Reg v : wrong)
    if (place_[v].reg == kNoReg) fill(v, loop.entry[v].reg);
}

Status Allocator::end(const Line& line) {
  const Loop& loop = loops_[line.loop];
  restore(loop);
  Line made = line;
  for (uint8_t k = 0; k < line.uses; ++k)
    if (line.use[k] != kNoReg) made.use[k] = place_[line.use[k]].reg;
  made.def = made.use[0];
  out_.push_back(made);
  // The body may not have run, so slots it wrote do not count.
  for (Reg v = 0; v < f_.registers.size(); ++v) {
    if (first_[v] == kNever || first_[v] >= loop.head) continue;
    if (last_[v] <= at_)
      release(v);
    else
      place_[v].in_slot = loop.entry[v].in_slot;
  }
  return {};
}

Status Allocator::run() {
  before_ = std::move(f_.lines);
  std::fill(std::begin(owner_), std::end(owner_), kNoReg);
  find_loops();
  find_reads();
  find_pressure();
  for (at_ = 0; at_ < before_.size(); ++at_) {
    const Line& line = before_[at_];
    pinned_ = 0;
    const Status done = line.kind == LineKind::kLoop  ? head(line)
                        : line.kind == LineKind::kEnd ? end(line)
                                                      : plain(line);
    if (!done.ok()) return done;
  }
  f_.lines = std::move(out_);
  return {};
}

}  // namespace

Status allocate_registers(Function& f, const RegisterFile& file) {
  return Allocator(f, file).run();
}

}  // namespace modeld::isa
