// check_multi: what a graph asks of several devices and no rule of resolve_multi can give. It looks
// at derived properties only, so it can run on the caller's graph, where buffers still have names.
// Contract: kDeviceTuple, kMixedAxes, kMovedShards, kPadSharded, kFlipSharded, kShrinkSharded, each
// naming the tensor. Threading: one thread per Graph.
#pragma once

#include "hal/base/status.h"

#include "runtime/ir/graph.h"

namespace modeld::schedule {

// Is there a value on several devices at all?
bool has_multi(ir::Graph& g, const ir::Node* root);
Status check_multi(ir::Graph& g, const ir::Node* root);

// What a SHRINK takes of the sharded axes of its source.
struct ShrinkReach {
  enum class Kind : uint8_t {
    kWhole,    // all of each
    kOwnPart,  // on each device what it holds: start = coordinate x size
    kOnePart,  // the same part of each on all devices
    kOther,    // refused
  };
  Kind kind = Kind::kWhole;
  ir::Ints parts;  // kOnePart: which, per sharded axis
};
ShrinkReach shrink_reach(ir::Graph& g, const ir::Node* shrink);

}  // namespace modeld::schedule
