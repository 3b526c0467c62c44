// How many calls whole models take: the stand-ins, and the public models where they are.
#include <gtest/gtest.h>

#include <ostream>

#include "hal/base/env.h"
#include "hal/base/fs.h"

#include "runtime/schedule/schedule.h"

#include "models/onnx/onnx_import.h"
#include "models/reference/reference.h"

namespace modeld::schedule {
namespace {

struct Counts {
  uint32_t kernels = 0, copies = 0;
  bool operator==(const Counts&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Counts& c) {
  return out << c.kernels << " kernels, " << c.copies << " copies";
}

Counts counts_of(ir::Graph& g, const onnx_import::ImportedModel& model) {
  ir::NodeVec outputs;
  for (const auto& out : model.outputs) outputs.push_back(out.tensor.node());
  ScheduleOptions options;
  options.cache = false;
  const auto s = make_schedule(g, outputs, options);
  EXPECT_TRUE(s.ok()) << s.error().what;
  Counts c;
  if (!s.ok()) return c;
  for (const ir::Node* call : s->linear->src()) {
    (call->src(0)->op == ir::Op::kCopy ? c.copies : c.kernels)++;
  }
  return c;
}

struct PublicModel {
  const char* folder;
  tensor::Dims shape;  // of input "x"; empty = static
  Counts want;
};

std::ostream& operator<<(std::ostream& out, const PublicModel& m) {
  return out << m.folder;
}

class SharedModelCounts : public ::testing::TestWithParam<PublicModel> {};

TEST_P(SharedModelCounts, ArePinned) {
  const std::string root = env_text("MODELD_SHARED");
  const std::string path =
      join_path(join_path(join_path(root, "models"), GetParam().folder), "model.onnx");
  if (root.empty() || !file_exists(path)) GTEST_SKIP() << "SKIPPED-SHARED " << GetParam().folder;
  ir::Graph g;
  onnx_import::ImportOptions options;
  if (!GetParam().shape.empty()) options.shapes["x"] = GetParam().shape;
  const auto model = onnx_import::import_onnx(g, path, options);
  ASSERT_TRUE(model.ok()) << model.error().what;
  EXPECT_EQ(counts_of(g, *model), GetParam().want);
}

INSTANTIATE_TEST_SUITE_P(Schedule,
                         SharedModelCounts,
                         ::testing::Values(PublicModel{"cabin_standin_f32", {}, {87, 0}},
                                           PublicModel{"policy_standin_f16", {}, {35, 0}},
                                           PublicModel{"ppocr2_cls", {1, 3, 48, 192}, {66, 0}},
                                           PublicModel{"ppocr4_det", {1, 3, 320, 320}, {77, 0}},
                                           PublicModel{"ppocr4_rec", {1, 3, 48, 320}, {75, 0}},
                                           PublicModel{"squeezenet_random", {}, {32, 0}}),
                         [](const auto& p) { return std::string(p.param.folder); });

struct StandIn {
  const char* name;
  reference::Role role;
  reference::Size size;
  Counts want;
};

std::ostream& operator<<(std::ostream& out, const StandIn& m) {
  return out << m.name;
}

class StandInCounts : public ::testing::TestWithParam<StandIn> {};

TEST_P(StandInCounts, ArePinned) {
  reference::ReferenceOptions what;
  what.role = GetParam().role;
  what.size = GetParam().size;
  const auto onnx = reference::make_reference(what);
  ASSERT_TRUE(onnx.ok()) << onnx.error().what;
  ir::Graph g;
  const auto model = onnx_import::import_onnx_bytes(g, std::as_bytes(std::span(*onnx)));
  ASSERT_TRUE(model.ok()) << model.error().what;
  EXPECT_EQ(counts_of(g, *model), GetParam().want);
}

using reference::Role;
using reference::Size;

INSTANTIATE_TEST_SUITE_P(
    Schedule,
    StandInCounts,
    ::testing::Values(StandIn{"road_tiny", Role::kRoad, Size::kTiny, {19, 0}},
                      StandIn{"road_small", Role::kRoad, Size::kSmall, {100, 0}},
                      StandIn{"road_full", Role::kRoad, Size::kFull, {154, 0}},
                      StandIn{"cabin_tiny", Role::kCabin, Size::kTiny, {19, 0}},
                      StandIn{"cabin_small", Role::kCabin, Size::kSmall, {64, 0}},
                      StandIn{"cabin_full", Role::kCabin, Size::kFull, {76, 0}}),
    [](const auto& p) { return std::string(p.param.name); });

}  // namespace
}  // namespace modeld::schedule
