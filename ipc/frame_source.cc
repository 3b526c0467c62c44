#include "ipc/frame_source.h"

#include <cstring>

#include "hal/base/text.h"

#include "ipc/synth_scene.h"
#include "ipc/y4m.h"

namespace modeld::ipc {
namespace {

// The handshake's limit (ipc/frame_protocol.h), repeated here because this library does not talk to
// anybody.
constexpr size_t kMaxSourceBytes = 512;

class SynthSource final : public FrameSource {
 public:
  explicit SynthSource(const SourceSpec& spec) : FrameSource(spec) {}
  Status init() {
    for (size_t i = 0; i < kStreamCount; ++i) {
      const StreamSource& from = spec_.streams[i];
      if (!from.present) continue;
      ASSIGN_OR_RETURN(const Nv12Geometry geometry, nv12_geometry(from.width, from.height));
      set_info(static_cast<StreamId>(i), geometry);
      scenes_[i] = std::make_unique<SynthScene>(spec_.seed, static_cast<StreamId>(i), geometry);
    }
    return {};
  }
  Status draw(StreamId stream, uint64_t frame_id, std::span<uint8_t> nv12) override {
    const auto& scene = scenes_[static_cast<size_t>(stream)];
    RETURN_IF_ERROR(check_buffer(stream, nv12));
    scene->draw(frame_id, spec_.black_at == frame_id, nv12);
    return {};
  }

 private:
  std::array<std::unique_ptr<SynthScene>, kStreamCount> scenes_;
};

class Y4mSource final : public FrameSource {
 public:
  explicit Y4mSource(const SourceSpec& spec) : FrameSource(spec) {}
  Status init() {
    for (size_t i = 0; i < kStreamCount; ++i) {
      if (!spec_.streams[i].present) continue;
      ASSIGN_OR_RETURN(Y4mReader reader, Y4mReader::open(spec_.streams[i].path));
      set_info(static_cast<StreamId>(i), reader.geometry());
      readers_[i] = std::make_unique<Y4mReader>(std::move(reader));
    }
    return {};
  }
  Status draw(StreamId stream, uint64_t frame_id, std::span<uint8_t> nv12) override {
    RETURN_IF_ERROR(check_buffer(stream, nv12));
    RETURN_IF_ERROR(readers_[static_cast<size_t>(stream)]->read(frame_id, nv12));
    if (spec_.black_at != frame_id) return {};
    // As the synthetic scene does it: luma 0 in the middle half of rows.
    const Nv12Geometry& g = readers_[static_cast<size_t>(stream)]->geometry();
    std::memset(nv12.data() + size_t{g.height / 4} * g.stride, 0, size_t{g.height / 2} * g.stride);
    return {};
  }

