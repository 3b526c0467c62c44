#include <algorithm>

#include "runtime/isa/x86/selector.h"

namespace modeld::isa::x86 {

// ---- one lane of a vector ----

const Node* Selector::element(const Node* n) {
  const Node* v = n->src(0);
  if (shapes_.lanes(v) == 1) return get(v);
  const Node* number = n->src(1)->op == Op::kCast ? n->src(1)->src(0) : n->src(1);
  const auto lane = ir::int_value(number);
  if (!lane) return bad(n);
  const DType t = n->dtype;
  const bool is_bool = t == DType::kBool;
  const int bits = is_bool ? shapes_.mask_bits(v) : bits_of(t);
  const Node* x = done_.get(v);
  int64_t k = *lane;
  if (k * bits >= 128) {
    x = ins(g_, t, "vextractf128.y", {x}, 1);
    k -= 128 / bits;
  }
  if (t == DType::kF32) return k == 0 ? x : ins(g_, t, "vpermilps_i.x", {x}, k);
  if (t == DType::kF64) return k == 0 ? x : ins(g_, t, "vpermilpd_i.x", {x}, k);
  if (is_bool) {
    const Node* word =
        bits == 64 ? ins(g_, t, "vpextrd", {x}, 2 * k) : ins(g_, t, "vpextrd", {x}, k);
    return ins(g_, t, "and_i.l", {word}, 1);
  }
  if (bits == 8) return extended(t, ins(g_, t, "vpextrb", {x}, k));
  if (bits == 16) return extended(t, ins(g_, t, "vpextrw", {x}, k));
  if (k == 0) return ins(g_, t, bits == 64 ? "vmovq_r" : "vmovd_r", {x});
  return ins(g_, t, bits == 64 ? "vpextrq" : "vpextrd", {x}, k);
}

// ---- scalars side by side ----

// `count` floats from source `from` on in one 128-bit register.
const Node* Selector::stack_floats(const Node* n, size_t from, size_t count) {
  const DType t = n->dtype;
  const auto at = [&](size_t k) { return get(n->src(from + k)); };
  if (t == DType::kF64) return ins(g_, t, "vunpcklpd.x", {at(0), at(1)});
  const Node* low = ins(g_, t, "vunpcklps.x", {at(0), at(1)});
  if (count == 2) return low;
  return ins(g_, t, "vunpcklpd.x", {low, ins(g_, t, "vunpcklps.x", {at(2), at(3)})});
}

const Node* Selector::stack_ints(const Node* n, size_t from, size_t count) {
  const DType t = n->dtype;
  const int bits = bits_of(t);
  const char* insert = bits == 64   ? "vpinsrq"
                       : bits == 16 ? "vpinsrw"
                       : bits == 8  ? "vpinsrb"
                                    : "vpinsrd";
  const Node* x = ins(g_, t, bits == 64 ? "vmovq" : "vmovd", {get(n->src(from))});
  for (size_t k = 1; k < count; ++k)
    x = ins(g_, t, insert, {x, get(n->src(from + k))}, static_cast<int64_t>(k));
  return x;
}

const Node* Selector::stack(const Node* n) {
  const auto lanes = static_cast<int64_t>(n->nsrc);
  DType t = n->dtype;
  const bool is_bool = t == DType::kBool;
  if (is_bool) {
    // As words of 0 and 1, then turned into 0 and -1.
    t = shapes_.mask_bits(n) == 64 ? DType::kI64 : DType::kI32;
    if (!is_vector_shape(t, lanes)) return n;
    NodeVec words;
    for (const Node* s : n->src()) {
      const Node* word = g_.make(Op::kCast, t, {s});
      done_.set(word, get(s));
      words.push_back(word);
    }
    const Node* ones = stack(g_.make(Op::kStack, t, words));
    const int64_t size = lanes * bits_of(t) / 8;
    return ins(g_, n->dtype, with_width(bits_of(t) == 64 ? "vpsubq" : "vpsubd", size),
               {zero_vector(size), ones});
  }
  // Vectors that no register holds are only looked at lane by lane.
  if (!is_vector_shape(t, lanes)) return n;
  const bool same =
      std::all_of(n->src().begin(), n->src().end(), [&](const Node* s) { return s == n->src(0); });
  if (same && bits_of(t) >= 32) return spread(n->src(0), lanes, 0);
  const auto part = [&](size_t from, size_t count) {
    return is_wide_float(t) ? stack_floats(n, from, count) : stack_ints(n, from, count);
  };
  const auto count = static_cast<size_t>(lanes);
  if (lanes * bits_of(t) <= 128) return part(0, count);
  return ins(g_, t, "vinsertf128.y", {part(0, count / 2), part(count / 2, count / 2)}, 1);
}

}  // namespace modeld::isa::x86
