// Everything of a search but the search itself (codegen/beam_search_test.cc): candidates, scratch
// runs, the comparison, the cache, and whole plans.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <set>

#include "hal/backends.h"
#include "hal/base/fs.h"
#include "hal/device_ban.h"

#include "runtime/compile/entry_file.h"
#include "runtime/exec/beam_cache.h"
#include "runtime/exec/beam_compile.h"
#include "runtime/exec/beam_judge.h"
#include "runtime/exec/beam_kernel.h"
#include "runtime/exec/beam_plan.h"
#include "runtime/exec/retune.h"
#include "runtime/ir/print.h"
#include "runtime/tensor/nn.h"

#include "selftest/testing/kernel_builder.h"
#include "selftest/testing/plan_lab.h"

namespace modeld::exec {
namespace {

using ir::Node;
using ir::Op;
using ir::Opt;
using ir::OptOp;
using ir::Opts;
using tensor::Tensor;
using test::result_of;
using test::text_of;
using testing::KernelBuilder;

CompileOptions options_of(const std::string& renderer) {
  CompileOptions o;
  o.target = *hal::parse_target("cpu");
  o.target.renderer = renderer;
  o.jobs = 2;
  return o;
}

// out[i] = factor * sum of x[i, :]
const Node* scaled_sum(ir::Graph& g, double factor) {
  KernelBuilder b(g);
  const Node *i = b.loop(16), *r = b.reduce_loop(32);
  const Node* x = b.at(b.param(1, 16 * 32), b.add(b.times(i, 32), r));
  return b.kernel(b.param(0, 16), i, b.mul(b.reduce(Op::kAdd, x, {r}), b.f(factor)), {i});
}

struct CandidatesPath : ::testing::TestWithParam<const char*> {
  ir::Graph g;
  const Node* ast = scaled_sum(g, 2);
  Backend backend = std::move(*make_backend(options_of(GetParam())));
};
INSTANTIATE_TEST_SUITE_P(Beam, CandidatesPath, ::testing::Values("c", "x86"), [](const auto& p) {
  return std::string(p.param);
});

TEST_P(CandidatesPath, BadListsGiveNothingAndTheOthersDoNotDependOnJobs) {
  const std::vector<Opts> lists = {{},
                                   {{OptOp::kLocal, 0, 4}},
                                   {{OptOp::kUpcast, 0, 4}},
                                   {{OptOp::kUnroll, 0, 5}},
                                   {{OptOp::kUnroll, 0, 4}, {OptOp::kUpcast, 0, 8}}};
  std::set<std::string> results;
  for (const int jobs : {0, 1, 3}) {
    CandidateCompiler compiler(ast, false, backend, {jobs, 3000});
    const auto made = compiler.compile(lists);
    ASSERT_EQ(made.size(), lists.size());
    std::string text;
    for (size_t i = 0; i < made.size(); ++i) {
      EXPECT_EQ(made[i].has_value(), i != 1 && i != 3) << i;
      if (made[i]) text += blake2b(made[i]->image.code).hex() + " ";
    }
    results.insert(text);
  }
  EXPECT_EQ(results.size(), 1u);
}

TEST_P(CandidatesPath, TooManyInstructionsAreNotCompiled) {
  CandidateCompiler compiler(ast, false, backend, {1, 3000});
  const auto one = compiler.compile_one({});
  ASSERT_TRUE(one.ok()) << one.error().what;
  const int64_t n = one->program.instructions;
  EXPECT_GT(n, 5);
  const std::vector<Opts> plain = {{}};
  EXPECT_FALSE(CandidateCompiler(ast, false, backend, {1, n}).compile(plain)[0].has_value());
  EXPECT_TRUE(CandidateCompiler(ast, false, backend, {1, n + 1}).compile(plain)[0].has_value());
}

TEST_P(CandidatesPath, EqualProgramsHaveEqualBytesWhateverTheirNames) {
  CandidateCompiler compiler(ast, false, backend, {1, 3000});
  // UNROLL by the whole axis in its two spellings: two keys, two names, one program.
  const auto a = compiler.compile_one({{OptOp::kUnroll, 0, 0}});
  const auto b = compiler.compile_one({{OptOp::kUnroll, 0, 32}});
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_NE(a->program.name, b->program.name);
  EXPECT_EQ(a->bytes, b->bytes);
  const auto c = compiler.compile_one({{OptOp::kUnroll, 0, 4}});
  ASSERT_TRUE(c.ok());
  EXPECT_NE(c->bytes, a->bytes);
}

TEST(CandidateCompiler, ACompilerThatHangsIsEndedAtItsLimit) {
  auto dir = TempDir::create();
  const std::string clang = join_path(dir->path(), "clang");
  ASSERT_TRUE(
      write_text_atomic(clang,
                        "#!/bin/sh\n[ \"$1\" = --version ] && { echo clang version 0; exit; }\n"
                        "exec sleep 600\n",
                        0755)
          .ok());
  CompileOptions o = options_of("c");
  o.clang = clang;
  o.compile_timeout_ms = 200;
  auto backend = make_backend(o);
  ASSERT_TRUE(backend.ok()) << backend.error().what;
  ir::Graph g;
  const Node* ast = scaled_sum(g, 2);
  CandidateCompiler compiler(ast, false, *backend, {2, 3000});
  const auto made = compiler.compile(std::vector<Opts>{{}, {{OptOp::kUpcast, 0, 4}}});
  EXPECT_FALSE(made[0].has_value() || made[1].has_value());
  EXPECT_EQ(compiler.compile_one({}).error().code, Errc::kTimeout);
}

// ---- scratch runs ----

struct BenchTest : ::testing::Test {
  ir::Graph g;
  Backend backend = std::move(*make_backend(options_of("c")));
  std::unique_ptr<hal::Device> device;
  void SetUp() override {
    hal::DeviceConfig config;
    config.profile = true;
    auto d = hal::open_device("cpu", config);
    ASSERT_TRUE(d.ok());
    device = std::move(*d);
  }
  Candidate made(const Node* ast, const Opts& opts = {}) {
    auto c = CandidateCompiler(ast, false, backend, {1, 3000}).compile_one(opts);
    EXPECT_TRUE(c.ok()) << c.error().what;
    return std::move(*c);
  }
};
using KernelBenchTest = BenchTest;

TEST_F(KernelBenchTest, RunsAndTimesTheSameNumbersAgain) {
  const Node* ast = scaled_sum(g, 2);
  auto bench = KernelBench::create(*device, g, ast);
  ASSERT_TRUE(bench.ok()) << bench.error().what;
  auto plain = (*bench)->load(made(ast));
  auto fast = (*bench)->load(made(ast, {{OptOp::kUnroll, 0, 4}}));
  ASSERT_TRUE(plain.ok() && fast.ok());
  const auto us = (*bench)->run_us(*plain);
  ASSERT_TRUE(us.ok());
  EXPECT_GT(*us, 0);
  const auto a = (*bench)->outputs(*plain), b = (*bench)->outputs(*fast);
  ASSERT_TRUE(a.ok() && b.ok());
  ASSERT_EQ(a->size(), 1u);
  EXPECT_EQ((*a)[0].bytes.size(), 16u * 4);
  EXPECT_TRUE(compare_outputs(*b, *a).ok());
  EXPECT_EQ((*(*bench)->outputs(*plain))[0].bytes, (*a)[0].bytes);
}

TEST_F(KernelBenchTest, VariablesTakeTheMiddleOfTheirRange) {
  KernelBuilder b(g);
  const Node* n = ir::variable(g, "n", 10, 30);
  const Node* i = b.loop(4);
  const Node* value = g.make(Op::kCast, ir::DType::kI32, {n});
  const Node* ast = b.kernel(b.param(0, 4, ir::DType::kI32), i, value, {i});
  auto bench = KernelBench::create(*device, g, ast);
  ASSERT_TRUE(bench.ok()) << bench.error().what;
  auto kernel = (*bench)->load(made(ast));
  ASSERT_TRUE(kernel.ok()) << kernel.error().what;
  const auto out = (*bench)->outputs(*kernel);
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(static_cast<int>((*out)[0].bytes[0]), 20);
}

TEST_F(KernelBenchTest, ScratchReachesAsFarAsAVariableMayGo) {
  KernelBuilder b(g);
  const Node* pitch = ir::variable(g, "pitch", 16, 4096);
  const Node *y = b.loop(64), *x = b.loop(16);
  // Declared for a pitch of 16; the middle of the range is 2056.
  const Node* read = b.at(b.param(1, 64 * 16), b.add(b.mul(y, pitch), x));
  const Node* ast = b.kernel(b.param(0, 64 * 16), b.add(b.times(y, 16), x), read, {y, x});
  auto bench = KernelBench::create(*device, g, ast);
  ASSERT_TRUE(bench.ok()) << bench.error().what;
  auto kernel = (*bench)->load(made(ast));
  ASSERT_TRUE(kernel.ok());
  EXPECT_TRUE((*bench)->outputs(*kernel).ok());
}

TEST_F(KernelBenchTest, AddressesFromDataAreRefused) {
  KernelBuilder b(g);
  const Node* i = b.loop(4);
  const Node* where =
      g.make(Op::kCast, ir::DType::kWeakInt, {b.at(b.param(2, 4, ir::DType::kI32), i)});
  const Node* ast = b.kernel(b.param(0, 4), i, b.at(b.param(1, 8), where), {i});
  const auto bench = KernelBench::create(*device, g, ast);
  ASSERT_FALSE(bench.ok());
  EXPECT_EQ(bench.error().code, Errc::kUnsupported);
  EXPECT_EQ(bench.error().what, "an address depends on data");
}

TEST_F(KernelBenchTest, AWrongWinnerIsNeverChosen) {
  const Node* ast = scaled_sum(g, 2);
  auto bench = KernelBench::create(*device, g, ast);
  ASSERT_TRUE(bench.ok());
  const Candidate plain = made(ast), rule = made(ast, {{OptOp::kUpcast, 0, 4}});
  const Candidate right = made(ast, {{OptOp::kUnroll, 0, 4}}), wrong = made(scaled_sum(g, 2.01));
  const JudgeLimits limits{3, -1e9};  // any time wins
  const auto good = judge_winner(**bench, {&plain, &rule, &right}, limits);
  ASSERT_TRUE(good.ok()) << good.error().what;
  EXPECT_TRUE(good->is_winner) << good->note;
  EXPECT_GT(good->rule_us, 0);
  EXPECT_GT(good->winner_us, 0);
  const auto bad = judge_winner(**bench, {&plain, &rule, &wrong}, limits);
  ASSERT_TRUE(bad.ok());
  EXPECT_FALSE(bad->is_winner);
  EXPECT_EQ(bad->winner_us, 0) << "what is wrong is not timed";
  EXPECT_NE(bad->note.find("the winner is wrong: output 0: element"), std::string::npos);
}

TEST_F(KernelBenchTest, AWinnerThatGainsNothingIsNotChosen) {
  const Node* ast = scaled_sum(g, 2);
  auto bench = KernelBench::create(*device, g, ast);
  const Candidate plain = made(ast), rule = made(ast, {{OptOp::kUpcast, 0, 4}});
  const auto same = judge_winner(**bench, {&plain, &rule, &rule}, {3, 0.9});
  ASSERT_TRUE(same.ok());
  EXPECT_FALSE(same->is_winner);
  EXPECT_EQ(same->note, "no faster than the rule's choice");
}

KernelBench::Output floats(std::vector<float> v) {
  const auto b = std::as_bytes(std::span(v));
  return {ir::DType::kF32, {b.begin(), b.end()}};
}
bool equal(const KernelBench::Output& a, const KernelBench::Output& b, double scale = 1) {
  return compare_outputs(std::span(&a, 1), std::span(&b, 1), scale).ok();
}

TEST(CompareOutputs, FloatsByTheLargestAndIntegersByByte) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(equal(floats({100, 0.009f}), floats({100, 0})));
  EXPECT_FALSE(equal(floats({100, 0.011f}), floats({100, 0})));
  EXPECT_FALSE(equal(floats({100, 0.009f}), floats({100, 0}), 0)) << "to the bit";
  EXPECT_TRUE(equal(floats({100, nan}), floats({100, nan}), 0));
  EXPECT_TRUE(equal(floats({1, nan, inf}), floats({1, nan, inf})));
  EXPECT_FALSE(equal(floats({1, nan}), floats({1, 0})));
  EXPECT_FALSE(equal(floats({1, 0}), floats({1, nan})));
  EXPECT_FALSE(equal(floats({1, inf}), floats({1, -inf})));
  EXPECT_FALSE(equal(floats({1}), floats({1, 1})));
  KernelBench::Output a{ir::DType::kI32, std::vector<std::byte>(8)}, b = a;
  EXPECT_TRUE(equal(a, b));
  b.bytes[4] = std::byte{1};
  EXPECT_FALSE(equal(a, b));
}

TEST(TakeTurns, AlternatesAndTakesMedians) {
  std::string order;
  double first = 0, second = 0;
  const auto t = take_turns(
      3,
      [&]() -> Result<double> {
        order += 'a';
        return first += 1;
      },
      [&]() -> Result<double> {
        order += 'b';
        return second += 10;
      });
  ASSERT_TRUE(t.ok());
  EXPECT_EQ(order, "abababab") << "one uncounted run each, then three";
  EXPECT_EQ(t->first, 3);
  EXPECT_EQ(t->second, 30);
}

TEST(TakeTurns, AFailureEndsThem) {
  const auto bad = []() -> Result<double> { return fail(Errc::kTimeout, "late"); };
  EXPECT_EQ(take_turns(3, bad, bad).error().code, Errc::kTimeout);
}

// ---- cache ----

BeamSetting setting() {
  return {4, {}, "codegen", "clang 19 -O2", "cpu 2 threads"};
}

TEST(BeamCache, KeepsFindingsWhole) {
  auto dir = TempDir::create();
  const BeamCache cache(dir->path());
  BeamFinding f{{{OptOp::kUpcast, 0, 4}}, {{OptOp::kUnroll, 0, 0}}, 12.5, 10.25, true, "note"};
  const Hash256 key = beam_key(setting(), "k");
  EXPECT_FALSE(cache.find(key).has_value());
  cache.store(key, {f, {}});
  const auto got = BeamCache(dir->path()).find(key);
  ASSERT_TRUE(got.has_value());
  ASSERT_EQ(got->size(), 2u);
  EXPECT_EQ((*got)[0].heuristic, f.heuristic);
  EXPECT_EQ((*got)[0].winner, f.winner);
  EXPECT_EQ((*got)[0].heuristic_us, 12.5);
  EXPECT_EQ((*got)[0].winner_us, 10.25);
  EXPECT_TRUE((*got)[0].is_winner);
  EXPECT_EQ((*got)[0].note, "note");
  BeamCache("").store(key, {f});
  EXPECT_FALSE(BeamCache("").find(key).has_value());
}

TEST(BeamCache, EverythingThatMattersChangesTheKey) {
  std::set<std::string> keys{beam_key(setting(), "k").hex(), beam_key(setting(), "l").hex()};
  size_t count = 2;
  const auto fresh = [&](auto change) {
    BeamSetting s = setting();
    change(s);
    keys.insert(beam_key(s, "k").hex());
    EXPECT_EQ(keys.size(), ++count);
  };
  fresh([](auto& s) { s.width = 5; });
  fresh([](auto& s) { s.codegen += " "; });
  fresh([](auto& s) { s.compiler = "clang 20 -O2"; });
  fresh([](auto& s) { s.device += "x"; });
  fresh([](auto& s) { s.limits.instructions = 4000; });
  fresh([](auto& s) { s.limits.upcast = 128; });
  fresh([](auto& s) { s.limits.local = 512; });
  fresh([](auto& s) { s.limits.min_progress_us = 0.02; });
  fresh([](auto& s) { s.limits.stop_ratio = 2; });
  fresh([](auto& s) { s.limits.ops_ratio = 10; });
  fresh([](auto& s) { s.limits.pad_to = true; });
  fresh([](auto& s) { s.limits.runs = 5; });
  fresh([](auto& s) { s.limits.max_rounds = 3; });
  // Parts are told apart, not run together.
  BeamSetting a = setting(), b = setting();
  a.compiler = "x", a.device = "yz", b.compiler = "xy", b.device = "z";
  EXPECT_NE(beam_key(a, "k"), beam_key(b, "k"));
}

TEST(BeamCache, ACorruptEntryIsAMissAndGetsReplaced) {
  auto dir = TempDir::create();
  const BeamCache cache(dir->path());
  const Hash256 key = beam_key(setting(), "k");
  cache.store(key, {BeamFinding{}});
  auto bytes = *read_file(cache.path(key));
  bytes[bytes.size() / 2] ^= std::byte{1};
  ASSERT_TRUE(write_file_atomic(cache.path(key), bytes).ok());
  EXPECT_FALSE(cache.find(key).has_value());
  cache.store(key, {BeamFinding{}});
  EXPECT_TRUE(cache.find(key).has_value());
}

TEST(BeamCache, SealedNonsenseIsAMiss) {
  auto dir = TempDir::create();
  const BeamCache cache(dir->path());
  const Hash256 key = beam_key(setting(), "k");
  for (const char* text : {"", "\x01", "\xff\xff\xff\xff", "\x01\0\0\0\x04\0\0\0[X]"}) {
    (void)remove_file(cache.path(key));
    compile::store_entry(cache.path(key), 0x42444d01, key,
                         std::as_bytes(std::span(text, std::strlen(text))));
    EXPECT_FALSE(cache.find(key).has_value());
  }
}

// ---- whole plans ----

struct Model {
  ir::Graph g;
  tensor::WeightStore store;
  std::vector<EntrySpec> entries;
  CompileOptions compile;

