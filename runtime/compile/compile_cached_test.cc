#include "runtime/compile/compile_cached.h"

#include <gtest/gtest.h>

#include <atomic>

#include "hal/base/fs.h"

#include "runtime/compile/test_kernels.h"

namespace modeld::compile {
namespace {

// Makes an "image" of the source's text; counts batches and refuses sources that say REFUSE.
class EchoCompiler final : public Compiler {
 public:
  explicit EchoCompiler(std::string identity = "echo 1") : identity_(std::move(identity)) {}
  const std::string& identity() const override { return identity_; }
  Result<std::vector<CompiledImage>> do_compile(std::span<const KernelSource> batch) override {
    ++batches;
    std::vector<CompiledImage> out;
    for (const KernelSource& k : batch) {
      if (k.no_contract != batch[0].no_contract) return fail(Errc::kInternal, "mixed batch");
      if (k.source.find("REFUSE") != std::string::npos)
        return fail(Errc::kCompile, "kernel " + k.name + ": refused");
      const auto text = bytes_of(k.source);
      out.push_back(CompiledImage{{text.begin(), text.end()}, 0, 64});
    }
    return out;
  }
  std::atomic<int> batches{0};

 private:
  static std::span<const std::byte> bytes_of(const std::string& s) {
    return std::as_bytes(std::span(s.data(), s.size()));
  }
  std::string identity_;
};

std::vector<KernelSource> some_kernels(int n) {
  std::vector<KernelSource> out;
  for (int i = 0; i < n; ++i)
    out.push_back(KernelSource{strf("k%d", i), strf("source %d", i), i % 5 == 4});
  return out;
}

struct Counts {
  int cold = 0, memory = 0, disk = 0;
  bool operator==(const Counts&) const = default;
};
Counts counts_of(const std::vector<CachedImage>& images) {
  Counts c;
  for (const CachedImage& i : images)
    ++(i.origin == Origin::kCold ? c.cold : i.origin == Origin::kMemory ? c.memory : c.disk);
  return c;
}

TEST(CompileCached, ColdMemoryDiskAndConfigSwitchAreToldApart) {
  auto dir = TempDir::create();
  ASSERT_TRUE(dir.ok());
  const auto kernels = some_kernels(10);
  EchoCompiler first("echo 1"), second("echo 1 -other");
  KernelCache cache(dir->path());
  const auto run = [&](Compiler& c, KernelCache& k) {
    const auto r = compile_cached(c, k, kernels);
    EXPECT_TRUE(r.ok());
    return r.ok() ? counts_of(*r) : Counts{};
  };
  EXPECT_EQ(run(first, cache), (Counts{10, 0, 0}));
  EXPECT_EQ(run(first, cache), (Counts{0, 10, 0}));
  KernelCache fresh(dir->path());
  EXPECT_EQ(run(first, fresh), (Counts{0, 0, 10}));
  EXPECT_EQ(run(second, fresh), (Counts{10, 0, 0})) << "a config switch must miss";
  EXPECT_EQ(run(first, fresh), (Counts{0, 10, 0})) << "switching back must hit";
  EXPECT_LE(second.batches, 6) << "jobs + 1 units per contraction setting";
}

TEST(CompileCached, OnlyWhatIsMissingIsCompiled) {
  EchoCompiler compiler;
  KernelCache cache;
  auto kernels = some_kernels(6);
  ASSERT_TRUE(compile_cached(compiler, cache, std::span(kernels).first(4)).ok());
  const auto r = compile_cached(compiler, cache, kernels);
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(counts_of(*r), (Counts{2, 4, 0}));
  for (size_t i = 0; i < kernels.size(); ++i) {
    const std::string text(reinterpret_cast<const char*>((*r)[i].image.code.data()),
                           (*r)[i].image.code.size());
    EXPECT_EQ(text, kernels[i].source);
  }
}

TEST(CompileCached, AssertCompileForbidsOnlyTheCompiler) {
  EchoCompiler compiler;
  KernelCache cache;
  const auto kernels = some_kernels(3);
  CompileCachedOptions options;
  options.assert_no_compile = true;
  const auto refused = compile_cached(compiler, cache, kernels, options);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Errc::kCompile);
  EXPECT_NE(refused.error().what.find("MODELD_ASSERT_COMPILE"), std::string::npos);
  EXPECT_NE(refused.error().what.find("kernel k"), std::string::npos);
  EXPECT_EQ(compiler.batches, 0);
  ASSERT_TRUE(compile_cached(compiler, cache, kernels).ok());
  EXPECT_TRUE(compile_cached(compiler, cache, kernels, options).ok()) << "hits need no compiler";
}

TEST(CompileCached, JobsDoNotChangeImages) {
  const auto kernels = some_kernels(23);
  std::vector<std::vector<CachedImage>> results;
  for (const int jobs : {0, 1, 2, 7}) {
    EchoCompiler compiler;
    KernelCache cache;
    CompileCachedOptions options;
    options.jobs = jobs;
    auto r = compile_cached(compiler, cache, kernels, options);
    ASSERT_TRUE(r.ok());
    results.push_back(std::move(*r));
  }
  for (size_t i = 1; i < results.size(); ++i)
    for (size_t k = 0; k < kernels.size(); ++k)
      EXPECT_TRUE(results[i][k].image == results[0][k].image);
}

TEST(CompileCached, RealImagesDoNotDependOnJobs) {
  std::vector<KernelSource> kernels;
  for (int i = 0; i < 7; ++i) kernels.push_back(scale_kernel(strf("k%d", i), i + 0.5));
  kernels[3].no_contract = true;
  std::vector<std::vector<CachedImage>> results;
  for (const int jobs : {1, 2}) {
    auto compiler = make_clang_compiler(host_target());
    ASSERT_TRUE(compiler.ok());
    KernelCache cache;
    CompileCachedOptions options;
    options.jobs = jobs;
    auto r = compile_cached(**compiler, cache, kernels, options);
    ASSERT_TRUE(r.ok()) << r.error().what;
    results.push_back(std::move(*r));
  }
  for (size_t k = 0; k < kernels.size(); ++k)
    EXPECT_TRUE(results[0][k].image == results[1][k].image) << k;
}

TEST(CompileCached, FailureNamesTheKernelAndCachesNothingOfItsUnit) {
  EchoCompiler compiler;
  KernelCache cache;
  auto kernels = some_kernels(8);
  kernels[5].source += " REFUSE";
  const auto r = compile_cached(compiler, cache, kernels);
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().what, "kernel k5: refused");
  EXPECT_FALSE(cache.find(KernelCache::key_of(compiler, kernels[5])).has_value());
}

