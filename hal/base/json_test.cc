#include "hal/base/json.h"

#include <cmath>
#include <limits>

namespace modeld {
namespace {

TEST(Json, WritesMembersInTheOrderTheyWereSet) {
  Json j = Json::object();
  j.set("z", 1).set("a", Json::array().push("x").push(nullptr).push(true)).set("f", 0.5);
  EXPECT_EQ(j.dump(), R"({"z":1,"a":["x",null,true],"f":0.5})");
  j.set("z", 2);
  EXPECT_EQ(j.dump(), R"({"z":2,"a":["x",null,true],"f":0.5})");
}

TEST(Json, ParsesWhatItWrites) {
  const std::string text = R"({"a":[1,-2,3.25,"é\n",{}],"b":false,"c":{"d":[]}})";
  const auto j = Json::parse(text);
  ASSERT_TRUE(j.ok()) << j.error().what;
  EXPECT_EQ(*Json::parse(j->dump()), *j);
  EXPECT_EQ(j->dump(), text);
  EXPECT_EQ(j->find("a")->items().size(), 5U);
}

TEST(Json, ReadsAreCheckedAndSayWhatWasFound) {
  const Json j = *Json::parse(R"({"n":3,"t":"x","w":4.0})");
  EXPECT_EQ(*(*j.require("n"))->as_int(), 3);
  EXPECT_EQ(*j.find("w")->as_int(), 4);
  const auto wrong = j.find("t")->as_int();
  ASSERT_FALSE(wrong.ok());
  EXPECT_THAT(wrong.error().what, testing::HasSubstr("found a text"));
  const auto missing = j.require("q");
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(missing.error().what, testing::HasSubstr("'q'"));
}

TEST(Json, SyntaxErrorsNameTheByte) {
  for (const char* bad : {"", "{", "[1,]", "{\"a\":}", "nul", "1 2", "\"\\x\"", "[1e999999]x"}) {
    const auto j = Json::parse(bad);
    ASSERT_FALSE(j.ok()) << bad;
    EXPECT_EQ(j.error().code, Errc::kInvalid) << bad;
  }
  EXPECT_THAT(Json::parse("[1,]").error().what, testing::HasSubstr("byte 4"));
}

TEST(Json, DeepNestingIsRefused) {
  EXPECT_TRUE(Json::parse(std::string(64, '[') + std::string(64, ']')).ok());
  EXPECT_FALSE(Json::parse(std::string(65, '[') + std::string(65, ']')).ok());
  EXPECT_FALSE(Json::parse(std::string(1000000, '[')).ok());
}

TEST(Json, DuplicateMembersAreRefused) {
  EXPECT_FALSE(Json::parse(R"({"a":1,"a":2})").ok());
}

TEST(Json, NotANumberBecomesNull) {
  EXPECT_EQ(Json(std::nan("")).dump(), "null");
  EXPECT_EQ(Json(std::numeric_limits<double>::infinity()).dump(), "null");
}

TEST(Json, BrokenTextIsReplacedNotThrown) {
  EXPECT_NE(Json("a\xff").dump().find("\xef\xbf\xbd"), std::string::npos);
}

TEST(Json, LargeUnsignedBecomesDouble) {
  EXPECT_FALSE(Json::parse("18446744073709551615")->is_int());
  EXPECT_EQ(*Json::parse("9223372036854775807")->as_int(), INT64_MAX);
}

}  // namespace
}  // namespace modeld
