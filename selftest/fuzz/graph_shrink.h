// Makes a failing random program small: steps are taken out, values replaced by memory that holds
// them, as long as the same kind of finding stays. Contract: the result still fails; at most
// `limit` tries. Threading: one thread.
#pragma once

#include <functional>

#include "selftest/fuzz/graph_program.h"

namespace modeld::fuzz {

using StillFails = std::function<bool(const Program&)>;

Program shrink(Program program, const StillFails& still_fails, int limit = 600);

}  // namespace modeld::fuzz
