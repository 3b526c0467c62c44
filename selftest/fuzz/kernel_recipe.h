// A random kernel as plain data: loops, buffers, values in order, stores. It can be made smaller,
// printed, turned into a kernel AST (kernel_ast.h) and computed by hand (kernel_oracle.h).
// Contract: a value uses earlier values only; a store's value depends on no reduce loop.
// Threading: plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/ir/arg.h"
#include "runtime/ir/dtype.h"
#include "runtime/ir/op.h"

namespace modeld::fuzz {

struct RecipeLoop {
  int64_t size = 1;
  bool is_reduce = false;
};

// How one dimension of a buffer is addressed by the loops. `extent` of a dimension follows from it.
enum class TermForm : uint8_t {
  kPlain,      // L
  kFlip,       // size - 1 - L
  kPad,        // L - p where it is inside 0 .. size - p - q, else no access
  kStride,     // L * p + q
  kShift,      // L + p
  kMod,        // L % p
  kDiv,        // L / p
  kWindow,     // L + M
  kPadWindow,  // L + M - p where it is inside, else no access
  kJointMod,   // (L * |M| + M) % p
  kJointDiv,   // (L * |M| + M) / p
  kGather,     // an integer value; no access where it is outside of 0 .. p
  kVariable,   // L + variable
};

struct Term {
  TermForm form = TermForm::kPlain;
  size_t loop = 0, other = 0;  // L, M
  int64_t p = 0, q = 0;
  size_t step = 0;  // kGather: the value
};

struct RecipeBuffer {
  ir::DType dtype = ir::DType::kF32;
  int64_t size = 1;
  uint64_t seed = 0;          // of its contents
  bool has_specials = false;  // NaN, infinities, zeros with a sign among floats
  int64_t index_limit = 0;    // integers in -2 .. limit + 1: a table for kGather
};

enum class StepKind : uint8_t {
  kRead,  // buffer[terms, offset]
  kConst,
  kIota,      // a loop's value
  kInside,    // bool: low <= loop < high
  kVariable,  // the scalar argument
  kAlu,
  kCast,
  kBitCast,
  kReduce,  // over `loops`
};

struct KernelStep {
  StepKind kind = StepKind::kConst;
  ir::Op op = ir::Op::kAdd;
  ir::DType dtype = ir::DType::kF32;
  std::vector<size_t> src;
  double value = 0;
  size_t buffer = 0;
  std::vector<Term> terms;
  int64_t offset = 0;
  size_t loop = 0;
  int64_t low = 0, high = 0;
  std::vector<size_t> loops;
};

// Output k writes buffer k. Its index visits the output loops in `order`, some backwards, every
// `stride`-th element from `offset` on; elements between keep what they held.
struct RecipeOutput {
  size_t value = 0;
  std::vector<size_t> order;
  std::vector<bool> flipped;
  int64_t stride = 1, offset = 0;
  bool is_gated = false;  // only where low <= loop < high
  size_t gate_loop = 0;
  int64_t low = 0, high = 0;
};

struct KernelRecipe {
  std::vector<RecipeLoop> loops;
  std::vector<RecipeBuffer> buffers;  // outputs first
  std::vector<KernelStep> steps;
  std::vector<RecipeOutput> outputs;
  bool has_variable = false;
  int64_t variable_max = 0, variable = 0;
};

int64_t extent(const KernelRecipe& r, const Term& t);
// Output loops' product; elements of output `o` with its gaps.
int64_t output_count(const KernelRecipe& r);
int64_t output_size(const KernelRecipe& r, const RecipeOutput& o);
int64_t read_size(const KernelRecipe& r, const KernelStep& s);
// Reduce loops every value still depends on, as bit masks by loop.
std::vector<uint64_t> open_loops(const KernelRecipe& r);
// Every contract of this file; buffers are at least as large as what reads and writes them.
bool is_sound(const KernelRecipe& r);
// Takes out what no output needs and makes buffers as small as they may be.
KernelRecipe tidied(const KernelRecipe& r);

std::string print(const KernelRecipe& r);

}  // namespace modeld::fuzz
