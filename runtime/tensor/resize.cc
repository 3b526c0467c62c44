// Resize: every axis gets its table of source positions (and weights) here, in f32 as other
// runtimes do, so that the graph holds only moves and gathers with constant positions.
#include <algorithm>
#include <cmath>

#include "runtime/tensor/internal.h"
#include "runtime/tensor/nn.h"

namespace modeld::tensor {
namespace {

size_t at(int64_t i) {
  return static_cast<size_t>(i);
}

struct Axis {
  int64_t in = 0;
  int64_t out = 0;
  float scale = 1;
  float roi_begin = 0;
  float roi_end = 1;
};

float source_position(const Axis& a, int64_t o, ResizeCoord coord) {
  const auto x = static_cast<float>(o);
  const auto in = static_cast<float>(a.in);
  const auto out = static_cast<float>(a.out);
  switch (coord) {
    case ResizeCoord::kHalfPixel:
      return (x + 0.5F) / a.scale - 0.5F;
    case ResizeCoord::kPytorchHalfPixel:
      return a.out > 1 ? (x + 0.5F) / a.scale - 0.5F : 0.0F;
    case ResizeCoord::kAsymmetric:
      return x / a.scale;
    case ResizeCoord::kAlignCorners:
      return a.out > 1 ? x * (in - 1) / (out - 1) : 0.0F;
    case ResizeCoord::kTfHalfPixelForNn:
      return (x + 0.5F) / a.scale;
    case ResizeCoord::kTfCropAndResize:
      if (a.out > 1)
        return a.roi_begin * (in - 1) + x * (a.roi_end - a.roi_begin) * (in - 1) / (out - 1);
      return 0.5F * (a.roi_begin + a.roi_end) * (in - 1);
  }
  return 0;
}

int64_t nearest_index(float x, const Axis& a, ResizeNearest mode) {
  float r = 0;
  switch (mode) {
    case ResizeNearest::kRoundPreferFloor:
      r = x - std::floor(x) == 0.5F ? std::floor(x) : std::round(x);
      break;
    case ResizeNearest::kRoundPreferCeil:
      r = std::floor(x + 0.5F);
      break;
    case ResizeNearest::kFloor:
      r = std::floor(x);
      break;
    case ResizeNearest::kCeil:
      r = std::ceil(x);
      break;
    case ResizeNearest::kSimple:
      r = a.scale < 1 ? std::ceil(x) : std::floor(x);
      break;
  }
  return static_cast<int64_t>(std::clamp(r, 0.0F, static_cast<float>(a.in - 1)));
}

// Sources of one axis: out = x[low] * (1 - part) + x[high] * part.
struct Table {
  Dims low;
  Dims high;
  std::vector<float> part;
  std::vector<uint8_t> inside;  // 0 = the extrapolation value

