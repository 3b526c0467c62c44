#include "runtime/exec/jit_saved.h"

#include <algorithm>
#include <array>
#include <limits>
#include <type_traits>
#include <utility>

#include "hal/base/bytes.h"
#include "hal/base/hash.h"

namespace modeld::exec {

namespace {

constexpr std::array<char, 8> kMagic = {'m', 'o', 'd', 'e', 'l', 'j', 'i', 't'};
constexpr size_t kHeaderBytes = 64;
constexpr int64_t kMaxElements = int64_t{1} << 46;

// Writer and reader have one shape, so that the fields of a struct are listed once for both.
class Out {
 public:
  template <class T>
  void operator()(const T& v);
  std::vector<std::byte> take() { return writer_.take(); }

 private:
  ByteWriter writer_;
};

// After the first error nothing is read any more, and lists do not grow.
class In {
 public:
  explicit In(std::span<const std::byte> bytes) : reader_(bytes, "saved jit") {}
  template <class T>
  void operator()(T& v);
  Status finish() {
    if (status_.ok() && !reader_.at_end())
      return fail(Errc::kCorrupt, strf("saved jit: %zu bytes too many", reader_.left()));
    return std::move(status_);
  }

 private:
  template <class T>
  void scalar(T& v) {
    if (!status_.ok()) return;
    Result<T> read = reader_.read<T>();
    if (read.ok()) {
      v = *read;
    } else {
      status_ = fail(std::move(read).error());
    }
  }
  // False when there is none, or one that cannot be.
  bool count(uint64_t& n) {
    scalar(n);
    if (status_.ok() && n > reader_.left()) stop("a count is larger than what is left");
    return status_.ok();
  }
  void stop(const char* what) {
    if (status_.ok()) status_ = fail(Errc::kCorrupt, strf("saved jit: %s", what));
  }

