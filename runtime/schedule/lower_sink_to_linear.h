// lower_sink_to_linear: SINK(stores on PARAMs) -> LINEAR of kernel calls on PARAMs and template
// BUFFERs, remembered in a schedule cache. Needs transform_to_call's body. Contract: the key is the
// body's content key with ScheduleOptions::digest(); with options.cache off (SCACHE=0) the cache is
// neither read nor written; a SINK that already is a kernel (KernelInfo) passes through; a FUNCTION
// is a value and kValueScheduled. A hit skips preparing, the spec check and ordering; it says
// nothing about compiled kernels or memory. Threading: the cache may be shared; each Graph belongs
// to one thread.
#pragma once

#include <cstdint>

#include "hal/base/status.h"

#include "runtime/ir/graph.h"
#include "runtime/schedule/options.h"

namespace modeld::schedule {

struct ScheduleCacheStats {
  int64_t hits = 0;
  int64_t misses = 0;
  int64_t entries = 0;
  int64_t spec_checks = 0;  // graphs verified, so never more than misses while the cache is on
};

Result<const ir::Node*> lower_sink_to_linear(ir::Graph& g,
                                             const ir::Node* sink,
                                             const ScheduleOptions& options = {});

ScheduleCacheStats schedule_cache_stats();
void schedule_cache_clear();

}  // namespace modeld::schedule
