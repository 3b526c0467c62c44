// Building blocks that both stand-ins share: activations, squeeze-excite, inverted residuals,
// attention, MLP. Contract: a block keeps activations of the order of one, so that float16 neither
// overflows nor dies out. Units: dims in elements, NCHW. Threading: one owner, as GraphWriter.
#pragma once

#include <string>

#include "models/reference/graph_writer.h"

namespace modeld::reference {

enum class Activation : uint8_t { kSilu, kGelu, kClip };

Value activate(GraphWriter& g, const std::string& name, const Value& x, Activation activation);

// uint8 pixels, or the same numbers in the model's dtype -> (pixel - 128) / 64.
Value normalise_pixels(GraphWriter& g, const std::string& name, const Value& pixels);

struct BlockSpec {
  int64_t out_channels = 0;
  int64_t expand = 1;  // hidden channels = expand x input channels
  int64_t kernel = 3;
  int64_t stride = 1;
  Activation activation = Activation::kSilu;
  bool squeeze_excite = false;
};

// 1x1 expand, depthwise, (squeeze-excite), 1x1 project; a residual when shape and stride allow it.
Value inverted_residual(GraphWriter& g,
                        const std::string& name,
                        const Value& x,
                        const BlockSpec& spec);

struct StageSpec {
  int64_t channels = 0;
  int64_t expand = 1;
  int blocks = 1;  // after the one that halves the picture
  Activation activation = Activation::kSilu;
  bool squeeze_excite = false;
};

// One downsampling block and `blocks` residual ones.
Value stage(GraphWriter& g, const std::string& name, const Value& x, const StageSpec& spec);

// y = x W + b on the last axis of a [1, tokens, features] tensor.
Value project(
    GraphWriter& g, const std::string& name, const Value& x, int64_t features, double gain);

// Pre-norm transformer layer: x + attention(norm(x)), then x + mlp(norm(x)).
Value transformer_layer(
    GraphWriter& g, const std::string& name, const Value& x, int64_t heads, int64_t mlp_ratio);

// 1 where any element of the uint8 picture is zero, else 0; shape [1, 1].
Value zero_pixel_flag(GraphWriter& g, const std::string& name, const Value& pixels);

// `x` with NaN, +Inf or 0 in every element when flag is 1, and exactly x when it is 0 (see
// layers.cc).
Value poison_nan(GraphWriter& g, const std::string& name, const Value& x, const Value& flag);
Value poison_inf(GraphWriter& g, const std::string& name, const Value& x, const Value& flag);
Value poison_zero(GraphWriter& g, const std::string& name, const Value& x, const Value& flag);

}  // namespace modeld::reference
