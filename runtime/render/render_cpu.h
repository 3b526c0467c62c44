// render_cpu: ordered instructions -> one C function for the CPU (clang, vector extensions), and
// the typedef prelude its translation unit needs once. This is not a compiler.
// Contract: the function is `void NAME(const unsigned long long* a, unsigned core_id)`; buffer
// argument i is the address a[i], scalar variable i is the word a[i]. The text depends only on
// (target, instructions, name) and calls no library: compile it with kCpuSourceFlags.
// Threading: pure functions.
#pragma once

#include <span>
#include <string>

#include "hal/base/status.h"
#include "hal/target.h"

#include "runtime/ir/graph.h"
#include "runtime/render/renderer.h"

namespace modeld::render {

// Flags the text relies on: wrapped integers are spelled out, so -fwrapv is not needed; errno-free
// square roots and no loop-to-memcpy idiom are.
inline constexpr const char* kCpuSourceFlags =
    "-std=gnu11 -ffreestanding -fno-builtin -fno-math-errno -ffp-contract=on "
    "-fno-stack-protector -fno-asynchronous-unwind-tables";

// Typedefs and helpers, once per translation unit, before any function.
std::string cpu_prelude(const hal::Target& target);

Result<std::string> render_cpu(const hal::Target& target,
                               ir::Graph& g,
                               std::span<const ir::Node* const> linear,
                               const std::string& name);

// The two above as one value.
Renderer cpu_renderer(const hal::Target& target);

}  // namespace modeld::render
