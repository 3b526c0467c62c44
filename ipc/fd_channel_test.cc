#include "ipc/fd_channel.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "hal/base/bytes.h"
#include "hal/base/fs.h"
#include "hal/base/mapping.h"

namespace modeld::ipc {
namespace {

std::array<std::byte, 16> packet_of(uint8_t value) {
  std::array<std::byte, 16> p{};
  p.fill(std::byte{value});
  return p;
}

TEST(FdChannel, PacketsKeepTheirBordersAndDescriptors) {
  auto ends = FdChannel::pair();
  ASSERT_TRUE(ends.ok());
  const UniqueFd memory = std::move(*create_memfd("x", 4096));
  const int fds[] = {memory.get(), memory.get()};
  ASSERT_TRUE(*ends->first.send(packet_of(1), fds));
  ASSERT_TRUE(*ends->first.send(packet_of(2)));
  std::array<std::byte, 64> in{};
  std::array<UniqueFd, 4> received;
  auto got = ends->second.receive(in, received);
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->bytes, 16u);
  EXPECT_EQ(got->fds, 2u);
  EXPECT_EQ(in[0], std::byte{1});
  struct stat info {};
  EXPECT_EQ(fstat(received[1].get(), &info), 0);
  EXPECT_EQ(info.st_size, 4096);
  EXPECT_NE(fcntl(received[0].get(), F_GETFD) & FD_CLOEXEC, 0);
  got = ends->second.receive(in, received);
  EXPECT_EQ(got->fds, 0u);
  EXPECT_EQ(in[0], std::byte{2});
  EXPECT_EQ(ends->second.receive(in)->got, FdChannel::Got::kNothing);
}

TEST(FdChannel, APacketThatDoesNotFitIsAnErrorNotCut) {
  auto ends = FdChannel::pair();
  ASSERT_TRUE(*ends->first.send(packet_of(1)));
  std::array<std::byte, 8> small{};
  EXPECT_FALSE(ends->second.receive(small).ok());
}

TEST(FdChannel, MoreDescriptorsThanExpectedAreClosedAndRefused) {
  auto ends = FdChannel::pair();
  const UniqueFd memory = std::move(*create_memfd("x", 4096));
  const int fds[] = {memory.get(), memory.get()};
  ASSERT_TRUE(*ends->first.send(packet_of(1), fds));
  std::array<std::byte, 64> in{};
  std::array<UniqueFd, 1> room;
  EXPECT_FALSE(ends->second.receive(in, room).ok());
  EXPECT_FALSE(room[0].is_open());
}

TEST(FdChannel, AFullQueueIsFalseAndAClosedPeerAnError) {
  auto ends = FdChannel::pair();
  bool full = false;
  for (int i = 0; i < 100000 && !full; ++i) full = !*ends->first.send(packet_of(1));
  EXPECT_TRUE(full);
  ends->second.close();
  EXPECT_FALSE(ends->first.send(packet_of(1)).ok());
}

TEST(FdChannel, TheEndOfThePeerIsSeen) {
  auto ends = FdChannel::pair();
  ends->first.close();
  std::array<std::byte, 8> in{};
  EXPECT_EQ(ends->second.receive(in)->got, FdChannel::Got::kClosed);
}

TEST(FdListener, ReplacesAStaleSocketButNotALivingServer) {
  const TempDir dir = std::move(*TempDir::create("ipc"));
  const std::string path = dir.path() + "/s";
  EXPECT_EQ(FdChannel::connect(path).error().code, Errc::kNotFound);
  auto first = FdListener::listen(dir.path(), path);
  ASSERT_TRUE(first.ok());
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0660u);
  const auto second = FdListener::listen(dir.path(), path);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, Errc::kBusy);
  {
    // A server that was killed leaves its file behind.
    const int fd = dup(first->fd());
    FdListener moved = std::move(*first);
    close(fd);
    ASSERT_EQ(rename(path.c_str(), (path + ".kept").c_str()), 0);
  }
  ASSERT_EQ(rename((path + ".kept").c_str(), path.c_str()), 0);
  EXPECT_EQ(FdChannel::connect(path).error().code, Errc::kBusy);
  EXPECT_TRUE(FdListener::listen(dir.path(), path).ok());
}

TEST(FdListener, DoesNotReplaceAFileThatIsNoSocket) {
  const TempDir dir = std::move(*TempDir::create("ipc"));
  const std::string path = dir.path() + "/s";
  ASSERT_TRUE(write_text_atomic(path, "mine").ok());
  EXPECT_FALSE(FdListener::listen(dir.path(), path).ok());
  EXPECT_EQ(*read_text(path), "mine");
}

}  // namespace
}  // namespace modeld::ipc
