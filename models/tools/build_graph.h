// From an imported model to the entries of a bundle: image history split into parts, state pairs,
// warps per camera geometry, intrinsics, slices. This is not the compiler: it only puts graphs and
// manifest rows together. Contract: errors name what a role needs and the model lacks; the order of
// entries, rows and inputs is fixed by the model and the camera list. Threading: as the graph.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hal/base/status.h"

#include "runtime/exec/compile_plan.h"
#include "runtime/ir/graph.h"
#include "runtime/tensor/tensor.h"

#include "models/bundle/manifest.h"

namespace modeld::tools {

struct NamedTensor {
  std::string name;
  tensor::Tensor tensor;
};

// A model as the importer gives it, without its file format.
struct SourceModel {
  std::vector<NamedTensor> inputs, outputs;
  std::vector<bundle::SliceRow> slices;
  int64_t context_frames = 0;
};

struct CameraSize {
  uint32_t width = 0, height = 0;
};
// "1928x1208,1344x760"
Result<std::vector<CameraSize>> parse_cameras(const std::string& text);

struct BuildGraph {
  std::vector<exec::EntrySpec> entries;
  bundle::Manifest manifest;  // all but plan, sections, hashes and golden rows
};

// Road's image inputs become two parts each.
Result<BuildGraph> make_build_graph(ir::Graph& g,
                                    SourceModel model,
                                    bundle::Role role,
                                    const std::vector<CameraSize>& cameras);

}  // namespace modeld::tools
