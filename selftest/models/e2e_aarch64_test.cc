// Bundles for AArch64 made on another CPU: every kernel and one full frame run under qemu-user in
// the build's own self-check, against the reference.
#include <gtest/gtest.h>

#include "hal/base/fs.h"
#include "hal/base/json.h"
#include "hal/target.h"

#include "models/tools/emulator.h"

#include "selftest/e2e/harness.h"

namespace modeld::e2e {
namespace {

bool has_emulator() {
  return hal::host_arch() != "aarch64" &&
         tools::open_emulator_for(*hal::parse_target("cpu:aarch64")).ok();
}
#define SKIP_WITHOUT_EMULATOR() \
  if (!has_emulator()) GTEST_SKIP() << "qemu-aarch64 is not installed, or this host is an AArch64"

// What the build's report says of its self-check.
void expect_checked(const std::string& onnx, const std::string& role, const std::string& name) {
  const std::string bundle = join_path(scratch_dir(), name + ".bundle");
  const ProcResult r =
      modelc({"build", onnx, "--target", "cpu:aarch64", "--role", role, "-o", bundle, "--json"});
  ASSERT_EQ(r.exit_code, 0) << r.err;
  const auto report = Json::parse(r.out);
  ASSERT_TRUE(report.ok()) << r.out;
  const Json* check = report->find("self_check");
  ASSERT_NE(check, nullptr);
  EXPECT_EQ(check->find("kind")->string_or(""), "quick");
  EXPECT_EQ(check->find("kernels")->int_or(0), report->find("kernels")->int_or(-1));
  EXPECT_GT(check->find("outputs")->int_or(0), 0);
  EXPECT_LE(check->find("max_abs_error")->double_or(1e9), check->find("limit")->double_or(0));
}

TEST(AArch64, ReferenceModelsAreCheckedKernelByKernelUnderTheEmulator) {
  SKIP_WITHOUT_EMULATOR();
  for (const char* role : {"road", "cabin"})
    expect_checked(tiny_onnx(role), role, std::string("arm-") + role);
}

TEST(AArch64, SqueezenetIsCheckedKernelByKernelUnderTheEmulator) {
  SKIP_WITHOUT_EMULATOR();
  const std::string model = join_path(shared_dir(), "models/squeezenet_random/model.onnx");
  if (!file_exists(model)) GTEST_SKIP() << "SKIPPED-SHARED " << model;
  expect_checked(model, "generic", "arm-squeezenet");
}

// It is no bundle of this host.
TEST(AArch64, TheHostRefusesToRunTheBundle) {
  SKIP_WITHOUT_EMULATOR();
  const std::string bundle = join_path(scratch_dir(), "arm-refused.bundle");
  ASSERT_EQ(modelc({"build", tiny_onnx("cabin"), "--target", "cpu:aarch64", "--role", "cabin", "-o",
                    bundle})
                .exit_code,
            0);
  const ProcResult r = modelc({"run", bundle});
  EXPECT_NE(r.exit_code, 0);
  EXPECT_NE(r.err.find("aarch64"), std::string::npos) << r.err;
}

}  // namespace
}  // namespace modeld::e2e
