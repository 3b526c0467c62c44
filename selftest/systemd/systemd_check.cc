// systemd-check: the units of deploy/, run by a real systemd, one row per promise.
// The outer process enters `unshare -mpf --mount-proc` and starts itself there; the inner one makes
// a stage (stage.h) and runs the rows. Where the machine does not allow that, all rows are skipped
// and the reason is printed. Exit 1 when a row failed, or when a deliberate defect (--self-proof)
// was not found.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "hal/base/clock.h"
#include "hal/base/env.h"
#include "hal/base/fs.h"
#include "hal/base/text.h"

#include "selftest/systemd/notify_defect.h"
#include "selftest/systemd/row.h"

namespace modeld::systemd_check {
namespace {

struct Options {
  std::vector<std::string> only;
  bool inside = false;
  bool list = false;
  bool self_proof = false;
  bool verbose = false;
  int64_t slack = 1;
};

std::vector<Row> all_rows() {
  std::vector<Row> out;
  for (const auto& rows : {unit_rows(), start_rows(), failure_rows()})
    out.insert(out.end(), rows.begin(), rows.end());
  return out;
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// ---- inside ----

int run_rows(Stage& stage, const std::vector<Row>& rows) {
  size_t passed = 0;
  for (const Row& row : rows) {
    const int64_t began = now_ns();
    Result<std::string> verdict = "";
    if (Status s = stage.reset(); !s.ok())
      verdict = fail(std::move(s).error());
    else
      verdict = row.check(stage);
    const double s = static_cast<double>(now_ns() - began) / 1e9;
    std::printf("%-7s %-22s %-68s %5.1f s  %s\n", verdict.ok() ? "passed" : "FAILED", row.name,
                row.promise, s, (verdict.ok() ? *verdict : one_line(verdict.error().what)).c_str());
    if (!verdict.ok()) std::printf("%s\n", stage.log_tail().c_str());
    std::fflush(stdout);
    passed += verdict.ok() ? 1 : 0;
  }
  std::printf("systemd-check: %zu rows passed, %zu failed, 0 skipped\n", passed,
              rows.size() - passed);
  return passed == rows.size() ? 0 : 1;
}

Status switch_on(Stage& stage, const Proof& proof) {
  RETURN_IF_ERROR(remove_file(kNotifyDefectFile));
  RETURN_IF_ERROR(stage.reset());
  if (proof.edit) RETURN_IF_ERROR(stage.apply(*proof.edit));
  if (proof.notify_defect == nullptr) return {};
  RETURN_IF_ERROR(write_text_atomic(kNotifyDefectFile, proof.notify_defect));
  return stage.replace_daemon("modeld_notify_probe");
}

int run_proofs(Stage& stage, const std::vector<Row>& rows, const Options& options) {
  size_t found = 0;
  size_t tried = 0;
  for (const Proof& proof : proofs()) {
    const auto& only = options.only;
    if (!only.empty() && std::find(only.begin(), only.end(), proof.name) == only.end()) continue;
    ++tried;
    const auto row = std::find_if(rows.begin(), rows.end(),
                                  [&](const Row& r) { return std::string(r.name) == proof.row; });
    Status ready = switch_on(stage, proof);
    bool hit = false;
    std::string said = "nothing";
    if (!ready.ok() || row == rows.end()) {
      said = ready.ok() ? "no such row" : "could not be switched on: " + ready.error().what;
    } else if (const auto verdict = row->check(stage); !verdict.ok()) {
      said = verdict.error().what;
      hit = said.find(proof.finding) != std::string::npos;
    }
    found += hit ? 1 : 0;
    std::printf("%s %s in %s: %s\n", hit ? "found" : "NOT FOUND", proof.name, proof.row,
                one_line(said).c_str());
    if (!hit && options.verbose) std::printf("%s\n", stage.log_tail().c_str());
    std::fflush(stdout);
  }
  std::printf("systemd-check: %zu of %zu deliberate defects found\n", found, tried);
  return found == tried ? 0 : 1;
}

int run_inside(const Options& options) {
  std::vector<Row> rows = all_rows();
  auto stage = Stage::create(options.slack);
  if (!stage.ok()) {
    std::printf("systemd-check: no stage: %s\n", stage.error().what.c_str());
    return 1;
  }
  if (options.self_proof) return run_proofs(**stage, rows, options);
  const auto& only = options.only;
  std::erase_if(rows, [&](const Row& r) {
    return !only.empty() && std::find(only.begin(), only.end(), r.name) == only.end();
  });
  return run_rows(**stage, rows);
}

// ---- outside ----

std::vector<std::string> in_namespaces(std::vector<std::string> argv) {
  argv.insert(argv.begin(), {"/usr/bin/unshare", "-mpf", "--mount-proc", "--kill-child"});
  return argv;
}

// "" when namespaces are allowed.
std::string why_not() {
  if (!file_exists("/lib/systemd/systemd")) return "there is no /lib/systemd/systemd";
  const Status s = run_tool(in_namespaces({"mount", "-t", "tmpfs", "tmpfs", "/run"}), 10'000);
  return s.ok() ? "" : s.error().what;
}

int run_outside(int argc, char** argv) {
  if (const std::string reason = why_not(); !reason.empty()) {
    std::printf("SKIPPED: %s\n", one_line(reason).c_str());
    std::printf("systemd-check: 0 rows passed, 0 failed, %zu skipped\n", all_rows().size());
    return 0;
  }
  std::vector<std::string> inner = {std::filesystem::read_symlink("/proc/self/exe").string()};
  inner.insert(inner.end(), argv + 1, argv + argc);
  inner.emplace_back("--inside");
  std::vector<std::string> command = in_namespaces(inner);
  std::vector<char*> args;
  for (std::string& a : command) args.push_back(a.data());
  args.push_back(nullptr);
  std::fflush(nullptr);
  execv(args[0], args.data());
  std::fprintf(stderr, "systemd-check: cannot run %s\n", args[0]);
  return 1;
}

}  // namespace
}  // namespace modeld::systemd_check

int main(int argc, char** argv) {
  using namespace modeld::systemd_check;
  CLI::App app("The units of deploy/, run by a real systemd, one row per promise");
  Options options;
  app.add_option("--only", options.only, "only this row, or this defect of the self-proof");
  app.add_flag("--list", options.list, "names of the rows");
  app.add_flag("--self-proof", options.self_proof, "deliberate defects, each must be found");
  app.add_flag("--verbose", options.verbose, "the service manager's log with what was not found");
  app.add_flag("--inside", options.inside, "internal: already in namespaces of its own")->group("");
  app.add_option("--slack", options.slack, "multiplies every upper bound")
      ->check(CLI::Range(1, 10))
      ->capture_default_str();
  app.footer(modeld::env_help());
  CLI11_PARSE(app, argc, argv);
  if (options.list) {
    for (const Row& r : all_rows()) std::printf("%-22s %s\n", r.name, r.promise);
    return 0;
  }
  return options.inside ? run_inside(options) : run_outside(argc, argv);
}
