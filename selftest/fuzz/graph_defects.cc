#include "selftest/fuzz/graph_defects.h"

#include <cinttypes>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "selftest/fuzz/graph_batch.h"
#include "selftest/fuzz/graph_damage.h"

namespace modeld::fuzz {
namespace {

using schedule::ScheduleOptions;

struct Defect {
  const char* name;
  Damage damage;
  bool is_compiled = false;  // else kernels are interpreted
  bool is_looked_at = true;  // else only what comes out can tell
  int64_t most_buffers =
      0;  // promised for a kernel, whatever the LINEAR was made with; 0: as it was
};

const std::vector<Defect>& defects() {
  static const std::vector<Defect> kAll = {
      {"a read runs before the write it waits for", read_before_write},
      {"a write runs before a read of the old contents", write_before_read},
      {"a call is lost", lose_call},
      {"a call that reads what it writes runs twice", repeat_call},
      {"a write goes to memory nobody reads", write_elsewhere},
      {"two operands change places", swap_operands},
      {"a store that reads its target is not staged", unstage},
      {"memory is given back one call early (looked at)", share_early},
      {"memory is given back one call early (run)", share_early, true, false},
      {"an arena place is shifted", shift_place},
      {"copies share the lane of compute", mix_lanes},
      {"the LINEAR of other options comes out of the cache", nullptr, false, true, 3},
      {"a mask is one too wide", widen_mask},
      {"a flipped index is one off", shift_flip},
      {"a mask is the wrong way round", turn_mask},
      {"a sum begins at 1", start_sum_at_one},
      {"a sum begins at 1, compiled", start_sum_at_one, true},
      {"a maximum begins at 0", start_max_at_zero},
      {"a rounding is lost", lose_rounding},
      {"a variable has the value of another call", bind_wrong},
      {"a variable has the value of another call, compiled", bind_wrong, true},
      {"the offset of a view is ignored", forget_offset},
      {"the offset of a view is ignored, compiled", forget_offset, true},
      {"a device gets the first part instead of its own", forget_part},
  };
  return kAll;
}

class Planter final : public Saboteur {
 public:
  explicit Planter(const Defect& defect) : defect_(defect) {}

  void damage(ir::Graph& g, exec::SessionLinear& work) override {
    if (defect_.damage != nullptr) defect_.damage(g, work);
  }
  std::optional<ScheduleOptions> promised(const ScheduleOptions& o) override {
    if (!defect_.is_looked_at) return {};
    ScheduleOptions out = o;
    if (defect_.most_buffers > 0) out.max_kernel_buffers = defect_.most_buffers;
    return out;
  }

 private:
  const Defect& defect_;
};

struct Found {
  uint64_t graphs = 0;
  std::string text;  // "": not found
};

// Random programs until one shows the defect and passes without it.
Found search(const Defect& defect, uint64_t seed) {
  constexpr uint64_t kStep = 16;
  constexpr uint64_t kMost = 2048;
  Found out;
  for (uint64_t first = 0; first < kMost && out.text.empty(); first += kStep) {
    std::vector<uint64_t> numbers;
    std::vector<Program> programs;
    for (uint64_t i = first; i < first + kStep; ++i) {
      numbers.push_back(i);
      programs.push_back(numbered_program(seed, i));
    }
    const exec::SessionOptions options = numbered_options(seed, first);
    Planter planter(defect);
    const BatchResult batch = run_batch(numbers, programs, options, !defect.is_compiled, &planter);
    for (size_t i = 0; i < batch.cases.size() && out.text.empty(); ++i) {
      ++out.graphs;
      if (!batch.cases[i].finding) continue;
      const BatchResult sound =
          run_batch({numbers[i]}, {programs[i]}, options, !defect.is_compiled);
      if (!sound.cases[0].finding) out.text = batch.cases[i].finding.text;
    }
  }
  return out;
}

}  // namespace

int run_self_proof(uint64_t seed) {
  size_t found = 0;
  for (const Defect& d : defects()) {
    const Found f = search(d, seed);
    found += f.text.empty() ? 0 : 1;
    std::printf("graph-fuzz: defect %s: %s (%" PRIu64 " graphs)%s%s\n", d.name,
                f.text.empty() ? "NOT FOUND" : "found", f.graphs, f.text.empty() ? "" : ": ",
                f.text.c_str());
  }
  std::printf("self-proof: %zu of %zu defects found\n", found, defects().size());
  return found == defects().size() ? 0 : 1;
}

}  // namespace modeld::fuzz
