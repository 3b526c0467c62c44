#include "runtime/exec/session.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/exec/session_memory.h"
#include "runtime/exec/session_programs.h"
#include "runtime/exec/session_run.h"
#include "runtime/exec/session_states.h"
#include "runtime/ir/derived.h"
#include "runtime/ir/rewrite.h"
#include "runtime/ir/sharding.h"
#include "runtime/schedule/byte_view.h"
#include "runtime/schedule/create_schedule.h"
#include "runtime/schedule/expr_util.h"
#include "runtime/schedule/transform_to_call.h"
#include "runtime/tensor/assign.h"
#include "runtime/tensor/shard.h"

namespace modeld::exec {

using ir::Fault;
using ir::Node;
using ir::NodeVec;
using ir::Op;
using tensor::Tensor;

namespace {

// A refusal of nodes that are well formed: the graph stays good.
bool is_refusal(const Error& e) {
  const Fault f = ir::fault_of(e);
  if (f == Fault::kNone) return e.code == Errc::kUnsupported || e.code == Errc::kCycle;
  return f != Fault::kBadShape && f != Fault::kSpecViolation;
}

bool is_disk(const std::string& device) {
  return device.substr(0, device.find(':')) == "DISK";
}

// Views share memory: what is written through one is seen through all. A PAD is computed.
bool shares_memory(const Node* n) {
  return (ir::kMovementOps.has(n->op) && n->op != Op::kPad) || n->op == Op::kBitCast ||
         n->op == Op::kDetach || n->op == Op::kUnshard;
}

const Node* below_aliases(const Node* n) {
  while (shares_memory(n)) n = n->src(0);
  return n;
}

// A write through a view that shows one element twice would have no order.
bool repeats_elements(ir::Graph& g, const Node* n) {
  for (; shares_memory(n); n = n->src(0)) {
    if (n->op == Op::kExpand && ir::element_count(g, n) != ir::element_count(g, n->src(0)))
      return true;
  }
  return false;
}

std::string buffer_text(const Node* buffer) {
  const auto& p = buffer->as<ir::ParamArg>();
  return p.name.empty() ? strf("buffer %lld", static_cast<long long>(p.slot)) : p.name;
}

// The leading part `dims` of a row-major array of shape `all`.
std::vector<std::byte> cropped(std::span<const std::byte> from,
                               const tensor::Dims& all,
                               const tensor::Dims& dims,
                               size_t item) {
  if (all == dims) return {from.begin(), from.end()};
  std::vector<std::byte> out(static_cast<size_t>(tensor::product(dims)) * item);
  const auto row = static_cast<size_t>(dims.back()) * item;
  for (size_t done = 0; done < out.size(); done += row) {
    size_t index = done / row, stride = static_cast<size_t>(all.back()), at = 0;
    for (size_t a = dims.size() - 1; a-- > 0;) {
      const auto n = static_cast<size_t>(dims[a]);
      at += (index % n) * stride;
      index /= n;
      stride *= static_cast<size_t>(all[a]);
    }
    std::memcpy(out.data() + done, from.data() + at * item, row);
  }
  return out;
}

const Node* empty_linear(ir::Graph& g) {
  return g.make(Op::kLinear, ir::DType::kVoid, {});
}

}  // namespace

Session::Session(ir::Graph& g, tensor::WeightStore& weights, SessionOptions options)
    : g_(g),
      weights_(weights),
      options_(std::move(options)),
      programs_(std::make_unique<SessionPrograms>(options_.compile)),
      memory_(std::make_unique<SessionMemory>(g, weights, options_.device)) {
  capture_.capturing = options_.capturing;
}

Session::~Session() = default;

// ---- live tensors ----

std::vector<std::shared_ptr<Live::State>> Session::live() const {
  std::vector<std::shared_ptr<Live::State>> out;
  for (const auto& weak : live_) {
    if (auto state = weak.lock()) out.push_back(std::move(state));
  }
  return out;
}

NodeVec Session::live_nodes() const {
  NodeVec out;
  for (const auto& state : live()) out.push_back(state->node);
  return out;
}

Live Session::track(const Tensor& t) {
  // Handles that are gone leave holes; drop them when they are the majority.
  if (live_.size() >= next_sweep_) {
    std::erase_if(live_, [](const auto& weak) { return weak.expired(); });
    next_sweep_ = std::max<size_t>(64, 2 * live_.size());
  }
  auto state = std::make_shared<Live::State>();
  state->node = t.node();
  live_.push_back(state);
  return Live(std::move(state));
}

Tensor Session::value(const Live& t) const {
  return {g_, t.node()};
}

void Session::set(const Live& t, const Tensor& x) {
  t.state_->node = x.node();
}

Result<Live> Session::empty(const tensor::Dims& dims, ir::DType dtype, const std::string& device) {
  if (ir::is_weak(dtype) || dtype == ir::DType::kVoid)
    return fail(Fault::kWeakStorage, strf("empty: no storage has type %s", ir::dtype_name(dtype)));
  if (std::any_of(dims.begin(), dims.end(), [](int64_t d) { return d < 0; }))
    return fail(Fault::kBadShape, strf("empty: bad dims %s", tensor::dims_text(dims).c_str()));
  const Node* flat =
      ir::buffer(g_, g_.fresh(), dtype, tensor::product(dims), ir::AddrSpace::kGlobal, device);
  return track(Tensor(g_, flat).reshape(dims));
}

Result<Live> Session::upload(std::span<const std::byte> bytes,
                             const tensor::Dims& dims,
                             ir::DType dtype,
                             const std::string& device) {
  ASSIGN_OR_RETURN(Live t, empty(dims, dtype, device));
  RETURN_IF_ERROR(overwrite(t, bytes));
  return t;
}

Result<Live> Session::upload(std::span<const float> v,
                             const tensor::Dims& dims,
                             const std::string& device) {
  return upload(std::as_bytes(v), dims, ir::DType::kF32, device);
}

Status Session::overwrite(const Live& t, std::span<const std::byte> bytes) {
  if (!ir::has_buffer_identity(t.node()))
    return fail(Fault::kNotABuffer, "overwrite: the tensor is not a whole buffer");
  const Node* buffer = ir::base(t.node());
  const int64_t want = ir::element_count(g_, buffer) * ir::item_size(buffer->dtype);
  if (want != static_cast<int64_t>(bytes.size()))
    return fail(Errc::kInvalid, strf("overwrite: %s of %s needs other than the %zu bytes given",
                                     tensor::dims_text(ir::max_shape(g_, t.node())).c_str(),
                                     ir::dtype_name(buffer->dtype), bytes.size()));
  return memory_->write(canonical(buffer), bytes, Deadline::in_ms(options_.run_limit_ms));
}

Status Session::assign(const Live& dst, const Tensor& x) {
  RETURN_IF_ERROR(g_.status());
  const Tensor target = value(dst);
  ASSIGN_OR_RETURN(const Tensor v, tensor::assign_value(target, x));
  if (v.node() == target.node()) return {};
  const Node* state = below_aliases(target.node());
  if (!schedule::is_state(state)) return assign_value_without_memory(dst, state, v);
  if (repeats_elements(g_, target.node()))
    return fail(Fault::kBadShape, "assign: the target shows elements twice");
  const Node* store = g_.make(Op::kStore, ir::DType::kVoid, {target.node(), v.node()});
  const Node* after = g_.make(Op::kAfter, state->dtype, {state, store});
  for (const auto& other : live()) {
    if (below_aliases(other->node) != state) continue;
    other->node = ir::substitute(g_, other->node, {{state, after}});
  }
  if (!is_disk(ir::device(g_, state))) return {};
  return realize({dst});  // the file is changed when the statement is over
}

// A value that was never stored has no memory to write into: all of it can be replaced, a part of
// it would be lost.
Status Session::assign_value_without_memory(const Live& dst, const Node* base, const Tensor& v) {
  const Node* whole = dst.node();
  while (whole->op == Op::kReshape || whole->op == Op::kDetach) whole = whole->src(0);
  if (whole != base)
    return fail(Fault::kAssignUnrealised,
                strf("assign: the target is a view of an unrealised %s, the write would be lost; "
                     "make it contiguous first",
                     ir::op_name(base->op)));
  set(dst, v.contiguous());
  return {};
}

// ---- schedule ----

Result<NodeVec> Session::wanted_roots(std::span<const Live> wanted) const {
  NodeVec roots;
  for (const Live& t : wanted) {
    const Node* n = t.node();
    if (ir::is_weak(n->dtype) && !ir::device(g_, n).empty())
      return fail(Fault::kWeakRealize,
                  strf("realize: %s on %s has dtype %s, cast it first", ir::op_name(n->op),
                       ir::device(g_, n).c_str(), ir::dtype_name(n->dtype)));
    const bool taken = std::find(roots.begin(), roots.end(), n) != roots.end();
    if (!taken && ir::needs_storage(g_, n)) roots.push_back(n);
  }
  return roots;
}

Status Session::check_contents(const NodeVec& roots) const {
  if (retired_.empty()) return {};
  for (const Node* b : buffers_below(roots)) {
    if (retired_.contains(b))
      return fail(Fault::kStaleReader,
                  strf("realize: a value reads %s as it was before a later realize overwrote it; "
                       "track() what has to survive",
                       buffer_text(b).c_str()));
  }
  return {};
}

Result<schedule::CallAndMap> Session::make_call(NodeVec roots) {
  ASSIGN_OR_RETURN(schedule::CallAndMap call,
                   schedule::transform_to_call(g_, ir::sink(g_, roots), options_.schedule));
  if (call.writes.empty()) return call;
  ASSIGN_OR_RETURN(const StaleReads stale, stale_reads(call, live_nodes()));
  if (stale.states.empty()) return call;
  // Copies of what is about to be overwritten, made by the same schedule before it is.
  ir::NodeMap copies;
  for (const Node* state : stale.states) {
    const Node* buffer = ir::buffer(g_, g_.fresh(), state->dtype, ir::local_count(g_, state),
                                    ir::AddrSpace::kGlobal, ir::device(g_, state));
    const Node* shape = ir::shape_node(g_, ir::local_shape(g_, state));
    const bool flat = ir::shape(g_, state).size() == 1;
    const Node* local = flat ? buffer : g_.make(Op::kReshape, state->dtype, {buffer, shape});
    const Node* view = ir::unshard(g_, local, ir::sharding(g_, state));
    const Node* store = g_.make(Op::kStore, ir::DType::kVoid, {view, state});
    roots.push_back(g_.make(Op::kAfter, state->dtype, {buffer, store}));
    copies[state] = view;
  }
  stats_.snapshots += copies.size();
  ASSIGN_OR_RETURN(call, schedule::transform_to_call(g_, ir::sink(g_, roots), options_.schedule));
  for (const Node* key : stale.keys) call.map.erase(key);
  for (const auto& [state, copy] : copies) call.map[state] = copy;
  return call;
}

// Live tensors name overwritten buffers anew, so that values which still mean the old contents can
// be told apart.
Session::Change Session::change_of(const schedule::CallAndMap& call) {
  Change change;
  ir::NodeMap renames;
  for (const Node* b : written_buffers(call)) {
    if (std::none_of(call.writes.begin(), call.writes.end(),
                     [b](const schedule::StateWrite& w) { return w.previous == b; }))
      continue;  // made by this call: nobody knows its earlier contents
    ir::ParamArg arg = b->as<ir::ParamArg>();
    arg.slot = g_.fresh();
    change.retired.push_back(b);
    change.renamed.push_back(g_.with_arg(b, std::move(arg)));
    renames[b] = change.renamed.back();
  }
  ir::NodeMap map = call.map;
  for (auto& [from, to] : map) to = ir::substitute(g_, to, renames);
  change.nodes = schedule::apply_map_to_tensors(g_, live_nodes(), map);
  return change;
}

void Session::commit(const Change& change) {
  undo_ = {};
  undo_.nodes = live_nodes();
  undo_.retired = change.retired;
  undo_.renamed = change.renamed;
  const auto tensors = live();
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i]->node = change.nodes[i];
  for (size_t i = 0; i < change.retired.size(); ++i) {
    canonical_[change.renamed[i]] = canonical(change.retired[i]);
    retired_.insert(change.retired[i]);
  }
}

