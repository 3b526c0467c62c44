#include "selftest/boot/report.h"

#include "hal/base/fs.h"

#include "models/tools/figures.h"

namespace modeld::selftest {
namespace {

double ms(int64_t ns) {
  return static_cast<double>(ns) / 1e6;
}

Json identity_json(const Identity& id) {
  Json out = Json::object();
  out.set("file", id.file);
  out.set("file_bytes", id.file_bytes);
  out.set("role", id.role);
  out.set("manifest_hash", id.manifest_hash);
  out.set("model_sha256", id.model_sha256);
  out.set("signed_by", id.signed_by);
  out.set("self_check", id.self_check);
  out.set("compiler_version", id.compiler_version);
  out.set("backend_compiler", id.back_end);
  out.set("codegen_config", id.codegen_config);
  out.set("target", id.target);
  out.set("renderer", id.renderer);
  out.set("threads", id.threads);
  out.set("device", id.device);
  out.set("device_name", id.device_name);
  out.set("budget_p50_ms", id.budget_p50_ms);
  out.set("budget_p99_ms", id.budget_p99_ms);
  return out;
}

// Null where this suite did not measure.
Json time_json(int64_t ns) {
  return ns == 0 ? Json() : Json(ms(ns));
}

Json times_json(const Times& t) {
  Json cold = Json::object();
  cold.set("open_ms", time_json(t.open_ns));
  cold.set("load_ms", time_json(t.load_ns));
  cold.set("compile_ms", time_json(t.cold_compile_ns));
  cold.set("disk_hit_ms", time_json(t.disk_hit_ns));
  cold.set("config_switch_ms", time_json(t.config_switch_ns));
  Json hot = Json::object();
  hot.set("memory_hit_ms", time_json(t.memory_hit_ns));
  hot.set("frames", t.frames);
  hot.set("p50_ms", time_json(t.p50_ns));
  hot.set("p99_ms", time_json(t.p99_ns));
  hot.set("worst_ms", time_json(t.worst_ns));
  Json out = Json::object();
  out.set("cold", std::move(cold));
  out.set("hot", std::move(hot));
  return out;
}

Json item_json(const ItemResult& item) {
  Json figures = Json::object();
  for (const Figure& f : item.outcome.figures) figures.set(f.name, f.value);
  Json out = Json::object();
  out.set("item", item.name);
  out.set("reason", item.reason);
  out.set("verdict", verdict_name(item.outcome.verdict));
  out.set("text", item.outcome.text);
  out.set("ms", ms(item.took_ns));
  out.set("figures", std::move(figures));
  return out;
}

Json items_json(const SubjectResult& subject) {
  Json out = Json::array();
  for (const ItemResult& item : subject.items) out.push(item_json(item));
  return out;
}

const char* mark(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPassed:
      return "ok";
    case Verdict::kFailed:
      return "FAIL";
    case Verdict::kNotRun:
      return "-";
  }
  return "?";
}

std::string headline(const SubjectResult& subject) {
  if (subject.name.empty()) return "host";
  const Identity& id = subject.identity;
  std::string out = subject.name + "  " + id.file;
  if (id.manifest_hash.empty()) return out;
  return out + "  " + id.manifest_hash.substr(0, 16) + "  " +
         (id.device.empty() ? "no device" : id.device);
}

}  // namespace

Json result_json(const SuiteResult& result) {
  const Counts n = result.counts();
  Json out = Json::object();
  out.set("suite", suite_name(result.suite));
  out.set("config", result.config_path);
  out.set("ok", result.exit_code() == 0);
  out.set("exit_code", result.exit_code());
  out.set("passed", n.passed);
  out.set("failed", n.failed);
  out.set("not_run", n.not_run);
  out.set("total_ms", ms(result.took_ns));
  Json host = Json::array(), models = Json::array();
  for (const SubjectResult& subject : result.subjects) {
    if (subject.name.empty()) {
      host = items_json(subject);
      continue;
    }
    Json row = Json::object();
    row.set("name", subject.name);
    row.set("identity", identity_json(subject.identity));
    row.set("times", times_json(subject.times));
    row.set("items", items_json(subject));
    models.push(std::move(row));
  }
  out.set("host", std::move(host));
  out.set("models", std::move(models));
  return out;
}

std::string result_text(const SuiteResult& result) {
  std::string out;
  for (const SubjectResult& subject : result.subjects) {
    out += headline(subject) + "\n";
    std::vector<std::vector<std::string>> rows;
    for (const ItemResult& item : subject.items) {
      rows.push_back({mark(item.outcome.verdict), item.name, tools::time_text(item.took_ns),
                      item.outcome.text});
    }
    out += tools::text_table(rows);
  }
  return out + closing_line(result) + "\n";
}

std::string closing_line(const SuiteResult& result) {
  const Counts n = result.counts();
  return strf("%s: %zu passed, %zu failed, %zu not run in %s", suite_name(result.suite), n.passed,
              n.failed, n.not_run, tools::time_text(result.took_ns).c_str());
}

Status write_report(const std::string& dir, const SuiteResult& result) {
  RETURN_IF_ERROR(make_dirs(dir));
  RETURN_IF_ERROR(
      write_text_atomic(join_path(dir, "selftest.json"), result_json(result).dump(2) + "\n"));
  return write_text_atomic(join_path(dir, "index.html"), result_page(result));
}

}  // namespace modeld::selftest
