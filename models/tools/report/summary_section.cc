// Section "Bundle": what was built, from what, for what.
#include "models/tools/cli.h"
#include "models/tools/report/markup.h"
#include "models/tools/report/report.h"

namespace modeld::tools {

std::string summary_section(const ReportData& data) {
  const bundle::Manifest& m = *data.manifest;
  const exec::Plan& plan = data.plan();
  std::string entries;
  for (const exec::Entry& e : plan.entries)
    entries +=
        strf("%s%s (%zu calls)", entries.empty() ? "" : ", ", e.name.c_str(), e.calls.size());
  const auto wrap = [](const std::string& markup) {
    return tag("div", {{"class", "wrap"}}, markup);
  };
  const auto code = [&](const std::string& text) {
    return wrap(tag("code", {}, escape_markup(text)));
  };
  return markup_table({{"what", "value"},
                       {"file", bytes_text(data.file_bytes)},
                       {"role", bundle::role_name(m.role)},
                       {"model SHA-256", code(m.model_sha256.hex())},
                       {"target", code(hal::print_target(plan.target))},
                       {"renderer", code(plan.target.renderer)},
                       {"threads", std::to_string(plan.target.threads)},
                       {"compiler", code("modeld " + m.compiler_version + ", " + plan.compiler)},
                       {"code generation", code(plan.codegen_config)},
                       {"entry points", wrap(escape_markup(entries))},
                       {"kernels", std::to_string(plan.programs.size())},
                       {"weights", bytes_text(plan.weights_size())},
                       {"self-check", bundle::self_check_name(m.self_check)}});
}

}  // namespace modeld::tools
