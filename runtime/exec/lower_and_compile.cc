#include "runtime/exec/lower_and_compile.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "hal/base/clock.h"
#include "hal/base/env.h"
#include "hal/base/log.h"
#include "hal/base/trace.h"
#include "hal/device_ban.h"

#include "runtime/compile/compile_cached.h"
#include "runtime/ir/print.h"
#include "runtime/isa/x86/x86.h"
#include "runtime/render/render_amd.h"
#include "runtime/render/render_cpu.h"
#include "runtime/render/render_opencl.h"

namespace modeld::exec {

namespace {

using Lowered = std::optional<Result<codegen::Program>>;

bool wants_search(const KernelRequest& request) {
  return request.ast->has<ir::KernelInfo>() && request.ast->as<ir::KernelInfo>().beam >= 1;
}

// Lowers requests on worker threads. Each kernel gets a Graph of its own, so that no kernel's
// result depends on which thread took it or on what was lowered before.
class Lowering {
 public:
  Lowering(std::span<const KernelRequest> requests,
           const Backend& backend,
           std::vector<Lowered>& out)
      : requests_(requests), backend_(backend), out_(out) {}
  void run(int jobs, const std::function<void(size_t)>& progress);

 private:
  void lower_one(size_t i);
  void work();

  std::span<const KernelRequest> requests_;
  const Backend& backend_;
  std::vector<Lowered>& out_;  // one writer per element; those already set are left alone
  std::atomic<size_t> next_{0};
  std::mutex mutex_;  // guards the two below
  std::condition_variable changed_;
  size_t done_ = 0, workers_left_ = 0;
};

void Lowering::lower_one(size_t i) {
  if (out_[i]) return;
  TraceZone zone("lower");
  // Lowering is a function of the AST; only a search has business with a device.
  std::optional<hal::DeviceBan> no_device;
  if (!wants_search(requests_[i])) no_device.emplace();
  ir::Graph g;
  out_[i] = codegen::to_program(g, g.import(requests_[i].ast),
                                backend_.options_for(requests_[i].no_contract));
  if (out_[i]->ok()) debug_text(4, (*out_[i])->source);
}

void Lowering::work() {
  for (size_t i = next_.fetch_add(1); i < requests_.size(); i = next_.fetch_add(1)) {
    lower_one(i);
    const std::lock_guard lock(mutex_);
    ++done_;
    changed_.notify_one();
  }
  const std::lock_guard lock(mutex_);
  --workers_left_;
  changed_.notify_one();
}

void Lowering::run(int jobs, const std::function<void(size_t)>& progress) {
  const size_t threads = std::min<size_t>(static_cast<size_t>(std::max(jobs, 0)), requests_.size());
  if (threads <= 1) {
    for (size_t i = 0; i < requests_.size(); ++i) {
      lower_one(i);
      progress(i + 1);
    }
    return;
  }
  workers_left_ = threads;
  std::vector<std::thread> workers;
  for (size_t i = 0; i < threads; ++i) workers.emplace_back([this] { work(); });
  size_t seen = 0;
  std::unique_lock lock(mutex_);
  while (workers_left_ > 0 || seen != done_) {
    changed_.wait(lock, [&] { return workers_left_ == 0 || done_ != seen; });
    if (seen == done_) continue;
    seen = done_;
    lock.unlock();
    progress(seen);
    lock.lock();
  }
  lock.unlock();
  for (std::thread& t : workers) t.join();
}

std::vector<uint32_t> positions(const std::vector<int64_t>& slots) {
  std::vector<uint32_t> out;
  for (const int64_t slot : slots) out.push_back(static_cast<uint32_t>(slot));
  return out;
}

ProgramRow row_of(const codegen::Program& program, const KernelRequest& request, bool keep_source) {
  const ir::ProgramInfo& info = program.info;
  ProgramRow row;
  row.name = program.name;
  row.key = program.key;
  row.ast_text = ir::print(request.ast);
  if (keep_source) row.source = program.source;
  row.applied_opts = ir::opts_text(program.applied_opts);
  row.outs = positions(info.outs);
  row.ins = positions(info.ins);
  // Words are numbered by slot; a parameter that lowering found unused leaves a hole among them.
  row.buffer_args = info.globals.empty() ? 0 : static_cast<uint32_t>(info.globals.back() + 1);
  row.scalar_args = static_cast<uint32_t>(info.vars.size());
  for (size_t i = 0; i < 3; ++i) {
    row.groups[i] = static_cast<uint64_t>(std::max<int64_t>(info.global_size[i], 1));
    row.local[i] = static_cast<uint64_t>(std::max<int64_t>(info.local_size[i], 1));
  }
  row.flops = static_cast<uint64_t>(std::max<int64_t>(info.flops, 0));
  row.lds_bytes = static_cast<uint64_t>(std::max<int64_t>(info.lds_bytes, 0));
  row.mem_bytes = static_cast<uint64_t>(std::max<int64_t>(info.mem_bytes, 0));
  row.no_contract = program.no_contract;
  return row;
}

// The compiler of an instruction set of ours: to_program has made the images already.
class NoCompiler final : public compile::Compiler {
 public:
  explicit NoCompiler(std::string identity) : identity_(std::move(identity)) {}
  const std::string& identity() const override { return identity_; }
  Result<std::vector<compile::CompiledImage>> do_compile(
      std::span<const compile::KernelSource> batch) override {
    return fail(Errc::kInternal,
                strf("kernel %s came from %s without its image",
                     batch.empty() ? "?" : batch[0].name.c_str(), identity_.c_str()));
  }

