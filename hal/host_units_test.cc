#include "hal/host_units.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "hal/base/fault.h"
#include "hal/target.h"

namespace modeld::hal {
namespace {

bool has(const std::vector<std::string>& v, const char* name) {
  return std::find(v.begin(), v.end(), name) != v.end();
}

TEST(CpuUnits, UnitsOfThisCpuMultiplyRight) {
  for (const BrokenUnit& b : broken_units(matrix_units(), host_cpu_features())) {
    ADD_FAILURE() << b.why.what;
  }
  EXPECT_TRUE(broken_host_units().empty());
}

TEST(CpuUnits, AUnitTheCpuDoesNotDeclareIsNotRun) {
  constexpr MatrixUnit kNever[] = {{"none", []() -> Status {
                                      ADD_FAILURE() << "ran";
                                      return {};
                                    }}};
  EXPECT_TRUE(broken_units(kNever, {"avx2", "fma"}).empty());
}

TEST(CpuUnits, AWrongUnitIsNamedWithItsNumbersAndCountsAsAbsent) {
  constexpr MatrixUnit kWrong[] = {
      {"good", []() -> Status { return {}; }},
      {"wrong", []() -> Status { return fail(Errc::kInternal, "matrix unit wrong: result 3"); }}};
  const std::vector<std::string> features = {"avx2", "good", "wrong"};
  const std::vector<BrokenUnit> broken = broken_units(kWrong, features);
  ASSERT_EQ(broken.size(), 1U);
  EXPECT_EQ(broken[0].feature, "wrong");
  EXPECT_EQ(usable_features(features, broken), (std::vector<std::string>{"avx2", "good"}));
}

// The switch changes one element of the result, as a broken unit would.
TEST(CpuUnits, AResultThatIsOffByOneIsFound) {
  if (!fault::kBuilt) GTEST_SKIP() << "built without fault switches";
  const std::vector<std::string> features = host_cpu_features();
  if (!has(features, "avx512vnni") && !has(features, "avx512bf16")) {
    GTEST_SKIP() << "this CPU has no matrix unit of the table";
  }
  fault::set_for_test("cpu_matrix_unit");
  const std::vector<BrokenUnit> broken = broken_units(matrix_units(), features);
  fault::set_for_test("");
  for (const char* f : {"avx512vnni", "avx512bf16"}) {
    if (!has(features, f)) continue;
    const auto it = std::find_if(broken.begin(), broken.end(),
                                 [&](const BrokenUnit& b) { return b.feature == f; });
    ASSERT_NE(it, broken.end()) << f;
    EXPECT_NE(it->why.what.find("result 3 is"), std::string::npos) << it->why.what;
  }
}

}  // namespace
}  // namespace modeld::hal
