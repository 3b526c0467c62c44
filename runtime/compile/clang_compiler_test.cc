#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <thread>

#include "hal/base/clock.h"
#include "hal/base/fs.h"
#include "hal/base/text.h"

#include "runtime/compile/compiler.h"
#include "runtime/compile/test_kernels.h"

namespace modeld::compile {
namespace {

Result<std::vector<CompiledImage>> compile_all(const hal::Target& target,
                                               std::span<const KernelSource> batch) {
  ASSIGN_OR_RETURN(const auto compiler, make_clang_compiler(target));
  return compiler->do_compile(batch);
}

TEST(ClangCompiler, ImageComputesWhatTheSourceSays) {
  const std::vector<KernelSource> batch = {scale_kernel("k", 2.5)};
  const auto images = compile_all(host_target(), batch);
  ASSERT_TRUE(images.ok()) << images.error().what;
  const RunnableImage run((*images)[0]);
  ASSERT_TRUE(run.is_mapped());
  alignas(64) std::array<float, 64> in{}, out{};
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i);
  const std::array<uint64_t, 2> words = {reinterpret_cast<uint64_t>(out.data()),
                                         reinterpret_cast<uint64_t>(in.data())};
  run.call(words);
  for (size_t i = 0; i < in.size(); ++i) {
    const float add = i % 4 == 3 ? 2.5f : static_cast<float>(i % 4 + 1);
    EXPECT_EQ(out[i], in[i] * 2.5f + add) << i;
  }
}

class BatchIndependence : public testing::TestWithParam<const char*> {};

TEST_P(BatchIndependence, ImageIsTheSameAloneAndInEveryBatch) {
  const hal::Target target = target_of(GetParam());
  std::vector<KernelSource> batch;
  for (int i = 0; i < 4; ++i) batch.push_back(scale_kernel(strf("k%d", i), 1.25 + i));
  // A helper and a table that every source repeats, as renderers do.
  const std::string helper =
      "#ifndef H\n#define H\nstatic inline __attribute__((always_inline)) float half(float x) { "
      "return x * 0.5f; }\n"
      "static const float lut[20] = {1, 2, 3, 5, 7, 11, 13, 17, 19, 23};\n#endif\n";
  for (int i = 0; i < 3; ++i)
    batch.push_back(KernelSource{
        strf("h%d", i), helper + strf("void h%d(const unsigned long long* w, unsigned core) {\n"
                                      "  float* out = (float*)w[0];\n"
                                      "  for (int i = 0; i < 20; ++i) out[i] = half(out[i]) + "
                                      "lut[i] * %d.5f + lut[core %% 20];\n}\n",
                                      i, i + 3)});
  // 64-byte constants have no merged section; mixed with small ones.
  for (int i = 0; i < 3; ++i)
    batch.push_back(KernelSource{
        strf("wide%d", i),
        strf("typedef float v16 __attribute__((vector_size(64)));\n"
             "typedef double v8 __attribute__((vector_size(64)));\n"
             "void wide%d(const unsigned long long* w, unsigned core) {\n"
             "  *(v16*)w[0] = *(v16*)w[0] * (v16){1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, "
             "%d};\n"
             "  *(v8*)w[1] += (v8){1, 2, 3, 4, 5, 6, 7, %d};\n  *(float*)w[2] *= %d.5f;\n}\n",
             i, i, i + 1, i + 2)});
  const auto together = compile_all(target, batch);
  ASSERT_TRUE(together.ok()) << together.error().what;
  for (size_t i = 0; i < batch.size(); ++i) {
    const auto alone = compile_all(target, std::span(batch).subspan(i, 1));
    ASSERT_TRUE(alone.ok()) << alone.error().what;
    EXPECT_TRUE((*alone)[0] == (*together)[i]) << batch[i].name;
  }
  std::vector<KernelSource> reversed(batch.rbegin(), batch.rend());
  const auto backwards = compile_all(target, reversed);
  ASSERT_TRUE(backwards.ok()) << backwards.error().what;
  for (size_t i = 0; i < batch.size(); ++i)
    EXPECT_TRUE((*backwards)[batch.size() - 1 - i] == (*together)[i]) << batch[i].name;
  EXPECT_FALSE((*together)[0] == (*together)[1]) << "different kernels, different images";
}
INSTANTIATE_TEST_SUITE_P(Targets,
                         BatchIndependence,
                         testing::Values("cpu", "cpu:x86-64-v3", "cpu:aarch64"));

TEST(ClangCompiler, KernelsOfOneNameShareABatch) {
  const std::vector<KernelSource> batch = {scale_kernel("same", 2), scale_kernel("same", 3)};
  const auto images = compile_all(host_target(), batch);
  ASSERT_TRUE(images.ok()) << images.error().what;
  EXPECT_FALSE((*images)[0] == (*images)[1]);
}

TEST(ClangCompiler, UndefinedSymbolIsRefusedByKernelAndSymbol) {
  const std::vector<KernelSource> batch = {scale_kernel("fine", 2),
                                           {"bad",
                                            "double sin(double);\nvoid bad(const unsigned long "
                                            "long* w, unsigned c) { *(double*)w[0] = sin(c); }\n"}};
  const auto images = compile_all(host_target(), batch);
  ASSERT_FALSE(images.ok());
  EXPECT_EQ(images.error().code, Errc::kCompile);
  EXPECT_NE(images.error().what.find("kernel bad"), std::string::npos) << images.error().what;
  EXPECT_NE(images.error().what.find("undefined symbol sin"), std::string::npos)
      << images.error().what;
}

TEST(ClangCompiler, WritableStaticIsRefused) {
  const std::vector<KernelSource> batch = {{"counter",
                                            "static int n;\nvoid counter(const unsigned long long* "
                                            "w, unsigned c) { *(int*)w[0] = n += (int)c; }\n"}};
  const auto images = compile_all(host_target(), batch);
  ASSERT_FALSE(images.ok());
  EXPECT_NE(images.error().what.find("kernel counter"), std::string::npos) << images.error().what;
}

TEST(ClangCompiler, SyntaxErrorNamesTheKernelOfTheBatch) {
  const std::vector<KernelSource> batch = {
      scale_kernel("a", 2),
      {"broken", "void broken(const unsigned long long* w, unsigned c) { oops; }\n"},
      scale_kernel("b", 3)};
  const auto images = compile_all(host_target(), batch);
  ASSERT_FALSE(images.ok());
  EXPECT_EQ(images.error().code, Errc::kCompile);
  EXPECT_EQ(images.error().what.rfind("kernel broken: clang-19: exit code 1", 0), 0u)
      << images.error().what;
}

TEST(ClangCompiler, NameThatIsNoIdentifierIsInvalid) {
  const std::vector<KernelSource> batch = {{"a b", ""}};
  const auto images = compile_all(host_target(), batch);
  ASSERT_FALSE(images.ok());
  EXPECT_EQ(images.error().code, Errc::kInvalid);
}

TEST(ClangCompiler, NoContractKeepsProductAndSumApart) {
  const std::string body =
      "void f(const unsigned long long* w, unsigned c) {\n  float* p = (float*)w[0];\n  p[3] = "
      "p[0] * p[1] + p[2];\n}\n";
  const hal::Target target = host_target();
  if (!target.has_feature("fma")) GTEST_SKIP() << "this CPU has no fused multiply-add";
  // 1 + 2^-12 squared needs 25 bits: the rounded product loses the last one.
  const float a = 1.0f + std::ldexp(1.0f, -12);
  std::array<float, 2> results{};
  for (const bool no_contract : {false, true}) {
    const std::vector<KernelSource> batch = {{"f", body, no_contract}};
    const auto images = compile_all(target, batch);
    ASSERT_TRUE(images.ok()) << images.error().what;
    const RunnableImage run((*images)[0]);
    ASSERT_TRUE(run.is_mapped());
    std::array<float, 4> p = {a, a, -1.0f, 0};
    const std::array<uint64_t, 1> words = {reinterpret_cast<uint64_t>(p.data())};
    run.call(words);
    results[no_contract] = p[3];
  }
  const volatile float product = a * a;
  EXPECT_EQ(results[1], product - 1.0f);
  EXPECT_EQ(results[0], std::fma(a, a, -1.0f));
  EXPECT_NE(results[0], results[1]);
}

TEST(ClangCompiler, MissingProgramIsNotFound) {
  ClangOptions options;
  options.program = "no-such-clang";
  const auto compiler = make_clang_compiler(host_target(), options);
  ASSERT_FALSE(compiler.ok());
  EXPECT_EQ(compiler.error().code, Errc::kNotFound);
  EXPECT_NE(compiler.error().what.find("no-such-clang"), std::string::npos);
}

TEST(ClangCompiler, GpuTargetIsUnsupported) {
  hal::Target target;
  target.kind = "qcom";
  target.arch = "a630";
  const auto compiler = make_clang_compiler(target);
  ASSERT_FALSE(compiler.ok());
  EXPECT_EQ(compiler.error().code, Errc::kUnsupported);
}

// A compiler that answers --version and then does what `body` says.
std::string fake_compiler(const TempDir& dir, const std::string& body) {
  const std::string path = join_path(dir.path(), "fake-clang");
  const Status s = write_text_atomic(
      path,
      "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'clang version 0.0 fake'; exit 0; fi\n" +
          body,
      0755);
  EXPECT_TRUE(s.ok());
  return path;
}

// An orphan is a zombie at most until init reaps it; SIGKILL takes a moment.
bool ends_soon(int64_t pid) {
  const std::string path = strf("/proc/%d/stat", static_cast<int>(pid));
  const Deadline limit = Deadline::in_ms(30'000);
  while (!limit.has_passed()) {
    const auto stat = read_text(path);
    if (!stat.ok() || stat->find(") Z ") != std::string::npos) return true;
    std::this_thread::yield();
  }
  return false;
}

TEST(ClangCompiler, HungCompilerIsKilledWithItsChildrenAtTheLimit) {
  auto dir = TempDir::create();
  ASSERT_TRUE(dir.ok());
  const std::string pid_file = join_path(dir->path(), "pid");
  ClangOptions options;
  options.program = fake_compiler(*dir, "sleep 600 &\necho $! > " + pid_file + ".new\nmv " +
                                            pid_file + ".new " + pid_file + "\nwait\n");
  const std::vector<KernelSource> batch = {scale_kernel("slow", 2)};
  // A busy machine may need more time until the compiler has a child.
  for (options.timeout_ms = 200; !file_exists(pid_file) && options.timeout_ms < 60'000;
       options.timeout_ms *= 2) {
    const auto compiler = make_clang_compiler(host_target(), options);
    if (!compiler.ok() && compiler.error().code == Errc::kTimeout) continue;  // not even a version
    ASSERT_TRUE(compiler.ok()) << compiler.error().what;
    const int64_t start = now_ns();
    const auto images = (*compiler)->do_compile(batch);
    EXPECT_LT(now_ns() - start, 300 * kNsPerSecond);
    ASSERT_FALSE(images.ok());
    EXPECT_EQ(images.error().code, Errc::kTimeout);
    EXPECT_NE(images.error().what.find("slow"), std::string::npos) << images.error().what;
  }
  const auto text = read_text(pid_file);
  ASSERT_TRUE(text.ok());
  const auto pid = parse_int(trim(*text));
  ASSERT_TRUE(pid.ok());
  EXPECT_TRUE(ends_soon(*pid));
}

TEST(ClangCompiler, CompilerDiesWithItsKilledParent) {
  auto dir = TempDir::create();
  ASSERT_TRUE(dir.ok());
  const std::string pid_file = join_path(dir->path(), "pid");
  ClangOptions options;
  options.program = fake_compiler(*dir, "echo $$ > " + pid_file + ".new\nmv " + pid_file + ".new " +
                                            pid_file + "\nexec sleep 600\n");
  const pid_t parent = fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    const auto compiler = make_clang_compiler(host_target(), options);
    const std::vector<KernelSource> batch = {scale_kernel("slow", 2)};
    if (compiler.ok()) (void)(*compiler)->do_compile(batch);
    _exit(1);
  }
  const Deadline limit = Deadline::in_ms(60'000);
  while (!file_exists(pid_file) && !limit.has_passed()) std::this_thread::yield();
  const auto text = read_text(pid_file);
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  ASSERT_TRUE(text.ok());
  const auto pid = parse_int(trim(*text));
  ASSERT_TRUE(pid.ok());
  EXPECT_TRUE(ends_soon(*pid));
}

TEST(ClangCompiler, CrashedCompilerNamesTheKernelThatKillsIt) {
  auto dir = TempDir::create();
  ASSERT_TRUE(dir.ok());
  // Dies on the one source that says POISON, compiles the others.
  ClangOptions options;
  options.program = fake_compiler(*dir,
                                  "T=$(cat)\ncase \"$T\" in *POISON*) kill -SEGV $$;; esac\nprintf "
                                  "'%s' \"$T\" | exec clang-19 \"$@\"\n");
  const auto compiler = make_clang_compiler(host_target(), options);
  ASSERT_TRUE(compiler.ok()) << compiler.error().what;
  std::vector<KernelSource> batch = {scale_kernel("a", 2), scale_kernel("b", 3),
                                     scale_kernel("c", 4)};
  batch[1].source += "// POISON\n";
  const auto images = (*compiler)->do_compile(batch);
  ASSERT_FALSE(images.ok());
  EXPECT_EQ(images.error().code, Errc::kCompile);
  EXPECT_EQ(images.error().what.rfind("kernel b: ", 0), 0u) << images.error().what;
  EXPECT_NE(images.error().what.find("signal 11"), std::string::npos) << images.error().what;
}

TEST(ClangCompiler, GarbageInsteadOfAnObjectIsACompileError) {
  auto dir = TempDir::create();
  ASSERT_TRUE(dir.ok());
  ClangOptions options;
  options.program = fake_compiler(*dir, "cat > /dev/null\necho not an object\n");
  const auto compiler = make_clang_compiler(host_target(), options);
  ASSERT_TRUE(compiler.ok());
  const std::vector<KernelSource> batch = {scale_kernel("k", 2)};
  const auto images = (*compiler)->do_compile(batch);
  ASSERT_FALSE(images.ok());
  EXPECT_EQ(images.error().code, Errc::kCompile);
}

TEST(ClangCompiler, PreludeStandsBeforeEveryBatchAndIsPartOfTheIdentity) {
  ClangOptions options;
  options.prelude = "typedef float real;\n";
  const auto compiler = make_clang_compiler(host_target(), options);
  ASSERT_TRUE(compiler.ok());
  const std::vector<KernelSource> batch = {
      {"k", "void k(const unsigned long long* w, unsigned c) { *(real*)w[0] = (real)c; }\n"}};
  EXPECT_TRUE((*compiler)->do_compile(batch).ok());
  const auto plain = make_clang_compiler(host_target());
  ASSERT_TRUE(plain.ok());
  EXPECT_NE((*plain)->identity(), (*compiler)->identity());
  EXPECT_FALSE((*plain)->do_compile(batch).ok());
}

TEST(ClangFlags, NameFeaturesAndNeverFastMath) {
  const auto v3 = clang_flags(target_of("cpu:x86-64-v3"), false, 1);
  const auto has = [](const std::vector<std::string>& flags, const std::string& f) {
    return std::find(flags.begin(), flags.end(), f) != flags.end();
  };
  EXPECT_TRUE(has(v3, "-mavx2"));
  EXPECT_TRUE(has(v3, "-ffp-contract=fast"));
  EXPECT_TRUE(has(clang_flags(target_of("cpu:x86-64-v3"), true, 1), "-ffp-contract=off"));
  EXPECT_TRUE(has(clang_flags(target_of("cpu:aarch64"), false, 1), "-ffixed-x18"));
  EXPECT_FALSE(has(v3, "-ffast-math"));
}

}  // namespace
}  // namespace modeld::compile
