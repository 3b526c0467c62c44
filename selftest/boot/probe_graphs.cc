#include "selftest/boot/probe_graphs.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/tensor/nn.h"

#include "models/tools/reference_plan.h"
#include "models/tools/session.h"

namespace modeld::selftest {
namespace {

using ir::DType;
using tensor::Dims;
using tensor::Tensor;

constexpr uint64_t kSeed = 7;

Tensor add_input(ir::Graph& g,
                 ProbeGraph& p,
                 const std::string& name,
                 const Dims& dims,
                 DType dtype = DType::kF32) {
  p.inputs.push_back({name, Tensor::input(g, name, dims, dtype)});
  return p.inputs.back().tensor;
}

void add_output(ProbeGraph& p, const std::string& name, const Tensor& t) {
  p.outputs.push_back({name, t});
}

exec::EntrySpec entry_of(const ProbeGraph& p) {
  exec::EntrySpec out;
  out.name = "run";
  for (const NamedTensor& t : p.inputs) out.inputs.push_back({t.name, t.tensor.node()});
  for (const NamedTensor& t : p.outputs) out.outputs.push_back({t.name, t.tensor.node()});
  return out;
}

// Runs the one entry of a plan and reads every output.
Result<std::vector<tools::Bytes>> run_plan(const bundle::Manifest& m,
                                           const exec::Plan& plan,
                                           hal::Device& device,
                                           const InputBytes& inputs) {
  ASSIGN_OR_RETURN(const auto loaded, exec::LoadedPlan::load(plan, device));
  ASSIGN_OR_RETURN(const auto session, tools::Session::create(m, "run", *loaded));
  const exec::Entry& entry = session->entry();
  for (size_t i = 0; i < entry.inputs.size(); ++i)
    RETURN_IF_ERROR(session->set_entry_input(i, inputs(entry.inputs[i])));
  RETURN_IF_ERROR(session->run(Deadline::in_ms(tools::kRunLimitMs)));
  std::vector<tools::Bytes> out;
  for (size_t i = 0; i < entry.outputs.size(); ++i) {
    ASSIGN_OR_RETURN(tools::Bytes bytes, session->output(i));
    out.push_back(std::move(bytes));
  }
  return out;
}

template <class T>
tools::Bytes bytes_of(const std::vector<T>& values) {
  tools::Bytes out(values.size() * sizeof(T));
  std::memcpy(out.data(), values.data(), out.size());
  return out;
}

}  // namespace

ProbeGraph mask_edge_graph(ir::Graph& g) {
  ProbeGraph p;
  for (const int64_t n : {1, 2, 3, 5, 7, 9, 15, 17, 31, 33, 63, 65}) {
    const std::string size = std::to_string(n);
    const Tensor x = add_input(g, p, "x" + size, {n, n + 1});
    add_output(p, "pad" + size, x.pad({1, 2}, {2, 1}, 0.5) * 2.0);
    add_output(p, "flip" + size, x.pad({0, 1}, {1, 0}).flip({0, 1}) + 1.0);
    const Tensor place = Tensor::arange(g, n + 1);
    add_output(p, "where" + size, place.lt(tensor::Scalar(n / 2)).where(x, x * -3.0));
  }
  for (const int64_t n : {3, 5, 8, 13, 17, 33}) {
    const std::string size = std::to_string(n);
    const Tensor x = add_input(g, p, "image" + size, {1, 2, n, n});
    const Tensor w = add_input(g, p, "weight" + size, {3, 2, 3, 3});
    tensor::ConvSpec conv;
    conv.pads_begin = {1, 2};
    conv.pads_end = {2, 1};
    add_output(p, "conv" + size, tensor::conv(x, w, std::nullopt, conv));
    tensor::WindowSpec pool;
    pool.kernel = {3, 3};
    pool.strides = {2, 2};
    pool.pads_begin = pool.pads_end = {1, 1};
    add_output(p, "max" + size, tensor::max_pool(x, pool));
    add_output(p, "average" + size, tensor::average_pool(x, pool));
  }
  return p;
}

ProbeGraph unaligned_graph(ir::Graph& g) {
  ProbeGraph p;
  for (const int64_t n : {1, 3, 5, 7, 13, 17, 31, 33, 61, 127, 129}) {
    const std::string size = std::to_string(n);
    const Tensor x = add_input(g, p, "x" + size, {n + 1});
    add_output(p, "from1_" + size, x.shrink({1}, {n}) * 3.0 + 1.0);
    const Tensor bytes = add_input(g, p, "bytes" + size, {n + 3}, DType::kU8);
    add_output(p, "bytes_from3_" + size, bytes.shrink({3}, {n}).cast(DType::kF32) - 128.0);
    const Tensor halves = add_input(g, p, "halves" + size, {n + 1}, DType::kF16);
    add_output(p, "halves_from1_" + size, halves.shrink({1}, {n}) * 2.0);
    const Tensor a = add_input(g, p, "a" + size, {n, n + 2});
    const Tensor b = add_input(g, p, "b" + size, {n + 2, 5});
    add_output(p, "product" + size, a.matmul(b));
    add_output(p, "sum" + size, a.transpose(0, 1).sum({0}));
  }
  return p;
}

ProbeGraph special_number_graph(ir::Graph& g) {
  ProbeGraph p;
  // One operation an output: intermediate results in double would not overflow where float does.
  const Tensor a = add_input(g, p, "a", {67}), b = add_input(g, p, "b", {67});
  add_output(p, "add", a + b);
  add_output(p, "mul", a * b);
  add_output(p, "div", a / b);
  add_output(p, "relu", a.maximum(0.0));
  add_output(p, "sqrt", a.sqrt());
  add_output(p, "exp", a.exp());
  add_output(p, "less", a.lt(b));
  add_output(p, "equal", a.eq(b));
  add_output(p, "where", a.lt(b).where(a, b));
  add_output(p, "pad", a.pad({3}, {2}) * 1.0);
  // Rows with a NaN or an infinity beside rows without: neither may reach another row.
  const Tensor rows = add_input(g, p, "rows", {19, 11}), w = add_input(g, p, "w_ordinary", {11, 9});
  add_output(p, "sum", rows.sum({1}));
  add_output(p, "product", rows.matmul(w));
  const Tensor halves = add_input(g, p, "halves", {35}, DType::kF16);
  add_output(p, "halves", halves * 2.0);
  return p;
}

tools::Bytes seeded_input(const exec::TensorInfo& input) {
  return tools::seeded_tensor(kSeed, input.name, input.dtype, input.bytes);
}

tools::Bytes special_input(const exec::TensorInfo& input) {
  tools::Bytes plain = seeded_input(input);
  if (input.name.ends_with("ordinary")) return plain;
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float special[] = {std::numeric_limits<float>::quiet_NaN(), kInf, -kInf, 0.0f, -0.0f,
                           std::numeric_limits<float>::denorm_min()};
  std::vector<double> values = tools::to_doubles(plain, input.dtype);
  // Steps that are prime to each other put every special number beside every other in two inputs.
  const size_t step = input.name == "b" ? 3 : 5;
  size_t next = input.name.size();
  for (size_t i = 0; i < values.size(); i += step)
    values[i] = static_cast<double>(special[next++ % std::size(special)]);
  if (input.dtype == DType::kF32) return bytes_of(std::vector<float>(values.begin(), values.end()));
  std::vector<uint16_t> halves;
  for (const double v : values) halves.push_back(ir::f32_to_f16_bits(static_cast<float>(v)));
  return bytes_of(halves);
}

Result<ProbeReport> run_probe(BuildProbe build,
                              const InputBytes& inputs,
                              const exec::CompileOptions& options,
                              hal::Device& device,
                              hal::Device& cpu) {
  ir::Graph g;
  const exec::EntrySpec entry = entry_of(build(g));
  bundle::Manifest m;
  ASSIGN_OR_RETURN(m.plan, exec::compile_plan(g, {&entry, 1}, {}, options));
  ASSIGN_OR_RETURN(const exec::Plan reference, tools::reference_plan(m.plan, options));
  ASSIGN_OR_RETURN(const auto got, run_plan(m, m.plan, device, inputs));
  ASSIGN_OR_RETURN(const auto wanted, run_plan(m, reference, cpu, inputs));
  ProbeReport out;
  out.kernels = m.plan.programs.size();
  const exec::Entry& run = *m.plan.find_entry("run");
  for (size_t i = 0; i < run.outputs.size(); ++i) {
    const exec::TensorInfo& info = run.outputs[i];
    const double tolerance = info.dtype == DType::kF16 ? 1e-2 : 1e-4;
    out.rows.push_back({info.name, tools::compare(got[i], wanted[i], info.dtype, tolerance)});
  }
  return out;
}

}  // namespace modeld::selftest
