#include "models/onnx/onnx_import.h"

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <random>

#include "hal/base/env.h"
#include "hal/base/fs.h"

#include "runtime/ir/derived.h"
#include "runtime/ir/print.h"

#include "models/onnx/op_context.h"
#include "models/onnx/test_model.h"

#include "selftest/testing/tensor_interp.h"

namespace modeld::onnx_import {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

std::string error_of(const TestModel& m,
                     const ImportOptions& options = {},
                     const std::string& folder = "") {
  ir::Graph g;
  const auto r = import_onnx_bytes(g, m.bytes(), options, folder, "m.onnx");
  return r.ok() ? "imported" : r.error().what;
}

// One Relu, to hang broken things on.
TestModel small(int64_t opset = 13) {
  TestModel m(opset);
  m.input("x", {2, 3}).node("Relu", {"x"}, {"y"}, {}, "act").output("y");
  return m;
}

std::vector<double> values(ir::Graph& g,
                           const ImportedModel& m,
                           size_t output,
                           const std::vector<tensor::HostArray>& inputs = {}) {
  tensor::HostEval eval(g, &m.weights);
  for (size_t i = 0; i < inputs.size(); ++i) eval.bind(m.inputs[i].tensor, inputs[i]);
  const auto r = eval.run(m.outputs[output].tensor);
  std::vector<double> out;
  if (!r.ok()) std::fprintf(stderr, "%s\n", r.error().what.c_str());
  for (size_t i = 0; r.ok() && i < r->cells.size(); ++i) out.push_back(r->at(i));
  return out;
}

TEST(OnnxImport, TellsWhatTheModelIs) {
  ir::Graph g;
  TestModel m(13);
  m.input("x", {1, 2}, ir::DType::kF16).node("Relu", {"x"}, {"y"}).output("y", ir::DType::kF16);
  m.metadata("modeld.slices", R"({"plan": [0, 1], "meta": [1, 2]})")
      .metadata("modeld.context_frames", "24")
      .metadata("author", "me");
  const auto r = import_onnx_bytes(g, m.bytes());
  ASSERT_TRUE(r.ok()) << r.error().what;
  ASSERT_EQ(r->inputs.size(), 1U);
  EXPECT_EQ(r->inputs[0].name, "x");
  EXPECT_EQ(r->inputs[0].dims, (tensor::Dims{1, 2}));
  EXPECT_EQ(r->inputs[0].dtype, ir::DType::kF16);
  EXPECT_EQ(r->outputs[0].name, "y");
  EXPECT_THAT(r->slices, ElementsAre(Pair("meta", Pair(1, 2)), Pair("plan", Pair(0, 1))));
  EXPECT_EQ(r->context_frames, 24);
  EXPECT_EQ(r->metadata.at("author"), "me");
  EXPECT_EQ(r->opset, 13);
  EXPECT_EQ(r->sha256, sha256(m.bytes()));
}

TEST(OnnxImport, SameBytesGiveTheSameGraph) {
  const auto bytes = small().bytes();
  std::string text[2];
  for (std::string& t : text) {
    ir::Graph g;
    const auto r = import_onnx_bytes(g, bytes);
    ASSERT_TRUE(r.ok());
    t = ir::print(r->outputs[0].tensor.node());
  }
  EXPECT_EQ(text[0], text[1]);
}

TEST(OnnxImport, InitialisersListedAsInputsAreNotInputs) {
  ir::Graph g;
  TestModel m(9);
  m.input("x", {3})
      .input("w", {3})
      .floats("w", {3}, {1, 2, 3})
      .node("Add", {"x", "w"}, {"y"})
      .output("y");
  const auto r = import_onnx_bytes(g, m.bytes());
  ASSERT_TRUE(r.ok());
  ASSERT_EQ(r->inputs.size(), 1U);
  EXPECT_THAT(values(g, *r, 0, {tensor::host_floats({3}, {10, 20, 30})}), ElementsAre(11, 22, 33));
}

TEST(OnnxImport, NodesMayComeInAnyOrder) {
  ir::Graph g;
  TestModel m(13);
  m.input("x", {2}).node("Neg", {"a"}, {"y"}).node("Relu", {"x"}, {"a"}).output("y");
  const auto r = import_onnx_bytes(g, m.bytes());
  ASSERT_TRUE(r.ok()) << r.error().what;
  EXPECT_THAT(values(g, *r, 0, {tensor::host_floats({2}, {-1, 2})}), ElementsAre(0, -2));
}

TEST(OnnxImport, BindsDynamicDims) {
  ir::Graph g;
  TestModel m(13);
  m.input("x", {-1, 3})
      .input("z", {-1})
      .node("ReduceSum", {"x"}, {"s"}, {{"keepdims", int64_t{0}}})
      .node("Add", {"s", "z"}, {"y"})
      .output("y");
  const auto r = import_onnx_bytes(g, m.bytes(), {{{"x", {5, 3}}}, "CPU"});
  ASSERT_TRUE(r.ok()) << r.error().what;
  EXPECT_EQ(r->inputs[0].dims, (tensor::Dims{5, 3}));
  EXPECT_EQ(r->inputs[1].dims, (tensor::Dims{5}));  // the same name, so the same number
}

TEST(OnnxImport, DynamicDimsMustBeBound) {
  TestModel m(13);
  m.input("x", {-1, 3}).node("Relu", {"x"}, {"y"}).output("y");
  EXPECT_EQ(
      error_of(m),
      "m.onnx: input 'x' ('N'x3) has a dynamic dimension 0 ('N'): bind it with --shape x=...");
  EXPECT_THAT(error_of(m, {{{"x", {2, 4}}}, "CPU"}),
              HasSubstr("--shape x=2x4: dimension 1 is 4, the input is 'N'x3"));
  EXPECT_THAT(error_of(m, {{{"x", {2}}}, "CPU"}), HasSubstr("--shape x=2 has 1 dims"));
  EXPECT_THAT(error_of(m, {{{"x", {2, 3}}, {"q", {1}}}, "CPU"}),
              HasSubstr("--shape q: the model has no such input"));
}

TEST(OnnxImport, OneNameCannotBeTwoNumbers) {
  TestModel m(13);
  m.input("x", {-1}).input("z", {-1}).node("Add", {"x", "z"}, {"y"}).output("y");
  EXPECT_THAT(error_of(m, {{{"x", {2}}, {"z", {3}}}, "CPU"}), HasSubstr("bound to another number"));
}

TEST(OnnxImport, ShapeOption) {
  const auto r = parse_shape_option("in=put=1x3x320x320");
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(r->first, "in=put");
  EXPECT_EQ(r->second, (tensor::Dims{1, 3, 320, 320}));
  for (const char* bad : {"", "x", "x=", "=1", "x=1x", "x=0", "x=-1", "x=1x2y", "x=9999999999"}) {
    EXPECT_FALSE(parse_shape_option(bad).ok()) << bad;
  }
}

// Shape arithmetic leaves nothing behind: x reshaped to (dim 0, -1) by way of Shape, Gather,
// Unsqueeze, Concat.
TEST(OnnxImport, FoldsShapeArithmetic) {
  ir::Graph g;
  TestModel m(11);
  m.input("x", {2, 3, 4}).ints("zero", {}, {0}).ints("minus", {1}, {-1});
  m.node("Shape", {"x"}, {"s"})
      .node("Gather", {"s", "zero"}, {"d"})
      .node("Unsqueeze", {"d"}, {"d1"}, {{"axes", std::vector<int64_t>{0}}});
  m.node("Concat", {"d1", "minus"}, {"want"}, {{"axis", int64_t{0}}})
      .node("Reshape", {"x", "want"}, {"y"})
      .output("y");
  const auto r = import_onnx_bytes(g, m.bytes());
  ASSERT_TRUE(r.ok()) << r.error().what;
  EXPECT_EQ(r->outputs[0].tensor.dims(), (tensor::Dims{2, 12}));
  EXPECT_EQ(r->weights.count(), 0U);
  EXPECT_EQ(r->outputs[0].tensor.node()->src(0), ir::base(r->inputs[0].tensor.node()));
}

TEST(OnnxImport, UniformConstantsNeedNoStorage) {
  ir::Graph g;
  TestModel m(13);
  m.input("x", {3})
      .floats("half", {1}, {0.5})
      .floats("ones", {3}, {1, 1, 1})
      .node("Mul", {"x", "half"}, {"a"})
      .node("Add", {"a", "ones"}, {"y"})
      .output("y");
  const auto r = import_onnx_bytes(g, m.bytes());
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(r->weights.count(), 0U);
  EXPECT_THAT(values(g, *r, 0, {tensor::host_floats({3}, {2, 4, 6})}), ElementsAre(2, 3, 4));
}

TEST(OnnxImport, ConstantOutputsAreStored) {
  ir::Graph g;
  TestModel m(13);
  m.input("x", {3})
      .floats("a", {2}, {1, 1})
      .node("Neg", {"a"}, {"y"})
      .node("Shape", {"x"}, {"z"})
      .output("y")
      .output("z", ir::DType::kI64);
  const auto r = import_onnx_bytes(g, m.bytes());
  ASSERT_TRUE(r.ok()) << r.error().what;
  EXPECT_EQ(ir::device(g, r->outputs[0].tensor.node()), "CPU");
  EXPECT_THAT(values(g, *r, 0), ElementsAre(-1, -1));
  EXPECT_THAT(values(g, *r, 1), ElementsAre(3));
}

TEST(OnnxImport, BatchNormBecomesScaleAndShift) {
  ir::Graph g;
  TestModel m(9);
  m.input("x", {1, 2, 1})
      .floats("g", {2}, {1, 2})
      .floats("b", {2}, {0, 1})
      .floats("m", {2}, {1, 2})
      .floats("v", {2}, {4, 1});
  m.node("BatchNormalization", {"x", "g", "b", "m", "v"}, {"y"},
         {{"epsilon", 0.0}, {"momentum", 0.9}})
      .output("y");
  const auto r = import_onnx_bytes(g, m.bytes());
  ASSERT_TRUE(r.ok()) << r.error().what;
  EXPECT_EQ(r->weights.count(), 2U);
  EXPECT_THAT(values(g, *r, 0, {tensor::host_floats({1, 2, 1}, {3, 5})}), ElementsAre(1, 7));
}

// ---- errors ----

TEST(OnnxImport, UnsupportedOpNamesNodeOpAndOpset) {
  TestModel m(11);
  m.input("x", {2}).node("Frobnicate", {"x"}, {"y"}, {}, "Conv_3").output("y");
  EXPECT_EQ(error_of(m), "m.onnx: node 'Conv_3' (Frobnicate, opset 11): unsupported op");
  TestModel other(11);
  other.input("x", {2}).node("Relu", {"x"}, {"y"}, {}, "", "com.example").output("y");
  EXPECT_EQ(error_of(other),
            "m.onnx: node giving 'y' (com.example.Relu, opset 11): unsupported op");
}

TEST(OnnxImport, OpsHaveOpsetRanges) {
  TestModel early(7);
  early.input("x", {2}).node("Erf", {"x"}, {"y"}, {}, "e").output("y");
  EXPECT_EQ(error_of(early),
            "m.onnx: node 'e' (Erf, opset 7): unsupported op in this opset (known in 9 to 17)");
  EXPECT_THAT(error_of(small(18)), HasSubstr("opset 18, supported are 7 to 17"));
  EXPECT_THAT(error_of(small(6)), HasSubstr("opset 6, supported are 7 to 17"));
  EXPECT_EQ(error_of(small(7)), "imported");
  EXPECT_EQ(error_of(small(17)), "imported");
}

TEST(OnnxImport, UnknownAttributesAreErrors) {
  TestModel m(13);
  m.input("x", {2, 3})
      .node("Softmax", {"x"}, {"y"}, {{"axis", int64_t{1}}, {"temperature", 2.0}}, "sm")
      .output("y");
  EXPECT_EQ(error_of(m), "m.onnx: node 'sm' (Softmax, opset 13): unknown attribute 'temperature'");
  // An unprintable name does not break the line.
  TestModel damaged(13);
  damaged.input("x", {2, 3})
      .node("Softmax", {"x"}, {"y"}, {{"axis", int64_t{1}}, {"temp\x7f", 2.0}}, "sm")
      .output("y");
  EXPECT_EQ(error_of(damaged), "m.onnx: node 'sm' (Softmax, opset 13): unknown attribute 'temp?'");
}

TEST(OnnxImport, AttributesHaveTypes) {
  TestModel m(13);
  m.input("x", {2, 3}).node("Softmax", {"x"}, {"y"}, {{"axis", 1.0}}, "sm").output("y");
  EXPECT_EQ(error_of(m),
            "m.onnx: node 'sm' (Softmax, opset 13): attribute 'axis' has the wrong type");
}

TEST(OnnxImport, ControlFlowIsUnsupported) {
  TestModel m(13);
  m.input("c", {}, ir::DType::kBool)
      .node("If", {"c"}, {"y"}, {}, "branch")
      .graph_attr("then_branch")
      .output("y");
  EXPECT_THAT(error_of(m), HasSubstr("node 'branch' (If, opset 13): unsupported op"));
}

TEST(OnnxImport, CyclesAreFound) {
  TestModel m(13);
  m.input("x", {2})
      .node("Add", {"x", "b"}, {"a"}, {}, "first")
      .node("Relu", {"a"}, {"b"}, {}, "second")
      .output("b");
  EXPECT_THAT(error_of(m), HasSubstr("the graph has a cycle through node 'first' (Add"));
  TestModel self(13);
  self.input("x", {2}).node("Add", {"x", "a"}, {"a"}, {}, "own").output("a");
  EXPECT_THAT(error_of(self), HasSubstr("cycle through node 'own'"));
}

TEST(OnnxImport, MissingInputIsNamed) {
  TestModel m(13);
  m.input("x", {2}).node("Add", {"x", "w"}, {"y"}, {}, "sum").output("y");
  EXPECT_EQ(error_of(m),
            "m.onnx: node 'sum' (Add, opset 13): input 'w' is made by no node, initialiser or "
            "graph input");
  EXPECT_EQ(
      error_of(std::move(TestModel(13).input("x", {2}).node("Relu", {"x"}, {"y"}).output("z"))),
      "m.onnx: output 'z' is made by no node");
}

TEST(OnnxImport, DuplicateNamesAreErrors) {
  EXPECT_THAT(error_of(small().node("Neg", {"x"}, {"y"}, {}, "again")),
              HasSubstr("node 'again' (Neg, opset 13): value 'y' is made twice"));
  EXPECT_THAT(error_of(small().node("Neg", {"y"}, {"x"}, {}, "again")),
              HasSubstr("value 'x' is made twice"));
  EXPECT_THAT(error_of(small().input("x", {2, 3})), HasSubstr("input 'x' is there twice"));
  EXPECT_THAT(error_of(small().floats("w", {1}, {1}).floats("w", {1}, {2})),
              HasSubstr("initialiser 'w' is there twice"));
  EXPECT_THAT(error_of(small().output("y")), HasSubstr("output 'y' is there twice"));
}

TEST(OnnxImport, TypesMustAgree) {
  TestModel m(13);
  m.input("x", {2})
      .input("i", {2}, ir::DType::kI32)
      .node("Add", {"x", "i"}, {"y"}, {}, "sum")
      .output("y");
  EXPECT_EQ(error_of(m),
            "m.onnx: node 'sum' (Add, opset 13): inputs 0 and 1 have types f32 and i32");
  TestModel out(13);
  out.input("x", {2}).node("Relu", {"x"}, {"y"}).output("y", ir::DType::kF16);
  EXPECT_THAT(error_of(out), HasSubstr("output 'y' has type f32, the file says f16"));
  TestModel text(13);
  text.input("x", {2}, ir::DType::kI64).node("Exp", {"x"}, {"y"}, {}, "e").output("y");
  EXPECT_THAT(error_of(text),
              HasSubstr("node 'e' (Exp, opset 13): input 0 has type i64, a float type is needed"));
}

TEST(OnnxImport, ShapesMustFit) {
  TestModel m(13);
  m.input("a", {2, 3}).input("b", {4, 5}).node("MatMul", {"a", "b"}, {"y"}, {}, "mm").output("y");
  EXPECT_EQ(error_of(m), "m.onnx: node 'mm' (MatMul, opset 13): matmul: 2x3 by 4x5");
}

TEST(OnnxImport, ShapeInputsMustBeConstant) {
  TestModel m(13);
  m.input("x", {2, 3})
      .input("s", {2}, ir::DType::kI64)
      .node("Reshape", {"x", "s"}, {"y"}, {}, "r")
      .output("y");
  EXPECT_EQ(error_of(m),
            "m.onnx: node 'r' (Reshape, opset 13): input 1 (shape) must be constant after binding "
            "the input shapes");
}

TEST(OnnxImport, InputCountsAreChecked) {
  TestModel m(13);
  m.input("x", {2}).node("Add", {"x"}, {"y"}, {}, "sum").output("y");
  EXPECT_THAT(error_of(m), HasSubstr("node 'sum' (Add, opset 13): 1 inputs and 1 outputs"));
}

TEST(OnnxImport, OutputsNobodyMakesMayStayUnread) {
  auto pool = [] {
    TestModel m(13);
    m.input("x", {1, 1, 2, 2})
        .node("MaxPool", {"x"}, {"y", "where"}, {{"kernel_shape", std::vector<int64_t>{2, 2}}},
              "pool");
    return m;
  };
  EXPECT_EQ(error_of(pool().output("y")), "imported");
  EXPECT_THAT(error_of(pool().node("Neg", {"where"}, {"z"}, {}, "n").output("z", ir::DType::kI64)),
              HasSubstr("node 'pool' (MaxPool, opset 13): its output 'where' is read by node 'n'"));
}

TEST(OnnxImport, MetadataIsChecked) {
  EXPECT_THAT(error_of(small().metadata("modeld.context_frames", "-1")),
              HasSubstr("modeld.context_frames is '-1'"));
  EXPECT_THAT(error_of(small().metadata("modeld.slices", "[1]")),
              HasSubstr("modeld.slices is not a JSON object"));
  EXPECT_THAT(error_of(small().metadata("modeld.slices", R"({"a": [3, 1]})")),
              HasSubstr("'a' is not [begin, end]"));
}

TEST(OnnxImport, TensorBytesMustFit) {
  EXPECT_THAT(error_of(small().raw("w", {3}, 1, "12345")),
              HasSubstr("tensor 'w' needs 12 bytes, 5 are there"));
  EXPECT_THAT(error_of(small().raw("w", {-3}, 1, "")), HasSubstr("tensor 'w' has a bad size"));
  EXPECT_THAT(error_of(small().raw("w", {1 << 30, 1 << 30, 1 << 30}, 1, "")),
              HasSubstr("tensor 'w' has a bad size"));
  EXPECT_THAT(error_of(small().raw("w", {1}, 8, "")),
              HasSubstr("tensor 'w' has data type 8, which is not supported"));
  EXPECT_THAT(error_of(small().raw("w", TestModel::Dims(13, 1), 1, "1234")),
              HasSubstr("tensor 'w' has 13 axes"));
}

// ---- files ----

TEST(OnnxFile, DamageIsAnErrorNotACrash) {
  const auto good = small().floats("w", {3}, {1, 2, 3}).bytes();
  for (size_t n = 0; n < good.size(); ++n) {
    ir::Graph g;
    EXPECT_FALSE(import_onnx_bytes(g, std::span(good).first(n), {}, "", "cut.onnx").ok() && n < 4);
  }
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    auto bad = good;
    bad[random() % bad.size()] = static_cast<std::byte>(random() & 255);
    ir::Graph g;
    (void)import_onnx_bytes(g, bad);
  }
  ir::Graph g;
  const auto r = import_onnx_bytes(g, std::as_bytes(std::span("hello")), {}, "", "h.onnx");
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().what, "h.onnx: not an ONNX file, or damaged (6 bytes)");
}

