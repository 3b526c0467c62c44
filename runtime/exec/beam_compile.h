// CandidateCompiler: one kernel with many lists of opts to finished code, for a search. Not a
// cache: equal sources are compiled once, nothing reaches the disk. Contract: a list that is
// illegal, that lowers to too many instructions or whose compiler fails or takes longer than its
// limit gives nothing; results are in the order of the lists and do not depend on `jobs`. The
// compiler runs as a child process of its own group with the time limit; no device is opened.
// Threading: one thread calls; compile() uses `jobs` more, which have ended when it returns.
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

#include "runtime/codegen/to_program.h"
#include "runtime/exec/lower_and_compile.h"
#include "runtime/exec/plan.h"
#include "runtime/ir/graph.h"

namespace modeld::exec {

struct Candidate {
  codegen::Program program;
  std::string bytes;  // equal for equal programs, whatever their names
  Image image;
};

struct CandidateLimits {
  int jobs = 2;
  int64_t instructions = 3000;  // more are not worth compiling
};

class CandidateCompiler {
 public:
  // `ast`: of a Graph that nobody changes meanwhile; both outlive this object. The backend's
  // compiler carries the time limit.
  CandidateCompiler(const ir::Node* ast,
                    bool no_contract,
                    const Backend& backend,
                    CandidateLimits limits)
      : ast_(ast), no_contract_(no_contract), backend_(backend), limits_(limits) {}

  std::vector<std::optional<Candidate>> compile(std::span<const ir::Opts> lists);
  // One list, with the reason when there is no program, and without the limit on instructions.
  Result<Candidate> compile_one(const ir::Opts& opts);

 private:
  Result<Candidate> make(const ir::Opts& opts, int64_t max_instructions);
  Status attach_image(Candidate& candidate);

  const ir::Node* ast_;
  bool no_contract_;
  const Backend& backend_;
  CandidateLimits limits_;
  std::mutex mutex_;                     // guards images_
  std::map<std::string, Image> images_;  // by bytes
};

}  // namespace modeld::exec
