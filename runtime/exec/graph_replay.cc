#include "runtime/exec/graph_replay.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "hal/base/bytes.h"
#include "hal/base/log.h"
#include "hal/base/mapping.h"
#include "hal/base/unique_fd.h"

#include "runtime/exec/dependency_sync.h"

namespace modeld::exec {

namespace {

// The calls of one batch on one device, recorded. Input i of the recording is the value of
// words[i].
struct CommandList {
  uint32_t device = 0;
  std::vector<ArgRef> words;    // kSlot and kScalar, each once
  std::vector<uint64_t> table;  // their values in the last submit
  std::unique_ptr<hal::Bound> bound;
};

hal::ProgramImage image_head(const ProgramRow& row) {
  hal::ProgramImage out;
  out.name = row.name;
  for (uint32_t i = 0; i < row.arg_count(); ++i)
    out.args.push_back(hal::Arg{i < row.buffer_args ? hal::ArgKind::kBuffer : hal::ArgKind::kScalar,
                                static_cast<uint16_t>(i)});
  return out;
}

hal::Dim3 dim3(const uint64_t (&n)[3]) {
  return {hal::Word::value(n[0]), hal::Word::value(n[1]), hal::Word::value(n[2])};
}

// All images in one sealed memfd, so that each device maps code once.
struct CodeSection {
  UniqueFd fd;
  uint64_t size = 0;
  std::vector<uint64_t> offsets;  // per program
};

Result<CodeSection> code_section(const CompiledLinear& linear) {
  CodeSection out;
  std::vector<std::byte> bytes;
  for (const ProgramRow& row : linear.programs) {
    bytes.resize(align_up(bytes.size(), row.image.alignment));
    out.offsets.push_back(bytes.size());
    bytes.insert(bytes.end(), row.image.code.begin(), row.image.code.end());
  }
  out.size = bytes.size();
  if (bytes.empty()) return out;
  ASSIGN_OR_RETURN(out.fd, sealed_memfd("modeld-jit", bytes));
  return out;
}

}  // namespace

Result<std::vector<std::vector<std::shared_ptr<hal::Program>>>> load_programs(
    const CompiledLinear& linear, std::span<hal::Device* const> devices) {
  std::vector<std::vector<std::shared_ptr<hal::Program>>> out(
      linear.programs.size(), std::vector<std::shared_ptr<hal::Program>>(devices.size()));
  ASSIGN_OR_RETURN(const CodeSection code, code_section(linear));
  for (size_t i = 0; i < linear.calls.size(); ++i) {
    const CompiledCall& call = linear.calls[i];
    if (call.kind != CallRow::Kind::kProgram) continue;
    std::shared_ptr<hal::Program>& program = out[call.program][call.device];
    if (program != nullptr) continue;
    const ProgramRow& row = linear.programs[call.program];
    if (row.image.is_missing())
      return fail(Errc::kCompile, strf("call %zu (%s) has no binary", i, row.name.c_str()));
    hal::ProgramImage image = image_head(row);
    image.target = linear.devices[call.device].target;
    image.fd = code.fd.get();
    image.fd_length = code.size;
    image.entry_offset = code.offsets[call.program] + row.image.entry_offset;
    ASSIGN_OR_RETURN(program, devices[call.device]->load(image));
  }
  return out;
}

namespace {

// Queues of host devices see one another's signals; any other queue only its own.
GraphDevice graph_device(const hal::Device& device) {
  const hal::DeviceInfo& info = device.info();
  if (!info.is_unified) return {GraphSupport::kSingle, 0};
  return {GraphSupport::kPeers, info.is_simulated ? 1u : 0u};
}

}  // namespace

struct GraphReplay::State {
  CompiledLinear linear;  // without code and texts
  ReplayBinding binding;
  std::vector<Batch> batches;
  std::vector<CallSync> sync;
  std::vector<std::optional<hal::Signal>> signals;  // per device: value = last finished call + 1
  std::vector<std::vector<CommandList>> lists;      // per batch; none for plain calls
  std::vector<std::optional<hal::TimelinePoint>> in_flight;  // per device: its last submission
  std::optional<Error> error;                                // sticky
  uint64_t patched = 0;
  std::vector<hal::Buffer> in_use;  // inputs of the last run, which recordings do not hold
  // Of the run being submitted.
  std::span<const hal::Buffer> inputs;
  std::span<const int64_t> variables;

