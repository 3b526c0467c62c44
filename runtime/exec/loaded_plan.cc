#include "runtime/exec/loaded_plan.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "hal/base/bytes.h"
#include "hal/base/mapping.h"
#include "hal/base/unique_fd.h"
#include "hal/target.h"

namespace modeld::exec {

namespace {

// An address that is another slot's plus a constant: its own entry of the table given to the queue.
struct DerivedSlot {
  uint32_t base = 0;
  uint64_t offset = 0;
};

// One entry, recorded.
struct EntryRun {
  std::string name;
  uint32_t slot_count = 0;
  std::vector<uint32_t> address_slots;  // must not be null
  std::vector<DerivedSlot> derived;     // table[slot_count + i]
  std::vector<uint64_t> table;          // used only when something is derived
  std::unique_ptr<hal::Bound> bound;
};

hal::ProgramImage image_head(const Plan& plan, const ProgramRow& row) {
  hal::ProgramImage out;
  out.name = row.name;
  out.target = hal::print_target(plan.target);
  for (uint32_t i = 0; i < row.arg_count(); ++i)
    out.args.push_back(hal::Arg{i < row.buffer_args ? hal::ArgKind::kBuffer : hal::ArgKind::kScalar,
                                static_cast<uint16_t>(i)});
  return out;
}

hal::Dim3 dim3(const uint64_t (&n)[3]) {
  return {hal::Word::value(n[0]), hal::Word::value(n[1]), hal::Word::value(n[2])};
}

}  // namespace

struct LoadedPlan::State {
  explicit State(hal::Device& d) : device(d) {}

  Status load_weights(const Plan& plan, std::span<const std::byte> bytes, bool may_borrow);
  Status load_arenas(const Plan& plan);
  Status load_programs(const Plan& plan, const PlanSources& sources);
  Status record(const Plan& plan, const Entry& entry);
  Result<hal::Word> word_of(const Plan& plan, const ArgRef& arg, EntryRun& run);
  Result<hal::Buffer> alloc(uint64_t size_bytes);

