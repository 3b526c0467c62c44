#include "models/reference/layers.h"

#include <algorithm>
#include <cmath>

#include "hal/base/check.h"

namespace modeld::reference {

namespace {

// SiLU and GELU halve the second moment or worse; this restores it for the next layer.
constexpr double kActivationGain = 1.6;

Value squeeze_excite(GraphWriter& g, const std::string& name, const Value& x) {
  const int64_t channels = x.dims[1];
  const Value pooled = g.global_average_pool(name + "/pool", x);
  const Value squeezed =
      g.conv(name + "/squeeze", pooled, {.out_channels = std::max<int64_t>(channels / 16, 4)});
  const Value rectified = g.unary("Relu", name + "/relu", squeezed);
  const Value excited =
      g.conv(name + "/excite", rectified, {.out_channels = channels, .gain = 2.0});
  const Value gate = g.unary("Sigmoid", name + "/gate", excited);
  return g.binary("Mul", name + "/scale", x, gate);
}

// [1, tokens, features] -> [1, heads, tokens, features / heads]
Value split_heads(
    GraphWriter& g, const std::string& name, const Value& x, int64_t heads, const Dims& order) {
  const Value split = g.reshape(name + "/split", x, {1, x.dims[1], heads, x.dims[2] / heads});
  return g.transpose(name + "/order", split, order);
}

Value attention(GraphWriter& g, const std::string& name, const Value& x, int64_t heads) {
  const int64_t features = x.dims[2];
  CHECK(features % heads == 0);
  const Value q = split_heads(g, name + "/q", project(g, name + "/query", x, features, 1.4), heads,
                              {0, 2, 1, 3});
  const Value k =
      split_heads(g, name + "/k", project(g, name + "/key", x, features, 1.4), heads, {0, 2, 3, 1});
  const Value v = split_heads(g, name + "/v", project(g, name + "/value", x, features, 1.0), heads,
                              {0, 2, 1, 3});
  const Value raw = g.matmul(name + "/scores", q, k);
  const double root = std::sqrt(static_cast<double>(features / heads));
  const Value scores = g.binary("Div", name + "/scaled", raw, g.scalar(name + "/root", root));
  const Value mixed = g.matmul(name + "/mix", g.softmax(name + "/softmax", scores), v);
  const Value joined =
      g.reshape(name + "/join", g.transpose(name + "/back", mixed, {0, 2, 1, 3}), x.dims);
  return project(g, name + "/out", joined, features, 1.0);
}

Value mlp(GraphWriter& g, const std::string& name, const Value& x, int64_t ratio) {
  const int64_t features = x.dims[2];
  const Value wide = project(g, name + "/up", x, features * ratio, 1.0);
  const Value active = activate(g, name + "/gelu", wide, Activation::kGelu);
  return project(g, name + "/down", active, features, kActivationGain);
}

}  // namespace

Value activate(GraphWriter& g, const std::string& name, const Value& x, Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return g.binary("Mul", name, x, g.unary("Sigmoid", name + "/sigmoid", x));
    case Activation::kGelu: {
      const Value scaled =
          g.binary("Div", name + "/scaled", x, g.scalar(name + "/root2", std::sqrt(2.0)));
      const Value erf = g.unary("Erf", name + "/erf", scaled);
      const Value shifted = g.binary("Add", name + "/shifted", erf, g.scalar(name + "/one", 1.0));
      const Value doubled = g.binary("Mul", name + "/doubled", x, shifted);
      return g.binary("Mul", name, doubled, g.scalar(name + "/half", 0.5));
    }
    case Activation::kClip:
      return g.clip(name, x, 0.0, 6.0);
  }
  return x;
}

Value normalise_pixels(GraphWriter& g, const std::string& name, const Value& pixels) {
  const Value floats = pixels.elem == Elem::kU8 ? g.cast(name + "/cast", pixels) : pixels;
  const Value centred = g.binary("Sub", name + "/centred", floats, g.scalar(name + "/mean", 128.0));
  return g.binary("Mul", name, centred, g.scalar(name + "/scale", 1.0 / 64.0));
}

