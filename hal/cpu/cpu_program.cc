#include "hal/cpu/cpu_program.h"

#include <sys/stat.h>

#include <cerrno>

#include "hal/target.h"

namespace modeld::hal {

namespace {

Status check_image(const ProgramImage& image) {
  const int sources = (image.fd >= 0 ? 1 : 0) + (image.code.empty() ? 0 : 1) +
                      (image.host_kernel != nullptr ? 1 : 0);
  if (sources != 1)
    return fail(Errc::kInvalid,
                strf("cpu: kernel %s has %d code sources, wanted 1", image.name.c_str(), sources));
  if (image.args.size() > kMaxArgs)
    return fail(Errc::kInvalid, strf("cpu: kernel %s has %zu arguments, limit is %zu",
                                     image.name.c_str(), image.args.size(), kMaxArgs));
  for (const Arg& arg : image.args) {
    if (arg.kind != ArgKind::kBuffer && arg.kind != ArgKind::kScalar)
      return fail(Errc::kUnsupported,
                  strf("cpu: kernel %s takes an image argument", image.name.c_str()));
  }
  const uint64_t length = image.fd >= 0 ? image.fd_length : image.code.size();
  if (image.host_kernel == nullptr && image.entry_offset >= length)
    return fail(Errc::kCorrupt,
                strf("cpu: kernel %s starts at %llu, its code has %llu bytes", image.name.c_str(),
                     static_cast<unsigned long long>(image.entry_offset),
                     static_cast<unsigned long long>(length)));
  if (image.target.empty()) return {};
  ASSIGN_OR_RETURN(const Target target, parse_target(image.target));
  const std::string missing = missing_on_host(target);
  if (!missing.empty())
    return fail(Errc::kMismatch, strf("cpu: kernel %s is for %s, this host lacks: %s",
                                      image.name.c_str(), image.target.c_str(), missing.c_str()));
  return {};
}

Result<std::shared_ptr<const Mapping>> map_bytes(const ProgramImage& image) {
  ASSIGN_OR_RETURN(const UniqueFd fd, sealed_memfd("modeld-code", image.code));
  ASSIGN_OR_RETURN(Mapping mapping,
                   Mapping::map_fd(fd.get(), 0, image.code.size(), MapMode::kReadExec));
  return std::make_shared<const Mapping>(std::move(mapping));
}

}  // namespace

Result<std::shared_ptr<const Mapping>> CpuProgramLoader::map_range(const ProgramImage& image) {
  struct stat st {};
  if (fstat(image.fd, &st) != 0)
    return fail_errno(Errc::kIo, strf("cpu: fstat for kernel %s", image.name.c_str()), errno);
  const RangeKey key{static_cast<uint64_t>(st.st_dev), static_cast<uint64_t>(st.st_ino),
                     image.fd_offset, image.fd_length};
  const std::lock_guard lock(mutex_);
  std::weak_ptr<const Mapping>& known = ranges_[key];
  if (std::shared_ptr<const Mapping> mapping = known.lock()) return mapping;
  Result<Mapping> fresh =
      Mapping::map_fd(image.fd, image.fd_offset, image.fd_length, MapMode::kReadExec);
  if (!fresh.ok()) return fail(std::move(fresh).error().with("cpu: code of kernel " + image.name));
  auto mapping = std::make_shared<const Mapping>(std::move(*fresh));
  known = mapping;
  return mapping;
}

Result<std::shared_ptr<Program>> CpuProgramLoader::load(const ProgramImage& image) {
  RETURN_IF_ERROR(check_image(image));
  const auto arg_count = static_cast<uint32_t>(image.args.size());
  if (image.host_kernel != nullptr)
    return std::make_shared<CpuProgram>(image.name, arg_count, nullptr, image.host_kernel);
  ASSIGN_OR_RETURN(std::shared_ptr<const Mapping> code,
                   image.fd >= 0 ? map_range(image) : map_bytes(image));
  const auto entry = reinterpret_cast<HostKernel>(code->data() + image.entry_offset);
  return std::make_shared<CpuProgram>(image.name, arg_count, std::move(code), entry);
}

}  // namespace modeld::hal
