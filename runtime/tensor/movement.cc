// Movement methods: they only change which element is meant; nothing is copied.
// EXPAND adds leading axes, so a broadcast axis is dropped, added in front, and moved back.
#include <algorithm>
#include <numeric>

#include "runtime/tensor/internal.h"
#include "runtime/tensor/tensor.h"

namespace modeld::tensor {
namespace {

using ir::Op;

size_t at(int64_t i) {
  return static_cast<size_t>(i);
}

Tensor move(const Tensor& x, Op op, std::initializer_list<Dims> shapes) {
  ir::Graph& g = x.graph();
  ir::NodeVec src = {x.node()};
  for (const Dims& d : shapes) src.push_back(ir::shape_node(g, d));
  return {g, g.make(op, x.dtype(), src)};
}

bool same_rank(const Tensor& x, const Dims& list, const char* what) {
  if (list.size() == x.dims().size()) return true;
  x.graph().fail(Errc::kInvalid, strf("%s: %zu numbers for the axes of %s", what, list.size(),
                                      dims_text(x.dims()).c_str()));
  return false;
}

}  // namespace

Tensor Tensor::reshape(const Dims& dims) const {
  if (broken(*this)) return placeholder(*graph_);
  const Dims have = this->dims();
  Dims want = dims;
  const auto infer = std::find(want.begin(), want.end(), -1);
  if (infer != want.end()) {
    *infer = 1;
    const int64_t rest = product(want);
    *infer = rest > 0 && product(have) % rest == 0 ? product(have) / rest : -1;
  }
  const bool negative = std::any_of(want.begin(), want.end(), [](int64_t d) { return d < 0; });
  if (negative || product(want) != product(have)) {
    return bad(*graph_,
               strf("reshape: %s to %s", dims_text(have).c_str(), dims_text(dims).c_str()));
  }
  if (want == have) return *this;
  if (node_->is(Op::kReshape)) return Tensor(*graph_, node_->src(0)).reshape(want);
  return move(*this, Op::kReshape, {want});
}

Tensor Tensor::permute(const Dims& order) const {
  if (broken(*this) || !same_rank(*this, order, "permute")) return placeholder(*graph_);
  const auto n = static_cast<int64_t>(order.size());
  Dims axes;
  for (const int64_t a : order) axes.push_back(wrap_axis(*graph_, a, n, "permute"));
  Dims sorted = axes;
  std::sort(sorted.begin(), sorted.end());
  Dims identity(at(n));
  std::iota(identity.begin(), identity.end(), 0);
  if (graph_->failed()) return placeholder(*graph_);
  if (sorted != identity) return bad(*graph_, "permute: not a permutation of the axes");
  if (axes == identity) return *this;
  if (node_->is(Op::kPermute)) {
    const Dims& inner = node_->as<ir::Ints>();
    Dims both;
    for (const int64_t a : axes) both.push_back(inner[at(a)]);
    return Tensor(*graph_, node_->src(0)).permute(both);
  }
  return {*graph_, graph_->make(Op::kPermute, dtype(), {node_}, axes)};
}

Tensor Tensor::transpose(int64_t a, int64_t b) const {
  if (broken(*this)) return placeholder(*graph_);
  const int64_t n = rank();
  a = wrap_axis(*graph_, a, n, "transpose");
  b = wrap_axis(*graph_, b, n, "transpose");
  if (graph_->failed()) return placeholder(*graph_);
  Dims order(at(n));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[at(a)], order[at(b)]);
  return permute(order);
}

Tensor Tensor::flip(const Dims& axes) const {
  if (broken(*this) || axes.empty()) return *this;
  const Dims d = dims();
  ir::Ints flags(d.size(), 0);
  for (const int64_t a : wrap_axes(*graph_, axes, rank(), "flip")) {
    if (!d.empty() && d[at(a)] > 1) flags[at(a)] = 1;
  }
  if (graph_->failed()) return placeholder(*graph_);
  if (std::find(flags.begin(), flags.end(), 1) == flags.end()) return *this;
  return {*graph_, graph_->make(Op::kFlip, dtype(), {node_}, flags)};
}

