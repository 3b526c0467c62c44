#include "selftest/testing/kernel_memory.h"

#include <cstring>

#include "runtime/ir/dtype.h"

namespace modeld::testing {

namespace {

constexpr size_t kGuardBytes = 256;
constexpr std::byte kGuard{0xa5};

template <class T>
void put(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}
template <class T>
T get(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

}  // namespace

void write_element(const KernelStorage& s, size_t n, std::byte* at) {
  using ir::DType;
  switch (s.dtype) {
    case DType::kF32:
      return put(at, static_cast<float>(s.f[n]));
    case DType::kF64:
      return put(at, s.f[n]);
    default:
      if (ir::is_narrow_float(s.dtype)) {
        const uint16_t bits = ir::to_narrow_bits(s.dtype, s.f[n]);
        std::memcpy(at, &bits, static_cast<size_t>(ir::item_size(s.dtype)));
        return;
      }
      std::memcpy(at, &s.i[n], static_cast<size_t>(ir::item_size(s.dtype)));
  }
}

void read_element(KernelStorage& s, size_t n, const std::byte* at) {
  using ir::DType;
  switch (s.dtype) {
    case DType::kF32:
      s.f[n] = get<float>(at);
      return;
    case DType::kF64:
      s.f[n] = get<double>(at);
      return;
    case DType::kF16:
    case DType::kBF16:
      s.f[n] = ir::from_narrow_bits(s.dtype, get<uint16_t>(at));
      return;
    case DType::kF8E4M3:
    case DType::kF8E4M3Fnuz:
    case DType::kF8E5M2:
    case DType::kF8E5M2Fnuz:
      s.f[n] = ir::from_narrow_bits(s.dtype, get<uint8_t>(at));
      return;
    case DType::kBool:
    case DType::kU8:
      s.i[n] = get<uint8_t>(at);
      return;
    case DType::kI8:
      s.i[n] = get<int8_t>(at);
      return;
    case DType::kI16:
      s.i[n] = get<int16_t>(at);
      return;
    case DType::kU16:
      s.i[n] = get<uint16_t>(at);
      return;
    case DType::kI32:
      s.i[n] = get<int32_t>(at);
      return;
    case DType::kU32:
      s.i[n] = get<uint32_t>(at);
      return;
    default:
      s.i[n] = get<int64_t>(at);
  }
}

GuardedMemory::GuardedMemory(const KernelStorage& s, size_t misalign) {
  const auto item = static_cast<size_t>(ir::item_size(s.dtype));
  used = s.size() * item;
  bytes.assign(used + 2 * kGuardBytes + 64 + misalign * item, kGuard);
  const auto base = reinterpret_cast<uintptr_t>(bytes.data()) + kGuardBytes;
  first = bytes.data() + kGuardBytes + (64 - base % 64) % 64 + misalign * item;
  for (size_t n = 0; n < s.size(); ++n) write_element(s, n, first + n * item);
}

bool GuardedMemory::guards_hold() const {
  for (const std::byte* p = bytes.data(); p != bytes.data() + bytes.size(); ++p) {
    if ((p < first || p >= first + used) && *p != kGuard) return false;
  }
  return true;
}

void GuardedMemory::read_back(KernelStorage& s) const {
  const auto item = static_cast<size_t>(ir::item_size(s.dtype));
  for (size_t n = 0; n < s.size(); ++n) read_element(s, n, first + n * item);
}

}  // namespace modeld::testing