TEST(OnnxFile, MissingFileIsNamed) {
  ir::Graph g;
  const auto r = import_onnx(g, "/nonexistent/m.onnx");
  ASSERT_FALSE(r.ok());
  EXPECT_THAT(r.error().what, HasSubstr("/nonexistent/m.onnx"));
}

class External : public ::testing::Test {
 protected:
  void SetUp() override {
    auto dir = TempDir::create();
    ASSERT_TRUE(dir.ok());
    dir_ = std::make_unique<TempDir>(std::move(*dir));
    const float v[] = {1, 2, 3, 4};
    ASSERT_TRUE(
        write_file_atomic(join_path(dir_->path(), "w.bin"), std::as_bytes(std::span(v))).ok());
  }
  TestModel model(const std::vector<std::pair<std::string, std::string>>& entries) {
    TestModel m(13);
    m.input("x", {2}).external("w", {2}, entries).node("Add", {"x", "w"}, {"y"}).output("y");
    return m;
  }
  std::string error(const std::vector<std::pair<std::string, std::string>>& entries) {
    return error_of(model(entries), {}, dir_->path());
  }
  std::unique_ptr<TempDir> dir_;
};

TEST_F(External, DataIsRead) {
  ir::Graph g;
  const auto r =
      import_onnx_bytes(g, model({{"location", "w.bin"}, {"offset", "4"}, {"length", "8"}}).bytes(),
                        {}, dir_->path());
  ASSERT_TRUE(r.ok()) << r.error().what;
  EXPECT_THAT(values(g, *r, 0, {tensor::host_floats({2}, {10, 20})}), ElementsAre(12, 23));
}

