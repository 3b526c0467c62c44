// Fuzzes the readers of messages: what is accepted is read whole (nothing of an earlier message is
// left), keeps every limit, belongs to the topic that read_topic() names, and is built again to the
// same values. The segment table is repaired after the damage.
#include <algorithm>
#include <cstring>
#include <optional>

#include "ipc/message.h"

#include "selftest/fuzz/damage.h"
#include "selftest/fuzz/message_make.h"

namespace modeld::fuzz {
namespace {

using namespace ipc;  // NOLINT(google-build-using-namespace) the fuzzer speaks of nothing else

enum class Defect : int {
  kNone = -1,
  kStale,        // one value is left from the message before
  kAnyState,     // a model state without a name
  kAnyReason,    // a reason without a name
  kLongText,     // a text over the limit
  kHiddenText,   // text goes on behind a NUL
  kTooMany,      // more rows than a message may have
  kAnyMember,    // a message of another topic is taken for one of this
  kOtherTopic,   // read_topic() names another topic
  kRefusesGood,  // a good message is refused
  kSilent,       // an error without text
};
const char* const kDefectNames[] = {
    "value of the message before", "state not checked",
    "reason not checked",          "text not limited",
    "text behind a NUL",           "rows not limited",
    "takes another topic's",       "names another topic",
    "refuses a good message",      "error without text",
};

// ---- what the five kinds have in common ----

struct Kind {
  Topic topic;
  const char* name;
};
constexpr Kind kind_of(const VehicleMessage&) {
  return {Topic::kVehicle, "vehicle"};
}
constexpr Kind kind_of(const RoadMessage&) {
  return {Topic::kRoad, "road"};
}
constexpr Kind kind_of(const CabinMessage&) {
  return {Topic::kCabin, "cabin"};
}
constexpr Kind kind_of(const StateMessage&) {
  return {Topic::kState, "state"};
}
constexpr Kind kind_of(const MetricsMessage&) {
  return {Topic::kMetrics, "metrics"};
}

void make(VehicleMessage& m, Rng& rng) {
  m = any_vehicle_message(rng);
}
void make(RoadMessage& m, Rng& rng) {
  m = any_road_message(rng);
}
void make(CabinMessage& m, Rng& rng) {
  m = any_cabin_message(rng);
}
void make(StateMessage& m, Rng& rng) {
  m = any_state_message(rng);
}
void make(MetricsMessage& m, Rng& rng) {
  m = any_metrics_message(rng);
}

using Texts = std::vector<std::string*>;
Texts texts(VehicleMessage& m) {
  return {&m.source};
}
Texts texts(RoadMessage&) {
  return {};
}
Texts texts(CabinMessage&) {
  return {};
}
Texts texts(StateMessage& m) {
  Texts out = {&m.source, &m.version};
  for (ModelStatus& s : m.models)
    out.insert(out.end(), {&s.name, &s.text, &s.bundle_path, &s.bundle_id, &s.device});
  return out;
}
Texts texts(MetricsMessage& m) {
  Texts out;
  for (CounterValue& c : m.counters) out.push_back(&c.name);
  for (LatencyValue& l : m.latencies) out.push_back(&l.name);
  return out;
}

bool rows_hold(const VehicleMessage&) {
  return true;
}
bool rows_hold(const RoadMessage& m) {
  return m.raw.size() <= 65536;
}
bool rows_hold(const CabinMessage& m) {
  return m.raw.size() <= 65536;
}
bool rows_hold(const StateMessage& m) {
  return m.models.size() <= 8 && std::all_of(m.models.begin(), m.models.end(), [](const auto& s) {
           return static_cast<int>(s.state) < 6 && static_cast<int>(s.reason) < 14;
         });
}
bool rows_hold(const MetricsMessage& m) {
  return m.counters.size() <= 256 && m.latencies.size() <= 256;
}

void too_many(VehicleMessage&) {}
void too_many(RoadMessage& m) {
  m.raw.resize(65537);
}
void too_many(CabinMessage& m) {
  m.raw.resize(65537);
}
void too_many(StateMessage& m) {
  m.models.resize(9);
}
void too_many(MetricsMessage& m) {
  m.counters.resize(257);
}

void keep_old(VehicleMessage& m, const VehicleMessage& old) {
  m.inputs.desire.back() = old.inputs.desire.back();
}
void keep_old(RoadMessage& m, const RoadMessage& old) {
  m.plan.std.back() = old.plan.std.back();
}
void keep_old(CabinMessage& m, const CabinMessage& old) {
  m.rhd.face.mean.back() = old.rhd.face.mean.back();
}
void keep_old(StateMessage& m, const StateMessage& old) {
  m.version = old.version;
}
void keep_old(MetricsMessage& m, const MetricsMessage& old) {
  m.counters.insert(m.counters.end(), old.counters.begin(), old.counters.end());
}

// ---- the readers, or ones with a bug ----

template <class M>
Status read(const Bytes& bytes, M& out, Defect d) {
  const std::optional<M> old = d == Defect::kStale ? std::optional<M>(out) : std::nullopt;
  Status s = read_message(bytes, out);
  if (!s.ok()) {
    if (d == Defect::kAnyMember && s.error().code == Errc::kMismatch) return {};
    if (d == Defect::kSilent) s.error().what.clear();
    return s;
  }
  const Texts all = texts(out);
  if (d == Defect::kStale) keep_old(out, *old);
  if (d == Defect::kAnyState) out.header.state = static_cast<ModelState>(kModelStateCount);
  if (d == Defect::kAnyReason) out.header.reason = static_cast<Reason>(kReasonCount);
  if (d == Defect::kLongText && !all.empty()) all[0]->assign(513, 'x');
  if (d == Defect::kHiddenText && !all.empty()) *all[0] += std::string("\0x", 2);
  if (d == Defect::kTooMany) too_many(out);
  if (d == Defect::kRefusesGood) return fail(Errc::kCorrupt, "message: refused");
  return s;
}

std::optional<Topic> topic_of(const Bytes& bytes, Header& header, Defect d) {
  const auto topic = read_topic(bytes, header);
  if (!topic.ok()) return std::nullopt;
  return d == Defect::kOtherTopic ? Topic::kMetrics : *topic;
}

// ---- what must hold ----

template <class M>
Result<Bytes> build(const M& m) {
  static MessageBuffer buffer;
  RETURN_IF_ERROR(build_message(m, buffer));
  return Bytes(buffer.bytes().begin(), buffer.bytes().end());
}

template <class M>
std::string check_limits(M& m) {
  if (static_cast<int>(m.header.state) >= 6) return "accepted an unknown state";
  if (static_cast<int>(m.header.reason) >= 14) return "accepted an unknown reason";
  if (!rows_hold(m)) return "accepted too many rows or an unknown state in one";
  for (const std::string* t : texts(m)) {
    if (t->size() > 512) return "accepted a text of " + std::to_string(t->size());
    if (t->find('\0') != std::string::npos) return "accepted a text with a NUL";
  }
  return "";
}

// `before` is what the reader finds in its struct.
template <class M>
std::string check_accepted(const Bytes& bytes, M& m, M& before, Defect d) {
  if (std::string bad = check_limits(m); !bad.empty()) return bad;
  const auto built = build(m);
  if (!built.ok()) return "accepted, but not built again: " + built.error().what;
  M again;
  if (const Status s = read(*built, again, d); !s.ok())
    return "what was built is refused: " + s.error().what;
  const auto twice = build(again);
  if (!twice.ok() || *twice != *built) return "what was built reads to another message";
  if (!read(bytes, before, d).ok()) return "accepted once, refused the second time";
  const auto over_old = build(before);
  if (!over_old.ok() || *over_old != *built) return "values of an earlier message are left";
  return "";
}

// The bytes as a message of kind M; `good`: they were built from one.
template <class M>
CaseResult parse_as(const Bytes& bytes, const Bytes* good, M& before, Defect d) {
  CaseResult out;
  M m;
  Header header;
  const auto topic = topic_of(bytes, header, d);
  out.past_header = topic.has_value();
  const Status s = read(bytes, m, d);
  out.accepted = s.ok();
  if (!s.ok()) {
    out.finding =
        good != nullptr ? "a good message is refused: " + s.error().what : must_be_clear(s.error());
  } else if (topic != kind_of(m).topic) {
    out.finding = strf("read as %s, but read_topic() says otherwise", kind_of(m).name);
  } else if (std::string bad = check_accepted(bytes, m, before, d); !bad.empty()) {
    out.finding = bad;
  } else if (!(header == m.header)) {
    out.finding = "read_topic() gives another header";
  } else if (good != nullptr && *build(m) != *good) {
    out.finding = "a good message reads to other values";
  }
  if (!out.finding.empty()) out.finding = std::string(kind_of(m).name) + ": " + out.finding;
  return out;
}

template <class M>
CaseResult run_kind(Rng& rng, Defect d) {
  M m;
  make(m, rng);
  const auto built = build(m);
  CaseResult out;
  if (!built.ok()) {
    out.finding = "a message is not built: " + built.error().what;
    return out;
  }
  M before;
  make(before, rng);
  Bytes bytes = *built;
  const uint64_t how = rng.below(10);
  if (how == 0) return parse_as(bytes, &*built, before, d);
  if (how == 1) return parse_as(in_two_segments(bytes), &*built, before, d);
  if (how == 2) {
    if (rng.one_in(2)) bytes = in_two_segments(bytes);
    damage_bytes(bytes, rng, rng.one_in(3) ? 0 : 8);
    if (rng.one_in(2)) bytes.insert(bytes.begin(), std::byte{1});  // not aligned either
    return parse_as(bytes, nullptr, before, d);
  }
  for (uint64_t n = 1 + rng.below(2); n > 0; --n) damage_message(bytes, rng);
  out = parse_as(bytes, nullptr, before, d);
  // The same bytes as another kind: never accepted.
  MetricsMessage other;
  if (out.finding.empty() && kind_of(m).topic != Topic::kMetrics && out.accepted)
    out.finding = parse_as(bytes, nullptr, other, d).finding;
  return out;
}

CaseResult run_case(Rng& rng, int defect) {
  const CaseTimer timer;
  const auto d = static_cast<Defect>(defect);
  CaseResult out;
  switch (rng.below(5)) {
    case 0:
      out = run_kind<VehicleMessage>(rng, d);
      break;
    case 1:
      out = run_kind<RoadMessage>(rng, d);
      break;
    case 2:
      out = run_kind<CabinMessage>(rng, d);
      break;
    case 3:
      out = run_kind<StateMessage>(rng, d);
      break;
    default:
      out = run_kind<MetricsMessage>(rng, d);
      break;
  }
  if (out.finding.empty()) out.finding = timer.check();
  return out;
}

template <class M>
[[maybe_unused]] bool is_fine(const Bytes& bytes) {
  Rng rng(7);
  M before;
  make(before, rng);
  return parse_as(bytes, nullptr, before, Defect::kNone).finding.empty();
}

[[maybe_unused]] Fuzzer make_fuzzer() {
  return {"fuzz_message", run_case, {std::begin(kDefectNames), std::end(kDefectNames)}};
}

}  // namespace
}  // namespace modeld::fuzz

#ifdef MODELD_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace modeld::fuzz;
  Bytes b(size);
  if (size > 0) std::memcpy(b.data(), data, size);
  if (!is_fine<modeld::ipc::VehicleMessage>(b) || !is_fine<modeld::ipc::RoadMessage>(b) ||
      !is_fine<modeld::ipc::CabinMessage>(b) || !is_fine<modeld::ipc::StateMessage>(b) ||
      !is_fine<modeld::ipc::MetricsMessage>(b))
    __builtin_trap();
  return 0;
}
#else
int main(int argc, char** argv) {
  using namespace modeld::fuzz;
  limit_memory();
  return fuzz_main(argc, argv, make_fuzzer());
}
#endif
