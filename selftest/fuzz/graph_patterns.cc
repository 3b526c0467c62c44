#include "selftest/fuzz/graph_patterns.h"

#include <utility>
#include <vector>

namespace modeld::fuzz {

using ir::DType;
using ir::Op;

namespace {

constexpr size_t kNone = GraphBuilder::kNone;

// A tensor of numbers, made if there is none, that can be written to.
size_t number_target(GraphBuilder& b) {
  for (int tries = 0; tries < 4; ++tries) {
    const size_t t = b.any_target();
    if (t != kNone && b.dtype(t) != DType::kBool && b.count(t) > 1) return t;
  }
  return b.input({2 + static_cast<int64_t>(b.rng.below(3)), 4}, DType::kF32, 0);
}

size_t like(GraphBuilder& b, size_t x) {
  return b.input(b.dims(x), b.dtype(x), b.device(x));
}

size_t plus(GraphBuilder& b, size_t x, double v) {
  const size_t y = b.alu(Op::kAdd, {x, b.full(v, b.dtype(x))});
  return y != kNone ? y : b.alu(Op::kAdd, {b.tame(x), b.full(v, b.dtype(x))});
}

// c = f(a), then a is overwritten; asked for in any order.
bool read_then_write(GraphBuilder& b) {
  const size_t a = number_target(b);
  size_t c = plus(b, a, 2);
  if (b.rng.one_in(2)) c = b.contiguous(c);
  if (b.rng.one_in(3)) c = b.random_move(c);
  b.assign(a, b.rng.one_in(2) ? plus(b, a, 1) : like(b, a));
  if (c == kNone) return true;
  return b.realize(b.rng.one_in(2) ? std::vector<size_t>{a, c} : std::vector<size_t>{c, a});
}

// x[0:n] = ..., x[m:] = ... with n > m, of its own elements or others.
bool overlapping_views(GraphBuilder& b) {
  const size_t flat = b.input({8 + static_cast<int64_t>(b.rng.below(9))}, DType::kF32, 0);
  const auto n = b.count(flat);
  for (uint64_t k = 2 + b.rng.below(2); k > 0; --k) {
    const auto size = 2 + static_cast<int64_t>(b.rng.below(static_cast<uint64_t>(n - 2)));
    const auto spare = static_cast<uint64_t>(n - size + 1);
    const auto to = static_cast<int64_t>(b.rng.below(spare));
    const auto from = static_cast<int64_t>(b.rng.below(spare));
    const size_t dst = b.move(StepKind::kShrink, flat, {to}, {size});
    size_t x = b.move(StepKind::kShrink, flat, {from}, {size});
    if (b.rng.one_in(3)) x = b.move(StepKind::kFlip, x, {0});
    b.assign(dst, b.rng.one_in(3) ? x : plus(b, x, 1));
    if (b.rng.one_in(4) && !b.realize({b.rng.one_in(2) ? dst : flat})) return false;
  }
  return b.realize({flat});
}

// a = a.T + 1 and its like: the value reads its target at other places.
bool permuted_self(GraphBuilder& b) {
  const auto n = 2 + static_cast<int64_t>(b.rng.below(4));
  const size_t a = b.input({n, n}, b.rng.one_in(2) ? DType::kF32 : DType::kI32, 0);
  size_t x = b.rng.one_in(2) ? b.move(StepKind::kPermute, a, {1, 0})
                             : b.move(StepKind::kFlip, a, {static_cast<int64_t>(b.rng.below(2))});
  if (b.rng.one_in(3)) x = b.reduce(Op::kAdd, a, {1});
  b.assign(a, plus(b, x, 1));
  if (b.rng.one_in(2)) b.assign(a, plus(b, b.move(StepKind::kPermute, a, {1, 0}), 1));
  return b.realize({a});
}

// c = a + 9; a += b; b += c without memory for c: both writes wait for one another.
bool assign_cycle(GraphBuilder& b) {
  const size_t x = b.input({4}, DType::kF32, 0);
  const size_t y = b.input({4}, DType::kF32, 0);
  const size_t c = b.alu(Op::kAdd, {x, b.full(9, DType::kF32)});
  b.assign(x, b.alu(Op::kAdd, {x, y}));
  b.assign(y, b.alu(Op::kAdd, {y, c}));
  return b.realize(b.rng.one_in(2) ? std::vector<size_t>{x, y} : std::vector<size_t>{y, x}, true);
}

// t = a * 3; a = ...; new = a + (t - 1): one kernel would read a in two states.
bool index_cycle(GraphBuilder& b) {
  const size_t a = b.input({2, 4}, DType::kF32, 0);
  const size_t t = b.alu(Op::kMul, {a, b.full(3, DType::kF32)});
  b.assign(a, like(b, a));
  const size_t mixed = b.alu(Op::kAdd, {a, plus(b, t, -1)});
  return b.realize({mixed}, true);
}

// A node that nobody tracked while its buffer was overwritten.
bool forgotten_reader(GraphBuilder& b) {
  const size_t a = number_target(b);
  const size_t c = plus(b, a, 1);
  if (c == kNone) return true;
  b.drop(c);
  b.assign(a, like(b, a));
  if (!b.realize({a})) return false;
  b.track(c);
  return b.realize({c}, true);
}

// One graph with one value after the other, each asked for before the next is there.
bool values_in_turn(GraphBuilder& b) {
  const size_t x = b.input({2, 3}, DType::kI32, 0);
  for (uint64_t n = 2 + b.rng.below(2); n > 0; --n) {
    const size_t v = random_variable(b);
    const size_t y = b.alu(Op::kMul, {plus(b, x, 1), v});
    if (!b.realize({b.rng.one_in(2) ? b.reduce(Op::kAdd, y, {0}) : y})) return false;
  }
  return true;
}

// Two values of one variable asked for at once.
bool values_at_once(GraphBuilder& b) {
  const size_t x = b.input({3}, DType::kI32, 0);
  std::vector<size_t> wanted;
  for (const double value : {2, 5}) wanted.push_back(b.alu(Op::kMul, {x, b.variable("i", value)}));
  return b.realize(wanted, true);
}

// Work that goes from device to device and comes back into the buffer it came from.
bool over_devices(GraphBuilder& b) {
  const size_t a = b.input({2, 4}, DType::kF32, 0);
  const size_t there = plus(b, b.copy(a, 1), 1);
  const size_t back = b.copy(b.rng.one_in(2) ? there : b.random_move(there), 0);
  const size_t sum = b.alu(Op::kAdd, {b.fit(back, b.dims(a)), a});
  if (b.rng.one_in(2)) b.assign(a, sum);
  return b.realize({sum, b.rng.one_in(2) ? a : there});
}

// Parts on several devices, worked on there, perhaps added up across them, and gathered.
bool over_shards(GraphBuilder& b) {
  const auto devices = 2 + static_cast<int64_t>(b.rng.below(2));
  const auto axis = static_cast<int64_t>(b.rng.below(2));
  Ints dims{2, 3};
  dims[static_cast<size_t>(axis)] = devices * (1 + static_cast<int64_t>(b.rng.below(3)));
  const size_t a = b.input(dims, DType::kF32, 0);
  size_t parts = plus(b, b.shard(a, axis, devices), 1);
  if (b.rng.one_in(2))
    parts = b.alu(Op::kAdd, {parts, b.shard(b.input(dims, DType::kF32, 0), axis, devices)});
  if (b.rng.one_in(2))
    parts = b.reduce(b.rng.one_in(3) ? Op::kMax : Op::kAdd, parts,
                     {static_cast<int64_t>(b.rng.below(2))});
  const size_t back = b.copy(parts, 0);
  if (back == kNone) return true;
  if (b.rng.one_in(2)) b.assign(a, b.fit(back, dims));
  return b.realize(b.rng.one_in(2) ? std::vector<size_t>{back, a} : std::vector<size_t>{back});
}

}  // namespace

bool random_pattern(GraphBuilder& b) {
  switch (b.rng.below(32)) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4:
      return read_then_write(b);
    case 5:
    case 6:
    case 7:
      return overlapping_views(b);
    case 8:
    case 9:
      return permuted_self(b);
    case 10:
      return assign_cycle(b);
    case 11:
      return index_cycle(b);
    case 12:
      return forgotten_reader(b);
    case 13:
    case 14:
      return values_in_turn(b);
    case 15:
      return values_at_once(b);
    case 16:
    case 17:
      return over_devices(b);
    case 18:
    case 19:
    case 20:
      return over_shards(b);
    default:
      return true;
  }
}

void random_assign(GraphBuilder& b) {
  size_t dst = b.any_target();
  if (dst == kNone) return;
  const size_t whole = dst;
  if (b.rng.one_in(2)) dst = b.random_move(dst);
  if (dst == kNone || !b.engine.can_assign(dst)) dst = whole;
  size_t x = kNone;
  if (b.rng.one_in(2)) {
    const size_t part = b.rng.one_in(2) ? whole : b.random_move(whole);
    x = b.fit(part, b.dims(dst));
  } else {
    const size_t y = b.any();
    if (b.device(y) == b.device(dst)) x = b.fit(b.as(y, b.dtype(dst)), b.dims(dst));
  }
  if (x == kNone) x = b.full(1, b.dtype(dst));
  if (b.rng.one_in(2) && b.dtype(x) != DType::kBool) x = plus(b, x, 1);
  b.assign(dst, x);
}

size_t random_variable(GraphBuilder& b) {
  return b.variable(b.rng.one_in(2) ? "i" : "j", 1 + static_cast<double>(b.rng.below(9)));
}

}  // namespace modeld::fuzz
