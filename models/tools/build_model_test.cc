// A bundle built from a small graph, end to end but for the ONNX file: compile, reference, golden
// vectors, self-check, run.
#include "models/tools/build_model.h"

#include <gtest/gtest.h>

#include <cstring>

#include "hal/backends.h"
#include "hal/base/bytes.h"
#include "hal/base/fs.h"

#include "runtime/exec/prepare.h"

#include "models/tools/golden.h"
#include "models/tools/reference_plan.h"
#include "models/tools/session.h"

namespace modeld::tools {
namespace {

using ir::DType;
using tensor::Tensor;

// y = relu(x w + s), next_s = s / 2 + sum of y's rows; w is 16x8.
ImportedFile small_model(ir::Graph& g) {
  ImportedFile f;
  std::vector<float> w(16 * 8);
  for (size_t i = 0; i < w.size(); ++i)
    w[i] = static_cast<float>(static_cast<int>(i * 37 % 64) - 32) / 32.0f;
  const Tensor weights = Tensor::from_floats(g, f.weights, w, {16, 8});
  const Tensor x = Tensor::input(g, "x", {4, 16}, DType::kF32);
  const Tensor s = Tensor::input(g, "s", {1, 8}, DType::kF32);
  const Tensor y = (x.matmul(weights) + s).maximum(0);
  f.source.inputs = {{"x", x}, {"s", s}};
  f.source.outputs = {{"y", y}, {"next_s", s * 0.5 + y.sum({0}, true)}};
  f.sha256 = sha256(bytes_of("small"));
  return f;
}

ImportedFile cabin_model(ir::Graph& g) {
  ImportedFile f;
  const Tensor img = Tensor::input(g, "input_img", {1, 216}, DType::kU8);
  const Tensor calib = Tensor::input(g, "calib", {1, 3}, DType::kF32);
  f.source.inputs = {{"input_img", img}, {"calib", calib}};
  const Tensor pixels = (img.cast(DType::kF32) * (1.0 / 255)).reshape({12, 18});
  f.source.outputs = {{"outputs", pixels.sum({1}).reshape({1, 12}) + calib.sum({1}, true)}};
  f.source.slices = {{"a", 0, 12}};
  return f;
}

class BuildModel : public testing::Test {
 protected:
  BuildModel() : dir_(TempDir::create("build-model-test")) {
    options_.output_path = join_path(dir_->path(), "m.bundle");
    options_.target = *hal::parse_target("cpu");
    options_.cameras = {{64, 32}};
  }
  Result<BuildReport> build(ImportedFile (*make)(ir::Graph&)) {
    ir::Graph g;
    ImportedFile f = make(g);
    return build_source(g, std::move(f), options_);
  }
  Bytes file() const { return *read_file(options_.output_path); }

