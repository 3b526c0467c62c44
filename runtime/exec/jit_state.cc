#include "runtime/exec/jit_state.h"

#include <algorithm>
#include <utility>

#include "runtime/exec/jit_saved.h"
#include "runtime/ir/derived.h"
#include "runtime/ir/print.h"
#include "runtime/ir/rewrite.h"
#include "runtime/ir/spec.h"

namespace modeld::exec {

using ir::Fault;
using ir::Node;
using ir::NodeVec;

namespace {

bool overlap(const hal::Buffer& a, const hal::Buffer& b) {
  return a.addr() < b.addr() + b.size() && b.addr() < a.addr() + a.size();
}

const Node* place_holder(ir::Graph& g, size_t slot, const Node* buffer) {
  return ir::param(g, static_cast<int64_t>(slot), buffer->dtype, ir::element_count(g, buffer),
                   ir::device(g, buffer));
}

}  // namespace

Status JitState::set_results(std::vector<Live> results, const NodeVec& inputs) {
  ir::Graph& g = session_.graph();
  results_ = std::move(results);
  for (size_t i = 0; i < results_.size(); ++i) {
    const Node* node = results_[i].node();
    ASSIGN_OR_RETURN(const NodeVec buffers, buffers_of_view(node, strf("result %zu", i)));
    ir::NodeMap map;
    for (const Node* b : buffers) {
      const auto at = std::find(inputs.begin(), inputs.end(), session_.canonical(b));
      if (at == inputs.end()) {
        memory_row(session_.canonical(b));
      } else {
        map[b] = place_holder(g, static_cast<size_t>(at - inputs.begin()), b);
      }
    }
    input_views_.push_back(map.empty() ? nullptr : ir::substitute(g, node, map));
    // It follows the argument of each call, so it cannot be the argument's own tensor.
    if (!map.empty()) results_[i] = session_.track(tensor::Tensor(g, node));
  }
  return {};
}

// A result that no call touches (a closure's tensor, returned as it is) is held memory, too.
uint32_t JitState::memory_row(const Node* buffer) {
  const auto at = std::find(rows_.held.begin(), rows_.held.end(), buffer);
  const auto row = static_cast<uint32_t>(at - rows_.held.begin());
  if (at != rows_.held.end()) return row;
  ir::Graph& g = session_.graph();
  std::vector<DeviceRow>& devices = rows_.linear.devices;
  const std::string& name = ir::device(g, buffer);
  auto device = std::find_if(devices.begin(), devices.end(),
                             [&name](const DeviceRow& d) { return d.name == name; });
  if (device == devices.end()) device = devices.insert(device, DeviceRow{name, rows_.target});
  const uint64_t bytes = static_cast<uint64_t>(ir::element_count(g, buffer)) *
                         static_cast<uint64_t>(ir::item_size(buffer->dtype));
  rows_.linear.memories.push_back({static_cast<uint32_t>(device - devices.begin()), bytes, true});
  rows_.held.push_back(buffer);
  rows_.is_product.push_back(false);
  return row;
}

Result<const Node*> JitState::result_view(size_t i) const {
  ir::Graph& g = session_.graph();
  const Node* node = input_views_[i] != nullptr ? input_views_[i] : results_[i].node();
  ir::NodeMap map;
  for (const Node* n : ir::toposort(node)) {
    if (n->op == ir::Op::kParam && n->as<ir::ParamArg>().addrspace == ir::AddrSpace::kGlobal) {
      const auto slot = static_cast<size_t>(n->as<ir::ParamArg>().slot);
      map[n] = place_holder(g, rows_.held.size() + slot, n);
    } else if (n->op == ir::Op::kBuffer) {
      const auto at = std::find(rows_.held.begin(), rows_.held.end(), session_.canonical(n));
      if (at == rows_.held.end())
        return fail(Errc::kInternal, strf("jit: result %zu lies in no memory of it", i));
      map[n] = place_holder(g, static_cast<size_t>(at - rows_.held.begin()), n);
    }
  }
  return ir::substitute(g, node, map);
}

Status JitState::restore(SavedJit& saved) {
  rows_.target = saved.target;
  rows_.linear = std::move(saved.linear);
  for (size_t i = 0; i < saved.memories.size(); ++i) {
    const SavedMemory& m = saved.memories[i];
    const MemoryRow& row = rows_.linear.memories[i];
    rows_.is_product.push_back(m.is_product);
    rows_.held.push_back(nullptr);
    if (!row.is_held) continue;
    ASSIGN_OR_RETURN(const Live t,
                     session_.empty({m.elements}, m.dtype, rows_.linear.devices[row.device].name));
    if (!m.is_product) RETURN_IF_ERROR(session_.overwrite(t, m.contents));
    rows_.held.back() = ir::base(t.node());
    restored_.push_back(t);
  }
  std::vector<BufferInfo> inputs;
  for (const InputInfo& input : saved.signature.inputs)
    inputs.insert(inputs.end(), input.buffers.begin(), input.buffers.end());
  for (const std::string& text : saved.results) RETURN_IF_ERROR(restore_result(text, inputs));
  return session_.graph().status();
}

// What PARAM `place` of a stored result stands for here: held memory, or a place holder for an
// input. `inputs`: the buffers of all inputs.
Result<const Node*> JitState::restore_place(const Node* place,
                                            std::span<const BufferInfo> inputs) const {
  ir::Graph& g = session_.graph();
  const auto slot = static_cast<uint64_t>(place->as<ir::ParamArg>().slot);
  const int64_t count = ir::element_count(g, place);
  if (slot < rows_.held.size()) {
    const Node* held = rows_.held[slot];
    if (held == nullptr || held->dtype != place->dtype || ir::element_count(g, held) != count)
      return fail(Errc::kCorrupt, "saved jit: a result lies in memory that is not held");
    return held;
  }
  const uint64_t i = slot - rows_.held.size();
  if (i >= inputs.size() || inputs[i].dtype != place->dtype ||
      static_cast<uint64_t>(count) * static_cast<uint64_t>(ir::item_size(place->dtype)) !=
          inputs[i].bytes)
    return fail(Errc::kCorrupt, "saved jit: a result is a view of no input");
  return place_holder(g, i, place);
}

// Untrusted text: nothing but views of this Jit's memory and inputs may come out of it.
Status JitState::restore_result(const std::string& text, std::span<const BufferInfo> inputs) {
  ir::Graph& g = session_.graph();
  ir::Graph scratch;  // a bad text must not stop the session's graph
  const Result<const Node*> parsed = ir::parse(scratch, text);
  if (!parsed.ok()) return fail(Errc::kCorrupt, "saved jit: a result: " + parsed.error().what);
  const Status valid = ir::verify_tensor(scratch, ir::sink(scratch, std::span(&*parsed, 1)));
  const Result<NodeVec> places = buffers_of_view(*parsed, "a stored result");
  if (valid.ok()) ir::element_count(scratch, *parsed);  // latches what does not fit
  if (!valid.ok() || !places.ok() || scratch.failed())
    return fail(Errc::kCorrupt, "saved jit: a result is no view");
  const Node* node = g.import(*parsed);
  bool is_of_input = false;
  ir::NodeMap map;
  for (const Node* foreign : *places) {
    const Node* place = g.import(foreign);
    if (place->op != ir::Op::kParam)
      return fail(Errc::kCorrupt, "saved jit: a result names a buffer of another process");
    ASSIGN_OR_RETURN(map[place], restore_place(place, inputs));
    is_of_input = is_of_input || map[place]->op == ir::Op::kParam;
  }
  const Node* view = ir::substitute(g, node, map);
  RETURN_IF_ERROR(g.status());
  results_.push_back(session_.track(tensor::Tensor(g, view)));
  input_views_.push_back(is_of_input ? view : nullptr);
  return {};
}

Result<std::vector<std::byte>> JitState::contents(size_t i, size_t bytes) {
  std::vector<std::byte> out(bytes);
  hal::Device& device = *devices_[rows_.linear.memories[i].device];
  RETURN_IF_ERROR(
      device.download(out, memories_[i], 0, Deadline::in_ms(session_.options().run_limit_ms)));
  return out;
}

Status JitState::load(const BatchOptions& batch) {
  if (replay_ != nullptr) return {};
  const CompiledLinear& linear = rows_.linear;
  devices_.clear();
  for (const DeviceRow& d : linear.devices) {
    ASSIGN_OR_RETURN(hal::Device* const device, session_.device(d.name));
    devices_.push_back(device);
  }
  RETURN_IF_ERROR(bind_memory());
  if (programs_.empty()) {
    ASSIGN_OR_RETURN(programs_, load_programs(linear, devices_));
  }
  is_written_.assign(linear.memories.size(), false);
  is_input_written_.assign(linear.inputs.size(), false);
  for (const CompiledCall& call : linear.calls)
    for (const uint32_t at : access_of(linear, call).writes) {
      const ArgRef& r = call.args[at].ref;
      (r.kind == ArgRef::Kind::kSlot ? is_input_written_ : is_written_)[r.index] = true;
    }
  staged_.resize(linear.inputs.size());
  ASSIGN_OR_RETURN(replay_, GraphReplay::load(linear, {devices_, memories_, programs_}, batch));
  return {};
}

Status JitState::bind_memory() {
  memories_.resize(rows_.held.size());
  for (size_t i = 0; i < rows_.held.size(); ++i) {
    if (memories_[i]) continue;
    if (rows_.held[i] != nullptr) {
      ASSIGN_OR_RETURN(memories_[i], session_.memory(rows_.held[i]));
      continue;
    }
    const MemoryRow& row = rows_.linear.memories[i];
    hal::BufferDesc desc;
    desc.size_bytes = std::max<uint64_t>(row.bytes, 1);
    desc.flags = hal::Mem::kZero;
    ASSIGN_OR_RETURN(memories_[i], devices_[row.device]->allocator().alloc(desc));
  }
  return {};
}

// An argument in memory that this run writes would change under its readers.
Status JitState::stage_inputs(const BoundArgs& args, Deadline deadline) {
  inputs_ = args.memory;
  staged_copies_ = 0;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    bool must_copy = false;
    for (size_t m = 0; m < memories_.size(); ++m)
      must_copy = must_copy || (is_written_[m] && overlap(memories_[m], inputs_[i]));
    if (!must_copy) continue;
    hal::Device& device = *devices_[rows_.linear.inputs[i].device];
    if (!staged_[i]) {
      hal::BufferDesc desc;
      desc.size_bytes = inputs_[i].size();
      ASSIGN_OR_RETURN(staged_[i], device.allocator().alloc(desc));
    }
    auto recorder = device.record(hal::QueueKind::kCompute, "jit copy");
    recorder->copy(hal::Word::of(staged_[i]), hal::Word::of(inputs_[i]),
                   hal::Word::value(inputs_[i].size()));
    recorder->keep(staged_[i]).keep(inputs_[i]);
    ASSIGN_OR_RETURN(const hal::TimelinePoint done, device.submit(std::move(recorder)));
    RETURN_IF_ERROR(device.wait(done, deadline));
    inputs_[i] = staged_[i];
    ++staged_copies_;
  }
  return {};
}

