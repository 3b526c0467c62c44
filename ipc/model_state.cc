#include "ipc/model_state.h"

#include <array>

namespace modeld::ipc {
namespace {

constexpr std::array<const char*, kModelStateCount> kStateNames = {
    "LOADING", "SELFTEST", "WARMING", "READY", "DEGRADED", "UNAVAILABLE"};
constexpr std::array<const char*, kReasonCount> kReasonNames = {
    "none",        "bundle_missing",  "bundle_invalid", "target_mismatch", "compile_failed",
    "load_failed", "selftest_failed", "device_lost",    "timeout",         "non_finite",
    "input_stale", "camera_fault",    "privilege",      "config"};

template <class E, size_t N>
std::optional<E> find_name(const std::array<const char*, N>& names, std::string_view name) {
  for (size_t i = 0; i < N; ++i) {
    if (name == names[i]) return static_cast<E>(i);
  }
  return std::nullopt;
}

}  // namespace

const char* model_state_name(ModelState state) {
  const auto i = static_cast<size_t>(state);
  return i < kStateNames.size() ? kStateNames[i] : "unknown";
}

const char* reason_name(Reason reason) {
  const auto i = static_cast<size_t>(reason);
  return i < kReasonNames.size() ? kReasonNames[i] : "unknown";
}

std::optional<ModelState> parse_model_state(std::string_view name) {
  return find_name<ModelState>(kStateNames, name);
}

std::optional<Reason> parse_reason(std::string_view name) {
  return find_name<Reason>(kReasonNames, name);
}

}  // namespace modeld::ipc
