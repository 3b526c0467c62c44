// The road stand-in: two six-channel image pairs -> trunk -> 512 features; 24 past feature vectors,
// desire, traffic and action time -> policy -> heads.
#include <algorithm>
#include <vector>

#include "models/reference/roles.h"

namespace modeld::reference {

namespace {

constexpr int64_t kFeatures = 512;
constexpr int64_t kHistory = 24;  // past feature vectors
constexpr int64_t kDesires = 8;

// Head i of `outputs`. Log-sigmas stay near -1, so that the sigmas of the table are of the order of
// one third.
struct Head {
  const char* name;
  int64_t size;
  bool gaussian;  // first half means, second half log-sigmas
};

constexpr Head kHeads[] = {
    {"plan", 2 * 33 * 15, true},
    {"lane_lines", 2 * 4 * 33 * 2, true},
    {"lane_lines_prob", 8, false},
    {"road_edges", 2 * 2 * 33 * 2, true},
    {"lead", 2 * 3 * 6 * 4, true},
    {"lead_prob", 3, false},
    {"pose", 12, true},
    {"road_transform", 12, true},
    {"wide_from_device_euler", 6, true},
    {"meta", 55, false},
    {"desire_pred", 32, false},
    {"desire_state", 8, false},
    {"action", 2, false},
};

struct Inputs {
  Value img, big_img, desire, traffic, action, features;
};

struct Trunk {
  int64_t stem_channels;
  std::vector<StageSpec> stages;
  int64_t reduced_channels;
};

struct Policy {
  int64_t width;
  int64_t heads;
  int layers;
  int64_t mlp_ratio;
};

Inputs make_inputs(GraphWriter& g, Size size) {
  const int64_t height = size == Size::kTiny ? 16 : 128;
  const int64_t width = 2 * height;
  const Elem elem = g.float_elem();
  return {g.input("img", {1, 12, height, width}, Elem::kU8),
          g.input("big_img", {1, 12, height, width}, Elem::kU8),
          g.input("desire_pulse", {1, kHistory + 1, kDesires}, elem),
          g.input("traffic_convention", {1, 2}, elem),
          g.input("action_t", {1, 2}, elem),
          g.input("features_buffer", {1, kHistory, kFeatures}, elem)};
}

Value images(GraphWriter& g, const Inputs& in) {
  return g.concat(
      "images", {normalise_pixels(g, "road", in.img), normalise_pixels(g, "wide", in.big_img)}, 1);
}

// Gaussian heads: means with unit gain, log-sigmas with a small one around -1.
Value gaussian(GraphWriter& g, const std::string& name, const Value& x, int64_t size) {
  const Value mean = g.gemm(name + "/mean", x, size / 2, 1.0);
  const Value spread = g.gemm(name + "/spread", x, size / 2, 0.2);
  const Value log_sigma =
      g.binary("Sub", name + "/log_sigma", spread, g.scalar(name + "/offset", 1.0));
  return g.concat(name, {mean, log_sigma}, 1);
}

// Vector of 512 image features: what is fed back, and the slice hidden_state.
Value vision(GraphWriter& g, const Inputs& in, const Trunk& trunk, bool halve_first) {
  Value x = images(g, in);
  if (halve_first) x = g.pool("AveragePool", "stem/halve", x, 2, 2, 0);
  x = g.conv(
      "stem/conv", x,
      {.out_channels = trunk.stem_channels, .kernel = 3, .stride = 2, .padding = 1, .gain = 1.2});
  x = activate(g, "stem/act", x, Activation::kGelu);
  for (size_t i = 0; i < trunk.stages.size(); ++i)
    x = stage(g, "stage" + std::to_string(i), x, trunk.stages[i]);
  x = g.conv("reduce/conv", x, {.out_channels = trunk.reduced_channels, .gain = 1.2});
  x = activate(g, "reduce/act", x, Activation::kSilu);
  const Value features = g.gemm("features", g.flatten("reduce/flatten", x), kFeatures, 1.6);
  return g.layer_norm("features/norm", features);
}

// 25 tokens, oldest first; the newest one carries the answer.
Value policy(GraphWriter& g, const Inputs& in, const Value& hidden, const Policy& spec) {
  const Value newest = g.reshape("tokens/newest", hidden, {1, 1, kFeatures});
  const Value history = g.concat("tokens/history", {in.features, newest}, 1);
  Value x = project(g, "tokens/features", history, spec.width, 1.0);
  x = g.binary("Add", "tokens/with_desire", x,
               project(g, "tokens/desire", in.desire, spec.width, 1.0));
  const Value context = g.concat("context/vector", {in.traffic, in.action}, 1);
  const Value shared =
      g.reshape("context/token", g.gemm("context", context, spec.width, 1.0), {1, 1, spec.width});
  x = g.binary("Add", "tokens/with_context", x, shared);
  x = g.binary("Add", "tokens/placed", x,
               g.weight("tokens/position", {1, kHistory + 1, spec.width}, 0.2));
  for (int i = 0; i < spec.layers; ++i)
    x = transformer_layer(g, "layer" + std::to_string(i), x, spec.heads, spec.mlp_ratio);
  const Value last = g.slice("answer/slice", x, 1, kHistory, kHistory + 1);
  return g.layer_norm("answer/norm", g.reshape("answer", last, {1, spec.width}));
}

std::vector<Value> wide_heads(GraphWriter& g, const Value& answer) {
  std::vector<Value> parts;
  for (const Head& head : kHeads) {
    const std::string name = std::string("head/") + head.name;
    Value x = answer;
    if (head.size > 100) {  // the long heads get a layer of their own
      x = activate(g, name + "/act", g.gemm(name + "/hidden", x, answer.dims[1], 1.0),
                   Activation::kSilu);
    }
    parts.push_back(head.gaussian ? gaussian(g, name, x, head.size)
                                  : g.gemm(name, x, head.size, 1.0));
  }
  return parts;
}

// Tiny: patches, one depthwise layer, one attention query on the raw history, heads of rank 8.
Value tiny_vision(GraphWriter& g, const Inputs& in) {
  Value x = images(g, in);
  x = g.conv("stem/patch", x,
             {.out_channels = 24, .kernel = 4, .stride = 4, .groups = 24, .gain = 1.2});
  x = g.conv("stem/mix", x, {.out_channels = 8, .gain = 1.2});
  x = activate(g, "stem/act", x, Activation::kSilu);
  x = g.conv("trunk/depthwise", x,
             {.out_channels = 8, .kernel = 3, .padding = 1, .groups = 8, .gain = 1.6});
  x = activate(g, "trunk/act", x, Activation::kSilu);
  const Value code = g.gemm("trunk/code", g.flatten("trunk/flatten", x), 8, 1.6);
  return g.layer_norm("features/norm", g.gemm("features", code, kFeatures, 1.0));
}

Value tiny_policy(GraphWriter& g, const Inputs& in, const Value& hidden) {
  const Value query = g.reshape("attention/query", hidden, {1, kFeatures, 1});
  const Value raw = g.matmul("attention/scores", in.features, query);  // [1, 24, 1]
  const Value row = g.reshape("attention/row", raw, {1, 1, kHistory});
  const Value scores =
      g.binary("Mul", "attention/scaled", row, g.scalar("attention/scale", 1.0 / 64.0));
  const Value mixed =
      g.matmul("attention/mix", g.softmax("attention/softmax", scores), in.features);
  const Value memory =
      g.gemm("attention/code", g.reshape("attention/flat", mixed, {1, kFeatures}), 8, 1.0);
  const Value desire = g.gemm("desire/code", g.flatten("desire/flat", in.desire), 8, 1.0);
  const Value context =
      g.gemm("context", g.concat("context/vector", {in.traffic, in.action}, 1), 8, 1.0);
  const Value image = g.gemm("image/code", hidden, 8, 1.0);
  Value x = g.binary("Add", "answer/memory", image, memory);
  x = g.binary("Add", "answer/desire", x, desire);
  x = g.binary("Add", "answer/context", x, context);
  return g.layer_norm("answer/norm", x);
}

std::vector<Value> tiny_heads(GraphWriter& g, const Value& answer) {
  std::vector<Value> parts;
  int64_t size = 0;
  for (const Head& head : kHeads) size += head.size;
  parts.push_back(g.gemm("heads", answer, size, 0.5));
  return parts;
}

Trunk trunk_of(Size size) {
  if (size == Size::kFull) {
    return {48,
            {{96, 4, 3, Activation::kGelu, false},
             {192, 4, 4, Activation::kSilu, true},
             {320, 4, 3, Activation::kGelu, true},
             {448, 3, 1, Activation::kSilu, true}},
            96};
  }
  return {24,
          {{40, 4, 1, Activation::kGelu, false},
           {72, 4, 2, Activation::kSilu, true},
           {112, 4, 1, Activation::kGelu, true}},
          16};
}

// The slice that turns infinite is one whose parsed value hides it (sigmoid(+Inf) = 1).
constexpr const char* kInfSlice = "lane_lines_prob";

Value poisoned_outputs(GraphWriter& g,
                       Variant variant,
                       std::vector<Value> parts,
                       const std::vector<Slice>& slices,
                       const Inputs& in) {
  if (variant == Variant::kClean || variant == Variant::kNanState)
    return g.concat("outputs", parts, 1);
  const Value flag = camera_flag(g, {in.img, in.big_img});
  const Value whole = g.concat("outputs/clean", parts, 1);
  if (variant == Variant::kNan) return poison_nan(g, "outputs/nan", whole, flag);
  if (variant == Variant::kZero) return poison_zero(g, "outputs/zero", whole, flag);
  return poison_slice(g, whole, slices, kInfSlice, flag);
}

}  // namespace

Value camera_flag(GraphWriter& g, const std::vector<Value>& pictures) {
  // Channels 6..9 are the luma of the newest frame. Older frames do not count: after a reset the
  // history is zero.
  std::vector<Value> newest;
  for (size_t i = 0; i < pictures.size(); ++i) {
    newest.push_back(g.slice("camera/newest" + std::to_string(i), pictures[i], 1, 6, 10));
  }
  return zero_pixel_flag(g, "camera", g.concat("camera/luma", newest, 1));
}

Value poison_slice(GraphWriter& g,
                   const Value& whole,
                   const std::vector<Slice>& slices,
                   const std::string& name,
                   const Value& flag) {
  const auto hit =
      std::find_if(slices.begin(), slices.end(), [&](const Slice& s) { return s.name == name; });
  const int64_t total = whole.dims[1];
  const Value before = g.slice("outputs/before", whole, 1, 0, hit->begin);
  const Value part = g.slice("outputs/part", whole, 1, hit->begin, hit->end);
  const Value after = g.slice("outputs/after", whole, 1, hit->end, total);
  return g.concat("outputs", {before, poison_inf(g, "outputs/inf", part, flag), after}, 1);
}

Result<ReferenceModel> build_road(const ReferenceOptions& options, GraphWriter& g) {
  std::vector<Slice> slices;
  int64_t end = 0;
  for (const Head& head : kHeads) {
    slices.push_back({head.name, end, end + head.size});
    end += head.size;
  }
  slices.push_back({"hidden_state", end, end + kFeatures});

  const Inputs in = make_inputs(g, options.size);
  const bool tiny = options.size == Size::kTiny;
  const bool full = options.size == Size::kFull;
  const Value hidden = tiny ? tiny_vision(g, in) : vision(g, in, trunk_of(options.size), !full);
  const Value answer =
      tiny ? tiny_policy(g, in, hidden)
           : policy(g, in, hidden, full ? Policy{512, 8, 3, 3} : Policy{128, 4, 2, 4});
  std::vector<Value> parts = tiny ? tiny_heads(g, answer) : wide_heads(g, answer);
  parts.push_back(hidden);
  g.output("outputs", poisoned_outputs(g, options.variant, parts, slices, in));

  // The history moves by one vector in every frame.
  const Value kept = g.slice("state/kept", in.features, 1, 1, kHistory);
  const Value newest = g.reshape("state/newest", hidden, {1, 1, kFeatures});
  Value next = g.concat("state/next", {kept, newest}, 1);
  if (options.variant == Variant::kNanState) {
    const Value flag =
        g.reshape("camera/state_flag", camera_flag(g, {in.img, in.big_img}), {1, 1, 1});
    next = poison_nan(g, "state/nan", next, flag);
  }
  g.output("next_features_buffer", next);
  return g.finish(std::move(slices), tiny ? 0 : static_cast<int>(kHistory));
}

}  // namespace modeld::reference
