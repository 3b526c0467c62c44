#include "models/tools/kernel_sample.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "hal/base/bytes.h"

#include "runtime/ir/print.h"
#include "runtime/ir/spec.h"

#include "models/tools/session.h"

namespace modeld::tools {
namespace {

// Type of each buffer argument, from the AST's PARAM nodes in slot order.
Result<std::vector<ir::DType>> argument_types(const exec::ProgramRow& program) {
  ir::Graph g;
  auto root = ir::parse(g, program.ast_text);
  if (!root.ok()) return fail(std::move(root).error().with("kernel " + program.name));
  // The text is the bundle's: nothing below may follow a PARAM without its facts.
  if (Status s = ir::verify_kernel(g, *root); !s.ok())
    return fail(std::move(s).error().with("kernel " + program.name));
  std::vector<std::pair<int64_t, ir::DType>> params;
  for (const ir::Node* n : ir::toposort(*root))
    if (n->is(ir::Op::kParam) && n->as<ir::ParamArg>().slot >= 0 &&
        n->as<ir::ParamArg>().addrspace != ir::AddrSpace::kAlu)
      params.emplace_back(n->as<ir::ParamArg>().slot, n->dtype);
  std::sort(params.begin(), params.end());
  params.erase(std::unique(params.begin(), params.end()), params.end());
  if (params.size() != program.buffer_args)
    return fail(Errc::kInternal, strf("kernel %s: AST has %zu buffers, program takes %u",
                                      program.name.c_str(), params.size(), program.buffer_args));
  std::vector<ir::DType> out;
  for (const auto& p : params) out.push_back(p.second);
  return out;
}

const bundle::GeometryRow* geometry_of(const bundle::Manifest& m, const exec::Entry& entry) {
  for (const bundle::GeometryRow& g : m.geometries)
    if (&m.plan.entries[g.entry] == &entry) return &g;
  return nullptr;
}

// Layout of a camera picture as the cameras pad it.
uint64_t camera_stride(const bundle::GeometryRow& g) {
  return align_up(g.width, 128);
}

uint64_t scalar_value(const exec::ScalarInfo& s, const bundle::GeometryRow* g) {
  if (g != nullptr && s.name == "stride") return camera_stride(*g);
  if (g != nullptr && s.name == "uv_offset") return camera_stride(*g) * align_up(g->height, 32);
  return static_cast<uint64_t>(s.vmin);
}

// A warp that looks at the whole picture, slightly tilted, so that most pixels are inside.
Bytes matrix_value(const bundle::GeometryRow& g, const bundle::IntrinsicsRow& k) {
  const float sx = static_cast<float>(g.width) / static_cast<float>(k.width);
  const float sy = static_cast<float>(g.height) / static_cast<float>(k.height);
  const std::array<float, 9> m = {sx, 0.05f, -7.25f, -0.03f, sy, 3.5f, 1e-5f, -2e-5f, 1.0f};
  Bytes out(sizeof m);
  std::memcpy(out.data(), m.data(), sizeof m);
  return out;
}

uint64_t argument_bytes(const exec::Plan& plan, const exec::Entry& e, const exec::ArgRef& a) {
  if (a.kind == exec::ArgRef::Kind::kBuffer) return plan.buffers[a.index].size - a.offset;
  for (const auto* list : {&e.inputs, &e.outputs})
    for (const exec::TensorInfo& t : *list)
      if (t.slot == a.index) return t.bytes - a.offset;
  return 0;
}

bool is_matrix(const exec::Entry& e, const exec::ArgRef& a) {
  if (a.kind != exec::ArgRef::Kind::kSlot || a.offset != 0) return false;
  const exec::TensorInfo* t = e.find_input("matrix");
  return t != nullptr && t->slot == a.index;
}

Result<KernelSample> sample_of(const bundle::Manifest& m,
                               const exec::ProgramRow& program,
                               const exec::Entry& e,
                               const exec::CallRow& call,
                               uint64_t seed) {
  KernelSample out;
  ASSIGN_OR_RETURN(const auto types, argument_types(program));
  const bundle::GeometryRow* g = geometry_of(m, e);
  const bundle::IntrinsicsRow* k = g == nullptr ? nullptr : m.find_intrinsics(g->stream);
  for (size_t i = 0; i < call.args.size(); ++i) {
    const exec::ArgRef& a = call.args[i];
    if (i < program.buffer_args) {
      exec::TensorInfo t{strf("a%zu", i), types[i], {}, 0, static_cast<uint32_t>(i)};
      const auto item = static_cast<uint64_t>(ir::item_size(t.dtype));
      const uint64_t count = argument_bytes(m.plan, e, a) / item;
      t.dims = {static_cast<int64_t>(count)};
      t.bytes = count * item;
      out.values.push_back(k != nullptr && is_matrix(e, a)
                               ? matrix_value(*g, *k)
                               : seeded_tensor(seed, t.name, t.dtype, t.bytes));
      out.buffers.push_back(std::move(t));
    } else if (a.kind == exec::ArgRef::Kind::kConst) {
      out.scalars.push_back(a.offset);
    } else {
      for (const exec::ScalarInfo& s : e.scalars)
        if (s.slot == a.index) out.scalars.push_back(scalar_value(s, g));
    }
  }
  return out;
}

}  // namespace

Result<KernelSamples> sample_kernels(const bundle::Manifest& m,
                                     const exec::Plan& plan,
                                     uint64_t seed) {
  KernelSamples out(plan.programs.size());
  for (const exec::Entry& e : m.plan.entries)
    for (size_t i = 0; i < e.calls.size(); ++i) {
      if (e.calls[i].kind != exec::CallRow::Kind::kProgram) continue;
      std::optional<KernelSample>& sample = out[e.calls[i].program];
      if (!sample) {
        ASSIGN_OR_RETURN(sample,
                         sample_of(m, plan.programs[e.calls[i].program], e, e.calls[i], seed));
        sample->used_by = exec::call_text(m.plan, e, i);
      }
      ++sample->calls;
    }
  return out;
}

exec::Plan kernel_plan(const exec::Plan& from, const KernelSamples& samples, size_t calls) {
  exec::Plan out;
  out.target = from.target;
  out.codegen_config = from.codegen_config;
  out.compiler = from.compiler;
  out.programs = from.programs;
  for (size_t i = 0; i < samples.size(); ++i) {
    if (!samples[i]) continue;
    exec::Entry e;
    e.name = kernel_entry(i);
    e.inputs = samples[i]->buffers;
    exec::CallRow call;
    call.program = static_cast<uint32_t>(i);
    for (const exec::TensorInfo& t : e.inputs)
      call.args.push_back({exec::ArgRef::Kind::kSlot, t.slot, 0});
    for (const uint64_t v : samples[i]->scalars)
      call.args.push_back({exec::ArgRef::Kind::kConst, 0, v});
    e.calls.assign(calls, call);
    out.entries.push_back(std::move(e));
  }
  return out;
}

std::string kernel_entry(size_t program) {
  return strf("kernel/%zu", program);
}

Result<BoundSample> bind_sample(hal::Device& device, const KernelSample& sample) {
  BoundSample out;
  for (const Bytes& value : sample.values) {
    hal::BufferDesc desc;
    desc.size_bytes = std::max<size_t>(value.size(), 1);
    ASSIGN_OR_RETURN(hal::Buffer b, device.allocator().alloc(desc));
    ASSIGN_OR_RETURN(const hal::TimelinePoint done, device.upload(b, 0, value));
    RETURN_IF_ERROR(device.wait(done, Deadline::in_ms(kRunLimitMs)));
    out.slots.push_back(b.addr());
    out.buffers.push_back(std::move(b));
  }
  return out;
}

}  // namespace modeld::tools
