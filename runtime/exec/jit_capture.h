// JitCapture: takes every LINEAR that is made while a Jit's function runs, and the decision which
// of their calls have to run again in each replay. Contract: LINEARs are kept in order and joined
// to one; two values for one variable are kBindMismatch. Pruning follows the data: a call may run
// once instead of every time only if nothing it reads depends on an input or changes from run to
// run, and nobody who stays writes its result or read the place before. Threading: one thread.
#pragma once

#include <span>
#include <vector>

#include "hal/base/status.h"

#include "runtime/ir/graph.h"
#include "runtime/schedule/capture.h"

namespace modeld::exec {

class JitCapture final : public schedule::Capturer {
 public:
  Status add_linear(const ir::Node* linear, const schedule::VarBinds& vars) override;
  bool is_collecting() const override { return is_collecting_; }
  void collect(bool on) { is_collecting_ = on; }
  size_t count() const { return linears_.size(); }
  const ir::Node* joined(ir::Graph& g) const;
  const schedule::VarBinds& vars() const { return vars_; }

 private:
  ir::NodeVec linears_;
  schedule::VarBinds vars_;
  bool is_collecting_ = true;
};

// What a compiled call (COPY, or PROGRAM with ProgramInfo) reads and writes, by BUFFER.
struct BufferAccess {
  ir::NodeVec reads, writes;
};
Result<BufferAccess> buffer_access(const ir::Node* call);

struct Pruned {
  const ir::Node* kept = nullptr;  // LINEARs
  const ir::Node* once = nullptr;
};
// Of a compiled LINEAR; `inputs`: BUFFERs that are other ones in every call.
Result<Pruned> prune(ir::Graph& g, const ir::Node* linear, std::span<const ir::Node* const> inputs);

// BUFFERs of a LINEAR whose contents before its first call are read, in order.
Result<ir::NodeVec> read_before_written(const ir::Node* linear);

}  // namespace modeld::exec
