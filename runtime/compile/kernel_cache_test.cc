#include "runtime/compile/kernel_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <atomic>
#include <thread>

#include "hal/base/fs.h"

#include "runtime/compile/entry_file.h"

namespace modeld::compile {
namespace {

CompiledImage image_of(uint8_t fill, size_t size = 1000) {
  CompiledImage image;
  image.code.assign(size, std::byte{fill});
  image.entry_offset = fill;
  return image;
}

// Every file below `dir`, so that tests can say "nothing is left".
size_t count_files(const std::string& dir) {
  size_t n = 0;
  const auto names = list_dir(dir);
  if (!names.ok()) return 0;
  for (const std::string& name : *names) {
    const std::string path = join_path(dir, name);
    n += list_dir(path).ok() ? count_files(path) : 1;
  }
  return n;
}

class FakeCompiler final : public Compiler {
 public:
  explicit FakeCompiler(std::string identity) : identity_(std::move(identity)) {}
  const std::string& identity() const override { return identity_; }
  Result<std::vector<CompiledImage>> do_compile(std::span<const KernelSource>) override {
    return fail(Errc::kCompile, "not here");
  }

 private:
  std::string identity_;
};

TEST(KernelCache, KeyDependsOnSourceNameIdentityAndContraction) {
  const FakeCompiler a("clang 19 -mavx"), b("clang 19 -mavx2");
  const KernelSource k{"k", "void k();"};
  const Hash256 key = KernelCache::key_of(a, k);
  EXPECT_EQ(key, KernelCache::key_of(a, k));
  EXPECT_NE(key, KernelCache::key_of(b, k));
  EXPECT_NE(key, KernelCache::key_of(a, KernelSource{"k", "void k(); "}));
  EXPECT_NE(key, KernelCache::key_of(a, KernelSource{"l", "void k();"}));
  EXPECT_NE(key, KernelCache::key_of(a, KernelSource{"k", "void k();", true}));
}

TEST(KernelCache, MissThenMemoryThenDiskInAFreshProcess) {
  auto dir = TempDir::create();
  ASSERT_TRUE(dir.ok());
  const Hash256 key = blake2b("k");
  KernelCache first(dir->path());
  EXPECT_FALSE(first.find(key).has_value());
  first.store(key, image_of(1));
  auto hit = first.find(key);
  ASSERT_TRUE(hit.has_value());
  EXPECT_EQ(hit->origin, Origin::kMemory);
  KernelCache second(dir->path());
  hit = second.find(key);
  ASSERT_TRUE(hit.has_value());
  EXPECT_EQ(hit->origin, Origin::kDisk);
  EXPECT_TRUE(hit->image == image_of(1));
  EXPECT_EQ(second.find(key)->origin, Origin::kMemory);
}

TEST(KernelCache, WithoutDirectoryKeepsImagesInMemoryOnly) {
  KernelCache cache;
  const Hash256 key = blake2b("k");
  cache.store(key, image_of(1));
  EXPECT_EQ(cache.find(key)->origin, Origin::kMemory);
  EXPECT_FALSE(KernelCache().find(key).has_value());
}

TEST(EntryFile, EveryFlippedByteAndEveryCutIsAMiss) {
  const Hash256 key = blake2b("k");
  const std::vector<std::byte> payload = encode_image(image_of(1, 40));
  const std::vector<std::byte> good = seal_entry(7, key, payload);
  ASSERT_TRUE(open_entry(7, key, good).ok());
  EXPECT_TRUE(*open_entry(7, key, good) == payload);
  for (size_t i = 0; i < good.size(); ++i) {
    std::vector<std::byte> bad = good;
    bad[i] ^= std::byte{0x10};
    EXPECT_FALSE(open_entry(7, key, bad).ok()) << i;
    EXPECT_FALSE(open_entry(7, key, std::span(good).first(i)).ok()) << i;
  }
  EXPECT_FALSE(open_entry(7, blake2b("other"), good).ok());
  EXPECT_FALSE(open_entry(8, key, good).ok());
}

TEST(KernelCache, ImpossibleImagesAreRefused) {
  const CompiledImage good = image_of(1, 40);
  ASSERT_TRUE(decode_image(encode_image(good)).ok());
  EXPECT_TRUE(*decode_image(encode_image(good)) == good);
  CompiledImage entry = good, align = good;
  entry.entry_offset = 40;
  align.alignment = 48;
  EXPECT_FALSE(decode_image(encode_image(entry)).ok());
  EXPECT_FALSE(decode_image(encode_image(align)).ok());
  std::vector<std::byte> longer = encode_image(good);
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decode_image(longer).ok());
  EXPECT_FALSE(decode_image(std::span(longer).first(10)).ok());
}

TEST(KernelCache, CorruptEntryIsAMissAndGetsReplaced) {
  auto dir = TempDir::create();
  ASSERT_TRUE(dir.ok());
  const Hash256 key = blake2b("k");
  KernelCache(dir->path()).store(key, image_of(1));
  const std::string path = KernelCache(dir->path()).entry_path(key);
  ASSERT_TRUE(write_text_atomic(path, "rubbish").ok());
  EXPECT_FALSE(KernelCache(dir->path()).find(key).has_value());
  KernelCache(dir->path()).store(key, image_of(1));
  const auto hit = KernelCache(dir->path()).find(key);
  ASSERT_TRUE(hit.has_value());
  EXPECT_TRUE(hit->image == image_of(1));
}

TEST(KernelCache, ConcurrentWritersNeverShowAWrongOrHalfEntry) {
  auto dir = TempDir::create();
  ASSERT_TRUE(dir.ok());
  std::atomic<int> wrong{0}, hits{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int round = 0; round < 30; ++round)
        for (uint8_t k = 0; k < 4; ++k) {
          KernelCache cache(dir->path());  // as another process: nothing in memory
          const Hash256 key = blake2b(std::string(1, static_cast<char>('a' + k)));
          if (const auto hit = cache.find(key)) {
            ++hits;
            if (!(hit->image == image_of(k, 20'000))) ++wrong;
          }
          cache.store(key, image_of(k, 20'000));
        }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(hits, 0);
  EXPECT_EQ(count_files(dir->path()), 4u) << "temporary files are left";
}

TEST(KernelCache, FullDiskMeansNoEntryAndNoLeftovers) {
  auto dir = TempDir::create();
  ASSERT_TRUE(dir.ok());
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  rlimit small = old;
  small.rlim_cur = 100;  // every longer write fails, as on a full disk
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const Hash256 key = blake2b("k");
  KernelCache cache(dir->path());
  cache.store(key, image_of(1));
  setrlimit(RLIMIT_FSIZE, &old);
  signal(SIGXFSZ, handler);
  EXPECT_EQ(count_files(dir->path()), 0u);
  EXPECT_FALSE(KernelCache(dir->path()).find(key).has_value());
  EXPECT_TRUE(cache.find(key).has_value()) << "memory still holds it";
}

TEST(KernelCache, UnusableDirectoryIsNoError) {
  auto dir = TempDir::create();
  ASSERT_TRUE(dir.ok());
  const std::string file = join_path(dir->path(), "file");
  ASSERT_TRUE(write_text_atomic(file, "x").ok());
  KernelCache cache(file);
  cache.store(blake2b("k"), image_of(1));
  EXPECT_EQ(cache.find(blake2b("k"))->origin, Origin::kMemory);
  EXPECT_FALSE(KernelCache(file).find(blake2b("k")).has_value());
}

}  // namespace
}  // namespace modeld::compile
