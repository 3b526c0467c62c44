// Shapes, constants, movement and gathers.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "models/onnx/onnx_ops.h"

namespace modeld::onnx_import {
namespace {

using tensor::Slice;

size_t at(int64_t i) {
  return static_cast<size_t>(i);
}
long long ll(int64_t v) {
  return static_cast<long long>(v);
}
std::string text(const Dims& d) {
  return tensor::dims_text(d);
}

// Axis from the front; an error if there is none.
int64_t axis_of(OpContext& c, int64_t axis, size_t rank) {
  const auto n = static_cast<int64_t>(rank);
  if (axis >= -n && axis < n) return axis < 0 ? axis + n : axis;
  c.error(strf("axis %lld of %lld axes", ll(axis), ll(n)));
  return 0;
}

// Axes given as an attribute before `since` and as input 1 from then on. No axes: an empty list.
Dims axes_before_or_input(OpContext& c, int since) {
  if (c.opset < since) {
    if (c.inputs() > 1) c.error(strf("axes are an attribute before opset %d", since));
    return c.attr_ints("axes");
  }
  return c.has(1) ? c.host_ints(1, "axes") : Dims{};
}

}  // namespace

void build_identity(OpContext& c) {
  c.out(c.in(0));
}

void build_constant(OpContext& c) {
  if (const HostPtr t = c.attr_tensor("value")) return c.out_host(*t);
  if (c.has_attr("value_float"))
    return c.out_host(host_of_floats({}, {c.attr_float("value_float", 0)}));
  if (c.has_attr("value_int")) return c.out_host(host_of_ints({}, {c.attr_int("value_int", 0)}));
  if (c.has_attr("value_ints")) {
    const Dims v = c.attr_ints("value_ints");
    return c.out_host(host_of_ints({static_cast<int64_t>(v.size())}, v));
  }
  if (c.has_attr("value_floats")) {
    const std::vector<float> f = c.attr_floats("value_floats");
    return c.out_host(host_of_floats({static_cast<int64_t>(f.size())}, {f.begin(), f.end()}));
  }
  for (const auto& [name, value] : c.node.attributes)
    return c.error(strf("a constant given as '%s' is not supported", name.c_str()),
                   Errc::kUnsupported);
  c.error("no value");
}

void build_constant_of_shape(OpContext& c) {
  const Dims dims = c.host_ints(0, "shape");
  const HostPtr v = c.attr_tensor("value");
  if (v == nullptr) return c.out(Tensor::full(c.g, dims, 0, DType::kF32));
  if (v->count() != 1) return c.error("attribute 'value' must hold one element");
  c.out(materialise(c.g, c.store, HostTensor{v->dtype, {}, v->bytes}, c.device).expand(dims));
}

void build_shape(OpContext& c) {
  const Dims d = c.dims(0);
  const auto n = static_cast<int64_t>(d.size());
  if (c.opset < 15) return c.out_host(host_of_ints({n}, d));
  auto clip = [&](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + n : v, 0, n); };
  const int64_t start = clip(c.attr_int("start", 0));
  const int64_t end = std::max(start, clip(c.attr_int("end", n)));
  c.out_host(host_of_ints({end - start}, Dims(d.begin() + start, d.begin() + end)));
}

void build_size(OpContext& c) {
  c.out_host(host_of_ints({}, {tensor::product(c.dims(0))}));
}

void build_range(OpContext& c) {
  if (!c.require_same_dtype(0, 2)) return;
  const double start = c.host_scalar(0, "start");
  const double limit = c.host_scalar(1, "limit");
  const double step = c.host_scalar(2, "delta");
  const double count = step == 0 ? -1 : std::ceil((limit - start) / step);
  if (!(count <= (1 << 24))) return c.error(strf("%g elements", count));
  if (step == 0) return c.error("delta is 0");
  std::vector<double> v;
  for (double i = 0; i < count; ++i) v.push_back(start + i * step);
  const DType t = c.dtype(0);
  const Dims dims = {static_cast<int64_t>(v.size())};
  if (ir::is_float(t)) return c.out_host(host_of_floats(dims, v, t));
  c.out_host(host_of_ints(dims, {v.begin(), v.end()}, t));
}

