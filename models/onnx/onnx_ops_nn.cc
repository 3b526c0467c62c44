// Convolution, pooling, normalisation and resizing.
#include <algorithm>
#include <cmath>
#include <map>

#include "runtime/tensor/nn.h"

#include "models/onnx/onnx_ops.h"

namespace modeld::onnx_import {
namespace {

size_t at(int64_t i) {
  return static_cast<size_t>(i);
}
std::string text(const Dims& d) {
  return tensor::dims_text(d);
}
DType wide(DType t) {
  return ir::is_narrow_float(t) ? DType::kF32 : t;
}

// The attributes that say how a window moves over the spatial axes.
struct Window {
  Dims kernel, strides, dilations, begin, end;
};

bool all_within(const Dims& d, size_t n, int64_t least) {
  return d.size() == n &&
         std::all_of(d.begin(), d.end(), [&](int64_t v) { return v >= least && v <= (1 << 24); });
}

// Splits "pads", or works out auto_pad for an input of the given spatial size.
bool set_pads(OpContext& c, Window& w, const Dims& spatial) {
  const size_t n = spatial.size();
  const std::string mode = c.attr_string("auto_pad", "NOTSET");
  const Dims pads = c.attr_ints("pads", Dims(2 * n, 0));
  const bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
  if (!same && mode != "NOTSET" && mode != "VALID" && !mode.empty()) {
    c.error(strf("auto_pad '%s' is not supported", mode.c_str()), Errc::kUnsupported);
    return false;
  }
  if (!all_within(pads, 2 * n, 0)) {
    c.error(strf("pads %s for %zu spatial axes", text(pads).c_str(), n));
    return false;
  }
  w.begin.assign(pads.begin(), pads.begin() + static_cast<int64_t>(n));
  w.end.assign(pads.begin() + static_cast<int64_t>(n), pads.end());
  if (mode == "VALID") w.begin = w.end = Dims(n, 0);
  for (size_t i = 0; same && i < n; ++i) {
    const int64_t out = (spatial[i] + w.strides[i] - 1) / w.strides[i];
    const int64_t total = std::max<int64_t>(
        0, (out - 1) * w.strides[i] + w.dilations[i] * (w.kernel[i] - 1) + 1 - spatial[i]);
    w.begin[i] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
    w.end[i] = total - w.begin[i];
  }
  return true;
}

// kernel_shape may be left out where a weight tells it.
bool read_window(OpContext& c, Window& w, const Dims& weight_kernel) {
  const Dims d = c.dims(0);
  const size_t n = d.size() < 3 ? 0 : d.size() - 2;
  w.kernel = c.attr_ints("kernel_shape", weight_kernel);
  w.strides = c.attr_ints("strides", Dims(n, 1));
  w.dilations = c.attr_ints("dilations", Dims(n, 1));
  const bool kernel_fits = weight_kernel.empty() || w.kernel == weight_kernel;
  if (n == 0 || !kernel_fits || !all_within(w.kernel, n, 1) || !all_within(w.strides, n, 1) ||
      !all_within(w.dilations, n, 1)) {
    c.error(strf("input %s, kernel %s, strides %s, dilations %s", text(d).c_str(),
                 text(w.kernel).c_str(), text(w.strides).c_str(), text(w.dilations).c_str()));
    return false;
  }
  return true;
}

Dims tail(const Dims& d, size_t from) {
  return d.size() <= from ? Dims{} : Dims(d.begin() + static_cast<int64_t>(from), d.end());
}

}  // namespace

void build_conv(OpContext& c) {
  if (!c.require_same_dtype(0, 2) || !c.require_float()) return;
  Window w;
  const int64_t groups = c.attr_int("group", 1);
  if (!read_window(c, w, tail(c.dims(1), 2)) || !set_pads(c, w, tail(c.dims(0), 2))) return;
  const auto bias = c.has(2) ? std::optional(c.in(2)) : std::nullopt;
  c.out(tensor::conv(c.in(0), c.in(1), bias, {w.strides, w.dilations, w.begin, w.end, {}, groups}));
}

void build_conv_transpose(OpContext& c) {
  if (!c.require_same_dtype(0, 2) || !c.require_float()) return;
  Window w;
  const int64_t groups = c.attr_int("group", 1);
  if (!read_window(c, w, tail(c.dims(1), 2))) return;
  const Dims spatial = tail(c.dims(0), 2);
  const size_t n = spatial.size();
  const Dims extra = c.attr_ints("output_padding", Dims(n, 0));
  Dims want = c.attr_ints("output_shape");
  const std::string mode = c.attr_string("auto_pad", "NOTSET");
  const Dims pads = c.attr_ints("pads", Dims(2 * n, 0));
  if (!all_within(extra, n, 0) || !all_within(pads, 2 * n, 0))
    return c.error(strf("pads %s, output_padding %s", text(pads).c_str(), text(extra).c_str()));
  if (mode != "NOTSET" && mode != "VALID" && mode != "SAME_UPPER" && mode != "SAME_LOWER" &&
      !mode.empty())
    return c.error(strf("auto_pad '%s' is not supported", mode.c_str()), Errc::kUnsupported);
  w.begin.assign(pads.begin(), pads.begin() + static_cast<int64_t>(n));
  w.end.assign(pads.begin() + static_cast<int64_t>(n), pads.end());
  if (mode == "VALID") w.begin = w.end = Dims(n, 0);
  const bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
  if (want.size() == n + 2) want = tail(want, 2);  // some writers put batch and channels in front
  if (want.empty() && same) {
    for (size_t i = 0; i < n; ++i) want.push_back(spatial[i] * w.strides[i]);
  }
  for (size_t i = 0; i < n && !want.empty(); ++i) {
    const int64_t full =
        w.strides[i] * (spatial[i] - 1) + extra[i] + (w.kernel[i] - 1) * w.dilations[i] + 1;
    if (want.size() != n || want[i] < 1 || want[i] > full)
      return c.error(strf("output_shape %s", text(want).c_str()), Errc::kUnsupported);
    const int64_t total = full - want[i];
    w.begin[i] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
    w.end[i] = total - w.begin[i];
  }
  const auto bias = c.has(2) ? std::optional(c.in(2)) : std::nullopt;
  c.out(tensor::conv_transpose(c.in(0), c.in(1), bias,
                               {w.strides, w.dilations, w.begin, w.end, extra, groups}));
}

void build_max_pool(OpContext& c) {
  Window w;
  const bool ceil_mode = c.attr_int("ceil_mode", 0) != 0;
  if (c.attr_int("storage_order", 0) != 0)
    return c.error("column major indices are not supported", Errc::kUnsupported);
  if (!read_window(c, w, {}) || !set_pads(c, w, tail(c.dims(0), 2))) return;
  c.out(tensor::max_pool(c.in(0),
                         {w.kernel, w.strides, w.dilations, w.begin, w.end, ceil_mode, false}));
}

void build_average_pool(OpContext& c) {
  if (!c.require_float()) return;
  Window w;
  const bool ceil_mode = c.attr_int("ceil_mode", 0) != 0;
  const bool count_pad = c.attr_int("count_include_pad", 0) != 0;
  if (c.has_attr("dilations"))
    return c.error("dilations of AveragePool appear in opset 19", Errc::kUnsupported);
  if (!read_window(c, w, {}) || !set_pads(c, w, tail(c.dims(0), 2))) return;
  c.out(tensor::average_pool(c.in(0),
                             {w.kernel, w.strides, {}, w.begin, w.end, ceil_mode, count_pad}));
}

void build_global_pool(OpContext& c) {
  if (!c.require_float()) return;
  c.out(c.node.op == "GlobalAveragePool" ? tensor::global_average_pool(c.in(0))
                                         : tensor::global_max_pool(c.in(0)));
}

// Constant parameters become one scale and shift, worked out in double.
void build_batch_norm(OpContext& c) {
  if (!c.require_same_dtype(1, 2) || !c.require_same_dtype(3, 4) || !c.require_float()) return;
  const double epsilon = c.attr_float("epsilon", 1e-5);
  c.ignore_attr("momentum");
  if (c.attr_int("spatial", 1) != 1)
    return c.error("spatial = 0 is not supported", Errc::kUnsupported);
  if (c.attr_int("training_mode", 0) != 0)
    return c.error("training mode is not supported", Errc::kUnsupported);
  const HostPtr gamma = c.host(1), beta = c.host(2), mean = c.host(3), variance = c.host(4);
  const bool known = gamma != nullptr && beta != nullptr && mean != nullptr && variance != nullptr;
  if (!known)
    return c.out(tensor::batch_norm(c.in(0), c.in(1), c.in(2), c.in(3), c.in(4), epsilon));
  const auto g = gamma->doubles(), b = beta->doubles(), m = mean->doubles(),
             v = variance->doubles();
  const Dims d = c.dims(0);
  const size_t n = d.size() < 2 ? 0 : at(d[1]);
  if (g.size() != n || b.size() != n || m.size() != n || v.size() != n)
    return c.error(strf("parameters do not fit an input of %s", text(d).c_str()));
  std::vector<double> scale, shift;
  for (size_t i = 0; i < n; ++i) {
    scale.push_back(g[i] / std::sqrt(v[i] + epsilon));
    shift.push_back(b[i] - m[i] * scale[i]);
  }
  const DType t = wide(c.dtype(0));
  const Dims along = {static_cast<int64_t>(n)};
  c.out(tensor::channel_affine(
      c.in(0), materialise(c.g, c.store, host_of_floats(along, scale, t), c.device),
      materialise(c.g, c.store, host_of_floats(along, shift, t), c.device)));
}

void build_instance_norm(OpContext& c) {
  if (!c.require_same_dtype(0, 2) || !c.require_float()) return;
  const double epsilon = c.attr_float("epsilon", 1e-5);
  const DType t = c.dtype(0);
  const Tensor y = tensor::instance_norm(c.in(0).cast(wide(t)), epsilon);
  c.out(tensor::channel_affine(y, c.in(1), c.in(2)).cast(t));
}

// Statistics, scale and bias in f32 for half types, rounded once.
void build_layer_norm(OpContext& c) {
  if (!c.require_same_dtype(0, 2) || !c.require_float()) return;
  const int64_t axis = c.attr_int("axis", -1);
  const double epsilon = c.attr_float("epsilon", 1e-5);
  if (c.attr_int("stash_type", 1) != 1)
    return c.error("stash_type other than float is not supported", Errc::kUnsupported);
  const DType t = c.dtype(0);
  Tensor y = tensor::layer_norm(c.in(0).cast(wide(t)), axis, epsilon) * c.in(1).cast(wide(t));
  if (c.has(2)) y = y + c.in(2).cast(wide(t));
  if (!c.g.failed() && y.dims() != c.dims(0))
    return c.error(
        strf("scale %s for an input of %s", text(c.dims(1)).c_str(), text(c.dims(0)).c_str()));
  c.out(y.cast(t));
}

// Inference: the input itself. The mask, if somebody reads it, is all true.
void build_dropout(OpContext& c) {
  c.ignore_attr("seed");
  if (c.opset < 12) {
    c.ignore_attr("ratio");
    if (c.inputs() > 1) return c.error("the ratio is an attribute before opset 12");
  } else if (c.has(2) && c.host_scalar(2, "training_mode") != 0) {
    return c.error("training mode is not supported", Errc::kUnsupported);
  }
  c.out(c.in(0));
  c.out(1, Tensor::full(c.g, c.dims(0), 1, c.opset < 10 ? c.dtype(0) : DType::kBool));
}

// ---- resize ----

namespace {

std::vector<float> to_floats(const std::vector<double>& v) {
  return {v.begin(), v.end()};
}

// Result dims from scales, as the standard has it: floor(in * scale) in f32.
bool dims_from_scales(OpContext& c, tensor::ResizeSpec& s) {
  const Dims d = c.dims(0);
  if (s.scales.size() != d.size()) {
    c.error(strf("%zu scales for %s", s.scales.size(), text(d).c_str()));
    return false;
  }
  for (size_t i = 0; i < d.size(); ++i) {
    const float out = std::floor(static_cast<float>(d[i]) * s.scales[i]);
    if (!(s.scales[i] > 0) || !(out >= 1) || !(out <= 1e7F)) {
      c.error(
          strf("scale %g of axis %zu of %s", static_cast<double>(s.scales[i]), i, text(d).c_str()));
      return false;
    }
    s.dims.push_back(static_cast<int64_t>(out));
  }
  return true;
}

bool set_modes(OpContext& c, tensor::ResizeSpec& s) {
  static const std::map<std::string, tensor::ResizeCoord> kCoords = {
      {"half_pixel", tensor::ResizeCoord::kHalfPixel},
      {"pytorch_half_pixel", tensor::ResizeCoord::kPytorchHalfPixel},
      {"asymmetric", tensor::ResizeCoord::kAsymmetric},
      {"align_corners", tensor::ResizeCoord::kAlignCorners},
      {"tf_crop_and_resize", tensor::ResizeCoord::kTfCropAndResize},
      {"tf_half_pixel_for_nn", tensor::ResizeCoord::kTfHalfPixelForNn}};
  static const std::map<std::string, tensor::ResizeNearest> kNearest = {
      {"round_prefer_floor", tensor::ResizeNearest::kRoundPreferFloor},
      {"round_prefer_ceil", tensor::ResizeNearest::kRoundPreferCeil},
      {"floor", tensor::ResizeNearest::kFloor},
      {"ceil", tensor::ResizeNearest::kCeil}};
  const std::string coord = c.attr_string("coordinate_transformation_mode", "half_pixel");
  const std::string nearest = c.attr_string("nearest_mode", "round_prefer_floor");
  if (kCoords.count(coord) == 0 || kNearest.count(nearest) == 0) {
    c.error(strf("coordinate_transformation_mode '%s', nearest_mode '%s' are not supported",
                 coord.c_str(), nearest.c_str()),
            Errc::kUnsupported);
    return false;
  }
  s.coord = kCoords.at(coord);
  s.nearest = kNearest.at(nearest);
  s.extrapolation = static_cast<float>(c.attr_float("extrapolation_value", 0));
  c.ignore_attr("cubic_coeff_a");
  if (c.attr_int("exclude_outside", 0) != 0)
    c.error("exclude_outside is not supported", Errc::kUnsupported);
  return true;
}

bool set_mode(OpContext& c, tensor::ResizeSpec& s) {
  const std::string mode = c.attr_string("mode", "nearest");
  if (mode != "nearest" && mode != "linear") {
    c.error(strf("mode '%s' is not supported", mode.c_str()), Errc::kUnsupported);
    return false;
  }
  s.mode = mode == "nearest" ? tensor::ResizeMode::kNearest : tensor::ResizeMode::kLinear;
  return true;
}

// The rule before opset 11.
void old_rule(tensor::ResizeSpec& s) {
  s.coord = tensor::ResizeCoord::kAsymmetric;
  s.nearest = tensor::ResizeNearest::kSimple;
}

}  // namespace

void build_resize(OpContext& c) {
  tensor::ResizeSpec s;
  if (!set_mode(c, s)) return;
  if (c.opset < 11) {
    old_rule(s);
    s.scales = to_floats(c.host_doubles(1, "scales"));
    if (dims_from_scales(c, s)) c.out(tensor::resize(c.in(0), s, c.store));
    return;
  }
  if (!set_modes(c, s)) return;
  const bool crops = s.coord == tensor::ResizeCoord::kTfCropAndResize;
  if (crops) s.roi = to_floats(c.host_doubles(1, "roi"));
  // An empty list means "not given".
  const bool by_scale = c.has(2) && tensor::product(c.dims(2)) > 0;
  const bool by_size = c.has(3) && tensor::product(c.dims(3)) > 0;
  if (by_scale == by_size) return c.error("exactly one of scales and sizes is needed");
  if (by_size) {
    s.dims = c.host_ints(3, "sizes");
    if (s.dims.size() != c.dims(0).size())
      return c.error(strf("%zu sizes for %s", s.dims.size(), text(c.dims(0)).c_str()));
  } else {
    s.scales = to_floats(c.host_doubles(2, "scales"));
    if (!dims_from_scales(c, s)) return;
  }
  c.out(tensor::resize(c.in(0), s, c.store));
}

void build_upsample(OpContext& c) {
  tensor::ResizeSpec s;
  if (!set_mode(c, s)) return;
  old_rule(s);
  if (c.opset < 9)
    s.scales = c.attr_floats("scales");
  else
    s.scales = to_floats(c.host_doubles(1, "scales"));
  if (dims_from_scales(c, s)) c.out(tensor::resize(c.in(0), s, c.store));
}

}  // namespace modeld::onnx_import
