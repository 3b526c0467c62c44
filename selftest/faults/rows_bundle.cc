// What is loaded: files that are missing, cut, stale, of another machine, unsigned, wrong in their
// numbers, incomplete; compilers and disks that fail.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "selftest/e2e/bundle_damage.h"
#include "selftest/faults/row.h"
#include "selftest/faults/world.h"

namespace modeld::faults {
namespace {

using e2e::bytes_of;
using e2e::put_bytes;
using e2e::tiny_bundle;
using ipc::ModelState;
using ipc::Reason;

constexpr ModelState kOut = ModelState::kUnavailable;
// Load of a tiny bundle at most, and what the start of a process takes.
constexpr int64_t kRefusedMs = 1000;
// A changed file is looked for once a second; then it loads.
constexpr int64_t kMendedMs = 3000;
constexpr int64_t kShortLoadMs = 2000;  // load_s = 2 of the rows that wait for it

std::string road_file(const Scene& s) {
  return s.file("road.bundle");
}

void use_road_file(Scene& s) {
  s.options.bundles["road"] = road_file(s);
}

void damage_road(Scene& s, const std::function<void(std::string&)>& change) {
  std::string bytes = bytes_of(tiny_bundle("road"));
  change(bytes);
  put_bytes(road_file(s), bytes);
  use_road_file(s);
}

// In place, as cp does it, but without cutting the file first.
void write_into_road(Scene& s) {
  std::fstream file(road_file(s), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-64, std::ios::end);
  file << std::string(64, 'x');
}

void mend_road(Scene& s) {
  put_bytes(road_file(s), bytes_of(tiny_bundle("road")));
}

void hole_in_road(Scene& s) {
  e2e::strip_first_kernel(tiny_bundle("road"), road_file(s));
  use_road_file(s);
  s.replay_bundle = tiny_bundle("road");  // the same numbers, whole
  s.options.env.push_back("MODELD_CACHE_DIR=" + s.file("cache"));
  EXPECT_TRUE(make_dirs(s.file("cache")).ok());
}

void without_config_line(Scene& s) {
  e2e::RigOptions plain = s.options;
  plain.tail.clear();
  plain.device = "cpu";
  put_bytes(s.rig().config_path(), e2e::config_text(plain));
  s.rig().daemon().signal(SIGHUP);
}

void sign_with_a_key_of_nobody(Scene& s) {
  s.copy_of(tiny_bundle("road"), "road.bundle");
  use_road_file(s);
  const ProcResult key = e2e::modelc({"keygen", "-o", s.file("key")});
  const ProcResult sign = e2e::modelc({"sign", road_file(s), "--key", s.file("key")});
  EXPECT_TRUE(key.exit_code == 0 && sign.exit_code == 0) << key.err << sign.err;
}

void pair_whose_active_one_is_wrong(Scene& s) {
  const std::string dir = s.file("road");
  EXPECT_TRUE(make_dirs(dir).ok());
  e2e::break_golden(tiny_bundle("road"), dir + "/a.bundle");
  put_bytes(dir + "/b.bundle", bytes_of(tiny_bundle("road")));
  put_bytes(dir + "/active", "a\n");
  s.options.bundles["road"] = dir;
  s.records = false;
}

void expect_the_pair_switched(Scene& s) {
  s.require(bytes_of(s.file("road/active")) == "b\n", "active still names the wrong bundle");
}

void compiler_that_fails(Scene& s) {
  hole_in_road(s);
  replace_compiler(s, "echo 'wibble.c:1: error: no' >&2; exit 1");
}

void compiler_that_hangs(Scene& s) {
  hole_in_road(s);
  s.options.model_extra["road"] = "load_s = 2\n";
  replace_compiler(s, "exec sleep 86399");
}

void expect_no_compiler_left(Scene& s) {
  const auto is_gone = [] { return count_processes("86399") == 0; };
  s.require_in_time(s.tap().wait_for(is_gone, 1000), "the hung compiler outlived its worker");
}

void pipe_for_a_bundle(Scene& s) {
  EXPECT_EQ(mkfifo(road_file(s).c_str(), 0600), 0);
  use_road_file(s);
}

void expect_one_compiled(Scene& s) {
  const auto status = s.tap().status("road");
  s.require(status && status->compiled_calls == 1, "the missing kernel was not compiled here");
}

void cache_on_a_full_disk(Scene& s) {
  hole_in_road(s);
  if (enter_mount_namespace(s)) mount_full_disk(s, s.file("cache"));
}

void temp_on_a_full_disk(Scene& s) {
  hole_in_road(s);
  s.options.env.push_back("TMPDIR=" + s.file("full"));
  if (enter_mount_namespace(s)) mount_full_disk(s, s.file("full"));
}

constexpr Row kRows[] = {
    {.name = "bundle-missing",
     .by = By::kWorld,
     .source = "6",
     .injected = "no file there",
     .model = "road",
     .see = See::kState,
     .state = kOut,
     .reason = Reason::kBundleMissing,
     .text = "road.bundle",
     .bound_ms = kRefusedMs,
     .back = Back::kRepair,
     .back_ms = kMendedMs,
     .gate = Gate::kNoEntry,
     .setup = use_road_file,
     .repair = mend_road},
    {.name = "bundle-truncated",
     .by = By::kWorld,
     .source = "7 #13",
     .injected = "cut in half",
     .model = "road",
     .see = See::kState,
     .state = kOut,
     .reason = Reason::kBundleInvalid,
     .text = "road.bundle",
     .bound_ms = kRefusedMs,
     .back = Back::kRepair,
     .back_ms = kMendedMs,
     .gate = Gate::kNoEntry,
     .setup = [](Scene& s) { damage_road(s, [](std::string& b) { b.resize(b.size() / 2); }); },
     .repair = mend_road},
    {.name = "bundle-bit-flipped",
     .by = By::kWorld,
     .source = "7 #16",
     .injected = "one bit of the weights",
     .model = "road",
     .see = See::kState,
     .state = kOut,
     .reason = Reason::kBundleInvalid,
     .text = "hash",
     .bound_ms = kRefusedMs,
     .back = Back::kRepair,
     .back_ms = kMendedMs,
     .gate = Gate::kNoEntry,
     .setup =
         [](Scene& s) {
           damage_road(s, [](std::string& b) { b[5000] = static_cast<char>(b[5000] ^ 1); });
         },
     .repair = mend_road},
    {.name = "bundle-stale",
     .by = By::kWorld,
     .source = "7 #11 #12",
     .injected = "of another format version",
     .model = "road",
     .see = See::kState,
     .state = kOut,
     .reason = Reason::kBundleInvalid,
     .text = "version",
     .bound_ms = kRefusedMs,
     .back = Back::kRepair,
     .back_ms = kMendedMs,
     .gate = Gate::kNoEntry,
     .setup = [](Scene& s) { damage_road(s, [](std::string& b) { b[8] = 0x7f; }); },
     .repair = mend_road},
    {.name = "bundle-wrong-role",
     .by = By::kWorld,
     .source = "6",
     .injected = "cabin's bundle for road",
     .model = "road",
     .see = See::kState,
     .state = kOut,
     .reason = Reason::kBundleInvalid,
     .text = "role",
     .bound_ms = kRefusedMs,
     .back = Back::kRepair,
     .back_ms = kMendedMs,
     .gate = Gate::kNoEntry,
     .setup =
         [](Scene& s) {
           s.copy_of(tiny_bundle("cabin"), "road.bundle");
           use_road_file(s);
         },
     .repair = mend_road},
    {.name = "bundle-wrong-target",
     .by = By::kWorld,
     .source = "7 #14 #22",
     .injected = "built for cpu:aarch64",
     .model = "road",
     .see = See::kState,
     .state = kOut,
     .reason = Reason::kTargetMismatch,
     .text = "aarch64",
     .bound_ms = kRefusedMs,
     .back = Back::kRepair,
     .back_ms = kMendedMs,
     .gate = Gate::kNoEntry,
     .setup =
         [](Scene& s) {
           e2e::retarget_to_arm(tiny_bundle("road"), road_file(s));
           use_road_file(s);
         },
     .repair = mend_road},
    {.name = "bundle-unsigned",
     .by = By::kWorld,
     .source = "5",
     .injected = "require_signature = true",
     .model = "road",
     .see = See::kState,
     .state = kOut,
     .reason = Reason::kBundleInvalid,
     .text = "sign",
     .bound_ms = kRefusedMs,
     .back = Back::kRepair,
     .back_ms = kMendedMs,
     .gate = Gate::kNoEntry,
     .setup = [](Scene& s) { s.options.tail = "[trust]\nrequire_signature = true\n"; },
     .repair = without_config_line},
    {.name = "bundle-foreign-key",
     .by = By::kWorld,
     .source = "5",
     .injected = "signed by a key nobody trusts",
     .model = "road",
     .see = See::kState,
     .state = kOut,
     .reason = Reason::kBundleInvalid,
     .text = "sign",
     .bound_ms = kRefusedMs,
     .back = Back::kRepair,
     .back_ms = kMendedMs,
     .gate = Gate::kNoEntry,
     .setup = sign_with_a_key_of_nobody,
     .repair = mend_road},
    {.name = "selftest-fails",
     .by = By::kWorld,
     .source = "7 #20 #21",
     .injected = "golden outputs of another model",
     .model = "road",
     .see = See::kState,
     .state = kOut,
     .reason = Reason::kSelftestFailed,
     .text = "golden",
     .bound_ms = kRefusedMs,
     .back = Back::kRepair,
     .back_ms = kMendedMs,
     .gate = Gate::kNoEntry,
     .setup =
         [](Scene& s) {
           e2e::break_golden(tiny_bundle("road"), road_file(s));
           use_road_file(s);
         },
     .repair = mend_road},
    {.name = "pair-falls-back",
     .by = By::kWorld,
     .source = "7 #12",
     .injected = "a.bundle fails its self-test, b is good",
     .model = "road",
     .see = See::kState,
     .state = ModelState::kReady,
     .reason = Reason::kNone,
     .text = "a.bundle failed (selftest_failed",
     .bound_ms = 3000,
     .back = Back::kItself,
     .back_ms = 1000,
     .gate = Gate::kNoEntry,
     .setup = pair_whose_active_one_is_wrong,
     .verify = expect_the_pair_switched},
    {.name = "unknown-device",
     .by = By::kWorld,
     .source = "6",
     .injected = "device = \"wibble\"",
     .model = "road",
     .see = See::kState,
     .state = kOut,
     .reason = Reason::kConfig,
     .text = "wibble",
     .bound_ms = kRefusedMs,
     .back = Back::kRepair,
     .back_ms = kMendedMs,
     .gate = Gate::kNoEntry,
     .setup = [](Scene& s) { s.options.device = "wibble"; },
     .repair = without_config_line},
    {.name = "kernel-missing",
     .by = By::kWorld,
     .source = "6",
     .injected = "cabin lacks a binary, prepare = never",
     .model = "cabin",
     .see = See::kState,
     .state = kOut,
     .reason = Reason::kCompileFailed,
     .text = "entry run",
     .bound_ms = kRefusedMs,
     .back = Back::kRepair,
     .back_ms = kMendedMs,
     .gate = Gate::kNoEntry,
     .setup =
         [](Scene& s) {
           e2e::strip_first_kernel(tiny_bundle("cabin"), s.file("cabin.bundle"));
           s.options.bundles["cabin"] = s.file("cabin.bundle");
         },
     .repair = [](Scene& s) { put_bytes(s.file("cabin.bundle"), bytes_of(tiny_bundle("cabin"))); }},
    {.name = "compile-fails",
     .by = By::kWorld,
     .source = "6",
     .injected = "a compiler that exits 1 (bind mount)",
     .model = "road",
     .see = See::kState,
     .state = kOut,
     .reason = Reason::kCompileFailed,
     .text = "clang",
     .bound_ms = 3000,
     .back = Back::kRepair,
     .back_ms = kMendedMs,
     .gate = Gate::kNoEntry,
     .setup = compiler_that_fails,
     .repair = mend_road},
    {.name = "compiler-hangs",
     .by = By::kWorld,
     .source = "7 #2 #24",
     .injected = "a compiler that sleeps, load_s = 2",
     .model = "road",
     .see = See::kState,
     .state = kOut,
     .reason = Reason::kLoadFailed,
     .text = "not loaded within 2 s",
     .bound_ms = kShortLoadMs + 500,
     .back = Back::kRepair,
     .back_ms = kShortLoadMs + kMendedMs,
     .gate = Gate::kNoEntry,
     .setup = compiler_that_hangs,
     .repair = mend_road,
     .verify = expect_no_compiler_left},
    {.name = "bundle-is-a-pipe",
     .by = By::kWorld,
     .source = "7 #2",
     .injected = "a pipe that nobody writes",
     .model = "road",
     .see = See::kState,
     .state = kOut,
     .reason = Reason::kBundleInvalid,
     .text = "regular file",
     .bound_ms = kRefusedMs,
     .back = Back::kRepair,
     .back_ms = kMendedMs,
     .gate = Gate::kNoEntry,
     .setup = pipe_for_a_bundle,
     .repair = mend_road},
    {.name = "cache-disk-full",
     .by = By::kWorld,
     .source = "4",
     .injected = "cache on a 1 MiB disk that is full",
     .model = "road",
     .see = See::kState,
     .state = ModelState::kReady,
     .reason = Reason::kNone,
     .text = "",
     .bound_ms = 8000,
     .back = Back::kItself,
     .back_ms = 1000,
     .gate = Gate::kNoEntry,
     .setup = cache_on_a_full_disk,
     .verify = expect_one_compiled},
    {.name = "temp-disk-full",
     .by = By::kWorld,
     .source = "4",
     .injected = "TMPDIR on a 1 MiB disk that is full",
     .model = "road",
     .see = See::kState,
     .state = ModelState::kReady,
     .reason = Reason::kNone,
     .text = "",
     .bound_ms = 8000,
     .back = Back::kItself,
     .back_ms = 1000,
     .gate = Gate::kNoEntry,
     .setup = temp_on_a_full_disk,
     .verify = expect_one_compiled},
    {.name = "bundle-replaced-live",
     .by = By::kWorld,
     .source = "7 #11",
     .injected = "a broken file renamed over the running one",
     .model = "road",
     .see = See::kUnaffected,
     .state = ModelState::kReady,
     .reason = Reason::kNone,
     .text = "",
     .bound_ms = 1500,
     .back = Back::kStays,
     .back_ms = 0,
     .gate = Gate::kStays,
     .setup =
         [](Scene& s) {
           damage_road(s, [](std::string&) {});
           s.replay_bundle = tiny_bundle("road");
         },
     .inject = [](Scene& s) { put_bytes(road_file(s), "no bundle"); }},
    {.name = "bundle-overwritten-live",
     .by = By::kWorld,
     .source = "6",
     .injected = "other bytes written into the running file",
     .model = "road",
     .see = See::kState,
     .state = kOut,
     .reason = Reason::kBundleInvalid,
     .text = "was written to while it ran",
     .bound_ms = 250,
     .back = Back::kRepair,
     .back_ms = kMendedMs,
     .gate = Gate::kLeaves,
     .setup = [](Scene& s) { damage_road(s, [](std::string&) {}); },
     .inject = write_into_road,
     .repair = mend_road},
    {.name = "bundle-cut-live",
     .by = By::kWorld,
     .source = "7 #11",
     .injected = "the running file cut to its header",
     .model = "road",
     .see = See::kState,
     .state = kOut,
     .reason = Reason::kDeviceLost,
     .text = "signal 7",
     .bound_ms = 250,
     .back = Back::kRepair,
     .back_ms = kMendedMs,
     .gate = Gate::kLeaves,
     .setup = [](Scene& s) { damage_road(s, [](std::string&) {}); },
     .inject = [](Scene& s) { EXPECT_EQ(truncate(road_file(s).c_str(), 4096), 0); },
     .repair = mend_road},
};

}  // namespace

std::span<const Row> bundle_rows() {
  return kRows;
}

}  // namespace modeld::faults
