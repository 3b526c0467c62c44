// Random tensor graphs: what the scheduled kernels compute must be what the tensor interpreter
// computes, whatever fuses with whatever. Seeds are fixed; a failure prints its seed.
#include <random>

#include "selftest/schedule/schedule_lab.h"

namespace modeld::schedule::test {
namespace {

class RandomGraph {
 public:
  RandomGraph(ScheduleLab* lab, uint64_t seed) : lab_(lab), rng_(seed) {
    for (int i = 0; i < 3; i++) values_.push_back(lab->random(random_dims(), seed * 10 + pick(7)));
    const size_t steps = 3 + pick(10);
    for (size_t i = 0; i < steps; i++) values_.push_back(step(any()));
  }

  std::vector<Tensor> outputs() {
    std::vector<Tensor> out{values_.back()};
    for (size_t i = pick(3); i > 0; i--) out.push_back(any());
    return out;
  }

 private:
  size_t pick(size_t n) { return rng_() % n; }
  Tensor any() { return values_[pick(values_.size())]; }

  Dims random_dims() {
    static constexpr int64_t kSizes[] = {1, 2, 3, 4, 5, 7, 8};
    Dims d(1 + pick(3));
    for (int64_t& v : d) v = kSizes[pick(7)];
    return d;
  }

  Dims ones(size_t rank, int64_t v) { return Dims(rank, v); }

  // A tensor with the given dims, made from another by cutting and repeating.
  Tensor fit(const Tensor& x, const Dims& dims) {
    Tensor flat = x.flatten();
    const int64_t need = tensor::product(dims);
    if (flat.count() < need) flat = flat.repeat({(need + flat.count() - 1) / flat.count()});
    return flat.shrink({0}, {need}).reshape(dims);
  }

  Tensor step(const Tensor& x) {
    const auto rank = static_cast<size_t>(x.rank());
    switch (pick(18)) {
      case 0:
        return x + fit(any(), x.dims());
      case 1:
        return x * fit(any(), x.dims());
      case 2:
        return x.maximum(fit(any(), x.dims()));
      case 3:
        return x.lt(0.25).where(x, fit(any(), x.dims()));
      case 4:
        return (x * 8).cast(DType::kI32).cast(DType::kF32) * 0.125;
      case 5:
        return x.flatten();
      case 6:
        return rank > 1 ? x.transpose(0, -1) : x.reshape({x.count(), 1});
      case 7:
        return rank < 4 ? x.unsqueeze({0}).expand(with_first(x.dims(), 2)) : x;
      case 8:
        return x.count() < 400 ? x.pad(ones(rank, static_cast<int64_t>(pick(2))), ones(rank, 1))
                               : x;
      case 9:
        return shrink(x);
      case 10:
        return x.flip({static_cast<int64_t>(pick(rank))});
      case 11:
        return x.sum({static_cast<int64_t>(pick(rank))}, true);
      case 12:
        return rank > 1 ? x.max({static_cast<int64_t>(pick(rank))}) : x;
      case 13:
        return x.contiguous();
      case 14:
        return x - x.max({static_cast<int64_t>(pick(rank))}, true);
      case 15:
        return x.exp2() * 0.25;
      case 16:
        return gather(x);
      default:
        return concat(x);
    }
  }

  Dims with_first(Dims d, int64_t v) {
    d.insert(d.begin(), v);
    return d;
  }

  Tensor shrink(const Tensor& x) {
    Dims start, size;
    for (int64_t d : x.dims()) {
      start.push_back(static_cast<int64_t>(pick(static_cast<size_t>(d))));
      size.push_back(1 + static_cast<int64_t>(pick(static_cast<size_t>(d - start.back()))));
    }
    return x.shrink(start, size);
  }

  Tensor gather(const Tensor& x) {
    const Tensor index = lab_->ints({3}, {0, -1, static_cast<int64_t>(pick(9))});
    return tensor::gather(x, index, static_cast<int64_t>(pick(static_cast<size_t>(x.rank()))));
  }

  Tensor concat(const Tensor& x) {
    if (x.count() > 400) return x;
    const Tensor parts[] = {x, x * 2};
    return tensor::concat(parts, static_cast<int64_t>(pick(static_cast<size_t>(x.rank()))));
  }

  ScheduleLab* lab_;
  std::mt19937_64 rng_;
  std::vector<Tensor> values_;
};

TEST(RandomGraphs, KernelsComputeWhatTheTensorInterpreterComputes) {
  const uint64_t first = 1, last = 60;
  for (uint64_t seed = first; seed <= last; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ScheduleLab lab;
    RandomGraph graph(&lab, seed);
    lab.kernels(graph.outputs(), 2e-5);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace modeld::schedule::test
