// Allocated lines to bytes: prologue, each line as one or several instructions, jumps patched when
// every label has its place, constants behind the code.
#include <algorithm>
#include <cstring>

#include "runtime/isa/x86/encoder.h"
#include "runtime/isa/x86/x86.h"

namespace modeld::isa::x86 {

namespace {

constexpr Reg kRax = 0, kRdx = 2, kRsp = 4;
constexpr Reg kCalleeSaved[] = {3, 5, 12, 13, 14, 15};
// Condition codes of Jcc (Intel SDM volume 2, Jcc).
enum class Condition : uint8_t { kEqual = 4, kNotEqual = 5, kLess = 12, kNotLess = 13, kAlways };

using Label = size_t;

class Assembler {
 public:
  explicit Assembler(const Function& f) : f_(f) {}
  Result<codegen::Assembly> run();

 private:
  const Function& f_;
  std::vector<uint8_t> code_;
  std::vector<PoolUse> pool_uses_;
  std::vector<uint32_t> labels_;                   // bytes, UINT32_MAX until bound
  std::vector<std::pair<uint32_t, Label>> jumps_;  // byte of the displacement
  std::vector<std::pair<Label, Label>> loops_;     // head, exit
  std::string listing_;
  Status status_;

  Label label() {
    labels_.push_back(UINT32_MAX);
    return labels_.size() - 1;
  }
  void bind(Label l) {
    labels_[l] = static_cast<uint32_t>(code_.size());
    listing_ += strf(".%zu:\n", l);
  }
  void jump(Condition c, Label to);
  void emit(const Instruction& i);
  void emit(Op op, char width, Reg def, std::initializer_list<Reg> use, int64_t imm = 0);
  void note(size_t from, const std::string& text);

