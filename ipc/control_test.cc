#include "ipc/control.h"

#include <poll.h>

#include <thread>

#include "hal/base/fs.h"

namespace modeld::ipc {
namespace {

class Control : public testing::Test {
 protected:
  Control() : dir_(std::move(*TempDir::create("ipc"))) {}
  // Asks from a thread while this one serves.
  Result<std::string> ask(ControlServer& server,
                          const std::string& request,
                          const ControlServer::Handler& handler) {
    Result<std::string> reply = std::string();
    std::atomic<bool> done = false;
    std::thread client([&] {
      reply = control_request(dir_.path(), request, Deadline::in_ms(30'000));
      done = true;
    });
    while (!done) {
      pollfd wait{server.poll_fd(), POLLIN, 0};
      ::poll(&wait, 1, 10);
      server.service(handler);
    }
    client.join();
    return reply;
  }
  TempDir dir_;
};

TEST_F(Control, OneRequestOneReply) {
  auto server = ControlServer::listen(dir_.path());
  ASSERT_TRUE(server.ok()) << server.error().what;
  const auto reply = ask(*server, "{\"command\":\"status\"}", [](std::string_view request) {
    EXPECT_EQ(request, "{\"command\":\"status\"}");
    return std::string("{\"ok\":true}");
  });
  ASSERT_TRUE(reply.ok()) << reply.error().what;
  EXPECT_EQ(*reply, "{\"ok\":true}");
}

TEST_F(Control, ALargeReplyArrivesWhole) {
  auto server = ControlServer::listen(dir_.path());
  ASSERT_TRUE(server.ok());
  const std::string large(5u << 20, 'x');
  const auto reply = ask(*server, "{}", [&](std::string_view) { return large; });
  ASSERT_TRUE(reply.ok()) << reply.error().what;
  EXPECT_EQ(*reply, large);
}

TEST_F(Control, AnOversizedRequestIsRefusedByBothSides) {
  auto server = ControlServer::listen(dir_.path());
  ASSERT_TRUE(server.ok());
  EXPECT_FALSE(
      control_request(dir_.path(), std::string(kMaxControlRequest + 1, ' '), Deadline::in_ms(100))
          .ok());
  auto raw = FdChannel::connect(dir_.path() + "/control.sock");
  ASSERT_TRUE(raw.ok());
  const std::vector<std::byte> packet(kMaxControlRequest + 1);
  ASSERT_TRUE(*raw->send(packet));
  server->service([](std::string_view) -> std::string {
    ADD_FAILURE() << "handled";
    return "";
  });
  std::array<std::byte, 8> in{};
  EXPECT_EQ(raw->receive(in)->got, FdChannel::Got::kClosed);
}

TEST_F(Control, NobodyListeningIsAnErrorAndSilenceATimeout) {
  EXPECT_EQ(control_request(dir_.path(), "{}", Deadline::in_ms(50)).error().code, Errc::kNotFound);
  auto server = ControlServer::listen(dir_.path());
  ASSERT_TRUE(server.ok());
  EXPECT_EQ(control_request(dir_.path(), "{}", Deadline::in_ms(20)).error().code, Errc::kTimeout);
}

TEST_F(Control, ManyIdleClientsDoNotGrowTheServer) {
  auto server = ControlServer::listen(dir_.path());
  ASSERT_TRUE(server.ok());
  std::vector<FdChannel> idle;
  for (size_t i = 0; i < kMaxControlClients + 4; ++i) {
    auto channel = FdChannel::connect(dir_.path() + "/control.sock");
    ASSERT_TRUE(channel.ok());
    idle.push_back(std::move(*channel));
    server->service([](std::string_view) { return std::string(); });
  }
  idle.clear();
  server->service([](std::string_view) { return std::string(); });
  const auto reply = ask(*server, "{}", [](std::string_view) { return std::string("ok"); });
  ASSERT_TRUE(reply.ok()) << reply.error().what;
  EXPECT_EQ(*reply, "ok");
}

}  // namespace
}  // namespace modeld::ipc
