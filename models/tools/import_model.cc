#include "models/tools/import_model.h"

#include <algorithm>
#include <tuple>

#include "models/onnx/onnx_import.h"

namespace modeld::tools {

Result<ImportedFile> import_model(ir::Graph& g,
                                  const std::string& path,
                                  const std::map<std::string, std::vector<int64_t>>& shapes) {
  onnx_import::ImportOptions options;
  options.shapes = shapes;
  ASSIGN_OR_RETURN(onnx_import::ImportedModel model, onnx_import::import_onnx(g, path, options));
  ImportedFile out;
  for (const auto& in : model.inputs) out.source.inputs.push_back({in.name, in.tensor});
  for (const auto& o : model.outputs) out.source.outputs.push_back({o.name, o.tensor});
  for (const auto& [name, range] : model.slices)
    out.source.slices.push_back(
        {name, static_cast<uint64_t>(range.first), static_cast<uint64_t>(range.second)});
  // By place in the vector, as people read it.
  std::sort(out.source.slices.begin(), out.source.slices.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  out.source.context_frames = model.context_frames;
  out.weights = std::move(model.weights);
  out.sha256 = model.sha256;
  return out;
}

}  // namespace modeld::tools
