// Validation of an untrusted manifest against the file it came from: every count, offset, index,
// size and name, as a visible table of rules. This is not parsing (manifest.h) and not trust
// (signatures, bundle_reader). Contract: a manifest that passes can be followed without a further
// check: no table is left, no section exceeded, no product overflows. The rules run in table order
// and may rely on those before them. Threading: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "hal/base/status.h"
#include "hal/device.h"

#include "models/bundle/manifest.h"

namespace modeld::bundle {

// What rules look at.
struct FileView {
  std::span<const std::byte> bytes;  // the whole file
  Header header;
};

struct Rule {
  const char* name;
  const char* why;
  Status (*check)(const FileView& file, const Manifest& m);
};
std::span<const Rule> rules();

// A mask of rules (bit i = rules()[i]) to leave out. Only the fuzzer's --self-proof sets one: it
// must find every hole that leaving out a rule opens. The boot self-test leaves out the signature,
// and only that, to judge it apart from the file (check_signature).
using RuleMask = uint64_t;
// Two checks that come before there is a manifest.
constexpr RuleMask kLeaveOutManifestHash = RuleMask{1} << 62;
constexpr RuleMask kLeaveOutSignature = RuleMask{1} << 63;

// The first broken rule; `name` stands for the file in the message.
Status validate(const FileView& file,
                const Manifest& m,
                const std::string& name,
                RuleMask left_out = 0);

// kMismatch unless `device` runs what the bundle was built for: kind, arch, CPU features, chip.
// `chip` is what the driver reports ("" = unknown, then only an empty allow-list passes).
Status check_target(const Manifest& m,
                    const hal::DeviceInfo& device,
                    const std::string& name,
                    const std::string& chip = {});

constexpr uint64_t kMaxNameBytes = 512;
constexpr uint64_t kMaxTensorBytes = uint64_t{8} << 30;
constexpr uint64_t kMaxArenaBytes = uint64_t{32} << 30;
constexpr uint64_t kMaxRank = 16;
constexpr uint64_t kMaxGroups = uint64_t{1} << 31;
constexpr uint32_t kMaxContextFrames = 100'000;
constexpr uint32_t kMaxImageSide = 32'768;

}  // namespace modeld::bundle
