#include "runtime/exec/session_run.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/ir/derived.h"
#include "runtime/ir/rewrite.h"
#include "runtime/ir/sharding.h"
#include "runtime/schedule/byte_view.h"

namespace modeld::exec {

using ir::Node;
using ir::NodeVec;
using ir::Op;

namespace {

using ir::kDeviceNum;

// One submission: a kernel on one device, or a copy to it.
struct Launch {
  std::string device;
  std::shared_ptr<hal::Program> program;  // shared with the device's recordings; null: a copy
  std::vector<hal::Word> words;
  hal::Dim3 groups, local;
  uint64_t copy_bytes = 0;
};

// How often a call is launched: once per device its arguments are on.
int64_t device_count(ir::Graph& g, const Node* call) {
  int64_t n = 1;
  for (const Node* a : call->src().subspan(1)) n = std::max(n, ir::device_count(ir::device(g, a)));
  return n;
}

uint64_t bytes_of(ir::Graph& g, const Node* n) {
  return static_cast<uint64_t>(ir::element_count(g, n)) *
         static_cast<uint64_t>(ir::item_size(n->dtype));
}

hal::Dim3 dim3(const uint64_t (&n)[3]) {
  return {hal::Word::value(n[0]), hal::Word::value(n[1]), hal::Word::value(n[2])};
}

class Runner {
 public:
  Runner(ir::Graph& g,
         const schedule::VarBinds& vars,
         const schedule::MemoryPlan& plan,
         SessionMemory& memory,
         SessionPrograms& programs)
      : g_(g), vars_(vars), plan_(plan), memory_(memory), programs_(programs) {}

  Status prepare(const Node* linear) {
    for (size_t i = 0; i < linear->nsrc; ++i) {
      if (Status s = check_variables(linear->src(i)); !s.ok())
        return fail(std::move(s).error().with(strf("call %zu", i)));
    }
    for (const schedule::MemoryLane& lane : plan_.lanes) {
      // A lane of several devices has the same places in an arena on each.
      std::vector<hal::Buffer>& arenas = arenas_.emplace_back();
      for (const std::string& device : ir::split_devices(lane.device)) {
        ASSIGN_OR_RETURN(hal::Buffer arena,
                         memory_.allocate(device, static_cast<uint64_t>(lane.arena_size)));
        arenas.push_back(std::move(arena));
      }
    }
    for (size_t i = 0; i < linear->nsrc; ++i) {
      const Node* call = linear->src(i);
      for (int64_t d = 0; d < device_count(g_, call); ++d) {
        if (Status s = add(call, d); !s.ok())
          return fail(std::move(s).error().with(strf("call %zu", i)));
      }
    }
    return {};
  }

  // Runs of calls on one device are one submission; the next device waits for it.
  Status run(Deadline deadline, RunCounts& counts) {
    for (size_t at = 0; at < launches_.size();) {
      const size_t first = at;
      ASSIGN_OR_RETURN(hal::Device* const device, memory_.device(launches_[first].device));
      auto recorder = device->record(hal::QueueKind::kCompute, "session");
      for (const auto& lane : arenas_) {
        for (const hal::Buffer& arena : lane) recorder->keep(arena);  // past a missed deadline
      }
      for (; at < launches_.size() && launches_[at].device == launches_[first].device; ++at) {
        record(launches_[at], *recorder, counts);
      }
      ASSIGN_OR_RETURN(const hal::TimelinePoint done, device->submit(std::move(recorder)));
      RETURN_IF_ERROR(device->wait(done, deadline));
    }
    return {};
  }

 private:
  Status check_variables(const Node* call) {
    const LoweredRow* program = programs_.find(call->src(0));
    if (program == nullptr) return {};
    for (const std::string& name : program->scalars) {
      if (!vars_.contains(name) && name != kDeviceNum)
        return fail(ir::Fault::kUnboundVariable, strf("unbound Variable %s of kernel %s",
                                                      name.c_str(), program->row.name.c_str()));
    }
    return {};
  }

