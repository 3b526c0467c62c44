#include "runtime/exec/jit.h"

#include <gtest/gtest.h>

#include "hal/base/fault.h"
#include "hal/base/status.h"

#include "runtime/tensor/shard.h"

#include "selftest/testing/jit_lab.h"

namespace modeld::exec::test {
namespace {

class JitTest : public testing::Test {
 protected:
  JitLab lab;
};

// ---- states ----

TEST_F(JitTest, CallOneIsEagerCallTwoCapturesCallThreeReplays) {
  int calls = 0;
  Jit jit(lab.s, step(&calls));
  const Live x = lab.floats({1, 2});
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(jit.cnt(), std::min(i, 2));
    EXPECT_EQ(lab.value(jit, {x}), (Values{4, 6})) << "call " << i;
  }
  EXPECT_EQ(calls, 2) << "the body runs twice";
  const Live y = lab.floats({10, 20});
  EXPECT_EQ(lab.value(jit, {y}), (Values{22, 42}));
}

TEST_F(JitTest, BranchesAndNumbersAreFrozenByTheCapture) {
  double factor = 2;
  Jit jit(lab.s, [&factor](Session& s, const JitArgs& a) -> Result<Lives> {
    return Lives{s.track(s.value(a.at(0)) * factor)};
  });
  const Live x = lab.floats({1});
  lab.value(jit, {x});
  factor = 3;
  EXPECT_EQ(lab.value(jit, {x}), Values{3}) << "captured";
  factor = 4;
  EXPECT_EQ(lab.value(jit, {x}), Values{3});
}

TEST_F(JitTest, SwitchedOffTheFunctionRunsEveryTime) {
  int calls = 0;
  Jit jit(lab.s, step(&calls), {.enabled = false});
  for (int i = 0; i < 4; ++i) EXPECT_EQ(lab.value(jit, {lab.floats({1})}), Values{4});
  EXPECT_EQ(calls, 4);
  EXPECT_EQ(jit.cnt(), 0);
}

TEST_F(JitTest, ResetStartsAnewAlsoWithAnotherSignature) {
  int calls = 0;
  Jit jit(lab.s, step(&calls));
  for (int i = 0; i < 3; ++i) lab.value(jit, {lab.floats({1, 2})});
  ASSERT_TRUE(jit.reset().ok());
  EXPECT_EQ(jit.cnt(), 0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(lab.value(jit, {lab.floats({1, 2, 3})}), (Values{4, 6, 8}));
  EXPECT_EQ(calls, 4);
}

TEST_F(JitTest, ResultsAreTheSameTensorsAndLaterCallsOverwriteThem) {
  Jit jit(lab.s, step());
  const Live eager = lab.call(jit, {lab.floats({0})});
  const Live first = lab.call(jit, {lab.floats({1})});
  const Live second = lab.call(jit, {lab.floats({2})});
  EXPECT_EQ(first, second) << "one object";
  EXPECT_NE(eager, first);
  EXPECT_EQ(lab.read(first), Values{6}) << "the second call's";
  EXPECT_EQ(lab.read(eager), Values{2});
}

// ---- aliasing and feedback ----

TEST_F(JitTest, FedBackOutputIsCopiedOnceAndLaterInputsAreRebound) {
  Jit jit(lab.s, step());
  Live x = lab.floats({0});
  for (const double want : {2., 6., 14., 30.}) {
    x = lab.call(jit, {x});
    EXPECT_EQ(lab.read(x), Values{want});
  }
  EXPECT_EQ(jit.staged_copies(), 1u);
  x = lab.call(jit, {lab.floats({100})});
  EXPECT_EQ(jit.staged_copies(), 0u);
  for (int i = 0; i < 2; ++i) x = lab.call(jit, {x});
  EXPECT_EQ(lab.read(x), Values{814});
}

TEST_F(JitTest, ShiftedConcatOfItsOwnOutputStaysRightForTenCalls) {
  Jit jit(lab.s, [](Session& s, const JitArgs& a) -> Result<Lives> {
    const Tensor tail = s.value(a.at(0)).slice({tensor::Slice{2, 4, 1}});
    const Tensor parts[] = {tail, s.value(a.at(1))};
    return Lives{s.track(tensor::concat(parts, 0).contiguous())};
  });
  Live state = lab.floats({0, 0, 0, 0});
  for (int i = 0; i < 10; ++i) {
    const auto f = static_cast<float>(i);
    state = lab.call(jit, {state, lab.floats({f, -f})});
    const double before = i > 0 ? i - 1 : 0;
    EXPECT_EQ(lab.read(state), (Values{before, -before, f, -f})) << i;
  }
}

TEST_F(JitTest, OutputAsOneOfSeveralInputs) {
  Jit jit(lab.s, [](Session& s, const JitArgs& a) -> Result<Lives> {
    const Tensor x = s.value(a.at(0)), y = s.value(a.at(1));
    return Lives{s.track(x + y), s.track((x - y).contiguous())};
  });
  Live x = lab.floats({3}), y = lab.floats({1});
  double vx = 3, vy = 1;
  for (int i = 0; i < 6; ++i) {
    const auto r = jit.call({x, y});
    ASSERT_TRUE(r.ok()) << r.error().what;
    const double sum = vx + vy, difference = vx - vy;
    EXPECT_EQ(lab.read((*r)[0]), Values{sum});
    EXPECT_EQ(lab.read((*r)[1]), Values{difference});
    x = (*r)[1];  // swapped and fed back
    y = (*r)[0];
    vx = difference;
    vy = sum;
  }
}

TEST_F(JitTest, AnInputThatIsReturnedFollowsTheArgument) {
  Jit jit(lab.s, [](Session& s, const JitArgs& a) -> Result<Lives> {
    return Lives{a.at(0), s.track(s.value(a.at(0)) + 1.0)};
  });
  for (const float v : {1.f, 2.f, 3.f, 4.f}) {
    const Live x = lab.floats({v});
    EXPECT_EQ(lab.value(jit, {x}), Values{v});
    EXPECT_EQ(lab.read(x), Values{v});
  }
}

TEST_F(JitTest, AssignedArgumentsAreWrittenInPlace) {
  Jit jit(lab.s, [](Session& s, const JitArgs& a) -> Result<Lives> {
    RETURN_IF_ERROR(s.assign(a.at(0), s.value(a.at(0)) + s.value(a.at(1))));
    return Lives{a.at(0)};
  });
  const Live sum = lab.floats({0, 0}), other = lab.floats({100, 200});
  for (int i = 1; i <= 4; ++i) {
    const auto f = static_cast<float>(i);
    lab.call(jit, {sum, lab.floats({f, 10 * f})});
  }
  EXPECT_EQ(lab.read(sum), (Values{10, 100}));
  lab.call(jit, {other, lab.floats({1, 1})});
  EXPECT_EQ(lab.read(other), (Values{101, 201}));
  EXPECT_EQ(lab.read(sum), (Values{10, 100})) << "another buffer, the first is left alone";
}

TEST_F(JitTest, ANeverWrittenEmptyIsAnInput) {
  Jit jit(lab.s, [](Session& s, const JitArgs& a) -> Result<Lives> {
    RETURN_IF_ERROR(s.assign(a.at(0), s.value(a.at(1)) * 3.0));
    return Lives{a.at(0)};
  });
  for (const float v : {1.f, 2.f, 3.f}) {
    const auto out = lab.s.empty({1}, DType::kF32);
    ASSERT_TRUE(out.ok());
    lab.call(jit, {*out, lab.floats({v})});
    EXPECT_EQ(lab.read(*out), Values{3. * v}) << "each call wrote the buffer it was given";
  }
}

// ---- implicit inputs, state, variables ----

TEST_F(JitTest, ImplicitInputsAreWhatTheirBuffersHold) {
  const Live w = lab.floats({1, 2});
  Jit jit(lab.s, [w](Session& s, const JitArgs& a) -> Result<Lives> {
    return Lives{s.track(s.value(a.at(0)) * s.value(w))};
  });
  const Live x = lab.floats({10, 10});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(lab.value(jit, {x}), (Values{10, 20}));
  ASSERT_TRUE(lab.s.assign(w, lab[w] + 5.0).ok());
  ASSERT_TRUE(lab.s.realize({w}).ok());
  EXPECT_EQ(lab.value(jit, {x}), (Values{60, 70}));
}

TEST_F(JitTest, AFunctionWithoutArgumentsReplaysOnItsImplicitInputs) {
  const Live w = lab.floats({1});
  Jit jit(lab.s, [w](Session& s, const JitArgs&) -> Result<Lives> {
    return Lives{s.track(s.value(w) + 1.0)};
  });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(lab.value(jit, {}), Values{2});
  ASSERT_TRUE(lab.s.assign(w, Tensor::full(lab.g, {1}, 9, DType::kF32)).ok());
  ASSERT_TRUE(lab.s.realize({w}).ok());
  EXPECT_EQ(lab.value(jit, {}), Values{10});
}

TEST_F(JitTest, CapturedStateGoesOnAsInTheFunctionItself) {
  // A counter and a sequence drawn from it, as random numbers are.
  const auto sequence = [](bool enabled) {
    JitLab own;
    const Live counter = own.floats({0});
    Jit jit(own.s,
            [counter](Session& s, const JitArgs& a) -> Result<Lives> {
              RETURN_IF_ERROR(s.assign(counter, s.value(counter) + 1.0));
              RETURN_IF_ERROR(s.realize({counter}));
              return Lives{s.track(s.value(counter) * s.value(counter) + s.value(a.at(0)))};
            },
            {.enabled = enabled});
    Values out;
    for (int i = 0; i < 6; ++i) out.push_back(own.value(jit, {own.floats({0.5f})})[0]);
    return out;
  };
  EXPECT_EQ(sequence(true), sequence(false));
  EXPECT_EQ(sequence(true), (Values{1.5, 4.5, 9.5, 16.5, 25.5, 36.5}));
}

TEST_F(JitTest, VariablesChangeFreelyInsideTheirRange) {
  const ir::Node* n = ir::variable(lab.g, "n", 0, 9);
  Jit jit(lab.s,
          [](Session& s, const JitArgs& a) -> Result<Lives> {
            const Tensor factor(s.graph(), a.variable("n"));
            return Lives{s.track(s.value(a.at(0)) * factor.cast(DType::kF32))};
          },
          {.batch = {.graph_one_kernel = true}});
  const Live x = lab.floats({10});
  for (const int64_t v : {2, 3, 5, 7, 0, 9}) {
    JitArgs args{x};
    args.add_variable(*schedule::bind(lab.g, n, v));
    EXPECT_EQ(lab.value(jit, args), Values{10. * static_cast<double>(v)});
  }
  EXPECT_EQ(jit.replay()->patched_words(), 1u) << "the variable alone";
}

// ---- capture ----

TEST_F(JitTest, SeveralLinearsAreJoined) {
  Jit jit(lab.s, [](Session& s, const JitArgs& a) -> Result<Lives> {
    const Live t = s.track(s.value(a.at(0)) + 1.0);
    RETURN_IF_ERROR(s.realize({t}));
    const Live u = s.track(s.value(t) * 2.0);
    RETURN_IF_ERROR(s.realize({u}));
    return Lives{s.track(s.value(u) - s.value(t))};
  });
  const SessionStats before = lab.s.stats();
  for (const float v : {1.f, 2.f, 3.f})
    EXPECT_EQ(lab.value(jit, {lab.floats({v})}), Values{v + 1.});
  EXPECT_EQ(lab.s.stats().captured - before.captured, 3u);
  ASSERT_NE(jit.linear(), nullptr);
  EXPECT_EQ(jit.linear()->calls.size(), 3u);
  EXPECT_EQ(jit.replay()->batches().size(), 1u);
}

TEST_F(JitTest, WithCapturingOffWorkRunsAtOnceAndIsNotReplayed) {
  const Live log = lab.floats({0});
  Jit jit(lab.s, [log](Session& s, const JitArgs& a) -> Result<Lives> {
    s.set_capturing(false);
    RETURN_IF_ERROR(s.assign(log, s.value(log) + 1.0));
    RETURN_IF_ERROR(s.realize({log}));
    s.set_capturing(true);
    return Lives{s.track(s.value(a.at(0)) + 1.0)};
  });
  for (int i = 0; i < 5; ++i) EXPECT_EQ(lab.value(jit, {lab.floats({1})}), Values{2});
  EXPECT_EQ(lab.read(log), Values{2}) << "once eagerly and once while capturing";
  EXPECT_EQ(jit.linear()->calls.size(), 1u);
}

JitFunction twice_w_plus_x(const Live& w) {
  return [w](Session& s, const JitArgs& a) -> Result<Lives> {
    return Lives{s.track((s.value(w) * 2.0).contiguous() + s.value(a.at(0)))};
  };
}

TEST_F(JitTest, PruningLeavesWhatNoInputReachesOutOfTheReplay) {
  const Live w = lab.floats({1, 2});
  Jit whole(lab.s, twice_w_plus_x(w)), pruned(lab.s, twice_w_plus_x(w), {.prune = true});
  for (const float v : {10.f, 20.f, 30.f}) {
    EXPECT_EQ(lab.value(whole, {lab.floats({v, v})}), (Values{v + 2., v + 4.}));
    EXPECT_EQ(lab.value(pruned, {lab.floats({v, v})}), (Values{v + 2., v + 4.}));
  }
  EXPECT_EQ(whole.linear()->calls.size(), 2u);
  EXPECT_EQ(pruned.linear()->calls.size(), 1u);
}

TEST_F(JitTest, PruningKeepsStateThatChangesFromRunToRun) {
  const Live counter = lab.floats({0});
  Jit jit(lab.s,
          [counter](Session& s, const JitArgs& a) -> Result<Lives> {
            RETURN_IF_ERROR(s.assign(counter, s.value(counter) + 1.0));
            RETURN_IF_ERROR(s.realize({counter}));
            return Lives{s.track(s.value(a.at(0)) + s.value(counter))};
          },
          {.prune = true});
  for (int i = 1; i <= 5; ++i) EXPECT_EQ(lab.value(jit, {lab.floats({0})}), Values{1. * i});
}

TEST_F(JitTest, TemporariesArePlannedAndResultsAreHeld) {
  Jit jit(lab.s, [](Session& s, const JitArgs& a) -> Result<Lives> {
    Tensor t = s.value(a.at(0));
    for (int i = 0; i < 6; ++i) t = (t + 1.0).contiguous();
    return Lives{s.track(t * 1.0)};
  });
  std::vector<float> x(1024);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(lab.value(jit, {lab.floats(x)})[0], 6);
  size_t held = 0;
  uint64_t arena_bytes = 0;
  for (const MemoryRow& m : jit.linear()->memories) {
    held += m.is_held ? 1 : 0;
    arena_bytes += m.is_held ? 0 : m.bytes;
  }
  EXPECT_EQ(held, 1u) << "the result";
  EXPECT_EQ(arena_bytes, 2 * 4096u) << "two buffers take turns";
}

TEST_F(JitTest, ManyKernelsAreBatchedAndAgreeWithPlainCalls) {
  const auto function = [](Session& s, const JitArgs& a) -> Result<Lives> {
    Tensor t = s.value(a.at(0));
    for (int i = 0; i < 40; ++i) t = (t + 1.0).contiguous();
    return Lives{s.track(t * 2.0)};
  };
  Jit graphs(lab.s, function), plain(lab.s, function, {.batch = {.no_graphs = true}});
  for (const float v : {0.f, 5.f, 7.f}) {
    EXPECT_EQ(lab.value(graphs, {lab.floats({v})}), Values{(v + 40.) * 2});
    EXPECT_EQ(lab.value(plain, {lab.floats({v})}), Values{(v + 40.) * 2});
  }
  std::vector<uint32_t> sizes;
  for (const Batch& b : graphs.replay()->batches()) sizes.push_back(b.count);
  EXPECT_EQ(sizes, (std::vector<uint32_t>{32, 9}));
  EXPECT_EQ(plain.replay()->batches().size(), 41u);
  EXPECT_EQ(plain.replay()->recorded_lists(), 0u);
}

TEST_F(JitTest, UnchangedArgumentsPatchNoWord) {
  Jit jit(lab.s, step());
  const Live x = lab.floats({1}), y = lab.floats({2});
  for (int i = 0; i < 3; ++i) lab.call(jit, {x});
  EXPECT_EQ(jit.replay()->patched_words(), 0u);
  lab.call(jit, {y});
  EXPECT_EQ(jit.replay()->patched_words(), 1u);
}

TEST_F(JitTest, ViewsOfABufferAreRebound) {
  Jit jit(lab.s, [](Session& s, const JitArgs& a) -> Result<Lives> {
    const Tensor x = s.value(a.at(0));
    const Tensor low = x.slice({tensor::Slice{0, 2, 1}}), high = x.slice({tensor::Slice{2, 4, 1}});
    return Lives{s.track(low + high * 10.0)};
  });
  for (const float v : {1.f, 2.f, 3.f, 4.f}) {
    const Live whole = lab.floats({0, 0, v, v + 1, v + 2, v + 3});
    const Live part = lab.s.track(lab[whole].slice({tensor::Slice{2, 6, 1}}));
    EXPECT_EQ(lab.value(jit, {part}), (Values{v + 10. * (v + 2), v + 1. + 10. * (v + 3)}));
  }
}

TEST_F(JitTest, TwoDevicesWithACopyBetweenThem) {
  Jit jit(lab.s, [](Session& s, const JitArgs& a) -> Result<Lives> {
    const Tensor there = s.value(a.at(0)) + 1.0;
    const Tensor here(s.graph(), s.graph().make(ir::Op::kCopy, DType::kF32,
                                                {there.contiguous().node()}, std::string("CPU:1")));
    return Lives{s.track(here * s.value(a.at(1)))};
  });
  for (const float v : {1.f, 2.f, 3.f, 4.f, 5.f})
    EXPECT_EQ(lab.value(jit, {lab.floats({v}), lab.floats(std::vector<float>{10}, "CPU:1")}),
              Values{(v + 1.) * 10});
  EXPECT_EQ(jit.linear()->devices.size(), 2u);
  EXPECT_EQ(jit.replay()->batches().size(), 1u);
  EXPECT_EQ(jit.replay()->recorded_lists(), 2u);
}

TEST_F(JitTest, ShardedValuesAreComputedEagerlyAndRefusedWhenCaptured) {
  Jit jit(lab.s, [](Session& s, const JitArgs& a) -> Result<Lives> {
    const Tensor parts = tensor::shard(s.value(a.at(0)), {"CPU:0", "CPU:1"}, 0);
    return Lives{s.track(tensor::to(parts + 1.0, "CPU"))};
  });
  EXPECT_EQ(lab.value(jit, {lab.floats({1, 2, 3, 4})}), (Values{2, 3, 4, 5}));
  for (int again = 0; again < 2; ++again) {
    const auto r = jit.call({lab.floats({1, 2, 3, 4})});
    ASSERT_FALSE(r.ok());
    EXPECT_EQ(r.error().code, Errc::kUnsupported);
    EXPECT_NE(r.error().what.find("CPU:0,CPU:1"), std::string::npos) << r.error().what;
  }
}

TEST_F(JitTest, FreeIntermediatesGivesMemoryBackAndTheNextCallTakesItAgain) {
  const Live counter = lab.floats({0});
  Jit jit(lab.s, [counter](Session& s, const JitArgs& a) -> Result<Lives> {
    RETURN_IF_ERROR(s.assign(counter, s.value(counter) + 1.0));
    const Tensor t = (s.value(a.at(0)) + 1.0).contiguous();
    return Lives{s.track(t * 2.0), counter};
  });
  std::vector<float> x(256, 1);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(lab.value(jit, {lab.floats(x)})[255], 4);
  const uint64_t before = jit.bound_bytes();
  ASSERT_TRUE(jit.free_intermediates().ok());
  EXPECT_EQ(jit.replay(), nullptr) << "recordings are gone";
  EXPECT_EQ(jit.bound_bytes(), 4u) << "the counter is state and stays";
  EXPECT_EQ(lab.value(jit, {lab.floats(x)})[255], 4);
  EXPECT_EQ(jit.bound_bytes(), before);
  EXPECT_EQ(lab.read(counter), Values{4});
}

// Five temporaries of 100 floats, so that each view in the arena has bytes behind it that are
// nobody's.
JitFunction chain_of_temporaries() {
  return [](Session& s, const JitArgs& a) -> Result<Lives> {
    Tensor t = s.value(a.at(0));
    for (int i = 0; i < 5; ++i) t = (t * t + 1.0).contiguous();
    return Lives{s.track(t - 1.0)};
  };
}

TEST_F(JitTest, OutputsDoNotDependOnWhatAnArenaHeldBefore) {
  Jit jit(lab.s, chain_of_temporaries());
  const Live x = lab.floats(std::vector<float>(100, 0.5f));
  Values want;
  for (int i = 0; i < 3; ++i) want = lab.value(jit, {x});
  ASSERT_FALSE(jit.arenas().empty());
  for (const hal::Buffer& arena : jit.arenas())
    std::fill(arena.cpu().begin(), arena.cpu().end(), std::byte{0xff});  // NaN in every type
  EXPECT_EQ(lab.value(jit, {x}), want);
}

TEST_F(JitTest, BytesBehindArenaViewsAreUnchangedAfterTenThousandRuns) {
  Jit jit(lab.s, chain_of_temporaries());
  const Live x = lab.floats(std::vector<float>(100, 0.5f)), y = lab.floats(std::vector<float>(100));
  for (int i = 0; i < 2; ++i) lab.call(jit, {x});
  const std::vector<hal::Buffer> arenas = jit.arenas();
  ASSERT_EQ(arenas.size(), 1u);
  const std::span<std::byte> bytes = arenas[0].cpu();
  std::vector<bool> is_used(bytes.size());
  for (const CompiledCall& call : jit.linear()->calls)
    for (const CallArg& arg : call.args)
      if (arg.ref.kind == ArgRef::Kind::kBuffer && !jit.linear()->memories[arg.ref.index].is_held)
        std::fill_n(is_used.begin() + static_cast<std::ptrdiff_t>(arg.ref.offset), arg.bytes, true);
  size_t guards = 0;
  for (size_t i = 0; i < bytes.size(); ++i)
    if (!is_used[i]) bytes[i] = std::byte{0xa5}, ++guards;
  ASSERT_GE(guards, 112u);
  for (int i = 0; i < 10'000; ++i) ASSERT_TRUE(jit.call({i % 2 == 0 ? x : y}).ok());
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (is_used[i]) continue;
    ASSERT_EQ(bytes[i], std::byte{0xa5}) << "byte " << i;
  }
}

// ---- refusals ----

TEST_F(JitTest, NothingCapturedIsAnError) {
  Jit jit(lab.s, [](Session&, const JitArgs& a) -> Result<Lives> { return Lives{a.at(0)}; });
  const Live x = lab.floats({1});
  EXPECT_TRUE(jit.call({x}).ok());
  EXPECT_EQ(fault_of_call(jit, {x}), Fault::kNothingCaptured);
  EXPECT_EQ(jit.cnt(), 1);
}

TEST_F(JitTest, ReadingDuringCaptureIsAnErrorAndNothingIsLost) {
  const Live sum = lab.floats({0});
  Jit jit(lab.s, [sum](Session& s, const JitArgs& a) -> Result<Lives> {
    RETURN_IF_ERROR(s.assign(sum, s.value(sum) + s.value(a.at(0))));
    RETURN_IF_ERROR(s.realize({sum}));
    ASSIGN_OR_RETURN(const HostTensor seen, s.read(sum));
    return Lives{s.track(s.value(sum) + seen.to_doubles()[0])};
  });
  EXPECT_EQ(lab.value(jit, {lab.floats({1})}), Values{2});
  EXPECT_EQ(fault_of_call(jit, {lab.floats({2})}), Fault::kCaptureRead);
  EXPECT_EQ(lab.read(sum), Values{3}) << "the assign that was captured before was carried out";
  EXPECT_FALSE(lab.s.is_capturing());
}

TEST_F(JitTest, NestedCaptureIsSeenInTheFirstOuterCall) {
  int inner_calls = 0;
  Jit inner(lab.s, step(&inner_calls));
  Jit outer(lab.s, [&inner](Session&, const JitArgs& a) { return inner.call(a); });
  const Live x = lab.floats({1});
  EXPECT_EQ(fault_of_call(outer, {x}), Fault::kCaptureNested);
  EXPECT_EQ(outer.cnt(), 0);
  EXPECT_EQ(inner_calls, 0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(lab.value(inner, {x}), Values{4});
  EXPECT_EQ(fault_of_call(outer, {x}), Fault::kCaptureNested) << "also when the inner one replays";
}

TEST_F(JitTest, ResultsWithoutMemoryAreRefused) {
  Jit invalid(lab.s, [](Session&, const JitArgs&) -> Result<Lives> { return Lives{Live()}; });
  EXPECT_EQ(fault_of_call(invalid, {lab.floats({1})}), Fault::kNotABuffer);
  Jit number(lab.s, [](Session& s, const JitArgs&) -> Result<Lives> {
    return Lives{s.track(Tensor::full(s.graph(), {2}, 1.0, DType::kF32))};
  });
  EXPECT_EQ(fault_of_call(number, {lab.floats({1})}), Fault::kNotABuffer);
  EXPECT_EQ(number.cnt(), 0);
}

TEST_F(JitTest, ErrorsOfTheFunctionComeBackAndTheJitGoesOn) {
  bool fails = true;
  Jit jit(lab.s, [&fails](Session& s, const JitArgs& a) -> Result<Lives> {
    if (fails) return fail(Errc::kUnsupported, "not today");
    return Lives{s.track(s.value(a.at(0)) + 1.0)};
  });
  EXPECT_EQ(jit.call({lab.floats({1})}).error().what, "not today");
  fails = false;
  EXPECT_EQ(lab.value(jit, {lab.floats({1})}), Values{2});
  fails = true;
  EXPECT_EQ(jit.call({lab.floats({1})}).error().what, "not today") << "while it captures";
  fails = false;
  for (const float v : {1.f, 2.f}) EXPECT_EQ(lab.value(jit, {lab.floats({v})}), Values{v + 1.});
  EXPECT_EQ(jit.cnt(), 2);
}

TEST_F(JitTest, AnUnboundVariableIsAnErrorAtTheLaunch) {
  const ir::Node* n = ir::variable(lab.g, "n", 0, 9);
  Jit jit(lab.s, [n](Session& s, const JitArgs& a) -> Result<Lives> {
    return Lives{s.track(s.value(a.at(0)) * Tensor(s.graph(), n).cast(DType::kF32))};
  });
  EXPECT_EQ(fault_of_call(jit, {lab.floats({1})}), Fault::kUnboundVariable);
}

// On a device whose every run takes so long. False when the call was in time after all: its caller
// did not come to look before the run was over.
bool is_late_and_stays_stopped(int delay_ms) {
  fault::set_for_test(strf("cpu_delay_ms=%d", delay_ms));
  JitLab slow;
  const Live x = slow.floats({1});
  fault::set_for_test("");
  Jit jit(slow.s, step());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(slow.value(jit, {x}), Values{4});
  const auto late = jit.call({x}, Deadline::in_ms(1));
  if (late.ok()) return false;
  EXPECT_EQ(late.error().code, Errc::kTimeout);
  const auto next = jit.call({x});
  EXPECT_FALSE(next.ok()) << "no result of a stopped replay, old or new";
  EXPECT_TRUE(next.ok() || next.error().what.find("stopped") != std::string::npos);
  EXPECT_TRUE(jit.reinit(Deadline::in_ms(30'000)).ok());
  EXPECT_EQ(slow.value(jit, {slow.floats({2})}), Values{6});
  return true;
}

TEST_F(JitTest, ADeadlineThatPassesIsAnErrorAndLaterCallsFailAtOnce) {
  if (!fault::kBuilt) GTEST_SKIP() << "built without fault switches";
  for (int delay_ms = 60; delay_ms < 10'000; delay_ms *= 4) {
    if (is_late_and_stays_stopped(delay_ms)) return;
  }
  FAIL() << "no call missed a deadline of 1 ms";
}

}  // namespace
}  // namespace modeld::exec::test
