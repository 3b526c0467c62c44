#include "daemon/hop.h"

#include "hal/base/bytes.h"

namespace modeld::daemon {
namespace {

constexpr uint32_t kMaxText = 4096;
constexpr uint32_t kMaxRows = 4096;

class Encoder {
 public:
  explicit Encoder(Packet kind) { number(static_cast<uint8_t>(kind)); }
  template <class T>
  void number(T v) {
    out_.write<T>(v);
  }
  void text(const std::string& s) {
    const std::string cut = s.substr(0, kMaxText);
    number(static_cast<uint32_t>(cut.size()));
    out_.write_string(cut);
  }
  std::vector<std::byte> take() { return out_.take(); }

 private:
  ByteWriter out_;
};

// Reads fields in order; the first failure sticks.
class Decoder {
 public:
  Decoder(std::span<const std::byte> bytes, Packet kind) : in_(bytes, "hop packet") {
    if (number<uint8_t>() != static_cast<uint8_t>(kind)) bad("unexpected kind");
  }
  template <class T>
  T number() {
    if (!status_.ok()) return T{};
    auto v = in_.read<T>();
    if (!v.ok()) {
      status_ = fail(v.error());
      return T{};
    }
    return *v;
  }
  std::string text() {
    const auto n = number<uint32_t>();
    if (n > kMaxText) bad("text too long");
    if (!status_.ok()) return {};
    auto s = in_.read_string(n);
    if (!s.ok()) {
      status_ = fail(s.error());
      return {};
    }
    return *s;
  }
  uint32_t count(uint32_t limit = kMaxRows) {
    const auto n = number<uint32_t>();
    if (n > limit) bad("too many rows");
    return status_.ok() ? n : 0;
  }
  Status finish() {
    if (status_.ok() && !in_.at_end()) bad("bytes left over");
    return status_;
  }

