// What the running daemon tells of itself: counters, the trace of the last seconds, the record of a
// failure, the journal.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <set>

#include "hal/base/unique_fd.h"

#include "ipc/text_server.h"

#include "selftest/e2e/harness.h"
#include "selftest/testing/prometheus_parser.h"

namespace modeld::e2e {
namespace {

using ipc::ModelState;
using testing_prometheus::Families;

constexpr int64_t kLoadMs = 60'000;

RigOptions tiny_pair() {
  RigOptions o;
  o.bundles = {{"road", tiny_bundle("road")}, {"cabin", tiny_bundle("cabin")}};
  return o;
}

void expect_valid_outputs(Rig& rig, size_t count) {
  for (const char* model : {"road", "cabin"}) {
    const auto enough = [&] { return valid_ones(rig.tap().outputs(model)).size() >= count; };
    ASSERT_TRUE(rig.tap().wait_for(enough, kLoadMs)) << model;
  }
}

// The last frame but three that both models answered; a busy machine loses some.
int64_t common_frame(const Rig& rig_const) {
  Tap& tap = const_cast<Rig&>(rig_const).tap();
  std::set<uint64_t> of_road, of_both;
  for (const Output& o : valid_ones(tap.outputs("road"))) of_road.insert(o.frame_id);
  for (const Output& o : valid_ones(tap.outputs("cabin"))) {
    if (of_road.contains(o.frame_id)) of_both.insert(o.frame_id);
  }
  return of_both.size() < 4 ? -1 : static_cast<int64_t>(*std::prev(of_both.end(), 4));
}

// ---- counters ----

Families parse_metrics(const std::string& text) {
  const auto parsed = testing_prometheus::parse(text);
  EXPECT_TRUE(parsed.ok()) << parsed.error().what;
  return parsed.ok() ? *parsed : Families();
}

double accepted(const Families& f, const std::string& model) {
  const auto at = f.find("modeld_frames_accepted_total");
  if (at == f.end()) return -1;
  return at->second.samples.at("modeld_frames_accepted_total{model=" + model + "}");
}

TEST(Metrics, FileSocketAndClientTellTheSameAndNeverFall) {
  Rig rig(tiny_pair());
  expect_valid_outputs(rig, 30);
  const std::string file = join_path(rig.dir(), "metrics.prom");
  const auto socket = [&] {
    const auto text =
        ipc::read_text_socket(rig.dir(), ipc::kMetricsSocket, Deadline::in_ms(kLoadMs));
    EXPECT_TRUE(text.ok()) << text.error().what;
    return parse_metrics(text.ok() ? *text : "");
  };
  Families before = socket();
  for (const char* model : {"road", "cabin"}) EXPECT_GE(accepted(before, model), 20);
  ASSERT_TRUE(rig.tap().wait_for([&] { return file_exists(file); }, kLoadMs));
  // Read while it is replaced once a second: every time a whole one.
  std::set<std::string> versions;
  rig.tap().wait_for(
      [&] {
        const auto text = read_text(file);
        EXPECT_TRUE(text.ok()) << text.error().what;
        if (text.ok() && versions.insert(*text).second) parse_metrics(*text);
        return versions.size() >= 3;
      },
      kLoadMs);
  EXPECT_GE(versions.size(), 3u);
  const ProcResult text = rig.ctl({"metrics"});
  ASSERT_EQ(text.exit_code, 0) << text.err;
  const Families after = parse_metrics(text.out);
  EXPECT_EQ(testing_prometheus::first_fallen(before, after), "");
  EXPECT_GT(accepted(after, "road"), accepted(before, "road"));
  const ProcResult json = rig.ctl({"metrics", "--json"});
  EXPECT_EQ(json.exit_code, 0) << json.err;
}

// A pipe in place of the file's next text stands for a disk that does not answer.
TEST(Metrics, ADiskThatDoesNotAnswerStopsNoFrame) {
  RigOptions options = tiny_pair();
  std::string pipe;
  options.before_daemon = [&](const Rig& rig) {
    pipe = join_path(rig.dir(), "metrics.prom.new");
    EXPECT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  };
  Rig rig(options);
  expect_valid_outputs(rig, 60);  // three seconds: three texts came to be written
  EXPECT_FALSE(file_exists(join_path(rig.dir(), "metrics.prom")));
  const auto text = ipc::read_text_socket(rig.dir(), ipc::kMetricsSocket, Deadline::in_ms(kLoadMs));
  ASSERT_TRUE(text.ok()) << text.error().what;
  const Families f = parse_metrics(*text);
  const auto outcomes = f.find("modeld_metrics_file_total");
  ASSERT_NE(outcomes, f.end());
  EXPECT_EQ(outcomes->second.samples.at("modeld_metrics_file_total{outcome=written}"), 0);
  EXPECT_GE(outcomes->second.samples.at("modeld_metrics_file_total{outcome=dropped}"), 1);
  // The disk is back: its writer ends, and so can the daemon.
  const UniqueFd disk(open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  EXPECT_TRUE(disk.is_open());
  EXPECT_TRUE(rig.tap().wait_for([&] { return file_exists(join_path(rig.dir(), "metrics.prom")); },
                                 kLoadMs));
}

// ---- trace ----

struct Zone {
  std::string name;
  int64_t pid = 0;
  double begin_us = 0, end_us = 0;
};

// Zones of one model's frame; those that carry no frame of their own belong to the one they lie in.
std::vector<Zone> zones_of(const Json& trace, const std::string& of, int64_t frame) {
  std::vector<Zone> out;
  struct Open {
    Zone zone;
    bool is_wanted = false;
  };
  std::map<std::pair<int64_t, int64_t>, std::vector<Open>> open;  // by process and thread
  for (const Json& e : trace.find("traceEvents")->items()) {
    const std::string phase = e.find("ph")->string_or("");
    if (phase != "B" && phase != "E") continue;
    auto& stack = open[{e.find("pid")->int_or(0), e.find("tid")->int_or(0)}];
    if (phase == "B") {
      const Json* args = e.find("args");
      const Json* tag = args->find("of");
      const bool is_wanted =
          tag != nullptr && tag->string_or("") == of && args->find("frame")->int_or(-1) == frame;
      stack.push_back(
          {{e.find("name")->string_or(""), e.find("pid")->int_or(0), e.find("ts")->double_or(0), 0},
           is_wanted});
      continue;
    }
    // A ring begins anywhere: ends without their begin come first.
    if (stack.empty()) continue;
    stack.back().zone.end_us = e.find("ts")->double_or(0);
    if (stack.back().is_wanted) out.push_back(stack.back().zone);
    stack.pop_back();
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Zone& a, const Zone& b) { return a.begin_us < b.begin_us; });
  return out;
}

std::vector<std::string> names_of(const std::vector<Zone>& zones) {
  std::vector<std::string> out;
  for (const Zone& z : zones) out.push_back(z.name);
  return out;
}

Json take_trace(Rig& rig) {
  const std::string file = rig.file("trace.json");
  const ProcResult trace = rig.ctl({"trace", file});
  EXPECT_EQ(trace.exit_code, 0) << trace.err;
  const auto text = read_text(file, uint64_t{256} << 20);
  EXPECT_TRUE(text.ok()) << text.error().what;
  auto json = Json::parse(text.ok() ? *text : "{}");
  EXPECT_TRUE(json.ok()) << json.error().what;
  return json.ok() ? std::move(*json) : Json();
}

// The walk of daemon/README.md, in its order.
const std::vector<std::string> kWalk = {
    "keep",  "match",  "hand_over", "run_job",   "fill_inputs", "stage",         "run",
    "check", "commit", "answer",    "on_answer", "parse",       "build_message", "send"};

TEST(Trace, HoldsEveryStepOfAFrameOfBothProcessesInOrder) {
  Rig rig(tiny_pair());
  expect_valid_outputs(rig, 40);
  ASSERT_TRUE(rig.tap().wait_for([&] { return common_frame(rig) >= 0; }, kLoadMs));
  const int64_t frame = common_frame(rig);
  const Json trace = take_trace(rig);
  for (const char* model : {"road", "cabin"}) {
    const std::vector<Zone> zones = zones_of(trace, model, frame);
    EXPECT_EQ(names_of(zones), kWalk) << model << " frame " << frame;
    std::set<int64_t> pids;
    for (size_t i = 0; i < zones.size(); ++i) {
      pids.insert(zones[i].pid);
      EXPECT_GE(zones[i].end_us, zones[i].begin_us) << zones[i].name;
      const bool is_far = i >= 3 && i <= 9;
      EXPECT_EQ(zones[i].pid, is_far ? rig.worker_pid(model) : rig.daemon().pid()) << zones[i].name;
    }
    EXPECT_EQ(pids.size(), 2u);
    // No kernel was asked for.
    for (const Json& e : trace.find("traceEvents")->items())
      EXPECT_NE(e.find("name")->string_or("").rfind("E_", 0), 0u);
  }
  // The watchdog hears of the step that sent.
  const auto& events = trace.find("traceEvents")->items();
  EXPECT_TRUE(std::any_of(events.begin(), events.end(), [](const Json& e) {
    return e.find("name")->string_or("") == "progress";
  }));
}

// Kernels cost two clock reads each: only whoever asks gets them.
TEST(Trace, ShowsKernelsWhenAskedTo) {
  RigOptions options = tiny_pair();
  options.env.push_back("MODELD_TRACE=" + join_path(scratch_dir(), "daemon-trace.json"));
  Rig rig(options);
  expect_valid_outputs(rig, 20);
  const ProcResult info = modelc({"info", tiny_bundle("cabin"), "--json"});
  ASSERT_EQ(info.exit_code, 0) << info.err;
  const Json trace = take_trace(rig);
  const int64_t worker = rig.worker_pid("cabin");
  std::set<std::string> in_worker;
  for (const Json& e : trace.find("traceEvents")->items()) {
    if (e.find("pid")->int_or(0) == worker && e.find("ph")->string_or("") == "B")
      in_worker.insert(e.find("name")->string_or(""));
  }
  size_t kernels = 0;
  for (const std::string& name : in_worker) {
    const bool is_ours = std::find(kWalk.begin(), kWalk.end(), name) != kWalk.end() ||
                         name == "cpu_run" || name == "capture";
    if (!is_ours) kernels += info.out.find('"' + name) != std::string::npos ? 1 : 0;
  }
  EXPECT_GE(kernels, 3u) << "kernels of the bundle by their names";
}

}  // namespace
}  // namespace modeld::e2e
