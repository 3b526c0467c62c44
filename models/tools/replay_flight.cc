#include "models/tools/replay_flight.h"

#include <algorithm>
#include <fstream>

#include "hal/base/fs.h"

#include "models/tools/session.h"

namespace modeld::tools {
namespace {

const ipc::FlightTensor* find_tensor(const ipc::Flight& flight,
                                     bool is_output,
                                     const std::string& name) {
  const auto at = std::find_if(
      flight.tensors.begin(), flight.tensors.end(),
      [&](const ipc::FlightTensor& t) { return t.is_output == is_output && t.name == name; });
  return at == flight.tensors.end() ? nullptr : &*at;
}

Result<const ipc::FlightTensor*> need_tensor(const ipc::Flight& flight,
                                             bool is_output,
                                             const exec::TensorInfo& info) {
  const ipc::FlightTensor* t = find_tensor(flight, is_output, info.name);
  const char* side = is_output ? "output" : "input";
  if (t == nullptr)
    return fail(Errc::kMismatch, strf("the record lacks %s %s", side, info.name.c_str()));
  if (t->bytes.size() != info.bytes)
    return fail(Errc::kMismatch,
                strf("%s %s: %zu bytes in the record, %llu in the bundle", side, info.name.c_str(),
                     t->bytes.size(), static_cast<unsigned long long>(info.bytes)));
  return t;
}

Status check_bundle(const ipc::Flight& flight, const bundle::Bundle& b) {
  const std::string id = b.manifest().model_sha256.hex();
  if (flight.bundle_id == id) return {};
  return fail(Errc::kMismatch, strf("the record is of model %s, bundle %s holds %s",
                                    flight.bundle_id.c_str(), b.name().c_str(), id.c_str()));
}

Status run_again(const ipc::Flight& flight, Session& session, FlightReport& report) {
  const exec::Entry& entry = session.entry();
  for (size_t i = 0; i < entry.inputs.size(); ++i) {
    ASSIGN_OR_RETURN(const ipc::FlightTensor* t, need_tensor(flight, false, entry.inputs[i]));
    RETURN_IF_ERROR(session.set_entry_input(i, t->bytes));
    ++report.inputs;
  }
  RETURN_IF_ERROR(session.run(Deadline::in_ms(kRunLimitMs)));
  for (size_t i = 0; i < entry.outputs.size(); ++i) {
    const exec::TensorInfo& info = entry.outputs[i];
    ASSIGN_OR_RETURN(const ipc::FlightTensor* t, need_tensor(flight, true, info));
    ASSIGN_OR_RETURN(const Bytes now, session.output(i));
    const auto diff = std::mismatch(t->bytes.begin(), t->bytes.end(), now.begin(), now.end());
    if (diff.first != t->bytes.end())
      return fail(Errc::kMismatch, strf("output %s differs from byte %td on", info.name.c_str(),
                                        diff.first - t->bytes.begin()));
    ++report.outputs;
    report.bytes += t->bytes.size();
  }
  return {};
}

}  // namespace

bool is_flight_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  char head[8] = {};
  in.read(head, sizeof head);
  return in.gcount() == sizeof head && ipc::is_flight(std::as_bytes(std::span(head)));
}

Result<FlightReport> replay_flight(const bundle::Bundle& b,
                                   hal::Device& device,
                                   const std::string& path) {
  ASSIGN_OR_RETURN(const auto bytes, read_file(path, ipc::kMaxFlightBytes));
  auto parsed = ipc::parse_flight(bytes);
  if (!parsed.ok()) return fail(std::move(parsed).error().with(path));
  const ipc::Flight& flight = *parsed;
  FlightReport report;
  report.reason = flight.reason;
  report.text = flight.text;
  report.frame_id = flight.failed.frame_id;
  report.runs_before = flight.before.size();
  if (flight.tensors.empty())
    return fail(Errc::kNotFound,
                strf("%s: %s at frame %llu: the worker left no inputs behind (%zu runs before it, "
                     "%zu camera pictures)",
                     path.c_str(), ipc::reason_name(flight.reason),
                     static_cast<unsigned long long>(report.frame_id), flight.before.size(),
                     flight.pictures.size()));
  Status s = check_bundle(flight, b);
  if (s.ok()) {
    const exec::Plan plan = b.to_plan();
    ASSIGN_OR_RETURN(const auto loaded, exec::LoadedPlan::load(plan, device, b.sources()));
    ASSIGN_OR_RETURN(const auto session, Session::create(b.manifest(), "run", *loaded));
    s = run_again(flight, *session, report);
  }
  if (!s.ok()) return fail(std::move(s).error().with("replay of " + path));
  return report;
}

}  // namespace modeld::tools
