#include "runtime/compile/compile_cached.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "hal/base/env.h"

namespace modeld::compile {

namespace {

struct Missing {
  Hash256 key;
  size_t index;  // into the caller's kernels
};

// Runs units on `threads` threads; reports finished kernels on the calling thread.
class UnitRunner {
 public:
  UnitRunner(Compiler& compiler,
             std::span<const KernelSource> kernels,
             const std::vector<std::vector<size_t>>& units)
      : compiler_(compiler), kernels_(kernels), units_(units), results_(units.size()) {}

  using Images = Result<std::vector<CompiledImage>>;
  std::vector<std::optional<Images>> run(int threads,
                                         const std::function<void(size_t, size_t)>& progress);

 private:
  void work();
  Images compile_unit(size_t unit);

  Compiler& compiler_;
  std::span<const KernelSource> kernels_;
  const std::vector<std::vector<size_t>>& units_;
  std::vector<std::optional<Images>> results_;  // one writer per element
  std::atomic<size_t> next_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;  // guards the two below
  std::condition_variable changed_;
  size_t kernels_done_ = 0, workers_left_ = 0;
};

std::vector<std::optional<UnitRunner::Images>> UnitRunner::run(
    int threads, const std::function<void(size_t, size_t)>& progress) {
  const size_t count =
      std::clamp<size_t>(static_cast<size_t>(std::max(threads, 1)), 1, units_.size());
  workers_left_ = count;
  std::vector<std::thread> workers;
  for (size_t i = 0; i < count; ++i) workers.emplace_back([this] { work(); });
  size_t seen = 0;
  std::unique_lock lock(mutex_);
  while (workers_left_ > 0 || kernels_done_ != seen) {
    changed_.wait(lock, [&] { return workers_left_ == 0 || kernels_done_ != seen; });
    if (kernels_done_ == seen) continue;
    seen = kernels_done_;
    lock.unlock();
    if (progress) progress(seen, kernels_.size());
    lock.lock();
  }
  lock.unlock();
  for (std::thread& t : workers) t.join();
  return std::move(results_);
}

void UnitRunner::work() {
  // Units are taken in order, so every unit before a failed one has run when all workers are done.
  while (!failed_.load(std::memory_order_relaxed)) {
    const size_t unit = next_.fetch_add(1);
    if (unit >= units_.size()) break;
    results_[unit] = compile_unit(unit);
    if (!results_[unit]->ok()) failed_ = true;
    const std::lock_guard lock(mutex_);
    kernels_done_ += units_[unit].size();
    changed_.notify_one();
  }
  const std::lock_guard lock(mutex_);
  --workers_left_;
  changed_.notify_one();
}

UnitRunner::Images UnitRunner::compile_unit(size_t unit) {
  std::vector<KernelSource> batch;
  for (const size_t i : units_[unit]) batch.push_back(kernels_[i]);
  auto images = compiler_.do_compile(batch);
  if (images.ok() && images->size() != batch.size())
    return fail(Errc::kInternal,
                strf("compiler made %zu images for %zu kernels", images->size(), batch.size()));
  return images;
}

}  // namespace

std::vector<std::vector<size_t>> split_units(std::span<const KernelSource> kernels, size_t units) {
  std::vector<std::vector<size_t>> out;
  for (const bool no_contract : {false, true}) {
    uint64_t total = 0;
    for (const KernelSource& k : kernels)
      if (k.no_contract == no_contract) total += k.source.size() + 1;
    if (total == 0) continue;
    std::vector<std::vector<size_t>> parts(std::max<size_t>(units, 1));
    uint64_t before = 0;
    for (size_t i = 0; i < kernels.size(); ++i) {
      if (kernels[i].no_contract != no_contract) continue;
      parts[static_cast<size_t>(before * parts.size() / total)].push_back(i);
      before += kernels[i].source.size() + 1;
    }
    for (std::vector<size_t>& part : parts)
      if (!part.empty()) out.push_back(std::move(part));
  }
  return out;
}

Result<std::vector<CachedImage>> compile_cached(Compiler& compiler,
                                                KernelCache& cache,
                                                std::span<const KernelSource> kernels,
                                                const CompileCachedOptions& options) {
  std::vector<CachedImage> out(kernels.size());
  std::vector<Missing> missing;
  for (size_t i = 0; i < kernels.size(); ++i) {
    const Hash256 key = KernelCache::key_of(compiler, kernels[i]);
    if (auto hit = cache.find(key))
      out[i] = CachedImage{std::move(hit->image), hit->origin};
    else
      missing.push_back(Missing{key, i});
  }
  if (missing.empty()) return out;
  std::stable_sort(missing.begin(), missing.end(),
                   [](const Missing& a, const Missing& b) { return a.key < b.key; });
  if (options.assert_no_compile || env_flag("MODELD_ASSERT_COMPILE"))
    return fail(Errc::kCompile,
                strf("kernel %s needs the compiler (%zu of %zu kernels are in no cache), which "
                     "MODELD_ASSERT_COMPILE forbids",
                     kernels[missing[0].index].name.c_str(), missing.size(), kernels.size()));

  std::vector<KernelSource> sources;
  for (const Missing& m : missing) sources.push_back(kernels[m.index]);
  const auto units = split_units(sources, static_cast<size_t>(std::max(options.jobs, 1)) + 1);
  auto results = UnitRunner(compiler, sources, units).run(options.jobs, options.progress);
  for (size_t u = 0; u < units.size(); ++u) {
    if (!results[u]) continue;  // not begun after a failure
    if (!results[u]->ok()) return fail(std::move(*results[u]).error());
    for (size_t i = 0; i < units[u].size(); ++i) {
      const Missing& m = missing[units[u][i]];
      out[m.index] = CachedImage{std::move((**results[u])[i]), Origin::kCold};
      cache.store(m.key, out[m.index].image);
    }
  }
  return out;
}

}  // namespace modeld::compile
