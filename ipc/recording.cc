#include "ipc/recording.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "hal/base/bytes.h"
#include "hal/base/fs.h"
#include "hal/base/hash.h"

namespace modeld::ipc {
namespace {

constexpr char kMagic[8] = {'M', 'D', 'L', 'D', 'R', 'E', 'C', '1'};
constexpr uint32_t kVersion = 1;
constexpr uint32_t kRunMark = 0x204e5552;  // "RUN "
constexpr uint32_t kEndMark = 0x20444e45;  // "END "
constexpr size_t kMaxSource = 512;
constexpr size_t kHashBytes = 16;

void put_vehicle(ByteWriter& out, const VehicleInputs& v) {
  out.write(v.time_ns);
  out.write(static_cast<uint8_t>(v.calibration_known));
  out.write(static_cast<uint8_t>(v.right_hand_drive));
  for (const float f : v.rpy_calibration) out.write(f);
  for (const float f : v.desire) out.write(f);
  out.write(v.lateral_action_time);
  out.write(v.longitudinal_action_time);
  out.write(v.speed);
}

Result<bool> read_bool(ByteReader& in) {
  ASSIGN_OR_RETURN(const uint8_t value, in.read<uint8_t>());
  if (value > 1) return fail(Errc::kCorrupt, strf("recording: %u where 0 or 1 belongs", value));
  return value == 1;
}

Result<VehicleInputs> read_vehicle(ByteReader& in) {
  VehicleInputs v;
  ASSIGN_OR_RETURN(v.time_ns, in.read<int64_t>());
  ASSIGN_OR_RETURN(v.calibration_known, read_bool(in));
  ASSIGN_OR_RETURN(v.right_hand_drive, read_bool(in));
  for (float& f : v.rpy_calibration) {
    ASSIGN_OR_RETURN(f, in.read<float>());
  }
  for (float& f : v.desire) {
    ASSIGN_OR_RETURN(f, in.read<float>());
  }
  ASSIGN_OR_RETURN(v.lateral_action_time, in.read<float>());
  ASSIGN_OR_RETURN(v.longitudinal_action_time, in.read<float>());
  ASSIGN_OR_RETURN(v.speed, in.read<float>());
  return v;
}

void put_run(ByteWriter& out, const RecordedRun& run) {
  out.write(kRunMark);
  out.write(static_cast<uint8_t>(run.model));
  out.write(run.frame_id);
  out.write(run.wide_frame_id);
  out.write(run.resets);
  out.write(run.since_reset);
  put_vehicle(out, run.vehicle);
  out.write(static_cast<uint32_t>(run.raw.size()));
  out.write_span(std::as_bytes(std::span(run.raw)));
}

Result<RecordedRun> read_run(ByteReader& in) {
  RecordedRun run;
  ASSIGN_OR_RETURN(const uint8_t model, in.read<uint8_t>());
  if (model > static_cast<uint8_t>(RecordedModel::kCabin))
    return fail(Errc::kCorrupt, strf("recording: model %u", model));
  run.model = static_cast<RecordedModel>(model);
  ASSIGN_OR_RETURN(run.frame_id, in.read<uint64_t>());
  ASSIGN_OR_RETURN(run.wide_frame_id, in.read<uint64_t>());
  ASSIGN_OR_RETURN(run.resets, in.read<uint64_t>());
  ASSIGN_OR_RETURN(run.since_reset, in.read<uint64_t>());
  ASSIGN_OR_RETURN(run.vehicle, read_vehicle(in));
  ASSIGN_OR_RETURN(const uint32_t count, in.read<uint32_t>());
  if (count > kMaxRawFloats)
    return fail(Errc::kCorrupt,
                strf("recording: raw vector of %u floats, limit %u", count, kMaxRawFloats));
  ASSIGN_OR_RETURN(const auto raw, in.read_span(uint64_t{count} * sizeof(float)));
  run.raw.resize(count);
  if (count > 0) std::memcpy(run.raw.data(), raw.data(), raw.size());
  return run;
}

// Splits off and checks the hash at the end.
Result<std::span<const std::byte>> checked_body(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(kMagic) + kHashBytes ||
      std::memcmp(bytes.data(), kMagic, sizeof(kMagic)) != 0)
    return fail(Errc::kInvalid, strf("recording of %zu bytes: no MDLDREC1 header", bytes.size()));
  const auto body = bytes.first(bytes.size() - kHashBytes);
  ByteReader tail(bytes.last(kHashBytes), "recording");
  Hash128 stored;
  ASSIGN_OR_RETURN(stored.lo, tail.read<uint64_t>());
  ASSIGN_OR_RETURN(stored.hi, tail.read<uint64_t>());
  if (stored != xxh128(body))
    return fail(Errc::kCorrupt,
                strf("recording of %zu bytes: hash does not fit, cut or changed", bytes.size()));
  return body;
}

}  // namespace

std::vector<std::byte> encode_recording(const Recording& recording) {
  ByteWriter out;
  out.write_string(std::string_view(kMagic, sizeof(kMagic)));
  out.write(kVersion);
  out.write(static_cast<uint32_t>(recording.source.size()));
  out.write_string(recording.source);
  for (const RecordedRun& run : recording.runs) put_run(out, run);
  out.write(kEndMark);
  out.write(static_cast<uint64_t>(recording.runs.size()));
  const Hash128 hash = xxh128(out.bytes());
  out.write(hash.lo);
  out.write(hash.hi);
  return out.take();
}

