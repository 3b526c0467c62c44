// Every op a kernel can hold, in every type it takes, over odd shapes and values that break things,
// against exact arithmetic. Which renderer: as the program is linked (host_options()).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "selftest/ops/op_cases.h"
#include "selftest/testing/compiled_kernel.h"

namespace modeld::ops {
namespace {

using ir::DType;
using ir::Op;
using testing::host_options;
using testing::KernelBatch;
using testing::KernelStorage;

// Ops of op.def that no row has, and why.
const std::map<Op, const char*>& without_row() {
  static const std::map<Op, const char*> kReasons = [] {
    std::map<Op, const char*> out;
    const auto all = [&](std::initializer_list<Op> ops, const char* why) {
      for (Op op : ops) out[op] = why;
    };
    all({Op::kBuffer, Op::kParam, Op::kConst, Op::kSpecial, Op::kRange, Op::kGetAddr},
        "storage and identity: no arithmetic");
    all({Op::kSink, Op::kAfter, Op::kGroup, Op::kEnd, Op::kCall, Op::kFunction, Op::kTuple,
         Op::kGetTuple, Op::kLinear, Op::kProgram, Op::kSource, Op::kBinary, Op::kStack, Op::kNoop},
        "structure: no arithmetic");
    all({Op::kCustomFunction, Op::kCustom, Op::kCustomI, Op::kIns}, "text of one target");
    all({Op::kIndex, Op::kShrink, Op::kLoad, Op::kStore},
        "memory: every case reads and writes, kernel-fuzz has all forms of indices and gates");
    all({Op::kBarrier, Op::kIf, Op::kEndIf, Op::kWmma}, "made by passes for targets with groups");
    all({Op::kReshape, Op::kPermute, Op::kFlip, Op::kExpand, Op::kPad, Op::kAllReduce, Op::kCopy,
         Op::kStage, Op::kContiguous, Op::kContiguousBackward, Op::kDetach, Op::kMSelect,
         Op::kMStack, Op::kUnshard},
        "graph only: gone before kernels");
    all({Op::kReduce}, "a loop over ADD, MUL, MAX: kernel_run_test and kernel-fuzz");
    all({Op::kCast, Op::kBitCast}, "two types: OpTable.CastsBetweenAllTypes, .BitcastsKeepBits");
    return out;
  }();
  return kReasons;
}

codegen::CodegenOptions options_of(size_t number) {
  codegen::CodegenOptions o = host_options();
  if (number % 3 == 1) o.noopt = true;
  if (number % 3 == 2) o.heuristic = codegen::Heuristic::kReference;
  return o;
}

// All cases in one call of the compiler; what differs, one line each.
std::vector<std::string> run_all(ir::Graph& g,
                                 const std::vector<OpCase>& cases,
                                 bool native_i64 = true) {
  std::vector<std::string> findings;
  auto machine = testing::foreign_machine();
  if (!machine.ok()) return {machine.error().what};
  KernelBatch batch(std::move(*machine));
  std::vector<std::pair<size_t, size_t>> kernels;  // case, number in the batch
  for (size_t n = 0; n < cases.size(); ++n) {
    codegen::CodegenOptions o = options_of(n);
    o.caps.native_i64 = native_i64;
    const auto added = batch.add(g, cases[n].ast, o);
    if (added.ok())
      kernels.emplace_back(n, *added);
    else
      findings.push_back(cases[n].name + ": " + added.error().what);
  }
  if (const Status built = batch.build(); !built.ok()) return {built.error().what};
  for (const auto& [n, kernel] : kernels) {
    std::vector<KernelStorage> buffers = cases[n].buffers;
    std::vector<KernelStorage*> args;
    for (KernelStorage& s : buffers) args.push_back(&s);
    const Status ran = batch.run(kernel, args, {}, n % 4);
    const std::string wrong = ran.ok() ? check_case(cases[n], buffers[0]) : ran.error().what;
    if (!wrong.empty()) findings.push_back(wrong);
  }
  return findings;
}

void expect_none(const std::vector<std::string>& findings, size_t cases) {
  std::printf("%zu cases, %zu failures\n", cases, findings.size());
  for (size_t i = 0; i < std::min<size_t>(findings.size(), 60); ++i) ADD_FAILURE() << findings[i];
}

// Each row runs over the table of specials and the masked shape; the others take turns.
std::vector<OpCase> cases_of(ir::Graph& g, bool floats) {
  std::vector<OpCase> out;
  size_t turn = 0;
  for (const Row& row : op_table()) {
    for (const DType t : types_of(row.types)) {
      if (ir::is_float(t) != floats) continue;
      const std::vector<Shape>& shapes = op_shapes();
      out.push_back(make_case(g, row, t, shapes[0]));
      out.push_back(make_case(g, row, t, shapes[1]));
      for (int k = 0; k < 2; ++k) {
        out.push_back(make_case(g, row, t, shapes[2 + turn % 5]));
        ++turn;
      }
    }
  }
  return out;
}

TEST(OpTable, EveryOpHasARowOrAReason) {
  std::set<Op> rows;
  for (const Row& row : op_table()) rows.insert(row.op);
  for (int k = 0; k < ir::kOpCount; ++k) {
    const auto op = static_cast<Op>(k);
    const bool has_reason = without_row().contains(op);
    EXPECT_NE(rows.contains(op), has_reason)
        << ir::op_name(op) << (has_reason ? " has a row and a reason" : " has neither");
  }
}

TEST(OpTable, RowsTakeOnlyTypesTheSpecAllows) {
  for (const Row& row : op_table()) {
    for (const DType t : types_of(row.types)) {
      const bool bits = row.op == Op::kAnd || row.op == Op::kOr || row.op == Op::kXor;
      EXPECT_FALSE(bits && ir::is_float(t)) << row.name;
      EXPECT_FALSE(row.op == Op::kFDiv && !ir::is_float(t)) << row.name;
    }
  }
}

TEST(OpTable, IntegersAreExact) {
  ir::Graph g;
  const std::vector<OpCase> cases = cases_of(g, false);
  expect_none(run_all(g, cases), cases.size());
}

TEST(OpTable, FloatsAreWithinTheirUnits) {
  ir::Graph g;
  const std::vector<OpCase> cases = cases_of(g, true);
  expect_none(run_all(g, cases), cases.size());
}

TEST(OpTable, CastsBetweenAllTypes) {
  ir::Graph g;
  std::vector<OpCase> cases;
  size_t turn = 0;
  for (const DType from : types_of(Types::kAll)) {
    for (const DType to : types_of(Types::kAll)) {
      if (from == to) continue;
      cases.push_back(make_cast_case(g, Op::kCast, from, to, op_shapes()[0]));
      cases.push_back(make_cast_case(g, Op::kCast, from, to, op_shapes()[1 + turn++ % 6]));
    }
  }
  expect_none(run_all(g, cases), cases.size());
}

// The same rows for a target without 64-bit integers.
TEST(DtypeEmulation, LongsAsTwoWordsComputeEveryRow) {
  ir::Graph g;
  std::vector<OpCase> cases;
  const auto is_long = [](DType t) { return t == DType::kI64 || t == DType::kU64; };
  for (OpCase& c : cases_of(g, false)) {
    // A division is 64 steps of code: one shape of it is enough, where no compiler has to read it.
    const bool is_large = c.row.domain == Domain::kNotByZero || c.row.domain == Domain::kPower;
    const bool is_affordable = c.shape.is_masked && host_options().caps.name == "x86";
    if (is_long(c.type) && (!is_large || is_affordable)) cases.push_back(std::move(c));
  }
  for (const DType t : types_of(Types::kAll)) {
    for (const DType wide : {DType::kI64, DType::kU64}) {
      if (t == wide) continue;
      cases.push_back(make_cast_case(g, Op::kCast, wide, t, op_shapes()[0]));
      if (!is_long(t)) cases.push_back(make_cast_case(g, Op::kCast, t, wide, op_shapes()[1]));
    }
  }
  expect_none(run_all(g, cases, false), cases.size());
}

TEST(OpTable, BitcastsKeepBits) {
  ir::Graph g;
  std::vector<OpCase> cases;
  size_t turn = 0;
  for (const DType from : types_of(Types::kNumbers)) {
    for (const DType to : types_of(Types::kNumbers)) {
      if (from == to || ir::item_bits(from) != ir::item_bits(to)) continue;
      // A NaN's payload is nobody's promise, so floats give their bits only where they are numbers.
      OpCase c = make_cast_case(g, Op::kBitCast, from, to, op_shapes()[turn++ % 7]);
      for (double& v : c.buffers[1].f)
        if (v != v) v = 1;
      cases.push_back(std::move(c));
    }
  }
  expect_none(run_all(g, cases), cases.size());
}

// A judge that accepts everything would pass the whole table.
TEST(OpTable, AWrongElementIsFound) {
  ir::Graph g;
  const Row& add = op_table()[7];
  ASSERT_STREQ(add.name, "Add");
  const OpCase c = make_case(g, add, DType::kF32, op_shapes()[3]);
  KernelStorage right = c.buffers[0];
  for (size_t k = 0; k < right.f.size(); ++k)
    right.f[k] = static_cast<float>(c.buffers[1].f[k] + c.buffers[2].f[k + 1]);
  EXPECT_EQ(check_case(c, right), "");
  for (size_t k = 0; k < right.f.size(); ++k) {
    KernelStorage wrong = right;
    const auto next = std::nextafter(static_cast<float>(right.f[k]), INFINITY);
    wrong.f[k] = std::nextafter(next, INFINITY);
    const bool is_same = wrong.f[k] == right.f[k] || std::isnan(wrong.f[k]);
    EXPECT_EQ(check_case(c, wrong).empty(), is_same) << k;
  }
}

}  // namespace
}  // namespace modeld::ops
