#include "selftest/fuzz/graph_engine.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace modeld::fuzz {

using ir::DType;
using ir::Op;

namespace {

tl::unexpected<Error> misfit(const Step& s, const char* why) {
  return fail(Errc::kInvalid, strf("step %s: %s", step_word(s.kind), why));
}

size_t at(int64_t i) {
  return static_cast<size_t>(i);
}

bool axes_fit(const Ints& axes, size_t rank) {
  return std::all_of(axes.begin(), axes.end(), [&](int64_t a) { return a >= 0 && at(a) < rank; });
}

bool is_permutation(Ints order, size_t rank) {
  Ints all(rank);
  std::iota(all.begin(), all.end(), 0);
  std::sort(order.begin(), order.end());
  return order == all;
}

bool shrink_fits(const Ints& dims, const Step& s) {
  if (s.a.size() != dims.size() || s.b.size() != dims.size()) return false;
  for (size_t i = 0; i < dims.size(); ++i)
    if (s.a[i] < 0 || s.b[i] < 1 || s.a[i] + s.b[i] > dims[i]) return false;
  return true;
}

bool all_are(const Ints& v, int64_t wanted) {
  return std::all_of(v.begin(), v.end(), [&](int64_t x) { return x == wanted; });
}

// Steps that have nothing to do give the tensor itself.
bool is_identity(const Step& s, const EagerArray& x) {
  switch (s.kind) {
    case StepKind::kPad:
      return all_are(s.a, 0) && all_are(s.b, 0);
    case StepKind::kCast:
      return s.dtype == x.dtype;
    case StepKind::kReduce:
      if (s.op == Op::kMax ? x.dtype == DType::kBool : ir::sum_dtype(x.dtype) != x.dtype)
        return false;
      return std::all_of(s.a.begin(), s.a.end(), [&](int64_t a) { return x.dims[at(a)] == 1; });
    default:
      return false;
  }
}

// The movement of a step on a tensor of these dims; none: it does not fit.
std::optional<testing::Movement> movement(const Step& s, const Ints& dims) {
  switch (s.kind) {
    case StepKind::kReshape:
      if (testing::count_of(s.a) != testing::count_of(dims)) return {};
      return testing::move_reshape(dims, s.a);
    case StepKind::kPermute:
      if (!is_permutation(s.a, dims.size())) return {};
      return testing::move_permute(dims, s.a);
    case StepKind::kExpand:
      if (s.a.size() < dims.size() || testing::broadcast(dims, s.a) != s.a) return {};
      return testing::move_expand(dims, s.a);
    case StepKind::kShrink:
      if (!shrink_fits(dims, s)) return {};
      return testing::move_shrink(dims, s.a, s.b);
    case StepKind::kFlip:
      if (!axes_fit(s.a, dims.size())) return {};
      return testing::move_flip(dims, s.a);
    case StepKind::kPad:
      if (s.a.size() != dims.size() || s.b.size() != dims.size()) return {};
      return testing::move_pad(dims, s.a, s.b);
    default:
      return {};
  }
}

bool same_types(const std::vector<const EagerArray*>& args, size_t first) {
  return std::all_of(args.begin() + static_cast<int64_t>(first), args.end(),
                     [&](const EagerArray* a) { return a->dtype == args.back()->dtype; });
}

bool alu_fits(Op op, const std::vector<const EagerArray*>& args) {
  const size_t first = op == Op::kWhere ? 1 : 0;
  if (first == 1 && (args.size() != 3 || args[0]->dtype != DType::kBool)) return false;
  if (!same_types(args, first)) return false;
  Ints dims;
  for (const EagerArray* a : args) {
    if (!testing::broadcasts(dims, a->dims)) return false;
    dims = testing::broadcast(dims, a->dims);
  }
  return true;
}

bool cat_fits(const Step& s, const std::vector<const EagerArray*>& args) {
  if (s.a.size() != 1 || !axes_fit(s.a, args[0]->dims.size()) || !same_types(args, 0)) return false;
  return std::all_of(args.begin(), args.end(), [&](const EagerArray* p) {
    Ints dims = p->dims;
    if (dims.size() != args[0]->dims.size()) return false;
    dims[at(s.a[0])] = args[0]->dims[at(s.a[0])];
    return dims == args[0]->dims;
  });
}

}  // namespace

