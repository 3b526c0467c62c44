#include "hal/base/text.h"

namespace modeld {
namespace {

TEST(Text, SplitKeepsEmptyParts) {
  EXPECT_THAT(split("a,,b", ','), testing::ElementsAre("a", "", "b"));
  EXPECT_THAT(split("a,", ','), testing::ElementsAre("a", ""));
  EXPECT_TRUE(split("", ',').empty());
}

TEST(Text, JoinIsTheInverseOfSplit) {
  const std::vector<std::string> parts = {"a", "", "b"};
  EXPECT_EQ(join(parts, ","), "a,,b");
}

TEST(Text, ParseIntTakesTheWholeTextOrNothing) {
  EXPECT_EQ(*parse_int("-12"), -12);
  EXPECT_EQ(*parse_int("0x1f"), 31);
  EXPECT_EQ(*parse_int("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(*parse_int("-9223372036854775808"), INT64_MIN);
  for (const char* bad :
       {"", "-", " 1", "1 ", "1x", "0x", "--1", "9223372036854775808", "-9223372036854775809"})
    EXPECT_FALSE(parse_int(bad).ok()) << bad;
}

TEST(Text, ParseDimsNamesTheText) {
  EXPECT_THAT(*parse_dims("1x3x320x320"), testing::ElementsAre(1, 3, 320, 320));
  const auto bad = parse_dims("1x-3");
  ASSERT_FALSE(bad.ok());
  EXPECT_THAT(bad.error().what, testing::HasSubstr("'1x-3'"));
  EXPECT_FALSE(parse_dims("").ok());
  EXPECT_FALSE(parse_dims("1xx2").ok());
}

TEST(Text, TrimRemovesBothEnds) {
  EXPECT_EQ(trim("  a b\t\n"), "a b");
  EXPECT_EQ(trim(" \n"), "");
}

}  // namespace
}  // namespace modeld
