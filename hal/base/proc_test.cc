#include "hal/base/proc.h"

#include <signal.h>
#include <unistd.h>

#include <cstdlib>

#include "hal/base/clock.h"
#include "hal/base/fs.h"

namespace modeld {
namespace {

ProcSpec shell(const std::string& script) {
  ProcSpec spec;
  spec.argv = {"/bin/sh", "-c", script};
  return spec;
}

TEST(Proc, CapturesOutputErrorAndExitCode) {
  const auto r = run_process(shell("echo out; echo err >&2; exit 3"));
  ASSERT_TRUE(r.ok()) << r.error().what;
  EXPECT_EQ(r->out, "out\n");
  EXPECT_EQ(r->err, "err\n");
  EXPECT_EQ(r->exit_code, 3);
  EXPECT_EQ(r->signal, 0);
}

TEST(Proc, ReportsTheSignalThatEndedIt) {
  const auto r = run_process(shell("kill -SEGV $$"));
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(r->signal, SIGSEGV);
  EXPECT_EQ(r->exit_code, -1);
}

TEST(Proc, MovesMoreThanAPipeHoldsBothWays) {
  ProcSpec spec;
  spec.argv = {"cat"};
  spec.stdin_text.assign(1 << 20, 'x');
  spec.stdin_text.append("end");  // not operator+: g++ 12 warns falsely (GCC bug 105329)
  const auto r = run_process(spec);
  ASSERT_TRUE(r.ok()) << r.error().what;
  EXPECT_EQ(r->out, spec.stdin_text);
}

TEST(Proc, AChildThatReadsNothingIsNoError) {
  ProcSpec spec = shell("exit 0");
  spec.stdin_text = std::string(1 << 20, 'x');
  const auto r = run_process(spec);
  ASSERT_TRUE(r.ok()) << r.error().what;
  EXPECT_TRUE(r->succeeded());
}

TEST(Proc, ArgumentsAreNotInterpreted) {
  ProcSpec spec;
  spec.argv = {"printf", "%s", "$HOME; `x` *"};
  EXPECT_EQ(run_process(spec)->out, "$HOME; `x` *");
}

TEST(Proc, UnknownProgramsAreNamed) {
  ProcSpec spec;
  spec.argv = {"no-such-program-here"};
  const auto r = run_process(spec);
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().code, Errc::kNotFound);
  EXPECT_THAT(r.error().what, testing::HasSubstr("no-such-program-here"));
  spec.argv = {"/etc/passwd"};
  EXPECT_FALSE(run_process(spec).ok());
  EXPECT_FALSE(run_process({}).ok());
}

TEST(Proc, TimeLimitKillsTheWholeGroup) {
  const TempDir dir = *TempDir::create();
  // The grandchild holds the output open and would live for ten minutes.
  const std::string pid_file = dir.path() + "/pid";
  ProcSpec spec = shell("sleep 600 & echo $! > " + pid_file + ".new; mv " + pid_file + ".new " +
                        pid_file + "; sleep 600");
  // A busy machine may need more time until there is a grandchild.
  for (spec.timeout_ms = 200; !file_exists(pid_file) && spec.timeout_ms < 60'000;
       spec.timeout_ms *= 2) {
    const int64_t start = now_ns();
    const auto r = run_process(spec);
    ASSERT_FALSE(r.ok());
    EXPECT_EQ(r.error().code, Errc::kTimeout);
    EXPECT_LT(now_ns() - start, 300 * kNsPerSecond);
  }
  const auto pid = read_text(pid_file);
  ASSERT_TRUE(pid.ok()) << pid.error().what;
  const pid_t grandchild = std::atoi(pid->c_str());
  ASSERT_GT(grandchild, 0);
  // Killed at once; its new parent may need a moment to reap it.
  const std::string stat_path = "/proc/" + std::to_string(grandchild) + "/stat";
  for (const Deadline limit = Deadline::in_ms(30'000); !limit.has_passed(); usleep(1000)) {
    const auto stat = read_text(stat_path);
    if (!stat.ok() || stat->find(") Z") != std::string::npos || stat->empty()) return;
  }
  ADD_FAILURE() << "grandchild " << grandchild << " lives on";
}

TEST(Proc, TooMuchOutputEndsTheChild) {
  ProcSpec spec = shell("while :; do echo 0123456789; done");
  spec.output_limit_bytes = 10000;
  const auto r = run_process(spec);
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().code, Errc::kInvalid);
}

TEST(Proc, WorkingDirectoryIsUsed) {
  const TempDir dir = *TempDir::create();
  ProcSpec spec = shell("pwd");
  spec.working_dir = dir.path();
  EXPECT_EQ(run_process(spec)->out, dir.path() + "\n");
}

TEST(Proc, AChildLeavesNoCoreFile) {
  ProcSpec spec;
  spec.argv = {"/bin/sh", "-c", "ulimit -c"};
  const auto r = run_process(spec);
  ASSERT_TRUE(r.ok()) << r.error().what;
  EXPECT_EQ(r->out, "0\n");
}

}  // namespace
}  // namespace modeld
