// full_rewrite_to_sink: one kernel AST in, the final program sink out. lower.cc holds THE table of
// kernel passes in order, each with its reason. This is not linearise or render (to_program.h).
// Contract: the input is a verified kernel AST (SINK with KernelInfo); errors come back as a
// Status, the Graph may hold garbage afterwards. Threading: one thread per Graph.
#pragma once

#include <span>

#include "hal/base/status.h"

#include "runtime/codegen/options.h"
#include "runtime/ir/graph.h"
#include "runtime/pass/pass.h"

namespace modeld::codegen {

// One entry of the pass table. `fn` is pure: root in, root out; it latches errors in the Graph.
struct KernelPass {
  const char* name;
  const char* why;  // why it stands exactly here
  const ir::Node* (*fn)(ir::Graph&, const ir::Node*, const CodegenOptions&);
  bool optimize_only;  // skipped when the AST is already optimised (tag set)
};

std::span<const KernelPass> kernel_passes();

// `optimize` false skips the starred passes of the table and nothing else. `label` names the kernel
// in dumps and errors.
Result<const ir::Node*> full_rewrite_to_sink(ir::Graph& g,
                                             const ir::Node* ast,
                                             const CodegenOptions& options,
                                             bool optimize,
                                             const std::string& label = {});

// Passes up to and including `last` (null: all); for tests, ir_opt and reports.
Result<const ir::Node*> run_kernel_passes(ir::Graph& g,
                                          const ir::Node* ast,
                                          const CodegenOptions& options,
                                          bool optimize,
                                          const char* last,
                                          const pass::RunOptions& run = {});

}  // namespace modeld::codegen
