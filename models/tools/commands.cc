#include "models/tools/commands.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <memory>

#include "hal/base/env.h"
#include "hal/base/trace.h"
#include "hal/base/usage.h"

namespace modeld::tools {
namespace {

constexpr CommandEntry kCommands[] = {
    {"build", "compile an ONNX model into a bundle",
     "modelc build road.onnx --target cpu --role road -o road.bundle", add_build},
    {"info", "show what a bundle holds", "modelc info road.bundle --json", add_info},
    {"run", "run a bundle once or many times",
     "modelc run m.bundle --input x=x.npy --output out --repeat 100", add_run},
    {"check", "compare a bundle's numbers with the reference",
     "modelc check road.bundle --device cpu --layers", add_check},
    {"prepare", "compile the calls that lack a binary on this device",
     "modelc prepare road.bundle --device cpu -o complete.bundle", add_prepare},
    {"reference", "make a stand-in ONNX model",
     "modelc reference road --size small --dtype f32 -o road.onnx", add_reference},
    {"keygen", "make an Ed25519 key pair", "modelc keygen -o fleet", add_keygen},
    {"sign", "sign a bundle", "modelc sign road.bundle --key fleet", add_sign},
    {"verify", "verify a bundle's signature", "modelc verify road.bundle --keys keys.d",
     add_verify},
};

std::string examples() {
  std::string text = "Examples:\n";
  for (const CommandEntry& c : kCommands) text += std::string("  ") + c.example + "\n";
  return text + "\n" + env_help() +
         "\nExit codes: 0 ok, 1 the thing asked for failed, 2 usage, 78 bad bundle.";
}

struct Parsed {
  CLI::App* app = nullptr;
  Command run;
};

int run_command(const Parsed& chosen, bool json) {
  Context ctx;
  ctx.json = json;
  const Status s = chosen.run(ctx);
  if (s.ok()) return kExitOk;
  if (ctx.json && !ctx.has_answered) {
    Json out = Json::object();
    out.set("error", s.error().what);
    print_json(ctx, out);
  }
  std::fprintf(stderr, "modelc %s: %s\n", chosen.app->get_name().c_str(), s.error().what.c_str());
  return ctx.exit_code;
}

}  // namespace

std::span<const CommandEntry> command_table() {
  return kCommands;
}

int modelc_main(int argc, const char* const* argv) {
  CLI::App app("modelc: compiles ONNX models into bundles, and runs, checks and signs bundles",
               "modelc");
  app.require_subcommand(1);
  app.footer(examples());
  bool json = false;
  std::vector<Parsed> commands;
  for (const CommandEntry& c : kCommands) {
    CLI::App* sub = app.add_subcommand(c.name, c.help);
    sub->footer(std::string("Example:\n  ") + c.example);
    sub->add_flag("--json", json, "print one JSON object and nothing else");
    commands.push_back({sub, c.add(*sub)});
  }
  const TraceFile trace;
  try {
    app.parse(argc, argv);
    for (const Parsed& p : commands)
      if (p.app->parsed()) return run_command(p, json);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);
    return usage_error("modelc", e.what(), app.remaining(true));
  } catch (const std::exception& e) {  // of a library: none of ours throws
    std::fprintf(stderr, "modelc: %s\n", e.what());
    return kExitFailed;
  }
  return kExitUsage;
}

}  // namespace modeld::tools
