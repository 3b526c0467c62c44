// Rewriting: rule tables bucketed by op, and the three drivers (pipeline hand-book 1.5).
// A rule gets the node and returns a replacement, or nullptr / the same node for "no match". The
// first rule that returns a different node wins. Rule order is semantics. Rules may latch an error
// with g.fail(); drivers stop at once.
#pragma once

#include <array>
#include <functional>
#include <initializer_list>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/ir/graph.h"

namespace modeld::ir {

using Action = std::function<const Node*(Graph&, const Node*)>;

struct Rule {
  std::string name;
  OpSet need_src;  // early reject: every op here must be among the node's direct sources
  Action action;
};

class RuleSet {
 public:
  RuleSet& on(std::initializer_list<Op> ops, std::string name, Action action, OpSet need_src = {});
  RuleSet& on(const OpSet& ops, std::string name, Action action, OpSet need_src = {});
  RuleSet& append(const RuleSet& other);             // other's rules after ours
  const Node* apply(Graph& g, const Node* n) const;  // nullptr = nothing matched

 private:
  std::vector<Rule> rules_;
  std::array<std::vector<uint32_t>, kOpCount> by_op_;
};

struct RewriteOptions {
  bool enter_calls = false;  // also rewrite bodies of CALL / FUNCTION
};

// Fixpoint, children first: sources, rebuild, rules; a changed node is processed again. Result is
// fully normalised.
const Node* rewrite(Graph& g, const Node* root, const RuleSet& rules, RewriteOptions options = {});
// Fixpoint, node first: rules on the node until stable, then descend.
const Node* rewrite_node_first(Graph& g,
                               const Node* root,
                               const RuleSet& rules,
                               RewriteOptions options = {});
// Each original node once, children first; the replacement is taken as is, never re-entered.
const Node* rewrite_walk(Graph& g,
                         const Node* root,
                         const RuleSet& rules,
                         RewriteOptions options = {});

using NodeMap = std::unordered_map<const Node*, const Node*>;
// Plain map old -> new in walk mode: replacements are not re-entered, keys are matched on ORIGINAL
// nodes.
const Node* substitute(Graph& g, const Node* root, const NodeMap& map, RewriteOptions options = {});

}  // namespace modeld::ir
