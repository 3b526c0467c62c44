// soak: supervisor, workers and publisher as fast as they go, for as many frames as wanted: what
// grows with the frames is found. The real modeld with its workers; the camera is this program,
// which shows the next frame as soon as both models have answered the last one.
// Contract: resident memory (own and shared), descriptors and threads of supervisor and workers are
// taken at 1 %, 50 % and 100 % of the frames; more than 64 KiB or one descriptor or thread between
// the first and the last is a finding (exit 1). So is a worker that was replaced, or a model that
// was UNAVAILABLE after it was READY (but for want of frames): figures of a fresh process say
// nothing. A frame that the daemon had no time to look at while it was fresh (a pause of this
// machine) is dropped by contract: the next one is shown, and how many that were is printed; more
// than one in a thousand is a finding. --self-proof: what leaks memory, descriptors or threads, and
// a worker killed on the way, must be found. Exit 2: a bad option.
#include <limits.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <map>

#include "hal/base/env.h"
#include "hal/base/text.h"

#include "ipc/frame_server.h"
#include "ipc/frame_source.h"
#include "ipc/publisher.h"
#include "ipc/tools/feed.h"

#include "selftest/e2e/harness.h"

namespace modeld::faults {
namespace {

using ipc::StreamId;

constexpr const char* kSource =
    "synth;seed=1;vehicle=straight;fps=20;road=1344x760;wide=1344x760;cabin=1344x760";
constexpr int64_t kVehicleNs = 50 * kNsPerMs;
constexpr int64_t kAnswerMs = 60'000;
constexpr int64_t kNextFrameMs = 1000;  // long after a frame is too old to be run
constexpr uint64_t kFramesPerLostOne = 1000;
constexpr int64_t kWarmNs = 3 * kNsPerSecond;
constexpr int64_t kGrowthBytes = 64 * 1024;

// ---- the camera: pictures are drawn once per slot, shown as often as asked ----

class QuickCamera {
 public:
  static Result<std::unique_ptr<QuickCamera>> create(const std::string& dir) {
    std::unique_ptr<QuickCamera> c(new QuickCamera());
    ASSIGN_OR_RETURN(const ipc::SourceSpec spec, ipc::parse_source(kSource));
    ASSIGN_OR_RETURN(c->source_, ipc::FrameSource::open(spec));
    ipc::Handshake h;
    h.source = kSource;
    for (int i = 0; i < ipc::kStreamCount; ++i) {
      h.streams[i] = *c->source_->stream(static_cast<StreamId>(i));
      h.streams[i].slots = ipc::kDefaultSlots;
    }
    h.stream_count = ipc::kStreamCount;
    ASSIGN_OR_RETURN(c->server_, ipc::FrameServer::create(dir, join_path(dir, "camera.sock"), h));
    ASSIGN_OR_RETURN(c->sender_, ipc::bind_topic(c->context_, dir, ipc::Topic::kVehicle));
    c->vehicle_ = std::make_unique<ipc::Publisher>(*c->sender_);
    return c;
  }

  void service() {
    server_->service();
    const int64_t now = now_ns();
    if (now < next_vehicle_ns_) return;
    next_vehicle_ns_ = now + kVehicleNs;
    message_.inputs = *source_->vehicle(frame_id_);
    message_.inputs.time_ns = now;
    message_.header.valid = true;
    (void)!vehicle_->publish(message_).ok();
  }

  Status show() {
    service();
    ++frame_id_;
    const int64_t now = now_ns();
    for (int i = 0; i < ipc::kStreamCount; ++i) {
      const auto stream = static_cast<StreamId>(i);
      const auto to = server_->begin_frame(stream);
      if (!to) return fail(Errc::kBusy, "soak: no slot is free, frames do not come back");
      if (!drawn_[i][to->slot]) RETURN_IF_ERROR(source_->draw(stream, to->slot, to->pixels));
      drawn_[i][to->slot] = true;
      server_->publish({stream, to->slot, frame_id_, now, now});
    }
    return {};
  }
  uint64_t frame_id() const { return frame_id_; }

