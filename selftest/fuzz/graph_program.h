// A random tensor program as plain data: a list of steps, each of which makes a tensor, writes into
// one, or asks for values. The same list drives the pipeline under test (graph_subject.h) and the
// eager engine that says what must come out (graph_engine.h). It knows neither. Contract: a step
// names tensors by the number of the step that made them; print() is the whole program, readable.
// Threading: plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/ir/dtype.h"
#include "runtime/ir/op.h"

#include "selftest/testing/eager_array.h"

namespace modeld::fuzz {

using testing::Ints;

enum class StepKind : uint8_t {
  kInput,       // dims a, dtype, device, data: memory that is there from the start
  kFull,        // dims a, dtype, value data[0]: a constant without memory
  kVariable,    // a = {min, max}, value data[0]: a bound scalar, i32, named by `name`
  kAlu,         // op of args, broadcast
  kCast,        // to dtype
  kReshape,     // dims a
  kPermute,     // order a
  kExpand,      // dims a
  kPad,         // a before, b after
  kShrink,      // a starts, b lengths
  kFlip,        // axes a
  kReduce,      // op over axes a, kept
  kCat,         // args along axis a[0]
  kContiguous,  //
  kCopy,        // to device
  kShard,       // over devices 0 .. a[1]-1 along axis a[0]
  kAssign,      // args[0] (a view of memory) takes the values of args[1]
  kRealize,     // args, in this order
  kDrop,        // args[0] is not live any more, though somebody still holds its node
  kTrack,       // and is live again
};

// Device numbers from here on stand for several devices, one number per way to cut.
inline constexpr int kSeveralDevices = 1000;

struct Step {
  StepKind kind = StepKind::kInput;
  ir::Op op = ir::Op::kAdd;
  ir::DType dtype = ir::DType::kF32;
  std::vector<size_t> args;
  Ints a, b;
  std::vector<double> data;
  int device = 0;
  std::string name;
  bool must_fail = false;  // kRealize: a refusal made on purpose
};

struct Program {
  std::vector<Step> steps;
};

Step step_of(StepKind kind, std::vector<size_t> args = {});
const char* step_word(StepKind kind);
bool makes_tensor(StepKind kind);
bool is_movement(StepKind kind);  // padding too
// Counts what median nodes speaks of: steps that compute, move or write.
size_t node_count(const Program& program);
std::string print(const Program& program);
std::string device_name(int device);  // "CPU", "CPU:1"

}  // namespace modeld::fuzz
