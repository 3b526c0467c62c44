#include "hal/validate.h"

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace modeld::hal {

namespace {

// Live address ranges: buffers and signals. They may overlap (imports of the same memory), so
// ranges are counted.
class Registry {
 public:
  void add(DevAddr addr, uint64_t size) {
    const std::lock_guard lock(mutex_);
    ranges_.emplace(addr, size);
  }
  void remove(DevAddr addr, uint64_t size) {
    const std::lock_guard lock(mutex_);
    const auto [first, last] = ranges_.equal_range(addr);
    for (auto it = first; it != last; ++it) {
      if (it->second != size) continue;
      ranges_.erase(it);
      return;
    }
  }
  bool contains(DevAddr addr, uint64_t size) const {
    const std::lock_guard lock(mutex_);
    for (auto it = ranges_.upper_bound(addr); it != ranges_.begin();) {
      --it;
      const uint64_t offset = addr - it->first;
      if (offset < it->second && size <= it->second - offset) return true;
    }
    return false;
  }
  void set_args(const Program* program, std::vector<Arg> args) {
    const std::lock_guard lock(mutex_);
    args_[program] = std::move(args);
  }
  std::vector<Arg> args_of(const Program* program) const {
    const std::lock_guard lock(mutex_);
    const auto it = args_.find(program);
    return it == args_.end() ? std::vector<Arg>{} : it->second;
  }

 private:
  mutable std::mutex mutex_;
  std::multimap<DevAddr, uint64_t> ranges_;
  std::map<const Program*, std::vector<Arg>> args_;
};

// Shared by device, storages, signals and recordings, which may outlive one another.
using RegistryRef = std::shared_ptr<Registry>;

class TrackedStorage final : public BufferStorage {
 public:
  TrackedStorage(Buffer inner, RegistryRef registry)
      : inner_(std::move(inner)), registry_(std::move(registry)) {
    registry_->add(inner_.addr(), inner_.size());
  }
  ~TrackedStorage() override { registry_->remove(inner_.addr(), inner_.size()); }
  size_t size() const override { return inner_.size(); }
  DevAddr addr() const override { return inner_.addr(); }
  std::byte* cpu() override { return inner_.cpu().data(); }
  uint64_t epoch() const override { return inner_.epoch(); }
  Result<DevAddr> map_to(Device& user) override { return inner_.addr_on(user); }

 private:
  Buffer inner_;
  RegistryRef registry_;
};

class TrackedAllocator final : public Allocator {
 public:
  TrackedAllocator(Allocator& inner, RegistryRef registry)
      : inner_(inner), registry_(std::move(registry)) {}
  Result<Buffer> alloc(const BufferDesc& desc) override {
    ASSIGN_OR_RETURN(Buffer buffer, inner_.alloc(desc));
    return Buffer(std::make_shared<TrackedStorage>(std::move(buffer), registry_));
  }
  void trim() override { inner_.trim(); }
  MemStats stats() const override { return inner_.stats(); }

 private:
  Allocator& inner_;
  RegistryRef registry_;
};

struct Check {
  size_t command;
  const char* what;  // "copy destination"
  Word addr, size;
  std::optional<Word> signal_value;  // must not be below the value that is there
};

class CheckedBound final : public Bound {
 public:
  CheckedBound(std::unique_ptr<Bound> inner,
               std::string label,
               std::vector<Check> checks,
               RegistryRef registry)
      : inner_(std::move(inner)),
        label_(std::move(label)),
        checks_(std::move(checks)),
        registry_(std::move(registry)) {}
  size_t input_count() const override { return inner_->input_count(); }
  size_t patched_words() const override { return inner_->patched_words(); }
  Result<TimelinePoint> submit(std::span<const uint64_t> inputs) override {
    if (inputs.size() >= input_count()) {
      for (const Check& c : checks_) RETURN_IF_ERROR(check(c, inputs));
    }
    return inner_->submit(inputs);
  }

 private:
  static uint64_t value(const Word& w, std::span<const uint64_t> inputs) {
    return w.is_patched() ? inputs[static_cast<size_t>(w.slot)] : w.imm;
  }
  Status check(const Check& c, std::span<const uint64_t> inputs) const {
    const uint64_t addr = value(c.addr, inputs), size = value(c.size, inputs);
    if (size == 0) return {};
    if (!registry_->contains(addr, size))
      return fail(
          Errc::kInvalid,
          strf("validate: recording '%s', command %zu: %s 0x%llx+%llu is not live memory of this "
               "device",
               label_.c_str(), c.command, c.what, static_cast<unsigned long long>(addr),
               static_cast<unsigned long long>(size)));
    if (!c.signal_value || addr % sizeof(uint64_t) != 0) return {};
    const uint64_t now = std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(addr))
                             .load(std::memory_order_acquire);
    const uint64_t next = value(*c.signal_value, inputs);
    if (next < now)
      return fail(
          Errc::kInvalid,
          strf("validate: recording '%s', command %zu: signal would go from %llu back to %llu",
               label_.c_str(), c.command, static_cast<unsigned long long>(now),
               static_cast<unsigned long long>(next)));
    return {};
  }

  std::unique_ptr<Bound> inner_;
  std::string label_;
  std::vector<Check> checks_;
  RegistryRef registry_;
};

class CheckedRecorder final : public Recorder {
 public:
  CheckedRecorder(std::unique_ptr<Recorder> inner, std::string label, RegistryRef registry)
      : inner_(std::move(inner)), label_(std::move(label)), registry_(std::move(registry)) {}
  using Recorder::signal;
  using Recorder::wait;
  Recorder& wait(Word addr, Word value) override {
    note("wait", addr, Word::value(8));
    inner_->wait(addr, value);
    return *this;
  }
  Recorder& signal(Word addr, Word value) override {
    note("signal", addr, Word::value(8));
    checks_.back().signal_value = value;
    inner_->signal(addr, value);
    return *this;
  }
  Recorder& wait(TimelinePoint point) override {
    inner_->wait(point);
    return *this;
  }
  Recorder& barrier() override {
    inner_->barrier();
    return *this;
  }
  Recorder& stamp(const Signal& signal) override {
    note("stamp", Word::value(signal.stamp_addr()), Word::value(8));
    inner_->stamp(signal);
    return *this;
  }
  Recorder& launch(const std::shared_ptr<Program>& program,
                   std::span<const Word> args,
                   Dim3 groups,
                   Dim3 local) override {
    const std::vector<Arg> kinds = registry_->args_of(program.get());
    for (size_t i = 0; i < args.size() && i < kinds.size(); ++i) {
      if (kinds[i].kind != ArgKind::kBuffer) continue;
      checks_.push_back({commands_, "buffer argument", args[i], Word::value(1), std::nullopt});
    }
    ++commands_;
    inner_->launch(program, args, groups, local);
    return *this;
  }
  Recorder& copy(Word dst, Word src, Word size_bytes) override {
    checks_.push_back({commands_, "copy destination", dst, size_bytes, std::nullopt});
    note("copy source", src, size_bytes);
    inner_->copy(dst, src, size_bytes);
    return *this;
  }
  Recorder& write(Word dst, Word value, bool wide) override {
    note("write", dst, Word::value(wide ? 8 : 4));
    inner_->write(dst, value, wide);
    return *this;
  }
  Recorder& poll(Word addr, uint32_t ref, uint32_t mask) override {
    note("poll", addr, Word::value(4));
    inner_->poll(addr, ref, mask);
    return *this;
  }
  Recorder& keep(const Buffer& buffer) override {
    inner_->keep(buffer);
    return *this;
  }
  Result<std::unique_ptr<Bound>> bind() && override {
    ASSIGN_OR_RETURN(std::unique_ptr<Bound> bound, std::move(*inner_).bind());
    return std::unique_ptr<Bound>(std::make_unique<CheckedBound>(
        std::move(bound), std::move(label_), std::move(checks_), std::move(registry_)));
  }

 private:
  void note(const char* what, Word addr, Word size) {
    checks_.push_back({commands_++, what, addr, size, std::nullopt});
  }

  std::unique_ptr<Recorder> inner_;
  std::string label_;
  RegistryRef registry_;
  std::vector<Check> checks_;
  size_t commands_ = 0;
};

class CheckedDevice final : public Device {
 public:
  explicit CheckedDevice(std::unique_ptr<Device> inner)
      : registry_(std::make_shared<Registry>()),
        inner_(std::move(inner)),
        allocator_(inner_->allocator(), registry_) {}
  const DeviceInfo& info() const override { return inner_->info(); }
  DevState state() const override { return inner_->state(); }
  uint64_t epoch() const override { return inner_->epoch(); }
  Allocator& allocator() override { return allocator_; }
  Result<std::shared_ptr<Program>> load(const ProgramImage& image) override {
    ASSIGN_OR_RETURN(std::shared_ptr<Program> program, inner_->load(image));
    registry_->set_args(program.get(), image.args);
    return program;
  }
  Result<Signal> make_signal(uint64_t initial) override {
    ASSIGN_OR_RETURN(Signal made, inner_->make_signal(initial));
    auto signal = std::make_shared<Signal>(std::move(made));
    registry_->add(signal->value_addr(), 16);
    SignalSlot* slot = signal->slot();
    return Signal(slot, std::shared_ptr<void>(slot, [signal, registry = registry_](void*) {
                    registry->remove(signal->value_addr(), 16);
                  }));
  }
  std::unique_ptr<Recorder> record(QueueKind kind, std::string label) override {
    return std::make_unique<CheckedRecorder>(inner_->record(kind, label), label, registry_);
  }
  Result<TimelinePoint> submit(std::unique_ptr<Recorder> recorder) override {
    ASSIGN_OR_RETURN(std::unique_ptr<Bound> bound, std::move(*recorder).bind());
    ASSIGN_OR_RETURN(const TimelinePoint point, bound->submit({}));
    const std::lock_guard lock(one_shots_mutex_);
    std::erase_if(one_shots_,
                  [this](const auto& o) { return inner_->wait(o.first, Deadline{0}).ok(); });
    one_shots_.emplace_back(point, std::move(bound));
    return point;
  }
  Status wait(TimelinePoint point, Deadline deadline) override {
    return inner_->wait(point, deadline);
  }
  Status synchronize(Deadline deadline) override { return inner_->synchronize(deadline); }
  Result<TimelinePoint> upload(const Buffer& to,
                               size_t offset,
                               std::span<const std::byte> bytes) override {
    return inner_->upload(to, offset, bytes);
  }
  Status download(std::span<std::byte> to,
                  const Buffer& from,
                  size_t offset,
                  Deadline deadline) override {
    return inner_->download(to, from, offset, deadline);
  }
  Status recover(Deadline deadline) override { return inner_->recover(deadline); }
  std::vector<ProfileRange> take_profile() override { return inner_->take_profile(); }

 private:
  // In this order: one-shot recordings go after the device, as CpuDevice's own do.
  RegistryRef registry_;
  std::mutex one_shots_mutex_;
  std::vector<std::pair<TimelinePoint, std::unique_ptr<Bound>>> one_shots_;
  std::unique_ptr<Device> inner_;
  TrackedAllocator allocator_;
};

}  // namespace

std::unique_ptr<Device> validate_device(std::unique_ptr<Device> inner) {
  return std::make_unique<CheckedDevice>(std::move(inner));
}

}  // namespace modeld::hal
