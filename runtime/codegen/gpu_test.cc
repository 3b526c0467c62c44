// Passes, dims and opts that only renderers with work groups or images use; running the result is
// the job of kernel_run_test in its GPU variants.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "runtime/codegen/graph_util.h"
#include "runtime/codegen/image_shape.h"
#include "runtime/codegen/limit_dims.h"
#include "runtime/codegen/linearize.h"
#include "runtime/codegen/lower.h"
#include "runtime/codegen/passes.h"
#include "runtime/codegen/to_program.h"
#include "runtime/ir/print.h"
#include "runtime/ir/symbolic.h"

#include "selftest/testing/gpu_kernels.h"

namespace modeld::codegen {
namespace {

using ir::AxisType;
using ir::DType;
using ir::Op;
using ir::OptOp;
using testing::KernelBuilder;
using N = const Node*;

CodegenOptions options() {
  CodegenOptions o = gpu_options(*hal::parse_target("cl"));
  o.render = [](Graph&, std::span<const Node* const>,
                const std::string& name) -> Result<std::string> { return name; };
  return o;
}

N after_pass(Graph& g, N ast, const CodegenOptions& o, const char* last) {
  auto r = run_kernel_passes(g, ast, o, true, last);
  EXPECT_TRUE(r.ok()) << r.error().what;
  return r.ok() ? *r : ast;
}

// The effects of a lowered kernel in order: "store local", "barrier", "for 16", "end".
std::vector<std::string> effects(Graph& g, N ast, const CodegenOptions& o) {
  auto sink = full_rewrite_to_sink(g, ast, o, true);
  EXPECT_TRUE(sink.ok()) << sink.error().what;
  std::vector<std::string> out;
  if (!sink.ok()) return out;
  for (N n : linearize(g, *sink)) {
    const N memory = n->op == Op::kLoad || n->op == Op::kStore ? memory_root(n->src(0)) : nullptr;
    if (n->op == Op::kRange)
      out.push_back(strf("for %lld", static_cast<long long>(range_size(g, n))));
    if (n->op == Op::kEnd) out.emplace_back("end");
    if (n->op == Op::kBarrier) out.emplace_back("barrier");
    if (memory == nullptr || memory_space(memory) == ir::AddrSpace::kReg) continue;
    const bool local = memory_space(memory) == ir::AddrSpace::kLocal;
    const bool gated = n->nsrc == 3;
    out.push_back(std::string(n->op == Op::kStore ? "store " : "load ") +
                  (local ? "local" : "global") + (gated ? " gated" : ""));
  }
  return out;
}

using Effects = std::vector<std::string>;

// ---- 7.3: the table of limited dims, and what they mean ----

using Dims = std::vector<int64_t>;

TEST(AddGpudims, TableOfLimitedDims) {
  struct Row {
    Dims dims, max, want;
  };
  const Row rows[] = {
      {{2, 3, 4, 5}, {16, 16, 16}, {6, 4, 5}},
      {{5, 4, 3, 2}, {32, 16, 16}, {20, 3, 2}},  // (2,3,4,5) reversed
      {{64, 3, 4}, {16, 16, 16}, {16, 12, 4}},
      {{64, 3, 4}, {16, 4, 16}, {16, 3, 16}},
      {{128, 3, 4}, {16, 4, 256}, {16, 3, 32}},
      {{4, 4, 512}, {16, 4, 256}, {8, 4, 256}},
      {{5, 12, 7}, {8, 4, 16}, {10, 3, 14}},
      {{512, 4, 2}, {8192, 2, 2}, {2048, 2}},
      {{128}, {16, 16, 256}, {16, 8}},
      {{65536}, {16, 16, 256}, {16, 16, 256}},
      {{65536, 2}, {65535, 65535, 65535}, {32768, 4}},
      {{121}, {12, 12, 12}, {11, 11}},
      {{2, 2, 2, 2, 2}, {4, 4, 4}, {4, 4, 2}},
      {{7, 5}, {16, 16, 16}, {7, 5}},
  };
  for (const Row& row : rows) {
    const auto got = limit_dims(row.dims, row.max);
    ASSERT_TRUE(got.ok()) << got.error().what;
    EXPECT_EQ(*got, row.want) << row.dims[0];
  }
}

TEST(AddGpudims, DimsThatCannotBeLimitedAreErrors) {
  const Dims sixteen{16, 16, 16};
  EXPECT_EQ(limit_dims({23}, sixteen).error().what,
            "cannot limit dim (23): 23 has no divisor to split off");
  EXPECT_FALSE(limit_dims({128, 3, 4}, Dims{16, 2, 2}).ok());
  EXPECT_EQ(limit_dims({2, 3, 4, 5, 6}, sixteen).error().what,
            "cannot limit dim (2,3,4,5,6): nothing left to merge");
}

// out[flat] over GLOBAL loops (all output loops of a GPU kernel are), plus LOCAL ones by opts.
N grid_kernel(KernelBuilder& b, const Dims& sizes, ir::Opts opts) {
  N flat = b.i(0);
  int64_t count = 1;
  std::vector<N> loops;
  for (int64_t s : sizes) {
    loops.push_back(b.loop(s));
    // The pads keep simplify_ranges from merging the loops.
    flat = b.add(b.times(flat, s + 1), loops.back());
    count *= s + 1;
  }
  ir::NodeVec end{b.store(b.param(0, count), flat, b.f(1))};
  end.insert(end.end(), loops.begin(), loops.end());
  return b.kernel({b.g.make(Op::kEnd, DType::kVoid, end)}, testing::with_opts(std::move(opts)));
}

int64_t evaluate(N n, const std::map<std::string, int64_t>& at) {
  if (const auto v = ir::int_value(n)) return *v;
  if (n->op == Op::kSpecial) return at.at(n->as<std::string>());
  const int64_t a = evaluate(n->src(0), at);
  const int64_t b = evaluate(n->src(1), at);
  switch (n->op) {
    case Op::kAdd:
      return a + b;
    case Op::kMul:
      return a * b;
    case Op::kFloorDiv:
      return a / b;
    case Op::kFloorMod:
      return a % b;
    default:
      ADD_FAILURE() << ir::op_name(n->op);
      return 0;
  }
}

// Every work item writes an element of its own: as many addresses as items.
TEST(AddGpudims, MappingIsABijection) {
  const uint32_t seed = 20240611;
  std::mt19937 rng(seed);
  int limited = 0;
  for (int round = 0; round < 120; ++round) {
    Graph g;
    KernelBuilder b(g);
    CodegenOptions o = options();
    const int64_t max[] = {4, 6, 8};
    for (size_t i = 0; i < 3; ++i) o.caps.global_max[i] = max[(i + round) % 3];
    Dims sizes;
    for (size_t k = 1 + rng() % 4; k-- > 0;) sizes.push_back(1 + rng() % 8);
    auto r = run_kernel_passes(g, grid_kernel(b, sizes, {}), o, true, "add_gpudims");
    if (!r.ok()) continue;  // sizes that do not factor are refused: the test above
    std::vector<N> special;
    N address = nullptr;
    for (N n : ir::toposort(*r)) {
      if (n->op == Op::kSpecial) special.push_back(n);
      if (n->op == Op::kStore) address = n->src(0)->src(1);
    }
    int64_t items = 1;
    for (N s : special) items *= ir::vmax(g, s) + 1;
    std::set<int64_t> seen;
    for (int64_t item = 0; item < items; ++item) {
      std::map<std::string, int64_t> at;
      int64_t rest = item;
      for (N s : special) {
        at[s->as<std::string>()] = rest % (ir::vmax(g, s) + 1);
        rest /= ir::vmax(g, s) + 1;
      }
      seen.insert(evaluate(address, at));
    }
    int64_t want = 1;
    for (int64_t s : sizes) want *= s;
    EXPECT_EQ(items, want) << "seed " << seed << " round " << round;
    EXPECT_EQ(static_cast<int64_t>(seen.size()), want) << "seed " << seed << " round " << round;
    ++limited;
  }
  EXPECT_GT(limited, 60);
}

std::string address_text(Graph& g, N ast, const CodegenOptions& o) {
  for (N n : ir::toposort(after_pass(g, ast, o, "add_gpudims"))) {
    if (n->op == Op::kStore) return ir::expr(ir::simplify(g, n->src(0)->src(1)));
  }
  return "";
}

std::map<std::string, int64_t> special_sizes(Graph& g, N root) {
  std::map<std::string, int64_t> out;
  for (N n : ir::toposort(root)) {
    if (n->op == Op::kSpecial) out[n->as<std::string>()] = ir::vmax(g, n) + 1;
  }
  return out;
}

using Sizes = std::map<std::string, int64_t>;

TEST(AddGpudims, LastAxisIsDimensionZeroAndUnmergedAxesAreBare) {
  Graph g;
  KernelBuilder b(g);
  N ast = grid_kernel(b, {3, 4, 5}, {{OptOp::kLocal, 2, 5}, {OptOp::kLocal, 0, 3}});
  N low = after_pass(g, ast, options(), "add_gpudims");
  // Axis 2 became local first (id 3), then axis 0 (id 4): locals go in order of id, not reversed.
  EXPECT_EQ(special_sizes(g, low), (Sizes{{"gidx0", 4}, {"lidx0", 5}, {"lidx1", 3}}));
  for (N n : ir::toposort(low)) {
    EXPECT_FALSE(n->op == Op::kFloorDiv || n->op == Op::kFloorMod) << ir::print(low);
    EXPECT_NE(n->op, Op::kRange);
  }
}

TEST(AddGpudims, MergedAxesAreDividedWithTheLastOneFastest) {
  Graph g;
  KernelBuilder b(g);
  CodegenOptions o = options();
  N low = after_pass(g, grid_kernel(b, {2, 3, 4, 5}, {}), o, "add_gpudims");
  // Reversed: (5,4,3,2) -> (20,3,2).
  EXPECT_EQ(special_sizes(g, low), (Sizes{{"gidx0", 20}, {"gidx1", 3}, {"gidx2", 2}}));
  KernelBuilder c(g);
  const std::string text = address_text(g, grid_kernel(c, {2, 3, 4, 5}, {}), o);
  EXPECT_NE(text.find("special(20)%5"), std::string::npos) << text;
}

TEST(AddGpudims, WithoutLocalsTheDeviceChoosesGroups) {
  Graph g;
  KernelBuilder b(g);
  N ast = grid_kernel(b, {3, 4}, {{OptOp::kNoLocals, 0, 0}});
  EXPECT_EQ(special_sizes(g, after_pass(g, ast, options(), "add_gpudims")),
            (Sizes{{"idx0", 4}, {"idx1", 3}}));
  auto p = to_program(g, ast, options());
  ASSERT_TRUE(p.ok()) << p.error().what;
  EXPECT_EQ(p->info.global_size[0], 4);
  EXPECT_EQ(p->info.local_size[0], 0);
}

TEST(AddGpudims, GridsThatNoDeviceHasAreErrors) {
  Graph g;
  KernelBuilder b(g);
  CodegenOptions o = options();
  o.caps.group_max = 8;
  auto big = full_rewrite_to_sink(g, grid_kernel(b, {16}, {{OptOp::kLocal, 0, 16}}), o, true);
  ASSERT_FALSE(big.ok());
  EXPECT_NE(big.error().what.find("a group of 16 work items, limit 8"), std::string::npos)
      << big.error().what;
  Graph h;
  KernelBuilder c(h);
  for (int64_t& m : o.caps.global_max) m = 16;
  EXPECT_FALSE(full_rewrite_to_sink(h, grid_kernel(c, {23}, {}), o, true).ok());
  // The pinned row that wraps around: no grid for a launch.
  Graph i;
  KernelBuilder d(i);
  o.caps.global_max[0] = 8, o.caps.global_max[1] = 4;
  EXPECT_FALSE(full_rewrite_to_sink(i, grid_kernel(d, {7, 12, 5}, {}), o, true).ok());
  Graph j;
  KernelBuilder e(j);
  N grid = after_pass(j, grid_kernel(e, {4}, {}), options(), "apply_opts");
  add_gpudims(j, grid, cpu_options(*hal::parse_target("cpu:x86-64-v3")));
  EXPECT_EQ(j.status().error().what, "gpudims: axis of a grid on a renderer without one");
}

TEST(AddGpudims, OnlyOneItemWritesWhatItsAxisDoesNotAddress) {
  Graph g;
  KernelBuilder b(g);
  N grouped = after_pass(g, testing::row_reduce(b, 4, 64, {{OptOp::kGroup, 0, 8}}), options(),
                         "add_gpudims");
  bool gated = false;
  for (N n : ir::toposort(grouped)) {
    if (n->op != Op::kStore || memory_root(n->src(0))->op != Op::kParam) continue;
    N gate = split_gate(n->src(0)->src(1)).gate;
    ASSERT_NE(gate, nullptr);
    EXPECT_EQ(ir::expr(gate), "(special(8)<1)");
    gated = true;
  }
  EXPECT_TRUE(gated);
  // Addresses that tell the items apart need no gate.
  Graph h;
  KernelBuilder c(h);
  for (N n : ir::toposort(after_pass(h, grid_kernel(c, {64}, {{OptOp::kLocal, 0, 8}}), options(),
                                     "add_gpudims"))) {
    if (n->op != Op::kStore) continue;
    EXPECT_EQ(split_gate(n->src(0)->src(1)).gate, nullptr);
  }
}

TEST(AddGpudims, SymbolicLoopsStayLoops) {
  Graph g;
  KernelBuilder b(g);
  N n = ir::variable(g, "n", 1, 16, DType::kWeakInt);
  N i = g.make(Op::kRange, DType::kWeakInt, {n}, ir::RangeArg{0, AxisType::kWeak});
  N ast = b.kernel(b.param(0, 16), i, b.at(b.param(1, 16), i), {i});
  N low = after_pass(g, ast, options(), "add_gpudims");
  EXPECT_TRUE(special_sizes(g, low).empty());
  EXPECT_EQ(all_ranges(low).size(), 1u);
}

// ---- 7.9: barriers ----

TEST(ImplicitBarriers, GroupedSumStoresItsShareWaitsAndOneItemStores) {
  Graph g;
  KernelBuilder b(g);
  EXPECT_EQ(effects(g, testing::row_reduce(b, 16, 1024, {{OptOp::kGroupTop, 0, 16}}), options()),
            (Effects{"for 64", "load global", "end", "store local", "barrier", "for 16",
                     "load local", "end", "store global gated"}));
}

TEST(ImplicitBarriers, LoopsThatReuseATileEndInABarrier) {
  Graph g;
  KernelBuilder b(g);
  const Effects one = {"for 8", "load global", "end", "store local",        "barrier",
                       "for 8", "load local",  "end", "store global gated", "barrier",
                       "end"};
  Effects want{"for 3"};
  want.insert(want.end(), one.begin(), one.end());
  want.emplace_back("for 5");
  want.insert(want.end(), one.begin(), one.end());
  EXPECT_EQ(
      effects(g, testing::sums_in_loops(b, 64, {{OptOp::kGroup, 0, 8}, {OptOp::kGroup, 1, 8}}),
              options()),
      want);
}

TEST(ImplicitBarriers, AreNotDoubled) {
  Graph g;
  KernelBuilder b(g);
  const CodegenOptions o = options();
  N ast = testing::sums_in_loops(b, 64, {{OptOp::kGroup, 0, 8}, {OptOp::kGroup, 1, 8}});
  N once = after_pass(g, ast, o, "implicit_barriers");
  EXPECT_EQ(implicit_barriers(g, once, o), once);
}

TEST(ImplicitBarriers, NothingWithoutLocalMemory) {
  Graph g;
  KernelBuilder b(g);
  for (const std::string& e :
       effects(g, testing::row_reduce(b, 16, 64, {{OptOp::kLocal, 0, 4}}), options())) {
    EXPECT_NE(e, "barrier");
  }
  // A share alone (a loop over local memory that nobody stores to) is no hazard.
  Graph h;
  KernelBuilder c(h);
  N memory = ir::buffer(h, 90, DType::kF32, 8, ir::AddrSpace::kLocal, "");
  N r = c.reduce_loop(8);
  N load = h.make(Op::kLoad, DType::kF32, {c.at(memory, r)});
  N end = h.make(Op::kEnd, DType::kVoid, {c.store(c.param(0, 8), r, load), r});
  N root = ir::sink(h, ir::NodeVec{end});
  EXPECT_EQ(implicit_barriers(h, root, options()), root);
}

// ---- 10a, 11: group reduces and local buffers ----

std::map<Op, int> census(N root) {
  std::map<Op, int> out;
  for (N n : ir::toposort(root)) out[n->op] += 1;
  return out;
}

TEST(GroupReduces, PartialReduceStageSecondReduce) {
  Graph g;
  KernelBuilder b(g);
  N opted =
      after_pass(g, testing::row_reduce(b, 4, 64, {{OptOp::kGroup, 0, 8}, {OptOp::kUpcast, 0, 2}}),
                 options(), "post_opt_symbolic");
  N out = group_reduces(g, opted, options());
  auto n = census(out);
  EXPECT_EQ(n[Op::kReduce], 2);
  EXPECT_EQ(n[Op::kStage], 1);
  for (N s : ir::toposort(out)) {
    if (s->op == Op::kStage) {
      ASSERT_EQ(s->nsrc, 3u) << "the share, the group axis, the lane axis";
      EXPECT_EQ(s->src(1)->as<ir::RangeArg>().type, AxisType::kGroupReduce);
      EXPECT_EQ(s->src(2)->as<ir::RangeArg>().type, AxisType::kUpcast);
    }
    if (s->op != Op::kReduce) continue;
    for (N r : s->src().subspan(1)) EXPECT_EQ(r->as<ir::RangeArg>().type, AxisType::kReduce);
  }
}

TEST(GroupReduces, ReducesOverOneAxisFoldInOneLoop) {
  Graph g;
  KernelBuilder b(g);
  EXPECT_EQ(effects(g, testing::variance(b, 4, 64, {{OptOp::kGroup, 0, 8}}), options()),
            (Effects{"for 8", "load global", "end", "store local", "barrier", "store local",
                     "barrier", "for 8", "load local", "load local", "end", "store global gated"}));
}

TEST(GroupReduces, AWholeAxisLeavesNoLoopOfShares) {
  Graph g;
  KernelBuilder b(g);
  EXPECT_EQ(effects(g, testing::row_reduce(b, 4, 16, {{OptOp::kGroup, 0, 0}}), options()),
            (Effects{"load global", "store local", "barrier", "for 16", "load local", "end",
                     "store global gated"}));
}

TEST(GroupReduces, KernelsWithoutThemAreTheSameNode) {
  Graph g;
  KernelBuilder b(g);
  N opted = after_pass(g, testing::row_reduce(b, 4, 64, {{OptOp::kLocal, 0, 2}}), options(),
                       "post_opt_symbolic");
  EXPECT_EQ(group_reduces(g, opted, options()), opted);
  EXPECT_EQ(add_local_buffers(g, opted, options()), opted);
}

TEST(AddLocalBuffers, EveryItemHasAPlaceOfItsOwn) {
  Graph g;
  KernelBuilder b(g);
  // 4 local rows x 8 shares x 2 lanes of the column axis.
  N out = after_pass(
      g,
      testing::product(b, 8, 16, 64,
                       {{OptOp::kGroup, 0, 8}, {OptOp::kLocal, 0, 4}, {OptOp::kUpcast, 1, 2}}),
      options(), "add_local_buffers");
  auto n = census(out);
  EXPECT_EQ(n[Op::kStage], 0);
  for (N s : ir::toposort(out)) {
    if (s->op == Op::kBuffer) {
      EXPECT_EQ(memory_space(s), ir::AddrSpace::kLocal);
      EXPECT_EQ(ir::element_count(g, s), 4 * 8 * 2);
    }
  }
}

// ---- 17: images ----

CodegenOptions image_options() {
  CodegenOptions o = options();
  o.caps.image = true;
  return o;
}

TEST(Images, ShapesThatTileTheBufferExactly) {
  using S = ImageShape;
  EXPECT_EQ(image_shape(4 * 64, DType::kF32), (S{1, 64}));
  EXPECT_EQ(image_shape(16, DType::kF32), (S{1, 4}));     // 64 bytes
  EXPECT_EQ(image_shape(16, DType::kF16), std::nullopt);  // 32 bytes
  EXPECT_EQ(image_shape(4 * 16384, DType::kF32), (S{1, 16384}));
  EXPECT_EQ(image_shape(4 * 16384 * 3, DType::kF32), (S{3, 16384}));
  EXPECT_EQ(image_shape(4 * 64 * 257, DType::kF16),
            (S{257, 64}));                                       // 16448 pixels: no row holds all
  EXPECT_EQ(image_shape(4 * 16385, DType::kF32), std::nullopt);  // no row of 64 pixels divides it
  EXPECT_EQ(image_shape(4 * 64, DType::kI32), std::nullopt);
  EXPECT_EQ(image_shape(66, DType::kF32), std::nullopt);
  EXPECT_EQ(image_shape(0, DType::kF32), std::nullopt);
  EXPECT_EQ(image_shape(int64_t{4} * 16384 * 16384 * 2, DType::kF32), std::nullopt);
}

N double_all(KernelBuilder& b, int64_t n, DType t = DType::kF32) {
  N i = b.loop(n);
  return b.kernel(b.param(0, n, t), i, b.mul(b.at(b.param(1, n, t), i), b.f(2, t)), {i});
}

std::vector<std::string> param_shapes(Graph& g, N root) {
  std::vector<std::string> out;
  for (N n : ir::toposort(root)) {
    if (n->op != Op::kParam) continue;
    std::string text = strf("%lld:", static_cast<long long>(n->as<ir::ParamArg>().slot));
    for (int64_t d : ir::max_shape(g, n)) text += strf(" %lld", static_cast<long long>(d));
    out.push_back(text);
  }
  return out;
}

TEST(Images, WholePixelBuffersBecomeImagesWithTwoCoordinates) {
  Graph g;
  KernelBuilder b(g);
  auto sink = full_rewrite_to_sink(g, double_all(b, 4 * 16384 * 2), image_options(), true);
  ASSERT_TRUE(sink.ok()) << sink.error().what;
  const auto shapes = param_shapes(g, *sink);
  EXPECT_EQ(std::set<std::string>(shapes.begin(), shapes.end()),
            (std::set<std::string>{"0: 2 16384 4", "1: 2 16384 4"}));
  int pixels = 0;
  for (N n : ir::toposort(*sink)) pixels += n->op == Op::kIndex && is_address(n) && n->nsrc == 3;
  EXPECT_EQ(pixels, 2);
}

TEST(Images, OtherBuffersStayPlain) {
  const auto plain = [](Graph& g, N ast, const CodegenOptions& o) {
    auto sink = full_rewrite_to_sink(g, ast, o, true);
    EXPECT_TRUE(sink.ok()) << sink.error().what;
    for (N n : ir::toposort(*sink)) {
      if (n->op != Op::kParam) continue;
      EXPECT_EQ(ir::max_shape(g, n).size(), 1u);
    }
  };
  Graph g;
  KernelBuilder off(g), no_shape(g), type(g);
  plain(g, double_all(off, 1024), options());  // IMAGE is off
  plain(g, double_all(no_shape, 4 * 16385), image_options());
  plain(g, double_all(type, 1024, DType::kI32), image_options());
  KernelBuilder in_place(g);  // read and written by one kernel
  N i = in_place.loop(1024);
  N x = in_place.param(0, 1024);
  plain(g, in_place.kernel(x, i, in_place.mul(in_place.at(x, i), in_place.f(2)), {i}),
        image_options());
}

TEST(Images, ABufferWithOneOddAccessStaysPlain) {
  Graph g;
  KernelBuilder b(g);
  N i = b.loop(1024);
  N x = b.param(1, 1024);
  // The neighbour's address is no multiple of four.
  N next = b.padded(x, ir::lt(g, i, b.i(1023)), b.add(i, b.i(1)));
  auto sink = full_rewrite_to_sink(g, b.kernel(b.param(0, 1024), i, b.add(b.at(x, i), next), {i}),
                                   image_options(), true);
  ASSERT_TRUE(sink.ok()) << sink.error().what;
  const auto shapes = param_shapes(g, *sink);
  EXPECT_EQ(std::set<std::string>(shapes.begin(), shapes.end()),
            (std::set<std::string>{"0: 1 256 4", "1: 1024"}));
}

// ---- 1: tiles of threads ----

TEST(MultiResolve, GlobalIndexOfAThreadsTileBecomesLocal) {
  Graph g;
  KernelBuilder b(g);
  N t = ir::range(g, 4, 0, AxisType::kThread);
  N j = b.reduce_loop(8);
  N tile = g.make(Op::kUnshard, DType::kF32, {b.param(1, 8), t}, ir::Ints{0});
  N root = g.make(Op::kIndex, DType::kF32, {tile, b.add(b.times(t, 8), j)});
  N out = multi_resolve(g, root, options());
  ASSERT_TRUE(g.status().ok()) << g.status().error().what;
  EXPECT_EQ(ir::print(out), ir::print(b.at(b.param(1, 8), j)));
}

TEST(MultiResolve, ElementwiseWorkMovesIntoTheTiles) {
  Graph g;
  KernelBuilder b(g);
  N t = ir::range(g, 4, 0, AxisType::kThread);
  N j = b.reduce_loop(8);
  const auto tile = [&](int64_t slot) {
    return g.make(Op::kUnshard, DType::kF32, {b.param(slot, 8), t}, ir::Ints{0});
  };
  N sum = b.mul(b.add(tile(1), tile(2)), b.f(3));
  N out =
      multi_resolve(g, g.make(Op::kIndex, DType::kF32, {sum, b.add(b.times(t, 8), j)}), options());
  ASSERT_TRUE(g.status().ok()) << g.status().error().what;
  for (N n : ir::toposort(out)) EXPECT_NE(n->op, Op::kUnshard);
}

TEST(MultiResolve, AnotherThreadsTileCannotBeRead) {
  const auto error = [](int64_t stride, int64_t shift) {
    Graph g;
    KernelBuilder b(g);
    N t = ir::range(g, 4, 0, AxisType::kThread);
    N j = b.reduce_loop(8);
    N tile = g.make(Op::kUnshard, DType::kF32, {b.param(1, 8), t}, ir::Ints{0});
    N at = b.add(b.add(b.times(t, stride), j), b.i(shift));
    multi_resolve(g, g.make(Op::kIndex, DType::kF32, {tile, at}), options());
    return g.status().ok() ? std::string() : g.status().error().what;
  };
  EXPECT_EQ(error(8, 0), "");
  EXPECT_EQ(error(8, 1),
            "multi_resolve: index may lie outside of its own tile: local coordinate 1..8 of 8");
  EXPECT_NE(error(4, 0), "");
  Graph g;
  KernelBuilder b(g);
  N t = ir::range(g, 4, 0, AxisType::kThread), u = ir::range(g, 4, 1, AxisType::kThread);
  multi_resolve(g,
                b.add(g.make(Op::kUnshard, DType::kF32, {b.param(1, 8), t}, ir::Ints{0}),
                      g.make(Op::kUnshard, DType::kF32, {b.param(2, 8), u}, ir::Ints{0})),
                options());
  EXPECT_EQ(g.status().error().what, "multi_resolve: add of tiles that are cut differently");
}

// ---- 6.4: the table's GPU column ----

std::string chosen(Graph& g, N ast, CodegenOptions o = options()) {
  auto r = run_kernel_passes(g, ast, o, true, "apply_opts");
  EXPECT_TRUE(r.ok()) << r.error().what;
  return r.ok() ? ir::opts_text((*r)->as<ir::KernelInfo>().applied_opts) : "";
}

N auto_opts(KernelBuilder& b, N ast) {
  return b.g.with_arg(ast, ir::KernelInfo{});
}

N depthwise(KernelBuilder& b, int64_t channels, int64_t out) {
  const int64_t in = out + 2;
  N c = b.loop(channels), y = b.loop(out), x = b.loop(out);
  N ky = b.reduce_loop(3), kx = b.reduce_loop(3);
  N image = b.at(b.param(1, channels * in * in),
                 b.add(b.add(b.times(c, in * in), b.times(b.add(y, ky), in)), b.add(x, kx)));
  N tap = b.at(b.param(2, channels * 9), b.add(b.add(b.times(c, 9), b.times(ky, 3)), kx));
  return b.kernel(b.param(0, channels * out * out),
                  b.add(b.add(b.times(c, out * out), b.times(y, out)), x),
                  b.reduce(Op::kAdd, b.mul(image, tap), {ky, kx}), {c, y, x});
}

TEST(HandCodedOptimizations, ReferenceTableOfAGpu) {
  Graph g;
  KernelBuilder e(g);
  N i = e.loop(1 << 20);
  N sum = e.add(e.at(e.param(1, 1 << 20), i), e.at(e.param(2, 1 << 20), i));
  EXPECT_EQ(chosen(g, e.kernel(e.param(0, 1 << 20), i, sum, {i})), "[UPCAST(0,4) LOCAL(0,32)]");
  KernelBuilder m(g);
  EXPECT_EQ(chosen(g, auto_opts(m, testing::product(m, 512, 512, 512, {}))),
            "[UPCAST(1,4) UPCAST(0,4) UNROLL(0,4) LOCAL(0,8) LOCAL(1,16)]");
  KernelBuilder v(g);
  EXPECT_EQ(chosen(g, auto_opts(v, testing::product(v, 1, 512, 512, {}))),
            "[GROUP(0,8) LOCAL(0,4) UPCAST(0,4)]");
  KernelBuilder c(g);
  EXPECT_EQ(chosen(g, c.conv(32, 64, 66, 66, 3, 0)),
            "[UPCAST(2,4) UPCAST(0,4) UNROLL(2,0) UNROLL(1,0) LOCAL(1,8) LOCAL(2,16)]");
  KernelBuilder d(g);
  EXPECT_EQ(chosen(g, depthwise(d, 64, 64)),
            "[UPCAST(2,4) UNROLL(1,0) UNROLL(0,0) LOCAL(1,8) LOCAL(2,16)]");
  KernelBuilder p(g);
  EXPECT_EQ(chosen(g, p.conv(32, 64, 64, 64, 1, 0)),
            "[UPCAST(1,4) UPCAST(0,4) UNROLL(0,0) LOCAL(0,8) LOCAL(1,16)]");
  KernelBuilder s(g);
  EXPECT_EQ(chosen(g, auto_opts(s, testing::row_reduce(s, 16, 1024, {}))), "[GROUPTOP(0,16)]");
  KernelBuilder x(g);
  EXPECT_EQ(chosen(g, auto_opts(x, testing::row_reduce(x, 64, 1000, {}, Op::kMax))),
            "[UNROLL(0,4) LOCAL(0,32)]");
}

TEST(HandCodedOptimizations, NoLocalsMeansNoGroupsAtAll) {
  CodegenOptions o = options();
  o.nolocals = true;
  Graph g;
  KernelBuilder m(g);
  EXPECT_EQ(chosen(g, auto_opts(m, testing::product(m, 512, 512, 512, {})), o),
            "[UPCAST(1,4) UPCAST(0,4) UNROLL(0,4) NOLOCALS]");
}

TEST(HandCodedOptimizations, ImagesGetWholePixels) {
  Graph g;
  KernelBuilder b(g);
  EXPECT_EQ(chosen(g, double_all(b, 4 * 4096), image_options()), "[UPCAST(0,4) LOCAL(0,32)]");
  // Reads are contiguous along the reduce axis: four of its elements are the pixel.
  KernelBuilder s(g);
  EXPECT_EQ(chosen(g, auto_opts(s, testing::row_reduce(s, 4096, 64, {})), image_options()),
            "[UPCAST(0,4) UNROLL(0,4) GROUPTOP(0,16)]");
  // Too few items as it is: small masked axes stay loops.
  KernelBuilder c(g);
  EXPECT_EQ(chosen(g, c.conv(8, 8, 6, 6, 3, 1), image_options()).find("UPCAST(1"),
            std::string::npos);
}

}  // namespace
}  // namespace modeld::codegen
