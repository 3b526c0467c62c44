#include "hal/target.h"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace modeld::hal {
namespace {

TEST(Target, HostIsCanonicalAndRunsHere) {
  const Target host = *parse_target("cpu");
  EXPECT_EQ(host.arch, host_arch());
  EXPECT_EQ(host.features, host_cpu_features());
  EXPECT_EQ(*parse_target(print_target(host)), host);
  EXPECT_EQ(missing_on_host(host), "");
}

TEST(Target, HostFeaturesAgreeWithTheKernel) {
  // /proc/cpuinfo spells some flags its own way; these are the ones generated code relies on.
  std::ifstream in("/proc/cpuinfo");
  std::string line;
  while (std::getline(in, line) && line.rfind("flags", 0) != 0) {
  }
  if (line.empty()) GTEST_SKIP() << "no flags line in /proc/cpuinfo";
  std::istringstream words(line);
  const std::vector<std::string> flags{std::istream_iterator<std::string>(words), {}};
  const std::map<std::string, std::string> spelling = {{"avx", "avx"},
                                                       {"avx2", "avx2"},
                                                       {"fma", "fma"},
                                                       {"f16c", "f16c"},
                                                       {"bmi", "bmi1"},
                                                       {"bmi2", "bmi2"},
                                                       {"avx512f", "avx512f"},
                                                       {"avx512bw", "avx512bw"},
                                                       {"avx512vl", "avx512vl"},
                                                       {"avx512dq", "avx512dq"},
                                                       {"sse4.1", "sse4_1"},
                                                       {"avx512vnni", "avx512_vnni"},
                                                       {"lzcnt", "abm"},
                                                       {"movbe", "movbe"},
                                                       {"sahf", "lahf_lm"},
                                                       {"avx512fp16", "avx512_fp16"},
                                                       {"avxvnni", "avx_vnni"},
                                                       {"sse3", "pni"},
                                                       {"avx512bf16", "avx512_bf16"}};
  const Target host = *parse_target("cpu");
  for (const auto& [ours, kernel] : spelling)
    EXPECT_EQ(host.has_feature(ours), std::count(flags.begin(), flags.end(), kernel) > 0) << ours;
}

TEST(Target, LevelsAreExpandedAndPrintedShort) {
  const Target v3 = *parse_target("cpu:x86-64-v3");
  EXPECT_TRUE(v3.has_feature("avx2"));
  EXPECT_TRUE(v3.has_feature("sse4.2"));
  EXPECT_FALSE(v3.has_feature("avx512f"));
  EXPECT_EQ(print_target(v3), "cpu:x86-64-v3");
  const Target more = *parse_target("cpu:x86-64-v3+avx512vl+avx512f+avx2");
  EXPECT_EQ(print_target(more), "cpu:x86-64-v3+avx512f+avx512vl");
  EXPECT_EQ(*parse_target(print_target(more)), more);
  EXPECT_TRUE(std::is_sorted(more.features.begin(), more.features.end()));
}

TEST(Target, OtherDevicesKeepTheirNames) {
  for (const char* text :
       {"cl", "qcom:a630", "qcom:sim", "amd:gfx1100", "amd:gfx1201", "cpu:aarch64"}) {
    const auto t = parse_target(text);
    ASSERT_TRUE(t.ok()) << text;
    EXPECT_EQ(print_target(*t), text);
  }
}

TEST(Target, UnknownTextIsNamed) {
  for (const char* text : {"", "gpu", "cpu:", "cpu:z80", "cl:1", "qcom", "qcom:a9999", "amd:gfx1",
                           "cpu:x86-64+A;rm", "cpu:x86-64+"}) {
    const auto t = parse_target(text);
    ASSERT_FALSE(t.ok()) << text;
    EXPECT_EQ(t.error().code, Errc::kInvalid);
    EXPECT_THAT(t.error().what, testing::HasSubstr(std::string("'") + text + "'"));
  }
}

TEST(Target, MissingFeaturesAreListed) {
  Target t = *parse_target("cpu");
  t.features.push_back("zz-not-there");
  EXPECT_EQ(missing_on_host(t), "zz-not-there");
  t = *parse_target(host_arch() == "aarch64" ? "cpu:x86-64" : "cpu:aarch64");
  EXPECT_THAT(missing_on_host(t), testing::StartsWith("arch "));
  EXPECT_EQ(missing_on_host(*parse_target("qcom:a630")), "device kind qcom");
}

}  // namespace
}  // namespace modeld::hal
