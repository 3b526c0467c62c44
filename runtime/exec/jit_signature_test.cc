#include "runtime/exec/jit_signature.h"

#include <gtest/gtest.h>

#include "selftest/testing/jit_lab.h"

namespace modeld::exec::test {
namespace {

class JitSignatureTest : public testing::Test {
 protected:
  JitLab lab;
  Session& s = lab.s;

  JitSignature of(const JitArgs& args) {
    auto bound = bind_arguments(s, args);
    EXPECT_TRUE(bound.ok()) << (bound.ok() ? "" : bound.error().what);
    return bound.ok() ? bound->signature : JitSignature{};
  }
  Fault refusal(const JitArgs& args) {
    const auto bound = bind_arguments(s, args);
    EXPECT_FALSE(bound.ok());
    return bound.ok() ? Fault::kNone : ir::fault_of(bound.error());
  }
  // "" when they match, else the reason.
  std::string difference(const JitArgs& captured, const JitArgs& given) {
    const Status st = check_signature(of(captured), of(given));
    if (st.ok()) return "";
    EXPECT_EQ(ir::fault_of(st.error()), Fault::kArgsMismatch);
    return st.error().what.substr(std::string("jit: args mismatch: ").size());
  }
  Live view(const Live& t, int64_t begin, int64_t end) {
    return s.track(lab[t].slice({tensor::Slice{begin, end, 1}}));
  }
};

TEST_F(JitSignatureTest, NamesArePositionsThenKeywordsInOrderThenListItems) {
  JitArgs args{lab.floats({1}), lab.floats({2})};
  args.add("weight", lab.floats({3})).add("bias", lab.floats({4}));
  args.add_list("states", {lab.floats({5}), lab.floats({6})});
  std::vector<std::string> names;
  for (const InputInfo& i : of(args).inputs) names.push_back(i.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"0", "1", "bias", "states[0]", "states[1]", "weight"}));
}

TEST_F(JitSignatureTest, OtherBuffersAndContentsOfTheSameKindMatch) {
  EXPECT_EQ(difference({lab.floats({1, 2})}, {lab.floats({3, 4})}), "");
  const Live a = lab.floats({0, 1, 2, 3}), b = lab.floats({9, 9, 9, 9});
  EXPECT_EQ(difference({view(a, 1, 3)}, {view(b, 1, 3)}), "");
  EXPECT_EQ(difference({s.track(lab[a] + 1.0)}, {s.track(lab[b] * 2.0)}), "")
      << "computed when they are looked at";
}

TEST_F(JitSignatureTest, ElementCountsOfFlatBuffersCount) {
  const Live four = lab.floats({1, 2, 3, 4});
  EXPECT_NE(difference({four}, {lab.floats({1, 2, 3, 4, 5})}), "");
  EXPECT_NE(difference({four}, {lab.floats({1, 2, 3})}), "");
}

TEST_F(JitSignatureTest, ShapesOfEqualSizeDiffer) {
  const std::vector<float> v(8);
  EXPECT_EQ(difference({lab.floats({2, 4}, v)}, {lab.floats({4, 2}, v)}),
            "tensor 0 is f32 4 2, was f32 2 4");
}

TEST_F(JitSignatureTest, OffsetsAndBuffersBehindAViewDiffer) {
  const Live a = lab.floats({0, 1, 2, 3});
  EXPECT_EQ(difference({view(a, 0, 2)}, {view(a, 2, 4)}), "tensor 0 is another view of its buffer");
  EXPECT_EQ(difference({view(a, 0, 2)}, {view(lab.floats({1, 2, 3}), 0, 2)}),
            "tensor 0 lies in 12 bytes of f32, was in 16 of f32");
}

TEST_F(JitSignatureTest, DtypesAndDevicesDiffer) {
  const std::vector<std::byte> bytes(8);
  const Live f = lab.floats({1, 2});
  const Live i = *s.upload(bytes, {2}, DType::kI32);
  EXPECT_EQ(difference({f}, {i}), "tensor 0 is i32 2, was f32 2");
  EXPECT_EQ(difference({f}, {lab.floats(std::vector<float>{1, 2}, "CPU:1")}),
            "tensor 0 lies on CPU:1, was on CPU");
}

TEST_F(JitSignatureTest, NamesAndCountsOfArgumentsDiffer) {
  const Live a = lab.floats({1}), b = lab.floats({2});
  JitArgs keyword, other, list;
  keyword.add("x", a);
  other.add("y", a);
  list.add_list("x", {a});
  EXPECT_EQ(difference({a}, keyword), "tensor x stands where 0 was");
  EXPECT_EQ(difference(keyword, other), "tensor y stands where x was");
  EXPECT_EQ(difference(keyword, list), "tensor x[0] stands where x was");
  EXPECT_EQ(difference({a, b}, {a}), "1 tensors, captured with 2");
}