  void prologue();
  void epilogue();
  void line(const Line& l);
  void loop_head(const Line& l);
  void loop_end(const Line& l);
  void compare_bound(const Line& l);
  void slot(const Line& l, bool store);
  void instruction(const Line& l);
  void pseudo(const Line& l);
  void immediate(const Line& l);
  void divide(const Line& l);
  Status patch();
  void place_pool();
  std::vector<Reg> saved() const;
};

void Assembler::note(size_t from, const std::string& text) {
  std::string hex;
  for (size_t k = from; k < code_.size(); ++k) hex += strf("%02x", code_[k]);
  listing_ += strf("%6zx  %-22s %s\n", from, hex.c_str(), text.c_str());
}

void Assembler::emit(const Instruction& i) {
  const size_t from = code_.size();
  const Status done = encode(i, code_, pool_uses_);
  if (!done.ok() && status_.ok()) status_ = done;
  note(from, text(i));
}

void Assembler::emit(Op op, char width, Reg def, std::initializer_list<Reg> use, int64_t imm) {
  Instruction i;
  i.op = op;
  i.width = width;
  i.def = def;
  std::copy(use.begin(), use.end(), i.use);
  i.imm = imm;
  emit(i);
}

void Assembler::jump(Condition c, Label to) {
  const size_t from = code_.size();
  if (c == Condition::kAlways) {
    code_.push_back(0xe9);
  } else {
    code_.push_back(0x0f);
    code_.push_back(static_cast<uint8_t>(0x80 + static_cast<int>(c)));
  }
  jumps_.emplace_back(static_cast<uint32_t>(code_.size()), to);
  code_.resize(code_.size() + 4);
  static constexpr const char* kNames[] = {"je", "jne", "jl", "jge", "jmp"};
  const int name = c == Condition::kEqual      ? 0
                   : c == Condition::kNotEqual ? 1
                   : c == Condition::kLess     ? 2
                   : c == Condition::kNotLess  ? 3
                                               : 4;
  note(from, strf("%s .%zu", kNames[name], to));
}

// ---- frame ----

std::vector<Reg> Assembler::saved() const {
  std::vector<Reg> out;
  for (const Reg r : kCalleeSaved) {
    const bool written =
        std::any_of(f_.lines.begin(), f_.lines.end(), [&](const Line& l) { return l.def == r; });
    if (written) out.push_back(r);
  }
  return out;
}

void Assembler::prologue() {
  for (const Reg r : saved()) emit(Op::k_push, 'q', kNoReg, {r});
  if (f_.frame_bytes > 0) emit(Op::k_sub_i, 'q', kRsp, {kRsp}, f_.frame_bytes);
}

void Assembler::epilogue() {
  const bool vectors = std::any_of(f_.lines.begin(), f_.lines.end(),
                                   [](const Line& l) { return l.def != kNoReg && l.def >= 16; });
  // The caller's SSE code would wait for the upper halves otherwise.
  if (vectors) emit(Op::k_vzeroupper, 'x', kNoReg, {});
  if (f_.frame_bytes > 0) emit(Op::k_add_i, 'q', kRsp, {kRsp}, f_.frame_bytes);
  const std::vector<Reg> order = saved();
  for (size_t k = order.size(); k-- > 0;) emit(Op::k_pop, 'q', kNoReg, {order[k]});
  emit(Op::k_ret, 'l', kNoReg, {});
}

void Assembler::slot(const Line& l, bool store) {
  const Reg r = store ? l.use[0] : l.def;
  const uint8_t bytes = l.scale;
  Instruction i;
  i.width = bytes > 16 ? 'y' : 'x';
  if (r < 16) {
    i.op = store ? Op::k_mov_st : Op::k_mov;
    i.width = 'q';
  } else if (bytes <= 8) {
    i.op = store ? Op::k_vmovsd_st : Op::k_vmovsd;
  } else {
    i.op = store ? Op::k_vmovups_st : Op::k_vmovups;
  }
  (store ? i.use[0] : i.def) = r;
  i.has_memory = true;
  i.memory = {kRsp, kNoReg, 1, static_cast<int32_t>(l.imm), -1};
  emit(i);
}

// ---- loops ----

void Assembler::compare_bound(const Line& l) {
  if (l.has_imm)
    emit(Op::k_cmp_i, l.width, kNoReg, {l.use[0]}, l.imm);
  else
    emit(Op::k_cmp, l.width, kNoReg, {l.use[0], l.use[1]});
}

void Assembler::loop_head(const Line& l) {
  if (loops_.size() <= l.loop) loops_.resize(l.loop + size_t{1});
  loops_[l.loop] = {label(), label()};
  if (!l.has_imm || l.imm < 1) {
    compare_bound(l);
    jump(Condition::kNotLess, loops_[l.loop].second);
  }
  bind(loops_[l.loop].first);
}

void Assembler::loop_end(const Line& l) {
  emit(Op::k_add_i, l.width, l.def, {l.def}, 1);
  compare_bound(l);
  jump(Condition::kLess, loops_[l.loop].first);
  bind(loops_[l.loop].second);
}

// ---- lines ----

void Assembler::immediate(const Line& l) {
  const auto v = static_cast<uint64_t>(l.imm);
  if (v == 0) {
    emit(Op::k_xor, 'l', l.def, {l.def, l.def});
    return;
  }
  const size_t from = code_.size();
  const bool wide = v > UINT32_MAX;
  const auto rex = static_cast<uint8_t>((wide ? 0x48 : 0x40) | (l.def >= 8 ? 1 : 0));
  if (rex != 0x40) code_.push_back(rex);
  code_.push_back(static_cast<uint8_t>(0xb8 | (l.def & 7)));
  for (int k = 0; k < (wide ? 8 : 4); ++k) code_.push_back(static_cast<uint8_t>(v >> (8 * k)));
  note(from, strf("mov %s, %lld", register_name(l.def, wide ? 'q' : 'l').c_str(),
                  static_cast<long long>(l.imm)));
}

// Quotient or remainder by way of rax and rdx, which nothing else uses. With immediate 1 the
// divisors that would trap are told apart first.
void Assembler::divide(const Line& l) {
  const auto op = static_cast<Op>(l.op);
  const bool is_signed = op == Op::k_idiv || op == Op::k_irem;
  const bool remainder = op == Op::k_irem || op == Op::k_urem;
  const Label zero = label(), minus = label(), done = label();
  const bool guarded = l.imm == 1;
  emit(Op::k_mov, l.width, kRax, {l.use[0]});
  if (guarded) {
    emit(Op::k_test, l.width, kNoReg, {l.use[1], l.use[1]});
    jump(Condition::kEqual, zero);
    if (is_signed) {
      emit(Op::k_cmp_i, l.width, kNoReg, {l.use[1]}, -1);
      jump(Condition::kEqual, minus);
    }
  }
  if (is_signed)
    emit(Op::k_cdq, l.width, kNoReg, {});
  else
    emit(Op::k_xor, 'l', kRdx, {kRdx, kRdx});
  emit(is_signed ? Op::k_idiv_m : Op::k_div_m, l.width, kNoReg, {l.use[1]});
  if (guarded) {
    jump(Condition::kAlways, done);
    bind(minus);
    emit(Op::k_neg, l.width, kRax, {kRax});
    emit(Op::k_xor, 'l', kRdx, {kRdx, kRdx});
    jump(Condition::kAlways, done);
    bind(zero);
    emit(Op::k_mov, l.width, kRdx, {kRax});
    emit(Op::k_xor, 'l', kRax, {kRax, kRax});
    bind(done);
  }
  emit(Op::k_mov, l.width, l.def, {remainder ? kRdx : kRax});
}

void Assembler::pseudo(const Line& l) {
  const auto op = static_cast<Op>(l.op);
  switch (row(op).form) {
    case Form::kImm:
      return immediate(l);
    case Form::kCmp:
    case Form::kCmpImm: {
      if (row(op).form == Form::kCmp)
        emit(Op::k_cmp, l.width, kNoReg, {l.use[0], l.use[1]});
      else
        emit(Op::k_cmp_i, l.width, kNoReg, {l.use[0]}, l.imm);
      const size_t from = code_.size();  // setcc al
      for (const uint8_t b : {uint8_t{0x0f}, row(op).opcode, uint8_t{0xc0}}) code_.push_back(b);
      const std::string_view name = row(op).name;
      note(from, std::string(name.substr(0, name.find('_'))) + " al");
      return emit(Op::k_movzxb, 'l', l.def, {kRax});
    }
    case Form::kSelect:
      emit(Op::k_test, 'l', kNoReg, {l.use[2], l.use[2]});
      return emit(Op::k_cmovne, 'q', l.def, {l.def, l.use[1]});
    case Form::kDivide:
      return divide(l);
    case Form::kConvert:
      // The instruction keeps the other lanes: without the zero it would wait for the old value.
      emit(Op::k_vxorps, 'x', l.def, {l.def, l.def});
      return emit(op == Op::k_cvtsi2sd ? Op::k_vcvtsi2sd : Op::k_vcvtsi2ss, l.width, l.def,
                  {l.def, l.use[0]});
    default:
      if (status_.ok())
        status_ = fail(Errc::kUnsupported, strf("x86: no encoding of %s", row(op).name));
  }
}

void Assembler::instruction(const Line& l) {
  if (row(static_cast<Op>(l.op)).encoding == Encoding::kPseudo) return pseudo(l);
  if (l.pool >= 0 && f_.pool[static_cast<size_t>(l.pool)].bits == 0 && l.uses == 0)
    return emit(Op::k_vxorps, 'x', l.def, {l.def, l.def});
  Instruction i;
  i.op = static_cast<Op>(l.op);
  i.width = l.width;
  i.def = l.def;
  i.imm = l.imm;
  const uint8_t end = l.mem_at >= 0 ? static_cast<uint8_t>(l.mem_at)
                                    : static_cast<uint8_t>(l.uses - (l.gated ? 1 : 0));
  // The value a gated load keeps is in its result already.
  const uint8_t from = l.gated && l.def != kNoReg ? 1 : 0;
  for (uint8_t k = from; k < end; ++k) i.use[k - from] = l.use[k];
  if (l.pool >= 0) {
    i.has_memory = true;
    i.memory.pool = l.pool;
  } else if (l.mem_at >= 0) {
    i.has_memory = true;
    const auto at = static_cast<size_t>(l.mem_at);
    i.memory = {l.use[at], l.use[at + 1], l.scale, l.disp, -1};
  }
  emit(i);
}

void Assembler::line(const Line& l) {
  switch (l.kind) {
    case LineKind::kArg:
      return;
    case LineKind::kLoop:
      return loop_head(l);
    case LineKind::kEnd:
      return loop_end(l);
    case LineKind::kSpill:
      return slot(l, true);
    case LineKind::kFill:
      return slot(l, false);
    case LineKind::kMove:
      if (l.def < 16)
        emit(Op::k_mov, 'q', l.def, {l.use[0]});
      else
        emit(Op::k_vmovaps, 'y', l.def, {l.use[0]});
      return;
    case LineKind::kIns:
      break;
  }
  if (!l.gated) return instruction(l);
  const Label over = label();
  const Reg gate = l.use[l.uses - 1];
  emit(Op::k_test, 'l', kNoReg, {gate, gate});
  jump(Condition::kEqual, over);
  instruction(l);
  bind(over);
}

// ---- the image ----

Status Assembler::patch() {
  const auto put = [&](uint32_t at, uint32_t value) {
    for (int k = 0; k < 4; ++k) code_[at + k] = static_cast<uint8_t>(value >> (8 * k));
  };
  for (const auto& [at, to] : jumps_) {
    if (labels_[to] == UINT32_MAX)
      return fail(Errc::kInternal, strf("%s: a jump has no target", f_.name.c_str()));
    put(at, labels_[to] - (at + 4));
  }
  const auto pool = static_cast<uint32_t>((code_.size() + 15) / 16 * 16);
  for (const PoolUse& u : pool_uses_) put(u.at, pool + 8 * static_cast<uint32_t>(u.pool) - u.next);
  return {};
}

void Assembler::place_pool() {
  if (f_.pool.empty()) return;
  code_.resize((code_.size() + 15) / 16 * 16, 0xcc);
  for (size_t k = 0; k < f_.pool.size(); ++k) {
    listing_ += strf("%6zx  constant %zu: %016llx\n", code_.size(), k,
                     static_cast<unsigned long long>(f_.pool[k].bits));
    for (int b = 0; b < 8; ++b) code_.push_back(static_cast<uint8_t>(f_.pool[k].bits >> (8 * b)));
  }
}

Result<codegen::Assembly> Assembler::run() {
  listing_ = "; " + f_.name + "\n";
  prologue();
  for (const Line& l : f_.lines) line(l);
  epilogue();
  if (!status_.ok()) return fail(Error(status_.error()).with(f_.name));
  RETURN_IF_ERROR(patch());
  place_pool();
  codegen::Assembly out;
  out.listing = std::move(listing_);
  out.code.resize(code_.size());
  std::memcpy(out.code.data(), code_.data(), code_.size());
  return out;
}

}  // namespace

Result<codegen::Assembly> assemble(const Function& f) {
  return Assembler(f).run();
}

}  // namespace modeld::isa::x86
