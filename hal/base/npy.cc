#include "hal/base/npy.h"

#include <algorithm>
#include <optional>

#include "hal/base/bytes.h"
#include "hal/base/fs.h"
#include "hal/base/text.h"

namespace modeld {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr uint64_t kMaxHeaderBytes = 64 << 10;
constexpr size_t kMaxDims = 32;

// The text of one value of the header's dictionary: "{'descr': '<f4', 'fortran_order': False,
// 'shape': (2, 3), }".
Result<std::string_view> header_value(std::string_view header,
                                      std::string_view key,
                                      const std::string& what) {
  const std::string quoted = strf("'%.*s':", static_cast<int>(key.size()), key.data());
  const size_t at = header.find(quoted);
  if (at == std::string_view::npos)
    return fail(Errc::kCorrupt, strf("%s: header has no '%.*s'", what.c_str(),
                                     static_cast<int>(key.size()), key.data()));
  std::string_view rest = trim(header.substr(at + quoted.size()));
  const char open = rest.empty() ? '\0' : rest[0];
  const char close = open == '(' ? ')' : (open == '\'' ? '\'' : ',');
  size_t end = rest.find(close, 1);
  if (open == '[' || end == std::string_view::npos)
    return fail(Errc::kUnsupported, strf("%s: '%.*s' of the header is not a plain value",
                                         what.c_str(), static_cast<int>(key.size()), key.data()));
  if (close != ',') ++end;
  return rest.substr(0, end);
}

Result<std::string> parse_type(std::string_view header, const std::string& what) {
  ASSIGN_OR_RETURN(std::string_view text, header_value(header, "descr", what));
  if (text.size() < 2 || text.front() != '\'')
    return fail(Errc::kUnsupported, what + ": structured types are not read");
  text = text.substr(1, text.size() - 2);
  if (!text.empty() && text[0] == '>')
    return fail(Errc::kUnsupported, strf("%s: big-endian type '%.*s'", what.c_str(),
                                         static_cast<int>(text.size()), text.data()));
  if (npy_item_bytes(text) == 0)
    return fail(Errc::kUnsupported, strf("%s: type '%.*s' is not read", what.c_str(),
                                         static_cast<int>(text.size()), text.data()));
  return std::string(text);
}

Result<std::vector<int64_t>> parse_shape(std::string_view header, const std::string& what) {
  ASSIGN_OR_RETURN(std::string_view text, header_value(header, "shape", what));
  const auto bad = [&] {
    return fail(Errc::kCorrupt, strf("%s: shape '%.*s' is unreadable", what.c_str(),
                                     static_cast<int>(text.size()), text.data()));
  };
  if (text.size() < 2 || text.front() != '(' || text.back() != ')') return bad();
  std::vector<int64_t> shape;
  const std::vector<std::string> parts = split(text.substr(1, text.size() - 2), ',');
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string_view part = trim(parts[i]);
    if (part.empty() && i + 1 == parts.size()) break;  // "(3,)"
    const Result<int64_t> dim = parse_int(part);
    if (!dim.ok() || *dim < 0 || shape.size() >= kMaxDims) return bad();
    shape.push_back(*dim);
  }
  return shape;
}

// Bytes of the whole array; nothing on overflow.
std::optional<uint64_t> data_bytes(const std::vector<int64_t>& shape, size_t item_bytes) {
  uint64_t total = item_bytes;
  for (const int64_t dim : shape) {
    if (__builtin_mul_overflow(total, static_cast<uint64_t>(dim), &total)) return std::nullopt;
  }
  return total;
}

