// The warps' masks: pictures looked at from outside, tilted, and through a matrix of NaN.
#include <array>
#include <cstring>
#include <limits>

#include "hal/base/bytes.h"

#include "models/common/scalar_warp.h"

#include "selftest/boot/subject.h"

namespace modeld::selftest {
namespace {

constexpr int64_t kWarpMs = 60'000;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct View {
  const char* name;
  models::Matrix3f matrix;
};

// Matrices from model pixels to camera pixels of this geometry.
std::vector<View> views_of(const bundle::GeometryRow& g, const bundle::IntrinsicsRow& model) {
  const float sx = static_cast<float>(g.width) / static_cast<float>(model.width);
  const float sy = static_cast<float>(g.height) / static_cast<float>(model.height);
  const auto w = static_cast<float>(g.width), h = static_cast<float>(g.height);
  return {{"over the left and upper border", {sx, 0.1f, -w / 3, -0.2f, sy, -h / 3, 0, 0, 1}},
          {"over the right and lower border", {sx, 0, w / 2.5f, 0, sy, h / 2.5f, 1e-5f, 0, 1}},
          {"wholly outside", {sx, 0, 3 * w, 0, sy, -4 * h, 0, 0, 1}},
          {"through a point where w is 0", {sx, 0, 0, 0, sy, 0, -0.02f, 0, 1}},
          {"with nan", {sx, 0, kNan, 0, sy, 0, 0, 0, 1}}};
}

struct Warp {
  const bundle::GeometryRow* geometry;
  const bundle::IntrinsicsRow* model;
  const exec::Entry* entry;
  exec::EntryId id;
  std::vector<uint64_t> slots;
  hal::Buffer nv12, matrix, image;
  std::vector<uint8_t> picture, wanted, got;
  models::Nv12View view;
};

Status send(exec::LoadedPlan& plan, const hal::Buffer& to, std::span<const std::byte> bytes) {
  ASSIGN_OR_RETURN(const hal::TimelinePoint done, plan.device().upload(to, 0, bytes));
  return plan.wait(done, Deadline::in_ms(kWarpMs));
}

Result<Warp> make_warp(Subject& s, const bundle::GeometryRow& g) {
  Warp w{.geometry = &g,
         .model = s.manifest().find_intrinsics(g.stream),
         .entry = &s.manifest().plan.entries[g.entry]};
  const exec::TensorInfo* nv12 = w.entry->find_input("nv12");
  const exec::TensorInfo* matrix = w.entry->find_input("matrix");
  const exec::TensorInfo* image = w.entry->find_output("image");
  if (w.model == nullptr || nv12 == nullptr || matrix == nullptr || image == nullptr)
    return fail(Errc::kInvalid, "entry " + w.entry->name + " is no warp");
  ASSIGN_OR_RETURN(w.id, s.loaded->entry(w.entry->name));
  hal::Allocator& allocator = s.device->allocator();
  ASSIGN_OR_RETURN(w.nv12, allocator.alloc({.size_bytes = nv12->bytes}));
  ASSIGN_OR_RETURN(w.matrix, allocator.alloc({.size_bytes = matrix->bytes}));
  ASSIGN_OR_RETURN(w.image, allocator.alloc({.size_bytes = image->bytes}));
  const auto stride = static_cast<uint32_t>(align_up(g.width, 128));
  const auto uv_offset = stride * static_cast<uint32_t>(align_up(g.height, 32));
  w.slots.assign(w.entry->slot_count(), 0);
  w.slots[nv12->slot] = w.nv12.addr();
  w.slots[matrix->slot] = w.matrix.addr();
  w.slots[image->slot] = w.image.addr();
  for (const exec::ScalarInfo& scalar : w.entry->scalars)
    w.slots[scalar.slot] = scalar.name == "stride" ? stride : uv_offset;
  w.picture.resize(nv12->bytes);
  for (size_t i = 0; i < w.picture.size(); ++i)
    w.picture[i] = static_cast<uint8_t>(i * 2654435761U >> 13);
  w.wanted.resize(image->bytes);
  w.got.resize(image->bytes);
  w.view = {w.picture, g.width, g.height, stride, uv_offset};
  RETURN_IF_ERROR(send(*s.loaded, w.nv12, std::as_bytes(std::span(w.picture))));
  return w;
}

// "" or the first pixel that differs.
Result<std::string> compare_view(Subject& s, Warp& w, const View& v) {
  RETURN_IF_ERROR(send(*s.loaded, w.matrix, std::as_bytes(std::span(v.matrix))));
  RETURN_IF_ERROR(s.loaded->run(w.id, w.slots, Deadline::in_ms(kWarpMs)));
  RETURN_IF_ERROR(s.device->download(std::as_writable_bytes(std::span(w.got)), w.image, 0,
                                     Deadline::in_ms(kWarpMs)));
  const auto scalar = w.geometry->stream == "cabin" ? models::scalar_cabin_warp  // luma only
                                                    : models::scalar_road_warp;
  RETURN_IF_ERROR(scalar(w.view, v.matrix, w.model->width, w.model->height, w.wanted));
  if (w.got == w.wanted) return std::string();
  size_t at = 0;
  while (w.got[at] == w.wanted[at]) ++at;
  return strf("%s, %s: byte %zu is %u, scalar %u", w.entry->name.c_str(), v.name, at, w.got[at],
              w.wanted[at]);
}

Result<Outcome> compare_all(Subject& s) {
  size_t views = 0;
  for (const bundle::GeometryRow& g : s.manifest().geometries) {
    ASSIGN_OR_RETURN(Warp w, make_warp(s, g));
    for (const View& v : views_of(g, *w.model)) {
      ASSIGN_OR_RETURN(const std::string difference, compare_view(s, w, v));
      if (!difference.empty()) return failed(difference);
      ++views;
    }
  }
  if (views == 0) return failed("the bundle has no camera geometry");
  return passed(strf("%zu views of %zu geometries", views, s.manifest().geometries.size()));
}

}  // namespace

Outcome warp_borders_item(Subject& s) {
  auto result = compare_all(s);
  return result.ok() ? std::move(*result) : failed(result.error().what);
}

}  // namespace modeld::selftest
