// prepare: what each policy does with a bundle that lacks one kernel's binary, and what a complete
// one never does.
#include "selftest/e2e/bundle_damage.h"
#include "selftest/e2e/harness.h"

namespace modeld::e2e {
namespace {

using ipc::ModelState;
using ipc::Reason;

constexpr int64_t kLoadMs = 60'000;

// A cache that holds nothing, so that whatever is compiled is compiled here.
std::string empty_cache(const std::string& name) {
  const std::string dir = join_path(scratch_dir(), name);
  EXPECT_TRUE(make_dirs(dir).ok());
  return "MODELD_CACHE_DIR=" + dir;
}

TEST(Prepare, RoadCompilesWhatIsMissingBeforeReadyAndCountsIt) {
  const std::string stripped = join_path(scratch_dir(), "road-stripped.bundle");
  ASSERT_NE(strip_first_kernel(tiny_bundle("road"), stripped), "");
  RigOptions options;
  options.bundles = {{"road", stripped}, {"cabin", tiny_bundle("cabin")}};
  options.env = {empty_cache("cache-road")};
  Rig rig(options);
  ASSERT_TRUE(rig.tap().wait_state("road", ModelState::kReady, kLoadMs));
  for (const Transition& t : rig.tap().transitions("road")) {
    const bool is_loaded =
        t.status.state == ModelState::kWarming || t.status.state == ModelState::kReady;
    EXPECT_EQ(t.status.compiled_calls, is_loaded ? 1u : 0u)
        << ipc::model_state_name(t.status.state);
  }
  EXPECT_EQ(rig.tap().status("cabin")->compiled_calls, 0u);
}

TEST(Prepare, GivesTheBytesOfTheOfflineBuild) {
  const std::string stripped = join_path(scratch_dir(), "road-stripped2.bundle");
  const std::string completed = join_path(scratch_dir(), "road-completed.bundle");
  ASSERT_NE(strip_first_kernel(tiny_bundle("road"), stripped), "");
  ASSERT_NE(bytes_of(stripped), bytes_of(tiny_bundle("road")));
  const ProcResult r = modelc({"prepare", stripped, "--device", "cpu", "-o", completed, "--json"},
                              {empty_cache("cache-prepare")});
  ASSERT_EQ(r.exit_code, 0) << r.err;
  const auto json = Json::parse(r.out);
  ASSERT_TRUE(json.ok()) << r.out;
  EXPECT_EQ(json->find("prepared")->int_or(0), 1);
  EXPECT_EQ(json->find("cold")->int_or(0), 1);
  EXPECT_EQ(bytes_of(completed), bytes_of(tiny_bundle("road")));
}

TEST(Prepare, CabinRefusesABundleWithAHoleNamingTheCall) {
  const std::string stripped = join_path(scratch_dir(), "cabin-stripped.bundle");
  const std::string kernel = strip_first_kernel(tiny_bundle("cabin"), stripped);
  RigOptions options;
  options.bundles = {{"road", tiny_bundle("road")}, {"cabin", stripped}};
  Rig rig(options);
  ASSERT_TRUE(rig.tap().wait_state("cabin", ModelState::kUnavailable, kLoadMs));
  const Transition down = *rig.tap().find("cabin", ModelState::kUnavailable);
  EXPECT_EQ(down.status.reason, Reason::kCompileFailed);
  EXPECT_THAT(down.status.text, ::testing::HasSubstr(kernel));
  EXPECT_THAT(down.status.text, ::testing::HasSubstr("entry run"));
  ASSERT_TRUE(rig.tap().wait_state("road", ModelState::kReady, kLoadMs));
  EXPECT_TRUE(rig.daemon().is_running());
}

TEST(Prepare, CompleteBundlesCompileNothing) {
  RigOptions options;
  options.bundles = {{"road", tiny_bundle("road")}, {"cabin", tiny_bundle("cabin")}};
  options.env = {"MODELD_ASSERT_COMPILE=1", empty_cache("cache-complete")};
  Rig rig(options);
  for (const char* model : {"road", "cabin"}) {
    ASSERT_TRUE(rig.tap().wait_state(model, ModelState::kReady, kLoadMs)) << model;
    EXPECT_EQ(rig.tap().status(model)->compiled_calls, 0u);
  }
  EXPECT_EQ(list_dir(join_path(scratch_dir(), "cache-complete"))->size(), 0u);
}

// The assertion of the test above bites: with a hole it does not get to READY.
TEST(Prepare, AssertCompileRefusesToCompile) {
  const std::string stripped = join_path(scratch_dir(), "road-stripped3.bundle");
  ASSERT_NE(strip_first_kernel(tiny_bundle("road"), stripped), "");
  RigOptions options;
  options.bundles = {{"road", stripped}};
  options.env = {"MODELD_ASSERT_COMPILE=1", empty_cache("cache-assert")};
  Rig rig(options);
  ASSERT_TRUE(rig.tap().wait_state("road", ModelState::kUnavailable, kLoadMs));
  EXPECT_EQ(rig.tap().find("road", ModelState::kUnavailable)->status.reason,
            Reason::kCompileFailed);
}

int64_t busy_ns(const Output& o) {
  return o.timings.warp_ns + o.timings.run_ns;
}

// First frame after READY over the tenth, of one start. One frame is at the mercy of the scheduler:
// the ten around the tenth stand for it.
double first_to_tenth(Rig& rig, const std::string& model) {
  std::vector<Output> valid;
  const auto has_twenty = [&] {
    valid.clear();
    for (const Output& o : rig.tap().outputs(model)) {
      if (o.header.valid) valid.push_back(o);
    }
    return valid.size() >= 20;
  };
  if (!rig.tap().wait_for(has_twenty, kLoadMs)) {
    ADD_FAILURE() << model << " does not run";
    return 1e9;
  }
  std::vector<int64_t> later;
  for (size_t i = 5; i < 15; ++i) later.push_back(busy_ns(valid[i]));
  std::nth_element(later.begin(), later.begin() + 5, later.end());
  return static_cast<double>(busy_ns(valid[0])) / static_cast<double>(later[5]);
}

// What a first frame does for the first time it does at every start: one quick start is proof, and
// what holds up others is the machine.
TEST(Prepare, FirstFrameIsAsFastAsTheTenth) {
  constexpr double kLimit = 2.0;
  std::map<std::string, double> best = {{"road", 1e9}, {"cabin", 1e9}};
  for (int start = 0; start < 6 && std::max(best["road"], best["cabin"]) > kLimit; ++start) {
    RigOptions options;
    options.bundles = {{"road", tiny_bundle("road")}, {"cabin", tiny_bundle("cabin")}};
    Rig rig(options);
    for (auto& [model, ratio] : best) ratio = std::min(ratio, first_to_tenth(rig, model));
  }
  for (const auto& [model, ratio] : best) {
    std::printf("%s: first frame / tenth, of the best start: %.2f (limit %g)\n", model.c_str(),
                ratio, kLimit);
    EXPECT_LE(ratio, kLimit * kSlack) << model;
  }
}

}  // namespace
}  // namespace modeld::e2e