Result<std::string> read_header(ByteReader& in, const std::string& what) {
  const Result<std::string> magic = in.read_string(kMagic.size());
  if (!magic.ok() || *magic != kMagic)
    return fail(Errc::kCorrupt, what + ": not an .npy file (wrong magic)");
  ASSIGN_OR_RETURN(const uint8_t major, in.read<uint8_t>());
  ASSIGN_OR_RETURN([[maybe_unused]] const uint8_t minor, in.read<uint8_t>());
  uint64_t size = 0;
  if (major == 1) {
    ASSIGN_OR_RETURN(size, in.read<uint16_t>());
  } else if (major == 2) {
    ASSIGN_OR_RETURN(size, in.read<uint32_t>());
  } else {
    return fail(Errc::kUnsupported,
                strf("%s: .npy version %u, versions 1 and 2 are read", what.c_str(), major));
  }
  if (size > kMaxHeaderBytes)
    return fail(Errc::kCorrupt, strf("%s: header of %llu bytes", what.c_str(),
                                     static_cast<unsigned long long>(size)));
  return in.read_string(size);
}

}  // namespace

size_t npy_item_bytes(std::string_view type) {
  static constexpr std::string_view kTypes[] = {"|b1", "|u1", "|i1", "<u2", "<i2", "<f2",
                                                "<u4", "<i4", "<f4", "<u8", "<i8", "<f8"};
  for (const std::string_view known : kTypes) {
    if (type == known) return static_cast<size_t>(type[2] - '0');
  }
  return 0;
}

Result<NpyArray> parse_npy(std::span<const std::byte> file, const std::string& what) {
  ByteReader in(file, what.c_str());
  ASSIGN_OR_RETURN(const std::string header, read_header(in, what));
  NpyArray array;
  ASSIGN_OR_RETURN(array.type, parse_type(header, what));
  ASSIGN_OR_RETURN(const std::string_view order, header_value(header, "fortran_order", what));
  if (order == "True") return fail(Errc::kUnsupported, what + ": Fortran order, C order is read");
  if (order != "False")
    return fail(Errc::kCorrupt, what + ": fortran_order is neither True nor False");
  ASSIGN_OR_RETURN(array.shape, parse_shape(header, what));
  const std::optional<uint64_t> wanted = data_bytes(array.shape, npy_item_bytes(array.type));
  if (!wanted || *wanted != in.left())
    return fail(Errc::kCorrupt,
                strf("%s: shape and type need %llu bytes, the file has %zu", what.c_str(),
                     static_cast<unsigned long long>(wanted.value_or(UINT64_MAX)), in.left()));
  ASSIGN_OR_RETURN(const auto data, in.read_span(*wanted));
  array.data.assign(data.begin(), data.end());
  return array;
}

Result<std::vector<std::byte>> format_npy(const NpyArray& array) {
  const size_t item = npy_item_bytes(array.type);
  if (item == 0) return fail(Errc::kUnsupported, "npy: type '" + array.type + "' is not written");
  std::string shape;
  for (const int64_t dim : array.shape) {
    if (dim < 0)
      return fail(Errc::kInvalid, strf("npy: dimension %lld", static_cast<long long>(dim)));
    shape += strf("%s%lld", shape.empty() ? "" : ", ", static_cast<long long>(dim));
  }
  if (array.shape.size() == 1) shape += ",";
  const std::optional<uint64_t> wanted = data_bytes(array.shape, item);
  if (!wanted || *wanted != array.data.size())
    return fail(Errc::kInvalid, strf("npy: shape (%s) of %s does not fit %zu bytes", shape.c_str(),
                                     array.type.c_str(), array.data.size()));
  std::string header =
      "{'descr': '" + array.type + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  constexpr size_t kPrefix = 10,
                   kAlign = 64;  // magic, version, 16-bit length; data starts 64-byte aligned
  header.resize(align_up(kPrefix + header.size() + 1, kAlign) - kPrefix - 1, ' ');
  header += '\n';
  ByteWriter out;
  out.write_string(kMagic);
  out.write(uint8_t{1});
  out.write(uint8_t{0});
  out.write(static_cast<uint16_t>(header.size()));
  out.write_string(header);
  out.write_span(array.data);
  return out.take();
}

Result<NpyArray> read_npy(const std::string& path) {
  ASSIGN_OR_RETURN(const std::vector<std::byte> file, read_file(path));
  return parse_npy(file, path);
}

Status write_npy(const std::string& path, const NpyArray& array) {
  ASSIGN_OR_RETURN(const std::vector<std::byte> file, format_npy(array));
  return write_file_atomic(path, file);
}

}  // namespace modeld
