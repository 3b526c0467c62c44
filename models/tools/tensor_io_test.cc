#include "models/tools/tensor_io.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace modeld::tools {
namespace {

using ir::DType;

exec::TensorInfo info(DType t, std::vector<int64_t> dims) {
  uint64_t bytes = static_cast<uint64_t>(ir::item_size(t));
  for (const int64_t d : dims) bytes *= static_cast<uint64_t>(d);
  return {"img", t, std::move(dims), bytes, 0};
}

Bytes floats(std::initializer_list<float> v) {
  Bytes out(v.size() * sizeof(float));
  std::memcpy(out.data(), v.begin(), out.size());
  return out;
}

TEST(TensorIo, WrongDtypeOrShapeNamesInputExpectedAndSeen) {
  const exec::TensorInfo want = info(DType::kU8, {1, 12, 4, 8});
  auto r = tensor_from_npy({"<f4", {1, 12, 4, 8}, Bytes(1536)}, want, "x.npy");
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().what, "input img: expected u8 1x12x4x8 (|u1), x.npy has <f4 1x12x4x8");
  r = tensor_from_npy({"|u1", {12, 4, 8}, Bytes(384)}, want, "x.npy");
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().what, "input img: expected u8 1x12x4x8 (|u1), x.npy has |u1 12x4x8");
  EXPECT_TRUE(tensor_from_npy({"|u1", {1, 12, 4, 8}, Bytes(384)}, want, "x.npy").ok());
}

TEST(TensorIo, EveryStorableTypeGoesThroughNpy) {
  for (const DType t :
       {DType::kBool, DType::kI8, DType::kU8, DType::kI16, DType::kU16, DType::kI32, DType::kU32,
        DType::kI64, DType::kU64, DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    const exec::TensorInfo i = info(t, {3, 5});
    EXPECT_EQ(npy_item_bytes(npy_type(t)), static_cast<size_t>(ir::item_size(t)));
    const Bytes bytes = seeded_tensor(7, "x", t, i.bytes);
    auto back = tensor_from_npy(npy_from_tensor(bytes, i), i, "x.npy");
    ASSERT_TRUE(back.ok()) << back.error().what;
    EXPECT_EQ(*back, bytes) << ir::dtype_name(t);
    EXPECT_EQ(to_doubles(bytes, t).size(), 15u);
  }
}

TEST(TensorIo, SlashesOfNamesBecomeUnderscores) {
  EXPECT_EQ(output_path("out", "a/b/c"), "out/a_b_c.npy");
}

TEST(SeededTensor, DependsOnSeedAndNameOnly) {
  const Bytes a = seeded_tensor(1, "x", DType::kF32, 400);
  EXPECT_EQ(a, seeded_tensor(1, "x", DType::kF32, 400));
  EXPECT_NE(a, seeded_tensor(2, "x", DType::kF32, 400));
  EXPECT_NE(a, seeded_tensor(1, "y", DType::kF32, 400));
  for (const double v : to_doubles(a, DType::kF32)) EXPECT_TRUE(v >= -1 && v < 1);
  const auto half = to_doubles(seeded_tensor(1, "x", DType::kF16, 200), DType::kF16);
  EXPECT_EQ(half, to_doubles(a, DType::kF32)) << "f16 and f32 models see the same numbers";
}

TEST(SeededTensor, PixelsAreNeverZero) {
  for (const double v : to_doubles(seeded_tensor(3, "img", DType::kU8, 100'000), DType::kU8))
    ASSERT_TRUE(v >= 1 && v <= 255);
}

TEST(Compare, LimitIsRelativeToTheLargestReference) {
  const Bytes ref = floats({0, 100, -50});
  EXPECT_TRUE(compare(floats({0.009f, 100, -50}), ref, DType::kF32, 1e-4).is_equal_enough);
  const Comparison c = compare(floats({0, 100, -50.02f}), ref, DType::kF32, 1e-4);
  EXPECT_FALSE(c.is_equal_enough);
  EXPECT_EQ(c.worst_index, 2u);
  EXPECT_NEAR(c.max_abs_error, 0.02, 1e-4);
  EXPECT_DOUBLE_EQ(c.limit, 0.01);
}

TEST(Compare, AnExactResultSaysSo) {
  const Bytes ref = floats({0, 100, -50});
  EXPECT_EQ(compare(ref, ref, DType::kF32, 1e-4).text(), "exact, 3 numbers");
  EXPECT_EQ(compare(floats({0, 101, -50}), ref, DType::kF32, 0.1).text(),
            "max error 1 at 1 (101, reference 100), limit 10");
}

TEST(Compare, NanAndInfinityMustBeTheSame) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(
      compare(floats({nan, inf, 1}), floats({nan, inf, 1}), DType::kF32, 1e-4).is_equal_enough);
  EXPECT_FALSE(compare(floats({nan, 1}), floats({0, 1}), DType::kF32, 1e-4).is_equal_enough);
  EXPECT_FALSE(compare(floats({0, 1}), floats({nan, 1}), DType::kF32, 1e-4).is_equal_enough);
  EXPECT_FALSE(compare(floats({inf, 1}), floats({-inf, 1}), DType::kF32, 1e-4).is_equal_enough);
  EXPECT_FALSE(compare(floats({inf, 1}), floats({3e38f, 1}), DType::kF32, 1).is_equal_enough);
}

TEST(Compare, IntegersAreExactEvenBeyondDoubles) {
  const int64_t a = (int64_t{1} << 60) + 1, b = int64_t{1} << 60;
  Bytes x(8), y(8);
  std::memcpy(x.data(), &a, 8);
  std::memcpy(y.data(), &b, 8);
  EXPECT_FALSE(compare(x, y, DType::kI64, 1).is_equal_enough);
  EXPECT_TRUE(compare(x, x, DType::kI64, 0).is_equal_enough);
}

TEST(Compare, DifferentSizesDiffer) {
  EXPECT_FALSE(compare(floats({1}), floats({1, 1}), DType::kF32, 1).is_equal_enough);
  EXPECT_FALSE(compare(floats({1, 1}), floats({1}), DType::kF32, 1).is_equal_enough);
}

TEST(Tolerance, HalfPrecisionAnywhereInAKernelCounts) {
  exec::ProgramRow p;
  p.ast_text = "%0 = param f32 {0}\n%1 = cast f32 %0";
  EXPECT_EQ(tolerance_of(p), 1e-4);
  p.ast_text += "\n%2 = cast f16 %1";
  EXPECT_EQ(tolerance_of(p), 1e-2);
}

}  // namespace
}  // namespace modeld::tools
