#include "daemon/metrics_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "hal/base/fs.h"
#include "hal/base/unique_fd.h"

namespace modeld::daemon {
namespace {

constexpr size_t kLimit = 256 * 1024;

// The writer is a thread of low priority: it gets the processor.
template <class Condition>
void wait_for(const Condition& condition) {
  while (!condition()) usleep(1000);
}

class MetricsFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto dir = TempDir::create("metrics_file");
    ASSERT_TRUE(dir.ok()) << dir.error().what;
    dir_ = std::make_unique<TempDir>(std::move(*dir));
  }
  std::string path() const { return dir_->path() + "/sub/metrics.prom"; }
  void make_dir() const { ASSERT_TRUE(make_dirs(dir_name(path())).ok()); }
  std::string content() const {
    const auto text = read_text(path());
    return text.ok() ? *text : text.error().what;
  }

  std::unique_ptr<TempDir> dir_;
};

TEST_F(MetricsFileTest, TheTextTakenLastIsThereAtTheEnd) {
  make_dir();
  {
    MetricsFile file(path(), kLimit);
    EXPECT_TRUE(file.is_on());
    file.offer("one\n");
    wait_for([&] { return file.written() > 0; });
    // Until it is taken: the writer may be about to say that it has time again.
    wait_for([&] {
      const uint64_t before = file.dropped();
      file.offer("two\n");
      return file.dropped() == before;
    });
  }
  EXPECT_EQ(content(), "two\n");
  EXPECT_FALSE(file_exists(path() + ".new"));
}

// Read while texts of two lengths replace each other: parts of both would show.
TEST_F(MetricsFileTest, AReaderNeverSeesParts) {
  make_dir();
  const std::string texts[] = {std::string(100'000, 'a'), std::string(200'000, 'b')};
  MetricsFile file(path(), kLimit);
  uint64_t seen[2] = {};
  while (file.written() < 40 || std::min(seen[0], seen[1]) == 0) {
    file.offer(texts[file.written() % 2]);
    if (!file_exists(path())) continue;
    const std::string text = content();
    const size_t which = text == texts[1] ? 1 : 0;
    ASSERT_TRUE(text == texts[which]) << text.size() << " bytes";
    ++seen[which];
  }
  EXPECT_EQ(file.failed(), 0u);
}

// A pipe that nobody reads stands for a disk that does not answer: the writer hangs in open().
TEST_F(MetricsFileTest, ADiskThatDoesNotAnswerHoldsNobodyUp) {
  make_dir();
  const std::string pipe = path() + ".new";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  MetricsFile file(path(), kLimit);
  file.offer("first");
  for (int i = 0; i < 100; ++i) file.offer("later");
  EXPECT_EQ(file.dropped(), 100u);
  EXPECT_EQ(file.written(), 0u);
  // The disk is back: what was taken is what is written.
  const UniqueFd disk(open(pipe.c_str(), O_RDONLY | O_CLOEXEC));
  char text[16] = {};
  EXPECT_EQ(read(disk.get(), text, sizeof text), 5);
  EXPECT_STREQ(text, "first");
}

TEST_F(MetricsFileTest, AFolderThatIsGoneIsCountedAndTriedAgain) {
  MetricsFile file(path(), kLimit);
  file.offer("lost");
  wait_for([&] { return file.failed() > 0; });
  EXPECT_EQ(file.written(), 0u);
  make_dir();
  wait_for([&] {
    file.offer("kept");
    return file.written() > 0;
  });
  EXPECT_EQ(content(), "kept");
}

TEST_F(MetricsFileTest, ATextOverTheLimitIsDropped) {
  make_dir();
  {
    MetricsFile file(path(), 100);
    file.offer(std::string(kLimit, 'x'));
    EXPECT_EQ(file.dropped(), 1u);
  }
  EXPECT_FALSE(file_exists(path()));
}

TEST_F(MetricsFileTest, WithoutAPathThereIsNoThread) {
  const size_t before = list_dir("/proc/self/task")->size();
  MetricsFile file("", kLimit);
  EXPECT_FALSE(file.is_on());
  file.offer("nobody asked");
  // One that another test has joined may still be on its way out.
  EXPECT_LE(list_dir("/proc/self/task")->size(), before);
  EXPECT_EQ(file.written() + file.failed() + file.dropped(), 0u);
}

}  // namespace
}  // namespace modeld::daemon
