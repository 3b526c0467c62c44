// modelc sign: puts an Ed25519 signature over the manifest hash into a bundle's header.
#include <CLI/CLI.hpp>

#include "models/bundle/bundle_writer.h"
#include "models/bundle/keys.h"
#include "models/tools/commands.h"

namespace modeld::tools {

Command add_sign(CLI::App& app) {
  struct Args {
    std::string bundle, key;
  };
  auto args = std::make_shared<Args>();
  app.add_option("bundle", args->bundle, "bundle file")->required();
  app.add_option("--key", args->key, "secret key made by modelc keygen")->required();
  return [args](Context& ctx) -> Status {
    ASSIGN_OR_RETURN(const bundle::SecretKey key, bundle::read_secret_key(args->key));
    if (Status s = bundle::sign_bundle(args->bundle, key); !s.ok()) {
      ctx.exit_code = kExitBadBundle;
      return s;
    }
    if (ctx.json) {
      Json out = Json::object();
      out.set("bundle", args->bundle);
      out.set("signed", true);
      print_json(ctx, out);
    } else {
      print_text("signed " + args->bundle + "\n");
    }
    return {};
  };
}

}  // namespace modeld::tools
