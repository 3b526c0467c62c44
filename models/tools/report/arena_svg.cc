#include "models/tools/report/arena_svg.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "hal/base/bytes.h"

#include "models/tools/bundle_info.h"
#include "models/tools/cli.h"
#include "models/tools/report/markup.h"

namespace modeld::tools {
namespace {

using exec::ArenaUse;
using exec::Plan;

constexpr uint64_t kBlock = 256;            // what a placement is rounded to
constexpr double kPageWidth = 1540;         // panels wrap here; a longer one makes the page wider
constexpr double kLeft = 74, kRight = 130;  // around a plot: offsets, names of lines
constexpr double kTop = 26, kBottom = 44;
constexpr double kTitleHeight = 34, kLegendHeight = 34;
constexpr double kCharWidth = 6.2;  // of the 11 px font, at most

// Distinguishable with any colour vision, and light enough for black text.
constexpr const char* kColours[] = {"#77aadd", "#ee8866", "#eedd88", "#99ddff",
                                    "#ffaabb", "#44bb99", "#bbcc33", "#dddddd"};

std::string num(double v) {
  std::string out = strf("%.1f", v);
  if (out.ends_with(".0")) out.resize(out.size() - 2);
  return out;
}

std::string text(double x, double y, const char* anchor, const std::string& words) {
  return tag("text", {{"x", num(x)}, {"y", num(y)}, {"text-anchor", anchor}},
             escape_markup(words)) +
         "\n";
}

std::string line(double x1, double y1, double x2, double y2, const char* style) {
  return tag("line",
             {{"class", style}, {"x1", num(x1)}, {"y1", num(y1)}, {"x2", num(x2)}, {"y2", num(y2)}},
             "") +
         "\n";
}

// The smallest of 1, 2, 5, 10, 20, ... that is at least `least`.
uint64_t nice_step(double least) {
  uint64_t decade = 1;
  for (;; decade *= 10)
    for (const uint64_t step : {decade, 2 * decade, 5 * decade})
      if (static_cast<double>(step) >= least || decade > UINT64_MAX / 100) return step;
}

// One entry's use of one arena.
struct Panel {
  const Plan* plan = nullptr;
  uint32_t entry = 0, arena = 0;
  std::vector<std::pair<size_t, const ArenaUse*>> uses;  // with the number of each, of all entries
  size_t calls = 0;
  uint64_t end = kBlock;  // behind the last byte this entry uses: the top of the plot
  double call_width = 0;
  double plot_width = 0, plot_height = 0;
  double left = 0, top = 0;  // of the plot