TEST_F(External, MissingFileIsNamed) {
  EXPECT_THAT(error({{"location", "gone.bin"}}),
              ::testing::AllOf(HasSubstr("m.onnx: tensor 'w': external data file "),
                               HasSubstr("gone.bin")));
  EXPECT_THAT(error_of(model({{"location", "w.bin"}})),
              HasSubstr("tensor 'w' lies in external file 'w.bin', and no folder is given"));
}

TEST_F(External, StaysInTheFolder) {
  EXPECT_THAT(error({{"location", "../w.bin"}}), HasSubstr("'../w.bin' leaves the model's folder"));
  EXPECT_THAT(error({{"location", "a/../../w.bin"}}), HasSubstr("leaves the model's folder"));
  EXPECT_THAT(error({{"location", "/etc/hostname"}}), HasSubstr("is not relative"));
  ASSERT_EQ(symlink("/etc/hostname", join_path(dir_->path(), "link").c_str()), 0);
  EXPECT_THAT(error({{"location", "link"}}), HasSubstr("'link' leaves the model's folder"));
}

TEST_F(External, BoundsAreChecked) {
  EXPECT_THAT(error({{"location", "w.bin"}, {"offset", "12"}}),
              HasSubstr("ends at 20 in external file 'w.bin' of 16 bytes"));
  EXPECT_THAT(error({{"location", "w.bin"}, {"length", "16"}}),
              HasSubstr("needs 8 bytes, its external data has 16"));
  EXPECT_THAT(error({{"location", "w.bin"}, {"offset", "18446744073709551615"}}),
              HasSubstr("external file 'w.bin' of 16 bytes"));
  EXPECT_THAT(error({{"location", "w.bin"}, {"offset", "-4"}}),
              HasSubstr("offset '-4' is not a number"));
}

