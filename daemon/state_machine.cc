#include "daemon/state_machine.h"

namespace modeld::daemon {
namespace {

Step stay(Standing from) {
  return {from, kNoAction};
}

Step enter_unavailable(Standing from, Reason reason) {
  uint32_t actions = kResetModel;
  if (!worker_survives(reason)) actions |= kStopWorker;
  if (from.state == ModelState::kUnavailable) {
    if (from.reason == reason) return {from, actions};
    // What the model is fed says nothing new about a model that is already out for a graver reason.
    if (is_input_fault(reason) && !is_input_fault(from.reason)) return stay(from);
    return {{ModelState::kUnavailable, reason}, actions};
  }
  return {{ModelState::kUnavailable, reason}, actions | kStartHeartbeats | kCountUnavailable};
}

Step accepted(Standing from, bool context_full) {
  if (from.state == ModelState::kUnavailable)
    return {{ModelState::kWarming, Reason::kNone}, kNoAction};
  if (from.state == ModelState::kWarming && context_full)
    return {{ModelState::kReady, Reason::kNone}, kNoAction};
  return stay(from);
}

}  // namespace

bool is_input_fault(Reason reason) {
  return reason == Reason::kInputStale || reason == Reason::kCameraFault;
}
bool worker_survives(Reason reason) {
  return reason == Reason::kNonFinite || is_input_fault(reason);
}

bool is_bundle_fault(Reason reason) {
  switch (reason) {
    case Reason::kBundleMissing:
    case Reason::kBundleInvalid:
    case Reason::kTargetMismatch:
    case Reason::kCompileFailed:
    case Reason::kSelftestFailed:
      return true;
    default:
      return false;
  }
}

bool is_permanent(Reason reason) {
  return is_bundle_fault(reason) || reason == Reason::kPrivilege || reason == Reason::kConfig;
}

Step next(Standing from, Event event, Reason reason, bool context_full) {
  switch (event) {
    case Event::kWorkerStarted:
      return {{ModelState::kLoading, from.reason}, kNoAction};
    case Event::kSelftest:
      return from.state == ModelState::kLoading
                 ? Step{{ModelState::kSelftest, Reason::kNone}, kNoAction}
                 : stay(from);
    case Event::kWarm:
      return from.state == ModelState::kSelftest
                 ? Step{{ModelState::kWarming, Reason::kNone}, kNoAction}
                 : stay(from);
    case Event::kAccepted:
      return accepted(from, context_full);
    case Event::kLateTooOften:
      return from.state == ModelState::kReady ? Step{{ModelState::kDegraded, reason}, kNoAction}
                                              : stay(from);
    case Event::kLateFine:
      return from.state == ModelState::kDegraded
                 ? Step{{ModelState::kReady, Reason::kNone}, kNoAction}
                 : stay(from);
    case Event::kFault:
      return enter_unavailable(from, reason);
  }
  return stay(from);
}

}  // namespace modeld::daemon
