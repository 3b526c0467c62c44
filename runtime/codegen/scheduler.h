// Scheduler: one kernel AST under optimisation; apply_opt turns its axes into UPCAST, UNROLL,
// THREAD ... (pipeline hand-book 6.2). This is not the choice of opts (hand_coded_optimizations.cc,
// cpu_heuristic.cc). Contract: an illegal opt is an error and leaves the Scheduler unchanged; each
// condition has a Fault of its own (runtime/ir/fault.def, the rows opt_* and tc_*).
// Threading: one thread, like its Graph.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hal/base/status.h"

#include "runtime/codegen/options.h"
#include "runtime/ir/graph.h"

namespace modeld::codegen {

struct TensorBits;
struct TensorCore;

class Scheduler final {
 public:
  Scheduler(ir::Graph& g, const ir::Node* ast, const CodegenOptions& options);

  ir::Graph& graph() const { return *g_; }
  const CodegenOptions& options() const { return *options_; }
  const ir::Node* ast() const { return ast_; }
  const ir::Opts& applied_opts() const { return applied_; }

  // Axes sorted by (axis position, id): the numbering opts use.
  const ir::NodeVec& axes() const { return axes_; }
  int64_t size(size_t axis) const;                 // vmax + 1
  int64_t axis_size_of(const ir::Opt& opt) const;  // of the axis an opt means; 0: it has none
  ir::AxisType type(size_t axis) const;
  std::vector<size_t> axes_of(std::initializer_list<ir::AxisType> types) const;
  std::vector<size_t> upcastable() const;  // GLOBAL, LOCAL, WEAK of concrete size > 1
  std::vector<size_t> unrollable() const;  // REDUCE, GROUP_REDUCE of concrete size > 1
  int64_t upcast_size() const;             // product of UPCAST and UNROLL sizes
  int64_t output_upcast() const;           // product of UPCAST sizes
  ir::NodeVec buffers() const;             // INDEX nodes on memory, stores' targets included
  ir::NodeVec reduces() const;             // REDUCE nodes, sources first

  Status apply_opt(const ir::Opt& opt);
  // After TC: what is left of N (0) or M (1), nullopt when the unit takes all of it; and the id of
  // the range it was, -1 without TC.
  std::optional<size_t> tc_axis(size_t of) const;
  int64_t tc_range_id(size_t of) const { return tc_ids_[of]; }
  // WEAK output loops that every store has become GLOBAL (renderers with locals).
  void convert_weak_to_global();
  // SINK with KernelInfo (name, applied_opts, dont_use_locals) and tag 1.
  const ir::Node* optimised_ast(const std::string& name) const;
  // "r_16_32" or "E_1024", one size per axis.
  std::string auto_name() const;

 private:
  ir::Graph* g_;
  std::shared_ptr<const CodegenOptions>
      options_;  // shared: trial copies of a scheduler are many, the options one
  const ir::Node* ast_;
  ir::NodeVec axes_;
  ir::Opts applied_;
  bool dont_use_locals_ = false;
  int64_t tc_ids_[2] = {-1, -1};  // ranges TC took as N and M

  Result<size_t> real_axis(const ir::Opt& opt) const;
  Status check_amount(const ir::Opt& opt, size_t axis, int64_t amount) const;
  Status check_legal(const ir::Opt& opt, size_t axis, int64_t amount) const;
  Status check_group(const ir::Opt& opt, size_t axis) const;
  Status check_locals(const ir::Opt& opt) const;
  Status check_thread(const ir::Opt& opt, size_t axis, int64_t amount) const;
  Status check_shared(const ir::Opt& opt, int64_t amount) const;
  Status check_pad(const ir::Opt& opt, size_t axis) const;
  Status apply_swap(const ir::Opt& opt, size_t axis);
  Status apply_no_locals(const ir::Opt& opt);
  void shift(size_t axis, int64_t amount, ir::AxisType type, bool top);
  // What keeps padded steps of a reduce out of its result.
  enum class Mask : uint8_t {
    kValue,    // the reduced value is the neutral element
    kFactors,  // both factors of the product are 0, so that the product stays a product
  };
  void pad_to(size_t axis, int64_t multiple, Mask mask);
  void set_ast(const ir::Node* ast);
  bool has_axis(ir::AxisType type) const;

  // tensor_core_opt.cc
  Status apply_tc(const ir::Opt& opt);
  Result<const ir::Node*> tc_reduce(const ir::Opt& opt) const;
  Status apply_core(const ir::Opt& opt, const TensorCore& core, size_t first, ir::NodeVec axes);
  Status pad_for_core(const ir::Opt& opt, const TensorCore& core, ir::NodeVec& axes);
  Status bind_lanes(const TensorCore& core, const TensorBits& names, const ir::NodeVec& bits);
  const ir::Node* split_bit(const ir::Node** rest, ir::AxisType type);
};

// One above every range of the AST.
int64_t next_range_id(const ir::Node* ast);

}  // namespace modeld::codegen
