// ir_opt: runs named passes over the text form of a graph, so that any dumped stage can be
// continued by hand. It is not a pipeline of its own: every pass is an entry of the kernel table
// (codegen), the kernel-graph table (schedule) or one of three whole stages (simplify,
// make_schedule, to_program). Contract: text in, text out; errors name the pass. Threading: pure
// functions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hal/base/status.h"
#include "hal/target.h"

namespace modeld::tools {

struct IrOptOptions {
  hal::Target target;
  bool noopt = false;
  bool verify_kernel = false;  // the input must be a kernel AST
};

struct PassName {
  std::string name;
  std::string table;  // "kernel", "kernel graph", "stage"
  std::string why;
};
// In table order.
std::vector<PassName> ir_opt_passes(const IrOptOptions& options);

// The graph of `text` after `passes`; "to_program" as the last pass gives the rendered source
// instead.
Result<std::string> ir_opt(std::string_view text,
                           std::span<const std::string> passes,
                           const IrOptOptions& options);

}  // namespace modeld::tools
