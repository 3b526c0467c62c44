// LoadedPlan with hand-made plans: kernels written in C, compiled by runtime/compile.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "hal/backends.h"
#include "hal/base/mapping.h"

#include "runtime/compile/compiler.h"
#include "runtime/exec/counting_new.h"
#include "runtime/exec/loaded_plan.h"

namespace modeld::exec {
namespace {

constexpr size_t kN = 64;
constexpr uint64_t kBytes = kN * sizeof(float);
using K = ArgRef::Kind;
const Deadline kSoon() {
  return Deadline::in_ms(5'000);
}

compile::KernelSource source_of(const std::string& name, const std::string& expression) {
  return {name,
          "void " + name +
              "(const unsigned long long* w, unsigned core) {\n"
              "  float* y = (float*)w[0]; const float* a = (const float*)w[1];\n"
              "  const float* b = (const float*)w[2]; const float s = (float)(long long)w[3];\n"
              "  for (unsigned i = core * 32; i < core * 32 + 32; ++i) y[i] = " +
              expression + ";\n}\n"};
}

ProgramRow row_of(const std::string& name, const compile::CompiledImage& image) {
  ProgramRow r;
  r.name = name;
  r.buffer_args = 3;
  r.scalar_args = 1;
  r.outs = {0};
  r.ins = {1, 2};
  r.groups[0] = 2;  // two core ranges of 32 elements
  r.image.code = image.code;
  r.image.size = image.code.size();
  r.image.entry_offset = image.entry_offset;
  r.image.alignment = image.alignment;
  return r;
}

// Kernels are compiled once for all tests of this file.
const std::vector<ProgramRow>& kernels() {
  static const std::vector<ProgramRow> rows = [] {
    const std::vector<compile::KernelSource> sources = {source_of("madd", "a[i] * s + b[i]"),
                                                        source_of("scale", "(a[i] + 1.0f) * s")};
    const auto target = hal::parse_target("cpu");
    auto compiler = compile::make_clang_compiler(*target);
    EXPECT_TRUE(compiler.ok());
    const auto images = (*compiler)->do_compile(sources);
    EXPECT_TRUE(images.ok());
    std::vector<ProgramRow> out;
    for (size_t i = 0; i < sources.size(); ++i)
      out.push_back(row_of(sources[i].name, (*images)[i]));
    return out;
  }();
  return rows;
}

TensorInfo tensor(const std::string& name, uint32_t slot) {
  return {name, ir::DType::kF32, {kN}, kBytes, slot};
}

// run: t = x * n + w; y = (t + 1) * 2.   half: y = (x + 1) * n, through the same arena.
Plan two_entries() {
  Plan p;
  p.target = *hal::parse_target("cpu");
  p.programs = kernels();
  p.weights = {{"w", 0, kBytes}};
  p.arenas = {{0, kBytes + 64}};
  p.buffers = {{BufferRow::Kind::kWeight, 0, 0, 0, kBytes},
               {BufferRow::Kind::kArena, 0, 0, 64, kBytes}};
  p.weight_bytes.resize(kBytes);
  for (size_t i = 0; i < kN; ++i) {
    const float v = static_cast<float>(i);
    std::memcpy(p.weight_bytes.data() + i * 4, &v, 4);
  }
  Entry run;
  run.name = "run";
  run.inputs = {tensor("x", 0)};
  run.outputs = {tensor("y", 1)};
  run.scalars = {{"n", 1, 100, 2}};
  run.calls = {{CallRow::Kind::kProgram,
                0,
                {{K::kBuffer, 1, 0}, {K::kSlot, 0, 0}, {K::kBuffer, 0, 0}, {K::kScalar, 2, 0}},
                0},
               {CallRow::Kind::kProgram,
                1,
                {{K::kSlot, 1, 0}, {K::kBuffer, 1, 0}, {K::kBuffer, 1, 0}, {K::kConst, 0, 2}},
                0}};
  Entry half = run;
  half.name = "half";
  half.calls = {{CallRow::Kind::kProgram,
                 1,
                 {{K::kBuffer, 1, 0}, {K::kSlot, 0, 0}, {K::kSlot, 0, 0}, {K::kScalar, 2, 0}},
                 0},
                {CallRow::Kind::kCopy, 0, {{K::kSlot, 1, 0}, {K::kBuffer, 1, 0}}, kBytes}};
  p.entries = {run, half};
  return p;
}

struct alignas(64) Floats {
  std::array<float, kN> v{};
  uint64_t addr() { return reinterpret_cast<uint64_t>(v.data()); }
};

Floats counting() {
  Floats f;
  for (size_t i = 0; i < kN; ++i) f.v[i] = static_cast<float>(i) * 0.25f;
  return f;
}

class Replay : public testing::Test {
 protected:
  void SetUp() override {
    auto d = hal::open_device("cpu");
    ASSERT_TRUE(d.ok()) << d.error().what;
    device_ = std::move(*d);
  }
  std::unique_ptr<LoadedPlan> load(const Plan& p, const PlanSources& sources = {}) {
    auto loaded = LoadedPlan::load(p, *device_, sources);
    EXPECT_TRUE(loaded.ok()) << loaded.error().what;
    return loaded.ok() ? std::move(*loaded) : nullptr;
  }
  void expect_run(LoadedPlan& plan, Floats& x, Floats& y, uint64_t n) {
    const auto id = plan.entry("run");
    ASSERT_TRUE(id.ok());
    const std::array<uint64_t, 3> slots = {x.addr(), y.addr(), n};
    const Status s = plan.run(*id, slots, kSoon());
    ASSERT_TRUE(s.ok()) << s.error().what;
    for (size_t i = 0; i < kN; ++i)
      ASSERT_EQ(y.v[i], (x.v[i] * static_cast<float>(n) + static_cast<float>(i) + 1.0f) * 2.0f)
          << i;
  }
  std::unique_ptr<hal::Device> device_;
};

TEST_F(Replay, RunsCallsInOrderOnSlotsWeightsAndScalars) {
  const auto plan = load(two_entries());
  Floats x = counting(), y;
  expect_run(*plan, x, y, 3);
  Floats x2, y2;
  expect_run(*plan, x2, y2, 7);
}

TEST_F(Replay, TwoEntriesShareOneArena) {
  const Plan p = two_entries();
  const auto plan = load(p);
  EXPECT_EQ(plan->arenas().size(), 1u);
  Floats x = counting(), y;
  const auto half = plan->entry("half");
  ASSERT_TRUE(half.ok());
  for (int round = 0; round < 3; ++round) {
    const std::array<uint64_t, 3> slots = {x.addr(), y.addr(), 4};
    ASSERT_TRUE(plan->run(*half, slots, kSoon()).ok());
    for (size_t i = 0; i < kN; ++i) ASSERT_EQ(y.v[i], (x.v[i] + 1.0f) * 4.0f);
    expect_run(*plan, x, y, 5);
  }
}

TEST_F(Replay, PoisonedArenaChangesNothing) {
  const auto plan = load(two_entries());
  Floats x = counting(), y;
  expect_run(*plan, x, y, 3);
  for (const hal::Buffer& arena : plan->arenas()) {
    ASSERT_FALSE(arena.cpu().empty());
    std::fill(arena.cpu().begin(), arena.cpu().end(), std::byte{0xff});  // NaN
  }
  expect_run(*plan, x, y, 3);
}

TEST_F(Replay, BytesAroundArenaViewsStayAsTheyWere) {
  const auto plan = load(two_entries());
  const auto arena = plan->arenas()[0].cpu();
  std::fill(arena.begin(), arena.end(), std::byte{0xa5});
  Floats x = counting(), y;
  for (uint64_t n = 1; n < 200; ++n) expect_run(*plan, x, y, n % 100 + 1);
  for (size_t i = 0; i < 64; ++i) ASSERT_EQ(arena[i], std::byte{0xa5}) << i;
}

TEST_F(Replay, OutputFedBackThroughSwappedSlots) {
  const auto plan = load(two_entries());
  const auto half = plan->entry("half");
  ASSERT_TRUE(half.ok());
  Floats a, b;
  std::array<uint64_t, 3> slots = {a.addr(), b.addr(), 2};
  float want = 0;
  for (int step = 0; step < 5; ++step) {
    ASSERT_TRUE(plan->run(*half, slots, kSoon()).ok());
    want = (want + 1) * 2;
    EXPECT_EQ(*reinterpret_cast<const float*>(slots[1]), want);
    std::swap(slots[0], slots[1]);
  }
  Floats fresh;
  fresh.v.fill(100);
  slots = {fresh.addr(), a.addr(), 2};
  ASSERT_TRUE(plan->run(*half, slots, kSoon()).ok());
  EXPECT_EQ(a.v[0], 202.0f) << "a recording must not remember earlier addresses";
}

TEST_F(Replay, ViewOfAnInputIsRebound) {
  Plan p = two_entries();
  // run2: y[0..31] = x[32..63] by a copy from inside of the input.
  Entry e = p.entries[0];
  e.name = "view";
  e.calls = {{CallRow::Kind::kCopy, 0, {{K::kSlot, 1, 128}, {K::kSlot, 0, 64}}, 64}};
  p.entries.push_back(e);
  const auto plan = load(p);
  const auto id = plan->entry("view");
  ASSERT_TRUE(id.ok());
  Floats x = counting(), y, z;
  for (Floats* out : {&y, &z, &y}) {
    out->v.fill(-1);
    const std::array<uint64_t, 3> slots = {x.addr(), out->addr(), 1};
    ASSERT_TRUE(plan->run(*id, slots, kSoon()).ok());
    for (size_t i = 0; i < kN; ++i)
      ASSERT_EQ(out->v[i], i >= 32 && i < 48 ? x.v[i - 16] : -1.0f) << i;
  }
}

TEST_F(Replay, RunsAllocateNothing) {
  if (!counts_allocations())
    GTEST_SKIP() << "the sanitizer owns operator new; the release build counts";
  const auto plan = load(two_entries());
  const auto run = plan->entry("run"), half = plan->entry("half");
  ASSERT_TRUE(run.ok() && half.ok());
  Floats x = counting(), y, z;
  const std::array<uint64_t, 3> a = {x.addr(), y.addr(), 3}, b = {x.addr(), z.addr(), 4};
  ASSERT_TRUE(plan->run(*run, a, kSoon()).ok());
  const uint64_t before = allocation_count();
  for (int i = 0; i < 200; ++i) {
    if (!plan->run(*run, i % 2 ? a : b, kSoon()).ok()) std::abort();
    if (!plan->run(*half, i % 3 ? a : b, kSoon()).ok()) std::abort();
  }
  EXPECT_EQ(allocation_count() - before, 0u);
}

TEST_F(Replay, SecondRunSubmittedWithoutWaitingSeesTheFirst) {
  const auto plan = load(two_entries());
  const auto half = plan->entry("half");
  ASSERT_TRUE(half.ok());
  Floats a, b;
  const std::array<uint64_t, 3> forth = {a.addr(), b.addr(), 2}, back = {b.addr(), a.addr(), 2};
  for (int i = 0; i < 20; ++i) {
    a.v.fill(1);
    const auto first = plan->submit(*half, forth);
    const auto second = plan->submit(*half, back);
    ASSERT_TRUE(first.ok() && second.ok());
    ASSERT_TRUE(plan->wait(*second, kSoon()).ok());
    for (size_t k = 0; k < kN; ++k) ASSERT_EQ(a.v[k], 10.0f);
  }
}

TEST_F(Replay, WeightsInPlaceAndCodeFromAFileSection) {
  Plan p = two_entries();
  auto section = pack_images(p);
  ASSERT_TRUE(section.ok());
  section->resize((section->size() + kPageBytes - 1) / kPageBytes * kPageBytes);
  const auto fd = sealed_memfd("program-section", *section);
  ASSERT_TRUE(fd.ok());
  for (ProgramRow& r : p.programs) r.image.code.clear();
  alignas(64) std::array<std::byte, kBytes> weights{};
  std::copy(p.weight_bytes.begin(), p.weight_bytes.end(), weights.begin());
  p.weight_bytes.clear();
  PlanSources sources;
  sources.weights = weights;
  sources.program_fd = fd->get();
  sources.program_fd_length = section->size();
  const auto plan = load(p, sources);
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(plan->bound_bytes(), p.arenas[0].size) << "weights are used in place";
  Floats x = counting(), y;
  expect_run(*plan, x, y, 3);
}

TEST_F(Replay, MissingBinaryIsRefusedByCall) {
  Plan p = two_entries();
  strip_image(p.programs[1]);
  const auto loaded = LoadedPlan::load(p, *device_);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code, Errc::kCompile);
  EXPECT_EQ(loaded.error().what, "call 1 (scale) of entry run has no binary");
}

TEST_F(Replay, OtherArchIsRefused) {
  Plan p = two_entries();
  p.target = *hal::parse_target(hal::host_arch() == "aarch64" ? "cpu:x86-64-v3" : "cpu:aarch64");
  const auto loaded = LoadedPlan::load(p, *device_);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code, Errc::kMismatch);
}

TEST_F(Replay, BadSlotsAreRefused) {
  const auto plan = load(two_entries());
  const auto run = plan->entry("run");
  ASSERT_TRUE(run.ok());
  Floats x;
  const std::array<uint64_t, 3> no_output = {x.addr(), 0, 3};
  EXPECT_EQ(plan->run(*run, std::span(no_output).first(2), kSoon()).error().code, Errc::kInvalid);
  EXPECT_EQ(plan->run(*run, no_output, kSoon()).error().code, Errc::kInvalid);
  EXPECT_EQ(plan->entry("walk").error().code, Errc::kNotFound);
}

TEST_F(Replay, DryRunTouchesEveryEntry) {
  const auto plan = load(two_entries());
  EXPECT_TRUE(plan->dry_run(kSoon()).ok());
  Floats x = counting(), y;
  expect_run(*plan, x, y, 3);
}

}  // namespace
}  // namespace modeld::exec
