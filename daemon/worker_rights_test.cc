#include "daemon/worker_rights.h"

#include "hal/base/env.h"
#include "hal/base/fs.h"

namespace modeld::daemon {
namespace {

using ::testing::Contains;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

// A /dev and a /sys/bus/usb/devices with a bit of everything.
class Nodes : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* folder : {"dev/dri", "dev/shm", "usb/1-1", "usb/1-2"})
      ASSERT_TRUE(make_dirs(at(folder)).ok());
    for (const char* node : {"dev/null", "dev/kgsl-3d0", "dev/ion", "dev/spidev0.0", "dev/mem",
                             "dev/shm/msgq_sendcan"})
      put(node, "");
    add_usb("usb/1-1", "bbaa", "ddcc", "2");
    add_usb("usb/1-2", "add1", "0001", "3");
  }
  std::string at(const std::string& name) const { return join_path(temp_->path(), name); }
  void put(const std::string& name, const std::string& text) {
    ASSERT_TRUE(write_text_atomic(at(name), text).ok());
  }
  void add_usb(const std::string& folder,
               const std::string& vendor,
               const std::string& product,
               const std::string& number) {
    put(folder + "/idVendor", vendor + "\n");
    put(folder + "/idProduct", product + "\n");
    put(folder + "/busnum", "1\n");
    put(folder + "/devnum", number + "\n");
  }
  // Beyond those that every process may have.
  std::vector<std::string> own_nodes(const std::string& uri) const {
    std::vector<std::string> nodes = device_nodes(uri, at("dev"), at("usb"));
    const std::vector<std::string> common = device_nodes("cpu", at("dev"), at("usb"));
    EXPECT_THAT(nodes, IsSupersetOf(common));
    nodes.erase(nodes.begin(), nodes.begin() + static_cast<std::ptrdiff_t>(common.size()));
    return nodes;
  }

  Result<TempDir> temp_ = TempDir::create("modeld-nodes");
};

TEST_F(Nodes, TheCpuAndSimulatorsNeedNone) {
  for (const char* uri : {"cpu", "cpu:1", "null", "qcom:sim", "amd:sim", "amd:sim:gfx1201"}) {
    EXPECT_FALSE(has_driver(uri)) << uri;
    EXPECT_TRUE(own_nodes(uri).empty()) << uri;
  }
}

TEST_F(Nodes, ADriverGetsItsGraphicsNodes) {
  EXPECT_TRUE(has_driver("cl"));
  EXPECT_THAT(own_nodes("cl:0"),
              UnorderedElementsAre(at("dev/dri"), at("dev/kgsl-3d0"), at("dev/ion")));
  EXPECT_THAT(own_nodes("qcom:/dev/kgsl-other"), Contains("/dev/kgsl-other"));
}

TEST_F(Nodes, AUsbBridgeIsReachableAndACanAdapterIsNot) {
  EXPECT_THAT(own_nodes("amd:usb"), UnorderedElementsAre(at("dev/bus/usb/001/003")));
}

TEST_F(Nodes, NobodyGetsAFolderThatHoldsMore) {
  for (const char* uri : {"cpu", "null", "cl", "qcom:/dev/kgsl-3d0", "amd:usb"}) {
    for (const char* never : {"dev", "dev/shm", "dev/bus/usb", "dev/spidev0.0", "dev/mem"})
      EXPECT_THAT(device_nodes(uri, at("dev"), at("usb")), Not(Contains(at(never)))) << uri;
  }
}

WorkerSetup setup_of(const char* prepare) {
  WorkerSetup s;
  s.name = "road";
  s.bundle = "/var/lib/modeld/road.bundle";
  s.device = "cpu";
  s.prepare = prepare;
  s.keys_dir = "/etc/modeld/keys.d";
  return s;
}

TEST(WorkerRights, OnlyAWorkerThatMayCompileMayWrite) {
  const FileRights loads = worker_rights(setup_of("never"));
  EXPECT_TRUE(loads.read_write.empty());
  EXPECT_THAT(loads.read, IsSupersetOf({"/var/lib/modeld", "/etc/modeld/keys.d"}));
  EXPECT_THAT(worker_rights(setup_of("missing")).read_write,
              UnorderedElementsAre(cache_dir(), temp_root()));
}

}  // namespace
}  // namespace modeld::daemon
