#include "hal/base/fs.h"

#include <sys/stat.h>

#include "hal/base/bytes.h"

namespace modeld {
namespace {

TEST(Fs, AtomicWriteReplacesAndLeavesNothingElse) {
  const TempDir dir = *TempDir::create();
  const std::string path = dir.path() + "/out";
  ASSERT_TRUE(write_text_atomic(path, "one").ok());
  ASSERT_TRUE(write_text_atomic(path, "two", 0600).ok());
  EXPECT_EQ(*read_text(path), "two");
  EXPECT_THAT(*list_dir(dir.path()), testing::ElementsAre("out"));
  struct stat st {};
  ASSERT_EQ(stat(path.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777U, 0600U);
}

TEST(Fs, AReaderOfTheOldFileKeepsIt) {
  const TempDir dir = *TempDir::create();
  const std::string path = dir.path() + "/out";
  ASSERT_TRUE(write_text_atomic(path, "old").ok());
  struct stat before {
  }, after{};
  ASSERT_EQ(stat(path.c_str(), &before), 0);
  ASSERT_TRUE(write_text_atomic(path, "new").ok());
  ASSERT_EQ(stat(path.c_str(), &after), 0);
  EXPECT_NE(before.st_ino, after.st_ino);
}

TEST(Fs, AnUncommittedFileNeverGetsItsName) {
  const TempDir dir = *TempDir::create();
  const std::string path = dir.path() + "/out";
  ASSERT_TRUE(write_text_atomic(path, "old").ok());
  {
    AtomicFile file = std::move(*AtomicFile::create(path));
    ASSERT_TRUE(file.write(bytes_of("half")).ok());
    EXPECT_THAT(*list_dir(dir.path()), testing::ElementsAre("out"))
        << "a program that is killed here leaves a file behind";
    // Whoever checks the content before it gets its name opens it by temp_path().
    EXPECT_TRUE(file_exists(file.temp_path()));
    EXPECT_EQ(*read_text(file.temp_path()), "half");
  }
  EXPECT_EQ(*read_text(path), "old");
  EXPECT_THAT(*list_dir(dir.path()), testing::ElementsAre("out"));
}

TEST(Fs, ErrorsNameThePath) {
  const auto missing = read_file("/nonexistent/file");
  EXPECT_EQ(missing.error().code, Errc::kNotFound);
  EXPECT_THAT(missing.error().what, testing::HasSubstr("/nonexistent/file"));
  EXPECT_FALSE(write_text_atomic("/nonexistent/file", "x").ok());
  EXPECT_EQ(read_file("/").error().code, Errc::kInvalid);
}

TEST(Fs, TheReadLimitIsKept) {
  const TempDir dir = *TempDir::create();
  ASSERT_TRUE(write_text_atomic(dir.path() + "/f", "12345").ok());
  EXPECT_EQ(read_file(dir.path() + "/f", 5)->size(), 5U);
  EXPECT_EQ(read_file(dir.path() + "/f", 4).error().code, Errc::kInvalid);
}

TEST(Fs, MakeDirsAcceptsWhatIsThereAndRefusesFiles) {
  const TempDir dir = *TempDir::create();
  EXPECT_TRUE(make_dirs(dir.path() + "/a/b/c").ok());
  EXPECT_TRUE(make_dirs(dir.path() + "/a/b/c").ok());
  ASSERT_TRUE(write_text_atomic(dir.path() + "/a/f", "x").ok());
  EXPECT_FALSE(make_dirs(dir.path() + "/a/f").ok());
  EXPECT_FALSE(make_dirs(dir.path() + "/a/f/g").ok());
}

TEST(Fs, TempDirRemovesItsContent) {
  std::string path;
  {
    const TempDir dir = *TempDir::create();
    path = dir.path();
    ASSERT_TRUE(make_dirs(path + "/a/b").ok());
    ASSERT_TRUE(write_text_atomic(path + "/a/b/f", "x").ok());
  }
  EXPECT_FALSE(file_exists(path));
}

TEST(Fs, PathPieces) {
  EXPECT_EQ(join_path("a", "b"), "a/b");
  EXPECT_EQ(join_path("a/", "b"), "a/b");
  EXPECT_EQ(join_path("a", "/b"), "/b");
  EXPECT_EQ(dir_name("/a/b"), "/a");
  EXPECT_EQ(dir_name("/a"), "/");
  EXPECT_EQ(dir_name("a"), ".");
  EXPECT_EQ(base_name("/a/b"), "b");
}

}  // namespace
}  // namespace modeld
