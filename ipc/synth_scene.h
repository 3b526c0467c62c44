// The synthetic camera: a road with lane lines and a lead car (road, wide), a moving face (cabin),
// as NV12. Contract: the bytes are a pure function of (seed, stream, geometry, frame id, black),
// integer arithmetic only, the same on every machine. No luma or chroma byte is 0, except that a
// black frame has luma 0 in its middle half of rows over the full width: whatever the warp samples
// there sees a zero pixel. Threading: draw() may run on several threads at once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hal/base/status.h"

#include "ipc/frame.h"

namespace modeld::ipc {

class SynthScene final {
 public:
  // Precomputes the static background; `geometry` comes from nv12_geometry().
  SynthScene(uint64_t seed, StreamId stream, const Nv12Geometry& geometry);

  // Writes every byte up to geometry.stride * (y_height + uv_height). `nv12` must hold
  // geometry.size bytes.
  void draw(uint64_t frame_id, bool black, std::span<uint8_t> nv12) const;

 private:
  struct Rect {
    int32_t x0 = 0, y0 = 0, x1 = 0, y1 = 0;  // half-open
  };
  void draw_background();
  void draw_luma(uint64_t frame_id, uint8_t* luma) const;
  void draw_road_objects(uint64_t frame_id, uint8_t* luma, uint8_t* chroma) const;
  void draw_cabin_objects(uint64_t frame_id, uint8_t* luma, uint8_t* chroma) const;
  void fill_rect(Rect rect, uint8_t y, uint8_t u, uint8_t v, uint8_t* luma, uint8_t* chroma) const;
  void fill_ellipse(
      Rect box, uint8_t y, uint8_t u, uint8_t v, uint8_t* luma, uint8_t* chroma) const;

  uint64_t seed_;
  StreamId stream_;
  Nv12Geometry geometry_;
  std::vector<uint8_t> background_;  // luma and chroma planes, padding included
  std::vector<uint8_t> noise_;       // tile read at a hashed offset per row
};

// The mixing function behind scene and vehicle (also handy in tests): 64 bit in, 64 bit out.
uint64_t synth_hash(uint64_t seed, uint64_t a, uint64_t b, uint64_t c = 0);

}  // namespace modeld::ipc
