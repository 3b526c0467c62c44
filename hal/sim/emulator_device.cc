#include "hal/sim/emulator_device.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "hal/base/bytes.h"
#include "hal/base/mapping.h"
#include "hal/base/proc.h"
#include "hal/base/unique_fd.h"
#include "hal/sim/emulator_request.h"
#include "hal/sim/host_memory.h"
#include "hal/target.h"

namespace modeld::hal {
namespace {

constexpr const char* kEmulator = "qemu-aarch64";
constexpr uint64_t kAlign = kPageBytes;

std::string fd_path(const UniqueFd& fd) {
  return strf("/proc/%d/fd/%d", static_cast<int>(getpid()), fd.get());
}

// The emulator's CPU has every feature that it knows, so the instruction set decides.
Status check_target(const std::string& text, const std::string& what) {
  if (text.empty()) return {};
  ASSIGN_OR_RETURN(const Target target, parse_target(text));
  if (target.is_cpu() && target.arch == "aarch64") return {};
  return fail(Errc::kMismatch,
              strf("%s is for %s, the emulator plays cpu:aarch64", what.c_str(), text.c_str()));
}

// Shared by the device, its buffers, programs and recordings.
struct EmulatorCore {
  EmulatorConfig config;
  DeviceInfo info;
  uint64_t epoch = 0;
  std::atomic<uint64_t> next{1};
  std::atomic<bool> is_closed{false};
  UniqueFd memory_fd, runner_fd;
  Mapping memory;
  std::mutex mutex;                   // guards the two below
  std::map<uint64_t, uint64_t> used;  // offset -> bytes
  MemStats stats;
  std::mutex run_mutex;  // one emulator at a time

  Result<uint64_t> take(uint64_t bytes);
  void give_back(uint64_t offset);
  Status run(const EmulatorRequest& request);
  // Offset of a device address, or kInvalid when it is none.
  Result<uint64_t> offset_of(uint64_t address) const;
};

// First hole that fits: few buffers, so a walk is fine.
Result<uint64_t> EmulatorCore::take(uint64_t bytes) {
  const std::lock_guard lock(mutex);
  const uint64_t wanted = align_up(std::max<uint64_t>(bytes, 1), kAlign);
  uint64_t at = 0;
  for (const auto& [offset, size] : used) {
    if (offset - at >= wanted) break;
    at = offset + size;
  }
  if (wanted > memory.size() || at > memory.size() - wanted)
    return fail(Errc::kOutOfMemory,
                strf("emulator: no room for %llu bytes", static_cast<unsigned long long>(bytes)));
  used[at] = wanted;
  stats.live_bytes += wanted;
  stats.peak_bytes = std::max(stats.peak_bytes, stats.live_bytes);
  ++stats.live_buffers;
  return at;
}

void EmulatorCore::give_back(uint64_t offset) {
  const std::lock_guard lock(mutex);
  stats.live_bytes -= used.at(offset);
  --stats.live_buffers;
  used.erase(offset);
}

Result<uint64_t> EmulatorCore::offset_of(uint64_t address) const {
  const auto base = reinterpret_cast<uint64_t>(memory.data());
  if (address < base || address - base >= memory.size())
    return fail(Errc::kInvalid, strf("emulator: address 0x%llx lies outside the device's memory",
                                     static_cast<unsigned long long>(address)));
  return address - base;
}

Status EmulatorCore::run(const EmulatorRequest& request) {
  if (request.is_empty()) return {};
  ProcSpec spec;
  spec.argv = {kEmulator, fd_path(runner_fd)};
  ASSIGN_OR_RETURN(spec.stdin_text, request.text(fd_path(memory_fd), memory.size()));
  spec.timeout_ms = config.run_limit_ms;
  const std::lock_guard lock(run_mutex);
  ASSIGN_OR_RETURN(const ProcResult result, run_process(spec));
  if (result.succeeded()) return {};
  return fail(Errc::kDeviceLost,
              strf("emulator: %s ended with exit code %d, signal %d: %s", kEmulator,
                   result.exit_code, result.signal, result.err.substr(0, 200).c_str()));
}

class EmulatorStorage final : public BufferStorage {
 public:
  EmulatorStorage(std::shared_ptr<EmulatorCore> core, uint64_t offset, size_t size)
      : core_(std::move(core)), offset_(offset), size_(size) {}
  ~EmulatorStorage() override { core_->give_back(offset_); }
  EmulatorStorage(const EmulatorStorage&) = delete;
  EmulatorStorage& operator=(const EmulatorStorage&) = delete;
  size_t size() const override { return size_; }
  DevAddr addr() const override {
    return reinterpret_cast<DevAddr>(core_->memory.data() + offset_);
  }
  std::byte* cpu() override { return core_->memory.data() + offset_; }
  uint64_t epoch() const override { return core_->epoch; }
  Result<DevAddr> map_to(Device&) override { return addr(); }

