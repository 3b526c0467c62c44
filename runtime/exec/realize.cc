#include "runtime/exec/realize.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "hal/backends.h"

#include "runtime/exec/loaded_plan.h"
#include "runtime/ir/derived.h"
#include "runtime/schedule/create_linear_with_vars.h"

namespace modeld::exec {

namespace {

constexpr int64_t kRunLimitMs = 120'000;

template <class T>
T value_at(const std::byte* p) {
  T v;
  std::memcpy(&v, p, sizeof(T));
  return v;
}

double to_double(ir::DType t, const std::byte* p) {
  switch (t) {
    case ir::DType::kBool:
    case ir::DType::kU8:
      return value_at<uint8_t>(p);
    case ir::DType::kI8:
      return value_at<int8_t>(p);
    case ir::DType::kI16:
      return value_at<int16_t>(p);
    case ir::DType::kU16:
      return value_at<uint16_t>(p);
    case ir::DType::kI32:
      return value_at<int32_t>(p);
    case ir::DType::kU32:
      return value_at<uint32_t>(p);
    case ir::DType::kI64:
      return static_cast<double>(value_at<int64_t>(p));
    case ir::DType::kU64:
      return static_cast<double>(value_at<uint64_t>(p));
    case ir::DType::kF16:
    case ir::DType::kBF16:
      return static_cast<double>(ir::from_narrow_bits(t, value_at<uint16_t>(p)));
    case ir::DType::kF8E4M3:
    case ir::DType::kF8E4M3Fnuz:
    case ir::DType::kF8E5M2:
    case ir::DType::kF8E5M2Fnuz:
      return static_cast<double>(ir::from_narrow_bits(t, value_at<uint8_t>(p)));
    case ir::DType::kF32:
      return static_cast<double>(value_at<float>(p));
    case ir::DType::kF64:
      return value_at<double>(p);
    default:
      return 0;
  }
}

// Named buffers and variables below the outputs, in the order of their nodes.
Result<EntrySpec> spec_of(std::span<const ir::Node* const> outputs,
                          const tensor::WeightStore& weights) {
  EntrySpec spec;
  spec.name = "realize";
  std::map<uint32_t, const ir::Node*> inputs, scalars;  // by node id
  std::set<const ir::Node*> bound;                      // variables that carry their value
  for (size_t i = 0; i < outputs.size(); ++i) {
    spec.outputs.push_back(Binding{strf("output_%zu", i), outputs[i]});
    for (const ir::Node* n : ir::toposort(outputs[i])) {
      if (n->op == ir::Op::kBuffer && weights.find(n->as<ir::ParamArg>().slot) == nullptr)
        inputs.emplace(n->id, n);
      if (schedule::is_bound_variable(n)) bound.insert(n->src(0));
      if (n->op == ir::Op::kParam && n->as<ir::ParamArg>().addrspace == ir::AddrSpace::kAlu)
        scalars.emplace(n->id, n);
    }
  }
  for (const auto& [id, n] : inputs) {
    const std::string& name = n->as<ir::ParamArg>().name;
    if (name.empty()) return fail(Errc::kInvalid, "realize: a buffer has no name and no data");
    spec.inputs.push_back(Binding{name, n});
  }
  for (const auto& [id, n] : scalars)
    if (!bound.contains(n)) spec.scalars.push_back(n);
  return spec;
}

Result<hal::Buffer> device_copy(hal::Device& device,
                                const TensorInfo& t,
                                const std::vector<std::byte>* bytes) {
  hal::BufferDesc desc;
  desc.size_bytes = std::max<uint64_t>(t.bytes, 1);
  ASSIGN_OR_RETURN(hal::Buffer buffer, device.allocator().alloc(desc));
  if (bytes == nullptr) return buffer;
  ASSIGN_OR_RETURN(const hal::TimelinePoint done, device.upload(buffer, 0, *bytes));
  RETURN_IF_ERROR(device.wait(done, Deadline::in_ms(kRunLimitMs)));
  return buffer;
}

}  // namespace

std::vector<double> HostTensor::to_doubles() const {
  const auto item = static_cast<size_t>(ir::item_size(dtype));
  std::vector<double> out(bytes.size() / item);
  for (size_t i = 0; i < out.size(); ++i) out[i] = to_double(dtype, bytes.data() + i * item);
  return out;
}

Result<std::vector<HostTensor>> run_once(const Plan& plan,
                                         const std::string& entry,
                                         const InputData& inputs,
                                         const ScalarData& scalars) {
  const Entry* e = plan.find_entry(entry);
  if (e == nullptr) return fail(Errc::kNotFound, "the plan has no entry point " + entry);
  ASSIGN_OR_RETURN(const std::unique_ptr<hal::Device> device, hal::open_device("cpu"));
  ASSIGN_OR_RETURN(const std::unique_ptr<LoadedPlan> loaded, LoadedPlan::load(plan, *device));
  std::vector<uint64_t> slots(e->slot_count());
  std::vector<hal::Buffer> buffers(e->slot_count());
  for (const TensorInfo& t : e->inputs) {
    const auto data = inputs.find(t.name);
    if (data == inputs.end()) return fail(Errc::kInvalid, "no data for input " + t.name);
    if (data->second.size() != t.bytes)
      return fail(Errc::kInvalid,
                  strf("input %s has %zu bytes, wanted %llu", t.name.c_str(), data->second.size(),
                       static_cast<unsigned long long>(t.bytes)));
    ASSIGN_OR_RETURN(buffers[t.slot], device_copy(*device, t, &data->second));
  }
  for (const TensorInfo& t : e->outputs) {
    ASSIGN_OR_RETURN(buffers[t.slot], device_copy(*device, t, nullptr));
  }
  for (size_t i = 0; i < buffers.size(); ++i)
    if (buffers[i]) slots[i] = buffers[i].addr();
  for (const ScalarInfo& s : e->scalars) {
    const auto value = scalars.find(s.name);
    if (value == scalars.end()) return fail(Errc::kInvalid, "no value for variable " + s.name);
    if (value->second < s.vmin || value->second > s.vmax)
      return fail(Errc::kInvalid, strf("variable %s = %lld lies outside of its range",
                                       s.name.c_str(), static_cast<long long>(value->second)));
    slots[s.slot] = static_cast<uint64_t>(value->second);
  }
  ASSIGN_OR_RETURN(const EntryId id, loaded->entry(entry));
  RETURN_IF_ERROR(loaded->run(id, slots, Deadline::in_ms(kRunLimitMs)));
  std::vector<HostTensor> out;
  for (const TensorInfo& t : e->outputs) {
    HostTensor h{t.dtype, t.dims, std::vector<std::byte>(t.bytes)};
    RETURN_IF_ERROR(device->download(h.bytes, buffers[t.slot], 0, Deadline::in_ms(kRunLimitMs)));
    out.push_back(std::move(h));
  }
  return out;
}

Result<RealizeResult> realize(ir::Graph& g,
                              std::span<const ir::Node* const> outputs,
                              const tensor::WeightStore& weights,
                              const InputData& inputs,
                              const ScalarData& scalars,
                              const CompileOptions& options) {
  CompileOptions with_target = options;
  if (with_target.target.arch.empty()) {
    ASSIGN_OR_RETURN(with_target.target, hal::parse_target("cpu"));
  }
  ASSIGN_OR_RETURN(const EntrySpec spec, spec_of(outputs, weights));
  RealizeResult result;
  ASSIGN_OR_RETURN(result.plan, compile_plan(g, std::span(&spec, 1), weights, with_target));
  ASSIGN_OR_RETURN(result.outputs, run_once(result.plan, spec.name, inputs, scalars));
  return result;
}

}  // namespace modeld::exec
