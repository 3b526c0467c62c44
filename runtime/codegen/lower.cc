#include "runtime/codegen/lower.h"

#include <cstring>
#include <vector>

#include "runtime/codegen/graph_util.h"
#include "runtime/codegen/passes.h"
#include "runtime/ir/spec.h"

namespace modeld::codegen {

namespace {

// THE order of kernel lowering. Numbers are pipeline hand-book 7.1's. Its row 10 is two rows here,
// and the local half of it (10a) and row 11 stand before 9: while UPCAST axes are still ranges, a
// lane is an ordinary coordinate of the local tile. 14 (devectorise) has no work of its own: the
// expander writes lanes as scalars.
constexpr KernelPass kPasses[] = {
    {"multi_resolve", "1: tiles of threads become local before any index math", multi_resolve,
     false},
    {"early_movement", "2: views become index math before anything looks at indices",
     early_movement, false},
    {"load_collapse", "3: must see whole reduces, so before ranges split", load_collapse, true},
    {"split_ranges", "4: exposes inner axes before opts choose among axes", split_ranges, true},
    {"initial_symbolic", "5: simplify_ranges counts divisions in canonical index math",
     initial_symbolic, true},
    {"simplify_ranges", "6: fewer loops before axes are numbered for opts", simplify_ranges, true},
    {"apply_opts", "7: needs clean ranges", apply_opts, true},
    {"post_opt_symbolic", "8: a REDUCE that folds to a constant must go before the expander",
     post_opt_symbolic, false},
    {"merge_ends", "10: loops are shared or cloned while reduces are still values", merge_ends,
     false},
    {"group_reduces", "10a: a reduce shared by a group splits while its lanes are still axes",
     group_reduces, false},
    {"add_local_buffers", "11: local tiles are memory before anything closes their axes",
     add_local_buffers, false},
    {"expander", "9: UPCAST/UNROLL become lanes before reduces become loops", expander, false},
    {"remove_reduces", "10b: accumulators are memory from here", remove_reduces, false},
    {"add_gpudims", "12: hardware indices before address math is multiplied by lanes", add_gpudims,
     false},
    {"add_loads", "13: loads explicit before they are grouped", add_loads, false},
    {"early_symbolic", "15: memory_coalescing misses groups without it", early_symbolic, false},
    {"memory_coalescing", "16: scalar accesses into vectors while offsets are visible",
     memory_coalescing, false},
    {"pack_lanes",
     "16b: vector arithmetic between the vector accesses just made; everything "
     "after it handles fewer nodes",
     pack_lanes, false},
    {"images", "17: whole pixels are visible as vectors, index math still divides exactly", images,
     false},
    {"extra_symbolic", "18: last moment index math is mathematical", extra_symbolic, false},
    {"lower_index_dtypes", "19: needs the gates still inside the index to narrow",
     lower_index_dtypes, false},
    {"final_symbolic", "20: last generic simplification", final_symbolic, false},
    {"cast_float_operands", "21: late_decomp asserts float operands", cast_float_operands, false},
    {"early_decomp", "22: floor to truncating division, the one conversion point", early_decomp,
     false},
    {"dtype_decomp", "23: before late_decomp, which writes bit code for the type it sees",
     dtype_decomp, false},
    {"long_decomp", "23b: 64-bit integers as words, before late_decomp writes shifts for the words",
     long_decomp, false},
    {"late_decomp", "24: only ops the renderer has are left", late_decomp, false},
    {"move_gates", "25: address and gate apart, after nothing moves addresses any more", move_gates,
     false},
    {"final_rewrite", "26: nested single-range ENDs; renderer rules last", final_rewrite, false},
    {"casted_consts", "27: one spelling of literals, when no rule looks at them", casted_consts,
     false},
    {"implicit_barriers", "28: all loads and stores are final, loops not yet ordered",
     implicit_barriers, false},
    {"control_flow", "29: loops ordered once memory order is final", control_flow, false},
    {"number_params", "30: argument numbers once every variable exists", number_params, false},
};

Status no_spec(ir::Graph&, const ir::Node*) {
  return {};
}

// Range ids made later must not meet those that are there.
void reserve_ids(ir::Graph& g, const ir::Node* root) {
  for (const ir::Node* n : ir::toposort(root)) {
    if (n->op == ir::Op::kRange) g.reserve_fresh(n->as<ir::RangeArg>().id);
    if (n->op == ir::Op::kBuffer) g.reserve_fresh(n->as<ir::ParamArg>().slot);
  }
}

}  // namespace

std::span<const KernelPass> kernel_passes() {
  return kPasses;
}

Result<const ir::Node*> run_kernel_passes(ir::Graph& g,
                                          const ir::Node* ast,
                                          const CodegenOptions& options,
                                          bool optimize,
                                          const char* last,
                                          const pass::RunOptions& run) {
  std::vector<pass::Pass> table;
  for (const KernelPass& p : kPasses) {
    if (!p.optimize_only || optimize) {
      const auto fn = [&options, p](ir::Graph& graph,
                                    const ir::Node* root) -> Result<const ir::Node*> {
        const ir::Node* out = p.fn(graph, root, options);
        RETURN_IF_ERROR(graph.status());
        // These number ranges anew; two of one number and size would be one node.
        if (p.optimize_only) reserve_ids(graph, out);
        return out;
      };
      table.push_back({p.name, p.why, fn, no_spec});
    }
    if (last != nullptr && std::strcmp(p.name, last) == 0) break;
  }
  reserve_ids(g, ast);
  return pass::run_passes(g, ast, table, run);
}

Result<const ir::Node*> full_rewrite_to_sink(ir::Graph& g,
                                             const ir::Node* ast,
                                             const CodegenOptions& options,
                                             bool optimize,
                                             const std::string& label) {
  if (options.spec > 0) RETURN_IF_ERROR(ir::verify_kernel(g, ast));  // 0
  pass::RunOptions run;
  run.label = label;
  ASSIGN_OR_RETURN(const ir::Node* sink,
                   run_kernel_passes(g, ast, options, optimize, nullptr, run));
  if (options.spec > 0) RETURN_IF_ERROR(ir::verify_program(g, sink));  // 31
  return sink;
}

}  // namespace modeld::codegen
