// What the tests of live tensors share: a session on a graph, short words to make, realise and read
// tensors, and the kernels of a process compiled once. Threading: one thread.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/exec/session.h"
#include "runtime/ir/derived.h"
#include "runtime/schedule/lower_sink_to_linear.h"

namespace modeld::exec::test {

using ir::DType;
using ir::Fault;
using ir::Node;
using ir::NodeVec;
using ir::Op;
using tensor::Dims;
using tensor::Tensor;
using Values = std::vector<double>;

inline SessionOptions lab_options() {
  static const std::shared_ptr<ProgramCache> cache = make_program_cache();
  SessionOptions o;
  o.compile.program_cache = cache;  // the same small kernels come again and again
  o.compile.noopt = true;
  o.device.threads = 1;
  return o;
}

// A process of its own, as far as a session can tell.
class SessionLab {
 public:
  explicit SessionLab(SessionOptions options = lab_options()) : s(g, store, std::move(options)) {}

  ir::Graph g;
  tensor::WeightStore store;
  Session s;

  Live floats(const Dims& dims, const std::vector<float>& v, const std::string& device = "CPU") {
    auto t = s.upload(v, dims, device);
    EXPECT_TRUE(t.ok()) << t.error().what;
    return t.ok() ? *t : Live();
  }
  Live empty(const Dims& dims, const std::string& device = "CPU") {
    auto t = s.empty(dims, DType::kF32, device);
    EXPECT_TRUE(t.ok()) << t.error().what;
    return t.ok() ? *t : Live();
  }
  Tensor operator[](const Live& t) const { return s.value(t); }
  Live track(const Tensor& t) { return s.track(t); }
  Tensor fill(const Dims& dims, double v) { return Tensor::full(g, dims, v, DType::kF32); }

  void assign(const Live& dst, const Tensor& x) {
    const Status done = s.assign(dst, x);
    EXPECT_TRUE(done.ok()) << done.error().what;
  }
  void realize(const std::vector<Live>& wanted) {
    const Status done = s.realize(wanted);
    EXPECT_TRUE(done.ok()) << done.error().what;
  }
  Values read(const Live& t) {
    auto v = s.read(t);
    EXPECT_TRUE(v.ok()) << v.error().what;
    return v.ok() ? v->to_doubles() : Values{};
  }
  static Fault fault(const Error& e) { return ir::fault_of(e); }
  Fault fault(const Status& status) {
    EXPECT_FALSE(status.ok());
    return status.ok() ? Fault::kNone : ir::fault_of(status.error());
  }
  // The LINEAR of these, not run.
  SessionLinear linear(const std::vector<Live>& wanted) {
    auto l = s.linear_with_vars(wanted);
    EXPECT_TRUE(l.ok()) << l.error().what;
    return l.ok() ? std::move(*l) : SessionLinear{};
  }
};

}  // namespace modeld::exec::test
