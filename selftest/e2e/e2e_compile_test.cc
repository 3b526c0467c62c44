// ONNX to bundle: the public models against ONNX Runtime's numbers, reproducible bytes, builds that
// are cut off.
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "hal/base/npy.h"
#include "hal/base/text.h"

#include "selftest/e2e/harness.h"

namespace modeld::e2e {
namespace {

namespace fs = std::filesystem;

std::string bytes_of(const std::string& path) {
  const auto bytes = read_file(path);
  EXPECT_TRUE(bytes.ok()) << path;
  return bytes.ok() ? std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size()) : "";
}

double half_to_double(uint16_t h) {
  const int exponent = (h >> 10) & 31;
  const double fraction = h & 1023;
  double v = exponent == 0    ? std::ldexp(fraction, -24)
             : exponent == 31 ? (fraction != 0 ? NAN : INFINITY)
                              : std::ldexp(1024 + fraction, exponent - 25);
  return (h & 0x8000) != 0 ? -v : v;
}

template <class T>
std::vector<double> widened(const NpyArray& a) {
  std::vector<double> out(a.data.size() / sizeof(T));
  for (size_t i = 0; i < out.size(); ++i) {
    T v;
    std::memcpy(&v, a.data.data() + i * sizeof(T), sizeof(T));
    if constexpr (std::is_same_v<T, uint16_t>)
      out[i] = half_to_double(v);
    else
      out[i] = static_cast<double>(v);
  }
  return out;
}

std::vector<double> doubles(const NpyArray& a) {
  if (a.type == "<f4") return widened<float>(a);
  if (a.type == "<f8") return widened<double>(a);
  if (a.type == "<f2") return widened<uint16_t>(a);
  if (a.type == "<i8") return widened<int64_t>(a);
  if (a.type == "<i4") return widened<int32_t>(a);
  if (a.type == "|u1" || a.type == "|b1") return widened<uint8_t>(a);
  ADD_FAILURE() << "npy type " << a.type;
  return {};
}

// The tolerance of the numeric contract, relative to the largest number of the reference.
double tolerance(const std::string& type) {
  if (type == "<f2") return 1e-2;
  if (type == "<f4" || type == "<f8") return 1e-4;
  return 0;
}

void expect_close(const std::string& got_path, const std::string& want_path) {
  const auto got = read_npy(got_path), want = read_npy(want_path);
  ASSERT_TRUE(got.ok()) << got.error().what;
  ASSERT_TRUE(want.ok()) << want.error().what;
  EXPECT_EQ(got->shape, want->shape);
  EXPECT_EQ(got->type, want->type);
  const std::vector<double> a = doubles(*got), b = doubles(*want);
  ASSERT_EQ(a.size(), b.size());
  double worst = 0, largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_TRUE(std::isfinite(a[i])) << i;
    worst = std::max(worst, std::abs(a[i] - b[i]));
    largest = std::max(largest, std::abs(b[i]));
  }
  std::printf("%s: max |error| %.3g, max |reference| %.3g, limit %.3g\n",
              base_name(want_path).c_str(), worst, largest, tolerance(want->type) * largest);
  EXPECT_LE(worst, tolerance(want->type) * largest);
}

// `--shape NAME=...` of the model's row in the README beside the models; empty when it is static.
std::vector<std::string> shape_args(const std::string& models, const std::string& name) {
  std::ifstream readme(join_path(models, "README.md"));
  for (std::string line; std::getline(readme, line);) {
    if (line.rfind("| " + name + " |", 0) != 0) continue;
    const size_t at = line.find("`--shape ");
    if (at == std::string::npos) return {};
    const size_t from = at + 9;
    return {"--shape", line.substr(from, line.find('`', from) - from)};
  }
  return {};
}

