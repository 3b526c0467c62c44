#include "ipc/synth_scene.h"

#include <algorithm>
#include <cstring>

#include "hal/base/check.h"

namespace modeld::ipc {
namespace {

// Luma levels: background and objects stay in [kMinLuma, kMaxLuma]; noise of at most kNoise is
// added on top.
constexpr uint8_t kMinLuma = 16;
constexpr uint8_t kMaxLuma = 220;
constexpr uint8_t kNoise = 16;
constexpr uint8_t kNeutralChroma = 128;
constexpr size_t kNoiseTile = 1u << 16;

struct Colour {
  uint8_t y, u, v;
};
constexpr Colour kAsphalt{70, 128, 128};
constexpr Colour kGrass{96, 108, 116};
constexpr Colour kMarking{210, 128, 128};
constexpr Colour kCar{40, 150, 110};
constexpr Colour kCarLight{150, 90, 220};
constexpr Colour kSeat{60, 130, 132};
constexpr Colour kSkin{165, 110, 150};
constexpr Colour kEye{30, 128, 128};

// Triangle wave: 0..amplitude..0 over `period` frames.
int32_t triangle(uint64_t t, uint64_t period, int32_t amplitude) {
  const auto phase = static_cast<int64_t>(t % period);
  const auto half = static_cast<int64_t>(period / 2);
  const int64_t up = phase < half ? phase : static_cast<int64_t>(period) - phase;
  return static_cast<int32_t>(up * amplitude / half);
}

}  // namespace

uint64_t synth_hash(uint64_t seed, uint64_t a, uint64_t b, uint64_t c) {
  // Three rounds of a 64-bit finaliser; every step is exact unsigned arithmetic.
  uint64_t h = seed ^ 0x9e3779b97f4a7c15u;
  for (const uint64_t part : {a, b, c}) {
    h += part + 0x9e3779b97f4a7c15u;
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
    h = (h ^ (h >> 27)) * 0x94d049bb133111ebu;
    h ^= h >> 31;
  }
  return h;
}

SynthScene::SynthScene(uint64_t seed, StreamId stream, const Nv12Geometry& geometry)
    : seed_(seed),
      stream_(stream),
      geometry_(geometry),
      background_(geometry.stride * (geometry.y_height + geometry.uv_height)),
      noise_(kNoiseTile + geometry.stride) {
  CHECK(geometry.uv_offset == geometry.stride * geometry.y_height &&
        geometry.size >= background_.size());
  draw_background();
  uint64_t word = 0;
  for (size_t i = 0; i < noise_.size(); ++i) {
    if (i % 8 == 0) word = synth_hash(seed_, static_cast<uint64_t>(stream_), 1, i);
    noise_[i] = static_cast<uint8_t>((word >> (8 * (i % 8))) % kNoise);
  }
}

void SynthScene::draw_background() {
  uint8_t* const luma = background_.data();
  uint8_t* const chroma = luma + geometry_.uv_offset;
  std::memset(luma, kMinLuma, geometry_.uv_offset);
  std::memset(chroma, kNeutralChroma, background_.size() - geometry_.uv_offset);
  const auto w = static_cast<int32_t>(geometry_.width);
  const auto h = static_cast<int32_t>(geometry_.height);
  if (stream_ == StreamId::kCabin) {
    fill_rect({0, 0, w, h}, kSeat.y, kSeat.u, kSeat.v, luma, chroma);
    fill_rect({w * 3 / 5, 0, w * 9 / 10, h / 3}, 190, 140, 120, luma, chroma);  // window
    fill_rect({w / 10, h / 2, w * 2 / 5, h}, 85, 126, 130, luma, chroma);       // empty seat
    return;
  }
  const int32_t horizon = h / 2;
  for (int32_t y = 0; y < horizon; ++y)  // sky, brighter towards the horizon
    fill_rect({0, y, w, y + 1}, static_cast<uint8_t>(150 + 60 * y / horizon), 140, 118, luma,
              chroma);
  fill_rect({0, horizon, w, h}, kGrass.y, kGrass.u, kGrass.v, luma, chroma);
  for (int32_t y = horizon; y < h; ++y) {
    const int32_t half = w / 40 + (w / 2) * (y - horizon) / (h - horizon);
    fill_rect({w / 2 - half, y, w / 2 + half, y + 1}, kAsphalt.y, kAsphalt.u, kAsphalt.v, luma,
              chroma);
  }
}

void SynthScene::draw(uint64_t frame_id, bool black, std::span<uint8_t> nv12) const {
  CHECK(nv12.size() >= geometry_.size);
  uint8_t* const luma = nv12.data();
  uint8_t* const chroma = luma + geometry_.uv_offset;
  draw_luma(frame_id, luma);
  std::memcpy(chroma, background_.data() + geometry_.uv_offset,
              background_.size() - geometry_.uv_offset);
  if (stream_ == StreamId::kCabin) {
    draw_cabin_objects(frame_id, luma, chroma);
  } else {
    draw_road_objects(frame_id, luma, chroma);
  }
  if (black) {
    const size_t first = geometry_.height / 4;
    const size_t rows = geometry_.height / 2;
    std::memset(luma + first * geometry_.stride, 0, rows * geometry_.stride);
  }
}

// Background plus noise; the noise tile is read at another place in every row of every frame.
void SynthScene::draw_luma(uint64_t frame_id, uint8_t* luma) const {
  const size_t stride = geometry_.stride;
  const uint64_t frame_hash = synth_hash(seed_, static_cast<uint64_t>(stream_), 2, frame_id);
  for (size_t y = 0; y < geometry_.y_height; ++y) {
    const uint8_t* const from = background_.data() + y * stride;
    const uint8_t* const noise =
        noise_.data() + (frame_hash + y * 0x9e3779b97f4a7c15u) % kNoiseTile;
    uint8_t* const to = luma + y * stride;
    for (size_t x = 0; x < stride; ++x) to[x] = static_cast<uint8_t>(from[x] + noise[x]);
  }
}

// Dashes that come nearer by one part in a second, lane borders that sway, a lead car that closes
// in and falls back.
void SynthScene::draw_road_objects(uint64_t frame_id, uint8_t* luma, uint8_t* chroma) const {
  const auto w = static_cast<int32_t>(geometry_.width);
  const auto h = static_cast<int32_t>(geometry_.height);
  const int32_t horizon = h / 2;
  const int32_t depth = h - horizon;
  const uint64_t t = frame_id + synth_hash(seed_, 3, 0) % 256;
  const int32_t sway = triangle(t, 120, w / 32) - w / 64;
  for (int32_t lane = -1; lane <= 1; ++lane) {
    for (int32_t y = horizon + depth / 16; y < h; ++y) {
      // Distance along the road grows as 1 / (y - horizon): dashes shrink towards the horizon.
      const int32_t distance = depth * 64 / (y - horizon) + static_cast<int32_t>(t % 4096) * 4;
      if (lane == 0 && (distance / 24) % 2 == 0) continue;
      const int32_t reach = y - horizon;
      const int32_t x = w / 2 + (lane * (w * 2 / 5) + sway) * reach / depth;
      const int32_t half = 1 + (w / 160) * reach / depth;
      fill_rect({x - half, y, x + half, y + 1}, kMarking.y, kMarking.u, kMarking.v, luma, chroma);
    }
  }
  const int32_t reach = depth / 8 + triangle(t, 200, depth / 3);
  const int32_t half = (w / 8) * reach / depth + 2;
  const int32_t x = w / 2 + sway * reach / depth;
  const int32_t y = horizon + reach;
  fill_rect({x - half, y - half * 3 / 2, x + half, y}, kCar.y, kCar.u, kCar.v, luma, chroma);
  fill_rect({x - half, y - half / 2, x - half / 2, y - half / 4}, kCarLight.y, kCarLight.u,
            kCarLight.v, luma, chroma);
  fill_rect({x + half / 2, y - half / 2, x + half, y - half / 4}, kCarLight.y, kCarLight.u,
            kCarLight.v, luma, chroma);
}

// A face that moves about its seat and blinks.
void SynthScene::draw_cabin_objects(uint64_t frame_id, uint8_t* luma, uint8_t* chroma) const {
  const auto w = static_cast<int32_t>(geometry_.width);
  const auto h = static_cast<int32_t>(geometry_.height);
  const uint64_t t = frame_id + synth_hash(seed_, 4, 0) % 256;
  const int32_t x = w / 2 + triangle(t, 160, w / 8) - w / 16;
  const int32_t y = h / 2 + triangle(t + 30, 90, h / 12) - h / 24;
  const int32_t rx = w / 14;
  const int32_t ry = h / 7;
  fill_ellipse({x - rx, y - ry, x + rx, y + ry}, kSkin.y, kSkin.u, kSkin.v, luma, chroma);
  const int32_t open = t % 64 < 4 ? ry / 24 + 1 : ry / 8 + 1;
  for (const int32_t side : {-1, 1}) {
    const int32_t ex = x + side * rx * 2 / 5;
    const int32_t ey = y - ry / 5;
    fill_ellipse({ex - rx / 6, ey - open, ex + rx / 6, ey + open}, kEye.y, kEye.u, kEye.v, luma,
                 chroma);
  }
  fill_rect({x - rx / 3, y + ry / 2, x + rx / 3, y + ry / 2 + ry / 10 + 1}, 110, 110, 170, luma,
            chroma);
}

void SynthScene::fill_rect(
    Rect r, uint8_t y, uint8_t u, uint8_t v, uint8_t* luma, uint8_t* chroma) const {
  r.x0 = std::clamp(r.x0, 0, static_cast<int32_t>(geometry_.width));
  r.x1 = std::clamp(r.x1, r.x0, static_cast<int32_t>(geometry_.width));
  r.y0 = std::clamp(r.y0, 0, static_cast<int32_t>(geometry_.height));
  r.y1 = std::clamp(r.y1, r.y0, static_cast<int32_t>(geometry_.height));
  const auto width = static_cast<size_t>(r.x1 - r.x0);
  for (int32_t row = r.y0; row < r.y1; ++row) {
    std::memset(luma + static_cast<size_t>(row) * geometry_.stride + static_cast<size_t>(r.x0), y,
                width);
    if (row % 2 != 0) continue;
    uint8_t* const uv = chroma + static_cast<size_t>(row / 2) * geometry_.stride;
    for (int32_t x = r.x0 / 2; x < r.x1 / 2; ++x) {
      uv[2 * x] = u;
      uv[2 * x + 1] = v;
    }
  }
}

void SynthScene::fill_ellipse(
    Rect box, uint8_t y, uint8_t u, uint8_t v, uint8_t* luma, uint8_t* chroma) const {
  const int64_t rx = std::max(1, (box.x1 - box.x0) / 2);
  const int64_t ry = std::max(1, (box.y1 - box.y0) / 2);
  const int32_t cx = (box.x0 + box.x1) / 2;
  const int32_t cy = (box.y0 + box.y1) / 2;
  int64_t half = 0;
  for (int64_t dy = -ry; dy <= ry; ++dy) {
    // Largest half with (half/rx)^2 + (dy/ry)^2 <= 1; it changes little from row to row.
    const auto inside = [&](int64_t d) {
      return d * d * ry * ry + dy * dy * rx * rx <= rx * rx * ry * ry;
    };
    while (half < rx && inside(half + 1)) ++half;
    while (half > 0 && !inside(half)) --half;
    const auto h = static_cast<int32_t>(half);
    const auto row = static_cast<int32_t>(cy + dy);
    fill_rect({cx - h, row, cx + h, row + 1}, y, u, v, luma, chroma);
  }
}

static_assert(kMaxLuma + kNoise <= 255 && kMarking.y <= kMaxLuma,
              "luma plus noise must not wrap to 0");

}  // namespace modeld::ipc
