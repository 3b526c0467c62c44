#include "runtime/exec/graph_replay.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "hal/backends.h"

namespace modeld::exec {
namespace {

constexpr uint64_t kItems = 4;  // floats per buffer
constexpr uint64_t kBytes = kItems * 4;
std::atomic<bool> gate_is_open{true};
std::atomic<int> gate_passes{0};

Deadline soon() {
  return Deadline::in_ms(30'000);
}
float* floats(uint64_t word) {
  return reinterpret_cast<float*>(word);
}

// Kernels: words[0] is the output.
void add_one(const uint64_t* w, uint32_t) {
  for (uint64_t i = 0; i < kItems; ++i) floats(w[0])[i] = floats(w[1])[i] + 1;
}
void twice(const uint64_t* w, uint32_t) {
  for (uint64_t i = 0; i < kItems; ++i) floats(w[0])[i] = floats(w[1])[i] * 2;
}
void times(const uint64_t* w, uint32_t) {
  for (uint64_t i = 0; i < kItems; ++i)
    floats(w[0])[i] = floats(w[1])[i] * static_cast<float>(static_cast<int64_t>(w[2]));
}
void accumulate(const uint64_t* w, uint32_t) {
  for (uint64_t i = 0; i < kItems; ++i) floats(w[0])[i] += floats(w[1])[i];
}
// Copies, but not before the gate opens.
void gated(const uint64_t* w, uint32_t) {
  while (!gate_is_open) std::this_thread::yield();
  ++gate_passes;
  for (uint64_t i = 0; i < kItems; ++i) floats(w[0])[i] = floats(w[1])[i];
}

enum Kernel : uint32_t { kAddOne, kTwice, kTimes, kAccumulate, kGated };
struct HostKernelRow {
  hal::HostKernel kernel;
  uint32_t scalars;
};
constexpr HostKernelRow kKernels[] = {
    {add_one, 0}, {twice, 0}, {times, 1}, {accumulate, 0}, {gated, 0}};

CallArg memory(uint32_t i) {
  return {{ArgRef::Kind::kBuffer, i, 0}, kBytes};
}
CallArg input(uint32_t i, uint64_t offset = 0) {
  return {{ArgRef::Kind::kSlot, i, offset}, kBytes};
}
CallArg variable(uint32_t i) {
  return {{ArgRef::Kind::kScalar, i, 0}, 0};
}

class GraphReplayTest : public testing::Test {
 protected:
  void SetUp() override {
    gate_is_open = true;
    gate_passes = 0;
    open(1);
    for (const HostKernelRow& k : kKernels) {
      ProgramRow p;
      p.name = "host";
      p.buffer_args = 2;
      p.scalar_args = k.scalars;
      p.outs = {0};
      p.ins = {1};
      if (k.kernel == accumulate) p.ins = {0, 1};
      linear_.programs.push_back(p);
    }
  }
  void TearDown() override { gate_is_open = true; }

  void open(size_t devices) {
    while (devices_.size() < devices) {
      const std::string n = std::to_string(devices_.size());
      auto d = hal::open_device("cpu:" + n);
      ASSERT_TRUE(d.ok()) << d.error().what;
      devices_.push_back(std::move(*d));
      linear_.devices.push_back({"CPU:" + n, ""});
    }
  }
  hal::Buffer buffer(uint32_t device, const std::vector<float>& v) {
    auto b = devices_[device]->allocator().alloc({.size_bytes = v.size() * 4});
    EXPECT_TRUE(b.ok());
    std::copy(v.begin(), v.end(), reinterpret_cast<float*>(b->cpu().data()));
    return *b;
  }
  hal::Buffer full(float v, uint32_t device = 0) {
    return buffer(device, std::vector<float>(kItems, v));
  }
  static float first(const hal::Buffer& b) {
    return reinterpret_cast<const float*>(b.cpu().data())[0];
  }
  uint32_t add_memory(uint32_t device, float v = 0) {
    linear_.memories.push_back({device, kBytes, false});
    memories_.push_back(full(v, device));
    return static_cast<uint32_t>(memories_.size() - 1);
  }
  void add_inputs(size_t n, uint64_t bytes = kBytes) { linear_.inputs.assign(n, {0, bytes}); }
  void launch(Kernel k, std::vector<CallArg> args, uint32_t device = 0) {
    linear_.calls.push_back({CallRow::Kind::kProgram, device, k, std::move(args)});
  }
  void copy(uint32_t to, uint32_t from) {
    const uint32_t device = linear_.memories[from].device;
    linear_.calls.push_back({CallRow::Kind::kCopy, device, 0, {memory(to), memory(from)}});
  }
  ReplayBinding binding() {
    ReplayBinding b;
    for (const auto& d : devices_) b.devices.push_back(d.get());
    b.memories = memories_;
    for (const HostKernelRow& k : kKernels) {
      auto& row = b.programs.emplace_back();
      for (const auto& d : devices_) {
        hal::ProgramImage image;
        image.name = "host";
        image.host_kernel = k.kernel;
        image.args.resize(2 + k.scalars);
        row.push_back(*d->load(image));
      }
    }
    return b;
  }
  std::unique_ptr<GraphReplay> load(const BatchOptions& options = {}) {
    auto r = GraphReplay::load(linear_, binding(), options);
    EXPECT_TRUE(r.ok()) << (r.ok() ? "" : r.error().what);
    return r.ok() ? std::move(*r) : nullptr;
  }

  std::vector<std::unique_ptr<hal::Device>> devices_;
  std::vector<hal::Buffer> memories_;
  CompiledLinear linear_;
};

// t = x + 1; out = t * 2. Memory 0 is t, memory 1 the result.
class GraphReplayStep : public GraphReplayTest {
 protected:
  void SetUp() override {
    GraphReplayTest::SetUp();
    add_memory(0);
    add_memory(0);
    add_inputs(1);
    launch(kAddOne, {memory(0), input(0)});
    launch(kTwice, {memory(1), memory(0)});
  }
  float step(GraphReplay& r, const hal::Buffer& x) {
    const Status s = r.run(std::span(&x, 1), {}, soon());
    EXPECT_TRUE(s.ok()) << (s.ok() ? "" : s.error().what);
    return first(memories_[1]);
  }
};

TEST_F(GraphReplayStep, RunsTheRecordedBatchOnEachNewInput) {
  const auto r = load();
  ASSERT_EQ(r->batches().size(), 1u);
  EXPECT_TRUE(r->batches()[0].is_graph);
  EXPECT_EQ(r->recorded_lists(), 1u);
  for (int i = 0; i < 5; ++i) {
    const auto v = static_cast<float>(i);
    EXPECT_EQ(step(*r, full(v)), (v + 1) * 2);
  }
}

TEST_F(GraphReplayStep, OutputFedBackDoesNotBecomeTheInputForGood) {
  const auto r = load();
  EXPECT_EQ(step(*r, full(0)), 2);
  for (const float want : {6.f, 14.f, 30.f}) EXPECT_EQ(step(*r, memories_[1]), want);
  EXPECT_EQ(step(*r, full(100)), 202);
  EXPECT_EQ(step(*r, memories_[1]), 406);
  EXPECT_EQ(step(*r, memories_[1]), 814);
}

TEST_F(GraphReplayStep, WithoutGraphsTheSameCallsRunOneByOne) {
  const auto r = load({.no_graphs = true});
  EXPECT_EQ(r->batches().size(), 2u);
  EXPECT_EQ(r->recorded_lists(), 0u);
  EXPECT_EQ(step(*r, full(100)), 202);
  EXPECT_EQ(step(*r, memories_[1]), 406);
  EXPECT_EQ(step(*r, full(1)), 4);
  EXPECT_EQ(r->patched_words(), 0u);
}

TEST_F(GraphReplayStep, WrongInputsAreRefusedAndStopNothing) {
  const auto r = load();
  EXPECT_EQ(r->run({}, {}, soon()).error().code, Errc::kInvalid) << "none";
  const hal::Buffer short_one = *full(1).view(0, kBytes - 1), none;
  EXPECT_EQ(r->run(std::span(&short_one, 1), {}, soon()).error().code, Errc::kInvalid);
  EXPECT_EQ(r->run(std::span(&none, 1), {}, soon()).error().code, Errc::kInvalid);
  EXPECT_FALSE(r->is_failed());
  EXPECT_EQ(step(*r, full(1)), 4);
}

TEST_F(GraphReplayTest, OnlyWordsThatChangedArePatched) {
  const uint32_t t = add_memory(0), out = add_memory(0);
  add_inputs(2);
  linear_.variables = {"n"};
  launch(kAddOne, {memory(t), input(0)});
  launch(kTimes, {memory(out), memory(t), variable(0)});
  launch(kAccumulate, {memory(out), input(1)});
  launch(kAccumulate, {memory(out), input(0)});
  const auto r = load();
  std::vector<hal::Buffer> in = {full(1), full(10)};
  const auto patched = [&](int64_t n) {
    const Status s = r->run(in, std::span(&n, 1), soon());
    EXPECT_TRUE(s.ok()) << (s.ok() ? "" : s.error().what);
    return r->patched_words();
  };
  EXPECT_EQ(patched(3), 4u) << "input 0 stands in two words, input 1 and n in one each";
  EXPECT_EQ(first(memories_[out]), 2 * 3 + 10 + 1);
  EXPECT_EQ(patched(3), 0u) << "nothing changed";
  EXPECT_EQ(first(memories_[out]), 17);
  in[1] = full(20);
  EXPECT_EQ(patched(3), 1u);
  EXPECT_EQ(first(memories_[out]), 27);
  in[0] = full(2);
  EXPECT_EQ(patched(3), 2u);
  EXPECT_EQ(patched(-4), 1u) << "the variable alone";
  EXPECT_EQ(first(memories_[out]), 3 * -4 + 20 + 2);
  in[0].cpu()[0] = std::byte{0};
  EXPECT_EQ(patched(-4), 0u) << "contents are no words";
}

TEST_F(GraphReplayTest, ViewsOfAnInputAreRebound) {
  const uint32_t out = add_memory(0);
  add_inputs(1, 3 * kBytes);
  launch(kAddOne, {memory(out), input(0, 2 * kBytes)});
  launch(kAccumulate, {memory(out), input(0, kBytes)});
  const auto r = load();
  for (const float base : {0.f, 100.f, 7.f}) {
    std::vector<float> v(3 * kItems);
    for (size_t i = 0; i < v.size(); ++i) v[i] = base + static_cast<float>(i / kItems);
    const hal::Buffer x = buffer(0, v);
    ASSERT_TRUE(r->run(std::span(&x, 1), {}, soon()).ok());
    EXPECT_EQ(first(memories_[out]), (base + 2 + 1) + (base + 1));
    EXPECT_EQ(r->patched_words(), 2u);
  }
}

TEST_F(GraphReplayTest, BatchesDoubleAndRunInOrder) {
  const uint32_t a = add_memory(0), b = add_memory(0);
  add_inputs(1);
  launch(kAddOne, {memory(a), input(0)});
  for (int i = 0; i < 99; ++i)
    launch(kAddOne, {memory(i % 2 == 0 ? b : a), memory(i % 2 == 0 ? a : b)});
  const auto r = load();
  std::vector<uint32_t> sizes;
  for (const Batch& batch : r->batches()) sizes.push_back(batch.count);
  EXPECT_EQ(sizes, (std::vector<uint32_t>{32, 64, 4}));
  for (const float x : {0.f, 1000.f}) {
    const hal::Buffer in = full(x);
    ASSERT_TRUE(r->run(std::span(&in, 1), {}, soon()).ok());
    EXPECT_EQ(first(memories_[b]), x + 100);
  }
}

// x + 1 on device 0, copied to device 1, doubled there, copied back, added up.
class GraphReplayTwoDevices : public GraphReplayTest {
 protected:
  void SetUp() override {
    GraphReplayTest::SetUp();
    open(2);
    const uint32_t t = add_memory(0), there = add_memory(1), doubled = add_memory(1);
    const uint32_t back = add_memory(0);
    out_ = add_memory(0);
    add_inputs(1);
    launch(kAddOne, {memory(t), input(0)});
    copy(there, t);
    launch(kTwice, {memory(doubled), memory(there)}, 1);
    copy(back, doubled);
    launch(kAddOne, {memory(out_), memory(back)});
    launch(kAddOne, {memory(t), memory(out_)});  // after the copy has read t
  }
  void expect_right(GraphReplay& r) {
    for (int i = 0; i < 50; ++i) {
      const auto x = static_cast<float>(i);
      const hal::Buffer in = full(x);
      ASSERT_TRUE(r.run(std::span(&in, 1), {}, soon()).ok());
      ASSERT_EQ(first(memories_[out_]), (x + 1) * 2 + 1) << i;
      ASSERT_EQ(first(memories_[0]), (x + 1) * 2 + 2) << i;
    }
  }
  uint32_t out_ = 0;
};

TEST_F(GraphReplayTwoDevices, OneGraphIsOneListPerDevice) {
  const auto r = load();
  ASSERT_EQ(r->batches().size(), 1u);
  EXPECT_EQ(r->recorded_lists(), 2u);
  expect_right(*r);
}

TEST_F(GraphReplayTwoDevices, SmallBatchesAndPlainCallsWaitForOneAnotherToo) {
  const auto small = load({.limit = 2});
  EXPECT_EQ(small->batches().size(), 2u);
  expect_right(*small);
  const auto plain = load({.no_graphs = true});
  EXPECT_EQ(plain->batches().size(), 6u);
  expect_right(*plain);
}

TEST_F(GraphReplayTwoDevices, UnchangedInputsPatchNothingOnAnyQueue) {
  const auto r = load();
  const hal::Buffer in = full(3);
  ASSERT_TRUE(r->run(std::span(&in, 1), {}, soon()).ok());
  EXPECT_EQ(r->patched_words(), 1u);
  ASSERT_TRUE(r->run(std::span(&in, 1), {}, soon()).ok());
  EXPECT_EQ(r->patched_words(), 0u);
}

TEST_F(GraphReplayTwoDevices, TheSecondQueueWaitsForASlowFirst) {
  linear_.calls[0].program = kGated;
  const auto r = load();
  gate_is_open = false;
  const hal::Buffer in = full(3);
  ASSERT_TRUE(r->submit(std::span(&in, 1), {}, soon()).ok());
  EXPECT_EQ(first(memories_[out_]), 0) << "nothing ran past the closed gate";
  gate_is_open = true;
  ASSERT_TRUE(r->wait(soon()).ok());
  EXPECT_EQ(first(memories_[out_]), 3 * 2 + 1);
}

// t = x, once the gate is open; sum += t.
class GraphReplayGate : public GraphReplayTest {
 protected:
  void SetUp() override {
    GraphReplayTest::SetUp();
    add_memory(0);
    add_memory(0);
    add_inputs(1);
    launch(kGated, {memory(0), input(0)});
    launch(kAccumulate, {memory(1), memory(0)});
  }
  float sum() const { return first(memories_[1]); }
};

TEST_F(GraphReplayGate, TheSecondOfTwoRunsWaitsForTheFirst) {
  const auto r = load();
  gate_is_open = false;
  const hal::Buffer a = full(1), b = full(20);
  ASSERT_TRUE(r->submit(std::span(&a, 1), {}, soon()).ok());
  std::thread opener([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    gate_is_open = true;
  });
  const Status second = r->submit(std::span(&b, 1), {}, soon());
  EXPECT_GE(gate_passes, 1) << "the first run was over before a word of the second was patched";
  opener.join();
  ASSERT_TRUE(second.ok()) << second.error().what;
  ASSERT_TRUE(r->wait(soon()).ok());
  EXPECT_EQ(gate_passes, 2);
  EXPECT_EQ(sum(), 21) << "both inputs arrived whole";
}

TEST_F(GraphReplayGate, TimeoutIsAnErrorAndLaterCallsFailAtOnceUntilReinit) {
  const auto r = load();
  gate_is_open = false;
  const hal::Buffer a = full(1), b = full(20);
  const Status late = r->run(std::span(&a, 1), {}, Deadline::in_ms(30));
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().code, Errc::kTimeout);
  EXPECT_TRUE(r->is_failed());
  gate_is_open = true;  // the device is well again, the replay stays stopped
  const Status next = r->run(std::span(&b, 1), {}, soon());
  ASSERT_FALSE(next.ok());
  EXPECT_EQ(next.error().code, Errc::kTimeout);
  EXPECT_NE(next.error().what.find("replay was stopped"), std::string::npos);
  EXPECT_FALSE(r->wait(soon()).ok());
  ASSERT_TRUE(r->reinit(soon()).ok());
  EXPECT_EQ(gate_passes, 1) << "what failed fast ran nothing";
  ASSERT_TRUE(r->run(std::span(&b, 1), {}, soon()).ok());
  EXPECT_EQ(gate_passes, 2);
  EXPECT_EQ(sum(), 21);
}

TEST_F(GraphReplayGate, ReinitOfAHangingDeviceFailsInTime) {
  const auto r = load();
  gate_is_open = false;
  const hal::Buffer a = full(1);
  ASSERT_FALSE(r->run(std::span(&a, 1), {}, Deadline::in_ms(20)).ok());
  EXPECT_FALSE(r->reinit(Deadline::in_ms(20)).ok());
  EXPECT_TRUE(r->is_failed());
  gate_is_open = true;
  EXPECT_TRUE(r->reinit(soon()).ok());
  EXPECT_TRUE(r->run(std::span(&a, 1), {}, soon()).ok());
}

TEST_F(GraphReplayGate, ASecondSubmitKeepsItsDeadlineWhileTheFirstHangs) {
  const auto r = load();
  gate_is_open = false;
  const hal::Buffer a = full(1), b = full(20);
  ASSERT_TRUE(r->submit(std::span(&a, 1), {}, soon()).ok());
  EXPECT_EQ(r->submit(std::span(&b, 1), {}, Deadline::in_ms(20)).error().code, Errc::kTimeout);
  EXPECT_TRUE(r->is_failed());
  gate_is_open = true;
  EXPECT_TRUE(r->reinit(soon()).ok());
}

// A device whose recordings refuse to be submitted when told so.
class FlakyDevice final : public hal::Device {
 public:
  explicit FlakyDevice(hal::Device& inner) : inner_(inner) {}
  bool is_broken = false;

