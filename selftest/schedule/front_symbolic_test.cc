// Variables in shapes: parts of variable length, loops over them, and what is stored of them.
#include "selftest/testing/session_lab.h"

namespace modeld::exec::test {
namespace {

class Symbolic : public ::testing::Test, public SessionLab {
 protected:
  Tensor bound(const Node* variable, int64_t v) {
    const auto made = schedule::bind(g, variable, v);
    EXPECT_TRUE(made.ok()) << made.error().what;
    return {g, made.ok() ? *made : variable};
  }
  // x[0:n] along axis 0, n a variable.
  Tensor head(const Tensor& x, const Node* length) {
    ir::Shape sizes = ir::shape(g, x.node());
    const std::vector<int64_t> starts(sizes.size(), 0);
    sizes[0] = ir::cast(g, length, DType::kWeakInt);
    return {g, g.make(Op::kShrink, x.dtype(),
                      {x.node(), ir::shape_node(g, starts),
                       g.make(Op::kStack, DType::kWeakInt, sizes)})};
  }
  Tensor sum_axis0(const Tensor& x) {
    return {g, g.make(Op::kReduce, x.dtype(), {x.node()}, ir::ReduceArg{Op::kAdd, 1})};
  }
  Live a = floats({4}, {1, 2, 3, 4});
  const Node* n = ir::variable(g, "n", 1, 4);
};

TEST_F(Symbolic, AHeadOfVariableLength) {
  for (const int64_t v : {1, 3, 4}) {
    const Live y = track(Tensor(g, ir::mul(g, head(s.value(a), bound(n, v).node()).node(),
                                           ir::const_float(g, 2, DType::kF32))));
    Values want;
    for (int64_t k = 0; k < v; ++k) want.push_back(2.0 * static_cast<double>(k + 1));
    EXPECT_EQ(read(y), want);
  }
}

TEST_F(Symbolic, AReduceOverAVariableLength) {
  for (const int64_t v : {1, 2, 4}) {
    const Live y = track(sum_axis0(head(s.value(a), bound(n, v).node())));
    EXPECT_EQ(read(y), Values{static_cast<double>(v * (v + 1) / 2)});
  }
}

TEST_F(Symbolic, TheValueIsNotInTheScheduleKey) {
  schedule::schedule_cache_clear();
  for (const int64_t v : {2, 3}) linear({track(sum_axis0(head(s.value(a), bound(n, v).node())))});
  EXPECT_EQ(schedule::schedule_cache_stats().entries, 1);
  EXPECT_EQ(schedule::schedule_cache_stats().hits, 1);
}

TEST_F(Symbolic, RowsOfAMatrix) {
  const Live m = floats({4, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  const Node* rows = head(s.value(m), bound(n, 2).node()).node();
  const Live plus = track(Tensor(g, ir::add(g, rows, ir::const_float(g, 1, DType::kF32))));
  const Live columns = track(sum_axis0(Tensor(g, rows)));
  EXPECT_EQ(read(plus), (Values{2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(read(columns), (Values{5, 7, 9}));
}

TEST_F(Symbolic, AStoredHeadIsReadByALaterStep) {
  const Node* v = bound(n, 3).node();
  const Live y =
      track(Tensor(g, ir::mul(g, head(s.value(a), v).node(), ir::const_float(g, 2, DType::kF32))));
  realize({y});
  const Live total = track(sum_axis0(s.value(y)));
  EXPECT_EQ(read(total), Values{12});
}

TEST_F(Symbolic, AVariableWithoutAWidthWorksToo) {
  const Node* m = ir::variable(g, "m", 1, 4, DType::kWeakInt);
  EXPECT_EQ(read(track(sum_axis0(head(s.value(a), bound(m, 3).node())))), Values{6});
}

TEST_F(Symbolic, WithoutAValueItCannotRun) {
  const Live y = track(sum_axis0(head(s.value(a), n)));
  EXPECT_EQ(fault(s.realize({y})), Fault::kUnboundVariable);
}

}  // namespace
}  // namespace modeld::exec::test
