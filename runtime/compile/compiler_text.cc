#include "runtime/compile/compiler_text.h"

#include <algorithm>

#include "hal/base/proc.h"
#include "hal/base/text.h"

namespace modeld::compile {

bool is_identifier(std::string_view name) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !name.empty() && letter(name[0]) && std::all_of(name.begin(), name.end(), [&](char c) {
    return letter(c) || (c >= '0' && c <= '9');
  });
}

std::string first_error(const std::string& err) {
  for (const std::string& line : split(err, '\n'))
    if (line.find("error:") != std::string::npos) return line;
  const std::vector<std::string> lines = split(err, '\n');
  return lines.empty() ? "no message" : lines[0];
}

Result<std::string> tool_version(const std::string& program, int64_t timeout_ms) {
  ProcSpec spec;
  spec.argv = {program, "--version"};
  spec.timeout_ms = std::min<int64_t>(timeout_ms, 10'000);
  auto result = run_process(spec);
  if (!result.ok()) return fail(std::move(result).error().with("compiler " + program));
  const std::string line = split(result->out, '\n')[0];
  if (!result->succeeded() ||
      (line.find("clang") == std::string::npos && line.find("LLD") == std::string::npos))
    return fail(Errc::kCompile, strf("%s --version: not a clang or lld (exit code %d)",
                                     program.c_str(), result->exit_code));
  return line;
}

}  // namespace modeld::compile
