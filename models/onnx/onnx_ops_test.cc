// Every op of onnx_ops.def on a few elements, in the opsets where its form differs. The expected
// numbers were made with ONNX Runtime 1.32; the graphs are evaluated by the plain interpreter.
#include <cmath>
#include <set>

#include "runtime/tensor/host_eval.h"

#include "models/onnx/onnx_import.h"
#include "models/onnx/op_context.h"
#include "models/onnx/test_model.h"

namespace modeld::onnx_import {
namespace {

using Ints = std::vector<int64_t>;
using Floats = std::vector<double>;

struct In {
  Dims dims;
  Floats v;
  DType dtype = DType::kF32;  // kVoid: left out
  bool constant = false;
};

In f(const Dims& d, const Floats& v) {
  return {d, v, DType::kF32, false};
}
In h(const Dims& d, const Floats& v) {
  return {d, v, DType::kF16, false};
}
In i(const Dims& d, const Floats& v) {
  return {d, v, DType::kI64, false};
}
In b(const Dims& d, const Floats& v) {
  return {d, v, DType::kBool, false};
}
In constant(In in) {
  in.constant = true;
  return in;
}
const In kNone = {{}, {}, DType::kVoid, false};

struct OpCase {
  const char* op;
  int opset;
  int outputs;  // the last one is compared
  std::vector<In> in;
  std::vector<Attr> attrs;
  DType dtype;
  Dims dims;
  Floats want;
};

// clang-format off
const OpCase kCases[] = {
    {"Abs", 13, 1, {f({4}, {-1.5, -0.5, 0.25, 2})}, {}, DType::kF32, {4}, {1.5, 0.5, 0.25, 2}},
    {"Neg", 13, 1, {f({4}, {-1.5, -0.5, 0.25, 2})}, {}, DType::kF32, {4}, {1.5, 0.5, -0.25, -2}},
    {"Sign", 13, 1, {f({4}, {-1.5, -0.5, 0.25, 2})}, {}, DType::kF32, {4}, {-1, -1, 1, 1}},
    {"Relu", 13, 1, {f({4}, {-1.5, -0.5, 0.25, 2})}, {}, DType::kF32, {4}, {0, 0, 0.25, 2}},
    {"Ceil", 13, 1, {f({4}, {-1.5, -0.5, 0.25, 2})}, {}, DType::kF32, {4}, {-1, 0, 1, 2}},
    {"Cos", 13, 1, {f({4}, {-1.5, -0.5, 0.25, 2})}, {}, DType::kF32, {4}, {0.0707372, 0.877583, 0.968912, -0.416147}},
    {"Exp", 13, 1, {f({4}, {-1.5, -0.5, 0.25, 2})}, {}, DType::kF32, {4}, {0.22313, 0.606531, 1.28403, 7.38906}},
    {"Floor", 13, 1, {f({4}, {-1.5, -0.5, 0.25, 2})}, {}, DType::kF32, {4}, {-2, -1, 0, 2}},
    {"Reciprocal", 13, 1, {f({4}, {-1.5, -0.5, 0.25, 2})}, {}, DType::kF32, {4}, {-0.666667, -2, 4, 0.5}},
    {"Sigmoid", 13, 1, {f({4}, {-1.5, -0.5, 0.25, 2})}, {}, DType::kF32, {4}, {0.182426, 0.377541, 0.562176, 0.880797}},
    {"Sin", 13, 1, {f({4}, {-1.5, -0.5, 0.25, 2})}, {}, DType::kF32, {4}, {-0.997495, -0.479426, 0.247404, 0.909297}},
    {"Softplus", 13, 1, {f({4}, {-1.5, -0.5, 0.25, 2})}, {}, DType::kF32, {4}, {0.201413, 0.474077, 0.825939, 2.12693}},
    {"Softsign", 13, 1, {f({4}, {-1.5, -0.5, 0.25, 2})}, {}, DType::kF32, {4}, {-0.6, -0.333333, 0.2, 0.666667}},
    {"Tan", 13, 1, {f({4}, {-1.5, -0.5, 0.25, 2})}, {}, DType::kF32, {4}, {-14.1014, -0.546302, 0.255342, -2.18504}},
    {"Tanh", 13, 1, {f({4}, {-1.5, -0.5, 0.25, 2})}, {}, DType::kF32, {4}, {-0.905148, -0.462117, 0.244919, 0.964028}},
    {"Erf", 13, 1, {f({4}, {-1.5, -0.5, 0.25, 2})}, {}, DType::kF32, {4}, {-0.966105, -0.5205, 0.276326, 0.995322}},
    {"Round", 11, 1, {f({4}, {-2.5, -1.5, 0.5, 1.7000000476837158})}, {}, DType::kF32, {4}, {-2, -2, 0, 2}},
    {"HardSwish", 14, 1, {f({4}, {-4, -1, 1, 4})}, {}, DType::kF32, {4}, {0, -0.333333, 0.666667, 4}},
    {"Sqrt", 13, 1, {f({2}, {4, 2})}, {}, DType::kF32, {2}, {2, 1.41421}},
    {"Log", 13, 1, {f({2}, {1, 2})}, {}, DType::kF32, {2}, {0, 0.693147}},
    {"Elu", 9, 1, {f({4}, {-1.5, -0.5, 0.25, 2})}, {{"alpha", 2.0}}, DType::kF32, {4}, {-1.55374, -0.786939, 0.25, 2}},
    {"LeakyRelu", 9, 1, {f({4}, {-1.5, -0.5, 0.25, 2})}, {}, DType::kF32, {4}, {-0.015, -0.005, 0.25, 2}},
    {"HardSigmoid", 9, 1, {f({4}, {-1.5, -0.5, 0.25, 2})}, {{"alpha", 0.25}, {"beta", 0.5}}, DType::kF32, {4}, {0.125, 0.375, 0.5625, 1}},
    {"PRelu", 9, 1, {f({2, 2}, {-1, 2, -3, -4}), constant(f({2}, {0.5, 0.25}))}, {}, DType::kF32, {2, 2}, {-0.5, 2, -1.5, -1}},
    {"Not", 7, 1, {b({2}, {1, 0})}, {}, DType::kBool, {2}, {0, 1}},
    {"Add", 7, 1, {f({2, 2}, {1, 2, 3, 4}), f({2}, {10, 20})}, {}, DType::kF32, {2, 2}, {11, 22, 13, 24}},
    {"Sub", 14, 1, {f({2}, {5, 6}), constant(f({2}, {1, 2}))}, {}, DType::kF32, {2}, {4, 4}},
    {"Mul", 13, 1, {f({2}, {2, 3}), f({1}, {4})}, {}, DType::kF32, {2}, {8, 12}},
    {"Div", 13, 1, {f({2}, {6, -7}), f({2}, {4, 2})}, {}, DType::kF32, {2}, {1.5, -3.5}},
    {"Div", 13, 1, {i({2}, {7, -7}), i({2}, {2, 2})}, {}, DType::kI64, {2}, {3, -3}},
    {"Add", 14, 1, {h({2}, {1, 2}), h({1}, {0.5})}, {}, DType::kF16, {2}, {1.5, 2.5}},
    {"Mod", 13, 1, {i({2}, {7, -7}), i({2}, {-3, 3})}, {}, DType::kI64, {2}, {-2, 2}},
    {"Mod", 13, 1, {i({2}, {7, -7}), i({2}, {-3, 3})}, {{"fmod", int64_t{1}}}, DType::kI64, {2}, {1, -1}},
    {"Pow", 13, 1, {f({2}, {2, 3}), constant(f({1}, {2}))}, {}, DType::kF32, {2}, {4, 9}},
    {"Pow", 13, 1, {f({2}, {4, 9}), constant(f({}, {0.5}))}, {}, DType::kF32, {2}, {2, 3}},
    {"Pow", 13, 1, {f({2}, {2, -2}), f({2}, {-1, 3})}, {}, DType::kF32, {2}, {0.5, -8}},
    {"Pow", 13, 1, {f({2}, {2, 3}), constant(i({}, {3}))}, {}, DType::kF32, {2}, {8, 27}},
    {"Equal", 13, 1, {f({2}, {1, 2}), f({2}, {1, 3})}, {}, DType::kBool, {2}, {1, 0}},
    {"Less", 13, 1, {f({2}, {1, 2}), f({2}, {2, 2})}, {}, DType::kBool, {2}, {1, 0}},
    {"Greater", 13, 1, {i({2}, {1, 3}), i({2}, {2, 2})}, {}, DType::kBool, {2}, {0, 1}},
    {"LessOrEqual", 12, 1, {f({3}, {1, 2, 3}), f({3}, {2, 2, 2})}, {}, DType::kBool, {3}, {1, 1, 0}},
    {"GreaterOrEqual", 12, 1, {f({3}, {1, 2, 3}), f({3}, {2, 2, 2})}, {}, DType::kBool, {3}, {0, 1, 1}},
    {"And", 7, 1, {b({3}, {1, 1, 0}), b({3}, {1, 0, 0})}, {}, DType::kBool, {3}, {1, 0, 0}},
    {"Or", 7, 1, {b({3}, {1, 1, 0}), b({3}, {1, 0, 0})}, {}, DType::kBool, {3}, {1, 1, 0}},
    {"Xor", 7, 1, {b({3}, {1, 1, 0}), b({3}, {1, 0, 0})}, {}, DType::kBool, {3}, {0, 1, 0}},
    {"Where", 9, 1, {b({2}, {1, 0}), f({2}, {1, 2}), f({2}, {3, 4})}, {}, DType::kF32, {2}, {1, 4}},
    {"Max", 8, 1, {f({2}, {1, 5}), f({1}, {3}), f({2}, {2, 2})}, {}, DType::kF32, {2}, {3, 5}},
    {"Min", 8, 1, {f({2}, {1, 5}), f({1}, {3}), f({2}, {2, 2})}, {}, DType::kF32, {2}, {1, 2}},
    {"Sum", 8, 1, {f({2}, {1, 5}), f({1}, {3}), f({2}, {2, 2})}, {}, DType::kF32, {2}, {6, 10}},
    {"Mean", 8, 1, {f({2}, {1, 5}), f({1}, {3}), f({2}, {2, 2})}, {}, DType::kF32, {2}, {2, 3.33333}},
    {"Clip", 9, 1, {f({4}, {-1.5, -0.5, 0.25, 2})}, {{"min", -1.0}, {"max", 1.0}}, DType::kF32, {4}, {-1, -0.5, 0.25, 1}},
    {"Clip", 11, 1, {f({4}, {-1.5, -0.5, 0.25, 2}), constant(f({}, {-1})), constant(f({}, {1}))}, {}, DType::kF32, {4}, {-1, -0.5, 0.25, 1}},
    {"Clip", 13, 1, {f({4}, {-1.5, -0.5, 0.25, 2}), kNone, constant(f({}, {1}))}, {}, DType::kF32, {4}, {-1.5, -0.5, 0.25, 1}},
    {"Cast", 13, 1, {f({2}, {1.7000000476837158, -1.7000000476837158})}, {{"to", int64_t{6}}}, DType::kI32, {2}, {1, -1}},
    {"Cast", 9, 1, {f({2}, {0, 0.10000000149011612})}, {{"to", int64_t{9}}}, DType::kBool, {2}, {0, 1}},
    {"Cast", 13, 1, {f({1}, {0.10000000149011612})}, {{"to", int64_t{10}}}, DType::kF16, {1}, {0.0999756}},
    {"ReduceSum", 11, 1, {f({2, 3}, {1, 2, 3, 4, 5, 6})}, {{"axes", Ints{1}}, {"keepdims", int64_t{0}}}, DType::kF32, {2}, {6, 15}},
    {"ReduceMean", 11, 1, {f({2, 3}, {1, 2, 3, 4, 5, 6})}, {{"axes", Ints{1}}, {"keepdims", int64_t{0}}}, DType::kF32, {2}, {2, 5}},
    {"ReduceMax", 11, 1, {f({2, 3}, {1, 2, 3, 4, 5, 6})}, {{"axes", Ints{1}}, {"keepdims", int64_t{0}}}, DType::kF32, {2}, {3, 6}},
    {"ReduceMin", 11, 1, {f({2, 3}, {1, 2, 3, 4, 5, 6})}, {{"axes", Ints{1}}, {"keepdims", int64_t{0}}}, DType::kF32, {2}, {1, 4}},
    {"ReduceProd", 11, 1, {f({2, 3}, {1, 2, 3, 4, 5, 6})}, {{"axes", Ints{1}}, {"keepdims", int64_t{0}}}, DType::kF32, {2}, {6, 120}},
    {"ReduceL1", 11, 1, {f({2, 3}, {1, 2, 3, 4, 5, 6})}, {{"axes", Ints{1}}, {"keepdims", int64_t{0}}}, DType::kF32, {2}, {6, 15}},
    {"ReduceL2", 11, 1, {f({2, 3}, {1, 2, 3, 4, 5, 6})}, {{"axes", Ints{1}}, {"keepdims", int64_t{0}}}, DType::kF32, {2}, {3.74166, 8.77496}},
    {"ReduceSumSquare", 11, 1, {f({2, 3}, {1, 2, 3, 4, 5, 6})}, {{"axes", Ints{1}}, {"keepdims", int64_t{0}}}, DType::kF32, {2}, {14, 77}},
    {"ReduceLogSumExp", 11, 1, {f({2, 3}, {1, 2, 3, 4, 5, 6})}, {{"axes", Ints{1}}, {"keepdims", int64_t{0}}}, DType::kF32, {2}, {3.40761, 6.40761}},
    {"ReduceMean", 13, 1, {f({2, 3}, {1, 2, 3, 4, 5, 6})}, {}, DType::kF32, {1, 1}, {3.5}},
    {"ReduceSum", 13, 1, {f({2, 3}, {1, 2, 3, 4, 5, 6}), constant(i({1}, {0}))}, {}, DType::kF32, {1, 3}, {5, 7, 9}},
    {"ReduceSum", 13, 1, {f({2, 3}, {1, 2, 3, 4, 5, 6})}, {{"noop_with_empty_axes", int64_t{1}}}, DType::kF32, {2, 3}, {1, 2, 3, 4, 5, 6}},
    {"ArgMax", 11, 1, {f({1, 3}, {1, 3, 3})}, {{"axis", int64_t{1}}}, DType::kI64, {1, 1}, {1}},
    {"ArgMax", 12, 1, {f({1, 3}, {1, 3, 3})}, {{"axis", int64_t{1}}, {"select_last_index", int64_t{1}}, {"keepdims", int64_t{0}}}, DType::kI64, {1}, {2}},
    {"ArgMin", 11, 1, {f({1, 3}, {1, 3, 1})}, {{"axis", int64_t{1}}}, DType::kI64, {1, 1}, {0}},
    {"CumSum", 11, 1, {f({2, 3}, {1, 2, 3, 4, 5, 6}), constant(i({}, {1}))}, {}, DType::kF32, {2, 3}, {1, 3, 6, 4, 9, 15}},
    {"MatMul", 9, 1, {f({2, 3}, {1, 2, 3, 4, 5, 6}), f({3, 1}, {1, 0, -1})}, {}, DType::kF32, {2, 1}, {-2, -2}},
    {"Gemm", 11, 1, {f({2, 3}, {1, 2, 3, 4, 5, 6}), constant(f({2, 3}, {1, 0, 1, 0, 1, 1})), constant(f({2}, {10, 20}))}, {{"transB", int64_t{1}}, {"alpha", 2.0}, {"beta", 0.5}}, DType::kF32, {2, 2}, {13, 20, 25, 32}},
    {"Gemm", 11, 1, {f({3, 1}, {1, 2, 3}), constant(f({3, 2}, {1, 0, 0, 1, 1, 1}))}, {{"transA", int64_t{1}}}, DType::kF32, {1, 2}, {4, 5}},
    {"Einsum", 12, 1, {f({2, 3}, {1, 2, 3, 4, 5, 6}), f({3}, {1, 2, 3})}, {{"equation", std::string("ij,j->i")}}, DType::kF32, {2}, {14, 32}},
    {"Softmax", 9, 1, {f({2, 2, 2}, {0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75})}, {}, DType::kF32, {2, 2, 2}, {0.165296, 0.212244, 0.272527, 0.349932, 0.165296, 0.212244, 0.272527, 0.349932}},
    {"Softmax", 13, 1, {f({2, 2, 2}, {0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75})}, {{"axis", int64_t{1}}}, DType::kF32, {2, 2, 2}, {0.377541, 0.377541, 0.622459, 0.622459, 0.377541, 0.377541, 0.622459, 0.622459}},
    {"Softmax", 13, 1, {f({2, 2, 2}, {0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75})}, {}, DType::kF32, {2, 2, 2}, {0.437824, 0.562177, 0.437824, 0.562177, 0.437824, 0.562177, 0.437824, 0.562177}},
    {"LogSoftmax", 9, 1, {f({2, 2, 2}, {0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75})}, {{"axis", int64_t{2}}}, DType::kF32, {2, 2, 2}, {-0.825939, -0.575939, -0.825939, -0.575939, -0.825939, -0.575939, -0.825939, -0.575939}},
    {"LogSoftmax", 13, 1, {f({2, 2, 2}, {0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75})}, {{"axis", int64_t{0}}}, DType::kF32, {2, 2, 2}, {-1.31326, -1.31326, -1.31326, -1.31326, -0.313262, -0.313262, -0.313262, -0.313262}},
    {"Identity", 9, 1, {f({4}, {-1.5, -0.5, 0.25, 2})}, {}, DType::kF32, {4}, {-1.5, -0.5, 0.25, 2}},
    {"Shape", 9, 1, {f({2, 2, 2}, {0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75})}, {}, DType::kI64, {3}, {2, 2, 2}},
    {"Shape", 15, 1, {f({2, 3, 4}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})}, {{"start", int64_t{1}}, {"end", int64_t{-1}}}, DType::kI64, {1}, {3}},
    {"Size", 9, 1, {f({2, 2, 2}, {0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75})}, {}, DType::kI64, {}, {8}},
    {"Range", 11, 1, {constant(i({}, {5})), constant(i({}, {0})), constant(i({}, {-2}))}, {}, DType::kI64, {3}, {5, 3, 1}},
    {"ConstantOfShape", 9, 1, {constant(i({1}, {2}))}, {}, DType::kF32, {2}, {0, 0}},
    {"Reshape", 9, 1, {f({2, 3}, {1, 2, 3, 4, 5, 6}), constant(i({2}, {3, -1}))}, {}, DType::kF32, {3, 2}, {1, 2, 3, 4, 5, 6}},
    {"Reshape", 9, 1, {f({2, 2, 2}, {0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75}), constant(i({2}, {0, -1}))}, {}, DType::kF32, {2, 4}, {0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75}},
    {"Flatten", 9, 1, {f({2, 2, 2}, {0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75})}, {{"axis", int64_t{2}}}, DType::kF32, {4, 2}, {0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75}},
    {"Transpose", 9, 1, {f({2, 3}, {1, 2, 3, 4, 5, 6})}, {}, DType::kF32, {3, 2}, {1, 4, 2, 5, 3, 6}},
    {"Transpose", 9, 1, {f({2, 2, 2}, {0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75})}, {{"perm", Ints{0, 2, 1}}}, DType::kF32, {2, 2, 2}, {0, 0.5, 0.25, 0.75, 1, 1.5, 1.25, 1.75}},
    {"Squeeze", 9, 1, {f({1, 2}, {1, 2})}, {{"axes", Ints{0}}}, DType::kF32, {2}, {1, 2}},
    {"Squeeze", 13, 1, {f({1, 2}, {1, 2}), constant(i({1}, {0}))}, {}, DType::kF32, {2}, {1, 2}},
    {"Unsqueeze", 9, 1, {f({2}, {1, 2})}, {{"axes", Ints{1}}}, DType::kF32, {2, 1}, {1, 2}},
    {"Unsqueeze", 13, 1, {f({2}, {1, 2}), constant(i({2}, {0, -1}))}, {}, DType::kF32, {1, 2, 1}, {1, 2}},
    {"Concat", 9, 1, {f({2, 1}, {1, 2}), f({2, 2}, {3, 4, 5, 6})}, {{"axis", int64_t{1}}}, DType::kF32, {2, 3}, {1, 3, 4, 2, 5, 6}},
    {"Slice", 9, 1, {f({10}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9})}, {{"starts", Ints{-3}}, {"ends", Ints{99}}}, DType::kF32, {3}, {7, 8, 9}},
    {"Slice", 10, 1, {f({10}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), constant(i({1}, {1})), constant(i({1}, {9})), constant(i({1}, {0})), constant(i({1}, {3}))}, {}, DType::kF32, {3}, {1, 4, 7}},
    {"Slice", 13, 1, {f({10}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), constant(i({1}, {-1})), constant(i({1}, {-9.3e18})), constant(i({1}, {0})), constant(i({1}, {-4}))}, {}, DType::kF32, {3}, {9, 5, 1}},
    {"Split", 9, 2, {f({10}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9})}, {{"split", Ints{7, 3}}}, DType::kF32, {3}, {7, 8, 9}},
    {"Split", 13, 2, {f({10}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), constant(i({2}, {8, 2}))}, {}, DType::kF32, {2}, {8, 9}},
    {"Split", 11, 5, {f({10}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9})}, {}, DType::kF32, {2}, {8, 9}},
    {"Gather", 9, 1, {f({2, 3}, {1, 2, 3, 4, 5, 6}), constant(i({2}, {2, 0}))}, {{"axis", int64_t{1}}}, DType::kF32, {2, 2}, {3, 1, 6, 4}},
    {"Gather", 11, 1, {f({2, 3}, {1, 2, 3, 4, 5, 6}), constant(i({}, {-1}))}, {{"axis", int64_t{0}}}, DType::kF32, {3}, {4, 5, 6}},
    {"Gather", 13, 1, {f({2, 3}, {1, 2, 3, 4, 5, 6}), i({2, 1}, {1, -2})}, {{"axis", int64_t{0}}}, DType::kF32, {2, 1, 3}, {4, 5, 6, 1, 2, 3}},
    {"GatherElements", 11, 1, {f({2, 3}, {1, 2, 3, 4, 5, 6}), i({2, 3}, {2, 0, -1, 1, 1, 0})}, {{"axis", int64_t{1}}}, DType::kF32, {2, 3}, {3, 1, 3, 5, 5, 4}},
    {"Expand", 8, 1, {f({2, 1}, {1, 2}), constant(i({2}, {1, 2}))}, {}, DType::kF32, {2, 2}, {1, 1, 2, 2}},
    {"Tile", 9, 1, {f({1, 2}, {1, 2}), constant(i({2}, {2, 2}))}, {}, DType::kF32, {2, 4}, {1, 2, 1, 2, 1, 2, 1, 2}},
    {"Pad", 9, 1, {f({2}, {1, 2})}, {{"pads", Ints{1, 2}}, {"value", 9.0}}, DType::kF32, {5}, {9, 1, 2, 9, 9}},
    {"Pad", 11, 1, {f({3}, {1, 2, 3}), constant(i({2}, {-1, 1}))}, {}, DType::kF32, {3}, {2, 3, 0}},
    {"Pad", 13, 1, {f({3}, {1, 2, 3}), constant(i({2}, {2, 1}))}, {{"mode", std::string("reflect")}}, DType::kF32, {6}, {3, 2, 1, 2, 3, 2}},
    {"Pad", 13, 1, {f({3}, {1, 2, 3}), constant(i({2}, {2, 1}))}, {{"mode", std::string("edge")}}, DType::kF32, {6}, {1, 1, 1, 2, 3, 3}},
    {"DepthToSpace", 9, 1, {f({1, 4, 1, 2}, {0, 1, 2, 3, 4, 5, 6, 7})}, {{"blocksize", int64_t{2}}}, DType::kF32, {1, 1, 2, 4}, {0, 2, 1, 3, 4, 6, 5, 7}},
    {"DepthToSpace", 11, 1, {f({1, 4, 1, 2}, {0, 1, 2, 3, 4, 5, 6, 7})}, {{"blocksize", int64_t{2}}, {"mode", std::string("CRD")}}, DType::kF32, {1, 1, 2, 4}, {0, 2, 1, 3, 4, 6, 5, 7}},
    {"SpaceToDepth", 9, 1, {f({1, 1, 2, 4}, {0, 1, 2, 3, 4, 5, 6, 7})}, {{"blocksize", int64_t{2}}}, DType::kF32, {1, 4, 1, 2}, {0, 2, 1, 3, 4, 6, 5, 7}},
    {"Conv", 11, 1, {f({1, 1, 3, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8}), constant(f({1, 1, 2, 2}, {1, 0, 0, -1})), constant(f({1}, {10}))}, {}, DType::kF32, {1, 1, 2, 2}, {6, 6, 6, 6}},
    {"Conv", 11, 1, {f({1, 1, 3, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8}), constant(f({1, 1, 2, 2}, {1, 0, 0, -1}))}, {{"pads", Ints{1, 0, 0, 1}}, {"strides", Ints{2, 2}}}, DType::kF32, {1, 1, 2, 2}, {-1, 0, -4, 5}},
    {"Conv", 11, 1, {f({1, 1, 3, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8}), constant(f({1, 1, 2, 2}, {1, 0, 0, -1}))}, {{"auto_pad", std::string("SAME_UPPER")}}, DType::kF32, {1, 1, 3, 3}, {-4, -4, 2, -4, -4, 5, 6, 7, 8}},
    {"Conv", 11, 1, {f({1, 2, 4}, {0, 1, 2, 3, 4, 5, 6, 7}), constant(f({2, 1, 1}, {1, 2}))}, {{"group", int64_t{2}}}, DType::kF32, {1, 2, 4}, {0, 1, 2, 3, 8, 10, 12, 14}},
    {"Conv", 11, 1, {f({1, 1, 3, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8}), constant(f({1, 1, 2, 2}, {1, 0, 0, -1}))}, {{"dilations", Ints{2, 2}}, {"kernel_shape", Ints{2, 2}}}, DType::kF32, {1, 1, 1, 1}, {-8}},
    {"ConvTranspose", 11, 1, {f({1, 1, 2, 2}, {1, 2, 3, 4}), constant(f({1, 1, 2, 2}, {1, 0, 0, -1}))}, {{"strides", Ints{2, 2}}}, DType::kF32, {1, 1, 4, 4}, {1, 0, 2, 0, 0, -1, 0, -2, 3, 0, 4, 0, 0, -3, 0, -4}},
    {"ConvTranspose", 11, 1, {f({1, 1, 2}, {1, 2}), constant(f({1, 1, 3}, {1, 2, 3})), constant(f({1}, {0.5}))}, {{"strides", Ints{2}}, {"pads", Ints{1, 0}}, {"output_padding", Ints{1}}}, DType::kF32, {1, 1, 5}, {2.5, 5.5, 4.5, 6.5, 0.5}},
    {"MaxPool", 12, 1, {f({1, 1, 3, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8})}, {{"kernel_shape", Ints{2, 2}}}, DType::kF32, {1, 1, 2, 2}, {4, 5, 7, 8}},
    {"MaxPool", 10, 1, {f({1, 1, 3, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8})}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}, {"ceil_mode", int64_t{1}}}, DType::kF32, {1, 1, 2, 2}, {4, 5, 7, 8}},
    {"AveragePool", 11, 1, {f({1, 1, 3, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8})}, {{"kernel_shape", Ints{2, 2}}, {"pads", Ints{1, 1, 0, 0}}}, DType::kF32, {1, 1, 3, 3}, {0, 0.5, 1.5, 1.5, 2, 3, 4.5, 5, 6}},
    {"AveragePool", 11, 1, {f({1, 1, 3, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8})}, {{"kernel_shape", Ints{2, 2}}, {"pads", Ints{1, 1, 0, 0}}, {"count_include_pad", int64_t{1}}}, DType::kF32, {1, 1, 3, 3}, {0, 0.25, 0.75, 0.75, 2, 3, 2.25, 5, 6}},
    {"GlobalAveragePool", 9, 1, {f({1, 1, 3, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8})}, {}, DType::kF32, {1, 1, 1, 1}, {4}},
    {"GlobalMaxPool", 9, 1, {f({1, 1, 3, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8})}, {}, DType::kF32, {1, 1, 1, 1}, {8}},
    {"BatchNormalization", 9, 1, {f({1, 2, 2}, {1, 2, 3, 4}), constant(f({2}, {1, 2})), constant(f({2}, {0, 1})), constant(f({2}, {1, 2})), constant(f({2}, {4, 1}))}, {{"epsilon", 0.001}}, DType::kF32, {1, 2, 2}, {0, 0.499938, 2.999, 4.998}},
    {"InstanceNormalization", 9, 1, {f({1, 2, 2}, {1, 3, 2, 8}), constant(f({2}, {1, 2})), constant(f({2}, {0, 1}))}, {}, DType::kF32, {1, 2, 2}, {-0.999995, 0.999995, -0.999999, 3}},
    {"LayerNormalization", 17, 1, {f({2, 2}, {1, 3, 2, 8}), constant(f({2}, {1, 2})), constant(f({2}, {0, 1}))}, {}, DType::kF32, {2, 2}, {-0.999995, 2.99999, -0.999999, 3}},
    {"Dropout", 9, 1, {f({4}, {-1.5, -0.5, 0.25, 2})}, {{"ratio", 0.5}}, DType::kF32, {4}, {-1.5, -0.5, 0.25, 2}},
    {"Dropout", 13, 1, {f({4}, {-1.5, -0.5, 0.25, 2}), constant(f({}, {0.5}))}, {}, DType::kF32, {4}, {-1.5, -0.5, 0.25, 2}},
    {"Upsample", 7, 1, {f({1, 1, 2, 2}, {1, 2, 3, 4})}, {{"scales", Floats{1.0, 1.0, 1.0, 2.0}}}, DType::kF32, {1, 1, 2, 4}, {1, 1, 2, 2, 3, 3, 4, 4}},
    {"Upsample", 9, 1, {f({1, 1, 2, 2}, {1, 2, 3, 4}), constant(f({4}, {1, 1, 2, 1}))}, {}, DType::kF32, {1, 1, 4, 2}, {1, 2, 1, 2, 3, 4, 3, 4}},
    {"Resize", 10, 1, {f({1, 1, 2, 2}, {1, 2, 3, 4}), constant(f({4}, {1, 1, 1, 2}))}, {{"mode", std::string("linear")}}, DType::kF32, {1, 1, 2, 4}, {1, 1.5, 2, 2, 3, 3.5, 4, 4}},
    {"Resize", 11, 1, {f({1, 1, 2, 2}, {1, 2, 3, 4}), constant(f({0}, {})), constant(f({4}, {1, 1, 2, 2}))}, {{"coordinate_transformation_mode", std::string("asymmetric")}, {"nearest_mode", std::string("floor")}}, DType::kF32, {1, 1, 4, 4}, {1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4}},
    {"Resize", 13, 1, {f({1, 1, 2, 2}, {1, 2, 3, 4}), kNone, kNone, constant(i({4}, {1, 1, 2, 3}))}, {{"mode", std::string("linear")}}, DType::kF32, {1, 1, 2, 3}, {1, 1.5, 2, 3, 3.5, 4}},
    {"Resize", 13, 1, {f({1, 1, 2, 2}, {1, 2, 3, 4}), kNone, kNone, constant(i({4}, {1, 1, 1, 4}))}, {{"mode", std::string("linear")}, {"coordinate_transformation_mode", std::string("align_corners")}}, DType::kF32, {1, 1, 1, 4}, {1, 1.33333, 1.66667, 2}},
};
// clang-format on

