#include "hal/cpu/cpu_run.h"

#include <cstring>

#include "hal/base/clock.h"
#include "hal/base/futex.h"
#include "hal/base/trace.h"

namespace modeld::hal {

namespace {

// Addresses come from callers as words; std::atomic_ref gives host and queue one view of them.
template <class T>
std::atomic_ref<T> at(uint64_t address) {
  return std::atomic_ref<T>(*reinterpret_cast<T*>(address));
}

void copy_bytes(uint64_t to, uint64_t from, uint64_t size) {
  if (size > 0)
    std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), size);
}

}  // namespace

void CpuProfile::add(const std::string& name, int64_t start_ns, int64_t end_ns) {
  const std::lock_guard lock(mutex_);
  if (ranges_.size() < kMaxRanges) ranges_.push_back({name, start_ns, end_ns});
}

std::vector<ProfileRange> CpuProfile::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(ranges_, {});
}

void CpuRun::seal(uint32_t threads, const std::atomic<uint32_t>* closed, CpuProfile* profile) {
  closed_ = closed;
  profile_ = profile;
  for (uint32_t i = 0; i < ops.size(); ++i) {
    const bool parallel = ops[i].is_parallel && threads > 1;
    needs_team_ = needs_team_ || parallel;
    // Consecutive thread-0 operations share one barrier.
    if (!parallel && !steps_.empty() && !steps_.back().is_parallel) {
      steps_.back().count += 1;
    } else {
      steps_.push_back({parallel, i, 1});
    }
  }
}

void CpuRun::walk(uint32_t thread, uint32_t threads, SpinBarrier* barrier) {
  // After the last barrier the owner may already free this object, so the loop reads no member past
  // it.
  const size_t count = steps_.size();
  const CpuStep* const steps = steps_.data();
  for (size_t i = 0; i < count; ++i) {
    const CpuStep& step = steps[i];
    const bool timed = step.is_parallel && thread == 0 && profile_ != nullptr;
    const CpuOp& op = ops[step.first];
    const int64_t start_ns = timed ? now_ns() : 0;
    if (!aborted_.load(std::memory_order_relaxed)) {
      if (step.is_parallel) {
        run_ranges(op, thread, threads);
      } else if (thread == 0) {
        run_group(step);
      }
    }
    if (barrier != nullptr) barrier->wait();
    // Only thread 0 gets here with `timed`, and it owns the run until it has finished it.
    if (timed) profile_->add(op.program->name(), start_ns, now_ns());
  }
}

// Kernels are not made by this compiler, so they lack the type signature that clang's function
// check reads before them.
#ifdef __clang__
__attribute__((no_sanitize("function")))
#endif
void CpuRun::run_ranges(const CpuOp& op, uint32_t thread, uint32_t threads) const {
  const uint64_t* const w = &words[op.words];
  const HostKernel entry = op.program->entry();
  // Thread 0 speaks for all of them.
  const TraceKernelZone zone(thread == 0 ? op.program->name().c_str() : nullptr);
  for (uint64_t core = thread; core < w[0]; core += threads)
    entry(w + 1, static_cast<uint32_t>(core));
}

void CpuRun::run_group(const CpuStep& step) {
  for (uint32_t i = step.first; i < step.first + step.count; ++i) {
    const CpuOp& op = ops[i];
    const bool timed = profile_ != nullptr && op.kind == CpuOp::Kind::kLaunch;
    const int64_t start_ns = timed ? now_ns() : 0;
    run_op(op);
    if (timed) profile_->add(op.program->name(), start_ns, now_ns());
    if (aborted_.load(std::memory_order_relaxed)) return;
  }
}

void CpuRun::run_op(const CpuOp& op) {
  const uint64_t* const w = words.data() + op.words;
  switch (op.kind) {
    case CpuOp::Kind::kLaunch:
      run_ranges(op, 0, 1);
      break;
    case CpuOp::Kind::kCopy:
      copy_bytes(w[0], w[1], w[2]);
      break;
    case CpuOp::Kind::kWrite32:
      at<uint32_t>(w[0]).store(static_cast<uint32_t>(w[1]));
      break;
    case CpuOp::Kind::kWrite64:
      at<uint64_t>(w[0]).store(w[1]);
      break;
    case CpuOp::Kind::kWait:
      block_until([w] { return at<uint64_t>(w[0]).load(std::memory_order_acquire) >= w[1]; },
                  reinterpret_cast<const void*>(w[0]));
      break;
    case CpuOp::Kind::kSignal:
      if (op.slot != nullptr) {
        set_slot(*op.slot, w[1]);
      } else {  // an address given at submit: somebody may sleep on it
        at<uint64_t>(w[0]).store(w[1]);
        futex_wake_all(reinterpret_cast<const void*>(w[0]));
      }
      break;
    case CpuOp::Kind::kPoll:
      block_until(
          [w, &op] {
            return (at<uint32_t>(w[0]).load(std::memory_order_acquire) & op.mask) == op.ref;
          },
          reinterpret_cast<const void*>(w[0]));
      break;
    case CpuOp::Kind::kStamp:
      op.slot->stamp.store(static_cast<uint64_t>(now_ns()), std::memory_order_release);
      break;
  }
}

// A plain memory write does not wake a sleeper, so sleep in short slices; give up when the device
// closes. This wait is the queue's, not the host's: every host wait on its result has its own
// deadline.
template <class Ready>
void CpuRun::block_until(const Ready& ready, const void* futex_word) {
  constexpr int kSpins = 2000;
  constexpr int64_t kSliceNs = kNsPerMs / 2;
  for (int i = 0; i < kSpins; ++i) {
    if (ready()) return;
    cpu_pause();
  }
  while (true) {
    const uint32_t seen =
        at<uint32_t>(reinterpret_cast<uint64_t>(futex_word)).load(std::memory_order_acquire);
    if (ready()) return;
    if (closed_->load(std::memory_order_acquire) != 0) {
      aborted_.store(true, std::memory_order_release);
      return;
    }
    futex_wait(futex_word, seen, kSliceNs);
  }
}

}  // namespace modeld::hal
