#include "runtime/ir/op.h"

#include <array>
#include <string>

namespace modeld::ir {
namespace {

struct Row {
  std::string name;
  int arity;
};

// "FloorDiv" -> "floor_div": the text form is the field's lower-case word.
std::string snake(std::string_view camel) {
  std::string out;
  for (char c : camel) {
    if (c >= 'A' && c <= 'Z') {
      if (!out.empty() && out.back() >= 'a' && out.back() <= 'z') out += '_';
      out += static_cast<char>(c - 'A' + 'a');
    } else {
      out += c;
    }
  }
  return out;
}

const std::array<Row, kOpCount>& rows() {
  static const std::array<Row, kOpCount> table = {{
#define OP(name, arity) Row{snake(#name), arity},
#include "runtime/ir/op.def"
#undef OP
  }};
  return table;
}

}  // namespace

const char* op_name(Op op) {
  return rows()[static_cast<size_t>(op)].name.c_str();
}
int op_arity(Op op) {
  return rows()[static_cast<size_t>(op)].arity;
}

std::optional<Op> op_from_name(std::string_view name) {
  for (int i = 0; i < kOpCount; ++i) {
    if (rows()[static_cast<size_t>(i)].name == name) return static_cast<Op>(i);
  }
  return std::nullopt;
}

}  // namespace modeld::ir
