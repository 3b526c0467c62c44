#include "daemon/journal.h"

#include "hal/base/log.h"

namespace modeld::daemon {

bool is_bad_news(const TransitionNote& n) {
  return n.state == ipc::ModelState::kUnavailable || n.state == ipc::ModelState::kDegraded;
}

std::string transition_line(const TransitionNote& n) {
  const std::string reason =
      n.reason == ipc::Reason::kNone ? "" : std::string("(") + ipc::reason_name(n.reason) + ")";
  return n.model + ": " + ipc::model_state_name(n.state) + reason + ": " + n.text;
}

void tell_on_stderr(const TransitionNote& note) {
  MODELD_LOG(is_bad_news(note) ? LogLevel::kWarn : LogLevel::kInfo, "daemon", "%s",
             transition_line(note).c_str());
}

void tell_journal(const TransitionNote& note) {
  // A service's stderr is the journal: the line would stand there twice.
  if (!send_to_journal(note) || !stderr_is_journal()) tell_on_stderr(note);
}

}  // namespace modeld::daemon
