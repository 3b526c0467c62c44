// States and reasons of a model, as every program of the project names them. Values mirror
// ipc/schema/state.capnp (a test compares them); order is part of the contract.
// Threading: constants.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace modeld::ipc {

enum class ModelState : uint8_t {
  kLoading,
  kSelftest,
  kWarming,
  kReady,
  kDegraded,
  kUnavailable,
};
inline constexpr int kModelStateCount = 6;

enum class Reason : uint8_t {
  kNone,
  kBundleMissing,
  kBundleInvalid,
  kTargetMismatch,
  kCompileFailed,
  kLoadFailed,
  kSelftestFailed,
  kDeviceLost,
  kTimeout,
  kNonFinite,
  kInputStale,
  kCameraFault,
  kPrivilege,
  kConfig,
};
inline constexpr int kReasonCount = 14;

// "LOADING", "READY", ...; the words that status lines, logs and JSON use.
const char* model_state_name(ModelState state);
// "bundle_missing", ...; kNone is "none".
const char* reason_name(Reason reason);
std::optional<ModelState> parse_model_state(std::string_view name);
std::optional<Reason> parse_reason(std::string_view name);

}  // namespace modeld::ipc
