#include "runtime/exec/jit_lower.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "hal/target.h"

#include "runtime/exec/jit_capture.h"
#include "runtime/exec/session_programs.h"
#include "runtime/ir/derived.h"
#include "runtime/ir/rewrite.h"
#include "runtime/ir/sharding.h"
#include "runtime/schedule/byte_view.h"
#include "runtime/schedule/memory_plan_rewrite.h"

namespace modeld::exec {

using ir::Fault;
using ir::Node;
using ir::NodeVec;
using ir::Op;

namespace {

uint64_t bytes_of(ir::Graph& g, const Node* n) {
  return static_cast<uint64_t>(ir::element_count(g, n)) *
         static_cast<uint64_t>(ir::item_size(n->dtype));
}

const Node* inputs_to_params(ir::Graph& g,
                             const Node* linear,
                             std::span<const Node* const> inputs) {
  ir::NodeMap map;
  for (size_t i = 0; i < inputs.size(); ++i)
    map[inputs[i]] = ir::param(g, static_cast<int64_t>(i), inputs[i]->dtype,
                               ir::element_count(g, inputs[i]), ir::device(g, inputs[i]));
  return map.empty() ? linear : ir::substitute(g, linear, map);
}

class RowBuilder {
 public:
  RowBuilder(Session& session,
             const schedule::MemoryPlan& plan,
             const std::vector<std::string>& variables,
             const schedule::VarBinds& vars)
      : session_(session), g_(session.graph()), plan_(plan), variables_(variables), vars_(vars) {}

  Status run(const Node* linear, std::span<const Node* const> inputs) {
    out_.target = hal::print_target(session_.programs().options().target);
    out_.linear.variables = variables_;
    for (const Node* b : inputs)
      out_.linear.inputs.push_back({device_row(ir::device(g_, b)), bytes_of(g_, b)});
    for (const schedule::MemoryLane& lane : plan_.lanes) {
      out_.linear.memories.push_back(
          {device_row(lane.device), static_cast<uint64_t>(lane.arena_size), false});
      out_.held.push_back(nullptr);
    }
    for (size_t i = 0; i < linear->nsrc; ++i)
      if (Status s = add_call(linear->src(i)); !s.ok())
        return fail(std::move(s).error().with(strf("call %zu", i)));
    return {};
  }

  JitLowered take() { return std::move(out_); }

 private:
  Status add_call(const Node* node) {
    NodeVec args;
    for (const Node* a : node->src().subspan(1)) {
      const std::string& device = ir::device(g_, a);
      if (ir::is_device_tuple(device))
        return fail(Errc::kUnsupported,
                    "jit: a value on the devices " + device + ", only one is replayed");
      args.push_back(ir::launch_argument(g_, a, 0));
    }
    if (args.empty()) return fail(Errc::kInternal, "jit: a call without arguments");
    CompiledCall call;
    size_t addresses = 2;
    if (node->src(0)->op == Op::kCopy) {
      if (args.size() != 2) return fail(Errc::kInternal, "jit: COPY needs two arguments");
      call.kind = CallRow::Kind::kCopy;
      call.device = device_row(ir::device(g_, args[1]));
    } else {
      const LoweredRow* program = session_.programs().find(node->src(0));
      if (program == nullptr) return fail(Errc::kInternal, "jit: a kernel that is not compiled");
      call.device = device_row(ir::device(g_, args[0]));
      call.program = program_row(program->row);
      addresses = program->row.buffer_args;
      if (addresses > args.size())
        return fail(Errc::kInternal, strf("kernel %s takes %zu buffers, its call has %zu",
                                          program->row.name.c_str(), addresses, args.size()));
    }
    for (size_t i = 0; i < addresses; ++i) {
      ASSIGN_OR_RETURN(CallArg arg, address(args[i]));
      call.args.push_back(arg);
    }
    if (call.kind == CallRow::Kind::kProgram)
      RETURN_IF_ERROR(add_scalars(*session_.programs().find(node->src(0)), call));
    out_.linear.calls.push_back(std::move(call));
    return {};
  }

  Status add_scalars(const LoweredRow& program, CompiledCall& call) {
    for (const std::string& name : program.scalars) {
      const auto at = std::find(variables_.begin(), variables_.end(), name);
      const auto frozen = vars_.find(name);
      if (at != variables_.end()) {
        call.args.push_back({{ArgRef::Kind::kScalar, index_of(at - variables_.begin()), 0}, 0});
      } else if (frozen != vars_.end()) {
        call.args.push_back({{ArgRef::Kind::kConst, 0, static_cast<uint64_t>(frozen->second)}, 0});
      } else {
        return fail(Fault::kUnboundVariable, strf("unbound Variable %s of kernel %s", name.c_str(),
                                                  program.row.name.c_str()));
      }
    }
    return {};
  }

