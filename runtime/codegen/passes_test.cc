// Single passes on graphs: stores that share loops, vector accesses in shapes that fail, order as a
// property of random kernels. Running code is kernel_run_test's and kernel-fuzz's.
#include "runtime/codegen/passes.h"

#include <gtest/gtest.h>

#include <set>

#include "runtime/codegen/cfg_context.h"
#include "runtime/codegen/decompositions.h"
#include "runtime/codegen/graph_util.h"
#include "runtime/codegen/linearize.h"
#include "runtime/codegen/lower.h"

#include "selftest/testing/kernel_builder.h"

namespace modeld::codegen {
namespace {

using ir::AxisType;
using ir::DType;
using ir::NodeVec;
using ir::Op;
using ir::OptOp;
using testing::KernelBuilder;
using N = const Node*;
__extension__ typedef __int128 Wide;

CodegenOptions options(bool unaligned = true) {
  CodegenOptions o = cpu_options(*hal::parse_target("cpu:x86-64-v3"));
  o.target.threads = 1;
  o.noopt = true;
  o.caps.unaligned_vectors = unaligned;
  o.caps.pack_lanes = false;
  return o;
}

N lowered(Graph& g, N ast, const CodegenOptions& o) {
  const auto r = full_rewrite_to_sink(g, ast, o, ast->tag == 0);
  EXPECT_TRUE(r.ok()) << r.error().what;
  return r.ok() ? *r : ast;
}

size_t count(N root, Op op) {
  size_t n = 0;
  for (N s : ir::toposort(root)) n += s->op == op ? 1 : 0;
  return n;
}

// ---- merge_ends ----

TEST(MergeEnds, StoresOverTheSameLoopsShareThem) {
  Graph g;
  KernelBuilder b(g);
  N i = b.loop(6), j = b.loop(5);
  N at = b.add(b.times(i, 5), j);
  N x = b.at(b.param(2, 30), at);
  N one = b.end(b.store(b.param(0, 30), at, x), {i, j});
  N two = b.end(b.store(b.param(1, 30), at, b.mul(x, b.f(2))), {i, j});
  N p = lowered(g, b.kernel({one, two}), options());
  EXPECT_EQ(count(p, Op::kStore), 2U);
  EXPECT_EQ(count(p, Op::kEnd), 1U);  // 6 and 5 are one loop of 30
}

TEST(MergeEnds, OtherNestingClonesTheLoop) {
  Graph g;
  g.reserve_fresh(100);  // as the pass table does
  KernelBuilder b(g);
  N i = b.loop(6), j = b.loop(5);
  N one = b.end(b.store(b.param(0, 6), i, b.f(1)), {i});
  N two = b.end(b.store(b.param(1, 30), b.add(b.times(i, 5), j), b.f(2)), {i, j});
  N merged = merge_ends(g, b.kernel({one, two}), options());
  ASSERT_EQ(merged->nsrc, 2U);
  std::set<N> first(merged->src(0)->src().begin() + 1, merged->src(0)->src().end());
  for (N r : merged->src(1)->src().subspan(1)) EXPECT_FALSE(first.contains(r));
  EXPECT_EQ(count(lowered(g, b.kernel({one, two}), options()), Op::kEnd), 3U);
}

TEST(MergeEnds, AStoreThatWaitsForAnotherKeepsItsOwnLoop) {
  Graph g;
  g.reserve_fresh(100);  // as the pass table does
  KernelBuilder b(g);
  N i = b.loop(6);
  N tmp = b.param(0, 6);
  N one = b.end(b.store(tmp, i, b.f(1)), {i});
  N read = b.at(after(g, tmp, {one}), b.add(b.i(5), b.times(i, -1)));
  N two = b.end(b.store(b.param(1, 6), i, read), {i});
  N merged = merge_ends(g, b.kernel({one, two}), options());
  ASSERT_EQ(merged->nsrc, 2U);
  EXPECT_NE(merged->src(0)->src(1), merged->src(1)->src(1));
}

// Loops that split_ranges numbered and loops made later must not become one node.
TEST(RemoveReduces, RenumberedLoopsAndNewOnesAreDifferentNodes) {
  Graph g;
  KernelBuilder b(g);
  N i = b.loop(8), r = b.reduce_loop(4), s = b.reduce_loop(12);
  N by4 = b.op(Op::kFloorMod, {i, b.i(4)});
  N x = b.at(b.param(1, 2000), b.add(b.add(b.times(by4, 100), b.times(r, 12)), s));
  N y = b.at(b.param(2, 2000), b.add(b.times(i, 12), s));
  N low = b.reduce(Op::kMax, y, {s});
  N high = b.reduce(Op::kAdd, x, {r, s});
  N p = lowered(g, b.kernel(b.param(0, 8), i, b.add(low, high), {i}), options());
  std::multiset<N> closed;
  for (N n : ir::toposort(p))
    if (n->op == Op::kEnd) closed.insert(n->src(1));
  for (N range : closed) EXPECT_EQ(closed.count(range), 1U);
}

// ---- memory_coalescing ----

// Widths of vector accesses of `op`.
std::multiset<int64_t> widths(N root, Op op) {
  std::multiset<int64_t> out;
  for (N n : ir::toposort(root)) {
    if (n->op != op) continue;
    N buffer = memory_root(n->src(0));
    if (memory_space(buffer) == ir::AddrSpace::kReg) continue;
    out.insert(n->src(0)->op == Op::kShrink ? *ir::int_value(n->src(0)->src(2)) : 1);
  }
  return out;
}
using Widths = std::multiset<int64_t>;

// out[i * 4 + k] = in[i * pitch + start + k] for k < n, as UPCAST lanes.
N copy_rows(KernelBuilder& b, int64_t pitch, int64_t start, int64_t n, DType t = DType::kF32) {
  N i = b.loop(4);
  NodeVec stores;
  for (int64_t k = 0; k < n; ++k) {
    N x = b.at(b.param(1, 4 * pitch + 64, t), b.add(b.times(i, pitch), b.i(start + k)));
    stores.push_back(b.store(b.param(0, 4 * n, t), b.add(b.times(i, n), b.i(k)), x));
  }
  return b.kernel({b.end(group(b.g, stores), {i})});
}

TEST(MemoryCoalescing, AnUnalignedStartIsCutAtTheNextBoundary) {
  const std::vector<std::pair<int64_t, Widths>> want = {
      {0, {8}}, {1, {1, 1, 2, 4}}, {2, {2, 2, 4}}, {3, {1, 1, 2, 4}}, {4, {4, 4}}};
  for (const auto& [start, loads] : want) {
    Graph g;
    KernelBuilder b(g);
    EXPECT_EQ(widths(lowered(g, copy_rows(b, 16, start, 8), options(false)), Op::kLoad), loads)
        << "start " << start;
  }
}

TEST(MemoryCoalescing, AnOddPitchProvesNothing) {
  Graph g;
  KernelBuilder b(g);
  N p = lowered(g, copy_rows(b, 17, 0, 8), options(false));
  EXPECT_EQ(widths(p, Op::kLoad), (Widths{1, 1, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(widths(p, Op::kStore), (Widths{8}));
}

TEST(MemoryCoalescing, EightHalvesAreOneAccess) {
  Graph g;
  KernelBuilder b(g);
  N p = lowered(g, copy_rows(b, 24, 8, 8, DType::kF16), options(false));
  EXPECT_EQ(widths(p, Op::kLoad), (Widths{8}));
  EXPECT_EQ(widths(p, Op::kStore), (Widths{8}));
}

TEST(MemoryCoalescing, OneMaskStaysOneMaskForTheWholeVector) {
  Graph g;
  KernelBuilder b(g);
  N i = b.loop(5);
  N gate = ir::lt(g, i, b.i(3));
  NodeVec stores;
  for (int64_t k = 0; k < 4; ++k) {
    N index = b.add(b.times(i, 4), b.i(k));
    N x = b.padded(b.param(1, 12), gate, index);
    stores.push_back(b.store(b.param(0, 20), index, x));
  }
  N p = lowered(g, b.kernel({b.end(group(g, stores), {i})}), options());
  EXPECT_EQ(widths(p, Op::kLoad), (Widths{4}));
  for (N n : ir::toposort(p)) {
    if (n->op != Op::kLoad) continue;
    EXPECT_EQ(n->nsrc, 3U);
  }
}

TEST(MemoryCoalescing, EqualLoadsShareOneVector) {
  Graph g;
  KernelBuilder b(g);
  N i = b.loop(4);
  NodeVec stores;
  for (int64_t k = 0; k < 4; ++k) {
    N x = b.at(b.param(1, 16), b.add(b.times(i, 4), b.i(k)));
    N y = b.at(b.param(1, 16), b.add(b.times(i, 4), b.i(3 - k)));
    stores.push_back(b.store(b.param(0, 16), b.add(b.times(i, 4), b.i(k)), b.mul(x, y)));
  }
  N p = lowered(g, b.kernel({b.end(group(g, stores), {i})}), options());
  EXPECT_EQ(widths(p, Op::kLoad), (Widths{4}));
}

TEST(MemoryCoalescing, VolatileStoresKeepCountAndWidth) {
  Graph g;
  KernelBuilder b(g);
  N i = b.loop(4);
  N out = b.param(0, 16);
  ir::ParamArg arg = out->as<ir::ParamArg>();
  arg.is_volatile = true;
  out = g.with_arg(out, arg);
  NodeVec stores;
  for (int64_t k = 0; k < 4; ++k)
    stores.push_back(b.store(out, b.add(b.times(i, 4), b.i(k)), b.f(static_cast<double>(k))));
  N p = lowered(g, b.kernel({b.end(group(g, stores), {i})}), options());
  EXPECT_EQ(widths(p, Op::kStore), (Widths{1, 1, 1, 1}));
}

TEST(MemoryCoalescing, TwoStoresToOneOffsetAmongOthersAreAnError) {
  Graph g;
  KernelBuilder b(g);
  N i = b.loop(4);
  NodeVec stores;
  for (int64_t k : {0, 1, 2, 1})
    stores.push_back(b.store(b.param(0, 16), b.add(b.times(i, 4), b.i(k)),
                             b.f(static_cast<double>(stores.size()))));
  const auto r = full_rewrite_to_sink(g, b.kernel({b.end(group(g, stores), {i})}), options(), true);
  ASSERT_FALSE(r.ok());
  EXPECT_NE(r.error().what.find("two stores to offset 1"), std::string::npos) << r.error().what;
}

// ---- decompositions ----

TEST(FastDivision, RefusesWhatItCannotProve) {
  EXPECT_FALSE(magic_division(1, 100));        // no division
  EXPECT_FALSE(magic_division(7, INT64_MAX));  // no bound
  Graph g;
  N x = ir::variable(g, "x", -5, 100);
  N n = ir::alu(g, Op::kCDiv, {x, ir::const_int(g, 7, DType::kI32)});
  EXPECT_EQ(fast_division(g, n), nullptr);  // may be negative
  N y = ir::param(g, 0, DType::kU64, 4);
  N wide = ir::alu(g, Op::kCDiv, {y, ir::const_int(g, 7, DType::kU64)});
  EXPECT_EQ(fast_division(g, wide), nullptr);  // any u64
}

// The product must fit: every (d, vmax) that is accepted holds at the ends of its range.
TEST(FastDivision, DoesNotWrapAtTheEndsOfItsRange) {
  for (int64_t d = 2; d < 2000; d += 7) {
    for (int64_t vmax : {255L, 65535L, 2147483647L, 4294967295L}) {
      const auto m = magic_division(d, vmax);
      if (!m) continue;
      for (int64_t x : {int64_t{0}, d - 1, d, vmax / d * d - 1, vmax / d * d, vmax}) {
        const auto q = static_cast<int64_t>(Wide{x} * m->multiplier >> m->shift);
        ASSERT_EQ(q, x / d) << x << " / " << d << " below " << vmax;
      }
    }
  }
}

TEST(EarlyDecomp, FloorDivisionByPowersIsAShiftOfAnySign) {
  Graph g;
  N x = ir::param(g, 1, DType::kI32, 4);
  N div = ir::alu(g, Op::kFloorDiv, {x, ir::const_int(g, 8, DType::kI32)});
  N mod = ir::alu(g, Op::kFloorMod, {x, ir::const_int(g, 8, DType::kI32)});
  EXPECT_EQ(early_decomp(g, div, options())->op, Op::kShr);
  EXPECT_EQ(early_decomp(g, mod, options())->op, Op::kAnd);
}

TEST(LateDecomp, BoolsAreLogicNotNumbers) {
  Graph g;
  N a = ir::param(g, 0, DType::kBool, 4), b = ir::param(g, 1, DType::kBool, 4);
  for (const Op op : {Op::kAdd, Op::kMax}) {
    N n = g.make(op, DType::kBool, {a, b});
    EXPECT_EQ(late_decomp(g, n, options())->op, Op::kOr);
  }
  EXPECT_EQ(late_decomp(g, g.make(Op::kMul, DType::kBool, {a, b}), options())->op, Op::kAnd);
  EXPECT_EQ(count(late_decomp(g, ir::lt(g, a, b), options()), Op::kCmpLt), 0U);
}

// A u32 of all ones as i32 is -1, not 4294967295.
TEST(CastedConsts, ALiteralIsConvertedNotRespelled) {
  Graph g;
  KernelBuilder b(g);
  N ones = ir::const_int(g, 0xffffffff, DType::kU32);
  N as_signed = g.make(Op::kCast, DType::kI32, {ones});
  N store = b.store(b.param(0, 1, DType::kI32), b.i(0), as_signed);
  for (N n : ir::toposort(casted_consts(g, b.kernel({store}), options()))) {
    if (n->op != Op::kCast || n->dtype != DType::kI32) continue;
    EXPECT_EQ(ir::int_value(n->src(0)), -1);
    EXPECT_EQ(n->src(0)->dtype, DType::kWeakInt);
  }
}

// ---- linearize ----

void expect_well_nested(const NodeVec& order, N sink) {
  std::vector<N> open;
  std::set<N> seen;
  for (N n : order) {
    for (N s : n->src()) ASSERT_TRUE(seen.contains(s)) << ir::op_name(n->op);
    ASSERT_TRUE(seen.insert(n).second) << "a node stands twice";
    if (n->op == Op::kRange) open.push_back(n);
    if (n->op != Op::kEnd) continue;
    ASSERT_FALSE(open.empty());
    ASSERT_EQ(open.back(), n->src(1)) << "loops interleave";
    open.pop_back();
  }
  EXPECT_TRUE(open.empty());
  EXPECT_EQ(seen.size(), ir::toposort(sink).size()) << "a node is missing";
}

// Several reduces, some over shared loops, some that need one another.
N many_reduces(KernelBuilder& b, uint32_t seed) {
  N i = b.loop(1 + seed % 7), j = b.loop(2 + seed % 3);
  N value = nullptr;
  for (uint32_t k = 0; k < 2 + seed % 3; ++k) {
    N r = b.reduce_loop(3 + (seed + k) % 5), s = b.reduce_loop(4);
    N index = b.add(b.add(b.times(i, 64), b.times(r, 8)), k % 2 == 0 ? s : j);
    N x = b.at(b.param(1 + k % 2, 1024), index);
    if (value != nullptr && (seed >> k) % 2 == 1) x = b.mul(x, value);
    N sum = b.reduce(k % 2 == 0 ? Op::kAdd : Op::kMax, x, {r, s});
    value = value == nullptr ? sum : b.add(value, sum);
  }
  const int64_t columns = 2 + seed % 3;
  return b.kernel(b.param(0, (1 + seed % 7) * columns), b.add(b.times(i, columns), j), value,
                  {i, j});
}

TEST(Linearize, IsTotalAndWellNestedOnManyReduces) {
  for (uint32_t seed = 0; seed < 120; ++seed) {
    Graph g;
    KernelBuilder b(g);
    N ast = many_reduces(b, seed);
    CodegenOptions o = options();
    o.noopt = seed % 2 == 0;
    N sink = lowered(g, ast, o);
    expect_well_nested(linearize(g, sink), sink);
  }
}

// The same order whatever else the Graph holds: content decides, never ids or addresses.
TEST(Linearize, OrderDoesNotDependOnHistory) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const auto keys = [&](int64_t noise) {
      Graph g;
      for (int64_t k = 0; k < noise; ++k) (void)ir::const_int(g, 1000 + k, DType::kI16);
      KernelBuilder b(g);
      std::vector<std::string> out;
      N sink = lowered(g, many_reduces(b, seed), options());
      for (N n : linearize(g, sink)) out.push_back(n->key.hex());
      return out;
    };
    EXPECT_EQ(keys(0), keys(997)) << "seed " << seed;
  }
}

// ---- CFGContext ----

TEST(CFGContext, SiblingsFollowOneAnother) {
  Graph g;
  KernelBuilder b(g);
  N i = b.loop(4), j = b.loop(5);
  N one = b.end(b.store(b.param(0, 4), i, b.f(1)), {i});
  N two = b.end(b.store(b.param(1, 5), j, b.f(2)), {j});
  N root = b.kernel({one, two});
  const CFGContext cfg(g, root);
  EXPECT_EQ(cfg.edge(i), nullptr);
  EXPECT_EQ(cfg.edge(j), one);
  EXPECT_FALSE(g.failed());
}

TEST(CFGContext, AnInnerLoopComesAfterItsParent) {
  Graph g;
  KernelBuilder b(g);
  N i = b.loop(4), j = b.loop(5);
  N body = b.end(b.store(b.param(0, 20), b.add(b.times(i, 5), j), b.f(1)), {j});
  N root = b.kernel({b.end(body, {i})});
  const CFGContext cfg(g, root);
  EXPECT_EQ(cfg.edge(j), i);
}

TEST(CFGContext, ARangeClosedTwiceIsAnError) {
  Graph g;
  KernelBuilder b(g);
  N i = b.loop(4);
  N one = b.end(b.store(b.param(0, 4), i, b.f(1)), {i});
  N two = b.end(b.store(b.param(1, 4), i, b.f(2)), {i});
  const CFGContext cfg(g, b.kernel({one, two}));
  EXPECT_TRUE(g.failed());
}

}  // namespace
}  // namespace modeld::codegen
