// modelc keygen: an Ed25519 key pair, K (secret, mode 0600) and K.pub.
#include <CLI/CLI.hpp>

#include "models/bundle/keys.h"
#include "models/tools/commands.h"

namespace modeld::tools {

Command add_keygen(CLI::App& app) {
  auto path = std::make_shared<std::string>();
  app.add_option("-o,--output", *path, "file for the secret key; the public one gets .pub")
      ->required();
  return [path](Context& ctx) -> Status {
    ASSIGN_OR_RETURN(const bundle::SecretKey key, bundle::make_key());
    RETURN_IF_ERROR(bundle::write_key(*path, key));
    if (ctx.json) {
      Json out = Json::object();
      out.set("secret", *path);
      out.set("public", *path + ".pub");
      print_json(ctx, out);
    } else {
      print_text("wrote " + *path + " (keep it secret) and " + *path +
                 ".pub (goes into the keys directory of every device)\n");
    }
    return {};
  };
}

}  // namespace modeld::tools
