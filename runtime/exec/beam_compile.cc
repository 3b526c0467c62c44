#include "runtime/exec/beam_compile.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "hal/device_ban.h"

#include "runtime/exec/kernel_ast.h"

namespace modeld::exec {

namespace {

// A source's function is named after its key, and the key says how it came about.
std::string without_name(std::string text, const std::string& name) {
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at))
    text.replace(at, name.size(), "_");
  return text;
}

std::string bytes_of(const codegen::Program& p) {
  if (p.code.empty()) return without_name(p.source, p.name);
  return {reinterpret_cast<const char*>(p.code.data()), p.code.size()};
}

}  // namespace

Status CandidateCompiler::attach_image(Candidate& c) {
  if (!c.program.code.empty()) {
    c.image.code = c.program.code;
    c.image.size = c.image.code.size();
    return {};
  }
  {
    const std::lock_guard lock(mutex_);
    if (const auto at = images_.find(c.bytes); at != images_.end()) {
      c.image = at->second;
      return {};
    }
  }
  const compile::KernelSource source{c.program.name, c.program.source, c.program.no_contract};
  ASSIGN_OR_RETURN(auto made, backend_.compiler->do_compile(std::span(&source, 1)));
  if (made.size() != 1) return fail(Errc::kInternal, "compiler made no image");
  c.image.code = std::move(made[0].code);
  c.image.size = c.image.code.size();
  c.image.entry_offset = made[0].entry_offset;
  c.image.alignment = made[0].alignment;
  const std::lock_guard lock(mutex_);
  images_.insert_or_assign(c.bytes, c.image);
  return {};
}

Result<Candidate> CandidateCompiler::make(const ir::Opts& opts, int64_t max_instructions) {
  ir::Graph g;
  const ir::Node* ast = with_opts(g, g.import(ast_), opts);
  Candidate out;
  ASSIGN_OR_RETURN(out.program, codegen::to_program(g, ast, backend_.options_for(no_contract_)));
  if (out.program.instructions >= max_instructions)
    return fail(Errc::kUnsupported,
                strf("%lld instructions", static_cast<long long>(out.program.instructions)));
  out.bytes = bytes_of(out.program);
  RETURN_IF_ERROR(attach_image(out));
  return out;
}

Result<Candidate> CandidateCompiler::compile_one(const ir::Opts& opts) {
  return make(opts, INT64_MAX);
}

std::vector<std::optional<Candidate>> CandidateCompiler::compile(std::span<const ir::Opts> lists) {
  std::vector<std::optional<Candidate>> out(lists.size());  // one writer per element
  std::atomic<size_t> next{0};
  const auto work = [&] {
    const hal::DeviceBan no_device;
    for (size_t i = next.fetch_add(1); i < lists.size(); i = next.fetch_add(1)) {
      auto made = make(lists[i], limits_.instructions);
      if (made.ok()) out[i] = std::move(*made);
    }
  };
  std::vector<std::thread> workers;
  const auto count = std::min(lists.size(), static_cast<size_t>(std::max(limits_.jobs, 0)));
  if (count <= 1) work();
  for (size_t t = 0; count > 1 && t < count; ++t) workers.emplace_back(work);
  for (std::thread& t : workers) t.join();
  return out;
}

}  // namespace modeld::exec
