#include "models/tools/report/report.h"

#include "hal/base/fs.h"

#include "models/tools/report/arena_svg.h"
#include "models/tools/report/markup.h"

namespace modeld::tools {
namespace {

struct Section {
  const char* id;  // anchor
  const char* title;
  std::string (*body)(const ReportData& data);
};

// In the order of the page. A new section is a file and a row here.
constexpr Section kSections[] = {
    {"summary", "Bundle", summary_section},  {"caches", "Caches", caches_section},
    {"memory", "Memory", memory_section},    {"beam", "Search", beam_section},
    {"kernels", "Kernels", kernels_section}, {"passes", "From kernel to program", passes_section},
};

constexpr const char* kStyle = R"(
body { font: 14px/1.45 system-ui, sans-serif; margin: 1.5rem; color: #222; background: #fff; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
nav a { margin-right: 1rem; }
table { border-collapse: collapse; margin: .5rem 0; }
th, td { padding: .15rem .6rem; border-bottom: 1px solid #ddd; text-align: left; vertical-align: top; }
th { border-bottom: 2px solid #999; } .n { text-align: right; font-variant-numeric: tabular-nums; }
code, pre { font: 12px/1.4 ui-monospace, monospace; }
pre { max-height: 30rem; overflow: auto; background: #f6f6f6; padding: .5rem; margin: .3rem 0; }
.wide { overflow-x: auto; } .wrap { overflow-wrap: anywhere; max-width: 44rem; } td .wrap { min-width: 8rem; }
.panes { display: flex; gap: .5rem; } .panes div.pane { flex: 1 1 0; min-width: 0; }
.panes pre { height: 34rem; max-height: none; white-space: pre; } pre .new { background: #d9f2d9; } pre .gone { background: #f7dcdc; }
.steps button { margin: 0 .2rem .2rem 0; font: 12px ui-monospace, monospace; } .steps .same { color: #999; }
.steps button[aria-pressed=true] { background: #335; color: #fff; }
p.note { color: #555; max-width: 50rem; }
)";

}  // namespace

std::string report_page(const ReportData& data) {
  std::string links, sections;
  for (const Section& s : kSections) {
    links += tag("a", {{"href", std::string("#") + s.id}}, s.title) + "\n";
    sections += tag("h2", {{"id", s.id}}, s.title) + "\n" + s.body(data);
  }
  const std::string title = escape_markup(data.title);
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<title>" + title +
         "</title>\n<style>" + kStyle + "</style>\n</head>\n<body>\n<h1>" + title +
         "</h1>\n<nav>\n" + links + "</nav>\n" + sections + "</body>\n</html>\n";
}

Status write_report(const std::string& dir, const ReportData& data) {
  RETURN_IF_ERROR(make_dirs(dir));
  RETURN_IF_ERROR(write_text_atomic(
      join_path(dir, "arena.svg"),
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" + arena_svg(data.plan(), data.arena_uses)));
  return write_text_atomic(join_path(dir, "index.html"), report_page(data));
}

}  // namespace modeld::tools
