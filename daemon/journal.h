// Where a transition is told, once: to the system's journal with fields of its own (MODEL, STATE,
// REASON, FRAME_ID, BUNDLE_ID, DEVICE) when there is one, so that `journalctl MODEL=road
// REASON=timeout` finds it; as a line on stderr when there is none or when stderr goes elsewhere
// than to the journal. Contract: never blocks for long, never fails: a journal that takes nothing
// means stderr. Threading: any thread.
#pragma once

#include <cstdint>
#include <string>

#include "ipc/model_state.h"

namespace modeld::daemon {

struct TransitionNote {
  const std::string& model;
  ipc::ModelState state;
  ipc::Reason reason;
  uint64_t frame_id;  // the last frame that was handed over, 0: none yet
  const std::string& bundle_id;
  const std::string& device;
  const std::string& text;
};

// How a transition is told; tests and tools take the first, the daemon the second.
using TellTransition = void (*)(const TransitionNote&);
void tell_on_stderr(const TransitionNote& note);
void tell_journal(const TransitionNote& note);

// The parts: the line for people, whether it is bad news, and the entry with its fields (false:
// nobody takes it).
std::string transition_line(const TransitionNote& note);
bool is_bad_news(const TransitionNote& note);
bool send_to_journal(const TransitionNote& note);

}  // namespace modeld::daemon
