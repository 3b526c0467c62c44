#include "selftest/testing/tensor_interp.h"

#include <cstdio>
#include <map>
#include <string>

namespace modeld::testing {

using ir::DType;
using tensor::Dims;

Result<HostArray> from_npy(const NpyArray& npy) {
  static const std::map<std::string, DType> kTypes = {
      {"<f4", DType::kF32}, {"<f2", DType::kF16}, {"<f8", DType::kF64}, {"|u1", DType::kU8},
      {"|i1", DType::kI8},  {"<i2", DType::kI16}, {"<u2", DType::kU16}, {"<i4", DType::kI32},
      {"<u4", DType::kU32}, {"<i8", DType::kI64}, {"<u8", DType::kU64}, {"|b1", DType::kBool}};
  const auto it = kTypes.find(npy.type);
  if (it == kTypes.end()) return fail(Errc::kUnsupported, "npy type " + npy.type);
  return tensor::from_bytes(it->second, npy.shape, npy.data);
}

tensor::Tensor TensorLab::floats(const Dims& dims, const std::vector<double>& v, ir::DType dtype) {
  const auto t = tensor::Tensor::input(g, "t" + std::to_string(data_.size()), dims, dtype);
  interp.bind(t, tensor::host_floats(dims, v, dtype));
  data_[t.node()] = v;
  return t;
}

tensor::Tensor TensorLab::ints(const Dims& dims, const std::vector<int64_t>& v, ir::DType dtype) {
  const auto t = tensor::Tensor::input(g, "t" + std::to_string(data_.size()), dims, dtype);
  interp.bind(t, tensor::host_ints(dims, v, dtype));
  data_[t.node()] = std::vector<double>(v.begin(), v.end());
  return t;
}

tensor::Tensor TensorLab::random(const Dims& dims, uint64_t seed, ir::DType dtype) {
  std::vector<double> v(static_cast<size_t>(tensor::product(dims)));
  uint64_t state = seed * 0x9e3779b97f4a7c15ULL + 1;
  for (double& x : v) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    x = static_cast<double>(static_cast<int64_t>((state >> 33) % 257) - 128) / 64;
  }
  return floats(dims, v, dtype);
}

std::vector<double> TensorLab::run(const tensor::Tensor& t) {
  const auto r = interp.run(t);
  if (!r.ok()) {
    std::fprintf(stderr, "TensorLab: %s\n", r.error().what.c_str());
    return {};
  }
  std::vector<double> out;
  for (size_t i = 0; i < r->cells.size(); ++i) out.push_back(r->at(i));
  return out;
}

}  // namespace modeld::testing