  double x(double call) const { return left + call * call_width; }
  double y(uint64_t bytes) const {
    return top + plot_height * (1 - static_cast<double>(bytes) / static_cast<double>(end));
  }
  double width() const { return kLeft + plot_width + kRight; }
  double height() const { return kTop + plot_height + kBottom; }
};

Panel make_panel(const Plan& plan, uint32_t entry, uint32_t arena, std::span<const ArenaUse> uses) {
  Panel p{&plan, entry, arena, {}, plan.entries[entry].calls.size()};
  for (size_t i = 0; i < uses.size(); ++i) {
    if (uses[i].entry != entry || uses[i].arena != arena) continue;
    p.uses.emplace_back(i, &uses[i]);
    p.calls = std::max<size_t>(p.calls, uses[i].free);
    p.end = std::max(p.end, align_up(uses[i].offset + uses[i].size, kBlock));
  }
  const auto calls = static_cast<double>(std::max<size_t>(p.calls, 1));
  p.call_width = std::clamp((kPageWidth - kLeft - kRight) / calls, 5.0, 60.0);
  p.plot_width = std::max(calls * p.call_width, 180.0);
  p.plot_height = p.calls > 20 ? 420 : 180;
  return p;
}

// Rectangles of buffers ----

struct Touch {
  bool writes = false, reads = false;
};

// What a call does with the buffer.
Touch touch_of(const Plan& plan, const exec::CallRow& call, const ArenaUse& use) {
  static const std::vector<uint32_t> kFirst = {0}, kSecond = {1};  // arguments of a copy
  const bool is_copy = call.kind == exec::CallRow::Kind::kCopy;
  const std::vector<uint32_t>& outs = is_copy ? kFirst : plan.programs[call.program].outs;
  const std::vector<uint32_t>& ins = is_copy ? kSecond : plan.programs[call.program].ins;
  const auto is_buffer = [&](uint32_t position) {
    if (position >= call.args.size()) return false;
    const exec::ArgRef& arg = call.args[position];
    if (arg.kind != exec::ArgRef::Kind::kBuffer) return false;
    const exec::BufferRow& row = plan.buffers[arg.index];
    return row.kind == exec::BufferRow::Kind::kArena && row.index == use.arena &&
           row.offset == use.offset && row.size == use.size;
  };
  return {std::any_of(outs.begin(), outs.end(), is_buffer),
          std::any_of(ins.begin(), ins.end(), is_buffer)};
}

// The calls that write and read the buffer, by kernel.
std::string users_text(const Panel& p, const ArenaUse& use) {
  const std::vector<exec::CallRow>& calls = p.plan->entries[p.entry].calls;
  std::string writers, readers;
  for (size_t c = use.first; c <= use.last && c < calls.size(); ++c) {
    const bool is_copy = calls[c].kind == exec::CallRow::Kind::kCopy;
    const std::string name =
        strf("\n  call %zu ", c) + (is_copy ? "copy" : p.plan->programs[calls[c].program].name);
    const Touch touch = touch_of(*p.plan, calls[c], use);
    if (touch.writes) writers += name;
    if (touch.reads) readers += name;
  }
  return (writers.empty() ? "" : "\nwritten by" + writers) +
         (readers.empty() ? "" : "\nread by" + readers);
}

std::string buffer_svg(const Panel& p, size_t number, const ArenaUse& use) {
  const double x0 = p.x(use.first), x1 = p.x(use.last + 1), x2 = p.x(use.free);
  const double y0 = p.y(use.offset + use.size), y1 = p.y(use.offset);
  const auto rect = [&](double from, double to, const char* style, const std::string& fill) {
    return tag("rect",
               {{"class", style},
                {"x", num(from)},
                {"y", num(y0)},
                {"width", num(to - from)},
                {"height", num(std::max(y1 - y0, 0.5))},
                {"fill", fill}},
               "");
  };
  const std::string fill = kColours[number % std::size(kColours)];
  std::string body =
      tag("title", {},
          escape_markup(
              strf("buffer %zu of entry %s\n%llu bytes (%s) at offset %llu\ncalls %u to "
                   "%u, free from %u",
                   number, p.plan->entries[p.entry].name.c_str(),
                   static_cast<unsigned long long>(use.size), bytes_text(use.size).c_str(),
                   static_cast<unsigned long long>(use.offset), use.first, use.last, use.free) +
              users_text(p, use)));
  body += rect(x0, x1, "used", fill);
  if (x2 > x1) body += rect(x1, x2, "held", fill);
  return tag("g", {{"class", "buffer"}}, body) + "\n";
}

// Its size, where there is room.
std::string label_svg(const Panel& p, const ArenaUse& use) {
  const double x0 = p.x(use.first), x1 = p.x(use.last + 1);
  const double y0 = p.y(use.offset + use.size), y1 = p.y(use.offset);
  const std::string label = bytes_text(use.size);
  if (static_cast<double>(label.size()) * kCharWidth + 4 > x1 - x0 || y1 - y0 < 13) return "";
  return tag("text",
             {{"class", "size"},
              {"x", num((x0 + x1) / 2)},
              {"y", num((y0 + y1) / 2 + 4)},
              {"text-anchor", "middle"}},
             label) +
         "\n";
}

// Lines over them ----

std::vector<uint64_t> live_bytes(const Panel& p) {
  std::vector<uint64_t> live(p.calls, 0);
  for (const auto& [number, use] : p.uses)
    for (size_t c = use->first; c < use->free; ++c) live[c] += align_up(use->size, kBlock);
  return live;
}

std::string live_svg(const Panel& p, const std::vector<uint64_t>& live) {
  std::string points;
  for (size_t c = 0; c < live.size(); ++c)
    for (const size_t end : {c, c + 1})
      points += num(p.x(static_cast<double>(end))) + "," + num(p.y(live[c])) + " ";
  if (!points.empty()) points.pop_back();
  return tag("polyline", {{"class", "halo"}, {"points", points}}, "") + "\n" +
         tag("polyline", {{"class", "live"}, {"points", points}}, "") + "\n";
}

// The end of the used part and the peak of bytes alive, named at the right, one below the other.
std::string limits_svg(const Panel& p, uint64_t peak) {
  const double right = p.left + p.plot_width, x = right + 6;
  const std::string lines = line(p.left, p.y(p.end), right, p.y(p.end), "end") +
                            line(p.left, p.y(peak), right, p.y(peak), "peak");
  if (peak == p.end) return lines + text(x, p.top + 4, "start", "end = peak " + bytes_text(peak));
  return lines + text(x, p.top + 4, "start", "end " + bytes_text(p.end)) +
         text(x, std::max(p.y(peak) + 4, p.top + 18), "start", "peak alive " + bytes_text(peak));
}

std::string axes_svg(const Panel& p) {
  const double bottom = p.top + p.plot_height, right = p.left + p.plot_width;
  std::string out;
  const uint64_t bytes_step = nice_step(static_cast<double>(p.end) * 40 / p.plot_height);
  for (uint64_t b = 0; b <= p.end; b += bytes_step) {
    out += line(p.left - 4, p.y(b), right, p.y(b), "grid");
    out += text(p.left - 8, p.y(b) + 4, "end", bytes_text(b));
  }
  const uint64_t call_step = nice_step(32 / p.call_width);
  for (uint64_t c = 0; c < p.calls; c += call_step) {
    const double x = p.x(static_cast<double>(c) + 0.5);
    out += line(x, bottom, x, bottom + 4, "tick");
    out += text(x, bottom + 16, "middle", std::to_string(c));
  }
  return out + text(p.left + p.plot_width / 2, bottom + 32, "middle", "call");
}

std::string panel_svg(const Panel& p) {
  const std::vector<uint64_t> live = live_bytes(p);
  const uint64_t peak = live.empty() ? 0 : *std::max_element(live.begin(), live.end());
  std::string out = tag("text", {{"class", "entry"}, {"x", num(p.left)}, {"y", num(p.top - 9)}},
                        escape_markup(p.plan->entries[p.entry].name)) +
                    "\n" + axes_svg(p);
  for (const auto& [number, use] : p.uses) out += buffer_svg(p, number, *use);
  out += live_svg(p, live) + limits_svg(p, peak);
  for (const auto& [number, use] : p.uses) out += label_svg(p, *use);
  return tag("g", {{"class", "panel"}}, "\n" + out) + "\n";
}

// Where everything goes ----

struct Cursor {
  double x = 0, y = 0, row_height = 0, page_width = 0;

