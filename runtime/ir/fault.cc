#include "runtime/ir/fault.h"

#include <iterator>
#include <utility>

namespace modeld::ir {
namespace {

struct Row {
  Errc code;
  const char* name;
};
constexpr Row kRows[] = {
    {Errc::kInternal, "none"},
#define FAULT(name, code, text) {Errc::code, text},
#include "runtime/ir/fault.def"
#undef FAULT
};

const Row& row(Fault f) {
  const auto i = static_cast<size_t>(f);
  return i < std::size(kRows) ? kRows[i] : kRows[0];
}

}  // namespace

const char* fault_name(Fault f) {
  return row(f).name;
}

Errc fault_class(Fault f) {
  return row(f).code;
}

Fault fault_of(const Error& e) {
  if (e.domain != Domain::kPipeline || e.sys < 0) return Fault::kNone;
  return static_cast<size_t>(e.sys) < std::size(kRows) ? static_cast<Fault>(e.sys) : Fault::kNone;
}

Error fault_error(Fault f, std::string what) {
  Error e;
  e.code = fault_class(f);
  e.what = std::move(what);
  e.domain = Domain::kPipeline;
  e.sys = static_cast<int32_t>(f);
  return e;
}

tl::unexpected<Error> fail(Fault f, std::string what) {
  return tl::unexpected<Error>(fault_error(f, std::move(what)));
}

}  // namespace modeld::ir