  Status check_binding() const;
  Status make_signals();
  Status record_batch(const Batch& batch);
  Status record_call(uint32_t index, hal::Recorder& recorder, CommandList* list);
  Result<hal::Word> word_of(const ArgRef& ref, uint32_t device, CommandList* list) const;
  Result<uint64_t> value_of(const ArgRef& ref, uint32_t device) const;

  Status check_run() const;
  Status submit_batch(size_t index);
  Status submit_plain(uint32_t call);
  Status settle(Deadline deadline);
  Status stop(Error e);
  void set_signals(uint64_t value);
  bool is_running() const;
};

Status GraphReplay::State::check_binding() const {
  RETURN_IF_ERROR(check_compiled_linear(linear));
  if (binding.devices.size() != linear.devices.size() ||
      binding.memories.size() != linear.memories.size() ||
      binding.programs.size() != linear.programs.size())
    return fail(Errc::kInvalid,
                strf("replay: %zu devices, %zu memories, %zu programs bound; "
                     "wanted %zu, %zu, %zu",
                     binding.devices.size(), binding.memories.size(), binding.programs.size(),
                     linear.devices.size(), linear.memories.size(), linear.programs.size()));
  for (size_t i = 0; i < linear.memories.size(); ++i)
    if (!binding.memories[i] || binding.memories[i].size() < linear.memories[i].bytes)
      return fail(Errc::kInvalid, strf("replay: memory %zu is not bound or too short", i));
  return {};
}

Status GraphReplay::State::make_signals() {
  signals.resize(linear.devices.size());
  for (size_t i = 0; i < sync.size(); ++i) {
    std::optional<hal::Signal>& signal = signals[linear.calls[i].device];
    if (!sync[i].is_signalled || signal) continue;
    ASSIGN_OR_RETURN(signal, binding.devices[linear.calls[i].device]->make_signal());
  }
  return {};
}

Result<uint64_t> GraphReplay::State::value_of(const ArgRef& ref, uint32_t device) const {
  switch (ref.kind) {
    case ArgRef::Kind::kBuffer: {
      ASSIGN_OR_RETURN(const hal::DevAddr at,
                       binding.memories[ref.index].addr_on(*binding.devices[device]));
      return at + ref.offset;
    }
    case ArgRef::Kind::kSlot: {
      ASSIGN_OR_RETURN(const hal::DevAddr at, inputs[ref.index].addr_on(*binding.devices[device]));
      return at + ref.offset;
    }
    case ArgRef::Kind::kScalar:
      return static_cast<uint64_t>(variables[ref.index]);
    case ArgRef::Kind::kConst:
      return ref.offset;
  }
  return fail(Errc::kInternal, "argument of no known kind");
}

// What changes from run to run becomes a numbered input of the recording, without one (`list` is
// null: the recording is for this run only) its value now.
Result<hal::Word> GraphReplay::State::word_of(const ArgRef& ref,
                                              uint32_t device,
                                              CommandList* list) const {
  const bool is_fixed = ref.kind == ArgRef::Kind::kBuffer || ref.kind == ArgRef::Kind::kConst;
  if (is_fixed || list == nullptr) {
    ASSIGN_OR_RETURN(const uint64_t value, value_of(ref, device));
    return hal::Word::value(value);
  }
  auto at = std::find(list->words.begin(), list->words.end(), ref);
  if (at == list->words.end()) at = list->words.insert(at, ref);
  return hal::Word::input(static_cast<uint32_t>(at - list->words.begin()));
}

Status GraphReplay::State::record_call(uint32_t index, hal::Recorder& recorder, CommandList* list) {
  const CompiledCall& call = linear.calls[index];
  std::vector<hal::Word> words;
  for (const CallArg& arg : call.args) {
    ASSIGN_OR_RETURN(const hal::Word word, word_of(arg.ref, call.device, list));
    words.push_back(word);
    if (arg.ref.kind == ArgRef::Kind::kBuffer) recorder.keep(binding.memories[arg.ref.index]);
  }
  for (const QueueWait& w : sync[index].waits)
    recorder.wait(*signals[w.device], hal::Word::value(uint64_t{w.call} + 1));
  if (call.kind == CallRow::Kind::kCopy) {
    recorder.copy(words[0], words[1], hal::Word::value(call.args[0].bytes));
  } else {
    const ProgramRow& row = linear.programs[call.program];
    recorder.launch(binding.programs[call.program][call.device], words, dim3(row.groups),
                    dim3(row.local));
  }
  if (sync[index].is_signalled)
    recorder.signal(*signals[call.device], hal::Word::value(uint64_t{index} + 1));
  return {};
}

Status GraphReplay::State::record_batch(const Batch& batch) {
  std::vector<CommandList>& out = lists.emplace_back();
  if (!batch.is_graph) return {};
  std::vector<std::unique_ptr<hal::Recorder>> recorders;  // parallel to `out`
  for (uint32_t i = batch.first; i < batch.first + batch.count; ++i) {
    const uint32_t device = linear.calls[i].device;
    auto at = std::find_if(out.begin(), out.end(),
                           [device](const CommandList& l) { return l.device == device; });
    if (at == out.end()) {
      recorders.push_back(binding.devices[device]->record(
          hal::QueueKind::kCompute,
          strf("calls %u to %u", batch.first, batch.first + batch.count - 1)));
      at = out.insert(at, CommandList{});
      at->device = device;
    }
    RETURN_IF_ERROR(record_call(i, *recorders[static_cast<size_t>(at - out.begin())], &*at));
  }
  for (size_t i = 0; i < out.size(); ++i) {
    ASSIGN_OR_RETURN(out[i].bound, std::move(*recorders[i]).bind());
    out[i].table.resize(out[i].words.size());
  }
  return {};
}

// One list per device, handed over in the order of their first calls; none runs ahead of its data,
// whatever the order.
Status GraphReplay::State::submit_batch(size_t index) {
  if (!batches[index].is_graph) return submit_plain(batches[index].first);
  for (CommandList& list : lists[index]) {
    for (size_t i = 0; i < list.words.size(); ++i) {
      ASSIGN_OR_RETURN(list.table[i], value_of(list.words[i], list.device));
    }
    ASSIGN_OR_RETURN(in_flight[list.device], list.bound->submit(list.table));
    patched += list.bound->patched_words();
  }
  return {};
}

Status GraphReplay::State::submit_plain(uint32_t call) {
  const uint32_t d = linear.calls[call].device;
  hal::Device& device = *binding.devices[d];
  auto recorder = device.record(hal::QueueKind::kCompute, strf("call %u", call));
  RETURN_IF_ERROR(record_call(call, *recorder, nullptr));
  ASSIGN_OR_RETURN(in_flight[d], device.submit(std::move(recorder)));
  return {};
}

Status GraphReplay::State::check_run() const {
  if (inputs.size() != linear.inputs.size() || variables.size() != linear.variables.size())
    return fail(
        Errc::kInvalid,
        strf("replay: %zu inputs and %zu variables given, wanted %zu and %zu", inputs.size(),
             variables.size(), linear.inputs.size(), linear.variables.size()));
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i] || inputs[i].size() < linear.inputs[i].bytes)
      return fail(Errc::kInvalid,
                  strf("replay: input %zu has %zu bytes, wanted %llu", i, inputs[i].size(),
                       static_cast<unsigned long long>(linear.inputs[i].bytes)));
  return {};
}