 private:
  std::array<std::unique_ptr<Y4mReader>, kStreamCount> readers_;
};

Result<uint64_t> parse_number(const std::string& key, const std::string& value) {
  const auto number = parse_int(value);
  if (!number.ok() || *number < 0)
    return fail(Errc::kInvalid,
                strf("source string: %s=%s is not a number from 0", key.c_str(), value.c_str()));
  return static_cast<uint64_t>(*number);
}

Status parse_stream_value(bool synth, const std::string& value, StreamSource& out) {
  if (out.present) return fail(Errc::kInvalid, "source string: a stream twice");
  out.present = true;
  if (!synth) {
    out.path = value;
    return value.empty() ? Status(fail(Errc::kInvalid, "source string: empty path")) : Status();
  }
  const auto dims = parse_dims(value);
  if (!dims.ok() || dims->size() != 2 || (*dims)[0] < 0 || (*dims)[1] < 0 ||
      (*dims)[0] > kMaxFrameSide || (*dims)[1] > kMaxFrameSide)
    return fail(Errc::kInvalid, strf("source string: geometry %s, want WxH", value.c_str()));
  out.width = static_cast<uint32_t>((*dims)[0]);
  out.height = static_cast<uint32_t>((*dims)[1]);
  const auto geometry = nv12_geometry(out.width, out.height);
  return geometry.ok() ? Status() : Status(fail(Error(geometry.error()).with("source string")));
}

Status parse_field(const std::string& key, const std::string& value, SourceSpec& out) {
  if (const auto stream = parse_stream(key))
    return parse_stream_value(out.synth, value, out.streams[static_cast<size_t>(*stream)]);
  if (key == "vehicle") {
    const auto pattern = parse_vehicle_pattern(value);
    if (!pattern.has_value())
      return fail(Errc::kInvalid, strf("source string: vehicle=%s is unknown", value.c_str()));
    out.vehicle = *pattern;
    return {};
  }
  ASSIGN_OR_RETURN(const uint64_t number, parse_number(key, value));
  if (key == "seed") {
    out.seed = number;
  } else if (key == "black_at") {
    out.black_at = number;
  } else if (key == "fps" && number >= 1 && number <= 1000) {
    out.fps = static_cast<uint32_t>(number);
  } else {
    return fail(Errc::kInvalid, strf("source string: %s=%s is unknown or out of range", key.c_str(),
                                     value.c_str()));
  }
  return {};
}

}  // namespace

Result<std::string> format_source(const SourceSpec& spec) {
  std::string out = spec.synth ? "synth" : "y4m";
  out += strf(";seed=%llu;vehicle=%s;fps=%u", static_cast<unsigned long long>(spec.seed),
              vehicle_pattern_name(spec.vehicle), spec.fps);
  for (size_t i = 0; i < kStreamCount; ++i) {
    const StreamSource& stream = spec.streams[i];
    if (!stream.present) continue;
    out += strf(";%s=", stream_name(static_cast<StreamId>(i)));
    out += spec.synth ? strf("%ux%u", stream.width, stream.height) : stream.path;
  }
  if (spec.black_at.has_value())
    out += strf(";black_at=%llu", static_cast<unsigned long long>(*spec.black_at));
  // Reading it back catches what the format cannot carry: a ';' in a path, control characters.
  const auto again = parse_source(out);
  if (!again.ok()) return fail(Error(again.error()));
  if (!(*again == spec))
    return fail(Errc::kInvalid, "source string cannot carry this source: " + out);
  return out;
}

Result<SourceSpec> parse_source(std::string_view text) {
  if (text.size() > kMaxSourceBytes)
    return fail(Errc::kInvalid,
                strf("source string of %zu bytes, limit %zu", text.size(), kMaxSourceBytes));
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      return fail(Errc::kInvalid, "source string has control characters");
  }
  const std::vector<std::string> parts = split(text, ';');
  if (parts.empty() || (parts[0] != "synth" && parts[0] != "y4m"))
    return fail(Errc::kInvalid, strf("source string \"%.*s\": want synth;... or y4m;...",
                                     static_cast<int>(text.size()), text.data()));
  SourceSpec out;
  out.synth = parts[0] == "synth";
  for (size_t i = 1; i < parts.size(); ++i) {
    const size_t equals = parts[i].find('=');
    if (equals == std::string::npos)
      return fail(Errc::kInvalid, strf("source string: \"%s\" is not key=value", parts[i].c_str()));
    RETURN_IF_ERROR(parse_field(parts[i].substr(0, equals), parts[i].substr(equals + 1), out));
  }
  bool any = false;
  for (const StreamSource& stream : out.streams) any = any || stream.present;
  if (!any) return fail(Errc::kInvalid, "source string names no stream");
  return out;
}

Result<std::unique_ptr<FrameSource>> FrameSource::open(const SourceSpec& spec) {
  if (spec.synth) {
    auto source = std::make_unique<SynthSource>(spec);
    RETURN_IF_ERROR(source->init());
    return source;
  }
  auto source = std::make_unique<Y4mSource>(spec);
  RETURN_IF_ERROR(source->init());
  return source;
}

const StreamInfo* FrameSource::stream(StreamId stream) const {
  const auto i = static_cast<size_t>(stream);
  return spec_.streams[i].present ? &infos_[i] : nullptr;
}

void FrameSource::set_info(StreamId stream, const Nv12Geometry& geometry) {
  StreamInfo& info = infos_[static_cast<size_t>(stream)];
  info.stream = stream;
  info.geometry = geometry;
  info.intrinsics = default_intrinsics(stream, geometry.width, geometry.height);
  info.fps = spec_.fps;
}

Status FrameSource::check_buffer(StreamId stream, std::span<const uint8_t> nv12) const {
  const StreamInfo* const info = this->stream(stream);
  if (info == nullptr)
    return fail(Errc::kNotFound, strf("source has no %s stream", stream_name(stream)));
  if (nv12.size() < info->geometry.size)
    return fail(Errc::kInvalid, strf("%s buffer of %zu bytes, need %u", stream_name(stream),
                                     nv12.size(), info->geometry.size));
  return {};
}

}  // namespace modeld::ipc
