#include "runtime/exec/compile_plan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "hal/base/fs.h"

#include "runtime/exec/prepare.h"
#include "runtime/exec/realize.h"
#include "runtime/ir/derived.h"
#include "runtime/ir/print.h"
#include "runtime/tensor/nn.h"

#include "selftest/testing/tensor_interp.h"

namespace modeld::exec {
namespace {

using tensor::Dims;
using tensor::Tensor;

// The laboratory, with its inputs' bytes at hand for the pipeline.
class Lab : public testing::TensorLab {
 public:
  Tensor random(const Dims& dims, uint64_t seed, ir::DType dtype = ir::DType::kF32) {
    return keep(TensorLab::random(dims, seed, dtype));
  }
  Tensor ints(const Dims& dims, const std::vector<int64_t>& v) {
    return keep(TensorLab::ints(dims, v));
  }
  Tensor constant(const Dims& dims, uint64_t seed) {
    const std::vector<double>& v = data(random(dims, seed));
    return Tensor::from_floats(g, store, std::vector<float>(v.begin(), v.end()), dims);
  }
  InputData bytes_below(const Tensor& t) const {
    InputData out;
    for (const ir::Node* n : ir::toposort(t.node()))
      if (n->op == ir::Op::kBuffer && store.find(n->as<ir::ParamArg>().slot) == nullptr)
        out[n->as<ir::ParamArg>().name] = bytes_.at(n->as<ir::ParamArg>().name);
    return out;
  }

 private:
  Tensor keep(const Tensor& t) {
    const std::vector<double>& v = data(t);
    const auto host = ir::is_float(t.dtype())
                          ? tensor::host_floats(t.dims(), v, t.dtype())
                          : tensor::host_ints(t.dims(), {v.begin(), v.end()}, t.dtype());
    bytes_[ir::base(t.node())->as<ir::ParamArg>().name] = tensor::to_bytes(host);
    return t;
  }
  InputData bytes_;
};

hal::Target host() {
  return *hal::parse_target("cpu");
}

CompileOptions options_of(int jobs = 1) {
  CompileOptions o;
  o.target = host();
  o.jobs = jobs;
  return o;
}

// What the pipeline computes for a tensor of the lab.
std::vector<double> realized(Lab& lab, const Tensor& t) {
  const ir::Node* node = t.node();
  const auto r = realize(lab.g, std::span(&node, 1), lab.store, lab.bytes_below(t));
  EXPECT_TRUE(r.ok()) << r.error().what;
  return r.ok() ? r->outputs[0].to_doubles() : std::vector<double>{};
}

void expect_same(Lab& lab, const Tensor& t, double tolerance = 1e-5) {
  const std::vector<double> want = lab.run(t);
  const std::vector<double> got = realized(lab, t);
  ASSERT_EQ(got.size(), want.size());
  double scale = 1e-30;
  for (const double w : want) scale = std::max(scale, std::abs(w));
  for (size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(got[i], want[i], tolerance * scale) << "element " << i;
}

TEST(Realize, Elementwise) {
  Lab lab;
  const Tensor a = lab.random({5, 7}, 1), b = lab.random({7}, 2);
  expect_same(lab, (a + b) * 3.0 - a.maximum(b));
}

TEST(Realize, TwoKernelChainThroughAnArena) {
  Lab lab;
  const Tensor a = lab.random({33, 17}, 3);
  expect_same(lab, a - a.sum({1}, true));
}

TEST(Realize, Matmul) {
  Lab lab;
  expect_same(lab, lab.random({12, 20}, 4).matmul(lab.random({20, 9}, 5)));
}

TEST(Realize, ConvWithPaddingStrideAndBias) {
  Lab lab;
  tensor::ConvSpec spec;
  spec.strides = {2, 2};
  spec.pads_begin = {1, 1};
  spec.pads_end = {1, 1};
  expect_same(lab, tensor::conv(lab.random({1, 3, 11, 9}, 6), lab.random({8, 3, 3, 3}, 7),
                                lab.random({8}, 8), spec));
}

TEST(Realize, SoftmaxAndLayerNorm) {
  Lab lab;
  const Tensor x = lab.random({6, 40}, 9);
  expect_same(lab, tensor::softmax(x, 1));
  expect_same(lab, tensor::layer_norm(x, 1, 1e-5), 1e-4);
}

TEST(Realize, IntegersAreExact) {
  Lab lab;
  const Tensor a = lab.ints({4}, {7, -7, 1 << 30, 5}), b = lab.ints({4}, {2, 2, 3, -3});
  expect_same(lab, a * b + a.floor_div(b), 0);
}

TEST(Realize, HalfPrecision) {
  Lab lab;
  const Tensor a = lab.random({8, 16}, 10, ir::DType::kF16),
               b = lab.random({16, 8}, 11, ir::DType::kF16);
  expect_same(lab, a.matmul(b), 1e-2);
}

TEST(Realize, OutputThatIsAnInputIsCopied) {
  Lab lab;
  const Tensor a = lab.random({9}, 12);
  expect_same(lab, a, 0);
}

TEST(Realize, InputsAndVariablesByName) {
  Lab lab;
  const Tensor x = Tensor::input(lab.g, "x", {4}, ir::DType::kF32);
  const Tensor n = Tensor::variable(lab.g, "n", 0, 100);
  const Tensor y = x * n.cast(ir::DType::kF32);
  const ir::Node* node = y.node();
  const float v[4] = {1, 2, 3, 4};
  const auto bytes = std::as_bytes(std::span(v));
  const InputData data = {{"x", {bytes.begin(), bytes.end()}}};
  const auto r = realize(lab.g, std::span(&node, 1), lab.store, data, {{"n", 7}});
  ASSERT_TRUE(r.ok()) << r.error().what;
  EXPECT_EQ(r->outputs[0].to_doubles(), (std::vector<double>{7, 14, 21, 28}));
  const auto missing = realize(lab.g, std::span(&node, 1), lab.store, {}, {{"n", 7}});
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().what, "no data for input x");
  const auto outside = realize(lab.g, std::span(&node, 1), lab.store, data, {{"n", 101}});
  ASSERT_FALSE(outside.ok());
  EXPECT_EQ(outside.error().code, Errc::kInvalid);
}

// A small model with a state, two entries and a shared kernel.
struct Model {
  Lab lab;
  std::vector<EntrySpec> entries;

