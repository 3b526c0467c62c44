// The pass runner: one entry point that runs an ordered table of passes over a graph root.
// A pass is a pure function root -> root; the runner does the logging, timing, verifying and
// dumping, so no pass prints and no pass runs another. Contract: passes run in table order; the
// first failing pass, latched Graph error or failing spec ends the run with the pass's name in the
// error. MODELD_DUMP=dir writes `NN-name.txt` (text form of the root) after each pass.
// Times are nanoseconds of the monotonic clock. Threading: one thread per Graph.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "hal/base/status.h"

#include "runtime/ir/graph.h"

namespace modeld::pass {

using PassFn = std::function<Result<const ir::Node*>(ir::Graph&, const ir::Node*)>;
using SpecFn = Status (*)(ir::Graph&, const ir::Node*);

struct Pass {
  const char* name;             // = file = function = dump name
  const char* why;              // why it stands at this place in the order
  PassFn fn;                    // what it does
  SpecFn spec_after = nullptr;  // verifier the result must satisfy
};

struct PassTiming {
  std::string name;
  int64_t time_ns = 0;
  bool changed = false;
};

struct RunOptions {
  std::string label;     // what is being processed, for logs and dump names ("" = none)
  std::string dump_dir;  // "" = MODELD_DUMP
  bool verify = true;    // run spec_after
  std::vector<PassTiming>* timings = nullptr;  // filled when given
  // Called with the root that each pass left, unchanged ones included.
  std::function<void(const Pass&, const ir::Node*)> observe;
};

// The dump file's name for pass number `index` of a table: "03-fuse.txt", "conv_7-03-fuse.txt".
std::string dump_name(const std::string& label, size_t index, const std::string& pass);

Result<const ir::Node*> run_passes(ir::Graph& g,
                                   const ir::Node* root,
                                   std::span<const Pass> passes,
                                   const RunOptions& options = {});

}  // namespace modeld::pass
