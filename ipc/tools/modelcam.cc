// modelcam: camera frame server and vehicle inputs, from a synthetic scene, y4m files or a
// recording.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "hal/base/env.h"
#include "hal/base/usage.h"

#include "ipc/runtime_dir.h"
#include "ipc/tools/camera_args.h"
#include "ipc/tools/camera_loop.h"
#include "ipc/tools/stop_signal.h"

namespace modeld::ipc {
namespace {

int report(const Error& error) {
  std::fprintf(stderr, "modelcam: %s\n", error.what.c_str());
  return error.code == Errc::kInvalid ? 2 : 1;
}

void add_options(CLI::App& app, CameraArgs& args, std::string& dir) {
  app.add_option("--source", args.source,
                 "synth | road=F.y4m,wide=G.y4m,cabin=H.y4m | a recording of modelctl")
      ->capture_default_str();
  app.add_option("--fps", args.fps, "frames a second (default 20)")->check(CLI::Range(1, 1000));
  app.add_option("--streams", args.streams, "which streams to serve (default: all of the source)");
  app.add_option("--vehicle", args.vehicle,
                 "straight | lane-change | uncalibrated | off (default straight)");
  app.add_option("--black-at", args.black_at,
                 "frame id whose middle rows are luma 0 in every stream (nothing else ever is 0)")
      ->check(whole_number_defect);
  app.add_option("--seed", args.seed, "of scene and vehicle (default 1)")
      ->check(whole_number_defect);
  app.add_option("--camera", args.camera, "WxH of the synthetic cameras (default 1928x1208)");
  app.add_option("--frames", args.frames, "stop after this many frames")
      ->check(whole_number_defect);
  app.add_option("--dir", dir, kRuntimeDirHelp);
  app.footer(env_help());
}

int run(const CameraArgs& args, const std::string& dir) {
  auto options = camera_options(args);
  if (!options.ok()) return report(options.error());
  options->dir = runtime_dir(dir);
  install_stop_signals();
  const auto loop = CameraLoop::create(*options);
  if (!loop.ok()) return report(loop.error());
  const auto counts = (*loop)->run();
  if (!counts.ok()) return report(counts.error());
  std::fprintf(
      stderr,
      "modelcam: %llu frames, %llu skipped, %llu lost for slow clients, %llu lost for all\n",
      static_cast<unsigned long long>(counts->frames),
      static_cast<unsigned long long>(counts->skipped),
      static_cast<unsigned long long>(counts->lost_for_slow),
      static_cast<unsigned long long>(counts->lost_for_all));
  return 0;
}

}  // namespace
}  // namespace modeld::ipc

int main(int argc, char** argv) {
  CLI::App app("Camera frame server and vehicle inputs for modeld", "modelcam");
  modeld::ipc::CameraArgs args;
  std::string dir;
  modeld::ipc::add_options(app, args, dir);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    return modeld::usage_error("modelcam", error.what(), app.remaining(true));
  }
  return modeld::ipc::run(args, dir);
}
