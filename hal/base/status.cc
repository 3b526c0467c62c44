#include "hal/base/status.h"

#include <stdarg.h>
#include <string.h>

#include <cstdio>

namespace modeld {

const char* errc_name(Errc code) {
  switch (code) {
    case Errc::kOk:
      return "ok";
    case Errc::kTimeout:
      return "timeout";
    case Errc::kDeviceLost:
      return "device_lost";
    case Errc::kContextLost:
      return "context_lost";
    case Errc::kFault:
      return "fault";
    case Errc::kOutOfMemory:
      return "out_of_memory";
    case Errc::kProtocol:
      return "protocol";
    case Errc::kUnsupported:
      return "unsupported";
    case Errc::kBusy:
      return "busy";
    case Errc::kInvalid:
      return "invalid";
    case Errc::kNotFound:
      return "not_found";
    case Errc::kMismatch:
      return "mismatch";
    case Errc::kCorrupt:
      return "corrupt";
    case Errc::kCycle:
      return "cycle";
    case Errc::kCompile:
      return "compile";
    case Errc::kIo:
      return "io";
    case Errc::kInternal:
      return "internal";
  }
  return "unknown";
}

tl::unexpected<Error> fail(Errc code, std::string what) {
  Error e;
  e.code = code;
  e.what = std::move(what);
  // One line, whatever an untrusted file put into its names.
  for (char& c : e.what)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return tl::unexpected<Error>(std::move(e));
}

tl::unexpected<Error> fail_errno(Errc code, const std::string& what, int err) {
  auto e = fail(code, what + ": " + strerror(err));
  e.value().domain = Domain::kPosix;
  e.value().sys = err;
  return e;
}

std::string strf(const char* format, ...) {
  va_list args;
  va_start(args, format);
  va_list again;
  va_copy(again, args);
  const int n = vsnprintf(nullptr, 0, format, args);
  va_end(args);
  std::string out(n > 0 ? static_cast<size_t>(n) : 0, '\0');
  if (n > 0) vsnprintf(out.data(), out.size() + 1, format, again);
  va_end(again);
  return out;
}

}  // namespace modeld
