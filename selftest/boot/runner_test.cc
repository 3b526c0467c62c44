// The runner: every item gives a result, what cannot run says why, exit codes follow the contract.
#include "selftest/boot/runner.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace modeld::selftest {
namespace {

constexpr uint8_t kBoot = static_cast<uint8_t>(Suite::kBoot);
constexpr uint8_t kAccept = static_cast<uint8_t>(Suite::kAcceptance);

Outcome pass(Subject&) {
  return passed("well");
}
Outcome fail_it(Subject&) {
  return failed("broken");
}
Outcome refuse(Subject&) {
  return refused("no such file");
}

SuiteResult result_of(std::vector<ItemResult> items) {
  SuiteResult out;
  out.subjects.push_back({"road", {}, {}, std::move(items)});
  return out;
}

TEST(SelftestItems, AreNamedOnceAndSayWhy) {
  std::set<std::string> names;
  for (const Item& item : items()) {
    EXPECT_TRUE(names.insert(item.name).second) << item.name;
    EXPECT_GT(std::string(item.reason).size(), 20u) << item.name;
    EXPECT_TRUE(item.is_in(Suite::kBoot) || item.is_in(Suite::kAcceptance)) << item.name;
    EXPECT_NE(item.run, nullptr) << item.name;
  }
}

TEST(SelftestItems, ThatForkComeBeforeAnyDevice) {
  bool has_model_item = false;
  for (const Item& item : items()) {
    if (item.needs == Needs::kHost)
      EXPECT_FALSE(has_model_item) << item.name;
    else
      has_model_item = true;
  }
}

TEST(SelftestRunner, RunsTheItemsOfASuiteInOrder) {
  const Item table[] = {{"a", "", kBoot, Needs::kFile, pass},
                        {"b", "", kAccept, Needs::kFile, fail_it},
                        {"c", "", kBoot | kAccept, Needs::kFile, pass},
                        {"h", "", kBoot | kAccept, Needs::kHost, pass}};
  const World world;
  const daemon::Config config;
  Subject model(world, config);
  model.name = "road";
  const auto boot = run_items(model, table, Suite::kBoot);
  ASSERT_EQ(boot.size(), 2u);
  EXPECT_STREQ(boot[0].name, "a");
  EXPECT_STREQ(boot[1].name, "c");
  EXPECT_EQ(run_items(model, table, Suite::kAcceptance).size(), 2u);
  Subject host(world, config);
  const auto of_host = run_items(host, table, Suite::kBoot);
  ASSERT_EQ(of_host.size(), 1u);
  EXPECT_STREQ(of_host[0].name, "h");
}

TEST(SelftestRunner, AnItemWithoutWhatItNeedsIsNotRunAndSaysWhy) {
  const Item table[] = {{"bundle", "", kBoot, Needs::kBundle, fail_it},
                        {"device", "", kBoot, Needs::kDevice, fail_it},
                        {"loaded", "", kBoot, Needs::kLoaded, fail_it}};
  const World world;
  const daemon::Config config;
  Subject s(world, config);
  s.name = "road";
  for (const ItemResult& item : run_items(s, table, Suite::kBoot)) {
    EXPECT_EQ(item.outcome.verdict, Verdict::kNotRun) << item.name;
    EXPECT_EQ(item.outcome.text, "not run: no bundle") << item.name;
  }
}

TEST(SelftestRunner, ExitCodesFollowTheContract) {
  const auto row = [](Outcome o) { return ItemResult{"x", "y", std::move(o), 0}; };
  EXPECT_EQ(result_of({row(passed(""))}).exit_code(), 0);
  EXPECT_EQ(result_of({row(passed("")), row(failed(""))}).exit_code(), 1);
  EXPECT_EQ(result_of({row(passed("")), row(not_run(""))}).exit_code(), 1)
      << "not run is not passed";
  EXPECT_EQ(result_of({row(refused("")), row(failed(""))}).exit_code(), 78);
  EXPECT_EQ(result_of({}).exit_code(), 1) << "nothing tested is nothing passed";
}

TEST(SelftestRunner, ABundleThatIsNotThereGivesAResultForEveryItem) {
  daemon::Config config;
  config.models.resize(1);
  config.models[0].name = "road";
  config.models[0].bundle = "/nonexistent/road.bundle";
  config.models[0].fallback_bundle = "/nonexistent/other.bundle";
  World world;
  world.actuators = {{}, {}, "/nonexistent", "/nonexistent"};  // whatever this machine has
  const SuiteResult result = run_suite(world, config, Suite::kBoot);
  ASSERT_EQ(result.subjects.size(), 3u) << "host, model, fallback";
  EXPECT_EQ(result.subjects[1].name, "road");
  EXPECT_EQ(result.subjects[2].name, "road fallback");
  EXPECT_EQ(result.subjects[2].identity.file, "/nonexistent/other.bundle");
  EXPECT_EQ(result.exit_code(), 78);
  size_t of_models = 0;
  for (const Item& item : items())
    of_models += item.is_in(Suite::kBoot) && item.needs != Needs::kHost ? 1 : 0;
  EXPECT_EQ(result.subjects[1].items.size(), of_models);
  EXPECT_EQ(result.counts().failed, 2u) << "the files; all else is not run";
}

// Leaves the queue behind a gate that opens when the test lets it.
hal::Signal gate;
Outcome stall(Subject& s) {
  auto recorder = s.device->record(hal::QueueKind::kCompute, "stall");
  recorder->wait(gate, hal::Word::value(1));
  const auto point = s.device->submit(std::move(recorder));
  return failed(point.ok() ? "stalled" : point.error().what);
}

TEST(SelftestRunner, ADeviceThatHangsIsNotWaitedForAgain) {
  const Item table[] = {{"a", "", kBoot, Needs::kFile, fail_it},
                        {"b", "", kBoot, Needs::kFile, stall},
                        {"c", "", kBoot, Needs::kDevice, pass}};
  const World world;
  const daemon::Config config;
  Subject s(world, config);
  s.name = "road";
  s.device = std::move(*hal::open_device("cpu"));
  gate = std::move(*s.device->make_signal());
  const auto rows = run_items(s, table, Suite::kBoot);
  gate.set(1);
  EXPECT_EQ(rows[0].outcome.text, "broken");
  EXPECT_EQ(rows[1].outcome.text, "stalled") << "a failure alone is not a hang";
  EXPECT_EQ(rows[2].outcome.verdict, Verdict::kNotRun);
  EXPECT_EQ(rows[2].outcome.text, "not run: the device does not answer any more");
}

TEST(SelftestRunner, StopsAtNothing) {
  const Item table[] = {{"a", "", kBoot, Needs::kFile, refuse},
                        {"b", "", kBoot, Needs::kFile, pass}};
  const World world;
  const daemon::Config config;
  Subject s(world, config);
  s.name = "road";
  const auto rows = run_items(s, table, Suite::kBoot);
  EXPECT_EQ(rows[0].outcome.verdict, Verdict::kFailed);
  EXPECT_TRUE(rows[0].outcome.is_bad_input);
  EXPECT_EQ(rows[1].outcome.verdict, Verdict::kPassed);
}

}  // namespace
}  // namespace modeld::selftest
