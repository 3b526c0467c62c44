// Patterns of random programs that go wrong easily, each put into a program at a random place with
// random shapes: reads across writes, overlapping views, refusals made on purpose, variables with
// several values. Contract: as GraphBuilder; false: a realize that may be refused was put in.
// Threading: one thread.
#pragma once

#include "selftest/fuzz/graph_builder.h"

namespace modeld::fuzz {

bool random_pattern(GraphBuilder& b);

// A write into some buffer, through a view of it more often than not, of something that reads the
// same buffer more often than chance would have it.
void random_assign(GraphBuilder& b);
// A bound scalar; the same few names everywhere, so that values meet.
size_t random_variable(GraphBuilder& b);

}  // namespace modeld::fuzz
