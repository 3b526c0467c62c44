// lower_and_compile: distinct kernel ASTs to finished program rows: lowering on worker threads,
// each kernel in a Graph of its own, then the back-end compiler in batches. Contract: rows come
// back in the order of the requests; they depend only on AST and options, not on jobs, order or
// what the caches held. Errors name the kernel. Threading: the calling thread plus `jobs` workers;
// progress on the calling thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hal/base/status.h"

#include "runtime/codegen/options.h"
#include "runtime/codegen/to_program.h"
#include "runtime/compile/compiler.h"
#include "runtime/compile/kernel_cache.h"
#include "runtime/exec/compile_plan.h"
#include "runtime/exec/plan.h"
#include "runtime/ir/graph.h"

namespace modeld::exec {

// to_program_cache (lowered programs by program key) and the image cache below it.
class ProgramCache {
 public:
  explicit ProgramCache(std::string image_dir) : images(std::move(image_dir)) {}
  std::optional<codegen::Program> find(const Hash128& key) const;
  void store(const codegen::Program& program);

  compile::KernelCache images;

 private:
  mutable std::mutex mutex_;  // guards programs_
  std::map<Hash128, codegen::Program> programs_;
};

// How a target's kernels are lowered, rendered and compiled.
struct Backend {
  codegen::CodegenOptions codegen;
  std::unique_ptr<compile::Compiler> compiler;

  codegen::CodegenOptions options_for(bool no_contract) const;
};
// kUnsupported for a target nobody wrote a renderer or compiler for.
Result<Backend> make_backend(const CompileOptions& options);
// The lowering half alone: needs no compiler program.
Result<codegen::CodegenOptions> make_codegen_options(const CompileOptions& options);

struct KernelRequest {
  const ir::Node* ast =
      nullptr;  // SINK with KernelInfo; of any Graph that nobody changes meanwhile
  bool no_contract = false;
  std::string used_by;  // "call 3 of entry run", for messages
};

struct LoweredRow {
  ProgramRow row;
  std::vector<std::string> scalars;  // names of the scalar arguments, in order
};

Result<std::vector<LoweredRow>> lower_and_compile(std::span<const KernelRequest> requests,
                                                  Backend& backend,
                                                  ProgramCache& cache,
                                                  const CompileOptions& options,
                                                  CompileStats& stats);

}  // namespace modeld::exec
