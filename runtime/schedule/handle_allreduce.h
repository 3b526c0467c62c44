// handle_allreduce: ALLREDUCE -> copies and kernels. Which of the three ways to move the data is
// taken is a pure function of counts and options; each folds in a fixed order, so a result is
// reproducible but may differ between ways in the last bits.
//   naive       every device gets every part: n(n-1) copies of everything, folded from device 0 on
//   ring        chunk i starts on device i and collects around the ring, then goes around again
//   all-to-all  chunk i is collected and folded on device i (from device 0 on), then sent to all
// Contract: symbolic dims always go the naive way, at their largest size. Units: elements.
// Threading: one thread per Graph.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/ir/graph.h"
#include "runtime/schedule/options.h"

namespace modeld::schedule {

struct Multi;

enum class AllReduceWay : uint8_t { kNaive, kRing, kAllToAll };
AllReduceWay allreduce_way(int64_t devices,
                           int64_t elements,
                           bool concrete,
                           const ScheduleOptions& options);

// Where the n chunks of so many elements end; an empty chunk ends where the one before does.
std::vector<int64_t> chunk_ends(int64_t elements, int64_t devices);

// The value of the ALLREDUCE. With options.late_allreduce the algorithm is the body of a call of
// its own: AFTER(out, CALL(SINK(store(param 0, algorithm(param 1))), out, in)), whose key depends
// on type, shape and devices only, so it is scheduled once; else it becomes part of the caller's
// graph.
const ir::Node* handle_allreduce(Multi& m, const ir::Node* allreduce);

}  // namespace modeld::schedule
