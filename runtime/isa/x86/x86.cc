#include "runtime/isa/x86/x86.h"

#include "runtime/isa/coalesce.h"
#include "runtime/isa/fold_loads.h"
#include "runtime/isa/schedule.h"
#include "runtime/isa/split_loads.h"
#include "runtime/isa/to_lines.h"
#include "runtime/isa/x86/encoder.h"
#include "runtime/isa/x86/isel.h"
#include "runtime/isa/x86/pre_isel.h"

namespace modeld::isa::x86 {

namespace {

constexpr const char* kNeeds[] = {"avx", "avx2", "bmi", "bmi2", "f16c", "fma"};

class X86 final : public InstructionSet {
 public:
  X86() {
    // rsp is the stack, rax and rdx belong to divisions and comparisons. Those that cost no push
    // come first.
    file_.free[0] = {1, 6, 7, 8, 9, 10, 11, 3, 5, 12, 13, 14, 15};
    for (Reg r = 16; r < 32; ++r) file_.free[1].push_back(r);
  }

  bool describe(std::string_view mnemonic, InsDesc* out) const override {
    char width = 0;
    const Op op = find_op(mnemonic, &width);
    if (op == Op::kCount) return false;
    const Row& r = row(op);
    out->op = static_cast<uint16_t>(op);
    out->width = width;
    out->has_result = r.result != ResultClass::kNone;
    out->tied = r.form == Form::kRmTied || r.form == Form::kMiTied || r.form == Form::kMbTied ||
                r.form == Form::kMTied || r.form == Form::kFma || r.form == Form::kSelect;
    const bool vector = r.result == ResultClass::kVector;
    out->result = {vector ? RegClass::kVector : RegClass::kInt,
                   static_cast<uint8_t>(vector ? (width == 'y' ? 32 : 16) : 8)};
    return true;
  }
  const RegisterFile& file() const override { return file_; }
  Reg argument(size_t i) const override { return i == 0 ? 7 : 6; }  // rdi, rsi
  Line zero(Reg counter, char) const override {
    Line line;
    line.op = static_cast<uint16_t>(Op::k_mov_i);
    line.width = 'l';
    line.has_imm = true;
    line.def = counter;
    return line;
  }
  char counter_width(ir::DType t) const override { return ir::item_bits(t) > 32 ? 'q' : 'l'; }
  // The memory operand must be as wide as what the load fetched.
  bool can_fold(const Line& load, const Line& reader) const override {
    const Form form = row(static_cast<Op>(reader.op)).form;
    if (form != Form::kRvm && form != Form::kFma) return false;
    const std::string_view name = row(static_cast<Op>(reader.op)).name;
    const bool packed_int = name.starts_with("vp");
    switch (static_cast<Op>(load.op)) {
      case Op::k_vmovups:
        return reader.width == load.width &&
               (packed_int || name.ends_with("ps") || name.ends_with("pd"));
      case Op::k_vmovss:
        return name.ends_with("ss") && !packed_int && !name.starts_with("vcvt");
      case Op::k_vmovsd:
        return name.ends_with("sd") && !packed_int && !name.starts_with("vcvt");
      default:
        return false;
    }
  }
  bool can_swap(const Line& line) const override {
    switch (static_cast<Op>(line.op)) {
      case Op::k_vaddps:
      case Op::k_vaddpd:
      case Op::k_vaddss:
      case Op::k_vaddsd:
      case Op::k_vmulps:
      case Op::k_vmulpd:
      case Op::k_vmulss:
      case Op::k_vmulsd:
      case Op::k_vfmadd231ps:
      case Op::k_vfmadd231pd:
      case Op::k_vfmadd231ss:
      case Op::k_vfmadd231sd:
        return true;
      default:
        return false;
    }
  }

 private:
  RegisterFile file_;
};

// The stages between the program sink and its bytes; linearize stands between the two.
Result<const ir::Node*> select(ir::Graph& g, const ir::Node* sink) {
  const ir::Node* out = isel(g, pre_isel(g, sink));
  RETURN_IF_ERROR(g.status());
  return out;
}

Result<codegen::Assembly> finish(ir::Graph& g,
                                 std::span<const ir::Node* const> linear,
                                 const std::string& name) {
  const InstructionSet& set = instruction_set();
  ASSIGN_OR_RETURN(Function f, to_lines(g, linear, name, set));
  coalesce(f);
  schedule(f);
  split_loads(f, set.file());
  fold_loads(f, set);
  RETURN_IF_ERROR(allocate_registers(f, set.file()));
  return assemble(f);
}

}  // namespace

const InstructionSet& instruction_set() {
  static const X86 set;
  return set;
}

const char* identity() {
  return "modeld x86 assembler 1";
}

std::string missing_features(const hal::Target& target) {
  std::string out;
  for (const char* f : kNeeds)
    if (!target.has_feature(f)) out += (out.empty() ? "" : " ") + std::string(f);
  return out;
}

Result<codegen::CodegenOptions> x86_options(const hal::Target& target) {
  const std::string missing = missing_features(target);
  if (!target.is_cpu() || target.arch.rfind("x86-64", 0) != 0 || !missing.empty())
    return fail(Errc::kUnsupported, strf("renderer x86 for target %s: needs an x86-64 CPU%s%s",
                                         hal::print_target(target).c_str(),
                                         missing.empty() ? "" : " with ", missing.c_str()));
  codegen::CodegenOptions o = codegen::cpu_options(target);
  o.caps.name = "x86";
  o.caps.tensor_cores.clear();  // no instruction of theirs is selected
  o.caps.widths32 = {8, 4};
  o.caps.widths64 = {4, 2};
  o.caps.has_mulacc = true;
  o.fast_idiv = true;
  o.select = select;
  o.assemble = finish;
  return o;
}

}  // namespace modeld::isa::x86
