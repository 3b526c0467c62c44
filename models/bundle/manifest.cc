#include "models/bundle/manifest.h"

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "models/bundle/manifest.capnp.h"

namespace modeld::bundle {
namespace {

// ---- encode ----

kj::StringPtr ptr(const std::string& s) {
  return {s.c_str(), s.size()};
}
capnp::Data::Reader data(const Hash256& h) {
  return {h.bytes.data(), h.bytes.size()};
}

template <class Vec>
unsigned count(const Vec& v) {
  return static_cast<unsigned>(v.size());
}

// Fills list `out` from `in`, element by element.
template <class List, class Vec, class Put>
void put_list(List out, const Vec& in, Put put) {
  for (unsigned i = 0; i < count(in); ++i) put(out[i], in[i]);
}
template <class List, class Vec>
void put_values(List out, const Vec& in) {
  for (unsigned i = 0; i < count(in); ++i) out.set(i, in[i]);
}
template <class List>
void put_texts(List out, const std::vector<std::string>& in) {
  for (unsigned i = 0; i < count(in); ++i) out.set(i, ptr(in[i]));
}

void put_target(wire::Target::Builder out, const Manifest& m) {
  const hal::Target& t = m.plan.target;
  out.setKind(ptr(t.kind));
  out.setArch(ptr(t.arch));
  put_texts(out.initFeatures(count(t.features)), t.features);
  out.setRenderer(ptr(t.renderer));
  out.setThreads(static_cast<uint32_t>(t.threads));
  put_texts(out.initChips(count(m.chips)), m.chips);
}

void put_program(wire::Program::Builder out, const exec::ProgramRow& p) {
  out.setName(ptr(p.name));
  out.setKeyLo(p.key.lo);
  out.setKeyHi(p.key.hi);
  out.setAppliedOpts(ptr(p.applied_opts));
  put_values(out.initOuts(count(p.outs)), p.outs);
  put_values(out.initIns(count(p.ins)), p.ins);
  out.setBufferArgs(p.buffer_args);
  out.setScalarArgs(p.scalar_args);
  put_values(out.initGroups(3), std::span<const uint64_t>(p.groups));
  put_values(out.initLocal(3), std::span<const uint64_t>(p.local));
  out.setFlops(p.flops);
  out.setLdsBytes(p.lds_bytes);
  out.setMemBytes(p.mem_bytes);
  out.setNoContract(p.no_contract);
  out.setImageOffset(p.image.offset);
  out.setImageSize(p.image.size);
  out.setImageEntry(p.image.entry_offset);
  out.setImageAlign(p.image.alignment);
}

void put_tensor(wire::Tensor::Builder out, const exec::TensorInfo& t) {
  out.setName(ptr(t.name));
  out.setDtype(ir::dtype_name(t.dtype));
  put_values(out.initDims(count(t.dims)), t.dims);
  out.setBytes(t.bytes);
  out.setSlot(t.slot);
}

void put_call(wire::Call::Builder out, const exec::CallRow& c) {
  out.setKind(static_cast<uint8_t>(c.kind));
  out.setProgram(c.program);
  out.setCopyBytes(c.copy_bytes);
  put_list(out.initArgs(count(c.args)), c.args, [](auto o, const exec::ArgRef& a) {
    o.setKind(static_cast<uint8_t>(a.kind));
    o.setIndex(a.index);
    o.setOffset(a.offset);
  });
}

void put_entry(wire::Entry::Builder out, const exec::Entry& e) {
  out.setName(ptr(e.name));
  put_list(out.initInputs(count(e.inputs)), e.inputs, put_tensor);
  put_list(out.initOutputs(count(e.outputs)), e.outputs, put_tensor);
  put_list(out.initScalars(count(e.scalars)), e.scalars, [](auto o, const exec::ScalarInfo& s) {
    o.setName(ptr(s.name));
    o.setVmin(s.vmin);
    o.setVmax(s.vmax);
    o.setSlot(s.slot);
  });
  put_list(out.initCalls(count(e.calls)), e.calls, put_call);
}

void put_plan(wire::Manifest::Builder out, const Manifest& m) {
  const exec::Plan& plan = m.plan;
  put_list(out.initPrograms(count(plan.programs)), plan.programs, put_program);
  for (unsigned i = 0; i < count(m.asts); ++i) {
    out.getPrograms()[i].setAstOffset(m.asts[i].offset);
    out.getPrograms()[i].setAstSize(m.asts[i].size);
  }
  for (unsigned i = 0; i < count(m.sources); ++i) {
    out.getPrograms()[i].setSourceOffset(m.sources[i].offset);
    out.getPrograms()[i].setSourceSize(m.sources[i].size);
  }
  put_list(out.initWeights(count(plan.weights)), plan.weights,
           [](auto o, const exec::WeightRow& w) {
             o.setName(ptr(w.name));
             o.setOffset(w.offset);
             o.setSize(w.size);
           });
  put_list(out.initArenas(count(plan.arenas)), plan.arenas, [](auto o, const exec::ArenaRow& a) {
    o.setLane(a.lane);
    o.setSize(a.size);
    o.setSum(a.sum);
    o.setBound(a.bound);
    o.setCopy(a.copy);
  });
  put_list(out.initBuffers(count(plan.buffers)), plan.buffers,
           [](auto o, const exec::BufferRow& b) {
             o.setKind(static_cast<uint8_t>(b.kind));
             o.setLane(b.lane);
             o.setIndex(b.index);
             o.setOffset(b.offset);
             o.setSize(b.size);
           });
  put_list(out.initEntries(count(plan.entries)), plan.entries, put_entry);
  out.setMemorySum(plan.memory.sum_bytes);
  out.setMemoryPlanned(plan.memory.planned_bytes);
  out.setMemoryBound(plan.memory.resident_bytes);
}

void put_interface(wire::Manifest::Builder out, const Manifest& m) {
  put_list(out.initStates(count(m.states)), m.states, [](auto o, const StatePair& s) {
    o.setInput(s.input);
    o.setOutput(s.output);
  });
  put_list(out.initSplits(count(m.splits)), m.splits, [](auto o, const SplitInput& s) {
    o.setName(ptr(s.name));
    put_values(o.initDims(count(s.dims)), s.dims);
    put_values(o.initParts(count(s.parts)), s.parts);
  });
  put_list(out.initSlices(count(m.slices)), m.slices, [](auto o, const SliceRow& s) {
    o.setName(ptr(s.name));
    o.setBegin(s.begin);
    o.setEnd(s.end);
  });
  put_list(out.initGeometries(count(m.geometries)), m.geometries, [](auto o, const GeometryRow& g) {
    o.setStream(ptr(g.stream));
    o.setWidth(g.width);
    o.setHeight(g.height);
    o.setEntry(g.entry);
  });
  put_list(out.initIntrinsics(count(m.intrinsics)), m.intrinsics,
           [](auto o, const IntrinsicsRow& k) {
             o.setStream(ptr(k.stream));
             o.setWidth(k.width);
             o.setHeight(k.height);
             o.setF(k.f);
             o.setCx(k.cx);
             o.setCy(k.cy);
           });
}

void put_golden(wire::GoldenCase::Builder out, const GoldenCase& g) {
  out.setEntry(g.entry);
  out.setTolerance(g.tolerance);
  put_list(out.initTensors(count(g.tensors)), g.tensors, [](auto o, const GoldenTensor& t) {
    o.setIsOutput(t.is_output);
    o.setTensor(t.tensor);
    o.setOffset(t.offset);
    o.setSize(t.size);
  });
}

void put_manifest(wire::Manifest::Builder out, const Manifest& m) {
  out.setFormatVersion(m.format_version);
  out.setRole(static_cast<uint8_t>(m.role));
  out.setSelfCheck(static_cast<uint8_t>(m.self_check));
  out.setContextFrames(m.context_frames);
  out.setModelSha256(data(m.model_sha256));
  out.setCompilerVersion(ptr(m.compiler_version));
  put_target(out.initTarget(), m);
  out.setCodegenConfig(ptr(m.plan.codegen_config));
  out.setBackendCompiler(ptr(m.plan.compiler));
  put_list(out.initSections(count(m.sections)), m.sections, [](auto o, const SectionRow& s) {
    o.setKind(static_cast<uint8_t>(s.kind));
    o.setOffset(s.offset);
    o.setSize(s.size);
    o.setHash(data(s.hash));
  });
  put_plan(out, m);
  put_interface(out, m);
  put_list(out.initGolden(count(m.golden)), m.golden, put_golden);
  out.setBudgetP50Ms(m.budget.p50_ms);
  out.setBudgetP99Ms(m.budget.p99_ms);
}

// ---- decode ----

// The first value this program does not know; reading goes on and the caller looks at the end.
struct Decoder {
  std::optional<Error> error;

