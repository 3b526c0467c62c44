// What a kernel is lowered for: renderer capabilities and every switch that changes the generated
// code. This is not the compiler's flags (runtime/compile) and not a device. Contract: plain
// values; everything here except `debug`, `spec` and the functions is part of to_program_key().
// Threading: plain values; the functions must be callable from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "hal/base/status.h"
#include "hal/target.h"

#include "runtime/ir/graph.h"

namespace modeld::codegen {

// What the renderer's language can say. A C renderer for the CPU has threads and no locals.
struct RendererCaps {
  std::string name = "c";
  bool has_locals = false;
  bool has_threads = true;
  int64_t shared_max = 32768;                     // bytes of work-group memory
  int64_t global_max[3] = {64, 1, 1};             // groups per grid dimension; [0] bounds THREAD
  int64_t local_max[3] = {1, 1, 1};               // work items per group dimension
  int64_t group_max = 1;                          // work items per group
  std::vector<std::string> tensor_cores;          // rows of tensor_cores.def; TC selects by place
  std::vector<int64_t> widths32 = {16, 8, 4, 2};  // vector widths of 32-bit and narrower elements
  std::vector<int64_t> widths64 = {8, 4, 2};      // of 64-bit elements
  bool unaligned_vectors = true;                  // a vector access needs only element alignment
  bool any_vectors = true;  // vectors of every type; false: f32, f16, i32, u32 and 8-bit floats
  bool pack_lanes = true;   // elementwise work on whole vectors may be vector arithmetic
  bool native_f16 = true;   // f16 <-> f32 conversion without a library call
  bool native_i64 = true;   // else i64 and u64 are two 32-bit words (long_decomp.cc)
  bool has_trunc = true;    // TRUNC without a library call
  bool has_mulacc = false;  // MULACC as one operation
  // f32 transcendentals as one operation of full precision; others are written as polynomials.
  bool has_exp2 = false;
  bool has_log2 = false;
  bool has_sin = false;
  bool image = false;  // 4-wide buffers become 2D images (pass "images")
  bool operator==(const RendererCaps&) const = default;

  // Vector widths of a type's memory accesses, largest first.
  const std::vector<int64_t>& widths(ir::DType t) const {
    static const std::vector<int64_t> kNone;
    const bool common = t == ir::DType::kF32 || t == ir::DType::kF16 || t == ir::DType::kI32 ||
                        t == ir::DType::kU32 || (ir::is_float(t) && ir::item_bits(t) == 8);
    if (!any_vectors && !common) return kNone;
    if (!native_i64 && (t == ir::DType::kI64 || t == ir::DType::kU64)) return kNone;
    return ir::item_bits(t) > 32 ? widths64 : widths32;
  }
};

enum class Heuristic : uint8_t {
  kCpu,        // vector axis = the contiguous output axis, see cpu_heuristic.cc
  kReference,  // pipeline hand-book 6.4, step by step
};

// Ordered instructions -> source text of one function. Set by the caller (runtime/render), so that
// code generation knows no language.
using RenderFn = std::function<Result<std::string>(
    ir::Graph&, std::span<const ir::Node* const> linear, const std::string& name)>;

// Machine code of one kernel: a listing for people and the image (text, constants, entry at 0).
struct Assembly {
  std::string listing;
  std::vector<std::byte> code;
};
// Program sink -> the same sink with INS nodes; and those, ordered, to machine code. Set together
// (runtime/isa) they take the place of `render` and of the back-end compiler.
using SelectFn = std::function<Result<const ir::Node*>(ir::Graph&, const ir::Node* sink)>;
using AssembleFn = std::function<Result<Assembly>(
    ir::Graph&, std::span<const ir::Node* const> linear, const std::string& name)>;

// Opts for a kernel whose KernelInfo asks for a search (beam >= 1). Set by runtime/exec, which has
// devices and compilers; `start` stands where apply_opts stands. Not part of keys: the width is, in
// the AST.
class Scheduler;
using SearchFn = std::function<Result<ir::Opts>(const Scheduler& start, int64_t width)>;

struct CodegenOptions {
  hal::Target target;
  RendererCaps caps;
  RenderFn render;
  SelectFn select;
  AssembleFn assemble;
  SearchFn search;
  Heuristic heuristic = Heuristic::kCpu;
  int tc = 1;                // heuristic's tensor cores: 0 none, 1 use, 2 only their shapes
  int tc_opt = 0;            // 1 also with several reduce axes, 2 also padded
  bool noopt = false;        // no hand_coded_optimizations; explicit opts still apply
  bool nolocals = false;     // work groups of the device's choice: the heuristic applies NOLOCALS
  bool double_acc = false;   // float math in double (numeric reference); storage keeps its type
  bool no_contract = false;  // no fused multiply-add anywhere in this kernel
  bool fast_idiv = false;    // division by a constant as multiply and shift
  int spec = 1;              // 0 = no verification between passes; not in the key
  int debug = 0;             // not in the key
};

// Capabilities of the C renderer on this target.
RendererCaps cpu_caps(const hal::Target& target);
// Options for a CPU target; `render` is left empty.
CodegenOptions cpu_options(const hal::Target& target);
// Capabilities of the OpenCL C renderers: "cl" for any OpenCL 1.2 device, "amd" for clang's amdgcn.
RendererCaps gpu_caps(const hal::Target& target);
// Options for a cl or amd target; `render` is left empty.
CodegenOptions gpu_options(const hal::Target& target);
// Every field that changes code, as text; equal text = equal code.
std::string options_text(const CodegenOptions& options);

}  // namespace modeld::codegen
