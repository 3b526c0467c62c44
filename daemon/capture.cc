#include "daemon/capture.h"

#include <unistd.h>

#include "ipc/flight.h"

namespace modeld::daemon {
namespace {

class CaptureFile {
 public:
  explicit CaptureFile(int fd) : fd_(fd) {}

  Status put(std::span<const std::byte> bytes) {
    if (bytes.size() > kCaptureLimitBytes - used_)
      return fail(Errc::kInvalid, strf("capture: more than %llu bytes",
                                       static_cast<unsigned long long>(kCaptureLimitBytes)));
    RETURN_IF_ERROR(write_at(used_, bytes));
    used_ += bytes.size();
    return {};
  }
  // Calls that a locked worker may make.
  Status write_at(uint64_t at, std::span<const std::byte> bytes) const {
    if (lseek(fd_, static_cast<off_t>(at), SEEK_SET) < 0)
      return fail_errno(Errc::kIo, "capture", errno);
    while (!bytes.empty()) {
      const ssize_t n = write(fd_, bytes.data(), bytes.size());
      if (n <= 0) return fail_errno(Errc::kIo, "capture", errno);
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
    return {};
  }
  uint64_t used() const { return used_; }

 private:
  int fd_;
  uint64_t used_ = 0;
};

}  // namespace

Result<uint64_t> write_capture(models::Model& model, int fd, Deadline deadline) {
  CaptureFile file(fd);
  uint32_t count = 0;
  RETURN_IF_ERROR(file.put(ipc::encode_tensor_count(count)));
  const auto put = [&](models::TensorSide side, const exec::TensorInfo& info,
                       std::span<const std::byte> bytes) -> Status {
    ++count;
    const bool is_output = side == models::TensorSide::kOutput;
    RETURN_IF_ERROR(file.put(ipc::encode_tensor_head(is_output, info.name, bytes.size())));
    return file.put(bytes);
  };
  RETURN_IF_ERROR(model.visit_tensors(put, deadline));
  RETURN_IF_ERROR(file.write_at(0, ipc::encode_tensor_count(count)));
  return file.used();
}

}  // namespace modeld::daemon
