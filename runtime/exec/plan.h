// Plan: everything a device needs to replay a model, as plain data: programs, weights layout,
// arenas, buffers and the static call list of every entry point. It is what a bundle stores, and
// nothing else decides what runs. It is not a loaded model (loaded_plan.h) and holds no address,
// time or path. Contract: indices and offsets are checked by check_plan before anybody follows
// them; two compiles of the same graph give equal plans (stats apart). Units: bytes. Threading:
// plain values; loading never changes a plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hal/base/hash.h"
#include "hal/base/status.h"
#include "hal/target.h"

#include "runtime/ir/dtype.h"

namespace modeld::exec {

constexpr uint64_t kRowAlign = 64;  // weight rows, arena views and code images

// Finished code of one kernel: text and constants, no relocation. Either `code` holds the bytes
// (fresh from the compiler) or they lie at [offset, offset + size) of the bundle's program section.
struct Image {
  std::vector<std::byte> code;
  uint64_t offset =
      0;              // in the packed program section; set by pack_images and by the bundle reader
  uint64_t size = 0;  // 0: this kernel has no binary (prepare() must make one)
  uint64_t entry_offset = 0;       // of the function, from the start of the image
  uint64_t alignment = kRowAlign;  // 4096 for code with page-relative addresses

  bool is_missing() const { return size == 0; }
};

// One distinct kernel.
struct ProgramRow {
  std::string name;      // function name
  Hash128 key;           // program key: AST, target and code-generation configuration
  std::string ast_text;  // kernel AST before apply_opts (ir/print.h); prepare and check compile it
  std::string source;    // rendered source; may be empty in bundles
  std::string applied_opts;         // "UPCAST(0,4) THREAD(0,2)"
  std::vector<uint32_t> outs, ins;  // argument positions stored to and loaded from
  uint32_t buffer_args = 0;         // the first arguments are addresses, the rest scalars
  uint32_t scalar_args = 0;
  uint64_t groups[3] = {1, 1, 1};  // CPU: groups[0] core ranges
  uint64_t local[3] = {1, 1, 1};
  uint64_t flops = 0;        // estimates: multiply-add counts 2
  uint64_t lds_bytes = 0;    // all bytes moved
  uint64_t mem_bytes = 0;    // unique bytes touched
  bool no_contract = false;  // compiled without floating-point contraction (warps)
  Image image;

  uint32_t arg_count() const { return buffer_args + scalar_args; }
};

struct WeightRow {
  std::string name;
  uint64_t offset = 0;  // in the weights section, a multiple of kRowAlign
  uint64_t size = 0;
};

// One lane's memory. The figures behind `size` are for people: nothing is decided by them.
struct ArenaRow {
  uint32_t lane = 0;
  uint64_t size = 0;
  uint64_t sum = 0;    // bytes of all entries' buffers, if none shared any
  uint64_t bound = 0;  // most bytes alive at one call of any entry: no plan can be smaller
  bool copy = false;   // the lane of copies' buffers
};

// Memory the plan owns. Inputs, outputs and states are no rows: they are bound by patch slots.
struct BufferRow {
  enum class Kind : uint8_t { kWeight, kArena };
  Kind kind = Kind::kArena;
  uint32_t lane = 0;    // of the arena; 0 for weights
  uint32_t index = 0;   // row of Plan::weights or Plan::arenas
  uint64_t offset = 0;  // inside that row
  uint64_t size = 0;
  auto operator<=>(const BufferRow&) const = default;
};

// One argument of a call.
struct ArgRef {
  enum class Kind : uint8_t {
    kBuffer,  // Plan::buffers[index], plus offset
    kSlot,    // the device address slots[index], plus offset
    kScalar,  // the value slots[index]
    kConst,   // the value `offset`
  };
  Kind kind = Kind::kBuffer;
  uint32_t index = 0;
  uint64_t offset = 0;
  auto operator<=>(const ArgRef&) const = default;
};

struct CallRow {
  enum class Kind : uint8_t { kProgram, kCopy };
  Kind kind = Kind::kProgram;
  uint32_t program = 0;      // Plan::programs
  std::vector<ArgRef> args;  // kCopy: destination, source
  uint64_t copy_bytes = 0;   // kCopy only
  bool operator==(const CallRow&) const = default;
};

// A tensor the caller binds: `slot` takes its device address at every run (element aligned).
struct TensorInfo {
  std::string name;
  ir::DType dtype = ir::DType::kF32;
  std::vector<int64_t> dims;
  uint64_t bytes = 0;
  uint32_t slot = 0;
  bool operator==(const TensorInfo&) const = default;
};

// A scalar the caller binds: `slot` takes its value, sign extended to 64 bits, at every run.
struct ScalarInfo {
  std::string name;
  int64_t vmin = 0, vmax = 0;
  uint32_t slot = 0;
  bool operator==(const ScalarInfo&) const = default;
};

// A LINEAR with its own table of patch slots: first the inputs, then the outputs, then the scalars.
struct Entry {
  std::string name;  // "run", "warp/road/1928x1208"
  std::vector<TensorInfo> inputs, outputs;
  std::vector<ScalarInfo> scalars;
  std::vector<CallRow> calls;