// ---- public models, where they exist ----

struct SharedModel {
  const char* folder;
  tensor::Dims shape;  // of input "x"; empty = static
  double tolerance;    // of max |reference|
};

class SharedModels : public ::testing::TestWithParam<SharedModel> {};

TEST_P(SharedModels, GivesTheReferenceOutputs) {
  const std::string root = env_text("MODELD_SHARED");
  const std::string folder = join_path(join_path(root, "models"), GetParam().folder);
  if (root.empty() || !file_exists(join_path(folder, "model.onnx")))
    GTEST_SKIP() << "SKIPPED-SHARED " << GetParam().folder;
  ir::Graph g;
  ImportOptions options;
  if (!GetParam().shape.empty()) options.shapes["x"] = GetParam().shape;
  const auto m = import_onnx(g, join_path(folder, "model.onnx"), options);
  ASSERT_TRUE(m.ok()) << m.error().what;
  tensor::HostEval eval(g, &m->weights);
  for (const ImportedInput& in : m->inputs) {
    const auto npy = read_npy(join_path(folder, "input_" + in.name + ".npy"));
    ASSERT_TRUE(npy.ok()) << npy.error().what;
    auto value = modeld::testing::from_npy(*npy);
    ASSERT_TRUE(value.ok());
    eval.bind(in.tensor, std::move(*value));
  }
  for (const ImportedOutput& out : m->outputs) {
    const auto npy = read_npy(join_path(folder, "expected_" + out.name + ".npy"));
    ASSERT_TRUE(npy.ok()) << npy.error().what;
    const auto want = modeld::testing::from_npy(*npy);
    const auto got = eval.run(out.tensor);
    ASSERT_TRUE(got.ok()) << got.error().what;
    ASSERT_EQ(got->dims, want->dims);
    double most = 0, worst = 0;
    for (size_t i = 0; i < want->cells.size(); ++i) {
      most = std::max(most, std::fabs(want->at(i)));
      worst = std::max(worst, std::fabs(got->at(i) - want->at(i)));
    }
    EXPECT_LE(worst, GetParam().tolerance * most);
  }
}

INSTANTIATE_TEST_SUITE_P(Onnx,
                         SharedModels,
                         ::testing::Values(SharedModel{"ppocr2_cls", {1, 3, 48, 192}, 1e-4},
                                           SharedModel{"squeezenet_random", {}, 1e-4},
                                           SharedModel{"policy_standin_f16", {}, 1e-2}),
                         [](const auto& p) { return std::string(p.param.folder); });

}  // namespace
}  // namespace modeld::onnx_import
