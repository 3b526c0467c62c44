// Items of the compiler's caches. The four ways to a binary are told apart by counters, not by
// time: cold (lowered and compiled), memory hit (neither), disk hit (lowered, not compiled),
// another configuration (cold, whatever the first one left).
#include <algorithm>

#include "hal/base/fs.h"

#include "runtime/exec/prepare.h"

#include "models/tools/figures.h"
#include "models/tools/reference_plan.h"

#include "selftest/boot/cache_rules.h"
#include "selftest/boot/subject.h"

namespace modeld::selftest {
namespace {

// Every kernel of the bundle made again from its graph section.
struct Compiled {
  exec::Plan plan;
  exec::PrepareReport report;
  int64_t took_ns = 0;
};

Result<Compiled> compile_all(const Subject& s, std::shared_ptr<exec::ProgramCache> programs) {
  Compiled out;
  out.plan = s.bundle->to_plan();
  for (exec::ProgramRow& program : out.plan.programs) exec::strip_image(program);
  exec::CompileOptions options = s.compile_options();
  options.program_cache = std::move(programs);
  const int64_t start = now_ns();
  ASSIGN_OR_RETURN(out.report, exec::prepare(out.plan, exec::PreparePolicy::kMissing, options));
  out.took_ns = now_ns() - start;
  return out;
}

std::shared_ptr<exec::ProgramCache> new_process_cache(const Subject& s) {
  return exec::make_program_cache(s.compile_options().cache_dir);
}

// Images of our own assembler are made while lowering and never go to disk.
bool keeps_on_disk(const Subject& s) {
  return s.plan.target.renderer == "c";
}

std::vector<Figure> figures_of(const exec::CompileStats& stats, int64_t took_ns) {
  return {{"kernels", static_cast<double>(stats.kernels)},
          {"lowered", static_cast<double>(stats.lowered)},
          {"cold", static_cast<double>(stats.cold)},
          {"memory_hits", static_cast<double>(stats.memory_hits)},
          {"disk_hits", static_cast<double>(stats.disk_hits)},
          {"ms", static_cast<double>(took_ns) / 1e6}};
}

// "" when every image has the bytes of the bundle's; a kernel that has none there counts as equal.
std::string first_other_image(const Subject& s, const exec::Plan& plan) {
  for (size_t i = 0; i < plan.programs.size(); ++i) {
    const auto offline = s.bundle->image(i);
    const auto& here = plan.programs[i].image.code;
    if (offline.empty() || std::equal(here.begin(), here.end(), offline.begin(), offline.end()))
      continue;
    return plan.programs[i].name;
  }
  return "";
}

// Counters as the case demands, then the bytes.
Outcome judge(const Subject& s, CacheCase wanted, const Compiled& c) {
  const std::vector<Figure> figures = figures_of(c.report.stats, c.took_ns);
  if (const Status told = check_counters(wanted, c.report.stats); !told.ok())
    return failed(told.error().what, figures);
  const std::string counters = counters_text(c.report.stats);
  if (c.report.is_other_compiler)
    return passed(counters + "; the compiler here is not the bundle's, bytes not compared",
                  figures);
  const std::string other = first_other_image(s, c.plan);
  if (!other.empty())
    return failed("kernel " + other + " has other bytes than the bundle's: " + counters, figures);
  return passed(counters + ", the bundle's bytes", figures);
}

Outcome judge(const Subject& s, CacheCase wanted, const Result<Compiled>& c) {
  return c.ok() ? judge(s, wanted, *c) : failed(c.error().what);
}

// Every file below a folder, two levels down, as the cache lays them out.
Result<std::vector<std::string>> cache_files(const std::string& dir) {
  std::vector<std::string> out;
  const std::string top = join_path(dir, "kernels");
  ASSIGN_OR_RETURN(const auto folders, list_dir(top));
  for (const std::string& folder : folders) {
    const std::string at = join_path(top, folder);
    ASSIGN_OR_RETURN(const auto names, list_dir(at));
    for (const std::string& name : names) out.push_back(join_path(at, name));
  }
  return out;
}

// One bit of each, in turn at the start, in the middle and at the end.
Status damage(const std::vector<std::string>& files) {
  for (size_t i = 0; i < files.size(); ++i) {
    ASSIGN_OR_RETURN(std::vector<std::byte> bytes, read_file(files[i]));
    if (bytes.empty()) continue;
    const size_t places[] = {0, bytes.size() / 2, bytes.size() - 1};
    bytes[places[i % std::size(places)]] ^= std::byte{1};
    RETURN_IF_ERROR(write_file_atomic(files[i], bytes));
  }
  return {};
}

}  // namespace

Outcome cold_compile_item(Subject& s) {
  if (s.scratch.empty()) return failed("there is no temporary folder for a cache of its own");
  auto programs = new_process_cache(s);
  const auto compiled = compile_all(s, programs);
  const Outcome out = judge(s, CacheCase::kCold, compiled);
  if (!compiled.ok()) return out;
  s.programs = std::move(programs);
  s.times.cold_compile_ns = compiled->took_ns;
  return out;
}

Outcome memory_hit_item(Subject& s) {
  const auto compiled = compile_all(s, s.programs);
  if (compiled.ok()) s.times.memory_hit_ns = compiled->took_ns;
  return judge(s, CacheCase::kMemory, compiled);
}

Outcome disk_hit_item(Subject& s) {
  const auto compiled = compile_all(s, new_process_cache(s));
  if (!keeps_on_disk(s)) return judge(s, CacheCase::kCold, compiled);
  if (compiled.ok()) s.times.disk_hit_ns = compiled->took_ns;
  return judge(s, CacheCase::kDisk, compiled);
}

Outcome config_switch_item(Subject& s) {
  exec::CompileOptions options = s.compile_options();
  options.program_cache = s.programs;
  const int64_t start = now_ns();
  // The reference is the other configuration: no optimisation, sums in double.
  auto other = tools::reference_plan(s.plan, options);
  if (!other.ok()) return failed(other.error().what);
  s.times.config_switch_ns = now_ns() - start;
  s.reference = std::move(*other);
  if (const Status told = check_counters(CacheCase::kSwitched, s.reference->stats); !told.ok())
    return failed(told.error().what, figures_of(s.reference->stats, s.times.config_switch_ns));
  for (size_t i = 0; i < s.plan.programs.size(); ++i) {
    if (s.plan.programs[i].key == s.reference->programs[i].key)
      return failed("kernel " + s.plan.programs[i].name + " has one key in two configurations");
  }
  Outcome back = judge(s, CacheCase::kMemory, compile_all(s, s.programs));
  back.text =
      strf("switched: %s; back: %s", counters_text(s.reference->stats).c_str(), back.text.c_str());
  return back;
}

Outcome cache_damage_item(Subject& s) {
  if (!keeps_on_disk(s)) return passed("this renderer's images never go to disk");
  const auto files = cache_files(s.compile_options().cache_dir);
  if (!files.ok()) return failed(files.error().what);
  if (files->empty()) return failed("the cache folder holds nothing that could be damaged");
  if (const Status done = damage(*files); !done.ok()) return failed(done.error().what);
  const Outcome again = judge(s, CacheCase::kCold, compile_all(s, new_process_cache(s)));
  if (again.verdict != Verdict::kPassed) return again;
  Outcome mended = judge(s, CacheCase::kDisk, compile_all(s, new_process_cache(s)));
  mended.text = strf("%zu files damaged: %s; then: %s", files->size(), again.text.c_str(),
                     mended.text.c_str());
  return mended;
}

}  // namespace modeld::selftest
