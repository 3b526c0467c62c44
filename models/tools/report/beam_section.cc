// Section "Search": what `--beam` found, the rule's choice and the winner side by side, and the
// whole run with each.
#include <algorithm>
#include <vector>

#include "runtime/ir/print.h"

#include "models/tools/cli.h"
#include "models/tools/report/markup.h"
#include "models/tools/report/report.h"

namespace modeld::tools {
namespace {

double saved_us(const exec::BeamKernel& k) {
  const exec::BeamFinding& f = k.finding;
  return f.is_winner ? (f.heuristic_us - f.winner_us) * static_cast<double>(k.calls) : 0;
}

std::string us_text(double us) {
  return us > 0 ? strf("%.1f us", us) : "-";
}

std::string opts_cell(const ir::Opts& opts) {
  return tag("div", {{"class", "wrap"}}, tag("code", {}, escape_markup(ir::opts_text(opts))));
}

std::string outcome(const exec::BeamKernel& k) {
  const exec::BeamFinding& f = k.finding;
  if (f.is_winner) return strf("winner, %.2f times as fast", f.heuristic_us / f.winner_us);
  return f.note.empty() ? "the rule" : "the rule: " + f.note;
}

}  // namespace

std::string beam_section(const ReportData& data) {
  if (data.beam == nullptr)
    return tag("p", {{"class", "note"}},
               "Nothing was searched: opts by rule. `modelc build --beam N` tries others and times "
               "them.");
  const exec::BeamReport& b = *data.beam;
  std::string head =
      strf("%llu lists of opts tried, %llu compiled, %llu timed. ",
           static_cast<unsigned long long>(b.tried), static_cast<unsigned long long>(b.compiled),
           static_cast<unsigned long long>(b.timed));
  if (b.is_cached) head = "From the cache of an earlier search. ";
  if (b.heuristic_ms > 0)
    head += strf(
        "Entry %s in turns, median: %.3f ms with the rule's choices, %.3f ms with the "
        "winners%s.",
        b.entry.c_str(), b.heuristic_ms, b.winner_ms,
        b.is_kept ? "" : ": not faster, the rule's choices stay");
  std::vector<const exec::BeamKernel*> order;
  for (const exec::BeamKernel& k : b.kernels) order.push_back(&k);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto* x, const auto* y) { return saved_us(*x) > saved_us(*y); });
  std::vector<std::vector<std::string>> rows = {{"calls", "kernel, as the rule built it",
                                                 "the rule's opts", "time", "best opts found",
                                                 "time", "used"}};
  for (const exec::BeamKernel* k : order)
    rows.push_back({std::to_string(k->calls), tag("code", {}, escape_markup(k->name)),
                    opts_cell(k->finding.heuristic), us_text(k->finding.heuristic_us),
                    k->finding.winner_us > 0 ? opts_cell(k->finding.winner) : "-",
                    us_text(k->finding.winner_us), escape_markup(outcome(*k))});
  return tag("p", {{"class", "note"}}, escape_markup(head)) + "\n" +
         tag("div", {{"class", "wide"}}, markup_table(rows, {{0, 3, 5}}));
}

}  // namespace modeld::tools
