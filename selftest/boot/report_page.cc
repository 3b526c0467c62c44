// The page of a suite: verdict, then per model identity, times and items.
#include "models/tools/figures.h"
#include "models/tools/report/markup.h"

#include "selftest/boot/report.h"

namespace modeld::selftest {
namespace {

using tools::escape_markup;
using tools::markup_table;
using tools::tag;

constexpr const char* kStyle = R"(
body { font: 14px/1.45 system-ui, sans-serif; margin: 1.5rem; color: #222; background: #fff; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; margin: .5rem 0 1rem; }
th, td { padding: .15rem .6rem; border-bottom: 1px solid #ddd; text-align: left; vertical-align: top; }
th { border-bottom: 2px solid #999; } .n { text-align: right; font-variant-numeric: tabular-nums; }
code { font: 12px/1.4 ui-monospace, monospace; overflow-wrap: anywhere; }
.passed { color: #0a6b2d; } .failed { color: #b00020; font-weight: bold; } .not_run { color: #666; }
.why { color: #555; max-width: 26rem; } .wrap { overflow-wrap: anywhere; max-width: 44rem; }
)";

std::string word(Verdict verdict) {
  const char* text = verdict == Verdict::kPassed   ? "pass"
                     : verdict == Verdict::kFailed ? "FAIL"
                                                   : "not run";
  return tag("span", {{"class", verdict_name(verdict)}}, text);
}

std::string code(const std::string& text) {
  return text.empty() ? "" : tag("code", {}, escape_markup(text));
}

std::string identity_table(const Identity& id) {
  std::vector<std::vector<std::string>> rows = {{"artefact", "value"}, {"file", code(id.file)}};
  const auto add = [&](const char* what, const std::string& markup) {
    if (!markup.empty()) rows.push_back({what, tag("div", {{"class", "wrap"}}, markup)});
  };
  if (!id.manifest_hash.empty()) {
    add("size", tools::bytes_text(id.file_bytes));
    add("role", escape_markup(id.role));
    add("manifest hash (BLAKE2b-256)", code(id.manifest_hash));
    add("model SHA-256", code(id.model_sha256));
    add("signed by", id.signed_by.empty() ? "nobody" : code(id.signed_by));
    add("compiler", code("modeld " + id.compiler_version + ", " + id.back_end));
    add("code generation", code(id.codegen_config));
    add("target",
        code(id.target + ", renderer " + id.renderer + ", threads " + std::to_string(id.threads)));
    add("checked when built", escape_markup(id.self_check));
    add("timing budget", strf("p50 %g ms, p99 %g ms", id.budget_p50_ms, id.budget_p99_ms));
  }
  if (!id.device.empty()) add("device", code(id.device + ", " + id.device_name));
  return markup_table(rows);
}

std::string times_table(const Times& t) {
  std::vector<std::vector<std::string>> rows = {{"time", "cold or hot", "value"}};
  const auto add = [&](const char* what, const char* kind, int64_t ns) {
    if (ns > 0) rows.push_back({what, kind, tools::time_text(ns)});
  };
  add("open and hash the file", "cold", t.open_ns);
  add("load, with one dry run of every entry", "cold", t.load_ns);
  add("compile every kernel", "cold", t.cold_compile_ns);
  add("the same in another configuration", "cold", t.config_switch_ns);
  add("the same from disk", "disk hit", t.disk_hit_ns);
  add("the same from memory", "memory hit", t.memory_hit_ns);
  add("one frame, median", "hot", t.p50_ns);
  add("one frame, 99th percentile", "hot", t.p99_ns);
  add("one frame, worst", "hot", t.worst_ns);
  return rows.size() == 1 ? "" : markup_table(rows, {.numbers = {2}});
}

std::string items_table(const std::vector<ItemResult>& items) {
  std::vector<std::vector<std::string>> rows = {{"", "item", "why", "what was seen", "time"}};
  for (const ItemResult& item : items) {
    rows.push_back({word(item.outcome.verdict), escape_markup(item.name),
                    tag("div", {{"class", "why"}}, escape_markup(item.reason)),
                    tag("div", {{"class", "wrap"}}, escape_markup(item.outcome.text)),
                    tools::time_text(item.took_ns)});
  }
  return markup_table(rows, {.numbers = {4}});
}

std::string subject_section(const SubjectResult& subject) {
  const std::string title = subject.name.empty() ? "host" : subject.name;
  std::string out = tag("h2", {}, escape_markup(title)) + "\n";
  if (!subject.name.empty()) out += identity_table(subject.identity) + times_table(subject.times);
  return out + items_table(subject.items);
}

}  // namespace

std::string result_page(const SuiteResult& result) {
  const std::string title = std::string("modeld self-test: ") + suite_name(result.suite);
  const bool is_good = result.exit_code() == 0;
  std::string sections;
  for (const SubjectResult& subject : result.subjects) sections += subject_section(subject);
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<title>" + title +
         "</title>\n<style>" + kStyle + "</style>\n</head>\n<body>\n<h1>" + title + "</h1>\n" +
         tag("p", {{"id", "verdict"}, {"class", is_good ? "passed" : "failed"}},
             escape_markup(closing_line(result))) +
         "\n" + tag("p", {}, "configuration " + code(result.config_path)) + "\n" + sections +
         "</body>\n</html>\n";
}

}  // namespace modeld::selftest
