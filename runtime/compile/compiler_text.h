// What compilers of different targets share: names, messages and versions of tools.
// Threading: pure, but for tool_version, which runs the tool.
#pragma once

#include <string>
#include <string_view>

#include "hal/base/status.h"

namespace modeld::compile {

bool is_identifier(std::string_view name);
// The first line of the compiler's messages that speaks of an error.
std::string first_error(const std::string& err);
// First line of `PROGRAM --version`. kNotFound when it cannot be run, kCompile when it is no LLVM
// tool.
Result<std::string> tool_version(const std::string& program, int64_t timeout_ms);

}  // namespace modeld::compile
