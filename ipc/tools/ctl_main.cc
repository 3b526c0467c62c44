// modelctl's command line: the subcommands, their options and help.
#include <CLI/CLI.hpp>

#include "hal/base/env.h"
#include "hal/base/usage.h"

#include "ipc/runtime_dir.h"
#include "ipc/tools/ctl_commands.h"

namespace modeld::ipc {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  modelctl status\n"
    "  modelctl watch --seconds 5 --require\n"
    "  modelctl record drive.rec --seconds 60\n"
    "  modelctl gate --seconds 10 --model road\n";
constexpr const char* kExitCodes =
    "\nExit codes: 0 ok (gate: may engage; watch --require: all is well), 1 the thing asked for "
    "failed, 2 usage.";

using Command = int (*)(const CtlOptions&);

CLI::App* add_command(CLI::App& app, CtlOptions& options, const char* name, const char* help) {
  CLI::App* const command = app.add_subcommand(name, help);
  command->add_option("--dir", options.dir, kRuntimeDirHelp);
  command->add_flag("--json", options.json, "one JSON object on stdout and nothing else");
  return command;
}

std::string seconds_defect(const std::string& text) {
  return number_defect(text, 0.001, 1e6);
}

void add_seconds(CLI::App* command, CtlOptions& options, const char* help) {
  command->add_option("--seconds", options.seconds, help)
      ->check(seconds_defect, "0.001 to 1000000");
}

// For watch and record, which wait for outputs first.
void add_times(CLI::App* command, CtlOptions& options) {
  add_seconds(command, options,
              "how long, from the first valid message of every model that counts; without it: "
              "until a signal");
  command
      ->add_option("--wait", options.wait_s,
                   "with --seconds: how long to wait for the first valid messages, s")
      ->check(seconds_defect, "0.001 to 1000000")
      ->capture_default_str();
}

void add_model(CLI::App* command, CtlOptions& options, const char* without) {
  command
      ->add_option("--model", options.models,
                   std::string("a model that counts, may be given twice; without it: ") + without)
      ->check(CLI::IsMember({"road", "cabin"}))
      ->expected(1)
      ->take_all();
}

struct Parsed {
  CLI::App* app;
  Command run;
};

Parsed add_watch(CLI::App& app, CtlOptions& options) {
  CLI::App* const watch =
      add_command(app, options, "watch", "live table of road and cabin outputs");
  add_times(watch, options);
  add_model(watch, options, "those that modeld runs, with --require both");
  watch->add_flag("--summary", options.summary, "end with the figures as one JSON line");
  watch->add_flag("--require", options.require,
                  "like --summary; exit 1 unless the models are READY, were never unavailable, "
                  "run at 19 Hz or more with p99 below 50 ms "
                  "(speed not on simulated devices) and the outputs change");
  watch->add_option("--record", options.file, "also write a recording to this file");
  return {watch, cmd_watch};
}

Parsed add_record(CLI::App& app, CtlOptions& options) {
  CLI::App* const record = add_command(
      app, options, "record",
      "accepted runs since a reset (start it before the model is WARMING; needs publish.raw)");
  record->add_option("FILE", options.file, "file to write")->required();
  add_times(record, options);
  add_model(record, options, "those that modeld runs");
  return {record, cmd_record};
}

Parsed add_gate(CLI::App& app, CtlOptions& options) {
  CLI::App* const gate = add_command(
      app, options, "gate",
      "example consumer: may engage / soft or immediate disable, because; exit 0 if it may");
  add_seconds(gate, options,
              "follow that long, a line for each change; without it: one line, as soon as it may "
              "engage, after 1 s at the latest");
  add_model(gate, options, "both");
  return {gate, cmd_gate};
}

// In the order of --help.
std::vector<Parsed> add_commands(CLI::App& app, CtlOptions& options) {
  std::vector<Parsed> out;
  out.push_back(
      {add_command(app, options, "status", "state of every model, with its reason"), cmd_status});
  out.push_back(add_watch(app, options));
  out.push_back({add_command(app, options, "metrics",
                             "counters and latencies: the Prometheus text of metrics.sock"),
                 cmd_metrics});
  CLI::App* const trace =
      add_command(app, options, "trace", "last seconds of the daemon as a Perfetto trace");
  trace->add_option("FILE", options.file, "file to write")->required();
  out.push_back({trace, cmd_trace});
  out.push_back(add_record(app, options));
  out.push_back(add_gate(app, options));
  return out;
}

}  // namespace

int modelctl_main(int argc, const char* const* argv) {
  CLI::App app("Client of modeld", "modelctl");
  app.require_subcommand(1);
  app.footer(kExamples + ("\n" + env_help()) + kExitCodes);
  CtlOptions options;
  const std::vector<Parsed> commands = add_commands(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    return usage_error("modelctl", error.what(), app.remaining(true));
  }
  options.dir = runtime_dir(options.dir);
  for (const Parsed& command : commands) {
    if (command.app->parsed()) return command.run(options);
  }
  return 2;
}

}  // namespace modeld::ipc
