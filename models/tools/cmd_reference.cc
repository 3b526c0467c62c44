// modelc reference: seeded stand-in ONNX models with the interface of the road and cabin models.
#include <CLI/CLI.hpp>

#include "hal/base/usage.h"

#include "models/reference/reference.h"
#include "models/tools/commands.h"

namespace modeld::tools {
namespace {

struct Args {
  std::string role, size = "small", dtype = "f32", variant = "clean", output;
  uint64_t seed = 0;
};

Status run(const Args& args, Context& ctx) {
  reference::ReferenceOptions options;
  options.seed = args.seed;
  ASSIGN_OR_RETURN(options.role, reference::parse_role(args.role));
  ASSIGN_OR_RETURN(options.size, reference::parse_size(args.size));
  ASSIGN_OR_RETURN(options.dtype, reference::parse_dtype(args.dtype));
  ASSIGN_OR_RETURN(options.variant, reference::parse_variant(args.variant));
  ASSIGN_OR_RETURN(const reference::ReferenceModel model,
                   reference::write_reference(options, args.output));
  if (!ctx.json) {
    print_text(strf("wrote %s: stand-in %s %s %s %s, %s, %llu parameters, %zu slices\n",
                    args.output.c_str(), args.role.c_str(), args.size.c_str(), args.dtype.c_str(),
                    args.variant.c_str(), flops_text(model.flops()).c_str(),
                    static_cast<unsigned long long>(model.parameters), model.slices.size()));
    return {};
  }
  Json out = Json::object();
  out.set("file", args.output);
  out.set("bytes", model.onnx.size());
  out.set("flops", model.flops());
  out.set("parameters", model.parameters);
  out.set("context_frames", model.context_frames);
  Json ops = Json::object();
  for (const auto& [op, n] : model.op_counts) ops.set(op, n);
  out.set("ops", std::move(ops));
  print_json(ctx, out);
  return {};
}

}  // namespace

Command add_reference(CLI::App& app) {
  auto args = std::make_shared<Args>();
  app.add_option("role", args->role, "road or cabin")
      ->required()
      ->check(CLI::IsMember({"road", "cabin"}));
  app.add_option("--size", args->size, "tiny, small or full")
      ->capture_default_str()
      ->check(CLI::IsMember({"tiny", "small", "full"}));
  app.add_option("--dtype", args->dtype, "f32 or f16")
      ->capture_default_str()
      ->check(CLI::IsMember({"f32", "f16"}));
  app.add_option("--variant", args->variant,
                 "what goes wrong when the camera shows a zero pixel: "
                 "clean, nan, nan-state, inf-slice or zero")
      ->capture_default_str()
      ->check(CLI::IsMember({"clean", "nan", "nan-state", "inf-slice", "zero"}));
  app.add_option("--seed", args->seed, "of the weights")
      ->capture_default_str()
      ->check(whole_number_defect);
  app.add_option("-o,--output", args->output, "ONNX file to write")->required();
  return [args](Context& ctx) { return run(*args, ctx); };
}

}  // namespace modeld::tools
