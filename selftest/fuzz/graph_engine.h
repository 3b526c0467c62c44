// The eager engine: what every tensor of a random program holds, statement by statement, as if
// each had been executed when it was written. It is the truth the pipeline is held against and
// shares no code with it: dense arrays, lists of positions, no graph rewriting. Beside values it
// keeps the books of memory: which buffer went through which states, which states are executed, and
// which reads an overwrite would cross, so that it can say beforehand which realize() may be
// refused. Contract: movements of a buffer (not padding), and steps that have nothing to do, are
// views and follow its writes; all other values keep what they were computed from. A step that does
// not fit is an error and changes nothing (shrunk programs have such steps). Threading: one thread.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "hal/base/status.h"

#include "selftest/fuzz/graph_exact.h"
#include "selftest/fuzz/graph_program.h"

namespace modeld::fuzz {

using testing::EagerArray;

// A state of a buffer: 0 = its first contents, +1 per write.
struct StateId {
  size_t buffer = 0, state = 0;
  auto operator<=>(const StateId&) const = default;
};

// What one realize() would do.
struct Forecast {
  bool reads_stale = false;   // an untracked tensor reads overwritten contents: must be refused
  bool has_cycle = false;     // stores and reads cannot be ordered if each value is one kernel:
                              // may be refused as a cycle, or computed right by staging something
  bool mixes_values = false;  // one variable with two values: may be refused
  bool has_war = false;       // some read must come before a write of the same buffer

  bool may_fail() const { return reads_stale || has_cycle || mixes_values; }
};

class Engine {
 public:
  // Everything but realize. kInvalid: the step does not fit.
  Status apply(const Step& step, size_t number);
  // A realize in two halves: what it would do, and that it was done.
  Result<Forecast> forecast(const Step& realize) const;
  void commit(const Step& realize);

  // ---- of a tensor that is there ----
  bool has(size_t tensor) const { return live_.contains(tensor); }
  const EagerArray& value(size_t tensor) const { return cell(tensor).value; }
  const Exact& exact(size_t tensor) const { return cell(tensor).exact; }
  int device(size_t tensor) const { return cell(tensor).device; }  // -1: none, a constant
  bool is_view(size_t tensor) const { return cell(tensor).view.has_value(); }
  // The buffer below a view.
  size_t buffer(size_t tensor) const { return cell(tensor).view->of.buffer; }
  bool can_assign(size_t tensor) const;  // no element twice, and in the buffer's last state
  std::vector<size_t> tensors() const;

  // A view's elements, and its whole buffer, as they are in memory now; none: not computed yet.
  std::optional<std::vector<double>> memory(size_t tensor) const;
  const std::vector<double>* whole_memory(size_t tensor) const;
  // False: a CONTIGUOUS of a part of it (or it is one) may share its memory, so that nobody can say
  // what a write to it would reach.
  bool owns_buffer(size_t tensor) const;
  // True if all writes that this view saw are executed.
  bool is_realized(size_t tensor) const;
  bool last_assign_overlaps() const { return last_assign_overlaps_; }

 private:
  struct View {
    StateId of;
    Ints at;               // which element of the buffer each element is
    bool repeats = false;  // below an EXPAND, even if what is left shows no element twice
  };
  // One value. Cells never change; a tensor changes by naming another cell.
  struct Cell {
    std::optional<StateId> root;  // the whole of a buffer in some state
    Step step;                    // otherwise: how it is computed, from `args`
    std::vector<size_t> args;
    EagerArray value;
    Exact exact;
    int device = -1;
    std::optional<View> view;
    bool is_identity = false;  // the step had nothing to do
  };
  struct State {
    std::vector<double> contents;
    std::optional<size_t> value;  // cell that is stored; none: there from the start
    Ints at;                      // elements written
  };
  struct Buffer {
    ir::DType dtype = ir::DType::kF32;
    int device = 0;
    std::vector<State> states;
    size_t executed = 0;  // states in memory so far
  };
  // A store of one realize and what its value reads.
  struct Unit {
    std::set<StateId> reads;
    std::set<std::pair<std::string, double>> variables;  // name and value
    StateId writes;  // kFresh + cell: a value that gets memory of its own
  };
  using Forward = std::map<size_t, size_t>;  // cell -> cell
  static constexpr size_t kFresh = size_t{1} << 32;

  const Cell& cell(size_t tensor) const { return cells_[live_.at(tensor)]; }
  size_t add(Cell c);
  size_t add_root(StateId id, const Ints& dims);
  Result<size_t> build(const Step& step, std::vector<size_t> args);
  Status compute(const Step& step,
                 const std::vector<const EagerArray*>& args,
                 const std::vector<Exact>& exact,
                 Cell* c) const;
  Status compute_movement(const Step& step, const EagerArray& x, const Exact& exact, Cell* c) const;
  Status assign(const Step& step);
  bool overlaps(const State& next, StateId old) const;
  std::set<StateId> reads_of(size_t cell) const;
  void follow(StateId old);
  size_t rebuilt(size_t cell, Forward* forward);

  class Collector;  // the units of a realize (graph_forecast.cc)
  std::vector<Unit> units(const Step& realize, bool* reads_stale = nullptr) const;
  size_t base_of(size_t cell) const;
  size_t origin_of(size_t cell) const;
  bool is_unit(const Cell& c) const;
  void note_sharing(const Forward& made);
  void rescue_readers(const std::vector<size_t>& executed_before, Forward* forward);

  std::vector<Cell> cells_;
  std::vector<Buffer> buffers_;
  std::map<size_t, size_t> live_;     // tensor -> cell
  std::map<size_t, size_t> dropped_;  // tensor -> cell, as it was
  std::set<size_t> shared_;           // buffers that a CONTIGUOUS may share
  bool last_assign_overlaps_ = false;
};

}  // namespace modeld::fuzz
