// to_program: kernel AST -> source text plus everything needed to compile and launch it. The chain
// PROGRAM(SINK) -> +LINEAR -> +SOURCE; the back-end compiler is runtime/compile's. With an
// instruction set (options.select, options.assemble) the SINK holds INS nodes and do_assemble adds
// SOURCE (a listing) and BINARY at once.
// Contract: deterministic: equal (AST, options) give equal bytes in every process; the function
// name is unique per program (it ends in the program key). Threading: one thread per Graph.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "hal/base/hash.h"
#include "hal/base/status.h"

#include "runtime/codegen/options.h"
#include "runtime/ir/graph.h"

namespace modeld::codegen {

struct Program {
  std::string name;    // C function name: void NAME(const unsigned long long* a, unsigned core_id)
  std::string source;  // that one function, without the renderer's prelude; or its listing
  std::vector<std::byte> code;  // the image, entry at 0; empty when a compiler has to make it
  ir::ProgramInfo info;
  ir::Opts applied_opts;     // replaying them on the same AST gives the same source
  int64_t instructions = 0;  // nodes of the ordered program
  bool no_contract = false;  // must be compiled with -ffp-contract=off
  Hash128 key;
};

// Content key of the AST, the optimise flag and every option that changes code (never SPEC, DEBUG).
Hash128 to_program_key(const ir::Node* ast, const CodegenOptions& options);

// `ast`: SINK with KernelInfo (tag set = already optimised), or PROGRAM, whose missing stages only
// are made.
Result<Program> to_program(ir::Graph& g, const ir::Node* ast, const CodegenOptions& options);

// The single steps, in order. Each returns PROGRAM with one more source.
Result<const ir::Node*> do_linearize(ir::Graph& g, const ir::Node* program);
Result<const ir::Node*> do_render(ir::Graph& g,
                                  const ir::Node* program,
                                  const CodegenOptions& options);
Result<const ir::Node*> do_assemble(ir::Graph& g,
                                    const ir::Node* program,
                                    const CodegenOptions& options);

}  // namespace modeld::codegen
