// The arenas over time as an SVG picture: one lane below the other, in each lane one panel per
// entry; x is the call, y the offset; one rectangle per buffer, its tooltip names the kernels that
// write and read it; the black line is the bytes alive, dashed their peak. Contract: well-formed
// XML, one element with class "buffer" per use; the same plan gives the same bytes. Units: bytes
// and calls in, pixels out. Threading: pure function.
#pragma once

#include <span>
#include <string>

#include "runtime/exec/plan.h"

namespace modeld::tools {

std::string arena_svg(const exec::Plan& plan, std::span<const exec::ArenaUse> uses);

}  // namespace modeld::tools
