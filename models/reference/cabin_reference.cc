// The cabin stand-in: one luma picture and the calibration -> trunk -> the same eight heads for
// each side.
#include <iterator>
#include <vector>

#include "models/reference/roles.h"

namespace modeld::reference {

namespace {

constexpr const char* kSides[] = {"lhd", "rhd"};
constexpr int64_t kFaceNumbers = 12;  // 6 means, 6 log-sigmas: orientation 3, position 2, size 1
constexpr const char* kProbabilities[] = {"face_prob",        "left_eye_prob",    "right_eye_prob",
                                          "left_blink_prob",  "right_blink_prob", "sunglasses_prob",
                                          "using_phone_prob", "sleep_prob"};
constexpr const char* kInfSlice = "face_prob_lhd";

struct Shape {
  int64_t width;
  int64_t height;
  int64_t shrink;  // side of the first average pool
  int64_t stem_channels;
  std::vector<StageSpec> stages;
  int64_t reduced_channels;
  int64_t features;
};

Shape shape_of(Size size) {
  if (size == Size::kFull) {
    return {1440,
            960,
            2,
            16,
            {{64, 4, 2, Activation::kClip, false},
             {128, 4, 3, Activation::kSilu, true},
             {224, 4, 2, Activation::kClip, true},
             {320, 3, 1, Activation::kSilu, true}},
            32,
            512};
  }
  return {1440,
          960,
          4,
          8,
          {{24, 4, 2, Activation::kClip, false},
           {48, 4, 2, Activation::kSilu, true},
           {96, 4, 1, Activation::kClip, true},
           {128, 3, 1, Activation::kSilu, true}},
          16,
          256};
}

Value vision(GraphWriter& g, const Value& picture, const Shape& shape) {
  Value x = g.pool("AveragePool", "stem/shrink", normalise_pixels(g, "picture", picture),
                   shape.shrink, shape.shrink, 0);
  x = g.conv(
      "stem/conv", x,
      {.out_channels = shape.stem_channels, .kernel = 3, .stride = 2, .padding = 1, .gain = 1.2});
  x = activate(g, "stem/act", x, Activation::kSilu);
  x = g.pool("MaxPool", "stem/pool", x, 3, 2, 1);
  for (size_t i = 0; i < shape.stages.size(); ++i)
    x = stage(g, "stage" + std::to_string(i), x, shape.stages[i]);
  // Where a face is comes from the flattened map, how the cabin looks from the pooled one.
  const Value pooled = g.flatten("pooled/flatten", g.global_average_pool("pooled", x));
  const Value reduced =
      g.conv("reduce/conv", x, {.out_channels = shape.reduced_channels, .gain = 1.2});
  const Value map =
      g.flatten("reduce/flatten", activate(g, "reduce/act", reduced, Activation::kSilu));
  const Value features =
      g.gemm("features", g.concat("features/all", {map, pooled}, 1), shape.features, 1.6);
  return g.layer_norm("features/norm", features);
}

Value tiny_vision(GraphWriter& g, const Value& picture) {
  Value x = g.pool("AveragePool", "stem/shrink", picture, 4, 4, 0);
  x = normalise_pixels(g, "picture", x);
  x = g.conv("stem/conv", x, {.out_channels = 8, .kernel = 3, .stride = 3, .gain = 1.2});
  x = activate(g, "stem/act", x, Activation::kSilu);
  x = g.conv("trunk/depthwise", x,
             {.out_channels = 8, .kernel = 3, .stride = 2, .padding = 1, .groups = 8, .gain = 1.6});
  x = activate(g, "trunk/act", x, Activation::kSilu);
  const Value features = g.gemm("features", g.flatten("trunk/flatten", x), 16, 1.6);
  return g.layer_norm("features/norm", features);
}

std::vector<Value> side_heads(GraphWriter& g, const Value& x, const std::string& side) {
  const int64_t half = kFaceNumbers / 2;
  std::vector<Value> parts;
  parts.push_back(g.gemm("head/face_mean_" + side, x, half, 1.0));
  const Value spread = g.gemm("head/face_spread_" + side, x, half, 0.2);
  parts.push_back(g.binary("Sub", "head/face_log_sigma_" + side, spread,
                           g.scalar("head/face_offset_" + side, 1.0)));
  parts.push_back(g.gemm("head/probabilities_" + side, x, std::size(kProbabilities), 1.0));
  return parts;
}

std::vector<Slice> cabin_slices() {
  std::vector<Slice> slices;
  int64_t end = 0;
  const auto add = [&](const std::string& name, int64_t size) {
    slices.push_back({name, end, end + size});
    end += size;
  };
  for (const std::string side : kSides) {
    add("face_descs_" + side, kFaceNumbers);
    for (const char* name : kProbabilities) add(name + ("_" + side), 1);
  }
  add("wheel_on_right_prob", 1);
  return slices;
}

}  // namespace

Result<ReferenceModel> build_cabin(const ReferenceOptions& options, GraphWriter& g) {
  const bool tiny = options.size == Size::kTiny;
  const Shape shape = tiny ? Shape{180, 120, 4, 8, {}, 0, 0} : shape_of(options.size);
  const Value luma = g.input("input_img", {1, shape.width * shape.height}, Elem::kU8);
  const Value calib = g.input("calib", {1, 3}, g.float_elem());
  const Value picture = g.reshape("picture/rows", luma, {1, 1, shape.height, shape.width});
  const Value seen =
      tiny ? tiny_vision(g, g.cast("picture/float", picture)) : vision(g, picture, shape);
  Value x = g.concat("answer/inputs", {seen, calib}, 1);
  x = activate(g, "answer/act", g.gemm("answer", x, tiny ? 16 : 128, 1.0), Activation::kSilu);
  if (!tiny) x = activate(g, "answer/act2", g.gemm("answer/deep", x, 64, 1.6), Activation::kGelu);
  x = g.layer_norm("answer/norm", x);

  std::vector<Value> parts;
  for (const std::string side : kSides) {
    for (Value& part : side_heads(g, x, side)) parts.push_back(std::move(part));
  }
  parts.push_back(g.gemm("head/wheel_on_right", x, 1, 1.0));
  std::vector<Slice> slices = cabin_slices();
  Value outputs =
      g.concat(options.variant == Variant::kClean ? "outputs" : "outputs/clean", parts, 1);
  if (options.variant != Variant::kClean) {
    const Value flag = zero_pixel_flag(g, "camera", picture);
    if (options.variant == Variant::kNan) outputs = poison_nan(g, "outputs/nan", outputs, flag);
    if (options.variant == Variant::kZero) outputs = poison_zero(g, "outputs/zero", outputs, flag);
    if (options.variant == Variant::kInfSlice)
      outputs = poison_slice(g, outputs, slices, kInfSlice, flag);
  }
  g.output("outputs", outputs);
  return g.finish(std::move(slices), 0);
}

}  // namespace modeld::reference
