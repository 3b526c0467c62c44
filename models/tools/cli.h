// What all modelc subcommands share: exit codes, the --json promise, opening a bundle with its
// signature policy. Contract: with json set, stdout carries one JSON object and
// nothing else; people's text goes to stdout without it, progress and errors to stderr always.
// Threading: one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "hal/base/json.h"
#include "hal/base/status.h"
#include "hal/device.h"

#include "models/bundle/bundle_reader.h"
#include "models/tools/figures.h"

namespace CLI {
class App;
}

namespace modeld::tools {

constexpr int kExitOk = 0;
constexpr int kExitFailed = 1;  // the thing asked for failed
constexpr int kExitUsage = 2;
constexpr int kExitBadBundle = 78;  // bundle that cannot be used here

// One run of the program. A subcommand returns a Status; exit_code says what an error means.
struct Context {
  bool json = false;
  int exit_code = kExitFailed;
  bool has_answered = false;  // an object went out; a failure without one prints {"error": ...}
};

// A subcommand: its name in `app` and what it does when it was chosen.
using Command = std::function<Status(Context&)>;

// Options of subcommands that open bundles.
struct BundleArgs {
  std::string path;
  std::string keys_dir = "/etc/modeld/keys.d";
};
void add_bundle_options(CLI::App& app, BundleArgs& args);
// Opens `uri` for the bundle's thread count; the null device answers with the golden outputs. Sets
// kExitBadBundle when the device does not run what the bundle was built for.
Result<std::unique_ptr<hal::Device>> open_device_for(Context& ctx,
                                                     const bundle::Bundle& b,
                                                     const std::string& uri);
// Sets kExitBadBundle when it fails.
Result<std::unique_ptr<bundle::Bundle>> open_bundle(Context& ctx, const BundleArgs& args);

// stdout: the object on one line, or `text` as it is.
void print_json(Context& ctx, const Json& object);
void print_text(const std::string& text);

}  // namespace modeld::tools
