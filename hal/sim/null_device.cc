#include "hal/sim/null_device.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "hal/base/mapping.h"
#include "hal/sim/host_memory.h"

namespace modeld::hal {

namespace {

// Shared by the device and its recordings: the timeline.
struct NullCore {
  DeviceConfig config;
  DeviceInfo info;
  uint64_t epoch = 0;
  std::atomic<uint64_t> next{1};
  std::atomic<bool> is_closed{false};
};

class NullStorage final : public BufferStorage {
 public:
  NullStorage(std::byte* owned, std::byte* data, size_t size, Mapping mapping, uint64_t epoch)
      : owned_(owned, &std::free),
        mapping_(std::move(mapping)),
        data_(data),
        size_(size),
        epoch_(epoch) {}
  size_t size() const override { return size_; }
  DevAddr addr() const override { return reinterpret_cast<DevAddr>(data_); }
  std::byte* cpu() override { return data_; }
  uint64_t epoch() const override { return epoch_; }
  Result<DevAddr> map_to(Device&) override { return addr(); }

 private:
  std::unique_ptr<std::byte, void (*)(void*)> owned_;
  Mapping mapping_;
  std::byte* data_;
  size_t size_;
  uint64_t epoch_;
};

class NullAllocator final : public Allocator {
 public:
  explicit NullAllocator(uint64_t epoch) : epoch_(epoch) {}
  Result<Buffer> alloc(const BufferDesc& desc) override {
    const size_t size = desc.size_bytes;
    if (size == 0 || (desc.external != nullptr && desc.fd >= 0))
      return fail(Errc::kInvalid,
                  strf("null: a buffer of %zu bytes, or from both a pointer and an fd", size));
    Mapping mapping;
    std::byte* owned = nullptr;
    auto* data = static_cast<std::byte*>(desc.external);
    if (desc.fd >= 0) {
      ASSIGN_OR_RETURN(mapping,
                       Mapping::map_fd(desc.fd, desc.fd_offset, size,
                                       desc.read_only ? MapMode::kRead : MapMode::kReadWrite));
      data = mapping.data();
    } else if (data == nullptr) {
      if (size > size_t{1} << 46)
        return fail(Errc::kOutOfMemory, strf("null: no memory for %zu bytes", size));
      owned = data = static_cast<std::byte*>(std::aligned_alloc(64, (size + 63) / 64 * 64));
      if (owned == nullptr)
        return fail(Errc::kOutOfMemory, strf("null: no memory for %zu bytes", size));
      std::memset(owned, 0, size);  // outputs nobody wrote read as zero, the same in every run
    }
    return Buffer(std::make_shared<NullStorage>(owned, data, size, std::move(mapping), epoch_));
  }
  void trim() override {}
  MemStats stats() const override { return {}; }

 private:
  uint64_t epoch_;
};

class NullProgram final : public Program {
 public:
  NullProgram(std::string name, uint32_t arg_count)
      : name_(std::move(name)), arg_count_(arg_count) {}
  const std::string& name() const override { return name_; }
  uint32_t arg_count() const override { return arg_count_; }

 private:
  std::string name_;
  uint32_t arg_count_;
};

struct NullSignal {
  Word addr, value;
};

class NullBound final : public Bound {
 public:
  NullBound(std::shared_ptr<NullCore> core,
            std::string label,
            std::vector<NullSignal> signals,
            size_t inputs)
      : core_(std::move(core)),
        label_(std::move(label)),
        signals_(std::move(signals)),
        input_count_(inputs) {}
  size_t input_count() const override { return input_count_; }
  size_t patched_words() const override { return 0; }  // there are no words
  Result<TimelinePoint> submit(std::span<const uint64_t> inputs) override {
    if (core_->is_closed) return fail(Errc::kDeviceLost, "null: submit on a closed device");
    if (inputs.size() < input_count_)
      return fail(Errc::kInvalid, strf("recording '%s': %zu inputs given, %zu wanted",
                                       label_.c_str(), inputs.size(), input_count_));
    if (core_->config.on_null_run) core_->config.on_null_run(label_, inputs);
    // Addresses of signals lie at the start of a slot.
    for (const NullSignal& s : signals_)
      set_slot(*reinterpret_cast<SignalSlot*>(value_of(s.addr, inputs)), value_of(s.value, inputs));
    return TimelinePoint{core_->info.index, core_->epoch, core_->next.fetch_add(1)};
  }

