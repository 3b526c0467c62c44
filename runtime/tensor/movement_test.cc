#include "runtime/ir/derived.h"
#include "runtime/tensor/tensor.h"

#include "selftest/testing/tensor_interp.h"

namespace modeld::tensor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Movement : public ::testing::Test {
 protected:
  modeld::testing::TensorLab lab;
  Tensor count(const Dims& dims) {
    std::vector<double> v(static_cast<size_t>(product(dims)));
    for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<double>(i);
    return lab.floats(dims, v);
  }
  std::string error() { return lab.g.status().ok() ? "" : lab.g.status().error().what; }
};

TEST_F(Movement, ReshapeInfersAndMerges) {
  const Tensor x = count({2, 6});
  EXPECT_EQ(x.reshape({3, -1}).dims(), (Dims{3, 4}));
  EXPECT_EQ(x.reshape({3, 4}).reshape({2, 6}).node(), x.node());
  EXPECT_EQ(x.flatten().dims(), (Dims{12}));
  EXPECT_EQ(count({2, 3, 4}).flatten(1).dims(), (Dims{2, 12}));
  EXPECT_EQ(count({2, 1, 3, 1}).squeeze().dims(), (Dims{2, 3}));
  EXPECT_EQ(count({2, 1, 3, 1}).squeeze({-1}).dims(), (Dims{2, 1, 3}));
  EXPECT_EQ(x.unsqueeze({0, -1}).dims(), (Dims{1, 2, 6, 1}));
}

TEST_F(Movement, PermuteComposes) {
  const Tensor x = count({2, 3});
  EXPECT_THAT(lab.run(x.transpose(0, 1)), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_EQ(x.transpose(0, 1).transpose(0, 1).node(), x.node());
  EXPECT_EQ(count({2, 3, 4}).permute({2, 0, 1}).dims(), (Dims{4, 2, 3}));
}

TEST_F(Movement, SliceWalksBothWays) {
  const Tensor x = count({10});
  EXPECT_THAT(lab.run(x.slice({{2, 5, 1}})), ElementsAre(2, 3, 4));
  EXPECT_THAT(lab.run(x.slice({{1, 100, 3}})), ElementsAre(1, 4, 7));
  EXPECT_THAT(lab.run(x.slice({{-3, Slice::kToEnd, 1}})), ElementsAre(7, 8, 9));
  EXPECT_THAT(lab.run(x.slice({{8, 1, -3}})), ElementsAre(8, 5, 2));
  EXPECT_THAT(lab.run(x.slice({{-1, Slice::kToFront, -4}})), ElementsAre(9, 5, 1));
  EXPECT_EQ(x.slice({{5, 5, 1}}).dims(), (Dims{0}));
  EXPECT_THAT(lab.run(count({2, 4}).slice_axis(1, {0, Slice::kToEnd, 2})), ElementsAre(0, 2, 4, 6));
}

TEST_F(Movement, PadFillsWithTheValue) {
  const Tensor x = count({1, 2}) + 1;
  EXPECT_THAT(lab.run(x.pad({1, 0}, {0, 1})), ElementsAre(0, 0, 0, 1, 2, 0));
  EXPECT_THAT(lab.run(x.pad({0, 1}, {0, 1}, -5)), ElementsAre(-5, 1, 2, -5));
}

TEST_F(Movement, ExpandRepeatFlip) {
  const Tensor x = count({2, 1});
  EXPECT_THAT(lab.run(x.expand({2, 2, 3})), ElementsAre(0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1));
  EXPECT_THAT(lab.run(count({2, 2}).repeat({1, 2})), ElementsAre(0, 1, 0, 1, 2, 3, 2, 3));
  EXPECT_THAT(lab.run(count({2, 2}).repeat_each(1, 2)), ElementsAre(0, 0, 1, 1, 2, 2, 3, 3));
  EXPECT_THAT(lab.run(count({2, 2}).flip({0})), ElementsAre(2, 3, 0, 1));
}

TEST_F(Movement, ConcatStackSplit) {
  const Tensor a = count({2, 2});
  const Tensor b = count({2, 1}) + 10;
  const std::vector<Tensor> both = {a, b};
  const Tensor c = concat(both, -1);
  EXPECT_THAT(lab.run(c), ElementsAre(0, 1, 10, 2, 3, 11));
  const auto parts = c.split({2, 1}, 1);
  EXPECT_THAT(lab.run(parts[1]), ElementsAre(10, 11));
  const std::vector<Tensor> twice = {a, a + 4};
  EXPECT_EQ(stack(twice, 1).dims(), (Dims{2, 2, 2}));
  EXPECT_THAT(lab.run(stack(twice, 1)), ElementsAre(0, 1, 4, 5, 2, 3, 6, 7));
  const std::vector<Tensor> flags = {a.gt(1), a.gt(2)};
  EXPECT_THAT(lab.run(concat(flags, 0)), ElementsAre(0, 0, 1, 1, 0, 0, 0, 1));
}

TEST_F(Movement, ArangeNeedsNoStorage) {
  for (const int64_t n : {0, 1, 2, 7, 33}) {
    const auto got = lab.run(Tensor::arange(lab.g, n));
    ASSERT_EQ(got.size(), static_cast<size_t>(n));
    for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], static_cast<double>(i));
  }
  EXPECT_THAT(lab.run(Tensor::arange(lab.g, 5, -2, 3, DType::kI32)), ElementsAre(5, 3, 1));
  EXPECT_THAT(lab.run(Tensor::arange(lab.g, 0.5, 0.25, 3, DType::kF32)), ElementsAre(0.5, 0.75, 1));
}

