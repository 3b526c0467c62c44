#include "runtime/ir/rewrite.h"

#include <memory>

namespace modeld::ir {
namespace {

constexpr size_t kStackLimit = 250000;
// A chain of replacements of one node longer than this is a rule pair that undoes itself.
constexpr int kChainLimit = 1000;

bool skips_body(const Node* n, const RewriteOptions& o) {
  return !o.enter_calls && (n->op == Op::kCall || n->op == Op::kFunction);
}

// Result per node of one rewrite, dense by id. Tables are reused with an epoch per rewrite, so that
// a small rewrite in a large arena pays only for the nodes it visits; nested rewrites (rules that
// rewrite) take a table each.
class Done {
 public:
  Done() : table_(take()) { ++table_->epoch; }
  ~Done() { pool().push_back(std::move(table_)); }
  Done(const Done&) = delete;
  Done& operator=(const Done&) = delete;

  const Node* get(const Node* n) const {
    if (n->id >= table_->rows.size()) return nullptr;
    const Row& r = table_->rows[n->id];
    return r.epoch == table_->epoch ? r.result : nullptr;
  }
  void set(const Node* n, const Node* result) {
    std::vector<Row>& rows = table_->rows;
    if (rows.size() <= n->id) rows.resize(static_cast<size_t>(n->id) * 3 / 2 + 64);
    rows[n->id] = {result, table_->epoch};
  }