  Model(const std::string& renderer, const std::string& cache_dir) {
    std::vector<float> w(16 * 12);
    for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i * 29 % 61) / 61.0f - 0.5f;
    const Tensor x = Tensor::input(g, "x", {8, 16}, ir::DType::kF32);
    const Tensor y = x.matmul(Tensor::from_floats(g, store, w, {16, 12})).maximum(0);
    EntrySpec run;
    run.name = "run";
    run.inputs = {{"x", x.node()}};
    run.outputs = {{"y", y.node()}, {"z", y.sum({1}).node()}};
    entries = {run};
    compile = options_of(renderer);
    compile.cache_dir = cache_dir;
  }
  Plan plan() {
    auto p = compile_plan(g, entries, store, compile);
    EXPECT_TRUE(p.ok()) << p.error().what;
    return p.ok() ? std::move(*p) : Plan{};
  }
  BeamOptions beam() const {
    BeamOptions o;
    o.width = 1;
    o.limits.max_rounds = compile.target.renderer == "c" ? 1 : 2;
    o.limits.runs = 1;
    o.turns = 3;
    o.compile = compile;
    return o;
  }
};

struct BeamPlanPath : ::testing::TestWithParam<const char*> {
  Result<TempDir> dir = TempDir::create("beam-test");
};
INSTANTIATE_TEST_SUITE_P(Beam, BeamPlanPath, ::testing::Values("c", "x86"), [](const auto& p) {
  return std::string(p.param);
});

