// The stored form of a captured Jit: what it was compiled for, signature, rows, code, contents of
// held memory, and how results lie in memory. Layout: 64 bytes of header (magic, format, payload
// size, BLAKE2b-256 of the payload), then the payload's fields in order, little endian; lists and
// texts behind a count. It is no bundle: the daemon never reads one.
// Contract: decode takes any bytes: kCorrupt for damage (every count, index and size is checked),
// kMismatch for another format. Equal Jits give equal bytes. Units: bytes. Threading: pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "hal/base/status.h"

#include "runtime/exec/compiled_linear.h"
#include "runtime/exec/jit_signature.h"

namespace modeld::exec {

constexpr uint32_t kJitFormat = 1;

// One row of CompiledLinear::memories; arenas have no elements.
struct SavedMemory {
  ir::DType dtype = ir::DType::kU8;
  int64_t elements = 0;
  bool is_product = false;  // made anew by every run: stored without contents
  std::vector<std::byte> contents;
  bool operator==(const SavedMemory&) const = default;
};

struct SavedJit {
  std::string target;          // print_target() form, CPU features included
  std::string codegen_config;  // the whole code-generation configuration
  std::string compiler;        // who made the code, for people
  JitSignature signature;
  CompiledLinear linear;
  std::vector<SavedMemory> memories;
  // Results: views (ir/print.h) of PARAM m, memory m, or of PARAM memories + i, input i.
  std::vector<std::string> results;
};

std::vector<std::byte> encode_jit(const SavedJit& jit);
Result<SavedJit> decode_jit(std::span<const std::byte> bytes);

// kMismatch naming what differs; code made for another machine or configuration is never run.
Status check_made_for(const SavedJit& jit,
                      const std::string& target,
                      const std::string& codegen_config);

}  // namespace modeld::exec
