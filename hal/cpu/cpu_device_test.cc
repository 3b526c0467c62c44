#include "hal/cpu/cpu_device.h"

#include <sched.h>
#include <time.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "hal/base/fault.h"
#include "hal/cpu/cpu_test_util.h"

namespace modeld::hal {
namespace {

void add_one(const uint64_t* w, uint32_t core) {
  reinterpret_cast<int*>(w[0])[core] += 1;
}

// [core] = {runs, id of the thread that ran it}
struct Seen {
  std::atomic<int> runs;
  std::atomic<uint64_t> thread;
};
void note_thread(const uint64_t* w, uint32_t core) {
  Seen& s = reinterpret_cast<Seen*>(w[0])[core];
  s.runs.fetch_add(1);
  s.thread.store(static_cast<uint64_t>(pthread_self()));
}

void nap_100_ms(const uint64_t* w, uint32_t) {
  const timespec t{0, 100'000'000};
  nanosleep(&t, nullptr);
  reinterpret_cast<std::atomic<int>*>(w[0])->fetch_add(1);
}

// Runs until it is let go.
struct Held {
  std::atomic<bool> is_let_go{false};
  std::atomic<int> runs{0};
};
void hold(const uint64_t* w, uint32_t) {
  Held& held = *reinterpret_cast<Held*>(w[0]);
  while (!held.is_let_go) std::this_thread::yield();
  held.runs.fetch_add(1);
}

TEST(CpuDevice, ThreadRangesCoverEveryCoreExactlyOnceAndStatically) {
  for (int threads = 1; threads <= 4; ++threads) {
    const auto device = open_cpu(threads);
    const auto program = host_program(*device, note_thread, 1);
    for (uint32_t cores = 1; cores <= 9; ++cores) {
      std::vector<Seen> seen(10);
      const Word args[] = {Word::value(reinterpret_cast<uint64_t>(seen.data()))};
      auto r = device->record(QueueKind::kCompute);
      r->launch(program, args, ranges(cores));
      ASSERT_TRUE(device->submit(std::move(r)).ok());
      ASSERT_TRUE(device->synchronize(soon()).ok());
      for (uint32_t c = 0; c < cores; ++c) {
        EXPECT_EQ(seen[c].runs, 1) << c;
        const uint32_t same = c % static_cast<uint32_t>(threads);
        EXPECT_EQ(seen[c].thread, seen[same].thread) << c;
        if (c > 0 && c < static_cast<uint32_t>(threads)) {
          EXPECT_NE(seen[c].thread, seen[0].thread);
        }
      }
      EXPECT_EQ(seen[cores].runs, 0);
    }
  }
}

// out[core] = sum of all of in, + core: depends on every range of the kernel before it.
void sum_all(const uint64_t* w, uint32_t core) {
  const auto* in = reinterpret_cast<const int*>(w[0]);
  int sum = static_cast<int>(core);
  for (int i = 0; i < 8; ++i) sum = (sum + in[i]) % 1000003;
  reinterpret_cast<int*>(w[1])[core] = sum;
}

std::vector<int> chain(int threads, int kernels) {
  const auto device = open_cpu(threads);
  const auto program = host_program(*device, sum_all, 2);
  const Buffer a = zeroed(*device, 64), b = zeroed(*device, 64);
  auto r = device->record(QueueKind::kCompute);
  for (int k = 0; k < kernels; ++k) {
    const Word args[] = {Word::of(k % 2 == 0 ? a : b), Word::of(k % 2 == 0 ? b : a)};
    r->launch(program, args, ranges(8));
    // Single-range work and copies in between end up in thread 0's groups.
    if (k % 5 == 0)
      r->copy(Word::of(k % 2 == 0 ? a : b), Word::of(k % 2 == 0 ? b : a), Word::value(32));
  }
  const auto bound = bind(std::move(r));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(bound->submit({}).ok());
  EXPECT_TRUE(device->synchronize(soon()).ok());
  const int* p = cpu_ptr<int>(a);
  return {p, p + 8};
}

TEST(CpuDevice, ResultsDoNotDependOnTheThreadCount) {
  const std::vector<int> one = chain(1, 40);
  EXPECT_EQ(chain(2, 40), one);
  EXPECT_EQ(chain(3, 40), one);
}

TEST(CpuDevice, MoreThreadsThanCpusStillMoveOn) {
  EXPECT_EQ(chain(8, 40), chain(1, 40));
}

TEST(CpuDevice, TimelineRunsOverThe32BitLimit) {
  DeviceConfig config;
  config.first_timeline_value = (uint64_t{1} << 32) - 20;
  const auto device = open_cpu(2, config);
  const Buffer out = zeroed(*device, 64);
  const auto program = host_program(*device, add_one, 1);
  const Word args[] = {Word::of(out)};
  auto r = device->record(QueueKind::kCompute);
  r->launch(program, args, ranges(2));
  const auto bound = bind(std::move(r));
  for (uint64_t i = 0; i < 40; ++i) {
    const TimelinePoint point = *bound->submit({});
    EXPECT_EQ(point.value, config.first_timeline_value + i);
    ASSERT_TRUE(device->synchronize(soon()).ok());
  }
  EXPECT_EQ(cpu_ptr<int>(out)[1], 40);
}

TEST(CpuDevice, DestroyingABoundWaitsForItsRun) {
  const auto device = open_cpu(2);
  std::atomic<int> runs{0};
  const Word args[] = {Word::value(reinterpret_cast<uint64_t>(&runs))};
  auto r = device->record(QueueKind::kCompute);
  r->launch(host_program(*device, nap_100_ms, 1), args);
  auto bound = bind(std::move(r));
  ASSERT_TRUE(bound->submit({}).ok());
  bound.reset();
  EXPECT_EQ(runs, 1);
}

TEST(CpuDevice, DeadlinesPassWhileAKernelRunsAndTheRunCompletesLater) {
  const auto device = open_cpu(2);
  Held held;
  const Word args[] = {Word::value(reinterpret_cast<uint64_t>(&held))};
  auto r = device->record(QueueKind::kCompute);
  r->launch(host_program(*device, hold, 1), args);
  const TimelinePoint point = *device->submit(std::move(r));
  const Status early = device->wait(point, Deadline::in_ms(1));
  held.is_let_go = true;
  ASSERT_FALSE(early.ok());
  EXPECT_EQ(early.error().code, Errc::kTimeout);
  EXPECT_TRUE(device->wait(point, soon()).ok());
  EXPECT_EQ(held.runs, 1);
}

TEST(CpuDevice, SubmitWaitsBoundedForItsOwnPreviousRun) {
  DeviceConfig config;
  config.submit_wait_ms = 20;
  const auto device = open_cpu(2, config);
  Signal gate = *device->make_signal();
  auto r = device->record(QueueKind::kCompute);
  r->wait(gate, Word::value(1));
  const auto bound = bind(std::move(r));
  ASSERT_TRUE(bound->submit({}).ok());
  EXPECT_EQ(bound->submit({}).error().code, Errc::kTimeout);
  gate.set(1);
  // The run that is free now may take longer than the limit to be scheduled.
  ASSERT_TRUE(device->synchronize(soon()).ok());
  EXPECT_TRUE(bound->submit({}).ok());
  EXPECT_TRUE(device->synchronize(soon()).ok());
}

TEST(CpuDevice, TheNoProgressLimitRestartsOnProgress) {
  DeviceConfig config;
  // A run that takes fifteen times its nap is none that a busy machine makes.
  config.submit_wait_ms = 1500;
  const auto device = open_cpu(1, config);
  std::atomic<int> runs{0};
  const Word args[] = {Word::value(reinterpret_cast<uint64_t>(&runs))};
  const auto nap = host_program(*device, nap_100_ms, 1);
  std::vector<std::unique_ptr<Bound>> all;
  for (int i = 0; i < 20; ++i) {
    auto r = device->record(QueueKind::kCompute);
    r->launch(nap, args);
    all.push_back(bind(std::move(r)));
    ASSERT_TRUE(all.back()->submit({}).ok());
  }
  // Its own run is 2 s away, but the timeline moves every 100 ms.
  EXPECT_TRUE(all.back()->submit({}).ok());
  EXPECT_TRUE(device->synchronize(soon()).ok());
  EXPECT_EQ(runs, 21);
}

TEST(CpuDevice, AFullRingIsBoundedAndDrains) {
  DeviceConfig config;
  config.submit_wait_ms = 20;
  const auto device = open_cpu(2, config);
  Signal gate = *device->make_signal();
  std::vector<std::unique_ptr<Bound>> all;
  for (int i = 0; i < 300; ++i) {
    auto r = device->record(QueueKind::kCompute);
    r->wait(gate, Word::value(1));
    all.push_back(bind(std::move(r)));
  }
  int accepted = 0;
  for (const auto& bound : all) {
    const auto point = bound->submit({});
    if (!point.ok()) {
      EXPECT_EQ(point.error().code, Errc::kTimeout);
      break;
    }
    ++accepted;
  }
  EXPECT_EQ(accepted, 256);
  gate.set(1);
  ASSERT_TRUE(device->synchronize(soon()).ok());
  for (size_t i = static_cast<size_t>(accepted); i < all.size(); ++i)
    EXPECT_TRUE(all[i]->submit({}).ok());
  EXPECT_TRUE(device->synchronize(soon()).ok());
}

TEST(CpuDevice, ManyThreadsMaySubmit) {
  const auto device = open_cpu(2);
  const auto program = host_program(*device, add_one, 1);
  const Buffer out = zeroed(*device, 64 * 4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const Word args[] = {Word::value(out.addr() + 64 * t)};
      auto r = device->record(QueueKind::kCompute);
      r->launch(program, args, ranges(2));
      const auto bound = bind(std::move(r));
      uint64_t last = 0;
      for (int i = 0; i < 200; ++i) {
        const auto point = bound->submit({});
        ASSERT_TRUE(point.ok());
        ASSERT_GT(point->value, last);
        last = point->value;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  ASSERT_TRUE(device->synchronize(soon()).ok());
  for (size_t t = 0; t < 4; ++t) EXPECT_EQ(cpu_ptr<int>(out)[16 * t + 1], 200);
}

TEST(CpuDevice, AClosedDeviceAnswersDeviceLost) {
  auto device = open_cpu(2);
  const Buffer out = zeroed(*device, 64);
  const Word args[] = {Word::of(out)};
  Signal signal = *device->make_signal(1);
  auto r = device->record(QueueKind::kCompute);
  r->launch(host_program(*device, add_one, 1), args);
  const auto bound = bind(std::move(r));
  auto unbound = device->record(QueueKind::kCompute);
  ASSERT_TRUE(bound->submit({}).ok());
  ASSERT_TRUE(device->synchronize(soon()).ok());
  device.reset();
  EXPECT_EQ(bound->submit({}).error().code, Errc::kDeviceLost);
  EXPECT_EQ(std::move(*unbound).bind().error().code, Errc::kDeviceLost);
  EXPECT_EQ(cpu_ptr<int>(out)[0], 1);
  signal.set(2);
  EXPECT_EQ(signal.value(), 2U);
}

TEST(CpuDevice, DestructionDoesNotWaitForABlockedQueue) {
  DeviceConfig config;
  config.submit_wait_ms = 60'000;
  auto device = open_cpu(2, config);
  const Signal gate = *device->make_signal();
  const Buffer out = zeroed(*device, 64);
  const Word args[] = {Word::of(out)};
  auto r = device->record(QueueKind::kCompute);
  r->wait(gate, Word::value(1)).launch(host_program(*device, add_one, 1), args, ranges(2));
  auto bound = bind(std::move(r));
  ASSERT_TRUE(bound->submit({}).ok());
  const int64_t start = now_ns();
  device.reset();
  bound.reset();
  EXPECT_LT(now_ns() - start, config.submit_wait_ms * kNsPerMs);
  EXPECT_EQ(cpu_ptr<int>(out)[0], 0);  // what was blocked is dropped, not run
}

TEST(CpuDevice, PointsOfAnotherDeviceAreNotReachable) {
  const auto a = open_cpu(1), b = open_cpu(1);
  const TimelinePoint point = *a->submit(a->record(QueueKind::kCompute));
  EXPECT_TRUE(a->wait(point, soon()).ok());
  EXPECT_EQ(b->wait(point, soon()).error().code, Errc::kDeviceLost);
  EXPECT_EQ(a->wait({0, a->epoch(), 99}, soon()).error().code, Errc::kInvalid);
}

TEST(CpuDevice, BuffersOfADeviceThatWasClosedAreRefused) {
  auto closed = open_cpu(1);
  const Buffer whole = zeroed(*closed, 256);
  const Buffer view = *whole.view(64, 64);
  closed.reset();
  const auto device = open_cpu(1);
  std::vector<std::byte> bytes(64, std::byte{3});
  EXPECT_EQ(device->upload(view, 0, bytes).error().code, Errc::kDeviceLost);
  EXPECT_EQ(device->download(bytes, view, 0, soon()).error().code, Errc::kDeviceLost);
  EXPECT_EQ(whole.cpu()[64], std::byte{0});
}

TEST(CpuDevice, UploadAndDownloadAreOrderedAndBounded) {
  const auto device = open_cpu(2);
  const Buffer buffer = zeroed(*device, 1001);
  std::vector<std::byte> bytes(1000, std::byte{3}), back(1000);
  ASSERT_TRUE(device->upload(buffer, 1, bytes).ok());
  ASSERT_TRUE(device->download(back, buffer, 1, soon()).ok());
  EXPECT_EQ(back, bytes);
  EXPECT_EQ(buffer.cpu()[0], std::byte{0});
  EXPECT_EQ(device->upload(buffer, 2, bytes).error().code, Errc::kInvalid);
  EXPECT_EQ(device->download(back, buffer, 2, soon()).error().code, Errc::kInvalid);
  Signal gate = *device->make_signal();
  auto r = device->record(QueueKind::kCompute);
  r->wait(gate, Word::value(1));
  ASSERT_TRUE(device->submit(std::move(r)).ok());
  EXPECT_EQ(device->download(back, buffer, 1, Deadline::in_ms(5)).error().code, Errc::kTimeout);
  EXPECT_EQ(device->recover(Deadline::in_ms(5)).error().code, Errc::kTimeout);
  gate.set(1);
  EXPECT_TRUE(device->recover(soon()).ok());
}

TEST(CpuDevice, ProfileNamesEveryLaunch) {
  DeviceConfig config;
  config.profile = true;
  const auto device = open_cpu(2, config);
  const Buffer out = zeroed(*device, 64);
  const Word args[] = {Word::of(out)};
  const auto program = host_program(*device, add_one, 1);
  auto r = device->record(QueueKind::kCompute);
  r->launch(program, args, ranges(2)).launch(program, args).launch(program, args);
  ASSERT_TRUE(device->submit(std::move(r)).ok());
  ASSERT_TRUE(device->synchronize(soon()).ok());
  const std::vector<ProfileRange> profile = device->take_profile();
  ASSERT_EQ(profile.size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(profile[i].name, "host");
    EXPECT_LE(profile[i].start_ns, profile[i].end_ns);
    if (i > 0) {
      EXPECT_LE(profile[i - 1].end_ns, profile[i].start_ns);
    }
  }
  EXPECT_TRUE(device->take_profile().empty());
}

void note_cpu(const uint64_t* w, uint32_t core) {
  reinterpret_cast<int*>(w[0])[core] = sched_getcpu();
}

TEST(CpuDevice, ThreadsStayOnTheirCpus) {
  DeviceConfig config;
  config.cpus = {sched_getcpu()};
  const auto device = open_cpu(2, config);
  const Buffer out = zeroed(*device, 64);
  const Word args[] = {Word::of(out)};
  auto r = device->record(QueueKind::kCompute);
  r->launch(host_program(*device, note_cpu, 1), args, ranges(2));
  ASSERT_TRUE(device->submit(std::move(r)).ok());
  ASSERT_TRUE(device->synchronize(soon()).ok());
  EXPECT_EQ(cpu_ptr<int>(out)[0], config.cpus[0]);
  EXPECT_EQ(cpu_ptr<int>(out)[1], config.cpus[0]);
}

TEST(CpuDevice, BadConfigurationsAreRefused) {
  DeviceConfig config;
  for (const int threads : {0, -1, 65}) {
    config.threads = threads;
    EXPECT_EQ(open_cpu_device(0, config).error().code, Errc::kInvalid) << threads;
  }
  config.threads = 2;
  for (const int cpu : {-1, 1023, 100'000}) {
    config.cpus = {cpu};
    const auto device = open_cpu_device(0, config);
    ASSERT_FALSE(device.ok()) << cpu;
    EXPECT_THAT(device.error().what, testing::HasSubstr("CPU " + std::to_string(cpu)));
  }
}

#ifdef MODELD_FAULTS
TEST(CpuDevice, AHungRunTimesOutAndTheDeviceStillCloses) {
  fault::set_for_test("cpu_hang_at=2");
  DeviceConfig config;
  config.submit_wait_ms = 60'000;
  auto device = open_cpu(2, config);
  fault::set_for_test("");
  const TimelinePoint first = *device->submit(device->record(QueueKind::kCompute));
  const TimelinePoint second = *device->submit(device->record(QueueKind::kCompute));
  EXPECT_TRUE(device->wait(first, soon()).ok());
  const Status hung = device->wait(second, Deadline::in_ms(30));
  ASSERT_FALSE(hung.ok());
  EXPECT_EQ(hung.error().code, Errc::kTimeout);
  EXPECT_EQ(hung.error().timeline, first.value);
  const int64_t start = now_ns();
  device.reset();
  EXPECT_LT(now_ns() - start, config.submit_wait_ms * kNsPerMs);
}
#endif

}  // namespace
}  // namespace modeld::hal
