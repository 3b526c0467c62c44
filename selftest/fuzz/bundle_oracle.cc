#include "selftest/fuzz/bundle_oracle.h"

#include <cmath>
#include <map>
#include <set>

#include "hal/base/status.h"

namespace modeld::fuzz {
namespace {

using bundle::Manifest;
using bundle::SectionKind;

// Wide enough for any sum or product of two 64-bit numbers: the oracle needs no overflow rules.
__extension__ typedef unsigned __int128 Wide;

class Walk {
 public:
  Walk(std::span<const std::byte> file, const bundle::Header& header, const Manifest& m)
      : file_(file), header_(header), m_(m) {}

  std::string run() {
    container();
    if (bad_.empty()) sections();
    if (bad_.empty()) names();
    if (bad_.empty()) programs();
    if (bad_.empty()) memory();
    if (bad_.empty())
      for (const exec::Entry& e : m_.plan.entries) entry(e);
    if (bad_.empty()) interface();
    if (bad_.empty()) golden();
    return bad_;
  }

 private:
  void must(bool ok, const char* what) {
    if (!ok && bad_.empty()) bad_ = what;
  }
  Wide size_of(SectionKind kind) const {
    for (const auto& s : m_.sections)
      if (s.kind == kind) return s.size;
    return 0;
  }
  static bool inside(Wide offset, Wide size, Wide total) { return offset + size <= total; }

  void container() {
    must(header_.file_bytes == file_.size(), "file size");
    must(inside(header_.manifest_offset, header_.manifest_bytes, file_.size()), "manifest bounds");
    if (!bad_.empty()) return;
    must(blake2b(file_.subspan(header_.manifest_offset, header_.manifest_bytes)) ==
             header_.manifest_hash,
         "manifest hash");
    must(!header_.is_signed(), "signature that no key verifies");
    must(m_.format_version == bundle::kFormatVersion, "manifest version");
  }

  // Every byte outside of header, sections and manifest must be zero; each byte has one owner.
  void sections() {
    std::vector<uint8_t> owned(header_.manifest_offset, 0);
    std::fill_n(owned.begin(), std::min<size_t>(owned.size(), bundle::kHeaderBytes), 1);
    for (const auto& s : m_.sections) {
      must(s.offset % 4096 == 0 && s.size > 0 && inside(s.offset, s.size, owned.size()),
           "section bounds");
      if (!bad_.empty()) return;
      for (uint64_t i = s.offset; i < s.offset + s.size; ++i)
        must(owned[i]++ == 0, "section overlap");
      must(blake2b(file_.subspan(s.offset, s.size)) == s.hash, "section hash");
    }
    for (size_t i = 0; i < owned.size(); ++i)
      must(owned[i] != 0 || file_[i] == std::byte{0}, "padding");
    std::set<SectionKind> kinds;
    for (const auto& s : m_.sections) must(kinds.insert(s.kind).second, "section twice");
    must(kinds.count(SectionKind::kGraph) == 1, "no graph section");
  }

  void name(const std::string& text, std::set<std::string>& seen) {
    must(!text.empty() && text.size() <= 512, "name length");
    for (const char c : text) must(static_cast<unsigned char>(c) >= 32 && c != 127, "name byte");
    must(seen.insert(text).second, "name twice");
  }
  template <class Rows>
  void unique(const Rows& rows) {
    std::set<std::string> seen;
    for (const auto& r : rows) name(r.name, seen);
  }
  void names() {
    unique(m_.plan.entries);
    for (const auto& e : m_.plan.entries) {
      unique(e.inputs);
      unique(e.outputs);
      unique(e.scalars);
    }
    unique(m_.slices);
    unique(m_.splits);
    for (const auto& p : m_.plan.programs) {
      std::set<std::string> alone;
      name(p.name, alone);
    }
    std::set<std::string> alone;
    name(m_.compiler_version, alone);
  }

  void programs() {
    const auto& rows = m_.plan.programs;
    must(m_.asts.size() == rows.size(), "one AST each");
    must(m_.sources.empty() || m_.sources.size() == rows.size(), "one source each");
    if (!bad_.empty()) return;
    std::map<uint64_t, uint64_t> images;
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto& p = rows[i];
      must(i == 0 || rows[i - 1].key < p.key, "program order");
      must(Wide{p.buffer_args} + p.scalar_args <= 1024, "argument count");
      for (const auto& list : {p.outs, p.ins})
        for (const uint32_t at : list) must(at < p.buffer_args, "argument position");
      for (const uint64_t n :
           {p.groups[0], p.groups[1], p.groups[2], p.local[0], p.local[1], p.local[2]})
        must(n >= 1 && n <= (1u << 31), "launch size");
      must(m_.asts[i].size > 0 &&
               inside(m_.asts[i].offset, m_.asts[i].size, size_of(SectionKind::kGraph)),
           "AST range");
      if (!m_.sources.empty())
        must(inside(m_.sources[i].offset, m_.sources[i].size, size_of(SectionKind::kSources)),
             "source range");
      if (p.image.size == 0) continue;
      must(inside(p.image.offset, p.image.size, size_of(SectionKind::kImages)), "image range");
      must(p.image.offset % 64 == 0 && p.image.entry_offset < p.image.size, "image entry");
      must(images.emplace(p.image.offset, p.image.size).second, "image overlap");
    }
    Wide end = 0;
    for (const auto& [offset, size] : images) {
      must(offset >= end, "image overlap");
      end = Wide{offset} + size;
    }
  }

