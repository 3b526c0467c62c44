// The command line as a user meets it: exit codes, one clear line, one JSON object.
#include "models/tools/commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "hal/base/env.h"
#include "hal/base/fs.h"
#include "hal/base/npy.h"

#include "models/bundle/sample_bundle.h"
#include "models/tools/build_model.h"

namespace modeld::tools {
namespace {

using ir::DType;
using tensor::Tensor;

struct Answer {
  int exit = 0;
  std::string out, err;
};

Answer modelc(std::vector<std::string> words) {
  words.insert(words.begin(), "modelc");
  std::vector<const char*> argv;
  for (const std::string& w : words) argv.push_back(w.c_str());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Answer a;
  a.exit = modelc_main(static_cast<int>(argv.size()), argv.data());
  a.out = testing::internal::GetCapturedStdout();
  a.err = testing::internal::GetCapturedStderr();
  return a;
}

class Modelc : public testing::Test {
 protected:
  Modelc() : dir_(TempDir::create("modelc-test")) {}
  std::string at(const std::string& name) const { return join_path(dir_->path(), name); }

  // y = x + s, next_s = y, x i32[4].
  std::string small_bundle() {
    BuildOptions options;
    options.output_path = at("m.bundle");
    options.target = *hal::parse_target("cpu");
    ir::Graph g;
    ImportedFile f;
    const Tensor x = Tensor::input(g, "x", {4}, DType::kI32);
    const Tensor s = Tensor::input(g, "s", {4}, DType::kI32);
    f.source.inputs = {{"x", x}, {"s", s}};
    f.source.outputs = {{"a/y", x.add(s).add(tensor::Scalar(1))}, {"next_s", x.add(s)}};
    const auto r = build_source(g, std::move(f), options);
    EXPECT_TRUE(r.ok()) << r.error().what;
    return options.output_path;
  }
  std::string int_npy(const std::string& name, std::vector<int32_t> v) {
    NpyArray a{"<i4", {static_cast<int64_t>(v.size())}, {}};
    const auto bytes = std::as_bytes(std::span(v));
    a.data.assign(bytes.begin(), bytes.end());
    EXPECT_TRUE(write_npy(at(name), a).ok());
    return at(name);
  }

