// Convolution and pooling. Both look at windows of the input, made by movement ops only: repeat an
// axis, then reshape so that each row starts `dilation` later than the one before.
#include "runtime/tensor/nn.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "runtime/tensor/internal.h"

namespace modeld::tensor {
namespace {

size_t at(int64_t i) {
  return static_cast<size_t>(i);
}
int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
Dims filled(const Dims& given, size_t n, int64_t value) {
  return given.empty() ? Dims(n, value) : given;
}

// One trailing axis of windows().
struct WindowAxis {
  int64_t in, kernel, stride, dilation, out;
  bool apart;     // windows do not overlap and have no holes: a plain split
  int64_t pitch;  // overlapping: length of one repeated row
};

bool window_axes(const Tensor& x,
                 const Dims& kernel,
                 const Dims& strides,
                 const Dims& dilations,
                 std::vector<WindowAxis>& out) {
  const Dims d = x.dims();
  const size_t n = kernel.size();
  const Dims s = filled(strides, n, 1);
  const Dims dil = filled(dilations, n, 1);
  if (n == 0 || n > d.size() || s.size() != n || dil.size() != n) return false;
  for (size_t i = 0; i < n; ++i) {
    WindowAxis a{d[d.size() - n + i], kernel[i], s[i], dil[i], 0, false, 0};
    if (a.kernel < 1 || a.stride < 1 || a.dilation < 1) return false;
    if (a.kernel > INT32_MAX || a.stride > INT32_MAX || a.dilation > INT32_MAX) return false;
    const int64_t reach = a.dilation * (a.kernel - 1);
    if (reach >= a.in) return false;
    a.out = ceil_div(a.in - reach, a.stride);
    a.apart = a.stride >= a.kernel && (a.dilation == 1 || a.kernel == 1);
    const int64_t scale = std::max<int64_t>(1, ceil_div(a.out * a.stride - a.dilation, a.in));
    a.pitch = a.in * scale + a.dilation;
    if (static_cast<double>(a.kernel) * static_cast<double>(a.pitch) >
        static_cast<double>(kMaxElements))
      return false;
    out.push_back(a);
  }
  return true;
}

}  // namespace

Tensor windows(const Tensor& x, const Dims& kernel, const Dims& strides, const Dims& dilations) {
  if (broken(x)) return placeholder(x.graph());
  std::vector<WindowAxis> axes;
  if (!window_axes(x, kernel, strides, dilations, axes)) {
    return bad(x.graph(), strf("windows: kernel %s, strides %s, dilations %s over %s",
                               dims_text(kernel).c_str(), dims_text(strides).c_str(),
                               dims_text(dilations).c_str(), dims_text(x.dims()).c_str()));
  }
  const Dims d = x.dims();
  const size_t lead = d.size() - axes.size();
  Dims times(d.size(), 1), after(d.size(), 0), cut = d;
  Dims split(d.begin(), d.begin() + static_cast<int64_t>(lead)), kept = split, strided = split,
                                                                 firsts = split, merged = split;
  bool skips = false;
  for (size_t i = 0; i < axes.size(); ++i) {
    const WindowAxis& a = axes[i];
    if (a.apart) {
      after[lead + i] = std::max<int64_t>(0, a.out * a.stride - a.in);
      cut[lead + i] = a.out * a.stride;
      for (Dims* list : {&split}) list->insert(list->end(), {a.out, a.stride});
      for (Dims* list : {&kept, &merged}) list->insert(list->end(), {a.out, a.kernel});
      for (Dims* list : {&strided, &firsts}) list->insert(list->end(), {a.out, a.kernel});
      continue;
    }
    times[lead + i] = ceil_div(a.kernel * a.pitch, a.in);
    cut[lead + i] = a.kernel * a.pitch;
    split.insert(split.end(), {a.kernel, a.pitch});
    kept.insert(kept.end(), {a.kernel, a.out * a.stride});
    strided.insert(strided.end(), {a.kernel, a.out, a.stride});
    firsts.insert(firsts.end(), {a.kernel, a.out, 1});
    merged.insert(merged.end(), {a.kernel, a.out});
    skips = skips || a.stride > 1;
  }
  auto zeros = [](const Dims& like) { return Dims(like.size(), 0); };
  Tensor w = x.repeat(times).pad(zeros(after), after);
  w = w.shrink(zeros(cut), cut).reshape(split).shrink(zeros(kept), kept);
  if (skips) w = w.reshape(strided).shrink(zeros(firsts), firsts).reshape(merged);
  Dims order(lead), inner;
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto first = static_cast<int64_t>(lead + 2 * i);
    order.push_back(axes[i].apart ? first : first + 1);
    inner.push_back(axes[i].apart ? first + 1 : first);
  }
  order.insert(order.end(), inner.begin(), inner.end());
  return w.permute(order);
}