  ByteReader reader_;
  Status status_;
};

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};

template <class A>
void fields(A& a, BufferInfo& v) {
  a(v.device), a(v.dtype), a(v.bytes);
}
template <class A>
void fields(A& a, InputInfo& v) {
  a(v.name), a(v.dtype), a(v.dims), a(v.view), a(v.buffers);
}
template <class A>
void fields(A& a, VariableInfo& v) {
  a(v.name), a(v.vmin), a(v.vmax), a(v.multiple_of);
}
template <class A>
void fields(A& a, JitSignature& v) {
  a(v.inputs), a(v.variables);
}
template <class A>
void fields(A& a, DeviceRow& v) {
  a(v.name), a(v.target);
}
template <class A>
void fields(A& a, MemoryRow& v) {
  a(v.device), a(v.bytes), a(v.is_held);
}
template <class A>
void fields(A& a, InputRow& v) {
  a(v.device), a(v.bytes);
}
template <class A>
void fields(A& a, CallArg& v) {
  a(v.ref.kind), a(v.ref.index), a(v.ref.offset), a(v.bytes);
}
template <class A>
void fields(A& a, CompiledCall& v) {
  a(v.kind), a(v.device), a(v.program), a(v.args);
}
template <class A>
void fields(A& a, Image& v) {
  a(v.code), a(v.size), a(v.entry_offset), a(v.alignment);
}
template <class A>
void fields(A& a, ProgramRow& v) {
  a(v.name), a(v.key.lo), a(v.key.hi), a(v.ast_text), a(v.source), a(v.applied_opts);
  a(v.outs), a(v.ins), a(v.buffer_args), a(v.scalar_args);
  for (uint64_t& n : v.groups) a(n);
  for (uint64_t& n : v.local) a(n);
  a(v.flops), a(v.lds_bytes), a(v.mem_bytes), a(v.no_contract), a(v.image);
}
template <class A>
void fields(A& a, CompiledLinear& v) {
  a(v.devices), a(v.programs), a(v.memories), a(v.inputs), a(v.variables), a(v.calls);
}
template <class A>
void fields(A& a, SavedMemory& v) {
  a(v.dtype), a(v.elements), a(v.is_product), a(v.contents);
}
template <class A>
void fields(A& a, SavedJit& v) {
  a(v.target), a(v.codegen_config), a(v.compiler);
  a(v.signature), a(v.linear), a(v.memories), a(v.results);
}

template <class T>
void Out::operator()(const T& v) {
  if constexpr (std::is_enum_v<T> || std::is_same_v<T, bool>) {
    writer_.write(static_cast<uint8_t>(v));
  } else if constexpr (std::is_arithmetic_v<T>) {
    writer_.write(v);
  } else if constexpr (std::is_same_v<T, std::string>) {
    writer_.write(static_cast<uint64_t>(v.size()));
    writer_.write_string(v);
  } else if constexpr (std::is_same_v<T, std::vector<std::byte>>) {
    writer_.write(static_cast<uint64_t>(v.size()));
    writer_.write_span(v);
  } else if constexpr (IsVector<T>::value) {
    writer_.write(static_cast<uint64_t>(v.size()));
    for (const auto& item : v) (*this)(item);
  } else {
    fields(*this, const_cast<T&>(v));  // only reads: fields() is shared with the reader
  }
}

template <class T>
void In::operator()(T& v) {
  uint64_t n = 0;
  if constexpr (std::is_enum_v<T> || std::is_same_v<T, bool>) {
    uint8_t byte = 0;
    scalar(byte);
    if (std::is_same_v<T, bool> && byte > 1) stop("a flag is neither 0 nor 1");
    v = static_cast<T>(byte);
  } else if constexpr (std::is_arithmetic_v<T>) {
    scalar(v);
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (count(n)) v = *reader_.read_string(n);
  } else if constexpr (std::is_same_v<T, std::vector<std::byte>>) {
    if (!count(n)) return;
    const auto bytes = *reader_.read_span(n);
    v.assign(bytes.begin(), bytes.end());
  } else if constexpr (IsVector<T>::value) {
    if (!count(n)) return;
    for (; n > 0 && status_.ok(); --n) (*this)(v.emplace_back());
  } else {
    fields(*this, v);
  }
}

tl::unexpected<Error> corrupt(const std::string& what) {
  return fail(Errc::kCorrupt, "saved jit: " + what);
}

bool is_storage_dtype(ir::DType t) {
  return static_cast<int>(t) < ir::kDTypeCount && t != ir::DType::kVoid && !ir::is_weak(t);
}

Status check_signature_rows(const SavedJit& jit) {
  std::vector<InputRow> wanted;
  for (const InputInfo& input : jit.signature.inputs) {
    if (!is_storage_dtype(input.dtype) || input.buffers.empty())
      return corrupt("input " + input.name + " has no type or no memory");
    for (const BufferInfo& b : input.buffers) {
      if (!is_storage_dtype(b.dtype)) return corrupt("input " + input.name + " has no type");
      const auto& devices = jit.linear.devices;
      const auto at = std::find_if(devices.begin(), devices.end(),
                                   [&b](const DeviceRow& d) { return d.name == b.device; });
      if (at == devices.end()) return corrupt("input " + input.name + " lies on no device");
      wanted.push_back({static_cast<uint32_t>(at - devices.begin()), b.bytes});
    }
  }
  if (wanted != jit.linear.inputs) return corrupt("signature and rows have other inputs");
  std::vector<std::string> names;
  for (const VariableInfo& v : jit.signature.variables) names.push_back(v.name);
  if (names != jit.linear.variables) return corrupt("signature and rows have other variables");
  return {};
}

Status check_memories(const SavedJit& jit) {
  if (jit.memories.size() != jit.linear.memories.size()) return corrupt("memories are missing");
  for (size_t i = 0; i < jit.memories.size(); ++i) {
    const SavedMemory& m = jit.memories[i];
    const MemoryRow& row = jit.linear.memories[i];
    if (!row.is_held) {
      if (m.elements != 0 || !m.contents.empty()) return corrupt(strf("arena %zu has contents", i));
      continue;
    }
    if (!is_storage_dtype(m.dtype) || m.elements < 0 || m.elements > kMaxElements ||
        static_cast<uint64_t>(m.elements) * static_cast<uint64_t>(ir::item_size(m.dtype)) !=
            row.bytes)
      return corrupt(strf("memory %zu: type and elements do not give its size", i));
    if (m.contents.size() != (m.is_product ? 0 : row.bytes))
      return corrupt(strf("memory %zu: %zu bytes of contents", i, m.contents.size()));
  }
  return {};
}

}  // namespace

