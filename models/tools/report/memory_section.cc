// Section "Memory": figures per lane and the arenas over time as a picture.
#include "models/tools/bundle_info.h"
#include "models/tools/cli.h"
#include "models/tools/report/arena_svg.h"
#include "models/tools/report/markup.h"
#include "models/tools/report/report.h"

namespace modeld::tools {

std::string memory_section(const ReportData& data) {
  const exec::Plan& plan = data.plan();
  std::vector<std::vector<std::string>> rows = {
      {"lane", "sum of buffers", "arena", "bound", "over bound"}};
  for (const exec::ArenaRow& a : plan.arenas)
    rows.push_back({lane_text(a), bytes_text(a.sum), bytes_text(a.size), bytes_text(a.bound),
                    over_bound_text(a.size, a.bound)});
  rows.push_back({"all", bytes_text(plan.memory.sum_bytes), bytes_text(plan.memory.planned_bytes),
                  bytes_text(plan.arena_bound()),
                  over_bound_text(plan.memory.planned_bytes, plan.arena_bound())});
  return markup_table(rows, {{1, 2, 3, 4}}) +
         tag("p", {{"class", "note"}},
             "Sum: every intermediate with memory of its own. Bound: the most bytes alive at one "
             "call; no plan can be smaller. Loaded, the bundle takes " +
                 bytes_text(plan.memory.resident_bytes) + " with its weights.") +
         "\n" + tag("div", {{"class", "wide"}}, arena_svg(plan, data.arena_uses)) + "\n";
}

}  // namespace modeld::tools
