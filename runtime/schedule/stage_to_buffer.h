// stage_to_buffer: every STAGE becomes a flat BUFFER, a STORE loop and an AFTER. Needs final STAGE
// decisions; gives plain buffer states. Contract: equal STAGEs share one buffer; a weak value is
// stored in its strong type and cast back. Threading: one thread per Graph.
#pragma once

#include "hal/base/status.h"

#include "runtime/ir/graph.h"
#include "runtime/schedule/options.h"

namespace modeld::schedule {

Result<const ir::Node*> stage_to_buffer(ir::Graph& g,
                                        const ir::Node* sink,
                                        const ScheduleOptions& options = {});

}  // namespace modeld::schedule
