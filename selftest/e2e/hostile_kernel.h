// A bundle whose code turns on its host: one kernel of a good bundle computes what it always did
// and, some seconds after it first ran, tries what no kernel may do. It passes the self-test like
// any good bundle: only the sandbox stands between it and the car. The attempts and their results
// are written to the worker's stderr, which is the daemon's log: "hostile: NAME -> RESULT".
// Contract: x86-64 (its system calls are made by hand); needs the compiler program. Threading: main
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace modeld::e2e {

// What it does once all attempts have been refused.
enum class Malice : uint8_t {
  kCrash,   // writes to address 0
  kHang,    // never returns
  kLie,     // scribbles over the shared page and rings, then never returns
  kFlood,   // fills the hop's socket with rubbish for ever
  kAccuse,  // says in the daemon's own packets that it lost its privileges
  kNone,    // goes on as if nothing had been
};

// Empty where such a bundle can be made, else why not.
std::string why_no_hostile_kernel();
// `after_ms`: from its first run to its attempts.
void make_hostile(const std::string& from, const std::string& to, Malice malice, int64_t after_ms);

struct AttemptResult {
  std::string name;
  long result;  // of the system call: negative errno, or what it gave
};
// Those in a log, in the order tried.
std::vector<AttemptResult> attempts_in(const std::string& log);

}  // namespace modeld::e2e
