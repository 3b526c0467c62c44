#include "runtime/isa/to_lines.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "runtime/isa/ins.h"

namespace modeld::isa {

using ir::Graph;
using ir::Node;
using ir::Op;

namespace {

class Converter {
 public:
  explicit Converter(const InstructionSet& set) : set_(set) {}
  Result<Function> run(std::span<const Node* const> linear, const std::string& name);

 private:
  const InstructionSet& set_;
  Function f_;
  std::unordered_map<const Node*, Reg> reg_;
  std::map<std::pair<int64_t, int64_t>, Reg> accumulators_;  // (buffer, first element)
  std::unordered_map<const Node*, uint32_t> loop_;           // RANGE -> number
  uint32_t loops_ = 0;

  Status emit(const Node* n);
  Status emit_ins(const Node* n);
  Status accumulator(const Node* n);
  Status operands(const Node* n, size_t from, Line& line);
  Status memory(const Node* n, Line& line);
  Result<Reg> reg(const Node* n) const;
  Status open_loop(const Node* n);
  Status close_loop(const Node* n);
  Status bound(const Node* range, Line& line);
};

const Node* below_afters(const Node* n) {
  while (n->op == Op::kAfter) n = n->src(0);
  return n;
}

Result<Reg> Converter::reg(const Node* n) const {
  const auto it = reg_.find(below_afters(n));
  if (it != reg_.end()) return it->second;
  return fail(Errc::kInternal,
              strf("%s: %s is used before it is made", f_.name.c_str(), ir::op_name(n->op)));
}

Status Converter::memory(const Node* n, Line& line) {
  line.mem_at = static_cast<int8_t>(line.uses);
  ASSIGN_OR_RETURN(const Reg base, reg(n->src(0)));
  line.add_use(base);
  Reg index = kNoReg;
  if (n->src(1)->op != Op::kConst) {
    ASSIGN_OR_RETURN(index, reg(n->src(1)));
  }
  line.add_use(index);
  line.scale = static_cast<uint8_t>(ir::int_value(n->src(2)).value_or(1));
  line.disp = static_cast<int32_t>(ir::int_value(n->src(3)).value_or(0));
  line.space = below_afters(n->src(0))->id;
  return {};
}

Status Converter::operands(const Node* n, size_t from, Line& line) {
  for (size_t i = from; i < n->nsrc; ++i) {
    if (n->src(i)->op == Op::kConst) {
      line.imm = ir::int_value(n->src(i)).value_or(0);
      line.has_imm = true;
      continue;
    }
    ASSIGN_OR_RETURN(const Reg r, reg(n->src(i)));
    line.add_use(r);
  }
  return {};
}

Status Converter::emit_ins(const Node* n) {
  if (n->tag == kInsAccRead || n->tag == kInsAccWrite) return accumulator(n);
  std::string_view mnemonic = n->as<std::string>();
  Line line;
  if (mnemonic.starts_with("arg.")) {
    line.kind = LineKind::kArg;
    line.imm = set_.argument(mnemonic.back() - '0');
    line.def = f_.fresh(RegClass::kInt, 8);
    reg_[n] = line.def;
    // Before anything that could take its register.
    f_.lines.insert(f_.lines.begin(), line);
    return {};
  }
  line.gated = mnemonic.starts_with('?');
  if (line.gated) mnemonic.remove_prefix(1);
  InsDesc desc;
  if (!set_.describe(mnemonic, &desc))
    return fail(Errc::kUnsupported,
                strf("%s: no instruction %s", f_.name.c_str(), n->as<std::string>().c_str()));
  line.op = desc.op;
  line.width = desc.width;
  line.tied = desc.tied || (line.gated && desc.has_result);
  line.early = desc.early;
  const bool in_memory = n->tag == kInsLoad || n->tag == kInsStore || n->tag == kInsAddress;
  line.effect = n->tag == kInsLoad    ? Effect::kLoad
                : n->tag == kInsStore ? Effect::kStore
                                      : Effect::kNone;
  if (n->tag == kInsPool) {
    const PoolConst c{static_cast<uint64_t>(ir::int_value(n->src(0)).value_or(0)),
                      static_cast<uint8_t>(ir::int_value(n->src(1)).value_or(4))};
    const auto it = std::find(f_.pool.begin(), f_.pool.end(), c);
    line.pool = static_cast<int32_t>(it - f_.pool.begin());
    if (it == f_.pool.end()) f_.pool.push_back(c);
  } else if (!in_memory) {
    RETURN_IF_ERROR(operands(n, 0, line));
  } else {
    // Registers, memory, gate.
    const size_t last = n->nsrc - (line.gated ? 1 : 0);
    Line values;
    RETURN_IF_ERROR(operands(n, 4, values));
    const size_t count = last - 4;
    for (uint8_t k = 0; k < values.uses && k < count; ++k) line.add_use(values.use[k]);
    RETURN_IF_ERROR(memory(n, line));
    if (line.gated) line.add_use(values.use[values.uses - 1]);
  }
  if (desc.has_result) line.def = reg_[n] = f_.fresh(desc.result.cls, desc.result.bytes);
  line.remat = line.uses == 0 && desc.has_result;
  f_.lines.push_back(line);
  return {};
}

Status Converter::accumulator(const Node* n) {
  const std::pair<int64_t, int64_t> key{below_afters(n->src(0))->as<ir::ParamArg>().slot,
                                        ir::int_value(n->src(1)).value_or(0)};
  const auto bytes = static_cast<uint8_t>(ir::int_value(n->src(2)).value_or(8));
  const bool is_float = ir::is_float(n->dtype);
  const RegClass cls = is_float || bytes > 8 ? RegClass::kVector : RegClass::kInt;
  const auto [it, fresh] = accumulators_.emplace(key, kNoReg);
  if (fresh) it->second = f_.fresh(cls, bytes);
  Line line;
  line.kind = LineKind::kMove;
  if (n->tag == kInsAccRead) {
    line.add_use(it->second);
    line.def = reg_[n] = f_.fresh(cls, bytes);
  } else {
    ASSIGN_OR_RETURN(const Reg value, reg(n->src(3)));
    line.add_use(value);
    line.def = it->second;
  }
  f_.lines.push_back(line);
  return {};
}

// The bound: a constant stands in the line, another value is read.
Status Converter::bound(const Node* range, Line& line) {
  line.width = set_.counter_width(range->dtype);
  if (const auto v = ir::int_value(range->src(0))) {
    line.imm = *v;
    line.has_imm = true;
    return {};
  }
  ASSIGN_OR_RETURN(const Reg r, reg(range->src(0)));
  line.add_use(r);
  return {};
}

Status Converter::open_loop(const Node* n) {
  Line line;
  line.kind = LineKind::kLoop;
  line.loop = loop_[n] = loops_++;
  const Reg counter = reg_[n] = f_.fresh(RegClass::kInt, 8);
  line.add_use(counter);
  RETURN_IF_ERROR(bound(n, line));
  f_.lines.push_back(set_.zero(counter, line.width));
  f_.lines.push_back(line);
  return {};
}

Status Converter::close_loop(const Node* n) {
  const Node* range = n->src(1);
  Line line;
  line.kind = LineKind::kEnd;
  line.loop = loop_.at(range);
  line.def = reg_.at(range);
  line.add_use(line.def);
  RETURN_IF_ERROR(bound(range, line));
  f_.lines.push_back(line);
  return {};
}

Status Converter::emit(const Node* n) {
  switch (n->op) {
    case Op::kIns:
      return emit_ins(n);
    case Op::kRange:
      return open_loop(n);
    case Op::kEnd:
      return close_loop(n);
    case Op::kConst:
    case Op::kBuffer:
    case Op::kSink:
    case Op::kGroup:
    case Op::kAfter:
    case Op::kNoop:
      return {};
    default:
      return fail(Errc::kUnsupported, strf("%s: no instruction for %s %s", f_.name.c_str(),
                                           ir::op_name(n->op), ir::dtype_name(n->dtype)));
  }
}

Result<Function> Converter::run(std::span<const Node* const> linear, const std::string& name) {
  f_.name = name;
  for (const Node* n : linear) RETURN_IF_ERROR(emit(n));
  return std::move(f_);
}

}  // namespace

Result<Function> to_lines(Graph&,
                          std::span<const Node* const> linear,
                          const std::string& name,
                          const InstructionSet& set) {
  return Converter(set).run(linear, name);
}

}  // namespace modeld::isa