Status Engine::apply(const Step& step, size_t number) {
  std::vector<size_t> args;
  for (const size_t t : step.args) {
    const auto& from = step.kind == StepKind::kTrack ? dropped_ : live_;
    const auto it = from.find(t);
    if (it == from.end()) return misfit(step, "a tensor is not there");
    args.push_back(it->second);
  }
  switch (step.kind) {
    case StepKind::kAssign:
      return assign(step);
    case StepKind::kDrop:
      live_.erase(step.args[0]);
      dropped_[step.args[0]] = args[0];
      return {};
    case StepKind::kTrack:
      dropped_.erase(step.args[0]);
      live_[step.args[0]] = args[0];
      return {};
    case StepKind::kInput:
      if (testing::count_of(step.a) != static_cast<int64_t>(step.data.size()))
        return misfit(step, "data of another size");
      buffers_.push_back(Buffer{step.dtype, step.device, {State{step.data, {}, {}}}, 1});
      live_[number] = add_root({buffers_.size() - 1, 0}, step.a);
      return {};
    default:
      break;
  }
  ASSIGN_OR_RETURN(live_[number], build(step, std::move(args)));
  return {};
}

size_t Engine::add(Cell c) {
  cells_.push_back(std::move(c));
  return cells_.size() - 1;
}

size_t Engine::add_root(StateId id, const Ints& dims) {
  const Buffer& b = buffers_[id.buffer];
  Cell c;
  c.root = id;
  c.value = EagerArray{b.dtype, dims, b.states[id.state].contents};
  c.exact = exact_of(c.value);
  c.device = b.device;
  c.view = View{id, Ints(c.value.v.size()), false};
  std::iota(c.view->at.begin(), c.view->at.end(), 0);
  return add(std::move(c));
}

Result<size_t> Engine::build(const Step& step, std::vector<size_t> args) {
  Cell c;
  c.step = step;
  c.args = std::move(args);
  std::vector<const EagerArray*> values;
  std::vector<Exact> exact;
  for (const size_t a : c.args) {
    const Cell& arg = cells_[a];
    values.push_back(&arg.value);
    exact.push_back(arg.exact);
    if (arg.device >= 0 && c.device >= 0 && arg.device != c.device)
      return misfit(step, "operands on two devices");
    c.device = std::max(c.device, arg.device);
  }
  if (step.kind == StepKind::kCopy) c.device = step.device;
  if (step.kind == StepKind::kShard)
    c.device = kSeveralDevices + static_cast<int>(8 * step.a[1] + step.a[0]);
  RETURN_IF_ERROR(compute(step, values, exact, &c));
  if (!values.empty() && is_identity(step, *values[0])) {
    c.view = cells_[c.args[0]].view;
    c.is_identity = true;
  }
  if (!fits(c.value.dtype, &c.exact)) return misfit(step, "not exact");
  if (step.kind == StepKind::kContiguous)
    if (const auto& below = cells_[origin_of(c.args[0])].view) shared_.insert(below->of.buffer);
  return add(std::move(c));
}

Status Engine::compute(const Step& step,
                       const std::vector<const EagerArray*>& args,
                       const std::vector<Exact>& exact,
                       Cell* c) const {
  switch (step.kind) {
    case StepKind::kFull:
      c->value = EagerArray{step.dtype, step.a, {}};
      c->value.v.assign(at(testing::count_of(step.a)), step.data[0]);
      c->exact = exact_of(c->value);
      return {};
    case StepKind::kVariable:
      c->value = EagerArray{DType::kI32, {}, step.data};
      c->exact = exact_range(static_cast<double>(step.a[0]), static_cast<double>(step.a[1]));
      return {};
    case StepKind::kAlu:
      if (!alu_fits(step.op, args)) return misfit(step, "operands");
      c->value = testing::elementwise(step.op, args);
      c->exact = exact_alu(step.op, exact);
      return {};
    case StepKind::kCast:
      if (step.dtype == DType::kU8 && ir::is_float(args[0]->dtype)) return misfit(step, "range");
      c->value = testing::converted(*args[0], step.dtype);
      c->exact = exact_cast(exact[0], step.dtype);
      return {};
    case StepKind::kReduce:
      if (step.a.empty() || !axes_fit(step.a, args[0]->dims.size())) return misfit(step, "axes");
      c->value = testing::reduced(step.op, *args[0], step.a);
      c->exact = exact_reduce(step.op, exact[0],
                              testing::count_of(args[0]->dims) / testing::count_of(c->value.dims));
      return {};
    case StepKind::kCat:
      if (!cat_fits(step, args)) return misfit(step, "parts");
      c->value = testing::joined(args, step.a[0]);
      c->exact = exact[0];
      for (const Exact& e : exact) c->exact = exact_union(c->exact, e);
      return {};
    case StepKind::kShard:
      if (!axes_fit({step.a[0]}, args[0]->dims.size()) ||
          args[0]->dims[at(step.a[0])] % step.a[1] != 0)
        return misfit(step, "parts");
      [[fallthrough]];
    case StepKind::kContiguous:
    case StepKind::kCopy:
      c->value = *args[0];
      c->exact = exact[0];
      return {};
    default:
      return compute_movement(step, *args[0], exact[0], c);
  }
}

