// What it is fed with: cameras that stall, go away, lose, repeat, misdate or mismatch frames, offer
// the wrong size or unsafe memory; vehicle inputs that stop, lie or come from another clock.
#include <signal.h>

#include <atomic>
#include <limits>
#include <memory>

#include "ipc/fd_channel.h"
#include "ipc/frame_server.h"

#include "selftest/faults/row.h"
#include "selftest/faults/world.h"

namespace modeld::faults {
namespace {

using ipc::ModelState;
using ipc::Reason;

constexpr ModelState kOut = ModelState::kUnavailable;
constexpr ModelState kIn = ModelState::kReady;
// 150 ms without a frame, the frame period before it, a step.
constexpr int64_t kCameraMs = 250;
// 500 ms, the period of the inputs, a step.
constexpr int64_t kStaleMs = 620;
// What is wrong in itself is seen with the next input.
constexpr int64_t kAtOnceMs = 150;
// From the start: load, a second of grace, then as above.
constexpr int64_t kGraceMs = 2500;
constexpr int64_t kBackMs = 1000;
constexpr size_t kWide = 1;
constexpr int64_t kHourNs = 3600 * kNsPerSecond;

void own_camera(Scene& s) {
  s.own_camera = true;
}
void mend(Scene& s) {
  s.camera().twist({});
}

// A camera that does the same wrong from now on.
template <auto Change>
void twist(Scene& s) {
  s.camera().twist([](Shot& shot) { Change(shot); });
}

// For the next `ticks` only.
void twist_for(Scene& s, int ticks, void (*change)(Shot&)) {
  const auto left = std::make_shared<std::atomic<int>>(ticks);
  s.camera().twist([left, change](Shot& shot) {
    if (left->fetch_sub(1) > 0) change(shot);
  });
}

void lose(Shot& shot) {
  shot.sends.fill(false);
}

void expect_cabin_untouched(Scene& s) {
  for (const auto& t : s.tap().transitions("cabin"))
    if (t.status.state == kOut) s.refuse(t.status, "cabin went out, too");
}

void expect_two_counted(Scene& s) {
  const auto status = s.tap().status("road");
  s.require(status && status->frames_dropped >= 2, "lost frames are not counted");
}

void repeat_one_frame(Scene& s) {
  const auto first = std::make_shared<std::atomic<uint64_t>>(0);
  s.camera().twist([first](Shot& shot) {
    uint64_t none = 0;
    first->compare_exchange_strong(none, shot.id[0]);
    shot.id.fill(*first);
  });
}

void lose_every_tenth(Scene& s) {
  s.camera().twist([](Shot& shot) {
    if (shot.id[0] % 10 == 0) lose(shot);
  });
}

void another_size(Scene& s) {
  s.fault_ns = now_ns();
  s.rig().stop_camera();
  s.rig().start_camera({"--camera", "1928x1208"});
}

void expect_another_worker(Scene& s) {
  s.require_starts("road", 2, "the worker was not replaced");
}

std::unique_ptr<UnsealedCamera> unsealed;

void unsealed_camera(Scene& s) {
  s.options.start_camera = false;
  s.records = false;
  s.options.before_daemon = [](const e2e::Rig& rig) {
    unsealed = std::make_unique<UnsealedCamera>(rig.dir());
  };
  s.at_end([] { unsealed.reset(); });
}

void expect_refusal(Scene& s) {
  s.require(unsealed->refused() > 0, "memory without seals was not refused");
}

std::vector<ipc::FdChannel> crowd;

void all_seats_taken(Scene& s) {
  s.options.before_daemon = [&s](const e2e::Rig& rig) {
    for (uint32_t i = 0; i < ipc::kMaxFrameClients; ++i) {
      const Deadline end = Deadline::in_ms(5000);
      while (!end.has_passed()) {
        auto c = ipc::FdChannel::connect(join_path(rig.dir(), "camera.sock"));
        if (c.ok()) {
          crowd.push_back(std::move(*c));
          break;
        }
        s.pause_ms(10);
      }
    }
    s.require(crowd.size() == ipc::kMaxFrameClients, "the camera takes no clients");
    s.pause_ms(150);  // accepted by the camera
  };
}

constexpr Row twisted(const char* name,
                      const char* source,
                      const char* injected,
                      Reason reason,
                      const char* text,
                      int64_t bound_ms,
                      void (*inject)(Scene&)) {
  return {.name = name,
          .by = By::kWorld,
          .source = source,
          .injected = injected,
          .model = "road",
          .see = See::kState,
          .state = kOut,
          .reason = reason,
          .text = text,
          .bound_ms = bound_ms,
          .back = Back::kRepair,
          .back_ms = kBackMs,
          .gate = Gate::kLeaves,
          .setup = own_camera,
          .inject = inject,
          .repair = mend};
}

constexpr Row from_the_start(const char* name,
                             const char* source,
                             const char* injected,
                             Reason reason,
                             const char* text,
                             void (*setup)(Scene&)) {
  return {.name = name,
          .by = By::kWorld,
          .source = source,
          .injected = injected,
          .model = "road",
          .see = See::kState,
          .state = kOut,
          .reason = reason,
          .text = text,
          .bound_ms = kGraceMs,
          .back = Back::kStays,
          .back_ms = 0,
          .gate = Gate::kNoEntry,
          .setup = setup};
}

constexpr Row harmless(const char* name,
                       const char* source,
                       const char* injected,
                       void (*inject)(Scene&),
                       Gate gate,
                       int64_t watched_ms,
                       void (*verify)(Scene&)) {
  return {.name = name,
          .by = By::kWorld,
          .source = source,
          .injected = injected,
          .model = "road",
          .see = See::kUnaffected,
          .state = kIn,
          .reason = Reason::kNone,
          .text = "",
          .bound_ms = watched_ms,
          .back = Back::kStays,
          .back_ms = 0,
          .gate = gate,
          .setup = own_camera,
          .inject = inject,
          .verify = verify};
}

constexpr Row kRows[] = {
    {.name = "camera-stops",
     .by = By::kWorld,
     .source = "7 #17",
     .injected = "kill -STOP, -CONT",
     .model = "road",
     .see = See::kState,
     .state = kOut,
     .reason = Reason::kCameraFault,
     .text = "no frame for 150 ms",
     .bound_ms = kCameraMs,
     .back = Back::kRepair,
     .back_ms = kBackMs,
     .gate = Gate::kLeaves,
     .inject = [](Scene& s) { s.rig().camera()->signal(SIGSTOP); },
     .repair = [](Scene& s) { s.rig().camera()->signal(SIGCONT); }},
    {.name = "camera-dies",
     .by = By::kWorld,
     .source = "7 #28",
     .injected = "kill -KILL, new one",
     .model = "road",
     .see = See::kState,
     .state = kOut,
     .reason = Reason::kCameraFault,
     .text = "not connected",
     .bound_ms = kCameraMs,
     .back = Back::kRepair,
     .back_ms = 2000,
     .gate = Gate::kLeaves,
     .inject = [](Scene& s) { s.rig().camera()->signal(SIGKILL); },
     .repair =
         [](Scene& s) {
           s.rig().stop_camera();
           s.rig().start_camera();
         }},
    {.name = "camera-gap",
     .by = By::kWorld,
     .source = "7 #31",
     .injected = "five frames lost",
     .model = "road",
     .see = See::kState,
     .state = kOut,
     .reason = Reason::kCameraFault,
     .text = "no frame for 150 ms",
     .bound_ms = kCameraMs,
     .back = Back::kItself,
     .back_ms = kBackMs,
     .gate = Gate::kLeaves,
     .setup = own_camera,
     .inject = [](Scene& s) { twist_for(s, 5, lose); }},
    harmless(
        "camera-loses-two",
        "1.3",
        "two frames lost",
        [](Scene& s) { twist_for(s, 2, lose); },
        Gate::kStays,
        1500,
        expect_two_counted),
    harmless("camera-loses-often",
             "1.3, 5.1",
             "every tenth frame lost: over 1 %",
             lose_every_tenth,
             Gate::kSoft,
             2500,
             expect_two_counted),
    harmless(
        "camera-repeats-once",
        "7 #30",
        "one frame twice",
        [](Scene& s) {
          twist_for(s, 1, [](Shot& shot) {
            for (auto& id : shot.id) --id;
          });
        },
        Gate::kStays,
        1500,
        nullptr),
    twisted("camera-repeats",
            "7 #30",
            "one frame id for ever",
            Reason::kCameraFault,
            "came again or out of order",
            kCameraMs,
            repeat_one_frame),
    twisted("camera-ids-go-back",
            "7 #30 #31",
            "ids of long ago",
            Reason::kCameraFault,
            "came again or out of order",
            kCameraMs,
            twist<[](Shot& shot) {
              for (auto& id : shot.id) id %= 5;
            }>),
    twisted("camera-frames-old",
            "7 #7 #31",
            "frames begun 400 ms ago",
            Reason::kCameraFault,
            "ms ago",
            kCameraMs,
            twist<[](Shot& shot) {
              for (auto& t : shot.sof_ns) t -= 400 * kNsPerMs;
            }>),
    twisted("camera-frames-ahead",
            "5",
            "frames dated an hour ahead",
            Reason::kCameraFault,
            "from now",
            kCameraMs,
            twist<[](Shot& shot) {
              for (auto& t : shot.sof_ns) t += kHourNs;
            }>),
    {.name = "streams-apart",
     .by = By::kWorld,
     .source = "1.3, 7 #31",
     .injected = "wide frames begun 25 ms before road's",
     .model = "road",
     .see = See::kState,
     .state = kOut,
     .reason = Reason::kCameraFault,
     .text = "25 ms apart",
     .bound_ms = kCameraMs,
     .back = Back::kRepair,
     .back_ms = kBackMs,
     .gate = Gate::kLeaves,
     .setup = own_camera,
     .inject = twist<[](Shot& shot) { shot.sof_ns[kWide] -= 25 * kNsPerMs; }>,
     .repair = mend,
     .verify = expect_cabin_untouched},
    {.name = "wide-stops",
     .by = By::kWorld,
     .source = "1.3, 7 #28",
     .injected = "no frame of the wide stream",
     .model = "road",
     .see = See::kState,
     .state = kOut,
     .reason = Reason::kCameraFault,
     .text = "no partner",
     .bound_ms = kCameraMs,
     .back = Back::kRepair,
     .back_ms = kBackMs,
     .gate = Gate::kLeaves,
     .setup = own_camera,
     .inject = twist<[](Shot& shot) { shot.sends[kWide] = false; }>,
     .repair = mend,
     .verify = expect_cabin_untouched},
    from_the_start("wide-missing",
                   "7 #28",
                   "a camera without the wide stream",
                   Reason::kCameraFault,
                   "every stream",
                   [](Scene& s) {
                     s.options.camera.insert(s.options.camera.end(), {"--streams", "road,cabin"});
                   }),
    from_the_start("camera-wrong-size",
                   "5",
                   "pictures of 640x480",
                   Reason::kCameraFault,
                   "no warp for road pictures of 640x480",
                   [](Scene& s) {
                     s.options.camera = {"--camera", "640x480"};
                   }),
    {.name = "camera-size-changes",
     .by = By::kWorld,
     .source = "6",
     .injected = "another camera of another known size",
     .model = "road",
     .see = See::kState,
     .state = kOut,
     .reason = Reason::kCameraFault,
     .text = "",
     .bound_ms = kCameraMs,
     .back = Back::kItself,
     .back_ms = 5000,
     .gate = Gate::kLeaves,
     .setup = [](Scene& x) { x.records = false; },  // one recording, one camera
     .inject = another_size,
     .verify = expect_another_worker},
    {.name = "camera-unsealed",
     .by = By::kWorld,
     .source = "6, 7 #29",
     .injected = "picture memory nobody sealed",
     .model = "road",
     .see = See::kState,
     .state = kOut,
     .reason = Reason::kCameraFault,
     .text = "not connected",
     .bound_ms = kGraceMs,
     .back = Back::kStays,
     .back_ms = 0,
     .gate = Gate::kNoEntry,
     .setup = unsealed_camera,
     .verify = expect_refusal},
    {.name = "camera-full",
     .by = By::kWorld,
     .source = "7 #7",
     .injected = "four other clients took every seat",
     .model = "road",
     .see = See::kState,
     .state = kOut,
     .reason = Reason::kCameraFault,
     .text = "not connected",
     .bound_ms = kGraceMs,
     .back = Back::kRepair,
     .back_ms = kBackMs,
     .gate = Gate::kNoEntry,
     .setup = all_seats_taken,
     .repair = [](Scene&) { crowd.clear(); }},
    twisted("vehicle-silent",
            "6",
            "no vehicle input any more",
            Reason::kInputStale,
            "no vehicle input for 0.5 s",
            kStaleMs,
            twist<[](Shot& shot) { shot.sends_vehicle = false; }>),
    twisted("vehicle-uncalibrated",
            "6",
            "calibration unknown",
            Reason::kInputStale,
            "calibration unknown",
            kAtOnceMs,
            twist<[](Shot& shot) { shot.vehicle.calibration_known = false; }>),
    twisted("vehicle-nan",
            "7 #29",
            "a NaN in the calibration",
            Reason::kInputStale,
            "",
            kAtOnceMs,
            twist<[](Shot& shot) {
              shot.vehicle.rpy_calibration[1] = std::numeric_limits<float>::quiet_NaN();
            }>),
    twisted("vehicle-inputs-old",
            "6",
            "dated an hour ago",
            Reason::kInputStale,
            "no vehicle input for 0.5 s",
            kAtOnceMs,
            twist<[](Shot& shot) { shot.vehicle.time_ns -= kHourNs; }>),
    twisted("vehicle-inputs-ahead",
            "6",
            "dated an hour ahead",
            Reason::kInputStale,
            "future",
            kAtOnceMs,
            twist<[](Shot& shot) { shot.vehicle.time_ns += kHourNs; }>),
    from_the_start("vehicle-never",
                   "6",
                   "nobody tells of the vehicle",
                   Reason::kInputStale,
                   "no vehicle input yet",
                   [](Scene& s) {
                     s.options.camera.insert(s.options.camera.end(), {"--vehicle", "off"});
                     s.records = false;
                   }),
    from_the_start("clock-ahead",
                   "6",
                   "modeld's clock an hour ahead (time namespace)",
                   Reason::kInputStale,
                   "no vehicle input for 0.5 s",
                   [](Scene& s) {
                     s.options.before_daemon = [&s](const e2e::Rig&) { shift_clock(s, 3600); };
                   }),
    from_the_start(
        "clock-behind",
        "6",
        "modeld's clock a minute behind (time namespace)",
        Reason::kInputStale,
        "future",
        [](Scene& s) { s.options.before_daemon = [&s](const e2e::Rig&) { shift_clock(s, -60); }; }),
};

}  // namespace

std::span<const Row> input_rows() {
  return kRows;
}

}  // namespace modeld::faults
