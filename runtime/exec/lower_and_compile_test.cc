// lower_and_compile on requests and on LINEARs, its caches and its workers (pipeline hand-book 9).
#include "runtime/exec/lower_and_compile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <thread>

#include "hal/backends.h"
#include "hal/base/fs.h"

#include "runtime/codegen/lower.h"
#include "runtime/exec/session_programs.h"
#include "runtime/ir/print.h"

#include "selftest/testing/kernel_builder.h"

namespace modeld::exec {
namespace {

using ir::Node;
using ir::NodeVec;
using ir::Op;
using testing::KernelBuilder;

CompileOptions options_of(const std::string& renderer = "c", int jobs = 1) {
  CompileOptions o;
  o.target = *hal::parse_target("cpu:x86-64-v3");
  o.target.renderer = renderer;
  o.target.threads = 1;
  o.jobs = jobs;
  return o;
}

// out[i] = x[i] * factor, sums over `cols` values each.
const Node* scaled_sum(ir::Graph& g, int64_t cols, double factor, ir::KernelInfo info = {}) {
  KernelBuilder b(g);
  const Node *i = b.loop(8), *r = b.reduce_loop(cols);
  const Node* x = b.at(b.param(1, 8 * cols), b.add(b.times(i, cols), r));
  return b.kernel(b.param(0, 8), i, b.reduce(Op::kAdd, b.mul(x, b.f(factor)), {r}), {i},
                  std::move(info));
}

std::vector<KernelRequest> some_requests(ir::Graph& g, int count) {
  std::vector<KernelRequest> out;
  for (int k = 0; k < count; ++k)
    out.push_back({scaled_sum(g, 4 * (k + 1), 0.5 + k), k % 4 == 3, strf("call %d", k)});
  return out;
}

// What a bundle would hold of a row.
std::string text_of(const LoweredRow& r) {
  return strf("%s %s %s %u %llu ", r.row.name.c_str(), r.row.key.hex().c_str(),
              r.row.applied_opts.c_str(), r.row.buffer_args,
              static_cast<unsigned long long>(r.row.image.entry_offset)) +
         blake2b(r.row.image.code).hex() + " " + r.row.ast_text;
}

struct Compiled {
  std::vector<std::string> rows;
  CompileStats stats;
};
Result<Compiled> compile(std::span<const KernelRequest> requests,
                         const CompileOptions& options,
                         ProgramCache& cache) {
  ASSIGN_OR_RETURN(Backend backend, make_backend(options));
  Compiled out;
  ASSIGN_OR_RETURN(const auto rows,
                   lower_and_compile(requests, backend, cache, options, out.stats));
  for (const LoweredRow& r : rows) out.rows.push_back(text_of(r));
  return out;
}

TEST(LowerAndCompile, RowsComeInTheOrderOfTheRequestsAndDoNotDependOnIt) {
  ir::Graph g;
  auto requests = some_requests(g, 6);
  ProgramCache a{""}, b{""};
  const auto forward = compile(requests, options_of(), a);
  std::reverse(requests.begin(), requests.end());
  auto backward = compile(requests, options_of(), b);
  ASSERT_TRUE(forward.ok() && backward.ok());
  EXPECT_NE(forward->rows, backward->rows);
  std::reverse(backward->rows.begin(), backward->rows.end());
  EXPECT_EQ(forward->rows, backward->rows);
}

TEST(LowerAndCompile, AFailureNamesWhoUsesTheKernel) {
  ir::Graph g;
  ir::KernelInfo info;
  info.opts_to_apply = ir::Opts{{ir::OptOp::kLocal, 0, 4}};
  auto requests = some_requests(g, 3);
  requests[1] = {scaled_sum(g, 8, 1, info), false, "call 7 of entry run"};
  ProgramCache cache{""};
  const auto r = compile(requests, options_of("c", 2), cache);
  ASSERT_FALSE(r.ok());
  EXPECT_NE(r.error().what.find("call 7 of entry run"), std::string::npos) << r.error().what;
  EXPECT_NE(r.error().what.find("LOCAL(0,4)"), std::string::npos) << r.error().what;
}

TEST(LowerAndCompile, ATargetThatIsNotBuiltYetIsToldWhichAre) {
  CompileOptions o;
  o.target = *hal::parse_target("qcom:a630");
  const auto backend = make_backend(o);
  ASSERT_FALSE(backend.ok());
  EXPECT_EQ(backend.error().code, Errc::kUnsupported);
  EXPECT_EQ(backend.error().what,
            "target qcom:a630: not built yet; built are cpu, cpu:ARCH, cl, amd:gfx1100, "
            "amd:gfx1201");
}

TEST(LowerAndCompile, LoweringOnlyLeavesTheImagesOut) {
  ir::Graph g;
  const auto requests = some_requests(g, 3);
  CompileOptions o = options_of();
  o.lower_only = true;
  ASSERT_TRUE(make_backend(o).ok());
  Backend backend = std::move(*make_backend(o));
  ProgramCache cache{""};
  CompileStats stats;
  const auto rows = lower_and_compile(requests, backend, cache, o, stats);
  ASSERT_TRUE(rows.ok());
  for (const LoweredRow& r : *rows) EXPECT_TRUE(r.row.image.is_missing());
  EXPECT_EQ(stats.lowered, 3u);
  EXPECT_EQ(stats.cold + stats.memory_hits + stats.disk_hits, 0u);
}

// ---- on LINEARs ----

struct Linears {
  ir::Graph g;
  SessionPrograms programs{options_of()};
  CompileStats stats;

