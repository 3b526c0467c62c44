// What a realize() does to memory: its stores, what they read, whether they can be ordered, and the
// books afterwards.
#include <algorithm>
#include <utility>

#include "selftest/fuzz/graph_engine.h"

namespace modeld::fuzz {

// Walks from wanted cells down to memory. A unit is as large as fusion could make it: everything
// between two things that must be in memory. What the pipeline stages beside that only cuts units,
// which orders more programs, never fewer.
class Engine::Collector {
 public:
  explicit Collector(const Engine& engine) : e_(engine) {}

  bool reads_stale() const { return reads_stale_; }

  std::vector<Unit> run(const Step& realize) {
    for (const size_t t : realize.args) wanted_.insert(e_.base_of(e_.live_.at(t)));
    for (const size_t cell : wanted_) {
      if (e_.cells_[cell].root) {
        const StateId id = *e_.cells_[cell].root;
        reads_stale_ |= id.state + 1 < e_.buffers_[id.buffer].executed;
        need(id);
      } else if (e_.cells_[cell].device >= 0) {
        store(cell);
      }
    }
    return std::move(units_);
  }

 private:
  void need(StateId id) {
    const Buffer& b = e_.buffers_[id.buffer];
    for (size_t k = b.executed; k <= id.state; ++k) {
      if (!done_.insert({id.buffer, k}).second) continue;
      Unit unit{{}, {}, {id.buffer, k}};
      read(*b.states[k].value, &unit);
      units_.push_back(std::move(unit));
    }
  }

  StateId store(size_t cell) {
    const StateId id{kFresh + cell, 0};
    if (!done_.insert(id).second) return id;
    Unit unit{{}, {}, id};
    for (const size_t a : e_.cells_[cell].args) read(a, &unit);
    units_.push_back(std::move(unit));
    return id;
  }

  void read(size_t cell, Unit* unit) {
    const Cell& c = e_.cells_[cell];
    if (c.root) {
      reads_stale_ |= c.root->state + 1 < e_.buffers_[c.root->buffer].executed;
      need(*c.root);
      unit->reads.insert(*c.root);
    } else if (c.device >= 0 && (wanted_.contains(cell) || e_.is_unit(c))) {
      unit->reads.insert(store(cell));
    } else {
      if (c.step.kind == StepKind::kVariable) unit->variables.insert({c.step.name, c.value.v[0]});
      for (const size_t a : c.args) read(a, unit);
    }
  }

  const Engine& e_;
  std::set<size_t> wanted_;
  bool reads_stale_ = false;
  std::set<StateId> done_;
  std::vector<Unit> units_;
};

namespace {

// after[i]: those that must come later than i. True if some order agrees with all.
bool is_acyclic(const std::vector<std::set<size_t>>& after) {
  std::vector<size_t> open(after.size());
  for (const auto& list : after)
    for (const size_t t : list) ++open[t];
  std::vector<size_t> ready;
  for (size_t i = 0; i < open.size(); ++i)
    if (open[i] == 0) ready.push_back(i);
  for (size_t i = 0; i < ready.size(); ++i)
    for (const size_t t : after[ready[i]])
      if (--open[t] == 0) ready.push_back(t);
  return ready.size() == after.size();
}

}  // namespace

std::vector<Engine::Unit> Engine::units(const Step& realize, bool* reads_stale) const {
  Collector collector(*this);
  std::vector<Unit> out = collector.run(realize);
  if (reads_stale != nullptr) *reads_stale = collector.reads_stale();
  return out;
}

// Below every movement, padding too: what gets memory.
size_t Engine::base_of(size_t cell) const {
  const auto moves = [](const Cell& c) { return is_movement(c.step.kind) || c.is_identity; };
  while (!cells_[cell].root && moves(cells_[cell])) cell = cells_[cell].args[0];
  return cell;
}

// Below what may be a view of it in the end.
size_t Engine::origin_of(size_t cell) const {
  size_t below = base_of(cell);
  while (!cells_[below].root && cells_[below].step.kind == StepKind::kContiguous)
    below = base_of(cells_[below].args[0]);
  return below;
}

// CONTIGUOUS and copies between devices have memory of their own; a contiguous part of a buffer is
// that buffer.
bool Engine::is_unit(const Cell& c) const {
  if (c.step.kind == StepKind::kShard) return true;
  if (c.step.kind == StepKind::kCopy) return cells_[c.args[0]].device != c.device;
  if (c.step.kind != StepKind::kContiguous) return false;
  const auto& view = cells_[c.args[0]].view;
  if (!view) return true;
  for (size_t i = 1; i < view->at.size(); ++i)
    if (view->at[i] != view->at[i - 1] + 1) return true;
  return false;
}

std::set<StateId> Engine::reads_of(size_t cell) const {
  const Cell& c = cells_[cell];
  if (c.root) return {*c.root};
  std::set<StateId> out;
  for (const size_t a : c.args) out.merge(reads_of(a));
  return out;
}

Result<Forecast> Engine::forecast(const Step& realize) const {
  for (const size_t t : realize.args)
    if (!has(t)) return fail(Errc::kInvalid, "realize: a tensor is not there");
  Forecast f;
  const std::vector<Unit> all = units(realize, &f.reads_stale);
  std::map<StateId, size_t> writer;
  for (size_t i = 0; i < all.size(); ++i) writer[all[i].writes] = i;
  std::vector<std::set<size_t>> after(all.size());
  const auto edge = [&](StateId from, size_t to) {
    if (const auto w = writer.find(from); w != writer.end() && w->second != to)
      after[w->second].insert(to);
  };
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].writes.state > 0) edge({all[i].writes.buffer, all[i].writes.state - 1}, i);
    for (const StateId& r : all[i].reads) {
      edge(r, i);
      const auto next = writer.find({r.buffer, r.state + 1});
      if (next != writer.end() && next->second != i) {
        after[i].insert(next->second);
        f.has_war = true;
      }
    }
  }
  std::map<std::string, double> bound;
  for (const Unit& u : all)
    for (const auto& [name, value] : u.variables)
      if (bound.try_emplace(name, value).first->second != value) f.mixes_values = true;
  f.has_cycle = !is_acyclic(after);
  return f;
}