  void next_row() {
    y += row_height;
    x = row_height = 0;
  }
  void put(Panel* p) {
    if (x > 0 && x + p->width() > kPageWidth) next_row();
    p->left = x + kLeft;
    p->top = y + kTop;
    x += p->width();
    row_height = std::max(row_height, p->height());
    page_width = std::max(page_width, x);
  }
};

std::string legend_svg() {
  std::string out = tag("rect",
                        {{"class", "used"},
                         {"x", "14"},
                         {"y", "9"},
                         {"width", "26"},
                         {"height", "13"},
                         {"fill", kColours[0]}},
                        "") +
                    text(46, 20, "start", "a buffer, first to last call that uses it");
  out += tag("rect",
             {{"class", "held"},
              {"x", "310"},
              {"y", "9"},
              {"width", "26"},
              {"height", "13"},
              {"fill", kColours[0]}},
             "") +
         text(342, 20, "start", "held after a copy");
  out += line(480, 15, 506, 15, "live") + text(512, 20, "start", "bytes alive");
  out += line(610, 15, 636, 15, "peak") +
         text(642, 20, "start", "their peak: no plan of this order is smaller");
  return out + line(910, 15, 936, 15, "end") +
         text(942, 20, "start", "end of what the entry uses") + "\n";
}

constexpr const char* kStyle =
    "text{font:11px sans-serif;fill:#222}.lane{font-size:14px;font-weight:bold}"
    ".entry{font-size:12px;font-weight:bold}.used{stroke:#333;stroke-width:.6}"
    ".held{stroke:#333;stroke-width:.6;stroke-dasharray:2 2;fill-opacity:.35}"
    ".buffer:hover .used{stroke-width:2.5}.grid{stroke:#ddd}.tick{stroke:#666}"
    "polyline{fill:none;pointer-events:none}.halo{stroke:#fff;stroke-opacity:.75;stroke-width:4}"
    ".live{stroke:#000;stroke-width:1.6}.peak{stroke:#000;stroke-width:1.4;stroke-dasharray:7 4}"
    ".end{stroke:#666;stroke-width:1.2}.size{pointer-events:none;paint-order:stroke;"
    "stroke:#fff;stroke-opacity:.7;stroke-width:3}";

}  // namespace

std::string arena_svg(const Plan& plan, std::span<const ArenaUse> uses) {
  std::string body;
  Cursor at{0, kLegendHeight, 0, kPageWidth};
  for (uint32_t arena = 0; arena < plan.arenas.size(); ++arena) {
    const exec::ArenaRow& row = plan.arenas[arena];
    body += tag("text", {{"class", "lane"}, {"x", "14"}, {"y", num(at.y + 22)}},
                escape_markup(strf("lane %s: sum of buffers %s, arena %s, bound %s",
                                   lane_text(row).c_str(), bytes_text(row.sum).c_str(),
                                   bytes_text(row.size).c_str(), bytes_text(row.bound).c_str()))) +
            "\n";
    at.y += kTitleHeight;
    for (uint32_t entry = 0; entry < plan.entries.size(); ++entry) {
      Panel panel = make_panel(plan, entry, arena, uses);
      if (panel.uses.empty()) continue;
      at.put(&panel);
      body += panel_svg(panel);
    }
    at.next_row();
  }
  const std::string width = num(at.page_width), height = num(at.y + 10);
  return tag("svg",
             {{"xmlns", "http://www.w3.org/2000/svg"},
              {"width", width},
              {"height", height},
              {"viewBox", "0 0 " + width + " " + height}},
             "\n<style>" + std::string(kStyle) + "</style>\n" +
                 tag("rect", {{"width", "100%"}, {"height", "100%"}, {"fill", "#fff"}}, "") + "\n" +
                 legend_svg() + body) +
         "\n";
}

}  // namespace modeld::tools
