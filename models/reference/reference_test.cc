#include "models/reference/reference.h"

#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <map>
#include <set>

#include "hal/base/fs.h"

namespace modeld::reference {
namespace {

constexpr Role kRoles[] = {Role::kRoad, Role::kCabin};

ReferenceModel build(const ReferenceOptions& options) {
  Result<ReferenceModel> model = build_reference(options);
  EXPECT_TRUE(model.ok()) << (model.ok() ? "" : model.error().what);
  return model.ok() ? *model : ReferenceModel{};
}

onnx::ModelProto parse(const ReferenceModel& model) {
  onnx::ModelProto proto;
  EXPECT_TRUE(proto.ParseFromString(model.onnx));
  return proto;
}

// "1,12,128,256:2" = dims and ONNX element type.
std::map<std::string, std::string> describe(
    const google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>& values) {
  std::map<std::string, std::string> out;
  for (const auto& value : values) {
    std::string text;
    for (const auto& dim : value.type().tensor_type().shape().dim()) {
      if (!text.empty()) text += ',';
      text += std::to_string(dim.dim_value());
    }
    out[value.name()] = text + ":" + std::to_string(value.type().tensor_type().elem_type());
  }
  return out;
}

std::map<std::string, std::string> metadata(const onnx::ModelProto& proto) {
  std::map<std::string, std::string> out;
  for (const auto& entry : proto.metadata_props()) out[entry.key()] = entry.value();
  return out;
}

int matrix_nodes(const ReferenceModel& model) {
  int count = 0;
  for (const char* op : {"Conv", "Gemm", "MatMul"}) {
    const auto hit = model.op_counts.find(op);
    if (hit != model.op_counts.end()) count += hit->second;
  }
  return count;
}

TEST(Reference, RoadHasTheInterfaceOfTheContract) {
  using Described = std::map<std::string, std::string>;
  const onnx::ModelProto small = parse(build({.role = Role::kRoad, .size = Size::kSmall}));
  EXPECT_EQ(describe(small.graph().input()), (Described{{"img", "1,12,128,256:2"},
                                                        {"big_img", "1,12,128,256:2"},
                                                        {"desire_pulse", "1,25,8:1"},
                                                        {"traffic_convention", "1,2:1"},
                                                        {"action_t", "1,2:1"},
                                                        {"features_buffer", "1,24,512:1"}}));
  EXPECT_EQ(describe(small.graph().output()),
            (Described{{"outputs", "1,2576:1"}, {"next_features_buffer", "1,24,512:1"}}));
  const onnx::ModelProto tiny =
      parse(build({.role = Role::kRoad, .size = Size::kTiny, .dtype = Dtype::kF16}));
  EXPECT_EQ(describe(tiny.graph().input())["img"], "1,12,16,32:2");
  EXPECT_EQ(describe(tiny.graph().input())["features_buffer"], "1,24,512:10");
  EXPECT_EQ(describe(tiny.graph().output())["outputs"], "1,2576:10");
  EXPECT_EQ(small.opset_import(0).version(), 17);
}

TEST(Reference, CabinHasTheInterfaceOfTheContract) {
  using Described = std::map<std::string, std::string>;
  const onnx::ModelProto small = parse(build({.role = Role::kCabin, .size = Size::kSmall}));
  EXPECT_EQ(describe(small.graph().input()),
            (Described{{"input_img", "1,1382400:2"}, {"calib", "1,3:1"}}));
  EXPECT_EQ(describe(small.graph().output()), (Described{{"outputs", "1,41:1"}}));
  const onnx::ModelProto tiny = parse(build({.role = Role::kCabin, .size = Size::kTiny}));
  EXPECT_EQ(describe(tiny.graph().input())["input_img"], "1,21600:2");
}

TEST(Reference, SlicesAreContiguousAndCoverTheOutputs) {
  for (const Role role : kRoles) {
    for (const Size size : {Size::kTiny, Size::kSmall}) {
      const ReferenceModel model = build({.role = role, .size = size});
      int64_t end = 0;
      std::set<std::string> names;
      for (const Slice& slice : model.slices) {
        EXPECT_EQ(slice.begin, end) << slice.name;
        EXPECT_GT(slice.end, slice.begin) << slice.name;
        EXPECT_TRUE(names.insert(slice.name).second) << slice.name;
        end = slice.end;
      }
      const onnx::ModelProto proto = parse(model);
      EXPECT_EQ(describe(proto.graph().output())["outputs"], "1," + std::to_string(end) + ":1");
    }
  }
}

TEST(Reference, MetadataCarriesSlicesAndContextFrames) {
  const auto road = metadata(parse(build({.role = Role::kRoad, .size = Size::kSmall})));
  EXPECT_EQ(road.at("modeld.context_frames"), "24");
  EXPECT_EQ(road.at("modeld.slices").substr(0, 38), "{\"plan\":[0,990],\"lane_lines\":[990,1518");
  EXPECT_NE(road.at("modeld.slices").find("\"hidden_state\":[2064,2576]}"), std::string::npos);
  const auto tiny = metadata(parse(build({.role = Role::kRoad, .size = Size::kTiny})));
  EXPECT_EQ(tiny.at("modeld.context_frames"), "0");
  EXPECT_EQ(tiny.at("modeld.slices"), road.at("modeld.slices"));
  const auto cabin = metadata(parse(build({.role = Role::kCabin, .size = Size::kSmall})));
  EXPECT_EQ(cabin.at("modeld.context_frames"), "0");
  EXPECT_NE(
      cabin.at("modeld.slices").find("\"sleep_prob_rhd\":[39,40],\"wheel_on_right_prob\":[40,41]}"),
      std::string::npos);
}

TEST(Reference, CostsStayWithinTheirSizes) {
  uint64_t small = 0;
  for (const Role role : kRoles) {
    for (const Dtype dtype : {Dtype::kF32, Dtype::kF16}) {
      const ReferenceModel tiny = build({.role = role, .size = Size::kTiny, .dtype = dtype});
      EXPECT_LT(tiny.flops() + tiny.elementwise, 200'000u);
    }
    small += build({.role = role, .size = Size::kSmall}).flops();
  }
  EXPECT_GT(small, 180'000'000u);
  EXPECT_LT(small, 220'000'000u);
  const ReferenceModel road = build({.role = Role::kRoad, .size = Size::kFull});
  EXPECT_NEAR(static_cast<double>(road.flops()), 4e9, 0.2e9);
  EXPECT_NEAR(static_cast<double>(road.onnx.size()), 75e6, 5e6);
  EXPECT_NEAR(static_cast<double>(build({.role = Role::kCabin, .size = Size::kFull}).flops()), 3e9,
              0.15e9);
}

TEST(Reference, SmallHasEveryOpKindOfFullAndManyKernels) {
  for (const Role role : kRoles) {
    const ReferenceModel small = build({.role = role, .size = Size::kSmall});
    for (const auto& [op, count] : build({.role = role, .size = Size::kFull}).op_counts) {
      EXPECT_TRUE(small.op_counts.contains(op)) << op;
    }
    // Two of these never share a kernel, so this is a lower bound of the kernel count.
    EXPECT_GE(matrix_nodes(small), 25);
  }
}

TEST(Reference, TinyRoadLooksAtItsHistoryWithOneQueryAndNoProjection) {
  const onnx::ModelProto tiny = parse(build({.role = Role::kRoad, .size = Size::kTiny}));
  std::set<std::string> weights;
  for (const auto& tensor : tiny.graph().initializer()) weights.insert(tensor.name());
  int products = 0;
  for (const auto& node : tiny.graph().node()) {
    if (node.op_type() != "MatMul") continue;
    ++products;
    for (const std::string& input : node.input()) EXPECT_FALSE(weights.contains(input)) << input;
  }
  EXPECT_EQ(products, 2);
}

TEST(Reference, SameSeedGivesTheSameBytesAndAnotherSeedOtherWeights) {
  for (const Role role : kRoles) {
    const ReferenceOptions options{.role = role, .size = Size::kTiny, .seed = 3};
    const std::string first = build(options).onnx;
    EXPECT_EQ(first, build(options).onnx);
    ReferenceOptions other = options;
    other.seed = 4;
    const std::string second = build(other).onnx;
    EXPECT_EQ(first.size(), second.size());
    EXPECT_NE(first, second);
  }
}

TEST(Reference, FaultVariantsKeepTheWeightsOfTheCleanModel) {
  const auto weights = [](Role role, Variant variant) {
    std::map<std::string, std::string> out;
    const onnx::ModelProto proto =
        parse(build({.role = role, .size = Size::kTiny, .variant = variant}));
    for (const auto& tensor : proto.graph().initializer()) out[tensor.name()] = tensor.raw_data();
    return out;
  };
  for (const Role role : kRoles) {
    const auto clean = weights(role, Variant::kClean);
    for (const Variant variant :
         {Variant::kNan, Variant::kNanState, Variant::kInfSlice, Variant::kZero}) {
      if (role == Role::kCabin && variant == Variant::kNanState) continue;
      const auto faulty = weights(role, variant);
      EXPECT_GT(faulty.size(), clean.size());
      for (const auto& [name, raw] : clean) EXPECT_EQ(faulty.at(name), raw) << name;
    }
  }
}

TEST(Reference, CabinHasNoStateToPoison) {
  const auto model =
      build_reference({.role = Role::kCabin, .size = Size::kTiny, .variant = Variant::kNanState});
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().code, Errc::kInvalid);
  EXPECT_EQ(model.error().what,
            "reference model: variant nan-state needs a model with state; cabin has none");
}

TEST(Reference, UnknownWordNamesTheKnownOnes) {
  EXPECT_EQ(*parse_variant("inf-slice"), Variant::kInfSlice);
  EXPECT_EQ(parse_size("huge").error().what,
            "reference model: size 'huge' is not one of tiny|small|full");
  EXPECT_FALSE(parse_role("").ok());
  EXPECT_FALSE(parse_dtype("f64").ok());
}

TEST(Reference, WritesTheWholeFileOrNothing) {
  const Result<TempDir> folder = TempDir::create("reference_test");
  ASSERT_TRUE(folder.ok());
  const ReferenceOptions options{.role = Role::kCabin, .size = Size::kTiny};
  const std::string path = join_path(folder->path(), "cabin.onnx");
  const auto written = write_reference(options, path);
  ASSERT_TRUE(written.ok()) << written.error().what;
  EXPECT_EQ(*read_text(path), written->onnx);

  // A directory in the way: the rename fails and the temporary goes away.
  const std::string taken = join_path(folder->path(), "taken");
  ASSERT_TRUE(make_dirs(taken).ok());
  EXPECT_FALSE(write_reference(options, taken).ok());
  EXPECT_FALSE(write_reference(options, join_path(folder->path(), "missing/cabin.onnx")).ok());
  EXPECT_EQ(list_dir(folder->path())->size(), 2u);
}

}  // namespace
}  // namespace modeld::reference
