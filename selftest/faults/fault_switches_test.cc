// The fault switches of MODELD_FAULT= are there in a build for tests and gone in one for a vehicle:
// not one name of a switch is left. Both programs are built here: modeld itself, and the same with
// the files that hold switches compiled without them.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

namespace modeld::faults {
namespace {

namespace fs = std::filesystem;

std::string bytes_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Every switch that the product's sources ask for, and the files that do.
struct Switches {
  std::set<std::string> names;
  std::set<std::string> files;
};

Switches switches_in_sources() {
  Switches out;
  const std::regex asked(R"(fault::(?:on|value|number)\(\s*"([a-z0-9_]+)\")");
  const fs::path root = MODELD_SOURCE_ROOT;
  for (const char* folder : {"hal", "runtime", "ipc", "models", "daemon"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string name = entry.path().filename().string();
      if (entry.path().extension() != ".cc" || name.find("_test.cc") != std::string::npos) continue;
      const std::string text = bytes_of(entry.path());
      for (auto at = std::sregex_iterator(text.begin(), text.end(), asked);
           at != std::sregex_iterator(); ++at) {
        out.names.insert((*at)[1]);
        out.files.insert(fs::relative(entry.path(), root).string());
      }
    }
  }
  return out;
}

TEST(FaultSwitches, TheSourcesThatAskForThemAreThoseBuiltWithout) {
  const Switches s = switches_in_sources();
  EXPECT_GE(s.names.size(), 5u) << "the search sees what is there";
  for (const std::string& file : s.files)
    EXPECT_NE(std::string(MODELD_SWITCH_SOURCES).find(" " + file + " "), std::string::npos)
        << file << " asks for a switch; add it to selftest/faults/meson.build";
}

TEST(FaultSwitches, AreThereInABuildForTestsAndGoneInOneForAVehicle) {
  const std::string with = bytes_of(MODELD_WITH_SWITCHES);
  const std::string without = bytes_of(MODELD_WITHOUT_SWITCHES);
  ASSERT_GT(with.size(), 1'000'000u) << MODELD_WITH_SWITCHES;
  ASSERT_GT(without.size(), 1'000'000u) << MODELD_WITHOUT_SWITCHES;
  std::set<std::string> names = switches_in_sources().names;
  names.insert("MODELD_FAULT");
  for (const std::string& name : names) {
    EXPECT_NE(with.find(name), std::string::npos) << name;
    EXPECT_EQ(without.find(name), std::string::npos) << name;
  }
  EXPECT_NE(without.find("MODELD_RUNTIME_DIR"), std::string::npos) << "other words are found";
}

}  // namespace
}  // namespace modeld::faults