TEST_F(Movement, SizesAreLimited) {
  EXPECT_EQ(Tensor::arange(lab.g, int64_t{3} << 20).dims(), (Dims{int64_t{3} << 20}));
  ASSERT_TRUE(lab.g.status().ok());
  count({2}).repeat({int64_t{1} << 50});
  EXPECT_THAT(error(), HasSubstr("repeat: 2 times 1125899906842624"));
}

TEST_F(Movement, SplitSizesCannotOverflow) {
  count({4}).split({INT64_MAX, INT64_MAX, 6}, 0);
  EXPECT_THAT(error(), HasSubstr("split: parts"));
}

TEST_F(Movement, GatherFollowsOnnx) {
  const Tensor x = count({2, 3, 2});
  const Tensor i = lab.ints({2, 2}, {2, 0, -1, 1}, DType::kI64);
  const Tensor y = gather(x, i, 1);
  EXPECT_EQ(y.dims(), (Dims{2, 2, 2, 2}));
  EXPECT_THAT(lab.run(y), ElementsAre(4, 5, 0, 1, 4, 5, 2, 3, 10, 11, 6, 7, 10, 11, 8, 9));
  EXPECT_EQ(gather(x, lab.ints({}, {1}), 0).dims(), (Dims{3, 2}));
  EXPECT_THAT(lab.run(gather(x + 100, lab.ints({}, {1}), 2)),
              ElementsAre(101, 103, 105, 107, 109, 111));
  const Tensor e = gather_elements(count({2, 2}), lab.ints({2, 2}, {0, 0, 1, -2}), 1);
  EXPECT_THAT(lab.run(e), ElementsAre(0, 0, 3, 2));
}

TEST_F(Movement, GatherNeverLeavesMemory) {
  const Tensor x = count({4});
  EXPECT_THAT(lab.run(gather(x, lab.ints({4}, {-9, 9, INT32_MAX, INT32_MIN}), 0)),
              ElementsAre(0, 3, 3, 0));
  EXPECT_THAT(lab.run(gather_flat(x, lab.ints({2}, {-1, 77}))), ElementsAre(0, 3));
}

TEST_F(Movement, GatherGivesComputedSourcesMemoryOnce) {
  const Tensor x = count({4});
  const Tensor i = lab.ints({2}, {0, 1});
  EXPECT_TRUE(gather(x, i, 0).node()->src(0)->is(ir::Op::kIndex) ||
              gather(x, i, 0).node()->is(ir::Op::kReshape));
  size_t copies = 0;
  for (const ir::Node* n : ir::toposort(gather(x, i, 0).node()))
    copies += n->is(ir::Op::kContiguous);
  EXPECT_EQ(copies, 0U);
  for (const ir::Node* n : ir::toposort(gather(x * 2, i, 0).node()))
    copies += n->is(ir::Op::kContiguous);
  EXPECT_EQ(copies, 1U);
}

TEST_F(Movement, EqualConstantsShareASlot) {
  const std::vector<float> v = {1, 2};
  const Tensor a = Tensor::from_floats(lab.g, lab.store, v, {2});
  const Tensor b = Tensor::from_floats(lab.g, lab.store, v, {2});
  const Tensor c = Tensor::from_floats(lab.g, lab.store, v, {2, 1});
  EXPECT_EQ(a.node(), b.node());
  EXPECT_EQ(ir::base(c.node()), ir::base(a.node()));
  EXPECT_EQ(lab.store.count(), 1U);
  EXPECT_EQ(lab.store.total_bytes(), 8);
  EXPECT_THAT(lab.run(c), ElementsAre(1, 2));
}

