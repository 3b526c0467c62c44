#include "runtime/exec/plan.h"

#include <algorithm>
#include <bit>

#include "hal/base/bytes.h"
#include "hal/program.h"

namespace modeld::exec {

namespace {

Status check_programs(const Plan& plan, uint64_t program_bytes);
Status check_memory(const Plan& plan, uint64_t weight_bytes);
Status check_entry(const Plan& plan, const Entry& entry);
Status check_call(const Plan& plan, const Entry& entry, size_t call);
Status check_arg(const Plan& plan, const Entry& entry, const ArgRef& arg, uint64_t span_bytes);

constexpr uint64_t kMaxBytes = uint64_t{1} << 40;   // of any one tensor, row or section
constexpr size_t kMaxRows = 1u << 20;               // of any table
constexpr uint64_t kMaxGroups = uint64_t{1} << 31;  // of a launch dimension

// The tensor or scalar that owns each slot.
enum class SlotUse : uint8_t { kFree, kTensor, kScalar };

template <class Rows>
auto find_by_name(const Rows& rows, std::string_view name) -> decltype(rows.data()) {
  for (const auto& row : rows)
    if (row.name == name) return &row;
  return nullptr;
}

}  // namespace

const TensorInfo* Entry::find_input(std::string_view tensor) const {
  return find_by_name(inputs, tensor);
}
const TensorInfo* Entry::find_output(std::string_view tensor) const {
  return find_by_name(outputs, tensor);
}
const Entry* Plan::find_entry(std::string_view name) const {
  return find_by_name(entries, name);
}

uint64_t Plan::weights_size() const {
  uint64_t end = 0;
  for (const WeightRow& w : weights) end = std::max(end, w.offset + w.size);
  return align_up(end, kRowAlign);
}

uint64_t Plan::arena_bound() const {
  uint64_t sum = 0;
  for (const ArenaRow& a : arenas) sum += a.bound;
  return sum;
}

size_t Plan::missing_images() const {
  return static_cast<size_t>(std::count_if(
      programs.begin(), programs.end(), [](const ProgramRow& p) { return p.image.is_missing(); }));
}

Status check_plan(const Plan& plan, uint64_t weight_bytes, uint64_t program_bytes) {
  if (std::max({plan.programs.size(), plan.weights.size(), plan.arenas.size(), plan.buffers.size(),
                plan.entries.size()}) > kMaxRows)
    return fail(Errc::kCorrupt, "plan: a table has more than 2^20 rows");
  RETURN_IF_ERROR(check_programs(plan, program_bytes));
  RETURN_IF_ERROR(check_memory(plan, weight_bytes));
  for (size_t i = 0; i < plan.entries.size(); ++i) {
    const Entry& e = plan.entries[i];
    if (plan.find_entry(e.name) != &e)
      return fail(Errc::kCorrupt, strf("plan: entry %s appears twice", e.name.c_str()));
    RETURN_IF_ERROR(check_entry(plan, e));
  }
  return {};
}

Result<std::vector<std::byte>> pack_images(Plan& plan) {
  std::vector<std::byte> section;
  for (ProgramRow& p : plan.programs) {
    if (p.image.is_missing()) continue;
    if (p.image.code.size() != p.image.size)
      return fail(Errc::kInvalid,
                  strf("kernel %s: image of %llu bytes lies in a file, not in memory",
                       p.name.c_str(), static_cast<unsigned long long>(p.image.size)));
    section.resize(align_up(section.size(), p.image.alignment));
    p.image.offset = section.size();
    section.insert(section.end(), p.image.code.begin(), p.image.code.end());
  }
  return section;
}

void strip_image(ProgramRow& program) {
  const uint64_t alignment = program.image.alignment;
  program.image = Image{};
  program.image.alignment = alignment;
}

std::string call_text(const Plan& plan, const Entry& entry, size_t call) {
  const CallRow& c = entry.calls[call];
  const char* what = "copy";
  if (c.kind == CallRow::Kind::kProgram)
    what = c.program < plan.programs.size() ? plan.programs[c.program].name.c_str() : "?";
  return strf("call %zu (%s) of entry %s", call, what, entry.name.c_str());
}

namespace {

Status check_programs(const Plan& plan, uint64_t program_bytes) {
  for (const ProgramRow& p : plan.programs) {
    const auto bad = [&](const char* why) {
      return fail(Errc::kCorrupt, strf("plan: kernel %s: %s", p.name.c_str(), why));
    };
    if (p.buffer_args > hal::kMaxArgs || p.scalar_args > hal::kMaxArgs - p.buffer_args)
      return bad("too many arguments");
    for (const std::vector<uint32_t>* list : {&p.outs, &p.ins})
      for (uint32_t pos : *list)
        if (pos >= p.buffer_args) return bad("an output or input position is no buffer argument");
    for (uint64_t n : {p.groups[0], p.groups[1], p.groups[2], p.local[0], p.local[1], p.local[2]})
      if (n == 0 || n > kMaxGroups) return bad("launch size out of range");
    const Image& im = p.image;
    if (im.is_missing()) {
      if (!im.code.empty()) return bad("image without size");
      continue;
    }
    if (!std::has_single_bit(im.alignment) || im.alignment < kRowAlign || im.alignment > 65536)
      return bad("image alignment out of range");
    if (im.entry_offset >= im.size) return bad("entry point outside of the image");
    if (!im.code.empty()) {
      if (im.code.size() != im.size) return bad("image size differs from its code");
    } else if (!in_bounds(im.offset, im.size, program_bytes) || im.offset % im.alignment != 0) {
      return bad("image outside of the program section");
    }
  }
  return {};
}

Status check_memory(const Plan& plan, uint64_t weight_bytes) {
  for (const WeightRow& w : plan.weights)
    if (!in_bounds(w.offset, w.size, weight_bytes) || w.offset % kRowAlign != 0)
      return fail(Errc::kCorrupt,
                  strf("plan: weight %s lies outside of the weights section", w.name.c_str()));
  for (size_t i = 0; i < plan.arenas.size(); ++i)
    if (plan.arenas[i].size > kMaxBytes)
      return fail(Errc::kCorrupt, strf("plan: arena %zu is too large", i));
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const BufferRow& b = plan.buffers[i];
    const bool is_weight = b.kind == BufferRow::Kind::kWeight;
    if (!is_weight && b.kind != BufferRow::Kind::kArena)
      return fail(Errc::kCorrupt, strf("plan: buffer %zu is of no known kind", i));
    if (b.index >= (is_weight ? plan.weights.size() : plan.arenas.size()))
      return fail(Errc::kCorrupt,
                  strf("plan: buffer %zu names row %u, which is not there", i, b.index));
    const uint64_t total = is_weight ? plan.weights[b.index].size : plan.arenas[b.index].size;
    if (!in_bounds(b.offset, b.size, total))
      return fail(Errc::kCorrupt, strf("plan: buffer %zu lies outside of its row", i));
  }
  return {};
}

Status check_slots(const Entry& e) {
  std::vector<SlotUse> used(e.slot_count(), SlotUse::kFree);
  const auto claim = [&](const std::string& name, uint32_t slot, SlotUse use) -> Status {
    if (slot >= used.size() || used[slot] != SlotUse::kFree)
      return fail(Errc::kCorrupt, strf("plan: entry %s: slot %u of %s is taken or out of range",
                                       e.name.c_str(), slot, name.c_str()));
    used[slot] = use;
    return {};
  };
  for (const std::vector<TensorInfo>* list : {&e.inputs, &e.outputs})
    for (const TensorInfo& t : *list) {
      RETURN_IF_ERROR(claim(t.name, t.slot, SlotUse::kTensor));
      const bool is_known = static_cast<int>(t.dtype) < ir::kDTypeCount;
      uint64_t bytes = is_known ? static_cast<uint64_t>(ir::item_size(t.dtype)) : 0;
      if (t.dtype == ir::DType::kVoid || !is_known || ir::is_weak(t.dtype))
        return fail(Errc::kCorrupt, strf("plan: tensor %s has no storable type", t.name.c_str()));
      for (int64_t d : t.dims) {
        if (d < 0 || static_cast<uint64_t>(d) > kMaxBytes ||
            (d > 0 && bytes > kMaxBytes / static_cast<uint64_t>(d)))
          return fail(Errc::kCorrupt, strf("plan: tensor %s is too large", t.name.c_str()));
        bytes *= static_cast<uint64_t>(d);
      }
      if (bytes != t.bytes)
        return fail(Errc::kCorrupt, strf("plan: tensor %s: %llu bytes, its shape says %llu",
                                         t.name.c_str(), static_cast<unsigned long long>(t.bytes),
                                         static_cast<unsigned long long>(bytes)));
    }
  for (const ScalarInfo& s : e.scalars) {
    RETURN_IF_ERROR(claim(s.name, s.slot, SlotUse::kScalar));
    if (s.vmin > s.vmax)
      return fail(Errc::kCorrupt, strf("plan: scalar %s has an empty range", s.name.c_str()));
  }
  return {};
}

Status check_entry(const Plan& plan, const Entry& e) {
  if (std::max({e.inputs.size(), e.outputs.size(), e.scalars.size(), e.calls.size()}) > kMaxRows)
    return fail(Errc::kCorrupt, strf("plan: entry %s has more than 2^20 rows", e.name.c_str()));
  RETURN_IF_ERROR(check_slots(e));
  for (size_t i = 0; i < e.calls.size(); ++i) RETURN_IF_ERROR(check_call(plan, e, i));
  return {};
}

Status check_call(const Plan& plan, const Entry& e, size_t call) {
  const CallRow& c = e.calls[call];
  const auto bad = [&](const char* why) {
    return fail(Errc::kCorrupt, strf("plan: %s: %s", call_text(plan, e, call).c_str(), why));
  };
  const auto is_address = [](const ArgRef& a) {
    return a.kind == ArgRef::Kind::kBuffer || a.kind == ArgRef::Kind::kSlot;
  };
  if (c.kind == CallRow::Kind::kCopy) {
    if (c.args.size() != 2 || !is_address(c.args[0]) || !is_address(c.args[1]))
      return bad("a copy needs a destination and a source");
    if (c.args[0].kind == ArgRef::Kind::kBuffer && c.args[0].index < plan.buffers.size() &&
        plan.buffers[c.args[0].index].kind == BufferRow::Kind::kWeight)
      return bad("a copy into weights");
    for (const ArgRef& a : c.args)
      if (Status s = check_arg(plan, e, a, c.copy_bytes); !s.ok())
        return bad(s.error().what.c_str());
    return {};
  }
  if (c.kind != CallRow::Kind::kProgram) return bad("unknown kind of call");
  if (c.program >= plan.programs.size()) return bad("the program is not there");
  const ProgramRow& p = plan.programs[c.program];
  if (c.args.size() != p.arg_count()) return bad("wrong number of arguments");
  for (size_t i = 0; i < c.args.size(); ++i) {
    if (is_address(c.args[i]) != (i < p.buffer_args))
      return bad("scalar and buffer arguments are mixed up");
    if (Status s = check_arg(plan, e, c.args[i], 0); !s.ok()) return bad(s.error().what.c_str());
  }
  for (uint32_t pos : p.outs)
    if (const ArgRef& a = c.args[pos];
        a.kind == ArgRef::Kind::kBuffer && plan.buffers[a.index].kind == BufferRow::Kind::kWeight)
      return bad("the kernel would write weights");
  return {};
}

Status check_arg(const Plan& plan, const Entry& e, const ArgRef& a, uint64_t span_bytes) {
  switch (a.kind) {
    case ArgRef::Kind::kBuffer:
      if (a.index >= plan.buffers.size())
        return fail(Errc::kCorrupt, strf("buffer %u is not there", a.index));
      if (!in_bounds(a.offset, span_bytes, plan.buffers[a.index].size))
        return fail(Errc::kCorrupt, strf("offset outside of buffer %u", a.index));
      return {};
    case ArgRef::Kind::kSlot:
      for (const std::vector<TensorInfo>* list : {&e.inputs, &e.outputs})
        for (const TensorInfo& t : *list)
          if (t.slot == a.index)
            return in_bounds(a.offset, span_bytes, t.bytes)
                       ? Status{}
                       : fail(Errc::kCorrupt, strf("offset outside of tensor %s", t.name.c_str()));
      return fail(Errc::kCorrupt, strf("slot %u binds no tensor", a.index));
    case ArgRef::Kind::kScalar:
      for (const ScalarInfo& s : e.scalars)
        if (s.slot == a.index) return {};
      return fail(Errc::kCorrupt, strf("slot %u binds no scalar", a.index));
    case ArgRef::Kind::kConst:
      return {};
  }
  return fail(Errc::kCorrupt, "argument of no known kind");
}

}  // namespace

}  // namespace modeld::exec
