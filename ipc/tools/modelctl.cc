// modelctl: the client of modeld. State with reason, live outputs, counters, trace, recording,
// example consumer.
#include <CLI/CLI.hpp>

#include "hal/base/env.h"
#include "hal/base/usage.h"

#include "ipc/runtime_dir.h"
#include "ipc/tools/ctl_commands.h"

namespace modeld::ipc {
namespace {

using Command = int (*)(const CtlOptions&);

CLI::App* add_command(CLI::App& app, CtlOptions& options, const char* name, const char* help) {
  CLI::App* const command = app.add_subcommand(name, help);
  command->add_option(
      "--dir", options.dir,
      "runtime directory (default: MODELD_RUNTIME_DIR, /run/modeld, the user's own)");
  command->add_flag("--json", options.json, "one JSON object on stdout and nothing else");
  return command;
}

constexpr const char* kSecondsText = "0.001 to 1000000";

std::string seconds_defect(const std::string& text) {
  return number_defect(text, 0.001, 1e6);
}

void add_seconds(CLI::App* command, CtlOptions& options) {
  command
      ->add_option("--seconds", options.seconds,
                   "how long; watch and record count from the first valid message of both models")
      ->check(seconds_defect, kSecondsText);
}

void add_wait(CLI::App* command, CtlOptions& options) {
  command
      ->add_option("--wait", options.wait_s,
                   "with --seconds: how long to wait for the first valid messages, s")
      ->check(seconds_defect, kSecondsText)
      ->capture_default_str();
}

struct Parsed {
  CLI::App* app;
  Command run;
};

std::vector<Parsed> add_commands(CLI::App& app, CtlOptions& options) {
  CLI::App* const status =
      add_command(app, options, "status", "state of every model, with its reason");
  CLI::App* const watch =
      add_command(app, options, "watch", "live table of road and cabin outputs");
  add_seconds(watch, options);
  add_wait(watch, options);
  watch->add_flag("--summary", options.summary, "end with the figures as one JSON line");
  watch->add_flag("--require", options.require,
                  "like --summary; exit 1 unless both models are READY, were never unavailable, "
                  "run at 19 Hz or more with p99 below 50 ms "
                  "(speed not on simulated devices) and the outputs change");
  watch->add_option("--record", options.file, "also write a recording to this file");
  CLI::App* const metrics = add_command(
      app, options, "metrics", "counters and latencies: the Prometheus text of metrics.sock");
  CLI::App* const trace =
      add_command(app, options, "trace", "last seconds of the daemon as a Perfetto trace");
  trace->add_option("FILE", options.file, "file to write")->required();
  CLI::App* const record = add_command(
      app, options, "record",
      "accepted runs since a reset (start it before the model is WARMING; needs publish.raw)");
  record->add_option("FILE", options.file, "file to write")->required();
  add_seconds(record, options);
  add_wait(record, options);
  CLI::App* const gate = add_command(
      app, options, "gate",
      "example consumer: may engage / soft or immediate disable, because; exit 0 if it may");
  add_seconds(gate, options);
  return {{status, cmd_status}, {watch, cmd_watch},   {metrics, cmd_metrics},
          {trace, cmd_trace},   {record, cmd_record}, {gate, cmd_gate}};
}

int run_parsed(const std::vector<Parsed>& commands, CtlOptions& options) {
  options.dir = runtime_dir(options.dir);
  for (const Parsed& command : commands) {
    if (command.app->parsed()) return command.run(options);
  }
  return 2;
}

}  // namespace
}  // namespace modeld::ipc

int main(int argc, char** argv) {
  CLI::App app("Client of modeld", "modelctl");
  app.require_subcommand(1);
  app.footer(modeld::env_help());
  modeld::ipc::CtlOptions options;
  const auto commands = modeld::ipc::add_commands(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    return modeld::usage_error("modelctl", error.what(), app.remaining(true));
  }
  return modeld::ipc::run_parsed(commands, options);
}
