#include "runtime/codegen/tensor_cores.h"

#include <algorithm>
#include <bit>
#include <set>

#include "hal/base/text.h"

namespace modeld::codegen {

using ir::DType;

namespace {

constexpr TensorCore kCores[] = {
#define TENSOR_CORE(name, dim_n, dim_m, dim_k, threads, ea, eb, ec, ta, tb, tc, opts, sa, sb, \
                    kind, needs, declared)                                                    \
  {#name,        dim_n,        dim_m, dim_k, threads, ea,   eb,    ec,      DType::k##ta,     \
   DType::k##tb, DType::k##tc, opts,  sa,    sb,      kind, needs, declared},
#include "runtime/codegen/tensor_cores.def"
#undef TENSOR_CORE
};

int64_t log2_of(int64_t v) {
  return v < 1 ? 0 : std::bit_width(static_cast<uint64_t>(v)) - 1;
}

tl::unexpected<Error> wrong(const TensorCore& c, const std::string& why) {
  return fail(Errc::kInternal, strf("tensor core %s: %s", c.name, why.c_str()));
}

std::vector<std::string> words(const char* text) {
  std::vector<std::string> out = split(text, ' ');
  std::erase_if(out, [](const std::string& w) { return w.empty() || w == "|"; });
  return out;
}

Result<std::vector<size_t>> permutation(const TensorCore& c,
                                        const std::vector<std::string>& names,
                                        const char* text) {
  std::vector<size_t> out;
  for (const std::string& w : words(text)) {
    const auto it = std::find(names.begin(), names.end(), w);
    if (it == names.end()) return wrong(c, "swizzle names " + w + ", which no opt makes");
    out.push_back(static_cast<size_t>(it - names.begin()));
  }
  std::vector<size_t> sorted = out;
  std::sort(sorted.begin(), sorted.end());
  const bool once = std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
  if (out.size() != names.size() || !once) {
    return wrong(c, strf("a swizzle of %zu bits permutes %zu", names.size(), out.size()));
  }
  return out;
}

// The bits an operand depends on, as they stand in it, must be lanes or its own element bits.
Status check_operand(const TensorCore& c,
                     const TensorBits& bits,
                     const std::vector<size_t>& swizzle,
                     int axis,
                     int64_t elements) {
  const auto count = static_cast<size_t>(log2_of(elements));
  if (count > bits.elements_order.size()) return wrong(c, "an operand has more bits than the core");
  const std::set<size_t> own(bits.elements_order.begin(),
                             bits.elements_order.begin() + static_cast<std::ptrdiff_t>(count));
  std::set<size_t> held;
  for (size_t i = 0; i < bits.names.size(); ++i) {
    if (bits.axis[i] != axis && bits.axis[i] != 2) continue;
    const size_t at = swizzle[i];
    if (bits.names[at][0] == 'l') continue;
    if (!own.contains(at)) {
      return wrong(c, strf("operand %c needs %s, which is not among its elements",
                           axis == 1 ? 'A' : 'B', bits.names[at].c_str()));
    }
    held.insert(at);
  }
  return held.size() == own.size() ? Status{} : wrong(c, "an operand repeats elements");
}

}  // namespace

std::span<const TensorCore> tensor_core_table() {
  return kCores;
}

const TensorCore* find_tensor_core(std::string_view name) {
  for (const TensorCore& c : kCores) {
    if (name == c.name) return &c;
  }
  return nullptr;
}

std::vector<std::string> tensor_cores_of(const hal::Target& target) {
  std::vector<std::string> out;
  // Our own instruction selection has no matrix units.
  if (target.renderer == "x86") return out;
  for (const TensorCore& c : kCores) {
    const bool here = target.is_cpu() ? target.has_feature(c.needs) : target.arch == c.needs;
    if (c.declared && target.kind == c.kind && here) out.emplace_back(c.name);
  }
  return out;
}

int64_t tc_number(const TcChoice& c) {
  return 100 * (c.select + 1) + 10 * c.level + c.use;
}
TcChoice tc_choice(int64_t number) {
  return {number / 100 - 1, number / 10 % 10, number % 10};
}

Result<TensorBits> tensor_bits(const TensorCore& core) {
  TensorBits bits;
  const std::vector<std::string> opts = words(core.opts);
  const auto add_kind = [&](char kind) {
    for (const std::string& o : opts) {
      if (o[0] != kind) continue;
      size_t number = 0;
      for (const std::string& name : bits.names) number += name[0] == kind ? 1 : 0;
      bits.names.push_back(kind + std::to_string(number));
      bits.axis.push_back(o[1] - '0');
    }
  };
  for (const std::string& o : opts) {
    if (o.size() != 2 || (o[0] != 'l' && o[0] != 'u') || (o[1] != '0' && o[1] != '1')) {
      return wrong(core, "opt " + o + " is none of l0 l1 u0 u1");
    }
  }
  add_kind('l');
  add_kind('u');
  size_t lanes = 0;
  size_t registers = 0;
  for (const std::string& name : bits.names) lanes += name[0] == 'l' ? 1 : 0;
  registers = bits.names.size() - lanes;
  size_t next_l = 0;
  size_t next_u = lanes;
  for (const std::string& o : opts) bits.opts.push_back(o[0] == 'l' ? next_l++ : next_u++);
  for (int64_t i = 0; i < log2_of(core.k); ++i) {
    bits.elements_order.push_back(bits.names.size());
    bits.names.push_back("r" + std::to_string(i));
    bits.axis.push_back(2);
  }
  for (size_t i = 0; i < registers; ++i) bits.elements_order.push_back(lanes + i);
  ASSIGN_OR_RETURN(bits.for_a, permutation(core, bits.names, core.swizzle_a));
  ASSIGN_OR_RETURN(bits.for_b, permutation(core, bits.names, core.swizzle_b));
  return bits;
}

Status check_tensor_core(const TensorCore& core) {
  for (int64_t v :
       {core.n, core.m, core.k, core.threads, core.a_elements, core.b_elements, core.c_elements}) {
    if (v < 1 || !std::has_single_bit(static_cast<uint64_t>(v))) {
      return wrong(core, strf("%lld is no power of two", static_cast<long long>(v)));
    }
  }
  ASSIGN_OR_RETURN(const TensorBits bits, tensor_bits(core));
  int64_t lanes = 0;
  int64_t registers = 0;
  int64_t per_axis[3] = {0, 0, 0};
  for (size_t i = 0; i < bits.names.size(); ++i) {
    lanes += bits.names[i][0] == 'l' ? 1 : 0;
    registers += bits.names[i][0] == 'u' ? 1 : 0;
    per_axis[bits.axis[i]] += 1;
  }
  if (core.n * core.m != int64_t{1} << (lanes + registers)) {
    return wrong(core, "opts do not make N * M results");
  }
  if (core.threads != int64_t{1} << lanes) return wrong(core, "lane bits do not make the threads");
  if (core.c_elements != int64_t{1} << registers) {
    return wrong(core, "register bits do not make the result's elements");
  }
  const int64_t want[3] = {log2_of(core.n), log2_of(core.m), log2_of(core.k)};
  for (int i = 0; i < 3; ++i) {
    if (per_axis[i] != want[i]) return wrong(core, strf("wrong number of splits of %c", "NMK"[i]));
  }
  RETURN_IF_ERROR(check_operand(core, bits, bits.for_a, 1, core.a_elements));
  return check_operand(core, bits, bits.for_b, 0, core.b_elements);
}

}  // namespace modeld::codegen
