// The table of faults: how each is brought about, what the contract says must be seen, and within
// what time. Bounds are the contract's figures plus what a client needs to see them (a frame
// period, a step, a state message). This is not the judge (judge.h) and not the stage (scene.h).
// Threading: constants; the functions run in the row's process.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ipc/model_state.h"

#include "selftest/faults/scene.h"

namespace modeld::faults {

// Who breaks it: the world around the process, or a switch in it.
enum class By : uint8_t { kWorld, kSwitch };

enum class See : uint8_t {
  kState,       // a transition of `model` into (state, reason)
  kUnaffected,  // nothing at all, for bound_ms
  kSilence,     // no message any more: only the gate can tell
};

enum class Gate : uint8_t {
  kStays,    // may engage, all the time
  kSoft,     // soft disable, nothing more
  kLeaves,   // out within 0.6 s of the first missed frame: soft, and for good if it is not back
  kNoEntry,  // never in before the first valid output
};

enum class Back : uint8_t {
  kItself,  // READY again without help, within back_ms
  kRepair,  // READY within back_ms of the repair
  kStays,   // as it is: nothing here could mend it
};

struct Row {
  const char* name;
  By by;
  const char* source;    // section 6 of the contract, or a field report "7 #18"
  const char* injected;  // how
  const char* model;
  See see;
  ipc::ModelState state;
  ipc::Reason reason;
  const char* text;  // a word of the state's text, "" for any
  int64_t bound_ms;
  Back back;
  int64_t back_ms;
  Gate gate;
  void (*setup)(Scene&) = nullptr;   // before anything starts
  void (*inject)(Scene&) = nullptr;  // once both models are READY; null: it is there from the start
  void (*repair)(Scene&) = nullptr;
  void (*verify)(Scene&) = nullptr;  // what else must hold at the end
  bool settles = true;               // false: inject does not wait for READY
};

// In processing order: what is loaded, who runs it, what it gives, what it is fed with, who
// listens.
std::span<const Row> bundle_rows();
std::span<const Row> process_rows();
std::span<const Row> output_rows();
std::span<const Row> input_rows();
std::span<const Row> client_rows();
std::vector<Row> all_rows();

}  // namespace modeld::faults