 private:
  QuickCamera() = default;
  std::unique_ptr<ipc::FrameSource> source_;
  std::unique_ptr<ipc::FrameServer> server_;
  ipc::ZmqContext context_;
  std::unique_ptr<ipc::Sender> sender_;
  std::unique_ptr<ipc::Publisher> vehicle_;
  ipc::VehicleMessage message_;
  std::array<std::array<bool, ipc::kMaxSlotsPerStream>, ipc::kStreamCount> drawn_{};
  int64_t next_vehicle_ns_ = 0;
  uint64_t frame_id_ = 0;
};

// ---- what a process holds ----

struct Holding {
  std::string name;
  int pid = 0;
  int64_t resident_bytes = 0;
  int64_t file_bytes = 0;
  int64_t fds = 0;
  int64_t threads = 0;
};

// Bytes of a line "Name:   123 kB" of /proc/PID/status.
int64_t status_bytes(const std::string& status, const std::string& name) {
  const size_t at = status.find(name + ":");
  return at == std::string::npos ? 0 : std::atoll(status.c_str() + at + name.size() + 1) * 1024;
}

// Without metrics.prom's next text: its writer has it open for a moment once a second.
int64_t open_files(const std::string& dir) {
  int64_t count = 0;
  const auto names = list_dir(dir);
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
    char target[PATH_MAX];
    const ssize_t n = readlink(join_path(dir, name).c_str(), target, sizeof target);
    const std::string_view file(target, static_cast<size_t>(std::max<ssize_t>(n, 0)));
    if (n > 0 && file.find("metrics.prom") == std::string_view::npos) ++count;
  }
  return count;
}

// Resident memory that only the process can give back: its own and shared. Pages of files (code,
// weights) come and go as the system likes: on a program just linked they arrive late.
Holding holding_of(const std::string& name, int pid) {
  const std::string proc = "/proc/" + std::to_string(pid);
  Holding h;
  h.name = name;
  h.pid = pid;
  const std::string status = e2e::proc_text(proc + "/status");
  h.resident_bytes = status_bytes(status, "RssAnon") + status_bytes(status, "RssShmem");
  h.file_bytes = status_bytes(status, "RssFile");
  h.fds = open_files(proc + "/fd");
  const auto threads = list_dir(proc + "/task");
  h.threads = threads.ok() ? static_cast<int64_t>(threads->size()) : 0;
  return h;
}

// ---- one soak ----

struct Plan {
  std::string size;
  uint64_t frames = 0;
  std::string defect;
  uint64_t kill_at = 0;  // road's worker is killed from outside after so many frames; 0: never
};

class Soak {
 public:
  explicit Soak(const Plan& plan) : plan_(plan) {
    e2e::RigOptions o;
    for (const char* role : {"road", "cabin"})
      o.bundles[role] = e2e::standin_bundle(role, plan.size);
    o.start_camera = false;
    o.keeps_messages = false;
    o.publish_raw = false;
    if (!plan.defect.empty()) {
      o.daemon_program = "modeld_defect_probe";
      o.env = {"MODELD_FAULT=defect=" + plan.defect};
    }
    rig_ = std::make_unique<e2e::Rig>(o);
  }

  // The findings.
  Result<std::vector<std::string>> run() {
    ASSIGN_OR_RETURN(camera_, QuickCamera::create(rig_->dir()));
    ASSIGN_OR_RETURN(feed_, ipc::Feed::open(rig_->dir()));
    RETURN_IF_ERROR(start());
    const std::array<uint64_t, 3> marks = {std::max<uint64_t>(plan_.frames / 100, 1),
                                           plan_.frames / 2, plan_.frames};
    const int64_t begin = now_ns();
    for (uint64_t done = 0; done < plan_.frames;) {
      RETURN_IF_ERROR(one_frame());
      ++done;
      if (done == plan_.kill_at) kill_road_worker();
      for (size_t m = 0; m < marks.size(); ++m) {
        if (done == marks[m]) take(m);
      }
    }
    seconds_ = static_cast<double>(now_ns() - begin) / 1e9;
    RETURN_IF_ERROR(hear_last_state());
    return judge();
  }
  double seconds() const { return seconds_; }

