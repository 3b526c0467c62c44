// modelc verify: the bundle is whole and one of the keys signed it.
#include <CLI/CLI.hpp>

#include "models/tools/commands.h"

namespace modeld::tools {

Command add_verify(CLI::App& app) {
  auto args = std::make_shared<BundleArgs>();
  app.add_option("bundle", args->path, "bundle file")->required();
  app.add_option("--keys", args->keys_dir, "directory of *.pub keys")->required();
  return [args](Context& ctx) -> Status {
    bundle::OpenOptions options;
    options.keys_dir = args->keys_dir;
    options.require_signature = true;
    auto b = bundle::Bundle::open(args->path, options);
    if (!b.ok()) {
      ctx.exit_code = kExitBadBundle;
      return fail(std::move(b).error());
    }
    if (ctx.json) {
      Json out = Json::object();
      out.set("bundle", args->path);
      out.set("verified", true);
      out.set("key", (*b)->signed_by());
      print_json(ctx, out);
    } else {
      print_text(args->path + " is whole and signed by " + (*b)->signed_by() + "\n");
    }
    return {};
  };
}

}  // namespace modeld::tools
