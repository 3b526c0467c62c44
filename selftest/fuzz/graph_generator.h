// Random tensor programs: chains of movement, arithmetic and reduces with writes in between, values
// asked for in random subsets and orders. Beside what chance makes, some programs hold a pattern
// that goes wrong easily: a read that crosses a write, a write through an overlapping view, a
// cycle, a forgotten tensor, one graph with several values of a variable, a chain over devices.
// Contract: a pure function of the generator's state; every step fits and every value is exact
// (graph_exact.h). Threading: one thread.
#pragma once

#include "selftest/fuzz/fuzz_main.h"
#include "selftest/fuzz/graph_program.h"

namespace modeld::fuzz {

Program generate_graph(Rng& rng);

}  // namespace modeld::fuzz
