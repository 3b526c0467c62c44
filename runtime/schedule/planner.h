// The planners behind memory_plan_rewrite on plain structs, without any graph: the pinned TLSF
// baseline and two that know all lifetimes beforehand, best fit and a sweep (sweep_plan.h).
// Contract: pure functions; same input, same output, byte for byte.
// Units: bytes (unsigned 128 bit) and call numbers. Threading: any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace modeld::schedule {

__extension__ typedef unsigned __int128 Bytes;

inline constexpr uint64_t kPlanBlock = 256;  // alignment and granule of every placement

struct PlanBuffer {
  Bytes nbytes = 0;
  std::string device = "CPU";
  bool held = false;
};

struct PlanCall {
  std::vector<size_t> args;  // indices of buffers, destination first
  bool copy = false;
};

struct PlanInput {
  std::vector<PlanBuffer> buffers;
  std::vector<PlanCall> calls;
};

enum class PlanMethod : uint8_t { kTlsf, kBestFit, kSweep };

struct PlanLane {
  std::string device;  // or a tuple of devices: its buffers, one per device, plan as one
  bool copy = false;
  Bytes arena = 0;
  Bytes sum = 0;
  Bytes lower_bound = 0;  // most bytes alive at one call: no plan can be smaller
  PlanMethod method = PlanMethod::kTlsf;
};

struct PlanPlace {
  int64_t lane = -1;  // -1 = not planned
  Bytes offset = 0;
};

struct PlanOutput {
  std::vector<PlanLane> lanes;    // in order of first use
  std::vector<PlanPlace> places;  // one per buffer
};

// A buffer is alive at calls [first, free).
struct Lifetime {
  size_t buffer = 0;
  int64_t first = 0;
  int64_t last = 0;
  int64_t free = 0;  // last + 1 + hold
  size_t lane = 0;
  Bytes size = 0;  // rounded up to kPlanBlock
};

// Every device of it has sub-buffers. One name, or several joined by commas.
bool is_plannable_device(const std::string& device);
std::vector<Lifetime> lifetimes(const PlanInput& in, std::vector<PlanLane>* lanes);

PlanOutput plan_tlsf(const PlanInput& in);
PlanOutput plan_best_fit(const PlanInput& in);
// Per lane the smallest arena of TLSF and, with `offline`, best fit and the sweep; the first named
// on a tie. A planner is asked only while the lane is above its lower bound.
PlanOutput plan_memory(const PlanInput& in, bool offline);

}  // namespace modeld::schedule
