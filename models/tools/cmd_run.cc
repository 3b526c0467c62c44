// modelc run: a bundle once or many times, .npy in and out; or a recording again (--replay).
#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "hal/base/env.h"
#include "hal/base/fs.h"
#include "hal/base/log.h"
#include "hal/base/usage.h"

#include "models/tools/commands.h"
#include "models/tools/replay.h"
#include "models/tools/replay_flight.h"
#include "models/tools/session.h"

namespace modeld::tools {
namespace {

struct Args {
  BundleArgs bundle;
  std::string device = "cpu", entry = "run", output_dir, replay;
  std::vector<std::string> inputs;
  uint64_t seed = 0;
  uint64_t repeat = 1;
};

struct Times {
  int64_t median_ns = 0, p99_ns = 0;
};

Times summarize(std::vector<int64_t> ns) {
  std::sort(ns.begin(), ns.end());
  const size_t p99 = (ns.size() * 99 + 99) / 100;  // the smallest value that 99 % do not exceed
  return {ns[ns.size() / 2], ns[std::max<size_t>(p99, 1) - 1]};
}

Status set_input_file(Session& session, const std::string& text) {
  const size_t eq = text.find('=');
  if (eq == std::string::npos || eq == 0)
    return fail(Errc::kInvalid, strf("--input %s: expected NAME=FILE.npy", text.c_str()));
  const std::string name = text.substr(0, eq), path = text.substr(eq + 1);
  auto array = read_npy(path);
  if (!array.ok()) return fail(std::move(array).error().with("input " + name));
  for (const exec::ScalarInfo& s : session.entry().scalars) {
    if (s.name != name) continue;
    const exec::TensorInfo info{name, ir::DType::kI64, {}, 8, 0};
    ASSIGN_OR_RETURN(const Bytes bytes, tensor_from_npy(*array, info, path));
    return session.set_scalar(name, static_cast<int64_t>(to_doubles(bytes, info.dtype)[0]));
  }
  for (const ModelInput& i : session.inputs()) {
    if (i.info.name != name) continue;
    ASSIGN_OR_RETURN(const Bytes bytes, tensor_from_npy(*array, i.info, path));
    return session.set_input(name, bytes);
  }
  return session.set_input(name, {});  // says which names there are
}

Status write_outputs(Session& session, const std::vector<Bytes>& outputs, const std::string& dir) {
  RETURN_IF_ERROR(make_dirs(dir));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const exec::TensorInfo& info = session.entry().outputs[i];
    RETURN_IF_ERROR(write_npy(output_path(dir, info.name), npy_from_tensor(outputs[i], info)));
  }
  return {};
}

// Smallest, largest and mean of an output, for people.
Json output_json(const exec::TensorInfo& info, const Bytes& bytes) {
  const std::vector<double> v = to_doubles(bytes, info.dtype);
  double low = v.empty() ? 0 : v[0], high = low, sum = 0;
  for (const double x : v) {
    low = std::min(low, x);
    high = std::max(high, x);
    sum += x;
  }
  Json out = Json::object();
  out.set("name", info.name);
  out.set("type", tensor_text(info));
  out.set("min", low);
  out.set("max", high);
  out.set("mean", v.empty() ? 0 : sum / static_cast<double>(v.size()));
  out.set("hash", blake2b(bytes).hex());
  return out;
}

void print_result(const Args& args,
                  Context& ctx,
                  Session& session,
                  const std::vector<Bytes>& outputs,
                  const Times& times) {
  Json list = Json::array();
  for (size_t i = 0; i < outputs.size(); ++i)
    list.push(output_json(session.entry().outputs[i], outputs[i]));
  if (ctx.json) {
    Json out = Json::object();
    out.set("entry", args.entry);
    out.set("device", args.device);
    out.set("runs", args.repeat);
    out.set("median_ms", static_cast<double>(times.median_ns) / 1e6);
    out.set("p99_ms", static_cast<double>(times.p99_ns) / 1e6);
    out.set("outputs", std::move(list));
    return print_json(ctx, out);
  }
  for (const Json& o : list.items())
    print_text(strf("%s  %s  min %.6g  max %.6g  mean %.6g\n",
                    o.find("name")->string_or("").c_str(), o.find("type")->string_or("").c_str(),
                    o.find("min")->double_or(0), o.find("max")->double_or(0),
                    o.find("mean")->double_or(0)));
  print_text(strf("%llu runs on %s: median %s, p99 %s\n",
                  static_cast<unsigned long long>(args.repeat), args.device.c_str(),
                  time_text(times.median_ns).c_str(), time_text(times.p99_ns).c_str()));
}

// Time per kernel over all runs, longest first, for MODELD_DEBUG=2.
std::string kernel_times(const std::vector<hal::ProfileRange>& ranges, uint64_t runs) {
  std::map<std::string, int64_t> sums;
  for (const hal::ProfileRange& r : ranges) sums[r.name] += r.end_ns - r.start_ns;
  std::vector<std::pair<int64_t, std::string>> rows;
  for (const auto& [name, ns] : sums) rows.emplace_back(ns, name);
  std::sort(rows.rbegin(), rows.rend());
  std::string out =
      strf("-- kernels, time per run over %llu runs", static_cast<unsigned long long>(runs));
  for (const auto& [ns, name] : rows)
    out += strf("\n%10.1f us  %s", static_cast<double>(ns) / 1e3 / static_cast<double>(runs),
                name.c_str());
  return out;
}

Status run_plan(const Args& args, Context& ctx, const bundle::Bundle& b, hal::Device& device) {
  const exec::Plan plan = b.to_plan();
  ASSIGN_OR_RETURN(const auto loaded, exec::LoadedPlan::load(plan, device, b.sources()));
  ASSIGN_OR_RETURN(const auto session, Session::create(b.manifest(), args.entry, *loaded));
  RETURN_IF_ERROR(session->set_seeded(args.seed));
  for (const std::string& text : args.inputs) RETURN_IF_ERROR(set_input_file(*session, text));
  std::vector<int64_t> times;
  std::vector<Bytes> outputs;
  for (uint64_t i = 0; i < args.repeat; ++i) {
    const int64_t start = now_ns();
    RETURN_IF_ERROR(session->run(Deadline::in_ms(kRunLimitMs)));
    times.push_back(now_ns() - start);
    if (i + 1 < args.repeat) session->commit();
  }
  if (debug_level() >= 2) debug_text(2, kernel_times(device.take_profile(), args.repeat));
  for (size_t i = 0; i < session->entry().outputs.size(); ++i) {
    ASSIGN_OR_RETURN(Bytes bytes, session->output(i));
    outputs.push_back(std::move(bytes));
  }
  if (!args.output_dir.empty()) RETURN_IF_ERROR(write_outputs(*session, outputs, args.output_dir));
  print_result(args, ctx, *session, outputs, summarize(std::move(times)));
  return {};
}

Status run_flight(const Args& args, Context& ctx, const bundle::Bundle& b, hal::Device& device) {
  ASSIGN_OR_RETURN(const FlightReport report, replay_flight(b, device, args.replay));
  if (ctx.json) {
    Json out = Json::object();
    out.set("reason", ipc::reason_name(report.reason)).set("text", report.text);
    out.set("frame", report.frame_id).set("runs_before", report.runs_before);
    out.set("inputs", report.inputs).set("outputs", report.outputs).set("bytes", report.bytes);
    out.set("equal", true);
    print_json(ctx, out);
  } else {
    print_text(
        strf("%s: %s at frame %llu (%s) again from %llu inputs: %llu outputs, %llu bytes, all "
             "bit-equal; %llu runs before it\n",
             args.replay.c_str(), ipc::reason_name(report.reason),
             static_cast<unsigned long long>(report.frame_id), report.text.c_str(),
             static_cast<unsigned long long>(report.inputs),
             static_cast<unsigned long long>(report.outputs),
             static_cast<unsigned long long>(report.bytes),
             static_cast<unsigned long long>(report.runs_before)));
  }
  return {};
}

Status run(const Args& args, Context& ctx) {
  ASSIGN_OR_RETURN(const auto b, open_bundle(ctx, args.bundle));
  ASSIGN_OR_RETURN(const auto device, open_device_for(ctx, *b, args.device));
  if (args.replay.empty()) return run_plan(args, ctx, *b, *device);
  if (is_flight_file(args.replay)) return run_flight(args, ctx, *b, *device);
  ASSIGN_OR_RETURN(const ReplayReport report, replay(*b, *device, args.replay));
  if (ctx.json) {
    Json out = Json::object();
    out.set("runs", report.runs);
    out.set("numbers", report.numbers);
    out.set("equal", true);
    print_json(ctx, out);
  } else {
    print_text(strf("%s: %llu runs, %llu numbers, all bit-equal\n", args.replay.c_str(),
                    static_cast<unsigned long long>(report.runs),
                    static_cast<unsigned long long>(report.numbers)));
  }
  return {};
}

}  // namespace

Command add_run(CLI::App& app) {
  auto args = std::make_shared<Args>();
  add_bundle_options(app, args->bundle);
  app.add_option("--device", args->device, "device URI")->capture_default_str();
  app.add_option("--entry", args->entry, "entry point")->capture_default_str();
  app.add_option("--input", args->inputs, "NAME=FILE.npy; others are seeded numbers")
      ->expected(1)
      ->take_all();
  app.add_option("--seed", args->seed, "of the inputs without a file")
      ->capture_default_str()
      ->check(whole_number_defect);
  app.add_option(
      "--replay", args->replay,
      "recording of modelctl record, or record of a failure (*.flight): run it again and "
      "compare bit for bit");
  app.add_option("--output", args->output_dir, "directory for NAME.npy ('/' becomes '_')");
  app.add_option("--repeat", args->repeat, "runs; states are committed between them")
      ->capture_default_str()
      ->check(CLI::Range(uint64_t{1}, uint64_t{10'000'000}));
  return [args](Context& ctx) { return run(*args, ctx); };
}

}  // namespace modeld::tools