Ints whole(const Floats& v) {
  Ints out;
  for (const double x : v)
    out.push_back(x >= 9.2e18 ? INT64_MAX : (x <= -9.2e18 ? INT64_MIN : static_cast<int64_t>(x)));
  return out;
}

TestModel model_of(const OpCase& c) {
  TestModel m(c.opset);
  TestModel::Names names, outputs;
  for (size_t n = 0; n < c.in.size(); ++n) {
    const In& in = c.in[n];
    const std::string name = strf("i%zu", n);
    names.push_back(in.dtype == DType::kVoid ? "" : name);
    if (in.dtype == DType::kVoid) continue;
    if (!in.constant)
      m.input(name, in.dims, in.dtype);
    else if (ir::is_float(in.dtype))
      m.floats(name, in.dims, in.v, in.dtype);
    else
      m.ints(name, in.dims, whole(in.v), in.dtype);
  }
  for (int n = 0; n < c.outputs; ++n) outputs.push_back(strf("o%d", n));
  m.node(c.op, names, outputs, c.attrs, "n").output(outputs.back(), c.dtype);
  return m;
}

class OnnxOps : public ::testing::TestWithParam<OpCase> {};

TEST_P(OnnxOps, GivesWhatOnnxRuntimeGives) {
  const OpCase& c = GetParam();
  ir::Graph g;
  const auto m = import_onnx_bytes(g, model_of(c).bytes());
  ASSERT_TRUE(m.ok()) << m.error().what;
  tensor::HostEval eval(g, &m->weights);
  size_t next = 0;
  for (const In& in : c.in) {
    if (in.constant || in.dtype == DType::kVoid) continue;
    eval.bind(m->inputs[next++].tensor, ir::is_float(in.dtype)
                                            ? tensor::host_floats(in.dims, in.v, in.dtype)
                                            : tensor::host_ints(in.dims, whole(in.v), in.dtype));
  }
  const auto got = eval.run(m->outputs[0].tensor);
  ASSERT_TRUE(got.ok()) << got.error().what;
  EXPECT_EQ(got->dtype, c.dtype);
  ASSERT_EQ(got->dims, c.dims);
  for (size_t n = 0; n < c.want.size(); ++n)
    EXPECT_NEAR(got->at(n), c.want[n], 1e-5 * std::max(1.0, std::fabs(c.want[n]))) << n;
}