 private:
  std::shared_ptr<EmulatorCore> core_;
  uint64_t offset_;
  size_t size_;
};

class EmulatorAllocator final : public Allocator {
 public:
  explicit EmulatorAllocator(std::shared_ptr<EmulatorCore> core) : core_(std::move(core)) {}
  Result<Buffer> alloc(const BufferDesc& desc) override {
    if (desc.size_bytes == 0) return fail(Errc::kInvalid, "emulator: a buffer of 0 bytes");
    if (desc.external != nullptr || desc.fd >= 0)
      return fail(Errc::kUnsupported, "emulator: buffers lie in the device's own memory only");
    ASSIGN_OR_RETURN(const uint64_t offset, core_->take(desc.size_bytes));
    std::memset(core_->memory.data() + offset, 0, desc.size_bytes);
    return Buffer(std::make_shared<EmulatorStorage>(core_, offset, desc.size_bytes));
  }
  void trim() override {}
  MemStats stats() const override {
    const std::lock_guard lock(core_->mutex);
    return core_->stats;
  }

 private:
  std::shared_ptr<EmulatorCore> core_;
};

class EmulatorProgram final : public Program {
 public:
  EmulatorProgram(const ProgramImage& image, Buffer code)
      : name_(image.name), args_(image.args), entry_(image.entry_offset), code_(std::move(code)) {}
  const std::string& name() const override { return name_; }
  uint32_t arg_count() const override { return static_cast<uint32_t>(args_.size()); }
  bool is_address(size_t arg) const { return args_[arg].kind != ArgKind::kScalar; }
  uint64_t entry_address() const { return code_.addr() + entry_; }

 private:
  std::string name_;
  std::vector<Arg> args_;
  uint64_t entry_;
  Buffer code_;
};

// One recorded command; `kind` says which words mean what.
struct Command {
  enum class Kind : uint8_t { kLaunch, kCopy, kWrite32, kWrite64, kSignal } kind;
  std::vector<Word> words;  // launch: arguments; copy: to, from, bytes; else: address, value
  Word groups;
  std::shared_ptr<EmulatorProgram> program;
};

class EmulatorBound final : public Bound {
 public:
  EmulatorBound(std::shared_ptr<EmulatorCore> core,
                std::vector<Command> commands,
                std::vector<Buffer> kept,
                size_t inputs)
      : core_(std::move(core)),
        commands_(std::move(commands)),
        kept_(std::move(kept)),
        input_count_(inputs) {}
  size_t input_count() const override { return input_count_; }
  size_t patched_words() const override { return 0; }  // every submission is written anew
  Result<TimelinePoint> submit(std::span<const uint64_t> inputs) override;

 private:
  Status play(const Command& c, std::span<const uint64_t> inputs);