TEST_F(JitSignatureTest, VariablesMatchByNameAndRangeNotByValue) {
  const auto with = [this](const char* name, int64_t vmax, int64_t value) {
    JitArgs args;
    args.add_variable(*schedule::bind(lab.g, ir::variable(lab.g, name, 0, vmax), value));
    return args;
  };
  EXPECT_EQ(difference(with("n", 9, 1), with("n", 9, 8)), "");
  EXPECT_NE(difference(with("n", 9, 1), with("m", 9, 1)), "") << "another name";
  EXPECT_NE(difference(with("n", 9, 1), with("n", 8, 1)), "") << "another range";
  EXPECT_EQ(difference(with("n", 9, 1), JitArgs{}), "0 variables, captured with 1");
  const auto bound = bind_arguments(s, with("n", 9, 7));
  ASSERT_TRUE(bound.ok());
  EXPECT_EQ(bound->values, std::vector<int64_t>{7});
}

TEST_F(JitSignatureTest, OneVariableWithTwoValuesIsRefused) {
  const ir::Node* n = ir::variable(lab.g, "n", 0, 9);
  JitArgs args;
  args.add_variable(*schedule::bind(lab.g, n, 0)).add_variable(*schedule::bind(lab.g, n, 1));
  EXPECT_EQ(refusal(args), Fault::kBindMismatch);
  JitArgs unbound;
  unbound.add_variable(n);
  EXPECT_EQ(refusal(unbound), Fault::kUnboundVariable);
}

TEST_F(JitSignatureTest, WhatHasNoMemoryIsNoArgument) {
  EXPECT_EQ(refusal({Live()}), Fault::kNotABuffer);
  EXPECT_EQ(refusal({s.track(Tensor::full(lab.g, {2}, 1.0, DType::kF32))}), Fault::kNotABuffer);
}

TEST_F(JitSignatureTest, ANeverWrittenEmptyGetsItsMemoryHere) {
  const Live e = *s.empty({3}, DType::kF32);
  EXPECT_FALSE(s.has_memory(e.node()));
  const JitSignature sig = of({e});
  ASSERT_EQ(sig.inputs.size(), 1u);
  EXPECT_EQ(sig.inputs[0].buffers[0].bytes, 12u);
  EXPECT_TRUE(s.has_memory(e.node()));
}

TEST_F(JitSignatureTest, SharedMemoryIsADuplicate) {
  const Live a = lab.floats({0, 1, 2, 3});
  EXPECT_EQ(refusal({a, a}), Fault::kDuplicateInput) << "the same tensor";
  EXPECT_EQ(refusal({view(a, 0, 2), view(a, 2, 4)}), Fault::kDuplicateInput)
      << "two views of one buffer";
  JitArgs args{a};
  args.add_list("more", {lab.floats({1}), a});
  EXPECT_EQ(refusal(args), Fault::kDuplicateInput);
}

// The same through a Jit: refused in every state, and the Jit goes on.
TEST_F(JitSignatureTest, AJitRefusesOtherArgumentsInEveryState) {
  Jit jit(s, step());
  const Live good = lab.floats({1, 2, 3, 4});
  for (int cnt = 0; cnt < 4; ++cnt) {
    if (cnt > 0) {
      EXPECT_EQ(fault_of_call(jit, {lab.floats({1, 2, 3, 4, 5})}), Fault::kArgsMismatch) << cnt;
      EXPECT_EQ(fault_of_call(jit, {lab.floats(Dims{2, 2}, {1, 2, 3, 4})}), Fault::kArgsMismatch);
      EXPECT_EQ(fault_of_call(jit, {}), Fault::kArgsMismatch);
      EXPECT_EQ(fault_of_call(jit, {good, lab.floats({1})}), Fault::kArgsMismatch);
    }
    EXPECT_EQ(fault_of_call(jit, {good, good}), Fault::kDuplicateInput);
    EXPECT_EQ(fault_of_call(jit, {Live()}), Fault::kNotABuffer);
    EXPECT_EQ(jit.cnt(), std::min(cnt, 2));
    EXPECT_EQ(lab.value(jit, {good}), (Values{4, 6, 8, 10}));
  }
}

}  // namespace
}  // namespace modeld::exec::test
