#include "models/tools/self_check.h"

#include "hal/backends.h"
#include "hal/target.h"

#include "models/tools/emulator.h"

namespace modeld::tools {

Result<std::unique_ptr<hal::Device>> open_check_device(const hal::Target& target) {
  if (!target.is_cpu()) return std::unique_ptr<hal::Device>();
  if (hal::missing_on_host(target).empty()) {
    hal::DeviceConfig config;
    config.threads = target.threads;
    return hal::open_device("cpu", config);
  }
  auto emulator = open_emulator_for(target);
  const bool is_absent = !emulator.ok() && (emulator.error().code == Errc::kNotFound ||
                                            emulator.error().code == Errc::kUnsupported);
  if (is_absent) return std::unique_ptr<hal::Device>();
  return emulator;
}

std::string why_no_check_device(const hal::Target& target) {
  if (!target.is_cpu()) return strf("no device %s on this host", hal::print_target(target).c_str());
  if (target.arch.starts_with(hal::host_arch()))
    return "this host lacks " + hal::missing_on_host(target);
  return strf("this host is %s and has no emulator of %s", hal::host_arch().c_str(),
              target.arch.c_str());
}

Result<SelfCheckReport> self_check(const std::string& bundle_path,
                                   bundle::SelfCheck kind,
                                   hal::Device& device,
                                   const exec::Plan& reference) {
  const int64_t start = now_ns();
  ASSIGN_OR_RETURN(const auto b, bundle::Bundle::open(bundle_path));
  const bundle::Manifest& m = b->manifest();
  ASSIGN_OR_RETURN(const auto cpu, hal::open_device("cpu"));
  const exec::Plan plan = b->to_plan();
  exec::PlanSources reference_sources;
  reference_sources.weights = b->sources().weights;
  const KernelSide subject{&plan, b->sources(), &device};
  const KernelSide truth{&reference, reference_sources, cpu.get()};

  SelfCheckReport report;
  const uint64_t seeds = kind == bundle::SelfCheck::kFull ? 3 : 1;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    ASSIGN_OR_RETURN(const auto kernels, check_kernels(m, subject, truth, seed));
    for (const KernelResult& k : kernels)
      if (!k.worst.is_equal_enough)
        return fail(Errc::kMismatch, strf("self-check: kernel %s (%s): %s", k.name.c_str(),
                                          k.used_by.c_str(), k.worst.text().c_str()));
    report.kernels = kernels.size();
  }
  for (const bundle::GoldenCase& row : m.golden) {
    ASSIGN_OR_RETURN(const auto outputs,
                     check_golden(m, row, b->section(bundle::SectionKind::kGolden), subject));
    for (const OutputResult& o : outputs) {
      if (!o.comparison.is_equal_enough)
        return fail(Errc::kMismatch,
                    strf("self-check: output %s: %s", o.name.c_str(), o.comparison.text().c_str()));
      if (o.comparison.max_abs_error >= report.worst_output.max_abs_error)
        report.worst_output = o.comparison;
    }
    report.outputs += outputs.size();
  }
  report.total_ns = now_ns() - start;
  return report;
}

}  // namespace modeld::tools
