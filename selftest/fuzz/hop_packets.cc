#include <cstring>

#include "daemon/hop.h"

#include "selftest/fuzz/camera_cases.h"

namespace modeld::fuzz {
namespace {

using daemon::CameraBuffers;
using daemon::WorkerFailure;
using daemon::WorkerHello;
using daemon::WorkerSetup;

enum class Defect : int {
  kNone = -1,
  kAnyReason,    // a reason without a name
  kNoReason,     // a failure for no reason
  kManyFloats,   // more outputs than the page holds
  kLosesSlice,   // the last output slice
  kSwapsSides,   // width and height
  kAnyStream,    // a stream that does not exist
  kTail,         // bytes behind the packet are ignored
  kRefusesGood,  // a good packet is refused
  kSilent,       // an error without text
};
const char* const kDefects[] = {
    "hop: reason not checked",  "hop: failure without reason",   "hop: too many outputs",
    "hop: loses a slice",       "hop: width and height swapped", "hop: stream not checked",
    "hop: trailing bytes pass", "hop: refuses a good packet",    "hop: error without text",
};

enum class Kind : uint8_t { kSetup, kBuffers, kSelftest, kHello, kFailure };
constexpr uint64_t kKinds = 5;

// ---- the packets read a second time ----

struct Reader {
  std::span<const std::byte> bytes;
  bool good = true;
  bool loose_flag = false;  // a flag that is neither 0 nor 1: read as 1

