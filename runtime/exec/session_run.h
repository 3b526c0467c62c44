// session_run: a LINEAR of finished programs and copies on the devices its buffers name, in order.
// Part of Session. Contract: every variable is looked up, every buffer has memory and every program
// is on its device before the first call is submitted, so that those errors leave memory as it was.
// A call on multi-device buffers runs once per device with `_device_num` bound.
// Threading: one thread.
#pragma once

#include <cstdint>

#include "hal/base/clock.h"
#include "hal/base/status.h"

#include "runtime/exec/session_memory.h"
#include "runtime/exec/session_programs.h"
#include "runtime/ir/graph.h"
#include "runtime/schedule/capture.h"
#include "runtime/schedule/memory_plan_rewrite.h"

namespace modeld::exec {

struct RunCounts {
  uint64_t launches = 0, copies = 0;
};

// `counts` is right after an error too: what was submitted until then.
Status run_linear(ir::Graph& g,
                  const ir::Node* linear,
                  const schedule::VarBinds& vars,
                  const schedule::MemoryPlan& plan,
                  SessionMemory& memory,
                  SessionPrograms& programs,
                  Deadline deadline,
                  RunCounts& counts);

}  // namespace modeld::exec
