// The pipeline under test as random programs see it: live tensors of one Session, driven step by
// step; every realize() gives a LINEAR that can be looked at (and damaged by --self-proof) before
// it is compiled and run. Kernels run as compiled code on CPU devices of this process or, without
// compiler, in the kernel interpreter, where what the memory plan lets one buffer overwrite in
// another counts as lost. Contract: one Subject serves many programs one after the other; begin()
// forgets the tensors of the last one, not its LINEARs. Threading: one thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hal/base/status.h"

#include "runtime/exec/session.h"
#include "runtime/ir/graph.h"
#include "runtime/tensor/weight_store.h"

#include "selftest/fuzz/graph_program.h"
#include "selftest/testing/kernel_interp.h"

namespace modeld::fuzz {

// Where a tensor lies.
struct Place {
  const ir::Node* buffer = nullptr;
  int64_t first = 0;    // element of the buffer
  bool is_run = false;  // from there on, one after the other; else somewhere in the buffer
};

class Subject {
 public:
  // `interpret`: no compiler, no devices.
  Subject(exec::SessionOptions options, bool interpret);

  ir::Graph& graph() { return *g_; }
  const exec::SessionOptions& options() const { return session_->options(); }

  void begin();
  Status apply(const Step& step, size_t number);  // everything but realize
  Result<exec::SessionLinear> realize(const Step& step);
  std::optional<Place> place(size_t tensor) const;  // none: it has no memory

  // Compiles the kernels of all these LINEARs in one go; nothing to do for the interpreter.
  Status compile(std::vector<exec::SessionLinear*> linears);
  Status run(const exec::SessionLinear& work);
  // What is in memory now.
  Result<std::vector<double>> contents(const ir::Node* buffer);
  // Of the programs since the subject was made.
  exec::CompileStats compile_stats() const { return session_->stats().compile; }

 private:
  Result<tensor::Tensor> build(const Step& step, const std::vector<tensor::Tensor>& args);
  Status input(const Step& step, size_t number);
  Status interpret(const exec::SessionLinear& work);

  std::unique_ptr<ir::Graph> g_;
  std::unique_ptr<tensor::WeightStore> weights_;
  std::unique_ptr<exec::Session> session_;
  bool interpret_;
  std::map<size_t, exec::Live> live_;
  std::map<size_t, tensor::Tensor> dropped_;
  testing::BufferMap memory_;  // of the interpreter
};

}  // namespace modeld::fuzz
