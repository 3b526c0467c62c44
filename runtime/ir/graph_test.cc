#include "runtime/ir/graph.h"

#include "runtime/ir/derived.h"
#include "runtime/ir/print.h"
#include "runtime/ir/rewrite.h"
#include "runtime/ir/spec.h"

namespace modeld::ir {
namespace {

const Node* input(Graph& g, std::vector<int64_t> d, DType t = DType::kF32) {
  int64_t n = 1;
  for (int64_t x : d) n *= x;
  return g.make(Op::kReshape, t,
                {buffer(g, g.fresh(), t, n, AddrSpace::kGlobal, "CPU"), shape_node(g, d)});
}
const Node* shrink(Graph& g,
                   const Node* x,
                   std::vector<int64_t> starts,
                   std::vector<int64_t> sizes) {
  return g.make(Op::kShrink, x->dtype, {x, shape_node(g, starts), shape_node(g, sizes)});
}

TEST(Graph, EqualNodesAreOneNode) {
  Graph g;
  EXPECT_EQ(add(g, const_int(g, 1), const_int(g, 2)), add(g, const_int(g, 1), const_int(g, 2)));
  EXPECT_NE(const_int(g, 1, DType::kI32), const_int(g, 1, DType::kI64));
  EXPECT_NE(g.with_tag(const_int(g, 1), 1), const_int(g, 1));
  EXPECT_EQ(g.with_tag(const_int(g, 1), 1)->key, const_int(g, 1)->key);
}

TEST(Graph, KeysDependOnContentOnly) {
  Graph a;
  Graph b;
  for (int i = 0; i < 10; ++i) const_int(b, i + 100);
  const Node* x = add(a, range(a, 4, 0, AxisType::kWeak), const_int(a, 3));
  const Node* y = add(b, range(b, 4, 0, AxisType::kWeak), const_int(b, 3));
  EXPECT_EQ(x->key, y->key);
  EXPECT_EQ(b.import(x), y);
}

TEST(Graph, WeakOperandsAdaptAndConcreteOnesMustAgree) {
  Graph g;
  const Node* x = input(g, {4});
  EXPECT_EQ(mul(g, x, const_int(g, 2))->src(1)->dtype, DType::kF32);
  EXPECT_TRUE(g.status().ok());
  add(g, x, input(g, {4}, DType::kI32));
  EXPECT_FALSE(g.status().ok());
}

TEST(Graph, PrintAndParseAreInverse) {
  Graph g;
  KernelInfo info;
  info.name = "r_4 \"x\"";
  info.applied_opts = {{OptOp::kUpcast, 0, 4}, {OptOp::kNoLocals, 0, 0}};
  info.opts_to_apply = Opts{};
  const Node* r = range(g, 4, 3, AxisType::kReduce);
  const Node* p = param(g, 0, DType::kF16, 12, "CPU");
  const Node* v = variable(g, "stride", 1, 4096);
  const Node* idx =
      where(g, lt(g, r, const_int(g, 3)), add(g, r, cast(g, v, DType::kWeakInt)), const_invalid(g));
  const Node* load = g.make(Op::kIndex, DType::kF16, {p, idx});
  const Node* sum = g.make(Op::kReduce, DType::kF16, {load, r}, ReduceArg{Op::kMax, 0});
  const Node* scaled = mul(g, sum, const_float(g, -0.0, DType::kF16));
  const Node* root = sink(g, NodeVec{scaled, const_float(g, std::nan(""), DType::kF64)}, info);
  const std::string text = print(root);
  auto back = parse(g, text);
  ASSERT_TRUE(back.ok()) << back.error().what;
  EXPECT_EQ(*back, root);
  Graph other;
  auto copy = parse(other, text);
  ASSERT_TRUE(copy.ok());
  EXPECT_EQ(print(*copy), text);
}

TEST(Graph, DamagedTextIsAnErrorNamingTheLine) {
  Graph g;
  const std::string text = print(add(g, range(g, 4, 0, AxisType::kWeak), const_int(g, 3)));
  for (size_t i = 0; i < text.size(); ++i) {
    for (char c : {'%', '9', 'x', '\n', '{'}) {
      std::string bad = text;
      bad[i] = c;
      Graph h;
      auto r = parse(h, bad);  // any result but a crash; an error must name a line
      EXPECT_TRUE(r.ok() || r.error().what.find("graph text") != std::string::npos);
    }
  }
  Graph h;
  EXPECT_FALSE(parse(h, "%0 = const weakint %5 {int 3}\n").ok());
  EXPECT_FALSE(parse(h, "%0 = nosuch weakint\n").ok());
  EXPECT_FALSE(parse(h, "").ok());
}

TEST(Shape, RulesOfTheHandbook) {
  Graph g;
  const Node* x = input(g, {2, 3, 4});
  EXPECT_EQ(dims(g, g.make(Op::kPermute, x->dtype, {x}, Ints{2, 0, 1})),
            (std::vector<int64_t>{4, 2, 3}));
  EXPECT_EQ(dims(g, g.make(Op::kExpand, x->dtype, {x, shape_node(g, std::vector<int64_t>{5})})),
            (std::vector<int64_t>{5, 2, 3, 4}));
  EXPECT_EQ(dims(g, g.make(Op::kReduce, x->dtype, {x}, ReduceArg{Op::kAdd, 2})),
            (std::vector<int64_t>{4}));
  EXPECT_EQ(dims(g, add(g, x, input(g, {3, 1}))), (std::vector<int64_t>{2, 3, 4}));
  EXPECT_EQ(dims(g, g.make(Op::kBitCast, DType::kU8, {x})), (std::vector<int64_t>{2, 3, 16}));
  const Node* flat = input(g, {24});
  EXPECT_EQ(dims(g, g.make(Op::kIndex, x->dtype, {flat, input(g, {5, 6}, DType::kI32)})),
            (std::vector<int64_t>{5, 6}));
  EXPECT_TRUE(g.status().ok());
}

TEST(Shape, BadShapesAreErrors) {
  const std::vector<std::function<void(Graph&)>> bad = {
      [](Graph& g) {
        const Node* x = input(g, {2, 3});
        dims(g, g.make(Op::kReshape, x->dtype, {x, shape_node(g, std::vector<int64_t>{7})}));
      },
      [](Graph& g) {
        const Node* x = input(g, {2, 3});
        dims(g, g.make(Op::kReshape, x->dtype, {x, shape_node(g, std::vector<int64_t>{-2, -3})}));
      },
      [](Graph& g) { dims(g, shrink(g, input(g, {4}), {2}, {3})); },
      [](Graph& g) {
        const Node* x = input(g, {2, 3});
        dims(g, g.make(Op::kPermute, x->dtype, {x}, Ints{0, 0}));
      },
      [](Graph& g) {
        dims(g, add(g, input(g, {2, 3}), input(g, {4})));
      },
      [](Graph& g) {
        const Node* x = input(g, {3}, DType::kU8);
        dims(g, g.make(Op::kBitCast, DType::kF32, {x}));
      },
      [](Graph& g) {
        const Node* x = input(g, {4});
        dims(g, g.make(Op::kPad, x->dtype,
                       {x, shape_node(g, std::vector<int64_t>{3}),
                        shape_node(g, std::vector<int64_t>{5})}));
      },
  };
  for (size_t i = 0; i < bad.size(); ++i) {
    Graph g;
    bad[i](g);
    EXPECT_FALSE(g.status().ok()) << "case " << i;
  }
}

TEST(NeedsStorage, TruthTable) {
  Graph g;
  const Node* x = input(g, {10});
  const Node* b = x->src(0);
  EXPECT_FALSE(needs_storage(g, const_float(g, 1.0)));
  EXPECT_FALSE(needs_storage(g, variable(g, "v", 0, 4)));
  EXPECT_FALSE(needs_storage(g, b));
  EXPECT_FALSE(needs_storage(g, x));
  EXPECT_TRUE(needs_storage(g, shrink(g, b, {1}, {3})));
  EXPECT_TRUE(needs_storage(g, add(g, x, x)));
  EXPECT_TRUE(needs_storage(
      g, g.make(Op::kAfter, b->dtype, {b, g.make(Op::kStore, DType::kVoid, {b, x})})));
}

TEST(ContiguousView, FindsRunsAndRefusesTheRest) {
  Graph g;
  const Node* b = buffer(g, g.fresh(), DType::kF32, 10, AddrSpace::kGlobal, "CPU");
  const auto v = contiguous_view(g, shrink(g, b, {1}, {7}));
  ASSERT_TRUE(v.has_value());
  EXPECT_EQ(v->offset, 1);
  const Node* m = g.make(Op::kReshape, b->dtype, {b, shape_node(g, std::vector<int64_t>{2, 5})});
  const auto row = contiguous_view(g, shrink(g, m, {1, 2}, {1, 2}));
  ASSERT_TRUE(row.has_value());
  EXPECT_EQ(row->offset, 7);
  EXPECT_FALSE(contiguous_view(g, shrink(g, m, {0, 2}, {2, 2})).has_value());
  EXPECT_FALSE(
      contiguous_view(g, g.make(Op::kExpand, b->dtype, {b, shape_node(g, std::vector<int64_t>{2})}))
          .has_value());
  EXPECT_FALSE(contiguous_view(g, g.make(Op::kPad, b->dtype,
                                         {b, shape_node(g, std::vector<int64_t>{1}),
                                          shape_node(g, std::vector<int64_t>{12})}))
                   .has_value());
}

TEST(Ranges, ReduceAndEndClose) {
  Graph g;
  const Node* i = range(g, 4, 0, AxisType::kWeak);
  const Node* r = range(g, 8, 1, AxisType::kReduce);
  const Node* p = param(g, 0, DType::kF32, 32);
  const Node* x = g.make(Op::kIndex, DType::kF32, {p, add(g, mul_const(g, i, 8), r)});
  EXPECT_EQ(ranges(g, x), (NodeVec{i, r}));
  const Node* sum = g.make(Op::kReduce, DType::kF32, {x, r}, ReduceArg{Op::kAdd, 0});
  EXPECT_EQ(ranges(g, sum), NodeVec{i});
  const Node* out = g.make(Op::kIndex, DType::kF32, {p, i});
  const Node* end =
      g.make(Op::kEnd, DType::kVoid, {g.make(Op::kStore, DType::kVoid, {out, sum}), i});
  EXPECT_TRUE(ranges(g, end).empty());
  EXPECT_TRUE(ranges(g, g.make(Op::kAfter, DType::kF32, {p, end})).empty());
}

TEST(Ranges, EndClosesItsRangeButNotWhatTheRangeWaitsFor) {
  Graph g;
  const Node* outer = range(g, 4, 0, AxisType::kWeak);
  const Node* inner =
      g.make(Op::kRange, DType::kWeakInt, {const_int(g, 8), outer}, RangeArg{1, AxisType::kReduce});
  const Node* p = param(g, 0, DType::kF32, 32);
  const Node* at = g.make(Op::kIndex, DType::kF32, {p, inner});
  const Node* end =
      g.make(Op::kEnd, DType::kVoid, {g.make(Op::kStore, DType::kVoid, {at, at}), inner});
  EXPECT_EQ(ranges(g, end), NodeVec{outer});
}

TEST(Rewrite, RulesThatUndoEachOtherAreAnError) {
  RuleSet rules;
  rules.on({Op::kConst}, "3 to 4",
           [](Graph& g, const Node* n) { return is_int_const(n, 3) ? const_int(g, 4) : nullptr; });
  rules.on({Op::kConst}, "4 to 3",
           [](Graph& g, const Node* n) { return is_int_const(n, 4) ? const_int(g, 3) : nullptr; });
  Graph a;
  rewrite(a, add(a, const_int(a, 3), range(a, 2, 0, AxisType::kWeak)), rules);
  ASSERT_FALSE(a.status().ok());
  EXPECT_EQ(fault_of(a.status().error()), Fault::kRewriteLoop);
  Graph b;
  rewrite_node_first(b, add(b, const_int(b, 3), range(b, 2, 0, AxisType::kWeak)), rules);
  ASSERT_FALSE(b.status().ok());
  EXPECT_EQ(fault_of(b.status().error()), Fault::kRewriteLoop);
}

TEST(Rewrite, RuleThatReturnsItsNodeTerminates) {
  RuleSet rules;
  rules.on({Op::kConst, Op::kAdd}, "same", [](Graph&, const Node* n) { return n; });
  Graph g;
  const Node* n = add(g, const_int(g, 3), range(g, 2, 0, AxisType::kWeak));
  EXPECT_EQ(rewrite(g, n, rules), n);
  EXPECT_EQ(rewrite_node_first(g, n, rules), n);
}

TEST(Rewrite, TenThousandChainedAddsNeedNoRecursion) {
  Graph g;
  const Node* x = input(g, {4});
  const Node* n = x;
  for (int i = 0; i < 10000; ++i) n = add(g, n, const_float(g, i, DType::kF32));
  RuleSet rules;
  rules.on({Op::kAdd}, "to mul",
           [](Graph& gr, const Node* a) { return gr.make(Op::kMul, a->dtype, a->src()); });
  const Node* out = rewrite(g, n, rules);
  EXPECT_EQ(out->op, Op::kMul);
  EXPECT_EQ(dims(g, out), (std::vector<int64_t>{4}));
  EXPECT_TRUE(g.status().ok());
}

TEST(Rewrite, SubstituteDoesNotReenterReplacements) {
  Graph g;
  const Node* a = range(g, 4, 0, AxisType::kWeak);
  const Node* bigger = add(g, a, const_int(g, 1));
  const Node* n = mul_const(g, a, 3);
  EXPECT_EQ(substitute(g, n, {{a, bigger}}), mul_const(g, bigger, 3));
}

TEST(Spec, LaterOpsAreRefusedEarlier) {
  Graph g;
  const Node* p = param(g, 0, DType::kF32, 4, "CPU");
  const Node* index = g.make(Op::kIndex, DType::kF32, {p, const_int(g, 0)});
  EXPECT_FALSE(verify_tensor(g, sink(g, NodeVec{g.make(Op::kLoad, DType::kF32, {index})})).ok());
  EXPECT_FALSE(
      verify_kernel(g, sink(g, NodeVec{g.make(Op::kReshape, DType::kF32,
                                              {p, shape_node(g, std::vector<int64_t>{4})})}))
          .ok());
  EXPECT_FALSE(verify_program(g, sink(g, NodeVec{index, const_invalid(g)})).ok());
  EXPECT_FALSE(verify_kernel_graph(g, sink(g, NodeVec{range(g, 4, 0, AxisType::kWeak)})).ok());
}

TEST(Spec, RefusesWhatTheShapeRulesCannotRead) {
  // Texts whose shapes would be looked up beyond the sources, or divided by a size of 0.
  for (const char* text : {
           "%0 = index f32\n",
           "%0 = const weakint {int 4}\n%1 = bit_cast void %0\n",
           "%0 = sink void\n%1 = bit_cast f32 %0\n",
           "%0 = const weakint {int 4}\n%1 = tuple void %0\n%2 = get_tuple weakint %1 {int 1}\n",
           "%0 = const weakint {int 4}\n%1 = tuple void %0\n%2 = get_tuple weakint %1 {int -1}\n",
           "%0 = const weakint {int 4}\n%1 = get_tuple weakint %0 {int 0}\n",
       }) {
    Graph g;
    const auto root = parse(g, text);
    ASSERT_TRUE(root.ok()) << text;
    EXPECT_FALSE(verify_tensor(g, *root).ok()) << text;
  }
}

TEST(Shape, AWindowThatEndsBeyondAllNumbersIsAnError) {
  Graph g;
  const Node* x = input(g, {4});
  const Node* far = shape_node(g, std::vector<int64_t>{INT64_MAX - 1});
  const Node* size = shape_node(g, std::vector<int64_t>{4});
  EXPECT_FALSE(verify_tensor(g, g.make(Op::kShrink, DType::kF32, {x, far, size})).ok());
}

TEST(DType, PromotionLattice) {
  EXPECT_EQ(least_upper(DType::kI8, DType::kU8), DType::kI16);
  EXPECT_EQ(least_upper(DType::kU32, DType::kI32), DType::kI64);
  EXPECT_EQ(least_upper(DType::kF16, DType::kBF16), DType::kF32);
  EXPECT_EQ(least_upper(DType::kI64, DType::kF16), DType::kF16);
  EXPECT_EQ(least_upper(DType::kWeakInt, DType::kU8), DType::kU8);
  EXPECT_EQ(sum_dtype(DType::kF16), DType::kF32);
  EXPECT_EQ(sum_dtype(DType::kU8), DType::kU32);
  EXPECT_EQ(sum_dtype(DType::kBool), DType::kI32);
}

TEST(DType, HalfConversionMatchesEveryBitPattern) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float f = f16_bits_to_f32(static_cast<uint16_t>(bits));
    const bool nan = (bits & 0x7c00) == 0x7c00 && (bits & 0x3ff) != 0;
    if (nan) {
      EXPECT_NE(f, f);
    } else {
      ASSERT_EQ(f32_to_f16_bits(f), bits);
    }
  }
  EXPECT_EQ(f32_to_f16_bits(65520.0F), 0x7c00);
  EXPECT_EQ(f32_to_f16_bits(1.00048828125F), 0x3c00);  // ties to even
}

}  // namespace
}  // namespace modeld::ir
