// --self-proof of graph-fuzz: deliberate defects, planted into what one stage hands to the next,
// one at a time; random programs must find each. Contract: the number of defects found is printed;
// 0 if all were, else 1. Threading: one thread.
#pragma once

#include <cstdint>

namespace modeld::fuzz {

int run_self_proof(uint64_t seed);

}  // namespace modeld::fuzz
