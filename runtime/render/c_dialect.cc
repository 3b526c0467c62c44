// What differs between the C-like languages, word by word. c_like.cc writes the sentences.
#include "runtime/ir/narrow_float.h"
#include "runtime/render/c_like.h"

namespace modeld::render {

using ir::AddrSpace;
using ir::DType;

namespace {

// One name per type and language; halves that are not native are handled where they are used.
struct ScalarName {
  DType type;
  const char *c, *opencl;
};
constexpr ScalarName kScalarNames[] = {
    {DType::kBool, "unsigned char", "uchar"},
    {DType::kU8, "unsigned char", "uchar"},
    {DType::kF8E4M3, "unsigned char", "uchar"},
    {DType::kF8E4M3Fnuz, "unsigned char", "uchar"},
    {DType::kF8E5M2, "unsigned char", "uchar"},
    {DType::kF8E5M2Fnuz, "unsigned char", "uchar"},
    {DType::kI8, "signed char", "char"},
    {DType::kI16, "short", "short"},
    {DType::kU16, "unsigned short", "ushort"},
    {DType::kBF16, "unsigned short", "ushort"},
    {DType::kI32, "int", "int"},
    {DType::kU32, "unsigned", "uint"},
    {DType::kI64, "long long", "long"},
    {DType::kU64, "unsigned long long", "ulong"},
    {DType::kF16, "unsigned short", "float"},
    {DType::kF32, "float", "float"},
    {DType::kF64, "double", "double"},
};

const ScalarName& scalar_name(DType t) {
  static constexpr ScalarName kNone = {DType::kVoid, "void", "void"};
  for (const ScalarName& n : kScalarNames)
    if (n.type == t) return n;
  return kNone;
}

const char* opencl_scalar(DType t) {
  return scalar_name(t).opencl;
}

const char* c_scalar(const CDialect& d, DType t) {
  return t == DType::kF16 && d.native_f16 ? "_Float16" : scalar_name(t).c;
}

std::string count(int64_t n) {
  return strf("%lld", static_cast<long long>(n));
}

// The integer whose bits a value of this type is in the language; the type itself where the
// language has it.
DType spelled(const CDialect& d, DType t) {
  if (ir::float8_format(t) != nullptr) return DType::kU8;
  return t == DType::kBF16 || (t == DType::kF16 && !d.native_f16) ? DType::kU16 : t;
}

const char* space_name(AddrSpace space) {
  return space == AddrSpace::kLocal ? "__local " : "__global ";
}

// "d1+(i*4)", of halves in local memory "(__local half*)l5+i".
std::string pointer(const CDialect& d, const CAccess& a) {
  const bool bits = d.is_opencl() && a.type == DType::kF16 && a.space == AddrSpace::kLocal;
  return (bits ? "(__local half*)" : "") + a.base + "+" + a.index;
}

std::string pixel(const CAccess& a) {
  return "(int2)(" + a.index + ", " + a.row + ")";
}

std::string c_place(const CDialect& d, const CAccess& a, const char* qualifier) {
  if (a.width == 1) return a.base + "[" + a.index + "]";
  return std::string("*(") + qualifier + c_type(d, a.type, a.width) + "u*)(" + pointer(d, a) + ")";
}

// Element alignment is all a vector access may assume: "u" types in memory.
std::string amd_place(const CDialect& d, const CAccess& a, const char* qualifier) {
  const std::string element = c_memory_type(d, a.type);
  if (a.width > 1) {
    return std::string("*(") + space_name(a.space) + qualifier + element + count(a.width) + "u*)(" +
           pointer(d, a) + ")";
  }
  return a.type == DType::kF16 ? "*(" + pointer(d, a) + ")" : a.base + "[" + a.index + "]";
}

}  // namespace

std::string c_type(const CDialect& d, DType t, int64_t lanes) {
  if (d.is_opencl()) {
    if (lanes == 1) return opencl_scalar(t);
    return std::string(t == DType::kBool ? "char" : opencl_scalar(t)) + count(lanes);
  }
  if (lanes == 1) return c_scalar(d, t);
  if (t == DType::kBool) return "i8x" + count(lanes);
  return std::string(c_short(spelled(d, t))) + "x" + count(lanes);
}

std::string c_memory_type(const CDialect& d, DType t) {
  return d.is_opencl() && t == DType::kF16 ? "half" : c_type(d, t);
}

std::string c_read(const CDialect& d, const CAccess& a) {
  const bool half = a.type == DType::kF16;
  switch (d.language) {
    case CLanguage::kC: {
      if (a.type != DType::kBool || a.width == 1) return c_place(d, a, "const ");
      // Bool lanes in memory are 0 or 1, masks 0 or -1.
      return "-" + c_place(d, a, "const ");
    }
    case CLanguage::kOpenCl:
      if (!a.row.empty()) return "read_imagef(" + a.base + ", modeld_nearest, " + pixel(a) + ")";
      if (a.width > 1)
        return std::string(half ? "vload_half" : "vload") + count(a.width) + "(0, " +
               pointer(d, a) + ")";
      return half ? "vload_half(0, " + pointer(d, a) + ")" : a.base + "[" + a.index + "]";
    case CLanguage::kAmd: {
      const std::string place = amd_place(d, a, "const ");
      if (!half) return place;
      return a.width > 1 ? "__builtin_convertvector(" + place + ", float" + count(a.width) + ")"
                         : "(float)" + place;
    }
  }
  return "";
}

std::string c_write(const CDialect& d, const CAccess& a, const std::string& value) {
  const bool half = a.type == DType::kF16;
  switch (d.language) {
    case CLanguage::kC: {
      const bool mask = a.type == DType::kBool && a.width > 1;
      const std::string ones = "(" + c_type(d, DType::kBool, a.width) + ")((signed char)1)";
      return c_place(d, a, "") + " = " + (mask ? "(" + value + ") & " + ones : value);
    }
    case CLanguage::kOpenCl:
      if (!a.row.empty()) return "write_imagef(" + a.base + ", " + pixel(a) + ", " + value + ")";
      if (half)
        return "vstore_half" + (a.width > 1 ? count(a.width) : "") + "_rte(" + value + ", 0, " +
               pointer(d, a) + ")";
      if (a.width > 1)
        return "vstore" + count(a.width) + "(" + value + ", 0, " + pointer(d, a) + ")";
      return a.base + "[" + a.index + "] = " + value;
    case CLanguage::kAmd: {
      const std::string place = amd_place(d, a, "");
      if (!half) return place + " = " + value;
      return place + " = " +
             (a.width > 1 ? "__builtin_convertvector(" + value + ", half" + count(a.width) + ")"
                          : "(half)(" + value + ")");
    }
  }
  return "";
}

std::string c_lane(const CDialect& d, const std::string& vector, int64_t lane) {
  return d.is_opencl() ? vector + strf(".s%llx", static_cast<unsigned long long>(lane))
                       : vector + "[" + count(lane) + "]";
}

std::string c_vector(const CDialect& d, const std::string& type, const std::string& elements) {
  return d.is_opencl() ? "(" + type + ")(" + elements + ")" : "(" + type + "){" + elements + "}";
}

std::string c_convert(const CDialect& d, const std::string& vector, const std::string& type) {
  return d.language == CLanguage::kOpenCl ? "convert_" + type + "(" + vector + ")"
                                          : "__builtin_convertvector(" + vector + ", " + type + ")";
}

std::string c_bits(
    const CDialect& d, DType from, DType to, const std::string& text, int64_t lanes) {
  if (d.is_opencl()) {
    if (from == DType::kF16) return "((" + c_type(d, to) + ")modeld_half_bits(" + text + "))";
    if (to == DType::kF16) return "modeld_half_of((ushort)" + text + ")";
    return d.language == CLanguage::kOpenCl
               ? "as_" + c_type(d, to, lanes) + "(" + text + ")"
               : "__builtin_astype(" + text + ", " + c_type(d, to, lanes) + ")";
  }
  // Types stored as their bits, and integers of one size, convert by a plain cast.
  const DType x = spelled(d, from), y = spelled(d, to);
  if (!ir::is_float(x) && !ir::is_float(y)) return "((" + c_type(d, to) + ")" + text + ")";
  return std::string("bits_") + c_short(x) + "_" + c_short(y) + "(" + text + ")";
}

std::string c_math(const CDialect& d, const char* function, const std::string& text) {
  const bool library = d.language == CLanguage::kOpenCl;
  return (library ? "" : "__builtin_elementwise_") + std::string(function) + "(" + text + ")";
}

std::string c_special(const CDialect& d, const std::string& name) {
  const char dim = name.back();
  if (d.language == CLanguage::kOpenCl) {
    const char* function = name[0] == 'l'   ? "get_local_id"
                           : name[0] == 'g' ? "get_group_id"
                                            : "get_global_id";
    return strf("(int)%s(%c)", function, dim);
  }
  // Groups of one item where the device might choose: the size would be a hidden argument.
  return strf("(int)__builtin_amdgcn_work%s_id_%c()", name[0] == 'l' ? "item" : "group",
              static_cast<char>('x' + (dim - '0')));
}

const char* c_barrier(const CDialect& d) {
  return d.language == CLanguage::kOpenCl ? "barrier(CLK_LOCAL_MEM_FENCE);" : "modeld_barrier();";
}

}  // namespace modeld::render
