// Elementwise functions with a formula. Half types are computed in f32 and rounded once.
#include <cmath>
#include <numbers>

#include "runtime/tensor/internal.h"
#include "runtime/tensor/tensor.h"

namespace modeld::tensor {
namespace {

// Runs fn on x as a float of at least 32 bits and comes back (ints stay f32).
template <class Fn>
Tensor in_float(const Tensor& x, Fn fn) {
  if (broken(x)) return placeholder(x.graph());
  const DType t = ir::is_float(x.dtype()) ? x.dtype() : DType::kF32;
  return fn(x.cast(compute_dtype(t))).cast(t);
}

// c[0] + c[1] x + c[2] x^2 ...
Tensor polynomial(const Tensor& x, std::span<const double> c) {
  Tensor acc = x.literal(c.back());
  for (size_t i = c.size() - 1; i-- > 0;) acc = acc * x + c[i];
  return acc;
}

// x^n for n >= 1 by squaring.
Tensor power(const Tensor& x, int64_t n) {
  Tensor base = x;
  Tensor out;
  for (; n > 0; n >>= 1) {
    if (n & 1) out = out.valid() ? out * base : base;
    if (n > 1) base = base * base;
  }
  return out;
}

}  // namespace

Tensor Tensor::rsqrt() const {
  return in_float(*this, [](const Tensor& x) { return x.sqrt().reciprocal(); });
}
Tensor Tensor::exp() const {
  return in_float(*this, [](const Tensor& x) { return (x * std::numbers::log2e).exp2(); });
}
Tensor Tensor::log() const {
  return in_float(*this, [](const Tensor& x) { return x.log2() * std::numbers::ln2; });
}
Tensor Tensor::cos() const {
  return in_float(*this, [](const Tensor& x) { return (std::numbers::pi / 2 - x).sin(); });
}
Tensor Tensor::tan() const {
  return sin() / cos();
}

Tensor Tensor::floor() const {
  if (broken(*this) || !ir::is_float(dtype())) return *this;
  const Tensor t = trunc();
  return lt(t).where(t - 1, t);
}

Tensor Tensor::ceil() const {
  if (broken(*this) || !ir::is_float(dtype())) return *this;
  const Tensor t = trunc();
  return t.lt(*this).where(t + 1, t);
}

// The distance to the truncated value is exact, so no x+0.5 can round up by itself.
Tensor Tensor::round() const {
  if (broken(*this) || !ir::is_float(dtype())) return *this;
  const Tensor t = trunc();
  const Tensor distance = (*this - t).abs();
  const Tensor odd = (t * 0.5).trunc().mul(2.0).ne(t);
  const Tensor away = distance.gt(0.5).bit_or(distance.eq(0.5).bit_and(odd));
  return away.where(t + sign(), t);
}

// 1 - 2^p(|x|) with p fitted to log2(erfc) on [0, 4], weighted by erfc: 1.2e-7 absolute in f32,
// exactly 1 beyond.
Tensor Tensor::erf() const {
  static constexpr double kFit[] = {-1.6279085874557495,    -0.9184163808822632,
                                    -0.1484815925359726,    0.02825363352894783,
                                    -0.0007745659095235169, -0.0014894874766469002,
                                    0.00044552411418408155, -4.5360913645708933e-05};
  return in_float(*this, [](const Tensor& x) {
    const Tensor size = x.abs().minimum(4.0);
    const Tensor rest = (polynomial(size, kFit) * size).exp2();
    return x.lt(0).where(rest - 1, 1 - rest);
  });
}

// x P(x^2) / Q(x^2), fitted for relative error on [-8, 8]: 3e-7 in f32.
Tensor Tensor::tanh() const {
  static constexpr double kP[] = {1.0, 0.13444530963897705, 0.003571636974811554,
                                  2.1895288227824494e-05, 1.5231256256242887e-08};
  static constexpr double kQ[] = {1.0, 0.46777859330177307, 0.026164591312408447,
                                  0.0003411355137359351, 8.522796406396083e-07};
  return in_float(*this, [](const Tensor& x) {
    const Tensor c = x.clamp(-8.0, 8.0);
    const Tensor t = c * c;
    return c * polynomial(t, kP) / polynomial(t, kQ);
  });
}

// exp overflow gives 1/inf = 0, never inf/inf.
Tensor Tensor::sigmoid() const {
  return in_float(
      *this, [](const Tensor& x) { return ((x * -std::numbers::log2e).exp2() + 1).reciprocal(); });
}

Tensor Tensor::pow(Scalar exponent) const {
  if (broken(*this)) return placeholder(*graph_);
  const double e = exponent.f;
  const bool integer = e == std::trunc(e) && std::fabs(e) <= 16;
  if (!ir::is_float(dtype())) {
    if (integer && e >= 1) return power(*this, static_cast<int64_t>(e));
    if (e == 0) return full(*graph_, dims(), 1, dtype());
    return cast(DType::kF32).pow(exponent);
  }
  return in_float(*this, [&](const Tensor& x) {
    if (e == 0) return full(*graph_, dims(), 1.0, x.dtype());
    const double whole = std::trunc(std::fabs(e));
    const bool half = std::fabs(e) - whole == 0.5 && whole <= 4;
    if (!integer && !half) return x.pow(x.literal(e));
    Tensor r = whole > 0 ? power(x, static_cast<int64_t>(whole)) : Tensor();
    if (half) r = r.valid() ? r * x.sqrt() : x.sqrt();
    return e < 0 ? r.reciprocal() : r;
  });
}

// 2^(y log2|x|); a negative base takes the sign of an odd exponent and is NaN for a fractional one;
// x^0 = 1.
Tensor Tensor::pow(const Tensor& o) const {
  if (broken(*this) || broken(o)) return placeholder(*graph_);
  DType t = promoted(dtype(), o.dtype());
  if (!ir::is_float(t)) {
    const Tensor r = cast(DType::kF32).pow(o.cast(DType::kF32)).round();
    return r.cast(ir::is_weak(t) ? DType::kI32 : t);
  }
  const DType wide = compute_dtype(t);
  const Tensor x = cast(wide);
  const Tensor y = o.cast(wide);
  const Tensor size = (y * x.abs().log2()).exp2();
  const Tensor odd = (y * 0.5).trunc().mul(2.0).ne(y);
  const Tensor whole = y.trunc().eq(y);
  const Tensor negative = whole.where(odd.where(size.neg(), size), size.literal(std::nan("")));
  return y.eq(0).where(size.literal(1.0), x.lt(0).where(negative, size)).cast(t);
}

}  // namespace modeld::tensor
