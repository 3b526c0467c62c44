#include "runtime/exec/session_programs.h"

#include <algorithm>

#include "hal/base/bytes.h"
#include "hal/base/mapping.h"
#include "hal/target.h"

#include "runtime/codegen/to_program.h"
#include "runtime/ir/rewrite.h"

namespace modeld::exec {

using ir::Node;
using ir::NodeVec;
using ir::Op;

namespace {

// A kernel that still needs the compiler: a bare SINK, or a PROGRAM nobody finished.
bool needs_compile(const Node* body) {
  if (body->op == Op::kSink) return true;
  return body->op == Op::kProgram && !body->has<ir::ProgramInfo>();
}

ir::ProgramInfo info_of(const LoweredRow& lowered) {
  const ProgramRow& row = lowered.row;
  ir::ProgramInfo info;
  info.name = row.name;
  for (uint32_t i = 0; i < row.buffer_args; ++i) info.globals.push_back(i);
  info.outs.assign(row.outs.begin(), row.outs.end());
  info.ins.assign(row.ins.begin(), row.ins.end());
  info.vars = lowered.scalars;
  for (size_t i = 0; i < 3; ++i) {
    info.global_size[i] = static_cast<int64_t>(row.groups[i]);
    info.local_size[i] = static_cast<int64_t>(row.local[i]);
  }
  info.flops = static_cast<int64_t>(row.flops);
  info.lds_bytes = static_cast<int64_t>(row.lds_bytes);
  info.mem_bytes = static_cast<int64_t>(row.mem_bytes);
  return info;
}

const Node* with_bodies(ir::Graph& g, const Node* linear, const ir::NodeMap& programs) {
  NodeVec calls;
  bool changed = false;
  for (const Node* call : linear->src()) {
    const auto at = programs.find(call->src(0));
    if (at == programs.end()) {
      calls.push_back(call);
      continue;
    }
    NodeVec src(call->src().begin(), call->src().end());
    src[0] = at->second;
    calls.push_back(g.with_src(call, src));
    changed = true;
  }
  return changed ? g.with_src(linear, calls) : linear;
}

}  // namespace

Status SessionPrograms::prepare() {
  if (backend_) return {};
  if (options_.target.arch.empty()) {
    ASSIGN_OR_RETURN(options_.target, hal::parse_target("cpu"));
  }
  if (!options_.program_cache) options_.program_cache = make_program_cache(options_.cache_dir);
  ASSIGN_OR_RETURN(backend_, make_backend(options_));
  return {};
}

Result<NodeVec> SessionPrograms::compile(ir::Graph& g,
                                         std::span<const Node* const> linears,
                                         CompileStats& stats) {
  std::map<Hash128, KernelRequest> requests;  // distinct, in the order of keys
  std::vector<std::pair<const Node*, Hash128>> bodies;
  for (size_t l = 0; l < linears.size(); ++l) {
    for (size_t i = 0; i < linears[l]->nsrc; ++i) {
      const Node* body = linears[l]->src(i)->src(0);
      if (!needs_compile(body)) continue;
      RETURN_IF_ERROR(prepare());
      const Hash128 key = codegen::to_program_key(body, backend_->options_for(false));
      requests.try_emplace(key, KernelRequest{body, false, strf("call %zu of LINEAR %zu", i, l)});
      bodies.emplace_back(body, key);
    }
  }
  NodeVec out(linears.begin(), linears.end());
  if (requests.empty()) return out;
  std::vector<KernelRequest> distinct;
  for (const auto& [key, request] : requests) distinct.push_back(request);
  ASSIGN_OR_RETURN(
      std::vector<LoweredRow> rows,
      lower_and_compile(distinct, *backend_, *options_.program_cache, options_, stats));
  std::map<Hash128, ir::ProgramInfo> infos;
  for (const LoweredRow& row : rows) infos.emplace(row.row.key, info_of(row));
  RETURN_IF_ERROR(add_batch(std::move(rows)));
  ir::NodeMap programs;
  for (const auto& [body, key] : bodies) {
    const NodeVec src =
        body->op == Op::kProgram ? NodeVec(body->src().begin(), body->src().end()) : NodeVec{body};
    programs[body] = g.make(Op::kProgram, ir::DType::kVoid, src, infos.at(key));
  }
  for (const Node*& linear : out) linear = with_bodies(g, linear, programs);
  return out;
}

Status SessionPrograms::add_batch(std::vector<LoweredRow> rows) {
  std::vector<std::byte> code;
  std::vector<Entry> fresh;
  for (LoweredRow& row : rows) {
    if (programs_.contains(row.row.name)) continue;
    Entry e;
    e.batch = batches_.size();
    code.resize(align_up(code.size(), row.row.image.alignment));
    e.offset = code.size();
    code.insert(code.end(), row.row.image.code.begin(), row.row.image.code.end());
    e.row = std::move(row);
    fresh.push_back(std::move(e));
  }
  if (fresh.empty()) return {};
  Batch batch;
  batch.size = code.size();
  ASSIGN_OR_RETURN(batch.code, sealed_memfd("modeld-kernels", code));
  batches_.push_back(std::move(batch));
  for (Entry& e : fresh) {
    const std::string name = e.row.row.name;
    programs_.emplace(name, std::move(e));
  }
  return {};
}

const LoweredRow* SessionPrograms::find(const Node* body) const {
  if (body->op != Op::kProgram || !body->has<ir::ProgramInfo>()) return nullptr;
  const auto at = programs_.find(body->as<ir::ProgramInfo>().name);
  return at == programs_.end() ? nullptr : &at->second.row;
}

Result<std::shared_ptr<hal::Program>> SessionPrograms::load(const Node* body,
                                                            const std::string& device_name,
                                                            hal::Device& device) {
  const LoweredRow* lowered = find(body);
  if (lowered == nullptr)
    return fail(Errc::kNotFound, "session: a call's body is no program of this session");
  const ProgramRow& row = lowered->row;
  std::shared_ptr<hal::Program>& known = loaded_[{device_name, row.name}];
  if (known) return known;
  const Entry& e = programs_.at(row.name);
  hal::ProgramImage image;
  image.name = row.name;
  image.target = hal::print_target(options_.target);
  for (uint32_t i = 0; i < row.arg_count(); ++i)
    image.args.push_back(
        hal::Arg{i < row.buffer_args ? hal::ArgKind::kBuffer : hal::ArgKind::kScalar,
                 static_cast<uint16_t>(i)});
  image.fd = batches_[e.batch].code.get();
  image.fd_length = batches_[e.batch].size;
  image.entry_offset = e.offset + row.image.entry_offset;
  ASSIGN_OR_RETURN(known, device.load(image));
  return known;
}

}  // namespace modeld::exec
