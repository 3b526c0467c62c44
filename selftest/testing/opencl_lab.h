// Runs OpenCL C source on whatever driver the ICD loader finds (pocl on a build machine), for tests
// that prove rendered source. This is not the device (hal/opencl): one queue, everything waits.
// The loader is opened at run time; where there is none, open() says so and tests skip.
// Threading: one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hal/base/status.h"

namespace modeld::testing {

// One argument of a launch: bytes of a buffer (read back afterwards), an image of float4 or half4
// pixels, or a scalar.
struct OpenClArg {
  enum class Kind : uint8_t { kBuffer, kImage, kScalar };
  Kind kind = Kind::kBuffer;
  std::span<std::byte> bytes;     // buffers and images
  int64_t width = 0, height = 0;  // images, pixels
  bool is_half = false;           // images
  int32_t scalar = 0;
};

class OpenClLab {
 public:
  virtual ~OpenClLab() = default;
  virtual const std::string& device_name() const = 0;
  // Replaces the program: all kernels to come are of this source.
  virtual Status build(const std::string& source, const std::string& options) = 0;
  // groups x items per group; items of 0: the driver chooses.
  virtual Status run(const std::string& kernel,
                     std::span<const OpenClArg> args,
                     const int64_t groups[3],
                     const int64_t items[3]) = 0;
};

// kUnsupported with the reason when there is no loader, platform or device.
Result<std::unique_ptr<OpenClLab>> open_opencl_lab();

}  // namespace modeld::testing