 private:
  void kill_road_worker() const {
    const int pid = rig_->worker_pid("road");
    if (pid > 0) kill(pid, SIGKILL);
  }

  // Shows frames until both models have answered the same one, or a newer.
  Status one_frame() {
    const Deadline end = Deadline::in_ms(kAnswerMs);
    while (true) {
      RETURN_IF_ERROR(camera_->show());
      shown_id_ = camera_->frame_id();
      RETURN_IF_ERROR(wait_for_answers());
      if (is_answered()) return {};
      ++lost_;
      if (end.has_passed())
        return fail(Errc::kTimeout, strf("soak: frame %llu of %s was not answered (%s)",
                                         static_cast<unsigned long long>(shown_id_),
                                         plan_.size.c_str(), last_trouble_.c_str()));
    }
  }
  bool is_answered() const { return road_answered_ >= shown_id_ && cabin_answered_ >= shown_id_; }

  // Of the frame shown last, from both models; for a while.
  Status wait_for_answers() {
    const ipc::Feed::Handlers handlers{[&](const ipc::StateMessage& m) { hear(m); },
                                       [&](const ipc::RoadMessage& m) {
                                         road_answered_ = std::max(road_answered_, m.road_frame_id);
                                       },
                                       [&](const ipc::CabinMessage& m) {
                                         cabin_answered_ =
                                             std::max(cabin_answered_, m.cabin_frame_id);
                                       }};
    const Deadline end = Deadline::in_ms(kNextFrameMs);
    while (!end.has_passed() && !is_answered()) {
      RETURN_IF_ERROR(feed_->pump(Deadline::in_ms(20), handlers));
      camera_->service();
    }
    return {};
  }

  // What the daemon says of its models, above all of one that does not run.
  void hear(const ipc::StateMessage& message) {
    state_ns_ = message.header.time_ns;
    for (const ipc::ModelStatus& m : message.models) {
      Heard& h = heard_[m.name];
      h.worker_starts = m.worker_starts;
      h.was_ready = h.was_ready || m.state == ipc::ModelState::kReady;
      if (m.state != ipc::ModelState::kUnavailable) continue;
      last_trouble_ = m.name + ": " + ipc::reason_name(m.reason) + ": " + m.text;
      if (h.was_ready && !e2e::is_of_the_machine(m.reason) && h.outage.empty())
        h.outage = last_trouble_;
    }
  }

  // One more state message than the frames needed: it tells what the last of them did.
  Status hear_last_state() {
    const int64_t end_ns = now_ns();
    const ipc::Feed::Handlers handlers{[&](const ipc::StateMessage& m) { hear(m); },
                                       [](const ipc::RoadMessage&) {},
                                       [](const ipc::CabinMessage&) {}};
    const Deadline end = Deadline::in_ms(kAnswerMs);
    while (state_ns_ <= end_ns) {
      if (end.has_passed()) return fail(Errc::kTimeout, "soak: no state message at the end");
      RETURN_IF_ERROR(feed_->pump(Deadline::in_ms(20), handlers));
      camera_->service();
    }
    return {};
  }