  std::shared_ptr<EmulatorCore> core_;
  std::vector<Command> commands_;
  std::vector<Buffer> kept_;
  size_t input_count_;
  EmulatorRequest pending_;  // launches that nothing on the host has to wait for yet
};

Status EmulatorBound::play(const Command& c, std::span<const uint64_t> inputs) {
  if (c.kind == Command::Kind::kLaunch) {
    std::vector<EmulatorArg> args;
    for (size_t i = 0; i < c.words.size(); ++i) {
      EmulatorArg arg{c.program->is_address(i), value_of(c.words[i], inputs)};
      if (arg.is_address) {
        ASSIGN_OR_RETURN(arg.word, core_->offset_of(arg.word));
      }
      args.push_back(arg);
    }
    ASSIGN_OR_RETURN(const uint64_t entry, core_->offset_of(c.program->entry_address()));
    pending_.add(entry, value_of(c.groups, inputs), args);
    return {};
  }
  RETURN_IF_ERROR(core_->run(std::exchange(pending_, {})));
  const uint64_t to = value_of(c.words[0], inputs), value = value_of(c.words[1], inputs);
  if (c.kind == Command::Kind::kSignal) {
    set_slot(*reinterpret_cast<SignalSlot*>(to), value);
  } else if (c.kind == Command::Kind::kCopy) {
    std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(value),
                 value_of(c.words[2], inputs));
  } else {
    std::memcpy(reinterpret_cast<void*>(to), &value,
                c.kind == Command::Kind::kWrite32 ? sizeof(uint32_t) : sizeof value);
  }
  return {};
}

Result<TimelinePoint> EmulatorBound::submit(std::span<const uint64_t> inputs) {
  if (core_->is_closed) return fail(Errc::kDeviceLost, "emulator: submit on a closed device");
  if (inputs.size() < input_count_)
    return fail(Errc::kInvalid,
                strf("emulator: %zu inputs given, %zu wanted", inputs.size(), input_count_));
  pending_ = {};
  for (const Command& c : commands_) RETURN_IF_ERROR(play(c, inputs));
  RETURN_IF_ERROR(core_->run(std::exchange(pending_, {})));
  return TimelinePoint{core_->info.index, core_->epoch, core_->next.fetch_add(1)};
}

class EmulatorRecorder final : public Recorder {
 public:
  EmulatorRecorder(std::shared_ptr<EmulatorCore> core, std::string label)
      : core_(std::move(core)), label_(std::move(label)) {}
  using Recorder::signal;
  using Recorder::wait;
  // Submissions run to their end in order, so what was submitted before has happened.
  Recorder& wait(Word addr, Word value) override { return note(addr).note(value); }
  Recorder& wait(TimelinePoint) override { return *this; }
  Recorder& barrier() override { return *this; }
  Recorder& stamp(const Signal&) override { return *this; }
  Recorder& poll(Word addr, uint32_t, uint32_t) override { return note(addr); }
  Recorder& keep(const Buffer& buffer) override {
    kept_.push_back(buffer);
    return *this;
  }
  Recorder& signal(Word addr, Word value) override {
    return add({Command::Kind::kSignal, {addr, value}, {}, nullptr});
  }
  Recorder& copy(Word dst, Word src, Word size_bytes) override {
    return add({Command::Kind::kCopy, {dst, src, size_bytes}, {}, nullptr});
  }
  Recorder& write(Word dst, Word value, bool wide) override {
    return add(
        {wide ? Command::Kind::kWrite64 : Command::Kind::kWrite32, {dst, value}, {}, nullptr});
  }
  Recorder& launch(const std::shared_ptr<Program>& program,
                   std::span<const Word> args,
                   Dim3 groups,
                   Dim3) override {
    auto mine = std::dynamic_pointer_cast<EmulatorProgram>(program);
    if (mine == nullptr || args.size() != mine->arg_count()) {
      error_ = strf("recording '%s': kernel %s with %zu arguments", label_.c_str(),
                    program ? program->name().c_str() : "(none)", args.size());
      return *this;
    }
    note(groups.x);
    return add({Command::Kind::kLaunch, {args.begin(), args.end()}, groups.x, std::move(mine)});
  }
  Result<std::unique_ptr<Bound>> bind() && override {
    if (!error_.empty()) return fail(Errc::kInvalid, error_);
    return std::unique_ptr<Bound>(std::make_unique<EmulatorBound>(
        std::move(core_), std::move(commands_), std::move(kept_), input_count_));
  }

 private:
  EmulatorRecorder& note(Word w) {
    if (w.is_patched()) input_count_ = std::max(input_count_, static_cast<size_t>(w.slot) + 1);
    return *this;
  }
  EmulatorRecorder& add(Command c) {
    for (const Word& w : c.words) note(w);
    commands_.push_back(std::move(c));
    return *this;
  }

