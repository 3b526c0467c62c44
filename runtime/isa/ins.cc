#include "runtime/isa/ins.h"

namespace modeld::isa {

using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;

const Node* ins(Graph& g,
                ir::DType dtype,
                const std::string& mnemonic,
                const NodeVec& registers,
                std::optional<int64_t> immediate) {
  NodeVec src = registers;
  if (immediate) src.push_back(ir::const_int(g, *immediate));
  return g.make(Op::kIns, dtype, src, mnemonic, kInsPlain);
}

const Node* ins_memory(Graph& g,
                       InsTag tag,
                       ir::DType dtype,
                       const std::string& mnemonic,
                       const Address& a,
                       const NodeVec& registers) {
  const Node* none = ir::const_int(g, 0);
  NodeVec src{a.base, a.index == nullptr ? none : a.index, ir::const_int(g, a.scale),
              ir::const_int(g, a.disp)};
  src.insert(src.end(), registers.begin(), registers.end());
  return g.make(Op::kIns, dtype, src, mnemonic, tag);
}

const Node* ins_pool(
    Graph& g, ir::DType dtype, const std::string& mnemonic, uint64_t bits, int bytes) {
  return g.make(Op::kIns, dtype,
                {ir::const_int(g, static_cast<int64_t>(bits)), ir::const_int(g, bytes)}, mnemonic,
                kInsPool);
}

}  // namespace modeld::isa
