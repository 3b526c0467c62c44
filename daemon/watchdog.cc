#include "daemon/watchdog.h"

#include <systemd/sd-daemon.h>

#include <algorithm>
#include <cstdio>

#include "hal/base/clock.h"

#include "daemon/model_pair.h"

namespace modeld::daemon {

Watchdog::Watchdog() {
  uint64_t interval_us = 0;
  if (sd_watchdog_enabled(0, &interval_us) > 0)
    period_ns_ = static_cast<int64_t>(interval_us) * 1000 / 4;
}

void Watchdog::progress(int64_t now, const std::vector<ModelPair*>& units) {
  if (period_ns_ > 0 && now >= next_ns_) {
    next_ns_ = now + period_ns_;
    sd_notify(0, "WATCHDOG=1");
  }
  const bool all_settled =
      std::all_of(units.begin(), units.end(), [](const ModelPair* u) { return u->has_settled(); });
  if (!ready_ && all_settled) {
    ready_ = true;
    sd_notify(0, "READY=1");
  }
  if (!ready_ && now >= next_extend_ns_) {
    // Each line must come before the limit of the one before ends.
    next_extend_ns_ = now + kNsPerSecond;
    sd_notify(0, "EXTEND_TIMEOUT_USEC=10000000");
  }
  for (const ModelPair* u : units) {
    if (u->status().since_ns == now) return tell_status(units);
  }
}

// "road READY, cabin UNAVAILABLE(timeout)": what `systemctl status` shows.
void Watchdog::tell_status(const std::vector<ModelPair*>& units) {
  char text[512];
  size_t used = static_cast<size_t>(snprintf(text, sizeof text, "STATUS="));
  const char* separator = "";
  for (const ModelPair* u : units) {
    const ipc::ModelStatus& s = u->status();
    const bool has_reason = s.reason != ipc::Reason::kNone;
    const int n = snprintf(text + used, sizeof text - used, "%s%s %s%s%s%s", separator,
                           u->name().c_str(), ipc::model_state_name(s.state), has_reason ? "(" : "",
                           has_reason ? ipc::reason_name(s.reason) : "", has_reason ? ")" : "");
    if (n > 0) used = std::min(used + static_cast<size_t>(n), sizeof text - 1);
    separator = ", ";
  }
  sd_notify(0, text);
}

void Watchdog::stopping() {
  sd_notify(0, "STOPPING=1");
}

}  // namespace modeld::daemon
