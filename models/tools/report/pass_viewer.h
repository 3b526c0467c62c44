// The script of the report's pass viewer: picks a kernel and a pass, shows the graph before and
// after it side by side, what went and what came marked, and the source beside them. Contract: the
// text holds neither '<' nor '&', so that HTML and XML readers take it alike. It reads #pass-data
// (passes_section.cc) and the sources #source-N (kernels_section.cc), and loads nothing.
#pragma once

namespace modeld::tools {

extern const char* const kPassViewer;

}  // namespace modeld::tools