  const hal::DeviceInfo& info() const override { return inner_.info(); }
  hal::DevState state() const override { return inner_.state(); }
  uint64_t epoch() const override { return inner_.epoch(); }
  hal::Allocator& allocator() override { return inner_.allocator(); }
  Result<std::shared_ptr<hal::Program>> load(const hal::ProgramImage& image) override {
    return inner_.load(image);
  }
  Result<hal::Signal> make_signal(uint64_t initial) override { return inner_.make_signal(initial); }
  std::unique_ptr<hal::Recorder> record(hal::QueueKind kind, std::string label) override {
    return std::make_unique<FlakyRecorder>(*this, inner_.record(kind, std::move(label)));
  }
  Result<hal::TimelinePoint> submit(std::unique_ptr<hal::Recorder> r) override {
    return inner_.submit(std::move(r));
  }
  Status wait(hal::TimelinePoint point, Deadline deadline) override {
    return inner_.wait(point, deadline);
  }
  Status synchronize(Deadline deadline) override { return inner_.synchronize(deadline); }
  Result<hal::TimelinePoint> upload(const hal::Buffer& to,
                                    size_t offset,
                                    std::span<const std::byte> bytes) override {
    return inner_.upload(to, offset, bytes);
  }
  Status download(std::span<std::byte> to,
                  const hal::Buffer& from,
                  size_t offset,
                  Deadline deadline) override {
    return inner_.download(to, from, offset, deadline);
  }
  Status recover(Deadline deadline) override { return inner_.recover(deadline); }
  std::vector<hal::ProfileRange> take_profile() override { return {}; }

