// Short words to write kernel ASTs in tests, in the form the scheduler hands to code generation:
// SINK[KernelInfo](END(STORE(INDEX(PARAM0, i), value), ranges)). Threading: one thread.
#pragma once

#include <initializer_list>
#include <vector>

#include "runtime/ir/graph.h"

namespace modeld::testing {

class KernelBuilder {
 public:
  explicit KernelBuilder(ir::Graph& graph) : g(graph) {}
  ir::Graph& g;

  using N = const ir::Node*;
  N i(int64_t v) { return ir::const_int(g, v); }
  N f(double v, ir::DType t = ir::DType::kF32) { return ir::const_of(g, t, v); }
  N loop(int64_t size) { return ir::range(g, size, next_++, ir::AxisType::kWeak); }
  N reduce_loop(int64_t size) { return ir::range(g, size, next_++, ir::AxisType::kReduce); }
  N param(int64_t slot, int64_t size, ir::DType t = ir::DType::kF32) {
    return ir::param(g, slot, t, size);
  }
  N add(N a, N b) { return ir::add(g, a, b); }
  N mul(N a, N b) { return ir::mul(g, a, b); }
  N times(N a, int64_t c) { return ir::mul(g, a, i(c)); }
  N op(ir::Op o, std::initializer_list<N> src) { return ir::alu(g, o, src); }
  N unary(ir::Op o, N x) { return g.make(o, x->dtype, {x}); }
  N at(N buffer, N index) { return g.make(ir::Op::kIndex, buffer->dtype, {buffer, index}); }
  N gated(N gate, N index) { return ir::where(g, gate, index, ir::const_invalid(g)); }
  // The read of a padded value: 0 where gate is false.
  N padded(N buffer, N gate, N index) {
    return ir::where(g, gate, at(buffer, gated(gate, index)), ir::const_of(g, buffer->dtype, 0));
  }
  N inside(N x, int64_t low, int64_t high) {  // low <= x < high
    return ir::land(g, ir::logical_not(g, ir::lt(g, x, i(low))), ir::lt(g, x, i(high)));
  }
  N reduce(ir::Op o, N value, std::initializer_list<N> loops) {
    ir::NodeVec src{value};
    src.insert(src.end(), loops);
    return g.make(ir::Op::kReduce, value->dtype, src, ir::ReduceArg{o, 0});
  }
  N store(N out, N index, N value) {
    return g.make(ir::Op::kStore, ir::DType::kVoid, {at(out, index), value});
  }
  N end(N body, std::initializer_list<N> loops) {
    if (loops.size() == 0) return body;
    ir::NodeVec src{body};
    src.insert(src.end(), loops);
    return g.make(ir::Op::kEnd, ir::DType::kVoid, src);
  }
  N kernel(N out, N index, N value, std::initializer_list<N> loops, ir::KernelInfo info = {}) {
    return kernel({end(store(out, index, value), loops)}, std::move(info));
  }
  N kernel(std::initializer_list<N> ends, ir::KernelInfo info = {}) {
    return ir::sink(g, ir::NodeVec(ends), std::move(info));
  }
  // NCHW convolution of one image with bias and ReLU: PARAMs out, image, weights, bias.
  N conv(int64_t in_ch, int64_t out_ch, int64_t h, int64_t w, int64_t k, int64_t pad) {
    const int64_t oh = h + 2 * pad - k + 1;
    const int64_t ow = w + 2 * pad - k + 1;
    N o = loop(out_ch), y = loop(oh), x = loop(ow);
    N c = reduce_loop(in_ch), ky = reduce_loop(k), kx = reduce_loop(k);
    N iy = add(add(y, ky), i(-pad));
    N ix = add(add(x, kx), i(-pad));
    N gate = ir::land(g, inside(add(y, ky), pad, h + pad), inside(add(x, kx), pad, w + pad));
    N image = param(1, in_ch * h * w);
    N index = add(add(times(c, h * w), times(iy, w)), ix);
    N value = pad > 0 ? padded(image, gate, index) : at(image, index);
    N tap = add(add(add(times(o, in_ch * k * k), times(c, k * k)), times(ky, k)), kx);
    N sum =
        reduce(ir::Op::kAdd, mul(value, at(param(2, out_ch * in_ch * k * k), tap)), {c, ky, kx});
    N out = op(ir::Op::kMax, {add(sum, at(param(3, out_ch), o)), f(0)});
    return kernel(param(0, out_ch * oh * ow), add(add(times(o, oh * ow), times(y, ow)), x), out,
                  {o, y, x});
  }

 private:
  int64_t next_ = 0;
};

}  // namespace modeld::testing
