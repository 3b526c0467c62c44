// Stable text form of a graph, one node per line, and its reader: golden tests, dumps and bug
// reports are text.
//   %3 = add weakint %1 %2            id, op, dtype, sources
//   %4 = range weakint %0 {7 reduce}  argument in braces
#pragma once

#include <string>
#include <string_view>

#include "hal/base/status.h"

#include "runtime/ir/graph.h"

namespace modeld::ir {

std::string print(const Node* root);  // enters CALL bodies; ids are positions in the text
Result<const Node*> parse(Graph& g, std::string_view text);
// The reader of opts_text(): "[UPCAST(0,4) THREAD(0,2)]".
Result<Opts> parse_opts(std::string_view text);
// Short expression text for messages: "(r0*10+r1)".
std::string expr(const Node* n);

}  // namespace modeld::ir
