// The cases of the op table: operand types, values that break things, and kernels that compute one
// op over them in odd shapes. Threading: one thread per Graph.
#pragma once

#include <string>
#include <vector>

#include "runtime/ir/graph.h"

#include "selftest/testing/kernel_interp.h"

namespace modeld::ops {

enum class Types : uint8_t { kFloats, kInts, kNumbers, kBits, kAll, kU64Only };
std::vector<ir::DType> types_of(Types t);

enum class Domain : uint8_t {
  kAny,
  kNotByZero,  // second operand is not 0
  kShift,      // second operand is below the width of the type
  kPower,      // small bases and exponents, whole and not
};

struct Row {
  const char* name;
  ir::Op op;
  Types types;
  Domain domain;
  double f64, f32, halves;  // units in the last place a float may be off
  bool sign_of_zero;
};
const std::vector<Row>& op_table();

// How the elements are laid out and reached.
struct Shape {
  const char* name;
  int64_t rows, columns;
  int64_t offset;  // of operand k: k * offset elements
  bool is_masked;  // columns below 1 and the last read 0; one row of the output is not written
};
const std::vector<Shape>& op_shapes();

// One op in one shape: `ast` reads PARAMs 1..n and writes PARAM 0.
struct OpCase {
  std::string name;
  Row row;
  ir::DType type;  // of the operands (of the arms of WHERE)
  ir::DType result;
  Shape shape;
  const ir::Node* ast = nullptr;
  std::vector<testing::KernelStorage> buffers;  // output, operands
};
OpCase make_case(ir::Graph& g, const Row& row, ir::DType type, const Shape& shape);

// CAST and BITCAST have two types.
OpCase make_cast_case(ir::Graph& g, ir::Op op, ir::DType from, ir::DType to, const Shape& shape);

// "" or the first element of `got` (the output buffer after the run) that is wrong.
std::string check_case(const OpCase& c, const testing::KernelStorage& got);

}  // namespace modeld::ops
