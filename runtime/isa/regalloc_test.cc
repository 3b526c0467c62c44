// Allocation proved by execution: random programs of a toy instruction set with few registers run
// before and after allocation and must leave the same trace.
#include "runtime/isa/regalloc.h"

#include <gtest/gtest.h>

#include <random>

#include "runtime/isa/coalesce.h"
#include "runtime/isa/schedule.h"
#include "runtime/isa/split_loads.h"

namespace modeld {
namespace {

using isa::Function;
using isa::Line;
using isa::LineKind;
using isa::Reg;
using isa::RegClass;

// The toy: every operation mixes its operands, so that a wrong one shows.
enum ToyOp : uint16_t { kConst, kMix, kMixTied, kMixEarly, kTrace };

constexpr uint64_t kPoison = 0xdeadbeefdeadbeef;

class Machine {
 public:
  Machine(const Function& f, size_t registers, bool is_allocated = true)
      : f_(f), r_(registers, kPoison), is_allocated_(is_allocated) {}

  // The values traced, in order; gives up (with a marker) after too many steps.
  std::vector<uint64_t> run(uint64_t argument) {
    std::vector<uint64_t> trace;
    for (size_t pc = 0, steps = 0; pc < f_.lines.size(); ++pc) {
      if (++steps > 200'000) return {kPoison};
      const Line& l = f_.lines[pc];
      switch (l.kind) {
        case LineKind::kArg:
          r_[l.def] = argument;
          break;
        case LineKind::kLoop:
          if (r_[l.use[0]] >= bound(l)) pc = end_of(l.loop);
          break;
        case LineKind::kEnd:
          r_[l.def] = r_[l.use[0]] + 1;
          if (r_[l.def] < bound(l)) pc = head_of(l.loop);
          break;
        case LineKind::kMove:
          r_[l.def] = r_[l.use[0]];
          break;
        case LineKind::kSpill:
          slots_[l.imm] = r_[l.use[0]];
          break;
        case LineKind::kFill:
          r_[l.def] = slots_.contains(l.imm) ? slots_[l.imm] : kPoison;
          break;
        case LineKind::kIns:
          execute(l, trace);
      }
    }
    return trace;
  }

 private:
  const Function& f_;
  std::vector<uint64_t> r_;
  bool is_allocated_;
  std::map<int64_t, uint64_t> slots_;

  uint64_t bound(const Line& l) { return l.uses > 1 ? r_[l.use[1]] : static_cast<uint64_t>(l.imm); }
  size_t find(LineKind kind, uint32_t loop) {
    for (size_t i = 0; i < f_.lines.size(); ++i)
      if (f_.lines[i].kind == kind && f_.lines[i].loop == loop) return i;
    return f_.lines.size();
  }
  size_t head_of(uint32_t loop) { return find(LineKind::kLoop, loop); }
  size_t end_of(uint32_t loop) { return find(LineKind::kEnd, loop); }

  void execute(const Line& l, std::vector<uint64_t>& trace) {
    switch (l.op) {
      case kConst:
        r_[l.def] = static_cast<uint64_t>(l.imm);
        break;
      case kMix:
      case kMixTied: {
        uint64_t v = 17;
        for (uint8_t i = 0; i < l.uses; ++i) v = v * 31 + r_[l.use[i]];
        // A tied line reads its first operand from the result's register.
        if (is_allocated_ && l.op == kMixTied && l.use[0] != l.def) v = kPoison;
        r_[l.def] = v;
        break;
      }
      case kMixEarly: {
        // Writes its result while it still reads. Virtual registers have no such trouble.
        const std::vector<uint64_t> before = is_allocated_ ? std::vector<uint64_t>{} : r_;
        r_[l.def] = 5;
        for (uint8_t i = 0; i < l.uses; ++i)
          r_[l.def] = r_[l.def] * 31 + (is_allocated_ ? r_ : before)[l.use[i]];
        break;
      }
      default:
        trace.push_back(r_[l.use[0]]);
    }
  }
};

class RandomProgram {
 public:
  explicit RandomProgram(uint32_t seed) : rng_(seed) {}

  Function make() {
    f_.name = "toy";
    Line arg;
    arg.kind = LineKind::kArg;
    arg.imm = 1;
    arg.def = fresh(RegClass::kInt);
    f_.lines.push_back(arg);
    for (int i = 0; i < 4; ++i) constant(i % 2 ? RegClass::kInt : RegClass::kVector);
    for (size_t i = 0, n = pick(5); i < n; ++i) accumulator();
    block(3, 6 + pick(14));
    for (const auto& values : known_)
      for (const Reg v : values) trace(v);
    return f_;
  }

