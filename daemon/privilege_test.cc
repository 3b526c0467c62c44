// Lock down first, probe second: every probe is shown both ways, at something that exists here and
// opens without the lock-down.
#include "daemon/privilege.h"

#include <errno.h>
#include <pwd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "hal/base/fs.h"

#include "daemon/sandbox.h"
#include "daemon/test_child.h"

namespace modeld::daemon {
namespace {

using ::testing::HasSubstr;

// Read-write for the owner only, as control queues and nodes are.
void make_file(const std::string& path) {
  ASSERT_TRUE(write_text_atomic(path, "x").ok());
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
}

// A vehicle's /dev and /sys/bus/usb/devices in miniature, below a temporary folder.
class Vehicle {
 public:
  Vehicle() : temp_(std::move(*TempDir::create("modeld-probe"))) {
    // Whoever the rights are dropped to may get here: only the files themselves refuse.
    EXPECT_EQ(chmod(temp_.path().c_str(), 0755), 0);
    EXPECT_TRUE(make_dirs(at("dev/bus/usb/001"), 0755).ok());
    EXPECT_TRUE(make_dirs(at("usb"), 0755).ok());
  }
  std::string at(const std::string& name) const { return join_path(temp_.path(), name); }

  // A USB device with its node; `device_number` of bus 1.
  std::string add_usb(const std::string& vendor, const std::string& product, int device_number) {
    const std::string folder = at("usb/1-" + std::to_string(device_number));
    EXPECT_TRUE(make_dirs(folder, 0755).ok());
    const std::pair<const char*, std::string> files[] = {{"idVendor", vendor},
                                                         {"idProduct", product},
                                                         {"busnum", "1"},
                                                         {"devnum", std::to_string(device_number)}};
    for (const auto& [name, text] : files)
      EXPECT_TRUE(write_text_atomic(join_path(folder, name), text + "\n").ok());
    const std::string node = at(strf("dev/bus/usb/001/%03d", device_number));
    // A character device where one may be made: the null device's numbers under another name.
    if (mknod(node.c_str(), S_IFCHR | 0600, makedev(1, 3)) != 0) make_file(node);
    return node;
  }

  // Nothing to be found but what a test puts there.
  ActuatorProbes probes() const {
    ActuatorProbes p;
    p.queues.clear();
    p.sockets.clear();
    p.dev_dir = at("dev");
    p.usb_dir = at("usb");
    return p;
  }

