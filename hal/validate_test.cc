#include "hal/validate.h"

#include <stdlib.h>

#include "hal/backends.h"

namespace modeld::hal {
namespace {

void add_one(const uint64_t* w, uint32_t core) {
  reinterpret_cast<int*>(w[0])[core] += 1;
}

class Validate : public testing::Test {
 protected:
  std::unique_ptr<Device> device_ = validate_device(std::move(*open_device("cpu")));
  Buffer buffer_ = *device_->allocator().alloc({.size_bytes = 64, .flags = Mem::kZero});

  Status run(std::unique_ptr<Recorder> recorder) {
    ASSIGN_OR_RETURN(const TimelinePoint point, device_->submit(std::move(recorder)));
    return device_->wait(point, Deadline::in_ms(5000));
  }
  std::unique_ptr<Recorder> record() { return device_->record(QueueKind::kCompute, "r"); }
  std::shared_ptr<Program> program() {
    ProgramImage image;
    image.name = "add_one";
    image.host_kernel = add_one;
    image.args = {{ArgKind::kBuffer}, {ArgKind::kScalar, 1}};
    return *device_->load(image);
  }
};

TEST_F(Validate, CorrectRecordingsRunAsWithout) {
  const Signal signal = *device_->make_signal();
  const Buffer other = *device_->allocator().alloc({.size_bytes = 64, .flags = Mem::kZero});
  const Word args[] = {Word::of(buffer_), Word::value(12345)};
  auto r = record();
  r->launch(program(), args).copy(Word::of(other), Word::of(buffer_), Word::value(64));
  r->write(Word::value(other.addr() + 60), Word::value(9), false)
      .stamp(signal)
      .signal(signal, Word::value(1));
  ASSERT_TRUE(run(std::move(r)).ok());
  EXPECT_EQ(reinterpret_cast<int*>(other.cpu().data())[0], 1);
  EXPECT_EQ(reinterpret_cast<int*>(other.cpu().data())[15], 9);
  EXPECT_EQ(signal.value(), 1U);
}

TEST_F(Validate, RangesPastTheEndAreFound) {
  auto r = record();
  r->barrier().copy(Word::of(buffer_), Word::value(buffer_.addr() + 1), Word::value(64));
  const Status s = run(std::move(r));
  ASSERT_FALSE(s.ok());
  EXPECT_EQ(s.error().code, Errc::kInvalid);
  EXPECT_THAT(s.error().what, testing::HasSubstr("recording 'r', command 0: copy source"));
  r = record();
  r->write(Word::value(buffer_.addr() + 60), Word::value(1), true);
  EXPECT_FALSE(run(std::move(r)).ok());
  const Word args[] = {Word::value(buffer_.addr() + 64), Word::value(0)};
  r = record();
  r->launch(program(), args);
  EXPECT_THAT(run(std::move(r)).error().what, testing::HasSubstr("buffer argument"));
}

TEST_F(Validate, FreedMemoryInAPatchSlotIsFound) {
  const Word args[] = {Word::input(0), Word::value(0)};
  auto r = record();
  r->launch(program(), args);
  const auto bound = std::move(*std::move(*r).bind());
  const uint64_t inputs[] = {buffer_.addr()};
  ASSERT_TRUE(bound->submit(inputs).ok());
  ASSERT_TRUE(device_->synchronize(Deadline::in_ms(5000)).ok());
  buffer_ = {};
  EXPECT_EQ(bound->submit(inputs).error().code, Errc::kInvalid);
}

TEST_F(Validate, SignalsGoingBackwardsAreFound) {
  Signal signal = *device_->make_signal(5);
  auto r = record();
  r->signal(signal, Word::value(4));
  EXPECT_THAT(run(std::move(r)).error().what, testing::HasSubstr("from 5 back to 4"));
}

TEST_F(Validate, DroppedSignalsAreFound) {
  auto r = record();
  {
    const Signal signal = *device_->make_signal();
    r->signal(signal, Word::value(1));
  }
  EXPECT_FALSE(run(std::move(r)).ok());
}

TEST(ValidateSwitch, TheVariableWrapsEveryDevice) {
  setenv("MODELD_VALIDATE", "1", 1);
  const auto device = std::move(*open_device("cpu"));
  unsetenv("MODELD_VALIDATE");
  auto r = device->record(QueueKind::kCompute);
  r->copy(Word::value(64), Word::value(128), Word::value(8));
  EXPECT_EQ(device->submit(std::move(r)).error().code, Errc::kInvalid);
}

}  // namespace
}  // namespace modeld::hal
