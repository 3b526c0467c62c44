// The deliberate defects: one word of a unit, or one word of the daemon to systemd, is wrong.
#include "selftest/systemd/row.h"

namespace modeld::systemd_check {

std::vector<Proof> proofs() {
  return {
      {"misspelt-key", "verify", "WatchdogSecs", Edit{kDaemon, "WatchdogSec=", "WatchdogSecs="}},
      {"keeps-capabilities", "exposure", "exposure of modeld.service",
       Edit{kDaemon, "CapabilityBoundingSet=\n", "CapabilityBoundingSet=~\n"}},
      {"unlike-rights", "same-rights", "ProtectClock", Edit{kSelftest, "ProtectClock=yes\n", ""}},
      {"no-order", "boot-selftest-first", "did not run",
       Edit{kDaemon, "Wants=modeld-selftest.service\n", ""}},
      {"simple", "ready-after-selftest", "started, but", Edit{kDaemon, "Type=notify", "Type=exec"}},
      {"ready-too-early", "ready-after-selftest", "is LOADING", {}, "ready-too-early"},
      {"asks-for-no-time", "slow-load", "timeout", {}, "asks-for-no-time"},
      {"feeds-no-watchdog", "unavailable-is-healthy", "restarted", {}, "feeds-no-watchdog"},
      {"keeps-a-right", "rights",
       "CapBnd:", Edit{kDaemon, "CapabilityBoundingSet=\n", "CapabilityBoundingSet=CAP_NET_RAW\n"}},
      {"forbids-real-time", "real-time", "RestrictRealtime is yes",
       Edit{kDaemon, "RestrictRealtime=no", "RestrictRealtime=yes"}},
      {"shows-queues", "queues-hidden", "privilege",
       Edit{kDaemon, "TemporaryFileSystem=/dev/shm:mode=1777\n", ""}},
      {"forbids-memfd", "serves", "valid outputs",
       Edit{kDaemon, "SystemCallErrorNumber=EPERM\n",
            "SystemCallErrorNumber=EPERM\nSystemCallFilter=~memfd_create\n"}},
      {"keeps-its-state", "serves", "systemctl status", {}, "keeps-its-state"},
      {"leaves-figures", "clean-stop", "metrics.prom stays",
       Edit{kDaemon, "ExecStopPost=", "ExecStopPost=-/bin/true "}},
      {"no-watchdog", "watchdog", "the watchdog ends", Edit{kDaemon, "WatchdogSec=2s\n", ""}},
      {"no-pause", "crash", "after the crash", Edit{kDaemon, "RestartSec=500ms", "RestartSec=0"}},
      {"no-restart", "crash", "a modeld after process",
       Edit{kDaemon, "Restart=on-failure", "Restart=no"}},
      {"no-limit", "crash-loop", "is given up",
       Edit{kDaemon, "StartLimitBurst=5", "StartLimitBurst=500"}},
      {"says-nothing", "exit-78", "modeld-unavailable is active",
       Edit{kDaemon, "OnFailure=modeld-unavailable.service\n", ""}},
      {"two-speakers", "exit-78", "start modeld.service: exit 1",
       Edit{kDaemon, "Conflicts=modeld-unavailable.service\n", ""}},
      {"tries-again", "exit-78", "NRestarts is",
       Edit{kDaemon, "RestartPreventExitStatus=78\n", ""}},
  };
}

}  // namespace modeld::systemd_check
