// Shared by the tests of hal/cpu: opening, loading host kernels, binding. Not part of the product.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hal/cpu/cpu_device.h"

namespace modeld::hal {

inline std::unique_ptr<Device> open_cpu(int threads = 2, DeviceConfig config = {}) {
  config.threads = threads;
  auto device = open_cpu_device(0, config);
  EXPECT_TRUE(device.ok());
  return std::move(*device);
}

inline std::shared_ptr<Program> host_program(Device& device, HostKernel kernel, size_t args) {
  ProgramImage image;
  image.name = "host";
  image.host_kernel = kernel;
  image.args.resize(args);
  auto program = device.load(image);
  EXPECT_TRUE(program.ok());
  return *program;
}

inline std::unique_ptr<Bound> bind(std::unique_ptr<Recorder> recorder) {
  auto bound = std::move(*recorder).bind();
  EXPECT_TRUE(bound.ok()) << (bound.ok() ? "" : bound.error().what);
  return bound.ok() ? std::move(*bound) : nullptr;
}

inline Buffer zeroed(Device& device, size_t size_bytes) {
  return *device.allocator().alloc({.size_bytes = size_bytes, .flags = Mem::kZero});
}

template <class T>
T* cpu_ptr(const Buffer& buffer) {
  return reinterpret_cast<T*>(buffer.cpu().data());
}

inline Dim3 ranges(uint64_t n) {
  Dim3 d;
  d.x = Word::value(n);
  return d;
}

inline Deadline soon() {
  return Deadline::in_ms(10'000);
}

}  // namespace modeld::hal
