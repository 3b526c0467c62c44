// The warp as tensor graphs: NV12 camera picture -> model picture, two kernels each (positions,
// pixels), with exactly the arithmetic of models/common/scalar_warp.h (there is the specification).
// Compiled without contraction as entries `warp/<stream>/<WxH>`. Contract: inputs "nv12" (u8,
// nv12_buffer_bytes long; only bytes that stride and uv_offset reach are read), "matrix" (f32 3x3,
// model pixel -> camera pixel); scalars "stride" and "uv_offset" with the limits below; output
// "image". The caller must have checked that uv_offset + stride * height / 2 lies inside the
// picture (nv12_used_bytes). Units: pixels, bytes. Threading: as the graph, one thread.
#pragma once

#include <cstdint>
#include <string>

#include "hal/base/status.h"

#include "runtime/ir/graph.h"
#include "runtime/tensor/tensor.h"

namespace modeld::warp_graph {

// One range for every geometry, so that entries of one bundle share their variables.
constexpr int64_t kMinStride = 2;
constexpr int64_t kMaxStride = 16'384;
constexpr int64_t kMinUvOffset = 4;
constexpr int64_t kMaxUvOffset = int64_t{1} << 28;
constexpr uint32_t kMaxCameraSide = 8'192;

struct WarpSpec {
  uint32_t camera_width = 0;
  uint32_t camera_height = 0;
  uint32_t model_width = 0;
  uint32_t model_height = 0;
};

struct WarpGraph {
  tensor::Tensor nv12;
  tensor::Tensor matrix;
  tensor::Tensor stride;
  tensor::Tensor uv_offset;
  tensor::Tensor image;
};

// Road and wide: image (1, 6, model_height/2, model_width/2).
Result<WarpGraph> build_road_warp(ir::Graph& g, const WarpSpec& spec);
// Cabin: image (1, model_width * model_height), luma only, 16 outside the camera's picture.
Result<WarpGraph> build_cabin_warp(ir::Graph& g, const WarpSpec& spec);

// Bytes of a camera buffer of this geometry with the cameras' own padding: the length "nv12" is
// declared with.
int64_t nv12_buffer_bytes(uint32_t width, uint32_t height);

// "warp/road/1928x1208"
std::string warp_entry_name(const std::string& stream, uint32_t width, uint32_t height);

}  // namespace modeld::warp_graph
