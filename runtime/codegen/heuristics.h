// Choice of opts by rule: the reference's steps and our CPU tiling. They only choose; legality and
// effect are Scheduler::apply_opt's. Contract: the input Scheduler is not changed, the returned one
// carries the applied opts. Threading: one thread per Graph.
#pragma once

#include "runtime/codegen/scheduler.h"

namespace modeld::codegen {

// Pipeline hand-book 6.4: every step the renderer's capabilities allow.
Scheduler hand_coded_optimizations(const Scheduler& start);
// Register tiles for the CPU: a vector axis, a reuse axis, unrolled short reduces, threads.
Scheduler cpu_heuristic(const Scheduler& start);

// Steps of a GPU (gpu_heuristic.cc). 2: four contiguous elements of an image-able buffer in one
// lane.
void upcast_images(Scheduler& s);
// 3 and 4: true = applied, and no further step follows.
bool apply_matvec(Scheduler& s);
bool apply_grouping(Scheduler& s);
// 9: at most 128 items per group over at most 3 axes, or NOLOCALS.
void apply_locals(Scheduler& s);
// Step 1: false when no matrix unit fits, and the Scheduler is as it was. The CPU's asks that the
// unit's N be `vector_range`, the loop along which results are contiguous.
bool tensor_core_step(Scheduler& s);
bool cpu_tensor_core_step(Scheduler& s, const ir::Node* vector_range);

// Step 10, shared by both: the largest thread count that pays and divides an axis.
void apply_threads(Scheduler& s);

// d(index)/d(range) when the index is linear in it (0 = unused); nullopt otherwise.
std::optional<int64_t> stride_of(ir::Graph& g, const ir::Node* index, const ir::Node* range);

}  // namespace modeld::codegen
