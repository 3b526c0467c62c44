// The finite check: is this output vector one that anybody may use?
// Contract: looks at every number; the text names the first bad one. No allocation unless something
// is wrong. Threading: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace modeld::models {

struct Finding {
  bool is_good = true;
  std::string text;  // empty when good: "outputs[17] is nan"
};

Finding find_non_finite(std::span<const float> values, const char* name);
Finding find_non_finite_half(std::span<const uint16_t> values, const char* name);

// More than one number and all the same (0 and -0 count as the same): a device that wrote nothing,
// not a model.
Finding find_all_equal(std::span<const float> values, const char* name);

}  // namespace modeld::models
