#include "hal/cpu/cpu_device.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "hal/base/bytes.h"
#include "hal/base/log.h"
#include "hal/base/trace.h"
#include "hal/cpu/cpu_core.h"
#include "hal/cpu/cpu_memory.h"
#include "hal/cpu/cpu_queue.h"
#include "hal/host_units.h"
#include "hal/target.h"

namespace modeld::hal {

namespace {

constexpr int64_t kCloseWaitMs = 2000;

// Signals belong to the program's own threads.
class BlockSignals {
 public:
  BlockSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old_);
  }
  ~BlockSignals() { pthread_sigmask(SIG_SETMASK, &old_, nullptr); }
  BlockSignals(const BlockSignals&) = delete;
  BlockSignals& operator=(const BlockSignals&) = delete;

 private:
  sigset_t old_{};
};

Status pin(std::thread& thread, int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (cpu < 0 || cpu >= CPU_SETSIZE)
    return fail(Errc::kInvalid, strf("cpu: there is no CPU %d", cpu));
  CPU_SET(static_cast<size_t>(cpu), &set);
  const int err = pthread_setaffinity_np(thread.native_handle(), sizeof(set), &set);
  if (err != 0) return fail_errno(Errc::kInvalid, strf("cpu: pin a thread to CPU %d", cpu), err);
  return {};
}

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(std::shared_ptr<CpuCore> core)
      : core_(std::move(core)), allocator_(core_->epoch) {}
  ~CpuDevice() override;
  Status start();

  const DeviceInfo& info() const override { return core_->info; }
  DevState state() const override {
    return core_->is_closed() ? DevState::kClosed : DevState::kReady;
  }
  uint64_t epoch() const override { return core_->epoch; }
  Allocator& allocator() override { return allocator_; }
  Result<std::shared_ptr<Program>> load(const ProgramImage& image) override {
    return core_->programs.load(image);
  }
  Result<Signal> make_signal(uint64_t initial) override { return core_->signals->make(initial); }
  // One queue runs both kinds, in submission order.
  std::unique_ptr<Recorder> record(QueueKind, std::string label) override {
    return make_cpu_recorder(core_, std::move(label));
  }
  Result<TimelinePoint> submit(std::unique_ptr<Recorder> recorder) override;
  Status wait(TimelinePoint point, Deadline deadline) override;
  Status synchronize(Deadline deadline) override {
    return core_->wait_value(core_->last_pushed(), deadline);
  }
  Result<TimelinePoint> upload(const Buffer& to,
                               size_t offset,
                               std::span<const std::byte> bytes) override;
  Status download(std::span<std::byte> to,
                  const Buffer& from,
                  size_t offset,
                  Deadline deadline) override;
  // A CPU has no context to rebuild: it has recovered when everything submitted has ended.
  Status recover(Deadline deadline) override { return synchronize(deadline); }
  std::vector<ProfileRange> take_profile() override { return core_->profile.take(); }

 private:
  struct OneShot {
    uint64_t value;
    std::unique_ptr<Bound> bound;
  };
  // Memory of another device, or of this one before it was opened again, is nothing to copy to.
  Status check_epoch(const Buffer& buffer) const;

  const std::shared_ptr<CpuCore> core_;  // shared with threads and everything this device made
  CpuAllocator allocator_;
  std::vector<std::thread> threads_;
  std::mutex one_shots_mutex_;
  std::vector<OneShot> one_shots_;
};

Status CpuDevice::start() {
  const BlockSignals blocked;
  for (int t = 0; t < core_->config.threads; ++t) {
    threads_.emplace_back([core = core_, t] {
      if (t == 0 && trace_is_enabled()) trace_prepare_thread("cpu queue");
      if (t == 0) {
        core->serve();
      } else {
        core->team.work(static_cast<uint32_t>(t));
      }
    });
    const std::string name = strf("cpu%u-%d", core_->info.index, t);
    pthread_setname_np(threads_.back().native_handle(), name.c_str());
    const std::vector<int>& cpus = core_->config.cpus;
    if (!cpus.empty())
      RETURN_IF_ERROR(pin(threads_.back(), cpus[static_cast<size_t>(t) % cpus.size()]));
  }
  return {};
}

CpuDevice::~CpuDevice() {
  core_->close();
  const bool ended = threads_.empty() || core_->wait_served(Deadline::in_ms(kCloseWaitMs));
  for (std::thread& thread : threads_) {
    if (ended) {
      thread.join();
    } else {
      thread.detach();  // it holds the core and, through leaked recordings, the memory it works on
    }
  }
  if (ended) return;
  LOG_ERROR("hal", "%s: a kernel did not end within %lld ms; its threads are left behind",
            core_->info.uri.c_str(), static_cast<long long>(kCloseWaitMs));
}

