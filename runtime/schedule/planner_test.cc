#include "runtime/schedule/planner.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "runtime/schedule/sweep_plan.h"
#include "runtime/schedule/tlsf.h"

#include "selftest/testing/exact_arena.h"

namespace modeld::schedule {
namespace {

// Buffers by name; a call is its arguments' names, destination first.
class Plan {
 public:
  Plan& buffers(const std::string& names, uint64_t nbytes, const std::string& device = "CPU") {
    for (char c : names) {
      number_[c] = in.buffers.size();
      in.buffers.push_back({nbytes, device, false});
    }
    return *this;
  }
  Plan& held(const std::string& names) {
    for (char c : names) in.buffers[number_.at(c)].held = true;
    return *this;
  }
  Plan& call(const std::string& args, bool copy = false) {
    PlanCall c;
    c.copy = copy;
    for (char a : args) c.args.push_back(number_.at(a));
    in.calls.push_back(c);
    return *this;
  }
  Plan& copy(const std::string& args) { return call(args, true); }

  // "2048: b@0 a@1024" per lane in order of first use, buffers in order of first use.
  std::vector<std::string> text(const PlanOutput& out) const {
    std::vector<std::string> lanes;
    std::vector<PlanLane> ignored;
    const std::vector<Lifetime> lives = lifetimes(in, &ignored);
    for (size_t l = 0; l < out.lanes.size(); l++) {
      std::string t = std::to_string(static_cast<uint64_t>(out.lanes[l].arena)) + ":";
      for (const Lifetime& life : lives) {
        if (out.places[life.buffer].lane != static_cast<int64_t>(l)) continue;
        t += std::string(" ") + name(life.buffer) + "@" +
             std::to_string(static_cast<uint64_t>(out.places[life.buffer].offset));
      }
      lanes.push_back(t);
    }
    return lanes;
  }
  std::vector<std::string> tlsf() const { return text(plan_tlsf(in)); }

  PlanInput in;

