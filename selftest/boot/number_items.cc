// Items that compare numbers with the double-precision reference on the CPU, and what NaN and
// infinity do on their way through a model.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/exec/prepare.h"

#include "models/tools/golden.h"
#include "models/tools/kernel_check.h"
#include "models/tools/reference_plan.h"
#include "models/tools/session.h"

#include "selftest/boot/probe_graphs.h"
#include "selftest/boot/subject.h"

namespace modeld::selftest {
namespace {

using tools::Bytes;

tools::KernelSide subject_side(const Subject& s) {
  return {&s.plan, s.bundle->sources(), s.device.get()};
}

// The bundle's kernels without optimisation and in double, on this host's CPU.
Result<tools::KernelSide> truth(Subject& s) {
  if (s.cpu == nullptr) {
    ASSIGN_OR_RETURN(s.cpu, hal::open_device("cpu"));
  }
  if (!s.reference) {
    exec::CompileOptions options = s.compile_options();
    options.program_cache = s.programs;
    ASSIGN_OR_RETURN(s.reference, tools::reference_plan(s.plan, options));
  }
  exec::PlanSources sources;
  sources.weights = s.bundle->sources().weights;
  return tools::KernelSide{&*s.reference, sources, s.cpu.get()};
}

// The comparison nearest to its limit, or beyond it.
struct Worst {
  std::string name;
  tools::Comparison comparison;
  double share = -1;  // error over limit

  void take(const std::string& what, const tools::Comparison& c) {
    const double now = !c.is_equal_enough ? HUGE_VAL : c.limit > 0 ? c.max_abs_error / c.limit : 0;
    if (now <= share) return;
    *this = {what, c, now};
  }
  Outcome outcome(const std::string& what) const {
    if (!comparison.is_equal_enough) return failed(name + ": " + comparison.text());
    return passed(strf("%s, nearest to its limit %s: %s", what.c_str(), name.c_str(),
                       comparison.text().c_str()),
                  {{"worst_share_of_limit", std::max(share, 0.0)}});
  }
};

constexpr uint64_t kSeeds[] = {2, 3};  // 1 is that of the golden vectors

Result<Outcome> compare_outputs(Subject& s) {
  ASSIGN_OR_RETURN(const tools::KernelSide reference, truth(s));
  Worst worst;
  size_t outputs = 0;
  for (const uint64_t seed : kSeeds) {
    ASSIGN_OR_RETURN(const tools::GoldenData golden,
                     tools::make_golden(s.manifest(), reference, seed));
    ASSIGN_OR_RETURN(const auto rows,
                     tools::check_golden(s.manifest(), golden.row, golden.bytes, subject_side(s)));
    for (const tools::OutputResult& row : rows) worst.take(row.name, row.comparison);
    outputs = rows.size();
  }
  return worst.outcome(strf("%zu outputs of %zu runs", outputs, std::size(kSeeds)));
}

Result<Outcome> compare_kernels(Subject& s) {
  ASSIGN_OR_RETURN(const tools::KernelSide reference, truth(s));
  Worst worst;
  size_t kernels = 0;
  for (const uint64_t seed : kSeeds) {
    ASSIGN_OR_RETURN(const auto rows,
                     tools::check_kernels(s.manifest(), subject_side(s), reference, seed));
    for (const tools::KernelResult& row : rows) worst.take(row.used_by, row.worst);
    kernels = rows.size();
  }
  return worst.outcome(strf("%zu kernels", kernels));
}

Result<Outcome> compare_probe(Subject& s, BuildProbe build, const InputBytes& inputs) {
  ASSIGN_OR_RETURN(const tools::KernelSide reference, truth(s));
  exec::CompileOptions given = s.compile_options();
  given.program_cache = s.programs;
  ASSIGN_OR_RETURN(const exec::CompileOptions options, exec::plan_options(s.plan, given));
  ASSIGN_OR_RETURN(const ProbeReport report,
                   run_probe(build, inputs, options, *s.device, *reference.device));
  Worst worst;
  for (const ProbeRow& row : report.rows) worst.take(row.output, row.comparison);
  return worst.outcome(strf("%zu tensors from %zu kernels", report.rows.size(), report.kernels));
}

Outcome outcome_of(Result<Outcome> result) {
  return result.ok() ? std::move(*result) : failed(result.error().what);
}

// ---- NaN in the inputs of the whole model ----

bool has_non_finite(const exec::TensorInfo& info, const Bytes& bytes) {
  if (!ir::is_float(info.dtype)) return false;
  const std::vector<double> values = tools::to_doubles(bytes, info.dtype);
  return std::any_of(values.begin(), values.end(), [](double v) { return !std::isfinite(v); });
}

// Entry run with memory of its own, on one side of the comparison.
class ModelRun {
 public:
  static Result<ModelRun> create(const bundle::Manifest& m, const tools::KernelSide& side) {
    ModelRun out;
    ASSIGN_OR_RETURN(out.loaded_, exec::LoadedPlan::load(*side.plan, *side.device, side.sources));
    ASSIGN_OR_RETURN(out.session_, tools::Session::create(m, "run", *out.loaded_));
    return out;
  }
  const exec::Entry& entry() const { return session_->entry(); }
  // Seeded inputs, input `poisoned` (if any) with a NaN in its middle.
  Result<std::vector<Bytes>> run(size_t poisoned) {
    for (size_t i = 0; i < entry().inputs.size(); ++i) {
      const exec::TensorInfo& info = entry().inputs[i];
      Bytes bytes = tools::seeded_tensor(kSeeds[0], info.name, info.dtype, info.bytes);
      if (i == poisoned) put_nan(info, bytes);
      RETURN_IF_ERROR(session_->set_entry_input(i, bytes));
    }
    RETURN_IF_ERROR(session_->run(Deadline::in_ms(tools::kRunLimitMs)));
    std::vector<Bytes> out;
    for (size_t i = 0; i < entry().outputs.size(); ++i) {
      ASSIGN_OR_RETURN(Bytes bytes, session_->output(i));
      out.push_back(std::move(bytes));
    }
    return out;
  }
  bool is_poisoned(const std::vector<Bytes>& outputs) const {
    for (size_t i = 0; i < outputs.size(); ++i)
      if (has_non_finite(entry().outputs[i], outputs[i])) return true;
    return false;
  }

