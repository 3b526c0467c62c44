// limit_buffers: stages operands of elementwise work that would read more buffers than one kernel
// may have. Needs cleaned-up STAGEs; runs before they become buffers. Contract: no kernel names
// more than options.max_kernel_buffers buffers, its output included. Threading: one thread.
#pragma once

#include "hal/base/status.h"

#include "runtime/ir/graph.h"
#include "runtime/schedule/options.h"

namespace modeld::schedule {

Result<const ir::Node*> limit_buffers(ir::Graph& g,
                                      const ir::Node* sink,
                                      const ScheduleOptions& options = {});

}  // namespace modeld::schedule