namespace {

// Pads the spatial axes (all but the first two).
Tensor pad_spatial(const Tensor& x, const Dims& begin, const Dims& end, Scalar value = 0) {
  Dims b = {0, 0}, e = {0, 0};
  b.insert(b.end(), begin.begin(), begin.end());
  e.insert(e.end(), end.begin(), end.end());
  return x.pad(b, e, value);
}

bool fits(const Dims& list, size_t n, int64_t least) {
  return list.empty() || (list.size() == n && std::all_of(list.begin(), list.end(), [&](int64_t v) {
                            return v >= least && v <= INT32_MAX;
                          }));
}

bool good_spec(const ConvSpec& s, size_t n) {
  return fits(s.strides, n, 1) && fits(s.dilations, n, 1) && fits(s.pads_begin, n, 0) &&
         fits(s.pads_end, n, 0) && fits(s.output_padding, n, 0) && s.groups >= 1;
}

std::string conv_text(const char* what, const Tensor& x, const Tensor& w, const ConvSpec& s) {
  return strf("%s: input %s, weight %s, groups %lld, strides %s, dilations %s, pads %s / %s", what,
              dims_text(x.dims()).c_str(), dims_text(w.dims()).c_str(),
              static_cast<long long>(s.groups), dims_text(s.strides).c_str(),
              dims_text(s.dilations).c_str(), dims_text(s.pads_begin).c_str(),
              dims_text(s.pads_end).c_str());
}

// Adds the bias before the result is narrowed.
Tensor finish(Tensor y, const std::optional<Tensor>& bias, DType t, const char* what) {
  if (bias && !y.graph().failed()) {
    if (bias->count() != y.dim(1))
      return bad(y.graph(),
                 strf("%s: bias %s for %lld channels", what, dims_text(bias->dims()).c_str(),
                      static_cast<long long>(y.dim(1))));
    Dims along(at(y.rank()), 1);
    along[1] = y.dim(1);
    y = y + bias->cast(y.dtype()).reshape(along);
  }
  return y.cast(t);
}

// (batch, groups, out per group, in per group, positions..., kernel...) products, summed over in
// and kernel.
Tensor grouped_product(
    const Tensor& x, const Tensor& w, const Dims& out, const Dims& kernel, int64_t groups) {
  const int64_t batch = x.dim(0);
  const int64_t cin = x.dim(1) / groups;
  const int64_t cout = w.dim(0) / groups;
  Dims xd = {batch, groups, 1, cin}, wd = {1, groups, cout, cin}, yd = {batch, groups * cout},
       axes = {3};
  xd.insert(xd.end(), out.begin(), out.end());
  xd.insert(xd.end(), kernel.begin(), kernel.end());
  wd.insert(wd.end(), out.size(), 1);
  wd.insert(wd.end(), kernel.begin(), kernel.end());
  yd.insert(yd.end(), out.begin(), out.end());
  for (size_t i = 0; i < kernel.size(); ++i)
    axes.push_back(static_cast<int64_t>(4 + out.size() + i));
  return x.reshape(xd).mul(w.reshape(wd)).sum(axes).reshape(yd);
}

}  // namespace

