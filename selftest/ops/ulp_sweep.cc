#include "selftest/ops/ulp_sweep.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <new>
#include <vector>

#include "selftest/ops/op_cases.h"
#include "selftest/ops/op_reference.h"
#include "selftest/testing/call_kernel.h"
#include "selftest/testing/compiled_kernel.h"
#include "selftest/testing/kernel_builder.h"

namespace modeld::ops {

namespace {

using ir::DType;
using ir::Op;
using testing::KernelBuilder;

constexpr int64_t kChunk = 4096;  // elements per call; a multiple of every vector width

// Elements as the bytes of their type.
struct Array {
  DType type;
  std::vector<std::byte> bytes;
  std::byte* first = nullptr;

  explicit Array(DType t)
      : type(t), bytes(static_cast<size_t>(kChunk) * static_cast<size_t>(ir::item_size(t)) + 64) {
    const auto at = reinterpret_cast<uintptr_t>(bytes.data());
    first = bytes.data() + (64 - at % 64) % 64;
  }
  template <class T>
  T read(size_t n) const {
    T v;
    std::memcpy(&v, first + n * sizeof(T), sizeof v);
    return v;
  }
  void set_bits(size_t n, uint64_t v) {
    const auto size = static_cast<size_t>(ir::item_size(type));
    std::memcpy(first + n * size, &v, size);
  }
  double value(size_t n) const {
    switch (type) {
      case DType::kF16:
        return ir::f16_bits_to_f32(read<uint16_t>(n));
      case DType::kBF16:
        return ir::bf16_bits_to_f32(read<uint16_t>(n));
      case DType::kF32:
        return read<float>(n);
      default:
        return read<double>(n);
    }
  }
};

// Doubles are far finer than the smaller types, so the fast library will do for those.
long double truth(Op op, DType t, double x) {
  if (t == DType::kF64) {
    const long double wide = x;
    return op == Op::kExp2 ? std::exp2(wide) : op == Op::kLog2 ? std::log2(wide) : std::sin(wide);
  }
  return op == Op::kExp2 ? std::exp2(x) : op == Op::kLog2 ? std::log2(x) : std::sin(x);
}

double damaged(SweepDefect defect, DType t, double x, double y) {
  switch (defect) {
    case SweepDefect::kTwoUnits:
      return t == DType::kF32 && std::isnormal(y)
                 ? std::nextafter(std::nextafter(static_cast<float>(y), 9e9F), 9e9F)
                 : y;
    case SweepDefect::kLostNan:
      return std::isnan(y) ? 0 : y;
    case SweepDefect::kLostSign:
      return x == 0 ? std::fabs(y) : y;
    case SweepDefect::kLostSubnormals:
      return std::fabs(y) < 0x1p-126 ? y * 0 : y;
    default:
      return y;
  }
}

uint64_t bits_at(const Sweep& s, uint64_t n) {
  const uint64_t k = s.first + n * s.stride;
  // Exponents and mantissas of every kind: a walk by the golden ratio.
  return s.type == DType::kF64 ? k * 0x9e3779b97f4a7c15u : k;
}

void judge(const Sweep& s, double x, double got, SweepResult* out) {
  const long double want = truth(s.op, s.type, x);
  ++out->values;
  const auto units = static_cast<double>(units_off(s.type, got, want));
  const bool lost_sign = s.op == Op::kSin && x == 0 && std::signbit(x) != std::signbit(got);
  if (units > out->worst && std::isfinite(units)) {
    out->worst = units;
    out->worst_at = x;
  }
  if (!(units <= allowed_units(s.op, s.type)) || lost_sign) {
    if (out->wrong++ == 0)
      std::printf("FINDING: %s of %.17g (%a) in %s is %.17g, wanted %.17g\n", ir::op_name(s.op), x,
                  x, ir::dtype_name(s.type), got, static_cast<double>(want));
  }
}

}  // namespace

Sweep whole_sweep(Op op, DType type, uint64_t stride, uint64_t count) {
  if (type == DType::kF64) return {op, type, 1, 1, count};
  const uint64_t all = uint64_t{1} << ir::item_bits(type);
  return {op, type, 0, stride, (all + stride - 1) / stride};
}

double allowed_units(Op op, DType type) {
  for (const Row& row : op_table()) {
    if (row.op == op)
      return type == DType::kF64 ? row.f64 : type == DType::kF32 ? row.f32 : row.halves;
  }
  return 0;
}

Result<SweepResult> run_sweep(const Sweep& s,
                              const codegen::CodegenOptions& options,
                              SweepDefect defect) {
  ir::Graph g;
  KernelBuilder b(g);
  const ir::Node* i = b.loop(kChunk);
  const ir::Node* y = b.unary(s.op, b.at(b.param(1, kChunk, s.type), i));
  testing::KernelBatch batch;
  ASSIGN_OR_RETURN(const size_t kernel,
                   batch.add(g, b.kernel(b.param(0, kChunk, s.type), i, y, {i}), options));
  RETURN_IF_ERROR(batch.build());
  const void* entry = batch.entry(kernel);
  Array in(s.type), out(s.type);
  const uint64_t words[] = {reinterpret_cast<uint64_t>(out.first),
                            reinterpret_cast<uint64_t>(in.first)};
  SweepResult result;
  for (uint64_t n = 0; n < s.count; n += static_cast<uint64_t>(kChunk)) {
    const uint64_t count = std::min<uint64_t>(static_cast<uint64_t>(kChunk), s.count - n);
    for (uint64_t k = 0; k < count; ++k) in.set_bits(k, bits_at(s, n + k));
    const uint32_t cores = static_cast<uint32_t>(batch.program(kernel).info.global_size[0]);
    for (uint32_t core = 0; core < cores; ++core) testing::call_kernel(entry, words, core);
    for (uint64_t k = 0; k < count; ++k) {
      const double x = in.value(k);
      judge(s, x, damaged(defect, s.type, x, out.value(k)), &result);
    }
  }
  return result;
}

}  // namespace modeld::ops
