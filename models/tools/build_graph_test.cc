#include "models/tools/build_graph.h"

#include <gtest/gtest.h>

namespace modeld::tools {
namespace {

using ir::DType;
using tensor::Tensor;

const std::vector<bundle::SliceRow> kSlices = {{"plan", 0, 8}, {"pose", 8, 12}};

// Shapes of a road model, arithmetic of none.
SourceModel road_model(ir::Graph& g) {
  SourceModel m;
  const Tensor img = Tensor::input(g, "img", {1, 12, 16, 32}, DType::kU8);
  const Tensor big = Tensor::input(g, "big_img", {1, 12, 16, 32}, DType::kU8);
  const Tensor state = Tensor::input(g, "features_buffer", {1, 4}, DType::kF32);
  m.inputs = {{"img", img}, {"big_img", big}, {"features_buffer", state}};
  const Tensor sum = img.cast(DType::kF32).sum() + big.cast(DType::kF32).sum();
  m.outputs = {{"outputs", Tensor::full(g, {1, 12}, 1.0, DType::kF32) + sum},
               {"next_features_buffer", state + sum}};
  m.slices = kSlices;
  m.context_frames = 24;
  return m;
}

bool uses(const exec::EntrySpec& e, const ir::Node* node) {
  for (const auto& out : e.outputs)
    for (const ir::Node* n : ir::toposort(out.node))
      if (n == node) return true;
  return false;
}

const ir::Node* buffer_of(const ir::Node* n) {
  while (!n->is(ir::Op::kBuffer)) n = n->src(0);
  return n;
}

TEST(BuildGraph, RoadImagesBecomeTwoPartsOldestFirst) {
  ir::Graph g;
  SourceModel model = road_model(g);
  const ir::Node* whole = buffer_of(model.inputs[0].tensor.node());
  auto b = make_build_graph(g, std::move(model), bundle::Role::kRoad, {{1928, 1208}});
  ASSERT_TRUE(b.ok()) << b.error().what;
  const exec::EntrySpec& run = b->entries[0];
  ASSERT_EQ(run.inputs.size(), 5u);
  const char* const names[] = {"img/0", "img/1", "big_img/0", "big_img/1", "features_buffer"};
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(run.inputs[i].name, names[i]);
  ASSERT_EQ(b->manifest.splits.size(), 2u);
  EXPECT_EQ(b->manifest.splits[0].parts, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(b->manifest.splits[1].parts, (std::vector<uint32_t>{2, 3}));
  EXPECT_EQ(b->manifest.splits[0].dims, (std::vector<int64_t>{1, 12, 16, 32}));
  EXPECT_FALSE(uses(run, whole)) << "the whole picture must be gone";
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(uses(run, buffer_of(run.inputs[i].node))) << i;
}

TEST(BuildGraph, StatesSlicesAndContextComeFromTheModel) {
  ir::Graph g;
  auto b = make_build_graph(g, road_model(g), bundle::Role::kRoad, {{1928, 1208}, {1344, 760}});
  ASSERT_TRUE(b.ok()) << b.error().what;
  const bundle::Manifest& m = b->manifest;
  EXPECT_EQ(m.states, (std::vector<bundle::StatePair>{{4, 1}}));
  EXPECT_EQ(m.slices, (std::vector<bundle::SliceRow>{{"plan", 0, 8}, {"pose", 8, 12}}));
  EXPECT_EQ(m.context_frames, 24u);
  EXPECT_EQ(m.geometries, (std::vector<bundle::GeometryRow>{{"road", 1928, 1208, 1},
                                                            {"road", 1344, 760, 2},
                                                            {"wide", 1928, 1208, 3},
                                                            {"wide", 1344, 760, 4}}));
  ASSERT_EQ(b->entries.size(), 5u);
  EXPECT_EQ(b->entries[4].name, "warp/wide/1344x760");
  EXPECT_TRUE(b->entries[4].no_contract);
  EXPECT_FALSE(b->entries[0].no_contract);
  ASSERT_EQ(m.intrinsics.size(), 2u);
  EXPECT_EQ(m.intrinsics[0].width, 64u);
  EXPECT_EQ(m.intrinsics[0].height, 32u);
  EXPECT_DOUBLE_EQ(m.intrinsics[0].f, 910.0 * 64 / 512);
  EXPECT_DOUBLE_EQ(m.intrinsics[1].cy, 151.8 * 64 / 512);
}

TEST(BuildGraph, CabinPictureHasTheShapeOfTheFullOne) {
  ir::Graph g;
  SourceModel m;
  const Tensor img = Tensor::input(g, "input_img", {1, 21600}, DType::kU8);
  m.inputs = {{"input_img", img}};
  m.outputs = {{"outputs", img.cast(DType::kF32).slice({{}, {0, 12}})}};
  m.slices = kSlices;
  auto b = make_build_graph(g, m, bundle::Role::kCabin, {{1928, 1208}});
  ASSERT_TRUE(b.ok()) << b.error().what;
  EXPECT_EQ(b->manifest.intrinsics[0].width, 180u);
  EXPECT_EQ(b->manifest.intrinsics[0].height, 120u);
  EXPECT_TRUE(b->manifest.splits.empty());
  EXPECT_EQ(b->entries[1].name, "warp/cabin/1928x1208");
}

TEST(BuildGraph, GenericModelsHaveOnlyRun) {
  ir::Graph g;
  auto b = make_build_graph(g, road_model(g), bundle::Role::kGeneric, {{1928, 1208}});
  ASSERT_TRUE(b.ok()) << b.error().what;
  EXPECT_EQ(b->entries.size(), 1u);
  EXPECT_EQ(b->entries[0].inputs.size(), 3u);
  EXPECT_TRUE(b->manifest.splits.empty());
  EXPECT_EQ(b->manifest.states, (std::vector<bundle::StatePair>{{2, 1}}));
}

TEST(BuildGraph, RolesNameWhatTheModelLacks) {
  struct Case {
    const char* expected;
    bundle::Role role;
    void (*damage)(ir::Graph&, SourceModel&);
  };
  const Case cases[] = {
      {"role road needs an input named big_img", bundle::Role::kRoad,
       [](ir::Graph&, SourceModel& m) { m.inputs.erase(m.inputs.begin() + 1); }},
      {"role cabin needs an input named input_img", bundle::Role::kCabin,
       [](ir::Graph&, SourceModel&) {}},
      {"input img: expected u8 1x12xHxW", bundle::Role::kRoad,
       [](ir::Graph& g, SourceModel& m) {
         m.inputs[0].tensor = Tensor::input(g, "img", {1, 12, 16, 32}, DType::kF32);
       }},
      {"state features_buffer: input is f32 1x4", bundle::Role::kRoad,
       [](ir::Graph&, SourceModel& m) {
         m.outputs[1].tensor = m.outputs[1].tensor.reshape({4, 1});
       }},
      {"needs metadata modeld.slices", bundle::Role::kRoad,
       [](ir::Graph&, SourceModel& m) { m.slices.clear(); }},
      {"slice plan is [3, 1)", bundle::Role::kRoad,
       [](ir::Graph&, SourceModel& m) {
         m.slices[0] = {"plan", 3, 1};
       }},
      {"slice pose is [8, 99)", bundle::Role::kRoad,
       [](ir::Graph&, SourceModel& m) { m.slices[1].end = 99; }},
      {"modeld.context_frames: -1", bundle::Role::kRoad,
       [](ir::Graph&, SourceModel& m) { m.context_frames = -1; }},
  };
  for (const Case& c : cases) {
    ir::Graph g;
    SourceModel m = road_model(g);
    c.damage(g, m);
    auto b = make_build_graph(g, std::move(m), c.role, {{1928, 1208}});
    ASSERT_FALSE(b.ok()) << c.expected;
    EXPECT_NE(b.error().what.find(c.expected), std::string::npos) << b.error().what;
  }
}

TEST(ParseCameras, TakesListsAndRefusesTheRest) {
  auto two = parse_cameras("1928x1208,1344x760");
  ASSERT_TRUE(two.ok());
  EXPECT_EQ(two->size(), 2u);
  EXPECT_EQ((*two)[1].height, 760u);
  for (const char* bad : {"", "1928", "1928x", "1929x1208", "0x0", "1928x1208,", "9000x100",
                          "64x64,64x64", "64x64x64"})
    EXPECT_FALSE(parse_cameras(bad).ok()) << bad;
}

}  // namespace
}  // namespace modeld::tools