// What is written through an argument must not be memory that the function holds besides.
Status JitState::check_written_inputs(const BoundArgs& args) const {
  for (size_t i = 0; i < args.memory.size(); ++i) {
    if (!is_input_written_[i]) continue;
    for (size_t m = 0; m < memories_.size(); ++m)
      if (rows_.held[m] != nullptr && overlap(memories_[m], args.memory[i]))
        return fail(Fault::kDuplicateInput,
                    strf("jit: duplicate inputs: argument buffer %zu is written, and the function "
                         "also holds that memory",
                         i));
  }
  return {};
}

Status JitState::run(const BoundArgs& args, Deadline deadline) {
  if (!replay_->is_failed()) {
    RETURN_IF_ERROR(check_written_inputs(args));
    RETURN_IF_ERROR(stage_inputs(args, deadline));
  }
  RETURN_IF_ERROR(replay_->run(inputs_, args.values, deadline));
  rebind_results(args);
  return {};
}

void JitState::rebind_results(const BoundArgs& args) {
  ir::Graph& g = session_.graph();
  for (size_t i = 0; i < results_.size(); ++i) {
    if (input_views_[i] == nullptr) continue;
    ir::NodeMap map;
    for (const Node* n : ir::toposort(input_views_[i]))
      if (n->op == ir::Op::kParam && n->as<ir::ParamArg>().addrspace == ir::AddrSpace::kGlobal)
        map[n] = args.buffers[static_cast<size_t>(n->as<ir::ParamArg>().slot)];
    session_.set(results_[i], tensor::Tensor(g, ir::substitute(g, input_views_[i], map)));
  }
}

Status JitState::reinit(Deadline deadline) {
  return replay_ == nullptr ? Status{} : replay_->reinit(deadline);
}

void JitState::free_intermediates() {
  replay_.reset();  // waits for a run in flight
  staged_.clear();
  inputs_.clear();
  for (size_t i = 0; i < memories_.size(); ++i) {
    if (rows_.held[i] != nullptr && !rows_.is_product[i]) continue;
    memories_[i] = {};
    if (rows_.held[i] != nullptr) session_.free_memory(rows_.held[i]);
  }
}

std::vector<hal::Buffer> JitState::arenas() const {
  std::vector<hal::Buffer> out;
  for (size_t i = 0; i < memories_.size(); ++i)
    if (rows_.held[i] == nullptr) out.push_back(memories_[i]);
  return out;
}

uint64_t JitState::bound_bytes() const {
  uint64_t n = 0;
  for (const hal::Buffer& b : memories_) n += b ? b.size() : 0;
  return n;
}

}  // namespace modeld::exec
