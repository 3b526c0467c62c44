// What a process of ours may not do: Landlock for files and TCP, seccomp for system calls.
// Contract: each function either takes effect for the whole process or says why not; a kernel
// without Landlock is not an error (lock_files reports version 0). Irreversible. Threading:
// lock_files before any thread is started; the filters reach every thread that runs.
#pragma once

#include <string>
#include <vector>

#include "hal/base/status.h"

namespace modeld::daemon {

struct FileRights {
  std::vector<std::string> read;        // files and folders that may be read
  std::vector<std::string> read_exec;   // and executed (the system's programs and libraries)
  std::vector<std::string> read_write;  // and written
  std::vector<std::string> devices;     // nodes that may be read, written and asked (ioctl)
};

// Everything not named is out of reach, as are TCP and, from version 6 on, abstract sockets and
// signals of processes outside. Gives the version of Landlock that enforces it, 0 for none.
Result<int> lock_files(const FileRights& rights);

// Worker, after preparation: what is needed to run frames is allowed, everything else refused with
// EPERM: no socket, no connection, no exec, no open, no fork, no signal to others, no new code.
// `has_driver`: the device is behind a driver in this process, which talks to the kernel by ioctl.
Status lock_worker_calls(bool has_driver);
// Supervisor: socket() only for AF_UNIX and AF_NETLINK; nothing that reaches CAN or the network,
// also not on a way around socket(), and nothing that reaches into other processes.
Status lock_supervisor_calls();

}  // namespace modeld::daemon