void Session::roll_back() {
  const auto tensors = live();
  for (size_t i = 0; i < tensors.size() && i < undo_.nodes.size(); ++i)
    tensors[i]->node = undo_.nodes[i];
  for (const Node* b : undo_.renamed) canonical_.erase(b);
  for (const Node* b : undo_.retired) retired_.erase(b);
  undo_ = {};
}

const Node* Session::with_canonical_args(const Node* call) {
  NodeVec src(call->src().begin(), call->src().end());
  for (size_t i = 1; i < src.size(); ++i) src[i] = ir::substitute(g_, src[i], canonical_);
  return g_.with_src(call, src);
}

Result<SessionLinear> Session::linear_with_vars(std::span<const Live> wanted) {
  RETURN_IF_ERROR(g_.status());
  Result<SessionLinear> made = make_linear(wanted);
  if (!made.ok() && g_.failed() && is_refusal(made.error())) g_.clear_failure();
  return made;
}

Result<SessionLinear> Session::make_linear(std::span<const Live> wanted) {
  SessionLinear out;
  out.linear = empty_linear(g_);
  ASSIGN_OR_RETURN(const NodeVec roots, wanted_roots(wanted));
  undo_ = {};
  if (roots.empty()) return out;
  RETURN_IF_ERROR(check_contents(roots));
  ASSIGN_OR_RETURN(const schedule::CallAndMap call, make_call(roots));
  if (call.call->src(0)->nsrc == 0) {  // views only
    commit(change_of(call));
    return out;
  }
  ASSIGN_OR_RETURN(schedule::LinearWithVars made,
                   schedule::create_linear_with_vars(g_, with_canonical_args(call.call),
                                                     options_.schedule, capture_));
  ++stats_.schedules;
  out.linear = made.linear;
  out.vars = std::move(made.vars);
  commit(change_of(call));
  if (capture_.active()) {
    ++stats_.captured;
    return out;
  }
  schedule::NodeSet keep = held_by(roots);
  keep.merge(held());
  auto plan = schedule::memory_plan_rewrite(g_, out.linear, keep, options_.schedule);
  if (!plan.ok()) {
    roll_back();
    return fail(std::move(plan).error());
  }
  ++stats_.planned;
  out.plan = std::move(*plan);
  return out;
}

