#include "runtime/ir/graph.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "hal/base/check.h"

#include "runtime/ir/memo.h"

namespace modeld::ir {
namespace {

constexpr size_t kBlockBytes = size_t{1} << 18;

Hash128 node_key(Op op, DType dtype, Hash128 arg, std::span<const Node* const> src) {
  uint64_t small[64];
  std::vector<uint64_t> large;
  const size_t words = 3 + 2 * src.size();
  uint64_t* w = small;
  if (words > std::size(small)) {
    large.resize(words);
    w = large.data();
  }
  w[0] = static_cast<uint64_t>(op) << 8 | static_cast<uint64_t>(dtype);
  w[1] = arg.lo;
  w[2] = arg.hi;
  for (size_t i = 0; i < src.size(); ++i) {
    w[3 + 2 * i] = src[i]->key.lo;
    w[4 + 2 * i] = src[i]->key.hi;
  }
  return xxh128(std::as_bytes(std::span<const uint64_t>(w, words)));
}

}  // namespace

Graph::Graph() : memo_(std::make_unique<Memo>()) {
  table_.resize(1024, nullptr);
}
Graph::~Graph() = default;

void* Graph::allocate(size_t bytes) {
  bytes = (bytes + 15) & ~size_t{15};
  if (bytes > block_left_) {
    const size_t size = std::max(bytes, kBlockBytes);
    blocks_.push_back(std::make_unique<std::byte[]>(size));
    block_next_ = blocks_.back().get();
    block_left_ = size;
  }
  void* p = block_next_;
  block_next_ += bytes;
  block_left_ -= bytes;
  return p;
}

const Arg* Graph::intern_arg(Arg arg, Hash128* hash) {
  std::string text = arg_text(arg);
  auto it = arg_index_.find(text);
  if (it == arg_index_.end()) {
    args_.push_back(std::move(arg));
    const Hash128 h = xxh128(text);
    it = arg_index_.emplace(std::move(text), std::make_pair(&args_.back(), h)).first;
    arg_hash_.emplace(&args_.back(), h);
  }
  *hash = it->second.second;
  return it->second.first;
}

void Graph::grow_table() {
  std::vector<const Node*> bigger(table_.size() * 2, nullptr);
  const size_t mask = bigger.size() - 1;
  for (const Node* n : table_) {
    if (n == nullptr) continue;
    size_t at = (n->key.lo ^ n->tag * 0x9e3779b97f4a7c15ULL) & mask;
    while (bigger[at] != nullptr) at = (at + 1) & mask;
    bigger[at] = n;
  }
  table_ = std::move(bigger);
}

const Node* Graph::intern(Op op,
                          DType dtype,
                          std::span<const Node* const> src,
                          const Arg* arg,
                          Hash128 arg_hash,
                          uint32_t tag) {
  const Hash128 key = node_key(op, dtype, arg_hash, src);
  const size_t mask = table_.size() - 1;
  size_t at = (key.lo ^ tag * 0x9e3779b97f4a7c15ULL) & mask;
  for (; table_[at] != nullptr; at = (at + 1) & mask) {
    const Node* n = table_[at];
    if (n->key == key && n->tag == tag && n->op == op && n->dtype == dtype && n->arg == arg &&
        n->nsrc == src.size() && std::equal(src.begin(), src.end(), n->srcs)) {
      return n;
    }
  }
  const Node** srcs = nullptr;
  if (!src.empty()) {
    srcs = static_cast<const Node**>(allocate(src.size_bytes()));
    std::copy(src.begin(), src.end(), srcs);
  }
  OpSet child_ops;
  for (const Node* s : src) child_ops.add(s->op);
  Node* n = new (allocate(sizeof(Node))) Node{
      op, dtype, tag, next_id_++, static_cast<uint32_t>(src.size()), srcs, arg, key, child_ops};
  table_[at] = n;
  if (++table_used_ * 2 > table_.size()) grow_table();
  return n;
}

const Node* Graph::make(
    Op op, DType dtype, std::span<const Node* const> src, Arg arg, uint32_t tag) {
  Hash128 hash;
  const Arg* interned = intern_arg(std::move(arg), &hash);
  return intern(op, dtype, src, interned, hash, tag);
}

const Node* Graph::with_src(const Node* n, std::span<const Node* const> src) {
  return intern(n->op, n->dtype, src, n->arg, arg_hash_.at(n->arg), n->tag);
}

const Node* Graph::with_tag(const Node* n, uint32_t tag) {
  return intern(n->op, n->dtype, n->src(), n->arg, arg_hash_.at(n->arg), tag);
}

const Node* Graph::with_arg(const Node* n, Arg arg) {
  return make(n->op, n->dtype, n->src(), std::move(arg), n->tag);
}

const Node* Graph::import(const Node* foreign) {
  std::unordered_map<const Node*, const Node*> map;
  NodeVec src;
  for (const Node* n : toposort(foreign, true)) {
    src.clear();
    for (const Node* s : n->src()) src.push_back(map.at(s));
    map[n] = make(n->op, n->dtype, src, *n->arg, n->tag);
    if (n->has<RangeArg>()) reserve_fresh(n->as<RangeArg>().id);
    if (n->has<ParamArg>() && n->op == Op::kBuffer) reserve_fresh(n->as<ParamArg>().slot);
  }
  return map.at(foreign);
}

void Graph::fail(Errc code, std::string what) {
  if (error_) return;
  error_ = std::make_unique<Error>();
  error_->code = code;
  error_->what = std::move(what);
}

void Graph::fail(Fault fault, std::string what) {
  if (error_) return;
  error_ = std::make_unique<Error>(fault_error(fault, std::move(what)));
}

Status Graph::status() const {
  if (error_) return ::modeld::fail(*error_);
  return {};
}

// ---- builders ----

const Node* const_of(Graph& g, DType t, double v) {
  if (t == DType::kBool) return g.make(Op::kConst, t, {}, v != 0);
  if (is_float(t)) return g.make(Op::kConst, t, {}, round_to(t, v));
  return g.make(Op::kConst, t, {}, wrap_to(t, static_cast<int64_t>(v)));
}

const Node* const_int(Graph& g, int64_t v, DType t) {
  if (t == DType::kBool) return g.make(Op::kConst, t, {}, v != 0);
  if (is_float(t)) return g.make(Op::kConst, t, {}, round_to(t, static_cast<double>(v)));
  return g.make(Op::kConst, t, {}, wrap_to(t, v));
}

const Node* const_float(Graph& g, double v, DType t) {
  return const_of(g, t, v);
}
const Node* const_bool(Graph& g, bool v) {
  return g.make(Op::kConst, DType::kBool, {}, v);
}
const Node* const_invalid(Graph& g, DType t) {
  return g.make(Op::kConst, t, {}, Invalid{});
}

const Node* range(Graph& g, int64_t bound, int64_t id, AxisType type) {
  return g.make(Op::kRange, DType::kWeakInt, {const_int(g, bound)}, RangeArg{id, type});
}

const Node* shape_node(Graph& g, std::span<const int64_t> dims) {
  NodeVec src;
  for (int64_t d : dims) src.push_back(const_int(g, d));
  return g.make(Op::kStack, src.empty() ? DType::kVoid : DType::kWeakInt, src);
}

const Node* variable(Graph& g, const std::string& name, int64_t vmin, int64_t vmax, DType t) {
  ParamArg arg;
  arg.addrspace = AddrSpace::kAlu;
  arg.name = name;
  arg.vmin = vmin;
  arg.vmax = vmax;
  return g.make(Op::kParam, t, {shape_node(g, {})}, std::move(arg));
}

const Node* param(Graph& g, int64_t slot, DType t, int64_t size, const std::string& device) {
  ParamArg arg;
  arg.slot = slot;
  arg.device = device;
  return g.make(Op::kParam, t, {const_int(g, size)}, std::move(arg));
}

const Node* buffer(Graph& g,
                   int64_t slot,
                   DType t,
                   int64_t size,
                   AddrSpace space,
                   const std::string& device,
                   const std::string& name) {
  ParamArg arg;
  arg.slot = slot;
  arg.addrspace = space;
  arg.device = device;
  arg.name = name;
  return g.make(Op::kBuffer, t, {const_int(g, size)}, std::move(arg));
}

const Node* sink(Graph& g, std::span<const Node* const> roots, Arg arg) {
  return g.make(Op::kSink, DType::kVoid, roots, std::move(arg));
}

const Node* cast(Graph& g, const Node* n, DType t) {
  if (n->dtype == t) return n;
  // Literals change type in place; the rest is a node.
  if (n->op == Op::kConst && is_weak(n->dtype) && !n->has<Invalid>()) {
    if (n->has<int64_t>()) return const_int(g, n->as<int64_t>(), t);
    if (n->has<double>() && is_float(t)) return const_of(g, t, n->as<double>());
  }
  if (is_invalid(n)) return const_invalid(g, t);
  return g.make(Op::kCast, t, {n});
}

namespace {

// The common type of ALU operands: concrete types must agree, weak ones adapt.
DType common_type(Graph& g, Op op, std::span<const Node* const> src) {
  DType t = src[0]->dtype;
  for (const Node* s : src.subspan(1)) {
    if (s->dtype == t || is_invalid(s)) continue;
    if (is_invalid(src[0]) && src.size() > 1) {
      t = s->dtype;
      continue;
    }
    const bool weak = is_weak(s->dtype) || is_weak(t);
    if (!weak) {
      g.fail(Errc::kInvalid, strf("alu %s: operands are %s and %s, cast one first", op_name(op),
                                  dtype_name(t), dtype_name(s->dtype)));
      return t;
    }
    t = least_upper(t, s->dtype);
    const bool both_weak = is_weak(s->dtype) && is_weak(src[0]->dtype);
    if (t == DType::kWeakFloat && !both_weak) t = DType::kF32;
  }
  return t;
}

}  // namespace

const Node* alu(Graph& g, Op op, std::span<const Node* const> src) {
  NodeVec s(src.begin(), src.end());
  const size_t first = op == Op::kWhere ? 1 : 0;
  const bool shift = op == Op::kShl || op == Op::kShr;
  const std::span<const Node* const> typed =
      std::span<const Node* const>(s).subspan(first, shift ? 1 : s.size() - first);
  const DType t = common_type(g, op, typed);
  for (size_t i = first; i < first + typed.size(); ++i) s[i] = cast(g, s[i], t);
  if (shift) s[1] = cast(g, s[1], t);
  return g.make(op, kComparisonOps.has(op) ? DType::kBool : t, s);
}

const Node* logical_not(Graph& g, const Node* c) {
  return alu(g, Op::kCmpNe, {c, const_bool(g, true)});
}
const Node* add_const(Graph& g, const Node* a, int64_t c) {
  return c == 0 ? a : add(g, a, const_int(g, c, a->dtype));
}
const Node* mul_const(Graph& g, const Node* a, int64_t c) {
  return c == 1 ? a : mul(g, a, const_int(g, c, a->dtype));
}

// ---- queries ----

std::optional<int64_t> int_value(const Node* n) {
  if (n->op != Op::kConst) return std::nullopt;
  if (n->has<int64_t>()) return n->as<int64_t>();
  if (n->has<bool>()) return n->as<bool>() ? 1 : 0;
  return std::nullopt;
}

std::optional<double> num_value(const Node* n) {
  if (n->op != Op::kConst) return std::nullopt;
  if (n->has<double>()) return n->as<double>();
  if (auto v = int_value(n)) return static_cast<double>(*v);
  return std::nullopt;
}

bool is_int_const(const Node* n, int64_t v) {
  const auto value = int_value(n);
  return value && *value == v;
}

NodeVec toposort(const Node* root, bool enter_calls) {
  return toposort_until(
      root, [](const Node*) { return false; }, enter_calls);
}

namespace {

int compare_args(const Arg& a, const Arg& b) {
  if (&a == &b) return 0;
  if (a.index() != b.index()) return a.index() < b.index() ? -1 : 1;
  auto order = [](auto x, auto y) { return x < y ? -1 : (y < x ? 1 : 0); };
  if (const auto* x = std::get_if<int64_t>(&a)) return order(*x, std::get<int64_t>(b));
  if (const auto* x = std::get_if<RangeArg>(&a)) {
    const auto& y = std::get<RangeArg>(b);
    const int by_type = order(axis_position(x->type), axis_position(y.type));
    return by_type != 0 ? by_type : order(x->id, y.id);
  }
  if (const auto* x = std::get_if<ParamArg>(&a)) {
    const int by_slot = order(x->slot, std::get<ParamArg>(b).slot);
    if (by_slot != 0) return by_slot;
  }
  return arg_text(a).compare(arg_text(b));
}

}  // namespace

bool structural_less(const Node* a, const Node* b) {
  if (a == b) return false;
  if (a->op != b->op) return a->op < b->op;
  if (a->dtype != b->dtype) return a->dtype < b->dtype;
  if (const int c = compare_args(*a->arg, *b->arg); c != 0) return c < 0;
  if (a->nsrc != b->nsrc) return a->nsrc < b->nsrc;
  for (uint32_t i = 0; i < a->nsrc; ++i) {
    if (a->src(i)->key != b->src(i)->key) {
      // One level of the sources' own order first, so that related terms stand together; then the
      // keys decide.
      const Node* x = a->src(i);
      const Node* y = b->src(i);
      if (x->op != y->op) return x->op < y->op;
      if (const int c = compare_args(*x->arg, *y->arg); c != 0) return c < 0;
      return x->key.hi != y->key.hi ? x->key.hi < y->key.hi : x->key.lo < y->key.lo;
    }
  }
  return a->tag < b->tag;
}

}  // namespace modeld::ir
