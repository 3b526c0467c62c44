// Neural-network building blocks over Tensor: convolution, pooling, normalisation, activations,
// resize, attention. Data layout is channels first: (batch, channels, spatial...). Nothing runs
// here. Errors: as Tensor, the first one is latched in the Graph under the name of the function.
// Units: pads, strides and kernels in elements. Threading: as the Graph, one thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace modeld::tensor {

// Per spatial axis; an empty list means the default (stride 1, dilation 1, padding 0).
struct WindowSpec {
  Dims kernel;  // pooling only
  Dims strides;
  Dims dilations;
  Dims pads_begin;
  Dims pads_end;
  bool ceil_mode = false;  // pooling only: a last, partly empty window counts if it starts inside
  bool count_include_pad = false;  // average pooling only
};

struct ConvSpec {
  Dims strides;
  Dims dilations;
  Dims pads_begin;
  Dims pads_end;
  Dims output_padding;  // conv_transpose only
  int64_t groups = 1;
};

// weight: (out channels, in channels / groups, kernel...). 1, 2 or 3 spatial axes. f16: products
// and sums in f32.
Tensor conv(const Tensor& x,
            const Tensor& weight,
            const std::optional<Tensor>& bias,
            const ConvSpec& spec);
// weight: (in channels, out channels / groups, kernel...).
Tensor conv_transpose(const Tensor& x,
                      const Tensor& weight,
                      const std::optional<Tensor>& bias,
                      const ConvSpec& spec);

Tensor max_pool(const Tensor& x, const WindowSpec& spec);
Tensor average_pool(const Tensor& x, const WindowSpec& spec);
Tensor global_average_pool(const Tensor& x);  // spatial axes become 1
Tensor global_max_pool(const Tensor& x);

// All windows of the trailing axes: (..., out_0, out_1, ..., kernel_0, kernel_1, ...).
Tensor windows(const Tensor& x, const Dims& kernel, const Dims& strides, const Dims& dilations);

// softmax family: computed in f32 for f16, maximum subtracted.
Tensor softmax(const Tensor& x, int64_t axis);
Tensor log_softmax(const Tensor& x, int64_t axis);
// Normalises the axes from `axis` on; statistics in f32 for f16.
Tensor layer_norm(const Tensor& x, int64_t axis, double epsilon);
// Per channel (axis 1) over the spatial axes.
Tensor instance_norm(const Tensor& x, double epsilon);
// Inference form, parameters are vectors over axis 1.
Tensor batch_norm(const Tensor& x,
                  const Tensor& scale,
                  const Tensor& bias,
                  const Tensor& mean,
                  const Tensor& var,
                  double epsilon);
// x * scale + shift with host constants over axis 1.
Tensor channel_affine(const Tensor& x, const Tensor& scale, const Tensor& shift);

Tensor relu(const Tensor& x);
Tensor relu6(const Tensor& x);
Tensor leaky_relu(const Tensor& x, double alpha);
Tensor elu(const Tensor& x, double alpha);
Tensor silu(const Tensor& x);
Tensor gelu(const Tensor& x, bool tanh_form = false);
Tensor hard_sigmoid(const Tensor& x, double alpha, double beta);
Tensor hard_swish(const Tensor& x);
Tensor softplus(const Tensor& x);
Tensor mish(const Tensor& x);

// softmax(q k^T * scale + mask) v over the last two axes; scale 0 = 1/sqrt(depth). mask: added if
// float, selects if bool.
Tensor scaled_dot_product_attention(const Tensor& q,
                                    const Tensor& k,
                                    const Tensor& v,
                                    const std::optional<Tensor>& mask = {},
                                    double scale = 0);

enum class ResizeMode : uint8_t { kNearest, kLinear };
enum class ResizeCoord : uint8_t {
  kHalfPixel,
  kPytorchHalfPixel,
  kAsymmetric,
  kAlignCorners,
  kTfCropAndResize,
  kTfHalfPixelForNn
};
// kSimple is the rule of opsets before 11: floor when enlarging, ceil when shrinking.
enum class ResizeNearest : uint8_t { kRoundPreferFloor, kRoundPreferCeil, kFloor, kCeil, kSimple };

struct ResizeSpec {
  Dims dims;                  // of the result, every axis
  std::vector<float> scales;  // per axis; empty = dims out / dims in
  std::vector<float> roi;     // begins then ends, kTfCropAndResize only
  ResizeMode mode = ResizeMode::kNearest;
  ResizeCoord coord = ResizeCoord::kHalfPixel;
  ResizeNearest nearest = ResizeNearest::kRoundPreferFloor;
  float extrapolation = 0;  // value outside the roi, kTfCropAndResize only
};
// Positions and weights of each axis are worked out here, in f32, and become constants in `store`.
Tensor resize(const Tensor& x, const ResizeSpec& spec, WeightStore& store);

}  // namespace modeld::tensor