  Result<TempDir> dir_;
  BuildOptions options_;
};

std::vector<double> run_twice(const bundle::Bundle& b, hal::Device& device, const char* output) {
  const exec::Plan plan = b.to_plan();
  auto loaded = exec::LoadedPlan::load(plan, device, b.sources());
  EXPECT_TRUE(loaded.ok()) << loaded.error().what;
  auto session = Session::create(b.manifest(), "run", **loaded);
  EXPECT_TRUE(session.ok());
  EXPECT_TRUE((*session)->set_seeded(5).ok());
  for (int i = 0; i < 2; ++i) {
    if (i > 0) (*session)->commit();
    EXPECT_TRUE((*session)->run(Deadline::in_ms(10'000)).ok());
  }
  const exec::Entry& e = (*session)->entry();
  for (size_t i = 0; i < e.outputs.size(); ++i)
    if (e.outputs[i].name == output) return to_doubles(*(*session)->output(i), e.outputs[i].dtype);
  return {};
}

TEST_F(BuildModel, RunsAndFeedsItsStateBack) {
  auto r = build(small_model);
  ASSERT_TRUE(r.ok()) << r.error().what;
  EXPECT_EQ(r->check.outputs, 2u);
  auto b = bundle::Bundle::open(options_.output_path);
  ASSERT_TRUE(b.ok()) << b.error().what;
  EXPECT_EQ((*b)->manifest().self_check, bundle::SelfCheck::kQuick);
  auto device = hal::open_device("cpu");
  ASSERT_TRUE(device.ok());

  // The same arithmetic here.
  const auto x = to_doubles(seeded_tensor(5, "x", DType::kF32, 4 * 16 * 4), DType::kF32);
  std::vector<double> s(8, 0.0), y(32);
  for (int run = 0; run < 2; ++run) {
    std::vector<double> next(8);
    for (size_t c = 0; c < 8; ++c) next[c] = s[c] / 2;
    for (size_t row = 0; row < 4; ++row)
      for (size_t c = 0; c < 8; ++c) {
        double sum = s[c];
        for (size_t k = 0; k < 16; ++k)
          sum += x[row * 16 + k] * (static_cast<int>((k * 8 + c) * 37 % 64) - 32) / 32.0;
        y[row * 8 + c] = std::max(sum, 0.0);
        next[c] += y[row * 8 + c];
      }
    s = next;
  }
  const auto got_y = run_twice(**b, **device, "y"), got_s = run_twice(**b, **device, "next_s");
  ASSERT_EQ(got_y.size(), y.size());
  for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(got_y[i], y[i], 1e-4) << i;
  for (size_t i = 0; i < s.size(); ++i) EXPECT_NEAR(got_s[i], s[i], 1e-3) << i;
}

TEST_F(BuildModel, SameModelSameBytesForAnyJobs) {
  options_.jobs = 1;
  ASSERT_TRUE(build(small_model).ok());
  const Bytes first = file();
  options_.jobs = 2;
  ASSERT_TRUE(build(small_model).ok());
  EXPECT_EQ(file(), first);
}

TEST_F(BuildModel, CabinGetsItsWarps) {
  options_.role = bundle::Role::kCabin;
  auto r = build(cabin_model);
  ASSERT_TRUE(r.ok()) << r.error().what;
  auto b = bundle::Bundle::open(options_.output_path);
  ASSERT_TRUE(b.ok()) << b.error().what;
  const bundle::Manifest& m = (*b)->manifest();
  ASSERT_EQ(m.geometries.size(), 1u);
  EXPECT_EQ(m.plan.entries[m.geometries[0].entry].name, "warp/cabin/64x32");
  EXPECT_EQ(m.golden.size(), 1u);
}

TEST_F(BuildModel, PrepareGivesBackTheRemovedBinaryByteForByte) {
  ASSERT_TRUE(build(small_model).ok());
  auto b = bundle::Bundle::open(options_.output_path);
  ASSERT_TRUE(b.ok()) << b.error().what;
  const exec::Plan whole = (*b)->to_plan(true);
  exec::Plan plan = whole;
  exec::strip_image(plan.programs[0]);
  const exec::CompileOptions options = exec::default_compile_options(plan.target);
  EXPECT_EQ(exec::prepare(plan, exec::PreparePolicy::kNever, options).error().code, Errc::kCompile);
  auto report = exec::prepare(plan, exec::PreparePolicy::kMissing, options);
  ASSERT_TRUE(report.ok()) << report.error().what;
  EXPECT_EQ(report->prepared, 1u);
  EXPECT_EQ(plan.programs[0].image.code, whole.programs[0].image.code);
}

// A wrong kernel must not get past the self-check: the reference is another model.
TEST_F(BuildModel, SelfCheckFindsAWrongKernel) {
  ASSERT_TRUE(build(small_model).ok());
  auto b = bundle::Bundle::open(options_.output_path);
  ASSERT_TRUE(b.ok()) << b.error().what;
  exec::Plan plan = (*b)->to_plan();
  bool changed = false;
  for (exec::ProgramRow& p : plan.programs) {
    // 0.5, by its bits, becomes 0.7.
    const size_t at = p.ast_text.find("0x3fe0000000000000");
    if (at == std::string::npos) continue;
    p.ast_text.replace(at, 18, "0x3fe6666666666666");
    changed = true;
  }
  ASSERT_TRUE(changed);
  auto wrong = reference_plan(plan, exec::default_compile_options(plan.target));
  ASSERT_TRUE(wrong.ok()) << wrong.error().what;
  const auto device = open_check_device(plan.target);
  ASSERT_TRUE(device.ok() && *device != nullptr);
  auto check = self_check(options_.output_path, bundle::SelfCheck::kQuick, **device, *wrong);
  ASSERT_FALSE(check.ok());
  EXPECT_EQ(check.error().code, Errc::kMismatch);
  EXPECT_NE(check.error().what.find("self-check: kernel"), std::string::npos) << check.error().what;
}

exec::Recipes recipes_in(const std::string& path) {
  auto b = bundle::Bundle::open(path);
  EXPECT_TRUE(b.ok());
  auto recipes = exec::recipes_of((*b)->to_plan(true));
  EXPECT_TRUE(recipes.ok());
  return *recipes;
}

TEST_F(BuildModel, RecordedOptsRepeatTheBundleByteForByte) {
  for (const char* renderer : {"c", "x86"}) {
    options_.target.renderer = renderer;
    options_.recipes.reset();
    ASSERT_TRUE(build(small_model).ok());
    const Bytes by_rule = file();
    exec::Recipes recipes = recipes_in(options_.output_path);
    options_.recipes = recipes;
    ASSERT_TRUE(build(small_model).ok());
    EXPECT_EQ(file(), by_rule) << "the rule's own choice, repeated";
    // Another choice, as a search could have made it: built, and repeated from its own record.
    for (auto& [key, opts] : recipes) opts = {{ir::OptOp::kUpcast, 0, 2}};
    options_.recipes = recipes;
    const auto tuned = build(small_model);
    ASSERT_TRUE(tuned.ok()) << tuned.error().what;
    EXPECT_GT(tuned->check.kernels, 0u);
    const Bytes other = file();
    EXPECT_NE(other, by_rule);
    options_.recipes = recipes_in(options_.output_path);
    ASSERT_TRUE(build(small_model).ok());
    EXPECT_EQ(file(), other);
  }
}

TEST_F(BuildModel, RecordedOptsOfAnotherModelAreRefused) {
  options_.role = bundle::Role::kCabin;
  ASSERT_TRUE(build(cabin_model).ok());
  options_.recipes = recipes_in(options_.output_path);
  options_.role = bundle::Role::kGeneric;
  const auto r = build(small_model);
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().code, Errc::kNotFound);
  EXPECT_NE(r.error().what.find("of entry run: no opts are recorded for this kernel"),
            std::string::npos)
      << r.error().what;
}

TEST_F(BuildModel, TheReferenceIsScalarWhateverOptsTheBundleAsksFor) {
  ASSERT_TRUE(build(small_model).ok());
  options_.recipes = recipes_in(options_.output_path);
  for (auto& [key, opts] : *options_.recipes) opts = {{ir::OptOp::kUpcast, 0, 2}};
  ASSERT_TRUE(build(small_model).ok());
  auto b = bundle::Bundle::open(options_.output_path);
  ASSERT_TRUE(b.ok());
  const exec::Plan plan = (*b)->to_plan();
  const auto reference = reference_plan(plan, exec::default_compile_options(plan.target));
  ASSERT_TRUE(reference.ok());
  for (size_t i = 0; i < plan.programs.size(); ++i) {
    EXPECT_EQ(plan.programs[i].applied_opts, "[UPCAST(0,2)]");
    EXPECT_EQ(reference->programs[i].applied_opts, "[]");
  }
}

TEST_F(BuildModel, ASearchIsReportedBothWaysAndItsOptsRepeatIt) {
  const auto cache = TempDir::create();
  setenv("MODELD_CACHE_DIR", cache->path().c_str(), 1);
  options_.target.renderer = "x86";
  options_.beam = 1;
  std::string last_stage;
  options_.progress = [&](const std::string& stage, size_t, size_t) { last_stage = stage; };
  const auto r = build(small_model);
  unsetenv("MODELD_CACHE_DIR");
  ASSERT_TRUE(r.ok()) << r.error().what;
  ASSERT_TRUE(r->beam.has_value());
  EXPECT_GT(r->beam->timed, 0u);
  const Bytes searched = file();
  const Json json = report_json(options_, *r);
  const std::string text = json.dump();
  for (const char* key : {"rule_us", "winner_us", "rule_ms", "winner_ms", "winner_opts"})
    EXPECT_NE(text.find(key), std::string::npos) << key;
  const std::string page = report_page(report_data(options_, *r));
  EXPECT_NE(page.find("lists of opts tried"), std::string::npos);
  EXPECT_NE(report_line(options_, *r).find("; beam 1: "), std::string::npos);
  options_.beam = 0;
  options_.recipes = recipes_in(options_.output_path);
  ASSERT_TRUE(build(small_model).ok());
  EXPECT_EQ(file(), searched);
}

TEST_F(BuildModel, WhatCannotRunHereIsNotCheckedAndTheLineSaysWhy) {
  options_.target = *hal::parse_target("cl");
  const auto r = build(small_model);
  ASSERT_TRUE(r.ok()) << r.error().what;
  EXPECT_NE(report_line(options_, *r).find("self-check none: no device cl on this host; golden"),
            std::string::npos)
      << report_line(options_, *r);
  hal::Target other = *hal::parse_target("cpu:x86-64");
  other.arch = hal::host_arch();
  other.features = {"sse9"};
  EXPECT_EQ(why_no_check_device(other), "this host lacks sse9");
}

TEST_F(BuildModel, FailedBuildLeavesNothing) {
  options_.role = bundle::Role::kRoad;
  auto r = build(cabin_model);
  ASSERT_FALSE(r.ok());
  EXPECT_TRUE(list_dir(dir_->path())->empty());
}

}  // namespace
}  // namespace modeld::tools