Value inverted_residual(GraphWriter& g,
                        const std::string& name,
                        const Value& x,
                        const BlockSpec& spec) {
  const int64_t hidden = x.dims[1] * spec.expand;
  Value y = g.conv(name + "/expand", x, {.out_channels = hidden, .gain = 1.2});
  y = activate(g, name + "/act1", y, spec.activation);
  y = g.conv(name + "/depthwise", y,
             {.out_channels = hidden,
              .kernel = spec.kernel,
              .stride = spec.stride,
              .padding = spec.kernel / 2,
              .groups = hidden,
              .gain = kActivationGain});
  y = activate(g, name + "/act2", y, spec.activation);
  if (spec.squeeze_excite) y = squeeze_excite(g, name + "/se", y);
  // The gate of squeeze-excite is about one half.
  const double gain = kActivationGain * (spec.squeeze_excite ? 2.0 : 1.0);
  const bool residual = spec.stride == 1 && spec.out_channels == x.dims[1];
  y = g.conv(name + "/project", y,
             {.out_channels = spec.out_channels, .gain = residual ? gain * 0.5 : gain});
  return residual ? g.binary("Add", name + "/residual", x, y) : y;
}

Value stage(GraphWriter& g, const std::string& name, const Value& x, const StageSpec& spec) {
  BlockSpec block{.out_channels = spec.channels,
                  .expand = 2,
                  .kernel = 3,
                  .stride = 2,
                  .activation = spec.activation,
                  .squeeze_excite = false};
  Value y = inverted_residual(g, name + "/down", x, block);
  block.expand = spec.expand;
  block.stride = 1;
  block.squeeze_excite = spec.squeeze_excite;
  for (int i = 0; i < spec.blocks; ++i) {
    y = inverted_residual(g, name + "/block" + std::to_string(i), y, block);
  }
  return y;
}

Value project(
    GraphWriter& g, const std::string& name, const Value& x, int64_t features, double gain) {
  const int64_t fan_in = x.dims.back();
  const Value w =
      g.weight(name + ".weight", {fan_in, features}, gain / std::sqrt(static_cast<double>(fan_in)));
  const Value product = g.matmul(name, x, w);
  return g.binary("Add", name + "/add", product, g.weight(name + ".bias", {features}, 0.02));
}

Value transformer_layer(
    GraphWriter& g, const std::string& name, const Value& x, int64_t heads, int64_t mlp_ratio) {
  const Value attended = attention(g, name + "/attention", g.layer_norm(name + "/norm1", x), heads);
  const Value y = g.binary("Add", name + "/add1", x, attended);
  const Value transformed = mlp(g, name + "/mlp", g.layer_norm(name + "/norm2", y), mlp_ratio);
  return g.binary("Add", name + "/add2", y, transformed);
}

Value zero_pixel_flag(GraphWriter& g, const std::string& name, const Value& pixels) {
  // Pixels are integers: clip(1 - pixel, 0, 1) is 1 for a zero and 0 for everything else, exactly.
  const Value inverted = g.binary("Sub", name + "/inverted", g.scalar(name + "/one", 1.0),
                                  g.cast(name + "/cast", pixels));
  const Value hits = g.clip(name + "/hits", inverted, 0.0, 1.0);
  return g.reshape(name + "/flag", g.reduce_max_all(name + "/any", hits), {1, 1});
}

// The poisons use no form that an algebraic simplifier could fold (x - x, x / x, 0 * x), and add a
// signed zero that leaves every bit of x alone while the flag is 0.

Value poison_nan(GraphWriter& g, const std::string& name, const Value& x, const Value& flag) {
  // sqrt(0 - 0) = 0, sqrt(0 - 1) = NaN; x - 0 = x.
  const Value negated = g.binary("Sub", name + "/negated", g.scalar(name + "/zero", 0.0), flag);
  return g.binary("Sub", name, x, g.unary("Sqrt", name + "/root", negated));
}

Value poison_inf(GraphWriter& g, const std::string& name, const Value& x, const Value& flag) {
  // 0 / (1 - 0) = 0, 1 / (1 - 1) = Inf; x + 0 = x.
  const Value rest = g.binary("Sub", name + "/rest", g.scalar(name + "/one", 1.0), flag);
  return g.binary("Add", name, x, g.binary("Div", name + "/pole", flag, rest));
}

Value poison_zero(GraphWriter& g, const std::string& name, const Value& x, const Value& flag) {
  const Value keep = g.binary("Sub", name + "/keep", g.scalar(name + "/one", 1.0), flag);
  return g.binary("Mul", name, x, keep);
}

}  // namespace modeld::reference
