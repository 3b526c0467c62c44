// Fuzzes the daemon's configuration: what is accepted satisfies every range and, written out again,
// reads the same; what is refused says so in one line that names the file. Files are built from
// known keys with right and wrong values, so that most get past the TOML reader.
#include <algorithm>
#include <cstring>
#include <set>

#include "daemon/config.h"

#include "selftest/fuzz/damage.h"

namespace modeld::fuzz {
namespace {

using daemon::Config;
using daemon::ModelConfig;

enum class Defect : int {
  kNone = -1,
  kAnyTimeout,    // timeout_ms without a limit
  kLateAfter,     // late_ms above timeout_ms
  kAnyCpu,        // a CPU number below 0
  kNoBundle,      // a model without a bundle
  kAnyWord,       // prepare = anything
  kForgetsFlag,   // require_signature is not read
  kTwice,         // a model twice
  kRefusesGood,   // a good file is refused
  kNameless,      // an error that does not name the file
  kTwoLines,      // an error of two lines
  kUnknownIsFine  // keys nobody knows are passed over
};
const char* const kDefectNames[] = {
    "no limit of timeout_ms", "late_ms above timeout_ms", "CPU number not checked",
    "bundle not required",    "prepare takes any word",   "forgets require_signature",
    "a model twice",          "refuses a good file",      "error without the file's name",
    "error of two lines",     "unknown keys are ignored",
};

// ---- writing ----

std::string quoted(const std::string& s) {
  std::string out = "\"";
  for (const char c : s) {
    if (static_cast<unsigned char>(c) < 32 || c == 127)
      out += strf("\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    else if (c == '"' || c == '\\')
      out += std::string("\\") + c;
    else
      out += c;
  }
  return out + "\"";
}

std::string write_model(const ModelConfig& m) {
  std::string out = "[model." + m.name + "]\n";
  out += "bundle = " + quoted(m.bundle) + "\ndevice = " + quoted(m.device) + "\n";
  out += "fallback_bundle = " + quoted(m.fallback_bundle) + "\n";
  out += "fallback_device = " + quoted(m.fallback_device) + "\n";
  out += "prepare = " + quoted(m.prepare) + "\n";
  out += "late_ms = " + std::to_string(m.late_ms) + "\n";
  out += "timeout_ms = " + std::to_string(m.timeout_ms) + "\n";
  out += "load_s = " + std::to_string(m.load_s) + "\n";
  out += "priority = " + std::to_string(m.priority) + "\ncpus = [";
  for (const int c : m.cpus) out += std::to_string(c) + ",";
  return out + "]\n";
}

std::string write_config(const Config& c) {
  std::string out = "runtime_dir = " + quoted(c.runtime_dir) + "\nuser = " + quoted(c.user) + "\n";
  out += "[camera]\nsocket = " + quoted(c.camera_socket) +
         "\n[trust]\nkeys = " + quoted(c.keys_dir) + "\n";
  out += strf("require_signature = %s\n", c.require_signature ? "true" : "false");
  out += strf("[publish]\nraw = %s\n", c.publish_raw ? "true" : "false");
  for (const ModelConfig& m : c.models) out += write_model(m);
  return out;
}

bool same(const Config& a, const Config& b) {
  return a.path == b.path && a.runtime_dir == b.runtime_dir && a.user == b.user &&
         a.camera_socket == b.camera_socket && a.models == b.models && a.keys_dir == b.keys_dir &&
         a.require_signature == b.require_signature && a.publish_raw == b.publish_raw;
}

// ---- the reader, or one with a bug ----

Config spoiled(Config c, Defect defect) {
  ModelConfig& m = c.models.front();
  if (defect == Defect::kAnyTimeout) m.timeout_ms = 600'001;
  if (defect == Defect::kLateAfter) m.timeout_ms = 10, m.late_ms = 11;
  if (defect == Defect::kAnyCpu) m.cpus.push_back(-1);
  if (defect == Defect::kNoBundle) m.bundle.clear();
  if (defect == Defect::kAnyWord) m.prepare = "perhaps";
  if (defect == Defect::kForgetsFlag) c.require_signature = false;
  if (defect == Defect::kTwice) c.models.push_back(c.models.front());
  return c;
}

Result<Config> read(const std::string& text, Defect defect) {
  Result<Config> r = daemon::parse_config(text, "fuzz.toml");
  if (defect == Defect::kNone) return r;
  if (defect == Defect::kUnknownIsFine && !r.ok() &&
      r.error().what.find("is not a key") != std::string::npos)
    return daemon::parse_config("[model.road]\nbundle = 'b'\n", "fuzz.toml");
  if (!r.ok()) {
    if (defect == Defect::kNameless) r.error().what = "wrong";
    if (defect == Defect::kTwoLines) r.error().what += "\nmore";
    return r;
  }
  if (defect == Defect::kRefusesGood) return fail(Errc::kInvalid, "fuzz.toml:1: refused");
  return spoiled(std::move(*r), defect);
}

// ---- what must hold ----

std::string check_model(const ModelConfig& m) {
  const auto outside = [](int64_t v, int64_t min, int64_t max) { return v < min || v > max; };
  if (m.bundle.empty()) return "accepted without a bundle";
  if (m.prepare != "missing" && m.prepare != "never") return "accepted prepare " + m.prepare;
  if (outside(m.timeout_ms, 1, 600'000) || outside(m.late_ms, 1, 60'000) ||
      outside(m.load_s, 1, 3600))
    return "accepted a time out of range";
  if (m.late_ms > m.timeout_ms) return "accepted late_ms above timeout_ms";
  if (outside(m.priority, 0, 99)) return "accepted a priority out of range";
  for (const int c : m.cpus)
    if (outside(c, 0, 1023)) return "accepted CPU " + std::to_string(c);
  return "";
}

std::string check_accepted(const Config& c, Defect defect) {
  std::vector<std::string> names;
  for (const ModelConfig& m : c.models) {
    names.push_back(m.name);
    if (std::string bad = check_model(m); !bad.empty()) return bad;
  }
  using Names = std::vector<std::string>;
  if (names != Names{"road"} && names != Names{"cabin"} && names != Names{"road", "cabin"})
    return "accepted with models " + std::to_string(names.size());
  const Result<Config> again = read(write_config(c), defect);
  if (!again.ok()) return "what was accepted is refused when written out: " + again.error().what;
  return same(c, *again) ? "" : "what was accepted reads differently when written out";
}

std::string check_refused(const Error& e) {
  if (std::string bad = must_be_clear(e); !bad.empty()) return bad;
  return e.what.starts_with("fuzz.toml:") ? "" : "error does not name the file: " + e.what;
}

// What the maker of a file knows of it.
enum class Known : uint8_t { kNothing, kGood, kBad };

struct File {
  std::string text;
  Known known = Known::kNothing;
  Config config;  // of a good file
};

CaseResult parse_case(const File& file, Defect defect) {
  CaseResult out;
  const CaseTimer timer;
  const Result<Config> r = read(file.text, defect);
  out.accepted = r.ok();
  if (r.ok()) {
    out.past_header = true;
    out.finding = check_accepted(*r, defect);
    if (out.finding.empty() && file.known == Known::kBad) out.finding = "a bad file is accepted";
    if (out.finding.empty() && file.known == Known::kGood && !same(*r, file.config))
      out.finding = "a good file reads differently";
  } else {
    out.past_header = r.error().what.find("not TOML") == std::string::npos;
    out.finding = check_refused(r.error());
    if (file.known == Known::kGood) out.finding = "a good file is refused: " + r.error().what;
  }
  if (out.finding.empty()) out.finding = timer.check();
  return out;
}

// ---- files ----

std::string any_path(Rng& rng) {
  switch (rng.below(6)) {
    case 0:
      return "/var/lib/modeld/road.bundle";
    case 1:
      return any_word(rng, 60) + "b";
    case 2:
      return "a\tb\nc";
    case 3:
      return "x y \xc3\xa4";
    case 4:
      return std::string(1 + rng.below(5000), 'p');
    default:
      return "cpu:" + std::to_string(rng.below(20));
  }
}

ModelConfig any_model(Rng& rng, const std::string& name) {
  ModelConfig m;
  m.name = name;
  m.bundle = any_path(rng);
  m.device = any_path(rng);
  if (rng.one_in(2)) m.fallback_bundle = any_path(rng);
  m.prepare = rng.one_in(2) ? "missing" : "never";
  m.timeout_ms = 1 + static_cast<int64_t>(rng.below(600'000));
  m.late_ms = 1 + static_cast<int64_t>(
                      rng.below(static_cast<uint64_t>(std::min<int64_t>(m.timeout_ms, 60'000))));
  m.load_s = 1 + static_cast<int64_t>(rng.below(3600));
  m.priority = static_cast<int64_t>(rng.below(100));
  for (uint64_t n = rng.below(4); n > 0; --n) m.cpus.push_back(static_cast<int>(rng.below(1024)));
  return m;
}

Config any_config(Rng& rng) {
  Config c;
  c.path = "fuzz.toml";
  c.runtime_dir = any_path(rng);
  c.user = any_word(rng, 8);
  c.camera_socket = any_path(rng);
  c.keys_dir = any_path(rng);
  c.require_signature = rng.one_in(2);
  c.publish_raw = rng.one_in(2);
  const uint64_t which = rng.below(3);
  if (which != 1) c.models.push_back(any_model(rng, "road"));
  if (which != 0) c.models.push_back(any_model(rng, "cabin"));
  return c;
}

// One value that must be refused, in a file that is good otherwise.
void make_bad(Config& c, Rng& rng) {
  ModelConfig& m = c.models[rng.below(c.models.size())];
  const int64_t over = static_cast<int64_t>(rng.below(1u << 20)) + 1;
  switch (rng.below(7)) {
    case 0:
      m.timeout_ms = rng.one_in(2) ? 600'000 + over : 1 - over;
      break;
    case 1:
      m.late_ms = rng.one_in(2) ? 60'000 + over : 1 - over;
      break;
    case 2:
      m.load_s = rng.one_in(2) ? 3600 + over : 1 - over;
      break;
    case 3:
      m.priority = rng.one_in(2) ? 99 + over : -over;
      break;
    case 4:
      m.cpus.push_back(static_cast<int>(rng.one_in(2) ? 1023 + over : -over));
      break;
    case 5:
      m.prepare = "may" + any_word(rng, 5);
      break;
    default:
      m.bundle.clear();
      break;
  }
}

constexpr std::string_view kWords[] = {
    "bundle = 3\n",
    "late_ms = 0\n",
    "timeout_ms = -1\n",
    "cpus = [1, 'a']\n",
    "cpus = []\n",
    "[model.road]\n",
    "[model]\n",
    "[[model.road]]\n",
    "[model.side]\n",
    "priority = 1e3\n",
    "'late\\n' = 1\n",
    "\"a\\nb\" = 2\n",
    "device = \"x\\u0007\"\n",
    "prepare = 'a'\n",
    "true",
    "1979-05-27",
    "0x7fffffffffffffff",
    "9223372036854775808",
    "inf",
    "nan",
    "{a = 1}",
    "[[[[",
    "\"\"\"",
    "'''",
    "#",
    "load_s = 0b1\n",
    "camera.socket = 1\n",
    "\xff",
    "\\u0000",
    "publish = 1\n",
};

// Lines with unknown keys at the file's end belong to its last table; no table takes them.
File any_file(Rng& rng) {
  File f;
  f.config = any_config(rng);
  switch (rng.below(8)) {
    case 0:
      f.known = Known::kGood;
      break;
    case 1:
      f.known = Known::kBad;
      make_bad(f.config, rng);
      break;
    case 2:
      f.text = write_config(f.config) + "key" + std::to_string(rng.below(100)) + " = 1\n";
      f.known = Known::kBad;
      return f;
    default:
      f.text = write_config(f.config);
      if (rng.one_in(400)) f.text += "x = " + std::string(1 + rng.below(60'000), '[');
      for (uint64_t n = 1 + rng.below(3); n > 0; --n) damage_text(f.text, rng, kWords);
      return f;
  }
  f.text = write_config(f.config);
  return f;
}

CaseResult run_case(Rng& rng, int defect) {
  return parse_case(any_file(rng), static_cast<Defect>(defect));
}

[[maybe_unused]] Fuzzer make_fuzzer() {
  return {"fuzz_config", run_case, {std::begin(kDefectNames), std::end(kDefectNames)}};
}

}  // namespace
}  // namespace modeld::fuzz

#ifdef MODELD_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace modeld::fuzz;
  File f;
  f.text.assign(reinterpret_cast<const char*>(data), size);
  if (!parse_case(f, Defect::kNone).finding.empty()) __builtin_trap();
  return 0;
}
#else
int main(int argc, char** argv) {
  using namespace modeld::fuzz;
  limit_memory();
  return fuzz_main(argc, argv, make_fuzzer());
}
#endif
