// schedule: a new order of the lines inside each block that keeps few values alive. Every line that
// must happen (stores, accumulator updates, values that other blocks read) pulls in what it needs
// just before it; updates of many accumulators go step by step through all of them, so that what
// a step loads is used up before the next. Contract: order of accesses to one accumulator, and of
// loads and stores of a buffer that the kernel writes, does not change. Threading: pure.
#pragma once

#include "runtime/isa/machine.h"

namespace modeld::isa {

void schedule(Function& f);

}  // namespace modeld::isa