Result<NodeVec> Session::compile(std::span<const Node* const> linears) {
  return programs_->compile(g_, linears, stats_.compile);
}

Status Session::run_linear(const Node* linear,
                           const schedule::VarBinds& vars,
                           Deadline deadline,
                           const schedule::MemoryPlan& plan) {
  if (linear->nsrc == 0) return {};
  ASSIGN_OR_RETURN(const NodeVec compiled, compile(std::span(&linear, 1)));
  RunCounts counts;
  const Status done =
      exec::run_linear(g_, compiled[0], vars, plan, *memory_, *programs_, deadline, counts);
  stats_.launches += counts.launches;
  stats_.copies += counts.copies;
  stats_.allocations = memory_->allocations();
  return done;
}

Status Session::realize(std::span<const Live> wanted) {
  ASSIGN_OR_RETURN(const SessionLinear work, linear_with_vars(wanted));
  const uint64_t before = stats_.launches + stats_.copies;
  Status done =
      run_linear(work.linear, work.vars, Deadline::in_ms(options_.run_limit_ms), work.plan);
  // Nothing ran: the values still have to be computed.
  if (!done.ok() && stats_.launches + stats_.copies == before) roll_back();
  return done;
}

// ---- reading ----

// Dims with bound variables put in.
Result<tensor::Dims> Session::dims_now(const Node* n) const {
  tensor::Dims out;
  for (const Node* d : ir::Shape(ir::shape(g_, n))) {
    ir::NodeMap values;
    for (const Node* v : ir::toposort(d)) {
      if (schedule::is_bound_variable(v))
        values[v] = ir::const_int(g_, schedule::bound_value(v), v->dtype);
    }
    const ir::Bounds b = ir::bounds(g_, ir::substitute(g_, d, values));
    if (b.vmin != b.vmax)
      return fail(Fault::kUnboundVariable, "read: a dim of the shape has no value");
    out.push_back(b.vmin);
  }
  return out;
}

