// Bundles of the x86 instruction path (modelc build --renderer x86): made, completed and checked on
// a machine without any compiler program.
#include <gtest/gtest.h>

#include "hal/base/fs.h"
#include "hal/base/json.h"
#include "hal/target.h"

#include "runtime/isa/x86/x86.h"

#include "selftest/e2e/bundle_damage.h"
#include "selftest/e2e/harness.h"

namespace modeld::e2e {
namespace {

bool host_can() {
  return isa::x86::missing_features(*hal::parse_target("cpu")).empty();
}
#define SKIP_WITHOUT_AVX2() \
  if (!host_can()) GTEST_SKIP() << "this CPU lacks what the x86 path needs"

// No program to be found, and no image in a cache.
std::vector<std::string> bare(const std::string& name) {
  const std::string cache = join_path(scratch_dir(), "cache-" + name);
  EXPECT_TRUE(make_dirs(cache).ok());
  return {"PATH=/nonexistent", "MODELD_CACHE_DIR=" + cache};
}

ProcResult build(const std::string& role,
                 const std::string& bundle,
                 const std::vector<std::string>& env,
                 const std::string& target = "cpu") {
  return modelc({"build", tiny_onnx(role), "--target", target, "--renderer", "x86", "--role", role,
                 "-o", bundle},
                env);
}

std::string built(const std::string& role, const std::string& name) {
  const std::string bundle = join_path(scratch_dir(), name + ".bundle");
  const ProcResult r = build(role, bundle, bare(name));
  EXPECT_EQ(r.exit_code, 0) << r.err;
  return bundle;
}

TEST(RendererX86, BuildsAndChecksWithoutACompiler) {
  SKIP_WITHOUT_AVX2();
  for (const char* role : {"road", "cabin"}) {
    const std::string bundle = built(role, std::string("x86-") + role);
    const ProcResult info = modelc({"info", bundle, "--json"});
    ASSERT_EQ(info.exit_code, 0) << info.err;
    EXPECT_NE(info.out.find("\"x86\""), std::string::npos) << info.out;
    EXPECT_NE(info.out.find(isa::x86::identity()), std::string::npos) << info.out;
    const ProcResult check = modelc({"check", bundle, "--device", "cpu"}, bare("check"));
    EXPECT_EQ(check.exit_code, 0) << check.out << check.err;
  }
}

TEST(RendererX86, GivesTheSameBytesEveryTime) {
  SKIP_WITHOUT_AVX2();
  EXPECT_EQ(bytes_of(built("cabin", "x86-first")), bytes_of(built("cabin", "x86-second")));
}

TEST(RendererX86, PrepareCompletesABundleWithoutACompiler) {
  SKIP_WITHOUT_AVX2();
  const std::string whole = built("road", "x86-whole");
  const std::string stripped = join_path(scratch_dir(), "x86-stripped.bundle");
  const std::string completed = join_path(scratch_dir(), "x86-completed.bundle");
  ASSERT_NE(strip_first_kernel(whole, stripped), "");
  ASSERT_NE(bytes_of(stripped), bytes_of(whole));
  const ProcResult r =
      modelc({"prepare", stripped, "--device", "cpu", "-o", completed, "--json"}, bare("prepare"));
  ASSERT_EQ(r.exit_code, 0) << r.err;
  const auto json = Json::parse(r.out);
  ASSERT_TRUE(json.ok()) << r.out;
  EXPECT_EQ(json->find("prepared")->int_or(0), 1);
  EXPECT_EQ(bytes_of(completed), bytes_of(whole));
}

TEST(RendererX86, TargetsWithoutItsInstructionsAreRefusedNamingThem) {
  const std::string bundle = join_path(scratch_dir(), "x86-refused.bundle");
  for (const char* target : {"cpu:x86-64-v2", "cpu:aarch64"}) {
    const ProcResult r = build("cabin", bundle, {}, target);
    EXPECT_TRUE(is_one_clear_line(r, 1));
    EXPECT_NE(r.err.find("avx2"), std::string::npos) << r.err;
    EXPECT_FALSE(file_exists(bundle));
  }
}

}  // namespace
}  // namespace modeld::e2e
