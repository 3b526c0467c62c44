// Loaded CPU kernels: code mapped read+execute from a file range or a sealed memfd.
// Contract: several kernels of one file range share one mapping while any of them lives. Images for
// other targets or with an entry outside their code are refused; the code itself is trusted (hashes
// are the bundle's business).
// Threading: CpuProgramLoader from any thread (one mutex); CpuProgram is immutable.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>

#include "hal/base/mapping.h"
#include "hal/program.h"

namespace modeld::hal {

class CpuProgram final : public Program {
 public:
  CpuProgram(std::string name,
             uint32_t arg_count,
             std::shared_ptr<const Mapping> code,
             HostKernel kernel)
      : name_(std::move(name)), arg_count_(arg_count), code_(std::move(code)), entry_(kernel) {}
  const std::string& name() const override { return name_; }
  uint32_t arg_count() const override { return arg_count_; }
  HostKernel entry() const { return entry_; }

 private:
  std::string name_;
  uint32_t arg_count_;
  std::shared_ptr<const Mapping>
      code_;  // shared by the kernels of one section; null for host functions
  HostKernel entry_;
};

class CpuProgramLoader {
 public:
  Result<std::shared_ptr<Program>> load(const ProgramImage& image);

 private:
  using RangeKey =
      std::tuple<uint64_t, uint64_t, uint64_t, uint64_t>;  // device, inode, offset, length
  Result<std::shared_ptr<const Mapping>> map_range(const ProgramImage& image);

  std::mutex mutex_;
  std::map<RangeKey, std::weak_ptr<const Mapping>> ranges_;
};

}  // namespace modeld::hal