INSTANTIATE_TEST_SUITE_P(Onnx, OnnxOps, ::testing::ValuesIn(kCases), [](const auto& p) {
  return strf("%s%d_%zu", p.param.op, p.param.opset, p.index);
});

// The same op on constants alone is folded: the result is constant data.
TEST_P(OnnxOps, FoldsWhenAllInputsAreKnown) {
  OpCase c = GetParam();
  for (In& in : c.in) in.constant = true;
  ir::Graph g;
  const auto m = import_onnx_bytes(g, model_of(c).bytes());
  ASSERT_TRUE(m.ok()) << m.error().what;
  const auto got = tensor::HostEval(g, &m->weights).run(m->outputs[0].tensor);
  ASSERT_TRUE(got.ok()) << got.error().what;
  EXPECT_TRUE(m->outputs[0].tensor.node()->is(ir::Op::kBuffer) ||
              m->outputs[0].tensor.node()->is(ir::Op::kReshape));
  ASSERT_EQ(got->dims, c.dims);
  for (size_t n = 0; n < c.want.size(); ++n)
    EXPECT_NEAR(got->at(n), c.want[n], 1e-5 * std::max(1.0, std::fabs(c.want[n]))) << n;
}

TEST(OnnxOpTable, EveryOpHasACase) {
  std::set<std::string> tried = {"Constant"};  // ConstantForms below
  for (const OpCase& c : kCases) tried.insert(c.op);
  for (const std::string& name : op_names()) EXPECT_EQ(tried.count(name), 1U) << name;
}

