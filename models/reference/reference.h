// Stand-in models: seeded ONNX files with the interface of the road and cabin models and random
// weights. They are not trained and predict nothing; they exist to exercise the pipeline, the
// daemon and the devices. Contract: opset 17; the same options give the same bytes on every host;
// another seed gives other weights. Float inputs, weights, activations and outputs all have the
// model's dtype; images are uint8. Units: mac = multiply-accumulates of Conv, Gemm and MatMul;
// flops = 2 x mac. Threading: pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "hal/base/status.h"

namespace modeld::reference {

enum class Role : uint8_t { kRoad, kCabin };
enum class Size : uint8_t { kTiny, kSmall, kFull };
enum class Dtype : uint8_t { kF32, kF16 };

// What happens in a frame whose newest camera image holds a zero luma pixel. Without one, every
// variant gives exactly the numbers of kClean.
enum class Variant : uint8_t {
  kClean,
  kNan,       // `outputs` is NaN
  kNanState,  // only `next_features_buffer` is NaN (road only)
  kInfSlice,  // one sigmoid slice is +Inf: its parsed value is a finite 1, only a check of the raw
              // vector sees it
  kZero,      // `outputs` is 0 everywhere
};

struct ReferenceOptions {
  Role role = Role::kRoad;
  Size size = Size::kSmall;
  Dtype dtype = Dtype::kF32;
  Variant variant = Variant::kClean;
  uint64_t seed = 0;
};

struct Slice {
  std::string name;
  int64_t begin = 0;
  int64_t end = 0;
};

struct ReferenceModel {
  std::string onnx;                      // serialised ModelProto
  uint64_t mac = 0;                      // Conv, Gemm, MatMul
  uint64_t elementwise = 0;              // scalar operations of everything else
  uint64_t parameters = 0;               // weights and biases
  std::map<std::string, int> op_counts;  // ONNX op type -> nodes
  std::vector<Slice> slices;             // contiguous, cover `outputs`
  int context_frames = 0;
  uint64_t flops() const { return 2 * mac; }
};

// The model with its figures.
Result<ReferenceModel> build_reference(const ReferenceOptions& options);

// Only the bytes.
Result<std::string> make_reference(const ReferenceOptions& options);

// Makes the model and puts it at `path`; a failure leaves no file and no half of one.
Result<ReferenceModel> write_reference(const ReferenceOptions& options, const std::string& path);

// Command-line words: road|cabin, tiny|small|full, f32|f16, clean|nan|nan-state|inf-slice|zero.
Result<Role> parse_role(std::string_view text);
Result<Size> parse_size(std::string_view text);
Result<Dtype> parse_dtype(std::string_view text);
Result<Variant> parse_variant(std::string_view text);

}  // namespace modeld::reference
