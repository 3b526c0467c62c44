// Tensor cores: what a matrix unit multiplies in one step and where it keeps the numbers (pipeline
// hand-book 6.5). The rows are tensor_cores.def; Scheduler::apply_opt(TC) uses them. This is not
// the text of the instruction (runtime/render) and not the opt.
// Threading: constant data.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hal/base/status.h"
#include "hal/target.h"

#include "runtime/ir/dtype.h"

namespace modeld::codegen {

// D[M][N] = A[M][K] * B[K][N] + C[M][N], once per group of `threads` lanes.
struct TensorCore {
  const char* name;
  int64_t n, m, k;
  int64_t threads;
  int64_t a_elements, b_elements, c_elements;  // per thread
  ir::DType a, b, c;                           // element types; c is the result's too
  const char* opts;                            // splits by two, see the table
  const char* swizzle_a;
  const char* swizzle_b;
  const char* kind;   // "cpu", "amd"
  const char* needs;  // CPU feature, or architecture
  bool declared;      // a renderer has text for it
};

std::span<const TensorCore> tensor_core_table();
const TensorCore* find_tensor_core(std::string_view name);
// Names of the rows this target can run and a C-like renderer can print, in table order.
std::vector<std::string> tensor_cores_of(const hal::Target& target);

// What TC(axis, (select, level, use)) carries besides its axis. Packed into an Opt's number as
// decimal digits: 100 * (select + 1) + 10 * level + use, so that recipes stay readable.
struct TcChoice {
  int64_t select = -1;  // row among the target's cores; -1 = the first that matches
  int64_t level = 0;    // 0 one reduce axis, 1 more of them, 2 may pad
  int64_t use = 1;      // 1 = the unit, 2 = only its shapes
};
int64_t tc_number(const TcChoice& c);
TcChoice tc_choice(int64_t number);

// Bit names of a core in table order: lanes l0.., registers u0.., steps of K r0...
struct TensorBits {
  std::vector<std::string> names;      // l.., u.., r..
  std::vector<int> axis;               // per name: 0 N, 1 M, 2 K
  std::vector<size_t> opts;            // per opt in order: index into names
  std::vector<size_t> for_a, for_b;    // swizzle: per name, the name standing for it
  std::vector<size_t> elements_order;  // r.., then u..: what operand elements are counted by
};
Result<TensorBits> tensor_bits(const TensorCore& core);
// Whether the row is consistent: sizes, counts per dimension, permutations, and that no operand
// needs a bit it does not hold.
Status check_tensor_core(const TensorCore& core);

}  // namespace modeld::codegen
