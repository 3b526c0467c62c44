// The search with made-up programs and times: no device, no compiler.
#include "runtime/codegen/beam_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "runtime/codegen/lower.h"
#include "runtime/codegen/passes.h"

#include "selftest/testing/kernel_builder.h"

namespace modeld::codegen {
namespace {

using ir::AxisType;
using ir::Graph;
using ir::Node;
using ir::Opt;
using ir::OptOp;
using ir::Opts;
using testing::KernelBuilder;

CodegenOptions options(bool has_locals = false) {
  CodegenOptions o = cpu_options(*hal::parse_target("cpu:x86-64-v3"));
  o.caps.has_locals = has_locals;
  o.caps.has_threads = !has_locals;
  return o;
}

const Node* row_sum(KernelBuilder& b, int64_t rows, int64_t cols, ir::KernelInfo info = {}) {
  const Node *i = b.loop(rows), *r = b.reduce_loop(cols);
  const Node* x = b.at(b.param(1, rows * cols), b.add(b.times(i, cols), r));
  return b.kernel(b.param(0, rows), i, b.reduce(ir::Op::kAdd, x, {r}), {i}, std::move(info));
}

// A device that exists on paper: every list compiles, to bytes of its own, and takes `us(opts)`.
struct Paper {
  std::function<double(const Opts&)> us;
  std::function<std::optional<BeamProgram>(const Opts&)> compile =
      [](const Opts& o) -> std::optional<BeamProgram> {
    return BeamProgram{ir::opts_text(o), 10, 1000};
  };
  std::vector<Opts> last;
  std::map<std::string, int> runs;

