// Assignment to live tensors: whose contents change, whose do not, and what is refused.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

#include "selftest/testing/session_lab.h"

namespace modeld::exec::test {
namespace {

class Assign : public ::testing::Test, public SessionLab {
 protected:
  Tensor at(const Live& t) { return s.value(t); }
  Live a = floats({4}, {1, 2, 3, 4});
  Live b = floats({4}, {10, 20, 30, 40});
};

TEST_F(Assign, WritesInPlace) {
  const Node* before = s.storage(a);
  assign(a, at(a) + at(b));
  realize({a});
  EXPECT_EQ(s.storage(a), before);
  EXPECT_EQ(read(a), (Values{11, 22, 33, 44}));
  EXPECT_EQ(s.stats().launches, 1U);
}

TEST_F(Assign, IsSeenThroughOtherViewsOfTheBuffer) {
  const Live low = track(at(a).shrink({0}, {2})), square = track(at(a).reshape({2, 2}));
  const Live turned = track(at(square).transpose(0, 1)), back = track(at(a).flip({0}));
  assign(track(at(a).shrink({1}, {2})), at(b).shrink({0}, {2}));
  EXPECT_EQ(read(low), (Values{1, 10}));
  EXPECT_EQ(read(turned), (Values{1, 20, 10, 4}));
  EXPECT_EQ(read(back), (Values{4, 20, 10, 1}));
  EXPECT_EQ(read(a), (Values{1, 10, 20, 4}));
}

TEST_F(Assign, IsSeenThroughViewsThatWereRealisedBefore) {
  const Live low = track(at(a).shrink({0}, {2}).contiguous());
  realize({low});
  assign(a, at(b));
  realize({a});
  EXPECT_EQ(read(low), (Values{10, 20}));
}

TEST_F(Assign, BroadcastsToTheTarget) {
  const Live m = floats({2, 3}, {0, 0, 0, 0, 0, 0});
  assign(m, at(floats({3}, {1, 2, 3})));
  EXPECT_EQ(read(m), (Values{1, 2, 3, 1, 2, 3}));
  assign(m, Tensor::constant(g, 7, DType::kWeakInt));
  EXPECT_EQ(read(m), (Values{7, 7, 7, 7, 7, 7}));
}

TEST_F(Assign, OfAValueToItselfDoesNothing) {
  const Node* before = a.node();
  assign(a, at(a));
  EXPECT_EQ(a.node(), before);
  realize({a});
  EXPECT_EQ(s.stats().schedules, 0U);
}

TEST_F(Assign, OfAValueWithoutMemoryReplacesIt) {
  const Live t = track(at(a) + 1), u = track(at(t) * 2);
  assign(t, at(b));
  EXPECT_EQ(read(t), (Values{10, 20, 30, 40}));
  EXPECT_EQ(read(u), (Values{4, 6, 8, 10}));
}

TEST_F(Assign, DtypeIsNotConverted) {
  EXPECT_EQ(fault(s.assign(a, at(b).cast(DType::kI32))), Fault::kAssignDtype);
  EXPECT_EQ(read(a), (Values{1, 2, 3, 4}));
}

TEST_F(Assign, OtherDeviceIsRefused) {
  EXPECT_EQ(fault(s.assign(a, at(floats({4}, {0, 0, 0, 0}, "CPU:1")))), Fault::kAssignDevice);
}

TEST_F(Assign, ShapeThatDoesNotBroadcastIsRefused) {
  EXPECT_EQ(fault(s.assign(a, at(floats({3}, {0, 0, 0})))), Fault::kBadShape);
  EXPECT_EQ(fault(s.assign(a, at(floats({2, 4}, {0, 0, 0, 0, 0, 0, 0, 0})))), Fault::kBadShape);
}

TEST_F(Assign, IntoAViewOfAnUnrealisedValueIsRefusedNotDropped) {
  const Live sum = track(at(a) + at(b));
  const Live part = track(at(sum).shrink({0}, {2}));
  EXPECT_EQ(fault(s.assign(part, at(a).shrink({0}, {2}))), Fault::kAssignUnrealised);
  EXPECT_EQ(read(sum), (Values{11, 22, 33, 44}));
  realize({sum});  // with memory it is fine
  const Live again = track(at(sum).shrink({0}, {2}));
  assign(again, at(a).shrink({0}, {2}));
  EXPECT_EQ(read(sum), (Values{1, 2, 33, 44}));
}

TEST_F(Assign, IntoAViewThatShowsElementsTwiceIsRefused) {
  const Live twice = track(at(a).reshape({1, 4}).expand({3, 4}));
  EXPECT_EQ(fault(s.assign(twice, at(b))), Fault::kBadShape);
}

TEST_F(Assign, StaysPendingUntilAskedFor) {
  const Live c = track((at(a) * 3).contiguous());
  assign(a, at(b) + 1);
  realize({c});
  EXPECT_EQ(s.stats().launches, 1U);
  EXPECT_EQ(read(c), (Values{3, 6, 9, 12}));
  EXPECT_EQ(read(a), (Values{11, 21, 31, 41}));
}

TEST_F(Assign, ReaderOfTheOldValueRunsBeforeTheOverwrite) {
  const Live c = track((at(a) * 3).contiguous());
  assign(a, at(b) + 1);
  realize({a, c});
  EXPECT_EQ(s.stats().launches, 2U);
  EXPECT_EQ(s.stats().snapshots, 0U);
  EXPECT_EQ(read(c), (Values{3, 6, 9, 12}));
}

TEST_F(Assign, ValuesFromBeforeAndAfterInEitherOrder) {
  for (const bool y_first : {true, false}) {
    const Live x = floats({4}, {1, 2, 3, 4});
    const Live y = track(at(x) + 10);
    assign(x, at(x) * 2);
    assign(x, at(x) + 3);
    y_first ? realize({y}) : realize({x});
    EXPECT_EQ(read(y), (Values{11, 12, 13, 14}));
    EXPECT_EQ(read(x), (Values{5, 7, 9, 11}));
  }
}

TEST_F(Assign, ALazyValueKeepsWhatItsSourceHeldWhenItWasOverwrittenEarlier) {
  const Live y = track(at(a) + 10), z = track(at(y) * at(b));
  assign(a, at(b));
  realize({a});
  EXPECT_EQ(s.stats().snapshots, 1U);  // one copy for both
  EXPECT_EQ(read(a), (Values{10, 20, 30, 40}));
  EXPECT_EQ(read(z), (Values{110, 240, 390, 560}));
  EXPECT_EQ(read(y), (Values{11, 12, 13, 14}));
}

TEST_F(Assign, AValueOfAStateInBetweenIsKeptToo) {
  assign(a, at(a) + 1);
  const Live y = track(at(a) * 2);
  assign(a, at(a) + 1);
  realize({a});
  EXPECT_EQ(read(y), (Values{4, 6, 8, 10}));
  EXPECT_EQ(read(a), (Values{3, 4, 5, 6}));
}

TEST_F(Assign, NoCopyIsMadeWhenNobodyReadsTheOldContents) {
  { const Live gone = track(at(a) + 10); }
  assign(a, at(b));
  realize({a});
  EXPECT_EQ(s.stats().snapshots, 0U);
}

TEST_F(Assign, AnUntrackedValueOfOverwrittenContentsIsRefused) {
  const Tensor old = at(a) + 10;
  assign(a, at(b));
  realize({a});
  const Live y = track(old);
  EXPECT_EQ(fault(s.realize({y})), Fault::kStaleReader);
  EXPECT_EQ(read(a), (Values{10, 20, 30, 40}));  // the session goes on
  EXPECT_EQ(read(track(at(a) + 10)), (Values{20, 30, 40, 50}));
}

TEST_F(Assign, ALazyValueFusedPastTheOverwriteIsNeverTheNewBytes) {
  // x + 10 is read by a kernel that also needs the new x.
  const Tensor old = at(a) + 10;
  assign(a, at(b));
  const Live both = track(at(a) + old);
  const auto r = s.read(both);
  if (r.ok()) {
    EXPECT_EQ(r->to_doubles(), (Values{21, 32, 43, 54}));
  } else {
    EXPECT_EQ(ir::fault_of(r.error()), Fault::kIndexCycle) << r.error().what;
  }
}

TEST_F(Assign, AReaderThatCanOnlyRunAfterTheOverwriteIsRefused) {
  const Tensor old = at(a) + 10;
  assign(a, at(b));
  const Live late = track((at(a) * 2).contiguous() + old);
  EXPECT_EQ(fault(s.realize({late})), Fault::kStaleReader);
  EXPECT_EQ(read(a), (Values{10, 20, 30, 40}));
  EXPECT_EQ(read(late), (Values{31, 52, 73, 94}));  // step by step it has an order
}

TEST_F(Assign, CrossedLazyReadersAreACycleAndChangeNothing) {
  const Live c = track(at(a) + 9);
  assign(a, at(a) + at(b));
  assign(b, at(b) + at(c));
  EXPECT_EQ(fault(s.realize({a, b})), Fault::kAssignCycle);
  realize({c});  // out of the way: the rest has an order now
  EXPECT_EQ(read(b), (Values{20, 31, 42, 53}));
  EXPECT_EQ(read(a), (Values{11, 22, 33, 44}));
}

TEST_F(Assign, BothReadsPrecedeBothWrites) {
  const Tensor an = (at(a) + at(b)).contiguous(), bn = (at(a) * at(b)).contiguous();
  assign(a, an);
  assign(b, bn);
  realize({a, b});
  EXPECT_EQ(s.stats().launches, 4U);
  EXPECT_EQ(read(a), (Values{11, 22, 33, 44}));
  EXPECT_EQ(read(b), (Values{10, 40, 90, 160}));
}

TEST_F(Assign, LaterOfTwoOverlappingSlicesWins) {
  const Live x = floats({8}, {0, 0, 0, 0, 0, 0, 0, 0});
  assign(track(at(x).shrink({0}, {4})), fill({4}, 1));
  assign(track(at(x).shrink({2}, {4})), fill({4}, 2));
  EXPECT_EQ(read(x), (Values{1, 1, 2, 2, 2, 2, 0, 0}));
}

TEST_F(Assign, InterleavedCopySeesTheOldContents) {
  assign(b, at(a).contiguous());
  assign(a, at(floats({4}, {5, 6, 7, 8})));
  EXPECT_EQ(read(track(at(b).sum())), Values{10});
  EXPECT_EQ(read(a), (Values{5, 6, 7, 8}));
}

TEST_F(Assign, HappensEvenIfTheValueThatReadsItFoldsAway) {
  assign(a, at(b));
  const Live nothing = track(at(a) * 0.0);
  realize({nothing});
  EXPECT_EQ(read(nothing), (Values{0, 0, 0, 0}));
  EXPECT_EQ(read(a), (Values{10, 20, 30, 40}));
}

TEST_F(Assign, TwoWritesOverOneStateAreRefused) {
  const Live one = track(tensor::assign(at(a), at(b)));
  const Live two = track(tensor::assign(at(a), at(b) + 1));
  EXPECT_EQ(fault(s.realize({one, two})), Fault::kStaleReader);
  EXPECT_EQ(read(a), (Values{1, 2, 3, 4}));
  EXPECT_EQ(read(two), (Values{11, 21, 31, 41}));  // alone: the other gets a copy to write
  EXPECT_EQ(read(one), (Values{10, 20, 30, 40}));
}

TEST_F(Assign, RepeatedStepsKeepOneBuffer) {
  const Node* where = s.storage(a);
  for (int i = 0; i < 10; ++i) {
    assign(a, at(a) * 2);
    realize({a});
  }
  EXPECT_EQ(s.storage(a), where);
  EXPECT_EQ(read(a), (Values{1024, 2048, 3072, 4096}));
  EXPECT_EQ(s.stats().snapshots, 0U);
}

TEST_F(Assign, WritesAConstantOfTheStoreInPlace) {
  const std::vector<float> v{1, 2};
  const Live w = track(Tensor::from_floats(g, store, v, {2}));
  assign(w, at(w) + 1);
  realize({w});
  EXPECT_EQ(read(w), (Values{2, 3}));
}

TEST_F(Assign, IntoDiskHappensAtOnce) {
  const std::string path = ::testing::TempDir() + "front_assign_disk.bin";
  std::remove(path.c_str());
  const Live file = empty({4}, "DISK:" + path);
  EXPECT_EQ(fault(s.assign(file, at(a))), Fault::kAssignDevice);  // not by itself: copy it there
  const Tensor there{g,
                     g.make(Op::kCopy, DType::kF32, {at(a).node()}, std::string("DISK:" + path))};
  assign(file, there);
  std::ifstream in(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
  ASSERT_EQ(bytes.size(), 16U);
  float first = 0;
  std::memcpy(&first, bytes.data(), sizeof(first));
  EXPECT_EQ(first, 1.0F);
  std::remove(path.c_str());
}

}  // namespace
}  // namespace modeld::exec::test