  void bad(const char* field, const std::string& value) {
    if (!error)
      error = Error{Errc::kCorrupt, strf("manifest: %s has value %s", field, value.c_str())};
  }

  std::string text(capnp::Text::Reader t) { return {t.cStr(), t.size()}; }

  template <class E>
  E kind(uint8_t v, E last, const char* field) {
    if (v > static_cast<uint8_t>(last)) bad(field, std::to_string(v));
    return static_cast<E>(std::min(v, static_cast<uint8_t>(last)));
  }
  Hash256 hash(capnp::Data::Reader d, const char* field) {
    Hash256 h;
    if (d.size() != h.bytes.size())
      bad(field, std::to_string(d.size()) + " bytes");
    else
      std::memcpy(h.bytes.data(), d.begin(), h.bytes.size());
    return h;
  }
  void three(capnp::List<uint64_t>::Reader from, uint64_t (&to)[3], const char* field) {
    if (from.size() != 3) return bad(field, std::to_string(from.size()) + " dimensions");
    for (unsigned i = 0; i < 3; ++i) to[i] = from[i];
  }
  template <class T, class List>
  std::vector<T> values(List from) {
    std::vector<T> to;
    to.reserve(from.size());
    for (auto v : from) to.push_back(v);
    return to;
  }
  std::vector<std::string> texts(capnp::List<capnp::Text>::Reader from) {
    std::vector<std::string> to;
    for (auto v : from) to.push_back(text(v));
    return to;
  }
  // One row per element, made by `make(reader)`.
  template <class List, class Make>
  auto rows(List from, Make make) {
    std::vector<decltype(make(from[0]))> to;
    to.reserve(from.size());
    for (auto row : from) to.push_back(make(row));
    return to;
  }

