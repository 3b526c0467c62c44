#include "models/tools/cli.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "hal/backends.h"
#include "hal/base/env.h"

#include "models/bundle/golden_answers.h"

namespace modeld::tools {

void add_bundle_options(CLI::App& app, BundleArgs& args) {
  app.add_option("bundle", args.path, "bundle file")->required();
  app.add_option("--keys", args.keys_dir, "directory of *.pub keys for signed bundles")
      ->capture_default_str();
}

Result<std::unique_ptr<bundle::Bundle>> open_bundle(Context& ctx, const BundleArgs& args) {
  bundle::OpenOptions options;
  options.keys_dir = args.keys_dir;
  auto b = bundle::Bundle::open(args.path, options);
  if (!b.ok()) ctx.exit_code = kExitBadBundle;
  return b;
}

Result<std::unique_ptr<hal::Device>> open_device_for(Context& ctx,
                                                     const bundle::Bundle& b,
                                                     const std::string& uri) {
  hal::DeviceConfig config;
  config.profile = debug_level() >= 2;
  config.threads = b.manifest().plan.target.threads;
  config.on_null_run = bundle::golden_answers(b);
  ASSIGN_OR_RETURN(auto device, hal::open_device(uri, config));
  if (Status s = bundle::check_target(b.manifest(), device->info(), b.name()); !s.ok()) {
    ctx.exit_code = kExitBadBundle;
    return fail(std::move(s).error());
  }
  return device;
}

void print_json(Context& ctx, const Json& object) {
  ctx.has_answered = true;
  print_text(object.dump() + "\n");
}

void print_text(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace modeld::tools
