// What a worker may open while it loads: its bundle, the keys, the system's libraries, its device's
// nodes, and where it compiles its cache. Never a queue of /dev/shm, never a CAN adapter.
// Contract: a function of the set-up and of what is there (device nodes). Threading: pure
// functions.
#pragma once

#include <string>
#include <vector>

#include "daemon/hop.h"
#include "daemon/sandbox.h"

namespace modeld::daemon {

// A driver in the process stands between it and the device: all but the CPU, `null` and simulators.
bool has_driver(const std::string& device_uri);

// Nodes that a driver for `device_uri` opens, of those in `dev_dir`; devices of `usb_dir` that are
// CAN adapters are none. Nodes may be folders (/dev/dri).
std::vector<std::string> device_nodes(const std::string& device_uri,
                                      const std::string& dev_dir = "/dev",
                                      const std::string& usb_dir = "/sys/bus/usb/devices");

// Makes the cache folder when it is needed and not there.
FileRights worker_rights(const WorkerSetup& setup);

}  // namespace modeld::daemon
