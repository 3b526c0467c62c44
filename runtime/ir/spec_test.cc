// The verifier tables, rule by rule: a node each rule accepts and one it refuses.
#include "runtime/ir/spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/ir/derived.h"
#include "runtime/ir/print.h"

namespace modeld::ir {
namespace {

using ::testing::HasSubstr;

class SpecTable : public ::testing::Test {
 protected:
  using Verify = Status (*)(Graph&, const Node*);

  // `good` passes; `bad` is a violation whose message says `why` (or another fault).
  void expect_rule(Verify verify,
                   const Node* good,
                   const Node* bad,
                   const char* why,
                   Fault fault = Fault::kSpecViolation) {
    const Status ok = verify(g, sink(g, NodeVec{good}));
    EXPECT_TRUE(ok.ok()) << print(good) << ok.error().what;
    const Status no = verify(g, sink(g, NodeVec{bad}));
    ASSERT_FALSE(no.ok()) << print(bad);
    EXPECT_EQ(fault_of(no.error()), fault) << no.error().what;
    EXPECT_THAT(no.error().what, HasSubstr(why));
    g.clear_failure();
  }
  void tensor(const Node* good, const Node* bad, const char* why) {
    expect_rule(verify_tensor, good, bad, why);
  }
  void graph(const Node* good, const Node* bad, const char* why) {
    expect_rule(verify_kernel_graph, good, bad, why);
  }
  void kernel(const Node* good, const Node* bad, const char* why) {
    expect_rule(verify_kernel, good, bad, why);
  }
  void program(const Node* good, const Node* bad, const char* why) {
    expect_rule(verify_program, good, bad, why);
  }

  const Node* make(Op op, NodeVec src, Arg arg = {}, DType t = DType::kF32) {
    return g.make(op, t, src, std::move(arg));
  }
  const Node* effect(Op op, NodeVec src, Arg arg = {}) {
    return g.make(op, DType::kVoid, src, std::move(arg));
  }
  const Node* storage(Op op, DType t, ParamArg arg, int64_t n = 4) {
    return g.make(op, t, {const_int(g, n)}, std::move(arg));
  }
  const Node* dims(Ints d) { return shape_node(g, d); }
  const Node* num(int64_t v, DType t = DType::kI32) { return const_int(g, v, t); }
  const Node* index(const Node* at) { return make(Op::kIndex, {param(g, 0, DType::kF32, 4), at}); }
  const Node* number(const Node* n, DType t) { return make(Op::kCast, {n}, {}, t); }