Status GraphReplay::State::settle(Deadline deadline) {
  for (size_t d = 0; d < in_flight.size(); ++d) {
    if (!in_flight[d]) continue;
    if (Status s = binding.devices[d]->wait(*in_flight[d], deadline); !s.ok())
      return stop(std::move(s).error());
    in_flight[d].reset();
  }
  return {};
}

Status GraphReplay::State::stop(Error e) {
  error = e;
  return fail(std::move(e));
}

void GraphReplay::State::set_signals(uint64_t value) {
  for (std::optional<hal::Signal>& s : signals)
    if (s) s->set(value);
}

bool GraphReplay::State::is_running() const {
  for (size_t d = 0; d < in_flight.size(); ++d)
    if (in_flight[d] && !binding.devices[d]->wait(*in_flight[d], Deadline{0}).ok()) return true;
  return false;
}

GraphReplay::GraphReplay(std::unique_ptr<State> state) : state_(std::move(state)) {}

GraphReplay::~GraphReplay() {
  // A queue that waits for one that failed must end before its list can go.
  if (state_->error) state_->set_signals(std::numeric_limits<uint64_t>::max());
  state_->lists.clear();
  if (!state_->is_running()) return;
  LOG_ERROR("exec", "a replay did not end; its inputs are leaked, a device may still read them");
  static_cast<void>(
      std::make_unique<std::vector<hal::Buffer>>(std::move(state_->in_use)).release());
}

