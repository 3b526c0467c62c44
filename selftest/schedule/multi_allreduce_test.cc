// handle_allreduce: which way is taken, the chunks, the transfers each way makes, and the values,
// with the order of folding pinned per way.
#include "runtime/schedule/handle_allreduce.h"
#include "runtime/schedule/lower_sink_to_linear.h"

#include "selftest/schedule/multi_lab.h"

namespace modeld::schedule::test {
namespace {

using Ends = std::vector<int64_t>;
using Way = AllReduceWay;

// ---- selection ----

TEST(HandleAllreduce, WayIsChosenByCountsAndSwitches) {
  struct Row {
    int64_t devices, elements;
    bool concrete;
    int ring, all2all;
    Way way;
  };
  const Row rows[] = {
      {4, 256000, true, 1, 0, Way::kNaive},    {4, 256001, true, 1, 0, Way::kRing},
      {4, 256001, false, 1, 0, Way::kNaive},   {4, 256001, false, 2, 2, Way::kNaive},
      {2, 1 << 30, true, 1, 0, Way::kNaive},   {2, 1 << 30, true, 1, 1, Way::kNaive},
      {3, 256001, true, 1, 0, Way::kRing},     {4, 256001, true, 0, 0, Way::kNaive},
      {4, 256001, true, 0, 1, Way::kAllToAll}, {4, 300000, true, 1, 1, Way::kAllToAll},
      {4, 256000, true, 1, 1, Way::kNaive},    {2, 1, true, 2, 0, Way::kRing},
      {2, 1, true, 0, 2, Way::kAllToAll},      {2, 1, true, 2, 2, Way::kAllToAll},
      {4, 256001, true, 2, 1, Way::kAllToAll}, {4, 400, true, 2, 1, Way::kRing},
      {4, 400, true, 0, 0, Way::kNaive},
  };
  for (const Row& r : rows) {
    ScheduleOptions o;
    o.ring = r.ring;
    o.all2all = r.all2all;
    EXPECT_EQ(allreduce_way(r.devices, r.elements, r.concrete, o), r.way)
        << r.devices << " devices " << r.elements << " ring " << r.ring << " all2all " << r.all2all;
  }
}

TEST(HandleAllreduce, ThresholdIsAnOptionAndStrict) {
  ScheduleOptions o;
  o.ring_allreduce_threshold = 10;
  EXPECT_EQ(allreduce_way(4, 10, true, o), Way::kNaive);
  EXPECT_EQ(allreduce_way(4, 11, true, o), Way::kRing);
}

TEST(HandleAllreduce, EverySwitchChangesTheDigest) {
  const ScheduleOptions base;
  const std::function<void(ScheduleOptions&)> changes[] = {
      [](auto& o) { o.ring = 2; },
      [](auto& o) { o.all2all = 1; },
      [](auto& o) { o.ring_allreduce_threshold++; },
      [](auto& o) { o.allreduce_cast = false; },
      [](auto& o) { o.late_allreduce = false; },
      [](auto& o) { o.allreduce_in_place = false; },
  };
  for (const auto& change : changes) {
    ScheduleOptions o;
    change(o);
    EXPECT_NE(o.digest(), base.digest());
  }
}

// ---- chunks ----

TEST(HandleAllreduce, ChunkTable) {
  EXPECT_EQ(chunk_ends(400, 4), (Ends{112, 208, 304, 400}));
  EXPECT_EQ(chunk_ends(10, 4), (Ends{4, 6, 8, 10}));
  EXPECT_EQ(chunk_ends(7, 3), (Ends{3, 5, 7}));
  EXPECT_EQ(chunk_ends(1000003, 4), (Ends{250001, 500002, 750003, 1000003}));
  EXPECT_EQ(chunk_ends(96, 4), (Ends{32, 64, 96, 96}));
  EXPECT_EQ(chunk_ends(100, 6), (Ends{20, 36, 52, 68, 84, 100}));
  EXPECT_EQ(chunk_ends(300000, 4), (Ends{75008, 150016, 225024, 300000}));
  EXPECT_EQ(chunk_ends(1, 4), (Ends{1, 1, 1, 1}));
}

// ---- transfers ----

// Devices hold parts of an (n, e) value each; its sum over the sharded axis is the ALLREDUCE.
struct Case {
  int64_t n, e;
  int ring, all2all;
};
// The ALLREDUCE of what each device holds of x.
Tensor summed(MultiLab& lab, const Tensor& x) {
  const Tensor part(lab.g, x.node()->src(0));  // below UNSHARD: a row per device
  return tensor::all_reduce(part, Op::kAdd, lab.devices);
}
Traffic reduce(MultiLab& lab, const Case& c, bool in_place = false) {
  lab.options.ring = c.ring;
  lab.options.all2all = c.all2all;
  lab.options.allreduce_in_place = in_place;
  const auto x = lab.sharded({c.n, c.e}, 0, 1);
  return lab.check(summed(lab, x.multi), x.whole.sum({0}, true), 1e-5);
}

Ends times(std::initializer_list<std::pair<int, int64_t>> groups) {
  Ends all;
  for (const auto& [count, size] : groups) all.insert(all.end(), static_cast<size_t>(count), size);
  std::sort(all.begin(), all.end());
  return all;
}

struct TableRow {
  Case c;
  Ends copies;
  size_t links;
  int kernels;           // as the hand-book counts: chunks cut out, received and added up
  int kernels_in_place;  // chunks read and written where they lie
};

// Rows of section 5.4. The element count of a row is the sum of its copies.
TEST(HandleAllreduce, TrafficTable) {
  const TableRow rows[] = {
      {{4, 400, 1, 0}, times({{12, 400}}), 12, 2, 2},
      {{4, 400, 2, 0}, times({{6, 112}, {18, 96}}), 4, 42, 21},
      {{4, 400, 0, 2}, times({{6, 112}, {18, 96}}), 12, 26, 21},
      {{4, 10, 2, 0}, times({{6, 4}, {18, 2}}), 4, 42, 21},
      {{3, 7, 2, 0}, times({{4, 3}, {8, 2}}), 3, 23, 13},
      {{3, 7, 0, 2}, times({{4, 3}, {8, 2}}), 6, 17, 13},
      {{2, 8, 1, 0}, times({{2, 8}}), 2, 2, 2},
  };
  for (const TableRow& r : rows) {
    SCOPED_TRACE(strf("n=%d e=%d ring=%d all2all=%d", static_cast<int>(r.c.n),
                      static_cast<int>(r.c.e), r.c.ring, r.c.all2all));
    MultiLab baseline(r.c.n), in_place(r.c.n);
    const Traffic t = reduce(baseline, r.c);
    EXPECT_EQ(t.copies, r.copies);
    EXPECT_EQ(t.links, r.links);
    EXPECT_EQ(t.kernels, r.kernels);
    const Traffic u = reduce(in_place, r.c, true);
    EXPECT_EQ(u.copies, r.copies);
    EXPECT_EQ(u.links, r.links);
    EXPECT_EQ(u.kernels, r.kernels_in_place);
  }
}

TEST(HandleAllreduce, ElementsMoved) {
  const auto moved = [](const Case& c) {
    MultiLab lab(c.n);
    return reduce(lab, c).elements();
  };
  EXPECT_EQ(moved({4, 400, 1, 0}), 4800);
  EXPECT_EQ(moved({4, 400, 2, 0}), 2400);
  EXPECT_EQ(moved({4, 400, 0, 2}), 2400);
  EXPECT_EQ(moved({4, 10, 2, 0}), 60);
  EXPECT_EQ(moved({3, 7, 0, 2}), 28);
}

// Schedules without running: the element counts are real, interpreting them would take minutes.
Traffic scheduled(MultiLab& lab, int64_t e) {
  lab.options.memory_planner = false;
  const auto n = static_cast<int64_t>(lab.devices.size());
  const Node* buffer =
      ir::buffer(lab.g, lab.g.fresh(), DType::kF32, e, ir::AddrSpace::kGlobal, lab.tuple, "x");
  const Node* local =
      lab.g.make(Op::kReshape, DType::kF32, {buffer, ir::shape_node(lab.g, Dims{1, e})});
  const Tensor x(lab.g, ir::unshard(lab.g, local, {{0}, {ir::device_range(lab.g, n)}}));
  const auto s = lab.schedule({summed(lab, x)});
  EXPECT_TRUE(s.ok()) << s.error().what;
  return s.ok() ? traffic_of(lab.g, s->linear) : Traffic{};
}

TEST(HandleAllreduce, DefaultsSwitchAtTheThreshold) {
  MultiLab small(4), large(4), pair(2), chunked(4);
  EXPECT_EQ(scheduled(small, 256000).copies, times({{12, 256000}}));
  EXPECT_EQ(scheduled(large, 256001).links, 4U);
  EXPECT_EQ(scheduled(pair, 256001).copies, times({{2, 256001}}));
  chunked.options.all2all = 1;
  const Traffic t = scheduled(chunked, 300000);
  EXPECT_EQ(t.copies, times({{6, 74976}, {18, 75008}}));
  EXPECT_EQ(t.elements(), 1800000);
  EXPECT_EQ(t.kernels, 26);
}

TEST(HandleAllreduce, EmptyChunksMoveNothing) {
  MultiLab lab(4);
  EXPECT_EQ(reduce(lab, {4, 96, 2, 0}).copies, times({{18, 32}}));
  MultiLab one(4);
  EXPECT_EQ(reduce(one, {4, 1, 0, 2}).copies, times({{6, 1}}));
}

TEST(HandleAllreduce, InPlaceReadsOneChunkPerElement) {
  for (const bool in_place : {false, true}) {
    MultiLab lab(4);
    reduce(lab, {4, 400, 2, 0}, in_place);
    uint32_t most = 0;  // arguments of a kernel besides the destination
    for (const Node* call : lab.last.linear->src()) most = std::max(most, call->nsrc - 2);
    EXPECT_EQ(most, in_place ? 2U : 4U);  // in place: what came, and its own piece
  }
}

// ---- values ----

TEST(HandleAllreduce, EveryWayGivesTheSum) {
  for (int64_t n : {2, 3, 4, 5}) {
    for (int64_t e : {1, 7, 10, 96}) {
      for (const auto& [ring, all2all] : {std::pair{1, 0}, std::pair{2, 0}, std::pair{0, 2}}) {
        for (const bool in_place : {false, true}) {
          SCOPED_TRACE(strf("n=%d e=%d ring=%d a2a=%d in place=%d", static_cast<int>(n),
                            static_cast<int>(e), ring, all2all, in_place));
          MultiLab lab(n);
          reduce(lab, {n, e, ring, all2all}, in_place);
        }
      }
    }
  }
}

TEST(HandleAllreduce, EveryWayFoldsMaximaProductsAndIntegers) {
  for (const auto& [ring, all2all] : {std::pair{1, 0}, std::pair{2, 0}, std::pair{0, 2}}) {
    for (const bool in_place : {false, true}) {
      MultiLab lab(3);
      lab.options.ring = ring;
      lab.options.all2all = all2all;
      lab.options.allreduce_in_place = in_place;
      const auto x = lab.sharded({3, 10}, 0, 1);
      lab.check(x.multi.max({0}), x.whole.max({0}));
      lab.check(x.multi.prod({0}), x.whole.prod({0}), 1e-5);
      const auto i = lab.sharded({6, 10}, 0, 2, DType::kI32);
      lab.check(i.multi.sum({0}), i.whole.sum({0}));
    }
  }
}

// Three numbers whose float sum depends on the order: (big + -big) + 1 = 1, big + (-big + 1) = 0.
// Device i holds order[i] in every element, so each chunk shows how it was folded.
std::vector<double> folded(int64_t n, const std::vector<double>& held, int ring, int all2all) {
  MultiLab lab(n);
  lab.options.ring = ring;
  lab.options.all2all = all2all;
  lab.interp_options.round_floats = true;
  const int64_t e = n;  // one element per chunk
  std::vector<double> all;
  for (double v : held) all.insert(all.end(), static_cast<size_t>(e), v);
  const Tensor x = tensor::shard(lab.floats({n, e}, all), lab.devices, 0);
  auto s = lab.schedule({x.sum({0})});
  EXPECT_TRUE(s.ok()) << s.error().what;
  if (!s.ok()) return {};
  lab.last = *s;
  return lab.execute(x.sum({0}));
}

double single(double a, double b) {
  return static_cast<double>(static_cast<float>(a) + static_cast<float>(b));
}

TEST(HandleAllreduce, NaiveFoldsFromDeviceZero) {
  const std::vector<double> held{1e8, 1, -1e8};
  EXPECT_EQ(folded(3, held, 0, 0), std::vector<double>(3, single(single(1e8, 1), -1e8)));
}

TEST(HandleAllreduce, AllToAllFoldsFromDeviceZero) {
  const std::vector<double> held{1e8, 1, -1e8};
  EXPECT_EQ(folded(3, held, 0, 2), std::vector<double>(3, single(single(1e8, 1), -1e8)));
}

TEST(HandleAllreduce, RingFoldsEachChunkFromItsOwnDevice) {
  const std::vector<double> held{1e8, 1, -1e8};
  std::vector<double> want;
  for (size_t i = 0; i < 3; i++)
    want.push_back(single(single(held[i], held[(i + 1) % 3]), held[(i + 2) % 3]));
  EXPECT_NE(want[0], want[2]);  // the order shows
  EXPECT_EQ(folded(3, held, 2, 0), want);
}

TEST(HandleAllreduce, SingleTargetCollectsThere) {
  for (const auto& [ring, all2all] : {std::pair{1, 0}, std::pair{2, 0}, std::pair{0, 2}}) {
    for (const bool in_place : {false, true}) {
      MultiLab lab(3);
      lab.options.ring = ring;
      lab.options.all2all = all2all;
      lab.options.allreduce_in_place = in_place;
      const auto x = lab.sharded({3, 12}, 0, 1);
      const Node* local = x.multi.node()->src(0);  // a row per device
      const Tensor part(lab.g, local);
      const Tensor sum = tensor::all_reduce(part, Op::kAdd, {"CPU"});
      const Traffic t = lab.check(sum, x.whole.sum({0}, true), 1e-5);
      EXPECT_EQ(ir::device(lab.g, lab.last.output_storage[0]), "CPU");
      const Ends want = ring < 2 && all2all < 2 ? times({{3, 12}}) : times({{9, 4}});
      EXPECT_EQ(t.copies, want);
    }
  }
}

// ---- packaging ----

TEST(HandleAllreduce, OneShapeIsScheduledOnce) {
  MultiLab lab(3);
  lab.options.cache = true;
  lab.options.ring = 2;
  const auto x = lab.sharded({3, 12}, 0, 1), y = lab.sharded({6, 12}, 0, 2);
  schedule_cache_clear();
  lab.check(x.multi.sum({0}) + 1, x.whole.sum({0}) + 1, 1e-5);
  EXPECT_EQ(schedule_cache_stats().misses, 2);  // the caller and the ALLREDUCE
  EXPECT_EQ(schedule_cache_stats().hits, 0);
  lab.check(y.multi.sum({0}) * y.multi.max({0}) + 2, y.whole.sum({0}) * y.whole.max({0}) + 2, 1e-5);
  EXPECT_EQ(schedule_cache_stats().misses, 4);  // another caller, and a maximum
  EXPECT_EQ(schedule_cache_stats().hits, 1);    // the sum
  schedule_cache_clear();
}

TEST(HandleAllreduce, TwoOfOneShapeHaveTemporariesOfTheirOwn) {
  MultiLab lab(3);
  lab.options.ring = 2;
  const auto x = lab.sharded({3, 12}, 0, 1), y = lab.sharded({3, 12}, 0, 2);
  lab.check(x.multi.sum({0}) - y.multi.sum({0}), x.whole.sum({0}) - y.whole.sum({0}), 1e-5);
}

TEST(HandleAllreduce, InlinedItBecomesPartOfTheCaller) {
  for (const auto& [ring, all2all] : {std::pair{1, 0}, std::pair{2, 0}, std::pair{0, 2}}) {
    MultiLab late(3), inlined(3);
    inlined.options.late_allreduce = false;
    for (MultiLab* lab : {&late, &inlined}) {
      lab->options.ring = ring;
      lab->options.all2all = all2all;
    }
    const auto run = [](MultiLab& lab) {
      const auto x = lab.sharded({3, 12}, 0, 1);
      return lab.check(x.multi.sum({0}) + 1, x.whole.sum({0}) + 1, 1e-5);
    };
    const Traffic a = run(late), b = run(inlined);
    EXPECT_EQ(a.copies, b.copies);
    EXPECT_LT(b.kernels, a.kernels);  // what follows is computed where the parts come together
  }
}

TEST(HandleAllreduce, VariablesOfTheCallerReachTheSum) {
  MultiLab lab(3);
  const Tensor v = Tensor::variable(lab.g, "v", 0, 9);
  const auto bound = bind(lab.g, v.node(), 5);
  ASSERT_TRUE(bound.ok());
  const auto x = lab.sharded({3, 12}, 0, 1);
  const Tensor five = Tensor(lab.g, *bound).cast(DType::kF32);
  const Tensor value = (x.multi * five).sum({0}) + five;
  auto s = lab.schedule({value});
  ASSERT_TRUE(s.ok()) << s.error().what;
  lab.last = *s;
  EXPECT_EQ(s->vars.size(), 1U);
  const std::vector<double> have = lab.execute(value), want = lab.run((x.whole * 5).sum({0}) + 5);
  ASSERT_EQ(have.size(), want.size());
  for (size_t i = 0; i < want.size(); i++) EXPECT_NEAR(have[i], want[i], 1e-4);
}

}  // namespace
}  // namespace modeld::schedule::test
