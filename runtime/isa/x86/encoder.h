// One x86-64 instruction to bytes, and the table of those we use. This is not an assembler: it
// knows no labels. Contract: an operand combination that the row's form lacks is kUnsupported
// naming the instruction; nothing is checked against the CPU. Registers are physical numbers:
// 0..15 general (rax rcx rdx rbx rsp rbp rsi rdi r8..r15), 16..31 vector. Threading: pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hal/base/status.h"

#include "runtime/isa/machine.h"

namespace modeld::isa::x86 {

enum class Op : uint16_t {
#define INS(name, ...) k_##name,
#include "runtime/isa/x86/instructions.def"
#undef INS
  kCount
};

enum class Encoding : uint8_t { kLegacy, kVex, kPseudo };

// Fields in the order reg, vvvv, rm, immediate; d = result, u0 u1 u2 = operands; the last register
// operand of rm may be memory.
enum class Form : uint8_t {
  kPlain,    // no operand
  kO,        // opcode + u0
  kRm,       // d, -, u0
  kRmi,      // d, -, u0, immediate
  kMr,       // u0, -, d or memory
  kMri,      // u0, -, d, immediate
  kRvm,      // d, u0, u1
  kRvmi,     // d, u0, u1, immediate
  kRvmr,     // d, u0, u1, u2 in the immediate
  kRmv,      // d, u1, u0
  kFma,      // d = u0, u1, u2
  kVmi,      // digit, d, u0, immediate
  kRmTied,   // d = u0, -, u1
  kMiTied,   // digit, -, d = u0, immediate of 8 or 32 bits
  kMbTied,   // digit, -, d = u0, immediate of 8 bits
  kMTied,    // digit, -, d = u0
  kRmFlags,  // u0, -, u1
  kMrFlags,  // u1, -, u0
  kMiFlags,  // digit, -, u0, immediate
  kMFlags,   // digit, -, u0
  // Pseudo instructions
  kImm,
  kCmp,
  kCmpImm,
  kSelect,
  kDivide,
  kConvert
};

enum class ResultClass : uint8_t { kNone, kInt, kVector };

constexpr uint8_t kByWidth = 2;

struct Row {
  const char* name;
  Encoding encoding;
  Form form;
  uint8_t map, prefix, w, opcode, digit;
  ResultClass result;
};
const Row& row(Op op);
// "vaddps.y": the operation and its width ('b' 'w' 'l' 'q' of general registers, 'x' 'y' of vector
// ones; 'l' or 'x' where nothing stands). kCount if there is none.
Op find_op(std::string_view mnemonic, char* width);

struct Memory {
  Reg base = kNoReg, index = kNoReg;
  uint8_t scale = 1;
  int32_t disp = 0;
  int32_t pool = -1;  // relative to the next instruction: a constant of the pool
};

struct Instruction {
  Op op = Op::kCount;
  char width = 'l';
  Reg def = kNoReg;
  Reg use[3] = {kNoReg, kNoReg, kNoReg};
  bool has_memory = false;
  Memory memory;
  int64_t imm = 0;
};

struct PoolUse {
  uint32_t at = 0;    // byte of the 32-bit displacement
  uint32_t next = 0;  // first byte after the instruction
  int32_t pool = 0;
};

// Appends the instruction. Places that name a pool constant hold 0 until they are patched.
Status encode(const Instruction& ins, std::vector<uint8_t>& out, std::vector<PoolUse>& uses);
// "vfmadd231ps ymm3, ymm1, [rdi + rax*4 + 32]", for listings.
std::string text(const Instruction& ins);
std::string register_name(Reg r, char width);

}  // namespace modeld::isa::x86
