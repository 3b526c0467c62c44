// modeld-selftest: options, configuration, suite, report.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "hal/base/env.h"
#include "hal/base/trace.h"
#include "hal/base/usage.h"

#include "daemon/privilege.h"
#include "daemon/sandbox.h"

#include "selftest/boot/report.h"
#include "selftest/boot/runner.h"

namespace modeld::selftest {
namespace {

constexpr int kExitFailed = 1, kExitUsage = 2, kExitBadInput = 78;

constexpr const char* kAbout =
    "Tests what modeld is about to run, on the devices that will run it: every model and fallback "
    "of a configuration.\n"
    "boot takes seconds and comes before modeld at every start; acceptance compiles from the "
    "bundles and compares with the CPU\n"
    "reference, once per new bundle, device or program. Devices are opened and left closed.\n\n"
    "  modeld-selftest --config /etc/modeld/modeld.toml\n"
    "  modeld-selftest --config modeld.toml --suite acceptance --report /tmp/acceptance\n"
    "  modeld-selftest --config modeld.toml --json | jq .models[].identity";

struct Options {
  std::string config = "/etc/modeld/modeld.toml";
  std::string suite = "boot";
  std::string report;
  bool json = false;
  int jobs = 2;
};

// The table of items, and what exit codes mean.
std::string footer() {
  std::string out = "Items (b: boot, a: acceptance):\n";
  for (const Item& item : items()) {
    out += strf("  %s%s %-17s %s\n", item.is_in(Suite::kBoot) ? "b" : " ",
                item.is_in(Suite::kAcceptance) ? "a" : " ", item.name, item.reason);
  }
  return out + "\n" + env_help() +
         "\nExit codes: 0 every item passed, 1 an item failed, 2 usage, 78 the configuration or a "
         "bundle cannot be used.";
}

// Which item runs, on a terminal, where it is overwritten.
void show_progress(const std::string& subject, const char* item) {
  if (isatty(STDERR_FILENO) == 0) return;
  std::fprintf(stderr, "\r\033[K%s%s%s", subject.c_str(), subject.empty() ? "" : " ", item);
}

void end_progress() {
  if (isatty(STDERR_FILENO) != 0) std::fprintf(stderr, "\r\033[K");
}

int bad_input(const Options& options, const std::string& text) {
  if (options.json) {
    Json out = Json::object();
    out.set("ok", false);
    out.set("exit_code", kExitBadInput);
    out.set("error", text);
    std::printf("%s\n", out.dump().c_str());
  }
  std::fprintf(stderr, "modeld-selftest: %s\n", text.c_str());
  return kExitBadInput;
}

Status give_up_rights(const daemon::Config& config) {
  RETURN_IF_ERROR(daemon::drop_to_user(config.user));
  return daemon::lock_supervisor_calls();
}

int test(const Options& options, Suite suite) {
  const auto config = daemon::load_config(options.config);
  if (!config.ok()) return bad_input(options, config.error().what);
  if (config->models.empty())
    return bad_input(options, options.config + ": no [model.*] table, nothing to test");
  // Bundles bring code: it gets no more rights here than the daemon has.
  if (Status s = give_up_rights(*config); !s.ok()) return bad_input(options, s.error().what);
  World world;
  world.jobs = options.jobs;
  const TraceFile trace;
  const SuiteResult result = run_suite(world, *config, suite, show_progress);
  end_progress();
  const std::string text = options.json ? result_json(result).dump() + "\n" : result_text(result);
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
  if (!options.report.empty()) {
    if (const Status s = write_report(options.report, result); !s.ok()) {
      std::fprintf(stderr, "modeld-selftest: report: %s\n", s.error().what.c_str());
      return result.exit_code() == 0 ? kExitFailed : result.exit_code();
    }
  }
  return result.exit_code();
}

int run(int argc, char** argv) {
  CLI::App app(kAbout, "modeld-selftest");
  Options options;
  app.add_option("--config", options.config, "the daemon's configuration file")
      ->capture_default_str();
  app.add_option("--suite", options.suite, "boot or acceptance")
      ->capture_default_str()
      ->check(CLI::IsMember({"boot", "acceptance"}));
  app.add_flag("--json", options.json, "print one JSON object and nothing else");
  app.add_option("--report", options.report,
                 "folder that receives index.html (one page) and selftest.json");
  app.add_option("--jobs", options.jobs, "compiler processes of the acceptance suite")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  app.footer(footer());
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);
    return usage_error("modeld-selftest", e.what(), app.remaining(true));
  }
  const auto suite = parse_suite(options.suite);
  if (!suite.ok()) return kExitUsage;  // CLI has refused it already
  return test(options, *suite);
}

}  // namespace
}  // namespace modeld::selftest

int main(int argc, char** argv) {
  try {
    return modeld::selftest::run(argc, argv);
  } catch (const std::exception& e) {  // of a library: none of ours throws
    std::fprintf(stderr, "modeld-selftest: %s\n", e.what());
    return 1;
  }
}
