// What the device writes to the standard input of the emulated program: a head, then launches. All
// words are 64-bit little-endian. Contract: offsets count from the start of the shared memory.
//   head:    char path[64] of the shared memory, its bytes, bytes of what follows
//   launch:  offset of the code's entry, groups, number n of arguments, then n pairs (kind, word):
//            kind 1: the word is an offset into the shared memory, kind 0: a value
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "hal/base/status.h"

namespace modeld::hal {

struct EmulatorArg {
  bool is_address = false;
  uint64_t word = 0;
};

class EmulatorRequest {
 public:
  void add(uint64_t entry, uint64_t groups, std::span<const EmulatorArg> args);
  bool is_empty() const { return words_.empty(); }
  // kInvalid for a path that has no room in the head.
  Result<std::string> text(const std::string& memory_path, uint64_t memory_bytes) const;

 private:
  std::vector<uint64_t> words_;
};

// A static executable of the emulated machine (AArch64) that is one piece of code without
// relocations: the smallest file that an emulator takes.
std::string emulator_executable(std::span<const std::byte> code, uint64_t entry_offset);

}  // namespace modeld::hal
