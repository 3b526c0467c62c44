#include "selftest/fuzz/graph_builder.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace modeld::fuzz {

using ir::DType;
using ir::Op;

namespace {

constexpr int64_t kSizes[] = {1, 2, 3, 4, 5, 7, 8, 16};

}  // namespace

std::vector<double> random_data(Rng& rng, size_t count, DType dtype) {
  std::vector<double> v(count);
  for (double& x : v) {
    const auto n = static_cast<double>(rng.below(17));
    switch (dtype) {
      case DType::kF32:
        x = (n - 8) / 2;
        break;
      case DType::kF16:
        x = n / 2 - 4 < -2 ? 1 : std::min(n / 2 - 4, 2.0);
        break;
      case DType::kBool:
        x = static_cast<double>(rng.below(2));
        break;
      case DType::kU8:
        x = rng.one_in(4) ? 200 + n : n;
        break;
      default:
        x = n - 8;
    }
  }
  return v;
}

size_t GraphBuilder::any() {
  std::vector<size_t> all;
  for (const size_t t : engine.tensors())
    if (is_on_one_device(t)) all.push_back(t);
  const size_t from = rng.one_in(2) ? 0 : all.size() - std::min<size_t>(all.size(), 4);
  return all[from + rng.below(all.size() - from)];
}

size_t GraphBuilder::any_of(DType type, int dev) {
  std::vector<size_t> all;
  for (const size_t t : engine.tensors())
    if (dtype(t) == type && device(t) == dev) all.push_back(t);
  return all.empty() ? kNone : all[rng.below(all.size())];
}

size_t GraphBuilder::any_target() {
  std::vector<size_t> all;
  for (const size_t t : engine.tensors())
    if (is_on_one_device(t) && engine.can_assign(t)) all.push_back(t);
  return all.empty() ? kNone : all[rng.below(all.size())];
}

size_t GraphBuilder::put(Step step) {
  if (std::find(step.args.begin(), step.args.end(), kNone) != step.args.end()) return kNone;
  const size_t number = program.steps.size();
  if (!engine.apply(step, number).ok()) return kNone;
  program.steps.push_back(std::move(step));
  return number;
}

size_t GraphBuilder::input(const Ints& size, DType type, int dev) {
  Step s = step_of(StepKind::kInput);
  s.dtype = type;
  s.a = size;
  s.device = dev;
  s.data = random_data(rng, static_cast<size_t>(testing::count_of(size)), type);
  return put(std::move(s));
}

size_t GraphBuilder::full(double v, DType type) {
  Step s = step_of(StepKind::kFull);
  s.dtype = type;
  s.data = {v};
  return put(std::move(s));
}

size_t GraphBuilder::variable(const std::string& name, double value) {
  Step s = step_of(StepKind::kVariable);
  s.name = name;
  s.a = {1, 9};
  s.data = {value};
  return put(std::move(s));
}

size_t GraphBuilder::alu(Op op, std::vector<size_t> args) {
  Step s = step_of(StepKind::kAlu, std::move(args));
  s.op = op;
  return put(std::move(s));
}

size_t GraphBuilder::cast(size_t x, DType to) {
  Step s = step_of(StepKind::kCast, {x});
  s.dtype = to;
  return put(std::move(s));
}

size_t GraphBuilder::move(StepKind kind, size_t x, Ints a, Ints b) {
  Step s = step_of(kind, {x});
  s.a = std::move(a);
  s.b = std::move(b);
  return put(std::move(s));
}

size_t GraphBuilder::reduce(Op op, size_t x, const Ints& axes) {
  Step s = step_of(StepKind::kReduce, {x});
  s.op = op;
  s.a = axes;
  return put(std::move(s));
}

size_t GraphBuilder::cat(const std::vector<size_t>& parts, int64_t axis) {
  Step s = step_of(StepKind::kCat, parts);
  s.a = {axis};
  return put(std::move(s));
}

size_t GraphBuilder::contiguous(size_t x) {
  return put(step_of(StepKind::kContiguous, {x}));
}

size_t GraphBuilder::copy(size_t x, int to) {
  Step s = step_of(StepKind::kCopy, {x});
  s.device = to;
  return put(std::move(s));
}

size_t GraphBuilder::shard(size_t x, int64_t axis, int64_t devices) {
  Step s = step_of(StepKind::kShard, {x});
  s.a = {axis, devices};
  return put(std::move(s));
}

void GraphBuilder::assign(size_t dst, size_t x) {
  put(step_of(StepKind::kAssign, {dst, x}));
}

void GraphBuilder::drop(size_t t) {
  put(step_of(StepKind::kDrop, {t}));
}

void GraphBuilder::track(size_t t) {
  put(step_of(StepKind::kTrack, {t}));
}

bool GraphBuilder::realize(std::vector<size_t> wanted, bool must_fail) {
  Step s = step_of(StepKind::kRealize, std::move(wanted));
  s.must_fail = must_fail;
  const auto f = engine.forecast(s);
  if (!f.ok()) return true;
  const bool sure = !f->may_fail();
  if (sure) engine.commit(s);
  program.steps.push_back(std::move(s));
  return sure;
}

