#include "runtime/pass/pass.h"

#include <filesystem>
#include <fstream>
#include <utility>

#include "hal/base/clock.h"
#include "hal/base/env.h"
#include "hal/base/log.h"

#include "runtime/ir/print.h"

namespace modeld::pass {

using ir::Graph;
using ir::Node;

namespace {

Status write_dump(const std::string& dir, const std::string& name, const Node* root) {
  std::error_code ec;
  std::filesystem::create_directories(dir, ec);
  if (ec) return fail(Errc::kIo, strf("dump directory %s: %s", dir.c_str(), ec.message().c_str()));
  const std::string path = dir + "/" + name;
  std::ofstream out(path, std::ios::trunc);
  out << ir::print(root);
  out.close();
  if (!out) return fail(Errc::kIo, strf("dump %s: cannot write", path.c_str()));
  return {};
}

std::string context(const RunOptions& options, const Pass& p) {
  return options.label.empty() ? strf("pass %s", p.name)
                               : strf("%s: pass %s", options.label.c_str(), p.name);
}

Result<const Node*> run_one(Graph& g, const Node* root, const Pass& p, const RunOptions& options) {
  auto result = p.fn(g, root);
  if (result.ok() && g.failed()) result = fail(std::move(g.status()).error());
  if (!result.ok()) return fail(std::move(result).error().with(context(options, p)));
  if (options.verify && p.spec_after != nullptr) {
    const Status ok = p.spec_after(g, *result);
    if (!ok.ok()) return fail(Error(ok.error()).with(context(options, p) + ": spec after"));
  }
  return result;
}

}  // namespace

std::string dump_name(const std::string& label, size_t index, const std::string& pass) {
  const std::string tail = strf("%02zu-%s.txt", index, pass.c_str());
  return label.empty() ? tail : label + "-" + tail;
}

Result<const Node*> run_passes(Graph& g,
                               const Node* root,
                               std::span<const Pass> passes,
                               const RunOptions& options) {
  const std::string dir =
      options.dump_dir.empty() ? env_value("MODELD_DUMP").value_or("") : options.dump_dir;
  for (size_t i = 0; i < passes.size(); i++) {
    const Pass& p = passes[i];
    const int64_t start_ns = now_ns();
    ASSIGN_OR_RETURN(const Node* next, run_one(g, root, p, options));
    const int64_t spent_ns = now_ns() - start_ns;
    const bool changed = next != root;
    LOG_TRACE("pass", "%s %s: %.3f ms%s", options.label.c_str(), p.name,
              static_cast<double>(spent_ns) * 1e-6, changed ? "" : ", unchanged");
    if (options.timings != nullptr) options.timings->push_back({p.name, spent_ns, changed});
    root = next;
    if (options.observe) options.observe(p, root);
    if (debug_level() >= 5)
      debug_text(5, strf("-- %s %s\n", options.label.c_str(), p.name) + ir::print(root));
    if (!dir.empty()) RETURN_IF_ERROR(write_dump(dir, dump_name(options.label, i, p.name), root));
  }
  return root;
}

}  // namespace modeld::pass