Result<Recording> parse_recording(std::span<const std::byte> bytes) {
  ASSIGN_OR_RETURN(const auto body, checked_body(bytes));
  ByteReader in(body, "recording");
  RETURN_IF_ERROR(in.skip(sizeof(kMagic)));
  ASSIGN_OR_RETURN(const uint32_t version, in.read<uint32_t>());
  if (version != kVersion)
    return fail(Errc::kMismatch,
                strf("recording: version %u, this program reads %u", version, kVersion));
  ASSIGN_OR_RETURN(const uint32_t source_bytes, in.read<uint32_t>());
  if (source_bytes > kMaxSource)
    return fail(Errc::kCorrupt,
                strf("recording: source string of %u bytes, limit %zu", source_bytes, kMaxSource));
  Recording out;
  ASSIGN_OR_RETURN(out.source, in.read_string(source_bytes));
  for (;;) {
    ASSIGN_OR_RETURN(const uint32_t mark, in.read<uint32_t>());
    if (mark == kEndMark) break;
    if (mark != kRunMark)
      return fail(Errc::kCorrupt, strf("recording: mark %08x at byte %zu", mark, in.pos()));
    ASSIGN_OR_RETURN(RecordedRun run, read_run(in));
    out.runs.push_back(std::move(run));
  }
  ASSIGN_OR_RETURN(const uint64_t count, in.read<uint64_t>());
  if (count != out.runs.size() || !in.at_end())
    return fail(Errc::kCorrupt,
                strf("recording: %zu runs and %zu further bytes, header says %llu runs",
                     out.runs.size(), in.left(), static_cast<unsigned long long>(count)));
  return out;
}

Status write_recording(const std::string& path, const Recording& recording) {
  return write_file_atomic(path, encode_recording(recording));
}

Result<Recording> read_recording(const std::string& path) {
  ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, read_file(path, kMaxRecordingBytes));
  auto recording = parse_recording(bytes);
  if (!recording.ok()) return fail(std::move(recording).error().with(path));
  return recording;
}

void Recorder::observe(const StateMessage& message) {
  if (!message.source.empty()) source_ = message.source;
}

void Recorder::observe(const RoadMessage& message) {
  RecordedRun run;
  run.model = RecordedModel::kRoad;
  run.frame_id = message.road_frame_id;
  run.wide_frame_id = message.wide_frame_id;
  run.vehicle = message.vehicle;
  run.raw = message.raw;
  observe(message.header, message.run, std::move(run));
}

void Recorder::observe(const CabinMessage& message) {
  RecordedRun run;
  run.model = RecordedModel::kCabin;
  run.frame_id = message.cabin_frame_id;
  run.vehicle = message.vehicle;
  run.raw = message.raw;
  observe(message.header, message.run, std::move(run));
}

void Recorder::observe(const Header& header, const RunIdentity& id, RecordedRun&& run) {
  if (!id.accepted) return;
  Track& track = tracks_[static_cast<size_t>(run.model)];
  ++track.seen;
  const RecordedRun* const last = track.runs.empty() ? nullptr : &track.runs.back().run;
  const bool starts = id.since_reset == 1;
  if (starts && last != nullptr && id.resets + track.earlier_resets <= last->resets)
    track.earlier_resets = last->resets + 1 - id.resets;
  run.resets = id.resets + track.earlier_resets;
  run.since_reset = id.since_reset;
  const uint64_t size = sizeof(Kept) + run.raw.size() * sizeof(float);
  const bool is_next = track.open && last != nullptr && last->resets == run.resets &&
                       last->since_reset + 1 == id.since_reset;
  if (track.open && !is_next && !starts) {
    track.cause = &LeftOut::after_missed;
    if (last != nullptr && last->resets == run.resets && id.since_reset > last->since_reset)
      track.left_out.after_missed += id.since_reset - last->since_reset - 1;
  }
  track.open = is_next || starts;
  if (run.raw.empty()) {
    track.open = false;
    track.cause = &LeftOut::without_raw;
  } else if (track.open && bytes_ + size > limit_bytes_) {
    track.open = false;
    track.cause = &LeftOut::beyond_limit;
  }
  if (!track.open) {
    ++(track.left_out.*track.cause);
    return;
  }
  bytes_ += size;
  track.runs.push_back(Kept{header.time_ns, std::move(run)});
}

std::string LeftOut::text() const {
  const struct {
    uint64_t runs;
    const char* why;
  } causes[] = {{before_reset, "before a reset (the recording began in the middle)"},
                {after_missed, "missed, or after a missed message until the next reset"},
                {without_raw, "without a raw vector (publish.raw), or after such a one"},
                {beyond_limit, "beyond the recording's limit of size"}};
  std::string out;
  for (const auto& [runs, why] : causes) {
    if (runs == 0) continue;
    out +=
        out.empty() ? strf("%llu runs left out: ", static_cast<unsigned long long>(total())) : ", ";
    out += strf("%llu %s", static_cast<unsigned long long>(runs), why);
  }
  return out;
}

std::string Recorder::why_empty(RecordedModel model) const {
  const Track& track = tracks_[static_cast<size_t>(model)];
  if (!track.runs.empty()) return "";
  if (track.seen == 0) return "no accepted run was published";
  if (track.left_out.without_raw > 0) return "messages carry no raw vector (publish.raw is off)";
  if (track.left_out.beyond_limit > 0) return "the recording's limit of size is reached";
  return "recording began after the model's last reset: start it before the model is WARMING";
}

Recording Recorder::finish() const {
  // Each track is in time order already.
  const auto earlier = [](const Kept& a, const Kept& b) { return a.time_ns < b.time_ns; };
  std::vector<Kept> order;
  std::merge(tracks_[0].runs.begin(), tracks_[0].runs.end(), tracks_[1].runs.begin(),
             tracks_[1].runs.end(), std::back_inserter(order), earlier);
  Recording out;
  out.source = source_;
  for (Kept& kept : order) out.runs.push_back(std::move(kept.run));
  return out;
}

}  // namespace modeld::ipc
