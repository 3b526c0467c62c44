#include "hal/base/usage.h"

namespace modeld {
namespace {

TEST(Usage, NamesTheWordsThatWereNotUnderstood) {
  const std::vector<std::string> one = {"wibble"};
  EXPECT_EQ(usage_line("modelctl", "A subcommand is required", one),
            "modelctl: unknown argument \"wibble\" (see modelctl --help)");
  const std::vector<std::string> two = {"wibble", "--wobble"};
  EXPECT_EQ(usage_line("modelctl", "", two),
            "modelctl: unknown arguments \"wibble\" \"--wobble\" (see modelctl --help)");
  EXPECT_EQ(usage_line("modelctl", "FILE is required"),
            "modelctl: FILE is required (see modelctl --help)");
}

TEST(Usage, IsOneLineWhateverWasTyped) {
  const std::vector<std::string> word = {"two\nlines\033[2J"};
  EXPECT_EQ(usage_line("modelc", "", word),
            "modelc: unknown argument \"two lines [2J\" (see modelc --help)");
}

TEST(Usage, ANumberOutsideItsRangeIsSaidInNumbersForPeople) {
  EXPECT_EQ(number_defect("0.3", 0.001, 1e6), "");
  EXPECT_EQ(number_defect("1000000", 0.001, 1e6), "");
  for (const std::string bad : {"abc", "-1", "0", "nan", "inf", "1e9", "", "3s"})
    EXPECT_EQ(number_defect(bad, 0.001, 1e6),
              "\"" + bad + "\" is not a number from 0.001 to 1000000");
}

TEST(Usage, AWholeNumberIsNotNegative) {
  EXPECT_EQ(whole_number_defect("0"), "");
  EXPECT_EQ(whole_number_defect("9223372036854775807"), "");
  for (const std::string bad : {"abc", "-1", "2.5", "", "9223372036854775808"})
    EXPECT_EQ(whole_number_defect(bad), "\"" + bad + "\" is not a whole number from 0 to 2^63-1");
}

}  // namespace
}  // namespace modeld
