// remove_bufferize: undoes materialisation that does not pay, and simplifies what is left. Needs
// run_rangeify's STAGEs; gives fewer of them. Runs right after it because run_rangeify decides
// without looking at costs. Contract: a value that reads more than options.inline_max_buffers
// buffers, or reduces over memory, keeps its STAGE; CONTIGUOUS and custom call inputs always do.
// Threading: one thread per Graph.
#pragma once

#include "hal/base/status.h"

#include "runtime/ir/graph.h"
#include "runtime/schedule/options.h"

namespace modeld::schedule {

enum class StageVerdict : uint8_t { kInline, kKeep };
// The truth table alone.
StageVerdict stage_verdict(ir::Graph& g, const ir::Node* stage, int64_t inline_max_buffers);

Result<const ir::Node*> remove_bufferize(ir::Graph& g,
                                         const ir::Node* sink,
                                         const ScheduleOptions& options = {});

}  // namespace modeld::schedule
