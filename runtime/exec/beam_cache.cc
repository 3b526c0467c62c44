#include "runtime/exec/beam_cache.h"

#include <cmath>

#include "hal/base/bytes.h"

#include "runtime/compile/entry_file.h"
#include "runtime/ir/print.h"

namespace modeld::exec {

namespace {

constexpr uint32_t kFormat = 0x42444d01;  // "\1MDB": change it with the payload or the search
constexpr uint32_t kMaxFindings = 100'000;
constexpr uint32_t kMaxText = 10'000;

void write_text(ByteWriter& w, const std::string& text) {
  w.write(static_cast<uint32_t>(text.size()));
  w.write_span(bytes_of(text));
}

Result<std::string> read_text(ByteReader& r) {
  ASSIGN_OR_RETURN(const uint32_t size, r.read<uint32_t>());
  if (size > kMaxText) return fail(Errc::kCorrupt, "beam entry: text too long");
  ASSIGN_OR_RETURN(const auto bytes, r.read_span(size));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Result<ir::Opts> read_opts(ByteReader& r) {
  ASSIGN_OR_RETURN(const std::string text, read_text(r));
  return ir::parse_opts(text);
}

Result<double> read_us(ByteReader& r) {
  ASSIGN_OR_RETURN(const double us, r.read<double>());
  if (!std::isfinite(us) || us < 0) return fail(Errc::kCorrupt, "beam entry: impossible time");
  return us;
}

Result<BeamFinding> read_finding(ByteReader& r) {
  BeamFinding f;
  ASSIGN_OR_RETURN(f.heuristic, read_opts(r));
  ASSIGN_OR_RETURN(f.winner, read_opts(r));
  ASSIGN_OR_RETURN(f.heuristic_us, read_us(r));
  ASSIGN_OR_RETURN(f.winner_us, read_us(r));
  ASSIGN_OR_RETURN(const uint8_t is_winner, r.read<uint8_t>());
  f.is_winner = is_winner != 0;
  ASSIGN_OR_RETURN(f.note, read_text(r));
  return f;
}

Result<std::vector<BeamFinding>> decode(std::span<const std::byte> bytes) {
  ByteReader r(bytes, "beam entry");
  ASSIGN_OR_RETURN(const uint32_t count, r.read<uint32_t>());
  if (count > kMaxFindings) return fail(Errc::kCorrupt, "beam entry: too many findings");
  std::vector<BeamFinding> out;
  for (uint32_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(BeamFinding f, read_finding(r));
    out.push_back(std::move(f));
  }
  if (!r.at_end()) return fail(Errc::kCorrupt, "beam entry: bytes behind the end");
  return out;
}

}  // namespace

Hash256 beam_key(const BeamSetting& s, const std::string& what) {
  const codegen::BeamLimits& l = s.limits;
  const std::string limits = strf(
      "width=%lld instructions=%lld upcast=%lld local=%lld progress=%a stop=%a ops=%a pad=%d "
      "runs=%d rounds=%d",
      static_cast<long long>(s.width), static_cast<long long>(l.instructions),
      static_cast<long long>(l.upcast), static_cast<long long>(l.local), l.min_progress_us,
      l.stop_ratio, l.ops_ratio, l.pad_to, l.runs, l.max_rounds);
  Blake2b h;
  for (const std::string* part : {&limits, &s.codegen, &s.compiler, &s.device, &what}) {
    const uint64_t size = part->size();
    h.update(std::as_bytes(std::span(&size, 1)));
    h.update(bytes_of(*part));
  }
  return h.finish();
}

std::string BeamCache::path(const Hash256& key) const {
  return compile::entry_path(dir_, "beam", key);
}

std::optional<std::vector<BeamFinding>> BeamCache::find(const Hash256& key) const {
  const auto payload = compile::load_entry(path(key), kFormat, key);
  if (!payload) return std::nullopt;
  auto findings = decode(*payload);
  if (!findings.ok()) return std::nullopt;
  return std::move(*findings);
}

void BeamCache::store(const Hash256& key, const std::vector<BeamFinding>& findings) const {
  ByteWriter w;
  w.write(static_cast<uint32_t>(findings.size()));
  for (const BeamFinding& f : findings) {
    write_text(w, ir::opts_text(f.heuristic));
    write_text(w, ir::opts_text(f.winner));
    w.write(f.heuristic_us);
    w.write(f.winner_us);
    w.write(static_cast<uint8_t>(f.is_winner));
    write_text(w, f.note.substr(0, kMaxText));
  }
  compile::store_entry(path(key), kFormat, key, w.bytes());
}

}  // namespace modeld::exec
