// long_decomp. Needs truncating division, halves widened. Gives, on a target without 64-bit
// integers: i64 and u64 as two u32 words, in memory low word first. Before late_decomp, whose
// shifts and short forms are for the words too.
#include <map>

#include "runtime/codegen/graph_util.h"
#include "runtime/codegen/long_words.h"
#include "runtime/codegen/passes.h"

namespace modeld::codegen {
namespace {

using ir::DType;
using ir::NodeVec;
using ir::Op;

bool is_long(DType t) {
  return t == DType::kI64 || t == DType::kU64;
}
bool is_long_memory(const Node* n) {
  const Node* root = memory_root(n);
  return root != nullptr && is_long(root->dtype);
}

class LongSplitter {
 public:
  explicit LongSplitter(Graph& g) : g_(g), math_(g) {}

  const Node* run(const Node* root) {
    for (const Node* n : ir::toposort(root)) {
      if (is_long_memory(n)) {
        storage(n);
      } else if (is_long(n->dtype)) {
        words_[n] = split(n);
      } else {
        done_.set(n, whole(n));
      }
      if (g_.failed()) return root;
    }
    return done_.get(root);
  }

 private:
  Graph& g_;
  LongMath math_;
  NodeTable done_;
  std::map<const Node*, LongWords> words_;      // long values
  std::map<const Node*, LongWords> addresses_;  // of a long's two words

  NodeVec sources(const Node* n) {
    NodeVec src;
    for (const Node* s : n->src()) src.push_back(done_.get(s));
    return src;
  }
  const LongWords& words(const Node* n) { return words_.at(n); }

  // PARAM and BUFFER of twice as many words; an INDEX into them is two addresses.
  void storage(const Node* n) {
    if (n->op == Op::kShrink) return g_.fail(Errc::kInternal, "i64 as two words: a vector of i64");
    if (n->op == Op::kParam || n->op == Op::kBuffer) {
      const int64_t size = ir::int_value(n->src(0)).value_or(0);
      const Node* doubled = ir::const_int(g_, 2 * size, n->src(0)->dtype);
      done_.set(n, g_.make(n->op, DType::kU32, {doubled}, *n->arg));
      return;
    }
    if (n->op == Op::kAfter) {
      done_.set(n, g_.make(Op::kAfter, DType::kU32, sources(n)));
      return;
    }
    const GatedIndex at = split_gate(index_of(n->src(1)));
    // Elements of accumulators are told by their constant index.
    const auto fixed = ir::int_value(at.index);
    const Node* first =
        fixed ? ir::const_int(g_, 2 * *fixed, at.index->dtype) : ir::mul_const(g_, at.index, 2);
    const Node* second =
        fixed ? ir::const_int(g_, 2 * *fixed + 1, at.index->dtype) : ir::add_const(g_, first, 1);
    const auto address = [&](const Node* i) {
      return g_.make(Op::kIndex, DType::kU32, {done_.get(n->src(0)), join_gate(g_, at.gate, i)});
    };
    addresses_[n] = {address(first), address(second)};
  }

  const Node* narrow(const Node* n) { return ir::cast(g_, words(n).low, DType::kI32); }

  // An index in 32 bits; its gate stays outside.
  const Node* index_of(const Node* n) {
    if (!is_long(n->dtype)) return done_.get(n);
    const GatedIndex at = split_gate(n);
    return join_gate(g_, at.gate == nullptr ? nullptr : done_.get(at.gate), narrow(at.index));
  }

  LongWords load(const Node* n) {
    const LongWords& at = addresses_.at(n->src(0));
    if (n->nsrc != 1) g_.fail(Errc::kInternal, "i64 as two words: a gate outside of its index");
    return {g_.make(Op::kLoad, DType::kU32, {at.low}), g_.make(Op::kLoad, DType::kU32, {at.high})};
  }

  LongWords split(const Node* n) {
    switch (n->op) {
      case Op::kConst:
        return math_.constant(ir::int_value(n).value_or(0));
      case Op::kLoad:
        return load(n);
      case Op::kWhere:
        return math_.pick(done_.get(n->src(0)), words(n->src(1)), words(n->src(2)));
      case Op::kStack: {
        NodeVec low, high;
        for (const Node* s : n->src()) {
          low.push_back(words(s).low);
          high.push_back(words(s).high);
        }
        return {g_.make(Op::kStack, DType::kU32, low), g_.make(Op::kStack, DType::kU32, high)};
      }
      case Op::kIndex: {
        const auto lane = [&](const Node* v) {
          return g_.make(Op::kIndex, DType::kU32, {v, done_.get(n->src(1))});
        };
        return {lane(words(n->src(0)).low), lane(words(n->src(0)).high)};
      }
      case Op::kCast:
      case Op::kBitCast:
        return converted(n);
      default:
        break;
    }
    if (!ir::kAluOps.has(n->op)) {
      g_.fail(Errc::kUnsupported, strf("i64 as two words: no form of %s", ir::op_name(n->op)));
      return math_.constant(0);
    }
    const LongWords& a = words(n->src(0));
    return math_.alu(n->op, n->dtype, a, n->nsrc > 1 ? words(n->src(1)) : a);
  }

  LongWords converted(const Node* n) {
    const Node* s = n->src(0);
    if (is_long(s->dtype)) return words(s);
    if (n->op == Op::kBitCast) g_.fail(Errc::kUnsupported, "i64 as two words: bits of a double");
    // A literal under a CAST has no width of its own.
    if (const auto v = ir::int_value(s); v && ir::is_weak(s->dtype)) return math_.constant(*v);
    return math_.from(done_.get(s));
  }

  // Everything that is no long itself.
  const Node* whole(const Node* n) {
    if (n->op == Op::kStore && is_long_memory(n->src(0))) {
      const LongWords& at = addresses_.at(n->src(0));
      const LongWords& v = words(n->src(1));
      return group(g_, {g_.make(Op::kStore, DType::kVoid, {at.low, v.low}),
                        g_.make(Op::kStore, DType::kVoid, {at.high, v.high})});
    }
    if (n->nsrc > 0 && is_long(n->src(0)->dtype) && !is_long_memory(n->src(0))) {
      const DType from = n->src(0)->dtype;
      if (n->op == Op::kCast) return math_.to(words(n->src(0)), from, n->dtype);
      if (ir::kComparisonOps.has(n->op))
        return math_.compare(n->op, from, words(n->src(0)), words(n->src(1)));
      g_.fail(Errc::kUnsupported, strf("i64 as two words: no form of %s", ir::op_name(n->op)));
      return n;
    }
    NodeVec src;
    for (const Node* s : n->src())
      src.push_back(is_long(s->dtype) && !is_long_memory(s) ? index_of(s) : done_.get(s));
    return rebuilt(g_, n, src);
  }
};

}  // namespace

const Node* long_decomp(Graph& g, const Node* root, const CodegenOptions& o) {
  return o.caps.native_i64 ? root : LongSplitter(g).run(root);
}

}  // namespace modeld::codegen
