// Arguments of nodes: small values compared and hashed by content. Interned per Graph; never hold
// addresses.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "hal/base/hash.h"

#include "runtime/ir/op.h"

namespace modeld::ir {

// "No value": an index that must not be touched. dtype of its Const is kWeakInt for indices, kBool
// otherwise.
struct Invalid {
  bool operator==(const Invalid&) const = default;
};

enum class AddrSpace : uint8_t { kGlobal, kLocal, kReg, kAlu };

// BUFFER and PARAM.
struct ParamArg {
  int64_t slot = -1;  // PARAM: argument number, -1 = variable not numbered yet; BUFFER: unique id
  AddrSpace addrspace = AddrSpace::kGlobal;
  std::string name;    // variables and named buffers
  std::string device;  // "" = none
  int64_t vmin = 0;    // value range of variables (kAlu)
  int64_t vmax = 0;
  int64_t multiple_of = 1;
  bool is_volatile = false;
  int64_t axis = -1;  // PARAM of a FUNCTION: sharded along this axis (runtime/ir/sharding.h)
  bool operator==(const ParamArg&) const = default;
};

// Meaning and colour: pipeline hand-book 6.1. Order is not semantic; axis_position() is.
enum class AxisType : uint8_t {
  kDevice,
  kWeak,
  kLoop,
  kGlobal,
  kThread,
  kWarp,
  kLocal,
  kGroupReduce,
  kUpcast,
  kReduce,
  kUnroll,
  kPlaceholder
};

struct RangeArg {
  int64_t id = 0;
  AxisType type = AxisType::kWeak;
  bool operator==(const RangeArg&) const = default;
};

struct ReduceArg {
  Op op = Op::kAdd;
  int64_t axes = 0;  // number of leading axes reduced
  bool operator==(const ReduceArg&) const = default;
};

struct StageArg {
  AddrSpace addrspace = AddrSpace::kGlobal;
  std::string device;
  bool removable = true;
  bool operator==(const StageArg&) const = default;
};

// ALLREDUCE: fold of the parts of a multi-device value, placed on `device` (one or a tuple).
struct AllReduceArg {
  Op op = Op::kAdd;
  std::string device;
  bool operator==(const AllReduceArg&) const = default;
};

// WMMA: one step of a matrix unit, a vector of results. The axes say which of the loops it closes
// make up an operand's elements, by range id, the fastest first; they are empty once the expander
// has written the operands as vectors.
struct WmmaArg {
  std::string core;  // a row of runtime/codegen/tensor_cores.def
  std::vector<int64_t> a_axes, b_axes;
  bool operator==(const WmmaArg&) const = default;
};

enum class OptOp : uint8_t {
  kTc,
  kUpcast,
  kUnroll,
  kLocal,
  kGroup,
  kGroupTop,
  kThread,
  kNoLocals,
  kPadTo,
  kSwap
};

struct Opt {
  OptOp op = OptOp::kUpcast;
  int64_t axis = 0;
  int64_t arg = 0;
  bool operator==(const Opt&) const = default;
};
using Opts = std::vector<Opt>;

// What a SINK that is one kernel body carries.
struct KernelInfo {
  std::string name;  // "" until apply_opts names it
  Opts applied_opts;
  std::optional<Opts> opts_to_apply;  // set but empty = "none", not "auto"
  bool dont_use_locals = false;
  int64_t beam = 0;
  bool operator==(const KernelInfo&) const = default;
};

// Derived by scanning the final sink of a program.
struct ProgramInfo {
  std::string name;                    // function name
  std::vector<int64_t> globals;        // slots of buffer params, sorted
  std::vector<int64_t> outs;           // slots stored
  std::vector<int64_t> ins;            // slots loaded
  std::vector<std::string> vars;       // scalar params by slot order (after the buffers)
  int64_t global_size[3] = {1, 1, 1};  // groups; CPU: [0] = number of core ranges
  int64_t local_size[3] = {1, 1, 1};   // work items per group; 0 = of the device's choice
  int64_t flops = 0;      // estimates: MulAcc counts 2, times loop counts; index math excluded
  int64_t lds_bytes = 0;  // all bytes moved
  int64_t mem_bytes = 0;  // unique bytes per (param, load/store)
  bool operator==(const ProgramInfo&) const = default;
};

using Ints = std::vector<int64_t>;
using Arg = std::variant<std::monostate,
                         int64_t,
                         double,
                         bool,
                         Invalid,
                         std::string,
                         Ints,
                         ParamArg,
                         RangeArg,
                         ReduceArg,
                         StageArg,
                         Opts,
                         KernelInfo,
                         ProgramInfo,
                         AllReduceArg,
                         WmmaArg>;

// Unambiguous text of an argument (floats by bits): the basis of hashing and printing.
std::string arg_text(const Arg& arg);
std::string opt_text(const Opt& opt);  // "UPCAST(0,4)"
std::string opts_text(const Opts& opts);
const char* axis_name(AxisType t);
int axis_position(AxisType t);  // sort position of pipeline hand-book 6.1

}  // namespace modeld::ir