void Engine::commit(const Step& realize) {
  std::vector<size_t> before;
  for (const Buffer& b : buffers_) before.push_back(b.executed);
  Forward forward;
  for (const Unit& u : units(realize)) {
    if (u.writes.buffer < kFresh) {
      size_t& executed = buffers_[u.writes.buffer].executed;
      executed = std::max(executed, u.writes.state + 1);
      continue;
    }
    const size_t made = u.writes.buffer - kFresh;
    const bool is_asked_for = std::any_of(realize.args.begin(), realize.args.end(),
                                          [&](size_t t) { return base_of(live_.at(t)) == made; });
    const StepKind kind = cells_[made].step.kind;
    if ((kind == StepKind::kCopy || kind == StepKind::kShard) && !is_asked_for) continue;
    const EagerArray& value = cells_[made].value;
    buffers_.push_back(Buffer{value.dtype, cells_[made].device, {State{value.v, {}, {}}}, 1});
    const Ints dims = value.dims;
    forward[made] = add_root({buffers_.size() - 1, 0}, dims);
  }
  note_sharing(forward);
  rescue_readers(before, &forward);
  for (auto& [tensor, cell] : live_) cell = rebuilt(cell, &forward);
  for (Buffer& b : buffers_)
    for (size_t k = b.executed; k < b.states.size(); ++k)
      b.states[k].value = rebuilt(*b.states[k].value, &forward);
}

// A CONTIGUOUS of what is in memory already, or was put there by the same call, may be a view of
// it.
void Engine::note_sharing(const Forward& made) {
  for (const auto& [from, to] : made) {
    if (cells_[from].step.kind != StepKind::kContiguous) continue;
    const size_t origin = origin_of(cells_[from].args[0]);
    const auto below = made.find(origin);
    if (!cells_[origin].view && below == made.end()) continue;
    shared_.insert(cells_[to].root->buffer);
    if (below != made.end()) shared_.insert(cells_[below->second].root->buffer);
  }
}

// Live tensors that read what this realize overwrote read a copy of it from now on. What was lost
// before stays lost.
void Engine::rescue_readers(const std::vector<size_t>& executed_before, Forward* forward) {
  std::map<StateId, size_t> copies;
  const size_t count = cells_.size();
  for (size_t i = 0; i < count; ++i) {
    if (!cells_[i].root || forward->contains(i)) continue;
    const StateId id = *cells_[i].root;
    const Buffer& b = buffers_[id.buffer];
    if (id.buffer >= executed_before.size() || id.state + 1 < executed_before[id.buffer]) continue;
    if (id.state + 1 >= b.executed) continue;
    const auto [copy, is_new] = copies.try_emplace(id, buffers_.size());
    if (is_new)
      buffers_.push_back(
          Buffer{b.dtype, b.device, {State{b.states[id.state].contents, {}, {}}}, 1});
    const Ints dims = cells_[i].value.dims;
    (*forward)[i] = add_root({copy->second, 0}, dims);
  }
}

}  // namespace modeld::fuzz
