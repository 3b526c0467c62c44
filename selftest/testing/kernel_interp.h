// Executes kernel ASTs (what the scheduler hands to code generation) and whole LINEARs directly on
// host memory: the oracle that proves scheduling and lowering before any code generator exists.
// Contract: loops in order, integers exact in 64 bits and wrapped to their type, floats computed in
// double and rounded to their type by casts, stores and `round_floats`; a gated-off read is 0, a
// gated-off store nothing; an index outside its buffer, a read of an element nobody wrote
// (run_linear only) or an unknown op is an error. Slow. Threading: one thread per Graph.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "hal/base/status.h"

#include "runtime/ir/graph.h"

namespace modeld::testing {

// One flat buffer. Floats live in `f`, everything else in `i`.
struct KernelStorage {
  ir::DType dtype = ir::DType::kF32;
  std::vector<double> f;
  std::vector<int64_t> i;
  std::vector<bool> written;  // empty = all

  static KernelStorage of(ir::DType dtype, size_t count);  // zeros
  static KernelStorage floats(std::span<const double> values, ir::DType dtype = ir::DType::kF32);
  static KernelStorage ints(std::span<const int64_t> values, ir::DType dtype = ir::DType::kI32);
  size_t size() const { return ir::is_float(dtype) ? f.size() : i.size(); }
  double at(size_t n) const { return ir::is_float(dtype) ? f[n] : static_cast<double>(i[n]); }
  std::vector<double> doubles() const;
};

struct InterpOptions {
  bool round_floats = false;  // after every operation, not only at casts and stores
};

using KernelVars = std::map<std::string, int64_t>;
// By BUFFER node; one on several devices has a storage per device, by MSELECT(BUFFER, i).
using BufferMap = std::map<const ir::Node*, KernelStorage>;

// `sink`: SINK of END/STORE; args[k] is PARAM k.
Status run_kernel(ir::Graph& g,
                  const ir::Node* sink,
                  std::span<KernelStorage* const> args,
                  const KernelVars& vars = {},
                  const InterpOptions& options = {});

// Every call in order; a call on multi-device buffers once per device. Buffers missing in `buffers`
// are made, with no element written yet.
Status run_linear(ir::Graph& g,
                  const ir::Node* linear,
                  BufferMap* buffers,
                  const KernelVars& vars = {},
                  const InterpOptions& options = {});

}  // namespace modeld::testing
