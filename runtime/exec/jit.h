// Jit: a function on a Session's tensors that is built once and then replayed, for library users.
// The daemon never uses it: it replays plans. States: cnt 0 runs the function as it is; cnt 1 runs
// it a last time and captures what it would compute (jit_capture, jit_lower, batch); from cnt 2 on
// only the captured calls are replayed, the function's side effects, branches and plain numbers are
// frozen.
// Contract:
//  - every call must have the signature of the first (jit_signature.h), else kArgsMismatch; inputs
//    are real, distinct buffers (kNotABuffer, kDuplicateInput);
//  - results are the same tensors in every call: the next call overwrites them. An argument that
//    lies in memory the replay writes (a result that is fed back) is copied first;
//  - what the function reads besides its arguments are the captured buffers: update them with
//    assign and realize. A replay is one step outside of the session's order of statements: values
//    that are still to be computed from results or assigned state must be realised before it;
//  - while it captures, nothing is read (kCaptureRead) and no other Jit of the session runs
//    (kCaptureNested, already in the first call); a function that computes nothing is
//    kNothingCaptured; a value on several devices at once is kUnsupported, several devices with
//    copies between them are fine;
//  - a call returns when its results are there. After a timeout no result is valid and later calls
//    fail at once until reinit() or reset(). A function that failed while it was captured has its
//    effects on live tensors carried out.
// Threading: one thread at a time; the Session must outlive the Jit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hal/base/clock.h"
#include "hal/base/status.h"

#include "runtime/exec/batch.h"
#include "runtime/exec/jit_signature.h"
#include "runtime/exec/session.h"

namespace modeld::exec {

class CaptureScope;
class GraphReplay;
class JitCapture;
class JitState;
struct SavedJit;

// Builds results with the session's tensors; the arguments are those of the call.
using JitFunction = std::function<Result<std::vector<Live>>(Session&, const JitArgs&)>;

struct JitOptions {
  bool enabled = true;  // JIT=0: false, the function runs every time
  BatchOptions batch;   // JIT=2: no_graphs
  // Work that no argument and no state reaches runs once, at the capture, and not in replays. Then
  // later updates of the buffers it read are not seen.
  bool prune = false;
};

class Jit {
 public:
  Jit(Session& session, JitFunction function, JitOptions options = {});
  ~Jit();
  Jit(const Jit&) = delete;
  Jit& operator=(const Jit&) = delete;

  // Without a deadline: the session's run limit.
  Result<std::vector<Live>> call(const JitArgs& args);
  Result<std::vector<Live>> call(const JitArgs& args, Deadline deadline);
  int cnt() const { return cnt_; }

  Status reset();                    // back to cnt 0; kNoFunction for one that was loaded
  Status reinit(Deadline deadline);  // after a timeout: recovers the devices, keeps the capture
  // Gives up recordings, arenas and the memory of results until the next call; their contents are
  // lost.
  Status free_intermediates();

  // Everything a process without the function needs: cnt 2 after load. kNotCaptured before.
  Result<std::vector<std::byte>> save();
  Status save_file(const std::string& path);
  // kCorrupt, or kMismatch for another target, CPU features, code-generation configuration or
  // format. Compiles nothing.
  static Result<std::unique_ptr<Jit>> load(Session& session,
                                           std::span<const std::byte> bytes,
                                           JitOptions options = {});
  static Result<std::unique_ptr<Jit>> load_file(Session& session,
                                                const std::string& path,
                                                JitOptions options = {});

  // What was captured, for tests and reports; null before.
  const CompiledLinear* linear() const;
  const GraphReplay* replay() const;
  std::vector<hal::Buffer> arenas() const;  // for tests that poison them between runs
  size_t staged_copies() const;             // arguments the last call copied first
  uint64_t bound_bytes() const;             // memory the replay uses now, held and arenas

 private:
  Result<std::vector<Live>> run_function(const JitArgs& args);
  Result<std::vector<Live>> dispatch(const JitArgs& args, CaptureScope& scope, Deadline deadline);
  Status capture(const JitArgs& args, const BoundArgs& bound, CaptureScope& scope);
  Status build(const JitCapture& capture, const BoundArgs& bound, std::vector<Live> results);
  Result<SavedJit> to_saved();
  Status from_saved(SavedJit saved);

  Session& session_;
  JitFunction function_;
  JitOptions options_;
  int cnt_ = 0;
  JitSignature signature_;           // of the first call
  std::unique_ptr<JitState> state_;  // from the capture on
};

}  // namespace modeld::exec
