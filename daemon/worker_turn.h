// What a worker may say when, and what of it is believed. A worker runs code of a bundle: from its
// first instruction on, its words are those of somebody who may lie. It may be late, wrong or gone,
// but it must not take the daemon down or put words into its log.
// Contract: pure functions of what was said before. Threading: one thread.
#pragma once

#include <string>

#include "ipc/model_state.h"

#include "daemon/hop.h"

namespace modeld::daemon {

class WorkerTurn {
 public:
  // `code_runs_late`: with a driver, the calls are locked only after the self-test.
  explicit WorkerTurn(bool code_runs_late = false) : code_runs_late_(code_runs_late) {}

  // Self-test, then hello, each once; a failure before the hello. Nothing comes after it.
  bool accepts(Packet packet) {
    if (packet == Packet::kSelftest) return advance(Stage::kLoading, Stage::kSelftest);
    if (packet == Packet::kHello) return advance(Stage::kSelftest, Stage::kRunning);
    return packet == Packet::kFailure && stage_ != Stage::kRunning;
  }

  // Reason of a failure before the hello. `privilege` ends the daemon: only while no code of the
  // bundle has run.
  ipc::Reason believed(ipc::Reason said) const {
    const bool is_ours = stage_ == Stage::kLoading || code_runs_late_;
    return said == ipc::Reason::kPrivilege && !is_ours ? ipc::Reason::kSelftestFailed : said;
  }

  // Reason of a failed run: those a run can have.
  static ipc::Reason believed_of_run(ipc::Reason said) {
    switch (said) {
      case ipc::Reason::kTimeout:
      case ipc::Reason::kNonFinite:
      case ipc::Reason::kInputStale:
      case ipc::Reason::kCameraFault:
        return said;
      default:
        return ipc::Reason::kDeviceLost;  // nobody can explain it: the worker is done with
    }
  }

 private:
  enum class Stage : uint8_t { kLoading, kSelftest, kRunning };
  bool advance(Stage from, Stage to) {
    if (stage_ != from) return false;
    stage_ = to;
    return true;
  }

  Stage stage_ = Stage::kLoading;
  bool code_runs_late_;
};

// One line that a log can hold: what is not printable ASCII becomes '?'.
inline std::string printable(std::string text) {
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return text;
}

}  // namespace modeld::daemon
