// Shared printing of C-like languages: one statement per instruction unless it can stand inside
// its only user, accumulators as named variables, RANGE as for, END as }. What differs between
// dialects is in CDialect. Contract: see renderer.h. Threading: pure.
#pragma once

#include <span>
#include <string>

#include "hal/base/status.h"

#include "runtime/ir/graph.h"

namespace modeld::render {

enum class CLanguage : uint8_t {
  kC,       // clang's C for a CPU: arguments are words, vectors by extension
  kOpenCl,  // OpenCL C 1.2 for any driver, core features only
  kAmd,     // OpenCL C for clang's amdgcn without any library: compiler builtins
};

struct CDialect {
  CLanguage language = CLanguage::kC;
  // kC: _Float16 loads, stores and converts; else f16 is its 16 bits. The OpenCL dialects carry the
  // value of a half as a float: core OpenCL only loads and stores the type.
  bool native_f16 = false;
  bool has_trunc = true;  // TRUNC is one instruction

  bool is_opencl() const { return language != CLanguage::kC; }
};

// Type of a scalar value, and of a vector of `lanes` (the scalar's for 1). Vectors of bool are
// masks of signed char, 0 or -1; scalars of bool are unsigned char, 0 or 1.
std::string c_type(const CDialect& dialect, ir::DType t, int64_t lanes = 1);
// Type of an element in memory.
std::string c_memory_type(const CDialect& dialect, ir::DType t);
// Short name used in vector type names: "f32".
const char* c_short(ir::DType t);
// A literal of type t.
std::string c_literal(const CDialect& dialect, ir::DType t, const ir::Node* constant);

// One access to memory that is not a register.
struct CAccess {
  ir::DType type = ir::DType::kF32;
  int64_t width = 1;
  ir::AddrSpace space = ir::AddrSpace::kGlobal;
  std::string base, index;  // element index; of an image x, the pixel in its row
  std::string row;          // of an image y; "" for a buffer
};
std::string c_read(const CDialect& dialect, const CAccess& access);  // expression
std::string c_write(const CDialect& dialect, const CAccess& access, const std::string& value);

// Lane of a vector, a vector of elements, a vector converted lane by lane.
std::string c_lane(const CDialect& dialect, const std::string& vector, int64_t lane);
std::string c_vector(const CDialect& dialect, const std::string& type, const std::string& elements);
std::string c_convert(const CDialect& dialect, const std::string& vector, const std::string& type);
// The bits of a value as another type of its size; OpenCL alone has a word for those of vectors.
std::string c_bits(
    const CDialect& dialect, ir::DType from, ir::DType to, const std::string& text, int64_t lanes);
// "sqrt", "trunc", "exp2", "log2", "sin" of an expression.
std::string c_math(const CDialect& dialect, const char* function, const std::string& text);
// A hardware index: "gidx0", "lidx1", "idx0".
std::string c_special(const CDialect& dialect, const std::string& name);
// The statement that makes a work group wait for local memory.
const char* c_barrier(const CDialect& dialect);

// The function's body between its braces.
Result<std::string> c_body(const CDialect& dialect,
                           ir::Graph& g,
                           std::span<const ir::Node* const> linear);

}  // namespace modeld::render
