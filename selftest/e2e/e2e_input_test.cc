// Bad input of every kind: one clear line, exit 1 or 78, no crash, no half-written file.
#include "hal/base/npy.h"

#include "models/bundle/bundle_reader.h"

#include "selftest/e2e/bundle_damage.h"
#include "selftest/e2e/harness.h"
#include "selftest/e2e/tiny_onnx.h"

namespace modeld::e2e {
namespace {

using ::testing::HasSubstr;

std::string put(const std::string& name, std::string_view bytes) {
  const std::string path = join_path(scratch_dir(), name);
  EXPECT_TRUE(write_text_atomic(path, bytes).ok());
  return path;
}

// ---- bundles ----

struct Damage {
  const char* name;
  void (*apply)(std::string& bytes);
};

void flip(std::string& bytes, size_t at) {
  bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
}

class DamagedBundle : public ::testing::TestWithParam<Damage> {};

TEST_P(DamagedBundle, IsRefusedWithOneLine) {
  std::string bytes = bytes_of(tiny_bundle("road"));
  GetParam().apply(bytes);
  const std::string path = put(std::string("damaged-") + GetParam().name + ".bundle", bytes);
  for (const char* command : {"info", "run", "check"}) {
    const ProcResult r = modelc({command, path});
    const auto verdict = is_one_clear_line(r, 78);
    EXPECT_TRUE(verdict) << command;
    EXPECT_THAT(r.err, HasSubstr("damaged-")) << "names the file";
    if (command == std::string("info")) std::printf("  %s", r.err.c_str());
  }
}

INSTANTIATE_TEST_SUITE_P(
    ByHand,
    DamagedBundle,
    ::testing::Values(Damage{"empty", [](std::string& b) { b.clear(); }},
                      Damage{"one_byte", [](std::string& b) { b.resize(1); }},
                      Damage{"half_a_header", [](std::string& b) { b.resize(60); }},
                      Damage{"header_only", [](std::string& b) { b.resize(4096); }},
                      Damage{"cut_in_half", [](std::string& b) { b.resize(b.size() / 2); }},
                      Damage{"last_byte_gone", [](std::string& b) { b.pop_back(); }},
                      Damage{"one_byte_more", [](std::string& b) { b += '\0'; }},
                      Damage{"magic", [](std::string& b) { flip(b, 0); }},
                      Damage{"version", [](std::string& b) { flip(b, 8); }},
                      Damage{"size_field", [](std::string& b) { flip(b, 17); }},
                      Damage{"first_section", [](std::string& b) { flip(b, 4096 + 123); }},
                      Damage{"middle", [](std::string& b) { flip(b, b.size() / 2); }},
                      Damage{"manifest_end", [](std::string& b) { flip(b, b.size() - 9); }},
                      Damage{"no_bundle_at_all", [](std::string& b) { b.assign(b.size(), 'x'); }}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(BadBundle, AnyFlippedByteIsSeen) {
  const std::string good = bytes_of(tiny_bundle("cabin"));
  // In this process: thousands of positions, the whole header among them.
  size_t seen = 0, tried = 0;
  for (size_t at = 0; at < good.size(); at += at < 512 ? 1 : 1 + good.size() / 997) {
    std::string bad = good;
    flip(bad, at);
    const std::string path = put("flipped.bundle", bad);
    ++tried;
    if (bundle::Bundle::open(path).ok())
      ADD_FAILURE() << "a flipped bit at byte " << at << " went unseen";
    else
      ++seen;
  }
  EXPECT_GT(tried, 1000u);
  EXPECT_EQ(seen, tried);
}

TEST(BadBundle, OfAnotherTargetIsRefusedNamingBoth) {
  const std::string path = join_path(scratch_dir(), "arm.bundle");
  retarget_to_arm(tiny_bundle("cabin"), path);
  const ProcResult r = modelc({"run", path});
  EXPECT_TRUE(is_one_clear_line(r, 78));
  EXPECT_THAT(r.err, HasSubstr("aarch64"));
  // The daemon stays up and says the same.
  RigOptions options;
  options.bundles = {{"cabin", path}};
  Rig rig(options);
  ASSERT_TRUE(rig.tap().wait_state("cabin", ipc::ModelState::kUnavailable, 20'000));
  EXPECT_EQ(rig.tap().status("cabin")->reason, ipc::Reason::kTargetMismatch);
  EXPECT_TRUE(rig.daemon().is_running());
}

TEST(BadBundle, DaemonStaysUpAndTakesTheMendedFile) {
  std::string bytes = bytes_of(tiny_bundle("cabin"));
  const std::string good = bytes;
  flip(bytes, bytes.size() / 2);
  const std::string path = put("mended.bundle", bytes);
  RigOptions options;
  options.bundles = {{"cabin", path}, {"road", join_path(scratch_dir(), "nowhere.bundle")}};
  Rig rig(options);
  ASSERT_TRUE(rig.tap().wait_state("cabin", ipc::ModelState::kUnavailable, 20'000));
  ASSERT_TRUE(rig.tap().wait_state("road", ipc::ModelState::kUnavailable, 20'000));
  EXPECT_EQ(rig.tap().status("cabin")->reason, ipc::Reason::kBundleInvalid);
  EXPECT_EQ(rig.tap().status("road")->reason, ipc::Reason::kBundleMissing);
  put("mended.bundle", good);
  EXPECT_TRUE(rig.tap().wait_state("cabin", ipc::ModelState::kReady, 20'000));
  EXPECT_TRUE(rig.daemon().is_running());
}

// ---- ONNX ----

ProcResult build(const std::string& onnx, const std::string& out) {
  return modelc({"build", onnx, "--target", "cpu", "-o", out});
}

void expect_no_bundle(const std::string& name, const std::string& bytes, const char* named) {
  const std::string onnx = put(name + ".onnx", bytes);
  const std::string out = join_path(scratch_dir(), name + ".bundle");
  const ProcResult r = build(onnx, out);
  const auto verdict = is_one_clear_line(r, 1);
  EXPECT_TRUE(verdict);
  EXPECT_THAT(r.err, HasSubstr(named));
  EXPECT_FALSE(file_exists(out));
  std::printf("  %s", r.err.c_str());
}

TEST(BadOnnx, ThisFileIsGood) {
  const std::string onnx = put("good.onnx", onnx_file({node("Relu", "n", {"x"}, "y")}));
  const ProcResult r = build(onnx, join_path(scratch_dir(), "good.bundle"));
  EXPECT_EQ(r.exit_code, 0) << r.err;
}

TEST(BadOnnx, UnsupportedOpIsNamedWithNodeAndOpset) {
  expect_no_bundle("op", onnx_file({node("Wibble", "wibble_node", {"x"}, "y")}), "wibble_node");
  expect_no_bundle("op2", onnx_file({node("Wibble", "wibble_node", {"x"}, "y")}), "Wibble");
  expect_no_bundle("op3", onnx_file({node("Wibble", "wibble_node", {"x"}, "y")}), "17");
}

TEST(BadOnnx, UnknownAttributeIsNamed) {
  Proto n = node("Relu", "relu_node", {"x"}, "y");
  n.message(5, Proto().text(1, "wobble").number(3, 1).number(20, 2));
  expect_no_bundle("attribute", onnx_file({n}), "wobble");
}

TEST(BadOnnx, MissingExternalDataIsNamed) {
  expect_no_bundle("external",
                   onnx_file({node("Add", "n", {"x", "w"}, "y")},
                             {external_tensor("w", "weights-that-are-not-here.bin")}),
                   "weights-that-are-not-here.bin");
}

TEST(BadOnnx, ExternalDataOutsideTheFolderIsRefused) {
  expect_no_bundle("escape",
                   onnx_file({node("Add", "n", {"x", "w"}, "y")},
                             {external_tensor("w", "../../../../etc/passwd")}),
                   "w");
}

TEST(BadOnnx, CyclicGraphIsRefused) {
  expect_no_bundle(
      "cycle",
      onnx_file({node("Add", "first_node", {"x", "b"}, "a"),
                 node("Relu", "second_node", {"a"}, "b"), node("Relu", "third_node", {"b"}, "y")}),
      "node");
}

TEST(BadOnnx, MissingInputAndOutputAreNamed) {
  expect_no_bundle("input", onnx_file({node("Add", "n", {"x", "nobody"}, "y")}), "nobody");
  expect_no_bundle("output", onnx_file({node("Relu", "n", {"x"}, "z")}), "y");
}

TEST(BadOnnx, CutOrNoProtobufOrNoFile) {
  const std::string good = bytes_of(tiny_onnx("cabin"));
  expect_no_bundle("cut", good.substr(0, good.size() / 2), "cut.onnx");
  expect_no_bundle("noise", std::string(1000, '\xff'), "noise.onnx");
  expect_no_bundle("nothing", "", "nothing.onnx");
  EXPECT_TRUE(is_one_clear_line(
      build(join_path(scratch_dir(), "absent.onnx"), join_path(scratch_dir(), "absent.bundle")),
      1));
}

// ---- .npy ----

ProcResult run_with(const std::string& npy) {
  return modelc({"run", tiny_bundle("cabin"), "--input", "calib=" + npy});
}

std::string calib(const std::string& name, const char* type, std::vector<int64_t> shape) {
  NpyArray a;
  a.type = type;
  a.shape = std::move(shape);
  size_t count = npy_item_bytes(type);
  for (const int64_t d : a.shape) count *= static_cast<size_t>(d);
  a.data.resize(count);
  const std::string path = join_path(scratch_dir(), name);
  EXPECT_TRUE(write_npy(path, a).ok());
  return path;
}

TEST(BadNpy, GoodOneRuns) {
  const ProcResult r = run_with(calib("good.npy", "<f4", {1, 3}));
  EXPECT_EQ(r.exit_code, 0) << r.err;
}

TEST(BadNpy, WrongTypeShapeNameOrFileIsOneLine) {
  const ProcResult type = run_with(calib("type.npy", "<i8", {1, 3}));
  EXPECT_TRUE(is_one_clear_line(type, 1));
  EXPECT_THAT(type.err, HasSubstr("calib"));
  const ProcResult shape = run_with(calib("shape.npy", "<f4", {1, 4}));
  EXPECT_TRUE(is_one_clear_line(shape, 1));
  EXPECT_THAT(shape.err, HasSubstr("calib"));
  EXPECT_TRUE(is_one_clear_line(run_with(put("noise.npy", "\x93NUMPY what")), 1));
  const std::string whole = bytes_of(calib("whole.npy", "<f4", {1, 3}));
  EXPECT_TRUE(is_one_clear_line(run_with(put("cut.npy", whole.substr(0, whole.size() - 1))), 1));
  EXPECT_TRUE(is_one_clear_line(run_with("/nonexistent.npy"), 1));
  const ProcResult name = modelc(
      {"run", tiny_bundle("cabin"), "--input", "nobody=" + calib("good2.npy", "<f4", {1, 3})});
  EXPECT_TRUE(is_one_clear_line(name, 1));
  EXPECT_THAT(name.err, HasSubstr("calib")) << "says which names there are";
}

// ---- configuration ----

struct BadConfig {
  const char* name;
  const char* text;
  const char* key;  // named in the line
  int line;         // 0: a missing key has none
};

class Config : public ::testing::TestWithParam<BadConfig> {};

TEST_P(Config, IsRefusedWithFileLineAndKey) {
  const std::string path = put(std::string(GetParam().name) + ".toml", GetParam().text);
  const ProcResult r = run({program("modeld"), "--config", path},
                           {"MODELD_RUNTIME_DIR=" + join_path(scratch_dir(), "run-config")});
  EXPECT_TRUE(is_one_clear_line(r, 78));
  EXPECT_THAT(r.err, HasSubstr(path));
  EXPECT_THAT(r.err, HasSubstr(GetParam().key));
  if (GetParam().line > 0) {
    EXPECT_THAT(r.err, HasSubstr(".toml:" + std::to_string(GetParam().line) + ":"));
  }
  std::printf("  %s", r.err.c_str());
}

INSTANTIATE_TEST_SUITE_P(
    Bad,
    Config,
    ::testing::Values(BadConfig{"unknown_key", "[model.road]\nbundle = \"x\"\nspeed = 3\n",
                                "model.road.speed", 3},
                      BadConfig{"wrong_type", "[model.road]\nbundle = 7\n", "model.road.bundle", 2},
                      BadConfig{"out_of_range", "[model.road]\nbundle = \"x\"\nlate_ms = 0\n",
                                "model.road.late_ms", 3},
                      BadConfig{"bad_word", "[model.road]\nbundle = \"x\"\nprepare = \"maybe\"\n",
                                "model.road.prepare", 3},
                      BadConfig{"missing_bundle", "[model.road]\ndevice = \"cpu\"\n",
                                "model.road.bundle", 1},
                      BadConfig{"no_model", "[publish]\nraw = true\n", "model.road", 0},
                      BadConfig{"no_toml", "[model.road\n", "TOML", 1}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(BadConfigFile, ThatIsNotThereIsExit78) {
  EXPECT_TRUE(is_one_clear_line(
      run({program("modeld"), "--config", join_path(scratch_dir(), "absent.toml")}), 78));
}

TEST(BadUsage, IsExit2AndOneLineThatNamesTheWord) {
  const std::string ctl = program("modelctl"), cam = program("modelcam");
  const struct {
    std::vector<std::string> words;
    std::vector<std::string> named;
  } cases[] = {
      {{program("modelc"), "build"}, {"model"}},
      {{program("modelc"), "wibble"}, {"\"wibble\""}},
      {{program("modelc"), "build", tiny_onnx("cabin"), "--target", "vax"}, {"vax"}},
      {{program("modeld"), "--wibble"}, {"\"--wibble\""}},
      {{program("modeld-selftest"), "wibble"}, {"\"wibble\""}},
      {{program("modeld-selftest"), "--jobs", "0"}, {"--jobs", "0", "1 to 64"}},
      {{ctl, "wibble"}, {"\"wibble\""}},
      {{ctl, "status", "wibble"}, {"\"wibble\""}},
      {{ctl, "watch", "--seconds", "abc"}, {"--seconds", "\"abc\"", "0.001 to 1000000"}},
      {{ctl, "gate", "--seconds", "-1"}, {"--seconds", "\"-1\"", "0.001 to 1000000"}},
      {{ctl, "record", "f", "--wait", "0"}, {"--wait", "\"0\"", "0.001 to 1000000"}},
      {{ctl, "trace"}, {"FILE"}},
      {{cam, "--source", "wibble=1"}, {"wibble"}},
      {{cam, "--frames", "two\nlines"}, {"--frames", "two lines", "whole number from 0"}},
      {{cam, "--fps", "0"}, {"--fps", "1 to 1000"}},
  };
  for (const auto& [words, named] : cases) {
    const ProcResult r = run(words);
    EXPECT_TRUE(is_one_clear_line(r, 2));
    EXPECT_TRUE(r.err.starts_with(base_name(words[0]) + ": ") ||
                r.err.starts_with("modelc build: "))
        << r.err;
    for (const std::string& word : named) EXPECT_THAT(r.err, ::testing::HasSubstr(word));
  }
}

}  // namespace
}  // namespace modeld::e2e
