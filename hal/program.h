// A kernel: the image a compiler made (file section or bytes) and the loaded program a device made
// of it. This is not a compiler interface: an image is finished code for one target.
// Contract for CPU images: position-independent text and constants, no relocations, entry at
// entry_offset:
//     extern "C" void KERNEL(const uint64_t* words, uint32_t core_id);
// words[i] is argument i as 64 bits (buffer address, or scalar value); core_id runs from 0 to
// groups.x - 1. Code is mapped read+execute from the file or from a sealed memfd, never made
// executable after writing.
// Threading: images are values; a Program may be used from any thread and outlives its device
// handle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "hal/base/status.h"

namespace modeld::hal {

using HostKernel = void (*)(const uint64_t* words, uint32_t core_id);

enum class ArgKind : uint8_t { kBuffer, kImageRo, kImageWo, kScalar };
struct Arg {
  ArgKind kind = ArgKind::kBuffer;
  uint16_t slot = 0;  // binding index of images; equals the position for buffers and scalars
  uint32_t width = 0, height = 0;  // images only
};

constexpr size_t kMaxArgs = 1024;

// Exactly one of three sources: a file range, bytes, or a host function (tests and the null device
// only).
struct ProgramImage {
  std::string name;    // for messages, traces and profiles
  std::string target;  // print_target() form; empty: not checked
  std::vector<Arg> args;
  uint64_t entry_offset = 0;  // relative to the start of the range or of `code`

  // A page-aligned range of an open file (a bundle section). Several kernels may name the same
  // range with different entry offsets; the device maps it once. The fd is borrowed for the call.
  int fd = -1;
  uint64_t fd_offset = 0;
  uint64_t fd_length = 0;

  std::vector<std::byte> code;
  HostKernel host_kernel = nullptr;
};

class Program {
 public:
  virtual ~Program() = default;
  virtual const std::string& name() const = 0;
  virtual uint32_t arg_count() const = 0;
};

}  // namespace modeld::hal
