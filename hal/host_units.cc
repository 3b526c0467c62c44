#include "hal/host_units.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "hal/base/fault.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace modeld::hal {

namespace {

#if defined(__x86_64__)

constexpr size_t kResults = 16;

// What a broken unit would do to its result.
int32_t one_if_faulty() {
  return fault::on("cpu_matrix_unit") ? 1 : 0;
}

template <class T>
Status compared(const char* unit, const T* got, const T* want) {
  for (size_t i = 0; i < kResults; ++i) {
    if (got[i] == want[i]) continue;
    return fail(Errc::kInternal, strf("matrix unit %s: result %zu is %.9g, must be %.9g", unit, i,
                                      static_cast<double>(got[i]), static_cast<double>(want[i])));
  }
  return {};
}

// Extremes of both bytes are among the factors: a unit that saturates its products shows.
__attribute__((target("avx512f,avx512vnni"))) Status check_vnni() {
  uint8_t a[64];
  int8_t b[64];
  int32_t acc[kResults];
  int32_t want[kResults];
  for (size_t i = 0; i < 64; ++i) {
    a[i] = static_cast<uint8_t>(i % 5 == 0 ? 255 : 7 * i);
    b[i] = static_cast<int8_t>(i % 3 == 0 ? -128 : static_cast<int>(i * 11 % 256) - 128);
  }
  for (size_t i = 0; i < kResults; ++i) {
    acc[i] = want[i] = static_cast<int32_t>(1000 * i) - 7000;
    for (size_t k = 0; k < 4; ++k) want[i] += a[4 * i + k] * b[4 * i + k];
  }
  const __m512i sum =
      _mm512_dpbusd_epi32(_mm512_loadu_si512(acc), _mm512_loadu_si512(a), _mm512_loadu_si512(b));
  int32_t got[kResults];
  _mm512_storeu_si512(got, sum);
  got[3] += one_if_faulty();
  return compared("avx512vnni", got, want);
}

// Small whole numbers: exact in halves, exact in any order of adding.
__attribute__((target("avx512f,avx512bf16"))) Status check_bf16() {
  uint16_t a[32];
  uint16_t b[32];
  float acc[kResults];
  float want[kResults];
  const auto half = [](float v) {
    uint32_t bits = 0;
    std::memcpy(&bits, &v, 4);
    return static_cast<uint16_t>(bits >> 16);
  };
  const auto value = [](size_t i, size_t step) {
    return static_cast<float>(static_cast<int>(i * step % 31) - 15);
  };
  for (size_t i = 0; i < 32; ++i) {
    a[i] = half(value(i, 7));
    b[i] = half(value(i, 11));
  }
  for (size_t i = 0; i < kResults; ++i) {
    acc[i] = want[i] = static_cast<float>(i) - 8;
    for (size_t k = 2 * i; k < 2 * i + 2; ++k) want[i] += value(k, 7) * value(k, 11);
  }
  __m512bh x;
  __m512bh y;
  std::memcpy(&x, a, sizeof(x));
  std::memcpy(&y, b, sizeof(y));
  const __m512 sum = _mm512_dpbf16_ps(_mm512_loadu_ps(acc), x, y);
  float got[kResults];
  _mm512_storeu_ps(got, sum);
  got[3] += static_cast<float>(one_if_faulty());
  return compared("avx512bf16", got, want);
}

constexpr MatrixUnit kUnits[] = {{"avx512bf16", check_bf16}, {"avx512vnni", check_vnni}};

#endif

}  // namespace

std::span<const MatrixUnit> matrix_units() {
#if defined(__x86_64__)
  return kUnits;
#else
  return {};
#endif
}

std::vector<BrokenUnit> broken_units(std::span<const MatrixUnit> units,
                                     const std::vector<std::string>& features) {
  std::vector<BrokenUnit> out;
  for (const MatrixUnit& u : units) {
    if (!std::binary_search(features.begin(), features.end(), std::string(u.feature))) continue;
    const Status ok = u.check();
    if (!ok.ok()) out.push_back({u.feature, ok.error()});
  }
  return out;
}

std::vector<std::string> usable_features(std::vector<std::string> features,
                                         std::span<const BrokenUnit> broken) {
  std::erase_if(features, [&](const std::string& f) {
    return std::any_of(broken.begin(), broken.end(),
                       [&](const BrokenUnit& b) { return b.feature == f; });
  });
  return features;
}

}  // namespace modeld::hal
