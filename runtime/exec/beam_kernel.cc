#include "runtime/exec/beam_kernel.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <utility>

#include "hal/base/clock.h"

#include "runtime/codegen/graph_util.h"
#include "runtime/exec/realize.h"
#include "runtime/ir/derived.h"

namespace modeld::exec {

struct KernelBench::Argument {
  ir::DType dtype = ir::DType::kF32;
  uint64_t bytes = 0;  // 0: no such parameter
  hal::Buffer memory;
};
struct KernelBench::Variable {
  std::string name;
  int64_t value = 0;
};

namespace {

constexpr uint64_t kFlushBytes = uint64_t{64} << 20;  // of one run; more would not stay cached
constexpr size_t kLineBytes = 64;

// SplitMix64; small integers, so that they may serve as positions, and floats of [-1, 1).
void put_seeded(std::span<std::byte> out, ir::DType t, uint64_t seed) {
  uint64_t state = seed;
  const auto next = [&state] {
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  };
  const auto put = [&](auto make) {
    using T = decltype(make());
    for (size_t at = 0; at + sizeof(T) <= out.size(); at += sizeof(T)) {
      const T v = make();
      std::memcpy(out.data() + at, &v, sizeof(T));
    }
  };
  const auto unit = [&] {
    return static_cast<float>(static_cast<int64_t>(next() >> 53) - 1024) / 1024.0f;
  };
  switch (ir::item_size(t)) {
    case 1:
      return put([&]() -> uint8_t {
        if (ir::is_narrow_float(t))
          return static_cast<uint8_t>(ir::to_narrow_bits(t, static_cast<double>(unit())));
        return static_cast<uint8_t>(t == ir::DType::kBool ? next() & 1 : next());
      });
    case 2:
      return put([&]() -> uint16_t {
        if (ir::is_narrow_float(t)) return ir::to_narrow_bits(t, static_cast<double>(unit()));
        return static_cast<uint16_t>(next() & 7);
      });
    case 4:
      if (t == ir::DType::kF32) return put(unit);
      return put([&]() -> uint32_t { return static_cast<uint32_t>(next() & 7); });
    default:
      if (t == ir::DType::kF64) return put([&]() -> double { return unit(); });
      return put([&]() -> uint64_t { return next() & 7; });
  }
}

bool reads_data(const ir::Node* index) {
  for (const ir::Node* n : ir::toposort(index))
    if (n->op == ir::Op::kIndex || n->op == ir::Op::kLoad) return true;
  return false;
}

bool reads_variable(const ir::Node* index) {
  for (const ir::Node* n : ir::toposort(index))
    if (n->op == ir::Op::kParam && n->as<ir::ParamArg>().addrspace == ir::AddrSpace::kAlu)
      return true;
  return false;
}

// Elements that an access may reach. Gates are written against the declared size, so a gated access
// stays inside it, unless a variable's middle value moves it.
Result<int64_t> reach(ir::Graph& g, const ir::Node* access, int64_t declared) {
  const codegen::GatedIndex at = codegen::split_gate(access->src(1));
  if (at.gate != nullptr && !reads_variable(at.index)) return declared;
  const ir::Bounds b = ir::bounds(g, at.index);
  const bool is_known =
      b.vmax < static_cast<int64_t>(KernelBench::kMaxBytes) && (at.gate != nullptr || b.vmin >= 0);
  if (is_known) return std::max(declared, b.vmax + 1);
  return fail(Errc::kUnsupported, reads_data(at.index) ? "an address depends on data"
                                                       : "an address has no known bounds");
}

void flush_lines([[maybe_unused]] std::span<std::byte> bytes) {
#if defined(__x86_64__)
  for (size_t at = 0; at < bytes.size(); at += kLineBytes)
    __builtin_ia32_clflush(bytes.data() + at);
  __builtin_ia32_mfence();
#endif
}

}  // namespace

KernelBench::KernelBench(hal::Device& device, const std::string& target)
    : device_(device), target_(target) {}
KernelBench::~KernelBench() = default;

Result<std::unique_ptr<KernelBench>> KernelBench::create(hal::Device& device,
                                                         ir::Graph& g,
                                                         const ir::Node* ast) {
  std::unique_ptr<KernelBench> out(new KernelBench(device, device.info().target));
  RETURN_IF_ERROR(out->add_arguments(g, ast));
  uint64_t total = 0;
  for (const Argument& a : out->args_) total += a.bytes;
  if (total > kMaxBytes)
    return fail(Errc::kUnsupported,
                strf("needs %llu bytes of scratch", static_cast<unsigned long long>(total)));
  for (Argument& a : out->args_) {
    hal::BufferDesc desc;
    desc.size_bytes = std::max<uint64_t>(a.bytes, kLineBytes);
    ASSIGN_OR_RETURN(a.memory, device.allocator().alloc(desc));
  }
  hal::BufferDesc pad;
  pad.size_bytes = 2 * kLineBytes;
  ASSIGN_OR_RETURN(out->pad_, device.allocator().alloc(pad));
  RETURN_IF_ERROR(out->fill());
  return out;
}

Status KernelBench::add_arguments(ir::Graph& g, const ir::Node* ast) {
  std::map<const ir::Node*, int64_t> counts;
  for (const ir::Node* n : ir::toposort(ast)) {
    if (n->op == ir::Op::kParam) {
      const auto& p = n->as<ir::ParamArg>();
      if (p.addrspace == ir::AddrSpace::kAlu)
        vars_.push_back({p.name, p.vmin + (p.vmax - p.vmin) / 2});
      else
        counts.try_emplace(n, ir::element_count(g, n));
    }
    if (n->op != ir::Op::kIndex || !codegen::is_address(n)) continue;
    const ir::Node* memory = codegen::memory_root(n);
    const auto at = counts.find(memory);
    if (at == counts.end()) continue;
    if (n->nsrc != 2) return fail(Errc::kUnsupported, "an access with several indices");
    ASSIGN_OR_RETURN(const int64_t far, reach(g, n, ir::element_count(g, memory)));
    at->second = std::max(at->second, far);
  }
  RETURN_IF_ERROR(g.status());
  for (const auto& [node, count] : counts) {
    const auto slot = static_cast<size_t>(node->as<ir::ParamArg>().slot);
    if (slot >= hal::kMaxArgs) return fail(Errc::kInvalid, "too many arguments");
    if (args_.size() <= slot) args_.resize(slot + 1);
    args_[slot].dtype = node->dtype;
    args_[slot].bytes = static_cast<uint64_t>(count * ir::item_size(node->dtype));
  }
  return {};
}

Status KernelBench::fill() {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < args_.size(); ++i) {
    bytes.resize(args_[i].bytes);
    put_seeded(bytes, args_[i].dtype, i + 1);
    ASSIGN_OR_RETURN(const hal::TimelinePoint done, device_.upload(args_[i].memory, 0, bytes));
    RETURN_IF_ERROR(device_.wait(done, Deadline::in_ms(kRunLimitMs)));
  }
  return {};
}

