// Section "Kernels": one row per distinct kernel, busiest first, its source folded below it. Busy
// is calls times measured time, or times arithmetic where nothing was measured.
#include <algorithm>
#include <numeric>

#include "models/tools/bundle_info.h"
#include "models/tools/cli.h"
#include "models/tools/report/markup.h"
#include "models/tools/report/report.h"

namespace modeld::tools {
namespace {

std::string name_cell(const ReportData& data, size_t i) {
  const std::string name = "<code>" + escape_markup(data.plan().programs[i].name) + "</code>";
  if (i >= data.sources.size() || data.sources[i].empty()) return name;
  return "<details><summary>" + name + "</summary>" +
         tag("pre", {{"id", "source-" + std::to_string(i)}}, escape_markup(data.sources[i])) +
         "</details>";
}

int64_t time_of(const ReportData& data, size_t i) {
  return i < data.times_ns.size() ? data.times_ns[i] : 0;
}

// Flops per nanosecond are GFLOP/s.
std::string rate_text(uint64_t flops, int64_t time_ns) {
  if (time_ns <= 0) return "";
  return strf("%.2f", static_cast<double>(flops) / static_cast<double>(time_ns));
}

std::vector<size_t> busiest_first(const ReportData& data, const std::vector<uint64_t>& calls) {
  std::vector<size_t> order(calls.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto work = [&](size_t i) {
    return calls[i] * (data.times_ns.empty() ? data.plan().programs[i].flops
                                             : static_cast<uint64_t>(time_of(data, i)));
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return work(a) > work(b); });
  return order;
}

}  // namespace

std::string kernels_section(const ReportData& data) {
  const exec::Plan& plan = data.plan();
  const std::vector<uint64_t> calls = calls_per_program(plan);
  std::vector<std::vector<std::string>> rows = {{"calls", "kernel", "time", "GFLOP/s", "opts",
                                                 "groups/local", "arithmetic", "loads and stores",
                                                 "memory", "image"}};
  for (const size_t i : busiest_first(data, calls)) {
    const exec::ProgramRow& p = plan.programs[i];
    rows.push_back({std::to_string(calls[i]), name_cell(data, i),
                    time_of(data, i) == 0 ? "" : time_text(time_of(data, i)),
                    rate_text(p.flops, time_of(data, i)),
                    "<div class=\"wrap\"><code>" + escape_markup(p.applied_opts) + "</code></div>",
                    launch_text(p), flops_text(p.flops), bytes_text(p.lds_bytes),
                    bytes_text(p.mem_bytes),
                    p.image.is_missing() ? "missing" : bytes_text(p.image.size)});
  }
  return tag("p", {{"class", "note"}},
             "Estimates per call: arithmetic (a multiply-add counts two), bytes loaded and stored, "
             "distinct bytes touched. Time: median of the kernel alone, its memory warm, on the "
             "machine that built; empty where that machine cannot run the target. Busiest first.") +
         "\n" + tag("div", {{"class", "wide"}}, markup_table(rows, {{0, 2, 3, 6, 7, 8, 9}}));
}

}  // namespace modeld::tools
