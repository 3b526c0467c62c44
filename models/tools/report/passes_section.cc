// Section "From kernel to program": every kernel's graph after each pass, as data, and the viewer
// that shows two of them side by side.
#include "models/tools/report/markup.h"
#include "models/tools/report/packed.h"
#include "models/tools/report/pass_viewer.h"
#include "models/tools/report/report.h"

namespace modeld::tools {
namespace {

std::string pane(const std::string& id, const std::string& title) {
  return tag(
      "div", {{"class", "pane"}},
      tag("p", {{"id", id + "-name"}, {"class", "note"}}, title) + tag("pre", {{"id", id}}, " "));
}

}  // namespace

std::string passes_section(const ReportData& data) {
  Json kernels = Json::array();
  std::string choices;
  for (size_t i = 0; i < data.histories.size(); ++i) {
    const std::string& name = data.plan().programs[i].name;
    Json row = Json::object();
    row.set("name", name);
    row.set("packed", pack_text(history_json(data.histories[i]).dump()));
    kernels.push(std::move(row));
    choices += tag("option", {{"value", std::to_string(i)}}, escape_markup(name));
  }
  if (choices.empty()) return tag("p", {{"class", "note"}}, "Not kept in this build.");
  return tag("p", {{"class", "note"}},
             "The graph of a kernel after each pass. A node keeps its number while it lives; what "
             "a "
             "pass removed is red on the left, what it made green on the right. Passes in grey had "
             "nothing to do.") +
         "\n" + tag("p", {}, tag("select", {{"id", "pass-kernel"}}, choices)) +
         tag("p", {{"class", "steps"}, {"id", "pass-steps"}}, " ") +
         tag("p", {{"id", "pass-why"}}, " ") +
         tag("div", {{"class", "panes"}},
             pane("pass-before", " ") + pane("pass-after", " ") + pane("pass-source", "source")) +
         "\n" +
         // Names of programs are C names and base64 has no markup either: nothing to escape.
         tag("script", {{"id", "pass-data"}, {"type", "application/json"}}, kernels.dump()) + "\n" +
         tag("script", {}, kPassViewer) + "\n";
}

}  // namespace modeld::tools
