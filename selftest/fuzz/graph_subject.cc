#include "selftest/fuzz/graph_subject.h"

#include <utility>

#include "runtime/ir/derived.h"
#include "runtime/schedule/byte_view.h"
#include "runtime/schedule/create_linear_with_vars.h"
#include "runtime/schedule/create_schedule.h"
#include "runtime/tensor/shard.h"

#include "selftest/fuzz/graph_bytes.h"
#include "selftest/testing/whole_args.h"

namespace modeld::fuzz {

using ir::Node;
using ir::Op;
using tensor::Tensor;

namespace {

constexpr int64_t kRunLimitMs = 120'000;

Tensor alu(Op op, const std::vector<Tensor>& x) {
  switch (op) {
    case Op::kAdd:
      return x[0].add(x[1]);
    case Op::kSub:
      return x[0].sub(x[1]);
    case Op::kMul:
      return x[0].mul(x[1]);
    case Op::kMax:
      return x[0].maximum(x[1]);
    case Op::kNeg:
      return x[0].neg();
    case Op::kTrunc:
      return x[0].trunc();
    case Op::kCmpLt:
      return x[0].lt(x[1]);
    case Op::kCmpNe:
      return x[0].ne(x[1]);
    case Op::kCmpEq:
      return x[0].eq(x[1]);
    case Op::kAnd:
      return x[0].bit_and(x[1]);
    case Op::kOr:
      return x[0].bit_or(x[1]);
    case Op::kXor:
      return x[0].bit_xor(x[1]);
    default:
      return x[0].where(x[1], x[2]);
  }
}

// Two planned buffers that share bytes.
bool overlap(const schedule::BufferPlace& a, const schedule::BufferPlace& b) {
  return a.lane == b.lane && a.offset < b.offset + b.size && b.offset < a.offset + a.size;
}

}  // namespace

Subject::Subject(exec::SessionOptions options, bool interpret)
    : g_(std::make_unique<ir::Graph>()),
      weights_(std::make_unique<tensor::WeightStore>()),
      session_(std::make_unique<exec::Session>(*g_, *weights_, std::move(options))),
      interpret_(interpret) {}

void Subject::begin() {
  live_.clear();
  dropped_.clear();
}

Status Subject::apply(const Step& step, size_t number) {
  switch (step.kind) {
    case StepKind::kInput:
      return input(step, number);
    case StepKind::kAssign:
      return session_->assign(live_.at(step.args[0]), session_->value(live_.at(step.args[1])));
    case StepKind::kDrop:
      dropped_.insert_or_assign(step.args[0], session_->value(live_.at(step.args[0])));
      live_.erase(step.args[0]);
      return {};
    case StepKind::kTrack:
      live_[step.args[0]] = session_->track(dropped_.at(step.args[0]));
      return {};
    default:
      break;
  }
  std::vector<Tensor> args;
  for (const size_t a : step.args) args.push_back(session_->value(live_.at(a)));
  ASSIGN_OR_RETURN(const Tensor made, build(step, args));
  RETURN_IF_ERROR(g_->status());
  live_[number] = session_->track(made);
  return {};
}

Result<Tensor> Subject::build(const Step& s, const std::vector<Tensor>& x) {
  switch (s.kind) {
    case StepKind::kFull:
      return Tensor::full(*g_, s.a, tensor::Scalar(s.data[0]), s.dtype);
    case StepKind::kVariable: {
      const Tensor v = Tensor::variable(*g_, s.name, s.a[0], s.a[1]);
      ASSIGN_OR_RETURN(const Node* bound,
                       schedule::bind(*g_, v.node(), static_cast<int64_t>(s.data[0])));
      return Tensor(*g_, bound);
    }
    case StepKind::kAlu:
      return alu(s.op, x);
    case StepKind::kCast:
      return x[0].cast(s.dtype);
    case StepKind::kReshape:
      return x[0].reshape(s.a);
    case StepKind::kPermute:
      return x[0].permute(s.a);
    case StepKind::kExpand:
      return x[0].expand(s.a);
    case StepKind::kPad:
      return x[0].pad(s.a, s.b);
    case StepKind::kShrink:
      return x[0].shrink(s.a, s.b);
    case StepKind::kFlip:
      return x[0].flip(s.a);
    case StepKind::kReduce:
      return s.op == Op::kMax ? x[0].max(s.a, true) : x[0].sum(s.a, true);
    case StepKind::kCat:
      return tensor::concat(x, s.a[0]);
    case StepKind::kContiguous:
      return x[0].contiguous();
    case StepKind::kCopy:
      return tensor::to(x[0], device_name(s.device));
    case StepKind::kShard: {
      tensor::Devices devices;
      for (int d = 0; d < s.a[1]; ++d) devices.push_back(device_name(d));
      return tensor::shard(x[0], devices, s.a[0]);
    }
    default:
      return fail(Errc::kInternal, strf("graph-fuzz: step %s makes nothing", step_word(s.kind)));
  }
}

Status Subject::input(const Step& step, size_t number) {
  ASSIGN_OR_RETURN(const exec::Live t,
                   session_->empty(step.a, step.dtype, device_name(step.device)));
  live_[number] = t;
  if (!interpret_) return session_->overwrite(t, bytes_of(step.dtype, step.data));
  memory_.insert_or_assign(session_->canonical(ir::base(t.node())),
                           storage_of(step.dtype, step.data));
  return {};
}

Result<exec::SessionLinear> Subject::realize(const Step& step) {
  std::vector<exec::Live> wanted;
  for (const size_t t : step.args) wanted.push_back(live_.at(t));
  return session_->linear_with_vars(wanted);
}

std::optional<Place> Subject::place(size_t tensor) const {
  const Node* n = live_.at(tensor).node();
  const Node* below = n;
  while (ir::kMovementOps.has(below->op) || below->op == Op::kAfter) below = below->src(0);
  if (below->op != Op::kBuffer) return {};
  Place out{session_->canonical(below), 0, false};
  if (const Node* at = session_->storage(live_.at(tensor))) {
    const auto view = schedule::byte_view(*g_, at);
    out.first = view->offset / ir::item_size(n->dtype);
    out.is_run = true;
  }
  return out;
}

Status Subject::compile(std::vector<exec::SessionLinear*> linears) {
  if (interpret_) return {};
  std::vector<const Node*> nodes;
  for (const exec::SessionLinear* l : linears) nodes.push_back(l->linear);
  ASSIGN_OR_RETURN(const ir::NodeVec compiled, session_->compile(nodes));
  for (size_t i = 0; i < linears.size(); ++i) linears[i]->linear = compiled[i];
  return {};
}

Status Subject::run(const exec::SessionLinear& work) {
  if (interpret_) return interpret(work);
  return session_->run_linear(work.linear, work.vars, Deadline::in_ms(kRunLimitMs), work.plan);
}

Status Subject::interpret(const exec::SessionLinear& work) {
  const schedule::MemoryPlan& plan = work.plan;
  for (size_t i = 0; i < work.linear->nsrc; ++i) {
    const Node* call = work.linear->src(i);
    const schedule::BufferPlace* to = plan.find(call->src(1));
    for (size_t b = 0; to != nullptr && b < plan.buffers.size(); ++b) {
      const auto lost = memory_.find(plan.buffers[b]);
      if (lost == memory_.end() || plan.buffers[b] == call->src(1)) continue;
      if (overlap(*to, plan.places[b])) lost->second.written.assign(lost->second.size(), false);
    }
    const Node* one = g_->with_src(work.linear, {testing::with_whole_args(*g_, call)});
    const Status done = testing::run_linear(*g_, one, &memory_, work.vars);
    if (!done.ok()) return fail(Error(done.error()).with(strf("call %zu", i)));
  }
  return {};
}

Result<std::vector<double>> Subject::contents(const Node* buffer) {
  if (interpret_) {
    const auto it = memory_.find(buffer);
    if (it == memory_.end()) return fail(Errc::kNotFound, "the buffer was never written");
    return it->second.doubles();
  }
  if (!session_->has_memory(buffer)) return fail(Errc::kNotFound, "the buffer has no memory");
  ASSIGN_OR_RETURN(const hal::Buffer memory, session_->memory(buffer));
  ASSIGN_OR_RETURN(hal::Device* const device, session_->device(ir::device(*g_, buffer)));
  const auto count = static_cast<size_t>(ir::element_count(*g_, buffer));
  std::vector<std::byte> bytes(count * static_cast<size_t>(ir::item_size(buffer->dtype)));
  RETURN_IF_ERROR(device->download(bytes, memory, 0, Deadline::in_ms(kRunLimitMs)));
  return doubles_of(buffer->dtype, bytes);
}

}  // namespace modeld::fuzz
