// session_states: which live tensors still read contents that a call overwrites. Part of Session.
// Contract: a state is overwritten when a write of the call supersedes it; two writes that
// supersede one state leave no right contents and are kStaleReader. Threading: pure.
#pragma once

#include <span>

#include "hal/base/status.h"

#include "runtime/ir/graph.h"
#include "runtime/schedule/transform_to_call.h"

namespace modeld::exec {

struct StaleReads {
  ir::NodeVec states;  // overwritten ones that live tensors read, in order found
  // Keys of the call's map whose storage does not hold their value after the call: to be forgotten.
  ir::NodeVec keys;
};

Result<StaleReads> stale_reads(const schedule::CallAndMap& call,
                               std::span<const ir::Node* const> live);

// BUFFERs below these nodes, bodies of functions included, in order of first visit.
ir::NodeVec buffers_below(std::span<const ir::Node* const> nodes);

// The storage buffers the call's writes end in.
ir::NodeVec written_buffers(const schedule::CallAndMap& call);

}  // namespace modeld::exec
