// What the tests of multi-device scheduling share: a value on several devices beside the same value
// on one, schedules run in the kernel interpreter, and the transfers of a schedule counted. Every
// figure is compared with a table, every value with the single-device oracle. Threading: one
// thread.
#pragma once

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/ir/sharding.h"
#include "runtime/ir/symbolic.h"
#include "runtime/schedule/multi_storage.h"
#include "runtime/tensor/shard.h"

#include "selftest/schedule/schedule_lab.h"

namespace modeld::schedule::test {

// Transfers and kernels of one LINEAR.
struct Traffic {
  int kernels = 0;
  std::vector<int64_t> copies;  // elements each, sorted
  size_t links = 0;             // distinct (from, to)

  int64_t elements() const {
    int64_t n = 0;
    for (int64_t c : copies) n += c;
    return n;
  }
};

inline Traffic traffic_of(Graph& g, const Node* linear) {
  Traffic t;
  std::set<std::pair<std::string, std::string>> links;
  for (const Node* call : linear->src()) {
    if (call->src(0)->op != Op::kCopy) {
      t.kernels++;
      continue;
    }
    t.copies.push_back(ir::element_count(g, call->src(1)));
    links.emplace(ir::device(g, call->src(2)), ir::device(g, call->src(1)));
  }
  std::sort(t.copies.begin(), t.copies.end());
  t.links = links.size();
  return t;
}

class MultiLab : public ScheduleLab {
 public:
  explicit MultiLab(int64_t count = 2) {
    for (int64_t i = 1; i <= count; i++) devices.push_back("CPU:" + std::to_string(i));
    tuple = ir::join_devices(devices);
    options.allreduce_in_place = false;  // what the tables of the hand-book count
  }
  tensor::Devices devices;
  std::string tuple;
  testing::InterpOptions interp_options;

  // A realised tensor (multiples of 1/64): whole on "CPU" for the oracle, and on the devices.
  struct Twin {
    Tensor whole, multi;
  };
  Twin sharded(const Dims& dims, int64_t axis, uint64_t seed, DType t = DType::kF32) {
    Twin w{numbers(dims, seed, t), {}};
    const Node* range = ir::device_range(g, static_cast<int64_t>(devices.size()));
    w.multi = spread(w.whole, {{axis}, {range}});
    return w;
  }
  Twin replicated(const Dims& dims, uint64_t seed, DType t = DType::kF32) {
    Twin w{random(dims, seed, t), {}};
    w.multi = spread(w.whole, {});
    return w;
  }
  Twin mesh(const Dims& dims, const tensor::Mesh& m, uint64_t seed) {
    Twin w{random(dims, seed), {}};
    const ir::Sharding s = ir::sharding(g, tensor::shard(w.whole, devices, m).node());
    w.multi = spread(w.whole, s);
    return w;
  }

  // Schedules `value`, runs it on all devices and compares with `want` computed on one.
  Traffic check(const Tensor& value, const Tensor& want, double tolerance = 0) {
    Traffic t;
    EXPECT_TRUE(g.status().ok()) << g.status().error().what;
    if (!g.status().ok()) return t;
    auto s = schedule({value});
    EXPECT_TRUE(s.ok()) << s.error().what;
    if (!s.ok()) return t;
    last = *s;
    const std::vector<double> have = execute(value);
    const std::vector<double> oracle = run(want);
    EXPECT_EQ(have.size(), oracle.size());
    for (size_t i = 0; i < std::min(have.size(), oracle.size()); i++) {
      const double allowed = tolerance * std::max(1.0, std::fabs(oracle[i]));
      EXPECT_NEAR(have[i], oracle[i], allowed) << "element " << i;
      if (std::fabs(have[i] - oracle[i]) > allowed) break;
    }
    return traffic_of(g, last.linear);
  }

  // All memory after the last schedule ran.
  testing::BufferMap executed() {
    testing::BufferMap buffers = contents();
    buffers.insert(parts_.begin(), parts_.end());
    const Status ran = testing::run_linear(g, last.linear, &buffers, last.vars, interp_options);
    EXPECT_TRUE(ran.ok()) << ran.error().what << "\n" << ir::print(last.linear);
    ran_ = ran.ok();
    return buffers;
  }
  // The global value of the last schedule's only output.
  std::vector<double> execute(const Tensor& value) {
    const testing::BufferMap buffers = executed();
    return ran_ ? gathered(value, last.output_storage[0], buffers) : std::vector<double>{};
  }