  Model() {
    const Tensor x = Tensor::input(lab.g, "x", {2, 8}, ir::DType::kF32);
    const Tensor state = Tensor::input(lab.g, "h", {2, 8}, ir::DType::kF32);
    const Tensor w = lab.constant({8, 8}, 20);
    lab.constant({1000}, 21);  // a constant nobody reads
    const Tensor mixed = x.matmul(w) + state;
    const Tensor next = mixed - mixed.mean({1}, true);
    const Tensor out = next.sum({1});
    EntrySpec run;
    run.name = "run";
    run.inputs = {{"x", x.node()}, {"h", state.node()}};
    run.outputs = {{"out", out.node()}, {"next_h", next.node()}};
    const Tensor in2 = Tensor::input(lab.g, "pixels", {2, 8}, ir::DType::kF32);
    EntrySpec warp;
    warp.name = "warp/road/8x2";
    warp.inputs = {{"pixels", in2.node()}};
    warp.outputs = {{"warped", (in2 * 2.0 + 1.0).node()}};
    warp.no_contract = true;
    EntrySpec again = warp;
    again.name = "warp/road/again";
    entries = {run, warp, again};
  }
  Result<Plan> compile(const CompileOptions& o) {
    return compile_plan(lab.g, entries, lab.store, o);
  }
};

// Everything a bundle would hold, as text.
std::string fingerprint(const Plan& p) {
  std::string out = p.codegen_config + "\n" + p.compiler + "\n";
  for (const ProgramRow& r : p.programs)
    out += strf("%s %s %s %s %llu %s\n", r.name.c_str(), r.key.hex().c_str(),
                r.applied_opts.c_str(), blake2b(r.image.code).hex().c_str(),
                static_cast<unsigned long long>(r.groups[0]), r.ast_text.c_str());
  for (const BufferRow& b : p.buffers)
    out += strf("%d %u %llu %llu\n", static_cast<int>(b.kind), b.index,
                static_cast<unsigned long long>(b.offset), static_cast<unsigned long long>(b.size));
  for (const Entry& e : p.entries) {
    out += e.name + "\n";
    for (const CallRow& c : e.calls) {
      out += strf("%u", c.program);
      for (const ArgRef& a : c.args)
        out += strf(" %d:%u:%llu", static_cast<int>(a.kind), a.index,
                    static_cast<unsigned long long>(a.offset));
      out += "\n";
    }
  }
  return out + blake2b(p.weight_bytes).hex();
}

TEST(CompilePlan, InterfaceSlotsAndWeights) {
  Model m;
  const auto plan = m.compile(options_of());
  ASSERT_TRUE(plan.ok()) << plan.error().what;
  const Entry* run = plan->find_entry("run");
  ASSERT_NE(run, nullptr);
  EXPECT_EQ(run->slot_count(), 4u);
  EXPECT_EQ(run->find_input("h")->slot, 1u);
  EXPECT_EQ(run->find_output("next_h")->slot, 3u);
  EXPECT_EQ(run->find_output("out")->dims, (std::vector<int64_t>{2}));
  ASSERT_EQ(plan->weights.size(), 1u) << "a constant nobody reads is not kept";
  EXPECT_EQ(plan->weights[0].size, 256u);
  EXPECT_EQ(plan->missing_images(), 0u);
  EXPECT_TRUE(
      std::is_sorted(plan->programs.begin(), plan->programs.end(),
                     [](const ProgramRow& a, const ProgramRow& b) { return a.key < b.key; }));
}

TEST(CompilePlan, EqualKernelsOfTwoEntriesAreOneProgram) {
  Model m;
  const auto plan = m.compile(options_of());
  ASSERT_TRUE(plan.ok()) << plan.error().what;
  const Entry* a = plan->find_entry("warp/road/8x2");
  const Entry* b = plan->find_entry("warp/road/again");
  ASSERT_EQ(a->calls.size(), 1u);
  EXPECT_EQ(a->calls[0].program, b->calls[0].program);
  EXPECT_TRUE(plan->programs[a->calls[0].program].no_contract);
  for (const CallRow& c : plan->find_entry("run")->calls)
    EXPECT_TRUE(c.kind == CallRow::Kind::kCopy || !plan->programs[c.program].no_contract);
}

TEST(CompilePlan, JobsAndRepetitionDoNotChangeThePlan) {
  std::set<std::string> prints;
  for (const int jobs : {0, 1, 2, 5, 2}) {
    Model m;
    const auto plan = m.compile(options_of(jobs));
    ASSERT_TRUE(plan.ok()) << plan.error().what;
    prints.insert(fingerprint(*plan));
  }
  EXPECT_EQ(prints.size(), 1u);
}

TEST(CompilePlan, RunsWithStateFeedback) {
  Model m;
  const auto plan = m.compile(options_of());
  ASSERT_TRUE(plan.ok()) << plan.error().what;
  std::vector<float> x(16), h(16, 0.0f);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) / 8.0f - 1.0f;
  const auto bytes = [](const std::vector<float>& v) {
    const auto b = std::as_bytes(std::span(v));
    return std::vector<std::byte>(b.begin(), b.end());
  };
  testing::TensorInterp interp(m.lab.g, &m.lab.store);
  std::vector<std::byte> state = bytes(h);
  std::vector<double> want_h(16, 0.0);
  for (int step = 0; step < 4; ++step) {
    const auto out = run_once(*plan, "run", {{"x", bytes(x)}, {"h", state}});
    ASSERT_TRUE(out.ok()) << out.error().what;
    interp.bind(Tensor(m.lab.g, m.entries[0].inputs[0].node),
                tensor::host_floats({2, 8}, std::vector<double>(x.begin(), x.end())));
    interp.bind(Tensor(m.lab.g, m.entries[0].inputs[1].node), tensor::host_floats({2, 8}, want_h));
    const auto want = interp.run(m.entries[0].outputs[1].node);
    ASSERT_TRUE(want.ok()) << want.error().what;
    const std::vector<double> got = (*out)[1].to_doubles();
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want->at(i), 1e-4) << step;
    state = (*out)[1].bytes;
    for (size_t i = 0; i < got.size(); ++i) want_h[i] = want->at(i);
  }
}

