// What separate processes of modelc share and leave: the disk caches, recorded opts, and nothing
// else when they are interrupted.
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "hal/base/text.h"

#include "selftest/e2e/harness.h"

namespace modeld::e2e {
namespace {

namespace fs = std::filesystem;

std::string bytes_of(const std::string& path) {
  const auto bytes = read_file(path);
  EXPECT_TRUE(bytes.ok()) << path;
  return bytes.ok() ? std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size()) : "";
}

// A folder of this test's own, with a kernel cache in it.
struct Place {
  std::string dir;
  explicit Place(const std::string& name) : dir(join_path(scratch_dir(), name)) {
    fs::create_directories(dir);
    fs::create_directories(cache());
  }
  std::string cache() const { return join_path(dir, "cache"); }
  std::string bundle(const std::string& name = "m") const {
    return join_path(dir, name + ".bundle");
  }
  std::vector<std::string> env() const { return {"MODELD_CACHE_DIR=" + cache()}; }
};

std::vector<std::string> build_args(const std::string& out, std::vector<std::string> more = {}) {
  std::vector<std::string> args = {
      "build", tiny_onnx("cabin"), "--target", "cpu", "--role", "cabin", "-o", out};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

struct Origin {
  int64_t cold = 0, memory = 0, disk = 0;
  bool operator==(const Origin&) const = default;
};

// Builds in a process of its own; where the images of the bundle came from.
Origin build(const Place& place, std::vector<std::string> more = {}) {
  more.push_back("--json");
  const ProcResult r = modelc(build_args(place.bundle(), std::move(more)), place.env());
  EXPECT_EQ(r.exit_code, 0) << r.err;
  const auto json = Json::parse(r.out);
  EXPECT_TRUE(json.ok()) << r.out;
  if (!json.ok()) return {};
  const Json* c = json->find("compiled");
  EXPECT_NE(c, nullptr);
  const auto number = [&](const char* key) { return c->find(key)->as_int().value_or(-1); };
  return {number("cold"), number("memory_hits"), number("disk_hits")};
}

std::vector<fs::path> files_below(const std::string& dir) {
  std::vector<fs::path> out;
  for (const auto& e : fs::recursive_directory_iterator(dir))
    if (e.is_regular_file()) out.push_back(e.path());
  return out;
}

TEST(CompileCached, ColdDiskAndConfigurationSwitchInFreshProcesses) {
  const Place place("four-cases");
  const Origin cold = build(place);
  EXPECT_GT(cold.cold, 5);
  EXPECT_EQ(cold.disk + cold.memory, 0);
  const std::string first = bytes_of(place.bundle());
  EXPECT_EQ(build(place), (Origin{0, 0, cold.cold})) << "disk hit in a fresh process";
  EXPECT_EQ(bytes_of(place.bundle()), first) << "a hit is what the compiler would make";
  const Origin other = build(place, {"--threads", "1"});
  EXPECT_GT(other.cold, 0) << "a switch must miss";
  EXPECT_NE(bytes_of(place.bundle()), first);
  EXPECT_EQ(build(place), (Origin{0, 0, cold.cold})) << "and back must hit";
  EXPECT_EQ(bytes_of(place.bundle()), first);
}

TEST(CompileCached, AssertCompileIsAnErrorColdAndPassesWarm) {
  const Place place("assert");
  auto env = place.env();
  env.push_back("MODELD_ASSERT_COMPILE=1");
  const ProcResult cold = modelc(build_args(place.bundle()), env);
  EXPECT_TRUE(is_one_clear_line(cold, 1));
  EXPECT_NE(cold.err.find("MODELD_ASSERT_COMPILE"), std::string::npos);
  EXPECT_FALSE(file_exists(place.bundle()));
  EXPECT_TRUE(is_one_clear_line(modelc(build_args(place.bundle(), {"--renderer", "x86"}), env), 1));
  (void)build(place);
  EXPECT_EQ(modelc(build_args(place.bundle()), env).exit_code, 0);
}

TEST(CompileCached, CorruptEntriesAreMissesAndTheBundleStaysTheSame) {
  const Place place("corrupt");
  const Origin cold = build(place);
  const std::string first = bytes_of(place.bundle());
  for (const fs::path& f : files_below(place.cache())) {
    std::string bytes = bytes_of(f.string());
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    std::ofstream(f, std::ios::binary) << bytes;
  }
  EXPECT_EQ(build(place), cold);
  EXPECT_EQ(bytes_of(place.bundle()), first);
  EXPECT_EQ(build(place), (Origin{0, 0, cold.cold})) << "good entries took their place";
}

TEST(CompileCached, ConcurrentWritersOfOneCache) {
  const Place place("concurrent");
  std::vector<std::unique_ptr<Child>> builds;
  for (int i = 0; i < 3; ++i) {
    std::vector<std::string> args = build_args(place.bundle(std::to_string(i)));
    args.insert(args.begin(), program("modelc"));
    builds.push_back(std::make_unique<Child>(args, place.env(),
                                             join_path(place.dir, std::to_string(i) + ".log")));
  }
  for (auto& b : builds) EXPECT_EQ(b->wait(120'000), 0) << b->log_text();
  EXPECT_EQ(bytes_of(place.bundle("0")), bytes_of(place.bundle("1")));
  EXPECT_EQ(bytes_of(place.bundle("0")), bytes_of(place.bundle("2")));
  for (const fs::path& f : files_below(place.cache()))
    EXPECT_NE(f.extension(), ".tmp") << "left behind: " << f;
  EXPECT_EQ(build(place).cold, 0);
}

TEST(CompileCached, AFullDiskOnlyMeansThatNothingIsKept) {
  const Place place("full");
  const std::string probe = "mount -t tmpfs -o size=1m none " + place.cache();
  if (run({"unshare", "--mount", "sh", "-c", probe}).exit_code != 0)
    GTEST_SKIP() << "a mount namespace with a small tmpfs is not permitted here";
  std::string command;
  for (const std::string& word : build_args(place.bundle())) command += " '" + word + "'";
  // 1 MiB, all but 64 KiB taken: the first entries fit, the others do not.
  const ProcResult r = run(
      {"unshare", "--mount", "sh", "-c",
       probe + " && dd if=/dev/zero of=" + place.cache() +
           "/filler bs=1k count=960 2>/dev/null && " + program("modelc") + command + " && find " +
           place.cache() + " -type f | wc -l && find " + place.cache() + " -name '*.tmp' | wc -l"},
      place.env(), 120'000);
  ASSERT_EQ(r.exit_code, 0) << r.err;
  std::istringstream lines(r.out.substr(r.out.find('\n') + 1));
  int kept = -1, temporary = -1;
  lines >> kept >> temporary;
  const Place roomy("roomy");
  const Origin cold = build(roomy);
  EXPECT_LT(kept - 1, cold.cold) << r.out;
  EXPECT_EQ(temporary, 0);
  EXPECT_EQ(bytes_of(place.bundle()), bytes_of(roomy.bundle()));
}

// ---- recorded opts ----

TEST(OptsFrom, RepeatsASearchedBundleByteForByteWithoutItsCache) {
  const Place searched("searched"), repeated("repeated");
  const ProcResult first =
      modelc(build_args(searched.bundle(), {"--renderer", "x86", "--beam", "1"}), searched.env());
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_NE(first.out.find("; beam 1: "), std::string::npos) << first.out;
  std::printf("%s", first.out.c_str());
  const ProcResult second =
      modelc(build_args(repeated.bundle(), {"--renderer", "x86", "--opts-from", searched.bundle()}),
             repeated.env());
  ASSERT_EQ(second.exit_code, 0) << second.err;
  EXPECT_EQ(bytes_of(repeated.bundle()), bytes_of(searched.bundle()));
  // With the cache of the search the same command needs no timing and gives the same bytes.
  const ProcResult warm = modelc(
      build_args(searched.bundle("warm"), {"--renderer", "x86", "--beam", "1"}), searched.env());
  ASSERT_EQ(warm.exit_code, 0) << warm.err;
  EXPECT_NE(warm.out.find("from cache"), std::string::npos) << warm.out;
  EXPECT_EQ(bytes_of(searched.bundle("warm")), bytes_of(searched.bundle()));
}

TEST(OptsFrom, RepeatsTheRulesChoiceOnTheCPath) {
  const Place place("opts-c");
  const std::string rule = tiny_bundle("cabin");
  const ProcResult r =
      modelc(build_args(place.bundle(), {"--threads", "1", "--opts-from", rule}), place.env());
  ASSERT_EQ(r.exit_code, 0) << r.err;
  EXPECT_EQ(bytes_of(place.bundle()), bytes_of(rule));
}

TEST(OptsFrom, WhatDoesNotFitIsOneClearLine) {
  const Place place("opts-bad");
  const auto with = [&](std::vector<std::string> more) {
    return modelc(build_args(place.bundle(), std::move(more)), place.env());
  };
  const ProcResult other = with({"--opts-from", tiny_bundle("road")});
  EXPECT_TRUE(is_one_clear_line(other, 1));
  EXPECT_NE(other.err.find("no opts are recorded for this kernel"), std::string::npos) << other.err;
  EXPECT_TRUE(is_one_clear_line(with({"--opts-from", "/nonexistent.bundle"}), 78));
  EXPECT_EQ(with({"--opts-from", tiny_bundle("cabin"), "--beam", "2"}).exit_code, 2);
  EXPECT_EQ(with({"--beam", "-1"}).exit_code, 2);
  EXPECT_FALSE(file_exists(place.bundle()));
}

// ---- interrupts ----

constexpr int64_t kGoneMs = 60'000;

// Processes whose environment holds this word.
std::vector<std::string> marked_processes(const std::string& mark) {
  std::vector<std::string> out;
  for (const auto& e : fs::directory_iterator("/proc")) {
    const std::string pid = e.path().filename().string();
    if (!std::all_of(pid.begin(), pid.end(), [](char c) { return c >= '0' && c <= '9'; })) continue;
    if (proc_text("/proc/" + pid + "/environ").find(mark) != std::string::npos)
      out.push_back(pid + " " + proc_text("/proc/" + pid + "/comm"));
  }
  return out;
}

bool all_gone(const std::string& mark, int64_t limit_ms) {
  const Deadline deadline = Deadline::in_ms(limit_ms);
  while (!marked_processes(mark).empty()) {
    if (deadline.has_passed()) return false;
    const timespec nap{0, 5'000'000};
    nanosleep(&nap, nullptr);
  }
  return true;
}

TEST(WorkerPool, AnInterruptLeavesNoOrphanAndNoTempFile) {
  const std::string onnx = tiny_onnx("road");
  int round = 0;
  std::set<std::pair<int, bool>> cut;  // signal, with a search or without
  for (const int signal : {SIGINT, SIGTERM})
    for (const bool beam : {false, true})
      for (const int64_t after_ms : {30, 120, 400, 900}) {
        const Place place("interrupt" + std::to_string(round));
        const std::string temp = join_path(place.dir, "tmp"), out = join_path(place.dir, "out");
        fs::create_directories(temp);
        fs::create_directories(out);
        const std::string mark =
            strf("E2E_MARK=interrupt-%d-%d", static_cast<int>(getpid()), round++);
        auto env = place.env();
        env.push_back("TMPDIR=" + temp);
        env.push_back(mark);
        std::vector<std::string> args = {program("modelc"),
                                         "build",
                                         onnx,
                                         "--target",
                                         "cpu",
                                         "--role",
                                         "road",
                                         "--jobs",
                                         "4",
                                         "-o",
                                         join_path(out, "m.bundle")};
        if (beam) args.insert(args.end(), {"--beam", "2"});
        Child child(args, env, join_path(place.dir, "log"));
        if (child.wait(after_ms)) continue;  // done before
        child.signal(signal);
        const auto code = child.wait(kGoneMs);
        if (code == 0) continue;  // done before the signal came
        ASSERT_EQ(code, 128 + signal) << child.log_text();
        cut.emplace(signal, beam);
        EXPECT_TRUE(all_gone(mark, kGoneMs)) << child.log_text();
        EXPECT_TRUE(files_below(temp).empty()) << files_below(temp)[0];
        EXPECT_TRUE(files_below(out).empty()) << files_below(out)[0];
        for (const fs::path& f : files_below(place.cache()))
          EXPECT_NE(f.extension(), ".tmp") << "left behind: " << f;
      }
  EXPECT_EQ(cut.size(), 4u);
}

}  // namespace
}  // namespace modeld::e2e