 private:
  std::mt19937 rng_;
  Function f_;
  std::vector<Reg> known_[2];  // readable here
  std::vector<Reg> accumulators_;
  uint32_t loops_ = 0;

  size_t pick(size_t n) { return rng_() % n; }
  Reg fresh(RegClass c) {
    const Reg v = f_.fresh(c, c == RegClass::kInt ? 8 : 32);
    known_[static_cast<size_t>(c)].push_back(v);
    return v;
  }
  Reg any(size_t c) { return known_[c][pick(known_[c].size())]; }

  void constant(RegClass c) {
    Line l;
    l.op = kConst;
    l.remat = pick(2) == 0;
    l.imm = static_cast<int64_t>(pick(1000));
    l.def = fresh(c);
    f_.lines.push_back(l);
  }
  void accumulator() {
    constant(pick(2) ? RegClass::kInt : RegClass::kVector);
    f_.lines.back().remat = false;
    accumulators_.push_back(f_.lines.back().def);
  }
  void trace(Reg v) {
    Line l;
    l.op = kTrace;
    l.add_use(v);
    f_.lines.push_back(l);
  }
  void operation() {
    Line l;
    const size_t c = pick(2);
    l.op = static_cast<uint16_t>(kMix + pick(3));
    l.tied = l.op == kMixTied;
    l.early = l.op == kMixEarly;
    for (size_t i = 0, n = 1 + pick(3); i < n; ++i) l.add_use(any(i == 0 ? c : pick(2)));
    std::vector<Reg> own;
    for (const Reg a : accumulators_)
      if (f_.registers[a].cls == static_cast<RegClass>(c)) own.push_back(a);
    l.def = !own.empty() && pick(3) == 0 ? own[pick(own.size())] : fresh(static_cast<RegClass>(c));
    f_.lines.push_back(l);
  }
  void copy() {
    if (accumulators_.empty()) return;
    Line l;
    l.kind = LineKind::kMove;
    const Reg a = accumulators_[pick(accumulators_.size())];
    const auto c = f_.registers[a].cls;
    if (pick(2)) {
      l.add_use(any(static_cast<size_t>(c)));
      l.def = a;
    } else {
      l.add_use(a);
      l.def = fresh(c);
    }
    f_.lines.push_back(l);
  }
  void loop(int depth, size_t length) {
    const std::vector<Reg> before[2] = {known_[0], known_[1]};
    constant(RegClass::kInt);
    f_.lines.back().imm = 0;
    f_.lines.back().remat = false;
    const Reg counter = f_.lines.back().def;
    Line head;
    head.kind = LineKind::kLoop;
    head.loop = loops_++;
    head.imm = static_cast<int64_t>(1 + pick(3));
    head.add_use(counter);
    if (pick(3) == 0) {
      constant(RegClass::kInt);  // bound in a register, maybe 0
      f_.lines.back().imm = static_cast<int64_t>(pick(3));
      std::swap(f_.lines[f_.lines.size() - 1], f_.lines[f_.lines.size() - 2]);
      head.add_use(known_[0].back());
    }
    f_.lines.push_back(head);
    block(depth - 1, length);
    Line end = head;
    end.kind = LineKind::kEnd;
    end.def = counter;
    f_.lines.push_back(end);
    known_[0] = before[0];
    known_[1] = before[1];
  }
  void block(int depth, size_t length) {
    for (size_t i = 0; i < length; ++i) {
      const size_t what = pick(10);
      if (what == 0 && depth > 0)
        loop(depth, 2 + pick(8));
      else if (what == 1)
        trace(any(pick(2)));
      else if (what == 2)
        constant(pick(2) ? RegClass::kInt : RegClass::kVector);
      else if (what == 3)
        copy();
      else
        operation();
    }
  }
};

TEST(Regalloc, RandomProgramsKeepTheirTrace) {
  // Physical numbers as an instruction set would give them: classes apart, gaps in between.
  const isa::RegisterFile file{{{1, 2, 3, 5, 6}, {16, 17, 18, 20}}};
  size_t spills = 0, loops = 0;
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    const Function before = RandomProgram(seed).make();
    Function after = before;
    const Status done = isa::allocate_registers(after, file);
    ASSERT_TRUE(done.ok()) << "seed " << seed << ": " << done.error().what;
    for (const Line& l : after.lines) {
      spills += l.kind == LineKind::kSpill ? 1 : 0;
      loops += l.kind == LineKind::kLoop ? 1 : 0;
      ASSERT_TRUE(l.def == isa::kNoReg || l.def < 32U) << "seed " << seed;
    }
    const auto want = Machine(before, before.registers.size(), false).run(77);
    ASSERT_EQ(Machine(after, 64).run(77), want) << "seed " << seed;
  }
  EXPECT_GT(spills, 3000U);
  EXPECT_GT(loops, 1000U);
}

// Everything between to_lines and the assembler, in its order.
TEST(Regalloc, RandomProgramsKeepTheirTraceThroughEveryLineStage) {
  const isa::RegisterFile file{{{1, 2, 3, 5, 6}, {16, 17, 18, 20}}};
  size_t before_lines = 0, after_lines = 0;
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    const Function before = RandomProgram(seed).make();
    Function after = before;
    isa::coalesce(after);
    before_lines += before.lines.size();
    after_lines += after.lines.size();
    isa::schedule(after);
    isa::split_loads(after, file);
    const Status done = isa::allocate_registers(after, file);
    ASSERT_TRUE(done.ok()) << "seed " << seed << ": " << done.error().what;
    const auto want = Machine(before, before.registers.size(), false).run(77);
    ASSERT_EQ(Machine(after, 64).run(77), want) << "seed " << seed;
  }
  EXPECT_LT(after_lines, before_lines);
}

Line constant_line(Function& f, RegClass c, int64_t v) {
  Line l;
  l.op = kConst;
  l.imm = v;
  l.def = f.fresh(c, 8);
  return l;
}

TEST(Regalloc, ConstantsAreMadeAgainNotStored) {
  Function f;
  std::vector<Reg> made;
  for (int i = 0; i < 12; ++i) {
    Line l = constant_line(f, RegClass::kInt, i);
    l.remat = true;
    made.push_back(l.def);
    f.lines.push_back(l);
  }
  for (const Reg v : made) {
    Line l;
    l.op = kTrace;
    l.add_use(v);
    f.lines.push_back(l);
  }
  ASSERT_TRUE(isa::allocate_registers(f, {{{0, 1, 2}, {16}}}).ok());
  for (const Line& l : f.lines) EXPECT_NE(l.kind, LineKind::kSpill);
  EXPECT_EQ(Machine(f, 64).run(0), (std::vector<uint64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
}

// What the innermost loop does not read is stored before it, not inside it.
TEST(Regalloc, InnerLoopsWithEnoughRegistersHaveNoSpillCode) {
  Function f;
  std::vector<Reg> idle;
  for (int i = 0; i < 4; ++i) {
    f.lines.push_back(constant_line(f, RegClass::kInt, i));
    idle.push_back(f.lines.back().def);
  }
  f.lines.push_back(constant_line(f, RegClass::kInt, 9));
  const Reg acc = f.lines.back().def;
  f.lines.push_back(constant_line(f, RegClass::kInt, 0));
  Line head;
  head.kind = LineKind::kLoop;
  head.imm = 5;
  head.add_use(f.lines.back().def);
  f.lines.push_back(head);
  Line add;
  add.op = kMixTied;
  add.tied = true;
  add.add_use(acc);
  add.add_use(head.use[0]);
  add.def = acc;
  f.lines.push_back(add);
  Line end = head;
  end.kind = LineKind::kEnd;
  end.def = head.use[0];
  f.lines.push_back(end);
  for (const Reg v : idle) {
    Line l;
    l.op = kTrace;
    l.add_use(v);
    f.lines.push_back(l);
  }
  ASSERT_TRUE(isa::allocate_registers(f, {{{0, 1, 2, 3}, {16}}}).ok());
  bool inside = false;
  for (const Line& l : f.lines) {
    if (l.kind == LineKind::kLoop) inside = true;
    if (l.kind == LineKind::kEnd) inside = false;
    if (inside) {
      EXPECT_NE(l.kind, LineKind::kSpill);
      EXPECT_NE(l.kind, LineKind::kFill);
    }
  }
}

TEST(Regalloc, TooFewRegistersForALineIsAnError) {
  Function f;
  f.name = "crowded";
  Line mix;
  mix.op = kMix;
  for (int i = 0; i < 3; ++i) {
    f.lines.push_back(constant_line(f, RegClass::kInt, i));
    mix.add_use(f.lines.back().def);
  }
  mix.def = f.fresh(RegClass::kInt, 8);
  f.lines.push_back(mix);
  const Status done = isa::allocate_registers(f, {{{0, 1}, {16}}});
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code, Errc::kInternal);
  EXPECT_NE(done.error().what.find("crowded"), std::string::npos);
}

}  // namespace
}  // namespace modeld
