#include "models/warp_graph/warp_graph.h"

#include <algorithm>

namespace modeld::warp_graph {

namespace {

using tensor::Dims;
using tensor::DType;
using tensor::Tensor;

int64_t aligned(int64_t value, int64_t to) {
  return (value + to - 1) / to * to;
}

Status check(const WarpSpec& spec) {
  const uint32_t sides[] = {spec.camera_width, spec.camera_height, spec.model_width,
                            spec.model_height};
  for (const uint32_t side : sides) {
    if (side >= 2 && side % 2 == 0 && side <= kMaxCameraSide) continue;
    return fail(
        Errc::kInvalid,
        strf("warp: camera %ux%u to model %ux%u: sides must be even, 2 to %u", spec.camera_width,
             spec.camera_height, spec.model_width, spec.model_height, kMaxCameraSide));
  }
  return {};
}

WarpGraph make_inputs(ir::Graph& g, const WarpSpec& spec) {
  WarpGraph w;
  w.nv12 = Tensor::input(g, "nv12", {nv12_buffer_bytes(spec.camera_width, spec.camera_height)},
                         DType::kU8);
  w.matrix = Tensor::input(g, "matrix", {3, 3}, DType::kF32);
  w.stride = Tensor::variable(g, "stride", kMinStride, kMaxStride);
  w.uv_offset = Tensor::variable(g, "uv_offset", kMinUvOffset, kMaxUvOffset);
  return w;
}

// Entry `index` of the matrix as a scalar of rank `rank`.
Tensor entry(const Tensor& matrix, int64_t index, size_t rank) {
  return matrix.reshape({9}).shrink({index}, {1}).reshape(Dims(rank, 1));
}

struct Position {
  Tensor column, row;  // i32, inside the plane
  Tensor inside;       // bool: nothing was clamped
};

// In [0, last]; a NaN becomes 0. Written as two selections: maximum() would let a NaN through.
Tensor clamped(const Tensor& t, const Tensor& last) {
  const Tensor not_below = t.gt(0.0).where(t, t.literal(0.0));
  return not_below.lt(last).where(not_below, last).cast(DType::kI32);
}

// One IEEE division. Tensor's own division is a product with the reciprocal, which rounds twice
// until code generation merges the two.
Tensor quotient(const Tensor& a, const Tensor& b) {
  return Tensor(a.graph(), ir::alu(a.graph(), ir::Op::kFDiv, {a.node(), b.node()}));
}

// Steps and order of scalar_warp.h. `m` are the nine entries, x and y the model pixel, width and
// height the plane's size, all broadcastable; widths are f32.
Position look_up(const Tensor (&m)[9],
                 const Tensor& x,
                 const Tensor& y,
                 const Tensor& width,
                 const Tensor& height) {
  const Tensor fx = x.cast(DType::kF32);
  const Tensor fy = y.cast(DType::kF32);
  const Tensor px = (m[0] * fx + m[1] * fy) + m[2];
  const Tensor py = (m[3] * fx + m[4] * fy) + m[5];
  const Tensor pw = (m[6] * fx + m[7] * fy) + m[8];
  const Tensor tx = quotient(px, pw) + 0.5;
  const Tensor ty = quotient(py, pw) + 0.5;
  const Tensor inside = tx.ge(0.0).bit_and(tx.lt(width)).bit_and(ty.ge(0.0)).bit_and(ty.lt(height));
  return {clamped(tx, width - 1.0), clamped(ty, height - 1.0), inside};
}

// A position that stands for a pixel outside the picture, and the luma it gets.
constexpr int64_t kOutside = -1;
constexpr int64_t kOutsideLuma = 16;

// Positions get memory of their own: computing them is vector arithmetic, looking them up is not,
// and one kernel for both would do everything one pixel at a time (6 times slower on a CPU).
Tensor in_memory(const Tensor& position) {
  return position.contiguous();
}

Tensor f32(ir::Graph& g, uint32_t value) {
  return Tensor::constant(g, static_cast<double>(value), DType::kF32);
}

}  // namespace

int64_t nv12_buffer_bytes(uint32_t width, uint32_t height) {
  const int64_t stride = aligned(width, 128);
  const int64_t luma = stride * aligned(height, 32);
  const int64_t chroma = stride * aligned(height / 2, 16);
  const int64_t slack = 4096 + std::max<int64_t>(16'384, 8 * stride);
  return aligned(luma + chroma + slack, 4096) + aligned(width, 512) * 512;
}

std::string warp_entry_name(const std::string& stream, uint32_t width, uint32_t height) {
  return strf("warp/%s/%ux%u", stream.c_str(), width, height);
}

Result<WarpGraph> build_road_warp(ir::Graph& g, const WarpSpec& spec) {
  RETURN_IF_ERROR(check(spec));
  WarpGraph w = make_inputs(g, spec);
  const int64_t rows = spec.model_height / 2;
  const int64_t columns = spec.model_width / 2;
  // All six channels are one expression: what differs between luma and chroma is selected by the
  // channel, so that every output pixel costs one lookup.
  const Tensor channel = Tensor::arange(g, 6).reshape({6, 1, 1});
  const Tensor i = Tensor::arange(g, rows).reshape({1, rows, 1});
  const Tensor j = Tensor::arange(g, columns).reshape({1, 1, columns});
  const Tensor is_chroma = channel.ge(4);
  const auto pick = [&](double luma, double chroma) {
    return is_chroma.where(Tensor::constant(g, chroma, DType::kF32),
                           Tensor::constant(g, luma, DType::kF32));
  };
  const Tensor halved = pick(1.0, 0.5);
  const Tensor doubled = pick(1.0, 2.0);
  Tensor m[9];
  for (int64_t k = 0; k < 9; ++k) {
    m[k] = entry(w.matrix, k, 3);
    if (k == 2 || k == 5) m[k] = m[k] * halved;
    if (k == 6 || k == 7) m[k] = m[k] * doubled;
  }
  const Tensor x = is_chroma.where(j, j * 2 + channel.floor_div(channel.literal(2)));
  const Tensor y = is_chroma.where(i, i * 2 + channel.floor_mod(channel.literal(2)));
  const Tensor width = is_chroma.where(f32(g, spec.camera_width / 2), f32(g, spec.camera_width));
  const Tensor height = is_chroma.where(f32(g, spec.camera_height / 2), f32(g, spec.camera_height));
  const Position p = look_up(m, x, y, width, height);
  const Tensor luma_at = p.row * w.stride + p.column;
  const Tensor chroma_at = p.row * w.stride + p.column * 2 + (channel - 4) + w.uv_offset;
  const Tensor at = in_memory(is_chroma.where(chroma_at, luma_at));
  const Tensor image = tensor::gather_flat(w.nv12, at);
  w.image = image.reshape({1, 6, rows, columns});
  RETURN_IF_ERROR(g.status());
  return w;
}

Result<WarpGraph> build_cabin_warp(ir::Graph& g, const WarpSpec& spec) {
  RETURN_IF_ERROR(check(spec));
  WarpGraph w = make_inputs(g, spec);
  const int64_t rows = spec.model_height;
  const int64_t columns = spec.model_width;
  Tensor m[9];
  for (int64_t k = 0; k < 9; ++k) m[k] = entry(w.matrix, k, 2);
  const Tensor x = Tensor::arange(g, columns).reshape({1, columns});
  const Tensor y = Tensor::arange(g, rows).reshape({rows, 1});
  const Position p = look_up(m, x, y, f32(g, spec.camera_width), f32(g, spec.camera_height));
  const Tensor position = p.row * w.stride + p.column;
  const Tensor at = in_memory(p.inside.where(position, position.literal(kOutside)));
  const Tensor luma = tensor::gather_flat(w.nv12, at);
  const Tensor image = at.lt(0).where(luma.literal(kOutsideLuma), luma);
  w.image = image.reshape({1, rows * columns});
  RETURN_IF_ERROR(g.status());
  return w;
}

}  // namespace modeld::warp_graph
