// The report of a build: well-formed whatever names say, complete, readable, self-contained.
#include "models/tools/report/report.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "hal/base/fs.h"
#include "hal/base/text.h"

#include "runtime/codegen/lower.h"
#include "runtime/exec/lower_and_compile.h"
#include "runtime/ir/print.h"

#include "models/bundle/bundle_reader.h"
#include "models/tools/build_model.h"
#include "models/tools/report/arena_svg.h"
#include "models/tools/report/markup.h"
#include "models/tools/report/packed.h"
#include "models/tools/report/pass_history.h"

#include "selftest/testing/markup_check.h"

namespace modeld::tools {
namespace {

using ir::DType;
using tensor::Tensor;
using testing::Element;
using testing::Markup;

// A chain of `layers` matrix products with a shortcut every third.
ImportedFile chain_model(ir::Graph& g, int layers) {
  ImportedFile f;
  const Tensor x = Tensor::input(g, "x", {16, 16}, DType::kF32);
  f.source.inputs = {{"x", x}};
  Tensor y = x, shortcut = x;
  for (int i = 0; i < layers; ++i) {
    y = y.matmul(y);
    if (i % 3 == 2) y = y + shortcut;
    if (i % 3 == 2) shortcut = y;
  }
  f.source.outputs = {{"y", y}};
  f.sha256 = sha256({});
  return f;
}

class Report : public ::testing::Test {
 protected:
  Report() : dir_(TempDir::create("report-test")) {}
  std::string at(const std::string& name) const { return join_path(dir_->path(), name); }
  std::string text(const std::string& name) const {
    const auto t = read_text(at(name));
    EXPECT_TRUE(t.ok()) << name;
    return t.ok() ? *t : "";
  }
  BuildReport build(const std::string& bundle, const std::string& report_dir) {
    BuildOptions options;
    options.output_path = at(bundle);
    options.target = *hal::parse_target("cpu");
    options.report_dir = report_dir;
    ir::Graph g;
    auto r = build_source(g, chain_model(g, 7), options);
    EXPECT_TRUE(r.ok()) << r.error().what;
    return std::move(*r);
  }

