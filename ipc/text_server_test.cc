#include "ipc/text_server.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "hal/base/fs.h"

namespace modeld::ipc {
namespace {

class TextServerTest : public testing::Test {
 protected:
  TextServerTest() : dir_(std::move(*TempDir::create("ipc"))) {
    auto server = TextServer::listen(dir_.path(), "t.sock");
    EXPECT_TRUE(server.ok()) << server.error().what;
    server_ = std::make_unique<TextServer>(std::move(*server));
  }
  UniqueFd connect() {
    UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    std::strncpy(at.sun_path, join_path(dir_.path(), "t.sock").c_str(), sizeof at.sun_path - 1);
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
    return fd;
  }
  void serve() {
    server_->service([this] {
      ++asked_;
      return std::string_view(text_);
    });
  }
  // All that comes until the server hangs up; the server has answered already.
  static std::string read_all(int fd) {
    std::string out;
    char chunk[4096];
    for (ssize_t n = 0; (n = recv(fd, chunk, sizeof chunk, 0)) > 0;)
      out.append(chunk, static_cast<size_t>(n));
    return out;
  }

  TempDir dir_;
  std::unique_ptr<TextServer> server_;
  std::string text_ = "a 1\n";
  int asked_ = 0;
};

TEST_F(TextServerTest, AClientThatSaysNothingMoreGetsTheText) {
  text_.assign(60'000, 'x');
  Result<std::string> got = std::string();
  std::atomic<bool> done = false;
  std::thread client([&] {
    got = read_text_socket(dir_.path(), "t.sock", Deadline::in_ms(5000));
    done = true;
  });
  while (!done) {
    pollfd wait{server_->poll_fd(), POLLIN, 0};
    ::poll(&wait, 1, 10);
    serve();
  }
  client.join();
  ASSERT_TRUE(got.ok()) << got.error().what;
  EXPECT_EQ(*got, text_);
  EXPECT_EQ(asked_, 1);
}

TEST_F(TextServerTest, AnHttpGetGetsAHead) {
  const UniqueFd fd = connect();
  serve();
  EXPECT_EQ(asked_, 0) << "nothing was asked for yet";
  const std::string_view get = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
  ASSERT_EQ(send(fd.get(), get.data(), get.size(), 0), static_cast<ssize_t>(get.size()));
  serve();
  const std::string got = read_all(fd.get());
  EXPECT_EQ(got.rfind("HTTP/1.0 200 OK\r\n", 0), 0u) << got;
  EXPECT_NE(got.find("version=0.0.4"), std::string::npos);
  EXPECT_NE(got.find("Content-Length: 4\r\n\r\na 1\n"), std::string::npos) << got;
}

TEST_F(TextServerTest, AnythingElseIsHungUpOn) {
  const UniqueFd fd = connect();
  ASSERT_EQ(send(fd.get(), "POST /", 6, 0), 6);
  serve();
  EXPECT_EQ(read_all(fd.get()), "");
  EXPECT_EQ(asked_, 0);
}

TEST_F(TextServerTest, MuteClientsDoNotKeepOthersOut) {
  std::vector<UniqueFd> mute;
  for (size_t i = 0; i + 1 < kMaxTextClients; ++i) mute.push_back(connect());
  serve();
  const UniqueFd fd = connect();
  shutdown(fd.get(), SHUT_WR);
  serve();
  EXPECT_EQ(read_all(fd.get()), text_);
}

TEST_F(TextServerTest, TheSocketIsTheGroupsAndASecondServerIsRefused) {
  struct stat st {};
  ASSERT_EQ(stat(join_path(dir_.path(), "t.sock").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0660u);
  const auto second = TextServer::listen(dir_.path(), "t.sock");
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, Errc::kBusy);
  server_.reset();
  EXPECT_FALSE(file_exists(join_path(dir_.path(), "t.sock")));
  EXPECT_FALSE(read_text_socket(dir_.path(), "t.sock", Deadline::in_ms(100)).ok());
}

}  // namespace
}  // namespace modeld::ipc
