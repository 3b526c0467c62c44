#include "selftest/fuzz/kernel_run.h"

#include <array>
#include <cstdio>
#include <memory>
#include <utility>

#include "runtime/codegen/linearize.h"
#include "runtime/codegen/lower.h"
#include "runtime/codegen/program_info.h"
#include "runtime/isa/x86/x86.h"
#include "runtime/render/render_cpu.h"

#include "selftest/fuzz/kernel_ast.h"
#include "selftest/fuzz/kernel_crash.h"
#include "selftest/fuzz/kernel_generate.h"
#include "selftest/fuzz/kernel_oracle.h"
#include "selftest/testing/compiled_kernel.h"
#include "selftest/testing/program_interp.h"

namespace modeld::fuzz {

namespace {

using codegen::CodegenOptions;
using testing::KernelStorage;
using Kind = KernelFinding::Kind;

Rng rng_of(uint64_t seed, uint64_t number, uint64_t what) {
  Rng mix(seed);
  return Rng(mix.next() ^ (number * 0x9e3779b97f4a7c15u) ^ (what << 56));
}

CodegenOptions c_options() {
  auto target = hal::parse_target("cpu");
  CodegenOptions o = codegen::cpu_options(*target);
  o.target.threads = 1;
  o.render = render::cpu_renderer(*target).render;
  return o;
}

Result<CodegenOptions> x86_options() {
  ASSIGN_OR_RETURN(hal::Target target, hal::parse_target("cpu"));
  target.renderer = "x86";
  target.threads = 1;
  return isa::x86::x86_options(target);
}

enum class Path : uint8_t { kC, kX86, kGpu };
constexpr size_t kPaths = 3;

CodegenOptions base_options(Path path) {
  if (path == Path::kX86) return *x86_options();
  CodegenOptions o =
      path == Path::kC ? c_options() : codegen::gpu_options(*hal::parse_target("cl"));
  o.caps.tensor_cores.clear();  // TC has tests of its own
  return o;
}

// What a renderer may say of itself, at random: every pass must cope with each.
CodegenOptions numbered_options(uint64_t seed, uint64_t number, Path path) {
  Rng rng = rng_of(seed, number, 2);
  CodegenOptions o = base_options(path);
  o.fast_idiv = rng.one_in(2);
  if (path == Path::kGpu) return o;
  o.caps.native_i64 = !rng.one_in(8);
  o.heuristic = rng.one_in(2) ? codegen::Heuristic::kCpu : codegen::Heuristic::kReference;
  if (path == Path::kX86) return o;
  o.caps.unaligned_vectors = rng.one_in(2);
  o.caps.pack_lanes = !rng.one_in(4);
  o.caps.native_f16 = o.caps.native_f16 && !rng.one_in(4);
  o.caps.has_trunc = o.caps.has_trunc && !rng.one_in(4);
  if (rng.one_in(3)) o.caps.widths32 = {4, 2};
  if (rng.one_in(6)) o.caps.widths32 = {};
  if (rng.one_in(3)) o.caps.widths64 = {2};
  return o;
}

struct Variant {
  const char* name;
  Path path;
  enum { kNoopt, kOpts, kHeuristic } opts;
};

constexpr Variant kVariants[] = {
    {"C, not optimised", Path::kC, Variant::kNoopt},     {"C, opts", Path::kC, Variant::kOpts},
    {"x86, not optimised", Path::kX86, Variant::kNoopt}, {"x86, opts", Path::kX86, Variant::kOpts},
    {"x86, heuristic", Path::kX86, Variant::kHeuristic}, {"gpu, opts", Path::kGpu, Variant::kOpts},
    {"gpu, heuristic", Path::kGpu, Variant::kHeuristic}};

// A program for work groups, in order; it is interpreted.
struct GpuProgram {
  std::unique_ptr<ir::Graph> graph = std::make_unique<ir::Graph>();
  ir::NodeVec linear;
  ir::ProgramInfo info;
  ir::Opts applied;
};

Result<GpuProgram> gpu_program(const ir::Node* ast, const CodegenOptions& o) {
  GpuProgram p;
  const ir::Node* own = p.graph->import(ast);
  ASSIGN_OR_RETURN(const ir::Node* sink, codegen::full_rewrite_to_sink(*p.graph, own, o, true));
  p.info = codegen::program_info(*p.graph, sink, "kernel");
  p.applied = sink->as<ir::KernelInfo>().applied_opts;
  p.linear = codegen::linearize(*p.graph, sink);
  RETURN_IF_ERROR(p.graph->status());
  return p;
}

std::string number_text(ir::DType t, double f, int64_t i) {
  return ir::is_float(t) ? strf("%.17g", f) : strf("%lld", static_cast<long long>(i));
}

// The first element that is not what it may be, as text.
std::string difference(const KernelRecipe& r,
                       const Expected& want,
                       const std::vector<KernelStorage>& before,
                       const std::vector<KernelStorage>& got) {
  for (size_t k = 0; k < got.size(); ++k) {
    const ir::DType t = r.buffers[k].dtype;
    const bool is_output = k < r.outputs.size();
    for (size_t n = 0; n < got[k].size(); ++n) {
      const double f = ir::is_float(t) ? got[k].f[n] : 0;
      const int64_t i = ir::is_float(t) ? 0 : got[k].i[n];
      const Approx& may = is_output         ? want[k][n]
                          : ir::is_float(t) ? Approx::of_float(before[k].f[n])
                                            : Approx::of_int(before[k].i[n]);
      if (agrees(t, may, f, i)) continue;
      return strf("b%zu[%zu] is %s, wanted %s", k, n, number_text(t, f, i).c_str(),
                  number_text(t, static_cast<double>(may.v), may.i).c_str()) +
             (ir::is_float(t) ? strf(" +- %.3g", static_cast<double>(may.err)) : "");
    }
  }
  return "";
}

// One trial in a batch.
class Trial {
 public:
  Trial(const KernelTrial& t, const RunOptions& o) : t_(t), o_(o) {}

