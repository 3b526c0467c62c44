#include "runtime/codegen/limit_dims.h"

#include <cmath>

namespace modeld::codegen {

namespace {

std::string text(const std::vector<int64_t>& dims) {
  std::string out;
  for (int64_t d : dims) out += strf(out.empty() ? "%lld" : ",%lld", static_cast<long long>(d));
  return "(" + out + ")";
}

bool fits(const std::vector<int64_t>& dims, std::span<const int64_t> max) {
  for (size_t i = 0; i < dims.size() && i < max.size(); ++i) {
    if (dims[i] > max[i]) return false;
  }
  return dims.size() <= max.size();
}

// Merges the first adjacent pair whose product fits, again and again; false when stuck.
bool merge(std::vector<int64_t>& dims, std::span<const int64_t> max) {
  while (!fits(dims, max)) {
    size_t i = 0;
    while (i < max.size() && (i + 1 >= dims.size() || dims[i] * dims[i + 1] > max[i])) ++i;
    if (i == max.size()) return false;
    dims[i] *= dims[i + 1];
    dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  }
  return true;
}

int64_t smallest_divisor(int64_t n) {
  const auto last = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(n))));
  for (int64_t d = 2; d <= last; ++d) {
    if (n % d == 0) return d;
  }
  return 1;
}

}  // namespace

Result<std::vector<int64_t>> limit_dims(std::vector<int64_t> dims, std::span<const int64_t> max) {
  if (fits(dims, max)) return dims;
  std::vector<int64_t> merged = dims;
  if (merge(merged, max)) return merged;
  if (dims.size() > max.size()) {
    return fail(Errc::kInvalid, "cannot limit dim " + text(dims) + ": nothing left to merge");
  }
  const std::string before = text(dims);
  dims.resize(3, 1);
  for (size_t i = 0; i < dims.size(); ++i) {
    while (i < max.size() && dims[i] > max[i]) {
      const int64_t d = smallest_divisor(dims[i]);
      if (d == 1) {
        return fail(Errc::kInvalid, strf("cannot limit dim %s: %lld has no divisor to split off",
                                         before.c_str(), static_cast<long long>(dims[i])));
      }
      dims[i] /= d;
      dims[(i + 1) % dims.size()] *= d;
    }
  }
  while (dims.size() > 1 && dims.back() == 1) dims.pop_back();
  return dims;
}

}  // namespace modeld::codegen
