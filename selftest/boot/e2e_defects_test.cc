// Every item of the self-test is shown able to fail: one deliberate defect at a time, in the
// bundle, the configuration, the device or the cache, and the item that it is for must find it.
// Without a defect all pass.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <functional>
#include <set>

#include "models/tools/reference_plan.h"

#include "selftest/boot/defect_device.h"
#include "selftest/boot/runner.h"
#include "selftest/e2e/bundle_damage.h"
#include "selftest/e2e/harness.h"

namespace modeld::selftest {
namespace {

using e2e::bytes_of;
using e2e::put_bytes;
using e2e::scratch_dir;
using e2e::tiny_bundle;

// The stage a defect is put on.
struct Stage {
  World world;
  daemon::Config config;
  daemon::ModelConfig model;
  DefectSwitch device;
  std::string file;  // the bundle under test, a copy that defects may change
};

struct Defect {
  const char* name;
  const char* item;                                 // that must find it
  const char* text;                                 // a word of what it says
  std::function<void(Stage&)> set;                  // before anything is opened
  std::function<void(Stage&, Subject&)> switch_on;  // right before the item runs
};

void use_device(Stage& stage, DeviceDefect defect) {
  stage.device.defect = defect;
  stage.world.open_device = open_with(stage.device);
}

Defect of_device(const char* item, const char* text, DeviceDefect defect, const char* name) {
  return {name, item, text, [defect](Stage& s) { use_device(s, defect); },
          [](Stage& stage, Subject&) { stage.device.is_on = true; }};
}

Defect of_file(const char* item,
               const char* text,
               const char* name,
               const std::function<void(const std::string& from, const std::string& to)>& change) {
  return {name, item, text, [change](Stage& s) { change(tiny_bundle(s.model.name), s.file); },
          nullptr};
}

void flip_a_bit(const std::string& from, const std::string& to) {
  std::string bytes = bytes_of(from);
  bytes[5000] = static_cast<char>(bytes[5000] ^ 1);
  put_bytes(to, bytes);
}

std::vector<Defect> bundle_defects() {
  std::vector<Defect> out = {
      of_file("bundle", "hash", "one bit of the weights", flip_a_bit),
      of_file("target", "aarch64", "built for another machine", e2e::retarget_to_arm),
      of_file("golden", "golden", "golden numbers nobody computed", e2e::break_golden),
      of_file("timing", "budget", "a budget nothing can keep",
              [](const auto& from, const auto& to) { e2e::set_budget(from, to, 1e-6, 1e-6); }),
      of_file("worst-case", "budget", "a budget nothing can keep",
              [](const auto& from, const auto& to) { e2e::set_budget(from, to, 1e-6, 1e-6); }),
      of_file("timing", "states no timing budget", "no budget at all",
              [](const auto& from, const auto& to) { e2e::set_budget(from, to, 0, 0); }),
      of_file("cold-compile", "key", "section graph of other kernels",
              e2e::swap_first_kernels_text),
      of_file("aliasing", "place of its own", "live buffers that share memory",
              e2e::overlap_buffers),
  };
  out.push_back({"a kernel is missing and nothing may be compiled", "load", "no binary",
                 [](Stage& s) {
                   e2e::strip_first_kernel(tiny_bundle(s.model.name), s.file);
                   s.model.prepare = "never";
                 },
                 nullptr});
  return out;
}

std::vector<Defect> world_defects() {
  return {
      {"a queue of control messages that can be written", "privilege", "msgq_sendcan",
       [](Stage& s) {
         s.world.actuators.queues = {join_path(scratch_dir(), "msgq_sendcan")};
         put_bytes(s.world.actuators.queues[0], "x");
       },
       nullptr},
      {"a kind of socket that the lock-down lets through", "privilege", "socket of family 1",
       [](Stage& s) {
         s.world.actuators.sockets = {{AF_UNIX, SOCK_STREAM, 0}};
       },
       nullptr},
      {"a user that does not exist", "privilege", "nobody-of-this-name",
       [](Stage& s) { s.config.user = "nobody-of-this-name"; }, nullptr},
      {"unsigned, and a signature is required", "signature", "not signed",
       [](Stage& s) { s.config.require_signature = true; }, nullptr},
      {"a device of no known kind", "device", "wibble", [](Stage& s) { s.model.device = "wibble"; },
       nullptr},
      {"a device that is taken", "device", "taken",
       [](Stage& s) {
         s.world.open_device = [](const std::string&, const hal::DeviceConfig&)
             -> Result<std::unique_ptr<hal::Device>> { return fail(Errc::kBusy, "taken"); };
       },
       nullptr},
      {"a timeout that the slowest replay misses", "worst-case", "timeout_ms",
       [](Stage& s) { s.model.timeout_ms = 0; }, nullptr},
  };
}

std::vector<Defect> device_defects() {
  using D = DeviceDefect;
  std::vector<Defect> out = {
      of_device("finite", "all is well", D::kLosesNumbers, "a device that loses single numbers"),
      of_device("deadline", "came back as done", D::kNeverWaits, "waits that never wait"),
      of_device("outputs", "max error", D::kWrongNumbers, "a device that gives wrong numbers"),
      of_device("kernels", "max error", D::kWrongNumbers, "a device that gives wrong numbers"),
      of_device("mask-edges", "max error", D::kWrongNumbers, "a device that gives wrong numbers"),
      of_device("unaligned-shapes", "max error", D::kWrongNumbers, "wrong numbers"),
      of_device("special-numbers", "max error", D::kHidesNan, "a device that hides NaN"),
      of_device("warp-borders", "scalar", D::kWrongNumbers, "a device that gives wrong pixels"),
      of_device("poisoned-inputs", "not in these", D::kHidesNan, "a device that hides NaN"),
      of_device("aliasing", "wrote to its input", D::kDrifts, "a device that drifts"),
      of_device("completion", "came before its copy", D::kNeverWaits, "signals before the work"),
      of_device("reconnect", "epoch", D::kForgetsClosing, "epochs that stay"),
  };
  for (const char* item : {"timing", "worst-case"}) {
    Defect slow = of_device(item, "over the manifest's", D::kSlow, "a slow device");
    slow.set = [](Stage& s) {
      use_device(s, D::kSlow);
      e2e::set_budget(tiny_bundle(s.model.name), s.file, 25, 50);  // as it was built
    };
    out.push_back(slow);
  }
  Defect drift = of_device("repeat", "differs", D::kDrifts, "a device that drifts");
  drift.switch_on = [](Stage& stage, Subject& s) {
    stage.device.is_on = true;
    s.golden.reset();  // those of item golden were good
  };
  out.push_back(drift);
  return out;
}

// What somebody else did to the caches between two items.
std::vector<Defect> cache_defects() {
  const auto empty_folder = [](Stage&, Subject& s) {
    const auto emptied = TempDir::create("modeld-emptied");
    s.scratch = emptied.ok() ? emptied->path() : "";  // gone with this scope: nothing is in it
  };
  return {
      {"no room for a cache", "cold-compile", "temporary folder", nullptr,
       [](Stage&, Subject& s) { s.scratch.clear(); }},
      {"a cache that is warm already", "cold-compile", "0 cold", nullptr,
       [](Stage&, Subject& s) {
         const Outcome first = cold_compile_item(s);
         EXPECT_EQ(first.verdict, Verdict::kPassed) << first.text;
       }},
      {"a program cache that forgot", "memory-hit", "from memory", nullptr,
       [](Stage&, Subject& s) { s.programs = exec::make_program_cache(); }},
      {"a folder that was emptied", "disk-hit", "from disk", nullptr, empty_folder},
      {"files that are not damaged at all", "cache-damage", "nothing that could be", nullptr,
       [](Stage&, Subject& s) {
         s.scratch = join_path(scratch_dir(), "empty-cache");
         EXPECT_TRUE(make_dirs(join_path(s.scratch, "cache/kernels")).ok());
       }},
      {"the other configuration is there before the switch", "config-switch", "0 lowered", nullptr,
       [](Stage&, Subject& s) {
         exec::CompileOptions options = s.compile_options();
         options.program_cache = s.programs;
         EXPECT_TRUE(tools::reference_plan(s.plan, options).ok());
       }},
  };
}

std::vector<Defect> all_defects() {
  std::vector<Defect> out;
  for (auto list : {bundle_defects(), world_defects(), device_defects(), cache_defects()})
    out.insert(out.end(), list.begin(), list.end());
  return out;
}

// The items an item needs, then itself: the rest costs time and shows nothing.
std::vector<Item> items_up_to(const std::string& name) {
  const auto all = items();
  const auto last =
      std::find_if(all.begin(), all.end(), [&](const Item& i) { return name == i.name; });
  std::vector<Item> out;
  for (const Item& item : all.first(static_cast<size_t>(last - all.begin()))) {
    const bool opens = item.needs <= Needs::kDevice;
    const bool compiles = std::string(item.name) == "cold-compile";
    if (opens || (compiles && last->needs == Needs::kCompile)) out.push_back(item);
  }
  out.push_back(*last);
  return out;
}

class SelftestDefect : public ::testing::Test {
 protected:
  Stage make_stage() {
    Stage stage;
    stage.model.name = "cabin";
    stage.model.timeout_ms = 60'000;
    stage.file = join_path(scratch_dir(), "defect.bundle");
    // Time is not what is tested here, and the machine may be busy.
    e2e::set_budget(tiny_bundle(stage.model.name), stage.file, 10'000, 20'000);
    stage.model.bundle = stage.file;
    stage.world.replays = 40;
    return stage;
  }

