#include "selftest/boot/defect_device.h"

#include <time.h>

#include <cmath>
#include <cstring>
#include <utility>

#include "hal/backends.h"

namespace modeld::selftest {
namespace {

void replace_non_finite(std::span<std::byte> bytes) {
  for (size_t at = 0; at + sizeof(float) <= bytes.size(); at += sizeof(float)) {
    float value = 0;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    if (!std::isfinite(value)) std::memset(bytes.data() + at, 0, sizeof value);
  }
}

class DefectDevice final : public hal::Device {
 public:
  DefectDevice(std::unique_ptr<hal::Device> inner, const DefectSwitch& defect)
      : inner_(std::move(inner)), defect_(defect) {}

  const hal::DeviceInfo& info() const override { return inner_->info(); }
  hal::DevState state() const override { return inner_->state(); }
  uint64_t epoch() const override {
    return has(DeviceDefect::kForgetsClosing) ? 1 : inner_->epoch();
  }
  hal::Allocator& allocator() override { return inner_->allocator(); }
  Result<std::shared_ptr<hal::Program>> load(const hal::ProgramImage& image) override {
    return inner_->load(image);
  }
  Result<hal::Signal> make_signal(uint64_t initial) override {
    return inner_->make_signal(initial);
  }
  std::unique_ptr<hal::Recorder> record(hal::QueueKind kind, std::string label) override {
    return inner_->record(kind, std::move(label));
  }
  Result<hal::TimelinePoint> submit(std::unique_ptr<hal::Recorder> recorder) override {
    return inner_->submit(std::move(recorder));
  }
  Status wait(hal::TimelinePoint point, Deadline deadline) override {
    if (has(DeviceDefect::kNeverWaits)) return {};
    const Status done = inner_->wait(point, deadline);
    const timespec pause{0, 40'000'000};
    if (has(DeviceDefect::kSlow)) nanosleep(&pause, nullptr);
    return done;
  }
  Status synchronize(Deadline deadline) override { return inner_->synchronize(deadline); }
  Result<hal::TimelinePoint> upload(const hal::Buffer& to,
                                    size_t offset,
                                    std::span<const std::byte> bytes) override {
    if (has(DeviceDefect::kLosesNumbers) && bytes.size() <= sizeof(double)) bytes = bytes.first(0);
    return inner_->upload(to, offset, bytes);
  }
  Status download(std::span<std::byte> to,
                  const hal::Buffer& from,
                  size_t offset,
                  Deadline deadline) override {
    RETURN_IF_ERROR(inner_->download(to, from, offset, deadline));
    if (to.empty()) return {};
    if (has(DeviceDefect::kDrifts) && ++downloads_ % 2 == 0) to[0] ^= std::byte{1};
    // Of the last number, whatever its type: a byte of it that counts.
    if (has(DeviceDefect::kWrongNumbers)) to.back() ^= std::byte{0x40};
    if (has(DeviceDefect::kHidesNan)) replace_non_finite(to);
    return {};
  }
  Status recover(Deadline deadline) override { return inner_->recover(deadline); }
  std::vector<hal::ProfileRange> take_profile() override { return inner_->take_profile(); }

 private:
  bool has(DeviceDefect defect) const { return defect_.is_on && defect_.defect == defect; }

  std::unique_ptr<hal::Device> inner_;
  const DefectSwitch& defect_;
  uint64_t downloads_ = 0;
};

}  // namespace

std::function<Result<std::unique_ptr<hal::Device>>(const std::string&, const hal::DeviceConfig&)>
open_with(const DefectSwitch& defect) {
  return [&defect](const std::string& uri,
                   const hal::DeviceConfig& config) -> Result<std::unique_ptr<hal::Device>> {
    ASSIGN_OR_RETURN(auto inner, hal::open_device(uri, config));
    return std::unique_ptr<hal::Device>(std::make_unique<DefectDevice>(std::move(inner), defect));
  };
}

}  // namespace modeld::selftest
