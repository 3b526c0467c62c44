#include "models/bundle/sample_bundle.h"

#include "hal/base/check.h"
#include "hal/base/fs.h"

namespace modeld::bundle {
namespace {

using exec::ArgRef;
using exec::CallRow;

std::vector<std::byte> pattern(size_t size, unsigned seed) {
  std::vector<std::byte> out(size);
  unsigned x = seed * 2654435761u + 1;
  for (std::byte& b : out) {
    x = x * 1664525u + 1013904223u;
    b = static_cast<std::byte>(x >> 24);
  }
  return out;
}

exec::ProgramRow program(const char* name, uint64_t key, uint32_t buffers, uint32_t scalars) {
  exec::ProgramRow p;
  p.name = name;
  p.key = Hash128{key * 77, key};
  p.ast_text = std::string("%0 = const weakint {1}\n%1 = sink void %0 {") + name + "}";
  p.source = std::string("void ") + name + "(void) {}\n";
  p.applied_opts = "UPCAST(0,4) THREAD(0,2)";
  p.outs = {0};
  p.ins = {1};
  p.buffer_args = buffers;
  p.scalar_args = scalars;
  p.groups[0] = 2;
  p.flops = 1000 * key;
  p.lds_bytes = 500;
  p.mem_bytes = 400;
  p.image.code = pattern(100 + key * 40, static_cast<unsigned>(key));
  p.image.size = p.image.code.size();
  p.image.entry_offset = 16;
  return p;
}

exec::TensorInfo tensor(const char* name, ir::DType t, std::vector<int64_t> dims, uint32_t slot) {
  uint64_t bytes = static_cast<uint64_t>(ir::item_size(t));
  for (const int64_t d : dims) bytes *= static_cast<uint64_t>(d);
  return {name, t, std::move(dims), bytes, slot};
}

ArgRef buffer(uint32_t i) {
  return {ArgRef::Kind::kBuffer, i, 0};
}
ArgRef slot(uint32_t i) {
  return {ArgRef::Kind::kSlot, i, 0};
}

exec::Entry run_entry() {
  exec::Entry e;
  e.name = "run";
  e.inputs = {tensor("img/0", ir::DType::kU8, {1, 6, 4, 8}, 0),
              tensor("img/1", ir::DType::kU8, {1, 6, 4, 8}, 1),
              tensor("s", ir::DType::kF32, {1, 8}, 2)};
  e.outputs = {tensor("outputs", ir::DType::kF32, {1, 12}, 3),
               tensor("next_s", ir::DType::kF32, {1, 8}, 4)};
  e.calls = {CallRow{CallRow::Kind::kProgram, 0, {buffer(2), slot(0), slot(1), buffer(0)}, 0},
             CallRow{CallRow::Kind::kProgram, 0, {slot(3), buffer(2), slot(2), buffer(1)}, 0},
             CallRow{CallRow::Kind::kCopy, 0, {slot(4), slot(2)}, 32}};
  return e;
}

exec::Entry warp_entry() {
  exec::Entry e;
  e.name = "warp/road/1928x1208";
  e.inputs = {tensor("frame", ir::DType::kU8, {1, 3735552}, 0),
              tensor("matrix", ir::DType::kF32, {3, 3}, 1)};
  e.outputs = {tensor("out", ir::DType::kU8, {1, 6, 4, 8}, 2)};
  e.scalars = {{"stride", 1, 65536, 3}, {"uv_offset", 0, 1 << 30, 4}};
  e.calls = {CallRow{CallRow::Kind::kProgram,
                     1,
                     {slot(2),
                      slot(0),
                      slot(1),
                      {ArgRef::Kind::kScalar, 3, 0},
                      {ArgRef::Kind::kScalar, 4, 0},
                      {ArgRef::Kind::kConst, 0, 7}},
                     0}};
  return e;
}

exec::Plan sample_plan() {
  exec::Plan p;
  p.target.kind = "cpu";
  p.target.arch = "x86-64-v3";
  p.target.features = {"avx", "avx2", "fma"};
  p.codegen_config = "upcast=1 noopt=0";
  p.compiler = "clang-19 -O2";
  p.programs = {program("r_12_32", 1, 4, 0), program("warp_192", 2, 3, 3)};
  p.weights = {{"w.0", 0, 256}, {"w.1", 256, 100}};
  p.weight_bytes = pattern(384, 9);
  p.arenas = {{0, 4096, 8900, 3900, false}, {1, 64, 100, 64, true}};
  p.buffers = {{exec::BufferRow::Kind::kWeight, 0, 0, 0, 256},
               {exec::BufferRow::Kind::kWeight, 0, 1, 0, 100},
               {exec::BufferRow::Kind::kArena, 0, 0, 1024, 512},
               {exec::BufferRow::Kind::kArena, 1, 1, 0, 64}};
  p.entries = {run_entry(), warp_entry()};
  p.memory = {9000, 4160, 4544};
  return p;
}

}  // namespace

BundleContent sample_content() {
  BundleContent c;
  Manifest& m = c.manifest;
  m.role = Role::kRoad;
  m.model_sha256 = sha256(pattern(32, 5));
  m.compiler_version = "0.1.0";
  m.plan = sample_plan();
  m.states = {{2, 1}};
  m.splits = {{"img", {1, 12, 4, 8}, {0, 1}}};
  m.slices = {{"plan", 0, 8}, {"pose", 8, 12}};
  m.context_frames = 24;
  m.geometries = {{"road", 1928, 1208, 1}};
  m.intrinsics = {{"road", 512, 256, 910, 256, 47.6}};
  GoldenCase g;
  g.tolerance = 1e-4;
  uint64_t offset = 0;
  const auto add = [&](bool is_output, uint32_t index, uint64_t size) {
    g.tensors.push_back({is_output, index, offset, size});
    offset += size;
  };
  for (uint32_t i = 0; i < 3; ++i) add(false, i, m.plan.entries[0].inputs[i].bytes);
  for (uint32_t i = 0; i < 2; ++i) add(true, i, m.plan.entries[0].outputs[i].bytes);
  m.golden = {g};
  c.golden = pattern(offset, 3);
  m.self_check = SelfCheck::kQuick;
  m.budget = {25, 50};
  c.keep_sources = true;
  return c;
}

std::vector<std::byte> sample_bundle() {
  auto bytes = format_bundle(sample_content());
  CHECK(bytes.ok());
  return std::move(*bytes);
}

Status write_sample(const std::string& path, std::span<const std::byte> bytes) {
  return write_file_atomic(path, bytes);
}

}  // namespace modeld::bundle
