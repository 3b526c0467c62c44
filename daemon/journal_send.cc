// The journal's entry. A file of its own: libsystemd brings syslog's names, which are also those of
// our log.
#include <sys/uio.h>
#include <syslog.h>
#include <unistd.h>

#include <array>

#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>

#include "hal/base/status.h"

#include "daemon/journal.h"

namespace modeld::daemon {
namespace {

// Where libsystemd sends to; it reports success when nobody listens there.
constexpr const char* kJournalSocket = "/run/systemd/journal/socket";

}  // namespace

bool send_to_journal(const TransitionNote& n) {
  if (access(kJournalSocket, W_OK) != 0) return false;
  const std::array<std::string, 9> fields = {
      "MESSAGE=" + transition_line(n),
      strf("PRIORITY=%d", is_bad_news(n) ? LOG_WARNING : LOG_INFO),
      "SYSLOG_IDENTIFIER=modeld",
      "MODEL=" + n.model,
      std::string("STATE=") + ipc::model_state_name(n.state),
      std::string("REASON=") + ipc::reason_name(n.reason),
      strf("FRAME_ID=%llu", static_cast<unsigned long long>(n.frame_id)),
      "BUNDLE_ID=" + n.bundle_id,
      "DEVICE=" + n.device};
  std::array<iovec, fields.size()> parts;
  for (size_t i = 0; i < fields.size(); ++i)
    parts[i] = {const_cast<char*>(fields[i].data()), fields[i].size()};
  return sd_journal_sendv(parts.data(), static_cast<int>(parts.size())) == 0;
}

}  // namespace modeld::daemon
