// The explicit table of compiled-in devices and the one place that opens a device by URI.
// Contract: "cpu[:N]" and "null" are always there; a known URI whose backend is not built in is
// kUnsupported, anything else kInvalid. N is a device index (each opened CPU device has its own
// threads), not a thread count. On a thread that holds a DeviceBan (device_ban.h) opening is
// kUnsupported.
// Threading: open_device from any thread.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "hal/base/status.h"
#include "hal/device.h"
#include "hal/emulator.h"

namespace modeld::hal {

struct BackendEntry {
  const char* uri;   // "cpu[:N]"
  const char* help;  // one line
};
std::span<const BackendEntry> backend_table();

Result<std::unique_ptr<Device>> open_device(const std::string& uri,
                                            const DeviceConfig& config = {});

// A CPU of another instruction set (emulator.h).
std::string emulator_source();
// kUnsupported in builds without simulators, kMismatch for another target, kNotFound without
// qemu-aarch64.
Result<std::unique_ptr<Device>> open_emulator(const EmulatorConfig& config);

}  // namespace modeld::hal