TEST(OnnxOpTable, IsSorted) {
  const auto names = op_names();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
}

TEST(OnnxOpTable, ConstantForms) {
  auto run = [](TestModel m, DType t) {
    m.input("x", {1}).output("y", t);
    ir::Graph g;
    const auto r = import_onnx_bytes(g, m.bytes());
    if (!r.ok()) return std::make_pair(r.error().what, Floats{});
    const auto a = tensor::HostEval(g, &r->weights).run(r->outputs[0].tensor);
    Floats out;
    for (size_t n = 0; n < a->cells.size(); ++n) out.push_back(a->at(n));
    return std::make_pair(std::string(), out);
  };
  auto with = [](const Attr& a) {
    TestModel m(13);
    m.node("Constant", {}, {"y"}, {a}, "c");
    return m;
  };
  TestModel tensor_form(13);
  tensor_form.node("Constant", {}, {"y"}, {}, "c").tensor_attr("value", {2}, {1, 2});
  EXPECT_EQ(run(std::move(tensor_form), DType::kF32).second, (Floats{1, 2}));
  EXPECT_EQ(run(with({"value_int", int64_t{7}}), DType::kI64).second, (Floats{7}));
  EXPECT_EQ(run(with({"value_ints", Ints{7, 8}}), DType::kI64).second, (Floats{7, 8}));
  EXPECT_EQ(run(with({"value_float", 0.5}), DType::kF32).second, (Floats{0.5}));
  EXPECT_EQ(run(with({"value_floats", Floats{0.5, 1}}), DType::kF32).second, (Floats{0.5, 1}));
  EXPECT_EQ(
      run(with({"value_string", std::string("a")}), DType::kF32).first,
      "model: node 'c' (Constant, opset 13): a constant given as 'value_string' is not supported");
}