TEST(CompileCached, ProgressEndsAtTheTotal) {
  EchoCompiler compiler;
  KernelCache cache;
  size_t last = 0, total = 0;
  CompileCachedOptions options;
  options.progress = [&](size_t done, size_t all) {
    EXPECT_GT(done, last);
    last = done;
    total = all;
  };
  ASSERT_TRUE(compile_cached(compiler, cache, some_kernels(9), options).ok());
  EXPECT_EQ(last, 9u);
  EXPECT_EQ(total, 9u);
}

TEST(SplitUnits, CoversEveryKernelOnceInOrderAndSeparatesContraction) {
  const auto kernels = some_kernels(20);
  const auto units = split_units(kernels, 3);
  EXPECT_LE(units.size(), 6u);
  std::vector<int> seen(kernels.size());
  for (const auto& unit : units) {
    for (size_t i = 0; i < unit.size(); ++i) {
      ++seen[unit[i]];
      EXPECT_EQ(kernels[unit[i]].no_contract, kernels[unit[0]].no_contract);
      if (i > 0) {
        EXPECT_LT(unit[i - 1], unit[i]);
      }
    }
  }
  EXPECT_EQ(seen, std::vector<int>(kernels.size(), 1));
}

}  // namespace
}  // namespace modeld::compile
