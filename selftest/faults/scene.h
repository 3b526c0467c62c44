// One row's stage: a runtime directory with the real modeld, modelcam and `modelctl gate`, a tap on
// everything that is published, and what the row does to them. It knows nothing of what is
// expected.
// Contract: a Scene lives in a process of its own (fault_matrix.cc forks one per row), so that a
// row may enter namespaces and leave them by ending. Threading: one thread, besides tap and camera.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hal/base/json.h"

#include "selftest/e2e/harness.h"
#include "selftest/faults/faulty_camera.h"

namespace modeld::faults {

// What the gate decided, as `modelctl gate --json` tells it.
struct GateEntry {
  int64_t time_ns = 0;
  std::string decision;
  std::string because;
  uint64_t frame_id = 0;          // the last valid frame it used, of the row's model
  int64_t frame_received_ns = 0;  // 0: none yet
};

// A state that says that something came too late by one of the daemon's own clocks: a busy machine
// brings it about by itself.
bool is_lateness(const ipc::ModelStatus& status);

class Scene {
 public:
  // `defect`: a deliberate one of the self-proof, "" for the programs as they are.
  explicit Scene(std::string defect);
  ~Scene();

  // ---- before start() ----
  e2e::RigOptions options;
  std::string switches;       // MODELD_FAULT= of the daemon
  bool own_camera = false;    // FaultyCamera instead of modelcam
  bool records = true;        // the outputs are replayed offline afterwards ...
  std::string replay_bundle;  // ... road's with this bundle, "": the row's own

  void start();
  bool has_started() const { return rig_ != nullptr; }

  e2e::Rig& rig() { return *rig_; }
  e2e::Tap& tap() { return rig_->tap(); }
  FaultyCamera& camera() { return *camera_; }
  std::string file(const std::string& name) const;  // in a folder of the row's own
  // A copy of the row's own that the row may damage.
  std::string copy_of(const std::string& path, const std::string& name) const;

  // Sends a signal to a model's worker.
  void signal_worker(const std::string& model, int signal);
  void pause_ms(int64_t ms) const;

  // The row cannot be run here.
  void skip(const std::string& why);
  // A finding: what was seen is wrong, and one time is enough.
  void require(bool holds, const std::string& what);
  // A finding about time: it came too late, or not within its bound. The machine may be to blame.
  void require_in_time(bool holds, const std::string& what);
  // A state that came and should not have.
  void refuse(const ipc::ModelStatus& status, const std::string& what);
  // So many workers, the first included; one that timed out and was replaced is about time.
  void require_starts(const std::string& model, uint64_t starts, const std::string& what);
  // A figure worth showing beside the verdict.
  void note(const std::string& text) { note_ = text; }
  const std::string& noted() const { return note_; }

  // When the fault was there, if not at once.
  int64_t slack = 1;  // multiplies a row's own bounds as well
  std::optional<int64_t> fault_ns;

  // After the row: what gate and recorder say. The gate's counts must be those of its log.
  std::vector<GateEntry> stop_gate(const std::string& model);
  // Makes what was recorded of these models again. Runs that were equal bit for bit; a finding if
  // one was not, or if nothing was recorded.
  uint64_t replay(const std::vector<std::string>& models);

  const std::vector<std::string>& findings() const { return findings_; }
  const std::vector<std::string>& late() const { return late_; }
  const std::string& skipped() const { return skipped_; }
  const std::string& defect() const { return defect_; }
  // Undone when the row ends.
  void at_end(std::function<void()> undo) { undo_.push_back(std::move(undo)); }

 private:
  void start_clients(const e2e::Rig& rig);
  void check_gate_counts(const Json& gate);
  uint64_t replay(const std::string& model);

  std::string defect_;
  TempDir temp_;
  std::unique_ptr<e2e::Child> gate_;
  std::unique_ptr<e2e::Child> recorder_;
  std::unique_ptr<FaultyCamera> camera_;
  std::unique_ptr<e2e::Rig> rig_;
  std::vector<std::function<void()>> undo_;
  std::vector<std::string> findings_;
  std::vector<std::string> late_;
  std::string skipped_;
  std::string note_;
};

}  // namespace modeld::faults
