// A kernel of a bundle by itself: what its first call gives it, with seeded numbers in place of
// what other kernels would have left, and a plan with which it runs alone. Contract: an argument
// has the type its AST declares and the size of the first call that uses it; scalars take a value
// that call could get. Threading: one thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hal/device.h"

#include "runtime/exec/loaded_plan.h"

#include "models/bundle/manifest.h"
#include "models/tools/tensor_io.h"

namespace modeld::tools {

struct KernelSample {
  std::string used_by;  // "call 3 (r_12_4) of entry run"
  uint64_t calls = 0;
  std::vector<exec::TensorInfo> buffers;  // by argument position
  std::vector<Bytes> values;
  std::vector<uint64_t> scalars;
};
using KernelSamples = std::vector<std::optional<KernelSample>>;

// By program of `plan`; programs that no call uses have none. `m` gives geometry and entries.
Result<KernelSamples> sample_kernels(const bundle::Manifest& m,
                                     const exec::Plan& plan,
                                     uint64_t seed);

// A plan with one entry per sampled kernel: `calls` equal calls, every buffer argument a slot.
exec::Plan kernel_plan(const exec::Plan& from, const KernelSamples& samples, size_t calls = 1);
std::string kernel_entry(size_t program);

// The sample's numbers in device memory.
struct BoundSample {
  std::vector<hal::Buffer> buffers;
  std::vector<uint64_t> slots;
};
Result<BoundSample> bind_sample(hal::Device& device, const KernelSample& sample);

}  // namespace modeld::tools
