// Kernels that only a renderer with work groups lowers in its own way: grouped reduces alone, two
// at once, over lanes, inside a loop. Threading: one thread.
#pragma once

#include "selftest/testing/kernel_builder.h"

namespace modeld::testing {

using KernelNode = const ir::Node*;

inline ir::KernelInfo with_opts(ir::Opts opts) {
  ir::KernelInfo info;
  info.opts_to_apply = std::move(opts);
  return info;
}

// out[i] = op over cols of x[i * cols + r].
inline KernelNode row_reduce(KernelBuilder& b,
                             int64_t rows,
                             int64_t cols,
                             ir::Opts opts,
                             ir::Op op = ir::Op::kAdd,
                             ir::DType t = ir::DType::kF32) {
  KernelNode i = b.loop(rows), r = b.reduce_loop(cols);
  KernelNode x = b.at(b.param(1, rows * cols, t), b.add(b.times(i, cols), r));
  return b.kernel(b.param(0, rows, t), i, b.reduce(op, x, {r}), {i}, with_opts(std::move(opts)));
}

// Mean and mean of squares over one axis: two reduces that may share it.
inline KernelNode variance(KernelBuilder& b, int64_t rows, int64_t cols, ir::Opts opts) {
  KernelNode i = b.loop(rows), r = b.reduce_loop(cols);
  KernelNode x = b.at(b.param(1, rows * cols), b.add(b.times(i, cols), r));
  KernelNode scale = b.f(1.0 / static_cast<double>(cols));
  KernelNode mean = b.mul(b.reduce(ir::Op::kAdd, x, {r}), scale);
  KernelNode square = b.mul(b.reduce(ir::Op::kAdd, b.mul(x, x), {r}), scale);
  return b.kernel(b.param(0, rows), i, b.op(ir::Op::kSub, {square, b.mul(mean, mean)}), {i},
                  with_opts(std::move(opts)));
}

// Two outputs with loops of their own sizes: neither loop is part of both stores, so both stay
// loops in every work item, and the grouped sums stand inside of them.
inline KernelNode sums_in_loops(KernelBuilder& b, int64_t cols, ir::Opts opts) {
  KernelNode i = b.loop(3), j = b.loop(5), r = b.reduce_loop(cols), q = b.reduce_loop(cols);
  KernelNode x = b.at(b.param(2, 3 * cols), b.add(b.times(i, cols), r));
  KernelNode y = b.at(b.param(3, 5 * cols), b.add(b.times(j, cols), q));
  KernelNode first = b.end(b.store(b.param(0, 3), i, b.reduce(ir::Op::kAdd, x, {r})), {i});
  KernelNode second = b.end(b.store(b.param(1, 5), j, b.reduce(ir::Op::kAdd, y, {q})), {j});
  return b.kernel({first, second}, with_opts(std::move(opts)));
}

inline KernelNode product(KernelBuilder& b, int64_t m, int64_t n, int64_t k, ir::Opts opts) {
  KernelNode i = b.loop(m), j = b.loop(n), r = b.reduce_loop(k);
  KernelNode x = b.at(b.param(1, m * k), b.add(b.times(i, k), r));
  KernelNode y = b.at(b.param(2, k * n), b.add(b.times(r, n), j));
  return b.kernel(b.param(0, m * n), b.add(b.times(i, n), j),
                  b.reduce(ir::Op::kAdd, b.mul(x, y), {r}), {i, j}, with_opts(std::move(opts)));
}

}  // namespace modeld::testing