  BeamHooks hooks() {
    BeamHooks h;
    h.compile = [this](std::span<const Opts> lists) {
      last.assign(lists.begin(), lists.end());
      std::vector<std::optional<BeamProgram>> out;
      for (const Opts& o : lists) {
        out.push_back(compile(o));
      }
      return out;
    };
    h.run_us = [this](size_t i) -> std::optional<double> {
      ++runs[ir::opts_text(last[i])];
      const double t = us(last[i]);
      return std::isnan(t) ? std::optional<double>() : t;
    };
    return h;
  }
};

bool has(const Opts& opts, OptOp op) {
  return std::any_of(opts.begin(), opts.end(), [&](const Opt& o) { return o.op == op; });
}

TEST(BeamActions, AreTheHandbooksInItsOrder) {
  CodegenOptions gpu = options(true);
  gpu.caps.tensor_cores.clear();
  const auto all = beam_actions(gpu.caps, {});
  // 8x6 UPCAST, 5x3 UNROLL, 6x7 LOCAL, 3x8 GROUPTOP, 3x4 GROUP, 2 LOCAL, 10 SWAP, 3x10 THREAD, 1.
  ASSERT_EQ(all.size(), 48u + 15 + 42 + 24 + 12 + 2 + 10 + 30 + 1);
  EXPECT_EQ(all.front(), (Opt{OptOp::kUpcast, 0, 0}));
  EXPECT_EQ(all[47], (Opt{OptOp::kUpcast, 7, 7}));
  EXPECT_EQ(all[48], (Opt{OptOp::kUnroll, 0, 0}));
  EXPECT_EQ(all[63], (Opt{OptOp::kLocal, 0, 2}));
  EXPECT_EQ(all[105], (Opt{OptOp::kGroupTop, 0, 13}));
  EXPECT_EQ(all[141], (Opt{OptOp::kLocal, 0, 32}));
  EXPECT_EQ(all[142], (Opt{OptOp::kLocal, 6, 2}));
  EXPECT_EQ(all.back().op, OptOp::kNoLocals);
}

TEST(BeamActions, PadToAndTensorCoresOnlyWhereAskedForOrThere) {
  CodegenOptions o = options();
  o.caps.tensor_cores.clear();
  BeamLimits limits;
  EXPECT_FALSE(has(beam_actions(o.caps, limits), OptOp::kPadTo));
  EXPECT_FALSE(has(beam_actions(o.caps, limits), OptOp::kTc));
  limits.pad_to = true;
  o.caps.tensor_cores = {"amx"};
  EXPECT_TRUE(has(beam_actions(o.caps, limits), OptOp::kPadTo));
  EXPECT_TRUE(has(beam_actions(o.caps, limits), OptOp::kTc));
}

TEST(BeamCandidates, AreLegalAndLeaveTheStartAlone) {
  Graph g;
  KernelBuilder b(g);
  const CodegenOptions o = options();
  const Scheduler start(g, row_sum(b, 60, 84), o);
  const auto all = beam_candidates(start, {});
  EXPECT_TRUE(start.applied_opts().empty());
  EXPECT_GT(all.size(), 10u);
  for (const Scheduler& s : all) {
    ASSERT_EQ(s.applied_opts().size(), 1u);
    Scheduler again = start;
    EXPECT_TRUE(again.apply_opt(s.applied_opts()[0]).ok());
    EXPECT_FALSE(has(s.applied_opts(), OptOp::kLocal)) << "this renderer has none";
  }
}

TEST(BeamCandidates, AWholeAxisIsTriedOnceByItsZeroForm) {
  Graph g;
  KernelBuilder b(g);
  const CodegenOptions o = options();
  const Scheduler start(g, row_sum(b, 4, 7), o);
  std::set<std::string> texts;
  for (const Scheduler& s : beam_candidates(start, {})) texts.insert(opts_text(s.applied_opts()));
  EXPECT_TRUE(texts.contains("[UPCAST(0,0)]"));
  EXPECT_FALSE(texts.contains("[UPCAST(0,4)]"));
  EXPECT_TRUE(texts.contains("[UPCAST(0,2)]"));
  EXPECT_FALSE(texts.contains("[UNROLL(0,7)]"));
  EXPECT_TRUE(texts.contains("[THREAD(0,4)]")) << "THREAD has no 0 form";
}

TEST(BeamCandidates, StayWithinTheLimits) {
  Graph g;
  KernelBuilder b(g);
  const CodegenOptions o = options(true);
  Scheduler start(g, row_sum(b, 64, 64), o);
  start.convert_weak_to_global();
  BeamLimits limits;
  limits.upcast = 5;
  limits.local = 8;
  bool any_local = false;
  for (const Scheduler& s : beam_candidates(start, limits)) {
    EXPECT_LE(s.upcast_size(), 5);
    int64_t local = 1;
    for (const size_t a : s.axes_of({AxisType::kLocal, AxisType::kGroupReduce})) local *= s.size(a);
    EXPECT_LE(local, 8);
    any_local = any_local || local > 1;
  }
  EXPECT_TRUE(any_local);
}

TEST(BeamSearch, FollowsTheFastestListRoundByRound) {
  Graph g;
  KernelBuilder b(g);
  Paper paper;
  // Each wanted opt takes ten off; everything else changes nothing.
  paper.us = [](const Opts& opts) {
    double t = 100;
    for (const Opt& o : opts) {
      if (o == Opt{OptOp::kUpcast, 0, 4} || o == Opt{OptOp::kUnroll, 0, 4}) t -= 10;
    }
    return t;
  };
  const CodegenOptions o = options();
  const BeamResult r = beam_search(Scheduler(g, row_sum(b, 60, 84), o), 1, {}, paper.hooks());
  EXPECT_DOUBLE_EQ(r.us, 80);
  EXPECT_TRUE(has(r.opts, OptOp::kUpcast));
  EXPECT_TRUE(has(r.opts, OptOp::kUnroll));
  EXPECT_EQ(r.rounds, 3) << "two that gain, one that shows it is over";
  EXPECT_EQ(r.timed, paper.runs.size());
}

TEST(BeamSearch, AWiderBeamFindsWhatGreedMisses) {
  // UPCAST by 2 is second best at first, but only it leads to the fastest pair.
  const auto us = [](const Opts& opts) {
    const bool two = std::count(opts.begin(), opts.end(), Opt{OptOp::kUpcast, 0, 2}) > 0;
    const bool unrolled = has(opts, OptOp::kUnroll);
    if (two && unrolled) return 10.0;
    if (opts.size() > 1) return 95.0;
    if (opts[0] == Opt{OptOp::kUpcast, 0, 3}) return 50.0;
    return two ? 60.0 : 90.0;
  };
  for (const int width : {1, 2}) {
    Graph g;
    KernelBuilder b(g);
    Paper paper;
    paper.us = us;
    const CodegenOptions o = options();
    const BeamResult r = beam_search(Scheduler(g, row_sum(b, 60, 84), o), width, {}, paper.hooks());
    EXPECT_DOUBLE_EQ(r.us, width == 1 ? 50 : 10) << width;
  }
}

TEST(BeamSearch, SeedsJoinTheFirstRoundAndAreExtended) {
  Graph g;
  KernelBuilder b(g);
  Paper paper;
  const Opt seed{OptOp::kUpcast, 0, 6};  // no action has this amount
  paper.us = [&](const Opts& opts) {
    if (opts[0] != seed) return 90.0;
    return has(opts, OptOp::kUnroll) ? 10.0 : 50.0;
  };
  const CodegenOptions o = options();
  const std::vector<Opts> seeds = {{seed}, {{OptOp::kLocal, 0, 4}}, {{OptOp::kUpcast, 0, 4}}};
  const BeamResult r =
      beam_search(Scheduler(g, row_sum(b, 60, 84), o), 1, {}, paper.hooks(), seeds);
  EXPECT_DOUBLE_EQ(r.us, 10);
  EXPECT_EQ(r.opts[0], seed);
  EXPECT_FALSE(paper.runs.contains("[LOCAL(0,4)]")) << "an illegal seed is no candidate";
}

TEST(BeamSearch, EqualBytesAreTimedOnce) {
  Graph g;
  KernelBuilder b(g);
  Paper paper;
  paper.us = [](const Opts&) { return 5.0; };
  paper.compile = [](const Opts&) { return BeamProgram{"same", 10, 10}; };
  const CodegenOptions o = options();
  const BeamResult r = beam_search(Scheduler(g, row_sum(b, 60, 84), o), 4, {}, paper.hooks());
  EXPECT_EQ(r.timed, 1u);
  EXPECT_EQ(paper.runs.size(), 1u);
  EXPECT_GT(r.repeated, 0u);
}

TEST(BeamSearch, BadCandidatesAreNeverChosen) {
  // The tempting one is fastest by far; in turn it does not compile, is too large, cannot be timed
  // or counts too many operations.
  const Opt tempting{OptOp::kUpcast, 0, 4};
  const auto is_tempting = [&](const Opts& o) {
    return std::find(o.begin(), o.end(), tempting) != o.end();
  };
  for (const char* fault : {"none", "compile", "large", "timing", "ops"}) {
    const std::string what = fault;
    Graph g;
    KernelBuilder b(g);
    Paper paper;
    paper.us = [&](const Opts& o) {
      if (!is_tempting(o)) return 50.0 - static_cast<double>(o.size());
      return what == "timing" ? std::nan("") : 1.0;
    };
    paper.compile = [&](const Opts& o) -> std::optional<BeamProgram> {
      BeamProgram p{ir::opts_text(o), 10, 1000};
      if (is_tempting(o) && what == "compile") return std::nullopt;
      if (is_tempting(o) && what == "large") p.instructions = 3000;
      if (is_tempting(o) && what == "ops") p.ops = 1'000'001;
      return p;
    };
    const CodegenOptions o = options();
    const BeamResult r = beam_search(Scheduler(g, row_sum(b, 60, 84), o), 2, {}, paper.hooks());
    EXPECT_EQ(is_tempting(r.opts), what == "none") << what;
    EXPECT_GT(r.us, 0) << what;
    if (what == "timing" || what == "none") continue;
    EXPECT_GT(r.dropped, 0u) << what;
    for (const auto& [text, runs] : paper.runs)
      EXPECT_EQ(text.find("UPCAST(0,4)"), std::string::npos) << what << " was run: " << text;
  }
}

TEST(BeamSearch, LargestProgramBelowTheLimitStays) {
  Graph g;
  KernelBuilder b(g);
  Paper paper;
  paper.us = [](const Opts&) { return 5.0; };
  paper.compile = [](const Opts& o) { return BeamProgram{ir::opts_text(o), 2999, 10}; };
  const CodegenOptions o = options();
  EXPECT_FALSE(beam_search(Scheduler(g, row_sum(b, 60, 84), o), 1, {}, paper.hooks()).opts.empty());
}

TEST(BeamSearch, EndsWhereARoundGainsTooLittle) {
  Graph g;
  KernelBuilder b(g);
  Paper paper;
  paper.us = [](const Opts& o) { return 100.0 - 0.001 * static_cast<double>(o.size()); };
  const CodegenOptions o = options();
  const BeamResult r = beam_search(Scheduler(g, row_sum(b, 64, 64), o), 1, {}, paper.hooks());
  EXPECT_EQ(r.rounds, 2);
  EXPECT_EQ(r.opts.size(), 2u) << "less than min_progress, but the last round's best all the same";
}

TEST(BeamSearch, NothingThatRunsLeavesTheStart) {
  Graph g;
  KernelBuilder b(g);
  Paper paper;
  paper.us = [](const Opts&) { return std::nan(""); };
  const CodegenOptions o = options();
  const BeamResult r = beam_search(Scheduler(g, row_sum(b, 64, 64), o), 4, {}, paper.hooks());
  EXPECT_TRUE(r.opts.empty());
  EXPECT_TRUE(std::isinf(r.us));
}

TEST(GuardedTime, SlowFirstRunIsTheOnlyOne) {
  int runs = 0;
  const auto t = guarded_time(3, 30, [&]() -> std::optional<double> {
    ++runs;
    return 31;
  });
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(t, 31);
}

TEST(GuardedTime, OneDisturbedRunDoesNotDecide) {
  std::vector<double> times{900, 10, 11, 10, 12};
  size_t at = 0;
  const auto t = guarded_time(3, 1e9, [&]() -> std::optional<double> { return times[at++]; });
  EXPECT_EQ(at, 5u) << "a wide spread asks for two more";
  EXPECT_EQ(t, 11);
}

TEST(GuardedTime, SteadyRunsNeedNoMore) {
  std::vector<double> times{12, 10, 11};
  size_t at = 0;
  EXPECT_EQ(guarded_time(3, 1e9, [&]() -> std::optional<double> { return times[at++]; }), 11);
  EXPECT_EQ(at, 3u);
}

TEST(GuardedTime, ARunThatFailsIsNoTime) {
  int runs = 0;
  EXPECT_FALSE(guarded_time(3, 1e9, [&]() -> std::optional<double> {
                 return ++runs == 2 ? std::optional<double>() : 5;
               }).has_value());
}

// ---- apply_opts: explicit opts, search, heuristic, NOOPT ----

struct Precedence : ::testing::Test {
  Graph g;
  KernelBuilder b{g};
  CodegenOptions o = options();
  int searches = 0;
  int64_t width = 0;