void build_reshape(OpContext& c) {
  Dims want = c.host_ints(1, "shape");
  const bool keep_zero = c.attr_int("allowzero", 0) != 0;
  const Dims have = c.dims(0);
  for (size_t i = 0; i < want.size(); ++i) {
    if (want[i] != 0 || keep_zero) continue;
    if (i >= have.size())
      return c.error(
          strf("shape %s copies axis %zu of %s", text(want).c_str(), i, text(have).c_str()));
    want[i] = have[i];
  }
  c.out(c.in(0).reshape(want));
}

void build_flatten(OpContext& c) {
  const Dims d = c.dims(0);
  const auto n = static_cast<int64_t>(d.size());
  int64_t axis = c.attr_int("axis", 1);
  if (axis < 0 && c.opset >= 11) axis += n;
  if (axis < 0 || axis > n) return c.error(strf("axis %lld of %s", ll(axis), text(d).c_str()));
  const std::span<const int64_t> all(d);
  c.out(c.in(0).reshape(
      {tensor::product(all.first(at(axis))), tensor::product(all.subspan(at(axis)))}));
}

void build_transpose(OpContext& c) {
  Dims order(c.dims(0).size());
  std::iota(order.rbegin(), order.rend(), 0);
  c.out(c.in(0).permute(c.attr_ints("perm", order)));
}

void build_squeeze(OpContext& c) {
  const Dims axes = axes_before_or_input(c, 13);
  c.out(c.in(0).squeeze(axes));
}

void build_unsqueeze(OpContext& c) {
  const Dims axes = axes_before_or_input(c, 13);
  if (axes.empty()) return c.error("no axes");
  c.out(c.in(0).unsqueeze(axes));
}

void build_concat(OpContext& c) {
  if (!c.has_attr("axis")) return c.error("attribute 'axis' is missing");
  if (!c.require_same_dtype(0, c.inputs() - 1)) return;
  const int64_t axis = c.attr_int("axis", 0);
  std::vector<Tensor> parts;
  for (size_t i = 0; i < c.inputs(); ++i) parts.push_back(c.in(i));
  c.out(tensor::concat(parts, axis));
}