  // Until both models run and what happens once a second has happened: frames at a camera's pace.
  Status start() {
    bool road = false, cabin = false;
    const ipc::Feed::Handlers handlers{
        [&](const ipc::StateMessage& m) { hear(m); },
        [&](const ipc::RoadMessage& m) { road = road || m.header.valid; },
        [&](const ipc::CabinMessage& m) { cabin = cabin || m.header.valid; }};
    const Deadline end = Deadline::in_ms(kAnswerMs);
    int64_t next = 0;
    const int64_t warm_ns = now_ns() + kWarmNs;
    while (!(road && cabin) || now_ns() < warm_ns) {
      if (end.has_passed()) return fail(Errc::kTimeout, "soak: the models do not get READY");
      RETURN_IF_ERROR(feed_->pump(Deadline::in_ms(5), handlers));
      camera_->service();
      if (now_ns() < next) continue;
      next = now_ns() + kVehicleNs;
      RETURN_IF_ERROR(camera_->show());
    }
    return {};
  }

  void take(size_t mark) {
    held_[mark] = {holding_of("supervisor", rig_->daemon().pid()),
                   holding_of("road worker", rig_->worker_pid("road")),
                   holding_of("cabin worker", rig_->worker_pid("cabin"))};
  }

  std::vector<std::string> judge() const {
    std::vector<std::string> findings;
    for (size_t p = 0; p < held_[0].size(); ++p) {
      print_holdings(p);
      judge_process(p, findings);
    }
    for (const auto& [model, h] : heard_) {
      if (h.worker_starts != 1)
        findings.push_back(strf("%s had %llu workers", model.c_str(),
                                static_cast<unsigned long long>(h.worker_starts)));
      if (!h.outage.empty()) findings.push_back("UNAVAILABLE on the way: " + h.outage);
    }
    if (lost_ > 0)
      std::printf("%-6s %llu frames shown were not run, last trouble: %s\n", plan_.size.c_str(),
                  static_cast<unsigned long long>(lost_), last_trouble_.c_str());
    if (lost_ * kFramesPerLostOne > plan_.frames + kFramesPerLostOne)
      findings.push_back(strf("%llu frames were not run", static_cast<unsigned long long>(lost_)));
    return findings;
  }

  void print_holdings(size_t process) const {
    std::array<std::string, 3> texts;
    for (size_t m = 0; m < held_.size(); ++m) {
      const Holding& h = held_[m][process];
      texts[m] = strf("%lld KiB (+%lld of files) %lld fds %lld threads",
                      static_cast<long long>(h.resident_bytes / 1024),
                      static_cast<long long>(h.file_bytes / 1024), static_cast<long long>(h.fds),
                      static_cast<long long>(h.threads));
    }
    std::printf("%-6s %-12s  1 %%: %s   50 %%: %s   100 %%: %s\n", plan_.size.c_str(),
                held_[0][process].name.c_str(), texts[0].c_str(), texts[1].c_str(),
                texts[2].c_str());
  }

  void judge_process(size_t process, std::vector<std::string>& findings) const {
    const Holding& first = held_.front()[process];
    const Holding& last = held_.back()[process];
    for (const auto& mark : held_) {
      if (mark[process].resident_bytes == 0)
        findings.push_back(first.name + " was not there all the time");
    }
    if (held_[1][process].pid != first.pid || last.pid != first.pid)
      findings.push_back(strf("%s was replaced: pids %d, %d, %d", first.name.c_str(), first.pid,
                              held_[1][process].pid, last.pid));
    const int64_t grown = last.resident_bytes - first.resident_bytes;
    if (grown > kGrowthBytes)
      findings.push_back(
          strf("%s grew by %lld KiB", first.name.c_str(), static_cast<long long>(grown / 1024)));
    if (last.fds > first.fds)
      findings.push_back(strf("%s holds %lld descriptors more", first.name.c_str(),
                              static_cast<long long>(last.fds - first.fds)));
    if (last.threads > first.threads)
      findings.push_back(strf("%s has %lld threads more", first.name.c_str(),
                              static_cast<long long>(last.threads - first.threads)));
  }

  // What the state messages said of one model.
  struct Heard {
    bool was_ready = false;
    uint64_t worker_starts = 0;
    std::string outage;  // the first one after READY that is not of the machine
  };

