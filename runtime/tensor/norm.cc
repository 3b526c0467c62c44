// Normalisations and attention. Half types are worked in f32 and rounded once at the end.
#include <cmath>

#include "runtime/tensor/internal.h"
#include "runtime/tensor/nn.h"

namespace modeld::tensor {
namespace {

bool good(const Tensor& x, const char* what) {
  if (broken(x)) return false;
  if (ir::is_float(x.dtype())) return true;
  x.graph().fail(Errc::kInvalid,
                 strf("%s: of %s, floats are needed", what, ir::dtype_name(x.dtype())));
  return false;
}

// (x - mean) / sqrt(variance + epsilon) over the axes; x is already wide.
Tensor normalise(const Tensor& x, const Dims& axes, double epsilon) {
  const Tensor away = x - x.mean(axes, true);
  return away * (away.square().mean(axes, true) + epsilon).rsqrt();
}

Tensor along_channels(const Tensor& x, const Tensor& p, const char* what) {
  if (broken(x) || broken(p)) return placeholder(x.graph());
  if (x.rank() < 2 || p.count() != x.dim(1)) {
    return bad(x.graph(), strf("%s: parameter %s for input %s", what, dims_text(p.dims()).c_str(),
                               dims_text(x.dims()).c_str()));
  }
  Dims along(static_cast<size_t>(x.rank()), 1);
  along[1] = x.dim(1);
  return p.reshape(along);
}

}  // namespace

Tensor softmax(const Tensor& x, int64_t axis) {
  if (!good(x, "softmax")) return placeholder(x.graph());
  const Tensor wide = x.cast(compute_dtype(x.dtype()));
  const Tensor e = (wide - wide.max({axis}, true)).exp();
  return (e / e.sum({axis}, true)).cast(x.dtype());
}

Tensor log_softmax(const Tensor& x, int64_t axis) {
  if (!good(x, "log_softmax")) return placeholder(x.graph());
  const Tensor wide = x.cast(compute_dtype(x.dtype()));
  const Tensor below = wide - wide.max({axis}, true);
  return (below - below.exp().sum({axis}, true).log()).cast(x.dtype());
}

Tensor layer_norm(const Tensor& x, int64_t axis, double epsilon) {
  if (!good(x, "layer_norm")) return placeholder(x.graph());
  Dims axes;
  const int64_t first = wrap_axis(x.graph(), axis, x.rank(), "layer_norm");
  for (int64_t i = first; i < x.rank(); ++i) axes.push_back(i);
  return normalise(x.cast(compute_dtype(x.dtype())), axes, epsilon).cast(x.dtype());
}

Tensor instance_norm(const Tensor& x, double epsilon) {
  if (!good(x, "instance_norm")) return placeholder(x.graph());
  if (x.rank() < 3) return bad(x.graph(), "instance_norm: no spatial axes");
  Dims axes;
  for (int64_t i = 2; i < x.rank(); ++i) axes.push_back(i);
  return normalise(x.cast(compute_dtype(x.dtype())), axes, epsilon).cast(x.dtype());
}

Tensor channel_affine(const Tensor& x, const Tensor& scale, const Tensor& shift) {
  if (!good(x, "channel_affine")) return placeholder(x.graph());
  const DType wide = compute_dtype(x.dtype());
  const Tensor s = along_channels(x, scale, "channel_affine").cast(wide);
  const Tensor b = along_channels(x, shift, "channel_affine").cast(wide);
  return (x.cast(wide) * s + b).cast(x.dtype());
}

Tensor batch_norm(const Tensor& x,
                  const Tensor& scale,
                  const Tensor& bias,
                  const Tensor& mean,
                  const Tensor& var,
                  double epsilon) {
  if (!good(x, "batch_norm")) return placeholder(x.graph());
  const DType wide = compute_dtype(x.dtype());
  const Tensor factor = scale.cast(wide) * (var.cast(wide) + epsilon).rsqrt();
  return channel_affine(x, factor, bias.cast(wide) - mean.cast(wide) * factor);
}

Tensor scaled_dot_product_attention(const Tensor& q,
                                    const Tensor& k,
                                    const Tensor& v,
                                    const std::optional<Tensor>& mask,
                                    double scale) {
  ir::Graph& g = q.graph();
  if (!good(q, "attention") || broken(k) || broken(v)) return placeholder(g);
  if (q.rank() < 2 || k.rank() < 2 || v.rank() < 2)
    return bad(g, "attention: needs at least two axes");
  const double factor = scale != 0 ? scale : 1.0 / std::sqrt(static_cast<double>(q.dim(-1)));
  const DType wide = compute_dtype(q.dtype());
  Tensor score = q.cast(wide).matmul(k.cast(wide).transpose(-1, -2)) * factor;
  if (mask && mask->dtype() == DType::kBool) score = mask->where(score, score.literal(-INFINITY));
  if (mask && mask->dtype() != DType::kBool) score = score + mask->cast(wide);
  return softmax(score, -1).matmul(v.cast(wide)).cast(q.dtype());
}

}  // namespace modeld::tensor
