#include "models/common/slices.h"

#include <algorithm>
#include <string>

namespace modeld::models {

Result<Range> find_slice(std::span<const bundle::SliceRow> slices,
                         std::string_view name,
                         std::initializer_list<size_t> sizes,
                         size_t raw_size) {
  const auto hit =
      std::find_if(slices.begin(), slices.end(), [&](const auto& row) { return row.name == name; });
  if (hit == slices.end()) {
    return fail(Errc::kNotFound,
                strf("output slices: no '%.*s'", static_cast<int>(name.size()), name.data()));
  }
  if (hit->begin > hit->end || hit->end > raw_size) {
    return fail(Errc::kInvalid,
                strf("output slices: '%s' is [%zu, %zu) of a vector of %zu", hit->name.c_str(),
                     size_t{hit->begin}, size_t{hit->end}, raw_size));
  }
  const size_t size = hit->end - hit->begin;
  if (std::find(sizes.begin(), sizes.end(), size) == sizes.end()) {
    std::string wanted;
    for (const size_t one : sizes) {
      if (!wanted.empty()) wanted += " or ";
      wanted += std::to_string(one);
    }
    return fail(Errc::kInvalid, strf("output slices: '%s' has %zu numbers, wanted %s",
                                     hit->name.c_str(), size, wanted.c_str()));
  }
  return Range{hit->begin, size};
}

}  // namespace modeld::models
