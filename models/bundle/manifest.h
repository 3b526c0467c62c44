// Manifest: all of a bundle that is not bulk bytes, as one plain struct: identity, plan, interface,
// state pairs, geometry, golden rows, budget. It is not the Cap'n Proto form (manifest.cc is the
// only file that knows it) and decoding is not validation: validate.h checks every index, offset
// and name before anybody follows one. Contract: encode is deterministic; decode refuses what is
// not a well-formed message, too large, or holds an enum value this program does not know. Units:
// bytes, pixels, milliseconds. Threading: plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hal/base/hash.h"
#include "hal/base/status.h"

#include "runtime/exec/plan.h"

#include "models/bundle/bundle_format.h"

namespace modeld::bundle {

enum class Role : uint8_t { kGeneric, kRoad, kCabin };
const char* role_name(Role role);  // "road"
Result<Role> parse_role(std::string_view text);

// Which self-check the builder ran on the finished file. kNone: the host could not execute the
// target.
enum class SelfCheck : uint8_t { kNone, kQuick, kFull };
const char* self_check_name(SelfCheck check);
Result<SelfCheck> parse_self_check(std::string_view text);  // quick|full

struct SectionRow {
  SectionKind kind = SectionKind::kWeights;
  uint64_t offset = 0;  // in the file
  uint64_t size = 0;    // without padding, never 0
  Hash256 hash;         // BLAKE2b-256
  bool operator==(const SectionRow&) const = default;
};

// A part of a text section.
struct TextRange {
  uint64_t offset = 0, size = 0;
  bool operator==(const TextRange&) const = default;
};

// `input` of entry run is fed by `output` of the run before (X and next_X); indices into the entry.
struct StatePair {
  uint32_t input = 0, output = 0;
  bool operator==(const StatePair&) const = default;
};

// An input of the model that entry run takes in equal parts, each with its own patch slot (image
// history): part i is the i-th of parts.size() consecutive pieces of the whole.
struct SplitInput {
  std::string name;             // of the model's input, "img"
  std::vector<int64_t> dims;    // of the whole
  std::vector<uint32_t> parts;  // inputs of entry run, oldest first
  bool operator==(const SplitInput&) const = default;
};

// Elements [begin, end) of the output named `outputs`.
struct SliceRow {
  std::string name;
  uint64_t begin = 0, end = 0;
  bool operator==(const SliceRow&) const = default;
};

// One camera geometry of one stream that the bundle can warp.
struct GeometryRow {
  std::string stream;  // "road", "wide", "cabin"
  uint32_t width = 0, height = 0;
  uint32_t entry = 0;  // Plan::entries
  bool operator==(const GeometryRow&) const = default;
};

// Pinhole intrinsics of the model's own view of one stream, in pixels of the model's image.
struct IntrinsicsRow {
  std::string stream;
  uint32_t width = 0, height = 0;
  double f = 0, cx = 0, cy = 0;
  bool operator==(const IntrinsicsRow&) const = default;
};

struct GoldenTensor {
  bool is_output = false;
  uint32_t tensor = 0;  // index into the entry's inputs or outputs
  uint64_t offset = 0;  // in the golden section
  uint64_t size = 0;
  bool operator==(const GoldenTensor&) const = default;
};
// Every input and output of one run of one entry, computed by the reference.
struct GoldenCase {
  uint32_t entry = 0;
  double tolerance = 0;  // max |difference| / max |reference|, per output; 0: exact
  std::vector<GoldenTensor> tensors;
  bool operator==(const GoldenCase&) const = default;
};

struct TimingBudget {
  double p50_ms = 0, p99_ms = 0;  // 0: none
  bool operator==(const TimingBudget&) const = default;
};

struct Manifest {
  uint32_t format_version = kFormatVersion;
  Role role = Role::kGeneric;
  Hash256 model_sha256;            // of the ONNX file
  std::string compiler_version;    // of this project
  std::vector<std::string> chips;  // allow-list; empty: every chip of the target's arch
  std::vector<SectionRow> sections;

  // Without bytes of its own: images and weights lie in their sections, ast_text and source in
  // theirs.
  exec::Plan plan;
  std::vector<TextRange> asts;     // per program, in section graph
  std::vector<TextRange> sources;  // per program, in section sources; empty when there is none

  std::vector<StatePair> states;
  std::vector<SplitInput> splits;
  std::vector<SliceRow> slices;
  uint32_t context_frames = 0;
  std::vector<GeometryRow> geometries;
  std::vector<IntrinsicsRow> intrinsics;
  std::vector<GoldenCase> golden;
  SelfCheck self_check = SelfCheck::kNone;
  TimingBudget budget;

  const SectionRow* find_section(SectionKind kind) const;
  const GeometryRow* find_geometry(std::string_view stream, uint32_t width, uint32_t height) const;
  const IntrinsicsRow* find_intrinsics(std::string_view stream) const;
  const SliceRow* find_slice(std::string_view name) const;
  // The model's input that part `input` of entry run belongs to, or null.
  const SplitInput* split_of(uint32_t input) const;
};

Result<std::vector<std::byte>> encode_manifest(const Manifest& manifest);
// `bytes` must be 8-byte aligned (a page border of the mapping is). kCorrupt.
Result<Manifest> decode_manifest(std::span<const std::byte> bytes);

}  // namespace modeld::bundle