  void lower(testing::KernelBatch& batch) {
    note_kernel(t_.number);
    ir::Graph g;
    const ir::Node* ast = kernel_ast(g, t_.recipe);
    if (!g.status().ok()) return found(Kind::kLower, "AST: " + g.status().error().what);
    for (const Variant& v : kVariants) {
      if (result.finding || !is_wanted(v.path)) continue;
      // With a defect only what has opts is of interest.
      if (o_.defect != nullptr && (v.opts != Variant::kOpts || v.path == Path::kGpu)) continue;
      lower_variant(g, ast, v, batch);
    }
  }

  void run(const testing::KernelBatch& batch) {
    if (result.finding) return;
    note_kernel(t_.number);
    const std::vector<KernelStorage> data = recipe_data(t_.recipe);
    const Expected want = recipe_result(t_.recipe, data);
    count(want);
    for (const Made& m : made_) {
      std::vector<KernelStorage> got = data;
      std::vector<KernelStorage*> args;
      for (KernelStorage& s : got) args.push_back(&s);
      const Status ran = launch(batch, m, args);
      const std::string wrong =
          ran.ok() ? difference(t_.recipe, want, data, got) : ran.error().what;
      if (wrong.empty()) continue;
      result.applied = m.opts;
      return found(ran.ok() ? Kind::kValue : Kind::kRun, strf("%s: ", m.variant->name) + wrong);
    }
  }

  void found(Kind kind, std::string text) { result.finding = {kind, std::move(text)}; }

  TrialResult result;

 private:
  const KernelTrial& t_;
  const RunOptions& o_;
  struct Made {
    const Variant* variant;
    size_t number = 0;  // in the batch, or of gpu_
    ir::Opts opts;
  };
  std::vector<Made> made_;
  std::vector<GpuProgram> gpu_;
  std::array<std::optional<ir::Opts>, kPaths> plans_;

  bool is_wanted(Path path) const {
    if (path != Path::kGpu) return path == Path::kC ? o_.with_c : o_.with_x86;
    return o_.with_gpu && !is_in_place();
  }

  // Items of a group that do not store read what the storing one updates, for nothing; the
  // interpreter calls that a race.
  bool is_in_place() const {
    for (const KernelStep& s : t_.recipe.steps)
      if (s.kind == StepKind::kRead && s.buffer < t_.recipe.outputs.size()) return true;
    return false;
  }

  Status launch(const testing::KernelBatch& batch, const Made& m, std::span<KernelStorage*> args) {
    const bool is_gpu = m.variant->path == Path::kGpu;
    const ir::ProgramInfo& info = is_gpu ? gpu_[m.number].info : batch.program(m.number).info;
    const std::vector<int64_t> vars(info.vars.size(), t_.recipe.variable);
    if (!is_gpu) return batch.run(m.number, args, vars, t_.number % 3);
    GpuProgram& p = gpu_[m.number];
    // Buffers up to the last one the program uses, as every launch passes them.
    const size_t buffers = info.globals.empty() ? 0 : static_cast<size_t>(info.globals.back() + 1);
    args = args.first(std::min(buffers, args.size()));
    return testing::run_program(*p.graph, p.linear, p.info, args, vars);
  }

