// Machine code of one kernel before it is bytes: lines over virtual registers, then, after
// allocation, over physical ones. What an operation means is the instruction set's; the frame
// only knows which registers a line reads and writes. Contract: loops nest properly; a virtual
// register that is not an accumulator is written once, before its readers; flags never live from
// one line to the next, so lines may be moved and spill code put between any two of them.
// Threading: plain values.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace modeld::isa {

using Reg = uint32_t;  // index into Function::registers; after allocation a physical number
constexpr Reg kNoReg = UINT32_MAX;

enum class RegClass : uint8_t { kInt, kVector };
constexpr size_t kRegClasses = 2;

struct RegInfo {
  RegClass cls = RegClass::kInt;
  uint8_t bytes = 8;  // what a spill must keep
};

enum class LineKind : uint8_t {
  kIns,    // `op` of the instruction set
  kArg,    // an argument of the kernel arrives in physical register `imm`; first lines only
  kLoop,   // head of a loop: reads the counter and, unless the bound is `imm`, the bound
  kEnd,    // its end: counts up and goes back; reads and writes the counter
  kMove,   // def = use[0]
  kSpill,  // slot imm = use[0]
  kFill,   // def = slot imm
};

// What a line does to memory, for those who reorder lines.
enum class Effect : uint8_t { kNone, kLoad, kStore };

struct Line {
  LineKind kind = LineKind::kIns;
  uint16_t op = 0;
  char width = 0;      // the instruction set's: operand size
  bool tied = false;   // def must be the register of use[0]
  bool early = false;  // def is written before every use has been read
  bool gated = false;  // happens only if the last use is not 0
  bool remat = false;  // no register is read: repeating the line is as good as a fill
  Effect effect = Effect::kNone;
  Reg def = kNoReg;
  std::array<Reg, 6> use{kNoReg, kNoReg, kNoReg, kNoReg, kNoReg, kNoReg};
  uint8_t uses = 0;    // entries of `use`; entries may be kNoReg
  int8_t mem_at = -1;  // use[mem_at] is the base, use[mem_at + 1] the index of a memory operand
  uint8_t scale = 1;   // of the index
  int32_t disp = 0;    // bytes
  int32_t pool = -1;   // memory operand is this constant of the pool
  int64_t imm = 0;
  bool has_imm = false;
  uint32_t loop = 0;   // kLoop, kEnd: number of the loop
  int64_t space = -1;  // kLoad, kStore: argument number of the buffer

  void add_use(Reg r) { use[uses++] = r; }
  bool reads(Reg r) const {
    for (uint8_t i = 0; i < uses; ++i)
      if (use[i] == r) return true;
    return false;
  }
};

// A constant behind the code, `bytes` (4, 8) of `bits` repeated to fill `size` bytes.
struct PoolConst {
  uint64_t bits = 0;
  uint8_t bytes = 4;
  bool operator==(const PoolConst&) const = default;
};

struct Function {
  std::string name;
  std::vector<RegInfo> registers;
  std::vector<Line> lines;
  std::vector<PoolConst> pool;
  uint32_t frame_bytes = 0;  // spill slots; set by allocation

  Reg fresh(RegClass cls, uint8_t bytes) {
    registers.push_back({cls, bytes});
    return static_cast<Reg>(registers.size() - 1);
  }
};

}  // namespace modeld::isa
