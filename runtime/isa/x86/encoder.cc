#include "runtime/isa/x86/encoder.h"

#include <cstdlib>
#include <unordered_map>

namespace modeld::isa::x86 {

namespace {

constexpr Row kRows[] = {
#define INS(name, encoding, form, map, prefix, w, opcode, digit, result) \
  {#name, Encoding::k##encoding, Form::k##form, map, prefix, w, opcode,  \
   digit, ResultClass::k##result},
#include "runtime/isa/x86/instructions.def"
#undef INS
};
static_assert(std::size(kRows) == static_cast<size_t>(Op::kCount));

// The instruction with its operands sorted into encoding fields.
struct Fields {
  Reg reg = kNoReg;  // or the digit
  Reg vvvv = kNoReg;
  Reg rm = kNoReg;  // unused when rm is memory
  int imm_bytes = 0;
  int64_t imm = 0;
};

bool fits8(int64_t v) {
  return v >= -128 && v <= 127;
}

Fields fields_of(const Row& r, const Instruction& i) {
  const Reg* u = i.use;
  switch (r.form) {
    case Form::kRm:
      return {i.def, kNoReg, u[0]};
    case Form::kRmi:
      if (r.encoding == Encoding::kLegacy)
        return {i.def, kNoReg, u[0], fits8(i.imm) ? 1 : 4, i.imm};
      return {i.def, kNoReg, u[0], 1, i.imm};
    case Form::kMr:
      return {u[0], kNoReg, i.def};
    case Form::kMri:
      return {u[0], kNoReg, i.def, 1, i.imm};
    case Form::kRvm:
      return {i.def, u[0], u[1]};
    case Form::kRvmi:
      return {i.def, u[0], u[1], 1, i.imm};
    case Form::kRvmr:
      return {i.def, u[0], u[1], 1, static_cast<int64_t>((u[2] & 15) << 4)};
    case Form::kRmv:
      return {i.def, u[1], u[0]};
    case Form::kFma:
      return {i.def, u[1], u[2]};
    case Form::kVmi:
      return {r.digit, i.def, u[0], 1, i.imm};
    case Form::kRmTied:
      return {i.def, kNoReg, u[1]};
    case Form::kMiTied:
      return {r.digit, kNoReg, i.def, fits8(i.imm) ? 1 : 4, i.imm};
    case Form::kMbTied:
      return {r.digit, kNoReg, i.def, 1, i.imm};
    case Form::kMTied:
      return {r.digit, kNoReg, i.def};
    case Form::kRmFlags:
      return {u[0], kNoReg, u[1]};
    case Form::kMrFlags:
      return {u[1], kNoReg, u[0]};
    case Form::kMiFlags:
      return {r.digit, kNoReg, u[0], fits8(i.imm) ? 1 : 4, i.imm};
    case Form::kMFlags:
      return {r.digit, kNoReg, u[0]};
    default:
      return {};
  }
}

class Writer {
 public:
  Writer(const Row& r, const Instruction& i, std::vector<uint8_t>& out)
      : r_(r), i_(i), out_(out), f_(fields_of(r, i)) {}

  Status run(std::vector<PoolUse>& uses) {
    if (r_.form == Form::kPlain || r_.form == Form::kO) return plain();
    RETURN_IF_ERROR(check());
    r_.encoding == Encoding::kVex ? vex() : legacy();
    byte(opcode());
    i_.has_memory ? memory() : byte(0xc0 | low(f_.reg) << 3 | low(f_.rm));
    for (int k = 0; k < f_.imm_bytes; ++k) byte(static_cast<unsigned>(f_.imm >> (8 * k)));
    if (pool_at_ != 0) uses.push_back({pool_at_, static_cast<uint32_t>(out_.size()), pool()});
    return {};
  }

 private:
  const Row& r_;
  const Instruction& i_;
  std::vector<uint8_t>& out_;
  Fields f_;
  uint32_t pool_at_ = 0;

  int32_t pool() const { return i_.memory.pool; }
  void byte(unsigned v) { out_.push_back(static_cast<uint8_t>(v)); }
  static unsigned low(Reg r) { return r & 7; }
  static unsigned high(Reg r) { return r == kNoReg ? 0 : r >> 3 & 1; }
  bool wide() const { return r_.w == kByWidth ? i_.width == 'q' : r_.w == 1; }
  unsigned base_bit() const { return high(i_.has_memory ? i_.memory.base : f_.rm); }
  unsigned index_bit() const { return i_.has_memory ? high(i_.memory.index) : 0; }

  Status check() const {
    const bool operands = f_.reg != kNoReg && (i_.has_memory || f_.rm != kNoReg);
    const bool imm_fits = f_.imm_bytes != 4 || (f_.imm >= INT32_MIN && f_.imm <= INT32_MAX);
    const bool base = !i_.has_memory || pool() >= 0 || i_.memory.base != kNoReg;
    // rsp cannot be an index.
    if (operands && imm_fits && base && !(i_.has_memory && i_.memory.index == 4)) return {};
    return fail(Errc::kUnsupported, strf("x86: no encoding of %s", text(i_).c_str()));
  }

  Status plain() {
    if (r_.form == Form::kO) {
      if (high(i_.use[0])) byte(0x41);
      byte(r_.opcode + low(i_.use[0]));
      return {};
    }
    if (r_.encoding == Encoding::kVex) {
      byte(0xc5);
      byte(0xf8);
    } else if (wide()) {
      byte(0x48);
    }
    byte(r_.opcode);
    return {};
  }

  unsigned opcode() const {
    // The 8-bit immediate forms and the 8-bit store have opcodes of their own.
    if (r_.opcode == 0x81 && f_.imm_bytes == 1) return 0x83;
    if (r_.opcode == 0x69 && f_.imm_bytes == 1) return 0x6b;
    if (r_.opcode == 0x89 && i_.width == 'b') return 0x88;
    return r_.opcode;
  }

  void legacy() {
    if (r_.prefix != 0) byte(r_.prefix);
    if (i_.width == 'w' && r_.w == kByWidth) byte(0x66);
    const unsigned rex = (wide() ? 8U : 0) | high(f_.reg) << 2 | index_bit() << 1 | base_bit();
    // Without a REX prefix byte registers 4..7 would be ah..bh.
    const bool byte_store = r_.form == Form::kMr && i_.width == 'b' && f_.reg >= 4;
    const bool byte_load = (r_.opcode == 0xb6 || r_.opcode == 0xbe) && !i_.has_memory && f_.rm >= 4;
    if (rex != 0 || byte_store || byte_load) byte(0x40 | rex);
    if (r_.map == 1) byte(0x0f);
  }

  void vex() {
    const unsigned pp = r_.prefix == 0 ? 0 : r_.prefix == 0x66 ? 1 : r_.prefix == 0xf3 ? 2 : 3;
    const unsigned v = f_.vvvv == kNoReg ? 0 : f_.vvvv & 15;
    const unsigned tail = (~v & 15) << 3 | (i_.width == 'y' ? 4U : 0) | pp;
    if (r_.map == 1 && !wide() && index_bit() == 0 && base_bit() == 0) {
      byte(0xc5);
      byte((high(f_.reg) ^ 1) << 7 | tail);
      return;
    }
    byte(0xc4);
    byte((high(f_.reg) ^ 1) << 7 | (index_bit() ^ 1) << 6 | (base_bit() ^ 1) << 5 | r_.map);
    byte((wide() ? 0x80U : 0) | tail);
  }

  void disp32(int32_t v) {
    for (int k = 0; k < 4; ++k) byte(static_cast<unsigned>(v) >> (8 * k));
  }

  void memory() {
    const Memory& m = i_.memory;
    const unsigned reg = low(f_.reg) << 3;
    if (pool() >= 0) {
      byte(reg | 5);
      pool_at_ = static_cast<uint32_t>(out_.size());
      disp32(0);
      return;
    }
    // rbp and r13 as base have no form without displacement, rsp and r12 only one with an index.
    const bool no_disp = m.disp == 0 && low(m.base) != 5;
    const unsigned mod = no_disp ? 0 : fits8(m.disp) ? 0x40 : 0x80;
    if (m.index == kNoReg && low(m.base) != 4) {
      byte(mod | reg | low(m.base));
    } else {
      const unsigned scale = m.scale == 8 ? 3 : m.scale == 4 ? 2 : m.scale == 2 ? 1 : 0;
      byte(mod | reg | 4);
      byte(scale << 6 | (m.index == kNoReg ? 4 : low(m.index)) << 3 | low(m.base));
    }
    if (mod == 0x40) byte(static_cast<unsigned>(m.disp));
    if (mod == 0x80) disp32(m.disp);
  }
};

}  // namespace

const Row& row(Op op) {
  return kRows[static_cast<size_t>(op)];
}

Op find_op(std::string_view mnemonic, char* width) {
  static const std::unordered_map<std::string_view, Op> index = [] {
    std::unordered_map<std::string_view, Op> out;
    for (size_t i = 0; i < std::size(kRows); ++i) out[kRows[i].name] = static_cast<Op>(i);
    return out;
  }();
  const size_t dot = mnemonic.find('.');
  const auto it = index.find(mnemonic.substr(0, dot));
  if (it == index.end()) return Op::kCount;
  const bool is_vex = row(it->second).encoding == Encoding::kVex;
  *width = dot == std::string_view::npos ? (is_vex ? 'x' : 'l') : mnemonic[dot + 1];
  return it->second;
}

Status encode(const Instruction& ins, std::vector<uint8_t>& out, std::vector<PoolUse>& uses) {
  const Row& r = row(ins.op);
  if (r.encoding == Encoding::kPseudo)
    return fail(Errc::kInternal, strf("x86: %s is not one instruction", r.name));
  return Writer(r, ins, out).run(uses);
}

std::string register_name(Reg r, char width) {
  static constexpr const char* kNames[] = {"ax", "cx", "dx", "bx", "sp", "bp", "si", "di"};
  static constexpr const char* kBytes[] = {"al", "cl", "dl", "bl", "spl", "bpl", "sil", "dil"};
  if (r == kNoReg) return "?";
  if (r >= 16) return strf("%cmm%u", width == 'y' ? 'y' : 'x', r - 16);
  const char* suffix = width == 'q' ? "" : width == 'b' ? "b" : width == 'w' ? "w" : "d";
  if (r >= 8) return strf("r%u%s", r, suffix);
  if (width == 'b') return kBytes[r];
  return std::string(width == 'q' ? "r" : width == 'w' ? "" : "e") + kNames[r];
}

namespace {

std::string memory_text(const Memory& m) {
  std::string at =
      m.pool >= 0 ? strf("[rip + constant %d", m.pool) : "[" + register_name(m.base, 'q');
  if (m.index != kNoReg) at += " + " + register_name(m.index, 'q') + strf("*%u", m.scale);
  if (m.disp != 0) at += strf(" %c %d", m.disp < 0 ? '-' : '+', std::abs(m.disp));
  return at + "]";
}

}  // namespace

std::string text(const Instruction& ins) {
  const Row& r = row(ins.op);
  // The table's suffixes tell forms apart; operands do that here.
  std::string out(std::string_view(r.name).substr(0, std::string_view(r.name).find('_')));
  const char* separator = " ";
  const auto add = [&](const std::string& operand) {
    out += separator + operand;
    separator = ", ";
  };
  const auto operand = [&](Reg reg) {
    add(register_name(reg, reg >= 16 && ins.width != 'y' ? 'x' : ins.width));
  };
  const bool stores = r.form == Form::kMr && ins.has_memory;
  if (stores) add(memory_text(ins.memory));
  if (ins.def != kNoReg) operand(ins.def);
  const bool tied = r.form == Form::kRmTied || r.form == Form::kMiTied || r.form == Form::kMbTied ||
                    r.form == Form::kMTied || r.form == Form::kFma;
  for (size_t k = tied ? 1 : 0; k < 3; ++k)
    if (ins.use[k] != kNoReg) operand(ins.use[k]);
  if (ins.has_memory && !stores) add(memory_text(ins.memory));
  if (fields_of(r, ins).imm_bytes != 0 && r.form != Form::kRvmr)
    add(strf("%lld", static_cast<long long>(ins.imm)));
  return out;
}

}  // namespace modeld::isa::x86
