// INS nodes: machine instructions in the graph, before they have an order. The argument is the
// mnemonic with its width ("vaddps.y"); a leading '?' makes it happen only if the last source is
// not 0 (a gated load keeps the source before that as its value). Sources: the memory operand
// first (base, index or CONST, scale, displacement) if the tag says so (codegen/ins_tag.h), then
// registers, then a CONST as immediate. Threading: one thread per Graph.
#pragma once

#include <optional>
#include <string>

#include "runtime/codegen/ins_tag.h"
#include "runtime/ir/graph.h"

namespace modeld::isa {

using codegen::InsTag;
using enum codegen::InsTag;

struct Address {
  const ir::Node* base = nullptr;
  const ir::Node* index = nullptr;  // null = none
  int64_t scale = 1;                // of the index, in bytes
  int64_t disp = 0;                 // bytes
};

const ir::Node* ins(ir::Graph& g,
                    ir::DType dtype,
                    const std::string& mnemonic,
                    const ir::NodeVec& registers,
                    std::optional<int64_t> immediate = std::nullopt);
const ir::Node* ins_memory(ir::Graph& g,
                           InsTag tag,
                           ir::DType dtype,
                           const std::string& mnemonic,
                           const Address& address,
                           const ir::NodeVec& registers = {});
const ir::Node* ins_pool(
    ir::Graph& g, ir::DType dtype, const std::string& mnemonic, uint64_t bits, int bytes);

inline bool is_ins(const ir::Node* n) {
  return n->op == ir::Op::kIns;
}

}  // namespace modeld::isa
