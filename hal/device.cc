#include "hal/device.h"

namespace modeld::hal {

const char* dev_state_name(DevState state) {
  switch (state) {
    case DevState::kBooting:
      return "booting";
    case DevState::kReady:
      return "ready";
    case DevState::kRecovering:
      return "recovering";
    case DevState::kContextLost:
      return "context_lost";
    case DevState::kAbsent:
      return "absent";
    case DevState::kClosed:
      return "closed";
  }
  return "unknown";
}

}  // namespace modeld::hal
