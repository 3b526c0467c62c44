// Where the matrix units of the hardware keep the numbers of one step, from the vendors' documents
// and written apart from the compiler's table, so that a wrong swizzle there shows as a wrong
// product here. Used by kernel_interp. Threading: pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace modeld::testing {

struct UnitLayout {
  int64_t n, m, k, threads;
  int64_t a_elements, b_elements;
  // (lane, element) -> the position in the matrix.
  std::pair<int64_t, int64_t> (*a)(int64_t lane, int64_t element);  // row, step
  std::pair<int64_t, int64_t> (*b)(int64_t lane, int64_t element);  // step, column
  std::pair<int64_t, int64_t> (*c)(int64_t lane, int64_t element);  // row, column
};

// By the name a WMMA carries; nullopt for a unit nobody described.
std::optional<UnitLayout> unit_layout(std::string_view core);

}  // namespace modeld::testing