  void memory() {
    const exec::Plan& p = m_.plan;
    for (const auto& w : p.weights)
      must(w.offset % 64 == 0 && inside(w.offset, w.size, size_of(SectionKind::kWeights)),
           "weight");
    Wide arenas = 0;
    for (const auto& a : p.arenas) arenas += a.size;
    must(arenas <= (Wide{32} << 30), "arena sum");
    for (const auto& b : p.buffers) {
      const bool weight = b.kind == exec::BufferRow::Kind::kWeight;
      must(b.index < (weight ? p.weights.size() : p.arenas.size()), "buffer row");
      if (!bad_.empty()) return;
      must(inside(b.offset, b.size, weight ? p.weights[b.index].size : p.arenas[b.index].size),
           "buffer range");
    }
  }

  void tensor(const exec::TensorInfo& t) {
    static constexpr uint64_t kItem[] = {0, 0, 1, 1, 1, 2, 2, 4, 4, 8,
                                         8, 0, 2, 2, 4, 8, 1, 1, 1, 1};
    const auto type = static_cast<size_t>(t.dtype);
    must(type < std::size(kItem) && kItem[type] != 0, "tensor type");
    if (!bad_.empty()) return;
    Wide bytes = kItem[type];
    for (const int64_t d : t.dims) {
      must(d >= 0 && bytes <= (Wide{1} << 63), "tensor dimension");
      if (!bad_.empty()) return;
      bytes *= static_cast<uint64_t>(d);
    }
    must(bytes == t.bytes && bytes > 0 && bytes <= (Wide{8} << 30) && t.dims.size() <= 16,
         "tensor bytes");
  }

  void entry(const exec::Entry& e) {
    std::map<uint32_t, const exec::TensorInfo*> tensors;
    std::set<uint32_t> scalars;
    const size_t slots = e.inputs.size() + e.outputs.size() + e.scalars.size();
    for (const auto* list : {&e.inputs, &e.outputs})
      for (const auto& t : *list) {
        tensor(t);
        must(t.slot < slots && tensors.emplace(t.slot, &t).second, "tensor slot");
      }
    for (const auto& s : e.scalars) {
      must(s.vmin <= s.vmax, "scalar range");
      must(s.slot < slots && tensors.count(s.slot) == 0 && scalars.insert(s.slot).second,
           "scalar slot");
    }
    for (const auto& c : e.calls) call(c, tensors, scalars);
  }

  // Bytes behind an address argument, from its offset on; scalars give none.
  void call(const exec::CallRow& c,
            const std::map<uint32_t, const exec::TensorInfo*>& tensors,
            const std::set<uint32_t>& scalars) {
    using Kind = exec::ArgRef::Kind;
    const bool copy = c.kind == exec::CallRow::Kind::kCopy;
    must(copy ? c.args.size() == 2 : c.program < m_.plan.programs.size(), "call");
    if (!bad_.empty()) return;
    const exec::ProgramRow* p = copy ? nullptr : &m_.plan.programs[c.program];
    must(copy || c.args.size() == size_t{p->buffer_args} + p->scalar_args,
         "argument count of call");
    for (size_t i = 0; i < c.args.size() && bad_.empty(); ++i) {
      const exec::ArgRef& a = c.args[i];
      const bool address = copy || i < p->buffer_args;
      const uint64_t bytes = copy ? c.copy_bytes : 0;
      if (a.kind == Kind::kBuffer) {
        must(address && a.index < m_.plan.buffers.size(), "buffer argument");
        if (!bad_.empty()) return;
        const exec::BufferRow& b = m_.plan.buffers[a.index];
        must(inside(a.offset, bytes, b.size), "buffer argument range");
        bool written = copy && i == 0;
        if (!copy)
          for (const uint32_t out : p->outs) written |= out == i;
        must(!written || b.kind != exec::BufferRow::Kind::kWeight, "weights are written");
      } else if (a.kind == Kind::kSlot) {
        const auto it = tensors.find(a.index);
        must(address && it != tensors.end(), "slot argument");
        if (!bad_.empty()) return;
        must(inside(a.offset, bytes, it->second->bytes), "slot argument range");
      } else {
        must(!address, "scalar in place of an address");
        must(a.kind == Kind::kConst || scalars.count(a.index) == 1, "scalar argument");
      }
    }
  }