  std::vector<double> gathered(const Tensor& value,
                               const Node* storage,
                               const testing::BufferMap& buffers) {
    const ir::Sharding s = ir::sharding(g, value.node());
    const Dims local = ir::local_shape(g, value.node());
    std::vector<double> out(static_cast<size_t>(value.count()), 0);
    const int64_t n = ir::device_count(ir::device(g, storage));
    for (int64_t i = 0; i < n; i++) {
      const std::vector<double> part = buffers.at(ir::launch_argument(g, storage, i)).doubles();
      const std::vector<size_t> at = places(value.dims(), local, s, i);
      EXPECT_EQ(part.size(), at.size());
      for (size_t e = 0; e < at.size(); e++) {
        const bool replica = s.empty() && i > 0;
        EXPECT_TRUE(!replica || out[at[e]] == part[e]) << "device " << i << ", element " << e;
        out[at[e]] = part[e];
      }
    }
    return out;
  }

  Error refusal(const Tensor& value) {
    if (!g.status().ok()) return g.status().error();
    auto s = schedule({value});
    EXPECT_FALSE(s.ok());
    return s.ok() ? Error{} : s.error();
  }

 private:
  // Integers stay integers.
  Tensor numbers(const Dims& dims, uint64_t seed, DType t) {
    if (ir::is_float(t)) return random(dims, seed, t);
    std::vector<int64_t> v;
    for (int64_t i = 0; i < tensor::product(dims); i++)
      v.push_back((i * 7 + static_cast<int64_t>(seed) * 5) % 23 - 11);
    return ints(dims, v, t);
  }

  // Global position of each local element of device i.
  std::vector<size_t> places(const Dims& dims,
                             const Dims& local,
                             const ir::Sharding& s,
                             int64_t i) {
    MultiStorage storage(g);
    Dims start(dims.size(), 0);
    for (size_t a = 0; a < s.axes.size(); a++) {
      const auto axis = static_cast<size_t>(s.axes[a]);
      const Node* coord = ir::simplify(g, storage.on_device(s.coords[a], i));
      start[axis] = ir::int_value(coord).value_or(0) * local[axis];
    }
    std::vector<size_t> out;
    Dims at(dims.size(), 0);
    for (int64_t e = 0; e < tensor::product(local); e++) {
      int64_t rest = e, position = 0, stride = 1;
      for (size_t a = dims.size(); a-- > 0; rest /= local[a], stride *= dims[a]) {
        position += (start[a] + rest % local[a]) * stride;
      }
      out.push_back(static_cast<size_t>(position));
    }
    return out;
  }

  Tensor spread(const Tensor& whole, const ir::Sharding& s) {
    Dims local = whole.dims();
    for (size_t a = 0; a < s.axes.size(); a++)
      local[static_cast<size_t>(s.axes[a])] /= ir::part_count(g, s.coords[a]);
    const Node* buffer =
        ir::buffer(g, g.fresh(), whole.dtype(), tensor::product(local), ir::AddrSpace::kGlobal,
                   tuple, "x" + std::to_string(parts_.size()));
    const std::vector<double>& v = data(whole);
    for (size_t i = 0; i < devices.size(); i++) {
      const auto device = static_cast<int64_t>(i);
      auto part =
          testing::KernelStorage::of(whole.dtype(), static_cast<size_t>(tensor::product(local)));
      const std::vector<size_t> at = places(whole.dims(), local, s, device);
      for (size_t e = 0; e < at.size(); e++) {
        if (ir::is_float(part.dtype)) {
          part.f[e] = ir::round_to(part.dtype, v[at[e]]);
        } else {
          part.i[e] = static_cast<int64_t>(v[at[e]]);
        }
      }
      parts_.insert_or_assign(ir::launch_argument(g, buffer, device), std::move(part));
    }
    const Node* view = g.make(Op::kReshape, whole.dtype(), {buffer, ir::shape_node(g, local)});
    return {g, ir::unshard(g, view, s)};
  }

  testing::BufferMap parts_;
  bool ran_ = false;
};

}  // namespace modeld::schedule::test
