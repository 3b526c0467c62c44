#include "hal/cpu/cpu_core.h"

#include <algorithm>

#include "hal/base/fault.h"
#include "hal/base/futex.h"
#include "hal/base/trace.h"

namespace modeld::hal {

namespace {

constexpr int kParkSpins = 2000;  // speed.md 10

void sleep_ms(int64_t ms) {
  const timespec nap{ms / 1000, static_cast<long>((ms % 1000) * kNsPerMs)};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, nullptr);
}

}  // namespace

Signal SignalPool::make(uint64_t initial) {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) {
    chunks_.push_back(std::make_unique<Chunk>());
    for (SignalSlot& slot : *chunks_.back()) free_.push_back(&slot);
  }
  SignalSlot* slot = free_.back();
  free_.pop_back();
  slot->value.store(initial, std::memory_order_release);
  slot->stamp.store(0, std::memory_order_release);
  // The lease returns the slot when the last handle goes and keeps the pool until then.
  auto lease = std::shared_ptr<void>(
      slot, [pool = shared_from_this()](void* p) { pool->give_back(static_cast<SignalSlot*>(p)); });
  return Signal(slot, std::move(lease));
}

void SignalPool::give_back(SignalSlot* slot) {
  const std::lock_guard lock(mutex_);
  free_.push_back(slot);
}

SignalSlot* SignalPool::find(DevAddr value_addr) {
  const std::lock_guard lock(mutex_);
  for (const auto& chunk : chunks_) {
    const auto begin = reinterpret_cast<DevAddr>(chunk->data());
    if (value_addr < begin || value_addr - begin >= sizeof(Chunk)) continue;
    const DevAddr offset = value_addr - begin;
    return offset % sizeof(SignalSlot) == 0 ? &(*chunk)[offset / sizeof(SignalSlot)] : nullptr;
  }
  return nullptr;
}

CpuCore::CpuCore(DeviceInfo info_in, const DeviceConfig& config_in, uint64_t epoch_in)
    : info(std::move(info_in)),
      config(config_in),
      epoch(epoch_in),
      team(static_cast<uint32_t>(config_in.threads)),
      signals(std::make_shared<SignalPool>()),
      next_(config_in.first_timeline_value),
      fault_hang_at_(fault::number("cpu_hang_at", 0)),
      fault_delay_ms_(fault::number("cpu_delay_ms", 0)) {
  timeline_.value.store(config_in.first_timeline_value - 1, std::memory_order_release);
}

Result<uint64_t> CpuCore::push(CpuRun& run) {
  uint64_t ticket = next_.load(std::memory_order_acquire);
  while (true) {
    if (is_closed()) return fail(Errc::kDeviceLost, info.uri + ": submit on a closed device");
    if (ticket > completed() + kRingRuns) {
      RETURN_IF_ERROR(wait_progress(ticket - kRingRuns, config.submit_wait_ms));
      ticket = next_.load(std::memory_order_acquire);
      continue;
    }
    if (next_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel)) break;
  }
  Entry& entry = ring_[ticket % kRingRuns];
  entry.run = &run;
  entry.ticket.store(ticket, std::memory_order_release);
  ring_doorbell();
  return ticket;
}

void CpuCore::ring_doorbell() {
  // Sequentially consistent with wait_for_entry (sleeping first, then look): one of the two always
  // sees the other.
  doorbell_.fetch_add(1, std::memory_order_seq_cst);
  if (sleeping_.load(std::memory_order_seq_cst) != 0) futex_wake_all(&doorbell_);
}

Status CpuCore::wait_value(uint64_t value, Deadline deadline) const {
  if (wait_slot(timeline_, value, deadline, &gone_)) return {};
  if (gone_.load(std::memory_order_acquire) != 0 && completed() < value)
    return fail(
        Errc::kDeviceLost,
        strf("%s: closed at timeline value %llu before %llu was reached", info.uri.c_str(),
             static_cast<unsigned long long>(completed()), static_cast<unsigned long long>(value)));
  Error error;
  error.code = Errc::kTimeout;
  error.device = info.index;
  error.epoch = epoch;
  error.timeline = completed();
  error.what =
      strf("%s: waited for timeline value %llu, it is at %llu", info.uri.c_str(),
           static_cast<unsigned long long>(value), static_cast<unsigned long long>(error.timeline));
  return fail(std::move(error));
}

Status CpuCore::wait_progress(uint64_t value, int64_t limit_ms) const {
  while (true) {
    const uint64_t before = completed();
    // One step at a time, so that progress short of `value` restarts the limit.
    const uint64_t step = std::min(value, before + 1);
    Status status = wait_value(step, Deadline::in_ms(limit_ms));
    if (!status.ok() || step == value) return status;
  }
}

bool CpuCore::wait_for_entry(const Entry& entry, uint64_t ticket) {
  for (int i = 0; i < kParkSpins; ++i) {
    if (entry.ticket.load(std::memory_order_acquire) == ticket) return true;
    cpu_pause();
  }
  while (true) {
    sleeping_.store(1, std::memory_order_seq_cst);
    const uint32_t seen = doorbell_.load(std::memory_order_seq_cst);
    const bool ready = entry.ticket.load(std::memory_order_seq_cst) == ticket;
    if (!ready && !is_closed()) futex_wait(&doorbell_, seen, kNsPerSecond);
    sleeping_.store(0, std::memory_order_relaxed);
    if (ready || is_closed()) return ready;
  }
}

void CpuCore::break_if_asked(uint64_t ticket) const {
  if (fault_delay_ms_ > 0) sleep_ms(fault_delay_ms_);
  if (fault_hang_at_ <= 0 || static_cast<uint64_t>(fault_hang_at_) != ticket) return;
  while (!is_closed()) sleep_ms(5);
}

void CpuCore::execute(CpuRun& run, uint64_t ticket) {
  const TraceZone zone("cpu_run", static_cast<int64_t>(ticket));
  if (run.needs_team()) {
    team.run(run);
  } else {
    run.walk(0, 1, nullptr);
  }
}

void CpuCore::serve() {
  for (uint64_t ticket = config.first_timeline_value;; ++ticket) {
    const Entry& entry = ring_[ticket % kRingRuns];
    if (!wait_for_entry(entry, ticket) || is_closed()) break;
    if (fault::kBuilt) break_if_asked(ticket);
    if (is_closed()) break;
    execute(*entry.run, ticket);
    if (entry.run->was_aborted()) break;
    timeline_.stamp.store(static_cast<uint64_t>(now_ns()), std::memory_order_release);
    set_slot(timeline_, ticket);  // from here on the owner may free the run
  }
  team.stop();
  gone_.store(1, std::memory_order_seq_cst);
  futex_wake_all(&timeline_.value);
  set_slot(served_, 1);
}

void CpuCore::close() {
  closed_.store(1, std::memory_order_seq_cst);
  ring_doorbell();
}

bool CpuCore::wait_served(Deadline deadline) const {
  return wait_slot(served_, 1, deadline);
}

}  // namespace modeld::hal
