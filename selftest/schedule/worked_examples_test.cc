// The worked examples of scheduling under assignment, limits on kernel arguments, one kernel looked
// at in full, and that the same graph always gives the same LINEAR.
#include <set>

#include "runtime/schedule/create_schedule.h"
#include "runtime/schedule/expr_util.h"

#include "selftest/schedule/schedule_lab.h"

namespace modeld::schedule::test {
namespace {

using ir::Fault;

class Assign : public ::testing::Test, public ScheduleLab {
 protected:
  const Node* storage(const Tensor& t) { return ir::base(t.node()); }
  // Kernel order as destination names: 'a' for a's buffer, '?' for a fresh one.
  std::string order(const std::vector<Tensor>& wanted) {
    auto s = schedule(wanted);
    EXPECT_TRUE(s.ok()) << s.error().what;
    if (!s.ok()) return "";
    last = *s;
    std::string text;
    for (const Node* call : last.linear->src()) {
      const std::string& name = ir::base(call->src(1))->as<ir::ParamArg>().name;
      text += name.empty() ? "?" : name.substr(1);
    }
    return text;
  }
  Error error(const std::vector<Tensor>& wanted) {
    auto s = schedule(wanted);
    EXPECT_FALSE(s.ok());
    return s.ok() ? Error{} : s.error();
  }
  // Contents after the last schedule ran.
  std::vector<double> after(const Node* buffer) {
    if (!ran_) {
      buffers_ = contents();
      const Status s = testing::run_linear(g, last.linear, &buffers_, last.vars);
      EXPECT_TRUE(s.ok()) << s.error().what << text();
      ran_ = true;
    }
    return buffers_.at(buffer).doubles();
  }

  Tensor copy_to(const Tensor& t, const std::string& device) {
    return {g, g.make(Op::kCopy, t.node()->dtype, {t.node()}, device)};
  }
  int copies() const {
    int n = 0;
    for (const Node* call : last.linear->src()) n += call->src(0)->op == Op::kCopy ? 1 : 0;
    return n;
  }
  // A kernel by hand: argument 0 [at, at + count) = argument 1 there.
  const Node* custom(const std::string& name, int64_t at, int64_t count, NodeVec args) {
    const Node* r = ir::range(g, count, 0, ir::AxisType::kWeak);
    const Node* place = ir::add_const(g, r, at);
    const auto element = [&](int64_t slot) {
      return g.make(Op::kIndex, DType::kF32, {ir::param(g, slot, DType::kF32, 4, "CPU"), place});
    };
    const Node* set = g.make(Op::kStore, DType::kVoid, {element(0), element(1)});
    ir::KernelInfo info;
    info.name = name;
    NodeVec src{ir::sink(g, NodeVec{g.make(Op::kEnd, DType::kVoid, {set, r})}, info)};
    src.insert(src.end(), args.begin(), args.end());
    return g.make(Op::kCall, DType::kVoid, src);
  }
  std::string names() const {
    std::string text;
    for (const Node* call : last.linear->src())
      text.append(call->src(0)->as<ir::KernelInfo>().name).append(" ");
    return text;
  }

  // t0, t1: orders read "0" and "1".
  Tensor a = floats({4}, {1, 2, 3, 4});
  Tensor b = floats({4}, {10, 20, 30, 40});