  const Node* buffer(int64_t slot, int64_t size) {
    return ir::param(g, slot, ir::DType::kF32, size);
  }
  const Node* call(const Node* body, int64_t first_slot) {
    return g.make(Op::kCall, ir::DType::kVoid,
                  {body, buffer(first_slot, 8), buffer(first_slot + 1, 64)});
  }
  const Node* linear(const NodeVec& calls) { return g.make(Op::kLinear, ir::DType::kVoid, calls); }
  const Node* compiled(const Node* l) {
    const auto out = programs.compile(g, std::span(&l, 1), stats);
    EXPECT_TRUE(out.ok()) << out.error().what;
    return out.ok() ? (*out)[0] : l;
  }
};

TEST(LowerAndCompile, EqualBodiesAreCompiledOnceAndArgumentsStay) {
  Linears t;
  const Node* body = scaled_sum(t.g, 8, 2);
  const Node* other = scaled_sum(t.g, 8, 3);
  const Node* before = t.linear({t.call(body, 100), t.call(other, 110), t.call(body, 120)});
  const Node* after = t.compiled(before);
  EXPECT_EQ(t.stats.kernels, 2u);
  ASSERT_EQ(after->nsrc, 3u);
  for (size_t i = 0; i < 3; ++i) {
    const Node *was = before->src(i), *is = after->src(i);
    EXPECT_EQ(is->src(0)->op, Op::kProgram);
    EXPECT_NE(t.programs.find(is->src(0)), nullptr);
    for (size_t a = 1; a < was->nsrc; ++a) EXPECT_EQ(is->src(a), was->src(a));
  }
  EXPECT_EQ(after->src(0)->src(0), after->src(2)->src(0));
  EXPECT_NE(after->src(0)->src(0), after->src(1)->src(0));
}

TEST(LowerAndCompile, WithNothingToDoTheSameObjectComesBack) {
  Linears t;
  const Node* done = t.compiled(t.linear({t.call(scaled_sum(t.g, 8, 2), 100)}));
  EXPECT_EQ(t.stats.kernels, 1u);
  EXPECT_EQ(t.compiled(done), done);
  EXPECT_EQ(t.stats.kernels, 1u) << "a finished body is not asked for again";
  const Node* empty = t.linear({});
  EXPECT_EQ(t.compiled(empty), empty);
}

TEST(LowerAndCompile, CopiesPassThrough) {
  Linears t;
  const Node* copy =
      t.g.make(Op::kCall, ir::DType::kVoid,
               {t.g.make(Op::kCopy, ir::DType::kVoid, NodeVec{}), t.buffer(1, 8), t.buffer(2, 8)});
  const Node* after = t.compiled(t.linear({copy, t.call(scaled_sum(t.g, 8, 2), 100)}));
  EXPECT_EQ(after->src(0), copy);
  EXPECT_EQ(after->src(1)->src(0)->op, Op::kProgram);
}

TEST(LowerAndCompile, AProgramThatNobodyFinishedIsFinished) {
  Linears t;
  const Backend backend = std::move(*make_backend(options_of()));
  const auto sink =
      codegen::full_rewrite_to_sink(t.g, scaled_sum(t.g, 8, 2), backend.options_for(false), true);
  ASSERT_TRUE(sink.ok()) << sink.error().what;
  const Node* open = t.g.make(Op::kProgram, ir::DType::kVoid, NodeVec{*sink});
  const Node* after = t.compiled(t.linear({t.call(open, 100)}));
  EXPECT_TRUE(after->src(0)->src(0)->has<ir::ProgramInfo>());
  EXPECT_NE(t.programs.find(after->src(0)->src(0)), nullptr);
}

// ---- the two caches ----

struct Origin {
  uint64_t lowered, cold, memory, disk;
  bool operator==(const Origin&) const = default;
};
void PrintTo(const Origin& o, std::ostream* out) {
  *out << "lowered " << o.lowered << " cold " << o.cold << " memory " << o.memory << " disk "
       << o.disk;
}

Origin origin(std::span<const KernelRequest> requests, CompileOptions o, ProgramCache& cache) {
  const auto r = compile(requests, o, cache);
  EXPECT_TRUE(r.ok()) << r.error().what;
  if (!r.ok()) return {};
  return {r->stats.lowered, r->stats.cold, r->stats.memory_hits, r->stats.disk_hits};
}

TEST(ToProgramCache, ColdMemoryDiskAndConfigurationSwitchForTheC) {
  ir::Graph g;
  const auto requests = some_requests(g, 3);
  auto dir = TempDir::create();
  ProgramCache first{dir->path()};
  CompileOptions other = options_of();
  other.noopt = true;
  EXPECT_EQ(origin(requests, options_of(), first), (Origin{3, 3, 0, 0})) << "cold";
  EXPECT_EQ(origin(requests, options_of(), first), (Origin{0, 0, 3, 0})) << "memory";
  EXPECT_EQ(origin(requests, other, first), (Origin{3, 3, 0, 0})) << "a switch misses";
  EXPECT_EQ(origin(requests, options_of(), first), (Origin{0, 0, 3, 0})) << "and back hits";
  ProgramCache fresh{dir->path()};
  EXPECT_EQ(origin(requests, options_of(), fresh), (Origin{3, 0, 0, 3}))
      << "a disk hit still lowers and renders";
}

TEST(ToProgramCache, ImagesOfTheX86RendererLiveInMemoryOnly) {
  ir::Graph g;
  const auto requests = some_requests(g, 3);
  auto dir = TempDir::create();
  ProgramCache first{dir->path()}, fresh{dir->path()};
  EXPECT_EQ(origin(requests, options_of("x86"), first), (Origin{3, 3, 0, 0}));
  EXPECT_EQ(origin(requests, options_of("x86"), first), (Origin{0, 0, 3, 0}));
  EXPECT_EQ(origin(requests, options_of("x86"), fresh), (Origin{3, 3, 0, 0}));
  EXPECT_TRUE(list_dir(dir->path())->empty());
}

TEST(ToProgramCache, AssertCompileIsAnErrorOnEveryPathAndHitsPass) {
  for (const char* renderer : {"c", "x86"}) {
    ir::Graph g;
    const auto requests = some_requests(g, 2);
    ProgramCache cache{""};
    CompileOptions forbidden = options_of(renderer);
    forbidden.assert_no_compile = true;
    const auto refused = compile(requests, forbidden, cache);
    ASSERT_FALSE(refused.ok()) << renderer;
    EXPECT_EQ(refused.error().code, Errc::kCompile);
    EXPECT_NE(refused.error().what.find("MODELD_ASSERT_COMPILE"), std::string::npos);
    ProgramCache warm{""};
    ASSERT_TRUE(compile(requests, options_of(renderer), warm).ok());
    EXPECT_TRUE(compile(requests, forbidden, warm).ok()) << renderer;
  }
}

// ---- workers ----

TEST(WorkerPool, SameBytesForNoneOneAndManyWorkers) {
  for (const char* renderer : {"c", "x86"}) {
    std::set<std::vector<std::string>> results;
    for (const int jobs : {0, 1, 2, 5}) {
      ir::Graph g;
      ProgramCache cache{""};
      const auto r = compile(some_requests(g, 9), options_of(renderer, jobs), cache);
      ASSERT_TRUE(r.ok()) << r.error().what;
      results.insert(r->rows);
    }
    EXPECT_EQ(results.size(), 1u) << renderer;
  }
}

// A renderer that also tries to open a device, on whatever thread it runs.
struct Tries {
  std::mutex mutex;
  int refused = 0, opened = 0;
  std::set<std::thread::id> threads;