 private:
  class FlakyBound final : public hal::Bound {
   public:
    FlakyBound(const FlakyDevice& device, std::unique_ptr<hal::Bound> inner)
        : device_(device), inner_(std::move(inner)) {}
    Result<hal::TimelinePoint> submit(std::span<const uint64_t> inputs) override {
      if (device_.is_broken) return fail(Errc::kProtocol, "the doorbell is gone");
      return inner_->submit(inputs);
    }
    size_t input_count() const override { return inner_->input_count(); }
    size_t patched_words() const override { return inner_->patched_words(); }

   private:
    const FlakyDevice& device_;
    std::unique_ptr<hal::Bound> inner_;
  };
  class FlakyRecorder final : public hal::Recorder {
   public:
    FlakyRecorder(const FlakyDevice& device, std::unique_ptr<hal::Recorder> inner)
        : device_(device), inner_(std::move(inner)) {}
    using hal::Recorder::signal;
    using hal::Recorder::wait;
    Recorder& wait(hal::Word addr, hal::Word value) override {
      return inner_->wait(addr, value), *this;
    }
    Recorder& signal(hal::Word addr, hal::Word value) override {
      return inner_->signal(addr, value), *this;
    }
    Recorder& wait(hal::TimelinePoint point) override { return inner_->wait(point), *this; }
    Recorder& barrier() override { return inner_->barrier(), *this; }
    Recorder& stamp(const hal::Signal& s) override { return inner_->stamp(s), *this; }
    Recorder& launch(const std::shared_ptr<hal::Program>& program,
                     std::span<const hal::Word> args,
                     hal::Dim3 groups,
                     hal::Dim3 local) override {
      return inner_->launch(program, args, groups, local), *this;
    }
    Recorder& copy(hal::Word dst, hal::Word src, hal::Word bytes) override {
      return inner_->copy(dst, src, bytes), *this;
    }
    Recorder& write(hal::Word dst, hal::Word value, bool wide) override {
      return inner_->write(dst, value, wide), *this;
    }
    Recorder& poll(hal::Word addr, uint32_t ref, uint32_t mask) override {
      return inner_->poll(addr, ref, mask), *this;
    }
    Recorder& keep(const hal::Buffer& buffer) override { return inner_->keep(buffer), *this; }
    Result<std::unique_ptr<hal::Bound>> bind() && override {
      ASSIGN_OR_RETURN(std::unique_ptr<hal::Bound> bound, std::move(*inner_).bind());
      return std::unique_ptr<hal::Bound>(std::make_unique<FlakyBound>(device_, std::move(bound)));
    }

