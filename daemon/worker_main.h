// Start of a worker process: take the set-up, lock files, load, prepare, self-test, lock calls,
// then the frame path. Contract: what goes wrong before the frame path is told to the supervisor as
// a reason and a line, then the process ends. Never returns to the supervisor's code. Threading:
// the process's main thread.
#pragma once

namespace modeld::daemon {

// Exit code of the process. The hop's descriptors must be in place (daemon/hop.h).
int worker_main();

}  // namespace modeld::daemon