void KernelBench::flush() {
  uint64_t left = kFlushBytes;
  for (const Argument& a : args_) {
    const std::span<std::byte> bytes = a.memory.cpu();
    if (bytes.size() > left) continue;
    left -= bytes.size();
    flush_lines(bytes);
  }
}

Result<KernelBench::Loaded> KernelBench::load(const Candidate& c) {
  const ir::ProgramInfo& info = c.program.info;
  const size_t buffers = info.globals.empty() ? 0 : static_cast<size_t>(info.globals.back() + 1);
  if (buffers > args_.size())
    return fail(Errc::kInternal,
                strf("kernel %s has more arguments than its AST", c.program.name.c_str()));
  hal::ProgramImage image;
  image.name = c.program.name;
  image.target = target_;
  image.code = c.image.code;
  image.entry_offset = c.image.entry_offset;
  std::vector<hal::Word> words;
  for (size_t i = 0; i < buffers; ++i) {
    image.args.push_back({hal::ArgKind::kBuffer, static_cast<uint16_t>(i)});
    words.push_back(hal::Word::of(args_[i].memory));
  }
  for (const std::string& name : info.vars) {
    const auto at =
        std::find_if(vars_.begin(), vars_.end(), [&](const Variable& v) { return v.name == name; });
    if (at == vars_.end()) return fail(Errc::kInternal, "variable " + name + " is not the AST's");
    image.args.push_back({hal::ArgKind::kScalar, static_cast<uint16_t>(words.size())});
    words.push_back(hal::Word::value(static_cast<uint64_t>(at->value)));
  }
  ASSIGN_OR_RETURN(const std::shared_ptr<hal::Program> program, device_.load(image));
  const auto size = [](const int64_t(&n)[3]) {
    const auto word = [](int64_t v) {
      return hal::Word::value(static_cast<uint64_t>(std::max<int64_t>(v, 1)));
    };
    return hal::Dim3{word(n[0]), word(n[1]), word(n[2])};
  };
  auto recorder = device_.record(hal::QueueKind::kCompute, "beam");
  for (const Argument& a : args_) recorder->keep(a.memory);
  recorder->keep(pad_);
  // All threads meet behind this copy, so that none of them is still waking up in the launch's
  // time.
  recorder->copy(hal::Word::of(pad_), hal::Word::value(pad_.addr() + kLineBytes),
                 hal::Word::value(kLineBytes));
  recorder->barrier();
  recorder->launch(program, words, size(info.global_size), size(info.local_size));
  Loaded out;
  ASSIGN_OR_RETURN(out.bound, std::move(*recorder).bind());
  for (const int64_t slot : info.outs) out.outs.push_back(static_cast<uint32_t>(slot));
  return out;
}

