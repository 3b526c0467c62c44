#include "runtime/render/c_like.h"

#include <algorithm>
#include <bit>
#include <map>
#include <unordered_map>
#include <vector>

#include "runtime/ir/derived.h"

namespace modeld::render {

using ir::DType;
using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;

namespace {

// Nesting of inlined expressions: compilers limit brackets, readers limit patience.
constexpr int kMaxDepth = 12;
// Vectors above what elementwise code uses are factors of a matrix unit.
constexpr size_t kWideStack = 32;

const Node* storage_of(const Node* n) {
  while (n->op == Op::kAfter || n->op == Op::kIndex || n->op == Op::kShrink) n = n->src(0);
  const bool storage = n->op == Op::kBuffer || n->op == Op::kParam;
  return storage && n->as<ir::ParamArg>().addrspace != ir::AddrSpace::kAlu ? n : nullptr;
}

bool is_register(const Node* storage) {
  return storage->as<ir::ParamArg>().addrspace == ir::AddrSpace::kReg;
}

// Elements of one access.
int64_t width_of(const Node* address) {
  if (address->op == Op::kShrink) return ir::int_value(address->src(2)).value_or(1);
  return address->nsrc == 3 ? 4 : 1;
}

struct Value {
  std::string text;
  int64_t lanes = 1;
  int depth = 0;     // nesting of the text; 0 = a name or literal
  size_t scope = 0;  // serial of the loop a named value lives in
};

class Printer {
 public:
  Printer(const CDialect& dialect, Graph& g) : d_(dialect), g_(g) {}
  Result<std::string> run(std::span<const Node* const> linear);

 private:
  const CDialect& d_;
  Graph& g_;
  std::string out_;
  std::unordered_map<const Node*, Value> values_;
  std::unordered_map<const Node*, int> uses_;
  std::unordered_map<const Node*, bool> indexed_;  // some user takes single lanes
  std::vector<size_t> scopes_{0};
  size_t next_scope_ = 1;
  size_t next_name_ = 0;
  std::map<std::pair<int64_t, int64_t>, int64_t> registers_;  // (slot, start) -> width
  std::string error_;

  void bad(const Node* n, const std::string& why) {
    if (error_.empty())
      error_ = strf("%s %s: %s", ir::op_name(n->op), ir::dtype_name(n->dtype), why.c_str());
  }
  void line(const std::string& text) { out_ += std::string(scopes_.size() * 2, ' ') + text + "\n"; }
  std::string type(DType t, int64_t lanes) const { return c_type(d_, t, lanes); }
  std::string fresh() { return strf("v%zu", next_name_++); }

