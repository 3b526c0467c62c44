#include "hal/sim/null_device.h"

#include <cstring>

namespace modeld::hal {
namespace {

TEST(NullDevice, AnswersEveryRunWithTheHook) {
  DeviceConfig config;
  std::vector<std::string> labels;
  config.on_null_run = [&labels](const std::string& label, std::span<const uint64_t> inputs) {
    labels.push_back(label);
    const float golden = 1.5F;
    std::memcpy(reinterpret_cast<void*>(inputs[1]), &golden, sizeof(golden));
  };
  const auto device = std::move(*open_null_device(config));
  const Buffer out = *device->allocator().alloc({.size_bytes = 64});
  ProgramImage image;
  image.name = "k";
  image.target = "amd:gfx1100";
  image.code = std::vector<std::byte>(8);
  image.args.resize(2);
  const std::shared_ptr<Program> program = *device->load(image);
  auto recorder = device->record(QueueKind::kCompute, "run");
  const Word args[] = {Word::input(0), Word::input(1)};
  recorder->launch(program, args);
  const std::unique_ptr<Bound> bound = std::move(*std::move(*recorder).bind());
  EXPECT_EQ(bound->input_count(), 2U);
  const uint64_t inputs[] = {0, out.addr()};
  const TimelinePoint first = *bound->submit(inputs);
  const TimelinePoint second = *bound->submit(inputs);
  EXPECT_LT(first, second);
  EXPECT_TRUE(device->wait(second, Deadline{0}).ok());
  EXPECT_THAT(labels, testing::ElementsAre("run", "run"));
  float value = 0;
  ASSERT_TRUE(
      device->download(std::as_writable_bytes(std::span(&value, 1)), out, 0, Deadline{0}).ok());
  EXPECT_EQ(value, 1.5F);
}

TEST(NullDevice, SignalsAreSetSoThatNobodyHangs) {
  const auto device = std::move(*open_null_device({}));
  const Signal signal = *device->make_signal();
  auto recorder = device->record(QueueKind::kCompute);
  recorder->wait(signal, Word::value(100)).signal(signal, Word::value(7));
  ASSERT_TRUE(device->submit(std::move(recorder)).ok());
  EXPECT_EQ(signal.value(), 7U);
}

TEST(NullDevice, MistakesAreStillMistakes) {
  const auto device = std::move(*open_null_device({}));
  EXPECT_FALSE(device->allocator().alloc({}).ok());
  EXPECT_EQ(device->wait({0, device->epoch(), 1}, Deadline{0}).error().code, Errc::kInvalid);
  auto recorder = device->record(QueueKind::kCompute, "bad");
  recorder->launch(nullptr, {});
  EXPECT_FALSE(std::move(*recorder).bind().ok());
  auto patched = device->record(QueueKind::kCompute);
  patched->copy(Word::input(0), Word::input(1), Word::value(4));
  const auto bound = std::move(*std::move(*patched).bind());
  EXPECT_FALSE(bound->submit({}).ok());
}

}  // namespace
}  // namespace modeld::hal
