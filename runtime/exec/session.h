// Session: the life of tensors that are computed when asked for: live tensors, assignment,
// realize, and the memory behind them on CPU devices of this process. For tests and library users;
// the daemon replays plans and never uses it.
//
// A tensor is a value, not a place: it always reads as if every statement had been executed when
// it was written. So that scheduling later gives the same,
//  - assign() moves the target and every live view of its buffer to the new state; values that were
//    computed from the old one keep it; equal expressions are one node and so one tensor with one
//    memory, however many handles it has: assigning to one of them is seen through all;
//  - a realize() that overwrites a buffer first copies it for those live tensors that still read
//    the old contents;
//  - after it, live tensors name the buffer by a fresh BUFFER node. A Tensor that still names the
//    overwritten contents (nobody tracked it) is refused with Fault::kStaleReader, never computed
//    from the new ones.
// LINEARs, captured ones too, name each buffer by its first node (canonical()).
//
// Contract: an error leaves live tensors as they were, except one from a device. A realize that
// finds nothing to compute makes no schedule; an empty() that nobody writes gets no memory. While a
// capturer is active (and capturing is on) LINEARs go to it, nothing runs, and read() is
// Fault::kCaptureRead. Device names: "CPU", "CPU:0", "CPU:1", ...; each name is a device of its
// own. Lifetime: Graph and WeightStore outlive the Session; Live handles may outlive it. Units:
// bytes. Threading: one thread, as the Graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "hal/base/clock.h"
#include "hal/base/status.h"
#include "hal/device.h"

#include "runtime/exec/compile_plan.h"
#include "runtime/exec/realize.h"
#include "runtime/ir/graph.h"
#include "runtime/schedule/capture.h"
#include "runtime/schedule/create_linear_with_vars.h"
#include "runtime/schedule/memory_plan_rewrite.h"
#include "runtime/schedule/options.h"
#include "runtime/schedule/transform_to_call.h"
#include "runtime/tensor/tensor.h"
#include "runtime/tensor/weight_store.h"

namespace modeld::exec {

class SessionPrograms;
class SessionMemory;

struct SessionOptions {
  schedule::ScheduleOptions schedule;
  CompileOptions compile;          // no target: this host's CPU
  hal::DeviceConfig device;        // of each device that is opened
  bool capturing = true;           // CAPTURING
  int64_t run_limit_ms = 120'000;  // of realize() and read()
};

// A handle to a live tensor; copies are the same tensor. It stays live until its last copy is gone.
class Live {
 public:
  Live() = default;
  bool valid() const { return state_ != nullptr; }
  const ir::Node* node() const { return state_->node; }
  bool operator==(const Live&) const = default;

 private:
  friend class Session;
  struct State {
    const ir::Node* node = nullptr;
  };
  explicit Live(std::shared_ptr<State> state) : state_(std::move(state)) {}
  // shared_ptr: the session's registry and every copy of the handle name one tensor.
  std::shared_ptr<State> state_;
};

// What linear_with_vars gives: a LINEAR of kernel calls, values of the variables it uses, and where
// its temporaries lie.
struct SessionLinear {
  const ir::Node* linear = nullptr;  // never null; without sources: nothing to do
  schedule::VarBinds vars;
  schedule::MemoryPlan plan;
  bool empty() const { return linear == nullptr || linear->nsrc == 0; }
};

// What happened since the session began; for tests and reports.
struct SessionStats {
  uint64_t schedules = 0;  // LINEARs made, captured ones included
  uint64_t captured = 0;   // of them handed to a capturer
  uint64_t planned = 0;    // of them that went through the memory planner
  uint64_t snapshots = 0;  // buffers copied for readers of overwritten contents
  uint64_t launches = 0;   // kernels submitted, once per device
  uint64_t copies = 0;     // copies submitted
  uint64_t allocations = 0;
  CompileStats compile;
};

class Session {
 public:
  Session(ir::Graph& g, tensor::WeightStore& weights, SessionOptions options = {});
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // ---- live tensors ----
  Live track(const tensor::Tensor& t);
  tensor::Tensor value(const Live& t) const;         // what it is now
  void set(const Live& t, const tensor::Tensor& x);  // rebinds the name: t = x, writes nothing
  // A buffer nobody wrote yet; no memory until something is computed into it or reads it.
  Result<Live> empty(const tensor::Dims& dims, ir::DType dtype, const std::string& device = "CPU");
  Result<Live> upload(std::span<const std::byte> bytes,
                      const tensor::Dims& dims,
                      ir::DType dtype,
                      const std::string& device = "CPU");
  Result<Live> upload(std::span<const float> v,
                      const tensor::Dims& dims,
                      const std::string& device = "CPU");
  // New contents for a realised live tensor, in place, now. The bytes are those of the whole
  // tensor.
  Status overwrite(const Live& t, std::span<const std::byte> bytes);
  // dst = x, in dst's memory (hand-book 2.1): x is broadcast; dtype, device and shard axis must
  // agree (kAssignDtype, kAssignDevice, kAssignAxis); a view of a value without memory is
  // kAssignUnrealised; x that already is dst does nothing. Into DISK it happens at once.
  Status assign(const Live& dst, const tensor::Tensor& x);

