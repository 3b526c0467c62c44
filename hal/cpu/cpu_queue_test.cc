// The invariants of an HCQ-style queue (hal.md 1.8) that apply to the CPU device: signals, patches,
// kernels, copies.
#include "hal/cpu/cpu_queue.h"

#include <atomic>
#include <cstring>
#include <thread>

#include "hal/cpu/cpu_test_util.h"

namespace modeld::hal {
namespace {

void add_one(const uint64_t* w, uint32_t core) {
  reinterpret_cast<int*>(w[0])[core] += 1;
}
void add_scalar(const uint64_t* w, uint32_t core) {
  reinterpret_cast<uint64_t*>(w[0])[core] += w[1];
}

class CpuQueue : public testing::Test {
 protected:
  std::unique_ptr<Device> device_ = open_cpu(2);
  std::unique_ptr<Recorder> record() { return device_->record(QueueKind::kCompute, "test"); }
};

TEST_F(CpuQueue, SignalSetsTheValue) {
  const Signal s = *device_->make_signal();
  auto r = record();
  r->signal(s, Word::value(42));
  ASSERT_TRUE(device_->submit(std::move(r)).ok());
  EXPECT_TRUE(s.wait(42, soon()).ok());
}

TEST_F(CpuQueue, ResubmittedWithAnotherSignalAddressAndValue) {
  const Signal a = *device_->make_signal(), b = *device_->make_signal();
  auto r = record();
  r->signal(Word::input(0), Word::input(1));
  const auto bound = bind(std::move(r));
  const uint64_t first[] = {a.value_addr(), 5}, second[] = {b.value_addr(), 9};
  ASSERT_TRUE(bound->submit(first).ok());
  ASSERT_TRUE(bound->submit(second).ok());
  EXPECT_TRUE(b.wait(9, soon()).ok());
  EXPECT_EQ(a.value(), 5U);
}

TEST_F(CpuQueue, WaitOnASatisfiedSignalPasses) {
  const Signal s = *device_->make_signal(3);
  auto r = record();
  r->wait(s, Word::value(3)).wait(s, Word::value(1));
  const auto point = device_->submit(std::move(r));
  ASSERT_TRUE(point.ok());
  EXPECT_TRUE(device_->wait(*point, soon()).ok());
}

TEST_F(CpuQueue, UnsatisfiedWaitBlocksUntilTheHostWrites) {
  const Signal gate = *device_->make_signal(), done = *device_->make_signal();
  auto r = record();
  r->wait(gate, Word::value(1)).signal(done, Word::value(1));
  const TimelinePoint point = *device_->submit(std::move(r));
  const Status early = device_->wait(point, Deadline::in_ms(30));
  ASSERT_FALSE(early.ok());
  EXPECT_EQ(early.error().code, Errc::kTimeout);
  EXPECT_EQ(early.error().timeline, 0U);
  EXPECT_EQ(done.value(), 0U);
  Signal writer = *device_->make_signal();  // another handle does not disturb the slots in use
  writer.set(77);
  const_cast<Signal&>(gate).set(1);
  EXPECT_TRUE(device_->wait(point, soon()).ok());
  EXPECT_EQ(done.value(), 1U);
}

TEST_F(CpuQueue, WaitWithPatchedAddressAndValue) {
  Signal gate = *device_->make_signal();
  auto r = record();
  r->wait(Word::input(0), Word::input(1));
  const auto bound = bind(std::move(r));
  const uint64_t inputs[] = {gate.value_addr(), 8};
  const TimelinePoint point = *bound->submit(inputs);
  EXPECT_FALSE(device_->wait(point, Deadline::in_ms(10)).ok());
  gate.set(8);
  EXPECT_TRUE(device_->wait(point, soon()).ok());
}

TEST_F(CpuQueue, TwoDependentKernelsSubmittedHundredTimesGiveTwoHundred) {
  const Buffer out = zeroed(*device_, 64);
  const auto program = host_program(*device_, add_one, 1);
  const Word args[] = {Word::of(out)};
  auto r = record();
  r->launch(program, args, ranges(4)).barrier().launch(program, args, ranges(4));
  const auto bound = bind(std::move(r));
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(bound->submit({}).ok());
  ASSERT_TRUE(device_->synchronize(soon()).ok());
  for (int i = 0; i < 4; ++i) EXPECT_EQ(cpu_ptr<int>(out)[i], 200);
  EXPECT_EQ(cpu_ptr<int>(out)[4], 0);
}

TEST_F(CpuQueue, PatchedBufferScalarAndLaunchSize) {
  const Buffer a = zeroed(*device_, 64), b = zeroed(*device_, 64);
  const auto program = host_program(*device_, add_scalar, 2);
  const Word args[] = {Word::input(0), Word::input(2)};
  Dim3 groups;
  groups.x = Word::input(1);
  auto r = record();
  r->launch(program, args, groups);
  const auto bound = bind(std::move(r));
  EXPECT_EQ(bound->input_count(), 3U);
  const uint64_t one[] = {a.addr(), 1, 100}, three[] = {b.addr(), 3, 7}, none[] = {b.addr(), 0, 7};
  ASSERT_TRUE(bound->submit(one).ok());
  ASSERT_TRUE(bound->submit(three).ok());
  ASSERT_TRUE(bound->submit(none).ok());
  ASSERT_TRUE(bound->submit(three).ok());
  ASSERT_TRUE(device_->synchronize(soon()).ok());
  const uint64_t* pa = cpu_ptr<uint64_t>(a);
  const uint64_t* pb = cpu_ptr<uint64_t>(b);
  EXPECT_EQ(pa[0], 100U);
  EXPECT_EQ(pa[1], 0U);  // a launch of one range must not touch element 1
  EXPECT_THAT(std::vector<uint64_t>(pb, pb + 4), testing::ElementsAre(14, 14, 14, 0));
}

TEST_F(CpuQueue, BadInputsAreRefusedAndTheNextSubmitIsRight) {
  const Buffer a = zeroed(*device_, 64);
  const auto program = host_program(*device_, add_one, 1);
  const Word args[] = {Word::input(0)};
  Dim3 groups;
  groups.x = Word::input(1);
  groups.y = Word::input(2);
  auto r = record();
  r->launch(program, args, groups);
  const auto bound = bind(std::move(r));
  EXPECT_EQ(bound->submit({}).error().code, Errc::kInvalid);
  const uint64_t two_d[] = {a.addr(), 1, 2}, huge[] = {a.addr(), 65537, 1},
                 good[] = {a.addr(), 2, 1};
  EXPECT_THAT(bound->submit(two_d).error().what, testing::HasSubstr("input 2 is 2"));
  EXPECT_THAT(bound->submit(huge).error().what, testing::HasSubstr("input 1 is 65537"));
  ASSERT_TRUE(bound->submit(good).ok());
  ASSERT_TRUE(device_->synchronize(soon()).ok());
  EXPECT_EQ(cpu_ptr<int>(a)[1], 1);
  EXPECT_EQ(cpu_ptr<int>(a)[2], 0);
}

TEST_F(CpuQueue, RecordingErrorsAreLatchedAndReportedByBind) {
  const auto program = host_program(*device_, add_one, 1);
  auto r = record();
  r->launch(program, {}).launch(nullptr, {});
  const auto bound = std::move(*r).bind();
  ASSERT_FALSE(bound.ok());
  EXPECT_EQ(bound.error().what,
            "recording 'test', command 0: kernel host takes 1 arguments, 0 given");
  r = record();
  r->wait(Word::value(0), Word::value(1));
  EXPECT_FALSE(std::move(*r).bind().ok());
  r = record();
  r->signal(Word::value(12), Word::value(1));
  EXPECT_THAT(std::move(*r).bind().error().what, testing::HasSubstr("8-byte aligned"));
  r = record();
  r->wait(TimelinePoint{9, 9, 9});
  EXPECT_EQ(std::move(*r).bind().error().code, Errc::kUnsupported);
  r = record();
  Dim3 local;
  local.x = Word::value(2);
  const Word args[] = {Word::value(0)};
  r->launch(program, args, {}, local);
  EXPECT_FALSE(std::move(*r).bind().ok());
}

TEST_F(CpuQueue, NullSignalAddressAtSubmitIsRefused) {
  auto r = record();
  r->signal(Word::input(0), Word::value(1));
  const auto bound = bind(std::move(r));
  const uint64_t zero[] = {0};
  EXPECT_EQ(bound->submit(zero).error().code, Errc::kInvalid);
  EXPECT_EQ(bound->submit(zero).error().code, Errc::kInvalid);
}

TEST_F(CpuQueue, HostWritesBeforeAnUnblockingSignalAreSeen) {
  const Buffer cell = zeroed(*device_, 64), out = zeroed(*device_, 64);
  Signal gate = *device_->make_signal();
  auto r = record();
  r->wait(Word::value(gate.value_addr()), Word::input(0)).barrier();
  r->copy(Word::of(out), Word::of(cell), Word::value(8));
  const auto bound = bind(std::move(r));
  for (uint64_t i = 1; i < 256; ++i) {
    const uint64_t inputs[] = {i};
    const TimelinePoint point = *bound->submit(inputs);
    *cpu_ptr<uint64_t>(cell) = i * 3;
    gate.set(i);
    ASSERT_TRUE(device_->wait(point, soon()).ok());
    ASSERT_EQ(*cpu_ptr<uint64_t>(out), i * 3);
  }
}

TEST_F(CpuQueue, WriteThenPollSetAndClear) {
  const Buffer cell = zeroed(*device_, 64);
  auto r = record();
  r->write(Word::of(cell), Word::value(0xf0), false).poll(Word::of(cell), 0x10, 0x10);
  r->write(Word::of(cell), Word::value(0), false).poll(Word::of(cell), 0, 0x10);
  r->write(Word::value(cell.addr() + 8), Word::value(0x1122334455667788), true);
  const TimelinePoint point = *device_->submit(std::move(r));
  ASSERT_TRUE(device_->wait(point, soon()).ok());
  EXPECT_EQ(cpu_ptr<uint64_t>(cell)[0], 0U);
  EXPECT_EQ(cpu_ptr<uint64_t>(cell)[1], 0x1122334455667788U);
}

TEST_F(CpuQueue, PollWaitsForTheHost) {
  const Buffer cell = zeroed(*device_, 64);
  auto r = record();
  r->poll(Word::of(cell), 4, 4);
  const TimelinePoint point = *device_->submit(std::move(r));
  EXPECT_FALSE(device_->wait(point, Deadline::in_ms(10)).ok());
  std::atomic_ref<uint32_t>(*cpu_ptr<uint32_t>(cell)).store(6);
  EXPECT_TRUE(device_->wait(point, soon()).ok());
}

TEST_F(CpuQueue, CopiesOfManySizesAndChained) {
  for (const size_t size : {size_t{1}, size_t{8}, size_t{4097}, size_t{8} << 20}) {
    const Buffer a = zeroed(*device_, size), b = zeroed(*device_, size), c = zeroed(*device_, size);
    std::memset(a.cpu().data(), 0x5a, size);
    auto r = device_->record(QueueKind::kCopy);
    r->copy(Word::of(b), Word::of(a), Word::value(size))
        .copy(Word::of(c), Word::of(b), Word::value(size));
    ASSERT_TRUE(device_->submit(std::move(r)).ok());
    ASSERT_TRUE(device_->synchronize(soon()).ok());
    EXPECT_EQ(std::memcmp(c.cpu().data(), a.cpu().data(), size), 0) << size;
  }
}

TEST_F(CpuQueue, CopyWithPatchedAddressesAndSize) {
  const Buffer a = zeroed(*device_, 256), b = zeroed(*device_, 256);
  for (int i = 0; i < 256; ++i) a.cpu()[static_cast<size_t>(i)] = static_cast<std::byte>(i);
  auto r = record();
  r->copy(Word::input(0), Word::input(1), Word::input(2));
  const auto bound = bind(std::move(r));
  for (uint64_t i = 0; i < 256; ++i) {
    const uint64_t inputs[] = {b.addr() + i, a.addr() + 255 - i, 1};
    ASSERT_TRUE(bound->submit(inputs).ok());
  }
  ASSERT_TRUE(device_->synchronize(soon()).ok());
  for (size_t i = 0; i < 256; ++i) EXPECT_EQ(b.cpu()[i], a.cpu()[255 - i]);
}

TEST_F(CpuQueue, StampsLieInsideTheHostWindow) {
  const Signal start = *device_->make_signal(), end = *device_->make_signal();
  const Buffer a = zeroed(*device_, 1 << 20), b = zeroed(*device_, 1 << 20);
  auto r = record();
  r->stamp(start).copy(Word::of(b), Word::of(a), Word::value(1 << 20)).stamp(end);
  const int64_t before = now_ns();
  const TimelinePoint point = *device_->submit(std::move(r));
  ASSERT_TRUE(device_->wait(point, soon()).ok());
  EXPECT_GE(start.stamp_ns(), before);
  EXPECT_GT(end.stamp_ns(), start.stamp_ns());
  EXPECT_LE(end.stamp_ns(), now_ns());
}

TEST_F(CpuQueue, ASignalOfOneDeviceReleasesAnother) {
  const auto other = open_cpu(1);
  const Signal s = *device_->make_signal();
  auto waiter = other->record(QueueKind::kCompute);
  waiter->wait(s, Word::value(1));
  const TimelinePoint point = *other->submit(std::move(waiter));
  EXPECT_FALSE(other->wait(point, Deadline::in_ms(10)).ok());
  auto r = record();
  r->signal(s, Word::value(1));
  ASSERT_TRUE(device_->submit(std::move(r)).ok());
  EXPECT_TRUE(other->wait(point, soon()).ok());
}

TEST_F(CpuQueue, ABoundKeepsProgramsAndKeptBuffers) {
  auto program = host_program(*device_, add_one, 1);
  Buffer buffer = zeroed(*device_, 100'000);
  const Word args[] = {Word::of(buffer)};
  auto r = record();
  r->launch(program, args).keep(buffer);
  auto bound = bind(std::move(r));
  program.reset();
  buffer = {};
  EXPECT_EQ(device_->allocator().stats().live_buffers, 1U);
  ASSERT_TRUE(bound->submit({}).ok());
  ASSERT_TRUE(device_->synchronize(soon()).ok());
  bound.reset();
  EXPECT_EQ(device_->allocator().stats().live_buffers, 0U);
}

}  // namespace
}  // namespace modeld::hal