Ints GraphBuilder::random_dims(int64_t most) {
  Ints d(rng.below(10) == 0 ? 0 : 1 + rng.below(3));
  for (int64_t& v : d) v = kSizes[rng.below(std::size(kSizes))];
  while (testing::count_of(d) > most) d.pop_back();
  return d;
}

size_t GraphBuilder::random_move(size_t x) {
  const size_t rank = dims(x).size();
  switch (rng.below(7)) {
    case 0:
      return reshaped(x);
    case 1: {
      Ints order(rank);
      std::iota(order.begin(), order.end(), 0);
      for (size_t i = rank; i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);
      return move(StepKind::kPermute, x, order);
    }
    case 2:
      return expanded(x);
    case 3:
      return padded(x);
    case 4:
    case 5:
      return shrunk(x);
    default: {
      Ints axes;
      for (size_t i = 0; i < rank; ++i)
        if (rng.one_in(2)) axes.push_back(static_cast<int64_t>(i));
      return move(StepKind::kFlip, x, axes);
    }
  }
}

// Two axes become one, or one becomes two.
size_t GraphBuilder::reshaped(size_t x) {
  Ints d = dims(x);
  if (rng.one_in(5)) return move(StepKind::kReshape, x, {count(x)});
  if (d.size() >= 2 && rng.one_in(2)) {
    const size_t i = rng.below(d.size() - 1);
    d[i] *= d[i + 1];
    d.erase(d.begin() + static_cast<int64_t>(i) + 1);
    return move(StepKind::kReshape, x, d);
  }
  if (d.size() >= 4) return move(StepKind::kReshape, x, {count(x)});
  const size_t i = rng.below(d.size() + 1);
  int64_t factor = 1;
  for (const int64_t f : {2, 3, 5, 7, 4})
    if (i < d.size() && d[i] % f == 0 && rng.one_in(2)) factor = f;
  if (i < d.size()) d[i] /= factor;
  d.insert(d.begin() + static_cast<int64_t>(i), factor);
  return move(StepKind::kReshape, x, d);
}

size_t GraphBuilder::shrunk(size_t x) {
  Ints from, size;
  for (const int64_t d : dims(x)) {
    const auto n = static_cast<uint64_t>(d);
    from.push_back(rng.one_in(3) ? 0 : static_cast<int64_t>(rng.below(n)));
    const auto left = static_cast<uint64_t>(d - from.back());
    size.push_back(static_cast<int64_t>(rng.one_in(2) ? left : 1 + rng.below(left)));
  }
  return move(StepKind::kShrink, x, from, size);
}

size_t GraphBuilder::padded(size_t x) {
  if (count(x) > 64) return shrunk(x);
  Ints before, after;
  for (size_t i = 0; i < dims(x).size(); ++i) {
    before.push_back(static_cast<int64_t>(rng.below(3)));
    after.push_back(static_cast<int64_t>(rng.below(3)));
  }
  return move(StepKind::kPad, x, before, after);
}

size_t GraphBuilder::expanded(size_t x) {
  Ints d = dims(x);
  const int64_t n = kSizes[1 + rng.below(4)];
  if (count(x) * n > kMostElements) return shrunk(x);
  std::vector<size_t> ones;
  for (size_t i = 0; i < d.size(); ++i)
    if (d[i] == 1) ones.push_back(i);
  if (ones.empty()) {
    if (d.size() >= 4) return reshaped(x);
    d.insert(d.begin(), n);
  } else {
    d[ones[rng.below(ones.size())]] = n;
  }
  return move(StepKind::kExpand, x, d);
}

size_t GraphBuilder::fit(size_t x, Ints to) {
  if (x == kNone || dims(x) == to) return x;
  const int64_t need = testing::count_of(to);
  size_t flat = move(StepKind::kReshape, x, {count(x)});
  if (count(x) < need) {
    const int64_t times = (need + count(x) - 1) / count(x);
    flat =
        move(StepKind::kExpand, move(StepKind::kReshape, flat, {1, count(x)}), {times, count(x)});
    flat = move(StepKind::kReshape, flat, {times * count(x)});
  }
  if (count(flat) > need) {
    const auto spare = static_cast<uint64_t>(count(flat) - need);
    flat = move(StepKind::kShrink, flat, {static_cast<int64_t>(rng.below(spare + 1))}, {need});
  }
  return move(StepKind::kReshape, flat, std::move(to));
}

size_t GraphBuilder::tame(size_t x) {
  if (x == kNone || dtype(x) == DType::kBool) return x;
  const DType t = dtype(x);
  if (!ir::is_float(t)) return alu(Op::kAnd, {x, full(7, t)});
  const size_t low = full(-2, t);
  const size_t flipped = alu(Op::kNeg, {alu(Op::kMax, {x, low})});
  return alu(Op::kTrunc, {alu(Op::kMax, {flipped, low})});
}

size_t GraphBuilder::as(size_t x, DType to) {
  if (x == kNone || dtype(x) == to) return x;
  const bool to_small = to == DType::kF16 || to == DType::kU8;
  if (to == DType::kU8 && ir::is_float(dtype(x))) x = cast(tame(x), DType::kI32);
  const size_t made = cast(x, to);
  return made != kNone || !to_small ? made : cast(tame(x), to);
}

}  // namespace modeld::fuzz
