#include "ipc/flight.h"

#include <cstring>

#include "hal/base/bytes.h"
#include "hal/base/hash.h"

namespace modeld::ipc {
namespace {

constexpr char kMagic[8] = {'M', 'D', 'L', 'D', 'F', 'L', 'T', '1'};
constexpr uint32_t kVersion = 1;
constexpr uint32_t kMaxText = 4096;
constexpr uint32_t kMaxPictures = 16;

void put_text(ByteWriter& out, const std::string& text) {
  const std::string cut = text.substr(0, kMaxText);
  out.write(static_cast<uint32_t>(cut.size()));
  out.write_string(cut);
}

Result<std::string> read_text_field(ByteReader& in) {
  ASSIGN_OR_RETURN(const uint32_t size, in.read<uint32_t>());
  if (size > kMaxText)
    return fail(Errc::kCorrupt, strf("flight record: text of %u bytes, limit %u", size, kMaxText));
  return in.read_string(size);
}

void put_block(ByteWriter& out, std::span<const std::byte> bytes) {
  out.write(static_cast<uint64_t>(bytes.size()));
  out.write_span(bytes);
}

Result<std::span<const std::byte>> read_block(ByteReader& in) {
  ASSIGN_OR_RETURN(const uint64_t size, in.read<uint64_t>());
  return in.read_span(size);
}

Hash128 hash_of(const FlightPicture& p) {
  return xxh128(std::as_bytes(p.nv12));
}

void put_picture(ByteWriter& out, const FlightPicture& p) {
  out.write(static_cast<uint8_t>(p.stream));
  out.write(p.frame_id);
  for (const uint32_t v : {p.width, p.height, p.stride, p.uv_offset}) out.write(v);
  out.write(static_cast<uint64_t>(p.nv12.size()));
  const Hash128 hash = hash_of(p);
  out.write(hash.lo);
  out.write(hash.hi);
}

// Whoever looks at it reads no further than its bytes.
Status check_picture(const FlightPicture& p) {
  const uint64_t luma = uint64_t{p.stride} * p.height;
  const uint64_t chroma = uint64_t{p.stride} * (p.height / 2);
  if (p.stride >= p.width && luma <= p.uv_offset && p.uv_offset + chroma <= p.nv12.size())
    return {};
  return fail(Errc::kCorrupt,
              strf("flight record: picture %s of %ux%u, stride %u, uv offset %u: they do not fit "
                   "%zu bytes",
                   stream_name(p.stream), p.width, p.height, p.stride, p.uv_offset, p.nv12.size()));
}

// `pixels`: what is left of the file behind the body and the pictures before this one.
Result<FlightPicture> read_picture(ByteReader& in, ByteReader& pixels) {
  FlightPicture p;
  ASSIGN_OR_RETURN(const uint8_t stream, in.read<uint8_t>());
  if (stream >= kStreamCount) return fail(Errc::kCorrupt, strf("flight record: stream %u", stream));
  p.stream = static_cast<StreamId>(stream);
  ASSIGN_OR_RETURN(p.frame_id, in.read<uint64_t>());
  for (uint32_t* v : {&p.width, &p.height, &p.stride, &p.uv_offset}) {
    ASSIGN_OR_RETURN(*v, in.read<uint32_t>());
  }
  ASSIGN_OR_RETURN(const uint64_t size, in.read<uint64_t>());
  Hash128 hash;
  ASSIGN_OR_RETURN(hash.lo, in.read<uint64_t>());
  ASSIGN_OR_RETURN(hash.hi, in.read<uint64_t>());
  ASSIGN_OR_RETURN(const auto bytes, pixels.read_span(size));
  p.nv12 = {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
  RETURN_IF_ERROR(check_picture(p));
  if (hash_of(p) != hash)
    return fail(Errc::kCorrupt,
                strf("flight record: picture %s %llu was changed", stream_name(p.stream),
                     static_cast<unsigned long long>(p.frame_id)));
  return p;
}

Result<std::vector<FlightTensor>> read_tensors(ByteReader& in) {
  ASSIGN_OR_RETURN(const uint32_t count, in.read<uint32_t>());
  if (count > kMaxFlightTensors)
    return fail(Errc::kCorrupt,
                strf("flight record: %u tensors, limit %u", count, kMaxFlightTensors));
  std::vector<FlightTensor> out;
  for (uint32_t i = 0; i < count; ++i) {
    FlightTensor t;
    ASSIGN_OR_RETURN(const uint8_t is_output, in.read<uint8_t>());
    if (is_output > 1)
      return fail(Errc::kCorrupt, strf("flight record: %u where 0 or 1 belongs", is_output));
    t.is_output = is_output == 1;
    ASSIGN_OR_RETURN(t.name, read_text_field(in));
    ASSIGN_OR_RETURN(const auto bytes, read_block(in));
    t.bytes.assign(bytes.begin(), bytes.end());
    out.push_back(std::move(t));
  }
  return out;
}

// The file in two: the body, whose hash is checked, and the pixels.
struct Parts {
  std::span<const std::byte> body;
  std::span<const std::byte> pixels;
};

Result<Parts> split_file(std::span<const std::byte> bytes) {
  constexpr size_t kHead = sizeof(kMagic) + sizeof(uint64_t);
  if (!is_flight(bytes))
    return fail(Errc::kInvalid,
                strf("flight record of %zu bytes: no MDLDFLT1 header", bytes.size()));
  ByteReader in(bytes, "flight record");
  RETURN_IF_ERROR(in.skip(sizeof(kMagic)));
  ASSIGN_OR_RETURN(const uint64_t size, in.read<uint64_t>());
  ASSIGN_OR_RETURN(const auto body, in.read_span(size));
  Hash128 stored;
  ASSIGN_OR_RETURN(stored.lo, in.read<uint64_t>());
  ASSIGN_OR_RETURN(stored.hi, in.read<uint64_t>());
  if (stored != xxh128(bytes.first(kHead + body.size())))
    return fail(
        Errc::kCorrupt,
        strf("flight record of %zu bytes: hash does not fit, cut or changed", bytes.size()));
  return Parts{body, bytes.subspan(in.pos())};
}

Status read_head(ByteReader& in, Flight& out) {
  ASSIGN_OR_RETURN(const uint32_t version, in.read<uint32_t>());
  if (version != kVersion)
    return fail(Errc::kUnsupported,
                strf("flight record version %u, known is %u", version, kVersion));
  ASSIGN_OR_RETURN(const uint8_t reason, in.read<uint8_t>());
  if (reason >= kReasonCount) return fail(Errc::kCorrupt, strf("flight record: reason %u", reason));
  out.reason = static_cast<Reason>(reason);
  ASSIGN_OR_RETURN(out.text, read_text_field(in));
  ASSIGN_OR_RETURN(out.bundle_id, read_text_field(in));
  ASSIGN_OR_RETURN(out.device, read_text_field(in));
  ASSIGN_OR_RETURN(out.time_ns, in.read<int64_t>());
  return {};
}

Status read_runs(ByteReader& in, Flight& out) {
  ASSIGN_OR_RETURN(const auto before_bytes, read_block(in));
  ASSIGN_OR_RETURN(Recording before, parse_recording(before_bytes));
  ASSIGN_OR_RETURN(const auto failed_bytes, read_block(in));
  ASSIGN_OR_RETURN(Recording failed, parse_recording(failed_bytes));
  if (failed.runs.size() != 1)
    return fail(Errc::kCorrupt,
                strf("flight record: %zu runs that failed, not one", failed.runs.size()));
  if (failed.source != before.source)
    return fail(Errc::kCorrupt, "flight record: the run that failed is of another source");
  out.source = std::move(before.source);
  out.before = std::move(before.runs);
  out.failed = std::move(failed.runs[0]);
  return {};
}

}  // namespace

bool is_flight(std::span<const std::byte> bytes) {
  return bytes.size() >= sizeof(kMagic) && std::memcmp(bytes.data(), kMagic, sizeof(kMagic)) == 0;
}

std::vector<std::byte> encode_tensor_count(uint32_t count) {
  ByteWriter out;
  out.write(count);
  return out.take();
}

std::vector<std::byte> encode_tensor_head(bool is_output, const std::string& name, uint64_t bytes) {
  ByteWriter out;
  out.write(static_cast<uint8_t>(is_output));
  put_text(out, name);
  out.write(bytes);
  return out.take();
}

Result<std::vector<FlightTensor>> parse_tensors(std::span<const std::byte> bytes) {
  ByteReader in(bytes, "tensors of a flight record");
  ASSIGN_OR_RETURN(auto out, read_tensors(in));
  if (!in.at_end()) return fail(Errc::kCorrupt, "tensors of a flight record: bytes left over");
  return out;
}

std::vector<std::byte> encode_flight_body(const Flight& f) {
  ByteWriter body;
  body.write(kVersion);
  body.write(static_cast<uint8_t>(f.reason));
  put_text(body, f.text);
  put_text(body, f.bundle_id);
  put_text(body, f.device);
  body.write(f.time_ns);
  put_block(body, encode_recording({f.source, f.before}));
  put_block(body, encode_recording({f.source, {f.failed}}));
  body.write(static_cast<uint32_t>(f.tensors.size()));
  for (const FlightTensor& t : f.tensors) {
    body.write_span(encode_tensor_head(t.is_output, t.name, t.bytes.size()));
    body.write_span(t.bytes);
  }
  body.write(static_cast<uint32_t>(f.pictures.size()));
  for (const FlightPicture& p : f.pictures) put_picture(body, p);
  ByteWriter out;
  out.write_string({kMagic, sizeof(kMagic)});
  put_block(out, body.bytes());
  const Hash128 hash = xxh128(out.bytes());
  out.write(hash.lo);
  out.write(hash.hi);
  return out.take();
}

std::vector<std::byte> encode_flight(const Flight& f) {
  std::vector<std::byte> out = encode_flight_body(f);
  for (const FlightPicture& p : f.pictures) {
    const auto pixels = std::as_bytes(p.nv12);
    out.insert(out.end(), pixels.begin(), pixels.end());
  }
  return out;
}

Result<Flight> parse_flight(std::span<const std::byte> bytes) {
  ASSIGN_OR_RETURN(const Parts parts, split_file(bytes));
  ByteReader in(parts.body, "flight record");
  ByteReader pixels(parts.pixels, "flight record's pictures");
  Flight out;
  RETURN_IF_ERROR(read_head(in, out));
  RETURN_IF_ERROR(read_runs(in, out));
  ASSIGN_OR_RETURN(out.tensors, read_tensors(in));
  ASSIGN_OR_RETURN(const uint32_t pictures, in.read<uint32_t>());
  if (pictures > kMaxPictures)
    return fail(Errc::kCorrupt,
                strf("flight record: %u pictures, limit %u", pictures, kMaxPictures));
  for (uint32_t i = 0; i < pictures; ++i) {
    ASSIGN_OR_RETURN(const FlightPicture p, read_picture(in, pixels));
    out.pictures.push_back(p);
  }
  if (!in.at_end() || !pixels.at_end())
    return fail(Errc::kCorrupt, "flight record: bytes left over");
  return out;
}

}  // namespace modeld::ipc
