// Everything that changes what the scheduler produces, as one value passed down explicitly.
// This is not global configuration: nothing here reads the environment. Contract: digest() covers
// every field that changes a LINEAR, so it belongs into the schedule cache's key.
// Units: counts. Threading: plain value.
#pragma once

#include <cstdint>
#include <string>

#include "hal/base/hash.h"

namespace modeld::schedule {

struct ScheduleOptions {
  std::string device = "CPU";       // of values that have none of their own
  int64_t max_kernel_buffers = 31;  // arguments of one kernel, output included; 0 = no limit
  int64_t inline_max_buffers = 3;   // a staged value that reads more stays in memory
  bool stage_padded_reduce =
      true;                    // a reduce under a large PAD (concat of heads) gets its own kernel
  bool split_reduceop = true;  // cut huge reduces in two kernels
  int64_t split_threshold = 32768;  // input/output element ratio that counts as huge
  int64_t split_size_log2 = 22;     // bound of the intermediate
  // Several devices. RING and ALL2ALL: 0 never, 1 for large values on more than 2 devices, 2
  // always.
  int ring = 1;
  int all2all = 0;
  int64_t ring_allreduce_threshold = 256'000;  // elements above which a value is large
  bool allreduce_cast = true;      // sums of values cast from half precision travel in that
  bool late_allreduce = true;      // an ALLREDUCE is a call of its own, scheduled once per shape
  bool allreduce_in_place = true;  // chunks are read and written in place, not cut and added up
  bool cache = true;               // SCACHE: read and write the schedule cache
  int spec = 1;                    // SPEC: 0 = tensor graphs are not verified; not in the digest
  bool memory_planner = true;      // false = every buffer has its own memory
  bool best_fit = true;            // also try offline best fit and keep the smaller arena

  Hash128 digest() const;  // of the fields that change a LINEAR
};

}  // namespace modeld::schedule
