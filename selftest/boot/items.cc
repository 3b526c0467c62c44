#include <utility>

#include "selftest/boot/item.h"

namespace modeld::selftest {
namespace {

constexpr uint8_t kBoot = static_cast<uint8_t>(Suite::kBoot);
constexpr uint8_t kAccept = static_cast<uint8_t>(Suite::kAcceptance);
constexpr uint8_t kBoth = kBoot | kAccept;

// Each relies on those before it: what an item could not get is "not run" for all that need it.
constexpr Item kItems[] = {
    // The only process that forks: before any device has threads.
    {"privilege", "no actuator, CAN socket or panda can be opened with the daemon's rights", kBoth,
     Needs::kHost, privilege_item},
    {"bundle", "every byte of the file has the hash its manifest states, in bounds", kBoth,
     Needs::kFile, bundle_item},
    {"signature", "the file is signed as [trust] demands", kBoth, Needs::kBundle, signature_item},
    {"device", "the configured device opens", kBoth, Needs::kBundle, device_item},
    {"target", "the bundle was built for this device: kind, arch, features, chip", kBoth,
     Needs::kBundle, target_item},
    {"load", "every call has a binary under the prepare policy; each entry runs once", kBoth,
     Needs::kDevice, load_item},
    {"golden", "golden input gives golden output: a compile that succeeds proves nothing", kBoth,
     Needs::kLoaded, golden_item},
    {"repeat", "a second run has the same bits", kBoth, Needs::kLoaded, repeat_item},
    {"finite", "NaN, infinity and equal numbers in any output are found before a commit", kBoth,
     Needs::kLoaded, finite_item},
    {"deadline", "a stalled device is reported as a timeout, in time, and works again", kBoth,
     Needs::kLoaded, deadline_item},
    {"timing", "frames stay within the manifest's p50 and p99", kBoot, Needs::kLoaded, timing_item},
    // A cache hit is neither a compile nor a diagnosis: the four cases told apart by counters.
    {"cold-compile", "all kernels compile here from section graph, with the offline build's bytes",
     kAccept, Needs::kLoaded, cold_compile_item},
    {"memory-hit", "the same again comes from the program cache: nothing lowered, nothing compiled",
     kAccept, Needs::kCompile, memory_hit_item},
    {"disk-hit", "a new process would lower again and compile nothing", kAccept, Needs::kCompile,
     disk_hit_item},
    {"cache-damage", "damaged cache files are misses and are replaced", kAccept, Needs::kCompile,
     cache_damage_item},
    {"config-switch", "another configuration shares no program; back again is a memory hit",
     kAccept, Needs::kCompile, config_switch_item},
    {"outputs", "every output equals the double-precision CPU reference on fresh inputs", kAccept,
     Needs::kLoaded, outputs_item},
    {"kernels", "every kernel alone equals the CPU reference", kAccept, Needs::kLoaded,
     kernels_item},
    {"warp-borders", "pictures seen from outside equal the scalar warp, bit for bit", kAccept,
     Needs::kLoaded, warp_borders_item},
    {"mask-edges", "padded, cut and windowed tensors at odd sizes equal the reference", kAccept,
     Needs::kCompile, mask_edges_item},
    {"unaligned-shapes", "sizes no vector divides, and views that start in the middle of one",
     kAccept, Needs::kCompile, unaligned_item},
    {"special-numbers", "NaN and infinity as inputs of kernels come out as the reference says",
     kAccept, Needs::kCompile, special_numbers_item},
    {"poisoned-inputs", "a NaN in an input never becomes an accepted output, nor stays behind",
     kAccept, Needs::kLoaded, poisoned_input_item},
    {"aliasing", "buffers that share memory behave as if each had its own", kAccept, Needs::kLoaded,
     aliasing_item},
    {"completion", "signals and timeline points come after the work they stand for", kAccept,
     Needs::kLoaded, completion_item},
    {"worst-case", "1000 replays: same bits, no growth, the slowest within timeout_ms", kAccept,
     Needs::kLoaded, worst_case_item},
    // Closes the device: last.
    {"reconnect", "views, recordings and points of a closed device are refused by the next one",
     kAccept, Needs::kLoaded, reconnect_item},
};

}  // namespace

std::span<const Item> items() {
  return kItems;
}

const char* suite_name(Suite suite) {
  return suite == Suite::kBoot ? "boot" : "acceptance";
}

Result<Suite> parse_suite(std::string_view text) {
  if (text == "boot") return Suite::kBoot;
  if (text == "acceptance") return Suite::kAcceptance;
  return fail(Errc::kInvalid, strf("suite '%.*s' is neither boot nor acceptance",
                                   static_cast<int>(text.size()), text.data()));
}

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPassed:
      return "passed";
    case Verdict::kFailed:
      return "failed";
    case Verdict::kNotRun:
      return "not_run";
  }
  return "?";
}

Outcome passed(std::string text, std::vector<Figure> figures) {
  return {Verdict::kPassed, std::move(text), std::move(figures), false};
}

Outcome failed(std::string text, std::vector<Figure> figures) {
  return {Verdict::kFailed, std::move(text), std::move(figures), false};
}

Outcome refused(std::string text) {
  return {Verdict::kFailed, std::move(text), {}, true};
}

Outcome not_run(std::string text) {
  return {Verdict::kNotRun, std::move(text), {}, false};
}

}  // namespace modeld::selftest
