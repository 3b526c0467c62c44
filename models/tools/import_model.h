// The importer as the build sees it: an ONNX file to a SourceModel. The only file of tools that
// knows models/onnx. Contract and threading: models/onnx.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/tensor/weight_store.h"

#include "models/tools/build_graph.h"

namespace modeld::tools {

struct ImportedFile {
  SourceModel source;
  tensor::WeightStore weights;
  Hash256 sha256;
};

Result<ImportedFile> import_model(ir::Graph& g,
                                  const std::string& path,
                                  const std::map<std::string, std::vector<int64_t>>& shapes);

}  // namespace modeld::tools
