// Errors are values: Status and Result<T> carry one clear line saying what was tried, on what, and
// the value seen. This is not for bugs: a broken invariant of ours is a CHECK (hal/base/check.h).
// Threading: plain values. Units: none.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace modeld {

// Classes of failure; the first nine are the device classes every HAL backend reports.
enum class Errc : uint8_t {
  kOk,
  kTimeout,      // a deadline passed
  kDeviceLost,   // reconnect needed
  kContextLost,  // context must be made again, buffers survive
  kFault,        // device fault, recoverable by reset
  kOutOfMemory,
  kProtocol,     // short or corrupt transfer or message
  kUnsupported,  // not available here, or an op/feature nobody wrote
  kBusy,         // somebody else owns it
  kInvalid,      // the input is wrong
  kNotFound,
  kMismatch,  // right format, wrong target/type/shape/version
  kCorrupt,   // hash, magic or bounds do not hold
  kCycle,     // a graph that must be acyclic is not
  kCompile,   // the back-end compiler refused or died
  kIo,        // the operating system said no
  kInternal,  // a bug found by a verifier before it could do harm
};

const char* errc_name(Errc code);

// Which layer produced `sys`.
enum class Domain : uint8_t { kNone, kPosix, kLibusb, kOpencl, kPcie, kPsp, kSmu, kSim, kPipeline };

struct Error {
  Errc code = Errc::kInternal;
  std::string what;  // one line: what was tried, on what, the value seen
  Domain domain = Domain::kNone;
  int32_t sys = 0;  // errno, libusb code, CL status, runtime/ir/fault.h ...
  uint32_t device = 0;
  uint64_t epoch = 0;
  uint64_t timeline = 0;
  uint64_t fault_va = 0;

  // The same error with `context: ` put in front of its text.
  Error with(const std::string& context) && {
    what = context + ": " + what;
    return std::move(*this);
  }
};

template <class T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
  Result(tl::unexpected<Error> e)
      : tl::expected<T, Error>(std::move(e)) {
  }  // NOLINT(google-explicit-constructor) return errors directly
  bool ok() const { return this->has_value(); }
};

using Status = Result<void>;

// fail(Errc::kInvalid, "bundle road.mdl: section 3 ends at 9012, file has 8192")
tl::unexpected<Error> fail(Errc code, std::string what);
// The same with errno and its text appended.
tl::unexpected<Error> fail_errno(Errc code, const std::string& what, int err);
inline tl::unexpected<Error> fail(Error e) {
  return tl::unexpected<Error>(std::move(e));
}

// printf-style text for messages; arguments are checked by the compiler.
[[gnu::format(printf, 1, 2)]] std::string strf(const char* format, ...);

}  // namespace modeld

#define MODELD_CONCAT_INNER(a, b) a##b
#define MODELD_CONCAT(a, b) MODELD_CONCAT_INNER(a, b)

// RETURN_IF_ERROR(expr): leaves the function with expr's error, keeping the reason.
#define RETURN_IF_ERROR(expr)                                                                  \
  do {                                                                                         \
    auto modeld_status_ = (expr);                                                              \
    if (!modeld_status_.has_value()) return ::modeld::fail(std::move(modeld_status_).error()); \
  } while (false)

// ASSIGN_OR_RETURN(auto x, expr): one line, keeps the reason.
#define ASSIGN_OR_RETURN(lhs, expr) \
  MODELD_ASSIGN_OR_RETURN_IMPL(MODELD_CONCAT(modeld_result_, __LINE__), lhs, expr)
#define MODELD_ASSIGN_OR_RETURN_IMPL(result, lhs, expr)                      \
  auto result = (expr);                                                      \
  if (!result.has_value()) return ::modeld::fail(std::move(result).error()); \
  lhs = std::move(*result)