 private:
  std::shared_ptr<NullCore> core_;  // shared: a Bound may outlive the device
  std::string label_;
  std::vector<NullSignal> signals_;
  size_t input_count_;
};

class NullRecorder final : public Recorder {
 public:
  NullRecorder(std::shared_ptr<NullCore> core, std::string label)
      : core_(std::move(core)), label_(std::move(label)) {}
  using Recorder::signal;
  using Recorder::wait;
  Recorder& wait(Word addr, Word value) override { return note(addr).note(value); }
  Recorder& signal(Word addr, Word value) override {
    signals_.push_back({addr, value});
    return note(addr).note(value);
  }
  Recorder& wait(TimelinePoint) override { return *this; }
  Recorder& barrier() override { return *this; }
  Recorder& stamp(const Signal&) override { return *this; }
  Recorder& launch(const std::shared_ptr<Program>& program,
                   std::span<const Word> args,
                   Dim3 groups,
                   Dim3 local) override {
    if (program == nullptr || args.size() != program->arg_count())
      error_ = strf("recording '%s': kernel %s with %zu arguments", label_.c_str(),
                    program ? program->name().c_str() : "(none)", args.size());
    for (const Word& w : args) note(w);
    return note(groups.x).note(groups.y).note(groups.z).note(local.x).note(local.y).note(local.z);
  }
  Recorder& copy(Word dst, Word src, Word size_bytes) override {
    return note(dst).note(src).note(size_bytes);
  }
  Recorder& write(Word dst, Word value, bool) override { return note(dst).note(value); }
  Recorder& poll(Word addr, uint32_t, uint32_t) override { return note(addr); }
  Recorder& keep(const Buffer&) override { return *this; }
  Result<std::unique_ptr<Bound>> bind() && override {
    if (!error_.empty()) return fail(Errc::kInvalid, error_);
    return std::unique_ptr<Bound>(std::make_unique<NullBound>(std::move(core_), std::move(label_),
                                                              std::move(signals_), input_count_));
  }

 private:
  NullRecorder& note(Word w) {
    if (w.is_patched()) input_count_ = std::max(input_count_, static_cast<size_t>(w.slot) + 1);
    return *this;
  }

  std::shared_ptr<NullCore> core_;
  std::string label_, error_;
  std::vector<NullSignal> signals_;
  size_t input_count_ = 0;
};

class NullDevice final : public Device {
 public:
  explicit NullDevice(std::shared_ptr<NullCore> core)
      : core_(std::move(core)), allocator_(core_->epoch) {}
  ~NullDevice() override { core_->is_closed = true; }
  const DeviceInfo& info() const override { return core_->info; }
  DevState state() const override { return DevState::kReady; }
  uint64_t epoch() const override { return core_->epoch; }
  Allocator& allocator() override { return allocator_; }
  Result<std::shared_ptr<Program>> load(const ProgramImage& image) override {
    return std::make_shared<NullProgram>(image.name, static_cast<uint32_t>(image.args.size()));
  }
  Result<Signal> make_signal(uint64_t initial) override { return host_signal(initial); }
  std::unique_ptr<Recorder> record(QueueKind, std::string label) override {
    return std::make_unique<NullRecorder>(core_, std::move(label));
  }
  Result<TimelinePoint> submit(std::unique_ptr<Recorder> recorder) override {
    ASSIGN_OR_RETURN(const std::unique_ptr<Bound> bound, std::move(*recorder).bind());
    return bound->submit({});
  }
  Status wait(TimelinePoint point, Deadline) override {
    if (point.epoch != core_->epoch)
      return fail(Errc::kDeviceLost, "null: wait for a point of another device");
    if (point.value >= core_->next)
      return fail(Errc::kInvalid, strf("null: wait for value %llu, which nobody submitted",
                                       static_cast<unsigned long long>(point.value)));
    return {};
  }
  Status synchronize(Deadline) override { return {}; }
  Result<TimelinePoint> upload(const Buffer& to,
                               size_t offset,
                               std::span<const std::byte> bytes) override {
    RETURN_IF_ERROR(copy_to(to, offset, bytes));
    return TimelinePoint{core_->info.index, core_->epoch, core_->next - 1};
  }
  Status download(std::span<std::byte> to, const Buffer& from, size_t offset, Deadline) override {
    return copy_from(to, from, offset);
  }
  Status recover(Deadline) override { return {}; }
  std::vector<ProfileRange> take_profile() override { return {}; }

 private:
  std::shared_ptr<NullCore> core_;  // shared with its recordings
  NullAllocator allocator_;
};

}  // namespace

Result<std::unique_ptr<Device>> open_null_device(const DeviceConfig& config) {
  static std::atomic<uint64_t> epochs{0};
  auto core = std::make_shared<NullCore>();
  core->config = config;
  core->info.uri = "null";
  core->info.name = "null device, runs nothing";
  core->info.target = "";
  core->info.is_unified = true;
  core->info.is_simulated = true;
  core->epoch = epochs.fetch_add(1) + 1;
  core->next = config.first_timeline_value;
  return std::unique_ptr<Device>(std::make_unique<NullDevice>(std::move(core)));
}

}  // namespace modeld::hal
