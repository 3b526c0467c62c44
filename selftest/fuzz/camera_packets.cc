#include <cmath>
#include <cstring>

#include "ipc/frame_protocol.h"

#include "selftest/fuzz/camera_cases.h"

namespace modeld::fuzz {
namespace {

using ipc::Handshake;
using ipc::StreamInfo;

enum class Defect : int {
  kNone = -1,
  kOverlap,      // chroma may lie inside luma
  kTooSmall,     // planes may leave the buffer
  kNarrow,       // rows shorter than the picture
  kNoSlots,      // a stream without slots
  kInfinite,     // focal length not finite
  kTwice,        // a stream twice
  kControl,      // control characters in the source string
  kAnySlot,      // a frame in a slot that cannot exist
  kOtherTime,    // end of frame is not read
  kOtherFrame,   // a release of another frame
  kTail,         // bytes behind the packet are ignored
  kRefusesGood,  // a good packet is refused
  kSilent,       // an error without text
};
const char* const kDefects[] = {
    "chroma inside luma",       "planes outside the buffer", "stride below the width",
    "stream without slots",     "focal length not finite",   "stream twice",
    "control characters pass",  "slot not checked",          "end of frame not read",
    "release of another frame", "trailing bytes pass",       "refuses a good packet",
    "error without text",
};

enum class Kind : uint16_t { kHandshake = 1, kFrame = 2, kRelease = 3 };
constexpr size_t kPrefix = 8;
constexpr size_t kStreamBytes = 72;
constexpr uint32_t kSlots = 32;

// ---- the packets read a second time ----

template <class T>
T at(std::span<const std::byte> b, size_t offset) {
  T v{};
  std::memcpy(&v, b.data() + offset, sizeof v);
  return v;
}

bool prefix_holds(std::span<const std::byte> b, Kind kind) {
  return b.size() >= kPrefix && at<uint32_t>(b, 0) == 0x4d41434d && at<uint16_t>(b, 4) == 1 &&
         at<uint16_t>(b, 6) == static_cast<uint16_t>(kind);
}

bool planes_hold(uint64_t w,
                 uint64_t h,
                 uint64_t stride,
                 uint64_t rows,
                 uint64_t uv_rows,
                 uint64_t uv_at,
                 uint64_t size) {
  const bool picture = w >= 16 && w <= 8192 && h >= 16 && h <= 8192 && w % 2 + h % 2 == 0;
  const bool rows_hold = stride >= w && stride <= 16384 && rows >= h && rows <= 16384 &&
                         uv_rows >= h / 2 && uv_rows <= 16384;
  return picture && rows_hold && stride * rows <= uv_at && uv_at + stride * uv_rows <= size &&
         size <= (uint64_t{256} << 20);
}

bool lens_holds(double f, double g, double x, double y) {
  // Comparisons with NaN are false.
  return f > 0 && f <= 1e6 && g > 0 && g <= 1e6 && std::fabs(x) <= 1e6 && std::fabs(y) <= 1e6;
}

bool stream_holds(std::span<const std::byte> b) {
  uint32_t u[10];
  double d[4];
  std::memcpy(u, b.data(), sizeof u);
  std::memcpy(d, b.data() + sizeof u, sizeof d);
  return u[0] < 3 && planes_hold(u[1], u[2], u[3], u[4], u[5], u[6], u[7]) && u[8] >= 1 &&
         u[8] <= kSlots && u[9] >= 1 && u[9] <= 1000 && lens_holds(d[0], d[1], d[2], d[3]);
}

bool handshake_holds(std::span<const std::byte> b) {
  if (!prefix_holds(b, Kind::kHandshake) || b.size() < 16) return false;
  const uint64_t count = at<uint32_t>(b, 8), text = at<uint32_t>(b, 12);
  if (count < 1 || count > 3 || text > 512 || b.size() != 16 + kStreamBytes * count + text)
    return false;
  unsigned seen = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const auto row = b.subspan(16 + kStreamBytes * i, kStreamBytes);
    if (!stream_holds(row) || (seen & 1u << at<uint32_t>(row, 0)) != 0) return false;
    seen |= 1u << at<uint32_t>(row, 0);
  }
  for (const std::byte c : b.last(text))
    if (c < std::byte{32} || c == std::byte{127}) return false;
  return true;
}

// Stream, slot, frame id; a frame packet has two times more.
bool small_holds(std::span<const std::byte> b, Kind kind) {
  return prefix_holds(b, kind) && b.size() == (kind == Kind::kFrame ? 40 : 24) &&
         at<uint32_t>(b, 8) < 3 && at<uint32_t>(b, 12) < kSlots;
}

bool holds(std::span<const std::byte> b, Kind kind) {
  return kind == Kind::kHandshake ? handshake_holds(b) : small_holds(b, kind);
}

// ---- the parsers, or ones with a bug; what they accept, written again ----

void spoil(Handshake& h, Defect d) {
  StreamInfo& s = h.streams[0];
  if (d == Defect::kOverlap) s.geometry.uv_offset -= 1;
  if (d == Defect::kTooSmall) s.geometry.size = s.geometry.stride;
  if (d == Defect::kNarrow) s.geometry.stride = s.geometry.width - 1;
  if (d == Defect::kNoSlots) s.slots = 0;
  if (d == Defect::kInfinite) s.intrinsics.fx = std::nan("");
  if (d == Defect::kTwice) h.streams[1] = s, h.stream_count = 2;
  if (d == Defect::kControl) h.source += '\x1b';
}

// Plain bytes of a handshake: ours, because encode_handshake() refuses what is wrong.
Bytes write_handshake(const Handshake& h) {
  Bytes out(16 + kStreamBytes * h.stream_count + h.source.size());
  const uint32_t head[] = {0x4d41434d, 0x10001, h.stream_count,
                           static_cast<uint32_t>(h.source.size())};
  std::memcpy(out.data(), head, sizeof head);
  for (uint32_t i = 0; i < h.stream_count; ++i) {
    const StreamInfo& s = h.streams[i];
    const ipc::Nv12Geometry& g = s.geometry;
    const uint32_t u[] = {static_cast<uint32_t>(s.stream),
                          g.width,
                          g.height,
                          g.stride,
                          g.y_height,
                          g.uv_height,
                          g.uv_offset,
                          g.size,
                          s.slots,
                          s.fps};
    const double d[] = {s.intrinsics.fx, s.intrinsics.fy, s.intrinsics.cx, s.intrinsics.cy};
    std::memcpy(out.data() + 16 + kStreamBytes * i, u, sizeof u);
    std::memcpy(out.data() + 16 + kStreamBytes * i + sizeof u, d, sizeof d);
  }
  std::memcpy(out.data() + out.size() - h.source.size(), h.source.data(), h.source.size());
  return out;
}

Bytes first(const ipc::PacketBuffer& packet, size_t n) {
  return {packet.begin(), packet.begin() + static_cast<ptrdiff_t>(n)};
}

Result<Bytes> read_and_write(std::span<const std::byte> b, Kind kind, Defect d) {
  ipc::PacketBuffer packet;
  if (d == Defect::kTail && !b.empty() && !holds(b, kind)) b = b.first(b.size() - 1);
  if (kind == Kind::kHandshake) {
    ASSIGN_OR_RETURN(Handshake h, ipc::parse_handshake(b));
    spoil(h, d);
    return write_handshake(h);
  }
  if (kind == Kind::kFrame) {
    ASSIGN_OR_RETURN(ipc::FrameMeta meta, ipc::parse_frame(b));
    if (d == Defect::kAnySlot) meta.slot = kSlots;
    if (d == Defect::kOtherTime) meta.eof_ns = 0;
    return first(packet, ipc::encode_frame(meta, packet));
  }
  ASSIGN_OR_RETURN(ipc::ReleasePacket release, ipc::parse_release(b));
  if (d == Defect::kOtherFrame) ++release.frame_id;
  return first(packet, ipc::encode_release(release, packet));
}

CaseResult parse_case(const Bytes& bytes, Kind kind, Defect d) {
  CaseResult out;
  out.past_header = prefix_holds(bytes, kind);
  const bool good = holds(bytes, kind);
  Result<Bytes> r = read_and_write(bytes, kind, d);
  if (d == Defect::kRefusesGood) r = fail(Errc::kProtocol, "refused");
  out.accepted = r.ok();
  if (!r.ok()) {
    if (d == Defect::kSilent) r.error().what.clear();
    out.finding = good ? "a good packet is refused: " + r.error().what : must_be_clear(r.error());
  } else if (!good) {
    out.finding = strf("a bad packet of kind %u is accepted", static_cast<unsigned>(kind));
  } else if (!holds(*r, kind)) {
    out.finding = "accepted values do not hold together";
  } else if (*r != bytes) {
    out.finding = "accepted values are not those of the packet";
  }
  return out;
}

// ---- cases ----

StreamInfo any_stream(Rng& rng, uint32_t which) {
  StreamInfo s;
  s.stream = static_cast<ipc::StreamId>(which);
  const auto side = [&] { return 16 + 2 * static_cast<uint32_t>(rng.below(1500)); };
  s.geometry = *ipc::nv12_geometry(side(), side());
  s.intrinsics = ipc::default_intrinsics(s.stream, s.geometry.width, s.geometry.height);
  s.slots = 1 + static_cast<uint32_t>(rng.below(kSlots));
  s.fps = 1 + static_cast<uint32_t>(rng.below(1000));
  return s;
}

Handshake any_handshake(Rng& rng) {
  Handshake h;
  h.stream_count = 1 + static_cast<uint32_t>(rng.below(3));
  const auto turn = static_cast<uint32_t>(rng.below(3));
  for (uint32_t i = 0; i < h.stream_count; ++i) h.streams[i] = any_stream(rng, (turn + i) % 3);
  h.source = rng.one_in(2) ? any_word(rng, 512) : "y4m;road=/m\xc3\xa4rz.y4m";
  return h;
}

// One field of the packet; most lie on 4-byte borders behind the prefix.
void damage_field(Bytes& b, Rng& rng) {
  if (b.size() < kPrefix + 8) return damage_bytes(b, rng, kPrefix);
  const size_t fields = std::min<size_t>((b.size() - kPrefix) / 4, 2 + 3 * kStreamBytes / 4);
  const size_t where = kPrefix + 4 * rng.below(fields);
  const auto v = static_cast<uint32_t>(nasty(rng, at<uint32_t>(b, where)));
  std::memcpy(b.data() + where, &v, 4);
}

CaseResult run(Rng& rng, int defect) {
  ipc::PacketBuffer packet;
  const auto kind = static_cast<Kind>(1 + (rng.one_in(2) ? 0 : 1 + rng.below(2)));
  Bytes b;
  if (kind == Kind::kHandshake) {
    const Handshake h = any_handshake(rng);
    const auto n = ipc::encode_handshake(h, packet);
    b = n.ok() ? first(packet, *n) : write_handshake(h);
  } else if (kind == Kind::kFrame) {
    const auto stream = static_cast<ipc::StreamId>(rng.below(3));
    const auto t = static_cast<int64_t>(nasty(rng, 1u << 30));
    b = first(packet, ipc::encode_frame({stream, static_cast<uint32_t>(rng.below(kSlots)),
                                         nasty(rng, 20), t, t ^ 1},
                                        packet));
  } else {
    b = first(packet, ipc::encode_release({static_cast<ipc::StreamId>(rng.below(3)),
                                           static_cast<uint32_t>(rng.below(kSlots)), rng.next()},
                                          packet));
  }
  const uint64_t how = rng.below(8);
  if (how == 1) damage_bytes(b, rng);
  if (how == 2) damage_bytes(b, rng, kPrefix);
  if (how > 2)
    for (uint64_t n = 1 + rng.below(2); n > 0; --n) damage_field(b, rng);
  return parse_case(b, kind, static_cast<Defect>(defect));
}

CaseResult look(const Bytes& bytes) {
  CaseResult out;
  for (const Kind kind : {Kind::kHandshake, Kind::kFrame, Kind::kRelease}) {
    const CaseResult r = parse_case(bytes, kind, Defect::kNone);
    if (!r.finding.empty()) return r;
    out.accepted = out.accepted || r.accepted;
  }
  return out;
}

}  // namespace

const Family& camera_packets() {
  static const Family family{kDefects, run, look};
  return family;
}

}  // namespace modeld::fuzz
