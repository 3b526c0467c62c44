#include "hal/base/mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "hal/base/bytes.h"
#include "hal/base/fs.h"

namespace modeld {
namespace {

TEST(Mapping, WritersAndReadersOfAMemfdShareBytes) {
  const UniqueFd fd = *create_memfd("t", 8192);
  const Mapping rw = *Mapping::map_fd(fd.get(), 0, 8192, MapMode::kReadWrite);
  const Mapping ro = *Mapping::map_fd(fd.get(), 4096, 4096, MapMode::kRead);
  rw.writable()[4097] = std::byte{9};
  EXPECT_EQ(ro.bytes()[1], std::byte{9});
}

TEST(Mapping, PopulatingFillsNoHoles) {
  constexpr uint64_t kPages = 64;
  auto fd = create_memfd("holes", kPages * kPageBytes);
  ASSERT_TRUE(fd.ok());
  const char byte = 'x';
  ASSERT_EQ(pwrite(fd->get(), &byte, 1, 10 * kPageBytes), 1);
  auto m = Mapping::map_fd(fd->get(), 0, kPages * kPageBytes, MapMode::kRead);
  ASSERT_TRUE(m.ok());
  m->populate_resident();
  struct stat st {};
  ASSERT_EQ(fstat(fd->get(), &st), 0);
  EXPECT_LE(st.st_blocks, static_cast<blkcnt_t>(kPageBytes / 512));
  EXPECT_EQ(m->bytes()[10 * kPageBytes], std::byte{'x'});
}

TEST(Mapping, RangesOutsideTheFileAreCorrupt) {
  const UniqueFd fd = *create_memfd("t", 4096);
  EXPECT_EQ(Mapping::map_fd(fd.get(), 0, 4097, MapMode::kRead).error().code, Errc::kCorrupt);
  EXPECT_EQ(Mapping::map_fd(fd.get(), 4096, 1, MapMode::kRead).error().code, Errc::kCorrupt);
  EXPECT_EQ(Mapping::map_fd(fd.get(), UINT64_MAX - 4095, 4096, MapMode::kRead).error().code,
            Errc::kCorrupt);
  EXPECT_EQ(Mapping::map_fd(fd.get(), 1, 1, MapMode::kRead).error().code, Errc::kInvalid);
  EXPECT_EQ(Mapping::map_fd(fd.get(), 0, 0, MapMode::kRead).error().code, Errc::kInvalid);
  EXPECT_EQ(Mapping::map_fd(-1, 0, 1, MapMode::kRead).error().code, Errc::kIo);
}

TEST(Mapping, FilesAreMappedWhole) {
  const TempDir dir = *TempDir::create();
  const std::string path = dir.path() + "/f";
  ASSERT_TRUE(write_text_atomic(path, "hello").ok());
  EXPECT_EQ(Mapping::map_file(path)->size(), 5U);
  EXPECT_EQ(Mapping::map_file(path + "x").error().code, Errc::kNotFound);
  ASSERT_TRUE(write_text_atomic(path, "").ok());
  EXPECT_EQ(Mapping::map_file(path).error().code, Errc::kInvalid);
  EXPECT_EQ(Mapping::map_file(dir.path()).error().code, Errc::kInvalid);
}

TEST(Memfd, SizeSealsAreChecked) {
  const UniqueFd fd = *create_memfd("t", 4096);
  EXPECT_FALSE(check_size_seals(fd.get(), 1).ok());
  ASSERT_TRUE(seal_size(fd.get()).ok());
  EXPECT_TRUE(check_size_seals(fd.get(), 4096).ok());
  EXPECT_FALSE(check_size_seals(fd.get(), 4097).ok());
  EXPECT_NE(ftruncate(fd.get(), 100), 0);
  EXPECT_TRUE(Mapping::map_fd(fd.get(), 0, 4096, MapMode::kReadWrite).ok());
  const UniqueFd file(open("/dev/null", O_RDONLY));
  EXPECT_FALSE(check_size_seals(file.get(), 0).ok());
}

TEST(Memfd, SealedBytesCannotBeChanged) {
  const UniqueFd fd = *sealed_memfd("t", bytes_of("code"));
  EXPECT_LT(pwrite(fd.get(), "x", 1, 0), 0);
  EXPECT_FALSE(Mapping::map_fd(fd.get(), 0, 4, MapMode::kReadWrite).ok());
  const Mapping m = *Mapping::map_fd(fd.get(), 0, 4, MapMode::kReadExec);
  EXPECT_EQ(std::memcmp(m.data(), "code", 4), 0);
}

}  // namespace
}  // namespace modeld
