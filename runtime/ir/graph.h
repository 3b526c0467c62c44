// Graph: the arena that owns and interns immutable nodes. Pointer equality is structural equality
// within one Graph. Lifetime: one compilation. Threading: one thread at a time; other threads get
// their own Graph by import(). Errors: make() checks nothing (runtime/ir/spec.h does); a rule that
// meets bad input latches an error by fail(), drivers stop at once, and the caller turns it into a
// Status by status().
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "hal/base/hash.h"
#include "hal/base/status.h"

#include "runtime/ir/arg.h"
#include "runtime/ir/dtype.h"
#include "runtime/ir/fault.h"
#include "runtime/ir/op.h"

namespace modeld::ir {

class Graph;

struct Node {
  Op op;
  DType dtype;
  uint32_t tag;  // pass scratch: part of identity, not of the content key
  uint32_t id;   // dense in its Graph, increasing: sources have smaller ids
  uint32_t nsrc;
  const Node* const* srcs;
  const Arg* arg;   // interned in the Graph
  Hash128 key;      // content key of (op, dtype, arg, keys of sources)
  OpSet child_ops;  // ops of direct sources, for early reject

  std::span<const Node* const> src() const { return {srcs, nsrc}; }
  const Node* src(size_t i) const { return srcs[i]; }
  template <class T>
  const T& as() const {
    return std::get<T>(*arg);
  }
  template <class T>
  bool has() const {
    return std::holds_alternative<T>(*arg);
  }
  bool is(Op o) const { return op == o; }
};

using NodeVec = std::vector<const Node*>;

class Graph {
 public:
  Graph();
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  const Node* make(
      Op op, DType dtype, std::span<const Node* const> src, Arg arg = {}, uint32_t tag = 0);
  const Node* make(
      Op op, DType dtype, std::initializer_list<const Node*> src, Arg arg = {}, uint32_t tag = 0) {
    return make(op, dtype, std::span<const Node* const>(src.begin(), src.size()), std::move(arg),
                tag);
  }
  // The same node with other sources / tag / argument.
  const Node* with_src(const Node* n, std::span<const Node* const> src);
  const Node* with_src(const Node* n, std::initializer_list<const Node*> src) {
    return with_src(n, std::span<const Node* const>(src.begin(), src.size()));
  }
  const Node* with_tag(const Node* n, uint32_t tag);
  const Node* with_arg(const Node* n, Arg arg);

  // Copies a node of another Graph (with everything below it, tags kept).
  const Node* import(const Node* foreign);

  size_t node_count() const { return next_id_; }

  // A fresh number, increasing; used for buffer slots and range ids.
  int64_t fresh() { return next_fresh_++; }
  void reserve_fresh(int64_t above) {
    if (above >= next_fresh_) next_fresh_ = above + 1;
  }

  // First error wins.
  void fail(Errc code, std::string what);
  void fail(Fault fault, std::string what);
  bool failed() const { return error_ != nullptr; }
  // Forgets a refusal of well-formed nodes, so that the Graph goes on. Never after a shape error:
  // the failed shape stays remembered.
  void clear_failure() { error_.reset(); }
  Status status() const;

  // Per-node memo of derived properties (runtime/ir/derived.h), indexed by node id.
  struct Memo;
  Memo& memo() { return *memo_; }

 private:
  const Node* intern(Op op,
                     DType dtype,
                     std::span<const Node* const> src,
                     const Arg* arg,
                     Hash128 arg_hash,
                     uint32_t tag);
  const Arg* intern_arg(Arg arg, Hash128* hash);

  std::deque<Arg> args_;
  std::unordered_map<std::string, std::pair<const Arg*, Hash128>> arg_index_;
  std::unordered_map<const Arg*, Hash128> arg_hash_;
  std::vector<const Node*> table_;  // open addressing, power of two
  size_t table_used_ = 0;
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  size_t block_left_ = 0;
  std::byte* block_next_ = nullptr;
  uint32_t next_id_ = 0;
  int64_t next_fresh_ = 0;
  std::unique_ptr<Error> error_;
  std::unique_ptr<Memo> memo_;

  void* allocate(size_t bytes);
  void grow_table();
};

// ---- builders: the short words passes use ----
// Literals. const_like gives the same value in another type (weak types keep it mathematical).
const Node* const_int(Graph& g, int64_t v, DType t = DType::kWeakInt);
const Node* const_float(Graph& g, double v, DType t = DType::kWeakFloat);
const Node* const_bool(Graph& g, bool v);
const Node* const_invalid(Graph& g, DType t = DType::kWeakInt);
const Node* const_of(Graph& g, DType t, double v);  // any scalar type
const Node* range(Graph& g, int64_t bound, int64_t id, AxisType type);
const Node* shape_node(Graph& g, std::span<const int64_t> dims);  // Stack of consts
const Node* variable(
    Graph& g, const std::string& name, int64_t vmin, int64_t vmax, DType t = DType::kI32);
const Node* param(Graph& g, int64_t slot, DType t, int64_t size, const std::string& device = "");
const Node* buffer(Graph& g,
                   int64_t slot,
                   DType t,
                   int64_t size,
                   AddrSpace space,
                   const std::string& device,
                   const std::string& name = "");
const Node* sink(Graph& g, std::span<const Node* const> roots, Arg arg = {});

// ALU: result type from the operands (compare -> bool; weak adapts to its partner; else least_upper
// without inserting casts: both operands must already agree).
const Node* alu(Graph& g, Op op, std::span<const Node* const> src);
inline const Node* alu(Graph& g, Op op, std::initializer_list<const Node*> src) {
  return alu(g, op, std::span<const Node* const>(src.begin(), src.size()));
}
inline const Node* add(Graph& g, const Node* a, const Node* b) {
  return alu(g, Op::kAdd, {a, b});
}
inline const Node* mul(Graph& g, const Node* a, const Node* b) {
  return alu(g, Op::kMul, {a, b});
}
inline const Node* lt(Graph& g, const Node* a, const Node* b) {
  return alu(g, Op::kCmpLt, {a, b});
}
inline const Node* land(Graph& g, const Node* a, const Node* b) {
  return alu(g, Op::kAnd, {a, b});
}
inline const Node* where(Graph& g, const Node* c, const Node* a, const Node* b) {
  return alu(g, Op::kWhere, {c, a, b});
}
const Node* logical_not(Graph& g, const Node* c);
const Node* cast(Graph& g, const Node* n, DType t);
const Node* add_const(Graph& g, const Node* a, int64_t c);
const Node* mul_const(Graph& g, const Node* a, int64_t c);

// ---- queries ----
inline bool is_const(const Node* n) {
  return n->op == Op::kConst;
}
inline bool is_invalid(const Node* n) {
  return n->op == Op::kConst && n->has<Invalid>();
}
std::optional<int64_t> int_value(const Node* n);  // Const int or bool
std::optional<double> num_value(const Node* n);   // Const int, bool or float
bool is_int_const(const Node* n, int64_t v);

// Nodes below root, sources first, each once, in first-visit order (left to right). Does not enter
// CALL/FUNCTION bodies unless asked. `stop`: nodes for which it returns true are listed but not
// descended into.
NodeVec toposort(const Node* root, bool enter_calls = false);
template <class Stop>
NodeVec toposort_until(const Node* root, Stop stop, bool enter_calls = false);

// Total, deterministic, structural order: op, dtype, argument, source count, then sources' content
// keys.
bool structural_less(const Node* a, const Node* b);

}  // namespace modeld::ir

#include "runtime/ir/graph_inl.h"
