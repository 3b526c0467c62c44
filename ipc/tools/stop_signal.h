// SIGINT and SIGTERM as a flag for loops that wait with deadlines (waits end early with EINTR).
// Threading: install once from main; requested() from the same thread.
#pragma once

namespace modeld::ipc {

void install_stop_signals();
bool stop_requested();

}  // namespace modeld::ipc