// Renderer and folder of the model.
class PublicModel : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(PublicModel, GivesTheNumbersOfOnnxRuntime) {
  const auto [renderer, model] = GetParam();
  const std::string shared = shared_dir();
  const std::string models = join_path(shared, "models");
  const std::string dir = join_path(models, model);
  if (shared.empty() || !fs::is_directory(dir))
    GTEST_SKIP() << "SKIPPED-SHARED no folder " << model << " of public models here";
  const std::string work = join_path(scratch_dir(), std::string(model) + "-" + renderer);
  const std::string bundle = work + ".bundle";
  std::vector<std::string> build = {
      "build", join_path(dir, "model.onnx"), "--target", "cpu", "-o", bundle, "--renderer",
      renderer};
  for (const std::string& arg : shape_args(models, model)) build.push_back(arg);
  const ProcResult built = modelc(build);
  if (built.err.find("needs an x86-64 CPU") != std::string::npos) GTEST_SKIP() << built.err;
  ASSERT_EQ(built.exit_code, 0) << built.err;
  std::printf("%s", built.out.c_str());
  std::vector<std::string> args = {"run", bundle, "--output", work};
  std::vector<std::string> expected;
  for (const auto& entry : fs::directory_iterator(dir)) {
    const std::string file = entry.path().filename().string();
    if (file.rfind("input_", 0) == 0)
      args.insert(args.end(),
                  {"--input", file.substr(6, file.size() - 10) + "=" + entry.path().string()});
    if (file.rfind("expected_", 0) == 0) expected.push_back(file.substr(9));
  }
  const ProcResult ran = modelc(args);
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  ASSERT_FALSE(expected.empty());
  for (const std::string& name : expected)
    expect_close(join_path(work, name), join_path(dir, "expected_" + name));
}

INSTANTIATE_TEST_SUITE_P(Shared,
                         PublicModel,
                         ::testing::Combine(::testing::Values("c", "x86"),
                                            ::testing::Values("cabin_standin_f32",
                                                              "policy_standin_f16",
                                                              "ppocr2_cls",
                                                              "ppocr4_det",
                                                              "ppocr4_rec",
                                                              "squeezenet_random")),
                         [](const auto& test) {
                           return std::string(std::get<1>(test.param)) + "_" +
                                  std::get<0>(test.param);
                         });

TEST(Build, SameInputSameBytes) {
  const std::string onnx = tiny_onnx("road");
  std::string first;
  int n = 0;
  for (const char* jobs : {"1", "2", "2"}) {
    const std::string cache = join_path(scratch_dir(), "cache-bytes" + std::to_string(n));
    const std::string bundle = join_path(scratch_dir(), "bytes" + std::to_string(n++) + ".bundle");
    const ProcResult r =
        modelc({"build", onnx, "--target", "cpu", "--role", "road", "--jobs", jobs, "-o", bundle},
               {"MODELD_CACHE_DIR=" + cache});
    ASSERT_EQ(r.exit_code, 0) << r.err;
    if (first.empty()) first = bytes_of(bundle);
    EXPECT_EQ(bytes_of(bundle), first) << "--jobs " << jobs;
  }
  // From a warm cache as well.
  const std::string bundle = join_path(scratch_dir(), "bytes-warm.bundle");
  const std::string cache = join_path(scratch_dir(), "cache-bytes0");
  ASSERT_EQ(modelc({"build", onnx, "--target", "cpu", "--role", "road", "-o", bundle},
                   {"MODELD_CACHE_DIR=" + cache})
                .exit_code,
            0);
  EXPECT_EQ(bytes_of(bundle), first);
}

// The debug variables that --help lists do what it says.
TEST(Build, DebugLadderAndTraceShowTheStages) {
  const std::string out = join_path(scratch_dir(), "debug.bundle");
  const std::string trace = join_path(scratch_dir(), "trace.json");
  const std::vector<std::string> build = {
      "build", tiny_onnx("cabin"), "--target", "cpu", "--role", "cabin", "-o", out};
  const std::string cache = "MODELD_CACHE_DIR=" + join_path(scratch_dir(), "debug-cache");
  const ProcResult five = modelc(build, {"MODELD_DEBUG=5", "MODELD_TRACE=" + trace, cache});
  ASSERT_TRUE(five.succeeded()) << five.err;
  for (const char* part : {"-- schedule of entry run: ", "run_rangeify\n%0 = ", "void r_"}) {
    EXPECT_NE(five.err.find(part), std::string::npos) << part;
  }
  const auto text = read_text(trace);
  ASSERT_TRUE(text.ok());
  const auto json = Json::parse(*text);
  ASSERT_TRUE(json.ok()) << json.error().what;
  EXPECT_NE(text->find("\"schedule\""), std::string::npos);
  EXPECT_NE(text->find("\"lower\""), std::string::npos);
  const ProcResult two = modelc({"run", out, "--repeat", "3"}, {"MODELD_DEBUG=2"});
  ASSERT_TRUE(two.succeeded()) << two.err;
  EXPECT_NE(two.err.find("-- kernels, time per run over 3 runs"), std::string::npos) << two.err;
  EXPECT_NE(two.err.find(" us  r_"), std::string::npos) << two.err;
  const ProcResult quiet = modelc({"run", out});
  EXPECT_EQ(quiet.err, "");
}

