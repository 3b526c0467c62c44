#include "models/selftest_cases.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "models/common/model_core.h"

namespace modeld::models {

namespace {

using Bytes = std::vector<std::byte>;

// One run of an entry with memory of its own.
class CaseRun {
 public:
  CaseRun(const exec::Entry& entry, exec::LoadedPlan& plan) : entry_(entry), plan_(plan) {}
  Status prepare(const bundle::GoldenCase& row,
                 std::span<const std::byte> golden,
                 Deadline deadline);
  Result<std::vector<Bytes>> run(Deadline deadline);

 private:
  Status bind(const exec::TensorInfo& info);

  const exec::Entry& entry_;
  exec::LoadedPlan& plan_;
  exec::EntryId id_;
  std::vector<uint64_t> slots_;
  std::vector<hal::Buffer> memory_;  // inputs, then outputs
};

Result<std::span<const std::byte>> piece(std::span<const std::byte> golden,
                                         const bundle::GoldenTensor& tensor,
                                         const exec::TensorInfo& info) {
  if (tensor.size != info.bytes || tensor.offset > golden.size() ||
      golden.size() - tensor.offset < tensor.size) {
    return fail(Errc::kCorrupt, strf("golden vectors: '%s' does not fit its %zu bytes",
                                     info.name.c_str(), size_t{info.bytes}));
  }
  return golden.subspan(tensor.offset, tensor.size);
}

Status CaseRun::bind(const exec::TensorInfo& info) {
  ASSIGN_OR_RETURN(hal::Buffer buffer,
                   plan_.device().allocator().alloc(
                       {.size_bytes = info.bytes, .flags = hal::Mem::kCpu | hal::Mem::kZero}));
  slots_[info.slot] = buffer.addr();
  memory_.push_back(std::move(buffer));
  return {};
}

Status CaseRun::prepare(const bundle::GoldenCase& row,
                        std::span<const std::byte> golden,
                        Deadline deadline) {
  ASSIGN_OR_RETURN(id_, plan_.entry(entry_.name));
  slots_.assign(entry_.slot_count(), 0);
  for (const exec::ScalarInfo& scalar : entry_.scalars)
    slots_[scalar.slot] = static_cast<uint64_t>(scalar.vmin);
  for (const exec::TensorInfo& info : entry_.inputs) RETURN_IF_ERROR(bind(info));
  for (const exec::TensorInfo& info : entry_.outputs) RETURN_IF_ERROR(bind(info));
  for (const bundle::GoldenTensor& tensor : row.tensors) {
    if (tensor.is_output) continue;
    if (tensor.tensor >= entry_.inputs.size())
      return fail(Errc::kCorrupt, "golden vectors: no such input");
    ASSIGN_OR_RETURN(const auto bytes, piece(golden, tensor, entry_.inputs[tensor.tensor]));
    ASSIGN_OR_RETURN(const hal::TimelinePoint done,
                     plan_.device().upload(memory_[tensor.tensor], 0, bytes));
    RETURN_IF_ERROR(plan_.wait(done, deadline));
  }
  return {};
}

Result<std::vector<Bytes>> CaseRun::run(Deadline deadline) {
  RETURN_IF_ERROR(plan_.run(id_, slots_, deadline));
  std::vector<Bytes> out;
  for (size_t i = 0; i < entry_.outputs.size(); ++i) {
    Bytes bytes(entry_.outputs[i].bytes);
    RETURN_IF_ERROR(plan_.device().download(bytes, memory_[entry_.inputs.size() + i], 0, deadline));
    out.push_back(std::move(bytes));
  }
  return out;
}

template <class T>
T load(std::span<const std::byte> bytes, size_t index) {
  T value{};
  std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
  return value;
}

// Nothing for types that are compared as bytes.
std::optional<double> number(ir::DType type, std::span<const std::byte> bytes, size_t index) {
  switch (type) {
    case ir::DType::kF32:
      return double{load<float>(bytes, index)};
    case ir::DType::kF64:
      return load<double>(bytes, index);
    case ir::DType::kF16:
    case ir::DType::kBF16:
      return double{ir::from_narrow_bits(type, load<uint16_t>(bytes, index))};
    case ir::DType::kF8E4M3:
    case ir::DType::kF8E4M3Fnuz:
    case ir::DType::kF8E5M2:
    case ir::DType::kF8E5M2Fnuz:
      return double{ir::from_narrow_bits(type, load<uint8_t>(bytes, index))};
    default:
      return std::nullopt;
  }
}

bool is_same_special(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || a == b;
}

// Leaves the first difference in result.text.
void compare(const exec::TensorInfo& info,
             std::span<const std::byte> got,
             std::span<const std::byte> wanted,
             double tolerance,
             CaseResult& result) {
  const auto note = [&](const std::string& text) {
    if (result.text.empty()) result.text = text;
  };
  if (!ir::is_float(info.dtype)) {
    const auto at = std::mismatch(got.begin(), got.end(), wanted.begin()).first;
    if (at != got.end()) {
      note(strf("%s: byte %zu is %u, golden %u", info.name.c_str(),
                static_cast<size_t>(at - got.begin()), static_cast<unsigned>(*at),
                static_cast<unsigned>(wanted[static_cast<size_t>(at - got.begin())])));
    }
    return;
  }
  const size_t count = info.bytes / static_cast<size_t>(ir::item_size(info.dtype));
  double largest = 0;
  for (size_t i = 0; i < count; ++i) {
    const double value = std::abs(*number(info.dtype, wanted, i));
    if (std::isfinite(value)) largest = std::max(largest, value);
  }
  for (size_t i = 0; i < count; ++i) {
    const double a = *number(info.dtype, got, i);
    const double b = *number(info.dtype, wanted, i);
    const double error = std::abs(a - b);
    const bool is_special = !std::isfinite(a) || !std::isfinite(b);
    if (is_special ? !is_same_special(a, b) : error > tolerance * largest) {
      note(strf("%s[%zu] is %.9g, golden %.9g", info.name.c_str(), i, a, b));
    }
    if (!is_special && largest > 0)
      result.worst_error = std::max(result.worst_error, error / largest);
  }
}

Result<CaseResult> run_case(const exec::Entry& entry,
                            const bundle::GoldenCase& row,
                            std::span<const std::byte> golden,
                            exec::LoadedPlan& plan,
                            Deadline deadline) {
  CaseResult result{.name = "golden/" + entry.name};
  std::string unstable;
  CaseRun run(entry, plan);
  RETURN_IF_ERROR(run.prepare(row, golden, deadline));
  ASSIGN_OR_RETURN(const std::vector<Bytes> first, run.run(deadline));
  ASSIGN_OR_RETURN(const std::vector<Bytes> second, run.run(deadline));
  for (const bundle::GoldenTensor& tensor : row.tensors) {
    if (!tensor.is_output) continue;
    if (tensor.tensor >= entry.outputs.size())
      return fail(Errc::kCorrupt, "golden vectors: no such output");
    const exec::TensorInfo& info = entry.outputs[tensor.tensor];
    ASSIGN_OR_RETURN(const auto wanted, piece(golden, tensor, info));
    compare(info, first[tensor.tensor], wanted, row.tolerance, result);
    result.matches_golden = result.text.empty();
    if (first[tensor.tensor] != second[tensor.tensor] && unstable.empty())
      unstable = info.name + ": the second run differs from the first";
  }
  result.is_repeatable = unstable.empty();
  if (result.text.empty()) result.text = unstable;
  result.has_passed = result.text.empty();
  return result;
}

// ---- the finite check ----

struct Poison {
  const char* name;
  double value;
};
constexpr Poison kPoison[] = {{"nan", std::numeric_limits<double>::quiet_NaN()},
                              {"inf", std::numeric_limits<double>::infinity()},
                              {"-inf", -std::numeric_limits<double>::infinity()}};

// A number as an element of `type`, which is f32 or f16.
Bytes element(ir::DType type, double value) {
  Bytes out(static_cast<size_t>(ir::item_size(type)));
  const auto number = static_cast<float>(value);
  const uint16_t half = ir::f32_to_f16_bits(number);
  if (type == ir::DType::kF32) {
    std::memcpy(out.data(), &number, sizeof number);
  } else {
    std::memcpy(out.data(), &half, sizeof half);
  }
  return out;
}

// Outputs of a model that did not run: what the check sees is what was put there.
class Outputs {
 public:
  Outputs(ModelCore& core, exec::LoadedPlan& plan, Deadline deadline)
      : core_(core), plan_(plan), deadline_(deadline) {}