Result<double> KernelBench::run_us(Loaded& kernel) {
  flush();
  (void)device_.take_profile();
  ASSIGN_OR_RETURN(const hal::TimelinePoint done, kernel.bound->submit({}));
  RETURN_IF_ERROR(device_.wait(done, Deadline::in_ms(kRunLimitMs)));
  const std::vector<hal::ProfileRange> ranges = device_.take_profile();
  if (ranges.empty()) return fail(Errc::kInternal, "the device took no time of the launch");
  return static_cast<double>(ranges.back().end_ns - ranges.back().start_ns) / 1e3;
}

Result<std::vector<KernelBench::Output>> KernelBench::outputs(Loaded& kernel) {
  RETURN_IF_ERROR(fill());
  ASSIGN_OR_RETURN(const hal::TimelinePoint done, kernel.bound->submit({}));
  RETURN_IF_ERROR(device_.wait(done, Deadline::in_ms(kRunLimitMs)));
  std::vector<Output> out;
  for (const uint32_t slot : kernel.outs) {
    Output o{args_[slot].dtype, std::vector<std::byte>(args_[slot].bytes)};
    RETURN_IF_ERROR(device_.download(o.bytes, args_[slot].memory, 0, Deadline::in_ms(kRunLimitMs)));
    out.push_back(std::move(o));
  }
  return out;
}

namespace {

Status compare_floats(const HostTensor& value, const HostTensor& reference, double tolerance) {
  const std::vector<double> v = value.to_doubles(), r = reference.to_doubles();
  double largest = 0;
  for (const double x : r)
    if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
  for (size_t i = 0; i < r.size(); ++i) {
    if (v[i] == r[i] || (std::isnan(v[i]) && std::isnan(r[i]))) continue;
    if (std::abs(v[i] - r[i]) <= tolerance * largest) continue;  // false with NaN or infinity
    return fail(Errc::kMismatch,
                strf("element %zu is %.9g, the unoptimised kernel gives %.9g", i, v[i], r[i]));
  }
  return {};
}

}  // namespace

Status compare_outputs(std::span<const KernelBench::Output> value,
                       std::span<const KernelBench::Output> reference,
                       double scale) {
  if (value.size() != reference.size())
    return fail(Errc::kMismatch, strf("%zu outputs, the unoptimised kernel has %zu", value.size(),
                                      reference.size()));
  double tolerance = 1e-4;
  for (const KernelBench::Output& o : reference)
    if (ir::is_narrow_float(o.dtype)) tolerance = 1e-2;
  for (size_t i = 0; i < value.size(); ++i) {
    const KernelBench::Output &v = value[i], &r = reference[i];
    if (v.dtype != r.dtype || v.bytes.size() != r.bytes.size())
      return fail(Errc::kMismatch, strf("output %zu has another type or size", i));
    if (!ir::is_float(r.dtype)) {
      if (v.bytes != r.bytes) return fail(Errc::kMismatch, strf("output %zu: integers differ", i));
      continue;
    }
    const Status same =
        compare_floats({v.dtype, {}, v.bytes}, {r.dtype, {}, r.bytes}, scale * tolerance);
    if (!same.ok()) return fail(Error(same.error()).with(strf("output %zu", i)));
  }
  return {};
}

}  // namespace modeld::exec