TEST_F(Movement, AssignWritesThroughViews) {
  const Tensor x = count({8});
  const Tensor one = assign(x.shrink({0}, {4}), Tensor::full(lab.g, {4}, 1, DType::kF32));
  const Tensor two = assign(one.shrink({2}, {4}), Tensor::full(lab.g, {4}, 2, DType::kF32));
  EXPECT_EQ(two.dims(), (Dims{8}));
  EXPECT_THAT(lab.run(two), ElementsAre(1, 1, 2, 2, 2, 2, 6, 7));
  EXPECT_THAT(lab.run(assign(x, x + 1)), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_EQ(assign(x, x).node(), x.node());
  EXPECT_THAT(lab.run(assign(x, x.literal(3))), ElementsAre(3, 3, 3, 3, 3, 3, 3, 3));
}

TEST_F(Movement, AssignNeedsTheSameDtype) {
  assign(lab.random({4}, 1), lab.ints({4}, {1, 2, 3, 4}));
  EXPECT_THAT(error(), HasSubstr("assign: dtype i32 to a target of f32"));
}

TEST_F(Movement, AssignNeedsTheSameDevice) {
  const Tensor a = Tensor::input(lab.g, "a", {4}, DType::kF32, "CPU");
  const Tensor b = Tensor::input(lab.g, "b", {4}, DType::kF32, "CL");
  assign(a, b);
  EXPECT_THAT(error(), HasSubstr("value on device CL, target on CPU"));
}

TEST_F(Movement, AssignNeedsABuffer) {
  assign((lab.random({4}, 1) * 2).shrink({0}, {2}), lab.random({2}, 2));
  EXPECT_THAT(error(), HasSubstr("assign: the target is a mul"));
}

TEST_F(Movement, AssignNeedsAFittingShape) {
  assign(lab.random({4}, 1), lab.random({2, 4}, 2));
  EXPECT_THAT(error(), HasSubstr("assign: 2x4"));
}

struct BadCase {
  const char* name;
  Tensor (*make)(const Tensor& x);  // x is 2x3 f32
  const char* message;
};

class BadMovement : public ::testing::TestWithParam<BadCase> {};

TEST_P(BadMovement, NamesTheProblem) {
  modeld::testing::TensorLab lab;
  const Tensor y = GetParam().make(lab.random({2, 3}, 1));
  ASSERT_FALSE(y.status().ok());
  EXPECT_EQ(y.status().error().code, Errc::kInvalid);
  EXPECT_THAT(y.status().error().what, HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Tensor,
    BadMovement,
    ::testing::Values(
        BadCase{"reshape",
                [](const Tensor& x) {
                  return x.reshape({4, 2});
                },
                "reshape: 2x3 to 4x2"},
        BadCase{"infer",
                [](const Tensor& x) {
                  return x.reshape({-1, 4});
                },
                "reshape: 2x3"},
        BadCase{"negative",
                [](const Tensor& x) {
                  return x.reshape({-2, -3});
                },
                "reshape: 2x3"},
        BadCase{"permute",
                [](const Tensor& x) {
                  return x.permute({0, 0});
                },
                "permute: not a permutation"},
        BadCase{"rank", [](const Tensor& x) { return x.permute({0}); }, "permute: 1 numbers"},
        BadCase{"axis", [](const Tensor& x) { return x.sum({2}); }, "sum: axis 2"},
        BadCase{"twice",
                [](const Tensor& x) {
                  return x.sum({0, -2});
                },
                "sum: an axis is named twice"},
        BadCase{"expand",
                [](const Tensor& x) {
                  return x.expand({4, 3});
                },
                "expand: 2x3 to 4x3"},
        BadCase{"pad",
                [](const Tensor& x) {
                  return x.pad({-1, 0}, {0, 0});
                },
                "pad: negative"},
        BadCase{"shrink",
                [](const Tensor& x) {
                  return x.shrink({0, 2}, {2, 2});
                },
                "shrink: 2 elements from 2 on axis 1"},
        BadCase{"step",
                [](const Tensor& x) {
                  return x.slice({{0, 2, 0}});
                },
                "slice: step 0"},
        BadCase{"squeeze", [](const Tensor& x) { return x.squeeze({0}); },
                "squeeze: axis 0 of 2x3 is not 1"},
        BadCase{"concat",
                [](const Tensor& x) {
                  const std::vector<Tensor> p = {x, x.transpose(0, 1)};
                  return concat(p, 0);
                },
                "concat: 3x2 beside 2x3"},
        BadCase{"split",
                [](const Tensor& x) {
                  return x.split({1, 1}, 1)[0];
                },
                "split: parts 1x1"},
        BadCase{"matmul", [](const Tensor& x) { return x.matmul(x); }, "matmul: 2x3 by 2x3"},
        BadCase{"gather", [](const Tensor& x) { return gather(x, x, 0); },
                "gather: index of type f32"},
        BadCase{"bits", [](const Tensor& x) { return x.bit_and(x); }, "integers are needed"},
        BadCase{"bitcast", [](const Tensor& x) { return x.bitcast(DType::kU64); },
                "bitcast: last axis"}),
    [](const auto& p) { return std::string(p.param.name); });

TEST(TensorSources, StorageHasAWidth) {
  modeld::testing::TensorLab lab;
  Tensor::input(lab.g, "w", {2}, DType::kWeakInt);
  EXPECT_THAT(lab.g.status().error().what, HasSubstr("'w' cannot be stored as weakint"));
}

TEST(TensorSources, DataMustFit) {
  modeld::testing::TensorLab lab;
  const std::vector<float> v = {1, 2};
  Tensor::from_floats(lab.g, lab.store, v, {3});
  EXPECT_THAT(lab.g.status().error().what, HasSubstr("8 bytes"));
}

}  // namespace
}  // namespace modeld::tensor
