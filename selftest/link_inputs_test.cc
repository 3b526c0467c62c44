// What the daemon is linked from: nothing of ONNX or protobuf, whose parsers have no business on a
// vehicle. Read from the build's own file, so that a transitive dependency counts as well.
#include <fstream>
#include <sstream>

namespace modeld {
namespace {

// The build statement of a program with its variables: inputs, libraries, link arguments.
std::string link_statement(const std::string& program) {
  std::ifstream in(MODELD_BUILD_ROOT "/build.ninja");
  std::string out;
  bool is_inside = false;
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("build " + program + ":", 0) == 0) is_inside = true;
    if (is_inside && line.empty()) break;
    if (is_inside) out += line + "\n";
  }
  return out;
}

bool names_onnx(const std::string& statement) {
  return statement.find("onnx") != std::string::npos ||
         statement.find("protobuf") != std::string::npos;
}

TEST(LinkInputs, DaemonHasNothingOfOnnxOrProtobuf) {
  const std::string statement = link_statement("daemon/modeld");
  ASSERT_NE(statement.find("daemon"), std::string::npos) << "no such target in build.ninja";
  EXPECT_FALSE(names_onnx(statement)) << statement;
}

// It ships as well, and compiles: from bundles, never from ONNX.
TEST(LinkInputs, TheSelfTestHasNothingOfOnnxOrProtobuf) {
  const std::string statement = link_statement("selftest/boot/modeld-selftest");
  ASSERT_NE(statement.find("daemon"), std::string::npos) << "no such target in build.ninja";
  EXPECT_FALSE(names_onnx(statement)) << statement;
}

TEST(LinkInputs, TheClientsNeitherAndTheCompilerDoes) {
  EXPECT_FALSE(names_onnx(link_statement("ipc/tools/modelctl")));
  EXPECT_FALSE(names_onnx(link_statement("ipc/tools/modelcam")));
  EXPECT_TRUE(names_onnx(link_statement("models/tools/modelc"))) << "the check sees what is there";
}

}  // namespace
}  // namespace modeld