Result<std::unique_ptr<GraphReplay>> GraphReplay::load(const CompiledLinear& linear,
                                                       ReplayBinding binding,
                                                       const BatchOptions& options) {
  auto state = std::make_unique<State>();
  state->linear = linear;
  for (ProgramRow& row : state->linear.programs) {
    row.ast_text.clear();
    row.source.clear();
  }
  state->binding = std::move(binding);
  RETURN_IF_ERROR(state->check_binding());
  for (ProgramRow& row : state->linear.programs) row.image = {};
  state->in_flight.resize(linear.devices.size());
  state->sync = sync_calls(linear);
  RETURN_IF_ERROR(state->make_signals());
  std::vector<GraphDevice> devices;
  for (const hal::Device* d : state->binding.devices) devices.push_back(graph_device(*d));
  state->batches = batch_calls(linear, devices, options);
  for (const Batch& batch : state->batches) RETURN_IF_ERROR(state->record_batch(batch));
  return std::unique_ptr<GraphReplay>(new GraphReplay(std::move(state)));
}

Status GraphReplay::submit(std::span<const hal::Buffer> inputs,
                           std::span<const int64_t> variables,
                           Deadline deadline) {
  State& s = *state_;
  if (s.error) return fail(Error(*s.error).with("replay was stopped"));
  s.inputs = inputs;
  s.variables = variables;
  RETURN_IF_ERROR(s.check_run());
  RETURN_IF_ERROR(s.settle(deadline));
  s.in_use.assign(inputs.begin(), inputs.end());
  s.set_signals(0);
  s.patched = 0;
  for (size_t i = 0; i < s.batches.size(); ++i) {
    Status done = s.submit_batch(i);
    if (done.ok()) continue;
    // Queues that were filled already wait for calls that never come.
    s.set_signals(std::numeric_limits<uint64_t>::max());
    return s.stop(std::move(done).error());
  }
  return {};
}

Status GraphReplay::wait(Deadline deadline) {
  if (state_->error) return fail(Error(*state_->error).with("replay was stopped"));
  return state_->settle(deadline);
}

Status GraphReplay::run(std::span<const hal::Buffer> inputs,
                        std::span<const int64_t> variables,
                        Deadline deadline) {
  RETURN_IF_ERROR(submit(inputs, variables, deadline));
  return wait(deadline);
}

Status GraphReplay::reinit(Deadline deadline) {
  for (hal::Device* device : state_->binding.devices) RETURN_IF_ERROR(device->recover(deadline));
  state_->in_flight.assign(state_->in_flight.size(), std::nullopt);
  state_->error.reset();
  return {};
}

bool GraphReplay::is_failed() const {
  return state_->error.has_value();
}
const std::vector<Batch>& GraphReplay::batches() const {
  return state_->batches;
}
size_t GraphReplay::recorded_lists() const {
  size_t n = 0;
  for (const std::vector<CommandList>& batch : state_->lists) n += batch.size();
  return n;
}
uint64_t GraphReplay::patched_words() const {
  return state_->patched;
}

}  // namespace modeld::exec