  std::shared_ptr<EmulatorCore> core_;
  std::string label_, error_;
  std::vector<Command> commands_;
  std::vector<Buffer> kept_;
  size_t input_count_ = 0;
};

class EmulatorDevice final : public Device {
 public:
  explicit EmulatorDevice(std::shared_ptr<EmulatorCore> core)
      : core_(std::move(core)), allocator_(core_) {}
  ~EmulatorDevice() override { core_->is_closed = true; }
  EmulatorDevice(const EmulatorDevice&) = delete;
  EmulatorDevice& operator=(const EmulatorDevice&) = delete;
  const DeviceInfo& info() const override { return core_->info; }
  DevState state() const override { return DevState::kReady; }
  uint64_t epoch() const override { return core_->epoch; }
  Allocator& allocator() override { return allocator_; }
  Result<std::shared_ptr<Program>> load(const ProgramImage& image) override;
  Result<Signal> make_signal(uint64_t initial) override { return host_signal(initial); }
  std::unique_ptr<Recorder> record(QueueKind, std::string label) override {
    return std::make_unique<EmulatorRecorder>(core_, std::move(label));
  }
  Result<TimelinePoint> submit(std::unique_ptr<Recorder> recorder) override {
    ASSIGN_OR_RETURN(const std::unique_ptr<Bound> bound, std::move(*recorder).bind());
    return bound->submit({});
  }
  Status wait(TimelinePoint point, Deadline) override {
    if (point.epoch == core_->epoch && point.value < core_->next) return {};
    return fail(Errc::kInvalid, strf("emulator: wait for value %llu, which nobody submitted",
                                     static_cast<unsigned long long>(point.value)));
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
  std::shared_ptr<EmulatorCore> core_;
  EmulatorAllocator allocator_;
};

Result<std::shared_ptr<Program>> EmulatorDevice::load(const ProgramImage& image) {
  if (image.host_kernel != nullptr)
    return fail(
        Errc::kUnsupported,
        strf("kernel %s: a host function is no code of the emulated CPU", image.name.c_str()));
  RETURN_IF_ERROR(check_target(image.target, "kernel " + image.name));
  if (image.args.size() > kMaxArgs)
    return fail(Errc::kInvalid, strf("kernel %s: %zu arguments, limit %zu", image.name.c_str(),
                                     image.args.size(), kMaxArgs));
  Mapping file;
  std::span<const std::byte> code = image.code;
  if (image.fd >= 0) {
    ASSIGN_OR_RETURN(file,
                     Mapping::map_fd(image.fd, image.fd_offset, image.fd_length, MapMode::kRead));
    code = file.bytes();
  }
  if (image.entry_offset >= code.size())
    return fail(Errc::kInvalid,
                strf("kernel %s: entry at %llu of %zu bytes", image.name.c_str(),
                     static_cast<unsigned long long>(image.entry_offset), code.size()));
  BufferDesc desc;
  desc.size_bytes = code.size();
  ASSIGN_OR_RETURN(Buffer memory, allocator_.alloc(desc));
  std::memcpy(memory.cpu().data(), code.data(), code.size());
  return std::make_shared<EmulatorProgram>(image, std::move(memory));
}

Status probe_emulator() {
  ProcSpec spec;
  spec.argv = {kEmulator, "--version"};
  spec.timeout_ms = 10'000;
  const auto result = run_process(spec);
  if (!result.ok()) return fail(Error(result.error()).with("emulator"));
  if (!result->succeeded())
    return fail(Errc::kNotFound,
                strf("emulator: %s --version: exit code %d", kEmulator, result->exit_code));
  return {};
}

}  // namespace

Result<std::unique_ptr<Device>> open_emulator_device(const EmulatorConfig& config) {
  static std::atomic<uint64_t> epochs{uint64_t{1} << 32};  // not those of another kind of device
  RETURN_IF_ERROR(check_target(config.target, "emulator"));
  if (config.runner_entry >= config.runner.size())
    return fail(Errc::kInvalid, "emulator: the runner has no entry");
  RETURN_IF_ERROR(probe_emulator());
  auto core = std::make_shared<EmulatorCore>();
  core->config = config;
  core->info.uri = "emulator";
  core->info.name = "qemu-aarch64";
  core->info.target = config.target;
  core->info.memory_bytes = config.memory_bytes;
  core->info.is_simulated = true;
  core->epoch = epochs.fetch_add(1);
  ASSIGN_OR_RETURN(core->memory_fd, create_memfd("modeld-emulator", config.memory_bytes));
  ASSIGN_OR_RETURN(core->memory, Mapping::map_fd(core->memory_fd.get(), 0, config.memory_bytes,
                                                 MapMode::kReadWrite));
  const std::string runner = emulator_executable(config.runner, config.runner_entry);
  ASSIGN_OR_RETURN(core->runner_fd,
                   sealed_memfd("modeld-emulator-runner", std::as_bytes(std::span(runner))));
  return std::unique_ptr<Device>(std::make_unique<EmulatorDevice>(std::move(core)));
}

}  // namespace modeld::hal
