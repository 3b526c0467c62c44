// Deliberate defects of graph-fuzz --self-proof: each does to a LINEAR, its memory plan, its
// bindings or its kernels what a fault in the pipeline would have done. Contract: a LINEAR without
// the place for it stays as it is. Threading: one thread, as the Graph.
#pragma once

#include "runtime/exec/session.h"
#include "runtime/ir/graph.h"

namespace modeld::fuzz {

using Damage = void (*)(ir::Graph& g, exec::SessionLinear& work);

// ---- order and arguments of calls ----
void read_before_write(ir::Graph& g, exec::SessionLinear& work);
void write_before_read(ir::Graph& g, exec::SessionLinear& work);
void lose_call(ir::Graph& g, exec::SessionLinear& work);
void repeat_call(ir::Graph& g, exec::SessionLinear& work);
void write_elsewhere(ir::Graph& g, exec::SessionLinear& work);
void swap_operands(ir::Graph& g, exec::SessionLinear& work);
void unstage(ir::Graph& g, exec::SessionLinear& work);
void forget_offset(ir::Graph& g, exec::SessionLinear& work);  // of a kernel's argument
void forget_part(ir::Graph& g, exec::SessionLinear& work);    // of a copy's source
void bind_wrong(ir::Graph& g, exec::SessionLinear& work);

// ---- memory plan ----
void share_early(ir::Graph& g, exec::SessionLinear& work);
void shift_place(ir::Graph& g, exec::SessionLinear& work);
void mix_lanes(ir::Graph& g, exec::SessionLinear& work);

// ---- kernels ----
void widen_mask(ir::Graph& g, exec::SessionLinear& work);
void shift_flip(ir::Graph& g, exec::SessionLinear& work);
void turn_mask(ir::Graph& g, exec::SessionLinear& work);
void start_sum_at_one(ir::Graph& g, exec::SessionLinear& work);
void start_max_at_zero(ir::Graph& g, exec::SessionLinear& work);
void lose_rounding(ir::Graph& g, exec::SessionLinear& work);

}  // namespace modeld::fuzz