Result<TimelinePoint> CpuDevice::submit(std::unique_ptr<Recorder> recorder) {
  ASSIGN_OR_RETURN(std::unique_ptr<Bound> bound, std::move(*recorder).bind());
  ASSIGN_OR_RETURN(const TimelinePoint point, bound->submit({}));
  const std::lock_guard lock(one_shots_mutex_);
  const uint64_t done = core_->completed();
  std::erase_if(one_shots_, [done](const OneShot& o) { return o.value <= done; });
  one_shots_.push_back({point.value, std::move(bound)});
  return point;
}

Status CpuDevice::wait(TimelinePoint point, Deadline deadline) {
  if (point.device != core_->info.index || point.epoch != core_->epoch)
    return fail(Errc::kDeviceLost,
                core_->info.uri + ": wait for a point of another device or epoch");
  if (point.value > core_->last_pushed())
    return fail(Errc::kInvalid,
                strf("%s: wait for value %llu, last submitted is %llu", core_->info.uri.c_str(),
                     static_cast<unsigned long long>(point.value),
                     static_cast<unsigned long long>(core_->last_pushed())));
  return core_->wait_value(point.value, deadline);
}

Status CpuDevice::check_epoch(const Buffer& buffer) const {
  if (buffer.epoch() == core_->epoch) return {};
  return fail(Errc::kDeviceLost,
              core_->info.uri + ": copy with a buffer of another device or epoch");
}

Result<TimelinePoint> CpuDevice::upload(const Buffer& to,
                                        size_t offset,
                                        std::span<const std::byte> bytes) {
  ASSIGN_OR_RETURN(const Buffer target, to.view(offset, bytes.size()));
  RETURN_IF_ERROR(check_epoch(target));
  const uint64_t last = core_->last_pushed();
  RETURN_IF_ERROR(core_->wait_progress(last, core_->config.submit_wait_ms));
  if (!bytes.empty()) std::memcpy(target.cpu().data(), bytes.data(), bytes.size());
  return TimelinePoint{core_->info.index, core_->epoch, last};
}

Status CpuDevice::download(std::span<std::byte> to,
                           const Buffer& from,
                           size_t offset,
                           Deadline deadline) {
  ASSIGN_OR_RETURN(const Buffer source, from.view(offset, to.size()));
  RETURN_IF_ERROR(check_epoch(source));
  RETURN_IF_ERROR(synchronize(deadline));
  if (!to.empty()) std::memcpy(to.data(), source.cpu().data(), to.size());
  return {};
}

// Tells points of one opened device from those of another.
uint64_t next_epoch() {
  static std::atomic<uint64_t> epoch{0};
  return epoch.fetch_add(1, std::memory_order_relaxed) + 1;
}

DeviceInfo make_info(uint32_t index, int threads) {
  DeviceInfo info;
  info.uri = strf("cpu:%u", index);
  info.name = strf("host CPU, %d thread%s", threads, threads == 1 ? "" : "s");
  const Result<Target> host = parse_target("cpu");
  if (host.ok()) info.target = print_target(*host);
  info.index = index;
  info.threads = threads;
  info.memory_bytes = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                      static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE));
  info.is_unified = true;
  return info;
}

}  // namespace

Result<std::unique_ptr<Device>> open_cpu_device(uint32_t index, const DeviceConfig& config) {
  if (config.threads < 1 || config.threads > kMaxCpuThreads)
    return fail(Errc::kInvalid,
                strf("cpu:%u: %d threads, wanted 1 to %d", index, config.threads, kMaxCpuThreads));
  if (config.first_timeline_value == 0)
    return fail(Errc::kInvalid, "cpu: timeline values start at 1");
  auto core = std::make_shared<CpuCore>(make_info(index, config.threads), config, next_epoch());
  auto device = std::make_unique<CpuDevice>(std::move(core));
  RETURN_IF_ERROR(device->start());
  for (const BrokenUnit& unit : broken_host_units()) {
    LOG_WARN("hal", "%s: %s; %s counts as absent", device->info().uri.c_str(),
             unit.why.what.c_str(), unit.feature.c_str());
  }
  LOG_DEBUG("hal", "opened %s (%s, %s)", device->info().uri.c_str(), device->info().name.c_str(),
            device->info().target.c_str());
  return std::unique_ptr<Device>(std::move(device));
}

}  // namespace modeld::hal