// ---- what is refused ----

struct Refused {
  const char* name;
  OpCase c;
  const char* message;
};

const Refused kRefused[] = {
    {"cubic",
     {"Resize",
      13,
      1,
      {f({1, 1, 1, 2}, {1, 2}), kNone, constant(f({4}, {1, 1, 1, 2}))},
      {{"mode", std::string("cubic")}},
      DType::kF32,
      {},
      {}},
     "mode 'cubic' is not supported"},
    {"both_scales_and_sizes",
     {"Resize",
      13,
      1,
      {f({1, 1, 1, 2}, {1, 2}), kNone, constant(f({4}, {1, 1, 1, 2})),
       constant(i({4}, {1, 1, 1, 4}))},
      {},
      DType::kF32,
      {},
      {}},
     "exactly one of scales and sizes"},
    {"zero_scale",
     {"Resize",
      13,
      1,
      {f({1, 1, 1, 2}, {1, 2}), kNone, constant(f({4}, {1, 1, 1, 0}))},
      {},
      DType::kF32,
      {},
      {}},
     "scale 0 of axis 3"},
    {"column_major_pool",
     {"MaxPool",
      13,
      1,
      {f({1, 1, 1, 2}, {1, 2})},
      {{"kernel_shape", Ints{1, 1}}, {"storage_order", int64_t{1}}},
      DType::kF32,
      {},
      {}},
     "column major"},
    {"pool_without_kernel",
     {"MaxPool", 13, 1, {f({1, 1, 1, 2}, {1, 2})}, {}, DType::kF32, {}, {}},
     "kernel scalar"},
    {"negative_pads",
     {"Conv",
      13,
      1,
      {f({1, 1, 2}, {1, 2}), f({1, 1, 1}, {1})},
      {{"pads", Ints{-1, 0}}},
      DType::kF32,
      {},
      {}},
     "pads -1x0"},
    {"wrong_kernel_shape",
     {"Conv",
      13,
      1,
      {f({1, 1, 2}, {1, 2}), f({1, 1, 1}, {1})},
      {{"kernel_shape", Ints{2}}},
      DType::kF32,
      {},
      {}},
     "kernel 2"},
    {"wrong_groups",
     {"Conv",
      13,
      1,
      {f({1, 3, 2}, {1, 2, 3, 4, 5, 6}), f({1, 1, 1}, {1})},
      {{"group", int64_t{2}}},
      DType::kF32,
      {},
      {}},
     "groups 2"},
    {"group_zero",
     {"Conv",
      13,
      1,
      {f({1, 1, 2}, {1, 2}), f({1, 1, 1}, {1})},
      {{"group", int64_t{0}}},
      DType::kF32,
      {},
      {}},
     "groups 0"},
    {"training",
     {"BatchNormalization",
      15,
      1,
      {f({1, 1}, {1}), f({1}, {1}), f({1}, {1}), f({1}, {1}), f({1}, {1})},
      {{"training_mode", int64_t{1}}},
      DType::kF32,
      {},
      {}},
     "training mode"},
    {"gather_out_of_range",
     {"Gather", 13, 1, {f({2}, {1, 2}), constant(i({1}, {2}))}, {}, DType::kF32, {}, {}},
     "index 2 on axis 0 of 2"},
    {"slice_lengths",
     {"Slice",
      13,
      1,
      {f({2}, {1, 2}), constant(i({1}, {0})), constant(i({2}, {1, 1}))},
      {},
      DType::kF32,
      {},
      {}},
     "differ in length"},
    {"slice_twice",
     {"Slice",
      13,
      1,
      {f({2}, {1, 2}), constant(i({2}, {0, 0})), constant(i({2}, {1, 1})),
       constant(i({2}, {0, 0}))},
      {},
      DType::kF32,
      {},
      {}},
     "axis 0 is cut twice"},
    {"slice_axis",
     {"Slice",
      13,
      1,
      {f({2}, {1, 2}), constant(i({1}, {0})), constant(i({1}, {1})), constant(i({1}, {3}))},
      {},
      DType::kF32,
      {},
      {}},
     "axis 3 of 1 axes"},
    {"slice_step_zero",
     {"Slice",
      13,
      1,
      {f({2}, {1, 2}), constant(i({1}, {0})), constant(i({1}, {1})), constant(i({1}, {0})),
       constant(i({1}, {0}))},
      {},
      DType::kF32,
      {},
      {}},
     "slice: step 0"},
    {"scalar_slice",
     {"Slice",
      13,
      1,
      {f({}, {1}), constant(i({1}, {0})), constant(i({1}, {1}))},
      {},
      DType::kF32,
      {},
      {}},
     "axis 0 of 0 axes"},
    {"split_sizes",
     {"Split", 13, 2, {f({3}, {1, 2, 3}), constant(i({2}, {1, 1}))}, {}, DType::kF32, {}, {}},
     "split: parts 1x1"},
    {"range_step",
     {"Range",
      11,
      1,
      {constant(i({}, {0})), constant(i({}, {4})), constant(i({}, {0}))},
      {},
      DType::kI64,
      {},
      {}},
     "delta is 0"},
    {"range_size",
     {"Range",
      11,
      1,
      {constant(i({}, {0})), constant(i({}, {9e17})), constant(i({}, {1}))},
      {},
      DType::kI64,
      {},
      {}},
     "9e+17 elements"},
    {"huge_expand",
     {"Expand",
      13,
      1,
      {f({1}, {1}), constant(i({3}, {4e18, 4e18, 4e18}))},
      {},
      DType::kF32,
      {},
      {}},
     "is too large"},
    {"huge_fill",
     {"ConstantOfShape", 13, 1, {constant(i({2}, {4e18, 4e18}))}, {}, DType::kF32, {}, {}},
     "full: bad dims"},
    {"huge_tile",
     {"Tile", 13, 1, {f({2}, {1, 2}), constant(i({1}, {9e18}))}, {}, DType::kF32, {}, {}},
     "repeat"},
    {"reshape",
     {"Reshape", 13, 1, {f({2}, {1, 2}), constant(i({1}, {3}))}, {}, DType::kF32, {}, {}},
     "reshape: 2 to 3"},
    {"reshape_copies_nothing",
     {"Reshape", 13, 1, {f({2}, {1, 2}), constant(i({2}, {2, 0}))}, {}, DType::kF32, {}, {}},
     "copies axis 1"},
    {"pad_mode",
     {"Pad",
      13,
      1,
      {f({2}, {1, 2}), constant(i({2}, {1, 1}))},
      {{"mode", std::string("wrap")}},
      DType::kF32,
      {},
      {}},
     "mode 'wrap'"},
    {"pad_reflect_too_far",
     {"Pad",
      13,
      1,
      {f({2}, {1, 2}), constant(i({2}, {2, 0}))},
      {{"mode", std::string("reflect")}},
      DType::kF32,
      {},
      {}},
     "padding 2 and 0 of an axis of 2"},
    {"cast_to_text",
     {"Cast", 13, 1, {f({2}, {1, 2})}, {{"to", int64_t{8}}}, DType::kF32, {}, {}},
     "data type 8"},
    {"einsum_ellipsis",
     {"Einsum",
      13,
      1,
      {f({2}, {1, 2})},
      {{"equation", std::string("...i->...")}},
      DType::kF32,
      {},
      {}},
     "equation '...i->...' is not supported"},
    {"softmax_axis",
     {"Softmax", 13, 1, {f({2}, {1, 2})}, {{"axis", int64_t{1}}}, DType::kF32, {}, {}},
     "axis 1 of 2"},
    {"clip_inputs_early",
     {"Clip", 10, 1, {f({2}, {1, 2}), constant(f({}, {0}))}, {}, DType::kF32, {}, {}},
     "limits are attributes before opset 11"},
    {"squeeze_inputs_early",
     {"Squeeze", 12, 1, {f({1}, {1}), constant(i({1}, {0}))}, {}, DType::kF32, {}, {}},
     "axes are an attribute before opset 13"},
    {"squeeze_attr_late",
     {"Squeeze", 13, 1, {f({1}, {1})}, {{"axes", Ints{0}}}, DType::kF32, {}, {}},
     "unknown attribute 'axes'"},
    {"layer_norm_stash",
     {"LayerNormalization",
      17,
      1,
      {f({1, 2}, {1, 2}), f({2}, {1, 2})},
      {{"stash_type", int64_t{11}}},
      DType::kF32,
      {},
      {}},
     "stash_type"},
    {"cumsum_reverse",
     {"CumSum",
      13,
      1,
      {f({2}, {1, 2}), constant(i({}, {0}))},
      {{"reverse", int64_t{1}}},
      DType::kF32,
      {},
      {}},
     "reverse sums are not supported"},
};

class OnnxRefused : public ::testing::TestWithParam<Refused> {};

TEST_P(OnnxRefused, NamesTheReason) {
  ir::Graph g;
  const auto m = import_onnx_bytes(g, model_of(GetParam().c).bytes());
  ASSERT_FALSE(m.ok());
  EXPECT_THAT(m.error().what,
              ::testing::StartsWith(std::string("model: node 'n' (") + GetParam().c.op));
  EXPECT_THAT(m.error().what, ::testing::HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(Onnx, OnnxRefused, ::testing::ValuesIn(kRefused), [](const auto& p) {
  return std::string(p.param.name);
});

}  // namespace
}  // namespace modeld::onnx_import
