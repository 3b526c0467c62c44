# Manifest of a bundle. Fields are only ever added; a change of meaning is a new format version.
# models/bundle/manifest.cc is the only code that reads or writes it.
@0xb1d5c07e9a4f2e63;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("modeld::bundle::wire");

struct Manifest {
  formatVersion @0 :UInt32;
  role @1 :UInt8;
  selfCheck @2 :UInt8;
  contextFrames @3 :UInt32;
  modelSha256 @4 :Data;
  compilerVersion @5 :Text;
  target @6 :Target;
  codegenConfig @7 :Text;
  backendCompiler @8 :Text;
  sections @9 :List(Section);
  programs @10 :List(Program);
  weights @11 :List(Weight);
  arenas @12 :List(Arena);
  buffers @13 :List(Buffer);
  entries @14 :List(Entry);
  memorySum @15 :UInt64;
  memoryPlanned @16 :UInt64;
  memoryBound @17 :UInt64;
  states @18 :List(StatePair);
  splits @19 :List(SplitInput);
  slices @20 :List(Slice);
  geometries @21 :List(Geometry);
  intrinsics @22 :List(Intrinsics);
  golden @23 :List(GoldenCase);
  budgetP50Ms @24 :Float64;
  budgetP99Ms @25 :Float64;
}

struct Target {
  kind @0 :Text;
  arch @1 :Text;
  features @2 :List(Text);
  renderer @3 :Text;
  threads @4 :UInt32;
  chips @5 :List(Text);
}

struct Section {
  kind @0 :UInt8;
  offset @1 :UInt64;
  size @2 :UInt64;
  hash @3 :Data;
}

struct Program {
  name @0 :Text;
  keyLo @1 :UInt64;
  keyHi @2 :UInt64;
  appliedOpts @3 :Text;
  outs @4 :List(UInt32);
  ins @5 :List(UInt32);
  bufferArgs @6 :UInt32;
  scalarArgs @7 :UInt32;
  groups @8 :List(UInt64);
  local @9 :List(UInt64);
  flops @10 :UInt64;
  ldsBytes @11 :UInt64;
  memBytes @12 :UInt64;
  noContract @13 :Bool;
  imageOffset @14 :UInt64;
  imageSize @15 :UInt64;
  imageEntry @16 :UInt64;
  imageAlign @17 :UInt64;
  astOffset @18 :UInt64;
  astSize @19 :UInt64;
  sourceOffset @20 :UInt64;
  sourceSize @21 :UInt64;
}

struct Weight {
  name @0 :Text;
  offset @1 :UInt64;
  size @2 :UInt64;
}

struct Arena {
  lane @0 :UInt32;
  size @1 :UInt64;
  sum @2 :UInt64;
  bound @3 :UInt64;
  copy @4 :Bool;
}

struct Buffer {
  kind @0 :UInt8;
  lane @1 :UInt32;
  index @2 :UInt32;
  offset @3 :UInt64;
  size @4 :UInt64;
}

struct Tensor {
  name @0 :Text;
  dtype @1 :Text;
  dims @2 :List(Int64);
  bytes @3 :UInt64;
  slot @4 :UInt32;
}

struct Scalar {
  name @0 :Text;
  vmin @1 :Int64;
  vmax @2 :Int64;
  slot @3 :UInt32;
}

struct Arg {
  kind @0 :UInt8;
  index @1 :UInt32;
  offset @2 :UInt64;
}

struct Call {
  kind @0 :UInt8;
  program @1 :UInt32;
  args @2 :List(Arg);
  copyBytes @3 :UInt64;
}

struct Entry {
  name @0 :Text;
  inputs @1 :List(Tensor);
  outputs @2 :List(Tensor);
  scalars @3 :List(Scalar);
  calls @4 :List(Call);
}

struct StatePair {
  input @0 :UInt32;
  output @1 :UInt32;
}

struct SplitInput {
  name @0 :Text;
  dims @1 :List(Int64);
  parts @2 :List(UInt32);
}

struct Slice {
  name @0 :Text;
  begin @1 :UInt64;
  end @2 :UInt64;
}

struct Geometry {
  stream @0 :Text;
  width @1 :UInt32;
  height @2 :UInt32;
  entry @3 :UInt32;
}

struct Intrinsics {
  stream @0 :Text;
  width @1 :UInt32;
  height @2 :UInt32;
  f @3 :Float64;
  cx @4 :Float64;
  cy @5 :Float64;
}

struct GoldenCase {
  entry @0 :UInt32;
  tolerance @1 :Float64;
  tensors @2 :List(GoldenTensor);
}

struct GoldenTensor {
  isOutput @0 :Bool;
  tensor @1 :UInt32;
  offset @2 :UInt64;
  size @3 :UInt64;
}