std::vector<std::byte> encode_jit(const SavedJit& jit) {
  Out out;
  out(jit);
  const std::vector<std::byte> payload = out.take();
  ByteWriter w;
  w.write_string(std::string_view(kMagic.data(), kMagic.size()));
  w.write(kJitFormat);
  w.write(uint32_t{0});
  w.write(static_cast<uint64_t>(payload.size()));
  w.write(uint64_t{0});
  const Hash256 hash = blake2b(payload);
  w.write_span(std::as_bytes(std::span(hash.bytes)));
  w.write_span(payload);
  return w.take();
}

namespace {

// What follows a header that fits it.
Result<std::span<const std::byte>> payload_of(std::span<const std::byte> bytes) {
  ByteReader r(bytes, "saved jit");
  ASSIGN_OR_RETURN(const std::string magic, r.read_string(kMagic.size()));
  if (magic != std::string_view(kMagic.data(), kMagic.size())) return corrupt("this is none");
  ASSIGN_OR_RETURN(const uint32_t format, r.read<uint32_t>());
  if (format != kJitFormat)
    return fail(Errc::kMismatch,
                strf("saved jit: format %u, this program reads %u", format, kJitFormat));
  ASSIGN_OR_RETURN(const uint32_t reserved, r.read<uint32_t>());
  ASSIGN_OR_RETURN(const uint64_t size, r.read<uint64_t>());
  ASSIGN_OR_RETURN(const uint64_t reserved_too, r.read<uint64_t>());
  ASSIGN_OR_RETURN(const std::span<const std::byte> stored, r.read_span(sizeof(Hash256::bytes)));
  if (reserved != 0 || reserved_too != 0 || size != r.left())
    return corrupt(strf("%zu bytes after the header, it says %llu", r.left(),
                        static_cast<unsigned long long>(size)));
  const std::span<const std::byte> payload = bytes.subspan(kHeaderBytes);
  const Hash256 hash = blake2b(payload);
  if (!std::ranges::equal(stored, std::as_bytes(std::span(hash.bytes))))
    return corrupt("the hash does not match the contents");
  return payload;
}

}  // namespace

Result<SavedJit> decode_jit(std::span<const std::byte> bytes) {
  ASSIGN_OR_RETURN(const std::span<const std::byte> payload, payload_of(bytes));
  SavedJit out;
  In in(payload);
  in(out);
  RETURN_IF_ERROR(in.finish());
  RETURN_IF_ERROR(check_compiled_linear(out.linear));
  RETURN_IF_ERROR(check_signature_rows(out));
  RETURN_IF_ERROR(check_memories(out));
  return out;
}

Status check_made_for(const SavedJit& jit,
                      const std::string& target,
                      const std::string& codegen_config) {
  if (jit.target != target)
    return fail(Errc::kMismatch,
                strf("saved jit: compiled for %s, this is %s", jit.target.c_str(), target.c_str()));
  if (jit.codegen_config != codegen_config)
    return fail(Errc::kMismatch, strf("saved jit: compiled with '%s', this session has '%s'",
                                      jit.codegen_config.c_str(), codegen_config.c_str()));
  for (const DeviceRow& d : jit.linear.devices)
    if (d.target != target)
      return fail(Errc::kMismatch, strf("saved jit: device %s is %s, this is %s", d.name.c_str(),
                                        d.target.c_str(), target.c_str()));
  return {};
}

}  // namespace modeld::exec