  void count_uses(std::span<const Node* const> linear);
  void plan_registers(std::span<const Node* const> linear);
  void emit(const Node* n);
  void declare(const Node* n);
  void open_loop(const Node* n);
  void load(const Node* n);
  void store(const Node* n);
  void value(const Node* n);
  void define(const Node* n, Value v);
  const Value& at(const Node* n);
  std::string operand(const Node* n, int64_t lanes);
  std::string simple(const Node* n, int64_t lanes);
  std::string name_of(const Node* storage) const;
  CAccess access(const Node* address);
  std::string register_name(const Node* address, int64_t* width);
  Value stack(const Node* n);
  std::string gathered(const Node* n);
  Value wmma(const Node* n);
  Value element(const Node* n);
  void declare_param(const Node* n);
  Value cast(const Node* n);
  Value alu(const Node* n);
  std::string compare(const Node* n, int64_t lanes);
  std::string arithmetic(const Node* n, int64_t lanes);
  std::string binary(const Node* n, const char* sign, int64_t lanes);
  std::string divide(const Node* n, const char* sign);
  std::string where(const Node* n, int64_t lanes);
  bool may_wrap(const Node* n);
};

// ---- names and operands ----

const Value& Printer::at(const Node* n) {
  static const Value kNothing{"0", 1, 0, 0};
  const auto it = values_.find(n);
  if (it == values_.end()) {
    bad(n, "used before it is made");
    return kNothing;
  }
  if (std::find(scopes_.begin(), scopes_.end(), it->second.scope) == scopes_.end()) {
    bad(n, "used outside the loop that makes it");
  }
  return it->second;
}

// The value with `lanes` lanes: scalars are spread.
std::string Printer::operand(const Node* n, int64_t lanes) {
  const Value& v = at(n);
  if (v.lanes == lanes) return v.text;
  if (v.lanes != 1)
    bad(n, strf("%lld lanes where %lld are needed", static_cast<long long>(v.lanes),
                static_cast<long long>(lanes)));
  // Bool lanes are masks.
  if (n->dtype == DType::kBool)
    return "(" + type(n->dtype, lanes) + ")((signed char)-" + v.text + ")";
  return "(" + type(n->dtype, lanes) + ")(" + v.text + ")";
}

// A name or literal, for operands that are written twice.
std::string Printer::simple(const Node* n, int64_t lanes) {
  if (at(n).depth == 0 && at(n).lanes == lanes) return at(n).text;
  const std::string name = fresh();
  line("const " + type(n->dtype, lanes) + " " + name + " = " + operand(n, lanes) + ";");
  return name;
}

std::string Printer::name_of(const Node* storage) const {
  const auto& p = storage->as<ir::ParamArg>();
  return strf(p.addrspace == ir::AddrSpace::kLocal ? "l%lld" : "d%lld",
              static_cast<long long>(p.slot));
}

// INDEX(image, y, x) has two coordinates.
CAccess Printer::access(const Node* address) {
  const Node* storage = storage_of(address);
  CAccess a;
  a.type = storage->dtype;
  a.width = width_of(address);
  a.space = storage->as<ir::ParamArg>().addrspace;
  a.base = name_of(storage);
  const bool image = address->op == Op::kIndex && address->nsrc == 3;
  if (image) a.row = at(address->src(1)).text;
  if (image && d_.language != CLanguage::kOpenCl) bad(address, "images are not in this language");
  if (a.width > 1 && a.type == DType::kBool && d_.is_opencl()) bad(address, "vectors of bool");
  a.index = at(address->src(image ? 2 : 1)).text;
  return a;
}

std::string Printer::register_name(const Node* address, int64_t* width) {
  const auto start =
      ir::int_value(address->src(1)->op == Op::kCast ? address->src(1)->src(0) : address->src(1));
  *width = width_of(address);
  if (!start) {
    bad(address, "register index is not constant");
    return "bad";
  }
  return strf("acc%lld_%lld", static_cast<long long>(storage_of(address)->as<ir::ParamArg>().slot),
              static_cast<long long>(*start));
}

// ---- statements ----

void Printer::count_uses(std::span<const Node* const> linear) {
  for (const Node* n : linear) {
    if (n->has<ir::ParamArg>()) continue;  // sizes are not values
    for (const Node* s : n->src()) uses_[s] += 1;
    if (n->op == Op::kIndex && storage_of(n) == nullptr) indexed_[n->src(0)] = true;
  }
}

// Every access to a register buffer must use the same cut into variables.
void Printer::plan_registers(std::span<const Node* const> linear) {
  for (const Node* n : linear) {
    if (n->op != Op::kLoad && n->op != Op::kStore) continue;
    const Node* storage = storage_of(n->src(0));
    if (storage == nullptr || !is_register(storage)) continue;
    const Node* index = n->src(0)->src(1);
    const auto start = ir::int_value(index->op == Op::kCast ? index->src(0) : index);
    const int64_t width = width_of(n->src(0));
    const std::pair<int64_t, int64_t> key{storage->as<ir::ParamArg>().slot, start.value_or(-1)};
    const auto [it, made] = registers_.emplace(key, width);
    if (!made && it->second != width) bad(n, "register accessed with two widths");
  }
}

void Printer::declare_param(const Node* n) {
  if (d_.is_opencl()) return;  // a formal argument of the kernel
  const auto& p = n->as<ir::ParamArg>();
  const std::string pointer = (p.is_volatile ? "volatile " : "") + type(n->dtype, 1) + "*";
  line(pointer + " const " + name_of(n) + " = (" + pointer +
       strf(")a[%lld];", static_cast<long long>(p.slot)));
}

void Printer::declare(const Node* n) {
  const auto& p = n->as<ir::ParamArg>();
  const auto slot = static_cast<long long>(p.slot);
  if (p.addrspace == ir::AddrSpace::kAlu) {
    if (p.name == "core_id" && p.slot < 0)
      return define(n, {"(" + type(n->dtype, 1) + ")core_id", 1, 1, 0});
    if (!d_.is_opencl())
      line("const " + type(n->dtype, 1) + strf(" s%lld = (", slot) + type(n->dtype, 1) +
           strf(")a[%lld];", slot));
    values_[n] = {strf("s%lld", slot), 1, 0, 0};
    return;
  }
  if (n->op == Op::kParam) return declare_param(n);
  if (p.addrspace == ir::AddrSpace::kLocal && d_.is_opencl()) {
    // Arrays of half are not in core OpenCL: their bits are, and c_read/c_write cast the pointer.
    const DType t = n->dtype == DType::kF16 ? DType::kU16 : n->dtype;
    line("__local " + c_memory_type(d_, t) + " " + name_of(n) +
         strf("[%lld];", static_cast<long long>(ir::element_count(g_, n))));
    return;
  }
  if (!is_register(n)) {
    bad(n, "only register buffers on this target");
    return;
  }
  for (const auto& [key, width] : registers_) {
    if (key.first == p.slot)
      line(type(n->dtype, width) +
           strf(" acc%lld_%lld;", slot, static_cast<long long>(key.second)));
  }
}

void Printer::open_loop(const Node* n) {
  const std::string t = type(n->dtype, 1);
  const std::string name = strf("r%lld", static_cast<long long>(n->as<ir::RangeArg>().id));
  line("for (" + t + " " + name + " = 0; " + name + " < " + at(n->src(0)).text + "; " + name +
       "++) {");
  scopes_.push_back(next_scope_++);
  values_[n] = {name, 1, 0, scopes_.back()};
}

void Printer::load(const Node* n) {
  const Node* address = n->src(0);
  const int64_t width = width_of(address);
  const std::string t = type(n->dtype, width);
  const std::string name = fresh();
  int64_t ignored = 0;
  const std::string read = is_register(storage_of(address)) ? register_name(address, &ignored)
                                                            : c_read(d_, access(address));
  if (n->nsrc == 3) {
    line(t + " " + name + " = " + operand(n->src(1), width) + ";");
    line("if (" + at(n->src(2)).text + ") " + name + " = " + read + ";");
  } else {
    line("const " + t + " " + name + " = " + read + ";");
  }
  values_[n] = {name, width, 0, scopes_.back()};
}

void Printer::store(const Node* n) {
  const Node* address = n->src(0);
  const std::string text = operand(n->src(1), width_of(address));
  int64_t ignored = 0;
  const std::string write = is_register(storage_of(address))
                                ? register_name(address, &ignored) + " = " + text
                                : c_write(d_, access(address), text);
  const std::string guard = n->nsrc == 3 ? "if (" + at(n->src(2)).text + ") " : "";
  line(guard + write + ";");
}

// ---- values ----

// A value used once stands inside its user; everything else gets a name.
void Printer::define(const Node* n, Value v) {
  const bool named_before = v.depth == 0;
  const bool inline_it = named_before || (uses_[n] == 1 && v.depth < kMaxDepth && !indexed_[n]);
  v.scope = scopes_.back();
  if (inline_it) {
    values_[n] = std::move(v);
    return;
  }
  const std::string name = fresh();
  line("const " + type(n->dtype, v.lanes) + " " + name + " = " + v.text + ";");
  values_[n] = {name, v.lanes, 0, scopes_.back()};
}

// Lanes picked from a few vectors of one width: the vectors side by side, then one permutation,
// which is what a compiler makes a fast shuffle of. "" when they are not.
std::string Printer::gathered(const Node* n) {
  NodeVec vectors;
  std::string picks;
  int64_t width = 0;
  for (const Node* s : n->src()) {
    const bool element = s->op == Op::kIndex && storage_of(s) == nullptr;
    if (!element || values_.find(s->src(0)) == values_.end()) return "";
    const int64_t w = at(s->src(0)).lanes;
    if (w < 2 || (width != 0 && w != width)) return "";
    width = w;
    auto it = std::find(vectors.begin(), vectors.end(), s->src(0));
    if (it == vectors.end()) it = vectors.insert(vectors.end(), s->src(0));
    const Node* i = s->src(1)->op == Op::kCast ? s->src(1)->src(0) : s->src(1);
    picks += strf(", %lld", static_cast<long long>((it - vectors.begin()) * width +
                                                   ir::int_value(i).value_or(0)));
  }
  while (vectors.size() < 2 || !std::has_single_bit(vectors.size())) {
    vectors.push_back(vectors.back());
  }
  std::vector<std::string> side;
  for (const Node* v : vectors) side.push_back(at(v).text);
  for (; side.size() > 2; width *= 2) {
    std::string all;
    for (int64_t i = 0; i < 2 * width; ++i) all += strf(", %lld", static_cast<long long>(i));
    for (size_t i = 0; i < side.size() / 2; ++i) {
      side[i] = "__builtin_shufflevector(" + side[2 * i] + ", " + side[2 * i + 1] + all + ")";
    }
    side.resize(side.size() / 2);
  }
  return "__builtin_shufflevector(" + side[0] + ", " + side[1] + picks + ")";
}

// One step of a matrix unit: a function of the prelude (wmma_text.cc).
Value Printer::wmma(const Node* n) {
  Value v{"wmma_" + n->as<ir::WmmaArg>().core + "(", at(n->src(2)).lanes, 1, 0};
  // Halves are carried as floats; the unit takes and gives the type itself.
  const bool opencl = d_.is_opencl();
  for (size_t i = 0; i < n->nsrc; ++i) {
    const Value& s = at(n->src(i));
    const bool half = opencl && n->src(i)->dtype == DType::kF16;
    v.text +=
        (i ? ", " : "") +
        (half ? c_convert(d_, s.text, strf("half%lld", static_cast<long long>(s.lanes))) : s.text);
  }
  v.text += ")";
  if (opencl && n->dtype == DType::kF16) v.text = c_convert(d_, v.text, type(n->dtype, v.lanes));
  return v;
}

Value Printer::stack(const Node* n) {
  Value v;
  v.lanes = n->nsrc;
  v.depth = 1;
  if (n->nsrc >= kWideStack && !d_.is_opencl()) v.text = gathered(n);
  if (!v.text.empty()) return v;
  for (size_t i = 0; i < n->nsrc; ++i) {
    const Value& s = at(n->src(i));
    if (s.lanes != 1) bad(n, "vector of vectors");
    v.depth = std::max(v.depth, s.depth + 1);
    // Mask lanes are 0 or -1, scalars 0 or 1.
    v.text += (i ? ", " : "") + (n->dtype == DType::kBool ? "(signed char)-" + s.text : s.text);
  }
  v.text = c_vector(d_, type(n->dtype, v.lanes), v.text);
  return v;
}

Value Printer::element(const Node* n) {
  const Node* i = n->src(1)->op == Op::kCast ? n->src(1)->src(0) : n->src(1);
  const auto lane = ir::int_value(i);
  if (!lane) bad(n, "lane number is not constant");
  const Value& v = at(n->src(0));
  if (v.lanes == 1) return v;
  const std::string text = c_lane(d_, v.text, lane.value_or(0));
  // Depth 0: reading a lane again costs nothing.
  return {n->dtype == DType::kBool ? "(unsigned char)-" + text : text, 1,
          n->dtype == DType::kBool ? 1 : 0, 0};
}

Value Printer::cast(const Node* n) {
  const Node* s = n->src(0);
  if (s->op == Op::kConst) return {c_literal(d_, n->dtype, s), 1, 0, 0};
  const Value& from = at(s);
  Value v{"", from.lanes, from.depth + 1, 0};
  const std::string t = type(n->dtype, v.lanes);
  if (n->op == Op::kBitCast) {
    const bool is_half = s->dtype == DType::kF16 || n->dtype == DType::kF16;
    if (v.lanes > 1 && d_.is_opencl() && is_half) bad(n, "bits of vectors");
    v.text = v.lanes == 1 || d_.is_opencl() ? c_bits(d_, s->dtype, n->dtype, from.text, v.lanes)
                                            : "((" + t + ")" + from.text + ")";
    return v;
  }
  if (n->dtype == DType::kF16 && d_.is_opencl()) {
    if (v.lanes > 1 && s->dtype != DType::kF32) bad(n, "rounding of a vector that is not f32");
    v.text = v.lanes == 1 ? "modeld_round_half((float)" + from.text + ")"
                          : strf("modeld_round_half%lld(", static_cast<long long>(v.lanes)) +
                                from.text + ")";
    return v;
  }
  if (v.lanes == 1) {
    v.text = n->dtype == DType::kBool ? "(unsigned char)(" + from.text + " != 0)"
                                      : "((" + t + ")" + from.text + ")";
    return v;
  }
  std::string text = from.text;
  if (n->dtype == DType::kBool) text = text + " != (" + type(s->dtype, v.lanes) + ")(0)";
  if (s->dtype == DType::kBool) text = "-" + text;  // -1 becomes 1
  v.text = c_convert(d_, text, t);
  return v;
}

std::string Printer::compare(const Node* n, int64_t lanes) {
  const char* sign = n->op == Op::kCmpLt ? " < " : (n->op == Op::kCmpEq ? " == " : " != ");
  const std::string text = operand(n->src(0), lanes) + sign + operand(n->src(1), lanes);
  if (lanes == 1) return "(" + text + ")";
  return c_convert(d_, text, type(DType::kBool, lanes));
}

// Signed arithmetic in C must not overflow; ours wraps. Proven index math needs no help.
bool Printer::may_wrap(const Node* n) {
  if (!ir::is_int(n->dtype) || ir::is_unsigned(n->dtype) || ir::item_bits(n->dtype) < 32)
    return false;
  if (n->op == Op::kShr) return false;  // and it keeps the sign
  const ir::Bounds b = ir::bounds(g_, n);
  return b.vmin <= ir::int_min(n->dtype) || b.vmax >= ir::int_max(n->dtype);
}

std::string Printer::binary(const Node* n, const char* sign, int64_t lanes) {
  const std::string a = operand(n->src(0), lanes);
  const std::string b = operand(n->src(1), lanes);
  if (lanes > 1) return "(" + a + sign + b + ")";
  const std::string t = type(n->dtype, 1);
  const bool shift = n->op == Op::kShl;
  if (may_wrap(n) || (shift && ir::is_int(n->dtype) && !ir::is_unsigned(n->dtype))) {
    const std::string u = type(ir::item_bits(n->dtype) > 32 ? DType::kU64 : DType::kU32, 1);
    return "((" + t + ")((" + u + ")" + a + sign + "(" + u + ")" + b + "))";
  }
  // Narrow types compute as int and come back.
  const bool narrow = ir::is_int(n->dtype) && ir::item_bits(n->dtype) < 32;
  return (narrow ? "((" + t + ")(" : "(") + a + sign + b + (narrow ? "))" : ")");
}

// Truncating; by zero gives 0 and by -1 negates, where C would trap.
std::string Printer::divide(const Node* n, const char* sign) {
  const ir::Bounds d = ir::bounds(g_, n->src(1));
  const bool positive = d.vmin > 0;
  const std::string t = type(n->dtype, 1);
  if (positive || d.vmax < -1)
    return "((" + t + ")(" + at(n->src(0)).text + sign + at(n->src(1)).text + "))";
  const std::string a = simple(n->src(0), 1);
  const std::string b = simple(n->src(1), 1);
  std::string text = "((" + t + ")(" + a + sign + b + "))";
  if (!ir::is_unsigned(n->dtype)) {
    const std::string u = type(ir::item_bits(n->dtype) > 32 ? DType::kU64 : DType::kU32, 1);
    const std::string negated =
        n->op == Op::kCDiv ? "(" + t + ")(0 - (" + u + ")" + a + ")" : "(" + t + ")0";
    text = "(" + b + " == -1 ? " + negated + " : " + text + ")";
  }
  const std::string by_zero = n->op == Op::kCDiv ? "(" + t + ")0" : a;
  return "(" + b + " == 0 ? " + by_zero + " : " + text + ")";
}

std::string Printer::where(const Node* n, int64_t lanes) {
  const std::string a = operand(n->src(1), lanes);
  const std::string b = operand(n->src(2), lanes);
  const Value& c = at(n->src(0));
  if (lanes == 1 || c.lanes == 1) return "(" + c.text + " ? " + a + " : " + b + ")";
  constexpr DType kMasks[] = {DType::kI8, DType::kI16, DType::kI32, DType::kI64};
  const int size = ir::item_size(n->dtype);
  const DType mask = kMasks[size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : 3];
  const std::string wide = size == 1 ? c.text : c_convert(d_, c.text, type(mask, lanes));
  return "(" + wide + " ? " + a + " : " + b + ")";
}

std::string Printer::arithmetic(const Node* n, int64_t lanes) {
  switch (n->op) {
    case Op::kAdd:
      return binary(n, " + ", lanes);
    case Op::kSub:
      return binary(n, " - ", lanes);
    case Op::kMul:
      return binary(n, " * ", lanes);
    case Op::kShl:
      return binary(n, " << ", lanes);
    case Op::kShr:
      return binary(n, " >> ", lanes);
    case Op::kAnd:
      return binary(n, " & ", lanes);
    case Op::kOr:
      return binary(n, " | ", lanes);
    case Op::kXor:
      return binary(n, " ^ ", lanes);
    case Op::kFDiv:
      return "(" + operand(n->src(0), lanes) + " / " + operand(n->src(1), lanes) + ")";
    case Op::kCDiv:
    case Op::kCMod: {
      const char* sign = n->op == Op::kCDiv ? " / " : " % ";
      if (lanes == 1) return divide(n, sign);
      // pack_lanes only makes vectors of divisions by positive constants.
      return "(" + operand(n->src(0), lanes) + sign + operand(n->src(1), lanes) + ")";
    }
    case Op::kNeg: {
      if (lanes > 1 || ir::is_float(n->dtype)) return "(-" + operand(n->src(0), lanes) + ")";
      const std::string u = type(ir::item_bits(n->dtype) > 32 ? DType::kU64 : DType::kU32, 1);
      return "((" + type(n->dtype, 1) + ")(0 - (" + u + ")" + at(n->src(0)).text + "))";
    }
    case Op::kMax: {
      const std::string a = simple(n->src(0), lanes);
      const std::string b = simple(n->src(1), lanes);
      // A NaN in either operand comes through: relu and max-pool must not hide one from the finite
      // check.
      const bool second_may_be_nan = ir::is_float(n->dtype) && n->src(1)->op != Op::kConst;
      const std::string takes_b = second_may_be_nan
                                      ? "((" + a + " < " + b + ") | (" + b + " != " + b + "))"
                                      : a + " < " + b;
      return "(" + takes_b + " ? " + b + " : " + a + ")";
    }
    case Op::kMulAcc:
      return "(" + operand(n->src(0), lanes) + " * " + operand(n->src(1), lanes) + " + " +
             operand(n->src(2), lanes) + ")";
    case Op::kSqrt:
      return c_math(d_, "sqrt", operand(n->src(0), lanes));
    case Op::kTrunc:
      return c_math(d_, "trunc", operand(n->src(0), lanes));
    case Op::kExp2:
    case Op::kLog2:
    case Op::kSin:
      if (!d_.is_opencl() || n->dtype != DType::kF32) break;
      return c_math(d_,
                    n->op == Op::kExp2   ? "exp2"
                    : n->op == Op::kLog2 ? "log2"
                                         : "sin",
                    operand(n->src(0), lanes));
    case Op::kWhere:
      return where(n, lanes);
    default:
      break;
  }
  bad(n, "not in this language");
  return "0";
}

Value Printer::alu(const Node* n) {
  Value v{"", 1, 1, 0};
  for (const Node* s : n->src()) {
    v.lanes = std::max(v.lanes, at(s).lanes);
    v.depth = std::max(v.depth, at(s).depth + 1);
  }
  v.text = ir::kComparisonOps.has(n->op) ? compare(n, v.lanes) : arithmetic(n, v.lanes);
  return v;
}

void Printer::value(const Node* n) {
  if (n->op == Op::kStack) return uses_[n] == 0 ? void() : define(n, stack(n));
  if (n->op == Op::kIndex) return define(n, element(n));
  if (n->op == Op::kWmma) return define(n, wmma(n));
  if (n->op == Op::kCast || n->op == Op::kBitCast) return define(n, cast(n));
  if (ir::kAluOps.has(n->op)) return define(n, alu(n));
  bad(n, "not in this language");
}

void Printer::emit(const Node* n) {
  switch (n->op) {
    case Op::kSink:
    case Op::kGroup:
    case Op::kAfter:
    case Op::kNoop:
      return;
    case Op::kConst:
      // Counts (sizes) and bool literals; others stand under a CAST.
      values_[n] = {c_literal(d_, n->dtype == DType::kBool ? DType::kBool : DType::kI64, n), 1, 0,
                    0};
      return;
    case Op::kParam:
    case Op::kBuffer:
      return declare(n);
    case Op::kSpecial:
      line("const int " + n->as<std::string>() + " = " + c_special(d_, n->as<std::string>()) + ";");
      values_[n] = {n->as<std::string>(), 1, 0, 0};
      return;
    case Op::kBarrier:
      line(c_barrier(d_));
      return;
    case Op::kRange:
      return open_loop(n);
    case Op::kEnd:
      scopes_.pop_back();
      line("}");
      return;
    case Op::kShrink:
      return;
    case Op::kIndex:
      if (storage_of(n) == nullptr) value(n);
      return;
    case Op::kLoad:
      return load(n);
    case Op::kStore:
      return store(n);
    default:
      return value(n);
  }
}

Result<std::string> Printer::run(std::span<const Node* const> linear) {
  count_uses(linear);
  plan_registers(linear);
  for (const Node* n : linear) {
    emit(n);
    if (!error_.empty()) return fail(Errc::kInternal, error_);
  }
  if (scopes_.size() != 1) return fail(Errc::kInternal, "a loop is left open");
  return std::move(out_);
}

}  // namespace

Result<std::string> c_body(const CDialect& dialect, Graph& g, std::span<const Node* const> linear) {
  return Printer(dialect, g).run(linear);
}

}  // namespace modeld::render
