#include "hal/backends.h"

#include <thread>

#include "hal/device_ban.h"

namespace modeld::hal {
namespace {

TEST(Backends, CpuIndexIsNotAThreadCount) {
  DeviceConfig config;
  config.threads = 1;
  const auto d = open_device("cpu:3", config);
  ASSERT_TRUE(d.ok()) << d.error().what;
  EXPECT_EQ((*d)->info().uri, "cpu:3");
  EXPECT_EQ((*d)->info().index, 3U);
  EXPECT_EQ((*d)->info().threads, 1);
  EXPECT_EQ((*open_device("cpu"))->info().uri, "cpu:0");
}

TEST(Backends, BadUrisAreNamed) {
  for (const char* uri : {"", "gpu", "cpu:", "cpu:x", "cpu:-1", "cpu:256", "cpu:0:1", "cpux"}) {
    const auto d = open_device(uri);
    ASSERT_FALSE(d.ok()) << uri;
    EXPECT_EQ(d.error().code, Errc::kInvalid) << uri;
    EXPECT_THAT(d.error().what, testing::HasSubstr(std::string("'") + uri + "'"));
  }
}

TEST(Backends, KnownButAbsentIsUnsupported) {
  for (const char* uri : {"cl", "cl:0", "qcom:/dev/kgsl-3d0", "amd:usb"}) {
    const auto d = open_device(uri);
    ASSERT_FALSE(d.ok()) << uri;
    EXPECT_EQ(d.error().code, Errc::kUnsupported) << uri;
    EXPECT_THAT(d.error().what, testing::HasSubstr("has no such backend; it has cpu[:N]"));
  }
}

TEST(Backends, TableNamesWhatOpens) {
  std::vector<std::string> uris;
  for (const BackendEntry& e : backend_table()) uris.emplace_back(e.uri);
  EXPECT_THAT(uris, testing::Contains("cpu[:N]"));
#ifdef MODELD_SIM
  EXPECT_THAT(uris, testing::Contains("null"));
  EXPECT_TRUE(open_device("null").ok());
#else
  EXPECT_EQ(open_device("null").error().code, Errc::kUnsupported);
#endif
}

TEST(DeviceBan, ForbidsOpeningOnItsThreadOnly) {
  {
    const DeviceBan outer;
    {
      const DeviceBan inner;
      EXPECT_FALSE(open_device("cpu").ok());
    }
    const auto refused = open_device("cpu");
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, Errc::kUnsupported);
    bool elsewhere = false;
    std::thread([&] { elsewhere = open_device("cpu").ok(); }).join();
    EXPECT_TRUE(elsewhere);
  }
  EXPECT_TRUE(open_device("cpu").ok());
}

}  // namespace
}  // namespace modeld::hal