  uint64_t number(size_t size) {
    uint64_t v = 0;
    if (!good || bytes.size() < size) {
      good = false;
      return 0;
    }
    std::memcpy(&v, bytes.data(), size);
    bytes = bytes.subspan(size);
    return v;
  }
  void skip(uint64_t n) {
    if (n > bytes.size()) good = false;
    if (good) bytes = bytes.subspan(n);
  }
  void text() {
    const uint64_t n = number(4);
    if (n > 4096) good = false;
    skip(n);
  }
  void flag() {
    if (number(1) > 1) loose_flag = true;
  }
  uint64_t count(uint64_t limit) {
    const uint64_t n = number(4);
    if (n > limit) good = false;
    return good ? n : 0;
  }
};

void walk_hello(Reader& r) {
  r.text();
  r.text();
  r.flag();
  if (r.number(4) > 65536) r.good = false;
  r.skip(4 + 8 + 1);
  for (uint64_t n = r.count(4096); n > 0; --n) {
    r.text();
    r.skip(16);
  }
  for (uint64_t n = r.count(4096); n > 0; --n) {
    r.text();
    r.skip(12);
  }
}

void walk_setup(Reader& r) {
  for (int i = 0; i < 5; ++i) r.text();
  r.flag();
  r.skip(4 * r.count(4096));
  r.skip(8 + 4 + 8);
}

void walk_failure(Reader& r) {
  const uint64_t reason = r.number(1);
  if (reason < 1 || reason > 13) r.good = false;
  r.text();
}

void walk_buffers(Reader& r) {
  r.skip(8);
  for (uint64_t n = r.count(3); n > 0; --n) {
    if (r.number(1) >= 3) r.good = false;
    r.skip(7 * 4 + 4 * 8 + 2 * 4);
  }
}

Reader walk(std::span<const std::byte> b, Kind kind) {
  Reader r{b};
  if (r.number(1) != static_cast<uint64_t>(kind)) r.good = false;
  if (kind == Kind::kHello) walk_hello(r);
  if (kind == Kind::kSetup) walk_setup(r);
  if (kind == Kind::kFailure) walk_failure(r);
  if (kind == Kind::kBuffers) walk_buffers(r);
  if (!r.bytes.empty()) r.good = false;
  return r;
}

// ---- the decoders, or ones with a bug; what they accept, written again ----

Result<Bytes> hello_again(std::span<const std::byte> b, Defect d) {
  ASSIGN_OR_RETURN(WorkerHello h, daemon::decode_hello(b));
  if (d == Defect::kManyFloats) h.raw_size = daemon::kMaxRawFloats + 1;
  if (d == Defect::kLosesSlice && !h.slices.empty()) h.slices.pop_back();
  for (auto& g : h.geometries)
    if (d == Defect::kSwapsSides) std::swap(g.width, g.height);
  return daemon::encode(h);
}

Result<Bytes> read_and_write(std::span<const std::byte> b, Kind kind, Defect d) {
  if (d == Defect::kTail && !b.empty() && !walk(b, kind).good) b = b.first(b.size() - 1);
  switch (kind) {
    case Kind::kHello:
      return hello_again(b, d);
    case Kind::kSetup: {
      ASSIGN_OR_RETURN(const WorkerSetup s, daemon::decode_setup(b));
      return daemon::encode(s);
    }
    case Kind::kFailure: {
      ASSIGN_OR_RETURN(WorkerFailure f, daemon::decode_failure(b));
      if (d == Defect::kAnyReason) f.reason = static_cast<ipc::Reason>(ipc::kReasonCount);
      if (d == Defect::kNoReason) f.reason = ipc::Reason::kNone;
      return daemon::encode(f);
    }
    case Kind::kBuffers: {
      ASSIGN_OR_RETURN(CameraBuffers c, daemon::decode_buffers(b));
      for (auto& s : c.streams)
        if (d == Defect::kAnyStream) s.info.stream = static_cast<ipc::StreamId>(3);
      return daemon::encode(c);
    }
    case Kind::kSelftest:
      break;
  }
  ASSIGN_OR_RETURN(const daemon::Packet packet, daemon::packet_kind(b));
  if (packet != daemon::Packet::kSelftest || b.size() != 1)
    return fail(Errc::kProtocol, "not the self-test");
  return daemon::encode_selftest();
}

CaseResult parse_case(const Bytes& bytes, Kind kind, Defect d) {
  CaseResult out;
  out.past_header = !bytes.empty() && bytes[0] == static_cast<std::byte>(kind);
  const Reader want = walk(bytes, kind);
  Result<Bytes> r = read_and_write(bytes, kind, d);
  if (d == Defect::kRefusesGood) r = fail(Errc::kProtocol, "refused");
  const auto packet = daemon::packet_kind(bytes);
  if (packet.ok() != (!bytes.empty() && bytes[0] < static_cast<std::byte>(kKinds)))
    out.finding = "packet_kind is wrong about the first byte";
  out.accepted = r.ok();
  const auto k = static_cast<unsigned>(kind);
  if (!r.ok()) {
    if (d == Defect::kSilent) r.error().what.clear();
    out.finding = want.good ? strf("a good hop packet of kind %u is refused: ", k) + r.error().what
                            : must_be_clear(r.error());
  } else if (!want.good) {
    out.finding = strf("a bad hop packet of kind %u is accepted", k);
  } else if (!walk(*r, kind).good) {
    out.finding = strf("accepted values of kind %u are out of range", k);
  } else if (*r != bytes && !want.loose_flag) {
    out.finding = strf("accepted values of kind %u are not those of the packet", k);
  }
  return out;
}

// ---- cases ----

WorkerHello any_hello(Rng& rng) {
  WorkerHello h;
  h.bundle_id = any_word(rng, 64);
  h.device = any_word(rng, 30);
  h.is_simulated = rng.one_in(2);
  h.raw_size = static_cast<uint32_t>(rng.below(daemon::kMaxRawFloats + 1));
  h.context_frames = static_cast<uint32_t>(rng.next());
  h.compiled_calls = rng.next();
  for (uint64_t n = rng.below(6); n > 0; --n)
    h.slices.push_back({any_word(rng, 20), nasty(rng, 5), nasty(rng, 9)});
  for (uint64_t n = rng.below(4); n > 0; --n)
    h.geometries.push_back({"road", 1928, 1208, static_cast<uint32_t>(rng.below(9))});
  return h;
}

WorkerSetup any_setup(Rng& rng) {
  WorkerSetup s;
  s.name = any_word(rng, 8);
  s.bundle = any_word(rng, rng.one_in(20) ? 4096 : 40);
  s.device = any_word(rng, 10);
  s.prepare = "missing";
  s.keys_dir = any_word(rng, 20);
  s.require_signature = rng.one_in(2);
  for (uint64_t n = rng.below(5); n > 0; --n) s.cpus.push_back(static_cast<int>(rng.below(1024)));
  s.priority = static_cast<int64_t>(rng.below(100));
  return s;
}

CameraBuffers any_buffers(Rng& rng) {
  CameraBuffers b;
  b.epoch = rng.next();
  for (uint64_t n = rng.below(4); n > 0; --n) {
    daemon::StreamBuffers s;
    s.info.stream = static_cast<ipc::StreamId>(rng.below(3));
    s.info.geometry.width = static_cast<uint32_t>(rng.next());
    s.info.geometry.size = static_cast<uint32_t>(rng.next());
    s.info.intrinsics = {any_double(rng), any_double(rng), any_double(rng), any_double(rng)};
    s.info.slots = static_cast<uint32_t>(rng.below(33));
    s.first_fd = static_cast<uint32_t>(rng.below(99));
    b.streams.push_back(s);
  }
  return b;
}

Bytes any_packet(Rng& rng, Kind kind) {
  switch (kind) {
    case Kind::kHello:
      return daemon::encode(any_hello(rng));
    case Kind::kSetup:
      return daemon::encode(any_setup(rng));
    case Kind::kFailure:
      return daemon::encode(WorkerFailure{
          static_cast<ipc::Reason>(1 + rng.below(ipc::kReasonCount - 1)), any_word(rng, 80)});
    case Kind::kBuffers:
      return daemon::encode(any_buffers(rng));
    case Kind::kSelftest:
      break;
  }
  return daemon::encode_selftest();
}

CaseResult run(Rng& rng, int defect) {
  const auto kind = static_cast<Kind>(rng.below(kKinds));
  Bytes b = any_packet(rng, kind);
  if (!rng.one_in(4))
    for (uint64_t n = 1 + rng.below(2); n > 0; --n) damage_bytes(b, rng, rng.one_in(10) ? 0 : 1);
  return parse_case(b, kind, static_cast<Defect>(defect));
}

CaseResult look(const Bytes& bytes) {
  CaseResult out;
  for (uint64_t k = 0; k < kKinds && out.finding.empty(); ++k)
    out = parse_case(bytes, static_cast<Kind>(k), Defect::kNone);
  return out;
}

}  // namespace

const Family& hop_packets() {
  static const Family family{kDefects, run, look};
  return family;
}

}  // namespace modeld::fuzz