  void count() {
    const bool ok = hal::open_device("cpu").ok();
    const std::lock_guard lock(mutex);
    ++(ok ? opened : refused);
    threads.insert(std::this_thread::get_id());
  }
};

TEST(WorkerPool, NoDeviceIsOpenedWhileLowering) {
  for (const int jobs : {0, 3}) {
    ir::Graph g;
    const auto requests = some_requests(g, 6);
    const CompileOptions o = options_of("c", jobs);
    Backend backend = std::move(*make_backend(o));
    Tries tries;
    backend.codegen.render = [&, render = backend.codegen.render](
                                 ir::Graph& graph, std::span<const Node* const> linear,
                                 const std::string& name) {
      tries.count();
      return render(graph, linear, name);
    };
    ProgramCache cache{""};
    CompileStats stats;
    ASSERT_TRUE(lower_and_compile(requests, backend, cache, o, stats).ok());
    EXPECT_EQ(tries.refused, 6) << jobs;
    EXPECT_EQ(tries.opened, 0) << jobs;
    EXPECT_EQ(tries.threads.contains(std::this_thread::get_id()), jobs == 0);
  }
}

TEST(WorkerPool, ASearchedKernelStaysOnTheCallersThreadWithItsDevice) {
  ir::Graph g;
  auto requests = some_requests(g, 5);
  ir::KernelInfo info;
  info.beam = 2;
  requests.push_back({scaled_sum(g, 32, 7, info), false, "searched"});
  const CompileOptions o = options_of("c", 4);
  Backend backend = std::move(*make_backend(o));
  Tries searches, others;
  backend.codegen.search = [&](const codegen::Scheduler&, int64_t width) -> Result<ir::Opts> {
    EXPECT_EQ(width, 2);
    searches.count();
    return ir::Opts{{ir::OptOp::kUnroll, 0, 4}};
  };
  ProgramCache cache{""};
  CompileStats stats;
  const auto rows = lower_and_compile(requests, backend, cache, o, stats);
  ASSERT_TRUE(rows.ok()) << rows.error().what;
  EXPECT_EQ(rows->back().row.applied_opts, "[UNROLL(0,4)]");
  EXPECT_EQ(searches.opened, 1);
  EXPECT_EQ(searches.threads, (std::set{std::this_thread::get_id()}));
}

}  // namespace
}  // namespace modeld::exec