Tensor conv(const Tensor& x,
            const Tensor& weight,
            const std::optional<Tensor>& bias,
            const ConvSpec& spec) {
  ir::Graph& g = x.graph();
  if (broken(x) || broken(weight)) return placeholder(g);
  const Dims xd = x.dims();
  const Dims wd = weight.dims();
  const size_t n = xd.size() < 3 ? 0 : xd.size() - 2;
  if (n < 1 || n > 3 || wd.size() != xd.size() || !good_spec(spec, n) ||
      xd[1] != wd[1] * spec.groups || wd[0] % spec.groups != 0) {
    return bad(g, conv_text("conv", x, weight, spec));
  }
  const DType t = promoted(x.dtype(), weight.dtype());
  const DType wide = ir::is_float(t) ? compute_dtype(t) : ir::sum_dtype(t);
  const Dims kernel(wd.begin() + 2, wd.end());
  const Dims begin = filled(spec.pads_begin, n, 0);
  const Dims end = filled(spec.pads_end, n, 0);
  for (size_t i = 0; i < n; ++i) {
    const int64_t dilation = spec.dilations.empty() ? 1 : spec.dilations[i];
    if (kernel[i] < 1 || kernel[i] > INT32_MAX ||
        dilation * (kernel[i] - 1) >= xd[2 + i] + begin[i] + end[i])
      return bad(g, conv_text("conv", x, weight, spec));
  }
  const Tensor seen =
      windows(pad_spatial(x.cast(wide), begin, end), kernel, spec.strides, spec.dilations);
  if (g.failed()) return placeholder(g);
  const Dims sd = seen.dims();
  const Dims out(sd.begin() + 2, sd.begin() + 2 + static_cast<int64_t>(n));
  return finish(grouped_product(seen, weight.cast(wide), out, kernel, spec.groups), bias,
                ir::is_float(t) ? t : wide, "conv");
}

namespace {

// Kernel as wide as the stride: every output element has one input position, so it is a product and
// a reshape.
Tensor transpose_apart(const Tensor& x, const Tensor& w, int64_t groups) {
  const Dims xd = x.dims();
  const Dims wd = w.dims();
  Dims left = {xd[0], groups, xd[1] / groups, 1}, right = {1, groups, xd[1] / groups, wd[1]},
       out = {xd[0], groups * wd[1]};
  for (size_t i = 2; i < xd.size(); ++i) {
    left.insert(left.end(), {xd[i], 1});
    right.insert(right.end(), {1, wd[i]});
    out.push_back(xd[i] * wd[i]);
  }
  return x.reshape(left).mul(w.reshape(right)).sum({2}).reshape(out);
}

// General case: zeros between the input elements, then a convolution with the flipped kernel; gives
// the full result.
Tensor transpose_stuffed(const Tensor& x,
                         const Tensor& w,
                         const ConvSpec& spec,
                         const Dims& strides,
                         const Dims& dilations) {
  const Dims xd = x.dims();
  const Dims wd = w.dims();
  const int64_t groups = spec.groups;
  Dims split = {xd[0], xd[1]}, after = {0, 0}, joined = split, length = split, reach, kernel_axes;
  for (size_t i = 2; i < xd.size(); ++i) {
    const int64_t s = strides[i - 2];
    split.insert(split.end(), {xd[i], 1});
    after.insert(after.end(), {0, s - 1});
    joined.push_back(xd[i] * s);
    length.push_back((xd[i] - 1) * s + 1);
    reach.push_back(dilations[i - 2] * (wd[i] - 1));
    kernel_axes.push_back(static_cast<int64_t>(i + 1));
  }
  const Tensor stuffed = x.reshape(split)
                             .pad(Dims(after.size(), 0), after)
                             .reshape(joined)
                             .shrink(Dims(length.size(), 0), length);
  // (in, out/g, k) -> (out, in/g, k), kernel mirrored.
  Dims grouped = {groups, wd[0] / groups, wd[1]}, order = {0, 2, 1},
       whole = {groups * wd[1], wd[0] / groups};
  for (size_t i = 2; i < wd.size(); ++i) {
    grouped.push_back(wd[i]);
    order.push_back(static_cast<int64_t>(i + 1));
    whole.push_back(wd[i]);
  }
  const Tensor mirrored = w.reshape(grouped).permute(order).flip(kernel_axes).reshape(whole);
  ConvSpec inner;
  inner.groups = groups;
  inner.dilations = dilations;
  inner.pads_begin = reach;
  inner.pads_end = reach;
  return conv(stuffed, mirrored, std::nullopt, inner);
}

}  // namespace

