#include "runtime/isa/x86/isel.h"

#include "runtime/isa/x86/selector.h"

namespace modeld::isa::x86 {

const Node* Selector::bad(const Node* n) {
  g_.fail(Errc::kUnsupported,
          strf("x86: no instruction for %s %s of %lld lanes", ir::op_name(n->op),
               ir::dtype_name(n->dtype), static_cast<long long>(shapes_.lanes(n))));
  return n;
}

const Node* Selector::rebuilt(const Node* n) {
  NodeVec src;
  for (const Node* s : n->src()) src.push_back(done_.get(s));
  return codegen::rebuilt(g_, n, src);
}

const Node* Selector::select(const Node* n) {
  switch (n->op) {
    case Op::kConst:
    case Op::kSink:
    case Op::kGroup:
    case Op::kNoop:
    case Op::kAfter:
    case Op::kEnd:
    case Op::kBuffer:
      return rebuilt(n);
    case Op::kParam:
      return param(n);
    case Op::kRange: {
      NodeVec src;
      for (const Node* s : n->src()) src.push_back(done_.get(s));
      if (const auto bound = immediate(n->src(0))) src[0] = ir::const_int(g_, *bound);
      return codegen::rebuilt(g_, n, src);
    }
    case Op::kShrink:
      return n;  // an address: its users look at it
    case Op::kIndex:
      return memory_of(n) != nullptr ? n : element(n);
    case Op::kLoad:
      return load(n);
    case Op::kStore:
      return store(n);
    case Op::kStack:
      return n->nsrc == 0 ? n : stack(n);
    case Op::kCast:
      return is_literal(n) ? literal(n->dtype, n->src(0)) : cast(n);
    case Op::kBitCast:
      return bitcast(n);
    default:
      return ir::kAluOps.has(n->op) ? alu(n) : bad(n);
  }
}

const Node* Selector::run(const Node* sink) {
  for (const Node* n : ir::toposort(sink)) {
    const Node* made = select(n);
    if (g_.failed()) return sink;
    done_.set(n, made);
  }
  return done_.get(sink);
}

const Node* isel(Graph& g, const Node* sink) {
  return Selector(g).run(sink);
}

}  // namespace modeld::isa::x86
