// Fuzzes the readers of flight records (files from disk) and of captures (tensors that a worker
// wrote): damaged bytes are refused with one line, or they are exactly what the writer would have
// written. A record is put together here a second time, piece by piece; sizes and hashes, those of
// the recordings and pictures in it too, are repaired after the damage.
#include <algorithm>
#include <cstring>

#include "hal/base/bytes.h"
#include "hal/base/hash.h"

#include "ipc/flight.h"

#include "selftest/fuzz/damage.h"

namespace modeld::fuzz {
namespace {

using ipc::Flight;
using ipc::FlightPicture;
using ipc::FlightTensor;
using Tensors = std::vector<FlightTensor>;

// A reader with a bug: it overlooks an error that says `overlooks`, or it gets a value wrong.
struct Defect {
  const char* name;
  const char* overlooks = nullptr;
  void (*spoils)(Flight&) = nullptr;
  void (*spoils_tensors)(Tensors&) = nullptr;
};
const Defect kDefects[] = {
    {"no check of the hash", "hash does not fit"},
    {"no check of the pixels' hash", "was changed"},
    {"bytes left over are not seen", "left over"},
    {"a picture larger than its bytes", "do not fit"},
    {"two cameras in one record", "another source"},
    {"two runs that failed", "that failed, not one"},
    {"any version", "version"},
    {"any reason", "flight record: reason"},
    {"any stream", "flight record: stream"},
    {"any length of a text", "flight record: text"},
    {"any number of tensors", "tensors, limit"},
    {"any number of pictures", "pictures, limit"},
    {"a tensor neither in nor out", "where 0 or 1 belongs"},
    {"loses a run", nullptr,
     [](Flight& f) {
       if (!f.before.empty()) f.before.pop_back();
     }},
    {"loses a picture", nullptr,
     [](Flight& f) {
       if (!f.pictures.empty()) f.pictures.pop_back();
     }},
    {"forgets the device", nullptr, [](Flight& f) { f.device.clear(); }},
    {"loses a tensor", nullptr, nullptr,
     [](Tensors& t) {
       if (!t.empty()) t.pop_back();
     }},
    {"takes outputs for inputs", nullptr, nullptr,
     [](Tensors& t) {
       for (FlightTensor& one : t) one.is_output = false;
     }},
    {"loses a byte of a tensor", nullptr, nullptr,
     [](Tensors& t) {
       if (!t.empty() && !t.back().bytes.empty()) t.back().bytes.pop_back();
     }},
    {"refuses a good record"},
    {"error without text"},
};
constexpr size_t kValueDefects = std::size(kDefects) - 2;

// Written down a second time.
constexpr size_t kMagicBytes = 8, kSizeBytes = 8, kVersionBytes = 4, kHashBytes = 16;
constexpr size_t kHeadBytes = kMagicBytes + kSizeBytes;
constexpr size_t kRowBytes = 1 + 8 + 4 * 4 + 8 + kHashBytes;  // of a picture, its hash last
constexpr uint32_t kMaxText = 4096, kMaxTensors = 4096, kMaxPictures = 16;

void append(Bytes& to, std::span<const std::byte> more) {
  to.insert(to.end(), more.begin(), more.end());
}

void append_hash(Bytes& bytes) {
  const Hash128 h = xxh128(bytes);
  append(bytes, std::as_bytes(std::span(&h.lo, 1)));
  append(bytes, std::as_bytes(std::span(&h.hi, 1)));
}

template <class T>
T number_at(std::span<const std::byte> bytes, size_t at) {
  T v{};
  std::memcpy(&v, bytes.data() + at, sizeof v);
  return v;
}

bool is_past_header(std::span<const std::byte> file) {
  if (file.size() < kHeadBytes + kVersionBytes + kHashBytes ||
      std::memcmp(file.data(), "MDLDFLT1", kMagicBytes) != 0)
    return false;
  const auto size = number_at<uint64_t>(file, kMagicBytes);
  if (size < kVersionBytes || size > file.size() - kHeadBytes - kHashBytes) return false;
  const size_t end = kHeadBytes + static_cast<size_t>(size);
  const Hash128 h = xxh128(file.first(end));
  return number_at<uint64_t>(file, end) == h.lo && number_at<uint64_t>(file, end + 8) == h.hi &&
         number_at<uint32_t>(file, kHeadBytes) == 1;
}

// ---- records ----

// A record in pieces; whole() puts size and hash around them.
struct Pieces {
  Bytes head, before, failed, tensors, pictures;
  std::vector<Bytes> pixels;

