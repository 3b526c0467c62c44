#include "runtime/exec/plan.h"

#include <gtest/gtest.h>

#include <functional>

namespace modeld::exec {
namespace {

// One kernel y = f(x, w, n), a copy of y's first half, one arena, one weight.
Plan small_plan() {
  Plan p;
  ProgramRow k;
  k.name = "k";
  k.buffer_args = 3;
  k.scalar_args = 1;
  k.outs = {0};
  k.ins = {1, 2};
  k.image.code.assign(100, std::byte{0xc3});
  k.image.size = 100;
  p.programs = {k};
  p.weights = {WeightRow{"w", 64, 128}};
  p.arenas = {ArenaRow{0, 512}};
  p.buffers = {BufferRow{BufferRow::Kind::kWeight, 0, 0, 0, 128},
               BufferRow{BufferRow::Kind::kArena, 0, 0, 256, 256}};
  Entry e;
  e.name = "run";
  e.inputs = {TensorInfo{"x", ir::DType::kF32, {4, 4}, 64, 0}};
  e.outputs = {TensorInfo{"y", ir::DType::kF32, {32}, 128, 1}};
  e.scalars = {ScalarInfo{"n", 0, 9, 2}};
  using K = ArgRef::Kind;
  e.calls = {CallRow{CallRow::Kind::kProgram,
                     0,
                     {{K::kBuffer, 1, 0}, {K::kSlot, 0, 0}, {K::kBuffer, 0, 0}, {K::kScalar, 2, 0}},
                     0},
             CallRow{CallRow::Kind::kCopy, 0, {{K::kSlot, 1, 64}, {K::kBuffer, 1, 0}}, 64}};
  p.entries = {e};
  return p;
}

TEST(CheckPlan, AcceptsAPlanWhoseParts) {
  const Status s = check_plan(small_plan(), 192, 0);
  EXPECT_TRUE(s.ok()) << s.error().what;
}

struct Damage {
  const char* name;
  std::function<void(Plan&)> apply;
};

class CheckPlanRefuses : public testing::TestWithParam<Damage> {};

TEST_P(CheckPlanRefuses, Damage) {
  Plan p = small_plan();
  GetParam().apply(p);
  const Status s = check_plan(p, 192, 0);
  ASSERT_FALSE(s.ok());
  EXPECT_EQ(s.error().code, Errc::kCorrupt);
  EXPECT_EQ(s.error().what.rfind("plan: ", 0), 0u) << s.error().what;
}

using K = ArgRef::Kind;
const Damage kDamages[] = {
    {"WeightPastSection", [](Plan& p) { p.weights[0].size = 129; }},
    {"WeightOffsetOverflow", [](Plan& p) { p.weights[0].offset = ~uint64_t{63}; }},
    {"WeightUnaligned",
     [](Plan& p) {
       p.weights[0] = {"w", 32, 16};
     }},
    {"BufferPastArena", [](Plan& p) { p.buffers[1].size = 257; }},
    {"BufferOfNoRow", [](Plan& p) { p.buffers[1].index = 1; }},
    {"BufferOfNoKind", [](Plan& p) { p.buffers[1].kind = static_cast<BufferRow::Kind>(7); }},
    {"BufferIndex", [](Plan& p) { p.entries[0].calls[0].args[0].index = 2; }},
    {"SlotOfNoTensor", [](Plan& p) { p.entries[0].calls[0].args[1].index = 2; }},
    {"SlotOffset", [](Plan& p) { p.entries[0].calls[1].args[0].offset = 65; }},
    {"ScalarSlotOfTensor", [](Plan& p) { p.entries[0].calls[0].args[3].index = 0; }},
    {"ScalarWhereAddress",
     [](Plan& p) {
       p.entries[0].calls[0].args[0] = {K::kScalar, 2, 0};
     }},
    {"ArgOfNoKind", [](Plan& p) { p.entries[0].calls[0].args[0].kind = static_cast<K>(9); }},
    {"ProgramIndex", [](Plan& p) { p.entries[0].calls[0].program = 1; }},
    {"ArgCount", [](Plan& p) { p.entries[0].calls[0].args.pop_back(); }},
    {"WritesWeights", [](Plan& p) { p.entries[0].calls[0].args[0].index = 0; }},
    {"CopyIntoWeights",
     [](Plan& p) {
       p.entries[0].calls[1].args[0] = {K::kBuffer, 0, 0};
     }},
    {"CopyTooLong", [](Plan& p) { p.entries[0].calls[1].copy_bytes = 65; }},
    {"CopyOfScalar",
     [](Plan& p) {
       p.entries[0].calls[1].args[1] = {K::kScalar, 2, 0};
     }},
    {"SlotTakenTwice", [](Plan& p) { p.entries[0].outputs[0].slot = 0; }},
    {"SlotOutOfRange", [](Plan& p) { p.entries[0].outputs[0].slot = 3; }},
    {"TensorBytes", [](Plan& p) { p.entries[0].inputs[0].bytes = 60; }},
    {"TensorDimsOverflow",
     [](Plan& p) {
       p.entries[0].inputs[0].dims = {1 << 30, 1 << 30, 1 << 30, 16};
     }},
    {"TensorNegativeDim",
     [](Plan& p) {
       p.entries[0].inputs[0].dims = {-4, -4};
     }},
    {"TensorWeakType", [](Plan& p) { p.entries[0].inputs[0].dtype = ir::DType::kWeakFloat; }},
    {"TensorNoType", [](Plan& p) { p.entries[0].inputs[0].dtype = static_cast<ir::DType>(200); }},
    {"ScalarRange", [](Plan& p) { p.entries[0].scalars[0].vmin = 10; }},
    {"EntryTwice", [](Plan& p) { p.entries.push_back(p.entries[0]); }},
    {"NoGroups", [](Plan& p) { p.programs[0].groups[0] = 0; }},
    {"OutPosition", [](Plan& p) { p.programs[0].outs = {3}; }},
    {"EntryPoint", [](Plan& p) { p.programs[0].image.entry_offset = 100; }},
    {"ImageSize", [](Plan& p) { p.programs[0].image.size = 99; }},
    {"ImageOutsideSection", [](Plan& p) { p.programs[0].image.code.clear(); }},
    {"ImageAlignment", [](Plan& p) { p.programs[0].image.alignment = 48; }},
    {"TooManyArguments", [](Plan& p) { p.programs[0].scalar_args = 0xffffffffu; }},
};
INSTANTIATE_TEST_SUITE_P(Plans, CheckPlanRefuses, testing::ValuesIn(kDamages), [](const auto& i) {
  return std::string(i.param.name);
});

TEST(CheckPlan, AcceptsAKernelWithoutBinary) {
  Plan p = small_plan();
  EXPECT_EQ(p.missing_images(), 0u);
  strip_image(p.programs[0]);
  EXPECT_EQ(p.missing_images(), 1u);
  EXPECT_TRUE(check_plan(p, 192, 0).ok());
}

TEST(PackImages, AlignsRowsAndKeepsThemValid) {
  Plan p = small_plan();
  p.programs.push_back(p.programs[0]);
  p.programs.push_back(p.programs[0]);
  p.programs[2].image.alignment = 4096;
  const auto section = pack_images(p);
  ASSERT_TRUE(section.ok());
  EXPECT_EQ(p.programs[0].image.offset, 0u);
  EXPECT_EQ(p.programs[1].image.offset, 128u);
  EXPECT_EQ(p.programs[2].image.offset, 4096u);
  EXPECT_EQ(section->size(), 4196u);
  for (ProgramRow& r : p.programs) r.image.code.clear();
  EXPECT_TRUE(check_plan(p, 192, section->size()).ok());
  EXPECT_FALSE(check_plan(p, 192, section->size() - 1).ok());
}

TEST(Plan, WeightsSectionEndsAligned) {
  EXPECT_EQ(small_plan().weights_size(), 192u);
  Plan p = small_plan();
  p.weights[0].size = 1;
  EXPECT_EQ(p.weights_size(), 128u);
}

}  // namespace
}  // namespace modeld::exec