  bool is_identity(int64_t in) const {
    bool same = static_cast<int64_t>(low.size()) == in;
    for (size_t o = 0; same && o < low.size(); ++o)
      same = low[o] == static_cast<int64_t>(o) && part[o] == 0;
    return same;
  }
  bool all_inside() const {
    return std::all_of(inside.begin(), inside.end(), [](uint8_t v) { return v != 0; });
  }
};

Table make_table(const Axis& a, const ResizeSpec& spec) {
  Table t;
  for (int64_t o = 0; o < a.out; ++o) {
    const float x = a.in == a.out && a.scale == 1 && spec.coord != ResizeCoord::kTfCropAndResize
                        ? static_cast<float>(o)
                        : source_position(a, o, spec.coord);
    const bool crop = spec.coord == ResizeCoord::kTfCropAndResize;
    t.inside.push_back(!crop || (x >= 0 && x <= static_cast<float>(a.in - 1)) ? 1 : 0);
    if (spec.mode == ResizeMode::kNearest) {
      t.low.push_back(nearest_index(x, a, spec.nearest));
      t.high.push_back(t.low.back());
      t.part.push_back(0);
      continue;
    }
    const float c = std::clamp(x, 0.0F, static_cast<float>(a.in - 1));
    const auto low = static_cast<int64_t>(c);
    t.low.push_back(low);
    t.high.push_back(std::min(low + 1, a.in - 1));
    t.part.push_back(c - static_cast<float>(low));
  }
  return t;
}

// n when x[o] is taken from o / n, else 0.
int64_t repeat_factor(const Table& t, int64_t in) {
  const auto out = static_cast<int64_t>(t.low.size());
  if (in == 0 || out % in != 0) return 0;
  const int64_t n = out / in;
  for (int64_t o = 0; o < out; ++o) {
    if (t.low[at(o)] != o / n) return 0;
  }
  return n;
}

// First element and step when the sources are evenly spaced, else step 0.
Slice even_steps(const Table& t, int64_t in) {
  const int64_t step = t.low.size() > 1 ? t.low[1] - t.low[0] : 1;
  for (size_t o = 0; o < t.low.size(); ++o) {
    if (step < 1 || t.low[o] != t.low[0] + static_cast<int64_t>(o) * step) return {0, 0, 0};
  }
  return {t.low[0], std::min(t.low.back() + 1, in), step};
}

class Gatherer {
 public:
  Gatherer(const Tensor& x, WeightStore& store)
      : x_(x), store_(store), dims_(x.dims()), device_(ir::device(x.graph(), x.node())) {
    if (device_.empty()) device_ = "CPU";
  }

  // A table along one axis as a constant that broadcasts to the result.
  Tensor ints(size_t axis, const Dims& v) const {
    return Tensor::from_ints(x_.graph(), store_, v, along(axis, v.size()), DType::kI32, device_);
  }
  Tensor floats(size_t axis, const std::vector<float>& v) const {
    return Tensor::from_floats(x_.graph(), store_, v, along(axis, v.size()), device_);
  }
  // Elements at the product of per-axis positions; an axis without a table is walked as it is.
  Tensor take(const std::vector<const Dims*>& tables) const {
    int64_t stride = 1;
    Tensor position;
    for (size_t i = dims_.size(); i-- > 0;) {
      Tensor here;
      if (tables[i] != nullptr) {
        Dims scaled = *tables[i];
        for (int64_t& v : scaled) v *= stride;
        here = ints(i, scaled);
      } else {
        here = Tensor::arange(x_.graph(), dims_[i]).reshape(along(i, at(dims_[i]))) * stride;
      }
      position = position.valid() ? here + position : here;
      stride *= dims_[i];
    }
    return index_flat(x_, position);
  }