TEST_P(BeamPlanPath, ComputesTheSameReportsBothAndRepeatsFromTheCache) {
  Model m(GetParam(), dir->path());
  const Plan rule = m.plan();
  Plan plan = rule;
  const auto first = beam_plan(plan, m.beam());
  ASSERT_TRUE(first.ok()) << first.error().what;
  EXPECT_GT(first->timed, 0u);
  EXPECT_FALSE(first->is_cached);
  EXPECT_EQ(first->kernels.size(), rule.programs.size());
  size_t winners = 0;
  for (const BeamKernel& k : first->kernels) {
    EXPECT_GT(k.finding.heuristic_us, 0) << k.name;
    winners += k.finding.is_winner ? 1 : 0;
    if (!k.finding.is_winner) continue;
    EXPECT_LT(k.finding.winner_us, k.finding.heuristic_us);
  }
  EXPECT_EQ(first->changed, first->is_kept ? winners : 0);
  if (winners > 0) {
    EXPECT_LT(first->winner_ms, first->heuristic_ms);
  }
  EXPECT_TRUE(check_plan(plan, plan.weight_bytes.size(), 0).ok());
  const auto want = result_of(rule, 8 * 16), got = result_of(plan, 8 * 16);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-4) << i;

  Plan again = rule;
  const auto second = beam_plan(again, m.beam());
  ASSERT_TRUE(second.ok()) << second.error().what;
  EXPECT_TRUE(second->is_cached);
  EXPECT_EQ(second->timed + second->tried, 0u) << "a hit needs no timing";
  EXPECT_EQ(text_of(again), text_of(plan));
  EXPECT_EQ(second->winner_ms, first->winner_ms);

  // And by its recorded opts, without any cache.
  Plan replayed = rule;
  CompileOptions bare = m.compile;
  bare.cache_dir.clear();
  ASSERT_TRUE(retune(replayed, *recipes_of(plan), NoRecipe::kRefuse, bare).ok());
  EXPECT_EQ(text_of(replayed), text_of(plan));
}

