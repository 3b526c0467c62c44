#include "runtime/compile/x86_immediate.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace modeld::compile {
namespace {

// The bytes in front of the displacement, which ends the text.
std::vector<int64_t> sizes(std::initializer_list<int> bytes) {
  std::vector<std::byte> text;
  for (const int b : bytes) text.push_back(static_cast<std::byte>(b));
  return x86_immediate_sizes(text, text.size());
}

int64_t first(std::initializer_list<int> bytes) {
  const auto all = sizes(bytes);
  return all.empty() ? -1 : all.front();
}

// Each row as the assembler writes `op ..., constant(%rip)`.
TEST(X86Immediate, IsWhatTheInstructionHas) {
  EXPECT_EQ(first({0xc5, 0xf9, 0xc4, 0x05}), 1);              // vpinsrw $0, m, xmm0, xmm0
  EXPECT_EQ(first({0xc5, 0xfa, 0x10, 0x05}), 0);              // vmovss m, xmm0
  EXPECT_EQ(first({0xc5, 0xf8, 0xc6, 0x05}), 1);              // vshufps $1, m, xmm0, xmm0
  EXPECT_EQ(first({0xc4, 0xe2, 0x7d, 0x78, 0x05}), 0);        // vpbroadcastb m, ymm0
  EXPECT_EQ(first({0xc4, 0xe3, 0x79, 0x20, 0x05}), 1);        // vpinsrb $0, m, xmm0, xmm0
  EXPECT_EQ(first({0xc4, 0xe3, 0x7d, 0x4a, 0x05}), 1);        // vblendvps: a register in a byte
  EXPECT_EQ(first({0x62, 0xf1, 0x7c, 0x48, 0x58, 0x05}), 0);  // vaddps m, zmm0, zmm0
  EXPECT_EQ(first({0x62, 0xf3, 0xfd, 0x48, 0x43, 0x05}), 1);  // vshuff64x2 $1, m, zmm0, zmm0
  EXPECT_EQ(first({0x62, 0xf1, 0x7c, 0x48, 0xc2, 0x05}), 1);  // vcmpps $1, m, zmm0, k0
  EXPECT_EQ(first({0x62, 0xf5, 0x7c, 0x48, 0x58, 0x05}), 0);  // vaddph m, zmm0, zmm0
  EXPECT_EQ(first({0x66, 0x0f, 0xc4, 0x05}), 1);              // pinsrw $0, m, xmm0
  EXPECT_EQ(first({0xf3, 0x0f, 0x10, 0x05}), 0);              // movss m, xmm0
  EXPECT_EQ(first({0x66, 0x0f, 0x3a, 0x20, 0x05}), 1);        // pinsrb $0, m, xmm0
  EXPECT_EQ(first({0x66, 0x0f, 0x38, 0x00, 0x05}), 0);        // pshufb m, xmm0
  EXPECT_EQ(first({0x0f, 0xb7, 0x05}), 0);                    // movzwl m, eax
  EXPECT_EQ(first({0x90, 0x48, 0x8b, 0x05}), 0);              // mov m, rax
  EXPECT_EQ(first({0x90, 0x48, 0x8d, 0x05}), 0);              // lea m, rax
  EXPECT_EQ(first({0x90, 0x80, 0x3d}), 1);                    // cmpb $1, m
  EXPECT_EQ(first({0x90, 0x66, 0x81, 0x3d}), 2);              // cmpw $1000, m
  EXPECT_EQ(first({0x90, 0x90, 0x81, 0x3d}), 4);              // cmpl $100000, m
  EXPECT_EQ(first({0x90, 0x90, 0x6b, 0x05}), 1);              // imul $3, m, eax
  EXPECT_EQ(first({0x90, 0x90, 0x69, 0x05}), 4);              // imul $100000, m, eax
  EXPECT_EQ(first({0x90, 0xf6, 0x05}), 1);                    // testb $1, m
  EXPECT_EQ(first({0x90, 0x90, 0xf7, 0x05}), 4);              // testl $1, m
  EXPECT_EQ(first({0x90, 0x90, 0xf7, 0x25}), 0);              // mull m
}

TEST(X86Immediate, OtherAddressesAreNone) {
  EXPECT_EQ(first({0x8b, 0x04}), -1);  // a base register, not the instruction pointer
  EXPECT_EQ(first({0x8b, 0x85}), -1);
  EXPECT_EQ(first({0x05}), -1);
  EXPECT_TRUE(x86_immediate_sizes({}, 0).empty());
  EXPECT_TRUE(x86_immediate_sizes({}, 9).empty());
}

// Bytes of the instruction before may look like a prefix: both readings are given.
TEST(X86Immediate, BytesThatLookLikeAPrefixLeaveTheOtherReading) {
  const auto all = sizes({0xc4, 0x03, 0x48, 0x8b, 0x05});
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0], 1);
  EXPECT_EQ(all[1], 0);
}

}  // namespace
}  // namespace modeld::compile
