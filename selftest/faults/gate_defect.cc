// The deliberate defect of the gate: it lets in and never lets go.
#include "ipc/consumer/consumer.h"

#include "selftest/faults/defect.h"

namespace modeld::faults {

#define STEP "_ZN6modeld3ipc8Consumer4stepEv"
ipc::Verdict real_step(ipc::Consumer* self) __asm__("__real_" STEP);
ipc::Verdict wrap_step(ipc::Consumer* self) __asm__("__wrap_" STEP);

ipc::Verdict wrap_step(ipc::Consumer* self) {
  ipc::Verdict verdict = real_step(self);
  if (has_defect("gate-holds-on") && verdict.must_disengage())
    verdict.decision = ipc::Decision::kMayEngage;
  return verdict;
}

}  // namespace modeld::faults
