// Values of HostTensor in and out of its bytes.
#include <algorithm>
#include <cmath>

#include "runtime/tensor/host_eval.h"

#include "models/onnx/onnx_reader.h"

namespace modeld::onnx_import {
namespace {

tensor::HostArray cells(const HostTensor& t) {
  auto a = tensor::from_bytes(t.dtype, {t.count()}, t.bytes);
  return a.ok() ? std::move(*a) : tensor::HostArray{};
}

// Truncated; what no int64 can hold goes to the nearest, NaN to 0.
int64_t whole(double v) {
  if (std::isnan(v)) return 0;
  return static_cast<int64_t>(std::clamp(v, -9.2e18, 9.2e18));
}

}  // namespace

std::vector<int64_t> HostTensor::ints() const {
  const tensor::HostArray a = cells(*this);
  std::vector<int64_t> out;
  for (const tensor::Cell& c : a.cells) out.push_back(ir::is_float(dtype) ? whole(c.f) : c.i);
  return out;
}

std::vector<double> HostTensor::doubles() const {
  const tensor::HostArray a = cells(*this);
  std::vector<double> out;
  for (size_t i = 0; i < a.cells.size(); ++i) out.push_back(a.at(i));
  return out;
}

HostTensor host_of_ints(const Dims& dims, const std::vector<int64_t>& v, DType dtype) {
  return {dtype, dims, tensor::to_bytes(tensor::host_ints(dims, v, dtype))};
}

HostTensor host_of_floats(const Dims& dims, const std::vector<double>& v, DType dtype) {
  return {dtype, dims, tensor::to_bytes(tensor::host_floats(dims, v, dtype))};
}

}  // namespace modeld::onnx_import
