#include "runtime/isa/x86/encoder.h"

#include <gtest/gtest.h>

#include <set>

namespace modeld {
namespace {

using isa::kNoReg;
using isa::Reg;
using isa::x86::Encoding;
using isa::x86::Instruction;
using isa::x86::Op;

struct Place {
  Reg base = kNoReg, index = kNoReg;
  uint8_t scale = 1;
  int32_t disp = 0;
};

struct Case {
  Op op;
  char width;
  Reg def;
  std::vector<Reg> use;
  Place place;
  int64_t imm;
  const char* bytes;
  const char* text;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
#include "runtime/isa/x86/encoder_cases.def"
  };
  return all;
}

Instruction instruction_of(const Case& c) {
  Instruction i;
  i.op = c.op;
  i.width = c.width;
  i.def = c.def;
  for (size_t k = 0; k < c.use.size(); ++k) i.use[k] = c.use[k];
  i.has_memory = c.place.base != kNoReg;
  i.memory = {c.place.base, c.place.index, c.place.scale, c.place.disp, -1};
  i.imm = c.imm;
  return i;
}

std::string hex(const std::vector<uint8_t>& bytes) {
  std::string out;
  for (uint8_t b : bytes) out += strf("%02x", b);
  return out;
}

TEST(Encoder, BytesAreThoseOfTheReferenceAssembler) {
  for (const Case& c : cases()) {
    std::vector<uint8_t> out;
    std::vector<isa::x86::PoolUse> uses;
    const Status done = encode(instruction_of(c), out, uses);
    ASSERT_TRUE(done.ok()) << c.text << ": " << done.error().what;
    EXPECT_EQ(hex(out), c.bytes) << c.text;
    EXPECT_TRUE(uses.empty());
  }
}

TEST(Encoder, EveryRowOfTheTableHasACase) {
  std::set<Op> seen;
  for (const Case& c : cases()) seen.insert(c.op);
  for (size_t k = 0; k < static_cast<size_t>(Op::kCount); ++k) {
    const auto op = static_cast<Op>(k);
    if (isa::x86::row(op).encoding == Encoding::kPseudo) continue;
    EXPECT_TRUE(seen.contains(op)) << isa::x86::row(op).name;
  }
}

TEST(Encoder, ConstantsAreRelativeToTheNextInstruction) {
  Instruction i;
  i.op = Op::k_vcmpps;
  i.width = 'y';
  i.def = 17;
  i.use[0] = 18;
  i.has_memory = true;
  i.memory.pool = 3;
  i.imm = 1;
  std::vector<uint8_t> out{0x90};
  std::vector<isa::x86::PoolUse> uses;
  ASSERT_TRUE(encode(i, out, uses).ok());
  EXPECT_EQ(hex(out), "90c5ecc20d0000000001");  // vcmpltps ymm1, ymm2, [rip + 0]
  ASSERT_EQ(uses.size(), 1U);
  EXPECT_EQ(uses[0].at, 5U);
  EXPECT_EQ(uses[0].next, 10U);
  EXPECT_EQ(uses[0].pool, 3);
}

TEST(Encoder, MnemonicsCarryTheirWidth) {
  char width = 0;
  EXPECT_EQ(isa::x86::find_op("vaddps.y", &width), Op::k_vaddps);
  EXPECT_EQ(width, 'y');
  EXPECT_EQ(isa::x86::find_op("add.q", &width), Op::k_add);
  EXPECT_EQ(width, 'q');
  EXPECT_EQ(isa::x86::find_op("vaddss", &width), Op::k_vaddss);
  EXPECT_EQ(width, 'x');
  EXPECT_EQ(isa::x86::find_op("fadd", &width), Op::kCount);
}

TEST(Encoder, WhatHasNoEncodingIsAnErrorNamingIt) {
  const auto refuse = [](Instruction i) {
    std::vector<uint8_t> out;
    std::vector<isa::x86::PoolUse> uses;
    const Status done = encode(i, out, uses);
    EXPECT_FALSE(done.ok());
    return done.ok() ? std::string() : done.error().what;
  };
  Instruction i;
  i.op = Op::k_add_i;
  i.def = 0;
  i.use[0] = 0;
  i.imm = int64_t{1} << 40;
  EXPECT_NE(refuse(i).find("add eax, 1099511627776"), std::string::npos);
  i = {};
  i.op = Op::k_vaddps;
  i.def = 16;
  EXPECT_NE(refuse(i).find("vaddps"), std::string::npos);  // operands missing
  i = {};
  i.op = Op::k_mov;
  i.def = 0;
  i.has_memory = true;
  i.memory = {0, 4, 1, 0, -1};  // rsp cannot be an index
  EXPECT_NE(refuse(i).find("[rax + rsp*1]"), std::string::npos);
  i = {};
  i.op = Op::k_idiv;
  EXPECT_NE(refuse(i).find("idiv"), std::string::npos);
}

}  // namespace
}  // namespace modeld
