// modeld: the daemon. The map of the program: options, configuration, daemon, run.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>
#include <exception>

#include "hal/base/env.h"
#include "hal/base/trace.h"
#include "hal/base/usage.h"

#include "daemon/config.h"
#include "daemon/daemon.h"
#include "daemon/steady_heap.h"
#include "daemon/worker_main.h"

namespace modeld::daemon {
namespace {

constexpr const char* kAbout =
    "Runs the road and cabin models of a vehicle: loads their bundles into worker processes, feeds "
    "them camera frames,\n"
    "publishes outputs and states. Whatever breaks, consumers learn that a model is unavailable, "
    "and why.\n\n"
    "  modeld --config /etc/modeld/modeld.toml\n"
    "  modelctl status              what it says of its models\n"
    "  kill -HUP PID                read the configuration and changed bundles again\n\n"
    "Exit codes: 0 stopped by a signal, 1 failed (another instance runs), 2 usage, 78 the "
    "configuration cannot be used.";

int serve(const std::string& path) {
  auto config = load_config(path);
  if (!config.ok()) {
    std::fprintf(stderr, "modeld: %s\n", config.error().what.c_str());
    return kExitConfig;
  }
  const TraceFile trace;
  auto daemon = Daemon::create(std::move(*config));
  if (!daemon.ok()) {
    std::fprintf(stderr, "%s\n", daemon.error().what.c_str());
    return 1;
  }
  reserve_heap();
  return (*daemon)->run();
}

int run(int argc, char** argv) {
  CLI::App app(kAbout);
  std::string path = "/etc/modeld/modeld.toml";
  app.add_option("--config", path, "the configuration file")->capture_default_str();
  app.footer("Debug variables:\n" + env_help());
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);
    return usage_error("modeld", e.what(), app.remaining(true));
  }
  return serve(path);
}

}  // namespace
}  // namespace modeld::daemon

int main(int argc, char** argv) {
  // Internal: started by the supervisor with the hop's descriptors in place.
  if (argc == 2 && std::strcmp(argv[1], "--worker") == 0) return modeld::daemon::worker_main();
  modeld::daemon::use_one_heap();
  try {
    return modeld::daemon::run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "modeld: %s\n", e.what());
    return 1;
  }
}
