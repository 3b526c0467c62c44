// Fuzzes the readers of .npy arrays and JSON text. Accepted arrays have exactly the bytes of their
// shape and are written and read back the same; accepted JSON is not nested too deep and is written
// and read back the same. Header lengths and data sizes are repaired after the damage.
#include <cmath>
#include <cstring>

#include "hal/base/json.h"
#include "hal/base/npy.h"

#include "selftest/fuzz/damage.h"

namespace modeld::fuzz {
namespace {

enum class Defect : int {
  kNone = -1,
  kShortData,    // data shorter than the shape
  kAnyType,      // a type of another size
  kNegativeDim,  // two dimensions below 0
  kAxisLost,     // the last axis is not read
  kRefusesNpy,   // a good array is refused
  kLosesMember,  // an object loses its last member
  kTwice,        // one member twice
  kTooDeep,      // nesting without a limit
  kRefusesJson,  // good JSON is refused
  kSilent,       // an error without text
};
const char* const kDefectNames[] = {
    "data shorter than the shape", "type of another size",     "negative dimensions",
    "last axis not read",          "refuses a good array",     "JSON object loses a member",
    "JSON member twice",           "JSON nesting not limited", "refuses good JSON",
    "error without text",
};

constexpr const char* kTypes[] = {"|b1", "|u1", "|i1", "<u2", "<i2", "<f2",
                                  "<u4", "<i4", "<f4", "<u8", "<i8", "<f8"};
constexpr size_t kPrefix = 10;  // magic, version, 16-bit length

// ---- .npy ----

Result<NpyArray> read_npy_file(const Bytes& file, Defect defect) {
  Result<NpyArray> r = parse_npy(file, "fuzz.npy");
  if (!r.ok()) {
    if (defect == Defect::kSilent) r.error().what.clear();
    return r;
  }
  if (defect == Defect::kShortData && !r->data.empty()) r->data.pop_back();
  if (defect == Defect::kAnyType) r->type = r->type == "<f8" ? "<f4" : "<f8";
  if (defect == Defect::kNegativeDim) r->shape.insert(r->shape.end(), {-1, -1});
  if (defect == Defect::kAxisLost && !r->shape.empty()) r->shape.pop_back();
  if (defect == Defect::kRefusesNpy) return fail(Errc::kCorrupt, "fuzz.npy: refused");
  return r;
}

__extension__ typedef unsigned __int128 Wide;

std::string check_array(const Bytes& file, const NpyArray& a) {
  Wide bytes = npy_item_bytes(a.type);
  if (bytes == 0 || bytes != static_cast<Wide>(a.type[2] - '0')) return "accepted type " + a.type;
  if (a.shape.size() > 32) return "accepted " + std::to_string(a.shape.size()) + " axes";
  for (const int64_t d : a.shape) {
    if (d < 0) return "accepted a negative dimension";
    bytes *= static_cast<uint64_t>(d);
    if (bytes > ~uint64_t{0}) return "accepted a shape that no file holds";
  }
  if (bytes != a.data.size()) return "accepted data of another size than the shape";
  if (a.data.size() > file.size() ||
      (!a.data.empty() &&
       std::memcmp(a.data.data(), file.data() + file.size() - a.data.size(), a.data.size()) != 0))
    return "data are not the file's last bytes";
  const auto written = format_npy(a);
  if (!written.ok()) return "what was accepted is not written: " + written.error().what;
  const auto again = parse_npy(*written, "again");
  if (!again.ok()) return "what was written is refused: " + again.error().what;
  return again->type == a.type && again->shape == a.shape && again->data == a.data
             ? ""
             : "what was written reads differently";
}

CaseResult npy_case(const Bytes& file, const NpyArray* good, Defect defect) {
  CaseResult out;
  const Result<NpyArray> r = read_npy_file(file, defect);
  out.accepted = r.ok();
  if (r.ok()) {
    out.past_header = true;
    out.finding = check_array(file, *r);
    if (out.finding.empty() && good != nullptr && r->shape != good->shape)
      out.finding = "a good array reads with another shape";
    return out;
  }
  const std::string& what = r.error().what;
  out.past_header = what.find("wrong magic") == std::string::npos &&
                    what.find(".npy version") == std::string::npos &&
                    what.find("bytes wanted") == std::string::npos;
  out.finding = good != nullptr ? "a good array is refused: " + what : must_be_clear(r.error());
  return out;
}

NpyArray any_array(Rng& rng) {
  NpyArray a;
  a.type = kTypes[rng.below(std::size(kTypes))];
  size_t bytes = npy_item_bytes(a.type);
  for (uint64_t n = rng.below(5); n > 0; --n) {
    a.shape.push_back(static_cast<int64_t>(rng.below(7)));
    bytes *= static_cast<size_t>(a.shape.back());
  }
  a.data.resize(bytes);
  for (std::byte& b : a.data) b = static_cast<std::byte>(rng.below(256));
  return a;
}

// Magic, version 1 or 2, the length of `header`, then header and data.
Bytes join_npy(const std::string& header, std::span<const std::byte> data, bool second) {
  Bytes out(second ? 12 : kPrefix);
  std::memcpy(out.data(), "\x93NUMPY", 6);
  out[6] = second ? std::byte{2} : std::byte{1};
  const auto size = static_cast<uint32_t>(header.size());
  std::memcpy(out.data() + 8, &size, second ? 4 : 2);
  const auto* text = reinterpret_cast<const std::byte*>(header.data());
  out.insert(out.end(), text, text + header.size());
  out.insert(out.end(), data.begin(), data.end());
  return out;
}

constexpr std::string_view kNpyWords[] = {
    "'descr': ",
    "'<f4'",
    "'>f4'",
    "'|O'",
    "'fortran_order': True",
    "False",
    "()",
    "(,)",
    "(3,)",
    "(1, 2, 3,)",
    "18446744073709551615",
    "9223372036854775807",
    "0, ",
    "-1, ",
    "'shape': ",
    "{",
    "}",
    "[('a', '<f4')]",
    "\n",
    "0x4",
    "4294967296, 4294967296, ",
    "1, 1, 1, 1, 1, 1, 1, 1, 1, 1,",
};

CaseResult run_npy(Rng& rng, Defect defect) {
  const NpyArray a = any_array(rng);
  auto written = format_npy(a);
  if (!written.ok()) {
    CaseResult out;
    out.finding = "array is not written: " + written.error().what;
    return out;
  }
  if (rng.one_in(8)) return npy_case(*written, &a, defect);
  if (rng.one_in(8)) {
    damage_bytes(*written, rng, rng.one_in(8) ? 0 : 8);
    return npy_case(*written, nullptr, defect);
  }
  const size_t header_bytes = written->size() - a.data.size() - kPrefix;
  std::string header(reinterpret_cast<const char*>(written->data()) + kPrefix, header_bytes);
  header.resize(header.find('}') + 1);
  for (uint64_t n = 1 + rng.below(2); n > 0; --n) damage_text(header, rng, kNpyWords);
  Bytes data = a.data;
  if (rng.one_in(4)) data.resize(rng.below(64));
  const bool second = rng.one_in(3);
  if (second && rng.one_in(200)) header.resize(rng.below(70'000), ' ');
  if (!second && header.size() > 65'535) header.resize(65'535);
  return npy_case(join_npy(header, data, second), nullptr, defect);
}

// ---- JSON ----

Result<Json> read_json(const std::string& text, Defect defect) {
  Result<Json> r = Json::parse(text);
  if (!r.ok()) {
    if (defect == Defect::kSilent) r.error().what.clear();
    if (defect == Defect::kTooDeep && r.error().what.find("deeper") != std::string::npos) {
      Json deep;
      for (int i = 0; i < 80; ++i) {
        Json outer = Json::array();
        outer.push(std::move(deep));
        deep = std::move(outer);
      }
      return deep;
    }
    return r;
  }
  if (defect == Defect::kRefusesJson) return fail(Errc::kInvalid, "JSON: refused");
  if (!r->is_object() || r->size() == 0) return r;
  Json other = Json::object();
  const Json::Object& members = r->members();
  if (defect == Defect::kLosesMember)
    for (size_t i = 0; i + 1 < members.size(); ++i) other.set(members[i].first, members[i].second);
  else
    other = *r;
  if (defect == Defect::kTwice) const_cast<Json::Object&>(other.members()).push_back(members[0]);
  return other;
}

// Depth of nesting, and what no parser may make: a member twice, a number that is not finite.
std::string walk(const Json& v, int depth) {
  if (v.is_array() || v.is_object()) {
    if (depth >= Json::kMaxDepth) return "nested deeper than allowed";
  } else if (v.is_number() && !std::isfinite(v.double_or(0))) {
    return "number that is not finite";
  }
  for (const Json& item : v.items())
    if (std::string bad = walk(item, depth + 1); !bad.empty()) return bad;
  for (size_t i = 0; i < v.members().size(); ++i) {
    const auto& [key, member] = v.members()[i];
    if (v.find(key) != &member) return "member twice: " + key;
    if (std::string bad = walk(member, depth + 1); !bad.empty()) return bad;
  }
  return "";
}

CaseResult json_case(const std::string& text, const Json* good, Defect defect) {
  CaseResult out;
  const Result<Json> r = read_json(text, defect);
  out.accepted = r.ok();
  if (!r.ok()) {
    // A text that is wrong from its first bytes on says little.
    unsigned at = 99;
    (void)!sscanf(r.error().what.c_str(), "JSON: syntax error at byte %u", &at);
    out.past_header = at > 8;
    out.finding =
        good != nullptr ? "good JSON is refused: " + r.error().what : must_be_clear(r.error());
    return out;
  }
  out.past_header = true;
  if (std::string bad = walk(*r, 0); !bad.empty()) {
    out.finding = "accepted: " + bad;
    return out;
  }
  const std::string written = r->dump(text.size() % 3 == 0 ? 2 : -1);
  const Result<Json> again = Json::parse(written);
  if (!again.ok())
    out.finding = "what was accepted is refused when written: " + again.error().what;
  else if (!(*again == *r))
    out.finding = "what was accepted reads differently when written";
  else if (good != nullptr && !(*r == *good))
    out.finding = "good JSON reads differently";
  return out;
}

Json any_json(Rng& rng, int depth) {
  switch (rng.below(depth > 5 ? 5 : 8)) {
    case 0:
      return Json();
    case 1:
      return Json(rng.one_in(2));
    case 2:
      return Json(static_cast<int64_t>(nasty(rng, 100)));
    case 3: {
      const double d = any_double(rng);
      return Json(std::isfinite(d) ? d : 0.5);
    }
    case 4:
      return Json(any_word(rng, 20) + (rng.one_in(3) ? "\n\x01\xc3\xa4\"" : ""));
    case 5: {
      Json out = Json::array();
      for (uint64_t n = rng.below(5); n > 0; --n) out.push(any_json(rng, depth + 1));
      return out;
    }
    default: {
      Json out = Json::object();
      for (uint64_t n = rng.below(5); n > 0; --n)
        out.set(any_word(rng, 6), any_json(rng, depth + 1));
      return out;
    }
  }
}

constexpr std::string_view kJsonWords[] = {
    "{\"a\":1,\"a\":2}",
    "[[[[",
    "]]]]",
    "\"\\ud800\"",
    "\"\\u0000\"",
    "1e999",
    "-0",
    "-0.0",
    "0x1",
    "18446744073709551615",
    "9223372036854775808",
    "NaN",
    "null",
    "\xff",
    "\xc3\xa4",
    "1e-400",
    ",",
    "\"\":",
    "/*x*/",
    "1.7976931348623157e308",
};

CaseResult run_json(Rng& rng, Defect defect) {
  const Json v = any_json(rng, 0);
  std::string text = v.dump(rng.one_in(3) ? 1 : -1);
  if (rng.one_in(8)) return json_case(text, &v, defect);
  if (rng.one_in(16)) {
    const size_t depth = rng.one_in(20) ? 100'000 : 55 + rng.below(20);
    text = std::string(depth, '[') + text + std::string(depth, ']');
  }
  for (uint64_t n = 1 + rng.below(2); n > 0; --n) damage_text(text, rng, kJsonWords);
  return json_case(text, nullptr, defect);
}

CaseResult run_case(Rng& rng, int defect) {
  const CaseTimer timer;
  const auto d = static_cast<Defect>(defect);
  CaseResult out = rng.one_in(2) ? run_npy(rng, d) : run_json(rng, d);
  if (out.finding.empty()) out.finding = timer.check();
  return out;
}

[[maybe_unused]] Fuzzer make_fuzzer() {
  return {"fuzz_npy", run_case, {std::begin(kDefectNames), std::end(kDefectNames)}};
}

}  // namespace
}  // namespace modeld::fuzz

#ifdef MODELD_LIBFUZZER
// The first byte chooses the reader.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace modeld::fuzz;
  if (size == 0) return 0;
  CaseResult r;
  if (data[0] % 2 == 0) {
    Bytes file(size - 1);
    if (size > 1) std::memcpy(file.data(), data + 1, size - 1);
    r = npy_case(file, nullptr, Defect::kNone);
  } else {
    r = json_case(std::string(reinterpret_cast<const char*>(data) + 1, size - 1), nullptr,
                  Defect::kNone);
  }
  if (!r.finding.empty()) __builtin_trap();
  return 0;
}
#else
int main(int argc, char** argv) {
  using namespace modeld::fuzz;
  limit_memory();
  return fuzz_main(argc, argv, make_fuzzer());
}
#endif