TEST(CompilePlan, CachesAreToldApart) {
  auto dir = TempDir::create();
  ASSERT_TRUE(dir.ok());
  const auto stats = [](Result<Plan> p) {
    EXPECT_TRUE(p.ok()) << p.error().what;
    return p.ok() ? p->stats : CompileStats{};
  };
  CompileOptions o = options_of();
  o.program_cache = make_program_cache(dir->path());
  Model m;
  const CompileStats cold = stats(m.compile(o));
  EXPECT_EQ(cold.cold, cold.kernels);
  EXPECT_EQ(cold.lowered, cold.kernels);
  const CompileStats again = stats(m.compile(o));
  EXPECT_EQ(again.memory_hits, cold.kernels);
  EXPECT_EQ(again.lowered, 0u) << "to_program_cache";
  o.program_cache = make_program_cache(dir->path());  // a fresh process
  const CompileStats disk = stats(m.compile(o));
  EXPECT_EQ(disk.disk_hits, cold.kernels);
  EXPECT_EQ(disk.lowered, cold.kernels) << "a disk hit still lowers and renders";
  CompileOptions other = o;
  other.noopt = true;
  EXPECT_EQ(stats(m.compile(other)).lowered, cold.kernels) << "a config switch must miss";
  EXPECT_EQ(stats(m.compile(o)).lowered, 0u) << "and switching back must hit";
}