 private:
  Dims along(size_t axis, size_t n) const {
    Dims d(dims_.size(), 1);
    d[axis] = static_cast<int64_t>(n);
    return d;
  }
  const Tensor& x_;
  WeightStore& store_;
  Dims dims_;
  std::string device_;
};

Tensor resize_nearest(const Tensor& x, const std::vector<Table>& tables, WeightStore& store) {
  const Dims d = x.dims();
  std::vector<const Dims*> gathered(d.size(), nullptr);
  bool any = false;
  for (size_t i = 0; i < d.size(); ++i) {
    if (repeat_factor(tables[i], d[i]) == 0 && even_steps(tables[i], d[i]).step == 0) {
      gathered[i] = &tables[i].low;
      any = true;
    }
  }
  Tensor y = any ? Gatherer(x, store).take(gathered) : x;
  for (size_t i = 0; i < d.size(); ++i) {
    const auto axis = static_cast<int64_t>(i);
    if (gathered[i] != nullptr) continue;
    const int64_t n = repeat_factor(tables[i], d[i]);
    y = n > 0 ? y.repeat_each(axis, n) : y.slice_axis(axis, even_steps(tables[i], d[i]));
  }
  return y;
}

// Multilinear: 2^n gathers from one stored input, mixed axis by axis from the last one.
Tensor resize_linear(const Tensor& x, const std::vector<Table>& tables, WeightStore& store) {
  const Dims d = x.dims();
  const Gatherer source(x, store);
  const DType wide = compute_dtype(x.dtype());
  std::vector<size_t> mixed;
  for (size_t i = 0; i < d.size(); ++i) {
    if (!tables[i].is_identity(d[i])) mixed.push_back(i);
  }
  if (mixed.empty()) return x;
  std::vector<Tensor> corners;
  for (size_t bits = 0; bits < (size_t{1} << mixed.size()); ++bits) {
    std::vector<const Dims*> take(d.size(), nullptr);
    for (size_t m = 0; m < mixed.size(); ++m) {  // the last mixed axis is the lowest bit
      const Table& t = tables[mixed[mixed.size() - 1 - m]];
      take[mixed[mixed.size() - 1 - m]] = (bits >> m) & 1 ? &t.high : &t.low;
    }
    corners.push_back(source.take(take).cast(wide));
  }
  for (size_t m = mixed.size(); m-- > 0;) {
    const Table& t = tables[mixed[m]];
    std::vector<float> rest;
    for (const float p : t.part) rest.push_back(1 - p);
    const Tensor high = source.floats(mixed[m], t.part).cast(wide);
    const Tensor low = source.floats(mixed[m], rest).cast(wide);
    std::vector<Tensor> next;
    for (size_t c = 0; c < corners.size(); c += 2)
      next.push_back(corners[c] * low + corners[c + 1] * high);
    corners = std::move(next);
  }
  return corners[0].cast(x.dtype());
}

bool good_spec(const Tensor& x, const ResizeSpec& s) {
  const Dims d = x.dims();
  bool good = s.dims.size() == d.size() && x.count() > 0 &&
              (s.scales.empty() || s.scales.size() == d.size());
  good = good && (s.coord != ResizeCoord::kTfCropAndResize || s.roi.size() == 2 * d.size());
  for (size_t i = 0; good && i < d.size(); ++i) {
    good = s.dims[i] >= 1 && s.dims[i] <= (int64_t{1} << 24) && d[i] <= (int64_t{1} << 24);
    good = good && (s.scales.empty() || (std::isfinite(s.scales[i]) && s.scales[i] > 0));
  }
  return good && product(s.dims) <= INT32_MAX && x.count() <= INT32_MAX &&
         (s.mode == ResizeMode::kNearest || ir::is_float(x.dtype()));
}

}  // namespace

Tensor resize(const Tensor& x, const ResizeSpec& spec, WeightStore& store) {
  if (broken(x)) return placeholder(x.graph());
  if (!good_spec(x, spec)) {
    return bad(x.graph(), strf("resize: %s of %s to %s", dims_text(x.dims()).c_str(),
                               ir::dtype_name(x.dtype()), dims_text(spec.dims).c_str()));
  }
  const Dims d = x.dims();
  std::vector<Table> tables;
  for (size_t i = 0; i < d.size(); ++i) {
    Axis a{d[i], spec.dims[i], static_cast<float>(spec.dims[i]) / static_cast<float>(d[i]), 0, 1};
    if (!spec.scales.empty()) a.scale = spec.scales[i];
    if (spec.coord == ResizeCoord::kTfCropAndResize) {
      a.roi_begin = spec.roi[i];
      a.roi_end = spec.roi[d.size() + i];
    }
    tables.push_back(make_table(a, spec));
  }
  Tensor y = spec.mode == ResizeMode::kNearest ? resize_nearest(x, tables, store)
                                               : resize_linear(x, tables, store);
  for (size_t i = 0; i < d.size(); ++i) {
    if (tables[i].all_inside() || broken(y)) continue;
    const Dims inside(tables[i].inside.begin(), tables[i].inside.end());
    y = Gatherer(x, store).ints(i, inside).ne(0).where(
        y, y.literal(static_cast<double>(spec.extrapolation)));
  }
  return y;
}

}  // namespace modeld::tensor
