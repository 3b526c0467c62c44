#include "models/tools/build_graph.h"

#include <algorithm>
#include <cmath>

#include "hal/base/text.h"

#include "runtime/ir/rewrite.h"

#include "models/bundle/validate.h"
#include "models/common/warp_matrix.h"
#include "models/tools/tensor_io.h"
#include "models/warp_graph/warp_graph.h"

namespace modeld::tools {
namespace {

using bundle::Manifest;
using tensor::Tensor;

// An input of the model that shows a camera's picture.
struct Picture {
  const char* stream;
  const char* input;
  uint32_t width = 0, height = 0;  // of the model's picture
  bool is_luma = false;            // cabin: one plane, else six channels of half size
};

constexpr int64_t kChannels = 6;  // of one road picture
constexpr int64_t kMaxSide = 8192;

size_t find_input(const SourceModel& model, const std::string& name) {
  for (size_t i = 0; i < model.inputs.size(); ++i)
    if (model.inputs[i].name == name) return i;
  return model.inputs.size();
}

std::string shape_of(const NamedTensor& t) {
  return std::string(ir::dtype_name(t.tensor.dtype())) + " " + dims_text(t.tensor.dims());
}

tl::unexpected<Error> bad_picture(const NamedTensor& t, const char* expected) {
  return fail(Errc::kInvalid,
              strf("input %s: expected %s, got %s", t.name.c_str(), expected, shape_of(t).c_str()));
}

Status size_road_picture(const NamedTensor& t, Picture& p) {
  const auto d = t.tensor.dims();
  if (t.tensor.dtype() != ir::DType::kU8 || d.size() != 4 || d[0] != 1 || d[1] != 2 * kChannels ||
      d[2] < 1 || d[3] < 1 || d[2] > kMaxSide || d[3] > kMaxSide)
    return bad_picture(t, "u8 1x12xHxW (two pictures of six half-size channels)");
  p.width = static_cast<uint32_t>(2 * d[3]);
  p.height = static_cast<uint32_t>(2 * d[2]);
  return {};
}

// The cabin input is flat; its picture has the shape 3:2 of 1440x960.
Status size_cabin_picture(const NamedTensor& t, Picture& p) {
  const auto d = t.tensor.dims();
  const char* expected = "u8 1xN, a picture of shape 3:2";
  if (t.tensor.dtype() != ir::DType::kU8 || d.size() != 2 || d[0] != 1 || d[1] < 6 ||
      d[1] > kMaxSide * kMaxSide)
    return bad_picture(t, expected);
  const auto width = static_cast<int64_t>(std::llround(std::sqrt(static_cast<double>(d[1]) * 1.5)));
  if (width % 3 != 0 || width / 3 * 2 * width != d[1]) return bad_picture(t, expected);
  p.width = static_cast<uint32_t>(width);
  p.height = static_cast<uint32_t>(width / 3 * 2);
  return {};
}

Result<std::vector<Picture>> find_pictures(const SourceModel& model, bundle::Role role) {
  std::vector<Picture> out;
  if (role == bundle::Role::kRoad)
    out = {{"road", "img", 0, 0, false}, {"wide", "big_img", 0, 0, false}};
  if (role == bundle::Role::kCabin) out = {{"cabin", "input_img", 0, 0, true}};
  for (Picture& p : out) {
    const size_t i = find_input(model, p.input);
    if (i == model.inputs.size())
      return fail(Errc::kInvalid, strf("role %s needs an input named %s; the model has none",
                                       bundle::role_name(role), p.input));
    RETURN_IF_ERROR(p.is_luma ? size_cabin_picture(model.inputs[i], p)
                              : size_road_picture(model.inputs[i], p));
  }
  return out;
}

// Replaces input `name` by two inputs of half its channels, oldest first, in all outputs.
Status split_picture(ir::Graph& g, SourceModel& model, const Picture& p, Manifest& m) {
  const size_t at = find_input(model, p.input);
  const NamedTensor whole = model.inputs[at];
  auto dims = whole.tensor.dims();
  bundle::SplitInput row{whole.name, dims, {}};
  dims[1] = kChannels;
  std::vector<Tensor> parts;
  std::vector<NamedTensor> named;
  for (size_t i = 0; i < 2; ++i) {
    const std::string name = whole.name + "/" + std::to_string(i);
    parts.push_back(Tensor::input(g, name, dims, whole.tensor.dtype()));
    named.push_back({name, parts.back()});
    row.parts.push_back(static_cast<uint32_t>(at + i));
  }
  // In memory once: every later kernel then reads one buffer instead of choosing per element.
  const Tensor joined = tensor::concat(parts, 1).contiguous();
  RETURN_IF_ERROR(g.status());
  const ir::NodeMap map = {{whole.tensor.node(), joined.node()}};
  for (NamedTensor& out : model.outputs)
    out.tensor = Tensor(g, ir::substitute(g, out.tensor.node(), map));
  model.inputs.erase(model.inputs.begin() + static_cast<ptrdiff_t>(at));
  model.inputs.insert(model.inputs.begin() + static_cast<ptrdiff_t>(at), named.begin(),
                      named.end());
  for (bundle::SplitInput& s : m.splits)
    for (uint32_t& part : s.parts)
      if (part > at) ++part;
  m.splits.push_back(std::move(row));
  return {};
}

// X is a state when the model has an output next_X; both must have one type.
Status find_states(const SourceModel& model, Manifest& m) {
  for (size_t o = 0; o < model.outputs.size(); ++o) {
    const NamedTensor& out = model.outputs[o];
    if (!out.name.starts_with("next_")) continue;
    const size_t i = find_input(model, out.name.substr(5));
    if (i == model.inputs.size()) continue;  // an output that only looks like a state
    const NamedTensor& in = model.inputs[i];
    if (in.tensor.dtype() != out.tensor.dtype() || in.tensor.dims() != out.tensor.dims())
      return fail(Errc::kInvalid,
                  strf("state %s: input is %s, output %s is %s", in.name.c_str(),
                       shape_of(in).c_str(), out.name.c_str(), shape_of(out).c_str()));
    m.states.push_back({static_cast<uint32_t>(i), static_cast<uint32_t>(o)});
  }
  return {};
}

Status check_slices(const SourceModel& model, const Manifest& m) {
  if (m.slices.empty()) return {};
  const auto it = std::find_if(model.outputs.begin(), model.outputs.end(),
                               [](const NamedTensor& t) { return t.name == "outputs"; });
  if (it == model.outputs.end())
    return fail(Errc::kInvalid, "metadata modeld.slices needs an output named outputs");
  for (const bundle::SliceRow& s : m.slices)
    if (s.begin >= s.end || s.end > static_cast<uint64_t>(it->tensor.count()))
      return fail(Errc::kInvalid, strf("slice %s is [%llu, %llu), outputs has %lld numbers",
                                       s.name.c_str(), static_cast<unsigned long long>(s.begin),
                                       static_cast<unsigned long long>(s.end),
                                       static_cast<long long>(it->tensor.count())));
  return {};
}

Status take_metadata(const SourceModel& model, Manifest& m) {
  if (model.context_frames < 0 || model.context_frames > bundle::kMaxContextFrames)
    return fail(Errc::kInvalid,
                strf("metadata modeld.context_frames: %lld is not in 0..%u",
                     static_cast<long long>(model.context_frames), bundle::kMaxContextFrames));
  m.context_frames = static_cast<uint32_t>(model.context_frames);
  m.slices = model.slices;
  return check_slices(model, m);
}

exec::EntrySpec run_entry(const SourceModel& model) {
  exec::EntrySpec e;
  e.name = "run";
  for (const NamedTensor& t : model.inputs) e.inputs.push_back({t.name, t.tensor.node()});
  for (const NamedTensor& t : model.outputs) e.outputs.push_back({t.name, t.tensor.node()});
  return e;
}

Result<exec::EntrySpec> warp_entry(ir::Graph& g, const Picture& p, const CameraSize& camera) {
  const warp_graph::WarpSpec spec{camera.width, camera.height, p.width, p.height};
  ASSIGN_OR_RETURN(const warp_graph::WarpGraph w, p.is_luma ? warp_graph::build_cabin_warp(g, spec)
                                                            : warp_graph::build_road_warp(g, spec));
  exec::EntrySpec e;
  e.name = warp_graph::warp_entry_name(p.stream, camera.width, camera.height);
  e.inputs = {{"nv12", w.nv12.node()}, {"matrix", w.matrix.node()}};
  e.outputs = {{"image", w.image.node()}};
  e.scalars = {w.stride.node(), w.uv_offset.node()};
  e.no_contract = true;
  return e;
}

Status add_warps(ir::Graph& g,
                 const std::vector<Picture>& pictures,
                 const std::vector<CameraSize>& cameras,
                 BuildGraph& out) {
  for (const Picture& p : pictures) {
    ASSIGN_OR_RETURN(const models::Pinhole k, models::model_pinhole(p.stream, p.width));
    out.manifest.intrinsics.push_back({p.stream, p.width, p.height, k.fx, k.cx, k.cy});
    for (const CameraSize& camera : cameras) {
      out.manifest.geometries.push_back(
          {p.stream, camera.width, camera.height, static_cast<uint32_t>(out.entries.size())});
      ASSIGN_OR_RETURN(auto entry, warp_entry(g, p, camera));
      out.entries.push_back(std::move(entry));
    }
  }
  return {};
}

}  // namespace

Result<std::vector<CameraSize>> parse_cameras(const std::string& text) {
  std::vector<CameraSize> out;
  for (const std::string& part : split(text, ',')) {
    const auto dims = parse_dims(part);
    const auto is_side = [](int64_t n) { return n >= 16 && n <= kMaxSide && n % 2 == 0; };
    if (!dims.ok() || dims->size() != 2 || !is_side((*dims)[0]) || !is_side((*dims)[1]))
      return fail(Errc::kInvalid,
                  strf("--camera %s: expected WxH, even, 16 to 8192", part.c_str()));
    out.push_back({static_cast<uint32_t>((*dims)[0]), static_cast<uint32_t>((*dims)[1])});
  }
  for (size_t i = 0; i < out.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if (out[i].width == out[k].width && out[i].height == out[k].height)
        return fail(Errc::kInvalid,
                    strf("--camera %ux%u is there twice", out[i].width, out[i].height));
  if (out.empty()) return fail(Errc::kInvalid, "--camera: expected at least one WxH");
  return out;
}

Result<BuildGraph> make_build_graph(ir::Graph& g,
                                    SourceModel model,
                                    bundle::Role role,
                                    const std::vector<CameraSize>& cameras) {
  BuildGraph out;
  out.manifest.role = role;
  RETURN_IF_ERROR(take_metadata(model, out.manifest));
  ASSIGN_OR_RETURN(const auto pictures, find_pictures(model, role));
  for (const Picture& p : pictures)
    if (!p.is_luma) RETURN_IF_ERROR(split_picture(g, model, p, out.manifest));
  RETURN_IF_ERROR(find_states(model, out.manifest));
  if (role != bundle::Role::kGeneric) {
    out.manifest.budget = {25, 50};
    if (out.manifest.slices.empty())
      return fail(Errc::kInvalid, strf("role %s needs metadata modeld.slices; the model has none",
                                       bundle::role_name(role)));
  }
  out.entries.push_back(run_entry(model));
  RETURN_IF_ERROR(add_warps(g, pictures, cameras, out));
  RETURN_IF_ERROR(g.status());
  return out;
}

}  // namespace modeld::tools
