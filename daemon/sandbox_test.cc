// What a locked process can and cannot do: each attempt with and without the lock-down, in a child
// of its own, by system call number so that no library stands between.
#include "daemon/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "hal/base/fs.h"
#include "hal/base/mapping.h"
#include "hal/base/status.h"

#include "daemon/test_child.h"

namespace modeld::daemon {
namespace {

using ::testing::HasSubstr;

// What an attempt works on; made before the lock-down, as a worker has its own descriptors.
struct Scene {
  explicit Scene(const std::string& folder) : dir(folder) {
    victim = fork();
    if (victim == 0) {
      while (true) pause();
    }
    program = open("/bin/true", O_PATH | O_CLOEXEC);
    file = open((dir + "/there").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) _exit(98);
    free_socket = socket(AF_UNIX, SOCK_STREAM, 0);
  }
  std::string dir;
  pid_t victim = 0;  // ended by the parent: a locked child cannot kill
  int program = -1, file = -1, free_socket = -1;
  int pair[2] = {-1, -1};
  char word[8] = {};
};

long raw(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) {
  const long r = syscall(number, a, b, c, d, e, f);
  return r == -1 ? -errno : r;
}
template <class T>
long at(T* pointer) {
  return reinterpret_cast<long>(pointer);
}

struct Attempt {
  const char* name;
  bool works_without;  // in any process here, without the lock-down
  long (*run)(Scene&);
};

sockaddr_un address_of(const Scene& s) {
  sockaddr_un a{};
  a.sun_family = AF_UNIX;
  std::snprintf(a.sun_path, sizeof a.sun_path, "%s/sock", s.dir.c_str());
  return a;
}

// A process, however it is asked for; the child ends at once.
long make_process(long number, long flags) {
  const long r = raw(number, flags);
  if (r == 0) _exit(0);
  return r;
}

const Attempt kPublish[] = {
    {"socket(AF_UNIX)", true, [](Scene&) { return raw(SYS_socket, AF_UNIX, SOCK_STREAM, 0); }},
    {"socket(AF_INET)", true, [](Scene&) { return raw(SYS_socket, AF_INET, SOCK_DGRAM, 0); }},
    {"socket(AF_CAN)", false, [](Scene&) { return raw(SYS_socket, AF_CAN, SOCK_RAW, 1); }},
    {"socketpair", true,
     [](Scene&) {
       int ends[2];
       return raw(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, at(ends));
     }},
    {"bind", true,
     [](Scene& s) {
       const sockaddr_un a = address_of(s);
       return raw(SYS_bind, s.free_socket, at(&a), sizeof a);
     }},
    {"connect", false,
     [](Scene& s) {
       const sockaddr_un a = address_of(s);
       return raw(SYS_connect, s.free_socket, at(&a), sizeof a);
     }},
    {"listen", false, [](Scene& s) { return raw(SYS_listen, s.free_socket, 1); }},
    {"accept4", false,
     [](Scene& s) { return raw(SYS_accept4, s.free_socket, 0, 0, SOCK_NONBLOCK); }},
    {"sendto", true, [](Scene& s) { return raw(SYS_sendto, s.pair[0], at("x"), 1, MSG_DONTWAIT); }},
    {"io_uring_setup", false,
     [](Scene&) {
       char params[256] = {};
       return raw(SYS_io_uring_setup, 4, at(params));
     }},
    {"shmget", false, [](Scene&) { return raw(SYS_shmget, IPC_PRIVATE, 4096, IPC_CREAT | 0600); }},
    {"memfd_create", true, [](Scene&) { return raw(SYS_memfd_create, at("x"), 0); }},
};

const Attempt kOpen[] = {
#ifdef SYS_open
    {"open", true, [](Scene& s) { return raw(SYS_open, at((s.dir + "/there").c_str()), O_RDWR); }},
    {"creat", true, [](Scene& s) { return raw(SYS_creat, at((s.dir + "/new").c_str()), 0600); }},
    {"unlink", true, [](Scene& s) { return raw(SYS_unlink, at((s.dir + "/there").c_str())); }},
    {"rename", true,
     [](Scene& s) {
       return raw(SYS_rename, at((s.dir + "/there").c_str()), at((s.dir + "/moved").c_str()));
     }},
#endif
    {"openat", true,
     [](Scene& s) { return raw(SYS_openat, AT_FDCWD, at((s.dir + "/there").c_str()), O_RDONLY); }},
    {"openat2", true,
     [](Scene& s) {
       const uint64_t how[3] = {O_RDONLY, 0, 0};
       return raw(SYS_openat2, AT_FDCWD, at((s.dir + "/there").c_str()), at(how), sizeof how);
     }},
    {"open_by_handle_at", false,
     [](Scene& s) {
       uint32_t handle[8] = {};
       return raw(SYS_open_by_handle_at, s.file, at(handle), O_RDONLY);
     }},
    {"unlinkat", true,
     [](Scene& s) { return raw(SYS_unlinkat, AT_FDCWD, at((s.dir + "/there").c_str()), 0); }},
    {"renameat2", true,
     [](Scene& s) {
       return raw(SYS_renameat2, AT_FDCWD, at((s.dir + "/there").c_str()), AT_FDCWD,
                  at((s.dir + "/moved").c_str()), 0);
     }},
    {"linkat", true,
     [](Scene& s) {
       return raw(SYS_linkat, AT_FDCWD, at((s.dir + "/there").c_str()), AT_FDCWD,
                  at((s.dir + "/again").c_str()), 0);
     }},
    {"symlinkat", true,
     [](Scene& s) { return raw(SYS_symlinkat, at("x"), AT_FDCWD, at((s.dir + "/link").c_str())); }},
    {"mkdirat", true,
     [](Scene& s) { return raw(SYS_mkdirat, AT_FDCWD, at((s.dir + "/folder").c_str()), 0700); }},
    {"mknodat", true,
     [](Scene& s) {
       return raw(SYS_mknodat, AT_FDCWD, at((s.dir + "/pipe").c_str()), S_IFIFO | 0600, 0);
     }},
    {"truncate", true,
     [](Scene& s) { return raw(SYS_truncate, at((s.dir + "/there").c_str()), 0); }},
    {"fchmod", true, [](Scene& s) { return raw(SYS_fchmod, s.file, 0777); }},
    {"ioctl(FIONREAD)", true,
     [](Scene& s) {
       int n = 0;
       return raw(SYS_ioctl, s.pair[0], FIONREAD, at(&n));
     }},
    {"mount", false,
     [](Scene& s) { return raw(SYS_mount, at("none"), at(s.dir.c_str()), at("x")); }},
};

const Attempt kExec[] = {
    {"execve", true,
     [](Scene&) {
       const char* argv[] = {"true", nullptr};
       return raw(SYS_execve, at("/bin/true"), at(argv), 0);
     }},
    {"execveat", true,
     [](Scene& s) {
       const char* argv[] = {"true", nullptr};
       return raw(SYS_execveat, s.program, at(""), at(argv), 0, AT_EMPTY_PATH);
     }},
    {"clone(SIGCHLD)", true, [](Scene&) { return make_process(SYS_clone, SIGCHLD); }},
#ifdef SYS_fork
    {"fork", true, [](Scene&) { return make_process(SYS_fork, 0); }},
#endif
    {"mmap(PROT_EXEC)", true,
     [](Scene&) {
       return raw(SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
     }},
    {"mprotect(PROT_EXEC)", true,
     [](Scene&) {
       const long p =
           raw(SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
       return p < 0 && p > -4096 ? p : raw(SYS_mprotect, p, 4096, PROT_READ | PROT_EXEC);
     }},
};

const Attempt kReachOut[] = {
    {"kill", true, [](Scene& s) { return raw(SYS_kill, s.victim, 0); }},
    {"tkill", true, [](Scene& s) { return raw(SYS_tkill, s.victim, 0); }},
    {"tgkill", true, [](Scene& s) { return raw(SYS_tgkill, s.victim, s.victim, 0); }},
    {"pidfd_open", true, [](Scene& s) { return raw(SYS_pidfd_open, s.victim, 0); }},
    {"pidfd_getfd", false, [](Scene&) { return raw(SYS_pidfd_getfd, 0, 0, 0); }},
    {"ptrace", false, [](Scene& s) { return raw(SYS_ptrace, PTRACE_SEIZE, s.victim, 0, 0); }},
    {"process_vm_readv", false,
     [](Scene& s) {
       const iovec v{s.word, sizeof s.word};
       return raw(SYS_process_vm_readv, s.victim, at(&v), 1, at(&v), 1, 0);
     }},
    {"process_vm_writev", false,
     [](Scene& s) {
       const iovec v{s.word, sizeof s.word};
       return raw(SYS_process_vm_writev, s.victim, at(&v), 1, at(&v), 1, 0);
     }},
    {"sched_setaffinity", true,
     [](Scene&) {
       uint64_t all[16];
       std::memset(all, 0xff, sizeof all);
       return raw(SYS_sched_setaffinity, 0, sizeof all, at(all));
     }},
    {"setpriority", true, [](Scene&) { return raw(SYS_setpriority, PRIO_PROCESS, 0, 5); }},
    {"prlimit64", true,
     [](Scene&) {
       rlimit old{};
       return raw(SYS_prlimit64, 0, RLIMIT_CORE, 0, at(&old));
     }},
    {"prctl(PR_SET_PDEATHSIG)", true, [](Scene&) { return raw(SYS_prctl, PR_SET_PDEATHSIG, 0); }},
    {"fcntl(F_SETOWN)", true,
     [](Scene& s) { return raw(SYS_fcntl, s.pair[0], F_SETOWN, s.victim); }},
    {"bpf", false, [](Scene&) { return raw(SYS_bpf, 0, 0, 0); }},
    {"userfaultfd", false, [](Scene&) { return raw(SYS_userfaultfd, 0); }},
    {"unshare", false, [](Scene&) { return raw(SYS_unshare, CLONE_NEWUSER); }},
};

std::string outcome(long r) {
  if (r >= 0) return "ok";
  const char* name = strerrorname_np(static_cast<int>(-r));
  return name != nullptr ? name : std::to_string(r);
}

// One attempt in a child of its own. "ok", or the error's name; "" when it became another program.
std::string result_of(const Attempt& attempt, bool locked) {
  const auto temp = TempDir::create("modeld-sandbox");
  pid_t victim = 0;
  const ChildReport r = in_child([&](const ChildSay& say) {
    Scene scene(temp->path());
    say(std::to_string(scene.victim));
    if (locked) {
      if (const Status s = lock_worker_calls(false); !s.ok()) return say(s.error().what);
    }
    say(outcome(attempt.run(scene)));
  });
  const size_t end = r.text.find('\n');
  victim = static_cast<pid_t>(std::strtol(r.text.c_str(), nullptr, 10));
  if (victim > 0) kill(victim, SIGKILL);
  std::string rest = end == std::string::npos ? r.text : r.text.substr(end + 1);
  if (!rest.empty()) rest.pop_back();
  return rest;
}

void expect_refused(std::span<const Attempt> attempts) {
  for (const Attempt& a : attempts) {
    const std::string without = result_of(a, false);
    const std::string locked = result_of(a, true);
    std::printf("  %-24s without: %-12s locked: %s\n", a.name,
                without.empty() ? "(became it)" : without.c_str(), locked.c_str());
    EXPECT_EQ(locked, "EPERM") << a.name;
    if (!a.works_without) continue;
    EXPECT_TRUE(without == "ok" || without.empty()) << a.name << " " << without;
  }
}

TEST(Sandbox, ALockedWorkerCannotPublish) {
  expect_refused(kPublish);
}
TEST(Sandbox, ALockedWorkerCannotOpen) {
  expect_refused(kOpen);
}
TEST(Sandbox, ALockedWorkerCannotExec) {
  expect_refused(kExec);
}
TEST(Sandbox, ALockedWorkerCannotReachOtherProcesses) {
  expect_refused(kReachOut);
}

TEST(Sandbox, ADriverGetsItsOwnCallsAndNothingElse) {
  const ChildReport r = in_child([](const ChildSay& say) {
    int ends[2];
    if (pipe(ends) != 0) return;
    if (const Status s = lock_worker_calls(true); !s.ok()) return say(s.error().what);
    int n = 0;
    say(outcome(raw(SYS_ioctl, ends[0], FIONREAD, at(&n))));
    say(outcome(raw(SYS_socket, AF_UNIX, SOCK_STREAM, 0)));
    say(outcome(raw(SYS_openat, AT_FDCWD, at("/dev/null"), O_RDWR)));
  });
  EXPECT_EQ(r.text, "ok\nEPERM\nEPERM\n");
}

// What the frame path and its ending need.
TEST(Sandbox, ALockedWorkerStillRunsFrames) {
  const auto temp = TempDir::create("modeld-sandbox");
  const ChildReport r = in_child([&](const ChildSay& say) {
    const int memory = memfd_create("frame", 0);
    if (ftruncate(memory, 8192) != 0) return;
    const int bell = eventfd(0, EFD_NONBLOCK);
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0) return;
    if (const Status s = lock_worker_calls(false); !s.ok()) return say(s.error().what);
    void* frame = mmap(nullptr, 8192, PROT_READ, MAP_SHARED, memory, 0);
    say(frame != MAP_FAILED ? "mapped" : "not mapped");
    std::string big(8 << 20, 'x');
    say(big.back() == 'x' ? "allocated" : "");
    const uint64_t one = 1;
    uint64_t got = 0;
    say(write(bell, &one, 8) == 8 && read(bell, &got, 8) == 8 ? "rang" : "silent");
    iovec part{&got, sizeof got};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    say(sendmsg(ends[0], &message, 0) == 8 && recvmsg(ends[1], &message, 0) == 8 ? "sent" : "lost");
    // Not a std::thread: the sanitizers look at its object by calls that are locked.
    std::atomic<int> ran{0};
    pthread_t thread;
    const auto run = [](void* to) -> void* {
      *static_cast<std::atomic<int>*>(to) = 1;
      return nullptr;
    };
    const bool is_joined =
        pthread_create(&thread, nullptr, run, &ran) == 0 && pthread_join(thread, nullptr) == 0;
    say(is_joined && ran == 1 ? "thread" : "no thread");
    abort();
  });
  EXPECT_EQ(r.text, "mapped\nallocated\nrang\nsent\nthread\n");
  EXPECT_EQ(r.signal, SIGABRT) << "exit " << r.exit_code;
}

// Not looked at by the sanitizers: their own memory would fault.
__attribute__((no_sanitize("address", "thread"))) uint64_t sum_of_pages(const std::byte* at,
                                                                        uint64_t pages) {
  uint64_t sum = 0;
  for (uint64_t page = 0; page < pages; ++page) sum += static_cast<uint64_t>(at[page * kPageBytes]);
  return sum;
}

// The camera's buffers come when the worker is locked: their pages are entered then, not one by one
// while frames run.
TEST(Sandbox, ALockedWorkerEntersTheCamerasPagesAtOnce) {
  constexpr uint64_t kPages = 256;
  const ChildReport r = in_child([](const ChildSay& say) {
    auto memory = create_memfd("frame", kPages * kPageBytes);
    if (!memory.ok()) return;
    auto camera = Mapping::map_fd(memory->get(), 0, kPages * kPageBytes, MapMode::kReadWrite);
    if (!camera.ok()) return;
    std::memset(camera->data(), 1, camera->size());
    if (const Status s = lock_worker_calls(false); !s.ok()) return say(s.error().what);
    const auto faults = [] {
      rusage now{};
      getrusage(RUSAGE_SELF, &now);
      return now.ru_minflt;
    };
    // The best of three: the kernel may take a page back at any time.
    int64_t fewest = kPages;
    uint64_t sum = 0;
    for (int i = 0; i < 3; ++i) {
      const auto frame = Mapping::map_fd(memory->get(), 0, kPages * kPageBytes, MapMode::kRead);
      if (!frame.ok()) return say(frame.error().what);
      frame->populate_resident();
      const int64_t before = faults();
      sum += sum_of_pages(frame->data(), kPages);
      fewest = std::min<int64_t>(fewest, faults() - before);
    }
    // Fault-around would bring 16 pages a time.
    const bool is_there = sum == 3 * kPages && fewest < static_cast<int64_t>(kPages / 64);
    say(is_there ? "no faults" : strf("%lld faults", static_cast<long long>(fewest)));
  });
  EXPECT_EQ(r.text, "no faults\n");
}

TEST(Sandbox, ThreadsThatRanBeforeAreLockedToo) {
  const ChildReport r = in_child([](const ChildSay& say) {
    std::atomic<int> step{0};
    std::string before, after;
    std::thread other([&] {
      before = outcome(raw(SYS_socket, AF_UNIX, SOCK_STREAM, 0));
      step = 1;
      while (step != 2) std::this_thread::yield();
      after = outcome(raw(SYS_socket, AF_UNIX, SOCK_STREAM, 0));
    });
    while (step != 1) std::this_thread::yield();
    const Status s = lock_worker_calls(false);
    step = 2;
    other.join();
    if (!s.ok()) return say(s.error().what);
    say(before + " " + after);
  });
  EXPECT_EQ(r.text, "ok EPERM\n");
}

// ---- the supervisor ----

TEST(Sandbox, ASupervisorHasTwoSocketFamiliesAndNoOther) {
  const ChildReport r = in_child([](const ChildSay& say) {
    if (const Status s = lock_supervisor_calls(); !s.ok()) return say(s.error().what);
    for (int family = 0; family < 64; ++family) {
      const long socket = raw(SYS_socket, family, SOCK_DGRAM, 0);
      if (socket != -EPERM) say(strf("%d %s", family, outcome(socket).c_str()));
    }
    // The kernel takes the lower half of the argument; a filter that looked at that alone would
    // take this for AF_INET and one that took it whole for nothing it knows.
    const long wide = (long{1} << 32) | AF_INET;
    say("wide " + outcome(raw(SYS_socket, wide, SOCK_DGRAM, 0)));
  });
  EXPECT_EQ(r.text, strf("%d ok\n%d ok\nwide EPERM\n", AF_UNIX, AF_NETLINK));
}

TEST(Sandbox, ASupervisorHasNoWayAroundAndStillStartsWorkers) {
  const auto temp = TempDir::create("modeld-sandbox");
  pid_t victim = 0;
  const ChildReport r = in_child([&](const ChildSay& say) {
    Scene scene(temp->path());
    say(std::to_string(scene.victim));
    if (const Status s = lock_supervisor_calls(); !s.ok()) return say(s.error().what);
    for (const Attempt& a : kPublish) {
      if (std::string(a.name) == "io_uring_setup") say(a.name + (" " + outcome(a.run(scene))));
    }
    for (const Attempt& a : kReachOut) {
      for (const char* name : {"ptrace", "process_vm_writev", "pidfd_getfd", "bpf", "unshare"}) {
        if (std::string(a.name) == name) say(a.name + (" " + outcome(a.run(scene))));
      }
    }
    const pid_t worker = fork();
    if (worker == 0) {
      execl("/bin/true", "true", nullptr);
      _exit(1);
    }
    int status = -1;
    waitpid(worker, &status, 0);
    say(strf("worker %d", status));
  });
  victim = static_cast<pid_t>(std::strtol(r.text.c_str(), nullptr, 10));
  if (victim > 0) kill(victim, SIGKILL);
  EXPECT_EQ(r.text.substr(r.text.find('\n') + 1),
            "io_uring_setup EPERM\npidfd_getfd EPERM\nptrace EPERM\nprocess_vm_writev EPERM\nbpf "
            "EPERM\nunshare EPERM\nworker 0\n");
}

// ---- Landlock ----

TEST(Landlock, OnlyWhatIsNamedIsInReach) {
  const auto temp = TempDir::create("modeld-landlock");
  for (const char* name : {"readable", "writable", "other"}) {
    ASSERT_TRUE(make_dirs(temp->path() + "/" + name).ok());
    ASSERT_TRUE(write_text_atomic(temp->path() + "/" + name + "/file", "x").ok());
  }
  const ChildReport r = in_child([&](const ChildSay& say) {
    FileRights rights;
    rights.read = {temp->path() + "/readable", temp->path() + "/not-there"};
    rights.read_write = {temp->path() + "/writable"};
    rights.devices = {"/dev/null"};
    const auto version = lock_files(rights);
    if (!version.ok()) return say(version.error().what);
    say(*version > 0 ? "enforced" : "none");
    const auto try_open = [&](const std::string& path, int flags) {
      say(outcome(raw(SYS_openat, AT_FDCWD, at(path.c_str()), flags, 0600)));
    };
    try_open(temp->path() + "/readable/file", O_RDONLY);
    try_open(temp->path() + "/readable/file", O_RDWR);
    try_open(temp->path() + "/readable/new", O_RDWR | O_CREAT);
    try_open(temp->path() + "/writable/file", O_RDWR | O_TRUNC);
    try_open(temp->path() + "/writable/new", O_RDWR | O_CREAT);
    try_open(temp->path() + "/other/file", O_RDONLY);
    try_open("/dev/null", O_RDWR);
    try_open("/dev/zero", O_RDONLY);
    try_open("/dev/shm/msgq_sendcan", O_RDWR | O_CREAT);
    const char* argv[] = {"true", nullptr};
    say(outcome(raw(SYS_execve, at("/bin/true"), at(argv), 0)));
  });
  if (r.text == "none\n" || r.text.rfind("none", 0) == 0)
    GTEST_SKIP() << "SKIPPED: this kernel has no Landlock";
  EXPECT_EQ(r.text, "enforced\nok\nEACCES\nEACCES\nok\nok\nEACCES\nok\nEACCES\nEACCES\nEACCES\n");
  EXPECT_FALSE(file_exists("/dev/shm/msgq_sendcan"));
}

TEST(Landlock, TcpAbstractSocketsAndSignalsAreOutOfReachWhereTheKernelKnowsThem) {
  const auto temp = TempDir::create("modeld-landlock");
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "modeld-landlock-%d", getpid());
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(listener, 4), 0);
  const pid_t victim = getpid();
  const auto attempts = [&](const ChildSay& say) {
    sockaddr_in tcp{};
    tcp.sin_family = AF_INET;
    tcp.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const long inet = raw(SYS_socket, AF_INET, SOCK_STREAM, 0);
    say(outcome(raw(SYS_bind, inet, at(&tcp), sizeof tcp)));
    const long local = raw(SYS_socket, AF_UNIX, SOCK_STREAM, 0);
    say(outcome(raw(SYS_connect, local, at(&address), sizeof address)));
    say(outcome(raw(SYS_kill, victim, 0)));
  };
  const ChildReport free = in_child([&](const ChildSay& say) { attempts(say); });
  EXPECT_EQ(free.text, "ok\nok\nok\n");
  int version = 0;
  const ChildReport locked = in_child([&](const ChildSay& say) {
    const auto v = lock_files({});
    if (!v.ok()) return say(v.error().what);
    say(std::to_string(*v));
    attempts(say);
  });
  close(listener);
  version = std::atoi(locked.text.c_str());
  if (version < 4) GTEST_SKIP() << "SKIPPED: Landlock version " << version;
  const std::string rest = locked.text.substr(locked.text.find('\n') + 1);
  EXPECT_EQ(rest, version >= 6 ? "EACCES\nEPERM\nEPERM\n" : "EACCES\nok\nok\n");
}

}  // namespace
}  // namespace modeld::daemon
