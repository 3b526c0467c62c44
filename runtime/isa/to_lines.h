// to_lines: ordered INS nodes to lines over virtual registers. RANGE becomes counter = 0 and a
// loop head, END its end, AFTER another name of its value, a register buffer's elements virtual
// registers of their own. Contract: every INS mnemonic must be known, every other op one of
// those named; else kUnsupported naming it. Threading: pure.
#pragma once

#include <span>
#include <string>

#include "hal/base/status.h"

#include "runtime/ir/graph.h"
#include "runtime/isa/instruction_set.h"
#include "runtime/isa/machine.h"

namespace modeld::isa {

Result<Function> to_lines(ir::Graph& g,
                          std::span<const ir::Node* const> linear,
                          const std::string& name,
                          const InstructionSet& set);

}  // namespace modeld::isa