  // The opts of the trial, or planned ones; every path has its own rules of what is legal.
  const ir::Opts* plan(ir::Graph& g, const ir::Node* ast, Path path, const CodegenOptions& o) {
    if (t_.opts) return &*t_.opts;
    std::optional<ir::Opts>& at = plans_[static_cast<size_t>(path)];
    if (at) return &*at;
    Rng rng = rng_of(o_.seed, t_.number, 3);
    const auto planned = plan_opts(g, ast, o, rng, o_.attempt);
    if (!planned.ok()) {
      found(Kind::kPlan, planned.error().what);
      return nullptr;
    }
    if (!planned->finding.empty()) {
      found(Kind::kPlan, planned->finding);
      return nullptr;
    }
    if (!planned->bad_list.empty() && gpu_program(with_opts(g, ast, planned->bad_list), o).ok()) {
      found(Kind::kPlan,
            "a list with an illegal opt made a program: " + ir::opts_text(planned->bad_list));
      return nullptr;
    }
    result.refused += planned->refused.size();
    at = planned->applied;
    return &*at;
  }

  void lower_variant(ir::Graph& g,
                     const ir::Node* ast,
                     const Variant& v,
                     testing::KernelBatch& batch) {
    CodegenOptions o = numbered_options(o_.seed, t_.number, v.path);
    o.noopt = v.opts == Variant::kNoopt;
    ir::Opts applied;
    if (v.opts == Variant::kOpts) {
      const ir::Opts* opts = plan(g, ast, v.path, o);
      if (opts == nullptr) return;
      ast = with_opts(g, ast, *opts);
      result.applied = applied = *opts;
    }
    Status made =
        v.path == Path::kGpu ? add_gpu(ast, o, v, &applied) : add(g, ast, o, v, batch, &applied);
    if (!made.ok()) return found(Kind::kLower, strf("%s: ", v.name) + made.error().what);
    if (v.opts == Variant::kOpts && applied != result.applied && !o_.defect)
      return found(Kind::kPlan, "the program does not name the opts it was made with");
    ++result.kernels;
  }

  Status add(ir::Graph& g,
             const ir::Node* ast,
             const CodegenOptions& o,
             const Variant& v,
             testing::KernelBatch& batch,
             ir::Opts* applied) {
    ASSIGN_OR_RETURN(codegen::Program program, lower_kernel(g, ast, o, o_.defect));
    if (o_.show_sources) std::printf("---- %s\n%s", v.name, program.source.c_str());
    *applied = program.applied_opts;
    made_.push_back({&v, batch.add(std::move(program)), *applied});
    return {};
  }

  Status add_gpu(const ir::Node* ast,
                 const CodegenOptions& o,
                 const Variant& v,
                 ir::Opts* applied) {
    ASSIGN_OR_RETURN(GpuProgram program, gpu_program(ast, o));
    *applied = program.applied;
    made_.push_back({&v, gpu_.size(), *applied});
    gpu_.push_back(std::move(program));
    return {};
  }

  void count(const Expected& want) {
    for (const std::vector<Approx>& output : want) {
      for (const Approx& a : output) {
        ++result.elements;
        result.unknown += a.is_known ? 0 : 1;
      }
    }
  }
};

// True if the whole batch could be compiled.
bool run_batch(std::vector<Trial>& trials) {
  testing::KernelBatch batch;
  for (Trial& t : trials) t.lower(batch);
  const Status built = batch.build();
  if (!built.ok() && trials.size() > 1) return false;
  for (Trial& t : trials) {
    if (!built.ok() && !t.result.finding) t.found(Kind::kCompile, built.error().what);
    t.run(batch);
  }
  return true;
}

}  // namespace

bool host_has_x86_path() {
  return x86_options().ok();
}

KernelTrial numbered_trial(uint64_t seed, uint64_t number) {
  Rng rng = rng_of(seed, number, 1);
  return {number, generate_kernel(rng), {}};
}

std::vector<TrialResult> run_trials(const std::vector<KernelTrial>& trials, const RunOptions& o) {
  std::vector<Trial> batch;
  for (const KernelTrial& t : trials) batch.emplace_back(t, o);
  std::vector<TrialResult> out;
  if (run_batch(batch)) {
    for (Trial& t : batch) out.push_back(std::move(t.result));
    return out;
  }
  // One bad kernel fails the whole unit: find out whose it is.
  for (const KernelTrial& t : trials) {
    std::vector<Trial> one;
    one.emplace_back(t, o);
    run_batch(one);
    out.push_back(std::move(one[0].result));
  }
  return out;
}

}  // namespace modeld::fuzz
