// split_reduceop: cuts a reduce whose input is huge against its output into two kernels, so that
// the first has enough parallel outputs. Needs REDUCE on leading axes; runs before indexing because
// it speaks of axes. Contract: nullptr = leave it alone. Threading: one thread per Graph.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/ir/graph.h"
#include "runtime/schedule/options.h"

namespace modeld::schedule {

struct ReduceSplit {
  size_t axis = 0;      // which of the reduced axes
  int64_t divisor = 0;  // how many partial results it leaves
};
// The arithmetic alone. `in`: input dims, the first k are reduced; `is_broadcast`: axis carries no
// data of its own.
std::optional<ReduceSplit> choose_split(std::span<const int64_t> in,
                                        int64_t k,
                                        const std::vector<bool>& is_broadcast,
                                        const ScheduleOptions& options);

const ir::Node* split_reduceop(ir::Graph& g,
                               const ir::Node* reduce,
                               const ScheduleOptions& options);

}  // namespace modeld::schedule
