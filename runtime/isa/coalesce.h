// coalesce: accumulators without copies. A read of an accumulator becomes the accumulator itself
// while nobody writes it, and what is written to it is computed in its register. Lines whose result
// nobody reads go. Contract: lines of to_lines in, the same meaning out. Threading: pure.
#pragma once

#include "runtime/isa/machine.h"

namespace modeld::isa {

void coalesce(Function& f);

}  // namespace modeld::isa