Tensor Tensor::expand(const Dims& dims) const {
  if (broken(*this)) return placeholder(*graph_);
  const Dims have = this->dims();
  Dims want = dims;
  if (want.size() < have.size())
    return bad(*graph_, strf("expand: %s to %s", dims_text(have).c_str(), dims_text(dims).c_str()));
  const size_t lead = want.size() - have.size();
  Dims added, kept, order(want.size(), -1);
  for (size_t i = 0; i < want.size(); ++i) {
    const int64_t h = i < lead ? 1 : have[i - lead];
    if (want[i] == -1 && i >= lead) want[i] = h;
    if (want[i] < 0 || (h != want[i] && h != 1)) {
      return bad(*graph_,
                 strf("expand: %s to %s", dims_text(have).c_str(), dims_text(dims).c_str()));
    }
    if (h != want[i] || i < lead) {
      order[i] = static_cast<int64_t>(added.size());
      added.push_back(want[i]);
    } else {
      kept.push_back(h);
    }
  }
  if (added.empty()) return *this;
  if (product(want) > kMaxElements)
    return bad(*graph_, strf("expand: %s is too large", dims_text(want).c_str()));
  auto next = static_cast<int64_t>(added.size());
  for (int64_t& o : order) {
    if (o < 0) o = next++;
  }
  return move(reshape(kept), Op::kExpand, {added}).permute(order);
}

Tensor Tensor::pad(const Dims& before, const Dims& after, Scalar value) const {
  if (broken(*this) || !same_rank(*this, before, "pad") || !same_rank(*this, after, "pad"))
    return placeholder(*graph_);
  const Dims have = dims();
  Dims total(have.size());
  for (size_t i = 0; i < have.size(); ++i) {
    if (before[i] < 0 || after[i] < 0)
      return bad(*graph_, strf("pad: negative padding on axis %zu", i));
    if (__builtin_add_overflow(have[i] + before[i], after[i], &total[i]))
      return bad(*graph_, "pad: too large");
  }
  if (product(total) > kMaxElements) return bad(*graph_, "pad: too large");
  if (total == have) return *this;
  const Tensor padded = move(*this, Op::kPad, {before, total});
  if (value.f == 0) return padded;
  const Tensor inside = full(*graph_, have, 1, DType::kBool).pad(before, after);
  return inside.where(padded, constant(*graph_, value, dtype()));
}

Tensor Tensor::shrink(const Dims& starts, const Dims& lengths) const {
  if (broken(*this) || !same_rank(*this, starts, "shrink") || !same_rank(*this, lengths, "shrink"))
    return placeholder(*graph_);
  const Dims have = dims();
  for (size_t i = 0; i < have.size(); ++i) {
    if (starts[i] < 0 || lengths[i] < 0 || lengths[i] > have[i] - starts[i]) {
      return bad(*graph_, strf("shrink: %lld elements from %lld on axis %zu of %s",
                               static_cast<long long>(lengths[i]),
                               static_cast<long long>(starts[i]), i, dims_text(have).c_str()));
    }
  }
  if (lengths == have) return *this;
  return move(*this, Op::kShrink, {starts, lengths});
}

namespace {

// begin and number of elements of one slice, begin counted in walking direction.
struct Span {
  int64_t begin;
  int64_t count;
};

Span resolve(const Slice& s, int64_t dim) {
  const bool back = s.step < 0;
  const int64_t low = back ? -1 : 0;
  const int64_t high = back ? dim - 1 : dim;
  auto clip = [&](int64_t v) {
    if (v == Slice::kToFront) return low;
    if (v == Slice::kToEnd) return high;
    return std::clamp(v < 0 ? v + dim : v, low, high);
  };
  const int64_t begin = clip(s.begin);
  const int64_t end = clip(s.end);
  const int64_t span = back ? begin - end : end - begin;
  const int64_t step = back ? -s.step : s.step;
  return {begin, span <= 0 ? 0 : (span - 1) / step + 1};
}

// Every step-th element of an axis.
Tensor take_every(const Tensor& x, int64_t axis, int64_t step) {
  Dims d = x.dims();
  const int64_t n = (d[at(axis)] + step - 1) / step;
  Dims zero(d.size(), 0);
  Dims after = zero;
  after[at(axis)] = n * step - d[at(axis)];
  Dims split = d;
  split[at(axis)] = n;
  split.insert(split.begin() + axis + 1, step);
  Dims first = split;
  first[at(axis + 1)] = 1;
  d[at(axis)] = n;
  return x.pad(zero, after).reshape(split).shrink(Dims(split.size(), 0), first).reshape(d);
}

}  // namespace