  hal::Device& device;
  hal::Buffer weights;  // empty when the plan has none
  std::vector<hal::Buffer> arenas;
  std::vector<std::shared_ptr<hal::Program>> programs;
  std::vector<EntryRun> runs;
  std::vector<Entry> interfaces;           // inputs, outputs, scalars of each entry, for dry_run
  std::vector<hal::Buffer> stuck_scratch;  // of a dry run that did not end in time
  uint64_t bound_bytes = 0;
};

Result<hal::Buffer> LoadedPlan::State::alloc(uint64_t size_bytes) {
  hal::BufferDesc desc;
  desc.size_bytes = std::max<uint64_t>(size_bytes, 1);
  desc.flags = hal::Mem::kZero;  // whatever a bug reads, it reads the same every time
  return device.allocator().alloc(desc);
}

Status LoadedPlan::State::load_weights(const Plan& plan,
                                       std::span<const std::byte> bytes,
                                       bool may_borrow) {
  if (plan.weights.empty()) return {};
  const bool is_aligned = reinterpret_cast<uintptr_t>(bytes.data()) % kRowAlign == 0;
  if (may_borrow && is_aligned && device.info().is_unified) {
    hal::BufferDesc desc;
    desc.size_bytes = bytes.size();
    desc.external = const_cast<std::byte*>(bytes.data());  // check_plan refuses calls that write it
    desc.read_only = true;
    if (auto in_place = device.allocator().alloc(desc); in_place.ok()) {
      weights = std::move(*in_place);
      return {};
    }
  }
  ASSIGN_OR_RETURN(weights, alloc(bytes.size()));
  bound_bytes += bytes.size();
  ASSIGN_OR_RETURN(const hal::TimelinePoint done, device.upload(weights, 0, bytes));
  return device.wait(done, Deadline::in_ms(30'000));
}

Status LoadedPlan::State::load_arenas(const Plan& plan) {
  for (const ArenaRow& row : plan.arenas) {
    ASSIGN_OR_RETURN(hal::Buffer arena, alloc(row.size));
    arenas.push_back(std::move(arena));
    bound_bytes += row.size;
  }
  return {};
}

// All fresh images share one sealed memfd, so that the device maps code once.
Status LoadedPlan::State::load_programs(const Plan& plan, const PlanSources& sources) {
  std::vector<std::byte> fresh;
  std::vector<uint64_t> offsets(plan.programs.size());
  for (size_t i = 0; i < plan.programs.size(); ++i) {
    const Image& im = plan.programs[i].image;
    if (im.code.empty()) continue;
    fresh.resize(align_up(fresh.size(), im.alignment));
    offsets[i] = fresh.size();
    fresh.insert(fresh.end(), im.code.begin(), im.code.end());
  }
  UniqueFd fresh_fd;
  if (!fresh.empty()) {
    ASSIGN_OR_RETURN(fresh_fd, sealed_memfd("modeld-kernels", fresh));
  }
  for (size_t i = 0; i < plan.programs.size(); ++i) {
    const ProgramRow& row = plan.programs[i];
    if (row.image.is_missing()) {  // no call uses it: record() would have refused
      programs.push_back(nullptr);
      continue;
    }
    const bool is_fresh = !row.image.code.empty();
    hal::ProgramImage image = image_head(plan, row);
    image.fd = is_fresh ? fresh_fd.get() : sources.program_fd;
    image.fd_offset = is_fresh ? 0 : sources.program_fd_offset;
    image.fd_length = is_fresh ? fresh.size() : sources.program_fd_length;
    image.entry_offset = (is_fresh ? offsets[i] : row.image.offset) + row.image.entry_offset;
    ASSIGN_OR_RETURN(std::shared_ptr<hal::Program> program, device.load(image));
    programs.push_back(std::move(program));
  }
  return {};
}

Result<hal::Word> LoadedPlan::State::word_of(const Plan& plan, const ArgRef& arg, EntryRun& run) {
  switch (arg.kind) {
    case ArgRef::Kind::kBuffer: {
      const BufferRow& b = plan.buffers[arg.index];
      const bool is_weight = b.kind == BufferRow::Kind::kWeight;
      const hal::Buffer& memory = is_weight ? weights : arenas[b.index];
      const uint64_t start = (is_weight ? plan.weights[b.index].offset : 0) + b.offset + arg.offset;
      return hal::Word::value(memory.addr() + start);
    }
    case ArgRef::Kind::kSlot: {
      if (arg.offset == 0) return hal::Word::input(arg.index);
      for (size_t i = 0; i < run.derived.size(); ++i)
        if (run.derived[i].base == arg.index && run.derived[i].offset == arg.offset)
          return hal::Word::input(run.slot_count + static_cast<uint32_t>(i));
      run.derived.push_back(DerivedSlot{arg.index, arg.offset});
      return hal::Word::input(run.slot_count + static_cast<uint32_t>(run.derived.size() - 1));
    }
    case ArgRef::Kind::kScalar:
      return hal::Word::input(arg.index);
    case ArgRef::Kind::kConst:
      return hal::Word::value(arg.offset);
  }
  return fail(Errc::kInternal, "argument of no known kind");
}

Status LoadedPlan::State::record(const Plan& plan, const Entry& entry) {
  EntryRun run;
  run.name = entry.name;
  run.slot_count = entry.slot_count();
  for (const std::vector<TensorInfo>* list : {&entry.inputs, &entry.outputs})
    for (const TensorInfo& t : *list) run.address_slots.push_back(t.slot);
  auto recorder = device.record(hal::QueueKind::kCompute, entry.name);
  if (weights) recorder->keep(weights);
  for (const hal::Buffer& arena : arenas) recorder->keep(arena);
  std::vector<hal::Word> words;
  for (const CallRow& call : entry.calls) {
    words.clear();
    for (const ArgRef& arg : call.args) {
      ASSIGN_OR_RETURN(const hal::Word word, word_of(plan, arg, run));
      words.push_back(word);
    }
    if (call.kind == CallRow::Kind::kCopy) {
      recorder->copy(words[0], words[1], hal::Word::value(call.copy_bytes));
      continue;
    }
    const ProgramRow& row = plan.programs[call.program];
    recorder->launch(programs[call.program], words, dim3(row.groups), dim3(row.local));
  }
  run.table.resize(run.derived.empty() ? 0 : run.slot_count + run.derived.size());
  auto bound = std::move(*recorder).bind();
  if (!bound.ok()) return fail(std::move(bound).error().with("entry " + entry.name));
  run.bound = std::move(*bound);
  runs.push_back(std::move(run));
  Entry interface = entry;
  interface.calls.clear();
  interfaces.push_back(std::move(interface));
  return {};
}

LoadedPlan::LoadedPlan(std::unique_ptr<State> state) : state_(std::move(state)) {}
LoadedPlan::~LoadedPlan() {
  // Recordings first: they wait for the run in flight, which still uses arenas and code.
  if (state_) state_->runs.clear();
}

Result<std::unique_ptr<LoadedPlan>> LoadedPlan::load(const Plan& plan,
                                                     hal::Device& device,
                                                     const PlanSources& sources) {
  const std::span<const std::byte> weights =
      sources.weights.empty() ? std::span<const std::byte>(plan.weight_bytes) : sources.weights;
  RETURN_IF_ERROR(
      check_plan(plan, weights.size(), sources.program_fd >= 0 ? sources.program_fd_length : 0));
  for (const Entry& e : plan.entries)
    for (size_t i = 0; i < e.calls.size(); ++i)
      if (e.calls[i].kind == CallRow::Kind::kProgram &&
          plan.programs[e.calls[i].program].image.is_missing())
        return fail(Errc::kCompile, strf("%s has no binary", call_text(plan, e, i).c_str()));
  auto state = std::make_unique<State>(device);
  RETURN_IF_ERROR(state->load_weights(plan, weights, !sources.weights.empty()));
  RETURN_IF_ERROR(state->load_arenas(plan));
  RETURN_IF_ERROR(state->load_programs(plan, sources));
  for (const Entry& e : plan.entries) RETURN_IF_ERROR(state->record(plan, e));
  return std::unique_ptr<LoadedPlan>(new LoadedPlan(std::move(state)));
}

Result<EntryId> LoadedPlan::entry(std::string_view name) const {
  for (size_t i = 0; i < state_->runs.size(); ++i)
    if (state_->runs[i].name == name) return EntryId{static_cast<uint32_t>(i)};
  return fail(Errc::kNotFound,
              strf("the plan has no entry point %.*s", static_cast<int>(name.size()), name.data()));
}

uint32_t LoadedPlan::slot_count(EntryId id) const {
  return state_->runs[id.index].slot_count;
}

Result<hal::TimelinePoint> LoadedPlan::submit(EntryId id, std::span<const uint64_t> slots) {
  if (id.index >= state_->runs.size())
    return fail(Errc::kInvalid, strf("entry %u is not there", id.index));
  EntryRun& run = state_->runs[id.index];
  if (slots.size() < run.slot_count)
    return fail(Errc::kInvalid, strf("entry %s: %zu slots given, %u wanted", run.name.c_str(),
                                     slots.size(), run.slot_count));
  for (const uint32_t slot : run.address_slots)
    if (slots[slot] == 0)
      return fail(Errc::kInvalid, strf("entry %s: slot %u has no address", run.name.c_str(), slot));
  if (run.derived.empty()) return run.bound->submit(slots.first(run.slot_count));
  std::copy_n(slots.begin(), run.slot_count, run.table.begin());
  for (size_t i = 0; i < run.derived.size(); ++i)
    run.table[run.slot_count + i] = slots[run.derived[i].base] + run.derived[i].offset;
  return run.bound->submit(run.table);
}

Status LoadedPlan::wait(hal::TimelinePoint point, Deadline deadline) {
  return state_->device.wait(point, deadline);
}

Status LoadedPlan::run(EntryId id, std::span<const uint64_t> slots, Deadline deadline) {
  ASSIGN_OR_RETURN(const hal::TimelinePoint point, submit(id, slots));
  return wait(point, deadline);
}

Status LoadedPlan::dry_run(Deadline deadline) {
  for (size_t i = 0; i < state_->runs.size(); ++i) {
    const Entry& e = state_->interfaces[i];
    std::vector<uint64_t> slots(e.slot_count());
    std::vector<hal::Buffer> scratch;
    for (const std::vector<TensorInfo>* list : {&e.inputs, &e.outputs})
      for (const TensorInfo& t : *list) {
        ASSIGN_OR_RETURN(hal::Buffer b, state_->alloc(t.bytes));
        slots[t.slot] = b.addr();
        scratch.push_back(std::move(b));
      }
    for (const ScalarInfo& s : e.scalars)
      slots[s.slot] = static_cast<uint64_t>(std::clamp<int64_t>(0, s.vmin, s.vmax));
    auto point = submit(EntryId{static_cast<uint32_t>(i)}, slots);
    if (!point.ok()) return fail(std::move(point).error().with("dry run of " + e.name));
    if (Status s = wait(*point, deadline); !s.ok()) {
      // The run may still use the scratch memory: it goes after the recordings.
      std::move(scratch.begin(), scratch.end(), std::back_inserter(state_->stuck_scratch));
      return fail(std::move(s).error().with("dry run of " + e.name));
    }
  }
  return {};
}

std::span<const hal::Buffer> LoadedPlan::arenas() const {
  return state_->arenas;
}
uint64_t LoadedPlan::bound_bytes() const {
  return state_->bound_bytes;
}
hal::Device& LoadedPlan::device() const {
  return state_->device;
}

}  // namespace modeld::exec