  // The outcome of the last of `table`; those before it must pass.
  Outcome outcome_of(Stage& stage, const std::vector<Item>& table, const Defect* defect) {
    Outcome out;
    const auto scratch = TempDir::create("modeld-defect");
    Subject s(stage.world, stage.config);
    s.name = stage.model.name;
    s.model = stage.model;
    s.scratch = scratch.ok() ? scratch->path() : "";
    for (size_t i = 0; i < table.size(); ++i) {
      const bool is_last = i + 1 == table.size();
      if (is_last && defect != nullptr && defect->switch_on) defect->switch_on(stage, s);
      s.name = table[i].needs == Needs::kHost ? "" : stage.model.name;
      const auto suite = table[i].is_in(Suite::kBoot) ? Suite::kBoot : Suite::kAcceptance;
      const auto rows = run_items(s, {&table[i], 1}, suite);
      out = rows.at(0).outcome;
      if (!is_last) {
        EXPECT_EQ(out.verdict, Verdict::kPassed) << table[i].name << ": " << out.text;
      }
    }
    stage.device.is_on = false;
    return out;
  }
};

TEST_F(SelftestDefect, WithoutOneEveryItemPasses) {
  for (const char* role : {"road", "cabin"}) {
    Stage stage = make_stage();
    stage.model.name = role;
    e2e::set_budget(tiny_bundle(role), stage.file, 10'000, 20'000);
    use_device(stage, DeviceDefect::kWrongNumbers);  // never switched on
    const std::vector<Item> table(items().begin(), items().end());
    const Outcome last = outcome_of(stage, table, nullptr);
    EXPECT_EQ(last.verdict, Verdict::kPassed) << role << ": " << last.text;
  }
}

TEST_F(SelftestDefect, EachIsFoundByItsItem) {
  for (const Defect& defect : all_defects()) {
    SCOPED_TRACE(std::string(defect.item) + ": " + defect.name);
    Stage stage = make_stage();
    if (defect.set) defect.set(stage);
    const Outcome out = outcome_of(stage, items_up_to(defect.item), &defect);
    EXPECT_EQ(out.verdict, Verdict::kFailed) << out.text;
    EXPECT_THAT(out.text, ::testing::HasSubstr(defect.text));
  }
}

TEST_F(SelftestDefect, NoItemIsWithoutOne) {
  std::set<std::string> proven;
  for (const Defect& defect : all_defects()) proven.insert(defect.item);
  for (const Item& item : items()) EXPECT_TRUE(proven.contains(item.name)) << item.name;
}

}  // namespace
}  // namespace modeld::selftest
