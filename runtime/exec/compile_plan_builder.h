// PlanBuilder: scheduled entries and finished kernels to the tables of a Plan: slots, weights,
// arenas, buffers, calls. It decides nothing about kernels or order; it only numbers what the
// schedule named. Contract: entries are added in order, then finish() once. Numbers depend only on
// that order. Threading: one thread, as the Graph.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hal/base/hash.h"
#include "hal/base/status.h"

#include "runtime/exec/compile_plan.h"
#include "runtime/exec/lower_and_compile.h"
#include "runtime/exec/plan.h"
#include "runtime/ir/graph.h"
#include "runtime/schedule/schedule.h"
#include "runtime/tensor/weight_store.h"

namespace modeld::exec {

class PlanBuilder {
 public:
  // `rows` sorted by key; they become plan.programs.
  PlanBuilder(ir::Graph& g,
              const tensor::WeightStore& weights,
              std::span<const LoweredRow> rows,
              Plan& plan);

  // `keys`: program key of each call of the schedule, none for copies.
  Status add_entry(const EntrySpec& spec,
                   const schedule::Schedule& schedule,
                   std::span<const std::optional<Hash128>> keys);
  // Copies the weights, sums the memory figures, checks the plan.
  Status finish();

 private:
  struct ArenaNeed;
  struct Scope;  // names of one entry

  Status bind_interface(const EntrySpec& spec, const schedule::Schedule& schedule, Scope& scope);
  Result<TensorInfo> tensor_info(const Binding& binding, uint32_t slot);
  Status add_call(const ir::Node* call, const std::optional<Hash128>& key, Scope& scope);
  Status add_program_args(const ir::Node* call,
                          const LoweredRow& program,
                          Scope& scope,
                          CallRow& row);
  void add_arena_uses(const schedule::MemoryPlan& memory, const Scope& scope);
  Result<ArgRef> address_of(const ir::Node* arg, Scope& scope);
  Result<uint32_t> weight_buffer(int64_t slot, const ir::Node* buffer);
  uint32_t arena_index(uint32_t lane);
  uint32_t add_buffer(const BufferRow& row);

  ir::Graph& g_;
  const tensor::WeightStore& weights_;
  std::span<const LoweredRow> rows_;
  Plan& plan_;
  std::map<Hash128, uint32_t> program_index_;
  std::map<BufferRow, uint32_t> buffer_index_;
  std::map<int64_t, uint32_t> weight_of_slot_;  // WeightStore slot -> Plan::weights
  std::map<std::pair<Hash128, uint64_t>, uint32_t> weight_of_content_;
  std::vector<const tensor::Weight*> weight_data_;          // per row of Plan::weights
  std::map<std::pair<std::string, bool>, uint32_t> lanes_;  // (device, copy) -> lane
};

}  // namespace modeld::exec
