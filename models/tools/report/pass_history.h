// How one kernel's graph changes on its way through the pass table, kept small enough for a page: a
// node keeps its number and its line for as long as it lives, so a pass is a list of line numbers
// and what it made are the lines that the pass before did not have. Contract: deterministic but for
// time_ns; the kernel is lowered again, alone, so neither caches nor other kernels show.
// Threading: any, each call has a Graph of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hal/base/json.h"
#include "hal/base/status.h"

#include "runtime/codegen/options.h"
#include "runtime/exec/plan.h"

namespace modeld::tools {

struct PassView {
  std::string name, why;
  std::vector<uint32_t> lines;  // in the order of the graph, sources first; indices into text
  bool is_changed = false;      // against the pass before
};

struct PassHistory {
  std::vector<std::string> text;  // "%7 = add f32 %3 %5", %7 being line 7
  std::vector<PassView> passes;   // the first is the kernel as it was scheduled
};

// With the opts that the program was built with. The last view is the order of the program's
// instructions. kCorrupt when the program's AST text is none.
Result<PassHistory> pass_history(const exec::ProgramRow& program,
                                 const codegen::CodegenOptions& options);

// {"text":[..],"passes":[{"name":..,"why":..,"changed":..,"lines":"0-3,9"}]}
Json history_json(const PassHistory& history);
// "0-3,9": ascending runs, in order; a falling or single number stands alone.
std::string line_runs(const std::vector<uint32_t>& lines);

}  // namespace modeld::tools
