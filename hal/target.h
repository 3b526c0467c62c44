// What code is generated for: device kind, architecture, CPU features, renderer, threads. The only
// HAL type compiler code sees. This is not a device: nothing is opened, and a target may name
// hardware that is not here.
// Contract: a plain value; print_target(parse_target(x)) is canonical and equal targets print
// equally. For a CPU, `features` is the full sorted list (an arch level such as x86-64-v3 is
// expanded), in clang's -m spelling.
// Threading: plain values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hal/base/status.h"

namespace modeld::hal {

struct Target {
  std::string kind = "cpu";  // "cpu", "cl", "qcom", "amd"
  std::string arch;  // "x86-64", "x86-64-v3", "aarch64"; "a630", "sim"; "gfx1100"; "" for cl
  std::vector<std::string> features;  // CPU only: "avx2", "f16c", "fma", ...
  std::string renderer = "c";         // "c", "x86", "cl", ...
  int threads = 2;                    // core ranges a parallel kernel is split into
  bool operator==(const Target&) const = default;

  bool is_cpu() const { return kind == "cpu"; }
  bool has_feature(std::string_view name) const;
};

// "cpu" (this host: baseline arch plus its features), "cpu:x86-64-v3", "cpu:x86-64+avx+avx2",
// "cpu:aarch64", "cl", "qcom:a630", "qcom:sim", "amd:gfx1100", "amd:gfx1201". Renderer and threads
// keep their defaults for CPU targets.
Result<Target> parse_target(std::string_view text);
// kind, arch and the features beyond the arch level: "cpu:x86-64-v3+avx512f". Renderer and threads
// are not part of it.
std::string print_target(const Target& target);

// "x86-64" or "aarch64".
std::string host_arch();
// Sorted; only features that both the CPU and the operating system enable, without matrix units
// that multiply wrongly (hal/host_units.h). CPUs below AVX give a short list.
std::vector<std::string> host_cpu_features();
// Features an arch level implies: "x86-64" and "aarch64" none, "x86-64-v2" sse..., "x86-64-v3"
// avx2....
std::vector<std::string> arch_level_features(std::string_view arch);
// What `target` needs and this host lacks, as text: "" when it runs here, else "avx512f avx512vl"
// or "arch aarch64".
std::string missing_on_host(const Target& target);

}  // namespace modeld::hal
