// Items of memory and order on the device: shared arenas, completion signals, what is left of a
// device that was closed.
#include <algorithm>
#include <cstring>

#include "hal/base/bytes.h"

#include "models/tools/session.h"

#include "selftest/boot/subject.h"

namespace modeld::selftest {
namespace {

using tools::Bytes;

constexpr uint64_t kSeed = 5;
constexpr int64_t kWaitMs = 10'000;

Outcome outcome_of(Result<Outcome> result) {
  return result.ok() ? std::move(*result) : failed(result.error().what);
}

// ---- aliasing ----

// Every output of entry run on seeded inputs; the inputs are read back, too.
struct RunBytes {
  std::vector<Bytes> outputs;
  std::string changed_input;  // "" or the name of one that the run wrote to
};

Result<RunBytes> run_seeded(const bundle::Manifest& m, exec::LoadedPlan& plan) {
  RunBytes out;
  hal::Device& device = plan.device();
  const exec::Entry& entry = *m.plan.find_entry("run");
  ASSIGN_OR_RETURN(const exec::EntryId id, plan.entry("run"));
  std::vector<uint64_t> slots(entry.slot_count());
  std::vector<hal::Buffer> memory;
  const auto bind = [&](const exec::TensorInfo& info) -> Status {
    ASSIGN_OR_RETURN(hal::Buffer b, device.allocator().alloc(
                                        {.size_bytes = info.bytes, .flags = hal::Mem::kZero}));
    slots[info.slot] = b.addr();
    memory.push_back(std::move(b));
    return {};
  };
  for (const exec::TensorInfo& info : entry.inputs) {
    RETURN_IF_ERROR(bind(info));
    ASSIGN_OR_RETURN(const hal::TimelinePoint done,
                     device.upload(memory.back(), 0,
                                   tools::seeded_tensor(kSeed, info.name, info.dtype, info.bytes)));
    RETURN_IF_ERROR(device.wait(done, Deadline::in_ms(kWaitMs)));
  }
  for (const exec::TensorInfo& info : entry.outputs) RETURN_IF_ERROR(bind(info));
  for (const exec::ScalarInfo& scalar : entry.scalars)
    slots[scalar.slot] = static_cast<uint64_t>(scalar.vmin);
  RETURN_IF_ERROR(plan.run(id, slots, Deadline::in_ms(tools::kRunLimitMs)));
  for (size_t i = 0; i < memory.size(); ++i) {
    const bool is_input = i < entry.inputs.size();
    const exec::TensorInfo& info =
        is_input ? entry.inputs[i] : entry.outputs[i - entry.inputs.size()];
    Bytes bytes(info.bytes);
    RETURN_IF_ERROR(device.download(bytes, memory[i], 0, Deadline::in_ms(kWaitMs)));
    if (!is_input) {
      out.outputs.push_back(std::move(bytes));
    } else if (bytes != tools::seeded_tensor(kSeed, info.name, info.dtype, info.bytes)) {
      out.changed_input = info.name;
    }
  }
  return out;
}

// The same plan with a place of its own for every buffer.
exec::Plan unshared(exec::Plan plan) {
  constexpr uint64_t kAlign = 256;
  std::vector<uint64_t> ends(plan.arenas.size());
  for (exec::BufferRow& row : plan.buffers) {
    if (row.kind != exec::BufferRow::Kind::kArena) continue;
    row.offset = ends[row.index];
    ends[row.index] += align_up(row.size, kAlign);
  }
  for (size_t i = 0; i < ends.size(); ++i)
    plan.arenas[i].size = std::max(plan.arenas[i].size, ends[i]);
  return plan;
}

// All ones: a NaN wherever a kernel reads what no kernel of this run wrote.
Status poison_arenas(exec::LoadedPlan& plan) {
  for (const hal::Buffer& arena : plan.arenas()) {
    const Bytes ones(arena.size(), std::byte{0xff});
    ASSIGN_OR_RETURN(const hal::TimelinePoint done, plan.device().upload(arena, 0, ones));
    RETURN_IF_ERROR(plan.wait(done, Deadline::in_ms(kWaitMs)));
  }
  return {};
}

uint64_t arena_bytes(const exec::Plan& plan) {
  uint64_t sum = 0;
  for (const exec::ArenaRow& a : plan.arenas) sum += a.size;
  return sum;
}

Result<Outcome> compare_layouts(Subject& s) {
  ASSIGN_OR_RETURN(const RunBytes first, run_seeded(s.manifest(), *s.loaded));
  if (!first.changed_input.empty())
    return failed("the run wrote to its input " + first.changed_input);
  RETURN_IF_ERROR(poison_arenas(*s.loaded));
  ASSIGN_OR_RETURN(const RunBytes poisoned, run_seeded(s.manifest(), *s.loaded));
  if (poisoned.outputs != first.outputs)
    return failed("outputs depend on what the run before left in the arenas");
  const exec::Plan apart = unshared(s.plan);
  ASSIGN_OR_RETURN(const auto loaded,
                   exec::LoadedPlan::load(apart, *s.device, s.bundle->sources()));
  ASSIGN_OR_RETURN(const RunBytes alone, run_seeded(s.manifest(), *loaded));
  if (alone.outputs != first.outputs)
    return failed(
        "outputs change when every buffer has a place of its own: two that are alive "
        "at one time share memory");
  return passed(strf("bit-equal in %llu shared bytes, in the same poisoned, in %llu unshared",
                     static_cast<unsigned long long>(arena_bytes(s.plan)),
                     static_cast<unsigned long long>(arena_bytes(apart))));
}

// ---- completion ----

constexpr uint64_t kRounds = 200;
constexpr size_t kCopyBytes = size_t{1} << 20;

// Device memory that the host sees; a device without any cannot be looked at without a wait.
Result<hal::Buffer> visible_buffer(hal::Device& device) {
  ASSIGN_OR_RETURN(hal::Buffer b,
                   device.allocator().alloc(
                       {.size_bytes = kCopyBytes, .flags = hal::Mem::kCpu | hal::Mem::kZero}));
  if (b.cpu().empty())
    return fail(Errc::kUnsupported, "memory that the host can see: there is none");
  return b;
}

bool is_filled(std::span<const std::byte> bytes, std::byte with) {
  return std::all_of(bytes.begin(), bytes.end(), [with](std::byte b) { return b == with; });
}

// Copies round after round; the host looks at the memory as soon as it may, by signal and by
// timeline point in turn.
Result<Outcome> watch_completion(Subject& s) {
  hal::Device& device = *s.device;
  ASSIGN_OR_RETURN(const hal::Buffer from, visible_buffer(device));
  ASSIGN_OR_RETURN(const hal::Buffer to, visible_buffer(device));
  ASSIGN_OR_RETURN(hal::Signal done, device.make_signal(0));
  auto recorder = device.record(hal::QueueKind::kCompute, "selftest/completion");
  recorder->copy(hal::Word::of(to), hal::Word::of(from), hal::Word::value(kCopyBytes));
  recorder->signal(done, hal::Word::input(0));
  ASSIGN_OR_RETURN(const auto bound, std::move(*recorder).bind());
  hal::TimelinePoint last;
  for (uint64_t round = 1; round <= kRounds; ++round) {
    const auto fill = static_cast<std::byte>(round % 251 + 1);
    std::fill(from.cpu().begin(), from.cpu().end(), fill);
    if (done.value() >= round)
      return failed(strf("round %llu: signalled before it was submitted",
                         static_cast<unsigned long long>(round)));
    const uint64_t inputs[] = {round};
    ASSIGN_OR_RETURN(const hal::TimelinePoint point, bound->submit(inputs));
    if (round > 1 && !(last < point)) return failed("timeline points do not grow");
    last = point;
    const bool by_signal = round % 2 == 0;
    RETURN_IF_ERROR(by_signal ? done.wait(round, Deadline::in_ms(kWaitMs))
                              : device.wait(point, Deadline::in_ms(kWaitMs)));
    if (!is_filled(to.cpu(), fill))
      return failed(strf("round %llu: %s came before its copy was there",
                         static_cast<unsigned long long>(round),
                         by_signal ? "the signal" : "the timeline point"));
    RETURN_IF_ERROR(device.synchronize(Deadline::in_ms(kWaitMs)));
    if (done.value() != round)
      return failed(strf("the signal holds %llu after round %llu",
                         static_cast<unsigned long long>(done.value()),
                         static_cast<unsigned long long>(round)));
  }
  hal::TimelinePoint future = last;
  future.value += 1000;
  if (device.wait(future, Deadline::in_ms(kWaitMs)).ok())
    return failed("a wait for work that nobody submitted came back as done");
  return passed(strf("%llu copies of 1 MiB, seen whole at their signal or timeline point",
                     static_cast<unsigned long long>(kRounds)));
}

// ---- reconnect ----

// What a client of a device may still hold when it is gone.
struct Left {
  hal::Buffer buffer, view;
  std::unique_ptr<hal::Bound> recording;
  hal::TimelinePoint point;
  uint64_t epoch = 0;
};

Result<Left> hold_on(hal::Device& device) {
  Left out;
  ASSIGN_OR_RETURN(out.buffer,
                   device.allocator().alloc({.size_bytes = 4096, .flags = hal::Mem::kZero}));
  ASSIGN_OR_RETURN(out.view, out.buffer.view(1024, 512));
  auto recorder = device.record(hal::QueueKind::kCompute, "selftest/left");
  ASSIGN_OR_RETURN(const hal::Buffer head, out.buffer.view(0, 512));
  recorder->copy(hal::Word::of(out.view), hal::Word::of(head), hal::Word::value(512))
      .keep(out.buffer);
  ASSIGN_OR_RETURN(out.recording, std::move(*recorder).bind());
  ASSIGN_OR_RETURN(out.point, out.recording->submit({}));
  RETURN_IF_ERROR(device.wait(out.point, Deadline::in_ms(kWaitMs)));
  out.epoch = device.epoch();
  return out;
}

bool is_gone(const Status& s) {
  return !s.ok() && (s.error().code == Errc::kDeviceLost || s.error().code == Errc::kContextLost);
}

template <class T>
bool is_gone(const Result<T>& r) {
  return !r.ok() && (r.error().code == Errc::kDeviceLost || r.error().code == Errc::kContextLost);
}

// "" when the new device refuses all that is left of the old one.
std::string accepted_from(Left& old, hal::Device& device) {
  if (device.epoch() == old.epoch) return "the new device has the epoch of the old one";
  if (!is_gone(old.recording->submit({}))) return "a recording of the closed device was submitted";
  if (!is_gone(device.wait(old.point, Deadline::in_ms(kWaitMs))))
    return "a timeline point of the closed device was waited for";
  const Bytes bytes(old.view.size());
  if (!is_gone(device.upload(old.view, 0, bytes)))
    return "a view of the closed device was written to";
  Bytes back(old.view.size());
  if (!is_gone(device.download(back, old.view, 0, Deadline::in_ms(kWaitMs))))
    return "a view of the closed device was read";
  return "";
}

void close_device(Subject& s) {
  s.driver.reset();
  s.loaded.reset();
  s.device.reset();
}

Result<Outcome> open_again(Subject& s) {
  ASSIGN_OR_RETURN(const RunBytes before, run_seeded(s.manifest(), *s.loaded));
  ASSIGN_OR_RETURN(Left old, hold_on(*s.device));
  close_device(s);
  ASSIGN_OR_RETURN(s.device, s.world.open_device(s.model.device, s.device_config()));
  const std::string accepted = accepted_from(old, *s.device);
  if (!accepted.empty()) return failed(accepted);
  ASSIGN_OR_RETURN(s.loaded, exec::LoadedPlan::load(s.plan, *s.device, s.bundle->sources()));
  ASSIGN_OR_RETURN(const RunBytes after, run_seeded(s.manifest(), *s.loaded));
  if (after.outputs != before.outputs)
    return failed("the bundle gives other outputs on the device that was opened again");
  return passed("all refused; the bundle, loaded again, gives the same bits");
}

}  // namespace

Outcome aliasing_item(Subject& s) {
  return outcome_of(compare_layouts(s));
}

Outcome completion_item(Subject& s) {
  return outcome_of(watch_completion(s));
}

Outcome reconnect_item(Subject& s) {
  return outcome_of(open_again(s));
}

}  // namespace modeld::selftest