  Result<TempDir> dir_;
};

bool is_one_line(const std::string& text) {
  return !text.empty() && text.find('\n') == text.size() - 1;
}

TEST_F(Modelc, HelpShowsAnExampleOfEverySubcommandAndTheEnvironment) {
  const Answer a = modelc({"--help"});
  EXPECT_EQ(a.exit, 0);
  for (const CommandEntry& c : command_table()) {
    EXPECT_NE(a.out.find(c.example), std::string::npos) << c.name;
    const Answer sub = modelc({c.name, "--help"});
    EXPECT_EQ(sub.exit, 0);
    EXPECT_NE(sub.out.find(c.example), std::string::npos) << c.name;
  }
  EXPECT_NE(a.out.find("MODELD_CACHE_DIR"), std::string::npos);
}

TEST_F(Modelc, WrongUsageIsTwo) {
  EXPECT_EQ(modelc({}).exit, 2);
  EXPECT_EQ(modelc({"bake"}).exit, 2);
  EXPECT_EQ(modelc({"info"}).exit, 2);
  EXPECT_EQ(modelc({"run", "x", "--repeat", "0"}).exit, 2);
  EXPECT_EQ(modelc({"build", "x.onnx", "--target", "pdp11"}).exit, 2);
  EXPECT_EQ(modelc({"build", "x.onnx", "--target", "cpu", "--shape", "x"}).exit, 2);
  EXPECT_EQ(modelc({"build", "x.onnx", "--target", "cpu", "--camera", "3x3"}).exit, 2);
}

TEST_F(Modelc, WrongUsageIsOneLineThatNamesWhatWasTyped) {
  const struct {
    std::vector<std::string> words;
    std::string line;
  } cases[] = {
      {{}, "modelc: A subcommand is required (see modelc --help)\n"},
      {{"wibble"}, "modelc: unknown argument \"wibble\" (see modelc --help)\n"},
      {{"info", "m.bundle", "--wibble"},
       "modelc: unknown argument \"--wibble\" (see modelc --help)\n"},
      {{"info"}, "modelc: bundle is required (see modelc --help)\n"},
      {{"run", "m.bundle", "--repeat", "0"},
       "modelc: --repeat: Value 0 not in range 1 to 10000000 (see modelc --help)\n"},
      {{"run", "m.bundle", "--seed", "x"},
       "modelc: --seed: \"x\" is not a whole number from 0 to 2^63-1 (see modelc --help)\n"},
  };
  for (const auto& [words, line] : cases) {
    const Answer a = modelc(words);
    EXPECT_EQ(a.exit, 2) << line;
    EXPECT_EQ(a.err, line);
    EXPECT_EQ(a.out, "") << line;
  }
}

TEST_F(Modelc, BuildWithoutTheCompilerSaysHowToGetOn) {
  const std::string path = env_text("PATH");
  const auto error_without_clang = [&](const std::string& target) {
    setenv("PATH", "/nonexistent", 1);
    const Answer a = modelc({"build", at("m.onnx"), "--target", target});
    setenv("PATH", path.c_str(), 1);
    EXPECT_EQ(a.exit, 1);
    EXPECT_TRUE(is_one_line(a.err)) << a.err;
    return a.err;
  };
  EXPECT_THAT(error_without_clang("cpu:x86-64-v3"),
              testing::EndsWith("(apt install clang-19, or build with --renderer x86)\n"));
  for (const char* target : {"cpu:aarch64", "amd:gfx1100"})
    EXPECT_THAT(error_without_clang(target), testing::EndsWith(" (apt install clang-19)\n"));
}

TEST_F(Modelc, BuildFindsOutFirstThatItCannotWrite) {
  const Answer a = modelc({"build", at("m.onnx"), "--target", "cpu", "-o", at("none/m.bundle")});
  EXPECT_EQ(a.exit, 1);
  EXPECT_THAT(a.err, testing::EndsWith(at("none/m.bundle") + ": No such file or directory\n"));
  EXPECT_EQ(modelc({"build", at("m.onnx"), "--target", "cpu"}).exit, 1);
  EXPECT_TRUE(list_dir(dir_->path())->empty());
}

TEST_F(Modelc, BadBundleIs78AndOneLine) {
  EXPECT_EQ(modelc({"info", at("none.bundle")}).exit, 78);
  auto bytes = bundle::sample_bundle();
  bytes.resize(5000);
  ASSERT_TRUE(bundle::write_sample(at("cut.bundle"), bytes).ok());
  for (const char* command : {"info", "run", "check"}) {
    const Answer a = modelc({command, at("cut.bundle")});
    EXPECT_EQ(a.exit, 78) << command;
    EXPECT_TRUE(is_one_line(a.err)) << a.err;
    EXPECT_EQ(a.out, "") << command;
  }
  const Answer json = modelc({"info", at("cut.bundle"), "--json"});
  EXPECT_TRUE(is_one_line(json.out));
  ASSERT_TRUE(Json::parse(json.out).ok());
  EXPECT_NE(Json::parse(json.out)->find("error"), nullptr);
}

TEST_F(Modelc, RunTakesAndGivesNpyAndFeedsStatesBack) {
  const std::string b = small_bundle();
  const std::string x = int_npy("x.npy", {10, -3, 5, 0});
  const Answer a = modelc({"run", b, "--input", "x=" + x, "--output", at("out"), "--repeat", "3"});
  EXPECT_EQ(a.exit, 0) << a.err;
  auto y = read_npy(at("out/a_y.npy"));
  ASSERT_TRUE(y.ok()) << y.error().what;
  EXPECT_EQ(y->type, "<i4");
  EXPECT_EQ(y->shape, (std::vector<int64_t>{4}));
  const std::vector<double> v = to_doubles(y->data, DType::kI32);
  EXPECT_EQ(v, (std::vector<double>{31, -8, 16, 1}));  // three times x, plus 1
}

TEST_F(Modelc, WrongInputIsOneAndNamesIt) {
  const std::string b = small_bundle();
  const std::string x = int_npy("x.npy", {1, 2});
  Answer a = modelc({"run", b, "--input", "x=" + x});
  EXPECT_EQ(a.exit, 1);
  EXPECT_EQ(a.err, "modelc run: input x: expected i32 4 (<i4), " + x + " has <i4 2\n");
  a = modelc({"run", b, "--input", "z=" + x});
  EXPECT_EQ(a.exit, 1);
  EXPECT_NE(a.err.find("it has: x"), std::string::npos) << a.err;
  a = modelc({"run", b, "--input", "x=" + at("none.npy")});
  EXPECT_EQ(a.exit, 1);
  EXPECT_TRUE(is_one_line(a.err)) << a.err;
  a = modelc({"run", b, "--entry", "walk"});
  EXPECT_EQ(a.exit, 1);
  EXPECT_NE(a.err.find("it has: run"), std::string::npos) << a.err;
}

TEST_F(Modelc, JsonIsOneObject) {
  const std::string b = small_bundle();
  for (std::vector<std::string> words : {std::vector<std::string>{"info", b},
                                         {"run", b},
                                         {"check", b},
                                         {"check", b, "--layers"},
                                         {"prepare", b, "--device", "cpu", "-o", at("p.bundle")},
                                         {"keygen", "-o", at("k")},
                                         {"sign", at("p.bundle"), "--key", at("k")},
                                         {"verify", at("p.bundle"), "--keys", dir_->path()}}) {
    words.push_back("--json");
    const Answer a = modelc(words);
    EXPECT_EQ(a.exit, 0) << words[0] << a.err;
    EXPECT_TRUE(is_one_line(a.out)) << a.out;
    EXPECT_TRUE(Json::parse(a.out).ok()) << a.out;
  }
}

TEST_F(Modelc, NullDeviceAnswersWithTheGoldenOutputs) {
  const std::string path = small_bundle();
  const Answer a = modelc({"run", path, "--device", "null", "--output", at("out")});
  ASSERT_EQ(a.exit, 0) << a.err;
  auto b = bundle::Bundle::open(path);
  ASSERT_TRUE(b.ok());
  const auto golden = (*b)->golden((*b)->manifest().golden[0].tensors[2]);
  const auto y = read_npy(at("out/a_y.npy"));
  ASSERT_TRUE(y.ok());
  EXPECT_TRUE(std::equal(golden.begin(), golden.end(), y->data.begin(), y->data.end()));
}

TEST_F(Modelc, BundleForAnotherTargetIsRefusedWithAReason) {
  ASSERT_TRUE(bundle::write_bundle(at("other.bundle"),
                                   [] {
                                     auto c = bundle::sample_content();
                                     c.manifest.plan.target.arch = "aarch64";
                                     c.manifest.plan.target.features.clear();
                                     return c;
                                   }())
                  .ok());
  const Answer a = modelc({"run", at("other.bundle")});
  EXPECT_EQ(a.exit, 78);
  EXPECT_NE(a.err.find("built for cpu:aarch64, this host is x86-64\n"), std::string::npos) << a.err;
}

TEST_F(Modelc, ReferenceModelsBuild) {
  ASSERT_EQ(modelc({"reference", "cabin", "--size", "tiny", "-o", at("cabin.onnx")}).exit, 0);
  const Answer a = modelc({"build", at("cabin.onnx"), "--target", "cpu", "--role", "cabin",
                           "--camera", "64x32", "-o", at("cabin.bundle"), "--json"});
  ASSERT_EQ(a.exit, 0) << a.err;
  EXPECT_TRUE(file_exists(at("cabin.bundle")));
  EXPECT_TRUE(file_exists(at("cabin.bundle.report.json")));
}

}  // namespace
}  // namespace modeld::tools
