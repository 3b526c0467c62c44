#include "ipc/tools/camera_args.h"

#include <unistd.h>

#include <algorithm>
#include <limits>

#include "hal/base/fs.h"
#include "hal/base/text.h"

#include "ipc/recording.h"

namespace modeld::ipc {
namespace {

Result<std::string> absolute_path(const std::string& path) {
  if (path.starts_with('/')) return path;
  char dir[4096];
  if (getcwd(dir, sizeof(dir)) == nullptr)
    return fail_errno(Errc::kIo, "finding the working directory", errno);
  return join_path(dir, path);
}

// road=F.y4m,wide=G.y4m
Status take_files(const std::string& text, SourceSpec& spec) {
  spec.synth = false;
  for (const std::string& part : split(text, ',')) {
    const size_t equals = part.find('=');
    const auto stream = parse_stream(std::string_view(part).substr(0, equals));
    if (equals == std::string::npos || !stream.has_value())
      return fail(Errc::kInvalid,
                  "--source: \"" + part + "\" is not road=FILE, wide=FILE or cabin=FILE");
    StreamSource& to = spec.streams[static_cast<size_t>(*stream)];
    if (to.present) return fail(Errc::kInvalid, "--source: " + part + ": stream named twice");
    to.present = true;
    ASSIGN_OR_RETURN(to.path, absolute_path(part.substr(equals + 1)));
  }
  return {};
}

Status take_geometry(const std::string& text, SourceSpec& spec) {
  const auto dims = parse_dims(text);
  if (!dims.ok() || dims->size() != 2)
    return fail(Errc::kInvalid, "--camera " + text + ": want WxH");
  for (StreamSource& stream : spec.streams) {
    stream.present = true;
    stream.width = static_cast<uint32_t>(std::clamp<int64_t>((*dims)[0], 0, kMaxFrameSide + 1));
    stream.height = static_cast<uint32_t>(std::clamp<int64_t>((*dims)[1], 0, kMaxFrameSide + 1));
  }
  const auto geometry = nv12_geometry(spec.streams[0].width, spec.streams[0].height);
  return geometry.ok() ? Status() : Status(fail(Error(geometry.error()).with("--camera " + text)));
}

Status keep_streams(const std::string& text, SourceSpec& spec) {
  std::array<bool, kStreamCount> keep{};
  for (const std::string& name : split(text, ',')) {
    const auto stream = parse_stream(name);
    if (!stream.has_value())
      return fail(Errc::kInvalid, "--streams: \"" + name + "\" is not road, wide or cabin");
    const auto i = static_cast<size_t>(*stream);
    if (!spec.streams[i].present)
      return fail(Errc::kInvalid, "--streams: the source has no " + name);
    keep[i] = true;
  }
  for (size_t i = 0; i < kStreamCount; ++i) {
    if (!keep[i]) spec.streams[i] = StreamSource();
  }
  return {};
}

// A recording plays the frames that its runs used, then ends.
Result<CameraOptions> from_recording(const CameraArgs& args) {
  if (args.vehicle || args.black_at || args.seed || args.camera || args.streams)
    return fail(Errc::kInvalid,
                "--source RECORDING takes streams, vehicle, seed and camera from the file; only "
                "--fps, --frames and --dir go with it");
  ASSIGN_OR_RETURN(const Recording recording, read_recording(args.source));
  CameraOptions out;
  ASSIGN_OR_RETURN(out.source, parse_source(recording.source));
  if (args.fps) out.source.fps = *args.fps;
  uint64_t first = std::numeric_limits<uint64_t>::max();
  uint64_t last = 0;
  for (const RecordedRun& run : recording.runs) {
    first = std::min(first, run.frame_id);
    last = std::max(last, run.frame_id);
  }
  if (recording.runs.empty()) return fail(Errc::kNotFound, args.source + ": recording has no runs");
  out.first_frame = first;
  out.frames = args.frames.value_or(last - first + 1);
  return out;
}

}  // namespace

Result<CameraOptions> camera_options(const CameraArgs& args) {
  const bool is_files = args.source.find('=') != std::string::npos;
  if (args.source != "synth" && !is_files) return from_recording(args);
  CameraOptions out;
  if (is_files) {
    if (args.camera)
      return fail(Errc::kInvalid,
                  "--camera goes with --source synth only: files have their own size");
    RETURN_IF_ERROR(take_files(args.source, out.source));
  } else {
    RETURN_IF_ERROR(take_geometry(args.camera.value_or("1928x1208"), out.source));
  }
  if (args.streams) RETURN_IF_ERROR(keep_streams(*args.streams, out.source));
  if (args.vehicle) {
    const auto pattern = parse_vehicle_pattern(*args.vehicle);
    if (!pattern.has_value())
      return fail(Errc::kInvalid, "--vehicle " + *args.vehicle +
                                      ": want straight, lane-change, uncalibrated or off");
    out.source.vehicle = *pattern;
  }
  out.source.fps = args.fps.value_or(20);
  out.source.seed = args.seed.value_or(1);
  out.source.black_at = args.black_at;
  out.frames = args.frames;
  const auto text = format_source(out.source);
  if (!text.ok()) return fail(Error(text.error()));
  return out;
}

}  // namespace modeld::ipc