TEST(BeamPlan, AnotherWidthIsAnotherSearch) {
  auto dir = TempDir::create();
  Model m("x86", dir->path());
  const Plan plan = m.plan();
  BeamOptions o = m.beam();
  o.limits.max_rounds = 1;
  Plan first = plan, second = plan;
  ASSERT_TRUE(beam_plan(first, o).ok());
  o.width = 2;
  const auto r = beam_plan(second, o);
  ASSERT_TRUE(r.ok());
  EXPECT_FALSE(r->is_cached);
  EXPECT_GT(r->timed, 0u);
}

TEST(BeamPlan, CorruptEntriesAreSearchedAgain) {
  auto dir = TempDir::create();
  Model m("x86", dir->path());
  const Plan plan = m.plan();
  BeamOptions o = m.beam();
  o.limits.max_rounds = 1;
  Plan first = plan, second = plan;
  ASSERT_TRUE(beam_plan(first, o).ok());
  size_t damaged = 0;
  for (const auto& e :
       std::filesystem::recursive_directory_iterator(join_path(dir->path(), "beam"))) {
    if (!e.is_regular_file()) continue;
    ASSERT_TRUE(write_text_atomic(e.path().string(), "rubbish").ok());
    ++damaged;
  }
  EXPECT_GE(damaged, 2u) << "kernels and the plan";
  const auto r = beam_plan(second, o);
  ASSERT_TRUE(r.ok());
  EXPECT_FALSE(r->is_cached);
  EXPECT_GT(r->timed, 0u);
}