  Bytes body() const {
    ByteWriter out;
    out.write_span(head);
    for (const Bytes* recording : {&before, &failed}) {
      out.write(static_cast<uint64_t>(recording->size()));
      out.write_span(*recording);
    }
    out.write_span(tensors);
    out.write_span(pictures);
    return out.take();
  }
  Bytes whole(const Bytes& body) const {
    Bytes out(kMagicBytes);
    std::memcpy(out.data(), "MDLDFLT1", kMagicBytes);
    const uint64_t size = body.size();
    append(out, std::as_bytes(std::span(&size, 1)));
    append(out, body);
    append_hash(out);
    for (const Bytes& p : pixels) append(out, p);
    return out;
  }
};

void put_text(ByteWriter& out, const std::string& text) {
  out.write(static_cast<uint32_t>(text.size()));
  out.write_string(text);
}

Bytes tensor_bytes(const Tensors& tensors) {
  ByteWriter out;
  out.write(static_cast<uint32_t>(tensors.size()));
  for (const FlightTensor& t : tensors) {
    out.write(static_cast<uint8_t>(t.is_output ? 1 : 0));
    put_text(out, t.name);
    out.write(static_cast<uint64_t>(t.bytes.size()));
    out.write_span(t.bytes);
  }
  return out.take();
}

Bytes picture_rows(const std::vector<FlightPicture>& pictures) {
  ByteWriter out;
  out.write(static_cast<uint32_t>(pictures.size()));
  for (const FlightPicture& p : pictures) {
    out.write(static_cast<uint8_t>(p.stream));
    out.write(p.frame_id);
    for (const uint32_t v : {p.width, p.height, p.stride, p.uv_offset}) out.write(v);
    out.write(static_cast<uint64_t>(p.nv12.size()));
    const Hash128 h = xxh128(std::as_bytes(p.nv12));
    out.write(h.lo);
    out.write(h.hi);
  }
  return out.take();
}

Pieces pieces_of(const Flight& f) {
  Pieces out;
  ByteWriter head;
  head.write(uint32_t{1});
  head.write(static_cast<uint8_t>(f.reason));
  for (const std::string* text : {&f.text, &f.bundle_id, &f.device}) put_text(head, *text);
  head.write(f.time_ns);
  out.head = head.take();
  out.before = ipc::encode_recording({f.source, f.before});
  out.failed = ipc::encode_recording({f.source, {f.failed}});
  out.tensors = tensor_bytes(f.tensors);
  out.pictures = picture_rows(f.pictures);
  for (const FlightPicture& p : f.pictures) {
    out.pixels.emplace_back();
    append(out.pixels.back(), std::as_bytes(p.nv12));
  }
  return out;
}

ipc::RecordedRun any_run(Rng& rng) {
  ipc::RecordedRun run;
  run.model = rng.one_in(2) ? ipc::RecordedModel::kRoad : ipc::RecordedModel::kCabin;
  run.frame_id = nasty(rng, 1000);
  run.resets = rng.below(4);
  run.since_reset = nasty(rng, 1);
  run.vehicle.calibration_known = rng.one_in(2);
  run.raw.resize(rng.below(10));
  for (float& f : run.raw) f = any_float(rng);
  return run;
}

Tensors any_tensors(Rng& rng) {
  Tensors out(rng.one_in(100) ? kMaxTensors : rng.below(5));
  for (FlightTensor& t : out) {
    t.is_output = rng.one_in(2);
    t.name = any_word(rng, rng.one_in(100) ? kMaxText : 20);
    t.bytes.resize(rng.below(50));
    for (std::byte& b : t.bytes) b = static_cast<std::byte>(rng.below(256));
  }
  return out;
}

// Pixels of all pictures lie in `room`, which must outlive them.
std::vector<FlightPicture> any_pictures(Rng& rng, std::vector<std::vector<uint8_t>>& room) {
  std::vector<FlightPicture> out(rng.one_in(50) ? kMaxPictures : rng.below(4));
  room.resize(out.size());
  for (size_t i = 0; i < out.size(); ++i) {
    FlightPicture& p = out[i];
    p.stream = static_cast<ipc::StreamId>(rng.below(ipc::kStreamCount));
    p.frame_id = nasty(rng, 1000);
    p.width = static_cast<uint32_t>(2 * (1 + rng.below(8)));
    p.height = static_cast<uint32_t>(2 * (1 + rng.below(8)));
    p.stride = p.width + static_cast<uint32_t>(rng.below(8));
    p.uv_offset = p.stride * p.height + static_cast<uint32_t>(rng.below(8));
    room[i].resize(p.uv_offset + p.stride * (p.height / 2) + rng.below(8));
    for (uint8_t& b : room[i]) b = static_cast<uint8_t>(rng.below(256));
    p.nv12 = room[i];
  }
  return out;
}

Flight any_flight(Rng& rng, std::vector<std::vector<uint8_t>>& room) {
  Flight f;
  f.reason = static_cast<ipc::Reason>(rng.below(ipc::kReasonCount));
  f.text = any_word(rng, rng.one_in(20) ? kMaxText : 60);
  f.bundle_id = any_word(rng, 64);
  f.device = any_word(rng, 10);
  f.time_ns = static_cast<int64_t>(nasty(rng, 1u << 30));
  f.source = any_word(rng, 40);
  for (uint64_t n = rng.below(4); n > 0; --n) f.before.push_back(any_run(rng));
  f.failed = any_run(rng);
  f.tensors = any_tensors(rng);
  f.pictures = any_pictures(rng, room);
  return f;
}

// ---- damage ----

// In the recording, whose own hash holds again; or another good recording in its place.
void damage_recording(Bytes& recording, Rng& rng) {
  if (rng.one_in(3)) {
    ipc::Recording other;
    other.source = any_word(rng, 10);
    for (uint64_t n = rng.below(3); n > 0; --n) other.runs.push_back(any_run(rng));
    recording = ipc::encode_recording(other);
    return;
  }
  recording.resize(recording.size() - kHashBytes);
  damage_bytes(recording, rng, kMagicBytes + kVersionBytes);
  append_hash(recording);
}

void damage_pixels(Pieces& p, Rng& rng) {
  if (p.pixels.empty()) return damage_bytes(p.pictures, rng);
  const size_t which = rng.below(p.pixels.size());
  damage_bytes(p.pixels[which], rng);
  if (rng.one_in(2)) return;
  // As if the writer had seen them so.
  Bytes hashed = p.pixels[which];
  const uint64_t size = hashed.size();
  append_hash(hashed);
  std::byte* const row = p.pictures.data() + 4 + which * kRowBytes;
  std::memcpy(row + kRowBytes - kHashBytes - 8, &size, 8);
  std::memcpy(row + kRowBytes - kHashBytes, hashed.data() + size, kHashBytes);
}

void damage_piece(Pieces& p, Rng& rng) {
  switch (rng.below(6)) {
    case 0:  // the version only now and then: there is nothing behind a wrong one
      return damage_bytes(p.head, rng, rng.one_in(20) ? 0 : kVersionBytes);
    case 1:
      return damage_recording(p.before, rng);
    case 2:
      return damage_recording(p.failed, rng);
    case 3:
      return damage_bytes(p.tensors, rng);
    case 4:
      return damage_bytes(p.pictures, rng);
    default:
      return damage_pixels(p, rng);
  }
}

Bytes damaged(Pieces p, Rng& rng) {
  if (rng.one_in(8)) {
    Bytes file = p.whole(p.body());
    damage_bytes(file, rng, rng.one_in(4) ? 0 : kMagicBytes);
    return file;
  }
  damage_piece(p, rng);
  Bytes body = p.body();
  if (rng.one_in(4)) damage_bytes(body, rng, kVersionBytes);
  Bytes file = p.whole(body);
  if (rng.one_in(20)) file.resize(file.size() + 1 + rng.below(4));  // behind the pixels
  return file;
}

// ---- the readers, or readers with a bug ----

// `good`: what the damaged bytes were; that is what a reader takes them for that does not look.
template <class T, class Parse>
Result<T> read(const Parse& parse, const Bytes& bytes, const Bytes& good, const Defect* defect) {
  Result<T> r = parse(bytes);
  if (defect == nullptr) return r;
  if (r.ok()) {
    if (defect == &kDefects[kValueDefects]) return fail(Errc::kCorrupt, "refused");
    return r;
  }
  const char* const word = defect->overlooks;
  if (word != nullptr && r.error().what.find(word) != std::string::npos) return parse(good);
  if (defect == &kDefects[kValueDefects + 1]) r.error().what.clear();
  return r;
}

template <class T, class Check>
CaseResult judge(const Result<T>& r, bool is_good, const Check& check, const CaseTimer& timer) {
  CaseResult out;
  out.accepted = r.ok();
  if (r.ok())
    out.finding = check(*r);
  else if (is_good)
    out.finding = "a good one is refused: " + r.error().what;
  else
    out.finding = must_be_clear(r.error());
  if (out.finding.empty()) out.finding = timer.check();
  return out;
}

// Undamaged; nothing is known to be good when `good` is empty.
bool is_same(const Bytes& bytes, const Bytes& good) {
  return !good.empty() && bytes == good;
}

std::string check_picture(const FlightPicture& p) {
  const uint64_t used = uint64_t{p.uv_offset} + uint64_t{p.stride} * (p.height / 2);
  const bool fits =
      p.stride >= p.width && uint64_t{p.stride} * p.height <= p.uv_offset && used <= p.nv12.size();
  return fits ? "" : "accepted with a picture that is larger than its bytes";
}

std::string check_flight(const Bytes& file, const Flight& f) {
  if (!is_past_header(file)) return "accepted with a header or hash that does not hold";
  for (const FlightPicture& p : f.pictures) {
    if (std::string bad = check_picture(p); !bad.empty()) return bad;
  }
  return ipc::encode_flight(f) == file ? "" : "accepted, but writing it again gives other bytes";
}

CaseResult flight_case(const Bytes& file, const Bytes& good, const Defect* defect) {
  const CaseTimer timer;
  const auto parse = [](const Bytes& b) { return ipc::parse_flight(b); };
  Result<Flight> r = read<Flight>(parse, file, good, defect);
  if (r.ok() && defect != nullptr) {
    if (defect->spoils != nullptr) defect->spoils(*r);
    if (defect->spoils_tensors != nullptr) defect->spoils_tensors(r->tensors);
  }
  CaseResult out = judge(
      r, is_same(file, good), [&](const Flight& f) { return check_flight(file, f); }, timer);
  out.past_header = is_past_header(file);
  return out;
}

CaseResult capture_case(const Bytes& bytes, const Bytes& good, const Defect* defect) {
  const CaseTimer timer;
  const auto parse = [](const Bytes& b) { return ipc::parse_tensors(b); };
  Result<Tensors> r = read<Tensors>(parse, bytes, good, defect);
  if (r.ok() && defect != nullptr && defect->spoils_tensors != nullptr) defect->spoils_tensors(*r);
  const auto check = [&](const Tensors& t) {
    return tensor_bytes(t) == bytes
               ? std::string()
               : std::string("tensors accepted, but writing them again gives other bytes");
  };
  CaseResult out = judge(r, is_same(bytes, good), check, timer);
  // It has no header but the number of tensors.
  const uint32_t count = bytes.size() < 4 ? 0 : number_at<uint32_t>(bytes, 0);
  out.past_header = count > 0 && count <= kMaxTensors;
  return out;
}

CaseResult run_case(Rng& rng, int defect_index) {
  const Defect* const defect = defect_index < 0 ? nullptr : &kDefects[defect_index];
  const bool stays_good = rng.one_in(8);
  if (rng.one_in(4)) {
    const Bytes good = tensor_bytes(any_tensors(rng));
    Bytes bytes = good;
    for (uint64_t n = stays_good ? 0 : 1 + rng.below(3); n > 0; --n) damage_bytes(bytes, rng);
    return capture_case(bytes, good, defect);
  }
  std::vector<std::vector<uint8_t>> room;
  const Flight flight = any_flight(rng, room);
  const Pieces pieces = pieces_of(flight);
  const Bytes good = pieces.whole(pieces.body());
  if (ipc::encode_flight(flight) != good) {
    CaseResult out;
    out.finding = "the writer puts the record together in another way";
    return out;
  }
  return flight_case(stays_good ? good : damaged(pieces, rng), good, defect);
}

[[maybe_unused]] Fuzzer make_fuzzer() {
  Fuzzer out{"fuzz_flight", run_case, {}};
  for (const Defect& d : kDefects) out.defects.emplace_back(d.name);
  return out;
}

}  // namespace
}  // namespace modeld::fuzz

#ifdef MODELD_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace modeld::fuzz;
  if (size == 0) return 0;
  Bytes rest(size - 1);
  if (!rest.empty()) std::memcpy(rest.data(), data + 1, rest.size());
  // The first byte says what the rest is: a capture, or the body of a record.
  const bool is_capture = data[0] % 2 == 1;
  const Bytes file = is_capture ? rest : Pieces().whole(rest);
  const auto found = is_capture ? capture_case(file, {}, nullptr) : flight_case(file, {}, nullptr);
  if (!found.finding.empty()) __builtin_trap();
  return 0;
}
#else
int main(int argc, char** argv) {
  using namespace modeld::fuzz;
  limit_memory();
  return fuzz_main(argc, argv, make_fuzzer());
}
#endif