// A value that lies nowhere in one piece: constants, strided views.
Result<Live> Session::packed_copy(const Live& t) {
  const Node* n = t.node();
  const ir::DType dtype = ir::strong(n->dtype);
  std::string device = ir::device(g_, n);
  if (device.empty()) device = options_.schedule.device;
  const Node* buffer =
      ir::buffer(g_, g_.fresh(), dtype, ir::element_count(g_, n), ir::AddrSpace::kGlobal, device);
  const Node* shaped =
      g_.make(Op::kReshape, dtype, {buffer, ir::shape_node(g_, ir::max_shape(g_, n))});
  const Node* target = shaped;
  if (schedule::is_symbolic(g_, n)) {
    const ir::Shape shape = ir::shape(g_, n);
    const std::vector<int64_t> starts(shape.size(), 0);
    const Node* sizes = g_.make(Op::kStack, ir::DType::kWeakInt, shape);
    target = g_.make(Op::kShrink, dtype, {shaped, ir::shape_node(g_, starts), sizes});
  }
  const Node* store = g_.make(Op::kStore, ir::DType::kVoid, {target, ir::cast(g_, n, dtype)});
  const Live copy = track(Tensor(g_, g_.make(Op::kAfter, dtype, {buffer, store})));
  RETURN_IF_ERROR(realize({copy}));
  return copy;
}

