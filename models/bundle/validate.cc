#include "models/bundle/validate.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cmath>
#include <set>
#include <thread>

#include "hal/base/bytes.h"
#include "hal/target.h"

namespace modeld::bundle {
namespace {

Status check_version(const FileView& file, const Manifest& m);
Status check_sections(const FileView& file, const Manifest& m);
Status check_padding(const FileView& file, const Manifest& m);
Status check_hashes(const FileView& file, const Manifest& m);
Status check_names(const FileView& file, const Manifest& m);
Status check_tables(const FileView& file, const Manifest& m);
Status check_memory(const FileView& file, const Manifest& m);
Status check_images(const FileView& file, const Manifest& m);
Status check_texts(const FileView& file, const Manifest& m);
Status check_entries(const FileView& file, const Manifest& m);
Status check_states(const FileView& file, const Manifest& m);
Status check_splits(const FileView& file, const Manifest& m);
Status check_slices(const FileView& file, const Manifest& m);
Status check_geometry(const FileView& file, const Manifest& m);
Status check_golden(const FileView& file, const Manifest& m);
Status check_budget(const FileView& file, const Manifest& m);

constexpr Rule kRules[] = {
    {"version", "the manifest speaks the version of the header", check_version},
    {"sections", "sections tile the file in order; every other view relies on it", check_sections},
    {"padding", "no byte of the file is unchecked", check_padding},
    {"hashes", "BLAKE2b-256 of every section, two threads", check_hashes},
    {"names", "names are non-empty, limited, printable, unique where they are looked up",
     check_names},
    {"tables", "indices, shapes, arguments and launch sizes of the plan (exec::check_plan)",
     check_tables},
    {"memory", "arenas and tensors stay below the limits, so that sums cannot overflow",
     check_memory},
    {"images", "program images do not overlap", check_images},
    {"texts", "AST and source ranges lie in their sections", check_texts},
    {"entries", "there is an entry run; context is limited", check_entries},
    {"states", "state pairs name an input and an output of the same type, each once", check_states},
    {"splits", "parts of a split input are inputs of run that add up to the whole", check_splits},
    {"slices", "slices lie in the output vector", check_slices},
    {"geometry", "camera geometries name their warp entry; intrinsics are numbers", check_geometry},
    {"golden", "golden rows lie in their section and have the bytes of their tensor", check_golden},
    {"budget", "time limits are numbers", check_budget},
};
static_assert(std::size(kRules) <= 62);

tl::unexpected<Error> bad(std::string what) {
  return fail(Errc::kCorrupt, std::move(what));
}

uint64_t section_bytes(const Manifest& m, SectionKind kind) {
  const SectionRow* s = m.find_section(kind);
  return s == nullptr ? 0 : s->size;
}

}  // namespace

std::span<const Rule> rules() {
  return kRules;
}

Status validate(const FileView& file,
                const Manifest& m,
                const std::string& name,
                RuleMask left_out) {
  for (size_t i = 0; i < std::size(kRules); ++i) {
    if ((left_out >> i & 1) != 0) continue;
    Status s = kRules[i].check(file, m);
    if (!s.ok()) return fail(std::move(s).error().with("bundle " + name));
  }
  return {};
}

Status check_target(const Manifest& m,
                    const hal::DeviceInfo& device,
                    const std::string& name,
                    const std::string& chip) {
  const hal::Target& want = m.plan.target;
  if (device.target.empty()) return {};  // the null device executes nothing
  ASSIGN_OR_RETURN(const hal::Target have, hal::parse_target(device.target));
  // Without the long list of CPU features: only those that are missing matter.
  const auto short_text = [](const hal::Target& t) {
    return t.arch.empty() ? t.kind : t.kind + ":" + t.arch;
  };
  const std::string here = have.is_cpu() ? "this host" : "device " + device.uri;
  const auto no = [&](const std::string& why) {
    return fail(Errc::kMismatch, strf("bundle %s: built for %s, %s %s", name.c_str(),
                                      short_text(want).c_str(), here.c_str(), why.c_str()));
  };
  if (want.kind != have.kind) return no("is " + short_text(have));
  const auto base = [](const std::string& arch) { return arch.substr(0, arch.find("-v")); };
  if (want.is_cpu() ? base(want.arch) != base(have.arch) : want.arch != have.arch)
    return no("is " + have.arch);
  std::string missing;
  for (const std::string& f : want.features)
    if (!have.has_feature(f)) missing += " " + f;
  if (!missing.empty()) return no("lacks" + missing);
  if (!m.chips.empty() && std::find(m.chips.begin(), m.chips.end(), chip) == m.chips.end())
    return no("has chip '" + chip + "', which is not on its list");
  return {};
}

namespace {

Status check_version(const FileView& file, const Manifest& m) {
  if (m.format_version != file.header.version)
    return bad(strf("manifest has version %u, header %u", m.format_version, file.header.version));
  return {};
}

Status check_sections(const FileView& file, const Manifest& m) {
  uint64_t end = kHeaderBytes;
  for (size_t i = 0; i < m.sections.size(); ++i) {
    const SectionRow& s = m.sections[i];
    const char* name = section_name(s.kind);
    if (i > 0 && m.sections[i - 1].kind >= s.kind)
      return bad(strf("section %zu (%s) is out of order or twice", i, name));
    if (s.size == 0) return bad(strf("section %zu (%s) is empty", i, name));
    if (!in_bounds(s.offset, s.size, file.header.manifest_offset))
      return bad(strf("section %zu (%s) ends at %" PRIu64 "+%" PRIu64 ", sections end at %" PRIu64,
                      i, name, s.offset, s.size, file.header.manifest_offset));
    if (s.offset != align_up(end, kSectionAlign))
      return bad(strf("section %zu (%s) starts at %" PRIu64 ", expected %" PRIu64, i, name,
                      s.offset, align_up(end, kSectionAlign)));
    end = s.offset + s.size;
  }
  if (file.header.manifest_offset != align_up(end, kSectionAlign))
    return bad(strf("manifest starts at %" PRIu64 ", sections end at %" PRIu64,
                    file.header.manifest_offset, end));
  if (m.find_section(SectionKind::kGraph) == nullptr) return bad("there is no graph section");
  return {};
}

Status check_padding(const FileView& file, const Manifest& m) {
  uint64_t at = kHeaderBytes;
  const auto check_to = [&](uint64_t end) -> Status {
    for (; at < std::min<uint64_t>(end, file.bytes.size()); ++at)
      if (file.bytes[at] != std::byte{0})
        return bad(strf("byte %" PRIu64 " between sections is 0x%02x, expected 0", at,
                        std::to_integer<unsigned>(file.bytes[at])));
    return {};
  };
  for (const SectionRow& s : m.sections) {
    RETURN_IF_ERROR(check_to(s.offset));
    at = s.offset + s.size;
  }
  return check_to(file.header.manifest_offset);
}

// Thread 0 takes the largest section, thread 1 the rest: weights outweigh everything else.
Status check_hashes(const FileView& file, const Manifest& m) {
  const std::vector<SectionRow>& rows = m.sections;
  std::vector<uint8_t> matches(rows.size(), 0);
  const auto check = [&](size_t i) {
    const SectionRow& s = rows[i];
    matches[i] = in_bounds(s.offset, s.size, file.bytes.size()) &&
                 blake2b(file.bytes.subspan(s.offset, s.size)) == s.hash;
  };
  size_t largest = 0;
  for (size_t i = 1; i < rows.size(); ++i)
    if (rows[i].size > rows[largest].size) largest = i;
  std::thread rest([&] {
    for (size_t i = 0; i < rows.size(); ++i)
      if (i != largest) check(i);
  });
  if (!rows.empty()) check(largest);
  rest.join();
  for (size_t i = 0; i < rows.size(); ++i)
    if (matches[i] == 0)
      return bad(strf("section %zu (%s): its bytes do not have the hash of the manifest", i,
                      section_name(rows[i].kind)));
  return {};
}

Status check_text(const char* what, const std::string& text, size_t limit, bool may_be_empty) {
  if (text.empty() && !may_be_empty) return bad(strf("%s has no name", what));
  if (text.size() > limit)
    return bad(strf("%s: text of %zu bytes, limit %zu", what, text.size(), limit));
  for (const char c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      return bad(strf("%s: name with control character 0x%02x", what,
                      static_cast<unsigned>(static_cast<unsigned char>(c))));
  return {};
}

// Names that are looked up: each is good and there once.
template <class Rows>
Status check_unique(const char* what, const Rows& rows, std::set<std::string>& seen) {
  for (const auto& row : rows) {
    RETURN_IF_ERROR(check_text(what, row.name, kMaxNameBytes, false));
    if (!seen.insert(row.name).second)
      return bad(strf("%s '%s' is there twice", what, row.name.c_str()));
  }
  return {};
}
template <class Rows>
Status check_unique(const char* what, const Rows& rows) {
  std::set<std::string> seen;
  return check_unique(what, rows, seen);
}

Status check_names(const FileView&, const Manifest& m) {
  const exec::Plan& p = m.plan;
  RETURN_IF_ERROR(check_text("compiler version", m.compiler_version, kMaxNameBytes, false));
  RETURN_IF_ERROR(check_text("target kind", p.target.kind, kMaxNameBytes, false));
  RETURN_IF_ERROR(check_text("target arch", p.target.arch, kMaxNameBytes, true));
  RETURN_IF_ERROR(check_text("renderer", p.target.renderer, kMaxNameBytes, false));
  for (const auto* list : {&p.target.features, &m.chips})
    for (const std::string& s : *list)
      RETURN_IF_ERROR(check_text("target feature", s, kMaxNameBytes, false));
  for (const exec::ProgramRow& row : p.programs) {
    RETURN_IF_ERROR(check_text("kernel", row.name, kMaxNameBytes, false));
    RETURN_IF_ERROR(check_text("applied opts", row.applied_opts, 65536, true));
  }
  for (const exec::WeightRow& row : p.weights)
    RETURN_IF_ERROR(check_text("weight", row.name, kMaxNameBytes, true));
  RETURN_IF_ERROR(check_unique("entry", p.entries));
  for (const exec::Entry& e : p.entries) {
    std::set<std::string> inputs;
    RETURN_IF_ERROR(check_unique("input", e.inputs, inputs));
    RETURN_IF_ERROR(check_unique("scalar", e.scalars, inputs));
    RETURN_IF_ERROR(check_unique("output", e.outputs));
  }
  RETURN_IF_ERROR(check_unique("slice", m.slices));
  return check_unique("split input", m.splits);
}

Status check_tables(const FileView&, const Manifest& m) {
  return exec::check_plan(m.plan, section_bytes(m, SectionKind::kWeights),
                          section_bytes(m, SectionKind::kImages));
}

Status check_memory(const FileView&, const Manifest& m) {
  uint64_t arenas = 0;
  for (const exec::ArenaRow& a : m.plan.arenas) {
    if (a.size > kMaxArenaBytes - arenas)
      return bad(strf("arenas take more than %" PRIu64 " bytes", kMaxArenaBytes));
    arenas += a.size;
  }
  for (const exec::Entry& e : m.plan.entries)
    for (const auto* list : {&e.inputs, &e.outputs})
      for (const exec::TensorInfo& t : *list)
        if (t.bytes == 0 || t.bytes > kMaxTensorBytes || t.dims.size() > kMaxRank)
          return bad(strf("tensor %s has %" PRIu64 " bytes in %zu dimensions", t.name.c_str(),
                          t.bytes, t.dims.size()));
  return {};
}

Status check_images(const FileView&, const Manifest& m) {
  const std::vector<exec::ProgramRow>& rows = m.plan.programs;
  uint64_t end = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i > 0 && !(rows[i - 1].key < rows[i].key))
      return bad(strf("kernel %zu (%s) is out of order or twice", i, rows[i].name.c_str()));
    const exec::Image& image = rows[i].image;
    if (image.is_missing()) continue;
    if (image.offset < end)
      return bad(strf("kernel %zu (%s): image at %" PRIu64 " overlaps the one before", i,
                      rows[i].name.c_str(), image.offset));
    end = image.offset + image.size;
  }
  return {};
}

Status check_texts(const FileView&, const Manifest& m) {
  const uint64_t graph = section_bytes(m, SectionKind::kGraph);
  const uint64_t sources = section_bytes(m, SectionKind::kSources);
  if (m.asts.size() != m.plan.programs.size() ||
      (!m.sources.empty() && m.sources.size() != m.plan.programs.size()))
    return bad("there is not one AST for each kernel");
  for (size_t i = 0; i < m.asts.size(); ++i) {
    const char* name = m.plan.programs[i].name.c_str();
    if (m.asts[i].size == 0 || !in_bounds(m.asts[i].offset, m.asts[i].size, graph))
      return bad(strf("kernel %zu (%s): AST at %" PRIu64 "+%" PRIu64 ", graph section has %" PRIu64,
                      i, name, m.asts[i].offset, m.asts[i].size, graph));
    if (!m.sources.empty() && !in_bounds(m.sources[i].offset, m.sources[i].size, sources))
      return bad(strf("kernel %zu (%s): source lies outside of its section", i, name));
  }
  return {};
}

Status check_entries(const FileView&, const Manifest& m) {
  if (m.plan.find_entry("run") == nullptr) return bad("there is no entry run");
  if (m.context_frames > kMaxContextFrames)
    return bad(strf("%u context frames, limit %u", m.context_frames, kMaxContextFrames));
  return {};
}

Status check_states(const FileView&, const Manifest& m) {
  const exec::Entry* run = m.plan.find_entry("run");
  std::set<uint32_t> inputs, outputs;
  for (size_t i = 0; i < m.states.size(); ++i) {
    const StatePair& s = m.states[i];
    if (run == nullptr || s.input >= run->inputs.size() || s.output >= run->outputs.size())
      return bad(strf("state %zu pairs input %u with output %u, which are not there", i, s.input,
                      s.output));
    const exec::TensorInfo& in = run->inputs[s.input];
    const exec::TensorInfo& out = run->outputs[s.output];
    if (in.dtype != out.dtype || in.bytes != out.bytes)
      return bad(strf("state %s: %s has %" PRIu64 " bytes, %s %" PRIu64, in.name.c_str(),
                      in.name.c_str(), in.bytes, out.name.c_str(), out.bytes));
    if (!inputs.insert(s.input).second || !outputs.insert(s.output).second)
      return bad(strf("state %s is paired twice", in.name.c_str()));
  }
  return {};
}

Status check_split(const exec::Entry& run, const SplitInput& s, std::set<uint32_t>& seen) {
  if (s.parts.empty() || s.dims.size() > kMaxRank)
    return bad(strf("split input %s has %zu parts and %zu dimensions", s.name.c_str(),
                    s.parts.size(), s.dims.size()));
  uint64_t bytes = 0;
  for (const uint32_t part : s.parts) {
    if (part >= run.inputs.size() || !seen.insert(part).second)
      return bad(strf("split input %s: part %u is not there or used twice", s.name.c_str(), part));
    const exec::TensorInfo& t = run.inputs[part];
    if (t.dtype != run.inputs[s.parts[0]].dtype || t.bytes != run.inputs[s.parts[0]].bytes)
      return bad(strf("split input %s: its parts differ", s.name.c_str()));
    bytes += t.bytes;  // at most kMaxRank... inputs of kMaxTensorBytes each: below 2^64
  }
  uint64_t whole = static_cast<uint64_t>(ir::item_size(run.inputs[s.parts[0]].dtype));
  for (const int64_t d : s.dims) {
    if (d <= 0 || static_cast<uint64_t>(d) > kMaxTensorBytes ||
        whole > kMaxTensorBytes / static_cast<uint64_t>(d))
      return bad(strf("split input %s: dimension %" PRId64, s.name.c_str(), d));
    whole *= static_cast<uint64_t>(d);
  }
  if (whole != bytes)
    return bad(strf("split input %s: parts have %" PRIu64 " bytes, the whole %" PRIu64,
                    s.name.c_str(), bytes, whole));
  return {};
}

Status check_splits(const FileView&, const Manifest& m) {
  const exec::Entry* run = m.plan.find_entry("run");
  if (run == nullptr) return bad("there is no entry run");
  std::set<uint32_t> seen;
  for (const StatePair& s : m.states) seen.insert(s.input);
  for (const SplitInput& s : m.splits) RETURN_IF_ERROR(check_split(*run, s, seen));
  return {};
}

Status check_slices(const FileView&, const Manifest& m) {
  if (m.slices.empty()) return {};
  const exec::Entry* run = m.plan.find_entry("run");
  const exec::TensorInfo* out = run == nullptr ? nullptr : run->find_output("outputs");
  if (out == nullptr) return bad("there are slices, but run has no output named outputs");
  const auto item = static_cast<uint64_t>(ir::item_size(out->dtype));
  const uint64_t elements = item == 0 ? 0 : out->bytes / item;
  for (const SliceRow& s : m.slices)
    if (s.begin >= s.end || s.end > elements)
      return bad(strf("slice %s is [%" PRIu64 ", %" PRIu64 "), outputs has %" PRIu64 " elements",
                      s.name.c_str(), s.begin, s.end, elements));
  return {};
}

bool is_image_side(uint32_t n) {
  return n > 0 && n <= kMaxImageSide;
}

Status check_geometry(const FileView&, const Manifest& m) {
  std::set<uint32_t> used;
  for (const GeometryRow& g : m.geometries) {
    // First its text: a NUL inside would end the comparison with the entry's name early.
    RETURN_IF_ERROR(check_text("geometry stream", g.stream, kMaxNameBytes, false));
    if (!is_image_side(g.width) || !is_image_side(g.height))
      return bad(strf("geometry %s %ux%u", g.stream.c_str(), g.width, g.height));
    if (g.entry >= m.plan.entries.size() || !used.insert(g.entry).second)
      return bad(strf("geometry %s %ux%u: entry %u is not there or used twice", g.stream.c_str(),
                      g.width, g.height, g.entry));
    const std::string expected = strf("warp/%s/%ux%u", g.stream.c_str(), g.width, g.height);
    if (m.plan.entries[g.entry].name != expected)
      return bad(strf("geometry %s %ux%u names entry %s", g.stream.c_str(), g.width, g.height,
                      m.plan.entries[g.entry].name.c_str()));
  }
  std::set<std::string> streams;
  for (const IntrinsicsRow& k : m.intrinsics) {
    RETURN_IF_ERROR(check_text("intrinsics stream", k.stream, kMaxNameBytes, false));
    if (!is_image_side(k.width) || !is_image_side(k.height) || !std::isfinite(k.f) || k.f <= 0 ||
        !std::isfinite(k.cx) || !std::isfinite(k.cy) || !streams.insert(k.stream).second)
      return bad(strf("intrinsics of stream %s: %ux%u, f %g, c %g %g", k.stream.c_str(), k.width,
                      k.height, k.f, k.cx, k.cy));
  }
  return {};
}

Status check_golden_case(const Manifest& m, size_t index) {
  const GoldenCase& g = m.golden[index];
  if (g.entry >= m.plan.entries.size())
    return bad(strf("golden case %zu: entry %u is not there", index, g.entry));
  if (!std::isfinite(g.tolerance) || g.tolerance < 0 || g.tolerance > 1)
    return bad(strf("golden case %zu: tolerance %g", index, g.tolerance));
  const exec::Entry& e = m.plan.entries[g.entry];
  if (!e.scalars.empty())
    return bad(strf("golden case %zu: entry %s takes scalars", index, e.name.c_str()));
  std::vector<uint8_t> in(e.inputs.size(), 0), out(e.outputs.size(), 0);
  for (const GoldenTensor& t : g.tensors) {
    auto& seen = t.is_output ? out : in;
    if (t.tensor >= seen.size() || seen[t.tensor]++ != 0)
      return bad(strf("golden case %zu: tensor %u is not there or twice", index, t.tensor));
    const exec::TensorInfo& info = t.is_output ? e.outputs[t.tensor] : e.inputs[t.tensor];
    if (t.size != info.bytes ||
        !in_bounds(t.offset, t.size, section_bytes(m, SectionKind::kGolden)))
      return bad(strf("golden case %zu: %s at %" PRIu64 " has %" PRIu64 " bytes, tensor %" PRIu64
                      ", section %" PRIu64,
                      index, info.name.c_str(), t.offset, t.size, info.bytes,
                      section_bytes(m, SectionKind::kGolden)));
  }
  if (g.tensors.size() != in.size() + out.size())
    return bad(strf("golden case %zu has %zu tensors, entry %s has %zu", index, g.tensors.size(),
                    e.name.c_str(), in.size() + out.size()));
  return {};
}

Status check_golden(const FileView&, const Manifest& m) {
  for (size_t i = 0; i < m.golden.size(); ++i) RETURN_IF_ERROR(check_golden_case(m, i));
  return {};
}

Status check_budget(const FileView&, const Manifest& m) {
  for (const double ms : {m.budget.p50_ms, m.budget.p99_ms})
    if (!std::isfinite(ms) || ms < 0) return bad(strf("time limit of %g ms", ms));
  return {};
}

}  // namespace
}  // namespace modeld::bundle
