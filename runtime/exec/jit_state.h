// JitState: what a captured Jit holds between calls: rows, the memory behind them, loaded code, the
// recording, result tensors. Part of Jit. Contract: load() brings back what free_intermediates gave
// up; run() may follow at once. Threading: one thread.
#pragma once

#include <memory>
#include <vector>

#include "hal/base/clock.h"
#include "hal/base/status.h"
#include "hal/device.h"

#include "runtime/exec/graph_replay.h"
#include "runtime/exec/jit_lower.h"
#include "runtime/exec/jit_signature.h"
#include "runtime/exec/session.h"

namespace modeld::exec {

struct SavedJit;

class JitState {
 public:
  JitState(Session& session, JitLowered lowered) : session_(session), rows_(std::move(lowered)) {}

  // `inputs`: the captured arguments' BUFFERs, canonical. kNotABuffer for a result without memory.
  Status set_results(std::vector<Live> results, const ir::NodeVec& inputs);
  // From a file: makes held memory and result tensors in the session. Its linear is moved out.
  Status restore(SavedJit& saved);

  Status load(const BatchOptions& batch);
  Status run(const BoundArgs& args, Deadline deadline);
  Status reinit(Deadline deadline);
  void free_intermediates();

  const JitLowered& rows() const { return rows_; }
  const std::vector<Live>& results() const { return results_; }
  // Views of PARAM m (row m of memories) and PARAM memories + i (input i).
  Result<const ir::Node*> result_view(size_t i) const;
  // Bytes of row i, held and bound.
  Result<std::vector<std::byte>> contents(size_t i, size_t bytes);
  const GraphReplay* replay() const { return replay_.get(); }
  std::vector<hal::Buffer> arenas() const;  // in the order of their rows
  size_t staged_copies() const { return staged_copies_; }
  uint64_t bound_bytes() const;

 private:
  Result<const ir::Node*> restore_place(const ir::Node* place,
                                        std::span<const BufferInfo> inputs) const;
  Status restore_result(const std::string& text, std::span<const BufferInfo> inputs);
  Status bind_memory();
  Status stage_inputs(const BoundArgs& args, Deadline deadline);
  Status check_written_inputs(const BoundArgs& args) const;
  void rebind_results(const BoundArgs& args);
  uint32_t memory_row(const ir::Node* buffer);

  Session& session_;
  JitLowered rows_;
  std::vector<Live> results_;
  std::vector<Live> restored_;  // held memory that came from a file: nobody else names it
  ir::NodeVec input_views_;     // per result: a view of PARAM i, input i; null: it never moves
  std::vector<hal::Device*> devices_;
  std::vector<hal::Buffer> memories_;                                 // per row; empty: given up
  std::vector<std::vector<std::shared_ptr<hal::Program>>> programs_;  // as ReplayBinding
  std::vector<bool> is_written_;                                      // per memory row
  std::vector<bool> is_input_written_;
  std::unique_ptr<GraphReplay> replay_;
  std::vector<hal::Buffer> inputs_;  // of this call: given or staged
  std::vector<hal::Buffer> staged_;  // per input: where it is copied when it must be
  size_t staged_copies_ = 0;
};

}  // namespace modeld::exec
