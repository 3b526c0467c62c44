#include <algorithm>
#include <bit>

#include "runtime/ir/derived.h"
#include "runtime/isa/x86/selector.h"

namespace modeld::isa::x86 {

// ---- constants ----

uint64_t literal_bits(DType t, const Node* c) {
  if (t == DType::kF64) return std::bit_cast<uint64_t>(ir::num_value(c).value_or(0));
  if (ir::is_float(t)) {
    const auto f = static_cast<float>(ir::num_value(c).value_or(0));
    if (ir::is_narrow_float(t)) return ir::to_narrow_bits(t, static_cast<double>(f));
    return std::bit_cast<uint32_t>(f);
  }
  if (t == DType::kBool) return ir::num_value(c).value_or(0) != 0 ? 1 : 0;
  const int64_t v = ir::wrap_to(t, ir::int_value(c).value_or(0));
  return bits_of(t) > 32 ? static_cast<uint64_t>(v) : static_cast<uint32_t>(v);
}

const Node* Selector::literal(DType t, const Node* c) {
  const uint64_t bits = literal_bits(t, c);
  if (t == DType::kF32) return ins_pool(g_, t, "vmovss", bits, 4);
  if (t == DType::kF64) return ins_pool(g_, t, "vmovsd", bits, 8);
  return ins(g_, t, "mov_i", {}, static_cast<int64_t>(bits));
}

// The same element in every lane.
const Node* Selector::pool_vector(DType t, uint64_t bits, int64_t bytes) {
  if (bits == 0) return zero_vector(bytes);
  if (bits_of(t) == 64)
    return bytes == 32 ? ins_pool(g_, t, "vbroadcastsd.y", bits, 8)
                       : ins_pool(g_, t, "vmovddup.x", bits, 8);
  return ins_pool(g_, t, with_width("vbroadcastss", bytes), bits, 4);
}

const Node* Selector::zero_vector(int64_t bytes) {
  return ins_pool(g_, DType::kF32, with_width("vbroadcastss", bytes), 0, 4);
}

// The value of a literal that an instruction can hold as a sign-extended 32-bit immediate.
std::optional<int64_t> Selector::immediate(const Node* n) const {
  const Node* c = is_literal(n) ? n->src(0) : n;
  if (c->op != Op::kConst || ir::is_float(n->dtype)) return std::nullopt;
  const auto v = ir::int_value(c);
  if (!v) return std::nullopt;
  const int64_t wrapped = is_literal(n) ? ir::wrap_to(n->dtype, *v) : *v;
  // 32-bit operations see the low half only.
  const int64_t seen = n->dtype == DType::kU32 ? static_cast<int32_t>(wrapped) : wrapped;
  return seen >= INT32_MIN && seen <= INT32_MAX ? std::optional(seen) : std::nullopt;
}

// ---- operands ----

const Node* Selector::get(const Node* n) {
  return n->op == Op::kConst ? literal(n->dtype, n) : done_.get(n);
}

const Node* Selector::vec(const Node* n, int64_t lanes, int mask_bits) {
  return shapes_.lanes(n) == lanes ? done_.get(n) : spread(n, lanes, mask_bits);
}

// A scalar in every lane; from memory or the pool in the load itself.
const Node* Selector::spread(const Node* n, int64_t lanes, int mask_bits) {
  const bool is_bool = n->dtype == DType::kBool;
  const int bits = is_bool ? mask_bits : bits_of(n->dtype);
  const int64_t size = lanes * bits / 8;
  const Node* c = is_literal(n) ? n->src(0) : n;
  if (c->op == Op::kConst) {
    uint64_t one = literal_bits(n->dtype, c);
    // Bytes and halves repeat inside a word; their vectors are 128 bits or less.
    if (bits == 8) one = (one & 0xff) * 0x01010101;
    if (bits == 16) one = (one & 0xffff) * 0x00010001;
    if (bits < 32) return pool_vector(DType::kU32, one, 16);
    return pool_vector(bits == 64 ? DType::kU64 : DType::kU32, is_bool ? 0 - one : one, size);
  }
  const Node* v = get(n);
  const bool volatile_load = n->op == Op::kLoad && memory_of(n->src(0))->op == Op::kParam &&
                             memory_of(n->src(0))->as<ir::ParamArg>().is_volatile;
  if (is_ins(v) && v->tag == kInsLoad && !volatile_load && bits >= 32) {
    const std::string& name = v->as<std::string>();
    const char* from_memory = name == "vmovss" || name == "mov.l"   ? "vbroadcastss"
                              : name != "vmovsd" && name != "mov.q" ? nullptr
                              : size == 32                          ? "vbroadcastsd"
                                                                    : "vmovddup";
    if (from_memory != nullptr)
      return g_.make(Op::kIns, n->dtype, v->src(), with_width(from_memory, size), kInsLoad);
  }
  if (is_wide_float(n->dtype)) {
    if (bits == 32) return ins(g_, n->dtype, with_width("vbroadcastss", size), {v});
    return size == 32 ? ins(g_, n->dtype, "vbroadcastsd.y", {v})
                      : ins(g_, n->dtype, "vmovddup.x", {v});
  }
  if (bits < 32) {
    NodeVec same(static_cast<size_t>(lanes), n);
    return stack(g_.make(Op::kStack, n->dtype, same));
  }
  // 0 or 1 becomes 0 or -1.
  if (is_bool) v = ins(g_, DType::kI64, "neg.q", {v});
  if (bits == 32)
    return ins(g_, n->dtype, with_width("vpbroadcastd", size), {ins(g_, n->dtype, "vmovd", {v})});
  return ins(g_, n->dtype, with_width("vpbroadcastq", size), {ins(g_, n->dtype, "vmovq", {v})});
}

// A 32-bit result brought back to the type's convention.
const Node* Selector::extended(DType t, const Node* value) {
  switch (t) {
    case DType::kI8:
      return ins(g_, t, "movsxb.l", {value});
    case DType::kU8:
    case DType::kF8E4M3:
    case DType::kF8E4M3Fnuz:
    case DType::kF8E5M2:
    case DType::kF8E5M2Fnuz:
      return ins(g_, t, "movzxb.l", {value});
    case DType::kI16:
      return ins(g_, t, "movsxw.l", {value});
    case DType::kU16:
    case DType::kF16:
    case DType::kBF16:
      return ins(g_, t, "movzxw.l", {value});
    default:
      return value;
  }
}

// ---- memory ----

const Node* Selector::words() {
  return ins(g_, DType::kU64, "arg.0", {});
}

const Node* Selector::param(const Node* n) {
  const auto& p = n->as<ir::ParamArg>();
  if (p.addrspace == ir::AddrSpace::kAlu && p.name == "core_id" && p.slot < 0)
    return ins(g_, n->dtype, "mov.l", {ins(g_, DType::kU64, "arg.1", {})});
  const Address word{words(), nullptr, 1, 8 * p.slot};
  const bool is_value = p.addrspace == ir::AddrSpace::kAlu;
  return ins_memory(g_, kInsLoad, n->dtype, is_value ? scalar_access(n->dtype).load : "mov.q",
                    word);
}

// Base, index register and constant of INDEX or SHRINK. Index math does not wrap, so constants may
// be taken off it; what remains is extended by its sign where it may be negative.
Address Selector::address(const Node* n) {
  const int64_t item = ir::item_size(memory_of(n)->dtype);
  Address a{done_.get(n->src(0)), nullptr, item, 0};
  const Node* index = n->src(1);
  int64_t offset = 0;
  while (index->op == Op::kAdd && is_literal(index->src(1))) {
    offset += ir::int_value(index->src(1)->src(0)).value_or(0);
    index = index->src(0);
  }
  if (is_literal(index) || index->op == Op::kConst) {
    offset += ir::int_value(is_literal(index) ? index->src(0) : index).value_or(0);
    index = nullptr;
  }
  if (offset * item < INT32_MIN || offset * item > INT32_MAX) {
    offset = 0;
    index = n->src(1);
  }
  a.disp = offset * item;
  if (index == nullptr) return a;
  a.index = get(index);
  const bool is_signed = !ir::is_unsigned(index->dtype) && bits_of(index->dtype) < 64;
  if (is_signed && ir::vmin(g_, index) < 0) a.index = ins(g_, DType::kI64, "movsxd.q", {a.index});
  return a;
}

int64_t Selector::value_bytes(const Node* n) {
  return shapes_.lanes(n) * std::max(bits_of(n->dtype), 8) / 8;
}

// Elements of a register buffer: read and written by number.
const Node* Selector::accumulator(const Node* n, const Node* value) {
  const Node* at = n->src(0);
  const Node* start = is_literal(at->src(1)) ? at->src(1)->src(0) : at->src(1);
  const auto number = ir::int_value(start);
  if (!number) return bad(n);
  const DType t = memory_of(at)->dtype;
  const int64_t width = at->op == Op::kShrink ? ir::int_value(at->src(2)).value_or(1) : 1;
  const int64_t size = width > 1 ? width * bits_of(t) / 8 : bits_of(t) == 32 ? 4 : 8;
  NodeVec src{done_.get(at->src(0)), ir::const_int(g_, *number), ir::const_int(g_, size)};
  if (value != nullptr) src.push_back(value);
  return g_.make(Op::kIns, t, src, std::string("acc"),
                 value == nullptr ? kInsAccRead : kInsAccWrite);
}

const Node* Selector::load(const Node* n) {
  const Node* at = n->src(0);
  if (is_register_buffer(memory_of(at))) return accumulator(n, nullptr);
  const int64_t lanes = shapes_.lanes(n);
  const std::string name =
      lanes == 1 ? scalar_access(n->dtype).load : vector_access(value_bytes(n)).load;
  if (n->nsrc == 1) return ins_memory(g_, kInsLoad, n->dtype, name, address(at));
  const Node* alt = lanes == 1 ? get(n->src(1)) : vec(n->src(1), lanes, 0);
  return ins_memory(g_, kInsLoad, n->dtype, "?" + name, address(at), {alt, get(n->src(2))});
}

const Node* Selector::store(const Node* n) {
  const Node* at = n->src(0);
  const Node* v = n->src(1);
  const int64_t lanes = at->op == Op::kShrink ? ir::int_value(at->src(2)).value_or(1) : 1;
  const Node* value = lanes == 1 ? get(v) : vec(v, lanes, 0);
  if (is_register_buffer(memory_of(at))) return accumulator(n, value);
  const int64_t size = lanes * bits_of(v->dtype) / 8;
  const std::string name = lanes == 1 ? scalar_access(v->dtype).store : vector_access(size).store;
  if (n->nsrc == 2) return ins_memory(g_, kInsStore, DType::kVoid, name, address(at), {value});
  return ins_memory(g_, kInsStore, DType::kVoid, "?" + name, address(at), {value, get(n->src(2))});
}

}  // namespace modeld::isa::x86
