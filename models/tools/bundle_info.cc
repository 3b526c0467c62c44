#include "models/tools/bundle_info.h"

#include <algorithm>

#include "models/tools/cli.h"
#include "models/tools/session.h"
#include "models/tools/tensor_io.h"

namespace modeld::tools {
namespace {

using bundle::Bundle;
using bundle::Manifest;

Json dims_json(std::span<const int64_t> dims) {
  Json out = Json::array();
  for (const int64_t d : dims) out.push(d);
  return out;
}

Json tensor_json(const exec::TensorInfo& t) {
  Json out = Json::object();
  out.set("name", t.name);
  out.set("dtype", ir::dtype_name(t.dtype));
  out.set("dims", dims_json(t.dims));
  out.set("bytes", t.bytes);
  return out;
}

struct EntryFigures {
  uint64_t calls = 0, copies = 0, flops = 0, mem_bytes = 0;
};
EntryFigures figures(const exec::Plan& plan, const exec::Entry& e) {
  EntryFigures f;
  for (const exec::CallRow& c : e.calls) {
    if (c.kind == exec::CallRow::Kind::kCopy) {
      ++f.copies;
      f.mem_bytes += 2 * c.copy_bytes;
      continue;
    }
    ++f.calls;
    f.flops += plan.programs[c.program].flops;
    f.mem_bytes += plan.programs[c.program].mem_bytes;
  }
  return f;
}

Json identity_json(const Bundle& b) {
  const Manifest& m = b.manifest();
  Json out = Json::object();
  out.set("format_version", m.format_version);
  out.set("role", bundle::role_name(m.role));
  out.set("model_sha256", m.model_sha256.hex());
  out.set("manifest_hash", b.header().manifest_hash.hex());
  out.set("compiler_version", m.compiler_version);
  out.set("backend_compiler", m.plan.compiler);
  out.set("codegen_config", m.plan.codegen_config);
  out.set("target", hal::print_target(m.plan.target));
  out.set("renderer", m.plan.target.renderer);
  out.set("threads", m.plan.target.threads);
  Json features = Json::array();
  for (const std::string& f : m.plan.target.features) features.push(f);
  out.set("features", std::move(features));
  Json chips = Json::array();
  for (const std::string& c : m.chips) chips.push(c);
  out.set("chips", std::move(chips));
  out.set("file_bytes", b.header().file_bytes);
  out.set("signed_by", b.signed_by());
  out.set("self_check", bundle::self_check_name(m.self_check));
  out.set("context_frames", m.context_frames);
  out.set("budget_p50_ms", m.budget.p50_ms);
  out.set("budget_p99_ms", m.budget.p99_ms);
  return out;
}

Json interface_json(const Manifest& m) {
  Json out = Json::object();
  const exec::Entry& run = *m.plan.find_entry("run");
  Json inputs = Json::array(), outputs = Json::array(), states = Json::array();
  for (const ModelInput& i : model_inputs(m, run)) {
    Json row = tensor_json(i.info);
    row.set("parts", i.parts.size());
    inputs.push(std::move(row));
  }
  for (const exec::TensorInfo& t : run.outputs) outputs.push(tensor_json(t));
  for (const bundle::StatePair& s : m.states) {
    Json row = tensor_json(run.inputs[s.input]);
    row.set("fed_by", run.outputs[s.output].name);
    states.push(std::move(row));
  }
  Json slices = Json::object();
  for (const bundle::SliceRow& s : m.slices) {
    Json range = Json::array();
    range.push(s.begin);
    range.push(s.end);
    slices.set(s.name, std::move(range));
  }
  out.set("inputs", std::move(inputs));
  out.set("states", std::move(states));
  out.set("outputs", std::move(outputs));
  out.set("slices", std::move(slices));
  return out;
}

Json entries_json(const Manifest& m) {
  Json out = Json::array();
  for (const exec::Entry& e : m.plan.entries) {
    const EntryFigures f = figures(m.plan, e);
    Json row = Json::object();
    row.set("name", e.name);
    row.set("calls", f.calls);
    row.set("copies", f.copies);
    row.set("flops", f.flops);
    row.set("mem_bytes", f.mem_bytes);
    out.push(std::move(row));
  }
  return out;
}

Json kernels_json(const Manifest& m) {
  const std::vector<uint64_t> used = calls_per_program(m.plan);
  Json out = Json::array();
  for (size_t i = 0; i < m.plan.programs.size(); ++i) {
    const exec::ProgramRow& p = m.plan.programs[i];
    Json row = Json::object();
    row.set("name", p.name);
    row.set("key", p.key.hex());
    row.set("opts", p.applied_opts);
    row.set("calls", used[i]);
    Json groups = Json::array(), local = Json::array();
    for (const uint64_t n : p.groups) groups.push(n);
    for (const uint64_t n : p.local) local.push(n);
    row.set("groups", std::move(groups));
    row.set("local", std::move(local));
    row.set("flops", p.flops);
    row.set("lds_bytes", p.lds_bytes);
    row.set("mem_bytes", p.mem_bytes);
    row.set("image_bytes", p.image.size);
    out.push(std::move(row));
  }
  return out;
}

Json memory_json(const Manifest& m) {
  Json out = Json::object();
  out.set("sum_bytes", m.plan.memory.sum_bytes);
  out.set("planned_bytes", m.plan.memory.planned_bytes);
  out.set("bound_bytes", m.plan.arena_bound());
  out.set("weight_bytes", m.plan.weights_size());
  out.set("resident_bytes", m.plan.memory.resident_bytes);
  Json arenas = Json::array();
  for (const exec::ArenaRow& a : m.plan.arenas) {
    Json row = Json::object();
    row.set("lane", a.lane);
    row.set("copy", a.copy);
    row.set("sum_bytes", a.sum);
    row.set("bytes", a.size);
    row.set("bound_bytes", a.bound);
    arenas.push(std::move(row));
  }
  out.set("arenas", std::move(arenas));
  return out;
}

std::string identity_text(const Bundle& b) {
  const Manifest& m = b.manifest();
  const std::string sign = b.signed_by().empty() ? "unsigned" : "signed by " + b.signed_by();
  std::vector<std::vector<std::string>> rows = {
      {"role", bundle::role_name(m.role)},
      {"file", bytes_text(b.header().file_bytes) + ", format " + std::to_string(m.format_version) +
                   ", " + sign},
      {"model", "sha256 " + m.model_sha256.hex()},
      {"target", hal::print_target(m.plan.target) + ", renderer " + m.plan.target.renderer + ", " +
                     std::to_string(m.plan.target.threads) + " threads"},
      {"compiler", "modeld " + m.compiler_version + ", " + m.plan.compiler},
      {"self-check", bundle::self_check_name(m.self_check)},
      {"context", std::to_string(m.context_frames) + " frames"}};
  if (m.budget.p99_ms > 0)
    rows.push_back({"budget", strf("p50 %g ms, p99 %g ms", m.budget.p50_ms, m.budget.p99_ms)});
  return "bundle " + b.name() + "\n" + text_table(rows);
}

std::string interface_text(const Manifest& m) {
  const exec::Entry& run = *m.plan.find_entry("run");
  std::vector<std::vector<std::string>> rows;
  std::string out = "inputs\n";
  for (const ModelInput& i : model_inputs(m, run))
    rows.push_back({i.info.name, tensor_text(i.info),
                    i.parts.size() > 1 ? strf("in %zu parts", i.parts.size()) : ""});
  out += text_table(rows);
  rows.clear();
  for (const bundle::StatePair& s : m.states)
    rows.push_back({run.inputs[s.input].name, tensor_text(run.inputs[s.input]),
                    "fed by " + run.outputs[s.output].name});
  if (!rows.empty()) out += "states\n" + text_table(rows);
  rows.clear();
  for (const exec::TensorInfo& t : run.outputs) rows.push_back({t.name, tensor_text(t)});
  out += "outputs\n" + text_table(rows);
  rows.clear();
  for (const bundle::SliceRow& s : m.slices)
    rows.push_back({s.name, strf("[%llu, %llu)", static_cast<unsigned long long>(s.begin),
                                 static_cast<unsigned long long>(s.end))});
  if (!rows.empty()) out += "slices of outputs\n" + text_table(rows);
  return out;
}

std::string kernels_text(const Manifest& m) {
  std::vector<std::vector<std::string>> rows = {
      {"entry", "calls", "copies", "arithmetic", "memory"}};
  for (const exec::Entry& e : m.plan.entries) {
    const EntryFigures f = figures(m.plan, e);
    rows.push_back({e.name, std::to_string(f.calls), std::to_string(f.copies), flops_text(f.flops),
                    bytes_text(f.mem_bytes)});
  }
  std::string out = "entry points\n" + text_table(rows);
  rows = {{"kernel", "calls", "launch", "arithmetic", "memory", "image", "opts"}};
  const std::vector<uint64_t> used = calls_per_program(m.plan);
  for (size_t i = 0; i < m.plan.programs.size(); ++i) {
    const exec::ProgramRow& p = m.plan.programs[i];
    rows.push_back({p.name, std::to_string(used[i]), launch_text(p), flops_text(p.flops),
                    bytes_text(p.mem_bytes),
                    p.image.is_missing() ? "missing" : bytes_text(p.image.size), p.applied_opts});
  }
  return out +
         strf("kernels: %zu, without a binary: %zu\n", m.plan.programs.size(),
              m.plan.missing_images()) +
         text_table(rows);
}

std::string memory_text(const Manifest& m) {
  std::vector<std::vector<std::string>> rows = {
      {"lane", "sum of buffers", "arena", "bound", "over bound"}};
  for (const exec::ArenaRow& a : m.plan.arenas)
    rows.push_back({lane_text(a), bytes_text(a.sum), bytes_text(a.size), bytes_text(a.bound),
                    over_bound_text(a.size, a.bound)});
  const uint64_t bound = m.plan.arena_bound();
  rows.push_back({"all", bytes_text(m.plan.memory.sum_bytes),
                  bytes_text(m.plan.memory.planned_bytes), bytes_text(bound),
                  over_bound_text(m.plan.memory.planned_bytes, bound)});
  const std::string arenas = text_table(rows);
  rows = {
      {"weights", bytes_text(m.plan.weights_size()), strf("%zu tensors", m.plan.weights.size())},
      {"resident", bytes_text(m.plan.memory.resident_bytes), "arenas and weights"}};
  return "memory (bound: the most bytes alive at one call)\n" + arenas + text_table(rows);
}

}  // namespace

std::vector<uint64_t> calls_per_program(const exec::Plan& plan) {
  std::vector<uint64_t> out(plan.programs.size());
  for (const exec::Entry& e : plan.entries)
    for (const exec::CallRow& c : e.calls)
      if (c.kind == exec::CallRow::Kind::kProgram) ++out[c.program];
  return out;
}

std::string launch_text(const exec::ProgramRow& p) {
  const auto three = [](const uint64_t(&n)[3]) {
    return strf("%llux%llux%llu", static_cast<unsigned long long>(n[0]),
                static_cast<unsigned long long>(n[1]), static_cast<unsigned long long>(n[2]));
  };
  return three(p.groups) + "/" + three(p.local);
}

std::string lane_text(const exec::ArenaRow& arena) {
  return strf("%u %s", arena.lane, arena.copy ? "copy" : "compute");
}

std::string over_bound_text(uint64_t bytes, uint64_t bound) {
  if (bound == 0) return "";
  return strf("%+.1f %%", 100 * (static_cast<double>(bytes) / static_cast<double>(bound) - 1));
}

Json info_json(const Bundle& b) {
  const Manifest& m = b.manifest();
  Json out = Json::object();
  out.set("identity", identity_json(b));
  out.set("interface", interface_json(m));
  out.set("entries", entries_json(m));
  out.set("kernels", kernels_json(m));
  out.set("missing_binaries", m.plan.missing_images());
  out.set("memory", memory_json(m));
  Json sections = Json::array();
  for (const bundle::SectionRow& s : m.sections) {
    Json row = Json::object();
    row.set("kind", bundle::section_name(s.kind));
    row.set("offset", s.offset);
    row.set("bytes", s.size);
    row.set("hash", s.hash.hex());
    sections.push(std::move(row));
  }
  out.set("sections", std::move(sections));
  return out;
}

std::string info_text(const Bundle& b) {
  const Manifest& m = b.manifest();
  return identity_text(b) + interface_text(m) + kernels_text(m) + memory_text(m);
}

}  // namespace modeld::tools
