// A CPU that this host is not, played by qemu-user: kernels run there, one emulator process per
// submission, on memory that both sides map. This is not a fast device: it proves code for another
// instruction set. Contract: submit returns when everything has run; buffers are host visible, from
// one shared memory; buffers on memory or fds of the caller are kUnsupported. Threading: as every
// device, but submissions run one after another.
#pragma once

#include <memory>

#include "hal/device.h"
#include "hal/emulator.h"

namespace modeld::hal {

Result<std::unique_ptr<Device>> open_emulator_device(const EmulatorConfig& config);
const char* emulator_runner_source();

}  // namespace modeld::hal