TEST(BeamPlan, KernelsWithOptsByNameAreLeftAlone) {
  Model m("x86", "");
  Plan plan = m.plan();
  Recipes odd = *recipes_of(plan);
  for (auto& [key, opts] : odd) opts = {{OptOp::kUnroll, 0, 2}};
  ASSERT_TRUE(retune(plan, odd, NoRecipe::kRefuse, m.compile).ok());
  const std::string before = text_of(plan);
  const auto r = beam_plan(plan, m.beam());
  ASSERT_TRUE(r.ok()) << r.error().what;
  EXPECT_EQ(r->timed, 0u);
  EXPECT_EQ(text_of(plan), before);
  for (const BeamKernel& k : r->kernels) EXPECT_EQ(k.finding.note, "asks for its opts by name");
}

TEST(BeamPlan, SmallKernelsAreLeftToTheRule) {
  Model m("x86", "");
  Plan plan = m.plan();
  BeamOptions o = m.beam();
  o.least_share = 2;  // nobody takes twice the whole
  const auto r = beam_plan(plan, o);
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(r->timed, 0u);
  EXPECT_EQ(r->changed, 0u);
  EXPECT_NE(r->kernels[0].finding.note.find("of the plan"), std::string::npos);
}

TEST(BeamPlan, ADeviceBanOutsideIsAnErrorNotIgnored) {
  Model m("x86", "");
  Plan plan = m.plan();
  const std::string before = text_of(plan);
  const hal::DeviceBan ban;
  const auto r = beam_plan(plan, m.beam());
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().code, Errc::kUnsupported);
  EXPECT_NE(r.error().what.find("opens no device"), std::string::npos) << r.error().what;
  EXPECT_EQ(text_of(plan), before);
}

TEST(BeamPlan, ATargetThatIsNotHereIsRefused) {
  Model m("c", "");
  m.compile.target =
      *hal::parse_target(hal::host_arch() == "aarch64" ? "cpu:x86-64" : "cpu:aarch64");
  m.compile.lower_only = true;
  Plan plan = m.plan();
  const auto r = beam_plan(plan, m.beam());
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().code, Errc::kUnsupported);
  EXPECT_NE(r.error().what.find("times kernels on the target"), std::string::npos);
}

}  // namespace
}  // namespace modeld::exec
