// The CPU as a device: host memory, one thread that owns the queue, worker threads that share each
// kernel's core ranges.
// Contract: submit is asynchronous (a dedicated thread owns the queue, so every wait can have a
// deadline); that thread is thread 0 of the team. A kernel that never returns cannot be stopped:
// waits time out, and the destructor then leaks the threads with a log line. Destroying the device
// drops what has not started.
// Threading: as hal/device.h. Replay uses only these system calls: futex, sched_yield,
// clock_gettime, clock_nanosleep.
#pragma once

#include <cstdint>
#include <memory>

#include "hal/base/status.h"
#include "hal/device.h"

namespace modeld::hal {

// kInvalid for a thread count outside 1..kMaxCpuThreads or a CPU number that cannot be used.
Result<std::unique_ptr<Device>> open_cpu_device(uint32_t index, const DeviceConfig& config);

constexpr int kMaxCpuThreads = 64;

}  // namespace modeld::hal