  // ---- schedule, compile, run ----
  Result<SessionLinear> linear_with_vars(std::span<const Live> wanted);
  // Every kernel of all these LINEARs, one batch. Bodies become PROGRAMs with ProgramInfo; a LINEAR
  // without anything to compile comes back as the same node.
  Result<ir::NodeVec> compile(std::span<const ir::Node* const> linears);
  // Calls in order; what is not compiled yet is compiled first. A variable without value is
  // kUnboundVariable, before anything runs. A call on multi-device values (MSTACK) is launched once
  // per device with `_device_num` bound.
  Status run_linear(const ir::Node* linear,
                    const schedule::VarBinds& vars,
                    Deadline deadline,
                    const schedule::MemoryPlan& plan = {});
  Status realize(std::span<const Live> wanted);
  Status realize(std::initializer_list<Live> wanted) {
    return realize(std::span<const Live>(wanted.begin(), wanted.size()));
  }
  // Realises and downloads. A value without storage (a constant, a strided view) is copied first.
  Result<HostTensor> read(const Live& t);

  // ---- capture ----
  Status begin_capture(schedule::Capturer& capturer);  // kCaptureNested
  void end_capture();
  bool is_capturing() const { return capture_.active(); }
  void set_capturing(bool on) { capture_.capturing = on; }  // CAPTURING, for a scope inside

  // ---- memory ----
  // The node by which LINEARs name this buffer.
  const ir::Node* canonical(const ir::Node* buffer) const;
  // Where a realised tensor lies: a canonical BUFFER, maybe below movement ops; nullptr: nowhere.
  const ir::Node* storage(const Live& t) const;
  bool has_memory(const ir::Node* buffer) const;
  Result<hal::Buffer> memory(const ir::Node* buffer);  // allocated (and weights uploaded) on demand
  Result<hal::Device*> device(const std::string& name);
  // Canonical buffers that hold contents somebody may still read: with memory, or below a live
  // tensor.
  schedule::NodeSet held() const;
  // Frees the memory of buffers no live tensor reaches.
  void collect();
  // Frees one buffer's memory, whoever names it: its contents are lost, the next use is zeroed.
  void free_memory(const ir::Node* buffer);

  ir::Graph& graph() { return g_; }
  tensor::WeightStore& weights() { return weights_; }
  const SessionOptions& options() const { return options_; }
  SessionPrograms& programs() { return *programs_; }
  const SessionStats& stats() const { return stats_; }

 private:
  struct Change {         // what a schedule does to the session once it is made
    ir::NodeVec nodes;    // of the live tensors, in order
    ir::NodeVec retired;  // buffers whose contents are overwritten
    ir::NodeVec renamed;  // what those are called afterwards
  };

  std::vector<std::shared_ptr<Live::State>> live() const;
  ir::NodeVec live_nodes() const;
  Status assign_value_without_memory(const Live& dst,
                                     const ir::Node* base,
                                     const tensor::Tensor& v);
  Result<ir::NodeVec> wanted_roots(std::span<const Live> wanted) const;
  Status check_contents(const ir::NodeVec& roots) const;
  Result<schedule::CallAndMap> make_call(ir::NodeVec roots);
  Result<SessionLinear> make_linear(std::span<const Live> wanted);
  const ir::Node* with_canonical_args(const ir::Node* call);
  Change change_of(const schedule::CallAndMap& call);
  void commit(const Change& change);
  void roll_back();
  Result<tensor::Dims> dims_now(const ir::Node* n) const;
  Result<Live> packed_copy(const Live& t);
  schedule::NodeSet held_by(const ir::NodeVec& nodes) const;

  ir::Graph& g_;
  tensor::WeightStore& weights_;
  SessionOptions options_;
  schedule::Capture capture_;
  std::vector<std::weak_ptr<Live::State>> live_;  // in order of track()
  size_t next_sweep_ = 64;  // entries of live_ at which those that are gone are dropped
  std::unordered_map<const ir::Node*, const ir::Node*> canonical_;  // later name -> first name
  std::unordered_set<const ir::Node*> retired_;                     // names of lost contents
  Change undo_;                                                     // of the last schedule
  std::unique_ptr<SessionPrograms> programs_;
  std::unique_ptr<SessionMemory> memory_;
  SessionStats stats_;
};

}  // namespace modeld::exec