   private:
    const FlakyDevice& device_;
    std::unique_ptr<hal::Recorder> inner_;
  };

  hal::Device& inner_;
};

TEST_F(GraphReplayTwoDevices, ASubmitThatFailsHalfwayLeavesNoQueueHanging) {
  FlakyDevice second(*devices_[1]);
  ReplayBinding b = binding();
  b.devices[1] = &second;
  auto loaded = GraphReplay::load(linear_, std::move(b));
  ASSERT_TRUE(loaded.ok()) << loaded.error().what;
  const hal::Buffer in = full(3);
  second.is_broken = true;
  // Device 0's list is in its queue already and waits for device 1's.
  const Status half = (*loaded)->submit(std::span(&in, 1), {}, soon());
  ASSERT_FALSE(half.ok());
  EXPECT_EQ(half.error().code, Errc::kProtocol);
  EXPECT_TRUE(devices_[0]->synchronize(soon()).ok()) << "it was let go";
  EXPECT_FALSE((*loaded)->wait(soon()).ok()) << "what it computed is no result";
  second.is_broken = false;
  ASSERT_TRUE((*loaded)->reinit(soon()).ok());
  expect_right(**loaded);
}

TEST_F(GraphReplayGate, LoadRefusesABindingThatDoesNotFit) {
  const auto refused = [this](auto change) {
    ReplayBinding b = binding();
    change(b);
    return !GraphReplay::load(linear_, std::move(b)).ok();
  };
  EXPECT_FALSE(refused([](ReplayBinding&) {}));
  EXPECT_TRUE(refused([](ReplayBinding& b) { b.memories.pop_back(); }));
  EXPECT_TRUE(refused([](ReplayBinding& b) { b.memories[0] = {}; }));
  EXPECT_TRUE(refused([](ReplayBinding& b) { b.memories[1] = *b.memories[1].view(0, 8); }));
  EXPECT_TRUE(refused([](ReplayBinding& b) { b.devices.clear(); }));
  EXPECT_TRUE(refused([](ReplayBinding& b) { b.programs.clear(); }));
  linear_.calls[0].args[1].ref.index = 1;
  EXPECT_TRUE(refused([](ReplayBinding&) {})) << "an input that is not there";
}

}  // namespace
}  // namespace modeld::exec
