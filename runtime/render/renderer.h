// What every renderer offers: source text of one kernel function from ordered instructions, and the
// text its translation unit needs once. A renderer knows a language, not how to choose code.
// Contract: pure and deterministic; an instruction the language lacks is an error naming it.
// Threading: renderers are values, any thread.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "hal/base/status.h"

#include "runtime/ir/graph.h"

namespace modeld::render {

struct Renderer {
  std::string name;     // "c"
  std::string prelude;  // once per translation unit
  std::function<Result<std::string>(
      ir::Graph&, std::span<const ir::Node* const>, const std::string& function)>
      render;
};

}  // namespace modeld::render
