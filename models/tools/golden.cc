#include "models/tools/golden.h"

#include "models/tools/session.h"

namespace modeld::tools {

Result<GoldenData> make_golden(const bundle::Manifest& m,
                               const KernelSide& reference,
                               uint64_t seed) {
  ASSIGN_OR_RETURN(const auto loaded,
                   exec::LoadedPlan::load(*reference.plan, *reference.device, reference.sources));
  ASSIGN_OR_RETURN(const auto session, Session::create(m, "run", *loaded));
  const exec::Entry& run = session->entry();
  GoldenData out;
  out.row.entry = static_cast<uint32_t>(&run - m.plan.entries.data());
  out.row.tolerance = tolerance_of(*reference.plan);
  const auto add = [&](bool is_output, size_t index, const Bytes& bytes) {
    out.row.tensors.push_back(
        {is_output, static_cast<uint32_t>(index), out.bytes.size(), bytes.size()});
    out.bytes.insert(out.bytes.end(), bytes.begin(), bytes.end());
  };
  for (size_t i = 0; i < run.inputs.size(); ++i) {
    const exec::TensorInfo& t = run.inputs[i];
    const Bytes bytes = seeded_tensor(seed, t.name, t.dtype, t.bytes);
    RETURN_IF_ERROR(session->set_entry_input(i, bytes));
    add(false, i, bytes);
  }
  RETURN_IF_ERROR(session->run(Deadline::in_ms(kRunLimitMs)));
  for (size_t i = 0; i < run.outputs.size(); ++i) {
    ASSIGN_OR_RETURN(const Bytes bytes, session->output(i));
    add(true, i, bytes);
  }
  return out;
}

Result<std::vector<OutputResult>> check_golden(const bundle::Manifest& m,
                                               const bundle::GoldenCase& row,
                                               std::span<const std::byte> golden,
                                               const KernelSide& subject) {
  ASSIGN_OR_RETURN(const auto loaded,
                   exec::LoadedPlan::load(*subject.plan, *subject.device, subject.sources));
  ASSIGN_OR_RETURN(const auto session, Session::create(m, m.plan.entries[row.entry].name, *loaded));
  const exec::Entry& entry = session->entry();
  for (const bundle::GoldenTensor& t : row.tensors)
    if (!t.is_output)
      RETURN_IF_ERROR(session->set_entry_input(t.tensor, golden.subspan(t.offset, t.size)));
  RETURN_IF_ERROR(session->run(Deadline::in_ms(kRunLimitMs)));
  std::vector<OutputResult> out;
  for (const bundle::GoldenTensor& t : row.tensors) {
    if (!t.is_output) continue;
    ASSIGN_OR_RETURN(const Bytes bytes, session->output(t.tensor));
    const exec::TensorInfo& info = entry.outputs[t.tensor];
    out.push_back(
        {info.name, compare(bytes, golden.subspan(t.offset, t.size), info.dtype, row.tolerance)});
  }
  return out;
}

}  // namespace modeld::tools
