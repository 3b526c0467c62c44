// Which of the two models a command is about: both, unless --model says so or modeld runs only one.
// Threading: plain values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ipc/message_types.h"

namespace modeld::ipc {

struct ModelChoice {
  bool road = true;
  bool cabin = true;

  // Of the words "road" and "cabin"; none of them means both.
  static ModelChoice of(const std::vector<std::string>& names);
  // What modeld says that it runs.
  static ModelChoice of(const StateMessage& state);

  bool has(std::string_view name) const { return name == "road" ? road : name == "cabin" && cabin; }
  std::string text() const;  // "road and cabin", "road", "cabin"
  bool operator==(const ModelChoice&) const = default;
};

}  // namespace modeld::ipc
