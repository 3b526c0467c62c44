// Capture: who takes the LINEARs instead of the executor. A capturer that is active gets every
// LINEAR create_linear_with_vars makes, in order, unplanned and with all buffers still BUFFERs; the
// caller gets an empty one and therefore runs nothing. It is not a replay (runtime/exec/jit.h).
// Threading: as the Graph, one thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "hal/base/status.h"

#include "runtime/ir/graph.h"

namespace modeld::schedule {

using VarBinds = std::map<std::string, int64_t>;

class Capturer {
 public:
  virtual ~Capturer() = default;
  virtual Status add_linear(const ir::Node* linear, const VarBinds& vars) = 0;
  // False: it only keeps others from capturing; what is made now runs at once.
  virtual bool is_collecting() const { return true; }
};

struct Capture {
  Capturer* capturer = nullptr;  // nullptr: nobody captures
  bool capturing = true;         // CAPTURING: false = execute although somebody captures
  bool active() const { return capturer != nullptr && capturing && capturer->is_collecting(); }
};

}  // namespace modeld::schedule