  Status add(const Node* call, int64_t device_num) {
    const Node* body = call->src(0);
    Launch launch;
    NodeVec args;
    for (const Node* a : call->src().subspan(1))
      args.push_back(ir::launch_argument(g_, a, device_num));
    if (args.empty()) return fail(Errc::kInternal, "session: a call without arguments");
    launch.device = ir::device(g_, args[0]);
    if (body->op == Op::kCopy) {
      if (args.size() != 2) return fail(Errc::kInternal, "session: COPY needs two arguments");
      launch.copy_bytes = bytes_of(g_, args[0]);
      if (bytes_of(g_, args[1]) != launch.copy_bytes)
        return fail(Errc::kInternal, "session: COPY between different sizes");
      RETURN_IF_ERROR(add_addresses(args, 2, launch));
    } else {
      RETURN_IF_ERROR(add_kernel(body, args, device_num, launch));
    }
    launches_.push_back(std::move(launch));
    return {};
  }

  Status add_kernel(const Node* body, const NodeVec& args, int64_t device_num, Launch& launch) {
    ASSIGN_OR_RETURN(hal::Device* const device, memory_.device(launch.device));
    ASSIGN_OR_RETURN(launch.program, programs_.load(body, launch.device, *device));
    const LoweredRow& row = *programs_.find(body);
    if (row.row.buffer_args > args.size())
      return fail(Errc::kInternal, strf("kernel %s takes %u buffers, its call has %zu",
                                        row.row.name.c_str(), row.row.buffer_args, args.size()));
    RETURN_IF_ERROR(add_addresses(args, row.row.buffer_args, launch));
    for (const std::string& name : row.scalars) {
      const int64_t value = name == kDeviceNum ? device_num : vars_.at(name);
      launch.words.push_back(hal::Word::value(static_cast<uint64_t>(value)));
    }
    launch.groups = dim3(row.row.groups);
    launch.local = dim3(row.row.local);
    return {};
  }

  Status add_addresses(const NodeVec& args, size_t count, Launch& launch) {
    for (size_t i = 0; i < count; ++i) {
      // One device's part of a multi-device buffer is memory like any other.
      const Node* below = schedule::below_views(args[i]);
      const Node* flat = ir::param(g_, 0, below->dtype, ir::element_count(g_, below));
      const auto view = schedule::byte_view(g_, ir::substitute(g_, args[i], {{below, flat}}));
      const Node* buffer = ir::launch_argument(g_, below, 0);
      if (!view || (buffer->op != Op::kBuffer && buffer->op != Op::kMSelect))
        return fail(Errc::kInternal,
                    strf("session: argument %zu is %s, not memory", i, ir::op_name(args[i]->op)));
      ASSIGN_OR_RETURN(const uint64_t base, address_of(buffer));
      launch.words.push_back(hal::Word::value(base + static_cast<uint64_t>(view->offset)));
    }
    return {};
  }

  Result<uint64_t> address_of(const Node* buffer) {
    const bool part = buffer->op == Op::kMSelect;
    if (const schedule::BufferPlace* place = plan_.find(part ? buffer->src(0) : buffer)) {
      const auto device = static_cast<size_t>(part ? buffer->as<int64_t>() : 0);
      const hal::Buffer& arena = arenas_[static_cast<size_t>(place->lane)][device];
      return arena.addr() + static_cast<uint64_t>(place->offset);
    }
    ASSIGN_OR_RETURN(const hal::Buffer memory, memory_.buffer(buffer));
    return memory.addr();
  }

  static void record(const Launch& launch, hal::Recorder& recorder, RunCounts& counts) {
    if (launch.program == nullptr) {
      recorder.copy(launch.words[0], launch.words[1], hal::Word::value(launch.copy_bytes));
      ++counts.copies;
      return;
    }
    recorder.launch(launch.program, launch.words, launch.groups, launch.local);
    ++counts.launches;
  }

  ir::Graph& g_;
  const schedule::VarBinds& vars_;
  const schedule::MemoryPlan& plan_;
  SessionMemory& memory_;
  SessionPrograms& programs_;
  std::vector<std::vector<hal::Buffer>> arenas_;  // per lane, per device
  std::vector<Launch> launches_;
};

}  // namespace

Status run_linear(ir::Graph& g,
                  const Node* linear,
                  const schedule::VarBinds& vars,
                  const schedule::MemoryPlan& plan,
                  SessionMemory& memory,
                  SessionPrograms& programs,
                  Deadline deadline,
                  RunCounts& counts) {
  Runner runner(g, vars, plan, memory, programs);
  RETURN_IF_ERROR(runner.prepare(linear));
  return runner.run(deadline, counts);
}

}  // namespace modeld::exec