Tensor conv_transpose(const Tensor& x,
                      const Tensor& weight,
                      const std::optional<Tensor>& bias,
                      const ConvSpec& spec) {
  ir::Graph& g = x.graph();
  if (broken(x) || broken(weight)) return placeholder(g);
  const Dims xd = x.dims();
  const Dims wd = weight.dims();
  const size_t n = xd.size() < 3 ? 0 : xd.size() - 2;
  if (n < 1 || n > 3 || wd.size() != xd.size() || !good_spec(spec, n) || xd[1] != wd[0] ||
      wd[0] % spec.groups != 0 || x.count() == 0 || weight.count() == 0) {
    return bad(g, conv_text("conv_transpose", x, weight, spec));
  }
  const DType t = promoted(x.dtype(), weight.dtype());
  const DType wide = ir::is_float(t) ? compute_dtype(t) : ir::sum_dtype(t);
  const Dims strides = filled(spec.strides, n, 1);
  const Dims dilations = filled(spec.dilations, n, 1);
  const Dims begin = filled(spec.pads_begin, n, 0);
  const Dims end = filled(spec.pads_end, n, 0);
  const Dims extra = filled(spec.output_padding, n, 0);
  bool apart = true;
  double largest = 1;  // of the full result, before any arithmetic on its size
  for (size_t i = 0; i < n; ++i)
    largest = std::max({largest, static_cast<double>(xd[2 + i]) * static_cast<double>(strides[i]),
                        static_cast<double>(wd[2 + i]) * static_cast<double>(dilations[i])});
  if (largest > static_cast<double>(kMaxElements))
    return bad(g, conv_text("conv_transpose: too large", x, weight, spec));
  for (size_t i = 0; i < n; ++i)
    apart = apart && wd[2 + i] == strides[i] && (dilations[i] == 1 || wd[2 + i] == 1);
  const Tensor full =
      apart ? transpose_apart(x.cast(wide), weight.cast(wide), spec.groups)
            : transpose_stuffed(x.cast(wide), weight.cast(wide), spec, strides, dilations);
  if (g.failed()) return placeholder(g);
  // Padding takes away from the full result; output padding gives back elements at the end, zeros
  // beyond it.
  const Dims fd = full.dims();
  Dims start = {0, 0}, length = {fd[0], fd[1]}, grow = {0, 0};
  for (size_t i = 0; i < n; ++i) {
    const int64_t want = fd[2 + i] - begin[i] - end[i] + extra[i];
    const int64_t have = std::min(want, fd[2 + i] - begin[i]);
    if (want < 1 || have < 1)
      return bad(g, conv_text("conv_transpose: nothing left", x, weight, spec));
    start.push_back(begin[i]);
    length.push_back(have);
    grow.push_back(want - have);
  }
  const Tensor y = full.shrink(start, length).pad(Dims(grow.size(), 0), grow);
  return finish(y, bias, ir::is_float(t) ? t : wide, "conv_transpose");
}

// ---- pooling ----

namespace {

struct PoolPlan {
  Dims begin, end;  // padding, with what ceil_mode adds at the end
  Dims extra;       // that part alone
  Dims out;
};

bool plan_pool(const Tensor& x, const WindowSpec& s, PoolPlan& p) {
  const Dims d = x.dims();
  const size_t n = s.kernel.size();
  const bool good = n >= 1 && d.size() == n + 2 && fits(s.kernel, n, 1) && fits(s.strides, n, 1) &&
                    fits(s.dilations, n, 1) && fits(s.pads_begin, n, 0) && fits(s.pads_end, n, 0);
  if (!good) return false;
  p.begin = filled(s.pads_begin, n, 0);
  p.end = filled(s.pads_end, n, 0);
  for (size_t i = 0; i < n; ++i) {
    const int64_t stride = s.strides.empty() ? 1 : s.strides[i];
    const int64_t reach = (s.dilations.empty() ? 1 : s.dilations[i]) * (s.kernel[i] - 1) + 1;
    const int64_t padded = d[2 + i] + p.begin[i] + p.end[i];
    if (padded < reach) return false;
    int64_t out = (padded - reach) / stride + 1;
    if (s.ceil_mode) {
      out = ceil_div(padded - reach, stride) + 1;
      if ((out - 1) * stride >= d[2 + i] + p.begin[i]) --out;  // a window must start inside
    }
    const int64_t extra = std::max<int64_t>(0, (out - 1) * stride + reach - padded);
    p.extra.push_back(extra);
    p.end[i] += extra;
    p.out.push_back(out);
  }
  return true;
}

std::string pool_text(const char* what, const Tensor& x, const WindowSpec& s) {
  return strf("%s: input %s, kernel %s, strides %s, dilations %s, pads %s / %s", what,
              dims_text(x.dims()).c_str(), dims_text(s.kernel).c_str(),
              dims_text(s.strides).c_str(), dims_text(s.dilations).c_str(),
              dims_text(s.pads_begin).c_str(), dims_text(s.pads_end).c_str());
}

// The windows of a padded input, exactly p.out of them, and the axes of the kernel.
Tensor pool_windows(
    const Tensor& x, const WindowSpec& s, const PoolPlan& p, Scalar fill, Dims& kernel_axes) {
  const size_t n = s.kernel.size();
  const Tensor w = windows(pad_spatial(x, p.begin, p.end, fill), s.kernel, s.strides, s.dilations);
  if (x.graph().failed()) return w;
  Dims length = w.dims();
  std::copy(p.out.begin(), p.out.end(), length.begin() + 2);
  for (size_t i = 0; i < n; ++i) kernel_axes.push_back(static_cast<int64_t>(2 + n + i));
  return w.shrink(Dims(length.size(), 0), length);
}

// How many elements each window of one axis really covers, as (out) values without storage.
Tensor cover(const Tensor& x, const WindowSpec& s, const PoolPlan& p, size_t i, DType t) {
  ir::Graph& g = x.graph();
  const int64_t stride = s.strides.empty() ? 1 : s.strides[i];
  const int64_t dilation = s.dilations.empty() ? 1 : s.dilations[i];
  const int64_t low = s.count_include_pad ? -p.begin[i] : 0;
  const int64_t high =
      x.dim(static_cast<int64_t>(2 + i)) + (s.count_include_pad ? p.end[i] - p.extra[i] : 0);
  const Tensor first = Tensor::arange(g, p.out[i]) * stride - p.begin[i];
  if (dilation == 1) return ((first + s.kernel[i]).minimum(high) - first.maximum(low)).cast(t);
  Tensor n = Tensor::full(g, {p.out[i]}, 0, DType::kI32);
  for (int64_t k = 0; k < s.kernel[i]; ++k) {
    const Tensor here = first + k * dilation;
    n = n + here.ge(low).bit_and(here.lt(high)).cast(DType::kI32);
  }
  return n.cast(t);
}

}  // namespace

