#include "runtime/exec/compile_plan_builder.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "hal/base/bytes.h"

#include "runtime/ir/derived.h"
#include "runtime/ir/sharding.h"

namespace modeld::exec {

// Of one arena, by one entry.
struct PlanBuilder::ArenaNeed {
  uint64_t end = 0;    // behind the last byte used
  uint64_t bound = 0;  // most bytes alive at one call
};

// What the nodes of one entry's calls stand for.
struct PlanBuilder::Scope {
  Entry entry;
  uint32_t index = 0;  // of the entry
  const schedule::Schedule* schedule = nullptr;
  std::unordered_map<const ir::Node*, uint32_t> slots;  // BUFFER -> tensor slot
  std::map<std::string, uint32_t> scalars;              // name -> slot
  std::vector<uint32_t> lanes;                          // lane of the schedule -> ours
  std::unordered_map<const ir::Node*, ArgRef> own;      // unplanned temporaries
  std::map<uint32_t, ArenaNeed> arenas;                 // what this entry needs of each
};

PlanBuilder::PlanBuilder(ir::Graph& g,
                         const tensor::WeightStore& weights,
                         std::span<const LoweredRow> rows,
                         Plan& plan)
    : g_(g), weights_(weights), rows_(rows), plan_(plan) {
  for (const LoweredRow& r : rows_) {
    program_index_.emplace(r.row.key, static_cast<uint32_t>(plan_.programs.size()));
    plan_.programs.push_back(r.row);
  }
}

Status PlanBuilder::add_entry(const EntrySpec& spec,
                              const schedule::Schedule& schedule,
                              std::span<const std::optional<Hash128>> keys) {
  Scope scope;
  scope.schedule = &schedule;
  scope.index = static_cast<uint32_t>(plan_.entries.size());
  scope.entry.name = spec.name;
  RETURN_IF_ERROR(bind_interface(spec, schedule, scope));
  for (const schedule::MemoryLane& lane : schedule.plan.lanes) {
    const auto [at, is_new] =
        lanes_.try_emplace({lane.device, lane.copy}, static_cast<uint32_t>(lanes_.size()));
    scope.lanes.push_back(at->second);
    const uint32_t arena = arena_index(at->second);
    scope.arenas[arena] = {static_cast<uint64_t>(lane.arena_size),
                           static_cast<uint64_t>(lane.lower_bound)};
    plan_.arenas[arena].sum += static_cast<uint64_t>(lane.sum_size);
    plan_.arenas[arena].copy = lane.copy;
  }
  add_arena_uses(schedule.plan, scope);
  for (size_t i = 0; i < schedule.linear->nsrc; ++i)
    RETURN_IF_ERROR(add_call(schedule.linear->src(i), keys[i], scope));
  for (const auto& [index, need] : scope.arenas) {
    ArenaRow& arena = plan_.arenas[index];
    arena.size = std::max(arena.size, need.end);
    arena.bound = std::max(arena.bound, need.bound);
  }
  plan_.entries.push_back(std::move(scope.entry));
  return {};
}

void PlanBuilder::add_arena_uses(const schedule::MemoryPlan& memory, const Scope& scope) {
  for (const schedule::BufferPlace& p : memory.places) {
    ArenaUse use;
    use.entry = scope.index;
    use.arena = arena_index(scope.lanes[static_cast<size_t>(p.lane)]);
    use.offset = static_cast<uint64_t>(p.offset);
    use.size = static_cast<uint64_t>(p.size);
    use.first = static_cast<uint32_t>(p.first);
    use.last = static_cast<uint32_t>(p.last);
    use.free = static_cast<uint32_t>(p.free);
    plan_.arena_uses.push_back(use);
  }
}

Result<TensorInfo> PlanBuilder::tensor_info(const Binding& b, uint32_t slot) {
  TensorInfo t;
  t.name = b.name;
  t.dtype = ir::strong(b.node->dtype);
  t.dims = ir::dims(g_, b.node);
  RETURN_IF_ERROR(g_.status());
  t.bytes = static_cast<uint64_t>(ir::item_size(t.dtype));
  for (const int64_t d : t.dims) t.bytes *= static_cast<uint64_t>(d);
  t.slot = slot;
  return t;
}

Status PlanBuilder::bind_interface(const EntrySpec& spec,
                                   const schedule::Schedule& schedule,
                                   Scope& scope) {
  uint32_t next = 0;
  for (const Binding& b : spec.inputs) {
    const ir::Node* buffer = ir::base(b.node);
    if (buffer->op != ir::Op::kBuffer || weights_.find(buffer->as<ir::ParamArg>().slot) != nullptr)
      return fail(Errc::kInvalid, strf("input %s is no buffer", b.name.c_str()));
    if (!scope.slots.emplace(buffer, next).second)
      return fail(Errc::kInvalid, strf("input %s is bound twice", b.name.c_str()));
    ASSIGN_OR_RETURN(TensorInfo t, tensor_info(b, next++));
    if (t.bytes != static_cast<uint64_t>(ir::element_count(g_, buffer)) *
                       static_cast<uint64_t>(ir::item_size(buffer->dtype)))
      return fail(Errc::kInvalid, strf("input %s is only a part of its buffer", b.name.c_str()));
    scope.entry.inputs.push_back(std::move(t));
  }
  for (size_t i = 0; i < spec.outputs.size(); ++i) {
    const Binding& b = spec.outputs[i];
    const ir::Node* storage = schedule.output_storage[i];
    if (weights_.find(storage->as<ir::ParamArg>().slot) != nullptr ||
        !scope.slots.emplace(storage, next).second)
      return fail(Errc::kUnsupported,
                  strf("output %s would be written over an input or a constant", b.name.c_str()));
    ASSIGN_OR_RETURN(TensorInfo t, tensor_info(b, next++));
    scope.entry.outputs.push_back(std::move(t));
  }
  for (const ir::Node* v : spec.scalars) {
    if (v->op != ir::Op::kParam || v->as<ir::ParamArg>().addrspace != ir::AddrSpace::kAlu)
      return fail(Errc::kInvalid, "a scalar is no variable");
    const auto& arg = v->as<ir::ParamArg>();
    if (!scope.scalars.emplace(arg.name, next).second)
      return fail(Errc::kInvalid, strf("scalar %s is bound twice", arg.name.c_str()));
    scope.entry.scalars.push_back(ScalarInfo{arg.name, arg.vmin, arg.vmax, next++});
  }
  return {};
}

Status PlanBuilder::add_call(const ir::Node* call,
                             const std::optional<Hash128>& key,
                             Scope& scope) {
  CallRow row;
  if (!key) {
    if (call->nsrc != 3) return fail(Errc::kInternal, "a COPY without destination and source");
    row.kind = CallRow::Kind::kCopy;
    for (size_t i = 1; i < 3; ++i) {
      ASSIGN_OR_RETURN(const ArgRef arg, address_of(call->src(i), scope));
      row.args.push_back(arg);
    }
    row.copy_bytes = static_cast<uint64_t>(ir::element_count(g_, call->src(1))) *
                     static_cast<uint64_t>(ir::item_size(call->src(1)->dtype));
  } else {
    row.program = program_index_.at(*key);
    RETURN_IF_ERROR(add_program_args(call, rows_[row.program], scope, row));
  }
  scope.entry.calls.push_back(std::move(row));
  return {};
}

Status PlanBuilder::add_program_args(const ir::Node* call,
                                     const LoweredRow& program,
                                     Scope& scope,
                                     CallRow& row) {
  if (program.row.buffer_args + 1 > call->nsrc)
    return fail(Errc::kInternal,
                strf("kernel %s takes %u buffers, its call has %u arguments",
                     program.row.name.c_str(), program.row.buffer_args, call->nsrc - 1));
  for (uint32_t i = 0; i < program.row.buffer_args; ++i) {
    ASSIGN_OR_RETURN(const ArgRef arg, address_of(call->src(i + 1), scope));
    row.args.push_back(arg);
  }
  for (const std::string& name : program.scalars) {
    if (const auto at = scope.scalars.find(name); at != scope.scalars.end()) {
      row.args.push_back(ArgRef{ArgRef::Kind::kScalar, at->second, 0});
    } else if (const auto value = scope.schedule->vars.find(name);
               value != scope.schedule->vars.end()) {
      row.args.push_back(ArgRef{ArgRef::Kind::kConst, 0, static_cast<uint64_t>(value->second)});
    } else {
      return fail(Errc::kInvalid, strf("kernel %s uses variable %s, which nothing binds",
                                       program.row.name.c_str(), name.c_str()));
    }
  }
  return {};
}

Result<ArgRef> PlanBuilder::address_of(const ir::Node* arg, Scope& scope) {
  if (const std::string& device = ir::device(g_, arg); ir::is_device_tuple(device))
    return fail(Errc::kUnsupported, strf("a plan sits on one device, %s is on %s",
                                         ir::tensor_name(arg).c_str(), device.c_str()));
  const auto view = ir::contiguous_view(g_, arg);
  if (!view || view->buffer->op != ir::Op::kBuffer)
    return fail(Errc::kInternal, strf("a call argument is %s, not a buffer", ir::op_name(arg->op)));
  const ir::Node* buffer = view->buffer;
  const auto item = static_cast<uint64_t>(ir::item_size(buffer->dtype));
  const uint64_t offset = static_cast<uint64_t>(view->offset) * item;
  if (const auto at = scope.slots.find(buffer); at != scope.slots.end())
    return ArgRef{ArgRef::Kind::kSlot, at->second, offset};
  if (weights_.find(buffer->as<ir::ParamArg>().slot) != nullptr) {
    ASSIGN_OR_RETURN(const uint32_t row, weight_buffer(buffer->as<ir::ParamArg>().slot, buffer));
    return ArgRef{ArgRef::Kind::kBuffer, row, offset};
  }
  if (const schedule::BufferPlace* place = scope.schedule->plan.find(buffer)) {
    const uint32_t lane = scope.lanes[static_cast<size_t>(place->lane)];
    const BufferRow row{BufferRow::Kind::kArena, lane, arena_index(lane),
                        static_cast<uint64_t>(place->offset), static_cast<uint64_t>(place->size)};
    return ArgRef{ArgRef::Kind::kBuffer, add_buffer(row), offset};
  }
  if (const auto at = scope.own.find(buffer); at != scope.own.end()) {
    ArgRef out = at->second;
    out.offset = offset;
    return out;
  }
  const auto& param = buffer->as<ir::ParamArg>();
  if (!param.name.empty())
    return fail(Errc::kInvalid,
                strf("buffer %s is neither an input nor a constant", param.name.c_str()));
  // A temporary the planner left alone: memory of its own behind the planned part.
  const auto [lane, is_new] =
      lanes_.try_emplace({param.device, false}, static_cast<uint32_t>(lanes_.size()));
  const uint32_t arena = arena_index(lane->second);
  ArenaNeed& need = scope.arenas[arena];
  need.end = align_up(need.end, 256);
  const uint64_t size = static_cast<uint64_t>(ir::element_count(g_, buffer)) * item;
  const BufferRow row{BufferRow::Kind::kArena, lane->second, arena, need.end, size};
  const uint32_t calls = scope.schedule->linear->nsrc;
  plan_.arena_uses.push_back({scope.index, arena, need.end, size, 0, calls - 1, calls});
  need.end += size;
  need.bound += size;
  plan_.arenas[arena].sum += size;
  const ArgRef out{ArgRef::Kind::kBuffer, add_buffer(row), 0};
  scope.own.emplace(buffer, out);
  return ArgRef{out.kind, out.index, offset};
}

Result<uint32_t> PlanBuilder::weight_buffer(int64_t slot, const ir::Node* buffer) {
  const tensor::Weight& w = *weights_.find(slot);
  const auto size = static_cast<uint64_t>(w.size_bytes());
  const uint64_t wanted = static_cast<uint64_t>(ir::element_count(g_, buffer)) *
                          static_cast<uint64_t>(ir::item_size(buffer->dtype));
  if (wanted != size)
    return fail(
        Errc::kInvalid,
        strf("constant %lld has %llu bytes, its buffer %llu", static_cast<long long>(slot),
             static_cast<unsigned long long>(size), static_cast<unsigned long long>(wanted)));
  auto at = weight_of_slot_.find(slot);
  if (at == weight_of_slot_.end()) {
    const auto [same, is_new] =
        weight_of_content_.try_emplace({w.hash, size}, static_cast<uint32_t>(plan_.weights.size()));
    if (is_new) {
      const std::string& name = buffer->as<ir::ParamArg>().name;
      plan_.weights.push_back(WeightRow{name.empty() ? strf("w%zu", plan_.weights.size()) : name,
                                        plan_.weights_size(), size});
      weight_data_.push_back(&w);
    }
    at = weight_of_slot_.emplace(slot, same->second).first;
  }
  return add_buffer(BufferRow{BufferRow::Kind::kWeight, 0, at->second, 0, size});
}

uint32_t PlanBuilder::arena_index(uint32_t lane) {
  for (size_t i = 0; i < plan_.arenas.size(); ++i)
    if (plan_.arenas[i].lane == lane) return static_cast<uint32_t>(i);
  plan_.arenas.push_back(ArenaRow{lane, 0});
  return static_cast<uint32_t>(plan_.arenas.size() - 1);
}

uint32_t PlanBuilder::add_buffer(const BufferRow& row) {
  const auto [at, is_new] =
      buffer_index_.try_emplace(row, static_cast<uint32_t>(plan_.buffers.size()));
  if (is_new) plan_.buffers.push_back(row);
  return at->second;
}

Status PlanBuilder::finish() {
  plan_.weight_bytes.assign(plan_.weights_size(), std::byte{0});
  for (size_t i = 0; i < plan_.weights.size(); ++i)
    std::memcpy(plan_.weight_bytes.data() + plan_.weights[i].offset, weight_data_[i]->bytes->data(),
                weight_data_[i]->bytes->size());
  for (const ArenaRow& a : plan_.arenas) {
    plan_.memory.sum_bytes += a.sum;
    plan_.memory.planned_bytes += a.size;
  }
  plan_.memory.resident_bytes = plan_.memory.planned_bytes + plan_.weight_bytes.size();
  if (Status s = check_plan(plan_, plan_.weight_bytes.size(), 0); !s.ok())
    return fail(Errc::kInternal, "compile_plan made an invalid plan: " + s.error().what);
  return {};
}

}  // namespace modeld::exec
