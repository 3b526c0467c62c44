#include "runtime/ir/print.h"

#include <map>

#include "hal/base/status.h"

namespace modeld::ir {
namespace {

std::string infix(Op op) {
  switch (op) {
    case Op::kAdd:
      return "+";
    case Op::kSub:
      return "-";
    case Op::kMul:
      return "*";
    case Op::kFloorDiv:
      return "//";
    case Op::kFloorMod:
      return "%";
    case Op::kCmpLt:
      return "<";
    case Op::kCmpNe:
      return "!=";
    case Op::kCmpEq:
      return "==";
    case Op::kAnd:
      return "&";
    case Op::kOr:
      return "|";
    case Op::kShl:
      return "<<";
    case Op::kShr:
      return ">>";
    default:
      return "";
  }
}

std::string leaf(const Node* n) {
  if (n->op == Op::kConst) {
    if (n->has<double>()) return strf("%g", n->as<double>());
    if (n->has<Invalid>()) return "Invalid";
    return std::to_string(int_value(n).value_or(0));
  }
  if (n->op == Op::kRange) return strf("r%lld", static_cast<long long>(n->as<RangeArg>().id));
  if (n->has<ParamArg>()) {
    const auto& p = n->as<ParamArg>();
    if (!p.name.empty()) return p.name;
    return strf("%s%lld", n->op == Op::kParam ? "p" : "b", static_cast<long long>(p.slot));
  }
  return op_name(n->op);
}

}  // namespace

std::string expr(const Node* n) {
  // Shared parts print once per use; long results are cut so that a DAG cannot explode.
  constexpr size_t kLimit = 4000;
  std::map<const Node*, std::string> text;
  for (const Node* x : toposort(n)) {
    std::string s;
    if (x->nsrc == 0 || x->op == Op::kRange || x->has<ParamArg>()) {
      s = leaf(x);
    } else if (x->nsrc == 2 && !infix(x->op).empty()) {
      s = "(" + text[x->src(0)] + infix(x->op) + text[x->src(1)] + ")";
    } else {
      s = std::string(op_name(x->op)) + "(";
      for (size_t i = 0; i < x->nsrc; ++i) s += (i ? ", " : "") + text[x->src(i)];
      s += ")";
    }
    if (s.size() > kLimit) s = s.substr(0, kLimit) + "...";
    text[x] = std::move(s);
  }
  return text[n];
}

std::string print(const Node* root) {
  std::string out;
  std::map<const Node*, size_t> number;
  for (const Node* n : toposort(root, true)) {
    const size_t id = number.size();
    number[n] = id;
    out += strf("%%%zu = %s %s", id, op_name(n->op), dtype_name(n->dtype));
    for (const Node* s : n->src()) out += strf(" %%%zu", number.at(s));
    if (n->tag != 0) out += strf(" #%u", n->tag);
    const std::string arg = arg_text(*n->arg);
    if (!arg.empty()) out += " {" + arg + "}";
    out += "\n";
  }
  return out;
}

}  // namespace modeld::ir
