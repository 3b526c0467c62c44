// Between systemd-check --self-proof and its modeld_notify_probe.
#pragma once

namespace modeld::systemd_check {

inline constexpr const char* kNotifyDefectFile = "/run/stage/notify_defect";

}  // namespace modeld::systemd_check
