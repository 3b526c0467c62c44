// Transitions in the system's journal: a socket of this test stands where journald listens, in a
// mount namespace of the daemon's own.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <thread>

#include "hal/base/text.h"
#include "hal/base/unique_fd.h"

#include "selftest/e2e/harness.h"

namespace modeld::e2e {
namespace {

constexpr int64_t kLoadMs = 60'000;
constexpr const char* kUnshare = "/usr/bin/unshare";

using Entry = std::map<std::string, std::string>;

class Journal : public testing::Test {
 protected:
  void SetUp() override {
    if (run({kUnshare, "-m", "true"}).exit_code != 0)
      GTEST_SKIP() << "no mount namespace here: unshare -m fails";
    ASSERT_TRUE(dir_.ok());
    ASSERT_TRUE(make_dirs(at("journal")).ok());
    ASSERT_TRUE(make_dirs(at("run"), 0750).ok());
    RigOptions o;
    o.bundles = {{"road", tiny_bundle("road")}, {"cabin", tiny_bundle("cabin")}};
    ASSERT_TRUE(write_text_atomic(at("modeld.toml"), config_text(o)).ok());
    socket_.reset(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, at("journal/socket").c_str(), sizeof address.sun_path - 1);
    ASSERT_EQ(bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    const timeval patience{kLoadMs / 1000, 0};
    setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  std::string at(const std::string& name) const { return join_path(dir_->path(), name); }

  // The daemon where /run is empty but for our socket. Its camera never comes.
  void start(std::vector<std::string> env) {
    const std::string script =
        "mount -t tmpfs none /run && mkdir -p /run/systemd/journal && "
        "mount --bind " +
        at("journal") + " /run/systemd/journal && exec " + program("modeld") + " --config " +
        at("modeld.toml");
    env.push_back("MODELD_RUNTIME_DIR=" + at("run"));
    daemon_ = std::make_unique<Child>(
        std::vector<std::string>{kUnshare, "-m", "/bin/sh", "-c", script}, env, at("log"));
  }
  // The next entry; empty when none comes.
  Entry next() {
    std::string bytes(65536, '\0');
    const ssize_t n = recv(socket_.get(), bytes.data(), bytes.size(), 0);
    Entry out;
    if (n <= 0) return out;
    bytes.resize(static_cast<size_t>(n));
    for (const std::string& line : split(bytes, '\n')) {
      const size_t eq = line.find('=');
      if (eq != std::string::npos) out.emplace(line.substr(0, eq), line.substr(eq + 1));
    }
    return out;
  }
  // Until both models say that no vehicle speaks to them.
  std::vector<Entry> entries_until_input_stale() {
    std::vector<Entry> out;
    for (int stale = 0; stale < 2;) {
      out.push_back(next());
      if (out.back().empty()) break;
      stale += out.back()["REASON"] == "input_stale" ? 1 : 0;
    }
    return out;
  }
  size_t times_in_log(const std::string& text) const {
    const std::string log = daemon_->log_text();
    size_t count = 0;
    for (size_t i = log.find(text); i != std::string::npos; i = log.find(text, i + 1)) ++count;
    return count;
  }

  Result<TempDir> dir_ = TempDir::create("modeld-journal");
  UniqueFd socket_;
  std::unique_ptr<Child> daemon_;
};

TEST_F(Journal, HearsOfEveryTransitionOnceWithFields) {
  start({});
  std::vector<Entry> entries = entries_until_input_stale();
  ASSERT_FALSE(entries.back().empty()) << daemon_->log_text();
  daemon_->stop();  // the log says all it has to say
  std::map<std::string, std::vector<std::string>> states;
  for (Entry& e : entries) {
    states[e["MODEL"]].push_back(e["STATE"] + " " + e["REASON"]);
    EXPECT_EQ(e["SYSLOG_IDENTIFIER"], "modeld");
    EXPECT_EQ(e["FRAME_ID"], "0");
    EXPECT_EQ(e["DEVICE"].rfind("cpu", 0), 0u) << e["DEVICE"];
    EXPECT_EQ(e["PRIORITY"], e["STATE"] == "UNAVAILABLE" ? "4" : "6");
    EXPECT_EQ(e["MESSAGE"].rfind(e["MODEL"] + ": " + e["STATE"], 0), 0u) << e["MESSAGE"];
    // Stderr is a file: people who look there see the same line, once.
    EXPECT_EQ(times_in_log(e["MESSAGE"] + "\n"), 1u) << e["MESSAGE"];
  }
  const std::vector<std::string> expected = {"SELFTEST none", "WARMING none",
                                             "UNAVAILABLE input_stale"};
  EXPECT_EQ(states["road"], expected);
  EXPECT_EQ(states["cabin"], expected);
}

TEST_F(Journal, WhenStderrIsTheJournalNothingIsThereTwice) {
  ASSERT_TRUE(write_text_atomic(at("log"), "").ok());
  struct stat st {};
  ASSERT_EQ(stat(at("log").c_str(), &st), 0);
  start({strf("JOURNAL_STREAM=%llu:%llu", static_cast<unsigned long long>(st.st_dev),
              static_cast<unsigned long long>(st.st_ino))});
  const std::vector<Entry> entries = entries_until_input_stale();
  ASSERT_FALSE(entries.back().empty()) << daemon_->log_text();
  daemon_->stop();
  EXPECT_EQ(entries.size(), 6u);
  EXPECT_EQ(times_in_log("SELFTEST"), 0u) << daemon_->log_text();
  EXPECT_EQ(times_in_log("UNAVAILABLE"), 0u);
  EXPECT_GT(times_in_log("running in"), 0u) << "other lines go where they went";
}

TEST_F(Journal, WithoutOneStderrHasTheLine) {
  socket_.reset();
  ASSERT_EQ(unlink(at("journal/socket").c_str()), 0);
  start({});
  const Deadline end = Deadline::in_ms(kLoadMs);
  while (times_in_log("UNAVAILABLE(input_stale)") < 2 && !end.has_passed())
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(times_in_log("road: UNAVAILABLE(input_stale)"), 1u) << daemon_->log_text();
  EXPECT_EQ(times_in_log("cabin: WARMING"), 1u);
}

}  // namespace
}  // namespace modeld::e2e