 private:
  testing::BufferMap buffers_;
  bool ran_ = false;
};

using Values = std::vector<double>;

TEST_F(Assign, InPlaceUpdateIsOneKernelOnItsOwnBuffer) {
  EXPECT_EQ(order({tensor::assign(a, a + b)}), "0");
  EXPECT_EQ(arg_counts(), std::vector<int>{2});
  EXPECT_EQ(after(storage(a)), (Values{11, 22, 33, 44}));
}

TEST_F(Assign, ReaderOfTheOldValueRunsBeforeTheOverwrite) {
  const Tensor c = (a * 3).contiguous();
  EXPECT_EQ(order({tensor::assign(a, b + 1), c}), "?0");
  EXPECT_EQ(after(last.output_storage[1]), (Values{3, 6, 9, 12}));
  EXPECT_EQ(after(storage(a)), (Values{11, 21, 31, 41}));
}

TEST_F(Assign, AnAssignNobodyAskedForStaysPending) {
  const Tensor c = (a * 3).contiguous();
  tensor::assign(a, b + 1);
  EXPECT_EQ(order({c}), "?");
}

TEST_F(Assign, SecondUpdateReadsTheFirst) {
  const Tensor a1 = tensor::assign(a, a + b);
  EXPECT_EQ(order({a1, tensor::assign(b, b + a1)}), "01");
  EXPECT_EQ(after(storage(b)), (Values{21, 42, 63, 84}));
}

TEST_F(Assign, CrossedLazyReadersAreACycle) {
  const Tensor c = a + 9;
  const Error e = error({tensor::assign(a, a + b), tensor::assign(b, b + c)});
  EXPECT_EQ(ir::fault_of(e), Fault::kAssignCycle);
  EXPECT_NE(e.what.find("cycle detected in assign graph"), std::string::npos);
  EXPECT_NE(e.what.find("the kernel writing t0, the kernel writing t1"), std::string::npos)
      << e.what;
}

TEST_F(Assign, OneKernelCannotReadABufferBeforeAndAfterAWrite) {
  const Tensor t = a * 3;
  const Tensor a1 = tensor::assign(a, Tensor::full(g, {4}, 2.0, DType::kF32));
  const Error e = error({a1 + (t - 1)});
  EXPECT_EQ(ir::fault_of(e), Fault::kIndexCycle);
  EXPECT_NE(e.what.find("cycle detected while indexing"), std::string::npos);
  EXPECT_NE(e.what.find("reads t0 before and after it is written"), std::string::npos) << e.what;
}

TEST_F(Assign, TheSameWithAMaterialisedReaderIsLegal) {
  const Tensor s = ((a * 3) - 1).contiguous();
  const Tensor a1 = tensor::assign(a, Tensor::full(g, {4}, 2.0, DType::kF32));
  EXPECT_EQ(order({a1 + s}), "?0?");
  EXPECT_EQ(after(last.output_storage[0]), (Values{4, 7, 10, 13}));
}

TEST_F(Assign, BothReadsPrecedeBothWrites) {
  const Tensor an = (a + b).contiguous(), bn = (a * b).contiguous();
  EXPECT_EQ(order({tensor::assign(a, an), tensor::assign(b, bn)}).size(), 4U);
  EXPECT_EQ(after(storage(a)), (Values{11, 22, 33, 44}));
  EXPECT_EQ(after(storage(b)), (Values{10, 40, 90, 160}));
}

TEST_F(Assign, RepeatedIncrementsRunInProgramOrder) {
  const Tensor a1 = tensor::assign(a, a + 1);
  const Tensor a2 = tensor::assign(a1, a1 * 2);
  EXPECT_EQ(order({a2}), "00");
  EXPECT_EQ(after(storage(a)), (Values{4, 6, 8, 10}));
}

TEST_F(Assign, IncrementsOfOneElementAreOneKernelEach) {
  Tensor state = a;
  for (int t = 0; t < 4; t++) {
    const Tensor element = state.shrink({1}, {1});
    state = tensor::assign(element, element + 1);
  }
  EXPECT_EQ(order({state}), "0000");
  EXPECT_EQ(after(storage(a)), (Values{1, 6, 3, 4}));
}

TEST_F(Assign, LaterOfTwoOverlappingSlicesWins) {
  const Tensor x = floats({8}, Values(8, 0));
  const Tensor one = Tensor::full(g, {4}, 1.0, DType::kF32),
               two = Tensor::full(g, {4}, 2.0, DType::kF32);
  const Tensor x1 = tensor::assign(x.shrink({0}, {4}), one);
  const Tensor x2 = tensor::assign(x1.shrink({2}, {4}), two);
  EXPECT_EQ(order({x2}), "22");
  EXPECT_EQ(after(storage(x)), (Values{1, 1, 2, 2, 2, 2, 0, 0}));
}

TEST_F(Assign, HazardsAreStaged) {
  const Tensor m = floats({3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  EXPECT_EQ(order({tensor::assign(m, m + 1)}), "2");
  EXPECT_EQ(order({tensor::assign(m, m.transpose(0, 1) + 1)}), "?2");
  EXPECT_EQ(after(storage(m)), (Values{2, 5, 8, 3, 6, 9, 4, 7, 10}));
}

TEST_F(Assign, SliceOntoSliceIsStaged) {
  const Tensor x = floats({8}, {0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(order({tensor::assign(x.shrink({4}, {4}), x.shrink({2}, {4}))}), "?2");
  EXPECT_EQ(after(storage(x)), (Values{0, 1, 2, 3, 2, 3, 4, 5}));
}

TEST_F(Assign, ValuesReadBeforeAndAfterSeveralUpdates) {
  const Tensor y = (a + 10).contiguous();
  const Tensor a1 = tensor::assign(a, a * 2);
  const Tensor a2 = tensor::assign(a1, a1 + 3);
  for (const auto& wanted : {std::vector<Tensor>{y, a2}, std::vector<Tensor>{a2, y}}) {
    order(wanted);
    testing::BufferMap buffers = contents();
    ASSERT_TRUE(testing::run_linear(g, last.linear, &buffers).ok());
    const size_t at = wanted[0].node() == y.node() ? 0 : 1;
    EXPECT_EQ(buffers.at(last.output_storage[at]).doubles(), (Values{11, 12, 13, 14}));
    EXPECT_EQ(buffers.at(storage(a)).doubles(), (Values{5, 7, 9, 11}));
  }
}

TEST_F(Assign, InterleavedCopySeesTheOldContents) {
  const Tensor b1 = tensor::assign(b, a.contiguous());
  const Tensor a1 = tensor::assign(a, floats({4}, {5, 6, 7, 8}));
  order({a1, b1.sum()});
  EXPECT_EQ(after(last.output_storage[1]), Values{10});
}

TEST_F(Assign, ACopyOnAnotherDeviceKeepsTheOldContents) {
  const Tensor copied = copy_to(a, "CPU:1");
  const Tensor a1 = tensor::assign(a, b + 1);
  for (const auto& wanted : {std::vector<Tensor>{copied, a1}, std::vector<Tensor>{a1, copied}}) {
    order(wanted);
    EXPECT_EQ(copies(), 1);
    testing::BufferMap buffers = contents();
    ASSERT_TRUE(testing::run_linear(g, last.linear, &buffers).ok());
    const size_t at = wanted[0].node() == copied.node() ? 0 : 1;
    EXPECT_EQ(buffers.at(last.output_storage[at]).doubles(), (Values{1, 2, 3, 4}));
    EXPECT_EQ(buffers.at(storage(a)).doubles(), (Values{11, 21, 31, 41}));
  }
}

TEST_F(Assign, ALazyReaderOfTheOldContentsRunsBeforeTheOverwriteItWasMadeBefore) {
  const Tensor y = a + 10;
  const Tensor a1 = tensor::assign(a, a * 2);
  EXPECT_EQ(order({a1, y * 2}), "?0");
  EXPECT_EQ(after(last.output_storage[1]), (Values{22, 24, 26, 28}));
  EXPECT_EQ(after(storage(a)), (Values{2, 4, 6, 8}));
}

// The lazy reader needs what was overwritten: it is refused, it never sees the new bytes.
TEST_F(Assign, AStaleReaderThatNeedsTheNewContentsTooIsRefused) {
  const Tensor a1 = tensor::assign(a, a * 2);
  const Tensor doubled = (a1 * 2).contiguous();
  const Error e = error({doubled + a});
  EXPECT_EQ(ir::fault_of(e), Fault::kStaleReader);
  EXPECT_NE(e.what.find("reads t0 as it was before the kernel writing t0 overwrites it"),
            std::string::npos)
      << e.what;
}

TEST_F(Assign, TheSameValueAssignedTwiceIsStoredOnce) {
  const Tensor a1 = tensor::assign(a, b * 2);
  EXPECT_EQ(order({tensor::assign(a1, b * 2)}), "0");
  EXPECT_EQ(after(storage(a)), (Values{20, 40, 60, 80}));
}

TEST_F(Assign, ItsOwnContentsAreNoWork) {
  const Node* set = g.make(Op::kStore, DType::kVoid, {storage(a), storage(a)});
  EXPECT_EQ(order({Tensor(g, g.make(Op::kAfter, DType::kF32, {storage(a), set}))}), "");
}

// ---- several devices of one kind ----

TEST_F(Assign, ATransferLandsInPartOfABuffer) {
  const Node* far = ir::buffer(g, g.fresh(), DType::kF32, 8, ir::AddrSpace::kGlobal, "CPU:1");
  const auto written = [this](const Node* state, const Node* target, const Node* value) {
    return g.make(Op::kAfter, DType::kF32,
                  {state, g.make(Op::kStore, DType::kVoid, {target, value})});
  };
  const Node* zeros = written(far, far, Tensor::full(g, {8}, 0.0, DType::kF32).node());
  const Node* part =
      g.make(Op::kShrink, DType::kF32,
             {zeros, ir::shape_node(g, ir::Ints{2}), ir::shape_node(g, ir::Ints{4})});
  order({Tensor(g, written(zeros, part, copy_to(a, "CPU:1").node()))});
  EXPECT_EQ(last.linear->nsrc, 2U);
  EXPECT_EQ(copies(), 1);
  EXPECT_EQ(after(far), (Values{0, 0, 1, 2, 3, 4, 0, 0}));
}

TEST_F(Assign, PartOfABufferTravelsAloneAndUnstaged) {
  const Tensor moved = copy_to(a.shrink({1}, {2}), "CPU:1");
  order({moved});
  EXPECT_EQ(last.linear->nsrc, 1U);
  EXPECT_EQ(copies(), 1);
  EXPECT_EQ(after(last.output_storage[0]), (Values{2, 3}));
}

TEST_F(Assign, AlmostACopyIsAKernelThenACopy) {
  const Tensor m = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  order({copy_to(m.transpose(0, 1), "CPU:1")});
  EXPECT_EQ(last.linear->nsrc, 2U);
  EXPECT_EQ(copies(), 1);
  EXPECT_EQ(after(last.output_storage[0]), (Values{1, 4, 2, 5, 3, 6}));
  order({copy_to(a.cast(DType::kI32), "CPU:2")});
  EXPECT_EQ(last.linear->nsrc, 2U);
  EXPECT_EQ(copies(), 1);
}

TEST_F(Assign, ManyDevicesOfOneKindPassOneValueOn) {
  Tensor t = a;
  for (const char* device : {"CPU:1", "CPU:2", "CPU:3", "CPU"}) t = copy_to(t, device);
  order({t + 1});
  EXPECT_EQ(copies(), 4);
  EXPECT_EQ(after(last.output_storage[0]), (Values{2, 3, 4, 5}));
}

// ---- kernels of the user, calls of graphs ----

TEST_F(Assign, JoinedStatesOfCustomKernelsComeFirst) {
  const Node* src = storage(floats({4}, {0, 0, 0, 0}));
  const Node* other = storage(floats({4}, {0, 0, 0, 0}));
  const Node* out = storage(floats({4}, {0, 0, 0, 0}));
  const Node* s1 =
      g.make(Op::kAfter, DType::kF32,
             {src, custom("ka", 0, 2, {src, storage(a)}), custom("kb", 2, 2, {src, storage(b)})});
  const Node* dep =
      g.make(Op::kAfter, DType::kF32, {other, custom("kd", 0, 4, {other, storage(a)})});
  const Node* joined = g.make(Op::kAfter, DType::kF32, {out, custom("kc", 0, 4, {out, s1}), dep});
  order({Tensor(g, joined)});
  EXPECT_EQ(names(), "ka kb kd kc ");
  EXPECT_EQ(after(out), (Values{1, 2, 30, 40}));
}

TEST_F(Assign, ArgumentsOfACustomKernelAreComputedBeforeIt) {
  const Node* out = storage(floats({4}, {0, 0, 0, 0}));
  const Node* call = custom("k", 0, 4, {out, (a * 2).node()});
  order({Tensor(g, g.make(Op::kAfter, DType::kF32, {out, call}))});
  ASSERT_EQ(last.linear->nsrc, 2U);
  EXPECT_EQ(names(), " k ");
  EXPECT_EQ(after(out), (Values{2, 4, 6, 8}));
}

TEST_F(Assign, ACallOfAGraphIsScheduledOnceAndSpliced) {
  const auto p = [this](int64_t slot) { return ir::param(g, slot, DType::kF32, 4, "CPU"); };
  const Node* inner_store =
      g.make(Op::kStore, DType::kVoid, {p(0), (Tensor(g, p(1)) * 3 + 1).contiguous().node()});
  const Node* body = ir::sink(g, NodeVec{g.make(Op::kAfter, DType::kF32, {p(0), inner_store})});
  const Node *x = storage(floats({4}, {0, 0, 0, 0})), *y = storage(floats({4}, {0, 0, 0, 0}));
  const Node* first =
      g.make(Op::kAfter, DType::kF32, {x, g.make(Op::kCall, DType::kVoid, {body, x, storage(a)})});
  const Node* second =
      g.make(Op::kAfter, DType::kF32, {y, g.make(Op::kCall, DType::kVoid, {body, y, first})});
  order({Tensor(g, second)});
  // A call is the graph's kernels, with temporaries of its own.
  ASSERT_EQ(last.linear->nsrc, 4U);
  EXPECT_EQ(last.linear->src(0)->src(0), last.linear->src(2)->src(0));
  EXPECT_NE(last.linear->src(0)->src(1), last.linear->src(2)->src(1));
  EXPECT_EQ(after(y), (Values{13, 22, 31, 40}));
}

TEST_F(Assign, GroupedStoresAreOneStateOfTheirBuffer) {
  const Node* out = storage(floats({4}, {0, 0, 0, 0}));
  const auto half = [&](int64_t at, const Tensor& v) {
    const Node* part =
        g.make(Op::kShrink, DType::kF32,
               {out, ir::shape_node(g, ir::Ints{at}), ir::shape_node(g, ir::Ints{2})});
    return g.make(Op::kStore, DType::kVoid, {part, v.node()});
  };
  const Node* both = g.make(Op::kGroup, DType::kVoid,
                            {half(0, a.shrink({0}, {2})), half(2, b.shrink({2}, {2}) * 2)});
  const Tensor state(g, g.make(Op::kAfter, DType::kF32, {out, both}));
  order({state + 1});
  EXPECT_EQ(last.linear->nsrc, 3U);
  EXPECT_EQ(after(last.output_storage[0]), (Values{2, 3, 61, 81}));
}

// ---- bits ----

TEST_F(Assign, BitsOfComputedValuesAreCutAndJoined) {
  const Tensor bytes = (a * 1.5).bitcast(DType::kU8);
  order({bytes.reshape({4, 4}).slice({{0, 4}, {2, 4}}).contiguous()});
  // 1.5, 3, 4.5, 6 as f32: the high half of each.
  EXPECT_EQ(after(last.output_storage[0]),
            (Values{0xc0, 0x3f, 0x40, 0x40, 0x90, 0x40, 0xc0, 0x40}));
}

TEST_F(Assign, ItemsJoinedFromSmallerOnesKeepTheirOrder) {
  const Tensor low = ints({8}, {0, 0, 0x80, 0x3f, 0, 0, 0x20, 0xc1}, DType::kU8);
  const Tensor floats_of =
      (low + ints({8}, std::vector<int64_t>(8, 0), DType::kU8)).bitcast(DType::kF32);
  order({floats_of * 2});
  EXPECT_EQ(after(last.output_storage[0]), (Values{2, -20}));
}

TEST_F(Assign, StoresThroughABitcastStoreTheBits) {
  const Tensor bits = a.bitcast(DType::kI32);
  const Node* set = g.make(Op::kStore, DType::kVoid,
                           {bits.node(), ints({4}, {0x3f800000, 0, 0x40000000, 0}).node()});
  order({Tensor(g, g.make(Op::kAfter, DType::kI32, {bits.node(), set}))});
  EXPECT_EQ(after(storage(a)), (Values{1, 0, 2, 0}));
}

// ---- buffer limit ----

std::vector<int> limited(int inputs, int64_t max) {
  ScheduleLab lab;
  lab.options.max_kernel_buffers = max;
  Tensor sum = lab.random({4}, 1);
  for (int n = 1; n < inputs; n++) sum = sum + lab.random({4}, static_cast<uint64_t>(n) + 1);
  lab.kernels({sum});
  return lab.arg_counts();
}

TEST(BufferLimit, SumsOfManyInputsAreCut) {
  EXPECT_EQ(limited(40, 31), (std::vector<int>{31, 12}));
  EXPECT_EQ(limited(10, 4), (std::vector<int>{4, 4, 4, 4, 3}));
  EXPECT_EQ(limited(7, 8), std::vector<int>{8});
  EXPECT_EQ(limited(8, 8), (std::vector<int>{8, 3}));
  EXPECT_EQ(limited(40, 0), std::vector<int>{41});
}

TEST(BufferLimit, HoldsInsideAReduceToo) {
  ScheduleLab lab;
  lab.options.max_kernel_buffers = 4;
  Tensor sum = lab.random({4, 3}, 1);
  for (uint64_t n = 2; n < 8; n++) sum = sum * lab.random({4, 3}, n);
  lab.kernels({sum.sum({1})});
  for (int n : lab.arg_counts()) EXPECT_LE(n, 4);
}

// ---- one kernel in full ----

TEST(OneKernel, PadMulSumIsTheKernelOfTheHandBook) {
  ScheduleLab lab;
  const Tensor x = lab.random({4, 10}, 1);
  ASSERT_EQ(lab.kernels({(x.pad({0, 1}, {0, 1}) * 2).sum({1})}), 1);
  const Node* call = lab.last.linear->src(0);
  ASSERT_EQ(call->nsrc, 3U);
  EXPECT_EQ(call->src(1), lab.last.output_storage[0]);
  EXPECT_EQ(call->src(2), ir::base(x.node()));
  ASSERT_TRUE(call->src(0)->has<ir::KernelInfo>());
  EXPECT_EQ(call->src(0)->as<ir::KernelInfo>(), ir::KernelInfo{});
  const Node* end = call->src(0)->src(0);
  ASSERT_EQ(end->op, Op::kEnd);
  const Node* i = ir::range(lab.g, 4, 0, ir::AxisType::kWeak);
  const Node* r = ir::range(lab.g, 12, 1, ir::AxisType::kReduce);
  ASSERT_EQ(end->nsrc, 2U);
  EXPECT_EQ(end->src(1), i);
  const Node* store = end->src(0);
  EXPECT_EQ(store->src(0)->src(0), ir::param(lab.g, 0, DType::kF32, 4, "CPU"));
  EXPECT_EQ(store->src(0)->src(1), i);
  const Node* reduce = store->src(1);
  ASSERT_EQ(reduce->op, Op::kReduce);
  EXPECT_EQ(reduce->src(1), r);
  EXPECT_EQ(reduce->as<ir::ReduceArg>(), (ir::ReduceArg{Op::kAdd, 0}));
  const Node* where = reduce->src(0)->src(0);
  ASSERT_EQ(where->op, Op::kWhere);
  const Access read = index_access(lab.g, where->src(1));
  EXPECT_EQ(where->src(1)->src(0), ir::param(lab.g, 1, DType::kF32, 40, "CPU"));
  EXPECT_EQ(read.valid, where->src(0));
  EXPECT_EQ(ir::expr(read.idx[0]), "(((r0*10)+r1)+-1)");
  EXPECT_EQ(ir::num_value(where->src(2)), 0.0);
}

TEST(OneKernel, EqualKernelsAreTheSameNode) {
  ScheduleLab lab;
  tensor::ConvSpec same;
  same.pads_begin = {1, 1};
  same.pads_end = {1, 1};
  Tensor x = lab.random({1, 3, 6, 6}, 1);
  for (uint64_t n = 0; n < 4; n++)
    x = tensor::relu(tensor::conv(x, lab.random({3, 3, 3, 3}, n + 2), {}, same));
  ASSERT_EQ(lab.kernels({x}), 4);
  std::set<const Node*> distinct;
  for (const Node* call : lab.last.linear->src()) distinct.insert(call->src(0));
  EXPECT_EQ(distinct.size(), 1U);
}

TEST(OneKernel, OptionsOfContiguousReachTheKernel) {
  ScheduleLab lab;
  const Tensor x = lab.random({4, 4}, 1);
  const ir::Opts opts{{ir::OptOp::kUpcast, 0, 4}};
  const Node* c = lab.g.make(Op::kContiguous, DType::kF32, {x.exp2().node()}, opts);
  ASSERT_EQ(lab.kernels({Tensor(lab.g, c)}), 1);
  EXPECT_EQ(lab.last.linear->src(0)->src(0)->as<ir::KernelInfo>().opts_to_apply, opts);
}

// ---- outputs ----

TEST(Outputs, InputsViewsConstantsAndRepeatsGetBuffersOfTheirOwn) {
  ScheduleLab lab;
  const Tensor x = lab.random({4, 6}, 1), y = x + 1;
  const std::vector<Tensor> wanted{x,
                                   x.reshape({24}),
                                   x.slice({{1, 3}}),
                                   x.transpose(0, 1),
                                   y,
                                   y,
                                   y.reshape({24}),
                                   y.transpose(0, 1),
                                   Tensor::full(lab.g, {2, 3}, 7, DType::kF32),
                                   y.contiguous()};
  lab.kernels(wanted);
  std::set<const Node*> distinct(lab.last.output_storage.begin(), lab.last.output_storage.end());
  EXPECT_EQ(distinct.size(), wanted.size());
  EXPECT_FALSE(distinct.contains(ir::base(x.node())));
  for (const Node* b : lab.last.output_storage) EXPECT_EQ(lab.last.plan.find(b), nullptr);
}

TEST(Outputs, TemporariesArePlannedInputsAreNot) {
  ScheduleLab lab;
  const Tensor x = lab.random({4, 6}, 1);
  lab.kernels({tensor::softmax(x, 1)});
  EXPECT_EQ(lab.last.plan.find(ir::base(x.node())), nullptr);
  EXPECT_EQ(lab.last.plan.buffers.size(), 2U);
}

TEST(Outputs, AnEmptyOutputIsRefused) {
  ScheduleLab lab;
  EXPECT_FALSE(lab.schedule({lab.random({4}, 1).shrink({0}, {0}) + 1}).ok());
}

// ---- variables ----

TEST(Variables, OneKernelServesAnyValue) {
  ScheduleLab lab;
  const Tensor n = Tensor::variable(lab.g, "n", 0, 3);
  const Tensor x = lab.floats({4}, {1, 2, 3, 4});
  auto s = lab.schedule({x + n.cast(DType::kF32)});
  ASSERT_TRUE(s.ok()) << s.error().what;
  lab.last = *s;
  for (int64_t v : {0, 3}) {
    testing::BufferMap buffers = lab.contents();
    ASSERT_TRUE(testing::run_linear(lab.g, s->linear, &buffers, {{"n", v}}).ok());
    EXPECT_EQ(buffers.at(s->output_storage[0]).at(0), 1.0 + static_cast<double>(v));
  }
  testing::BufferMap buffers = lab.contents();
  const Status unbound = testing::run_linear(lab.g, s->linear, &buffers);
  ASSERT_FALSE(unbound.ok());
  EXPECT_NE(unbound.error().what.find("unbound Variable n"), std::string::npos);
}

// ---- determinism ----

// The LINEAR as text with nameless buffers numbered in order of first use.
std::string normal_text(Graph& g, const Node* linear) {
  ir::NodeMap map;
  int64_t next = 0;
  for (const Node* n : ir::toposort(linear)) {
    if (n->op != Op::kBuffer) continue;
    ir::ParamArg arg = n->as<ir::ParamArg>();
    arg.slot = next++;
    arg.name.clear();
    map[n] = g.with_arg(n, arg);
  }
  return ir::print(ir::substitute(g, linear, map));
}

std::vector<Tensor> block(ScheduleLab* lab) {
  tensor::ConvSpec same;
  same.pads_begin = {1, 1};
  same.pads_end = {1, 1};
  const Tensor x = lab->random({1, 4, 6, 6}, 1);
  const Tensor h =
      tensor::silu(tensor::conv(x, lab->random({4, 4, 3, 3}, 2), lab->random({4}, 3), same));
  const Tensor gap = tensor::global_average_pool(h).sigmoid();
  return {tensor::softmax((h * gap + x).reshape({4, 36}), 1), h.sum({1})};
}

TEST(Determinism, TheSameGraphGivesTheSameLinear) {
  ScheduleLab one, two;
  one.kernels(block(&one));
  two.random({3}, 9);  // other slots and node numbers
  for (int n = 0; n < 50; n++) two.g.fresh();
  two.kernels(block(&two));
  EXPECT_EQ(normal_text(one.g, one.last.linear), normal_text(two.g, two.last.linear));
}

TEST(Determinism, SchedulingTwiceInOneGraphGivesTheSameKernels) {
  ScheduleLab lab;
  const std::vector<Tensor> values = block(&lab);
  lab.kernels(values);
  const std::string first = normal_text(lab.g, lab.last.linear);
  lab.kernels(values);
  EXPECT_EQ(first, normal_text(lab.g, lab.last.linear));
}

TEST(Determinism, AHitOfTheCacheGivesTheSameLinearAsAMiss) {
  ScheduleLab lab;
  lab.options.cache = true;
  const std::vector<Tensor> values = block(&lab);
  lab.kernels(values);
  const std::string first = normal_text(lab.g, lab.last.linear);
  lab.kernels(values);
  EXPECT_EQ(first, normal_text(lab.g, lab.last.linear));
}

}  // namespace
}  // namespace modeld::schedule::test
