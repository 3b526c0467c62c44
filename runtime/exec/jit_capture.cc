#include "runtime/exec/jit_capture.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "runtime/schedule/byte_view.h"

namespace modeld::exec {

using ir::Fault;
using ir::Node;
using ir::NodeVec;
using ir::Op;

Status JitCapture::add_linear(const Node* linear, const schedule::VarBinds& vars) {
  for (const auto& [name, value] : vars) {
    const auto [at, is_new] = vars_.emplace(name, value);
    if (!is_new && at->second != value)
      return fail(Fault::kBindMismatch,
                  strf("jit: bind mismatch on %s, %lld != %lld", name.c_str(),
                       static_cast<long long>(at->second), static_cast<long long>(value)));
  }
  linears_.push_back(linear);
  return {};
}

const Node* JitCapture::joined(ir::Graph& g) const {
  NodeVec calls;
  for (const Node* linear : linears_)
    calls.insert(calls.end(), linear->src().begin(), linear->src().end());
  return g.make(Op::kLinear, ir::DType::kVoid, calls);
}

namespace {

void add_buffers(const Node* arg, NodeVec& out) {
  const Node* base = schedule::below_views(arg);
  if (base->op == Op::kBuffer || base->op == Op::kParam) {
    out.push_back(base);
  } else if (base->op == Op::kMStack || base->op == Op::kMSelect) {
    for (const Node* part : base->src()) add_buffers(part, out);
  }
}

// Positions of the calls that touch a buffer.
struct Uses {
  std::vector<size_t> reads, writes;
};

class Pruning {
 public:
  Pruning(std::vector<BufferAccess> calls, std::span<const Node* const> inputs)
      : calls_(std::move(calls)), kept_(calls_.size()) {
    inputs_.insert(inputs.begin(), inputs.end());
    for (size_t i = 0; i < calls_.size(); ++i) {
      for (const Node* b : calls_[i].reads) uses_[b].reads.push_back(i);
      for (const Node* b : calls_[i].writes) uses_[b].writes.push_back(i);
    }
  }

  // Keeping one call may be the reason to keep another, in either direction.
  std::vector<bool> run() {
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = 0; i < calls_.size(); ++i) {
        if (kept_[i] || !must_stay(i)) continue;
        kept_[i] = changed = true;
      }
    }
    return std::move(kept_);
  }

 private:
  bool must_stay(size_t i) const {
    const BufferAccess& call = calls_[i];
    return std::any_of(call.reads.begin(), call.reads.end(),
                       [&](const Node* b) { return read_changes(i, b); }) ||
           std::any_of(call.writes.begin(), call.writes.end(),
                       [&](const Node* b) { return write_matters(i, b); });
  }

  // What call i finds in `b` is not the same in every run.
  bool read_changes(size_t i, const Node* b) const {
    const std::vector<size_t>& writes = uses_.at(b).writes;
    return inputs_.contains(b) || std::any_of(writes.begin(), writes.end(), [&](size_t w) {
             return w >= i || kept_[w];  // written after it was read: state of the next run
           });
  }

  // Somebody who stays would find another `b` if call i did not run again in its place.
  bool write_matters(size_t i, const Node* b) const {
    const Uses& uses = uses_.at(b);
    return inputs_.contains(b) ||
           std::any_of(uses.writes.begin(), uses.writes.end(),
                       [&](size_t w) { return w != i && kept_[w]; }) ||
           std::any_of(uses.reads.begin(), uses.reads.end(),
                       [&](size_t r) { return r < i && kept_[r]; });
  }

  const std::vector<BufferAccess> calls_;
  std::vector<bool> kept_;
  std::set<const Node*> inputs_;      // looked up only: no order comes from it
  std::map<const Node*, Uses> uses_;  // likewise
};

Result<std::vector<BufferAccess>> accesses(const Node* linear) {
  std::vector<BufferAccess> out;
  for (const Node* call : linear->src()) {
    ASSIGN_OR_RETURN(BufferAccess access, buffer_access(call));
    out.push_back(std::move(access));
  }
  return out;
}

}  // namespace

Result<BufferAccess> buffer_access(const Node* call) {
  BufferAccess out;
  const Node* body = call->src(0);
  const auto args = call->src().subspan(1);
  if (body->op == Op::kCopy && args.size() == 2) {
    add_buffers(args[0], out.writes);
    add_buffers(args[1], out.reads);
    return out;
  }
  if (body->op != Op::kProgram || !body->has<ir::ProgramInfo>())
    return fail(Errc::kInternal, strf("jit: a call of %s is not compiled", ir::op_name(body->op)));
  const auto& info = body->as<ir::ProgramInfo>();
  for (const auto* list : {&info.ins, &info.outs})
    for (const int64_t at : *list) {
      if (at < 0 || static_cast<size_t>(at) >= args.size())
        return fail(Errc::kInternal, strf("jit: kernel %s has no argument %lld", info.name.c_str(),
                                          static_cast<long long>(at)));
      add_buffers(args[static_cast<size_t>(at)], list == &info.ins ? out.reads : out.writes);
    }
  return out;
}

Result<Pruned> prune(ir::Graph& g, const Node* linear, std::span<const Node* const> inputs) {
  ASSIGN_OR_RETURN(std::vector<BufferAccess> calls, accesses(linear));
  const std::vector<bool> kept = Pruning(std::move(calls), inputs).run();
  NodeVec stay, once;
  for (size_t i = 0; i < linear->nsrc; ++i) (kept[i] ? stay : once).push_back(linear->src(i));
  return Pruned{g.make(Op::kLinear, ir::DType::kVoid, stay),
                g.make(Op::kLinear, ir::DType::kVoid, once)};
}

Result<NodeVec> read_before_written(const Node* linear) {
  ASSIGN_OR_RETURN(const std::vector<BufferAccess> calls, accesses(linear));
  NodeVec out;
  std::set<const Node*> seen;
  for (const BufferAccess& call : calls) {
    for (const Node* b : call.reads)
      if (seen.insert(b).second) out.push_back(b);
    seen.insert(call.writes.begin(), call.writes.end());
  }
  return out;
}

}  // namespace modeld::exec
