#include <algorithm>
#include <cstring>
#include <string>

#include "hal/base/mapping.h"

#include "ipc/frame_protocol.h"
#include "ipc/frame_source.h"
#include "ipc/y4m.h"

#include "selftest/fuzz/camera_cases.h"

namespace modeld::fuzz {
namespace {

using ipc::SourceSpec;
using ipc::Y4mHeader;

enum class Defect : int {
  kNone = -1,
  kNoRate,         // 0 frames a second
  kOddSide,        // a side that is odd
  kForgetsBlack,   // black_at is not read
  kRefusesSource,  // a good source is refused
  kNoLineEnd,      // header_bytes without the newline
  kOtherWidth,     // width of the wrong tag
  kRefusesY4m,     // a good header is refused
  kShortFile,      // one picture more than the file has
  kSilent,         // an error without text
};
const char* const kDefects[] = {
    "source: rate of 0",
    "source: odd side",
    "source: black_at not read",
    "source: refuses a good one",
    "y4m: header without its newline",
    "y4m: width of another tag",
    "y4m: refuses a good header",
    "y4m: a picture too many",
    "source or y4m: error without text",
};

template <class T>
std::string refused(Result<T>& r, bool is_good, Defect d) {
  if (d == Defect::kSilent) r.error().what.clear();
  return is_good ? "a good input is refused: " + r.error().what : must_be_clear(r.error());
}

// ---- source string ----

Result<SourceSpec> read_source(const std::string& text, Defect d) {
  Result<SourceSpec> r = ipc::parse_source(text);
  if (!r.ok()) return r;
  if (d == Defect::kNoRate) r->fps = 0;
  if (d == Defect::kForgetsBlack) r->black_at.reset();
  if (d == Defect::kRefusesSource) return fail(Errc::kInvalid, "source string: refused");
  for (ipc::StreamSource& s : r->streams)
    if (d == Defect::kOddSide && s.present) s.width |= 1;
  return r;
}

// The same source with every key, in this order; written here a second time.
std::string write_source(const SourceSpec& s) {
  static const char* const kPatterns[] = {"straight", "lane-change", "uncalibrated", "off"};
  static const char* const kStreams[] = {"road", "wide", "cabin"};
  std::string out = s.synth ? "synth" : "y4m";
  out += ";seed=" + std::to_string(s.seed) +
         ";vehicle=" + kPatterns[static_cast<size_t>(s.vehicle)] + ";fps=" + std::to_string(s.fps);
  for (size_t i = 0; i < 3; ++i)
    if (s.streams[i].present)
      out +=
          std::string(";") + kStreams[i] + "=" +
          (s.synth ? std::to_string(s.streams[i].width) + "x" + std::to_string(s.streams[i].height)
                   : s.streams[i].path);
  if (s.black_at) out += ";black_at=" + std::to_string(*s.black_at);
  return out;
}

std::string check_source(const SourceSpec& s) {
  if (s.fps < 1 || s.fps > 1000) return "accepted rate " + std::to_string(s.fps);
  if (static_cast<size_t>(s.vehicle) > 3) return "accepted an unknown vehicle";
  bool any = false;
  for (const ipc::StreamSource& stream : s.streams) {
    if (!stream.present) continue;
    any = true;
    if (!s.synth && stream.path.empty()) return "accepted an empty path";
    if (s.synth && !ipc::nv12_geometry(stream.width, stream.height).ok())
      return "accepted a geometry that no camera has";
  }
  if (!any) return "accepted a source without streams";
  const std::string written = write_source(s);
  if (written.size() > 512) return "";  // defaults written out may exceed the limit
  const auto text = ipc::format_source(s);
  if (!text.ok()) return "accepted, but not written: " + text.error().what;
  if (*text != written) return "accepted, but written differently: " + *text;
  const auto again = ipc::parse_source(written);
  if (!again.ok() || !(*again == s)) return "accepted, but reads differently when written";
  return "";
}

// What a camera server says of itself must reach its clients.
std::string check_handshake(const std::string& source) {
  ipc::Handshake h;
  h.stream_count = 1;
  h.streams[0] = {ipc::StreamId::kRoad, *ipc::nv12_geometry(64, 48), {1, 1, 1, 1}, 2, 20};
  h.source = source;
  ipc::PacketBuffer packet;
  const auto n = ipc::encode_handshake(h, packet);
  if (!n.ok()) return "a source that no handshake carries: " + n.error().what;
  const auto back = ipc::parse_handshake(std::span(packet).first(*n));
  if (!back.ok()) return "a handshake with this source is refused: " + back.error().what;
  return *back == h ? "" : "a handshake changes the source";
}

CaseResult source_case(const std::string& text, const SourceSpec* good, Defect d) {
  CaseResult out;
  out.past_header = text.starts_with("synth;") || text.starts_with("y4m;");
  Result<SourceSpec> r = read_source(text, d);
  out.accepted = r.ok();
  if (!r.ok()) {
    out.finding = refused(r, good != nullptr, d);
    return out;
  }
  out.finding = check_source(*r);
  if (out.finding.empty()) out.finding = check_handshake(text);
  if (out.finding.empty() && good != nullptr && !(*r == *good))
    out.finding = "a good source reads differently";
  return out;
}

SourceSpec any_source(Rng& rng) {
  SourceSpec s;
  s.synth = rng.one_in(2);
  s.seed = rng.below(1u << 20);
  s.vehicle = static_cast<ipc::VehiclePattern>(rng.below(4));
  s.fps = 1 + static_cast<uint32_t>(rng.below(1000));
  if (rng.one_in(2)) s.black_at = rng.below(1000);
  for (uint64_t n = 1 + rng.below(3); n > 0; --n) {
    ipc::StreamSource& stream = s.streams[rng.below(3)];
    stream.present = true;
    if (s.synth) {
      stream.width = 16 + 2 * static_cast<uint32_t>(rng.below(4089));
      stream.height = 16 + 2 * static_cast<uint32_t>(rng.below(4089));
    } else {
      stream.path =
          rng.one_in(3) ? "/m\xc3\xa4rz/a.y4m" : "/a b=c/" + std::to_string(rng.below(99));
    }
  }
  return s;
}

constexpr std::string_view kWords[] = {
    ";road=16x16",  ";road=",    ";seed=-1", ";fps=0",   ";fps=1001", ";black_at=1", "y4m;",
    "synth;",       "=",         ";;",       "x",        "0x10",      "8194x16",     "17x16",
    ";vehicle=off", ";vehicle=", "\x1b[2J",  "\xc3\xa4", " W64",      " H48",        " H17",
    " W0x40",       " C444",     " C420p10", " Ip",      " It",       " W",          "YUV4MPEG2",
    "FRAME",        "\nFRAME\n", " XEXTRA",  "  ",
};

CaseResult run_source(Rng& rng, Defect d) {
  const SourceSpec s = any_source(rng);
  std::string text = write_source(s);
  if (rng.one_in(4)) return source_case(text, &s, d);
  for (uint64_t n = 1 + rng.below(3); n > 0; --n) damage_text(text, rng, kWords);
  return source_case(text, nullptr, d);
}

// ---- .y4m ----

Result<Y4mHeader> read_header(const Bytes& file, Defect d) {
  Result<Y4mHeader> r = ipc::parse_y4m_header(file);
  if (!r.ok()) return r;
  if (d == Defect::kNoLineEnd) --r->header_bytes;
  if (d == Defect::kOtherWidth) std::swap(r->width, r->height);
  if (d == Defect::kRefusesY4m) return fail(Errc::kInvalid, "y4m header: refused");
  return r;
}

// The last tag with this letter, as a number.
unsigned long tag_value(const std::string& line, char letter) {
  unsigned long value = 0;
  for (size_t at = line.find(' '); at != std::string::npos; at = line.find(' ', at + 1))
    if (at + 1 < line.size() && line[at + 1] == letter) {
      const char* digits = line.c_str() + at + 2;
      value = std::strtoul(digits, nullptr, std::strncmp(digits, "0x", 2) == 0 ? 16 : 10);
    }
  return value;
}

std::string check_header(const Bytes& file, const Y4mHeader& h) {
  if (h.header_bytes < 10 || h.header_bytes > std::min<size_t>(file.size(), 256))
    return "accepted a header of " + std::to_string(h.header_bytes);
  std::string line(reinterpret_cast<const char*>(file.data()), h.header_bytes);
  if (!line.starts_with("YUV4MPEG2") || line.find('\n') != h.header_bytes - 1)
    return "accepted what is not the first line";
  line.pop_back();
  if (!ipc::nv12_geometry(h.width, h.height).ok()) return "accepted sides that no camera has";
  // "YUV4MPEG2W64" is a tag too; then the first blank is missing.
  if (line.size() > 9 && line[9] != ' ') line.insert(9, " ");
  if (tag_value(line, 'W') != h.width || tag_value(line, 'H') != h.height)
    return "accepted sides are not those of the header";
  return "";
}

// Pictures with their FRAME lines, counted a second time; 0 if the file is not whole.
size_t count_pictures(const Bytes& file, const Y4mHeader& h) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  const size_t picture = size_t{h.width} * h.height * 3 / 2;
  size_t n = 0;
  for (size_t at = h.header_bytes; at < text.size(); ++n) {
    const size_t end = text.substr(at, 256).find('\n');
    if (!text.substr(at).starts_with("FRAME") || end == std::string_view::npos) return 0;
    at += end + 1 + picture;
    if (at > text.size()) return 0;
  }
  return n;
}

std::string check_file(const Bytes& file, const Y4mHeader& h, Defect d) {
  const auto fd = sealed_memfd("fuzz-y4m", file);
  if (!fd.ok()) return "no memfd: " + fd.error().what;
  auto r = ipc::Y4mReader::open("/proc/self/fd/" + std::to_string(fd->get()));
  const size_t want = count_pictures(file, h);
  if (!r.ok()) return refused(r, want > 0, d);
  const uint64_t have = r->picture_count() + (d == Defect::kShortFile ? 1 : 0);
  if (have != want) return strf("%zu pictures, but the reader has %zu", want, size_t{have});
  std::vector<uint8_t> nv12(r->geometry().size);
  for (uint64_t i = 0; i < want + 1; ++i)
    if (const Status s = r->read(i, nv12); !s.ok()) return "picture not read: " + s.error().what;
  return "";
}

CaseResult y4m_case(const Bytes& file, bool is_good, Defect d) {
  CaseResult out;
  out.past_header = file.size() > 9 && std::memcmp(file.data(), "YUV4MPEG2", 9) == 0;
  Result<Y4mHeader> r = read_header(file, d);
  out.accepted = r.ok();
  if (!r.ok()) {
    out.finding = refused(r, is_good, d);
    return out;
  }
  out.finding = check_header(file, *r);
  // Large pictures say nothing new and cost time.
  if (out.finding.empty() && r->width * r->height <= 1u << 16)
    out.finding = check_file(file, *r, d);
  return out;
}

CaseResult run_y4m(Rng& rng, Defect d) {
  static const char* const kColours[] = {"", " C420", " C420jpeg", " C420mpeg2", " C420paldv"};
  const size_t w = 16 + 2 * rng.below(4), h = 16 + 2 * rng.below(4);
  std::string text = "YUV4MPEG2 W" + std::to_string(w) + " H" + std::to_string(h) + " F20:1" +
                     kColours[rng.below(5)] + (rng.one_in(2) ? " Ip A1:1" : "");
  const bool is_good = rng.one_in(4);
  if (!is_good && rng.one_in(2)) damage_text(text, rng, kWords);
  text += '\n';
  for (uint64_t n = 1 + rng.below(3); n > 0; --n)
    text += (rng.one_in(3) ? "FRAME Ip\n" : "FRAME\n") + std::string(w * h * 3 / 2, 'p');
  if (!is_good && rng.one_in(2)) damage_text(text, rng, kWords);
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return y4m_case({bytes, bytes + text.size()}, is_good, d);
}

CaseResult run(Rng& rng, int defect) {
  const auto d = static_cast<Defect>(defect);
  return rng.one_in(2) ? run_source(rng, d) : run_y4m(rng, d);
}

CaseResult look(const Bytes& bytes) {
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const CaseResult r = source_case(text, nullptr, Defect::kNone);
  return r.finding.empty() ? y4m_case(bytes, false, Defect::kNone) : r;
}

}  // namespace

const Family& source_texts() {
  static const Family family{kDefects, run, look};
  return family;
}

}  // namespace modeld::fuzz