 private:
  ModelRun() = default;
  static void put_nan(const exec::TensorInfo& info, Bytes& bytes) {
    const auto item = static_cast<size_t>(ir::item_size(info.dtype));
    const size_t at = bytes.size() / item / 2 * item;
    // All ones is a NaN in every float type there is.
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), item, std::byte{0xff});
  }

  std::unique_ptr<exec::LoadedPlan> loaded_;
  std::unique_ptr<tools::Session> session_;
};

constexpr size_t kNoInput = SIZE_MAX;

Result<Outcome> poison_inputs(Subject& s) {
  ASSIGN_OR_RETURN(const tools::KernelSide reference, truth(s));
  ASSIGN_OR_RETURN(ModelRun here, ModelRun::create(s.manifest(), subject_side(s)));
  ASSIGN_OR_RETURN(ModelRun there, ModelRun::create(s.manifest(), reference));
  ASSIGN_OR_RETURN(const std::vector<Bytes> clean, here.run(kNoInput));
  if (here.is_poisoned(clean)) return failed("ordinary inputs give numbers that are none");
  size_t inputs = 0, shown = 0;
  for (size_t i = 0; i < here.entry().inputs.size(); ++i) {
    const exec::TensorInfo& info = here.entry().inputs[i];
    if (!ir::is_float(info.dtype)) continue;
    ++inputs;
    ASSIGN_OR_RETURN(const std::vector<Bytes> wanted, there.run(i));
    ASSIGN_OR_RETURN(const std::vector<Bytes> got, here.run(i));
    const bool must_show = there.is_poisoned(wanted);
    shown += must_show ? 1 : 0;
    if (must_show && !here.is_poisoned(got))
      return failed("a NaN in " + info.name + " shows in the reference's outputs, not in these");
    ASSIGN_OR_RETURN(const std::vector<Bytes> after, here.run(kNoInput));
    if (after != clean)
      return failed("after a NaN in " + info.name + " ordinary inputs give other outputs");
  }
  return passed(
      strf("%zu float inputs, %zu of them reach an output; nothing stays behind", inputs, shown));
}

}  // namespace

Outcome outputs_item(Subject& s) {
  return outcome_of(compare_outputs(s));
}

Outcome kernels_item(Subject& s) {
  return outcome_of(compare_kernels(s));
}

Outcome mask_edges_item(Subject& s) {
  return outcome_of(compare_probe(s, mask_edge_graph, seeded_input));
}

Outcome unaligned_item(Subject& s) {
  return outcome_of(compare_probe(s, unaligned_graph, seeded_input));
}

Outcome special_numbers_item(Subject& s) {
  return outcome_of(compare_probe(s, special_number_graph, special_input));
}

Outcome poisoned_input_item(Subject& s) {
  return outcome_of(poison_inputs(s));
}

}  // namespace modeld::selftest
