// compile_cached: many kernels through cache and compiler, in batches of one child process each.
// Contract: what no cache holds is sorted by key and split into jobs + 1 units of about equal
// source size (kernels without contraction form units of their own); the images do not depend on
// jobs. The first failure by key order is the one reported; every child has ended when the call
// returns. Threading: the caller's thread plus at most `jobs` more; progress runs on the caller's
// thread.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "hal/base/status.h"

#include "runtime/compile/compiler.h"
#include "runtime/compile/kernel_cache.h"

namespace modeld::compile {

struct CompileCachedOptions {
  int jobs = 2;                    // child processes at a time; below 1 counts as 1
  bool assert_no_compile = false;  // a kernel in no cache is kCompile naming it
  std::function<void(size_t done, size_t total)> progress;  // kernels that needed the compiler
};

struct CachedImage {
  CompiledImage image;
  Origin origin = Origin::kCold;
};

// One image per kernel, in the order given.
Result<std::vector<CachedImage>> compile_cached(Compiler& compiler,
                                                KernelCache& cache,
                                                std::span<const KernelSource> kernels,
                                                const CompileCachedOptions& options = {});

// The split: indices into `kernels` (already in key order), at most `units` non-empty parts per
// contraction setting.
std::vector<std::vector<size_t>> split_units(std::span<const KernelSource> kernels, size_t units);

}  // namespace modeld::compile
