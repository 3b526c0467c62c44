// What `modelc build --report DIR` leaves: DIR/index.html, one page without any other file, and
// DIR/arena.svg, the picture of its memory section alone. report.cc holds the table of sections;
// each section is a file of its own (NAME_section.cc) with one function ReportData -> markup.
// Contract: pure functions but for write_report; markup is well-formed XML; nothing is loaded from
// anywhere. Threading: any.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "hal/base/status.h"

#include "runtime/exec/beam_plan.h"
#include "runtime/exec/plan.h"

#include "models/bundle/manifest.h"
#include "models/tools/report/pass_history.h"

namespace modeld::tools {

// What a finished build knows of itself.
struct ReportData {
  std::string title;  // name of the bundle file
  uint64_t file_bytes = 0;
  const bundle::Manifest* manifest = nullptr;
  exec::CompileStats stats;
  std::span<const exec::ArenaUse> arena_uses;
  // Per program; an empty list or text: not kept.
  std::span<const std::string> sources;
  std::span<const PassHistory> histories;
  // Median of the program alone on this machine, 0 where no call uses it; empty: the target does
  // not run here.
  std::span<const int64_t> times_ns;
  const exec::BeamReport* beam = nullptr;  // null: nothing was searched

  const exec::Plan& plan() const { return manifest->plan; }
};

std::string summary_section(const ReportData& data);
std::string caches_section(const ReportData& data);
std::string memory_section(const ReportData& data);
std::string beam_section(const ReportData& data);
std::string kernels_section(const ReportData& data);
std::string passes_section(const ReportData& data);

std::string report_page(const ReportData& data);
// Makes DIR when it is not there; replaces the two files.
Status write_report(const std::string& dir, const ReportData& data);

}  // namespace modeld::tools
