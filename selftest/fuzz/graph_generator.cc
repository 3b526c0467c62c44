#include "selftest/fuzz/graph_generator.h"

#include <algorithm>
#include <utility>

#include "selftest/fuzz/graph_builder.h"
#include "selftest/fuzz/graph_patterns.h"

namespace modeld::fuzz {

using ir::DType;
using ir::Op;

namespace {

constexpr DType kTypes[] = {DType::kF32, DType::kF32, DType::kF32, DType::kF16,
                            DType::kI32, DType::kI32, DType::kU8,  DType::kBool};

class Generator {
 public:
  explicit Generator(Rng& rng) : b_(rng), rng_(rng) {}

  Program run() {
    devices_ = rng_.one_in(4) ? 2 + static_cast<int>(rng_.below(2)) : 1;
    inputs();
    const size_t target = 5 + rng_.below(9);
    const size_t pattern_at = rng_.below(target);
    bool sure = true;
    // Steps that do not fit are not counted; the limit is for programs where nothing fits.
    for (size_t tries = 0; sure && tries < 60 && b_.nodes() < target; ++tries) {
      if (!has_pattern_ && b_.nodes() >= pattern_at) {
        has_pattern_ = true;
        sure = random_pattern(b_);
      } else {
        sure = step();
      }
    }
    finish(sure);
    return std::move(b_.program);
  }

 private:
  int any_device() { return static_cast<int>(rng_.below(static_cast<uint64_t>(devices_))); }

  void inputs() {
    const Ints shared = b_.random_dims(64);
    const DType type = kTypes[rng_.below(std::size(kTypes))];
    for (uint64_t n = 2 + rng_.below(3); n > 0; --n) {
      const bool alike = rng_.one_in(2);
      b_.input(alike ? shared : b_.random_dims(64),
               alike ? type : kTypes[rng_.below(std::size(kTypes))], any_device());
    }
  }

  // False: a realize that may be refused, nothing is known of memory after it.
  bool step() {
    const size_t x = b_.any();
    switch (rng_.below(24)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
        b_.random_move(x);
        return true;
      case 5:
      case 6:
      case 7:
      case 8:
      case 9:
        binary(x);
        return true;
      case 10:
        where(x);
        return true;
      case 11:
        b_.as(x, kTypes[rng_.below(std::size(kTypes))]);
        return true;
      case 12:
      case 13:
        reduce(x);
        return true;
      case 14:
        cat(x);
        return true;
      case 15:
      case 16:
        b_.contiguous(x);
        return true;
      case 17:
        with_variable(x);
        return true;
      case 18:
        if (devices_ > 1) b_.copy(x, any_device());
        return true;
      case 19:
        if (b_.engine.tensors().size() > 4) b_.drop(x);
        return true;
      case 20:
      case 21:
        random_assign(b_);
        return true;
      default:
        return b_.realize(subset(1 + rng_.below(3)));
    }
  }

  void binary(size_t x) {
    static constexpr Op kFloat[] = {Op::kAdd, Op::kMul, Op::kMax, Op::kSub, Op::kCmpLt, Op::kCmpNe};
    static constexpr Op kWhole[] = {Op::kAdd, Op::kMul, Op::kMax, Op::kSub,
                                    Op::kAnd, Op::kXor, Op::kOr,  Op::kCmpLt};
    static constexpr Op kTruth[] = {Op::kAnd, Op::kOr, Op::kXor, Op::kCmpNe};
    const DType t = b_.dtype(x);
    const Op op = ir::is_float(t)     ? kFloat[rng_.below(std::size(kFloat))]
                  : t == DType::kBool ? kTruth[rng_.below(std::size(kTruth))]
                                      : kWhole[rng_.below(std::size(kWhole))];
    const size_t y = other(x);
    if (b_.alu(op, {x, y}) == GraphBuilder::kNone) b_.alu(op, {b_.tame(x), b_.tame(y)});
  }

