// CompiledLinear: a captured LINEAR after compilation, as plain data: which kernels and copies run
// in which order, on which device, on which memory. It is not a Plan: it may span devices, and its
// memory may be somebody else's. batch cuts it, graph_replay runs it, jit_saved stores it.
// Contract: arguments that are inputs are written down as (input, offset), never found by comparing
// buffers; check_compiled_linear looks at every index and size before anybody follows one. Units:
// bytes. Threading: plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hal/base/status.h"

#include "runtime/exec/plan.h"

namespace modeld::exec {

struct DeviceRow {
  std::string name;    // as buffers name it: "CPU", "CPU:1"
  std::string target;  // print_target() form of what its kernels were compiled for
  bool operator==(const DeviceRow&) const = default;
};

struct MemoryRow {
  uint32_t device = 0;
  uint64_t bytes = 0;
  // Held: it belongs to a live tensor, or its contents were there before the first call. Others are
  // arenas, which nothing reads before a call has written it.
  bool is_held = false;
  bool operator==(const MemoryRow&) const = default;
};

struct InputRow {
  uint32_t device = 0;
  uint64_t bytes = 0;
  bool operator==(const InputRow&) const = default;
};

struct CallArg {
  // kBuffer: memories[index] plus offset. kSlot: inputs[index] plus offset. kScalar:
  // variables[index]. kConst: the value `offset`.
  ArgRef ref;
  uint64_t bytes = 0;  // of addresses: what the call may touch from there on
  bool operator==(const CallArg&) const = default;
};

struct CompiledCall {
  CallRow::Kind kind = CallRow::Kind::kProgram;
  uint32_t device = 0;        // whose queue runs it; a copy's is its source's
  uint32_t program = 0;       // kProgram: CompiledLinear::programs
  std::vector<CallArg> args;  // kCopy: destination, source, of equal bytes
  bool operator==(const CompiledCall&) const = default;
};

struct CompiledLinear {
  std::vector<DeviceRow> devices;
  std::vector<ProgramRow> programs;
  std::vector<MemoryRow> memories;
  std::vector<InputRow> inputs;
  std::vector<std::string> variables;
  std::vector<CompiledCall> calls;
};

// Positions of a call's arguments that it reads and writes.
struct CallAccess {
  std::vector<uint32_t> reads, writes;
};
CallAccess access_of(const CompiledLinear& linear, const CompiledCall& call);
bool is_address(const CallArg& arg);

// kCorrupt naming the row.
Status check_compiled_linear(const CompiledLinear& linear);

}  // namespace modeld::exec
