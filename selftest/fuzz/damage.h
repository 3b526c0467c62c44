// Damage that fits any input, and the questions every parser is asked.
// Contract: damage is a pure function of the generator's state; must_be_clear() and the timer look
// only at what they are given. Threading: one thread.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hal/base/status.h"

#include "selftest/fuzz/fuzz_main.h"

namespace modeld::fuzz {

using Bytes = std::vector<std::byte>;

// One change of a binary input: a bit, a byte, a 2-, 4- or 8-byte number, a cut, more bytes, a
// block written twice. `from` protects the bytes before it.
void damage_bytes(Bytes& bytes, Rng& rng, size_t from = 0);

// One change of a text: a character, a number in it, a word of `words` put in, a part lost, doubled
// or cut off, lines swapped.
void damage_text(std::string& text, Rng& rng, std::span<const std::string_view> words);

// A float of any bits, a usual one more often.
float any_float(Rng& rng);
double any_double(Rng& rng);
// Up to `max_bytes` printable characters.
std::string any_word(Rng& rng, size_t max_bytes);

template <class T>
const T& pick(std::span<const T> from, Rng& rng) {
  return from[rng.below(from.size())];
}

// "" or why this error is not one clear line.
std::string must_be_clear(const Error& e);

// Process CPU time of one case.
class CaseTimer {
 public:
  CaseTimer();
  // "" or a finding when the case took longer than `limit_s`.
  std::string check(double limit_s = 2) const;

 private:
  double start_s_;
};

// A parser that believes a size would take all memory of the machine.
void limit_memory();

}  // namespace modeld::fuzz