Tensor Tensor::slice(std::span<const Slice> axes) const {
  if (broken(*this)) return placeholder(*graph_);
  const Dims d = dims();
  if (axes.size() > d.size())
    return bad(*graph_, strf("slice: %zu axes of %s", axes.size(), dims_text(d).c_str()));
  Dims starts(d.size(), 0), lengths = d, flipped;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t step = axes[i].step;
    if (step == 0 || step == INT64_MIN)
      return bad(*graph_, strf("slice: step %lld on axis %zu", static_cast<long long>(step), i));
    const Span s = resolve(axes[i], d[i]);
    const int64_t reach =
        s.count == 0 ? 0 : (s.count - 1) * std::abs(step) + 1;  // elements walked over
    lengths[i] = reach;
    starts[i] = s.count == 0 ? 0 : (step < 0 ? s.begin - reach + 1 : s.begin);
    if (step < 0) flipped.push_back(static_cast<int64_t>(i));
  }
  Tensor out = shrink(starts, lengths).flip(flipped);
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t step = std::abs(axes[i].step);
    if (step > 1 && lengths[i] > 1) out = take_every(out, static_cast<int64_t>(i), step);
  }
  return out;
}

Tensor Tensor::slice_axis(int64_t axis, Slice s) const {
  if (broken(*this)) return placeholder(*graph_);
  std::vector<Slice> all(at(wrap_axis(*graph_, axis, rank(), "slice")) + 1);
  all.back() = s;
  return slice(all);
}

Tensor Tensor::squeeze(const Dims& axes) const {
  if (broken(*this)) return placeholder(*graph_);
  const Dims d = dims();
  Dims out;
  const Dims gone = axes.empty() ? Dims{} : wrap_axes(*graph_, axes, rank(), "squeeze");
  if (graph_->failed()) return placeholder(*graph_);
  for (size_t i = 0; i < d.size(); ++i) {
    const bool named = std::find(gone.begin(), gone.end(), static_cast<int64_t>(i)) != gone.end();
    if (named && d[i] != 1)
      return bad(*graph_, strf("squeeze: axis %zu of %s is not 1", i, dims_text(d).c_str()));
    if (!(named || (axes.empty() && d[i] == 1))) out.push_back(d[i]);
  }
  return reshape(out);
}

Tensor Tensor::unsqueeze(const Dims& axes) const {
  if (broken(*this) || axes.empty()) return *this;
  const Dims d = dims();
  const auto n = static_cast<int64_t>(d.size() + axes.size());
  const Dims where_ones = wrap_axes(*graph_, axes, n, "unsqueeze");
  if (graph_->failed()) return placeholder(*graph_);
  Dims out(at(n), 0);
  for (const int64_t a : where_ones) out[at(a)] = 1;
  size_t next = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    if (!std::binary_search(where_ones.begin(), where_ones.end(), static_cast<int64_t>(i)))
      out[i] = d[next++];
  }
  return reshape(out);
}

Tensor Tensor::flatten(int64_t from, int64_t to) const {
  if (broken(*this)) return placeholder(*graph_);
  const Dims d = dims();
  if (d.empty()) return reshape({1});
  from = wrap_axis(*graph_, from, rank(), "flatten");
  to = wrap_axis(*graph_, to, rank(), "flatten");
  if (graph_->failed()) return placeholder(*graph_);
  if (from > to) return bad(*graph_, "flatten: first axis behind the last");
  Dims out(d.begin(), d.begin() + from);
  out.push_back(product(std::span<const int64_t>(d).subspan(at(from), at(to - from + 1))));
  out.insert(out.end(), d.begin() + to + 1, d.end());
  return reshape(out);
}

