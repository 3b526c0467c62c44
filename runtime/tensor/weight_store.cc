#include "runtime/tensor/weight_store.h"

namespace modeld::tensor {

int64_t WeightStore::add(ir::Graph& g, ir::DType dtype, std::span<const std::byte> bytes) {
  const Hash128 hash = xxh128(bytes);
  const auto key = std::make_pair(hash, dtype);
  if (const auto it = by_content_.find(key); it != by_content_.end()) return it->second;
  const int64_t slot = g.fresh();
  Weight weight;
  weight.dtype = dtype;
  weight.bytes = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
  weight.hash = hash;
  total_bytes_ += weight.size_bytes();
  by_slot_.emplace(slot, std::move(weight));
  by_content_.emplace(key, slot);
  return slot;
}

const Weight* WeightStore::find(int64_t slot) const {
  const auto it = by_slot_.find(slot);
  return it == by_slot_.end() ? nullptr : &it->second;
}

}  // namespace modeld::tensor