 private:
  void bad(const char* what) {
    if (status_.ok()) status_ = fail(Errc::kProtocol, std::string("hop packet: ") + what);
  }
  ByteReader in_;
  Status status_;
};

}  // namespace

std::vector<std::byte> encode(const WorkerSetup& s) {
  Encoder e(Packet::kSetup);
  e.text(s.name);
  e.text(s.bundle);
  e.text(s.device);
  e.text(s.prepare);
  e.text(s.keys_dir);
  e.number<uint8_t>(s.require_signature);
  e.number(static_cast<uint32_t>(s.cpus.size()));
  for (int c : s.cpus) e.number<int32_t>(c);
  e.number(s.priority);
  e.number(s.nice);
  e.number(s.load_s);
  return e.take();
}

Result<WorkerSetup> decode_setup(std::span<const std::byte> bytes) {
  Decoder d(bytes, Packet::kSetup);
  WorkerSetup s;
  s.name = d.text();
  s.bundle = d.text();
  s.device = d.text();
  s.prepare = d.text();
  s.keys_dir = d.text();
  s.require_signature = d.number<uint8_t>() != 0;
  for (uint32_t n = d.count(), i = 0; i < n; ++i) s.cpus.push_back(d.number<int32_t>());
  s.priority = d.number<int64_t>();
  s.nice = d.number<int32_t>();
  s.load_s = d.number<int64_t>();
  RETURN_IF_ERROR(d.finish());
  return s;
}

std::vector<std::byte> encode(const WorkerHello& h) {
  Encoder e(Packet::kHello);
  e.text(h.bundle_id);
  e.text(h.device);
  e.number<uint8_t>(h.is_simulated);
  e.number(h.raw_size);
  e.number(h.context_frames);
  e.number(h.compiled_calls);
  e.number(h.realtime_missing);
  e.number(static_cast<uint32_t>(h.slices.size()));
  for (const auto& s : h.slices) {
    e.text(s.name);
    e.number(s.begin);
    e.number(s.end);
  }
  e.number(static_cast<uint32_t>(h.geometries.size()));
  for (const auto& g : h.geometries) {
    e.text(g.stream);
    e.number(g.width);
    e.number(g.height);
    e.number(g.entry);
  }
  return e.take();
}

Result<WorkerHello> decode_hello(std::span<const std::byte> bytes) {
  Decoder d(bytes, Packet::kHello);
  WorkerHello h;
  h.bundle_id = d.text();
  h.device = d.text();
  h.is_simulated = d.number<uint8_t>() != 0;
  h.raw_size = d.number<uint32_t>();
  h.context_frames = d.number<uint32_t>();
  h.compiled_calls = d.number<uint64_t>();
  h.realtime_missing = d.number<uint8_t>();
  for (uint32_t n = d.count(), i = 0; i < n; ++i) {
    bundle::SliceRow s;
    s.name = d.text();
    s.begin = d.number<uint64_t>();
    s.end = d.number<uint64_t>();
    h.slices.push_back(std::move(s));
  }
  for (uint32_t n = d.count(), i = 0; i < n; ++i) {
    bundle::GeometryRow g;
    g.stream = d.text();
    g.width = d.number<uint32_t>();
    g.height = d.number<uint32_t>();
    g.entry = d.number<uint32_t>();
    h.geometries.push_back(std::move(g));
  }
  RETURN_IF_ERROR(d.finish());
  if (h.raw_size > kMaxRawFloats) {
    return fail(Errc::kUnsupported,
                strf("worker: %u outputs, at most %u fit the hop", h.raw_size, kMaxRawFloats));
  }
  return h;
}

std::vector<std::byte> encode(const WorkerFailure& f) {
  Encoder e(Packet::kFailure);
  e.number(static_cast<uint8_t>(f.reason));
  e.text(f.text);
  return e.take();
}

Result<WorkerFailure> decode_failure(std::span<const std::byte> bytes) {
  Decoder d(bytes, Packet::kFailure);
  WorkerFailure f;
  const auto reason = d.number<uint8_t>();
  f.text = d.text();
  RETURN_IF_ERROR(d.finish());
  if (reason == 0 || reason >= ipc::kReasonCount)
    return fail(Errc::kProtocol, strf("hop packet: reason %u", reason));
  f.reason = static_cast<ipc::Reason>(reason);
  return f;
}

std::vector<std::byte> encode(const CameraBuffers& b) {
  Encoder e(Packet::kBuffers);
  e.number(b.epoch);
  e.number(static_cast<uint32_t>(b.streams.size()));
  for (const StreamBuffers& s : b.streams) {
    const ipc::Nv12Geometry& g = s.info.geometry;
    e.number(static_cast<uint8_t>(s.info.stream));
    for (uint32_t v : {g.width, g.height, g.stride, g.y_height, g.uv_height, g.uv_offset, g.size})
      e.number(v);
    const ipc::CameraIntrinsics& k = s.info.intrinsics;
    for (double v : {k.fx, k.fy, k.cx, k.cy}) e.number(v);
    e.number(s.info.slots);
    e.number(s.first_fd);
  }
  return e.take();
}

Result<CameraBuffers> decode_buffers(std::span<const std::byte> bytes) {
  Decoder d(bytes, Packet::kBuffers);
  CameraBuffers b;
  b.epoch = d.number<uint64_t>();
  for (uint32_t n = d.count(ipc::kStreamCount), i = 0; i < n; ++i) {
    StreamBuffers s;
    const auto stream = d.number<uint8_t>();
    if (stream >= ipc::kStreamCount)
      return fail(Errc::kProtocol, strf("hop packet: stream %u", stream));
    s.info.stream = static_cast<ipc::StreamId>(stream);
    ipc::Nv12Geometry& g = s.info.geometry;
    for (uint32_t* v :
         {&g.width, &g.height, &g.stride, &g.y_height, &g.uv_height, &g.uv_offset, &g.size})
      *v = d.number<uint32_t>();
    ipc::CameraIntrinsics& k = s.info.intrinsics;
    for (double* v : {&k.fx, &k.fy, &k.cx, &k.cy}) *v = d.number<double>();
    s.info.slots = d.number<uint32_t>();
    s.first_fd = d.number<uint32_t>();
    b.streams.push_back(s);
  }
  RETURN_IF_ERROR(d.finish());
  return b;
}

std::vector<std::byte> encode_selftest() {
  return Encoder(Packet::kSelftest).take();
}

Result<Packet> packet_kind(std::span<const std::byte> bytes) {
  if (bytes.empty() || static_cast<uint8_t>(bytes[0]) > static_cast<uint8_t>(Packet::kFailure)) {
    return fail(Errc::kProtocol, strf("hop packet: %zu bytes of no known kind", bytes.size()));
  }
  return static_cast<Packet>(bytes[0]);
}

}  // namespace modeld::daemon
