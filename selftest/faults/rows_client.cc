// Who listens: subscribers that do not read, clients that say nothing, sockets that vanish. None of
// it may be felt by a model or by another client.
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "hal/base/text.h"
#include "hal/base/unique_fd.h"

#include "selftest/faults/row.h"
#include "selftest/faults/world.h"

namespace modeld::faults {
namespace {

using ipc::ModelState;
using ipc::Reason;

constexpr int64_t kMostGrowth = int64_t{8} << 20;

std::unique_ptr<e2e::Child> sleeper;
int64_t resident_before = 0;

void stop_a_subscriber(Scene& s) {
  sleeper = s.rig().ctl_child({"watch", "--seconds", "600", "--wait", "600"}, "watch.log");
  s.at_end([] { sleeper.reset(); });
  s.pause_ms(500);
  sleeper->signal(SIGSTOP);
  resident_before = resident_bytes(s.rig().daemon().pid());
}

void expect_no_growth(Scene& s) {
  const int64_t grown = resident_bytes(s.rig().daemon().pid()) - resident_before;
  s.require(grown < kMostGrowth,
            strf("the daemon grew by %lld bytes", static_cast<long long>(grown)));
}

std::vector<UniqueFd> mute;

// Connections to control.sock that never ask.
void mute_clients(Scene& s) {
  const std::string path = join_path(s.rig().dir(), "control.sock");
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  std::strncpy(at.sun_path, path.c_str(), sizeof at.sun_path - 1);
  for (int i = 0; i < 20; ++i) {
    UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0)
      mute.push_back(std::move(fd));
  }
  s.at_end([] { mute.clear(); });
  s.require(!mute.empty(), "nobody listens at control.sock");
}

void expect_an_answer(Scene& s) {
  const ProcResult r = s.rig().ctl({"status", "--json"});
  s.require(r.exit_code == 0, "modelctl status: " + r.err);
}

void remove_control_socket(Scene& s) {
  EXPECT_EQ(unlink(join_path(s.rig().dir(), "control.sock").c_str()), 0);
}

void expect_one_clear_line(Scene& s) {
  const ProcResult r = s.rig().ctl({"status"});
  const std::string line(trim(r.err));
  s.require(r.exit_code == 1 && !line.empty() && line.find('\n') == std::string::npos,
            "modelctl status said: " + r.err);
}

void empty_the_directory(Scene& s) {
  const auto names = list_dir(s.rig().dir());
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>())
    EXPECT_TRUE(remove_file(join_path(s.rig().dir(), name)).ok());
}

constexpr Row unfelt(const char* name,
                     const char* source,
                     const char* injected,
                     int64_t watched_ms,
                     void (*inject)(Scene&),
                     void (*verify)(Scene&)) {
  return {.name = name,
          .by = By::kWorld,
          .source = source,
          .injected = injected,
          .model = "road",
          .see = See::kUnaffected,
          .state = ModelState::kReady,
          .reason = Reason::kNone,
          .text = "",
          .bound_ms = watched_ms,
          .back = Back::kStays,
          .back_ms = 0,
          .gate = Gate::kStays,
          .inject = inject,
          .verify = verify};
}

constexpr Row kRows[] = {
    unfelt("subscriber-stops",
           "7 #25",
           "kill -STOP of a modelctl watch",
           3000,
           stop_a_subscriber,
           expect_no_growth),
    unfelt("control-clients-mute",
           "6",
           "20 connections that never ask",
           1500,
           mute_clients,
           expect_an_answer),
    unfelt("control-socket-gone",
           "6",
           "control.sock unlinked",
           1500,
           remove_control_socket,
           expect_one_clear_line),
    unfelt("directory-emptied",
           "7 #36",
           "every file of the runtime directory removed",
           1500,
           empty_the_directory,
           nullptr),
};

}  // namespace

std::span<const Row> client_rows() {
  return kRows;
}

}  // namespace modeld::faults
