// Section "Caches": what this build found done already. A hit says that work was skipped, nothing
// about numbers.
#include "models/tools/cli.h"
#include "models/tools/report/markup.h"
#include "models/tools/report/report.h"

namespace modeld::tools {

std::string caches_section(const ReportData& data) {
  const exec::CompileStats& s = data.stats;
  const auto n = [](uint64_t v) { return std::to_string(v); };
  return markup_table(
             {{"cache", "hits", "misses", "a hit skips"},
              {"schedule cache", n(s.schedule_hits), n(s.schedule_misses),
               "preparing, checking and ordering a graph"},
              {"program cache", n(s.kernels - s.lowered), n(s.lowered), "lowering a kernel"},
              {"compiled images, memory", n(s.memory_hits), n(s.kernels - s.memory_hits),
               "the back-end compiler"},
              {"compiled images, disk", n(s.disk_hits), n(s.cold), "the back-end compiler"}},
             {{1, 2}}) +
         tag("p", {{"class", "note"}},
             escape_markup(strf("%llu kernels: %llu compiled cold. Lowering took %s, the back-end "
                                "compiler %s.",
                                static_cast<unsigned long long>(s.kernels),
                                static_cast<unsigned long long>(s.cold),
                                time_text(s.lower_ns).c_str(), time_text(s.compile_ns).c_str())));
}

}  // namespace modeld::tools
