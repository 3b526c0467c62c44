// The page that the allocation probe shares with its test: one file alloc.PID in the runtime
// directory per process of modeld_probe (the daemon's program plus alloc_probe.cc).
// Contract: the process only adds, the test only arms. Threading: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace modeld::e2e {

inline constexpr int kProbeFrames = 12;

struct AllocPage {
  std::atomic<uint32_t> armed;
  std::atomic<uint64_t> before;  // calls until armed
  std::atomic<uint64_t> in_zmq;  // since then, with libzmq on the stack
  std::atomic<uint64_t> ours;    // since then, without
  std::atomic<uint32_t> sampled;
  uint64_t text_start;            // where the program is mapped, to make sense of the samples
  uint64_t sample[kProbeFrames];  // return addresses of the first call of ours
  char name[16];                  // of the function called
};

inline std::string alloc_page_path(const std::string& dir, int pid) {
  return dir + "/alloc." + std::to_string(pid);
}

}  // namespace modeld::e2e
