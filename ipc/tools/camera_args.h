// modelcam's command line as a source: words in, SourceSpec and frame range out.
// Threading: pure functions (they read files named by the words).
#pragma once

#include <optional>
#include <string>

#include "hal/base/status.h"

#include "ipc/frame_source.h"
#include "ipc/tools/camera_loop.h"

namespace modeld::ipc {

// Unset means: not given.
struct CameraArgs {
  std::string source = "synth";
  std::optional<uint32_t> fps;
  std::optional<std::string> streams;
  std::optional<std::string> vehicle;
  std::optional<uint64_t> black_at;
  std::optional<uint64_t> seed;
  std::optional<std::string> camera;
  std::optional<uint64_t> frames;
};

// `dir` is left empty. kInvalid: the words are wrong (usage); other errors: what they name is.
Result<CameraOptions> camera_options(const CameraArgs& args);

}  // namespace modeld::ipc