Result<HostTensor> Session::read(const Live& t) {
  RETURN_IF_ERROR(g_.status());
  if (is_capturing())
    return fail(Fault::kCaptureRead,
                strf("read: a tensor (%s) is read while a capture is active, it has no data yet",
                     ir::op_name(t.node()->op)));
  RETURN_IF_ERROR(realize({t}));
  // Parts and replicas are brought together on the first device.
  if (const std::string& devices = ir::device(g_, t.node()); ir::is_device_tuple(devices))
    return read(track(tensor::to(value(t), ir::split_devices(devices)[0])));
  HostTensor out;
  out.dtype = ir::strong(t.node()->dtype);
  ASSIGN_OR_RETURN(out.dims, dims_now(t.node()));
  const auto item = static_cast<size_t>(ir::item_size(out.dtype));
  out.bytes.resize(static_cast<size_t>(tensor::product(out.dims)) * item);
  if (out.bytes.empty()) return out;
  const Deadline deadline = Deadline::in_ms(options_.run_limit_ms);
  if (const Node* at = storage(t)) {
    const auto view = schedule::byte_view(g_, at);
    RETURN_IF_ERROR(
        memory_->read(out.bytes, view->buffer, static_cast<uint64_t>(view->offset), deadline));
    return out;
  }
  ASSIGN_OR_RETURN(const Live copy, packed_copy(t));
  const Node* buffer = canonical(schedule::base_buffer(copy.node()));
  const tensor::Dims all = ir::max_shape(g_, t.node());
  std::vector<std::byte> largest(static_cast<size_t>(tensor::product(all)) * item);
  RETURN_IF_ERROR(memory_->read(largest, buffer, 0, deadline));
  memory_->drop(buffer);
  out.bytes = cropped(largest, all, out.dims, item);
  return out;
}

// ---- capture ----

Status Session::begin_capture(schedule::Capturer& capturer) {
  if (capture_.capturer != nullptr)
    return fail(Fault::kCaptureNested, "capture: another capture is active");
  capture_.capturer = &capturer;
  return {};
}

void Session::end_capture() {
  capture_.capturer = nullptr;
}

// ---- memory ----

const Node* Session::canonical(const Node* buffer) const {
  const auto at = canonical_.find(buffer);
  return at == canonical_.end() ? buffer : at->second;
}

const Node* Session::storage(const Live& t) const {
  const Node* n = ir::substitute(g_, t.node(), canonical_);
  const auto view = schedule::byte_view(g_, n);
  return view && view->buffer->op == Op::kBuffer ? n : nullptr;
}

bool Session::has_memory(const Node* buffer) const {
  return memory_->has(canonical(buffer));
}

Result<hal::Buffer> Session::memory(const Node* buffer) {
  return memory_->buffer(canonical(buffer));
}

void Session::free_memory(const Node* buffer) {
  memory_->drop(canonical(buffer));
}

Result<hal::Device*> Session::device(const std::string& name) {
  return memory_->device(name);
}

schedule::NodeSet Session::held_by(const NodeVec& nodes) const {
  schedule::NodeSet out;
  for (const Node* b : buffers_below(nodes)) out.insert(canonical(b));
  return out;
}

schedule::NodeSet Session::held() const {
  schedule::NodeSet out = held_by(live_nodes());
  for (const Node* b : memory_->owners()) out.insert(b);
  return out;
}

void Session::collect() {
  const schedule::NodeSet reached = held_by(live_nodes());
  schedule::NodeSet lost;
  for (const Node* b : memory_->owners()) {
    if (reached.contains(b)) continue;
    memory_->drop(b);
    lost.insert(b);
  }
  // Whatever name somebody still knows them by.
  retired_.insert(lost.begin(), lost.end());
  for (const auto& [name, first] : canonical_) {
    if (lost.contains(first)) retired_.insert(name);
  }
}

}  // namespace modeld::exec