// Builds over `before` ("": no file) and kills that after so long. True if the kill cut it short: a
// build may be done between the wait and the signal, its exit code says which it was.
bool is_cut(const std::string& bundle, const std::string& before, int64_t after_ms) {
  EXPECT_TRUE((before.empty() ? remove_file(bundle) : write_text_atomic(bundle, before)).ok());
  const auto cache = TempDir::create("modeld-cache-kill");
  Child build({program("modelc"), "build", tiny_onnx("road"), "--target", "cpu", "--role", "road",
               "-o", bundle},
              {"MODELD_CACHE_DIR=" + cache->path()}, bundle + ".log");
  if (!build.wait(after_ms)) build.signal(SIGKILL);
  const std::optional<int> code = build.wait(60'000);
  EXPECT_TRUE(code == 0 || code == 128 + SIGKILL) << build.log_text();
  const bool is_as_before =
      before.empty() ? !file_exists(bundle) : file_exists(bundle) && bytes_of(bundle) == before;
  // Killed after the rename, while it only reports, the bundle is whole.
  EXPECT_TRUE(is_as_before || modelc({"info", bundle}).succeeded()) << after_ms << " ms";
  return code != 0 && is_as_before;
}

TEST(Build, KilledLeavesNoBundleAndKeepsTheOldOne) {
  const std::string dir = join_path(scratch_dir(), "killed");
  ASSERT_TRUE(make_dirs(dir).ok());
  for (const char* before : {"", "old"}) {
    int cut = 0;
    for (const int64_t after_ms : {20, 60, 150, 300, 600, 1200})
      cut += is_cut(join_path(dir, "out.bundle"), before, after_ms) ? 1 : 0;
    EXPECT_GT(cut, 0) << "over '" << before << "'";
  }
}

TEST(Build, CheckAgreesWithTheReferencePerOutputAndPerKernel) {
  for (const char* role : {"road", "cabin"}) {
    const std::string bundle = tiny_bundle(role);
    EXPECT_EQ(modelc({"check", bundle}).exit_code, 0) << role;
    const ProcResult layers = modelc({"check", bundle, "--layers", "--json"});
    EXPECT_EQ(layers.exit_code, 0) << layers.err;
    EXPECT_TRUE(Json::parse(layers.out).ok()) << "only one JSON object on stdout";
  }
}

TEST(Build, SignedBundlesVerifyWithTheirKeyOnly) {
  const std::string keys = join_path(scratch_dir(), "keys"),
                    other = join_path(scratch_dir(), "other");
  ASSERT_TRUE(make_dirs(keys).ok() && make_dirs(other).ok());
  ASSERT_EQ(modelc({"keygen", "-o", join_path(keys, "a")}).exit_code, 0);
  ASSERT_EQ(modelc({"keygen", "-o", join_path(other, "b")}).exit_code, 0);
  const std::string bundle = join_path(scratch_dir(), "signed.bundle");
  fs::copy_file(tiny_bundle("cabin"), bundle);
  EXPECT_TRUE(is_one_clear_line(modelc({"verify", bundle, "--keys", keys}), 78));
  ASSERT_EQ(modelc({"sign", bundle, "--key", join_path(keys, "a")}).exit_code, 0);
  EXPECT_EQ(modelc({"verify", bundle, "--keys", keys}).exit_code, 0);
  EXPECT_TRUE(is_one_clear_line(modelc({"verify", bundle, "--keys", other}), 78));
  // A signature that no key verifies refuses the bundle even where none is asked for.
  EXPECT_TRUE(is_one_clear_line(modelc({"info", bundle, "--keys", other}), 78));
}

}  // namespace
}  // namespace modeld::e2e
