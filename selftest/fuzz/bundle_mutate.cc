#include "selftest/fuzz/bundle_mutate.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "hal/base/check.h"

namespace modeld::fuzz {
namespace {

using Bytes = std::vector<std::byte>;
using bundle::Manifest;

// ---- parts of a file ----

// The file up to the manifest, then `m`, with a repaired header.
Bytes join(Bytes body, bundle::Header h, std::span<const std::byte> manifest) {
  h.manifest_offset = body.size();
  h.manifest_bytes = manifest.size();
  h.manifest_hash = blake2b(manifest);
  body.insert(body.end(), manifest.begin(), manifest.end());
  h.file_bytes = body.size();
  const auto head = bundle::encode_header(h);
  std::copy(head.begin(), head.end(), body.begin());
  return body;
}

void flip(Bytes& bytes, size_t begin, size_t end, Rng& rng) {
  if (begin >= end) return;
  const size_t at = begin + rng.below(end - begin);
  bytes[at] ^= std::byte{1} << rng.below(8);
}

Bytes damage_header(Bytes b, Rng& rng) {
  const size_t fields[] = {8, 12, 16, 24, 32, 40, 72, 192};
  const size_t at = fields[rng.below(std::size(fields))];
  const uint64_t v = nasty(rng, b.size());
  std::memcpy(b.data() + at, &v, at == 8 || at == 12 ? 4 : 8);
  return b;
}

// ---- fields of tables ----

template <class T>
void spoil(T& field, Rng& rng) {
  field = static_cast<T>(nasty(rng, static_cast<uint64_t>(field)));
}
void spoil(double& field, Rng& rng) {
  const double values[] = {0,
                           -1,
                           2,
                           std::numeric_limits<double>::quiet_NaN(),
                           std::numeric_limits<double>::infinity(),
                           1e300,
                           field * 2};
  field = values[rng.below(std::size(values))];
}
void spoil(std::string& text, Rng& rng) {
  switch (rng.below(5)) {
    case 0:
      text.clear();
      break;
    case 1:
      text.assign(rng.below(3000), 'n');
      break;
    case 2:
      text += "\n";
      break;
    case 3:
      text = "run";
      break;
    default:
      text += static_cast<char>(rng.below(256));
      break;
  }
}

template <class T>
T* pick(std::vector<T>& rows, Rng& rng) {
  return rows.empty() ? nullptr : &rows[rng.below(rows.size())];
}

// A row lost, doubled, swapped or the table emptied.
template <class T>
void shuffle(std::vector<T>& rows, Rng& rng) {
  if (rows.empty()) return;
  const size_t i = rng.below(rows.size()), j = rng.below(rows.size());
  switch (rng.below(4)) {
    case 0:
      rows.erase(rows.begin() + static_cast<ptrdiff_t>(i));
      break;
    case 1:
      rows.push_back(T(rows[i]));
      break;
    case 2:
      std::swap(rows[i], rows[j]);
      break;
    default:
      rows[i] = T(rows[j]);
      break;
  }
}

void damage_dims(std::vector<int64_t>& dims, Rng& rng) {
  if (int64_t* d = pick(dims, rng); d != nullptr && !rng.one_in(4))
    spoil(*d, rng);
  else
    dims.assign(rng.below(40), 1);
}

void damage_program(exec::ProgramRow& p, Rng& rng) {
  switch (rng.below(12)) {
    case 0:
      spoil(p.name, rng);
      break;
    case 1:
      spoil(p.key.hi, rng);
      break;
    case 2:
      spoil(p.applied_opts, rng);
      break;
    case 3:
      spoil(p.buffer_args, rng);
      break;
    case 4:
      spoil(p.scalar_args, rng);
      break;
    case 5:
      spoil(p.groups[rng.below(3)], rng);
      break;
    case 6:
      spoil(p.local[rng.below(3)], rng);
      break;
    case 7:
      spoil(p.image.offset, rng);
      break;
    case 8:
      spoil(p.image.size, rng);
      break;
    case 9:
      spoil(p.image.entry_offset, rng);
      break;
    case 10:
      spoil(p.image.alignment, rng);
      break;
    default:
      if (uint32_t* pos = pick(rng.one_in(2) ? p.outs : p.ins, rng)) spoil(*pos, rng);
  }
}

void damage_tensor(exec::TensorInfo& t, Rng& rng) {
  switch (rng.below(6)) {
    case 0:
      spoil(t.name, rng);
      break;
    case 1:
      t.dtype = static_cast<ir::DType>(rng.below(ir::kDTypeCount));
      break;
    case 2:
      damage_dims(t.dims, rng);
      break;
    case 3:
      spoil(t.bytes, rng);
      break;
    case 4:
      spoil(t.slot, rng);
      break;
    default: {  // consistent, but another size
      const int64_t n = static_cast<int64_t>(rng.below(100));
      t.dims = {n};
      t.bytes = static_cast<uint64_t>(n * ir::item_size(t.dtype));
    }
  }
}

void damage_arg(exec::ArgRef& a, Rng& rng) {
  switch (rng.below(4)) {
    case 0:
      a.kind = static_cast<exec::ArgRef::Kind>(rng.below(4));
      break;
    case 1:
      a.index = static_cast<uint32_t>(rng.below(8));
      break;
    case 2:
      spoil(a.index, rng);
      break;
    default:
      spoil(a.offset, rng);
      break;
  }
}

void damage_entry(exec::Entry& e, Rng& rng) {
  exec::CallRow* call = pick(e.calls, rng);
  switch (rng.below(12)) {
    case 0:
      spoil(e.name, rng);
      break;
    case 1:
    case 2:
      if (auto* t = pick(rng.one_in(2) ? e.inputs : e.outputs, rng)) damage_tensor(*t, rng);
      break;
    case 3:
      shuffle(rng.one_in(2) ? e.inputs : e.outputs, rng);
      break;
    case 4:
      shuffle(e.calls, rng);
      break;
    case 5:
      shuffle(e.scalars, rng);
      break;
    case 6:
      if (auto* s = pick(e.scalars, rng)) {
        spoil(s->name, rng);
        spoil(rng.one_in(2) ? s->vmin : s->vmax, rng);
        if (rng.one_in(2)) spoil(s->slot, rng);
      }
      break;
    case 7:
      if (call != nullptr) spoil(call->program, rng);
      break;
    case 8:
      if (call != nullptr) spoil(call->copy_bytes, rng);
      break;
    case 9:
      if (call != nullptr) shuffle(call->args, rng);
      break;
    default:
      if (call == nullptr) break;
      if (auto* a = pick(call->args, rng)) damage_arg(*a, rng);
  }
}

void damage_memory(exec::Plan& p, Rng& rng) {
  switch (rng.below(5)) {
    case 0:
      if (auto* w = pick(p.weights, rng)) spoil(rng.one_in(2) ? w->offset : w->size, rng);
      break;
    case 1:
      if (auto* a = pick(p.arenas, rng)) spoil(a->size, rng);
      break;
    case 2:
      shuffle(p.weights, rng);
      break;
    case 3:
      shuffle(p.arenas, rng);
      break;
    default:
      if (auto* b = pick(p.buffers, rng)) {
        if (rng.one_in(4)) b->kind = static_cast<exec::BufferRow::Kind>(rng.below(2));
        if (rng.one_in(2)) spoil(b->index, rng);
        spoil(rng.one_in(2) ? b->offset : b->size, rng);
      }
  }
}

void damage_golden(Manifest& m, Rng& rng) {
  bundle::GoldenCase* g = pick(m.golden, rng);
  if (g == nullptr) return;
  bundle::GoldenTensor* t = pick(g->tensors, rng);
  switch (rng.below(6)) {
    case 0:
      spoil(g->entry, rng);
      break;
    case 1:
      spoil(g->tolerance, rng);
      break;
    case 2:
      shuffle(g->tensors, rng);
      break;
    case 3:
      if (t != nullptr) spoil(t->tensor, rng);
      break;
    case 4:
      if (t != nullptr) spoil(t->offset, rng);
      break;
    default:
      if (t != nullptr) spoil(t->size, rng);
  }
}

void damage_interface(Manifest& m, Rng& rng) {
  switch (rng.below(9)) {
    case 0:
      if (auto* s = pick(m.states, rng)) spoil(rng.one_in(2) ? s->input : s->output, rng);
      break;
    case 1:
      shuffle(m.states, rng);
      break;
    case 2:
      if (auto* s = pick(m.splits, rng)) {
        if (rng.one_in(3)) damage_dims(s->dims, rng);
        if (uint32_t* part = pick(s->parts, rng)) *part = static_cast<uint32_t>(rng.below(5));
      }
      break;
    case 3:
      shuffle(m.splits, rng);
      break;
    case 4:
      if (auto* s = pick(m.slices, rng)) spoil(rng.one_in(2) ? s->begin : s->end, rng);
      break;
    case 5:
      shuffle(m.slices, rng);
      break;
    case 6:
      if (auto* g = pick(m.geometries, rng))
        spoil(rng.one_in(3) ? g->width : rng.one_in(2) ? g->height : g->entry, rng);
      break;
    case 7:
      if (auto* k = pick(m.intrinsics, rng)) {
        spoil(rng.one_in(3) ? k->f : rng.one_in(2) ? k->cx : k->cy, rng);
        if (rng.one_in(3)) spoil(k->width, rng);
      }
      break;
    default:
      shuffle(rng.one_in(2) ? m.slices : m.slices, rng);
      break;
  }
}

void damage_sections(Manifest& m, Rng& rng) {
  bundle::SectionRow* s = pick(m.sections, rng);
  if (s == nullptr) return;
  switch (rng.below(5)) {
    case 0:
      spoil(s->offset, rng);
      break;
    case 1:
      spoil(s->size, rng);
      break;
    case 2:
      s->offset += (rng.below(5) - 2) * bundle::kSectionAlign;
      break;
    case 3:
      s->kind = static_cast<bundle::SectionKind>(rng.below(bundle::kSectionKinds));
      break;
    default:
      shuffle(m.sections, rng);
      break;
  }
}

void damage_scalars(Manifest& m, Rng& rng) {
  switch (rng.below(7)) {
    case 0:
      spoil(m.format_version, rng);
      break;
    case 1:
      spoil(m.context_frames, rng);
      break;
    case 2:
      spoil(rng.one_in(2) ? m.budget.p50_ms : m.budget.p99_ms, rng);
      break;
    case 3:
      spoil(m.compiler_version, rng);
      break;
    case 4:
      spoil(rng.one_in(2) ? m.plan.target.kind : m.plan.target.arch, rng);
      break;
    case 5:
      shuffle(m.plan.programs, rng);
      break;
    default:
      if (auto* r = pick(rng.one_in(4) && !m.sources.empty() ? m.sources : m.asts, rng))
        spoil(rng.one_in(2) ? r->offset : r->size, rng);
  }
}

}  // namespace

void damage_manifest(Manifest& m, Rng& rng) {
  switch (rng.below(10)) {
    case 0:
      damage_sections(m, rng);
      break;
    case 1:
    case 2:
      if (auto* p = pick(m.plan.programs, rng)) damage_program(*p, rng);
      break;
    case 3:
      damage_memory(m.plan, rng);
      break;
    case 4:
    case 5:
    case 6:
      if (auto* e = pick(m.plan.entries, rng)) damage_entry(*e, rng);
      break;
    case 7:
      damage_golden(m, rng);
      break;
    case 8:
      damage_interface(m, rng);
      break;
    default:
      damage_scalars(m, rng);
      break;
  }
}

BundleMutator::BundleMutator(std::vector<std::byte> good) : good_(std::move(good)) {
  auto header = bundle::decode_header(good_, "seed");
  CHECK(header.ok());
  header_ = *header;
  // decode_manifest wants aligned bytes.
  const Bytes manifest(good_.begin() + static_cast<ptrdiff_t>(header_.manifest_offset),
                       good_.end());
  auto m = bundle::decode_manifest(manifest);
  CHECK(m.ok());
  manifest_ = std::move(*m);
}

std::vector<std::byte> BundleMutator::damaged(Rng& rng) const {
  const auto border = static_cast<ptrdiff_t>(header_.manifest_offset);
  switch (rng.below(12)) {
    case 0: {  // nothing repaired
      Bytes b = good_;
      for (uint64_t n = 1 + rng.below(3); n > 0; --n) flip(b, 0, b.size(), rng);
      return b;
    }
    case 1:
      return damage_header(good_, rng);
    case 2: {  // words of the manifest, hash repaired
      Bytes manifest(good_.begin() + border, good_.end());
      for (uint64_t n = 1 + rng.below(3); n > 0; --n) flip(manifest, 0, manifest.size(), rng);
      return join(Bytes(good_.begin(), good_.begin() + border), header_, manifest);
    }
    case 3: {  // padding or section bytes, nothing repaired
      Bytes b = good_;
      flip(b, bundle::kHeaderBytes, static_cast<size_t>(border), rng);
      return b;
    }
    default:
      break;
  }
  Manifest m = manifest_;
  for (uint64_t n = 1 + rng.below(2); n > 0; --n) damage_manifest(m, rng);
  Bytes body(good_.begin(), good_.begin() + border);
  auto bytes = bundle::encode_manifest(m);
  if (!bytes.ok()) return good_;
  return join(std::move(body), header_, *bytes);
}

}  // namespace modeld::fuzz