TEST(CompilePlan, AssertNoCompileNamesTheKernel) {
  Model m;
  CompileOptions o = options_of();
  o.assert_no_compile = true;
  const auto plan = m.compile(o);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code, Errc::kCompile);
  EXPECT_NE(plan.error().what.find("MODELD_ASSERT_COMPILE"), std::string::npos);
}

TEST(CompilePlan, BufferThatNothingBindsIsNamed) {
  Model m;
  m.entries[0].inputs.pop_back();
  const auto plan = m.compile(options_of());
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().what, "entry run: buffer h is neither an input nor a constant");
}

TEST(CompilePlan, BadSpecsAreRefused) {
  Model m;
  m.entries[1].name = "run";
  EXPECT_EQ(m.compile(options_of()).error().code, Errc::kInvalid);
  Model n;
  n.entries[0].outputs.clear();
  EXPECT_EQ(n.compile(options_of()).error().code, Errc::kInvalid);
  Model o;
  CompileOptions gpu = options_of();
  gpu.target.kind = "amd";
  EXPECT_EQ(o.compile(gpu).error().code, Errc::kUnsupported);
}

TEST(Prepare, CompletePlanNeedsNoCompiler) {
  Model m;
  auto plan = m.compile(options_of());
  ASSERT_TRUE(plan.ok()) << plan.error().what;
  CompileOptions o = options_of();
  o.clang = "no-such-compiler";
  const auto report = prepare(*plan, PreparePolicy::kMissing, o);
  ASSERT_TRUE(report.ok()) << report.error().what;
  EXPECT_EQ(report->prepared, 0u);
}

TEST(Prepare, MissingBinaryIsCompiledToTheSameBytes) {
  Model m;
  auto plan = m.compile(options_of());
  ASSERT_TRUE(plan.ok()) << plan.error().what;
  for (size_t i = 0; i < plan->programs.size(); ++i) {
    const Image original = plan->programs[i].image;
    strip_image(plan->programs[i]);
    const auto report = prepare(*plan, PreparePolicy::kMissing, options_of());
    ASSERT_TRUE(report.ok()) << report.error().what;
    EXPECT_EQ(report->prepared, 1u);
    EXPECT_EQ(report->stats.cold, 1u);
    EXPECT_FALSE(report->is_other_compiler);
    EXPECT_EQ(plan->programs[i].image.code, original.code);
    EXPECT_EQ(plan->programs[i].image.entry_offset, original.entry_offset);
  }
}

TEST(Prepare, NeverRefusesByCall) {
  Model m;
  auto plan = m.compile(options_of());
  ASSERT_TRUE(plan.ok()) << plan.error().what;
  const Entry* warp = plan->find_entry("warp/road/8x2");
  ProgramRow& row = plan->programs[warp->calls[0].program];
  strip_image(row);
  const auto report = prepare(*plan, PreparePolicy::kNever, options_of());
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, Errc::kCompile);
  EXPECT_EQ(report.error().what,
            "call 0 (" + row.name +
                ") of entry warp/road/8x2 has no binary, and the policy is to compile nothing");
}

TEST(Prepare, ForeignConfigurationOrAlteredAstIsRefused) {
  Model m;
  auto plan = m.compile(options_of());
  ASSERT_TRUE(plan.ok()) << plan.error().what;
  strip_image(plan->programs[0]);
  Plan other = *plan;
  other.codegen_config += " beam=4";
  EXPECT_EQ(prepare(other, PreparePolicy::kMissing, options_of()).error().code, Errc::kMismatch);
  Plan altered = *plan;
  altered.programs[0].ast_text = altered.programs[1].ast_text;
  EXPECT_EQ(prepare(altered, PreparePolicy::kMissing, options_of()).error().code, Errc::kCorrupt);
  Plan garbage = *plan;
  garbage.programs[0].ast_text = "%0 = nonsense";
  EXPECT_FALSE(prepare(garbage, PreparePolicy::kMissing, options_of()).ok());
}

TEST(Prepare, PolicyNames) {
  EXPECT_EQ(*parse_prepare_policy("missing"), PreparePolicy::kMissing);
  EXPECT_EQ(*parse_prepare_policy("never"), PreparePolicy::kNever);
  EXPECT_EQ(parse_prepare_policy("sometimes").error().code, Errc::kInvalid);
}

}  // namespace
}  // namespace modeld::exec
