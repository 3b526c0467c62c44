// What the scheduler's graph tests share: schedule values of a TensorLab, run the LINEAR in the
// kernel interpreter and compare with the tensor interpreter. Threading: one thread.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "runtime/ir/derived.h"
#include "runtime/ir/print.h"
#include "runtime/schedule/schedule.h"
#include "runtime/tensor/nn.h"
#include "runtime/tensor/tensor.h"

#include "selftest/testing/kernel_interp.h"
#include "selftest/testing/tensor_interp.h"

namespace modeld::schedule::test {

using ir::DType;
using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;
using tensor::Dims;
using tensor::Tensor;

class ScheduleLab : public testing::TensorLab {
 public:
  ScheduleOptions options;
  Schedule last;

  ScheduleLab() { options.cache = false; }

  // As TensorLab's, and the contents are at hand when kernels run.
  Tensor floats(const Dims& dims, const std::vector<double>& v, DType dtype = DType::kF32) {
    return keep(TensorLab::floats(dims, v, dtype), v);
  }
  Tensor ints(const Dims& dims, const std::vector<int64_t>& v, DType dtype = DType::kI32) {
    return keep(TensorLab::ints(dims, v, dtype), std::vector<double>(v.begin(), v.end()));
  }
  Tensor random(const Dims& dims, uint64_t seed, DType dtype = DType::kF32) {
    const Tensor t = TensorLab::random(dims, seed, dtype);
    return keep(t, data(t));
  }

  Result<Schedule> schedule(const std::vector<Tensor>& values) {
    NodeVec nodes;
    for (const Tensor& t : values) nodes.push_back(t.node());
    return make_schedule(g, nodes, options);
  }

  // Kernels of the schedule of these values; -1 (and a failed expectation) on an error. The results
  // are compared with the tensor interpreter.
  int kernels(const std::vector<Tensor>& values, double tolerance = 1e-5) {
    EXPECT_TRUE(g.status().ok()) << g.status().error().what;
    auto s = schedule(values);
    EXPECT_TRUE(s.ok()) << s.error().what;
    if (!s.ok()) return -1;
    last = *s;
    check(values, tolerance);
    return static_cast<int>(last.linear->nsrc);
  }

  // Runs the last schedule and compares each output.
  void check(const std::vector<Tensor>& values, double tolerance) {
    testing::BufferMap buffers = contents();
    const Status ran = testing::run_linear(g, last.linear, &buffers, last.vars);
    ASSERT_TRUE(ran.ok()) << ran.error().what << "\n" << text();
    for (size_t v = 0; v < values.size(); v++) {
      const std::vector<double> want = run(values[v]);
      const std::vector<double> have = buffers.at(last.output_storage[v]).doubles();
      ASSERT_EQ(have.size(), want.size());
      for (size_t i = 0; i < want.size(); i++) {
        const double allowed = tolerance * std::max(1.0, std::fabs(want[i]));
        ASSERT_NEAR(have[i], want[i], allowed) << "output " << v << " element " << i << "\n"
                                               << text();
      }
    }
  }

  // Storage of every constant of the graph's calls.
  testing::BufferMap contents() {
    testing::BufferMap buffers = inputs_;
    for (const Node* call : last.linear->src()) {
      for (const Node* b : call->src().subspan(1)) {
        const auto* weight =
            b->op == Op::kBuffer ? store.find(b->as<ir::ParamArg>().slot) : nullptr;
        if (weight == nullptr || buffers.contains(b)) continue;
        const auto count = ir::element_count(g, b);
        const auto host = tensor::from_bytes(b->dtype, {count}, *weight->bytes);
        EXPECT_TRUE(host.ok());
        auto s = testing::KernelStorage::of(b->dtype, static_cast<size_t>(count));
        for (size_t i = 0; i < s.size(); i++) {
          if (ir::is_float(b->dtype)) {
            s.f[i] = host->cells[i].f;
          } else {
            s.i[i] = host->cells[i].i;
          }
        }
        buffers.emplace(b, std::move(s));
      }
    }
    return buffers;
  }

  std::string text() const {
    std::string all;
    for (const Node* call : last.linear->src()) {
      all += ir::expr(call->src(0)->src(0)) + "\n";
    }
    return all;
  }

  // Arguments per call.
  std::vector<int> arg_counts() const {
    std::vector<int> counts;
    for (const Node* call : last.linear->src()) counts.push_back(static_cast<int>(call->nsrc) - 1);
    return counts;
  }

 private:
  Tensor keep(const Tensor& t, const std::vector<double>& v) {
    const Node* buffer = ir::base(t.node());
    auto s = testing::KernelStorage::of(buffer->dtype, v.size());
    for (size_t i = 0; i < v.size(); i++) {
      if (ir::is_float(buffer->dtype)) {
        s.f[i] = ir::round_to(buffer->dtype, v[i]);
      } else {
        s.i[i] = static_cast<int64_t>(v[i]);
      }
    }
    inputs_.insert_or_assign(buffer, std::move(s));
    return t;
  }

  testing::BufferMap inputs_;
};

}  // namespace modeld::schedule::test
