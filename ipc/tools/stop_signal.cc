#include "ipc/tools/stop_signal.h"

#include <csignal>

namespace modeld::ipc {
namespace {

// Written by the handler only.
volatile std::sig_atomic_t requested = 0;

}  // namespace

void install_stop_signals() {
  struct sigaction action {};
  action.sa_handler = [](int) { requested = 1; };
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool stop_requested() {
  return requested != 0;
}

}  // namespace modeld::ipc
