#include "runtime/schedule/tlsf.h"

#include <algorithm>
#include <iterator>

#include "hal/base/check.h"

namespace modeld::schedule {

int Tlsf::bit_length(Bytes v) {
  int bits = 0;
  for (; v != 0; v >>= 1) bits++;
  return bits;
}

Tlsf::Class Tlsf::class_of(Bytes size) {
  const int bits = bit_length(size);
  const int granule = std::max(0, bits - kSecondLevelBits - 1);
  return {bits, static_cast<int>((size - (Bytes{1} << (bits - 1))) >> granule)};
}

Tlsf::Tlsf(Bytes capacity, Bytes block) : block_(block) {
  if (capacity > 0) insert(0, capacity);
}

void Tlsf::insert(Bytes start, Bytes size) {
  blocks_[start] = {size, true};
  lists_[class_of(size)].push_back(start);
}

void Tlsf::remove(Bytes start, Bytes size) {
  const auto list = lists_.find(class_of(size));
  CHECK(list != lists_.end());
  const auto at = std::find(list->second.begin(), list->second.end(), start);
  CHECK(at != list->second.end());
  list->second.erase(at);
  if (list->second.empty()) lists_.erase(list);
  blocks_[start].is_free = false;
}

std::optional<Bytes> Tlsf::alloc(Bytes size) {
  size = std::max(size, block_);
  const int granule_bits = std::max(0, bit_length(size) - kSecondLevelBits - 1);
  const Bytes granule = Bytes{1} << granule_bits;
  const Bytes search = (size + granule - 1) / granule * granule;
  const auto list = lists_.lower_bound(class_of(search));
  if (list == lists_.end()) return std::nullopt;
  const Bytes start = list->second.front();
  const Bytes found = blocks_[start].size;
  remove(start, found);
  if (found > size) {
    blocks_[start].size = size;
    insert(start + size, found - size);
  }
  return start;
}

void Tlsf::free(Bytes start) {
  auto at = blocks_.find(start);
  CHECK(at != blocks_.end() && !at->second.is_free);
  Bytes size = at->second.size;
  while (at != blocks_.begin() && std::prev(at)->second.is_free) {
    const auto left = std::prev(at);
    remove(left->first, left->second.size);
    size += left->second.size;
    blocks_.erase(at);
    at = left;
  }
  const Bytes merged = at->first;
  for (auto right = std::next(at); right != blocks_.end() && right->second.is_free;) {
    remove(right->first, right->second.size);
    size += right->second.size;
    right = blocks_.erase(right);
  }
  insert(merged, size);
}

}  // namespace modeld::schedule