  void target(wire::Target::Reader r, Manifest& m);
  exec::ProgramRow program(wire::Program::Reader r);
  exec::TensorInfo tensor(wire::Tensor::Reader r);
  exec::CallRow call(wire::Call::Reader r);
  exec::Entry entry(wire::Entry::Reader r);
  void plan(wire::Manifest::Reader r, Manifest& m);
  void interface(wire::Manifest::Reader r, Manifest& m);
  GoldenCase golden(wire::GoldenCase::Reader r);
  void manifest(wire::Manifest::Reader r, Manifest& m);
};

void Decoder::target(wire::Target::Reader r, Manifest& m) {
  hal::Target& t = m.plan.target;
  t.kind = text(r.getKind());
  t.arch = text(r.getArch());
  t.features = texts(r.getFeatures());
  t.renderer = text(r.getRenderer());
  if (r.getThreads() < 1 || r.getThreads() > 1024)
    bad("target threads", std::to_string(r.getThreads()));
  else
    t.threads = static_cast<int>(r.getThreads());
  m.chips = texts(r.getChips());
}

exec::ProgramRow Decoder::program(wire::Program::Reader r) {
  exec::ProgramRow p;
  p.name = text(r.getName());
  p.key = Hash128{r.getKeyLo(), r.getKeyHi()};
  p.applied_opts = text(r.getAppliedOpts());
  p.outs = values<uint32_t>(r.getOuts());
  p.ins = values<uint32_t>(r.getIns());
  p.buffer_args = r.getBufferArgs();
  p.scalar_args = r.getScalarArgs();
  three(r.getGroups(), p.groups, "program groups");
  three(r.getLocal(), p.local, "program local");
  p.flops = r.getFlops();
  p.lds_bytes = r.getLdsBytes();
  p.mem_bytes = r.getMemBytes();
  p.no_contract = r.getNoContract();
  p.image.offset = r.getImageOffset();
  p.image.size = r.getImageSize();
  p.image.entry_offset = r.getImageEntry();
  p.image.alignment = r.getImageAlign();
  return p;
}

exec::TensorInfo Decoder::tensor(wire::Tensor::Reader r) {
  exec::TensorInfo t;
  t.name = text(r.getName());
  const std::string dtype = text(r.getDtype());
  if (const auto known = ir::dtype_from_name(dtype))
    t.dtype = *known;
  else
    bad("tensor dtype", "'" + dtype + "'");
  t.dims = values<int64_t>(r.getDims());
  t.bytes = r.getBytes();
  t.slot = r.getSlot();
  return t;
}

exec::CallRow Decoder::call(wire::Call::Reader r) {
  exec::CallRow c;
  c.kind = kind(r.getKind(), exec::CallRow::Kind::kCopy, "call kind");
  c.program = r.getProgram();
  c.copy_bytes = r.getCopyBytes();
  c.args = rows(r.getArgs(), [&](wire::Arg::Reader a) {
    return exec::ArgRef{kind(a.getKind(), exec::ArgRef::Kind::kConst, "argument kind"),
                        a.getIndex(), a.getOffset()};
  });
  return c;
}

exec::Entry Decoder::entry(wire::Entry::Reader r) {
  exec::Entry e;
  e.name = text(r.getName());
  e.inputs = rows(r.getInputs(), [&](wire::Tensor::Reader t) { return tensor(t); });
  e.outputs = rows(r.getOutputs(), [&](wire::Tensor::Reader t) { return tensor(t); });
  e.scalars = rows(r.getScalars(), [&](wire::Scalar::Reader s) {
    return exec::ScalarInfo{text(s.getName()), s.getVmin(), s.getVmax(), s.getSlot()};
  });
  e.calls = rows(r.getCalls(), [&](wire::Call::Reader c) { return call(c); });
  return e;
}

void Decoder::plan(wire::Manifest::Reader r, Manifest& m) {
  const auto programs = r.getPrograms();
  m.plan.programs = rows(programs, [&](wire::Program::Reader p) { return program(p); });
  bool has_sources = false;
  for (auto p : programs) {
    m.asts.push_back({p.getAstOffset(), p.getAstSize()});
    m.sources.push_back({p.getSourceOffset(), p.getSourceSize()});
    has_sources |= m.sources.back() != TextRange{};
  }
  if (!has_sources) m.sources.clear();
  m.plan.weights = rows(r.getWeights(), [&](wire::Weight::Reader w) {
    return exec::WeightRow{text(w.getName()), w.getOffset(), w.getSize()};
  });
  m.plan.arenas = rows(r.getArenas(), [&](wire::Arena::Reader a) {
    return exec::ArenaRow{a.getLane(), a.getSize(), a.getSum(), a.getBound(), a.getCopy()};
  });
  m.plan.buffers = rows(r.getBuffers(), [&](wire::Buffer::Reader b) {
    return exec::BufferRow{kind(b.getKind(), exec::BufferRow::Kind::kArena, "buffer kind"),
                           b.getLane(), b.getIndex(), b.getOffset(), b.getSize()};
  });
  m.plan.entries = rows(r.getEntries(), [&](wire::Entry::Reader e) { return entry(e); });
  m.plan.memory = {r.getMemorySum(), r.getMemoryPlanned(), r.getMemoryBound()};
}

void Decoder::interface(wire::Manifest::Reader r, Manifest& m) {
  m.states = rows(r.getStates(), [&](wire::StatePair::Reader s) {
    return StatePair{s.getInput(), s.getOutput()};
  });
  m.splits = rows(r.getSplits(), [&](wire::SplitInput::Reader s) {
    return SplitInput{text(s.getName()), values<int64_t>(s.getDims()),
                      values<uint32_t>(s.getParts())};
  });
  m.slices = rows(r.getSlices(), [&](wire::Slice::Reader s) {
    return SliceRow{text(s.getName()), s.getBegin(), s.getEnd()};
  });
  m.geometries = rows(r.getGeometries(), [&](wire::Geometry::Reader g) {
    return GeometryRow{text(g.getStream()), g.getWidth(), g.getHeight(), g.getEntry()};
  });
  m.intrinsics = rows(r.getIntrinsics(), [&](wire::Intrinsics::Reader k) {
    return IntrinsicsRow{text(k.getStream()), k.getWidth(), k.getHeight(), k.getF(),
                         k.getCx(),           k.getCy()};
  });
}

GoldenCase Decoder::golden(wire::GoldenCase::Reader r) {
  GoldenCase g;
  g.entry = r.getEntry();
  g.tolerance = r.getTolerance();
  g.tensors = rows(r.getTensors(), [&](wire::GoldenTensor::Reader t) {
    return GoldenTensor{t.getIsOutput(), t.getTensor(), t.getOffset(), t.getSize()};
  });
  return g;
}

void Decoder::manifest(wire::Manifest::Reader r, Manifest& m) {
  m.format_version = r.getFormatVersion();
  m.role = kind(r.getRole(), Role::kCabin, "role");
  m.self_check = kind(r.getSelfCheck(), SelfCheck::kFull, "self-check");
  m.context_frames = r.getContextFrames();
  m.model_sha256 = hash(r.getModelSha256(), "model hash");
  m.compiler_version = text(r.getCompilerVersion());
  target(r.getTarget(), m);
  m.plan.codegen_config = text(r.getCodegenConfig());
  m.plan.compiler = text(r.getBackendCompiler());
  m.sections = rows(r.getSections(), [&](wire::Section::Reader s) {
    return SectionRow{kind(s.getKind(), SectionKind::kTwins, "section kind"), s.getOffset(),
                      s.getSize(), hash(s.getHash(), "section hash")};
  });
  plan(r, m);
  interface(r, m);
  m.golden = rows(r.getGolden(), [&](wire::GoldenCase::Reader g) { return golden(g); });
  m.budget = {r.getBudgetP50Ms(), r.getBudgetP99Ms()};
}

template <class T>
const T* find_if_or_null(const std::vector<T>& rows, auto pred) {
  const auto it = std::find_if(rows.begin(), rows.end(), pred);
  return it == rows.end() ? nullptr : &*it;
}

}  // namespace

Result<std::vector<std::byte>> encode_manifest(const Manifest& m) {
  try {
    // One segment: a fixed starting size keeps the layout independent of allocation history.
    capnp::MallocMessageBuilder message(1 << 20, capnp::AllocationStrategy::FIXED_SIZE);
    put_manifest(message.initRoot<wire::Manifest>(), m);
    const auto words = capnp::messageToFlatArray(message);
    const auto bytes = words.asBytes();
    std::vector<std::byte> out(bytes.size());
    std::memcpy(out.data(), bytes.begin(), bytes.size());
    if (out.size() > kMaxManifestBytes)
      return fail(Errc::kInvalid, strf("manifest of %zu bytes, limit %llu", out.size(),
                                       static_cast<unsigned long long>(kMaxManifestBytes)));
    return out;
  } catch (const kj::Exception& e) {
    return fail(Errc::kInternal, strf("manifest does not encode: %s", e.getDescription().cStr()));
  }
}

Result<Manifest> decode_manifest(std::span<const std::byte> bytes) {
  if (bytes.size() % sizeof(capnp::word) != 0 ||
      reinterpret_cast<uintptr_t>(bytes.data()) % sizeof(capnp::word) != 0)
    return fail(Errc::kCorrupt, strf("manifest: %zu bytes are no whole words", bytes.size()));
  const size_t words = bytes.size() / sizeof(capnp::word);
  capnp::ReaderOptions options;
  // Every field is read once; more than the message holds means overlapping or empty elements.
  options.traversalLimitInWords = words + 64;
  options.nestingLimit = 16;
  try {
    capnp::FlatArrayMessageReader message(
        kj::arrayPtr(reinterpret_cast<const capnp::word*>(bytes.data()), words), options);
    Manifest m;
    Decoder decoder;
    decoder.manifest(message.getRoot<wire::Manifest>(), m);
    if (decoder.error) return fail(std::move(*decoder.error));
    return m;
  } catch (const kj::Exception& e) {
    return fail(Errc::kCorrupt, strf("manifest: %s", e.getDescription().cStr()));
  }
}

const char* role_name(Role role) {
  switch (role) {
    case Role::kGeneric:
      return "generic";
    case Role::kRoad:
      return "road";
    case Role::kCabin:
      return "cabin";
  }
  return "?";
}

Result<Role> parse_role(std::string_view text) {
  for (Role r : {Role::kGeneric, Role::kRoad, Role::kCabin})
    if (text == role_name(r)) return r;
  return fail(Errc::kInvalid,
              strf("role '%s': expected road, cabin or generic", std::string(text).c_str()));
}

const char* self_check_name(SelfCheck check) {
  switch (check) {
    case SelfCheck::kNone:
      return "none";
    case SelfCheck::kQuick:
      return "quick";
    case SelfCheck::kFull:
      return "full";
  }
  return "?";
}

Result<SelfCheck> parse_self_check(std::string_view text) {
  for (SelfCheck c : {SelfCheck::kQuick, SelfCheck::kFull})
    if (text == self_check_name(c)) return c;
  return fail(Errc::kInvalid,
              strf("self-check '%s': expected quick or full", std::string(text).c_str()));
}

const SectionRow* Manifest::find_section(SectionKind kind) const {
  return find_if_or_null(sections, [&](const SectionRow& s) { return s.kind == kind; });
}

const GeometryRow* Manifest::find_geometry(std::string_view stream,
                                           uint32_t width,
                                           uint32_t height) const {
  return find_if_or_null(geometries, [&](const GeometryRow& g) {
    return g.stream == stream && g.width == width && g.height == height;
  });
}

const IntrinsicsRow* Manifest::find_intrinsics(std::string_view stream) const {
  return find_if_or_null(intrinsics, [&](const IntrinsicsRow& k) { return k.stream == stream; });
}

const SliceRow* Manifest::find_slice(std::string_view slice) const {
  return find_if_or_null(slices, [&](const SliceRow& s) { return s.name == slice; });
}

const SplitInput* Manifest::split_of(uint32_t input) const {
  return find_if_or_null(splits, [&](const SplitInput& s) {
    return std::find(s.parts.begin(), s.parts.end(), input) != s.parts.end();
  });
}

}  // namespace modeld::bundle