 private:
  std::string identity_;
};

bool may_not_compile(const CompileOptions& options) {
  return options.assert_no_compile || env_flag("MODELD_ASSERT_COMPILE");
}

// Images that lowering has made itself; `known` says which came from the cache.
Status attach_assembled(std::vector<LoweredRow>& rows,
                        const std::vector<codegen::Program>& programs,
                        const std::vector<bool>& known,
                        const CompileOptions& options,
                        CompileStats& stats) {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!known[i] && may_not_compile(options))
      return fail(Errc::kCompile,
                  strf("kernel %s needs the code generator (its images have no disk cache), which "
                       "MODELD_ASSERT_COMPILE forbids",
                       programs[i].name.c_str()));
    Image& image = rows[i].row.image;
    image.code = programs[i].code;
    image.size = image.code.size();
    ++(known[i] ? stats.memory_hits : stats.cold);
  }
  return {};
}

Status attach_images(std::vector<LoweredRow>& rows,
                     const std::vector<codegen::Program>& programs,
                     Backend& backend,
                     ProgramCache& cache,
                     const CompileOptions& options,
                     CompileStats& stats) {
  std::vector<compile::KernelSource> sources;
  for (const codegen::Program& p : programs)
    sources.push_back(compile::KernelSource{p.name, p.source, p.no_contract});
  compile::CompileCachedOptions cached;
  cached.jobs = options.jobs;
  cached.assert_no_compile = may_not_compile(options);
  if (options.progress)
    cached.progress = [&](size_t done, size_t total) {
      options.progress(CompileProgress{"compile", done, total});
    };
  ASSIGN_OR_RETURN(auto images,
                   compile::compile_cached(*backend.compiler, cache.images, sources, cached));
  for (size_t i = 0; i < rows.size(); ++i) {
    Image& image = rows[i].row.image;
    image.code = std::move(images[i].image.code);
    image.size = image.code.size();
    image.entry_offset = images[i].image.entry_offset;
    image.alignment = images[i].image.alignment;
    ++(images[i].origin == compile::Origin::kCold     ? stats.cold
       : images[i].origin == compile::Origin::kMemory ? stats.memory_hits
                                                      : stats.disk_hits);
  }
  return {};
}

}  // namespace

std::optional<codegen::Program> ProgramCache::find(const Hash128& key) const {
  const std::lock_guard lock(mutex_);
  const auto at = programs_.find(key);
  if (at == programs_.end()) return std::nullopt;
  return at->second;
}

void ProgramCache::store(const codegen::Program& program) {
  const std::lock_guard lock(mutex_);
  programs_.insert_or_assign(program.key, program);
}

codegen::CodegenOptions Backend::options_for(bool no_contract) const {
  codegen::CodegenOptions out = codegen;
  out.no_contract = out.no_contract || no_contract;
  // Bit-exact kernels (warps) have one right result: doubles would round to other pixels.
  if (out.no_contract) out.double_acc = false;
  return out;
}