  uint32_t slot_count() const {
    return static_cast<uint32_t>(inputs.size() + outputs.size() + scalars.size());
  }
  const TensorInfo* find_input(std::string_view tensor) const;
  const TensorInfo* find_output(std::string_view tensor) const;
};

// Memory planning in figures: what intermediates would take alone, what planning needs, what a
// loaded plan takes (arenas and weights).
struct MemoryStats {
  uint64_t sum_bytes = 0, planned_bytes = 0, resident_bytes = 0;
  bool operator==(const MemoryStats&) const = default;
};

// Which calls of an entry use which bytes of an arena. For reports only, never part of a bundle.
struct ArenaUse {
  uint32_t entry = 0, arena = 0;
  uint64_t offset = 0, size = 0;
  uint32_t first = 0, last = 0;  // calls [first, last] name the buffer
  uint32_t free = 0;             // first call that may use its bytes again
};

// How the images came about. Differs from run to run: reports only, never part of a bundle.
struct CompileStats {
  uint64_t kernels = 0;                             // distinct kernels asked for
  uint64_t lowered = 0;                             // not found in to_program_cache
  uint64_t schedule_hits = 0, schedule_misses = 0;  // look-ups of schedule_cache
  uint64_t cold = 0, memory_hits = 0, disk_hits = 0;
  int64_t lower_ns = 0, compile_ns = 0, total_ns = 0;
};

struct Plan {
  hal::Target target;
  std::string codegen_config;        // the whole code-generation configuration, canonical text
  std::string compiler;              // back-end compiler with version and flags
  std::vector<ProgramRow> programs;  // sorted by key
  std::vector<WeightRow> weights;
  std::vector<ArenaRow> arenas;  // shared by all entries: nothing in them survives a run
  std::vector<BufferRow> buffers;
  std::vector<Entry> entries;
  MemoryStats memory;

  // The weights section when it is not mapped from a bundle.
  std::vector<std::byte> weight_bytes;
  CompileStats stats;
  std::vector<ArenaUse> arena_uses;  // by entry, then in order of first use

  const Entry* find_entry(std::string_view name) const;
  uint64_t weights_size() const;  // of the weights section
  uint64_t arena_bound() const;   // sum of the arenas' lower bounds
  size_t missing_images() const;
};

// Every index, offset and size of an untrusted plan against the section sizes; kCorrupt names the
// row. `program_bytes` is ignored for images that carry their own code.
Status check_plan(const Plan& plan, uint64_t weight_bytes, uint64_t program_bytes);

// Lays all images that carry code out into one program section (aligned, in row order), sets their
// offsets and returns the section. kInvalid when an image is backed by a file instead.
Result<std::vector<std::byte>> pack_images(Plan& plan);

// Removes one kernel's binary, for tests of prepare.
void strip_image(ProgramRow& program);

// "call 12 (r_64_32) of entry run"
std::string call_text(const Plan& plan, const Entry& entry, size_t call);

}  // namespace modeld::exec
