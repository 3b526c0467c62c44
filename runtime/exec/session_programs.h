// SessionPrograms: kernels of LINEARs to finished programs, and programs to devices. Part of
// Session. Contract: compile() puts the distinct kernels of all LINEARs into one batch; a body that
// is compiled is PROGRAM(SINK) with ProgramInfo, and its name finds the rest. Code of one batch
// shares one sealed memfd. Threading: one thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hal/base/status.h"
#include "hal/base/unique_fd.h"
#include "hal/device.h"

#include "runtime/exec/lower_and_compile.h"
#include "runtime/ir/graph.h"

namespace modeld::exec {

class SessionPrograms {
 public:
  explicit SessionPrograms(CompileOptions options) : options_(std::move(options)) {}

  Result<ir::NodeVec> compile(ir::Graph& g,
                              std::span<const ir::Node* const> linears,
                              CompileStats& stats);
  // nullptr: `body` is no finished PROGRAM of this session.
  const LoweredRow* find(const ir::Node* body) const;
  Result<std::shared_ptr<hal::Program>> load(const ir::Node* body,
                                             const std::string& device_name,
                                             hal::Device& device);
  const CompileOptions& options() const { return options_; }

 private:
  struct Entry {
    LoweredRow row;
    size_t batch = 0;
    uint64_t offset = 0;  // of the image in its batch
  };
  struct Batch {
    UniqueFd code;
    uint64_t size = 0;
  };
  Status prepare();
  Status add_batch(std::vector<LoweredRow> rows);

  CompileOptions options_;
  std::optional<Backend> backend_;
  std::vector<Batch> batches_;
  std::map<std::string, Entry> programs_;  // by function name, which ends in the program key
  std::map<std::pair<std::string, std::string>, std::shared_ptr<hal::Program>>
      loaded_;  // by (device, function); shared with the device's recordings
};

}  // namespace modeld::exec
