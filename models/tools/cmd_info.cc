// modelc info: identity, interface, entry points, kernels, memory of a bundle.
#include <CLI/CLI.hpp>

#include "models/tools/bundle_info.h"
#include "models/tools/commands.h"

namespace modeld::tools {

Command add_info(CLI::App& app) {
  auto args = std::make_shared<BundleArgs>();  // outlives the parser: the command runs after it
  add_bundle_options(app, *args);
  return [args](Context& ctx) -> Status {
    ASSIGN_OR_RETURN(const auto b, open_bundle(ctx, *args));
    if (ctx.json)
      print_json(ctx, info_json(*b));
    else
      print_text(info_text(*b));
    return {};
  };
}

}  // namespace modeld::tools
