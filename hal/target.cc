#include "hal/target.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "hal/base/text.h"
#include "hal/host_units.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace modeld::hal {

namespace {

struct Level {
  std::string_view arch;
  std::string_view features;  // what it adds to the level before it
};

// psABI micro-architecture levels, in clang's -m spelling.
constexpr Level kLevels[] = {
    {"x86-64", ""},
    {"x86-64-v2", "cx16 popcnt sahf sse3 sse4.1 sse4.2 ssse3"},
    {"x86-64-v3", "avx avx2 bmi bmi2 f16c fma lzcnt movbe"},
    {"x86-64-v4", "avx512bw avx512cd avx512dq avx512f avx512vl"},
};

void add_words(std::vector<std::string>& to, std::string_view words) {
  for (std::string& w : split(words, ' ')) to.push_back(std::move(w));
}

void sort_unique(std::vector<std::string>& v) {
  std::sort(v.begin(), v.end());
  v.erase(std::unique(v.begin(), v.end()), v.end());
}

bool is_cpu_arch(std::string_view arch) {
  if (arch == "aarch64") return true;
  return std::any_of(std::begin(kLevels), std::end(kLevels),
                     [&](const Level& l) { return l.arch == arch; });
}

// Names are later used as compiler flags, so only this alphabet passes.
bool is_feature_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
  });
}

Result<Target> parse_cpu(std::string_view text, std::string_view rest) {
  Target t;
  if (rest.empty()) {
    t.arch = host_arch();
    t.features = host_cpu_features();
    return t;
  }
  std::vector<std::string> parts = split(rest, '+');
  t.arch = parts[0];
  if (!is_cpu_arch(t.arch))
    return fail(Errc::kInvalid,
                strf("target '%.*s': unknown CPU architecture '%s'; known are x86-64, x86-64-v2, "
                     "x86-64-v3, x86-64-v4, aarch64",
                     static_cast<int>(text.size()), text.data(), t.arch.c_str()));
  t.features = arch_level_features(t.arch);
  for (size_t i = 1; i < parts.size(); ++i) {
    if (!is_feature_name(parts[i]))
      return fail(Errc::kInvalid,
                  strf("target '%.*s': '%s' is not a feature name", static_cast<int>(text.size()),
                       text.data(), parts[i].c_str()));
    t.features.push_back(std::move(parts[i]));
  }
  sort_unique(t.features);
  return t;
}

#if defined(__x86_64__)

enum Register : uint8_t { kEax, kEbx, kEcx, kEdx };
enum Needs : uint8_t { kNothing, kYmm, kZmm };  // register state the operating system must save

struct FeatureBit {
  const char* name;
  uint32_t leaf, subleaf;
  Register reg;
  uint8_t bit;
  Needs needs;
};

// Intel SDM volume 2A, CPUID; AMD APM volume 3, appendix E.
constexpr FeatureBit kBits[] = {
    {"sse3", 1, 0, kEcx, 0, kNothing},
    {"pclmul", 1, 0, kEcx, 1, kNothing},
    {"ssse3", 1, 0, kEcx, 9, kNothing},
    {"fma", 1, 0, kEcx, 12, kYmm},
    {"cx16", 1, 0, kEcx, 13, kNothing},
    {"sse4.1", 1, 0, kEcx, 19, kNothing},
    {"sse4.2", 1, 0, kEcx, 20, kNothing},
    {"movbe", 1, 0, kEcx, 22, kNothing},
    {"popcnt", 1, 0, kEcx, 23, kNothing},
    {"aes", 1, 0, kEcx, 25, kNothing},
    {"avx", 1, 0, kEcx, 28, kYmm},
    {"f16c", 1, 0, kEcx, 29, kYmm},
    {"bmi", 7, 0, kEbx, 3, kNothing},
    {"avx2", 7, 0, kEbx, 5, kYmm},
    {"bmi2", 7, 0, kEbx, 8, kNothing},
    {"avx512f", 7, 0, kEbx, 16, kZmm},
    {"avx512dq", 7, 0, kEbx, 17, kZmm},
    {"avx512ifma", 7, 0, kEbx, 21, kZmm},
    {"avx512cd", 7, 0, kEbx, 28, kZmm},
    {"avx512bw", 7, 0, kEbx, 30, kZmm},
    {"avx512vl", 7, 0, kEbx, 31, kZmm},
    {"avx512vbmi", 7, 0, kEcx, 1, kZmm},
    {"avx512vbmi2", 7, 0, kEcx, 6, kZmm},
    {"gfni", 7, 0, kEcx, 8, kNothing},
    {"vpclmulqdq", 7, 0, kEcx, 10, kYmm},
    {"avx512vnni", 7, 0, kEcx, 11, kZmm},
    {"avx512bitalg", 7, 0, kEcx, 12, kZmm},
    {"avx512vpopcntdq", 7, 0, kEcx, 14, kZmm},
    {"avx512fp16", 7, 0, kEdx, 23, kZmm},
    {"avxvnni", 7, 1, kEax, 4, kYmm},
    {"avx512bf16", 7, 1, kEax, 5, kZmm},
    {"sahf", 0x80000001, 0, kEcx, 0, kNothing},
    {"lzcnt", 0x80000001, 0, kEcx, 5, kNothing},
};