  Graph g;
  const Node* x = buffer(g, 1, DType::kF32, 4, AddrSpace::kGlobal, "CPU");
  const Node* y = buffer(g, 2, DType::kF32, 4, AddrSpace::kGlobal, "CPU");
  const Node* whole = buffer(g, 3, DType::kI32, 4, AddrSpace::kGlobal, "CPU");
  const Node* flag = const_bool(g, true);
  const Node* one = const_float(g, 1, DType::kF32);
  const Node* loop = range(g, 4, 0, AxisType::kWeak);
  const Node* body = sink(g, NodeVec{}, KernelInfo{});
  const Node* call = effect(Op::kCall, {body, x});
};

// ---- rules of every stage ----

TEST_F(SpecTable, ConstantsFitTheirType) {
  tensor(num(255, DType::kU8), g.make(Op::kConst, DType::kU8, {}, int64_t{256}), "fit the type");
  tensor(one, g.make(Op::kConst, DType::kF32, {}, int64_t{1}), "fit the type");
  tensor(flag, g.make(Op::kConst, DType::kBool, {}, int64_t{1}), "fit the type");
  tensor(const_invalid(g), g.make(Op::kConst, DType::kI32, {}, 1.0), "fit the type");
}

TEST_F(SpecTable, OperandsHaveTheTypeOfTheResult) {
  tensor(make(Op::kAdd, {x, y}), make(Op::kAdd, {x, whole}), "differs from the result type");
  tensor(make(Op::kAdd, {x, const_invalid(g, DType::kBool)}), make(Op::kAdd, {x}),
         "number of sources");
  tensor(make(Op::kCmpLt, {x, y}, {}, DType::kBool), make(Op::kCmpLt, {x, y}), "gives bool");
  tensor(make(Op::kCmpLt, {x, y}, {}, DType::kBool), make(Op::kCmpLt, {x, whole}, {}, DType::kBool),
         "differ in type");
}

TEST_F(SpecTable, ChoicesAreMadeByABool) {
  tensor(make(Op::kWhere, {flag, x, y}), make(Op::kWhere, {one, x, y}), "not bool");
  tensor(make(Op::kWhere, {flag, x, const_invalid(g)}), make(Op::kWhere, {flag, x, whole}),
         "arms differ");
}

TEST_F(SpecTable, BitsAndIntegerDivisionAreOfIntegers) {
  for (Op op : {Op::kAnd, Op::kOr, Op::kXor}) {
    tensor(make(op, {whole, whole}, {}, DType::kI32), make(op, {x, y}), "bit operation on floats");
  }
  for (Op op : {Op::kCDiv, Op::kCMod, Op::kFloorDiv, Op::kFloorMod}) {
    tensor(make(op, {whole, whole}, {}, DType::kI32), make(op, {x, y}), "not integer");
  }
  tensor(make(Op::kFDiv, {x, y}), make(Op::kFDiv, {whole, whole}, {}, DType::kI32), "not float");
  tensor(make(Op::kShl, {whole, whole}, {}, DType::kI32), make(Op::kShl, {x, whole}),
         "shift of something not integer");
}

TEST_F(SpecTable, RangesHaveABoundOfTheirTypeAndAnAxis) {
  kernel(loop, g.make(Op::kRange, DType::kWeakInt, {const_int(g, 4)}), "axis type");
  kernel(loop, g.make(Op::kRange, DType::kI32, {const_int(g, 4)}, RangeArg{}), "differ in type");
}

TEST_F(SpecTable, OnlyRangesAreClosed) {
  const Node* store = effect(Op::kStore, {index(loop), one});
  kernel(effect(Op::kEnd, {store, loop}), effect(Op::kEnd, {store, num(4)}), "not a range");
  kernel(effect(Op::kEnd, {store, loop}), effect(Op::kEnd, {}), "no body");
}

TEST_F(SpecTable, StatesAreOfStorage) {
  const Node* store = effect(Op::kStore, {x, one});
  tensor(make(Op::kAfter, {x, store}), make(Op::kAfter, {make(Op::kAdd, {x, y}), store}),
         "no storage");
  tensor(make(Op::kAfter, {make(Op::kReshape, {x, dims({2, 2})}), store}),
         make(Op::kAfter, {x, store}, {}, DType::kI32), "must keep the type");
}

TEST_F(SpecTable, GroupsAreOfEffects) {
  const Node* store = effect(Op::kStore, {x, one});
  tensor(effect(Op::kGroup, {store, call}), effect(Op::kGroup, {store, x}), "groups a value");
}

TEST_F(SpecTable, CallsHaveABodyThatCanBeCalled) {
  tensor(call, effect(Op::kCall, {x, y}), "nothing that can be called");
  tensor(effect(Op::kCall, {effect(Op::kLinear, {call}), x}), effect(Op::kCall, {}),
         "nothing that can be called");
}

TEST_F(SpecTable, ProgramsGrowStageByStage) {
  const Node* linear = effect(Op::kLinear, {});
  const Node* source = effect(Op::kSource, {}, std::string("int"));
  const Node* sink_only = effect(Op::kProgram, {body});
  tensor(effect(Op::kCall, {sink_only, x}),
         effect(Op::kCall, {body, effect(Op::kProgram, {body, source})}), "stages");
  tensor(effect(Op::kProgram, {body, linear, source}), effect(Op::kProgram, {}), "stages");
}

// ---- tensor graphs ----

TEST_F(SpecTable, TensorGraphsHaveNoOpsOfLaterStages) {
  const Node* at = make(Op::kIndex, {x, num(0)});
  tensor(at, make(Op::kLoad, {at}), "later stage");
  tensor(at, effect(Op::kBarrier, {call}), "later stage");
  tensor(at, make(Op::kStage, {x}, StageArg{}), "later stage");
}

TEST_F(SpecTable, MovementOpsHaveTheirArguments) {
  const Node* m = make(Op::kReshape, {x, dims({2, 2})});
  tensor(make(Op::kPermute, {m}, Ints{1, 0}), make(Op::kPermute, {m}), "list of axes");
  tensor(make(Op::kFlip, {m}, Ints{1, 0}), make(Op::kFlip, {m}), "list of axes");
  tensor(make(Op::kShrink, {x, dims({1}), dims({2})}),
         make(Op::kShrink, {x, dims({1}), dims({2, 1})}), "as many sizes as starts");
  tensor(make(Op::kPad, {x, dims({1}), dims({6})}), make(Op::kPad, {x, dims({1, 1}), dims({6})}),
         "as many sizes as starts");
  tensor(m, make(Op::kReshape, {x, dims({2, 2})}, {}, DType::kI32), "must keep the type");
}

TEST_F(SpecTable, ReducesHaveAnOpAndLeadingAxes) {
  tensor(make(Op::kReduce, {x}, ReduceArg{Op::kAdd, 1}),
         make(Op::kReduce, {x}, ReduceArg{Op::kSub, 1}), "reduce op");
  tensor(make(Op::kReduce, {x}, ReduceArg{Op::kMax, 0}),
         make(Op::kReduce, {x}, ReduceArg{Op::kAdd, -1}), "number of leading axes");
  tensor(make(Op::kReduce, {x}, ReduceArg{Op::kMul, 1}),
         make(Op::kReduce, {whole}, ReduceArg{Op::kAdd, 1}), "differ in type");
}

TEST_F(SpecTable, StacksAreOfEqualElements) {
  tensor(make(Op::kStack, {x, y}), make(Op::kStack, {x, one}), "differ in shape");
  tensor(make(Op::kStack, {x, y}), make(Op::kStack, {x, whole}), "differ in type");
}

TEST_F(SpecTable, StorageIsTypedAndPlaced) {
  const auto p = [](AddrSpace space, const char* device) {
    ParamArg arg;
    arg.slot = 7;
    arg.addrspace = space;
    arg.device = device;
    return arg;
  };
  tensor(x, storage(Op::kBuffer, DType::kF32, p(AddrSpace::kGlobal, "")), "without a device");
  tensor(x, storage(Op::kBuffer, DType::kWeakInt, p(AddrSpace::kGlobal, "CPU")), "weak type");
  tensor(param(g, 0, DType::kF32, 4),
         storage(Op::kParam, DType::kWeakFloat, p(AddrSpace::kGlobal, "CPU")), "weak type");
  tensor(variable(g, "n", 0, 4), storage(Op::kParam, DType::kI32, p(AddrSpace::kAlu, "CPU")),
         "variable on a device");
  tensor(x, g.make(Op::kBuffer, DType::kF32, {const_int(g, 4)}), "storage facts");
}

TEST_F(SpecTable, CopiesGoToADevice) {
  tensor(make(Op::kCopy, {x}, std::string("CPU:1")), make(Op::kCopy, {x}), "needs a device");
  tensor(make(Op::kCopy, {x}, std::string("CPU:1")),
         make(Op::kCopy, {const_int(g, 1)}, std::string("CPU:1"), DType::kWeakInt), "weak type");
}

TEST_F(SpecTable, FunctionsGiveTuples) {
  const Node* tuple = effect(Op::kTuple, {x, y});
  const Node* f = effect(Op::kFunction, {tuple, x});
  tensor(make(Op::kGetTuple, {f}, int64_t{1}), make(Op::kGetTuple, {f}, int64_t{2}), "none such");
  tensor(make(Op::kGetTuple, {tuple}, int64_t{0}), make(Op::kGetTuple, {x}, int64_t{0}),
         "none such");
  tensor(f, effect(Op::kFunction, {x, x}), "not a TUPLE");
}

TEST_F(SpecTable, SeveralDevicesAreCountedRight) {
  const Node* far = buffer(g, 4, DType::kF32, 4, AddrSpace::kGlobal, "CPU:1");
  const Node* both = buffer(g, 5, DType::kF32, 4, AddrSpace::kGlobal, "CPU,CPU:1");
  tensor(make(Op::kMStack, {x, far}), make(Op::kMStack, {x, both}), "exactly one device");
  tensor(make(Op::kMSelect, {both}, int64_t{1}), make(Op::kMSelect, {both}, int64_t{2}),
         "not in the tuple");
  const Node* d =
      g.make(Op::kRange, DType::kWeakInt, {const_int(g, 2)}, RangeArg{0, AxisType::kDevice});
  tensor(make(Op::kUnshard, {both, d}, Ints{0}), make(Op::kUnshard, {both}, Ints{0}),
         "one coordinate per sharded axis");
  tensor(make(Op::kAllReduce, {both}, AllReduceArg{Op::kAdd, "CPU,CPU:1"}),
         make(Op::kAllReduce, {both}), "reduce op and a device");
}

TEST_F(SpecTable, ShapesThatDoNotFitAreRefused) {
  const Node* m = make(Op::kReshape, {x, dims({2, 2})});
  const Node* bytes = buffer(g, 6, DType::kU8, 6, AddrSpace::kGlobal, "CPU");
  const std::pair<const Node*, const char*> bad[] = {
      {make(Op::kReshape, {x, dims({3, 2})}), "4 elements into a shape of 6"},
      {make(Op::kReshape, {x, dims({-2, -2})}), "negative dimension -2"},
      {make(Op::kPermute, {m}, Ints{0, 0}), "not a permutation of 2 axes"},
      {make(Op::kPermute, {m}, Ints{0}), "not a permutation of 2 axes"},
      {make(Op::kShrink, {x, dims({2}), dims({3})}), "out of bounds of axis 0 with size 4"},
      {make(Op::kPad, {x, dims({3}), dims({6})}), "out of bounds of axis 0 with size 6"},
      {make(Op::kShrink, {m, dims({0}), dims({1})}), "1 starts and 1 sizes for 2 axes"},
      {make(Op::kBitCast, {bytes}), "does not divide from 1-byte into 4-byte items"},
      {make(Op::kReduce, {m}, ReduceArg{Op::kAdd, 3}), "3 axes of a value with 2"},
      {make(Op::kIndex, {x, num(0), num(0)}), "2 indices into 1 axes"},
      {make(Op::kAdd, {x, make(Op::kShrink, {x, dims({0}), dims({3})})}),
       "cannot broadcast dimension"}};
  for (const auto& [node, why] : bad) {
    const Status s = verify_tensor(g, sink(g, NodeVec{node}));
    ASSERT_FALSE(s.ok()) << why;
    EXPECT_EQ(fault_of(s.error()), Fault::kBadShape) << s.error().what;
    EXPECT_THAT(s.error().what, HasSubstr(why));
    g.clear_failure();
  }
}

// ---- between kernels ----

TEST_F(SpecTable, OnlyStatesAndKernelsStandBetweenKernels) {
  const Node* state = make(Op::kAfter, {x, call});
  graph(state, make(Op::kAdd, {x, y}), "not allowed between kernels");
  graph(effect(Op::kCall, {body, make(Op::kReshape, {state, dims({2, 2})})}),
        make(Op::kPermute, {make(Op::kReshape, {x, dims({2, 2})})}, Ints{1, 0}),
        "not allowed between kernels");
  graph(effect(Op::kCall, {body, make(Op::kMStack, {x, y})}), make(Op::kIndex, {x, num(0)}),
        "not allowed between kernels");
}

TEST_F(SpecTable, OnlyTheLoopOverDevicesIsOpenBetweenKernels) {
  const Node* devices = range(g, 2, 0, AxisType::kDevice);
  expect_rule(verify_kernel_graph, effect(Op::kEnd, {call, devices}),
              effect(Op::kEnd, {call, loop}), "loop left open", Fault::kOpenRange);
  graph(effect(Op::kEnd, {call, devices}), effect(Op::kEnd, {body, devices}), "no kernel");
}

TEST_F(SpecTable, OnlyBoundVariablesAreStoredBetweenKernels) {
  const Node* n = variable(g, "n", 0, 9);
  graph(effect(Op::kStore, {n, num(3)}), effect(Op::kStore, {x, one}), "outside of kernels");
  graph(effect(Op::kStore, {n, num(3)}), effect(Op::kStore, {n, n}), "outside of kernels");
}

TEST_F(SpecTable, StorageOfAKernelIsNotSeenBetweenKernels) {
  graph(x, buffer(g, 6, DType::kF32, 4, AddrSpace::kLocal, ""), "storage of one kernel");
}

TEST_F(SpecTable, ShapesBetweenKernelsAreConstantsAndVariables) {
  const Node* n = variable(g, "n", 0, 9);
  graph(make(Op::kStack, {num(4), n}, {}, DType::kI32), make(Op::kStack, {x, y}),
        "neither constant nor variable");
}

// ---- one kernel before lowering ----

TEST_F(SpecTable, KernelsSpeakOfParamsByIndex) {
  const Node* store = effect(Op::kStore, {index(loop), one});
  kernel(store, make(Op::kReshape, {param(g, 0, DType::kF32, 4), dims({2, 2})}), "movement op");
  kernel(store, x, "must be a PARAM");
  kernel(store, effect(Op::kStore, {param(g, 0, DType::kF32, 4), one}), "needs INDEX and a value");
  kernel(store, make(Op::kLoad, {index(loop)}), "before lowering");
  kernel(store, make(Op::kContiguous, {index(loop)}), "before lowering");
}

TEST_F(SpecTable, IndicesThatAreNeverInsideAreRefused) {
  kernel(index(add_const(g, loop, 3)), index(add_const(g, loop, 4)), "outside of its storage");
  kernel(index(add_const(g, loop, -3)), index(add_const(g, loop, -4)), "outside of its storage");
  // Under a gate the index may be anything.
  const Node* gated =
      where(g, lt(g, loop, const_int(g, 0)), add_const(g, loop, 9), const_invalid(g));
  EXPECT_TRUE(verify_kernel(g, sink(g, NodeVec{index(gated)})).ok());
}

// ---- programs ----

TEST_F(SpecTable, ProgramsHaveNeitherWeakTypesNorInvalidNorMovement) {
  const Node* at = index(num(0));
  program(at, make(Op::kAdd, {const_int(g, 1), const_int(g, 2)}, {}, DType::kWeakInt), "weak type");
  program(number(const_int(g, 1), DType::kI32), const_invalid(g, DType::kBool), "Invalid");
  program(at, make(Op::kFlip, {at}, Ints{}), "movement op");
}

TEST_F(SpecTable, ProgramsHaveNoOpsOfEarlierStages) {
  program(index(num(0)), make(Op::kReduce, {one}, ReduceArg{Op::kAdd, 0}), "earlier stage");
  program(make(Op::kCDiv, {num(4), num(2)}, {}, DType::kI32),
          make(Op::kFloorDiv, {num(4), num(2)}, {}, DType::kI32), "earlier stage");
}

TEST_F(SpecTable, BuffersOfAProgramAreLocal) {
  program(index(num(0)), x, "global buffer in a program");
  program(buffer(g, 6, DType::kF32, 4, AddrSpace::kLocal, ""), x, "global buffer in a program");
  program(buffer(g, 6, DType::kF32, 4, AddrSpace::kReg, ""), x, "global buffer in a program");
}

TEST_F(SpecTable, HardwareIndicesAreI32) {
  const auto special = [this](DType t) {
    return g.make(Op::kSpecial, t, {num(4)}, std::string("gidx0"));
  };
  program(special(DType::kI32), special(DType::kI64), "not i32");
}

TEST_F(SpecTable, AccessesAreAtAddressesInside) {
  const Node* p = param(g, 0, DType::kF32, 4);
  program(make(Op::kLoad, {index(num(3))}), make(Op::kLoad, {p}), "neither INDEX nor SHRINK");
  program(effect(Op::kStore, {index(num(3)), one}), effect(Op::kStore, {p, one}),
          "neither INDEX nor SHRINK");
  program(make(Op::kLoad, {index(num(3))}), make(Op::kLoad, {index(num(4))}),
          "outside of its storage");
  program(make(Op::kLoad, {index(num(4)), one, flag}), make(Op::kLoad, {index(num(-1))}),
          "outside of its storage");
  program(effect(Op::kStore, {index(num(4)), one, flag}), effect(Op::kStore, {index(num(4)), one}),
          "outside of its storage");
}

TEST_F(SpecTable, GuardsHaveAConditionAndAnAddress) {
  const Node* at = index(num(0));
  const Node* guard = effect(Op::kIf, {flag, at});
  program(guard, effect(Op::kIf, {one, at}), "not bool");
  program(guard, effect(Op::kIf, {flag, one}), "address it guards");
  program(effect(Op::kEndIf, {guard}), effect(Op::kEndIf, {one}), "not IF");
}

TEST_F(SpecTable, AViolationNamesTheNodeAndItsSources) {
  const Status s = verify_tensor(g, sink(g, NodeVec{make(Op::kAdd, {x, whole})}));
  ASSERT_FALSE(s.ok());
  EXPECT_EQ(s.error().code, Errc::kInternal);
  EXPECT_EQ(s.error().what,
            "tensor spec: node 3 add:f32 operand differs from the result type (sources: buffer:f32 "
            "buffer:i32)");
}

}  // namespace
}  // namespace modeld::ir
