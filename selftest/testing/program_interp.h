// Executes lowered, ordered programs (what renderers print) as a device would: work groups, local
// memory, barriers, waves that share a matrix unit; or the cores of a CPU. The proof of lowering
// that needs no renderer. Every item runs to the next barrier before any goes on, and what only
// works by luck is an error: local memory read or overwritten by another item without a barrier
// between, a barrier that not all items reach, a global element that two items write or one reads
// from another, an index outside of its buffer, a read of local or private memory nobody wrote, a
// lane that holds another number than its twin. Slow. Threading: one thread per Graph.
#pragma once

#include <cstdint>
#include <span>

#include "hal/base/status.h"

#include "runtime/ir/graph.h"

#include "selftest/testing/kernel_interp.h"

namespace modeld::testing {

// `linear` in order, `info` of the same program; args[k] is PARAM k, vars[k] the scalar after the
// buffers.
Status run_program(ir::Graph& g,
                   std::span<const ir::Node* const> linear,
                   const ir::ProgramInfo& info,
                   std::span<KernelStorage* const> args,
                   std::span<const int64_t> vars = {});

}  // namespace modeld::testing
