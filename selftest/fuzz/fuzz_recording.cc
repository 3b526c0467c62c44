// Fuzzes the reader of recordings: a damaged file is refused with one line, or it is exactly what
// the writer would have written. Hash and run count are repaired after the damage.
#include <cstring>

#include "hal/base/hash.h"

#include "ipc/recording.h"

#include "selftest/fuzz/damage.h"

namespace modeld::fuzz {
namespace {

using ipc::Recording;

enum class Defect : int {
  kNone = -1,
  kNoHash,       // a file with another hash is read all the same
  kLosesRun,     // the last run is not reported
  kTruncates,    // the last float of a raw vector is lost
  kWrongModel,   // a model that does not exist
  kForgetsFlag,  // right_hand_drive is not read
  kRefusesGood,  // a whole recording is refused
  kSilent,       // an error without text
};
const char* const kDefectNames[] = {
    "no check of the hash",     "loses a run",    "loses a float of a raw vector",
    "model number not checked", "forgets a flag", "refuses a good recording",
    "error without text",
};

constexpr size_t kHashBytes = 16;
constexpr size_t kMagicBytes = 8;

void repair_hash(Bytes& file) {
  if (file.size() < kHashBytes) return;
  const size_t body = file.size() - kHashBytes;
  const Hash128 h = xxh128(std::span(file).first(body));
  std::memcpy(file.data() + body, &h.lo, 8);
  std::memcpy(file.data() + body + 8, &h.hi, 8);
}

// Written down a second time: the last 16 bytes are the hash of all before, low half first.
bool hash_holds(std::span<const std::byte> file) {
  if (file.size() < kHashBytes + kMagicBytes) return false;
  const Hash128 h = xxh128(file.first(file.size() - kHashBytes));
  return std::memcmp(&h.lo, file.data() + file.size() - 16, 8) == 0 &&
         std::memcmp(&h.hi, file.data() + file.size() - 8, 8) == 0;
}

bool is_past_header(std::span<const std::byte> file) {
  const uint32_t version = 1;
  return hash_holds(file) && file.size() >= kMagicBytes + 4 &&
         std::memcmp(file.data(), "MDLDREC1", kMagicBytes) == 0 &&
         std::memcmp(file.data() + kMagicBytes, &version, 4) == 0;
}

// The reader, or one with a bug.
Result<Recording> read(const Bytes& file, Defect defect) {
  Result<Recording> r = ipc::parse_recording(file);
  if (defect == Defect::kNoHash && !r.ok()) {
    Bytes repaired = file;
    repair_hash(repaired);
    return ipc::parse_recording(repaired);
  }
  if (!r.ok()) {
    if (defect == Defect::kSilent) r.error().what.clear();
    return r;
  }
  if (defect == Defect::kRefusesGood) return fail(Errc::kCorrupt, "recording: refused");
  if (r->runs.empty()) return r;
  ipc::RecordedRun& run = r->runs.back();
  if (defect == Defect::kTruncates && !run.raw.empty()) run.raw.pop_back();
  if (defect == Defect::kWrongModel) run.model = static_cast<ipc::RecordedModel>(2);
  if (defect == Defect::kForgetsFlag) run.vehicle.right_hand_drive = false;
  if (defect == Defect::kLosesRun) r->runs.pop_back();
  return r;
}

std::string check_accepted(const Bytes& file, const Recording& r) {
  if (!is_past_header(file)) return "accepted with a header or hash that does not hold";
  if (r.source.size() > 512) return "accepted with a source of " + std::to_string(r.source.size());
  for (const ipc::RecordedRun& run : r.runs) {
    if (run.model != ipc::RecordedModel::kRoad && run.model != ipc::RecordedModel::kCabin)
      return "accepted with an unknown model";
    if (run.raw.size() > ipc::kMaxRawFloats) return "accepted with a raw vector over the limit";
  }
  return ipc::encode_recording(r) == file ? "" : "accepted, but writing it again gives other bytes";
}

CaseResult parse_case(const Bytes& file, bool is_good, Defect defect) {
  CaseResult out;
  const CaseTimer timer;
  out.past_header = is_past_header(file);
  const Result<Recording> r = read(file, defect);
  out.accepted = r.ok();
  if (r.ok())
    out.finding = check_accepted(file, *r);
  else if (is_good)
    out.finding = "a good recording is refused: " + r.error().what;
  else
    out.finding = must_be_clear(r.error());
  if (out.finding.empty()) out.finding = timer.check();
  return out;
}

ipc::RecordedRun any_run(Rng& rng) {
  ipc::RecordedRun run;
  run.model = rng.one_in(2) ? ipc::RecordedModel::kRoad : ipc::RecordedModel::kCabin;
  run.frame_id = nasty(rng, 1000);
  run.wide_frame_id = nasty(rng, run.frame_id);
  run.resets = rng.below(4);
  run.since_reset = nasty(rng, 1);
  run.vehicle.time_ns = static_cast<int64_t>(nasty(rng, 1u << 30));
  run.vehicle.calibration_known = rng.one_in(2);
  run.vehicle.right_hand_drive = rng.one_in(2);
  for (float& f : run.vehicle.rpy_calibration) f = any_float(rng);
  for (float& f : run.vehicle.desire) f = any_float(rng);
  run.vehicle.speed = any_float(rng);
  run.raw.resize(rng.one_in(200) ? ipc::kMaxRawFloats : rng.below(40));
  for (float& f : run.raw) f = any_float(rng);
  return run;
}

Recording any_recording(Rng& rng) {
  Recording out;
  out.source = rng.one_in(2) ? "synth;seed=1;road=1928x1208" : any_word(rng, 512);
  for (uint64_t n = rng.below(5); n > 0; --n) out.runs.push_back(any_run(rng));
  return out;
}

CaseResult run_case(Rng& rng, int defect) {
  Bytes file = ipc::encode_recording(any_recording(rng));
  const bool is_good = rng.one_in(8);
  if (is_good) return parse_case(file, true, static_cast<Defect>(defect));
  const bool repaired = !rng.one_in(8);
  if (repaired) file.resize(file.size() - kHashBytes);
  // The first 12 bytes only now and then: there is nothing behind a wrong magic.
  const size_t from = rng.one_in(20) ? 0 : kMagicBytes + 4;
  for (uint64_t n = 1 + rng.below(3); n > 0; --n) damage_bytes(file, rng, from);
  if (repaired) {
    file.resize(file.size() + kHashBytes);
    repair_hash(file);
  }
  return parse_case(file, false, static_cast<Defect>(defect));
}

[[maybe_unused]] Fuzzer make_fuzzer() {
  return {"fuzz_recording", run_case, {std::begin(kDefectNames), std::end(kDefectNames)}};
}

}  // namespace
}  // namespace modeld::fuzz

#ifdef MODELD_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace modeld::fuzz;
  Bytes file(size + kHashBytes);
  if (size > 0) std::memcpy(file.data(), data, size);
  repair_hash(file);
  if (!parse_case(file, false, Defect::kNone).finding.empty()) __builtin_trap();
  return 0;
}
#else
int main(int argc, char** argv) {
  using namespace modeld::fuzz;
  limit_memory();
  return fuzz_main(argc, argv, make_fuzzer());
}
#endif
