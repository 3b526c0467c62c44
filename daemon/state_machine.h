// The states of one model as a pure, table-driven function: next(state, event) -> state and
// actions. No clocks, no processes, no I/O: who calls it measures time and carries out the actions.
// clang-format off
//
//   in state       event            to state
//   any            kWorkerStarted   LOADING
//   LOADING        kSelftest        SELFTEST
//   SELFTEST       kWarm            WARMING
//   WARMING        kAccepted        READY once the context is full, else stays
//   READY          kLateTooOften    DEGRADED
//   DEGRADED       kLateFine        READY
//   any            kFault           UNAVAILABLE(reason)
//   UNAVAILABLE    kAccepted        WARMING
// clang-format on
//
// Every other pair stays where it is. Only a worker that lives (non_finite, input_stale,
// camera_fault) can lead UNAVAILABLE to WARMING; else a new one has to start (LOADING). A fault of
// what the model is fed never replaces a graver reason, but may replace one of its kind. Threading:
// pure values.
#pragma once

#include <cstdint>

#include "ipc/model_state.h"

namespace modeld::daemon {

using ipc::ModelState;
using ipc::Reason;

enum class Event : uint8_t {
  kWorkerStarted,  // a worker process was started
  kSelftest,       // it has opened and prepared the bundle
  kWarm,           // its golden run was right
  kAccepted,       // a frame ran, passed the finite check and its state was committed
  kLateTooOften,   // more than 3 of the last 100 frames late
  kLateFine,
  kFault,  // `reason` says which
};
inline constexpr int kEventCount = 7;

// Bits of Step::actions.
enum Action : uint32_t {
  kNoAction = 0,
  kStopWorker = 1,  // the worker is of no use any more: kill, reap, start again after the back-off
  kResetModel = 2,  // recurrent state, histories and context start from zero with the next frame
  kStartHeartbeats = 4,  // valid=false messages for at least 1 s
  kCountUnavailable = 8,
};

struct Standing {
  ModelState state = ModelState::kLoading;
  Reason reason = Reason::kNone;
  bool operator==(const Standing&) const = default;
};

struct Step {
  Standing to;
  uint32_t actions = kNoAction;
  bool operator==(const Step&) const = default;
};

// Whether a fault of this kind leaves the worker alive.
bool worker_survives(Reason reason);
// Faults of what the model is fed: they need no new worker.
bool is_input_fault(Reason reason);
// Faults of the bundle itself: another bundle may do better.
bool is_bundle_fault(Reason reason);
// Only a changed file or a SIGHUP can mend these; trying again at once cannot.
bool is_permanent(Reason reason);

// `reason` counts for kFault and kLateTooOften; `context_full` for kAccepted.
Step next(Standing from, Event event, Reason reason = Reason::kNone, bool context_full = false);

}  // namespace modeld::daemon
