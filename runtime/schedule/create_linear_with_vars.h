// create_linear_with_vars: CALL(SINK(stores), args) -> LINEAR of kernel calls on real buffers, and
// the values of the bound variables those kernels use. Needs transform_to_call's CALL. Contract:
// two values for one variable name is kBindMismatch; bindings no kernel uses are ignored; a missing
// value is not an error here (launching reports it). While a capturer is active the LINEAR goes to
// it and an empty one comes back, so that nobody plans memory for it or runs it. Threading: one
// thread per Graph.
#pragma once

#include <cstdint>

#include "hal/base/status.h"

#include "runtime/ir/graph.h"
#include "runtime/schedule/capture.h"
#include "runtime/schedule/options.h"

namespace modeld::schedule {

struct LinearWithVars {
  const ir::Node* linear = nullptr;
  VarBinds vars;
};

// AFTER(variable, STORE(variable, const)); a value outside of the variable's interval is
// kBindRange, one that is not a multiple of its multiple_of kBindMultiple.
Result<const ir::Node*> bind(ir::Graph& g, const ir::Node* variable, int64_t value);
bool is_variable(const ir::Node* n);        // ALU PARAM
bool is_bound_variable(const ir::Node* n);  // AFTER(variable, STORE(variable, const))
int64_t bound_value(const ir::Node* n);     // of a bound variable

Result<LinearWithVars> create_linear_with_vars(ir::Graph& g,
                                               const ir::Node* call,
                                               const ScheduleOptions& options = {},
                                               const Capture& capture = {});

}  // namespace modeld::schedule
