// Fault: which rule of the pipeline an input broke. Every refusal that a caller may want to tell
// apart has a row in fault.def; its Errc is the class, its text the stable name. An Error carries
// it as domain kPipeline with sys = the fault, and its line still says what, on what, and the value
// seen. This is not for bugs (hal/base/check.h). Threading: plain values. Units: none.
#pragma once

#include <cstdint>
#include <string>

#include "hal/base/status.h"

namespace modeld::ir {

enum class Fault : int32_t {
  kNone,
#define FAULT(name, code, text) k##name,
#include "runtime/ir/fault.def"
#undef FAULT
};

const char* fault_name(Fault f);  // "bind_mismatch"; kNone: "none"
Errc fault_class(Fault f);
Fault fault_of(const Error& e);  // kNone for errors that are no faults

Error fault_error(Fault f, std::string what);
// fail(Fault::kBindRange, "bind i: value 12, allowed 0 to 10")
tl::unexpected<Error> fail(Fault f, std::string what);

}  // namespace modeld::ir