Tensor Tensor::repeat(const Dims& times) const {
  if (broken(*this) || !same_rank(*this, times, "repeat")) return placeholder(*graph_);
  const Dims d = dims();
  Dims split, grown, out;
  for (size_t i = 0; i < d.size(); ++i) {
    if (times[i] < 0 || times[i] > kMaxElements ||
        static_cast<double>(d[i]) * static_cast<double>(times[i]) >
            static_cast<double>(kMaxElements))
      return bad(*graph_,
                 strf("repeat: %s times %s", dims_text(d).c_str(), dims_text(times).c_str()));
    if (times[i] != 1) {
      split.push_back(1);
      grown.push_back(times[i]);
    }
    split.push_back(d[i]);
    grown.push_back(d[i]);
    out.push_back(d[i] * times[i]);
  }
  return reshape(split).expand(grown).reshape(out);
}

Tensor Tensor::repeat_each(int64_t axis, int64_t n) const {
  if (broken(*this)) return placeholder(*graph_);
  const Dims d = dims();
  axis = wrap_axis(*graph_, axis, rank(), "repeat_each");
  if (n < 0 || n > INT32_MAX || product(d) > INT32_MAX)
    return bad(*graph_, "repeat_each: bad count");
  if (graph_->failed() || n == 1) return *this;
  Dims split = d;
  split.insert(split.begin() + axis + 1, 1);
  Dims grown = split;
  grown[at(axis + 1)] = n;
  Dims out = d;
  out[at(axis)] *= n;
  return reshape(split).expand(grown).reshape(out);
}

std::vector<Tensor> Tensor::split(const Dims& sizes, int64_t axis) const {
  std::vector<Tensor> out(sizes.size(), placeholder(*graph_));
  if (broken(*this)) return out;
  axis = wrap_axis(*graph_, axis, rank(), "split");
  if (graph_->failed()) return out;
  const Dims d = dims();
  int64_t left = d[at(axis)];
  for (const int64_t s : sizes) left = s < 0 || s > left || left < 0 ? -1 : left - s;
  if (left != 0) {
    bad(*graph_, strf("split: parts %s of axis %lld of %s", dims_text(sizes).c_str(),
                      static_cast<long long>(axis), dims_text(d).c_str()));
    return out;
  }
  Dims starts(d.size(), 0), lengths = d;
  for (size_t i = 0; i < sizes.size(); ++i) {
    lengths[at(axis)] = sizes[i];
    out[i] = shrink(starts, lengths);
    starts[at(axis)] += sizes[i];
  }
  return out;
}

// Each part is padded to the whole with zeros; the sum (or "or") of disjoint parts is the
// concatenation.
Tensor concat(std::span<const Tensor> parts, int64_t axis) {
  CHECK(!parts.empty());
  ir::Graph& g = parts[0].graph();
  if (broken(parts[0])) return placeholder(g);
  const Dims first = parts[0].dims();
  axis = wrap_axis(g, axis, static_cast<int64_t>(first.size()), "concat");
  int64_t total = 0;
  DType t = parts[0].dtype();
  for (const Tensor& p : parts) {
    if (broken(p)) return placeholder(g);
    Dims d = p.dims();
    if (d.size() == first.size() && !d.empty()) {
      total = std::min(total + d[at(axis)], kMaxElements);
      d[at(axis)] = first[at(axis)];
    }
    if (d != first) {
      return bad(g, strf("concat: %s beside %s on axis %lld", dims_text(p.dims()).c_str(),
                         dims_text(first).c_str(), static_cast<long long>(axis)));
    }
    t = promoted(t, p.dtype());
  }
  if (parts.size() == 1) return parts[0];
  Tensor out;
  Dims before(first.size(), 0), after(first.size(), 0);
  for (const Tensor& p : parts) {
    const int64_t len = p.dims()[at(axis)];
    after[at(axis)] = total - before[at(axis)] - len;
    const Tensor wide = p.cast(t).pad(before, after);
    before[at(axis)] += len;
    if (len == 0) continue;
    out = !out.valid() ? wide : (t == DType::kBool ? out.bit_or(wide) : out.add(wide));
  }
  return out.valid() ? out : parts[0].cast(t);
}

Tensor stack(std::span<const Tensor> parts, int64_t axis) {
  CHECK(!parts.empty());
  std::vector<Tensor> wide;
  for (const Tensor& p : parts) wide.push_back(p.unsqueeze({axis}));
  return concat(wide, axis);
}

}  // namespace modeld::tensor