  Result<CallArg> address(const Node* arg) {
    const auto view = schedule::byte_view(g_, arg);
    if (!view)
      return fail(Errc::kInternal, strf("an argument is %s, not memory", ir::op_name(arg->op)));
    const auto offset = static_cast<uint64_t>(view->offset);
    const uint64_t bytes = bytes_of(g_, arg);
    const auto& param = view->buffer->as<ir::ParamArg>();
    if (view->buffer->op == Op::kParam)
      return CallArg{{ArgRef::Kind::kSlot, static_cast<uint32_t>(param.slot), offset}, bytes};
    if (const schedule::BufferPlace* place = plan_.find(view->buffer))
      return CallArg{{ArgRef::Kind::kBuffer, static_cast<uint32_t>(place->lane),
                      static_cast<uint64_t>(place->offset) + offset},
                     bytes};
    const auto [at, is_new] = memory_rows_.try_emplace(view->buffer, index_of(out_.held.size()));
    if (is_new) {
      out_.linear.memories.push_back({device_row(param.device), bytes_of(g_, view->buffer), true});
      out_.held.push_back(view->buffer);
    }
    return CallArg{{ArgRef::Kind::kBuffer, at->second, offset}, bytes};
  }

  uint32_t device_row(const std::string& name) {
    std::vector<DeviceRow>& rows = out_.linear.devices;
    auto at = std::find_if(rows.begin(), rows.end(),
                           [&name](const DeviceRow& row) { return row.name == name; });
    if (at == rows.end()) at = rows.insert(at, DeviceRow{name, out_.target});
    return index_of(at - rows.begin());
  }

  uint32_t program_row(const ProgramRow& row) {
    const auto [at, is_new] =
        program_rows_.try_emplace(row.name, index_of(out_.linear.programs.size()));
    if (is_new) out_.linear.programs.push_back(row);
    return at->second;
  }

  template <class T>
  static uint32_t index_of(T n) {
    return static_cast<uint32_t>(n);
  }

  Session& session_;
  ir::Graph& g_;
  const schedule::MemoryPlan& plan_;
  const std::vector<std::string>& variables_;
  const schedule::VarBinds& vars_;
  JitLowered out_;
  std::map<const Node*, uint32_t> memory_rows_;  // looked up only
  std::map<std::string, uint32_t> program_rows_;
};

// Written, never read before, and without memory until now: one run makes all of it.
std::vector<bool> products(Session& session, const JitLowered& lowered, const NodeVec& read_first) {
  std::vector<bool> written(lowered.held.size());
  for (const CompiledCall& call : lowered.linear.calls)
    for (const uint32_t at : access_of(lowered.linear, call).writes)
      if (const ArgRef& r = call.args[at].ref; r.kind == ArgRef::Kind::kBuffer)
        written[r.index] = true;
  std::vector<bool> out;
  for (size_t i = 0; i < lowered.held.size(); ++i) {
    const Node* b = lowered.held[i];
    out.push_back(b != nullptr && written[i] && !session.has_memory(b) &&
                  std::find(read_first.begin(), read_first.end(), b) == read_first.end());
  }
  return out;
}

}  // namespace

Result<JitLowered> jit_lower(Session& session,
                             const Node* linear,
                             std::span<const Node* const> inputs,
                             const std::vector<std::string>& variables,
                             const schedule::VarBinds& vars) {
  ir::Graph& g = session.graph();
  ASSIGN_OR_RETURN(const NodeVec read_first, read_before_written(linear));
  schedule::NodeSet held = session.held();
  held.insert(read_first.begin(), read_first.end());
  linear = inputs_to_params(g, linear, inputs);
  ASSIGN_OR_RETURN(const schedule::MemoryPlan plan,
                   schedule::memory_plan_rewrite(g, linear, held, session.options().schedule));
  RowBuilder rows(session, plan, variables, vars);
  RETURN_IF_ERROR(rows.run(linear, inputs));
  JitLowered out = rows.take();
  out.is_product = products(session, out, read_first);
  RETURN_IF_ERROR(check_compiled_linear(out.linear));
  return out;
}

}  // namespace modeld::exec
