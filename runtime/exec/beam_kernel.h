// KernelBench: one kernel alone on a device, with scratch buffers for its arguments: what a search
// times, and how its winner is compared with the plain kernel. Not a benchmark of a model.
// Contract: buffers have the sizes the kernel may touch, filled with the same seeded numbers every
// time; variables take the middle of their range. A kernel whose addresses depend on data, or that
// would need more than kMaxBytes, is refused (kUnsupported). Before a timed run the arguments'
// cache lines are flushed where this CPU can; the time is the device's own for the launch alone.
// Every wait has a deadline. Units: microseconds. Threading: one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hal/base/status.h"
#include "hal/device.h"

#include "runtime/exec/beam_compile.h"
#include "runtime/ir/graph.h"

namespace modeld::exec {

class KernelBench {
 public:
  static constexpr uint64_t kMaxBytes = uint64_t{1} << 30;
  static constexpr int64_t kRunLimitMs = 20'000;

  // `device` must have been opened with profile = true and must outlive this object.
  static Result<std::unique_ptr<KernelBench>> create(hal::Device& device,
                                                     ir::Graph& g,
                                                     const ir::Node* ast);
  ~KernelBench();

  // A candidate, recorded; runs on this bench only.
  class Loaded {
   public:
    Loaded(Loaded&&) = default;
    Loaded& operator=(Loaded&&) = default;

   private:
    friend class KernelBench;
    Loaded() = default;
    std::unique_ptr<hal::Bound> bound;
    std::vector<uint32_t> outs;
  };
  Result<Loaded> load(const Candidate& candidate);
  Result<double> run_us(Loaded& kernel);
  // Seeded inputs, one run: what it wrote, by argument.
  struct Output {
    ir::DType dtype;
    std::vector<std::byte> bytes;
  };
  Result<std::vector<Output>> outputs(Loaded& kernel);

 private:
  struct Argument;
  struct Variable;
  KernelBench(hal::Device& device, const std::string& target);
  Status add_arguments(ir::Graph& g, const ir::Node* ast);
  Status fill();
  void flush();

  hal::Device& device_;
  std::string target_;
  std::vector<Argument> args_;  // by slot
  std::vector<Variable> vars_;
  hal::Buffer pad_;  // the copy that wakes the device's threads before the launch
};

// Equal for integers; floats within 1e-4 (halves 1e-2) of the largest reference number, NaN and
// infinities at the same places; `scale` 0 asks for equal floats too. kMismatch says where.
Status compare_outputs(std::span<const KernelBench::Output> value,
                       std::span<const KernelBench::Output> reference,
                       double scale = 1);

}  // namespace modeld::exec
