// Helpers for the tests of this folder: small kernels in C and a way to run an image.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>

#include "hal/base/mapping.h"
#include "hal/target.h"

#include "runtime/compile/compiler.h"

namespace modeld::compile {

inline hal::Target host_target() {
  auto t = hal::parse_target("cpu");
  EXPECT_TRUE(t.ok());
  return t.ok() ? *t : hal::Target{};
}

inline hal::Target target_of(const std::string& text) {
  auto t = hal::parse_target(text);
  EXPECT_TRUE(t.ok()) << text;
  return t.ok() ? *t : hal::Target{};
}

// out[i] = in[i] * factor + table[i % 4] for 64 floats, with vector constants and a table.
inline KernelSource scale_kernel(const std::string& name, double factor) {
  return KernelSource{
      name,
      strf("typedef unsigned long long u64;\n"
           "typedef float v4 __attribute__((vector_size(16)));\n"
           "void %s(const u64* w, unsigned core) {\n"
           "  float* out = (float*)w[0];\n"
           "  const float* in = (const float*)w[1];\n"
           "  (void)core;\n"
           "  for (int i = 0; i < 16; ++i)\n"
           "    *(v4*)(out + 4 * i) = *(const v4*)(in + 4 * i) * %#.9gf + (v4){1, 2, 3, %#.9gf};\n"
           "}\n",
           name.c_str(), factor, factor)};
}

// An image mapped read and execute, callable while this object lives.
class RunnableImage {
 public:
  explicit RunnableImage(const CompiledImage& image) : entry_(image.entry_offset) {
    auto fd = sealed_memfd("test-image", image.code);
    if (!fd.ok()) return;
    if (auto m = Mapping::map_fd(fd->get(), 0, image.code.size(), MapMode::kReadExec); m.ok())
      mapping_ = std::move(*m);
  }
  bool is_mapped() const { return mapping_.size() > 0; }
  // An image has no type in front of its entry, where clang's function check would read one: past
  // the mapping's start.
#ifdef __clang__
  __attribute__((no_sanitize("function")))
#endif
  void
  call(std::span<const uint64_t> words, uint32_t core = 0) const {
    using Kernel = void (*)(const uint64_t*, uint32_t);
    reinterpret_cast<Kernel>(mapping_.data() + entry_)(words.data(), core);
  }

 private:
  Mapping mapping_;
  uint64_t entry_;
};

}  // namespace modeld::compile
