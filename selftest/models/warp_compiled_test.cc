// The warps through the whole compiler and the CPU device: every pixel equals the scalar version.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "hal/backends.h"

#include "runtime/exec/compile_plan.h"
#include "runtime/exec/loaded_plan.h"

#include "models/common/scalar_warp.h"
#include "models/warp_graph/warp_graph.h"

namespace modeld {
namespace {

struct Case {
  const char* stream;
  warp_graph::WarpSpec spec;
  bool is_cabin() const { return std::string(stream) == "cabin"; }
};

// The known cameras, the tiny models, and sides that no vector width divides.
constexpr Case kCases[] = {{"road", {1928, 1208, 512, 256}},
                           {"wide", {1344, 760, 64, 32}},
                           {"road", {62, 38, 34, 18}},
                           {"cabin", {1928, 1208, 1440, 960}},
                           {"cabin", {62, 38, 34, 18}}};

class CompiledWarp : public ::testing::TestWithParam<std::tuple<bool, int>> {
 protected:
  // All cases in one plan, as a bundle has them.
  void compile() {
    const auto [noopt, threads] = GetParam();
    for (const Case& c : kCases) {
      Result<warp_graph::WarpGraph> w = c.is_cabin() ? warp_graph::build_cabin_warp(graph_, c.spec)
                                                     : warp_graph::build_road_warp(graph_, c.spec);
      ASSERT_TRUE(w.ok()) << w.error().what;
      exec::EntrySpec entry;
      entry.name = warp_graph::warp_entry_name(c.stream, c.spec.camera_width, c.spec.camera_height);
      entry.inputs = {{"nv12", w->nv12.node()}, {"matrix", w->matrix.node()}};
      entry.outputs = {{"image", w->image.node()}};
      entry.scalars = {w->stride.node(), w->uv_offset.node()};
      entry.no_contract = true;
      entries_.push_back(entry);
    }
    Result<hal::Target> target = hal::parse_target("cpu");
    ASSERT_TRUE(target.ok());
    target->threads = threads;
    exec::CompileOptions options;
    options.target = *target;
    options.noopt = noopt;
    options.jobs = 1;
    Result<exec::Plan> plan = exec::compile_plan(graph_, entries_, weights_, options);
    ASSERT_TRUE(plan.ok()) << plan.error().what;
    plan_ = std::move(*plan);
    hal::DeviceConfig config;
    config.threads = threads;
    Result<std::unique_ptr<hal::Device>> device = hal::open_device("cpu", config);
    ASSERT_TRUE(device.ok());
    device_ = std::move(*device);
    Result<std::unique_ptr<exec::LoadedPlan>> loaded = exec::LoadedPlan::load(plan_, *device_);
    ASSERT_TRUE(loaded.ok()) << loaded.error().what;
    loaded_ = std::move(*loaded);
  }

  hal::Buffer memory(size_t bytes) {
    Result<hal::Buffer> buffer =
        device_->allocator().alloc({.size_bytes = bytes, .flags = hal::Mem::kCpu});
    EXPECT_TRUE(buffer.ok());
    return buffer.ok() ? *buffer : hal::Buffer();
  }

  // The calibrated matrix, tilted ones, and numbers that divide by zero.
  std::vector<models::Matrix3f> matrices(const Case& c) {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    const double focal = (c.is_cabin() ? 567.0 : 2648.0) * c.spec.camera_width / 1928;
    const models::Pinhole camera{focal, focal, c.spec.camera_width / 2.0,
                                 c.spec.camera_height / 2.0};
    const models::Pinhole model = *models::model_pinhole(c.stream, c.spec.model_width);
    std::vector<models::Matrix3f> out = {{}, {1, 0, kNan, 0, 1, 0, 0, 0, 1}};
    std::mt19937 random(5);
    std::uniform_real_distribution<double> angle(-0.1, 0.1);
    for (int i = 0; i < 3; ++i) {
      out.push_back(
          *models::road_warp_matrix(camera, model, {angle(random), angle(random), angle(random)}));
    }
    out.push_back(*models::cabin_warp_matrix(camera, model));
    return out;
  }

  void check(const Case& c, const exec::Entry& entry);

  ir::Graph graph_;
  tensor::WeightStore weights_;
  std::vector<exec::EntrySpec> entries_;
  exec::Plan plan_;
  std::unique_ptr<hal::Device> device_;
  std::unique_ptr<exec::LoadedPlan> loaded_;
};

void CompiledWarp::check(const Case& c, const exec::Entry& entry) {
  const exec::TensorInfo& nv12_info = *entry.find_input("nv12");
  const exec::TensorInfo& image_info = *entry.find_output("image");
  const hal::Buffer nv12 = memory(nv12_info.bytes);
  const hal::Buffer matrix = memory(sizeof(models::Matrix3f));
  const hal::Buffer image = memory(image_info.bytes);
  std::mt19937 random(1);
  for (std::byte& byte : nv12.cpu()) byte = static_cast<std::byte>(random());
  const uint32_t stride = (c.spec.camera_width + 127) / 128 * 128;
  const uint32_t uv_offset = stride * ((c.spec.camera_height + 31) / 32 * 32);
  std::vector<uint64_t> slots(entry.slot_count());
  slots[nv12_info.slot] = nv12.addr();
  slots[entry.find_input("matrix")->slot] = matrix.addr();
  slots[image_info.slot] = image.addr();
  for (const exec::ScalarInfo& s : entry.scalars)
    slots[s.slot] = s.name == "stride" ? stride : uv_offset;
  const models::Nv12View view{{reinterpret_cast<const uint8_t*>(nv12.cpu().data()), nv12.size()},
                              c.spec.camera_width,
                              c.spec.camera_height,
                              stride,
                              uv_offset};
  const Result<exec::EntryId> id = loaded_->entry(entry.name);
  ASSERT_TRUE(id.ok());
  std::vector<uint8_t> wanted(image_info.bytes);
  for (const models::Matrix3f& m : matrices(c)) {
    std::memcpy(matrix.cpu().data(), m.data(), sizeof m);
    const Status run = loaded_->run(*id, slots, Deadline::in_ms(5000));
    ASSERT_TRUE(run.ok()) << run.error().what;
    const auto warp = c.is_cabin() ? models::scalar_cabin_warp : models::scalar_road_warp;
    ASSERT_TRUE(warp(view, m, c.spec.model_width, c.spec.model_height, wanted).ok());
    ASSERT_EQ(std::memcmp(wanted.data(), image.cpu().data(), wanted.size()), 0) << entry.name;
  }
}

TEST_P(CompiledWarp, EqualsTheScalarVersionBitForBit) {
  ASSERT_NO_FATAL_FAILURE(compile());
  for (size_t i = 0; i < std::size(kCases); ++i) {
    EXPECT_EQ(plan_.entries[i].calls.size(), 2u) << plan_.entries[i].name;  // positions, pixels
    ASSERT_NO_FATAL_FAILURE(check(kCases[i], plan_.entries[i]));
  }
}

INSTANTIATE_TEST_SUITE_P(Plans,
                         CompiledWarp,
                         ::testing::Values(std::tuple{true, 1},
                                           std::tuple{false, 1},
                                           std::tuple{false, 2}),
                         [](const auto& p) {
                           return std::string(std::get<0>(p.param) ? "Noopt" : "Optimised") +
                                  std::to_string(std::get<1>(p.param)) + "Threads";
                         });

}  // namespace
}  // namespace modeld