  // An operand beside x: of its type and device, of its dims or broadcast to it.
  size_t other(size_t x) {
    const DType t = b_.dtype(x);
    if (rng_.one_in(5))
      return b_.full(static_cast<double>(rng_.below(t == DType::kBool ? 2 : 4)), t);
    size_t y = b_.any_of(t, b_.device(x));
    if (y == GraphBuilder::kNone || rng_.one_in(6)) {
      const size_t z = b_.any();
      if (b_.device(z) == b_.device(x)) y = b_.as(z, t);
    }
    if (y == GraphBuilder::kNone) return x;
    if (testing::broadcasts(b_.dims(x), b_.dims(y)) &&
        testing::count_of(testing::broadcast(b_.dims(x), b_.dims(y))) <= kMostElements)
      return y;
    Ints to = b_.dims(x);
    if (!to.empty() && rng_.one_in(3)) to[rng_.below(to.size())] = 1;
    return b_.fit(y, to);
  }

  void where(size_t x) {
    size_t cond = b_.any_of(DType::kBool, b_.device(x));
    if (cond == GraphBuilder::kNone || rng_.one_in(2)) {
      if (b_.dtype(x) == DType::kBool) return;
      cond = b_.alu(Op::kCmpLt, {x, b_.full(1, b_.dtype(x))});
    } else {
      cond = b_.fit(cond, b_.dims(x));
    }
    const size_t y = other(x);
    if (rng_.one_in(2))
      b_.alu(Op::kWhere, {cond, x, y});
    else
      b_.alu(Op::kWhere, {cond, y, x});
  }

  void reduce(size_t x) {
    Ints axes;
    for (size_t i = 0; i < b_.dims(x).size(); ++i)
      if (rng_.one_in(2)) axes.push_back(static_cast<int64_t>(i));
    const Op op = rng_.one_in(3) ? Op::kMax : Op::kAdd;
    size_t r = b_.reduce(op, x, axes);
    if (r == GraphBuilder::kNone) r = b_.reduce(op, b_.tame(x), axes);
    if (r == GraphBuilder::kNone) return;
    if (b_.dtype(r) == DType::kU32) r = b_.cast(r, DType::kI32);
    // What follows a reduce most often: it meets the value it came from.
    if (b_.dtype(r) == b_.dtype(x) && rng_.one_in(2)) b_.alu(Op::kMax, {x, r});
  }

  void cat(size_t x) {
    if (b_.dims(x).empty() || b_.count(x) > kMostElements / 2) return;
    const auto axis = rng_.below(b_.dims(x).size());
    size_t y = other(x);
    y = b_.fit(y, b_.dims(x));
    b_.cat({x, y}, static_cast<int64_t>(axis));
  }

  void with_variable(size_t x) {
    if (ir::is_float(b_.dtype(x)) || b_.dtype(x) == DType::kBool) x = b_.as(x, DType::kI32);
    if (x == GraphBuilder::kNone || b_.dtype(x) != DType::kI32) return;
    const size_t v = random_variable(b_);
    if (b_.alu(rng_.one_in(2) ? Op::kAdd : Op::kMul, {x, v}) == GraphBuilder::kNone)
      b_.alu(Op::kAdd, {b_.tame(x), v});
  }

  std::vector<size_t> subset(uint64_t most) {
    std::vector<size_t> out;
    for (uint64_t n = 0; n < most; ++n) {
      const size_t t = b_.any();
      if (std::find(out.begin(), out.end(), t) == out.end()) out.push_back(t);
    }
    return out;
  }

  // Everything that is left, in random order and portions. After a realize that may be refused
  // values are asked for again, alone.
  void finish(bool sure) {
    std::vector<size_t> left;
    for (const size_t t : b_.engine.tensors())
      if (b_.device(t) >= 0) left.push_back(t);
    for (size_t i = left.size(); i > 1; --i) std::swap(left[i - 1], left[rng_.below(i)]);
    for (const size_t t : std::vector<size_t>(left))
      if (sure && rng_.one_in(5)) left.push_back(b_.contiguous(t));
    while (!left.empty()) {
      const size_t n = sure ? 1 + rng_.below(left.size()) : 1;
      sure = b_.realize({left.end() - static_cast<int64_t>(n), left.end()}) && sure;
      left.resize(left.size() - n);
    }
  }

  GraphBuilder b_;
  Rng& rng_;
  int devices_ = 1;
  bool has_pattern_ = false;
};

}  // namespace

Program generate_graph(Rng& rng) {
  return Generator(rng).run();
}

}  // namespace modeld::fuzz
