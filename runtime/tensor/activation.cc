// Activation functions. Forms are chosen so that large inputs give limits, not inf/inf, and NaN
// stays NaN.
#include <cmath>
#include <numbers>

#include "runtime/tensor/internal.h"
#include "runtime/tensor/nn.h"

namespace modeld::tensor {
namespace {

// fn on f32 (or wider) values, rounded once.
template <class Fn>
Tensor wide(const Tensor& x, Fn fn) {
  if (broken(x)) return placeholder(x.graph());
  const DType t = ir::is_float(x.dtype()) ? x.dtype() : DType::kF32;
  return fn(x.cast(compute_dtype(t))).cast(t);
}

}  // namespace

Tensor relu(const Tensor& x) {
  return x.maximum(0);
}
Tensor relu6(const Tensor& x) {
  return x.clamp(0, 6);
}

Tensor leaky_relu(const Tensor& x, double alpha) {
  return wide(x, [&](const Tensor& v) { return v.lt(0).where(v * alpha, v); });
}

Tensor elu(const Tensor& x, double alpha) {
  return wide(
      x, [&](const Tensor& v) { return v.lt(0).where((v.minimum(0.0).exp() - 1) * alpha, v); });
}

Tensor silu(const Tensor& x) {
  return wide(x, [](const Tensor& v) { return v * v.sigmoid(); });
}

Tensor gelu(const Tensor& x, bool tanh_form) {
  return wide(x, [&](const Tensor& v) {
    const Tensor gate =
        tanh_form ? ((v + v * v * v * 0.044715) * std::sqrt(2.0 / std::numbers::pi)).tanh()
                  : (v * std::sqrt(0.5)).erf();
    return v * 0.5 * (gate + 1);
  });
}

Tensor hard_sigmoid(const Tensor& x, double alpha, double beta) {
  return wide(x, [&](const Tensor& v) { return (v * alpha + beta).clamp(0.0, 1.0); });
}

Tensor hard_swish(const Tensor& x) {
  return wide(x, [](const Tensor& v) { return v * hard_sigmoid(v, 1.0 / 6.0, 0.5); });
}

// max(x, 0) + log(1 + exp(-|x|)): the exponent is never positive.
Tensor softplus(const Tensor& x) {
  return wide(x, [](const Tensor& v) { return v.maximum(0) + (v.abs().neg().exp() + 1).log(); });
}

Tensor mish(const Tensor& x) {
  return wide(x, [](const Tensor& v) { return v * softplus(v).tanh(); });
}

}  // namespace modeld::tensor
