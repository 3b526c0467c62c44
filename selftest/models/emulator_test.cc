// Code for another instruction set, run here: the emulated CPU behind the device interface.
#include "models/tools/emulator.h"

#include <gtest/gtest.h>

#include <cstring>

#include "runtime/compile/compiler.h"

namespace modeld {
namespace {

class Emulator : public ::testing::Test {
 protected:
  void SetUp() override {
    target_ = *hal::parse_target("cpu:aarch64");
    auto device = tools::open_emulator_for(target_);
    if (!device.ok() && device.error().code == Errc::kNotFound)
      GTEST_SKIP() << "SKIPPED: " << device.error().what;
    ASSERT_TRUE(device.ok()) << device.error().what;
    device_ = std::move(*device);
  }
  // A program of `source`, whose one function has a kernel's signature; `scalars` of the arguments
  // come last.
  std::shared_ptr<hal::Program> program(const std::string& source, size_t buffers, size_t scalars) {
    auto compiler = compile::make_clang_compiler(target_);
    const compile::KernelSource kernel{"k", source, false};
    auto images = (*compiler)->do_compile(std::span(&kernel, 1));
    EXPECT_TRUE(images.ok()) << images.error().what;
    hal::ProgramImage image;
    image.name = "k";
    image.target = hal::print_target(target_);
    image.code = std::move((*images)[0].code);
    image.entry_offset = (*images)[0].entry_offset;
    for (size_t i = 0; i < buffers + scalars; ++i)
      image.args.push_back(
          {i < buffers ? hal::ArgKind::kBuffer : hal::ArgKind::kScalar, static_cast<uint16_t>(i)});
    auto loaded = device_->load(image);
    EXPECT_TRUE(loaded.ok()) << loaded.error().what;
    return loaded.ok() ? *loaded : nullptr;
  }
  hal::Buffer floats(std::vector<float> values) {
    hal::BufferDesc desc;
    desc.size_bytes = values.size() * sizeof(float);
    hal::Buffer out = *device_->allocator().alloc(desc);
    std::memcpy(out.cpu().data(), values.data(), desc.size_bytes);
    return out;
  }
  static float at(const hal::Buffer& b, size_t i) {
    float out = 0;
    std::memcpy(&out, b.cpu().data() + i * sizeof out, sizeof out);
    return out;
  }

  hal::Target target_;
  std::unique_ptr<hal::Device> device_;
};

constexpr const char* kScale =
    "void k(const unsigned long long* a, unsigned core) {\n"
    "  float* out = (float*)a[0]; const float* in = (const float*)a[1];\n"
    "  out[core] = in[core] * (float)(long long)a[2];\n}\n";

TEST_F(Emulator, RunsEveryCoreWithBuffersAndScalars) {
  const auto k = program(kScale, 2, 1);
  const hal::Buffer in = floats({1, 2, 3}), out = floats({0, 0, 0});
  auto recorder = device_->record(hal::QueueKind::kCompute);
  const hal::Word args[] = {hal::Word::of(out), hal::Word::input(0), hal::Word::input(1)};
  recorder->launch(k, args, {hal::Word::value(3)});
  const auto bound = std::move(*recorder).bind();
  ASSERT_TRUE(bound.ok());
  for (const uint64_t factor : {10U, 7U}) {
    const uint64_t inputs[] = {in.addr(), factor};
    const auto done = (*bound)->submit(inputs);
    ASSERT_TRUE(done.ok()) << done.error().what;
    ASSERT_TRUE(device_->wait(*done, Deadline::in_ms(60'000)).ok());
    for (size_t i = 0; i < 3; ++i)
      EXPECT_EQ(at(out, i), static_cast<float>(factor) * static_cast<float>(i + 1));
  }
  EXPECT_FALSE((*bound)->submit({}).ok()) << "two inputs are wanted";
}

TEST_F(Emulator, HostCommandsBetweenLaunchesKeepTheirOrder) {
  const auto k = program(kScale, 2, 1);
  const hal::Buffer a = floats({1}), b = floats({0}), c = floats({0});
  auto recorder = device_->record(hal::QueueKind::kCompute);
  const auto scale = [&](const hal::Buffer& to, const hal::Buffer& from, uint64_t factor) {
    const hal::Word args[] = {hal::Word::of(to), hal::Word::of(from), hal::Word::value(factor)};
    recorder->launch(k, args);
  };
  scale(b, a, 2);                                                           // b = 2
  recorder->copy(hal::Word::of(a), hal::Word::of(b), hal::Word::value(4));  // a = 2
  scale(c, a, 5);                                                           // c = 10
  recorder->write(hal::Word::of(b), hal::Word::value(0x40400000), false);   // b = 3
  scale(a, b, 3);                                                           // a = 9
  ASSERT_TRUE(device_->submit(std::move(recorder)).ok());
  EXPECT_EQ(at(a, 0), 9.0F);
  EXPECT_EQ(at(b, 0), 3.0F);
  EXPECT_EQ(at(c, 0), 10.0F);
}

TEST_F(Emulator, ACrashIsALostDeviceAndNotOurs) {
  const auto k =
      program("void k(const unsigned long long* a, unsigned core) { *(int*)a[0] = 1; }", 0, 1);
  auto recorder = device_->record(hal::QueueKind::kCompute);
  const hal::Word nowhere[] = {hal::Word::value(16)};
  recorder->launch(k, nowhere);
  const auto done = device_->submit(std::move(recorder));
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code, Errc::kDeviceLost);
  EXPECT_NE(done.error().what.find("signal"), std::string::npos) << done.error().what;
}

TEST_F(Emulator, RefusesWhatItCannotReachOrRun) {
  const auto k = program(kScale, 2, 1);
  float outside = 0;
  auto recorder = device_->record(hal::QueueKind::kCompute);
  const hal::Word args[] = {hal::Word::value(reinterpret_cast<uint64_t>(&outside)),
                            hal::Word::value(reinterpret_cast<uint64_t>(&outside)),
                            hal::Word::value(1)};
  recorder->launch(k, args);
  EXPECT_EQ(device_->submit(std::move(recorder)).error().code, Errc::kInvalid);
  hal::ProgramImage image;
  image.target = "cpu:x86-64-v3";
  image.code.resize(16);
  EXPECT_EQ(device_->load(image).error().code, Errc::kMismatch);
  hal::BufferDesc desc;
  desc.size_bytes = 4;
  desc.external = &outside;
  EXPECT_EQ(device_->allocator().alloc(desc).error().code, Errc::kUnsupported);
  EXPECT_EQ(tools::open_emulator_for(*hal::parse_target("cpu:x86-64-v3")).error().code,
            Errc::kUnsupported);
}

TEST_F(Emulator, MemoryComesBack) {
  hal::BufferDesc desc;
  desc.size_bytes = 100;
  const uint64_t first = device_->allocator().alloc(desc)->addr();
  const hal::Buffer held = *device_->allocator().alloc(desc);
  EXPECT_EQ(held.addr(), first);
  EXPECT_EQ(device_->allocator().stats().live_buffers, 1U);
  desc.size_bytes = size_t{1} << 40;
  EXPECT_EQ(device_->allocator().alloc(desc).error().code, Errc::kOutOfMemory);
}

}  // namespace
}  // namespace modeld
