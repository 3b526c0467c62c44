// Recorder and Bound of the CPU device: commands become a CpuRun, patch slots become (input, word)
// pairs.
// Contract: groups.x is the number of core ranges; groups.y, groups.z and local must be 1.
// Addresses of wait, signal, write and poll are checked (not null, aligned) at bind, or at submit
// when patched.
// Threading: one thread at a time each. submit neither allocates nor locks nor logs.
#pragma once

#include <memory>
#include <string>

#include "hal/cpu/cpu_core.h"
#include "hal/queue.h"

namespace modeld::hal {

// shared_ptr: a Bound may outlive the device handle.
std::unique_ptr<Recorder> make_cpu_recorder(std::shared_ptr<CpuCore> core, std::string label);

}  // namespace modeld::hal