uint64_t saved_register_state() {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  constexpr uint32_t kOsxsave = 1U << 27;
  if (__get_cpuid_count(1, 0, &a, &b, &c, &d) == 0 || (c & kOsxsave) == 0) return 0;
  uint32_t low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

bool has_bit(const FeatureBit& f) {
  uint32_t r[4] = {0, 0, 0, 0};
  // Leaf 7 says in eax how many subleaves it has; __get_cpuid_count checks only the leaf.
  if (f.subleaf > 0 &&
      (__get_cpuid_count(f.leaf, 0, &r[0], &r[1], &r[2], &r[3]) == 0 || r[0] < f.subleaf))
    return false;
  if (__get_cpuid_count(f.leaf, f.subleaf, &r[0], &r[1], &r[2], &r[3]) == 0) return false;
  return (r[f.reg] >> f.bit & 1) != 0;
}

#endif

}  // namespace

bool Target::has_feature(std::string_view name) const {
  return std::binary_search(features.begin(), features.end(), name);
}

std::string host_arch() {
#if defined(__x86_64__)
  return "x86-64";
#elif defined(__aarch64__)
  return "aarch64";
#else
  return "unknown";
#endif
}

namespace {

// What the CPU says of itself.
std::vector<std::string> declared_cpu_features() {
  std::vector<std::string> out;
#if defined(__x86_64__)
  constexpr uint64_t kYmmState = 0x6, kZmmState = 0xe6;
  const uint64_t state = saved_register_state();
  for (const FeatureBit& f : kBits) {
    if (f.needs == kYmm && (state & kYmmState) != kYmmState) continue;
    if (f.needs == kZmm && (state & kZmmState) != kZmmState) continue;
    if (has_bit(f)) out.emplace_back(f.name);
  }
#elif defined(__aarch64__)
  const unsigned long hwcap = getauxval(AT_HWCAP);
  if (hwcap & HWCAP_ASIMDDP) out.emplace_back("dotprod");
  if (hwcap & HWCAP_ASIMDHP) out.emplace_back("fp16");
  if (hwcap & HWCAP_ATOMICS) out.emplace_back("lse");
#endif
  sort_unique(out);
  return out;
}

}  // namespace

const std::vector<BrokenUnit>& broken_host_units() {
  static const std::vector<BrokenUnit> found =
      broken_units(matrix_units(), declared_cpu_features());
  return found;
}

std::vector<std::string> host_cpu_features() {
  return usable_features(declared_cpu_features(), broken_host_units());
}

std::vector<std::string> arch_level_features(std::string_view arch) {
  std::vector<std::string> out;
  if (arch == "aarch64") return out;
  for (const Level& level : kLevels) {
    add_words(out, level.features);
    if (level.arch == arch) break;
  }
  sort_unique(out);
  return out;
}

std::string missing_on_host(const Target& target) {
  if (!target.is_cpu()) return "device kind " + target.kind;
  const std::string host = host_arch();
  if (target.arch.compare(0, host.size(), host) != 0) return "arch " + target.arch;
  const std::vector<std::string> have = host_cpu_features();
  std::vector<std::string> missing;
  std::set_difference(target.features.begin(), target.features.end(), have.begin(), have.end(),
                      std::back_inserter(missing));
  return join(missing, " ");
}

Result<Target> parse_target(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string kind(text.substr(0, colon));
  const std::string_view rest =
      colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  const auto unknown = [&] {
    return fail(Errc::kInvalid,
                strf("target '%.*s' is unknown; known are cpu, cpu:x86-64-v3, cpu:aarch64, cl, "
                     "qcom:a630, qcom:sim, amd:gfx1100, amd:gfx1201",
                     static_cast<int>(text.size()), text.data()));
  };
  if (colon != std::string_view::npos && rest.empty()) return unknown();
  if (kind == "cpu") return parse_cpu(text, rest);
  Target t;
  t.kind = kind;
  t.arch = std::string(rest);
  t.renderer = "cl";
  t.threads = 1;
  if (kind == "cl" && rest.empty()) return t;
  if (kind == "qcom" && (rest == "a630" || rest == "sim")) return t;
  if (kind == "amd" && (rest == "gfx1100" || rest == "gfx1201")) {
    t.renderer = "amd";
    return t;
  }
  return unknown();
}

std::string print_target(const Target& target) {
  std::string out = target.kind;
  if (!target.arch.empty()) out += ":" + target.arch;
  if (!target.is_cpu()) return out;
  const std::vector<std::string> implied = arch_level_features(target.arch);
  for (const std::string& f : target.features) {
    if (!std::binary_search(implied.begin(), implied.end(), f)) out += "+" + f;
  }
  return out;
}

}  // namespace modeld::hal
