// main() of test programs that need an OpenCL driver: without one every test is skipped, with the
// reason.
#include <gtest/gtest.h>

#include "selftest/testing/opencl_lab.h"

namespace {

class NeedsOpenCl final : public ::testing::Environment {
 public:
  void SetUp() override {
    const auto lab = modeld::testing::open_opencl_lab();
    if (!lab.ok()) GTEST_SKIP() << lab.error().what;
  }
};

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  ::testing::AddGlobalTestEnvironment(new NeedsOpenCl);
  return RUN_ALL_TESTS();
}