// Starts, ends, axes and steps: attributes before opset 10 (no steps), inputs from then on.
void build_slice(OpContext& c) {
  Dims starts, ends, axes, steps;
  if (c.opset < 10) {
    if (c.inputs() > 1) return c.error("limits are attributes before opset 10");
    starts = c.attr_ints("starts");
    ends = c.attr_ints("ends");
    axes = c.attr_ints("axes");
  } else {
    starts = c.host_ints(1, "starts");
    ends = c.host_ints(2, "ends");
    if (c.has(3)) axes = c.host_ints(3, "axes");
    if (c.has(4)) steps = c.host_ints(4, "steps");
  }
  if (axes.empty()) {
    axes.resize(starts.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (steps.empty()) steps.assign(starts.size(), 1);
  const Dims d = c.dims(0);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    return c.error("starts, ends, axes and steps differ in length");
  std::vector<Slice> slices(d.size());
  std::vector<bool> seen(d.size(), false);
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t axis = axis_of(c, axes[i], d.size());
    if (!c.status().has_value() && d.empty()) return;
    if (d.empty() || seen[at(axis)]) return c.error(strf("axis %lld is cut twice", ll(axis)));
    seen[at(axis)] = true;
    // A walk towards the front that ends before -n goes through element 0.
    const bool to_front = steps[i] < 0 && ends[i] < -d[at(axis)];
    slices[at(axis)] = {starts[i] < -d[at(axis)] ? -d[at(axis)] : starts[i],
                        to_front ? Slice::kToFront : ends[i], steps[i]};
    // A start before the front clamps to it; walking to the front from there gives nothing.
    if (steps[i] < 0 && starts[i] < -d[at(axis)]) slices[at(axis)] = {0, 0, 1};
  }
  c.out(c.in(0).slice(slices));
}

// Sizes: an attribute before opset 13, input 1 from then on, equal parts without either.
void build_split(OpContext& c) {
  const Dims d = c.dims(0);
  const int64_t axis = axis_of(c, c.attr_int("axis", 0), d.size());
  if (d.empty()) return c.error("of a scalar");
  Dims sizes;
  if (c.opset < 13) {
    if (c.inputs() > 1) return c.error("sizes are an attribute before opset 13");
    sizes = c.attr_ints("split");
  } else if (c.has(1)) {
    sizes = c.host_ints(1, "split");
  }
  const auto parts = static_cast<int64_t>(c.node.outputs.size());
  if (sizes.empty()) {
    if (d[at(axis)] % parts != 0)
      return c.error(
          strf("%s into %lld equal parts along axis %lld", text(d).c_str(), ll(parts), ll(axis)));
    sizes.assign(at(parts), d[at(axis)] / parts);
  }
  if (static_cast<int64_t>(sizes.size()) != parts)
    return c.error(strf("%zu sizes for %lld outputs", sizes.size(), ll(parts)));
  const auto pieces = c.in(0).split(sizes, axis);
  for (size_t i = 0; i < pieces.size(); ++i) c.out(i, pieces[i]);
}

// Constant indices are checked here; one of them, or a run, is only a slice.
void build_gather(OpContext& c) {
  const Dims d = c.dims(0);
  const int64_t axis = axis_of(c, c.attr_int("axis", 0), d.size());
  if (d.empty()) return c.error("from a scalar");
  if (ir::is_float(c.dtype(1)) || c.dtype(1) == DType::kBool)
    return c.error(strf("indices have type %s", ir::dtype_name(c.dtype(1))), Errc::kMismatch);
  const HostPtr h = c.host(1);
  if (h == nullptr) return c.out(tensor::gather(c.in(0), c.in(1), axis));
  const int64_t n = d[at(axis)];
  std::vector<int64_t> idx = h->ints();
  bool run = !idx.empty();
  for (size_t i = 0; i < idx.size(); ++i) {
    if (idx[i] < -n || idx[i] >= n)
      return c.error(strf("index %lld on axis %lld of %s", ll(idx[i]), ll(axis), text(d).c_str()));
    if (idx[i] < 0) idx[i] += n;
    run = run && idx[i] == idx[0] + static_cast<int64_t>(i);
  }
  Dims out(d.begin(), d.begin() + axis);
  out.insert(out.end(), h->dims.begin(), h->dims.end());
  out.insert(out.end(), d.begin() + axis + 1, d.end());
  if (run)
    return c.out(c.in(0)
                     .slice_axis(axis, {idx[0], idx[0] + static_cast<int64_t>(idx.size()), 1})
                     .reshape(out));
  c.out(tensor::gather(c.in(0),
                       Tensor::from_ints(c.g, c.store, idx, h->dims, DType::kI32, c.device), axis));
}

void build_gather_elements(OpContext& c) {
  const int64_t axis = axis_of(c, c.attr_int("axis", 0), c.dims(0).size());
  c.out(tensor::gather_elements(c.in(0), c.in(1), axis));
}

void build_expand(OpContext& c) {
  const Dims want = c.host_ints(1, "shape");
  const Dims out = tensor::broadcast_dims(c.g, c.dims(0), want, "Expand");
  c.out(c.in(0).expand(out));
}

void build_tile(OpContext& c) {
  const Dims times = c.host_ints(1, "repeats");
  c.out(c.in(0).repeat(times));
}

namespace {

// reflect / edge on one axis, by slices of the axis itself.
Tensor pad_by_copy(
    OpContext& c, const Tensor& x, int64_t axis, int64_t before, int64_t after, bool reflect) {
  const int64_t n = x.dim(axis);
  if (n < 1 || (reflect && (before >= n || after >= n))) {
    c.error(strf("padding %lld and %lld of an axis of %lld", ll(before), ll(after), ll(n)));
    return x;
  }
  std::vector<Tensor> parts;
  auto edge = [&](int64_t element, int64_t times) {
    Dims repeats(x.dims().size(), 1);
    repeats[at(axis)] = times;
    return x.slice_axis(axis, {element, element + 1, 1}).repeat(repeats);
  };
  if (before > 0)
    parts.push_back(reflect ? x.slice_axis(axis, {1, before + 1, 1}).flip({axis})
                            : edge(0, before));
  parts.push_back(x);
  if (after > 0)
    parts.push_back(reflect ? x.slice_axis(axis, {n - 1 - after, n - 1, 1}).flip({axis})
                            : edge(n - 1, after));
  return tensor::concat(parts, axis);
}

Tensor padded(OpContext& c,
              Tensor x,
              const Dims& begin,
              const Dims& end,
              const std::string& mode,
              tensor::Scalar value) {
  Dims start(begin.size(), 0), length = x.dims(), before = begin, after = end;
  for (size_t i = 0; i < begin.size(); ++i) {  // a negative padding takes away
    start[i] = std::max<int64_t>(0, -begin[i]);
    length[i] -= start[i] + std::max<int64_t>(0, -end[i]);
    before[i] = std::max<int64_t>(0, begin[i]);
    after[i] = std::max<int64_t>(0, end[i]);
    if (length[i] < 0) {
      c.error("padding takes away more than there is");
      return x;
    }
  }
  x = x.shrink(start, length);
  if (mode == "constant") return x.pad(before, after, value);
  for (size_t i = 0; i < begin.size(); ++i) {
    if (before[i] != 0 || after[i] != 0)
      x = pad_by_copy(c, x, static_cast<int64_t>(i), before[i], after[i], mode == "reflect");
  }
  return x;
}

}  // namespace

void build_pad(OpContext& c) {
  const std::string mode = c.attr_string("mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge")
    return c.error(strf("mode '%s' is not supported", mode.c_str()), Errc::kUnsupported);
  const Dims d = c.dims(0);
  Dims pads;
  double value = 0;
  if (c.opset < 11) {
    if (c.inputs() > 1) return c.error("padding is an attribute before opset 11");
    pads = c.attr_ints("pads");
    value = c.attr_float("value", 0);
  } else {
    pads = c.host_ints(1, "pads");
    if (c.has(2)) value = c.host_scalar(2, "constant_value");
  }
  if (pads.size() != 2 * d.size())
    return c.error(strf("%zu paddings for %s", pads.size(), text(d).c_str()));
  const Dims begin(pads.begin(), pads.begin() + static_cast<int64_t>(d.size()));
  const Dims end(pads.begin() + static_cast<int64_t>(d.size()), pads.end());
  const bool whole = !ir::is_float(c.dtype(0));
  c.out(padded(c, c.in(0), begin, end, mode,
               whole ? tensor::Scalar(static_cast<int64_t>(
                           std::isnan(value) ? 0 : std::clamp(value, -9.2e18, 9.2e18)))
                     : tensor::Scalar(value)));
}

void build_depth_to_space(OpContext& c) {
  const int64_t b = c.attr_int("blocksize", 0);
  const std::string mode = c.attr_string("mode", "DCR");
  const Dims d = c.dims(0);
  if (d.size() != 4 || b < 1 || b > (1 << 15) || d[1] % (b * b) != 0 ||
      (mode != "DCR" && mode != "CRD"))
    return c.error(strf("blocksize %lld, mode '%s' for %s", ll(b), mode.c_str(), text(d).c_str()));
  const int64_t channels = d[1] / (b * b);
  const Tensor x = c.in(0);
  const Tensor y = mode == "DCR"
                       ? x.reshape({d[0], b, b, channels, d[2], d[3]}).permute({0, 3, 4, 1, 5, 2})
                       : x.reshape({d[0], channels, b, b, d[2], d[3]}).permute({0, 1, 4, 2, 5, 3});
  c.out(y.reshape({d[0], channels, d[2] * b, d[3] * b}));
}

void build_space_to_depth(OpContext& c) {
  const int64_t b = c.attr_int("blocksize", 0);
  const Dims d = c.dims(0);
  if (d.size() != 4 || b < 1 || b > (1 << 15) || d[2] % b != 0 || d[3] % b != 0)
    return c.error(strf("blocksize %lld for %s", ll(b), text(d).c_str()));
  c.out(c.in(0)
            .reshape({d[0], d[1], d[2] / b, b, d[3] / b, b})
            .permute({0, 3, 5, 1, 2, 4})
            .reshape({d[0], d[1] * b * b, d[2] / b, d[3] / b}));
}

}  // namespace modeld::onnx_import
