#include "hal/backends.h"

#include "hal/base/env.h"
#include "hal/base/text.h"
#include "hal/cpu/cpu_device.h"
#include "hal/device_ban.h"
#ifdef MODELD_SIM
#include "hal/sim/emulator_device.h"
#include "hal/sim/null_device.h"
#endif
#include "hal/validate.h"

namespace modeld::hal {

namespace {

constexpr BackendEntry kTable[] = {
    {"cpu[:N]", "this host's CPU, device number N (default 0)"},
#ifdef MODELD_SIM
    {"null", "answers every run with the bundle's golden output, executes nothing"},
#endif
};

// Kinds that the command line knows but this build does not have.
constexpr std::string_view kAbsent[] = {
#ifndef MODELD_SIM
    "null",
#endif
    "cl", "qcom", "amd"};

Result<uint32_t> parse_index(const std::string& uri, size_t colon) {
  constexpr int64_t kMaxIndex = 255;
  if (colon == std::string::npos) return 0U;
  const Result<int64_t> n = parse_int(std::string_view(uri).substr(colon + 1));
  if (!n.ok() || *n < 0 || *n > kMaxIndex)
    return fail(Errc::kInvalid, strf("device '%s': wanted cpu or cpu:N with N from 0 to %lld",
                                     uri.c_str(), static_cast<long long>(kMaxIndex)));
  return static_cast<uint32_t>(*n);
}

Result<std::unique_ptr<Device>> open_backend(const std::string& uri, const DeviceConfig& config) {
  const size_t colon = uri.find(':');
  const std::string kind = uri.substr(0, colon);
  if (kind == "cpu") {
    ASSIGN_OR_RETURN(const uint32_t index, parse_index(uri, colon));
    return open_cpu_device(index, config);
  }
#ifdef MODELD_SIM
  if (uri == "null") return open_null_device(config);
#endif
  std::string known;
  for (const BackendEntry& entry : kTable)
    known += strf("%s%s", known.empty() ? "" : ", ", entry.uri);
  for (const std::string_view absent : kAbsent) {
    if (kind == absent)
      return fail(Errc::kUnsupported, strf("device '%s': this build has no such backend; it has %s",
                                           uri.c_str(), known.c_str()));
  }
  return fail(Errc::kInvalid,
              strf("device '%s' is unknown; known are %s", uri.c_str(), known.c_str()));
}

}  // namespace

std::span<const BackendEntry> backend_table() {
  return kTable;
}

Result<std::unique_ptr<Device>> open_device(const std::string& uri, const DeviceConfig& config) {
  if (DeviceBan::is_active())
    return fail(Errc::kUnsupported,
                strf("device '%s': this thread compiles, and opens no device", uri.c_str()));
  ASSIGN_OR_RETURN(std::unique_ptr<Device> device, open_backend(uri, config));
  if (env_flag("MODELD_VALIDATE")) return validate_device(std::move(device));
  return device;
}

#ifdef MODELD_SIM
std::string emulator_source() {
  return emulator_runner_source();
}
Result<std::unique_ptr<Device>> open_emulator(const EmulatorConfig& config) {
  return open_emulator_device(config);
}
#else
std::string emulator_source() {
  return "";
}
Result<std::unique_ptr<Device>> open_emulator(const EmulatorConfig& config) {
  return fail(Errc::kUnsupported,
              strf("emulator of %s: this build has no simulators", config.target.c_str()));
}
#endif

}  // namespace modeld::hal
