// How long `modelc build` takes: with nothing cached by either renderer, and again with a warm disk
// cache. What proves the result is told apart.
#include <cstdio>

#include "runtime/schedule/lower_sink_to_linear.h"

#include "selftest/bench/bench_frame.h"

namespace modeld::bench {
namespace {

struct Case {
  const char* name;
  const char* renderer;
  double limit_s;
  bool is_warm;
};
// The warm build comes after the cold one of its renderer. Images of the x86 renderer are not kept
// on disk: its every build is cold.
constexpr Case kCases[] = {{"cold, C", "c", 20, false},
                           {"warm disk cache, C", "c", 2, true},
                           {"cold, x86", "x86", 5, false}};
constexpr double kProofLimitS = 15;

double seconds(int64_t ns) {
  return static_cast<double>(ns) / 1e9;
}

// Whether images came from where the case says.
Status check_origin(const Case& c, const exec::CompileStats& stats) {
  const uint64_t wanted = c.is_warm ? stats.disk_hits : stats.cold;
  if (wanted == stats.kernels) return {};
  return fail(Errc::kInternal, strf("%s: %llu of %llu kernels came from elsewhere", c.name,
                                    static_cast<unsigned long long>(stats.kernels - wanted),
                                    static_cast<unsigned long long>(stats.kernels)));
}

Status run_case(const Case& c,
                const Options& options,
                const std::string& onnx,
                const std::string& dir) {
  schedule::schedule_cache_clear();  // as in a process of its own
  Options with = options;
  with.renderer = c.renderer;
  ASSIGN_OR_RETURN(const Built built, build_bundle(with, onnx, dir, true));
  const tools::BuildReport& r = built.report;
  Json out = Json::object();
  out.set("model", options.role + " " + options.size + " " + options.dtype);
  out.set("case", c.name);
  out.set("kernels", r.stats.kernels);
  out.set("cold", r.stats.cold);
  out.set("disk_hits", r.stats.disk_hits);
  out.set("import_s", seconds(r.import_ns));
  out.set("compile_s", seconds(r.compile_ns));
  out.set("write_s", seconds(r.write_ns));
  out.set("build_s", seconds(r.build_ns()));
  out.set("proof_s", seconds(r.proof_ns()));
  out.set("file_bytes", r.written.file_bytes);
  std::printf("%s\n", out.dump().c_str());
  RETURN_IF_ERROR(check_origin(c, r.stats));
  std::printf("bench_compile: %s %s built (%s) in %.2f s (%s), self-check and golden %.1f s (%s)\n",
              options.role.c_str(), options.size.c_str(), c.name, seconds(r.build_ns()),
              verdict(seconds(r.build_ns()), c.limit_s).c_str(), seconds(r.proof_ns()),
              verdict(seconds(r.proof_ns()), kProofLimitS).c_str());
  return {};
}

Status run(const Options& options, const std::string& dir) {
  ASSIGN_OR_RETURN(const std::string onnx, make_onnx(options, dir));
  for (const Case& c : kCases) RETURN_IF_ERROR(run_case(c, options, onnx, dir));
  return {};
}

}  // namespace
}  // namespace modeld::bench

int main(int argc, char** argv) {
  return modeld::bench::bench_main(argc, argv, "Time of a build, ONNX to bundle, cold and warm", {},
                                   modeld::bench::run);
}
