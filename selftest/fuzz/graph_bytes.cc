#include "selftest/fuzz/graph_bytes.h"

#include <cstring>

namespace modeld::fuzz {

using ir::DType;

namespace {

template <class T>
void put(T value, std::byte* at) {
  std::memcpy(at, &value, sizeof value);
}

void put_element(DType dtype, double v, std::byte* at) {
  switch (dtype) {
    case DType::kF32:
      return put(static_cast<float>(v), at);
    case DType::kF16:
      return put(ir::f32_to_f16_bits(static_cast<float>(v)), at);
    case DType::kI32:
      return put(static_cast<int32_t>(v), at);
    case DType::kU32:
      return put(static_cast<uint32_t>(v), at);
    default:
      return put(static_cast<uint8_t>(v), at);
  }
}

template <class T>
T get(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

double element(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::kF32:
      return static_cast<double>(get<float>(at));
    case DType::kF16:
      return static_cast<double>(ir::f16_bits_to_f32(get<uint16_t>(at)));
    case DType::kI32:
      return get<int32_t>(at);
    case DType::kU32:
      return get<uint32_t>(at);
    default:
      return get<uint8_t>(at);
  }
}

}  // namespace

std::vector<std::byte> bytes_of(DType dtype, std::span<const double> values) {
  const auto item = static_cast<size_t>(ir::item_size(dtype));
  std::vector<std::byte> out(values.size() * item);
  for (size_t i = 0; i < values.size(); ++i) put_element(dtype, values[i], out.data() + i * item);
  return out;
}

std::vector<double> doubles_of(DType dtype, std::span<const std::byte> bytes) {
  const auto item = static_cast<size_t>(ir::item_size(dtype));
  std::vector<double> out(bytes.size() / item);
  for (size_t i = 0; i < out.size(); ++i) out[i] = element(dtype, bytes.data() + i * item);
  return out;
}

testing::KernelStorage storage_of(DType dtype, std::span<const double> values) {
  if (ir::is_float(dtype)) return testing::KernelStorage::floats(values, dtype);
  std::vector<int64_t> whole(values.begin(), values.end());
  return testing::KernelStorage::ints(whole, dtype);
}

}  // namespace modeld::fuzz