  void SetUp() override {
    o.search = [this](const Scheduler& start, int64_t w) -> Result<Opts> {
      EXPECT_TRUE(start.applied_opts().empty());
      ++searches;
      width = w;
      return Opts{{OptOp::kUpcast, 0, 2}};
    };
  }
  Opts applied(ir::KernelInfo info) {
    const Node* ast = apply_opts(g, row_sum(b, 64, 64, std::move(info)), o);
    EXPECT_TRUE(g.status().ok());
    EXPECT_EQ(ast->tag, 1u);
    EXPECT_EQ(ast->as<ir::KernelInfo>().beam, 0) << "the result is a recipe, not a wish";
    return ast->as<ir::KernelInfo>().applied_opts;
  }
};

TEST_F(Precedence, ExplicitOptsWinOverASearch) {
  ir::KernelInfo info;
  info.beam = 4;
  info.opts_to_apply = Opts{{OptOp::kUnroll, 0, 4}};
  EXPECT_EQ(applied(info), (Opts{{OptOp::kUnroll, 0, 4}}));
  EXPECT_EQ(searches, 0);
}

TEST_F(Precedence, EmptyExplicitOptsMeanNoneAndNoSearch) {
  ir::KernelInfo info;
  info.beam = 4;
  info.opts_to_apply = Opts{};
  EXPECT_TRUE(applied(info).empty());
  EXPECT_EQ(searches, 0);
}

TEST_F(Precedence, ASearchWinsOverTheHeuristicAndNoopt) {
  ir::KernelInfo info;
  info.beam = 4;
  EXPECT_EQ(applied(info), (Opts{{OptOp::kUpcast, 0, 2}}));
  EXPECT_EQ(width, 4);
  o.noopt = true;
  EXPECT_EQ(applied(info), (Opts{{OptOp::kUpcast, 0, 2}}));
  EXPECT_EQ(searches, 2);
}

TEST_F(Precedence, WithoutAWishTheHeuristicDecidesUnlessNoopt) {
  EXPECT_FALSE(applied({}).empty());
  o.noopt = true;
  EXPECT_TRUE(applied({}).empty());
  EXPECT_EQ(searches, 0);
}

TEST_F(Precedence, AWishThatNobodyCanFulfilIsAnError) {
  o.search = nullptr;
  ir::KernelInfo info;
  info.beam = 1;
  (void)apply_opts(g, row_sum(b, 64, 64, info), o);
  ASSERT_FALSE(g.status().ok());
  EXPECT_NE(g.status().error().what.find("search"), std::string::npos);
}

TEST_F(Precedence, IllegalResultOfASearchIsAnError) {
  o.search = [](const Scheduler&, int64_t) -> Result<Opts> { return Opts{{OptOp::kLocal, 0, 4}}; };
  ir::KernelInfo info;
  info.beam = 1;
  (void)apply_opts(g, row_sum(b, 64, 64, info), o);
  EXPECT_FALSE(g.status().ok());
}

TEST(BeamSearch, ReplayOfItsOptsGivesTheSearchedAst) {
  Graph g;
  KernelBuilder b(g);
  CodegenOptions o = options();
  Paper paper;
  paper.us = [](const Opts& opts) { return 100.0 / static_cast<double>(1 + opts.size()); };
  const Node* found = nullptr;
  o.search = [&](const Scheduler& start, int64_t width) -> Result<Opts> {
    const BeamResult r = beam_search(start, width, {}, paper.hooks());
    Scheduler s = start;
    for (const Opt& opt : r.opts) EXPECT_TRUE(s.apply_opt(opt).ok());
    found = s.ast();
    return r.opts;
  };
  ir::KernelInfo info;
  info.beam = 2;
  const Node* searched = apply_opts(g, row_sum(b, 60, 84, info), o);
  EXPECT_EQ(searched->src(0), found->src(0));
  KernelBuilder fresh(g);
  info.beam = 0;
  info.opts_to_apply = searched->as<ir::KernelInfo>().applied_opts;
  EXPECT_EQ(apply_opts(g, row_sum(fresh, 60, 84, info), o), searched);
}

}  // namespace
}  // namespace modeld::codegen
