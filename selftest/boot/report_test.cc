// The reports: complete, readable by their readers, self-contained, whatever names hold.
#include "selftest/boot/report.h"

#include <gtest/gtest.h>

#include "hal/base/fs.h"

#include "selftest/testing/markup_check.h"

namespace modeld::selftest {
namespace {

using testing::Element;
using testing::Markup;

// A name as no file system should have, and a text as a broken kernel might give.
constexpr const char* kNasty = "a<b>&\"c\x01\xff.bundle";

SuiteResult sample() {
  SuiteResult out;
  out.suite = Suite::kAcceptance;
  out.config_path = kNasty;
  out.took_ns = 1'920'000'000;
  out.subjects.push_back({"", {}, {}, {{"privilege", "no actuator", passed("nothing opened"), 5}}});
  SubjectResult road;
  road.name = "road fallback";
  road.identity.file = kNasty;
  road.identity.file_bytes = 1234;
  road.identity.manifest_hash = std::string(64, 'a');
  road.identity.model_sha256 = std::string(64, 'b');
  road.identity.compiler_version = "0.1.0";
  road.identity.back_end = "clang-19 <x>";
  road.identity.target = "cpu:x86-64";
  road.identity.device = "cpu:0";
  road.times.open_ns = 2'500'000;
  road.times.cold_compile_ns = 3'000'000'000;
  road.times.p99_ns = 7'000'000;
  road.times.frames = 100;
  road.items = {{"golden", "numbers < truth", passed("1 run", {{"worst_error", 0.25}}), 1'000'000},
                {"timing", "budget", failed("p99 51 of 50 ms & more"), 2'000'000},
                {"reconnect", "views", not_run("not run: nothing is loaded"), 0}};
  out.subjects.push_back(road);
  return out;
}

TEST(SelftestReport, JsonHoldsEveryItemIdentityAndTimes) {
  const auto parsed = Json::parse(result_json(sample()).dump());
  ASSERT_TRUE(parsed.ok()) << parsed.error().what;
  EXPECT_EQ(parsed->find("suite")->string_or(""), "acceptance");
  EXPECT_FALSE(parsed->find("ok")->bool_or(true));
  EXPECT_EQ(parsed->find("passed")->int_or(0), 2);
  EXPECT_EQ(parsed->find("failed")->int_or(0), 1);
  EXPECT_EQ(parsed->find("not_run")->int_or(0), 1);
  EXPECT_EQ(parsed->find("host")->size(), 1u);
  ASSERT_EQ(parsed->find("models")->size(), 1u);
  const Json& road = parsed->find("models")->items()[0];
  EXPECT_EQ(road.find("name")->string_or(""), "road fallback");
  EXPECT_EQ(road.find("identity")->find("manifest_hash")->string_or(""), std::string(64, 'a'));
  EXPECT_EQ(road.find("times")->find("cold")->find("compile_ms")->double_or(0), 3000);
  EXPECT_TRUE(road.find("times")->find("cold")->find("disk_hit_ms")->is_null()) << "not measured";
  EXPECT_EQ(road.find("times")->find("hot")->find("p99_ms")->double_or(0), 7);
  ASSERT_EQ(road.find("items")->size(), 3u);
  const Json& golden = road.find("items")->items()[0];
  EXPECT_EQ(golden.find("verdict")->string_or(""), "passed");
  EXPECT_EQ(golden.find("figures")->find("worst_error")->double_or(0), 0.25);
  EXPECT_EQ(road.find("items")->items()[2].find("verdict")->string_or(""), "not_run");
}

TEST(SelftestReport, PageIsWellFormedAndLoadsNothing) {
  const Markup page(result_page(sample()));
  ASSERT_EQ(page.error, "");
  for (const Element& e : page.elements) {
    EXPECT_TRUE(e.name != "script" && e.name != "link" && e.name != "img") << e.name;
    EXPECT_FALSE(e.attributes.contains("src") || e.attributes.contains("href")) << e.name;
  }
  EXPECT_EQ(page.count("span", "class", "passed"), 2u);
  EXPECT_EQ(page.count("span", "class", "failed"), 1u);
  EXPECT_EQ(page.count("span", "class", "not_run"), 1u);
  EXPECT_EQ(page.count("p", "class", "failed"), 1u) << "the verdict";
}

TEST(SelftestReport, PageShowsIdentityColdAndHotTimes) {
  const std::string page = result_page(sample());
  for (const char* shown : {"aaaaaaaa", "bbbbbbbb", "0.1.0, clang-19 &lt;x&gt;", "cpu:x86-64",
                            "3.00 s", "7.00 ms", "p99 51 of 50 ms &amp; more"})
    EXPECT_NE(page.find(shown), std::string::npos) << shown;
  EXPECT_EQ(page.find("the same from disk"), std::string::npos) << "was not measured";
}

TEST(SelftestReport, PageOfARunWithoutBundlesIsWellFormed) {
  SuiteResult empty;
  empty.subjects.push_back({"road", {}, {}, {{"bundle", "bytes", refused("no file"), 0}}});
  EXPECT_EQ(Markup(result_page(empty)).error, "");
}

TEST(SelftestReport, TextIsATableWithAClosingLine) {
  const std::string text = result_text(sample());
  EXPECT_NE(text.find("  ok    golden     1.00 ms  1 run\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  FAIL  timing     2.00 ms  p99 51 of 50 ms & more\n"), std::string::npos);
  EXPECT_TRUE(text.ends_with("acceptance: 2 passed, 1 failed, 1 not run in 1.92 s\n")) << text;
}

TEST(SelftestReport, WritesBothFilesOrSaysWhyNot) {
  const auto dir = TempDir::create("selftest-report");
  ASSERT_TRUE(dir.ok());
  const std::string out = join_path(dir->path(), "deep/report");
  ASSERT_TRUE(write_report(out, sample()).ok());
  EXPECT_EQ(*read_text(join_path(out, "index.html")), result_page(sample()));
  EXPECT_TRUE(Json::parse(*read_text(join_path(out, "selftest.json"))).ok());
  const Status s = write_report(join_path(out, "index.html"), sample());
  ASSERT_FALSE(s.ok());
  EXPECT_NE(s.error().what.find("index.html"), std::string::npos) << s.error().what;
}

}  // namespace
}  // namespace modeld::selftest