  const exec::TensorInfo& info(uint32_t output) const { return core_.run_entry().outputs[output]; }
  size_t count(uint32_t output) const {
    return info(output).bytes / static_cast<size_t>(ir::item_size(info(output).dtype));
  }
  Status put(uint32_t output, size_t index, const Bytes& bytes) {
    const size_t offset = index * static_cast<size_t>(ir::item_size(info(output).dtype));
    ASSIGN_OR_RETURN(const hal::TimelinePoint done,
                     plan_.device().upload(core_.output_memory(output), offset, bytes));
    return plan_.wait(done, deadline_);
  }
  // 1, 2, ... 100, 1, ... or the same number everywhere.
  Status fill(uint32_t output, bool is_ramp) {
    Bytes all;
    for (size_t i = 0; i < count(output); ++i) {
      const Bytes one =
          element(info(output).dtype, is_ramp ? static_cast<double>(i % 100 + 1) : 1.0);
      all.insert(all.end(), one.begin(), one.end());
    }
    return put(output, 0, all);
  }
  Result<Finding> check() { return core_.check(deadline_); }

 private:
  ModelCore& core_;
  exec::LoadedPlan& plan_;
  Deadline deadline_;
};

// "" when the check names exactly this number, else what it did.
Result<std::string> miss(Outputs& outputs, uint32_t output, size_t index, const Poison& poison) {
  const exec::TensorInfo& info = outputs.info(output);
  RETURN_IF_ERROR(outputs.put(output, index, element(info.dtype, poison.value)));
  ASSIGN_OR_RETURN(const Finding found, outputs.check());
  RETURN_IF_ERROR(
      outputs.put(output, index, element(info.dtype, 1 + static_cast<double>(index % 100))));
  const std::string wanted = strf("%s[%zu] is %s", info.name.c_str(), index, poison.name);
  if (!found.is_good && found.text == wanted) return std::string();
  return strf("%s was put there, the check says '%s'", wanted.c_str(),
              found.is_good ? "all is well" : found.text.c_str());
}

Result<std::string> first_miss(Outputs& outputs, const exec::Entry& entry) {
  for (uint32_t i = 0; i < entry.outputs.size(); ++i) {
    if (!ir::is_float(entry.outputs[i].dtype)) continue;
    const size_t last = outputs.count(i) - 1;
    for (const size_t index : {size_t{0}, last / 2, last}) {
      for (const Poison& poison : kPoison) {
        ASSIGN_OR_RETURN(const std::string text, miss(outputs, i, index, poison));
        if (!text.empty()) return text;
      }
    }
  }
  return std::string();
}

Result<std::string> find_flaw(Outputs& outputs, const ModelCore& core) {
  const exec::Entry& entry = core.run_entry();
  for (uint32_t i = 0; i < entry.outputs.size(); ++i) {
    if (ir::is_float(entry.outputs[i].dtype)) RETURN_IF_ERROR(outputs.fill(i, true));
  }
  ASSIGN_OR_RETURN(const Finding before, outputs.check());
  if (!before.is_good) return "good numbers are refused: " + before.text;
  ASSIGN_OR_RETURN(const std::string missed, first_miss(outputs, entry));
  if (!missed.empty()) return missed;
  ASSIGN_OR_RETURN(const Finding after, outputs.check());
  if (!after.is_good) return "good numbers are refused afterwards: " + after.text;
  if (outputs.count(core.raw_output()) < 2) return std::string();
  RETURN_IF_ERROR(outputs.fill(core.raw_output(), false));
  ASSIGN_OR_RETURN(const Finding equal, outputs.check());
  return equal.is_good ? "a raw vector of equal numbers is accepted" : std::string();
}

}  // namespace

Result<std::vector<CaseResult>> run_golden_cases(const bundle::Manifest& manifest,
                                                 std::span<const std::byte> golden,
                                                 exec::LoadedPlan& plan,
                                                 Deadline deadline) {
  std::vector<CaseResult> out;
  for (const bundle::GoldenCase& row : manifest.golden) {
    if (row.entry >= manifest.plan.entries.size())
      return fail(Errc::kCorrupt, "golden vectors: no such entry");
    ASSIGN_OR_RETURN(CaseResult result,
                     run_case(manifest.plan.entries[row.entry], row, golden, plan, deadline));
    out.push_back(std::move(result));
  }
  return out;
}

Result<CaseResult> run_finite_case(const bundle::Manifest& manifest,
                                   exec::LoadedPlan& plan,
                                   Deadline deadline) {
  ASSIGN_OR_RETURN(const auto core, ModelCore::create(manifest, plan));
  Outputs outputs(*core, plan, deadline);
  CaseResult result{.name = "finite"};
  ASSIGN_OR_RETURN(result.text, find_flaw(outputs, *core));
  result.has_passed = result.text.empty();
  return result;
}

Result<CaseResult> run_deadline_case(hal::Device& device) {
  constexpr int64_t kLateMs = 1000;  // a wait that ends later was not bounded by its deadline
  constexpr int64_t kRecoverMs = 2000;
  CaseResult result{.name = "deadline"};
  ASSIGN_OR_RETURN(hal::Signal gate, device.make_signal(0));
  auto recorder = device.record(hal::QueueKind::kCompute, "selftest/stall");
  recorder->wait(gate, hal::Word::value(1));
  ASSIGN_OR_RETURN(const hal::TimelinePoint point, device.submit(std::move(recorder)));
  const int64_t start = now_ns();
  const Status waited = device.wait(point, Deadline::in_ms(kStallMs));
  const int64_t took_ns = now_ns() - start;
  gate.set(1);  // before anything else: nobody stays behind a stalled queue
  const Status recovered = device.recover(Deadline::in_ms(kRecoverMs));
  const Status after = device.wait(point, Deadline::in_ms(kRecoverMs));
  if (waited.ok()) {
    result.text = "a wait for a stalled queue came back as done";
  } else if (waited.error().code != Errc::kTimeout) {
    result.text = "a wait past its deadline is not reported as a timeout: " + waited.error().what;
  } else if (took_ns < kStallMs * kNsPerMs || took_ns > (kStallMs + kLateMs) * kNsPerMs) {
    result.text = strf("a wait of %lld ms took %.1f ms", static_cast<long long>(kStallMs),
                       static_cast<double>(took_ns) / 1e6);
  } else if (!recovered.ok() || !after.ok()) {
    result.text = "the device does not work again after the stall: " +
                  (recovered.ok() ? after : recovered).error().what;
  }
  result.has_passed = result.text.empty();
  return result;
}

}  // namespace modeld::models
