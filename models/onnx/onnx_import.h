// ONNX model -> tensor graph. All or nothing: an op, attribute, type or shape that is not
// understood is an error naming node, op and opset; there is no partial import. Contract: opsets 7
// to 17 of the default domain; shapes are static after binding dynamic dimensions with
// ImportOptions::shapes; values that depend on constants and shapes only are computed here. Float16
// models stay float16 (sums and transcendental functions are f32 and rounded once). The file is
// untrusted: sizes, nesting, counts and offsets are checked. Units: dims in elements. Threading:
// the Graph belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hal/base/hash.h"
#include "hal/base/status.h"

#include "runtime/tensor/tensor.h"
#include "runtime/tensor/weight_store.h"

namespace modeld::onnx_import {

struct ImportOptions {
  std::map<std::string, tensor::Dims>
      shapes;                  // by input name; binds dynamic dims (--shape NAME=1x3x320x320)
  std::string device = "CPU";  // of inputs and constants
};

struct ImportedInput {
  std::string name;
  tensor::Dims dims;
  ir::DType dtype = ir::DType::kF32;
  tensor::Tensor tensor;  // a named BUFFER under a reshape
};

struct ImportedOutput {
  std::string name;
  tensor::Tensor tensor;  // has a device; may be an input or a constant itself
};

struct ImportedModel {
  std::vector<ImportedInput> inputs;    // in the file's order, initialisers left out
  std::vector<ImportedOutput> outputs;  // in the file's order
  tensor::WeightStore weights;
  std::map<std::string, std::pair<int64_t, int64_t>>
      slices;                                   // metadata "modeld.slices": name -> [begin, end)
  int64_t context_frames = 0;                   // metadata "modeld.context_frames"
  std::map<std::string, std::string> metadata;  // all of it, as in the file
  Hash256 sha256;                               // of the model file's bytes
  int64_t opset = 0;
  std::string producer;
};

// From a file; external data is read from the file's folder.
Result<ImportedModel> import_onnx(ir::Graph& g,
                                  const std::string& path,
                                  const ImportOptions& options = {});
// From memory; `folder` holds external data, "" = none is allowed. `what` names the model in
// errors.
Result<ImportedModel> import_onnx_bytes(ir::Graph& g,
                                        std::span<const std::byte> bytes,
                                        const ImportOptions& options = {},
                                        const std::string& folder = "",
                                        const std::string& what = "model");

// "NAME=1x3x320x320" -> name and dims; for --shape.
Result<std::pair<std::string, tensor::Dims>> parse_shape_option(const std::string& text);

}  // namespace modeld::onnx_import
