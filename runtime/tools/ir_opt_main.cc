// Program ir_opt: see ir_opt.h. Exit codes: 0 ok, 1 a pass or the input failed, 2 usage.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "hal/base/env.h"
#include "hal/base/fs.h"

#include "runtime/tools/ir_opt.h"

namespace modeld::tools {

namespace {

struct Arguments {
  std::string file = "-", target = "cpu";
  std::vector<std::string> passes;
  bool list = false;
  IrOptOptions options;
};

Result<std::string> read_input(const std::string& file) {
  if (file != "-") return read_text(file);
  return std::string(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
}

Status run(Arguments& args) {
  ASSIGN_OR_RETURN(args.options.target, hal::parse_target(args.target));
  if (args.list) {
    for (const PassName& p : ir_opt_passes(args.options))
      std::printf("%-20s %-13s %s\n", p.name.c_str(), p.table.c_str(), p.why.c_str());
    return {};
  }
  ASSIGN_OR_RETURN(const std::string text, read_input(args.file));
  ASSIGN_OR_RETURN(const std::string out, ir_opt(text, args.passes, args.options));
  std::fwrite(out.data(), 1, out.size(), stdout);
  return {};
}

}  // namespace

}  // namespace modeld::tools

int main(int argc, char** argv) {
  using namespace modeld;
  tools::Arguments args;
  CLI::App app("Runs named passes over IR text and prints the result.");
  app.add_option("file", args.file, "IR text as MODELD_DUMP writes it; - is stdin");
  app.add_option("-p,--pass", args.passes, "pass to run, in order; may be repeated");
  app.add_option("--target", args.target, "code generation target (default cpu)");
  app.add_flag("--noopt", args.options.noopt, "no heuristics in apply_opts");
  app.add_flag("--verify-kernel", args.options.verify_kernel, "the input must be a kernel AST");
  app.add_flag("--list", args.list, "list the passes in table order");
  app.footer(env_help());
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  const Status s = tools::run(args);
  if (s.ok()) return 0;
  std::fprintf(stderr, "ir_opt: %s\n", s.error().what.c_str());
  return 1;
}