namespace {

// The language of a target's renderer: "c" and "x86" for CPUs, one for each kind of GPU.
Result<render::Renderer> make_renderer(const hal::Target& target) {
  if (target.is_cpu() && target.renderer == "c") return render::cpu_renderer(target);
  if (target.kind == "cl" && target.renderer == "cl") return render::opencl_renderer();
  if (target.kind == "amd" && target.renderer == "amd") return render::amd_renderer(target);
  const std::string name = hal::print_target(target);
  if (!target.is_cpu())
    return fail(Errc::kUnsupported, strf("target %s: not built yet; built are cpu, cpu:ARCH, cl, "
                                         "amd:gfx1100, amd:gfx1201",
                                         name.c_str()));
  return fail(Errc::kUnsupported,
              strf("no renderer %s for target %s", target.renderer.c_str(), name.c_str()));
}

Result<std::unique_ptr<compile::Compiler>> make_compiler(const CompileOptions& options,
                                                         const std::string& prelude) {
  if (options.target.kind == "cl")
    return compile::make_opencl_compiler({prelude, render::kOpenClBuildOptions});
  compile::ClangOptions clang;
  clang.program = options.clang;
  clang.timeout_ms = options.compile_timeout_ms;
  clang.prelude = prelude;
  return options.target.kind == "amd" ? compile::make_amd_compiler(options.target, clang)
                                      : compile::make_clang_compiler(options.target, clang);
}

}  // namespace

Result<codegen::CodegenOptions> make_codegen_options(const CompileOptions& options) {
  const hal::Target& target = options.target;
  if (target.is_cpu() && target.renderer == "x86") {
    ASSIGN_OR_RETURN(codegen::CodegenOptions out, isa::x86::x86_options(target));
    out.noopt = options.noopt;
    return out;
  }
  ASSIGN_OR_RETURN(const render::Renderer renderer, make_renderer(target));
  codegen::CodegenOptions out =
      target.is_cpu() ? codegen::cpu_options(target) : codegen::gpu_options(target);
  out.noopt = options.noopt;
  out.render = renderer.render;
  return out;
}

Result<Backend> make_backend(const CompileOptions& options) {
  Backend out;
  ASSIGN_OR_RETURN(out.codegen, make_codegen_options(options));
  if (out.codegen.assemble) {
    out.compiler = std::make_unique<NoCompiler>(isa::x86::identity());
    return out;
  }
  ASSIGN_OR_RETURN(const render::Renderer renderer, make_renderer(options.target));
  ASSIGN_OR_RETURN(out.compiler, make_compiler(options, renderer.prelude));
  return out;
}

Result<std::vector<LoweredRow>> lower_and_compile(std::span<const KernelRequest> requests,
                                                  Backend& backend,
                                                  ProgramCache& cache,
                                                  const CompileOptions& options,
                                                  CompileStats& stats) {
  stats.kernels += requests.size();
  const int64_t start = now_ns();
  std::vector<Lowered> lowered(requests.size());
  std::vector<bool> is_known(requests.size(), false);
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto key =
        codegen::to_program_key(requests[i].ast, backend.options_for(requests[i].no_contract));
    if (auto known = cache.find(key)) {
      lowered[i] = std::move(*known);
      is_known[i] = true;
    } else {
      ++stats.lowered;
    }
  }
  // A search times kernels on a device: it runs on the caller's thread, with nothing beside it.
  const bool is_searched = std::any_of(requests.begin(), requests.end(), wants_search);
  Lowering(requests, backend, lowered).run(is_searched ? 0 : options.jobs, [&](size_t done) {
    if (options.progress) options.progress(CompileProgress{"lower", done, requests.size()});
  });
  std::vector<codegen::Program> programs;
  std::vector<LoweredRow> rows;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (!lowered[i]->ok()) return fail(std::move(*lowered[i]).error().with(requests[i].used_by));
    programs.push_back(std::move(**lowered[i]));
    cache.store(programs.back());
    rows.push_back(LoweredRow{row_of(programs.back(), requests[i], options.keep_sources),
                              programs.back().info.vars});
  }
  const int64_t lowered_at = now_ns();
  stats.lower_ns += lowered_at - start;
  if (backend.codegen.assemble) {
    RETURN_IF_ERROR(attach_assembled(rows, programs, is_known, options, stats));
  } else if (!options.lower_only) {
    RETURN_IF_ERROR(attach_images(rows, programs, backend, cache, options, stats));
  }
  stats.compile_ns += now_ns() - lowered_at;
  return rows;
}

}  // namespace modeld::exec