Status Engine::compute_movement(const Step& step,
                                const EagerArray& x,
                                const Exact& exact,
                                Cell* c) const {
  const auto m = movement(step, x.dims);
  if (!m) return misfit(step, "dims");
  c->value = testing::moved(x, *m);
  c->exact = step.kind == StepKind::kPad ? exact_union(exact, exact_range(0, 0)) : exact;
  const std::optional<View>& below = cells_[c->args[0]].view;
  if (!below || step.kind == StepKind::kPad) return {};
  const bool grows = step.kind == StepKind::kExpand && c->value.v.size() != x.v.size();
  c->view = View{below->of, {}, below->repeats || grows};
  for (const int64_t from : m->from) c->view->at.push_back(below->at[at(from)]);
  return {};
}

Status Engine::assign(const Step& step) {
  const Cell& dst = cell(step.args[0]);
  const Cell& x = cell(step.args[1]);
  if (!can_assign(step.args[0])) return misfit(step, "the target");
  if (x.value.dtype != dst.value.dtype) return misfit(step, "dtype");
  if (x.device >= 0 && x.device != dst.device) return misfit(step, "device");
  const Ints& dims = dst.value.dims;
  if (!testing::broadcasts(x.value.dims, dims) || testing::broadcast(x.value.dims, dims) != dims)
    return misfit(step, "dims");
  const View view = *dst.view;
  Buffer& b = buffers_[view.of.buffer];
  State next{b.states.back().contents, live_.at(step.args[1]), view.at};
  const EagerArray values = testing::moved(x.value, testing::move_expand(x.value.dims, dims));
  for (size_t i = 0; i < view.at.size(); ++i) next.contents[at(view.at[i])] = values.v[i];
  last_assign_overlaps_ = overlaps(next, view.of);
  b.states.push_back(std::move(next));
  follow(view.of);
  return {};
}

// An overlapping assign reads the buffer it writes, or writes again what a pending one wrote.
bool Engine::overlaps(const State& next, StateId old) const {
  for (const StateId& r : reads_of(*next.value))
    if (r.buffer == old.buffer) return true;
  const Buffer& b = buffers_[old.buffer];
  const std::set<int64_t> written(next.at.begin(), next.at.end());
  for (size_t s = b.executed; s < b.states.size(); ++s)
    for (const int64_t n : b.states[s].at)
      if (written.contains(n)) return true;
  return false;
}

// Every live view of the state moves to the next one.
void Engine::follow(StateId old) {
  Forward forward;
  for (size_t i = 0; i < cells_.size(); ++i) {
    if (cells_[i].root != old) continue;
    const Ints dims = cells_[i].value.dims;
    forward[i] = add_root({old.buffer, old.state + 1}, dims);
  }
  for (auto& [tensor, cell] : live_)
    if (cells_[cell].view && cells_[cell].view->of == old) cell = rebuilt(cell, &forward);
}

// The cell with what `forward` says put in the place of what it is computed from.
size_t Engine::rebuilt(size_t cell, Forward* forward) {
  if (const auto it = forward->find(cell); it != forward->end()) return it->second;
  if (cells_[cell].root) return cell;
  std::vector<size_t> args;
  for (const size_t a : std::vector<size_t>(cells_[cell].args)) args.push_back(rebuilt(a, forward));
  size_t made = cell;
  if (args != cells_[cell].args) {
    const Step step = cells_[cell].step;
    auto built = build(step, std::move(args));
    if (built.ok()) made = *built;  // never fails: the values are the same or a view's new ones
  }
  return (*forward)[cell] = made;
}

bool Engine::can_assign(size_t tensor) const {
  const auto& view = cell(tensor).view;
  return view && !shared_.contains(view->of.buffer) &&
         view->of.state + 1 == buffers_[view->of.buffer].states.size() && !view->repeats;
}

std::vector<size_t> Engine::tensors() const {
  std::vector<size_t> out;
  for (const auto& [tensor, cell] : live_) out.push_back(tensor);
  return out;
}

const std::vector<double>* Engine::whole_memory(size_t tensor) const {
  const auto& view = cell(tensor).view;
  if (!view) return nullptr;
  const Buffer& b = buffers_[view->of.buffer];
  return b.executed == 0 ? nullptr : &b.states[b.executed - 1].contents;
}

std::optional<std::vector<double>> Engine::memory(size_t tensor) const {
  const std::vector<double>* whole = whole_memory(tensor);
  if (whole == nullptr) return {};
  std::vector<double> out;
  for (const int64_t n : cell(tensor).view->at) out.push_back((*whole)[at(n)]);
  return out;
}

bool Engine::owns_buffer(size_t tensor) const {
  return is_view(tensor) && !shared_.contains(buffer(tensor));
}

bool Engine::is_realized(size_t tensor) const {
  const auto& view = cell(tensor).view;
  return view && buffers_[view->of.buffer].executed == view->of.state + 1;
}

}  // namespace modeld::fuzz