 private:
  TempDir temp_;
};

std::string found(const ActuatorProbes& probes) {
  const Status s = probe_actuators(probes);
  return s.ok() ? "" : s.error().what;
}

// The whole lock-down of a supervisor started as root, in a child: dropped to nobody, its calls
// filtered; then the probes.
ChildReport after_lock_down(const ActuatorProbes& probes) {
  return in_child([&](const ChildSay& say) {
    if (const Status s = drop_to_user("nobody"); !s.ok()) return say(s.error().what);
    if (const Status s = lock_supervisor_calls(); !s.ok()) return say(s.error().what);
    for (const Probe& p : run_probes(probes))
      say(p.what + (p.opened ? " opened" : strf(" refused %d", p.error)));
  });
}

bool can_drop() {
  return geteuid() == 0 && getpwnam("nobody") != nullptr;
}

TEST(Privilege, AQueueOpensBeforeTheLockDownAndNotAfterIt) {
  if (!can_drop()) GTEST_SKIP() << "SKIPPED: not root here, or no user nobody";
  const Vehicle v;
  ActuatorProbes probes = v.probes();
  for (const char* name : {"msgq_sendcan", "msgq_carControl"}) {
    make_file(v.at(name));
    probes.queues = {v.at(name)};
    EXPECT_THAT(found(probes), HasSubstr(v.at(name) + " can be opened"));
    const ChildReport after = after_lock_down(probes);
    EXPECT_EQ(after.text, strf("%s refused %d\n", v.at(name).c_str(), EACCES));
  }
}

TEST(Privilege, AUsbAdapterOpensBeforeTheLockDownAndNotAfterIt) {
  if (!can_drop()) GTEST_SKIP() << "SKIPPED: not root here, or no user nobody";
  Vehicle v;
  const std::string node = v.add_usb("bbaa", "ddcc", 4);
  EXPECT_THAT(found(v.probes()), HasSubstr(node + " can be opened"));
  EXPECT_EQ(after_lock_down(v.probes()).text, strf("%s refused %d\n", node.c_str(), EACCES));
}

TEST(Privilege, ASpiNodeOpensBeforeTheLockDownAndNotAfterIt) {
  if (!can_drop()) GTEST_SKIP() << "SKIPPED: not root here, or no user nobody";
  const Vehicle v;
  make_file(v.at("dev/spidev0.0"));
  EXPECT_THAT(found(v.probes()), HasSubstr("spidev0.0 can be opened"));
  EXPECT_THAT(after_lock_down(v.probes()).text, HasSubstr(strf("refused %d", EACCES)));
}

// AF_CAN is not in every kernel; what is refused is every family but two, and the network's exists
// everywhere.
TEST(Privilege, ASocketFamilyOpensBeforeTheLockDownAndNotAfterIt) {
  const Vehicle v;
  ActuatorProbes probes = v.probes();
  probes.sockets = {{AF_INET, SOCK_DGRAM, 0}};
  EXPECT_THAT(found(probes), HasSubstr("a socket of family 2 (type 2, protocol 0) can be opened"));
  const ChildReport after = in_child([&](const ChildSay& say) {
    if (const Status s = lock_supervisor_calls(); !s.ok()) return say(s.error().what);
    for (const Probe& p : run_probes(probes)) say(strf("%d %d", p.opened, p.error));
  });
  EXPECT_EQ(after.text, strf("0 %d\n", EPERM));
}

TEST(Privilege, APacketSocketOpensForRootAndNotAfterTheLockDown) {
  const Vehicle v;
  ActuatorProbes probes = v.probes();
  probes.sockets = {{AF_PACKET, SOCK_RAW, 0}};
  if (found(probes).empty()) GTEST_SKIP() << "SKIPPED: no packet sockets for this user or kernel";
  const ChildReport after = in_child([&](const ChildSay& say) {
    if (const Status s = lock_supervisor_calls(); !s.ok()) return say(s.error().what);
    for (const Probe& p : run_probes(probes)) say(strf("%d %d", p.opened, p.error));
  });
  EXPECT_EQ(after.text, strf("0 %d\n", EPERM));
}

TEST(Privilege, CanIsRefusedByTheFilterWhetherTheKernelHasItOrNot) {
  const ChildReport after = in_child([](const ChildSay& say) {
    if (const Status s = lock_supervisor_calls(); !s.ok()) return say(s.error().what);
    ActuatorProbes probes;
    probes.queues.clear();
    probes.dev_dir = probes.usb_dir = "/nonexistent";
    for (const Probe& p : run_probes(probes)) say(strf("%d %d", p.opened, p.error));
  });
  // EPERM, not EAFNOSUPPORT: the kernel was not even asked.
  EXPECT_EQ(after.text, strf("0 %d\n0 %d\n", EPERM, EPERM));
}

TEST(Privilege, ANodeThatCanOnlyBeWrittenCountsAsOpened) {
  if (geteuid() == 0) {
    const ChildReport r = in_child([](const ChildSay& say) {
      if (const Status s = drop_to_user("nobody"); !s.ok()) return say(s.error().what);
      Vehicle v;
      ActuatorProbes probes = v.probes();
      probes.queues = {v.at("write-only")};
      (void)!write_text_atomic(v.at("write-only"), "x").ok();
      chmod(v.at("write-only").c_str(), 0200);
      say(found(probes));
    });
    EXPECT_THAT(r.text, HasSubstr("write-only can be opened"));
    return;
  }
  const Vehicle v;
  ActuatorProbes probes = v.probes();
  probes.queues = {v.at("write-only")};
  make_file(v.at("write-only"));
  ASSERT_EQ(chmod(v.at("write-only").c_str(), 0200), 0);
  EXPECT_THAT(found(probes), HasSubstr("write-only can be opened"));
}

TEST(Privilege, AdaptersAreToldFromOtherDevices) {
  Vehicle v;
  const std::string panda = v.add_usb("bbaa", "ddcc", 2);
  const std::string newer = v.add_usb("3801", "ddcc", 3);
  const std::string boot_loader = v.add_usb("3801", "ddee", 4);
  const std::string gpu_bridge = v.add_usb("3801", "0001", 5);
  const std::string stick = v.add_usb("0781", "5567", 6);
  EXPECT_THAT(usb_can_nodes(v.at("dev"), v.at("usb")),
              ::testing::UnorderedElementsAre(panda, newer, boot_loader));
  EXPECT_THAT(usb_other_nodes(v.at("dev"), v.at("usb")),
              ::testing::UnorderedElementsAre(gpu_bridge, stick));
}

TEST(Privilege, WhatIsNotThereIsNoFinding) {
  const Vehicle v;
  ActuatorProbes probes = v.probes();
  probes.queues = {v.at("nothing")};
  const std::vector<Probe> result = run_probes(probes);
  ASSERT_EQ(result.size(), 1u);
  EXPECT_FALSE(result[0].opened);
  EXPECT_EQ(result[0].error, ENOENT);
  EXPECT_TRUE(probe_actuators(probes).ok());
  EXPECT_FALSE(file_exists(v.at("nothing"))) << "a probe creates nothing";
}

TEST(Privilege, TheDropIsCompleteAndForGood) {
  if (!can_drop()) GTEST_SKIP() << "SKIPPED: not root here, or no user nobody";
  const passwd nobody = *getpwnam("nobody");
  const ChildReport r = in_child([](const ChildSay& say) {
    if (const Status s = drop_to_user("nobody"); !s.ok()) return say(s.error().what);
    uid_t uid[3];
    gid_t gid[3];
    getresuid(&uid[0], &uid[1], &uid[2]);
    getresgid(&gid[0], &gid[1], &gid[2]);
    say(strf("%u %u %u", uid[0], uid[1], uid[2]));
    say(strf("%u %u %u", gid[0], gid[1], gid[2]));
    gid_t groups[8];
    const int n = getgroups(8, groups);
    for (int i = 0; i < n; ++i) {
      if (groups[i] == 0) say("still in root's group");
    }
    say(setuid(0) == 0 || seteuid(0) == 0 ? "root again" : "never root again");
  });
  EXPECT_EQ(r.text, strf("%u %u %u\n%u %u %u\nnever root again\n", nobody.pw_uid, nobody.pw_uid,
                         nobody.pw_uid, nobody.pw_gid, nobody.pw_gid, nobody.pw_gid));
}

TEST(Privilege, AnUnknownUserIsRefusedByName) {
  if (geteuid() != 0) GTEST_SKIP() << "SKIPPED: not root here";
  const Status s = drop_to_user("modeld-no-such-user");
  ASSERT_FALSE(s.ok());
  EXPECT_THAT(s.error().what, HasSubstr("modeld-no-such-user does not exist"));
}

TEST(Privilege, ADirectoryThatRootMadeBecomesTheUsersAndNoLinkIsFollowed) {
  if (!can_drop()) GTEST_SKIP() << "SKIPPED: not root here, or no user nobody";
  auto dir = TempDir::create("give");
  ASSERT_TRUE(dir.ok());
  const std::string made = dir->path() + "/run";
  ASSERT_TRUE(make_dirs(made).ok());
  ASSERT_TRUE(give_to_user("nobody", made).ok());
  struct stat st {};
  ASSERT_EQ(stat(made.c_str(), &st), 0);
  EXPECT_EQ(st.st_uid, getpwnam("nobody")->pw_uid);
  const std::string other = dir->path() + "/other";
  ASSERT_TRUE(make_dirs(other).ok());
  const std::string link = dir->path() + "/link";
  ASSERT_EQ(symlink(other.c_str(), link.c_str()), 0);
  EXPECT_FALSE(give_to_user("nobody", link).ok());
  ASSERT_EQ(stat(other.c_str(), &st), 0);
  EXPECT_EQ(st.st_uid, 0U);
}

}  // namespace
}  // namespace modeld::daemon
