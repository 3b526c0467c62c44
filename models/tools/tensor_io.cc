#include "models/tools/tensor_io.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "hal/base/fs.h"
#include "hal/base/hash.h"

namespace modeld::tools {
namespace {

using ir::DType;

template <class T>
T read_at(std::span<const std::byte> bytes, size_t i) {
  T v{};
  std::memcpy(&v, bytes.data() + i * sizeof(T), sizeof(T));
  return v;
}
template <class T>
void write_at(std::span<std::byte> bytes, size_t i, T v) {
  std::memcpy(bytes.data() + i * sizeof(T), &v, sizeof(T));
}

double number_at(std::span<const std::byte> bytes, DType t, size_t i) {
  switch (t) {
    case DType::kBool:
      return read_at<uint8_t>(bytes, i) != 0 ? 1 : 0;
    case DType::kI8:
      return read_at<int8_t>(bytes, i);
    case DType::kU8:
      return read_at<uint8_t>(bytes, i);
    case DType::kI16:
      return read_at<int16_t>(bytes, i);
    case DType::kU16:
      return read_at<uint16_t>(bytes, i);
    case DType::kI32:
      return read_at<int32_t>(bytes, i);
    case DType::kU32:
      return read_at<uint32_t>(bytes, i);
    case DType::kI64:
      return static_cast<double>(read_at<int64_t>(bytes, i));
    case DType::kU64:
      return static_cast<double>(read_at<uint64_t>(bytes, i));
    case DType::kF16:
    case DType::kBF16:
      return ir::from_narrow_bits(t, read_at<uint16_t>(bytes, i));
    case DType::kF8E4M3:
    case DType::kF8E4M3Fnuz:
    case DType::kF8E5M2:
    case DType::kF8E5M2Fnuz:
      return ir::from_narrow_bits(t, read_at<uint8_t>(bytes, i));
    case DType::kF32:
      return read_at<float>(bytes, i);
    case DType::kF64:
      return read_at<double>(bytes, i);
    case DType::kVoid:
    case DType::kWeakInt:
    case DType::kWeakFloat:
      break;
  }
  return 0;
}

// SplitMix64.
struct Numbers {
  uint64_t state;
  uint64_t next() {
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // [-1, 1) in steps of 2^-10: exact in every float type but bf16, so that a model sees the same
  // numbers in f16 and f32.
  float unit() { return static_cast<float>(static_cast<int64_t>(next() >> 53) - 1024) / 1024.0f; }
};

void put_seeded(std::span<std::byte> out, size_t i, DType t, Numbers& rng) {
  switch (t) {
    case DType::kF16:
    case DType::kBF16:
      return write_at(out, i, ir::to_narrow_bits(t, rng.unit()));
    case DType::kF8E4M3:
    case DType::kF8E4M3Fnuz:
    case DType::kF8E5M2:
    case DType::kF8E5M2Fnuz:
      return write_at(out, i, static_cast<uint8_t>(ir::to_narrow_bits(t, rng.unit())));
    case DType::kF32:
      return write_at(out, i, rng.unit());
    case DType::kF64:
      return write_at(out, i, static_cast<double>(rng.unit()));
    case DType::kBool:
      return write_at(out, i, static_cast<uint8_t>(rng.next() & 1));
    case DType::kU8:
    case DType::kI8:  // never 0: a zero pixel switches on the faults of the stand-in models
      return write_at(out, i, static_cast<uint8_t>(1 + rng.next() % 255));
    case DType::kI16:
    case DType::kU16:
      return write_at(out, i, static_cast<uint16_t>(rng.next() & 7));
    case DType::kI32:
    case DType::kU32:
      return write_at(out, i, static_cast<uint32_t>(rng.next() & 7));
    case DType::kI64:
    case DType::kU64:
      return write_at(out, i, rng.next() & 7);
    case DType::kVoid:
    case DType::kWeakInt:
    case DType::kWeakFloat:
      return;
  }
}

}  // namespace

const char* npy_type(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return "|b1";
    case DType::kI8:
      return "|i1";
    case DType::kU8:
    case DType::kF8E4M3:
    case DType::kF8E4M3Fnuz:
    case DType::kF8E5M2:
    case DType::kF8E5M2Fnuz:
      return "|u1";
    case DType::kI16:
      return "<i2";
    case DType::kU16:
    case DType::kBF16:
      return "<u2";
    case DType::kI32:
      return "<i4";
    case DType::kU32:
      return "<u4";
    case DType::kI64:
      return "<i8";
    case DType::kU64:
      return "<u8";
    case DType::kF16:
      return "<f2";
    case DType::kF32:
      return "<f4";
    case DType::kF64:
      return "<f8";
    case DType::kVoid:
    case DType::kWeakInt:
    case DType::kWeakFloat:
      break;
  }
  return "?";
}

std::string dims_text(std::span<const int64_t> dims) {
  std::string out;
  for (const int64_t d : dims) out += (out.empty() ? "" : "x") + std::to_string(d);
  return out.empty() ? "scalar" : out;
}

std::string tensor_text(const exec::TensorInfo& tensor) {
  return std::string(ir::dtype_name(tensor.dtype)) + " " + dims_text(tensor.dims);
}

Result<Bytes> tensor_from_npy(const NpyArray& array,
                              const exec::TensorInfo& info,
                              const std::string& path) {
  if (array.type != npy_type(info.dtype) || array.shape != info.dims)
    return fail(Errc::kMismatch, strf("input %s: expected %s (%s), %s has %s %s", info.name.c_str(),
                                      tensor_text(info).c_str(), npy_type(info.dtype), path.c_str(),
                                      array.type.c_str(), dims_text(array.shape).c_str()));
  if (array.data.size() != info.bytes)
    return fail(Errc::kMismatch,
                strf("input %s: expected %llu bytes, %s has %zu", info.name.c_str(),
                     static_cast<unsigned long long>(info.bytes), path.c_str(), array.data.size()));
  return array.data;
}

NpyArray npy_from_tensor(std::span<const std::byte> bytes, const exec::TensorInfo& info) {
  return {npy_type(info.dtype), info.dims, Bytes(bytes.begin(), bytes.end())};
}

std::string output_path(const std::string& dir, const std::string& tensor) {
  std::string file = tensor + ".npy";
  std::replace(file.begin(), file.end(), '/', '_');
  return join_path(dir, file);
}

Bytes seeded_tensor(uint64_t seed, const std::string& name, DType dtype, uint64_t bytes) {
  Bytes out(bytes);
  const Hash128 mix = xxh128(name);
  Numbers rng{seed * 0x9e3779b97f4a7c15u ^ mix.lo ^ mix.hi};
  const auto item = static_cast<uint64_t>(ir::item_size(dtype));
  for (uint64_t i = 0; item != 0 && i < bytes / item; ++i) put_seeded(out, i, dtype, rng);
  return out;
}

std::vector<double> to_doubles(std::span<const std::byte> bytes, DType dtype) {
  const auto item = static_cast<size_t>(ir::item_size(dtype));
  std::vector<double> out(item == 0 ? 0 : bytes.size() / item);
  for (size_t i = 0; i < out.size(); ++i) out[i] = number_at(bytes, dtype, i);
  return out;
}

double tolerance_of(const exec::ProgramRow& program) {
  for (const DType t : {DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kF8E4M3Fnuz,
                        DType::kF8E5M2, DType::kF8E5M2Fnuz})
    if (program.ast_text.find(std::string(" ") + ir::dtype_name(t) + " ") != std::string::npos)
      return 1e-2;
  return 1e-4;
}

double tolerance_of(const exec::Plan& plan) {
  double worst = 1e-4;
  for (const exec::ProgramRow& p : plan.programs) worst = std::max(worst, tolerance_of(p));
  return worst;
}

Comparison compare(std::span<const std::byte> value,
                   std::span<const std::byte> reference,
                   DType dtype,
                   double tolerance) {
  Comparison c;
  const std::vector<double> v = to_doubles(value, dtype), r = to_doubles(reference, dtype);
  c.count = r.size();
  for (const double x : r)
    if (std::isfinite(x)) c.max_reference = std::max(c.max_reference, std::abs(x));
  c.limit = ir::is_float(dtype) ? tolerance * c.max_reference : 0;
  for (size_t i = 0; i < r.size(); ++i) {
    const bool finite = i < v.size() && std::isfinite(v[i]) && std::isfinite(r[i]);
    const bool same = i < v.size() && (v[i] == r[i] || (std::isnan(v[i]) && std::isnan(r[i])));
    if (same) continue;
    const double error = finite ? std::abs(v[i] - r[i]) : HUGE_VAL;
    if (error > c.limit) c.is_equal_enough = false;
    if (error <= c.max_abs_error) continue;
    c.max_abs_error = error;
    c.worst_index = i;
    c.worst_value = i < v.size() ? v[i] : 0;
    c.worst_reference = r[i];
  }
  if (v.size() != r.size()) c.is_equal_enough = false;
  // 64-bit integers do not fit a double: compare their bytes.
  if (!ir::is_float(dtype) &&
      !std::equal(value.begin(), value.end(), reference.begin(), reference.end()))
    c.is_equal_enough = false;
  return c;
}

std::string Comparison::text() const {
  if (is_equal_enough && max_abs_error == 0)
    return strf("exact, %llu number%s", static_cast<unsigned long long>(count),
                count == 1 ? "" : "s");
  return strf("max error %.3g at %llu (%.7g, reference %.7g), limit %.3g", max_abs_error,
              static_cast<unsigned long long>(worst_index), worst_value, worst_reference, limit);
}

}  // namespace modeld::tools
