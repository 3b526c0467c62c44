#include "ipc/tools/model_choice.h"

#include <algorithm>

namespace modeld::ipc {

ModelChoice ModelChoice::of(const std::vector<std::string>& names) {
  const auto named = [&](const char* name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const ModelChoice some{.road = named("road"), .cabin = named("cabin")};
  return some.road || some.cabin ? some : ModelChoice();
}

ModelChoice ModelChoice::of(const StateMessage& state) {
  std::vector<std::string> names;
  for (const ModelStatus& model : state.models) names.push_back(model.name);
  return of(names);
}

std::string ModelChoice::text() const {
  return std::string(road ? "road" : "") + (road && cabin ? " and " : "") + (cabin ? "cabin" : "");
}

}  // namespace modeld::ipc