Tensor max_pool(const Tensor& x, const WindowSpec& spec) {
  if (broken(x)) return placeholder(x.graph());
  PoolPlan p;
  if (!plan_pool(x, spec, p)) return bad(x.graph(), pool_text("max_pool", x, spec));
  Dims axes;
  const Scalar lowest = ir::is_float(x.dtype()) ? Scalar(-std::numeric_limits<double>::infinity())
                                                : Scalar(ir::int_min(x.dtype()));
  return pool_windows(x, spec, p, lowest, axes).max(axes);
}

Tensor average_pool(const Tensor& x, const WindowSpec& spec) {
  if (broken(x)) return placeholder(x.graph());
  PoolPlan p;
  if (!ir::is_float(x.dtype()) || !plan_pool(x, spec, p))
    return bad(x.graph(), pool_text("average_pool", x, spec));
  Dims axes;
  const DType wide = compute_dtype(x.dtype());
  const Tensor total = pool_windows(x.cast(wide), spec, p, 0, axes).sum(axes);
  auto none = [](const Dims& d) {
    return std::all_of(d.begin(), d.end(), [](int64_t v) { return v == 0; });
  };
  const bool always_full =
      none(p.extra) && (spec.count_include_pad || (none(p.begin) && none(p.end)));
  if (always_full)
    return (total * (1.0 / static_cast<double>(product(spec.kernel)))).cast(x.dtype());
  Tensor count;
  for (size_t i = 0; i < p.out.size(); ++i) {
    Dims along(p.out.size(), 1);
    along[i] = p.out[i];
    const Tensor here = cover(x, spec, p, i, wide).reshape(along);
    count = count.valid() ? count * here : here;
  }
  return (total / count).cast(x.dtype());
}

namespace {

Dims spatial_axes(const Tensor& x) {
  Dims axes;
  for (int64_t i = 2; i < x.rank(); ++i) axes.push_back(i);
  return axes;
}

}  // namespace

Tensor global_average_pool(const Tensor& x) {
  if (broken(x)) return placeholder(x.graph());
  return x.rank() < 3 ? bad(x.graph(), "global_average_pool: no spatial axes")
                      : x.mean(spatial_axes(x), true);
}

Tensor global_max_pool(const Tensor& x) {
  if (broken(x)) return placeholder(x.graph());
  return x.rank() < 3 ? bad(x.graph(), "global_max_pool: no spatial axes")
                      : x.max(spatial_axes(x), true);
}

}  // namespace modeld::tensor