  Plan plan_;
  std::map<std::string, Heard> heard_;
  int64_t state_ns_ = 0;  // of the last state message
  uint64_t shown_id_ = 0, road_answered_ = 0, cabin_answered_ = 0;
  uint64_t lost_ = 0;  // frames shown that one of the models did not run
  std::string last_trouble_ = "no model was UNAVAILABLE";
  std::unique_ptr<e2e::Rig> rig_;
  std::unique_ptr<QuickCamera> camera_;
  std::unique_ptr<ipc::Feed> feed_;
  std::array<std::vector<Holding>, 3> held_;
  double seconds_ = 0;
};

// Findings of a plan; an error is one, too.
std::vector<std::string> soak(const Plan& plan, double& seconds) {
  Soak s(plan);
  const auto findings = s.run();
  seconds = s.seconds();
  if (!findings.ok()) return {findings.error().what};
  return *findings;
}

int run_plans(const std::vector<Plan>& plans) {
  size_t found = 0;
  std::string figures;
  for (const Plan& plan : plans) {
    if (plan.frames == 0) continue;
    double seconds = 0;
    for (const std::string& f : soak(plan, seconds)) {
      std::printf("FINDING: %s\n", f.c_str());
      ++found;
    }
    figures += strf("%llu frames of %s in %.1f s, ", static_cast<unsigned long long>(plan.frames),
                    plan.size.c_str(), seconds);
  }
  std::printf("soak: %s%zu findings (limit 64 KiB, no descriptor, no thread)\n", figures.c_str(),
              found);
  return found == 0 ? 0 : 1;
}

// A plan with a defect, and every finding it must give. None leaks descriptors in a worker: the
// sandbox refuses it dup().
struct Proof {
  const char* name;
  Plan plan;
  std::vector<std::string> findings;
};

std::vector<Proof> proofs() {
  constexpr uint64_t kFrames = 2000;
  const auto leak = [](const char* defect, const char* finding) {
    return Proof{defect, {"tiny", kFrames, defect}, {finding}};
  };
  return {leak("leaks-memory", "supervisor grew"),
          leak("leaks-descriptors", "supervisor holds"),
          leak("worker-leaks-memory", "road worker grew"),
          leak("worker-leaks-threads", "road worker has"),
          {"worker-killed",
           {"tiny", kFrames, "", kFrames / 4},
           {"road worker was replaced", "road had 2 workers", "UNAVAILABLE on the way: road"}}};
}

bool is_found(const Proof& proof) {
  double seconds = 0;
  const auto findings = soak(proof.plan, seconds);
  for (const std::string& f : findings) std::printf("%s: %s\n", proof.name, f.c_str());
  return std::all_of(proof.findings.begin(), proof.findings.end(), [&](const std::string& want) {
    return std::any_of(findings.begin(), findings.end(),
                       [&](const std::string& f) { return f.find(want) != std::string::npos; });
  });
}

int run_proofs() {
  const auto all = proofs();
  const auto found = static_cast<size_t>(std::count_if(all.begin(), all.end(), is_found));
  std::printf("soak: %zu of %zu deliberate defects found\n", found, all.size());
  return found == all.size() ? 0 : 1;
}

}  // namespace
}  // namespace modeld::faults

int main(int argc, char** argv) {
  CLI::App app("Frames without pause: what grows with them is found");
  uint64_t replays = 1'000'000, small = 20'000;
  bool self_proof = false;
  app.add_option("--replays", replays, "frames of the tiny models")->capture_default_str();
  app.add_option("--small", small, "then frames of the small models")->capture_default_str();
  app.add_flag("--self-proof", self_proof, "deliberate defects, each must be found");
  app.footer(modeld::env_help());
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  using modeld::faults::Plan;
  if (self_proof) return modeld::faults::run_proofs();
  return modeld::faults::run_plans({Plan{"tiny", replays, ""}, Plan{"small", small, ""}});
}
