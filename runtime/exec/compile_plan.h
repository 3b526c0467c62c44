// compile_plan: tensor graph to Plan, the only place where schedule, codegen, render and compile
// meet. It is not a device: nothing is opened or executed, and the target may be hardware that is
// not here. Contract: the same graph, entries and options give the same plan for any number of
// jobs; kernels that several entries share are compiled once; only weights that some call reads are
// kept. Errors name the entry or the kernel. Threading: one thread calls; lowering uses `jobs`
// threads and as many compiler child processes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hal/base/status.h"
#include "hal/target.h"

#include "runtime/exec/plan.h"
#include "runtime/ir/graph.h"
#include "runtime/tensor/weight_store.h"

namespace modeld::exec {

// A named tensor of an entry. Inputs: a BUFFER node (possibly under a RESHAPE that gives its
// shape). Outputs: any value node; its shape is the tensor's.
struct Binding {
  std::string name;
  const ir::Node* node = nullptr;
};

struct EntrySpec {
  std::string name;
  std::vector<Binding> inputs, outputs;
  std::vector<const ir::Node*> scalars;  // variables (ir::variable) the graph may use
  bool no_contract = false;  // bit-exact arithmetic: no contraction, no fused multiply-add (warps)
};

struct CompileProgress {
  const char* stage = "";  // "schedule", "lower", "compile"
  size_t done = 0, total = 0;
};

class ProgramCache;  // to_program_cache; shared by several compile_plan calls of one process

struct CompileOptions {
  hal::Target target;
  int jobs = 2;        // 0 counts as 1 and stays in the calling thread
  bool noopt = false;  // no heuristics: scalar loops
  bool keep_sources = false;
  bool lower_only = false;  // rows without images, but for renderers that make them themselves
  std::string cache_dir;    // of compiled images; "": none on disk
  std::string clang = "clang-19";
  int64_t compile_timeout_ms = 60'000;  // per child process
  bool assert_no_compile = false;  // also MODELD_ASSERT_COMPILE=1: needing the compiler is an error
  std::shared_ptr<ProgramCache> program_cache;  // shared: outlives single calls; null: one per call
  std::function<void(const CompileProgress&)> progress;  // called from the calling thread only
};

// Cache directory of the environment (MODELD_CACHE_DIR or its default), for programs.
CompileOptions default_compile_options(const hal::Target& target);

Result<Plan> compile_plan(ir::Graph& g,
                          std::span<const EntrySpec> entries,
                          const tensor::WeightStore& weights,
                          const CompileOptions& options);

// image_dir: compiled images on disk; "": in memory only. It wins over CompileOptions::cache_dir.
std::shared_ptr<ProgramCache> make_program_cache(const std::string& image_dir = {});

}  // namespace modeld::exec