  const exec::Entry* run_entry() const {
    for (const auto& e : m_.plan.entries)
      if (e.name == "run") return &e;
    return nullptr;
  }

  void interface() {
    const exec::Entry* run = run_entry();
    must(run != nullptr, "no entry run");
    must(m_.context_frames <= 100'000, "context frames");
    if (!bad_.empty()) return;
    std::set<uint32_t> used, outs;
    for (const auto& s : m_.states) {
      must(s.input < run->inputs.size() && s.output < run->outputs.size(), "state index");
      if (!bad_.empty()) return;
      must(run->inputs[s.input].bytes == run->outputs[s.output].bytes &&
               run->inputs[s.input].dtype == run->outputs[s.output].dtype,
           "state type");
      must(used.insert(s.input).second && outs.insert(s.output).second, "state twice");
    }
    for (const auto& s : m_.splits) split(*run, s, used);
    for (const auto& s : m_.slices) {
      const exec::TensorInfo* out = run->find_output("outputs");
      must(out != nullptr && s.begin < s.end &&
               Wide{s.end} * static_cast<uint64_t>(ir::item_size(out->dtype)) <= out->bytes,
           "slice");
    }
    geometry();
    must(std::isfinite(m_.budget.p50_ms) && m_.budget.p50_ms >= 0 &&
             std::isfinite(m_.budget.p99_ms) && m_.budget.p99_ms >= 0,
         "budget");
  }

  void split(const exec::Entry& run, const bundle::SplitInput& s, std::set<uint32_t>& used) {
    Wide bytes = 0, whole = 0;
    for (const uint32_t part : s.parts) {
      must(part < run.inputs.size() && used.insert(part).second, "split part");
      if (!bad_.empty()) return;
      bytes += run.inputs[part].bytes;
      must(run.inputs[part].bytes == run.inputs[s.parts[0]].bytes, "split parts differ");
      whole = static_cast<uint64_t>(ir::item_size(run.inputs[part].dtype));
    }
    for (const int64_t d : s.dims) {
      must(d > 0 && whole <= (Wide{1} << 63), "split dimension");
      if (!bad_.empty()) return;
      whole *= static_cast<uint64_t>(d);
    }
    must(!s.parts.empty() && whole == bytes, "split sum");
  }

  void geometry() {
    std::set<uint32_t> used;
    for (const auto& g : m_.geometries) {
      must(g.entry < m_.plan.entries.size() && used.insert(g.entry).second, "geometry entry");
      if (!bad_.empty()) return;
      must(m_.plan.entries[g.entry].name ==
               "warp/" + g.stream + "/" + std::to_string(g.width) + "x" + std::to_string(g.height),
           "geometry name");
      must(g.width > 0 && g.height > 0 && g.width <= 32768 && g.height <= 32768, "geometry size");
    }
    for (const auto& k : m_.intrinsics)
      must(std::isfinite(k.f) && k.f > 0 && std::isfinite(k.cx) && std::isfinite(k.cy) &&
               k.width > 0 && k.height > 0,
           "intrinsics");
  }

  void golden() {
    for (const auto& g : m_.golden) {
      must(g.entry < m_.plan.entries.size() && g.tolerance >= 0 && g.tolerance <= 1, "golden case");
      if (!bad_.empty()) return;
      const exec::Entry& e = m_.plan.entries[g.entry];
      must(e.scalars.empty(), "golden scalars");
      std::set<std::pair<bool, uint32_t>> seen;
      for (const auto& t : g.tensors) {
        const auto& list = t.is_output ? e.outputs : e.inputs;
        must(t.tensor < list.size() && seen.insert({t.is_output, t.tensor}).second,
             "golden tensor");
        if (!bad_.empty()) return;
        must(t.size == list[t.tensor].bytes &&
                 inside(t.offset, t.size, size_of(SectionKind::kGolden)),
             "golden range");
      }
      must(seen.size() == e.inputs.size() + e.outputs.size(), "golden tensors missing");
    }
  }

  std::span<const std::byte> file_;
  const bundle::Header& header_;
  const Manifest& m_;
  std::string bad_;
};

}  // namespace

std::string follow_bundle(std::span<const std::byte> file,
                          const bundle::Header& header,
                          const Manifest& m) {
  return Walk(file, header, m).run();
}

}  // namespace modeld::fuzz