 private:
  struct Row {
    const Node* result = nullptr;
    uint64_t epoch = 0;
  };
  struct Table {
    std::vector<Row> rows;
    uint64_t epoch = 0;
  };
  static std::vector<std::unique_ptr<Table>>& pool() {
    thread_local std::vector<std::unique_ptr<Table>> tables;
    return tables;
  }
  static std::unique_ptr<Table> take() {
    if (pool().empty()) return std::make_unique<Table>();
    std::unique_ptr<Table> t = std::move(pool().back());
    pool().pop_back();
    return t;
  }
  std::unique_ptr<Table> table_;
};

// Rebuilds n with the results of its sources. Most nodes stay as they are: nothing is allocated for
// those.
const Node* rebuild(Graph& g, const Node* n, const Done& done, const RewriteOptions& o) {
  size_t i = skips_body(n, o) ? 1 : 0;
  while (i < n->nsrc && done.get(n->src(i)) == n->src(i)) ++i;
  if (i >= n->nsrc) return n;
  NodeVec src(n->src().begin(), n->src().end());
  for (; i < src.size(); ++i) src[i] = done.get(src[i]);
  return g.with_src(n, src);
}

// One entry of the work stack. `current` is what `node` has become so far.
struct Work {
  const Node* node;
  const Node* current;
  bool children_done;
  int replacements = 0;
};

bool push_children(
    Graph& g, const Node* n, const Done& done, const RewriteOptions& o, std::vector<Work>& stack) {
  bool all_done = true;
  for (size_t i = n->nsrc; i-- > (skips_body(n, o) ? 1U : 0U);) {
    if (done.get(n->src(i)) != nullptr) continue;
    stack.push_back({n->src(i), n->src(i), false});
    all_done = false;
  }
  if (stack.size() > kStackLimit)
    g.fail(Fault::kRewriteLoop, "rewrite: work stack above 250000 entries, rules do not terminate");
  return all_done;
}

const Node* first_match(Graph& g, const Node* n, const RuleSet& rules) {
  const Node* r = rules.apply(g, n);
  return r == n ? nullptr : r;
}

}  // namespace

RuleSet& RuleSet::on(const OpSet& ops, std::string name, Action action, OpSet need_src) {
  const auto index = static_cast<uint32_t>(rules_.size());
  rules_.push_back({std::move(name), need_src, std::move(action)});
  for (int i = 0; i < kOpCount; ++i) {
    if (ops.has(static_cast<Op>(i))) by_op_[static_cast<size_t>(i)].push_back(index);
  }
  return *this;
}

RuleSet& RuleSet::on(std::initializer_list<Op> ops,
                     std::string name,
                     Action action,
                     OpSet need_src) {
  return on(OpSet(ops), std::move(name), std::move(action), need_src);
}

RuleSet& RuleSet::append(const RuleSet& other) {
  const auto shift = static_cast<uint32_t>(rules_.size());
  rules_.insert(rules_.end(), other.rules_.begin(), other.rules_.end());
  for (size_t op = 0; op < by_op_.size(); ++op) {
    for (uint32_t i : other.by_op_[op]) by_op_[op].push_back(i + shift);
  }
  return *this;
}

const Node* RuleSet::apply(Graph& g, const Node* n) const {
  for (uint32_t i : by_op_[static_cast<size_t>(n->op)]) {
    const Rule& rule = rules_[i];
    if (!n->child_ops.contains_all(rule.need_src)) continue;
    const Node* r = rule.action(g, n);
    if (g.failed()) return nullptr;
    if (r != nullptr && r != n) return r;
  }
  return nullptr;
}

const Node* rewrite(Graph& g, const Node* root, const RuleSet& rules, RewriteOptions o) {
  Done done;
  std::vector<Work> stack{{root, root, false}};
  // A node is settled once its sources are and no rule matches. A replacement takes its place on
  // the stack, and the original maps to the settled replacement.
  while (!stack.empty() && !g.failed()) {
    Work& w = stack.back();
    if (done.get(w.node) != nullptr) {
      stack.pop_back();
      continue;
    }
    if (const Node* known = done.get(w.current); w.current != w.node && known != nullptr) {
      done.set(w.node, known);
      stack.pop_back();
      continue;
    }
    if (!w.children_done) {
      w.children_done = true;
      const Node* n = w.current;
      push_children(g, n, done, o, stack);
      continue;
    }
    const Node* built = rebuild(g, w.current, done, o);
    if (built != w.current) {
      if (const Node* known = done.get(built)) {
        done.set(w.current, known);
        done.set(w.node, known);
        stack.pop_back();
        continue;
      }
    }
    const Node* replaced = first_match(g, built, rules);
    if (replaced == nullptr) {
      done.set(built, built);
      done.set(w.current, built);
      done.set(w.node, built);
      stack.pop_back();
      continue;
    }
    w.current = replaced;
    w.children_done = false;
    if (++w.replacements > kChainLimit) {
      g.fail(Fault::kRewriteLoop, strf("rewrite: node %s does not settle after %d replacements",
                                       op_name(replaced->op), kChainLimit));
    }
  }
  if (g.failed()) return root;
  return done.get(root);
}

const Node* rewrite_node_first(Graph& g, const Node* root, const RuleSet& rules, RewriteOptions o) {
  Done done;
  std::vector<Work> stack{{root, root, false}};
  while (!stack.empty() && !g.failed()) {
    Work& w = stack.back();
    if (done.get(w.node) != nullptr) {
      stack.pop_back();
      continue;
    }
    if (!w.children_done) {
      w.children_done = true;
      const Node* n = w.node;
      int chain = 0;
      while (const Node* r = first_match(g, n, rules)) {
        n = r;
        if (++chain > kChainLimit) {
          g.fail(Fault::kRewriteLoop, strf("rewrite: node %s does not settle after %d replacements",
                                           op_name(n->op), chain));
          return root;
        }
      }
      w.current = n;
      // Only sources of the settled form are visited.
      push_children(g, n, done, o, stack);
      continue;
    }
    const Node* built = rebuild(g, w.current, done, o);
    done.set(w.node, built);
    if (done.get(w.current) == nullptr) done.set(w.current, built);
    stack.pop_back();
  }
  if (g.failed()) return root;
  return done.get(root);
}

const Node* rewrite_walk(Graph& g, const Node* root, const RuleSet& rules, RewriteOptions o) {
  Done done;
  for (const Node* n : toposort(root, o.enter_calls)) {
    const Node* built = rebuild(g, n, done, o);
    const Node* r = first_match(g, built, rules);
    if (g.failed()) return root;
    done.set(n, r != nullptr ? r : built);
  }
  return done.get(root);
}

const Node* substitute(Graph& g, const Node* root, const NodeMap& map, RewriteOptions o) {
  Done done;
  // Below a key nothing needs rebuilding.
  const NodeVec order = toposort_until(
      root, [&](const Node* n) { return map.contains(n); }, o.enter_calls);
  for (const Node* n : order) {
    const auto it = map.find(n);
    done.set(n, it != map.end() ? it->second : rebuild(g, n, done, o));
  }
  return done.get(root);
}

}  // namespace modeld::ir