 private:
  char name(size_t buffer) const {
    for (const auto& [c, n] : number_) {
      if (n == buffer) return c;
    }
    return '?';
  }
  std::map<char, size_t> number_;
};

using Lanes = std::vector<std::string>;

TEST(MemoryPlan, ExampleAReusesABufferAfterItsLastUse) {
  Plan p;
  p.buffers("abcd", 1000).call("ba").call("cb").call("dc");
  EXPECT_EQ(p.tlsf(), Lanes{"2048: b@0 a@1024 c@1024 d@0"});
}

TEST(MemoryPlan, ExampleBMixedSizes) {
  Plan p;
  p.buffers("a", 100).buffers("b", 700).buffers("c", 300).buffers("d", 100);
  p.call("ba").call("cb").call("dc");
  const PlanOutput out = plan_tlsf(p.in);
  EXPECT_EQ(p.tlsf()[0].substr(0, 15), "1280: b@0 a@768");
  EXPECT_EQ(static_cast<uint64_t>(out.places[2].offset), 768U);
  EXPECT_EQ(static_cast<uint64_t>(out.places[3].offset), 0U);
}

TEST(MemoryPlan, ExampleCHeldBuffersAreNotPlanned) {
  Plan p;
  p.buffers("abcd", 1000).held("ad").call("ba").call("cb").call("dc");
  EXPECT_EQ(p.tlsf(), Lanes{"2048: b@0 c@1024"});
  EXPECT_EQ(plan_tlsf(p.in).places[0].lane, -1);
}

TEST(MemoryPlan, ExampleDCopiesHoldTheirBuffers) {
  Plan p;
  p.buffers("ptuxyz", 512).held("p");
  p.copy("tp").call("ut").copy("xp").call("yx").copy("zp");
  EXPECT_EQ(p.tlsf(), (Lanes{"1024: t@0 x@512 z@0", "512: u@0 y@0"}));
}

TEST(MemoryPlan, ExampleEOverlappingHoldsDoNotReuse) {
  Plan p;
  p.buffers("swtuv", 512).held("sw");
  p.copy("ts").call("ut").copy("vu").call("wv");
  EXPECT_EQ(p.tlsf(), Lanes{"1536: t@0 u@512 v@1024"});
}

TEST(MemoryPlan, ExampleFOneArenaPerDeviceAndLane) {
  Plan p;
  p.buffers("ab", 256, "dev0").buffers("cd", 256, "dev1").call("ba").copy("cb").call("dc");
  EXPECT_EQ(p.tlsf(), (Lanes{"256: b@0", "256: a@0", "256: c@0", "256: d@0"}));
  const PlanOutput out = plan_tlsf(p.in);
  EXPECT_EQ(out.lanes[0].device, "dev0");
  EXPECT_TRUE(out.lanes[0].copy);
  EXPECT_FALSE(out.lanes[1].copy);
}

TEST(MemoryPlan, ExampleGMergesHoles) {
  Plan p;
  p.buffers("a", 256).buffers("b", 512).buffers("c", 256).buffers("d", 768).buffers("e", 256);
  p.call("ab").call("bc").call("dc").call("ed");
  EXPECT_EQ(p.tlsf(), Lanes{"1024: a@0 b@256 c@0 d@256 e@0"});
}

TEST(MemoryPlan, ExampleHClassRoundingSkipsAnExactHole) {
  const auto chain = [](uint64_t nbytes) {
    Plan p;
    p.buffers("abcde", nbytes).call("ba").call("cb").call("dc").call("ed");
    return static_cast<uint64_t>(plan_tlsf(p.in).lanes[0].arena);
  };
  EXPECT_EQ(chain(100608), 301824U);
  EXPECT_EQ(chain(100352), 200704U);
}

TEST(MemoryPlan, ExampleHBestFitFindsTheExactHole) {
  Plan p;
  p.buffers("abcde", 100608).call("ba").call("cb").call("dc").call("ed");
  const PlanOutput out = plan_memory(p.in, true);
  EXPECT_EQ(static_cast<uint64_t>(out.lanes[0].arena), 201216U);
  EXPECT_EQ(static_cast<uint64_t>(out.lanes[0].lower_bound), 201216U);
  EXPECT_EQ(out.lanes[0].method, PlanMethod::kBestFit);
}

TEST(MemoryPlan, ExampleIOutputsOfALaterCallMayTakeNoLivePlace) {
  Plan p;
  p.buffers("xo", 64).buffers("a", 1000).buffers("b", 2000).buffers("c", 500).held("xo");
  p.call("ax").call("bx").call("cab").call("oc");
  EXPECT_EQ(p.tlsf(), Lanes{"3584: a@0 b@1024 c@3072"});
}

TEST(MemoryPlan, ExampleJDiskIsExcluded) {
  Plan p;
  p.buffers("d", 512, "DISK:/tmp/x").buffers("bc", 512).copy("bd").call("cb");
  EXPECT_EQ(p.tlsf(), (Lanes{"512: b@0", "512: c@0"}));
  EXPECT_EQ(plan_tlsf(p.in).places[0].lane, -1);
}

TEST(MemoryPlan, DevicesWithoutSubBuffersAreLeftAlone) {
  EXPECT_TRUE(is_plannable_device("CPU"));
  EXPECT_TRUE(is_plannable_device("CPU:1"));
  EXPECT_TRUE(is_plannable_device("CPU:1,CPU:2"));
  for (const char* device : {"DISK:/x", "TINYFS:1", "CL", "CL:1", "WEBGPU", "CPU:1,CL:1"}) {
    EXPECT_FALSE(is_plannable_device(device)) << device;
  }
}

TEST(MemoryPlan, ATupleOfDevicesPlansAsOneLane) {
  Plan p;
  p.buffers("ab", 512, "dev0,dev1").buffers("cd", 512, "dev0");
  p.call("ba").call("cb").call("dc").call("ad").copy("cd");
  const PlanOutput out = plan_tlsf(p.in);
  ASSERT_EQ(out.lanes.size(), 2U);
  EXPECT_EQ(out.lanes[0].device, "dev0,dev1");
  EXPECT_FALSE(out.lanes[0].copy);
  EXPECT_EQ(out.lanes[1].device, "dev0");
  EXPECT_TRUE(out.lanes[1].copy);
  EXPECT_EQ(p.tlsf(), (Lanes{"1024: b@0 a@512", "1024: c@0 d@512"}));
}

// A small buffer between two large ones: best fit puts it where it splits the space that the next
// two need.
Plan split_chain(uint64_t unit) {
  Plan p;
  p.buffers("adg", unit).buffers("bcefhi", 4 * unit).buffers("x", 16).held("x");
  p.call("ax").call("ba").call("cba").call("dca").call("ed").call("fed").call("gfd");
  return p.call("hg").call("ihg").call("xig");
}

TEST(MemoryPlan, SweepTakesBackWhatOtherPlannersDecideTooEarly) {
  const PlanInput in = split_chain(1024).in;
  const PlanOutput out = plan_memory(in, true);
  EXPECT_TRUE(out.lanes[0].lower_bound == 9 * 1024);
  EXPECT_TRUE(plan_tlsf(in).lanes[0].arena == 10 * 1024);
  EXPECT_TRUE(plan_best_fit(in).lanes[0].arena == 10 * 1024);
  EXPECT_TRUE(out.lanes[0].arena == 9 * 1024);
  EXPECT_EQ(out.lanes[0].method, PlanMethod::kSweep);
  EXPECT_TRUE(plan_memory(in, false).lanes[0].arena == 10 * 1024) << "the baseline stays TLSF";
}

TEST(MemoryPlan, HugeSizesDoNotOverflow) {
  Plan p;
  p.buffers("abcd", 0).call("ba").call("cb").call("dc");
  const Bytes huge = Bytes{1} << 64;
  for (PlanBuffer& b : p.in.buffers) b.nbytes = huge;
  for (const PlanOutput& out : {plan_tlsf(p.in), plan_best_fit(p.in)}) {
    EXPECT_TRUE(out.lanes[0].arena == 2 * huge);
    EXPECT_TRUE(out.lanes[0].sum == 4 * huge);
  }
  PlanInput large = split_chain(1).in;
  for (PlanBuffer& b : large.buffers) b.nbytes *= huge;
  const PlanOutput out = plan_memory(large, true);
  EXPECT_TRUE(out.lanes[0].arena == 9 * huge);
  EXPECT_EQ(out.lanes[0].method, PlanMethod::kSweep);
}

TEST(MemoryPlan, ALaneTooBusyForTheSweepKeepsItsPlan) {
  PlanInput in;  // 1500 buffers, all alive at the last call, above a hole nobody fills
  for (size_t b = 0; b < 1500; b++) in.buffers.push_back({256 * (1 + b % 7), "CPU", false});
  for (size_t b = 0; b + 1 < 1500; b++) in.calls.push_back({{b + 1, b, b / 2}, false});
  const PlanOutput out = plan_memory(in, true);
  EXPECT_TRUE(out.lanes[0].arena <= plan_tlsf(in).lanes[0].arena);
}

PlanInput random_input(std::mt19937_64* rng) {
  const auto pick = [rng](uint64_t n) { return (*rng)() % n; };
  PlanInput in;
  const size_t count = 2 + pick(30);
  for (size_t b = 0; b < count; b++) {
    const uint64_t sizes[] = {0, 1, 255, 256, 257, 1000, 4096, 100608, 1 + pick(1 << 20)};
    const char* devices[] = {"dev0", "dev0", "dev0", "dev1", "dev0,dev1", "DISK:x"};
    in.buffers.push_back({sizes[pick(9)], devices[pick(6)], pick(6) == 0});
  }
  const size_t calls = 1 + pick(40);
  for (size_t c = 0; c < calls; c++) {
    PlanCall call;
    call.copy = pick(6) == 0;
    for (size_t a = 1 + pick(4); a > 0; a--) call.args.push_back(pick(count));
    in.calls.push_back(call);
  }
  return in;
}

void expect_sound(const PlanInput& in, const PlanOutput& out, uint64_t seed) {
  std::vector<PlanLane> lanes;
  const std::vector<Lifetime> lives = lifetimes(in, &lanes);
  std::vector<bool> planned(in.buffers.size(), false);
  for (const Lifetime& a : lives) {
    planned[a.buffer] = true;
    const PlanPlace& pa = out.places[a.buffer];
    ASSERT_EQ(pa.lane, static_cast<int64_t>(a.lane)) << "seed " << seed;
    ASSERT_TRUE(pa.offset % kPlanBlock == 0) << "seed " << seed;
    ASSERT_TRUE(pa.offset + in.buffers[a.buffer].nbytes <= out.lanes[a.lane].arena)
        << "seed " << seed;
    for (const Lifetime& b : lives) {
      if (a.buffer >= b.buffer || a.lane != b.lane) continue;
      if (a.first >= b.free || b.first >= a.free) continue;
      const PlanPlace& pb = out.places[b.buffer];
      ASSERT_TRUE(pa.offset + a.size <= pb.offset || pb.offset + b.size <= pa.offset)
          << "seed " << seed << " buffers " << a.buffer << " and " << b.buffer;
    }
  }
  for (size_t b = 0; b < planned.size(); b++) {
    const bool must_not =
        !planned[b] || in.buffers[b].held || !is_plannable_device(in.buffers[b].device);
    ASSERT_TRUE(!must_not || out.places[b].lane == -1) << "seed " << seed;
  }
}

// The same once more without lifetimes(): from first and last mention alone.
void expect_rules(const PlanInput& in, const PlanOutput& out, uint64_t seed) {
  struct Seen {
    bool is_named = false, is_copied = false;
    size_t first = 0, last = 0;
  };
  std::vector<Seen> seen(in.buffers.size());
  for (size_t c = 0; c < in.calls.size(); c++) {
    for (size_t b : in.calls[c].args) {
      if (!seen[b].is_named) seen[b].first = c;
      seen[b].is_named = true;
      seen[b].last = c;
      seen[b].is_copied = seen[b].is_copied || in.calls[c].copy;
    }
  }
  for (size_t a = 0; a < seen.size(); a++) {
    const PlanPlace& pa = out.places[a];
    if (pa.lane < 0) continue;
    const PlanLane& lane = out.lanes[static_cast<size_t>(pa.lane)];
    ASSERT_EQ(lane.copy, seen[a].is_copied) << "seed " << seed;
    ASSERT_EQ(lane.device, in.buffers[a].device) << "seed " << seed;
    for (size_t b = 0; b < a; b++) {
      const PlanPlace& pb = out.places[b];
      if (pb.lane != pa.lane || seen[a].first > seen[b].last || seen[b].first > seen[a].last) {
        continue;
      }
      ASSERT_TRUE(pa.offset + in.buffers[a].nbytes <= pb.offset ||
                  pb.offset + in.buffers[b].nbytes <= pa.offset)
          << "seed " << seed << ": buffers " << a << " and " << b << " meet at a call";
    }
  }
}

TEST(MemoryPlan, InvariantsHoldForRandomInputs) {
  for (uint64_t seed = 1; seed <= 400; seed++) {
    std::mt19937_64 rng(seed);
    const PlanInput in = random_input(&rng);
    const PlanOutput tlsf = plan_tlsf(in);
    const PlanOutput fit = plan_best_fit(in);
    const PlanOutput best = plan_memory(in, true);
    expect_sound(in, tlsf, seed);
    expect_sound(in, fit, seed);
    expect_sound(in, best, seed);
    for (const PlanOutput* out : {&tlsf, &fit, &best}) expect_rules(in, *out, seed);
    for (size_t l = 0; l < best.lanes.size(); l++) {
      ASSERT_TRUE(best.lanes[l].arena <= tlsf.lanes[l].arena);
      ASSERT_TRUE(best.lanes[l].arena <= fit.lanes[l].arena);
      ASSERT_TRUE(best.lanes[l].arena >= best.lanes[l].lower_bound);
    }
    const PlanOutput again = plan_memory(in, true);
    for (size_t b = 0; b < in.buffers.size(); b++) {
      ASSERT_TRUE(again.places[b].offset == best.places[b].offset) << "seed " << seed;
    }
  }
}

// A chain with side branches, sizes of few kinds: what networks look like.
PlanInput random_chain(std::mt19937_64* rng, size_t count) {
  const auto pick = [rng](uint64_t n) { return (*rng)() % n; };
  PlanInput in;
  for (size_t b = 0; b < count; b++) {
    const uint64_t sizes[] = {1, 2, 4, 4, 3};
    in.buffers.push_back({1024 * sizes[pick(5)], "CPU", false});
  }
  for (size_t b = 1; b < count; b++) {
    PlanCall call{{b, b - 1}, false};
    if (b > 1 && pick(3) == 0) call.args.push_back(b - 2 - pick(std::min<size_t>(b - 1, 3)));
    in.calls.push_back(call);
  }
  return in;
}

TEST(MemoryPlan, SmallChainsAreWithinFivePercentOfTheOptimum) {
  int optimal = 0, total = 0;
  for (uint64_t seed = 1; seed <= 300; seed++) {
    std::mt19937_64 rng(seed);
    const PlanInput in = random_chain(&rng, 4 + seed % 6);
    const PlanOutput out = plan_memory(in, true);
    std::vector<PlanLane> ignored;
    const std::vector<Lifetime> lane = lifetimes(in, &ignored);
    const auto exact = testing::exact_arena(lane, out.lanes[0].arena, 1'000'000);
    ASSERT_TRUE(exact.is_proven) << "seed " << seed;
    ASSERT_TRUE(exact.arena >= out.lanes[0].lower_bound) << "seed " << seed;
    EXPECT_TRUE(out.lanes[0].arena * 100 <= exact.arena * 105) << "seed " << seed;
    optimal += exact.arena == out.lanes[0].arena ? 1 : 0;
    total++;
  }
  std::printf("%d of %d chains are optimal\n", optimal, total);
}

TEST(MemoryPlan, ACoreOfAFewCallsProvesThatNothingSmallerFits) {
  // Two pairs whose members each need the other's neighbour: 2 KiB more than is ever alive.
  Plan p;
  p.buffers("a", 1024).buffers("b", 2048).buffers("c", 1024).buffers("d", 2048).buffers("e", 1024);
  p.call("ab").call("cb").call("ca").call("da").call("dce").call("ec").call("e");
  std::vector<PlanLane> lanes;
  const std::vector<Lifetime> lane = lifetimes(p.in, &lanes);
  const PlanOutput out = plan_memory(p.in, true);
  const auto exact = testing::exact_arena(lane, out.lanes[0].arena, 100'000);
  ASSERT_TRUE(exact.is_proven);
  EXPECT_TRUE(exact.arena == out.lanes[0].arena);
  EXPECT_TRUE(testing::prove_optimal(lane, exact.arena, 10'000).has_value());
  EXPECT_FALSE(testing::prove_optimal(lane, exact.arena + kPlanBlock, 10'000).has_value())
      << "a larger arena is not the smallest";
}

TEST(Tlsf, MergesNeighboursOnBothSides) {
  Tlsf t(4096);
  const auto a = t.alloc(256), b = t.alloc(256), c = t.alloc(256);
  ASSERT_TRUE(a && b && c);
  t.free(*a);
  t.free(*c);
  t.free(*b);
  EXPECT_TRUE(t.alloc(4096) == Bytes{0});
  EXPECT_FALSE(t.alloc(256).has_value());
}

}  // namespace
}  // namespace modeld::schedule