  Result<TempDir> dir_;
};

// A plan of hand-made uses: entry run with `calls` calls, buffers that live for three.
exec::Plan long_plan(uint32_t calls) {
  exec::Plan plan;
  plan.arenas = {{0, 0, 0, 0, false}, {1, 4096, 4096, 4096, true}};
  exec::ProgramRow program;
  program.name = "r_<8>&\"'\x01\xff";
  program.outs = {0};
  program.ins = {1};
  program.buffer_args = 2;
  plan.programs = {program};
  exec::Entry run, warp;
  run.name = "run";
  warp.name = "warp/road/<1928>x1208";
  run.calls.resize(calls);
  warp.calls.resize(1);
  plan.entries = {run, warp};
  for (uint32_t c = 0; c < calls; ++c) {
    const uint64_t size = 1000 * (1 + c % 7);
    const uint64_t offset = (c % 3) * 7168;
    plan.arena_uses.push_back(
        {0, 0, offset, size, c, std::min(c + 2, calls - 1), std::min(c + 3, calls)});
    plan.arenas[0].size = std::max(plan.arenas[0].size, (offset + size + 255) / 256 * 256);
    plan.arenas[0].sum += size;
    plan.buffers.push_back({exec::BufferRow::Kind::kArena, 0, 0, offset, size});
    exec::CallRow& call = plan.entries[0].calls[c];
    call.args = {{exec::ArgRef::Kind::kBuffer, c, 0},
                 {exec::ArgRef::Kind::kBuffer, c == 0 ? 0 : c - 1, 0}};
  }
  plan.arenas[0].bound = plan.arenas[0].size - 512;
  plan.arena_uses.push_back({0, 1, 0, 4096, 2, 4, 7});
  plan.arena_uses.push_back({1, 0, 0, 512, 0, 0, 1});
  return plan;
}

TEST(Markup, EscapesWhateverANameHolds) {
  EXPECT_EQ(escape_markup("a<b>&\"c\""), "a&lt;b&gt;&amp;&quot;c&quot;");
  EXPECT_EQ(escape_markup("\x01\x7f"), "\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(escape_markup("\xC3\xA9"), "\xC3\xA9");
  EXPECT_EQ(escape_markup("\xC0\xAF"), "\xEF\xBF\xBD\xEF\xBF\xBD") << "overlong";
  EXPECT_EQ(escape_markup("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD") << "surrogate";
  EXPECT_EQ(escape_markup("x\xE2\x82"), "x\xEF\xBF\xBD\xEF\xBF\xBD") << "cut off";
  EXPECT_EQ(tag("a", {{"b", "<"}}, ""), "<a b=\"&lt;\"/>");
}

TEST(Markup, TheCheckerFindsWhatIsNotWellFormed) {
  EXPECT_EQ(Markup("<a b=\"1\"><c/>x &amp; y</a>").error, "");
  for (const char* bad : {"<a>", "<a></b>", "<a b=1/>", "<a>&</a>", "<a b=\"1\" b=\"2\"/>", "x",
                          "<a/><b/>", "<a>\x01</a>", "<a b=\"<\"/>"})
    EXPECT_NE(Markup(bad).error, "") << bad;
}

TEST(ArenaPicture, IsWellFormedAndHoldsEveryBuffer) {
  for (const uint32_t calls : {1U, 5U, 160U, 2000U}) {
    const exec::Plan plan = long_plan(calls);
    const Markup svg(arena_svg(plan, plan.arena_uses));
    ASSERT_EQ(svg.error, "") << calls;
    EXPECT_EQ(svg.count("g", "class", "buffer"), plan.arena_uses.size()) << calls;
    EXPECT_EQ(svg.count("g", "class", "panel"), 3U) << "run in both lanes, the warp in one";
    EXPECT_EQ(svg.count("polyline", "class", "live"), 3U);
  }
}

TEST(ArenaPicture, TooltipsNameKernelsSizesAndCalls) {
  const exec::Plan plan = long_plan(5);
  const Markup svg(arena_svg(plan, plan.arena_uses));
  std::vector<std::string> titles;
  for (const Element& e : svg.elements)
    if (e.name == "title") titles.push_back(e.text);
  ASSERT_EQ(titles.size(), plan.arena_uses.size());
  EXPECT_EQ(titles[1],
            "buffer 1 of entry run\n2000 bytes (2.0 kB) at offset 7168\ncalls 1 to 3, free from 4\n"
            "written by\n  call 1 r_<8>&\"'\xEF\xBF\xBD\xEF\xBF\xBD\n"
            "read by\n  call 2 r_<8>&\"'\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(ArenaPicture, SameBytesEveryTime) {
  const exec::Plan plan = long_plan(40);
  EXPECT_EQ(arena_svg(plan, plan.arena_uses), arena_svg(plan, plan.arena_uses));
}

struct Box {
  double left, top, right, bottom;
  std::string words;
};

// Where a text lies, a little more than what a browser's sans-serif takes.
Box box_of(const Element& e) {
  const auto number = [&](const char* key) { return std::atof(e.attributes.at(key).c_str()); };
  const auto style = e.attributes.find("class");
  const bool is_lane = style != e.attributes.end() && style->second == "lane";
  const bool is_entry = style != e.attributes.end() && style->second == "entry";
  const double width = static_cast<double>(e.text.size()) * (is_lane ? 8 : is_entry ? 7 : 6);
  const auto anchor = e.attributes.find("text-anchor");
  const std::string side = anchor == e.attributes.end() ? "start" : anchor->second;
  const double x = number("x") - (side == "middle" ? width / 2 : side == "end" ? width : 0);
  return {x, number("y") - (is_lane ? 11 : 9), x + width, number("y") + 2, e.text};
}

TEST(ArenaPicture, LabelsDoNotOverlapAndStayInside) {
  for (const uint32_t calls : {1U, 2U, 7U, 33U, 160U, 700U, 2000U}) {
    const exec::Plan plan = long_plan(calls);
    const Markup svg(arena_svg(plan, plan.arena_uses));
    ASSERT_EQ(svg.error, "");
    const double width = std::atof(svg.elements[0].attributes.at("width").c_str());
    const double height = std::atof(svg.elements[0].attributes.at("height").c_str());
    std::vector<Box> boxes;
    for (const Element& e : svg.elements)
      if (e.name == "text") boxes.push_back(box_of(e));
    for (size_t i = 0; i < boxes.size(); ++i) {
      const Box& a = boxes[i];
      EXPECT_TRUE(a.left >= 0 && a.top >= 0 && a.right <= width && a.bottom <= height)
          << calls << " calls: " << a.words;
      for (size_t j = 0; j < i; ++j) {
        const Box& b = boxes[j];
        EXPECT_FALSE(a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)
            << calls << " calls: " << a.words << " on " << b.words;
      }
    }
  }
}

TEST_F(Report, IsOneWellFormedPageThatLoadsNothing) {
  const BuildReport r = build("m.bundle", at("report"));
  const std::string page = text("report/index.html"), picture = text("report/arena.svg");
  const Markup html(page), svg(picture);
  EXPECT_EQ(html.error, "");
  EXPECT_EQ(svg.error, "");
  EXPECT_EQ(html.count("g", "class", "buffer"), r.arena_uses.size());
  EXPECT_EQ(svg.count("g", "class", "buffer"), r.arena_uses.size());
  EXPECT_EQ(r.arena_uses.size(), 6U) << "one per product but the last, which is the output";
  for (const Element& e : html.elements) {
    EXPECT_TRUE(e.name != "link" && e.name != "img") << e.name;
    EXPECT_FALSE(e.attributes.contains("src"));
    const auto link = e.attributes.find("href");
    EXPECT_TRUE(link == e.attributes.end() || link->second.starts_with("#")) << link->second;
  }
  for (const char* id : {"summary", "caches", "memory", "kernels", "passes"})
    EXPECT_EQ(html.count("h2", "id", id), 1U) << id;
}

TEST_F(Report, ShowsEveryKernelWithItsSource) {
  const BuildReport r = build("m.bundle", at("report"));
  const Markup html(text("report/index.html"));
  std::vector<std::string> names, sources;
  for (const Element& e : html.elements) {
    if (e.name == "code" && !e.open.empty() && html.elements[e.open.back()].name == "summary")
      names.push_back(e.text);
    if (e.name == "pre" && e.attributes.at("id").starts_with("source-")) sources.push_back(e.text);
  }
  ASSERT_EQ(names.size(), r.written.manifest.plan.programs.size());
  ASSERT_EQ(sources.size(), names.size());
  for (size_t i = 0; i < names.size(); ++i)
    EXPECT_NE(sources[i].find(names[i]), std::string::npos) << names[i];
}

// The rows of the page's table of kernels: the cells of those rows that hold a source.
std::vector<std::vector<std::string>> kernel_rows(const Markup& page) {
  std::vector<std::vector<std::string>> out;
  for (size_t i = 0; i < page.elements.size(); ++i) {
    if (page.elements[i].name != "tr") continue;
    std::vector<std::string> cells;
    bool is_kernel = false;
    for (size_t k = i + 1; k < page.elements.size(); ++k) {
      const Element& e = page.elements[k];
      if (std::find(e.open.begin(), e.open.end(), i) == e.open.end()) break;
      if (e.name == "td") cells.push_back(e.text);
      if (e.name == "pre") is_kernel = true;
      if (e.name == "code" && !cells.empty()) cells.back() += e.text;
    }
    if (is_kernel) out.push_back(std::move(cells));
  }
  return out;
}

TEST_F(Report, ShowsTimeRateAndOptsOfEveryKernel) {
  const BuildReport r = build("m.bundle", at("report"));
  const Markup page(text("report/index.html"));
  const auto rows = kernel_rows(page);
  ASSERT_EQ(rows.size(), r.written.manifest.plan.programs.size());
  ASSERT_EQ(r.times_ns.size(), rows.size());
  for (const exec::ProgramRow& p : r.written.manifest.plan.programs) {
    const auto row = std::find_if(rows.begin(), rows.end(),
                                  [&](const auto& cells) { return cells.at(1) == p.name; });
    ASSERT_NE(row, rows.end()) << p.name;
    EXPECT_FALSE(row->at(2).empty()) << "time of " << p.name;
    EXPECT_GT(std::atof(row->at(3).c_str()), 0) << "GFLOP/s of " << p.name;
    EXPECT_EQ(row->at(4), p.applied_opts);
  }
}

// The data of the viewer as the page holds it.
Json pass_data(const Markup& page) {
  for (const Element& e : page.elements)
    if (e.name == "script" && e.attributes.contains("id")) {
      auto data = Json::parse(e.text);
      EXPECT_TRUE(data.ok()) << data.error().what;
      return data.ok() ? *data : Json();
    }
  return Json();
}

TEST_F(Report, ShowsEveryKernelAfterEveryPass) {
  const BuildReport r = build("m.bundle", at("report"));
  const Json data = pass_data(Markup(text("report/index.html")));
  const auto& programs = r.written.manifest.plan.programs;
  ASSERT_EQ(data.size(), programs.size());
  for (size_t i = 0; i < programs.size(); ++i) {
    const Json& kernel = data.items()[i];
    EXPECT_EQ(kernel.find("name")->string_or(""), programs[i].name);
    const auto unpacked = unpack_text(kernel.find("packed")->string_or(""));
    ASSERT_TRUE(unpacked.ok()) << unpacked.error().what;
    const auto history = Json::parse(*unpacked);
    ASSERT_TRUE(history.ok()) << history.error().what;
    const auto& passes = history->find("passes")->items();
    // Every pass of the table stands there by name, between the kernel and its order.
    ASSERT_EQ(passes.size(), codegen::kernel_passes().size() + 2);
    for (size_t k = 0; k < codegen::kernel_passes().size(); ++k)
      EXPECT_EQ(passes[k + 1].find("name")->string_or(""), codegen::kernel_passes()[k].name);
    EXPECT_EQ(passes.front().find("name")->string_or(""), "kernel");
    EXPECT_EQ(passes.back().find("name")->string_or(""), "linearize");
    EXPECT_TRUE(passes.front().find("changed")->bool_or(false));
  }
}

// The text of one view with the numbers of ir::print: positions in the text.
std::string as_printed(const PassHistory& h, const PassView& view) {
  std::map<std::string, std::string> position;
  std::string out;
  for (size_t i = 0; i < view.lines.size(); ++i) {
    position[strf("%%%u", view.lines[i])] = strf("%%%zu", i);
    const std::string& line = h.text[view.lines[i]];
    for (size_t at = 0; at < line.size();) {
      size_t end = at + 1;
      if (line[at] == '{') end = line.size();  // an argument holds no nodes
      if (line[at] == '%')
        while (end < line.size() && std::isdigit(static_cast<unsigned char>(line[end])) != 0) ++end;
      const std::string word = line.substr(at, end - at);
      out += line[at] == '%' ? position.at(word) : word;
      at = end;
    }
    out += '\n';
  }
  return out;
}

TEST_F(Report, ThePassesShownAreThoseThatMadeTheProgram) {
  build("m.bundle", "");
  const auto b = bundle::Bundle::open(at("m.bundle"));
  ASSERT_TRUE(b.ok());
  const exec::Plan plan = (*b)->to_plan();
  const auto options =
      exec::make_codegen_options(exec::default_compile_options(*hal::parse_target("cpu")));
  ASSERT_TRUE(options.ok());
  for (const exec::ProgramRow& program : plan.programs) {
    const auto history = pass_history(program, *options);
    ASSERT_TRUE(history.ok()) << history.error().what;
    std::string kernel = program.ast_text;
    kernel.replace(kernel.find("apply=auto"), 10, "apply=" + program.applied_opts);
    EXPECT_EQ(as_printed(*history, history->passes.front()), kernel);
    // The last pass of the table leaves what full_rewrite_to_sink gives for the rules' own choice.
    ir::Graph g;
    const auto sink =
        codegen::full_rewrite_to_sink(g, *ir::parse(g, program.ast_text), *options, true);
    ASSERT_TRUE(sink.ok());
    EXPECT_EQ(as_printed(*history, history->passes[history->passes.size() - 2]), ir::print(*sink));
  }
}

TEST(PassHistory, AnAstThatIsNoneIsRefused) {
  exec::ProgramRow program;
  program.ast_text = "%0 = nothing f32\n";
  EXPECT_FALSE(pass_history(program, {}).ok());
}

TEST(PackedText, ComesBackAndRefusesWhatIsNone) {
  for (const size_t size : {0U, 1U, 1000U, 3'000'000U}) {
    const std::string text(size, 'x');
    const auto back = unpack_text(pack_text(text));
    ASSERT_TRUE(back.ok()) << back.error().what;
    EXPECT_EQ(*back, text);
  }
  EXPECT_FALSE(unpack_text("no base64!").ok());
  EXPECT_FALSE(unpack_text(pack_text(std::string(5000, 'x')), 4999).ok());
  EXPECT_TRUE(unpack_text(pack_text(std::string(5000, 'x')), 5000).ok());
  std::string cut = pack_text(std::string(5000, 'x'));
  cut.resize(cut.size() / 8 * 4);
  EXPECT_FALSE(unpack_text(cut).ok());
}

TEST(PassHistory, RunsOfNumbersAreRunsOfLines) {
  EXPECT_EQ(line_runs({}), "");
  EXPECT_EQ(line_runs({4}), "4");
  EXPECT_EQ(line_runs({0, 1, 2, 7, 5, 6, 3}), "0-2,7,5-6,3");
}

TEST_F(Report, CountsWhatTheCachesHad) {
  const BuildReport first = build("a.bundle", at("a")), second = build("b.bundle", at("b"));
  EXPECT_EQ(first.stats.schedule_hits + first.stats.schedule_misses, 1U);
  EXPECT_EQ(second.stats.schedule_hits, 1U) << "the same graph in the same process";
  EXPECT_EQ(second.stats.schedule_misses, 0U);
  EXPECT_EQ(second.stats.cold, 0U);
  const std::string page = text("b/index.html");
  EXPECT_NE(page.find("<td>schedule cache</td><td class=\"n\">1</td><td class=\"n\">0</td>"),
            std::string::npos);
}

TEST_F(Report, TheBundleIsTheSameWithAndWithout) {
  build("a.bundle", at("report"));
  build("b.bundle", "");
  EXPECT_TRUE(*read_file(at("a.bundle")) == *read_file(at("b.bundle")));
}

TEST_F(Report, AFolderThatCannotBeMadeFailsTheBuildWithItsName) {
  ASSERT_TRUE(write_text_atomic(at("file"), "x").ok());
  BuildOptions options;
  options.onnx_path = at("none.onnx");
  options.output_path = at("m.bundle");
  options.target = *hal::parse_target("cpu");
  options.report_dir = at("file/report");
  const auto r = build_model(options);
  ASSERT_FALSE(r.ok());
  EXPECT_NE(r.error().what.find("file/report"), std::string::npos) << r.error().what;
  EXPECT_FALSE(file_exists(at("m.bundle")));
}

}  // namespace
}  // namespace modeld::tools
