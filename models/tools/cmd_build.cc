// modelc build: ONNX file to bundle, with a self-check before the file gets its name.
#include <CLI/CLI.hpp>

#include "hal/base/fs.h"
#include "hal/base/text.h"

#include "runtime/compile/compiler.h"
#include "runtime/exec/lower_and_compile.h"

#include "models/tools/build_model.h"
#include "models/tools/commands.h"
#include "models/tools/progress.h"

namespace modeld::tools {
namespace {

struct Args {
  std::string onnx, target = "cpu", output, role = "generic", camera = "1928x1208,1344x760";
  std::string renderer, self_check = "quick", report, opts_from;
  std::vector<std::string> shapes;
  int threads = 2, jobs = 2, beam = 0;
};

Status parse_shapes(const std::vector<std::string>& texts, BuildOptions& options) {
  for (const std::string& text : texts) {
    const size_t eq = text.rfind('=');
    if (eq == std::string::npos || eq == 0)
      return fail(Errc::kInvalid, strf("--shape %s: expected NAME=1x3x320x320", text.c_str()));
    auto dims = parse_dims(text.substr(eq + 1));
    if (!dims.ok()) return fail(std::move(dims).error().with("--shape " + text));
    if (!options.shapes.emplace(text.substr(0, eq), std::move(*dims)).second)
      return fail(Errc::kInvalid, strf("--shape %s: this input has a shape already", text.c_str()));
  }
  return {};
}

// M.onnx -> M.bundle.
std::string default_output(const std::string& onnx) {
  const std::string stem = onnx.ends_with(".onnx") ? onnx.substr(0, onnx.size() - 5) : onnx;
  return stem + ".bundle";
}

Result<BuildOptions> parse(const Args& args) {
  BuildOptions out;
  out.onnx_path = args.onnx;
  out.output_path = args.output.empty() ? default_output(args.onnx) : args.output;
  ASSIGN_OR_RETURN(out.target, hal::parse_target(args.target));
  if (out.target.is_cpu()) {
    out.target.renderer = args.renderer.empty() ? "c" : args.renderer;
    out.target.threads = args.threads;
  } else if (!args.renderer.empty()) {
    return fail(Errc::kInvalid, strf("--renderer %s is for CPU targets; %s has one renderer",
                                     args.renderer.c_str(), args.target.c_str()));
  }
  ASSIGN_OR_RETURN(out.role, bundle::parse_role(args.role));
  ASSIGN_OR_RETURN(out.self_check, bundle::parse_self_check(args.self_check));
  ASSIGN_OR_RETURN(out.cameras, parse_cameras(args.camera));
  RETURN_IF_ERROR(parse_shapes(args.shapes, out));
  out.jobs = args.jobs;
  out.beam = args.beam;
  out.report_dir = args.report;
  return out;
}

// The opts another bundle recorded.
Result<exec::Recipes> read_recipes(const std::string& path, Context& ctx) {
  ASSIGN_OR_RETURN(const auto b, open_bundle(ctx, {path}));
  auto recipes = exec::recipes_of(b->to_plan(true));
  if (!recipes.ok()) ctx.exit_code = kExitBadBundle;
  return recipes;
}

// Found out before the import, and with what helps.
Status check_compiler(const hal::Target& target) {
  const bool needs_clang = target.renderer == "c" || target.kind == "amd";
  if (!needs_clang) return {};
  ASSIGN_OR_RETURN(const hal::Target host, hal::parse_target("cpu"));
  auto compiler = compile::make_clang_compiler(host);  // one program compiles for all of them
  if (compiler.ok() || compiler.error().code != Errc::kNotFound) return {};
  exec::CompileOptions own;
  own.target = target;
  own.target.renderer = "x86";
  const bool x86_serves = target.is_cpu() && exec::make_codegen_options(own).ok();
  compiler.error().what += x86_serves ? " (apt install clang-19, or build with --renderer x86)"
                                      : " (apt install clang-19)";
  return fail(std::move(compiler).error());
}

Status run(const Args& args, Context& ctx) {
  auto options = parse(args);
  if (!options.ok()) {
    ctx.exit_code = kExitUsage;
    return fail(std::move(options).error());
  }
  RETURN_IF_ERROR(check_compiler(options->target));
  if (!args.opts_from.empty()) {
    auto recipes = read_recipes(args.opts_from, ctx);
    if (!recipes.ok()) return fail(std::move(recipes).error().with("--opts-from"));
    options->recipes = std::move(*recipes);
  }
  Progress progress;
  options->progress = [&](const std::string& stage, size_t done, size_t total) {
    progress.show(stage, done, total);
  };
  auto report = build_model(*options);
  progress.clear();
  if (!report.ok()) return fail(std::move(report).error().with(args.onnx));
  if (ctx.json)
    print_json(ctx, report_json(*options, *report));
  else
    print_text(report_line(*options, *report));
  return {};
}

}  // namespace

Command add_build(CLI::App& app) {
  auto args = std::make_shared<Args>();
  app.add_option("model", args->onnx, "ONNX file")->required();
  app.add_option("--target", args->target,
                 "cpu (this host), cpu:x86-64-v3, cpu:aarch64, cl, amd:gfx1100, amd:gfx1201; "
                 "not built yet: qcom:a630, qcom:sim")
      ->required();
  app.add_option("-o,--output", args->output, "bundle to write (default: model's name + .bundle)");
  app.add_option("--role", args->role, "road, cabin or generic")->capture_default_str();
  app.add_option("--shape", args->shapes, "NAME=1x3x320x320: binds an input's dynamic dimensions")
      ->expected(1)
      ->take_all();
  app.add_option("--camera", args->camera, "camera sizes WxH,... that get a warp (road, cabin)")
      ->capture_default_str();
  app.add_option("--renderer", args->renderer, "c (default) or x86; CPU targets only")
      ->check(CLI::IsMember({"c", "x86"}));
  app.add_option("--threads", args->threads, "core ranges of a parallel kernel; CPU targets only")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  app.add_option("--jobs", args->jobs, "compiler processes")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  auto* beam = app.add_option("--beam", args->beam,
                              "search each kernel's opts: keep the N best lists per round, times "
                              "taken on this machine; 0: opts by rule. Slow the first time, cached "
                              "afterwards; never slower than the rule")
                   ->option_text("N")
                   ->check(CLI::Range(0, 64));
  app.add_option(
         "--opts-from", args->opts_from,
         "bundle whose recorded opts are repeated, kernel by kernel: the same program bytes "
         "for the same model, role, shapes and cameras. A kernel that it does not have is an "
         "error")
      ->option_text("B")
      ->excludes(beam);
  app.add_option("--self-check", args->self_check, "quick or full")
      ->capture_default_str()
      ->check(CLI::IsMember({"quick", "full"}));
  app.add_option("--report", args->report,
                 "folder that receives index.html (one page: caches, memory, kernels with sources) "
                 "and arena.svg (the arenas over time)")
      ->option_text("DIR");
  return [args](Context& ctx) { return run(*args, ctx); };
}

}  // namespace modeld::tools
