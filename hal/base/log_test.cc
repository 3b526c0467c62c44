#include "hal/base/log.h"

namespace modeld {
namespace {

class LevelGuard {
 public:
  explicit LevelGuard(LogLevel level) { set_log_level(level); }
  ~LevelGuard() { set_log_level(LogLevel::kInfo); }
};

TEST(Log, ArgumentsAreNotFormattedUnlessEnabled) {
  const LevelGuard guard(LogLevel::kWarn);
  int evaluated = 0;
  LOG_INFO("test", "%d", ++evaluated);
  EXPECT_EQ(evaluated, 0);
  testing::internal::CaptureStderr();
  LOG_WARN("test", "value %d", ++evaluated);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "[warn] test: value 1\n");
  EXPECT_EQ(evaluated, 1);
}

TEST(Log, OffSilencesErrors) {
  const LevelGuard guard(LogLevel::kOff);
  EXPECT_FALSE(log_enabled(LogLevel::kError));
}

TEST(Log, JournalLinesCarryPriority) {
  EXPECT_EQ(log_line(LogLevel::kError, "hal", "lost", true), "<3>hal: lost");
  EXPECT_EQ(log_line(LogLevel::kWarn, "hal", "late", true), "<4>hal: late");
  EXPECT_EQ(log_line(LogLevel::kInfo, "hal", "up", true), "<6>hal: up");
  EXPECT_EQ(log_line(LogLevel::kDebug, "hal", "x", true), "<7>hal: x");
}

TEST(Log, OneEventIsOneLine) {
  EXPECT_EQ(log_line(LogLevel::kInfo, "compile", "a\nb", false), "[info] compile: a b");
}

TEST(Log, StderrIsJournalOnlyWhenTheStreamMatches) {
  setenv("JOURNAL_STREAM", "1:2", 1);
  EXPECT_FALSE(stderr_is_journal());
  unsetenv("JOURNAL_STREAM");
  EXPECT_FALSE(stderr_is_journal());
}

}  // namespace
}  // namespace modeld
