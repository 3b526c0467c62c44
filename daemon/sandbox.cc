#include "daemon/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <memory>
#include <span>

#include "hal/base/unique_fd.h"

namespace modeld::daemon {
namespace {

// ---- files: Landlock ----

// Of versions newer than the system's header (linux/landlock.h of Linux 6.12).
constexpr uint64_t kTruncate = uint64_t{1} << 14;        // version 3
constexpr uint64_t kIoctlDevice = uint64_t{1} << 15;     // version 5
constexpr uint64_t kBindAndConnectTcp = 3;               // version 4, handled_access_net
constexpr uint64_t kScopeAbstractSocketsAndSignals = 3;  // version 6, scoped
struct Ruleset {
  uint64_t fs = 0;
  uint64_t net = 0;
  uint64_t scoped = 0;
};

constexpr uint64_t kRead = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr uint64_t kReadExec = kRead | LANDLOCK_ACCESS_FS_EXECUTE;
constexpr uint64_t kWrite = kRead | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
                            LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR |
                            LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SYM |
                            LANDLOCK_ACCESS_FS_REFER | kTruncate;
constexpr uint64_t kDevice = kRead | LANDLOCK_ACCESS_FS_WRITE_FILE | kIoctlDevice;
// What a rule on a single file may hold.
constexpr uint64_t kFileBits = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE |
                               LANDLOCK_ACCESS_FS_EXECUTE | kTruncate | kIoctlDevice;

// All rights that a version knows: handled, so denied unless a rule grants them.
uint64_t file_rights_of(int version) {
  if (version >= 5) return (kIoctlDevice << 1) - 1;
  if (version >= 3) return (kTruncate << 1) - 1;
  if (version == 2) return (LANDLOCK_ACCESS_FS_REFER << 1) - 1;
  return (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;
}

Result<UniqueFd> make_ruleset(int version) {
  Ruleset r;
  r.fs = file_rights_of(version);
  if (version >= 4) r.net = kBindAndConnectTcp;
  if (version >= 6) r.scoped = kScopeAbstractSocketsAndSignals;
  // Older kernels take the shorter structs that they were made with.
  const size_t size = version >= 6 ? sizeof r : version >= 4 ? 2 * sizeof(uint64_t) : sizeof r.fs;
  UniqueFd fd(static_cast<int>(syscall(SYS_landlock_create_ruleset, &r, size, 0)));
  if (!fd.is_open()) return fail_errno(Errc::kIo, "landlock: ruleset", errno);
  return fd;
}

Status allow(int ruleset, const std::string& path, uint64_t access) {
  const UniqueFd fd(open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!fd.is_open()) return {};  // what is not there needs no right
  struct stat st {};
  if (fstat(fd.get(), &st) == 0 && !S_ISDIR(st.st_mode)) access &= kFileBits;
  landlock_path_beneath_attr rule{};
  rule.allowed_access = access;
  rule.parent_fd = fd.get();
  if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0) {
    return fail_errno(Errc::kIo, "landlock: rule for " + path, errno);
  }
  return {};
}

Status allow_all(int ruleset, const std::vector<std::string>& paths, uint64_t access) {
  for (const std::string& path : paths) RETURN_IF_ERROR(allow(ruleset, path, access));
  return {};
}

// ---- system calls: seccomp ----

using Filter = std::unique_ptr<void, void (*)(scmp_filter_ctx)>;
constexpr uint32_t kRefuse = SCMP_ACT_ERRNO(EPERM);

Result<Filter> make_filter(uint32_t otherwise) {
  Filter f(seccomp_init(otherwise), seccomp_release);
  if (!f) return fail(Errc::kOutOfMemory, "seccomp: no filter");
  // Every thread of the process, not only this one.
  if (seccomp_attr_set(f.get(), SCMP_FLTATR_CTL_TSYNC, 1) != 0)
    return fail(Errc::kUnsupported, "seccomp: TSYNC refused");
  return f;
}

Status add(const Filter& f, uint32_t action, int call, std::span<const scmp_arg_cmp> when = {}) {
  const int rc = seccomp_rule_add_array(f.get(), action, call, static_cast<unsigned>(when.size()),
                                        when.data());
  if (rc != 0)
    return fail_errno(Errc::kInternal, strf("seccomp: rule for system call %d", call), -rc);
  return {};
}

Status add_all(const Filter& f, uint32_t action, std::span<const int> calls) {
  for (const int call : calls) RETURN_IF_ERROR(add(f, action, call));
  return {};
}

// The arguments are filled by hand: libseccomp's macros are C99 compound literals, which C++ does
// not have.
scmp_arg_cmp equals(unsigned argument, uint64_t value) {
  return {argument, SCMP_CMP_EQ, value, 0};
}
// The bits of `mask` are `value`.
scmp_arg_cmp has_bits(unsigned argument, uint64_t mask, uint64_t value) {
  return {argument, SCMP_CMP_MASKED_EQ, mask, value};
}

Status install(const Filter& f) {
  const int rc = seccomp_load(f.get());
  if (rc != 0) return fail_errno(Errc::kUnsupported, "seccomp: load", -rc);
  return {};
}

// ---- what a worker needs between two frames and the end ----

constexpr int kFrameCalls[] = {
    // Descriptors that are there already.
    SCMP_SYS(read), SCMP_SYS(readv), SCMP_SYS(pread64), SCMP_SYS(write), SCMP_SYS(writev),
    SCMP_SYS(lseek), SCMP_SYS(close), SCMP_SYS(fstat), SCMP_SYS(poll), SCMP_SYS(ppoll),
    SCMP_SYS(recvmsg), SCMP_SYS(sendmsg),
    // Looked at, never opened: the C library's time zone does so with every line of the log.
    SCMP_SYS(newfstatat), SCMP_SYS(stat),
    // Memory. New code has rules of its own.
    SCMP_SYS(brk), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(mincore),
    // Threads and waiting.
    SCMP_SYS(futex), SCMP_SYS(set_robust_list), SCMP_SYS(rseq), SCMP_SYS(membarrier),
    SCMP_SYS(sched_yield), SCMP_SYS(sched_getaffinity), SCMP_SYS(getcpu), SCMP_SYS(nanosleep),
    SCMP_SYS(clock_nanosleep), SCMP_SYS(restart_syscall), SCMP_SYS(exit), SCMP_SYS(exit_group),
    // Signals to itself, as abort() sends them, and their handlers.
    SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn), SCMP_SYS(sigaltstack),
    // Time, numbers and names.
    SCMP_SYS(clock_gettime), SCMP_SYS(clock_getres), SCMP_SYS(gettimeofday), SCMP_SYS(time),
    SCMP_SYS(getpid), SCMP_SYS(gettid), SCMP_SYS(getppid), SCMP_SYS(getuid), SCMP_SYS(geteuid),
    SCMP_SYS(getgid), SCMP_SYS(getegid), SCMP_SYS(getrandom), SCMP_SYS(getrusage),
    SCMP_SYS(sysinfo), SCMP_SYS(uname)};

// A driver in the process drives its own device node and waits for it.
constexpr int kDriverCalls[] = {
    SCMP_SYS(ioctl),           SCMP_SYS(memfd_create),  SCMP_SYS(ftruncate),
    SCMP_SYS(eventfd2),        SCMP_SYS(pipe2),         SCMP_SYS(timerfd_create),
    SCMP_SYS(timerfd_settime), SCMP_SYS(epoll_create1), SCMP_SYS(epoll_ctl),
    SCMP_SYS(epoll_wait),      SCMP_SYS(epoll_pwait)};

constexpr int kHarmlessFcntl[] = {F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC, F_GET_SEALS};

// Memory without PROT_EXEC: what runs was mapped before.
Status allow_data_mappings(const Filter& f) {
  for (const int call : {SCMP_SYS(mmap), SCMP_SYS(mprotect)}) {
    const scmp_arg_cmp data[] = {has_bits(2, PROT_EXEC, 0)};
    RETURN_IF_ERROR(add(f, SCMP_ACT_ALLOW, call, data));
  }
  return {};
}

// Threads, as drivers start them, but no process. clone3 hides its flags in memory, where a filter
// cannot look: libraries fall back to clone when it does not exist.
Status allow_threads(const Filter& f) {
  const uint64_t thread = CLONE_THREAD | CLONE_VM | CLONE_SIGHAND;
  const scmp_arg_cmp is_thread[] = {has_bits(0, thread, thread)};
  RETURN_IF_ERROR(add(f, SCMP_ACT_ALLOW, SCMP_SYS(clone), is_thread));
  return add(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3));
}

Status allow_signals_to_itself(const Filter& f) {
  const scmp_arg_cmp own[] = {equals(0, static_cast<uint64_t>(getpid()))};
  return add(f, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), own);
}

// A thread may be named. Nothing else of prctl: the worker is to die with its supervisor.
Status allow_names_and_flags(const Filter& f) {
  const scmp_arg_cmp name[] = {equals(0, PR_SET_NAME)};
  RETURN_IF_ERROR(add(f, SCMP_ACT_ALLOW, SCMP_SYS(prctl), name));
  for (const int command : kHarmlessFcntl) {
    const scmp_arg_cmp c[] = {equals(1, static_cast<uint64_t>(command))};
    RETURN_IF_ERROR(add(f, SCMP_ACT_ALLOW, SCMP_SYS(fcntl), c));
  }
  return {};
}

// ---- what the supervisor must not do ----

constexpr int kSupervisorNever[] = {
    // Ways around socket(): sockets, connections and files by a ring.
    SCMP_SYS(io_uring_setup), SCMP_SYS(io_uring_enter), SCMP_SYS(io_uring_register),
    // Into other processes.
    SCMP_SYS(ptrace), SCMP_SYS(process_vm_readv), SCMP_SYS(process_vm_writev),
    SCMP_SYS(pidfd_getfd), SCMP_SYS(kcmp),
    // Another view of the system, or another system.
    SCMP_SYS(mount), SCMP_SYS(umount2), SCMP_SYS(pivot_root), SCMP_SYS(chroot), SCMP_SYS(setns),
    SCMP_SYS(unshare), SCMP_SYS(open_by_handle_at), SCMP_SYS(fsopen), SCMP_SYS(fsmount),
    SCMP_SYS(move_mount), SCMP_SYS(open_tree), SCMP_SYS(fsconfig), SCMP_SYS(fspick),
    SCMP_SYS(mount_setattr), SCMP_SYS(init_module), SCMP_SYS(finit_module), SCMP_SYS(delete_module),
    SCMP_SYS(kexec_load), SCMP_SYS(kexec_file_load), SCMP_SYS(bpf), SCMP_SYS(perf_event_open),
    SCMP_SYS(reboot), SCMP_SYS(swapon), SCMP_SYS(swapoff), SCMP_SYS(settimeofday),
    SCMP_SYS(clock_settime), SCMP_SYS(adjtimex)};

Status forbid_family(const Filter& f, scmp_compare op, int family) {
  const scmp_arg_cmp argument[] = {{0, op, static_cast<scmp_datum_t>(family), 0}};
  return add(f, kRefuse, SCMP_SYS(socket), argument);
}

}  // namespace

Result<int> lock_files(const FileRights& rights) {
  const auto version = static_cast<int>(
      syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION));
  if (version < 1) return 0;
  ASSIGN_OR_RETURN(const UniqueFd ruleset, make_ruleset(version));
  const uint64_t known = file_rights_of(version);
  RETURN_IF_ERROR(allow_all(ruleset.get(), rights.read, kRead & known));
  RETURN_IF_ERROR(allow_all(ruleset.get(), rights.read_exec, kReadExec & known));
  RETURN_IF_ERROR(allow_all(ruleset.get(), rights.read_write, kWrite & known));
  RETURN_IF_ERROR(allow_all(ruleset.get(), rights.devices, kDevice & known));
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    return fail_errno(Errc::kIo, "landlock: no_new_privs", errno);
  if (syscall(SYS_landlock_restrict_self, ruleset.get(), 0) != 0)
    return fail_errno(Errc::kIo, "landlock: restrict", errno);
  return version;
}

Status lock_worker_calls(bool has_driver) {
  ASSIGN_OR_RETURN(const Filter f, make_filter(kRefuse));
  RETURN_IF_ERROR(add_all(f, SCMP_ACT_ALLOW, kFrameCalls));
  if (has_driver) RETURN_IF_ERROR(add_all(f, SCMP_ACT_ALLOW, kDriverCalls));
  RETURN_IF_ERROR(allow_data_mappings(f));
  RETURN_IF_ERROR(allow_threads(f));
  RETURN_IF_ERROR(allow_signals_to_itself(f));
  RETURN_IF_ERROR(allow_names_and_flags(f));
  return install(f);
}

Status lock_supervisor_calls() {
  ASSIGN_OR_RETURN(const Filter f, make_filter(SCMP_ACT_ALLOW));
  RETURN_IF_ERROR(forbid_family(f, SCMP_CMP_LT, AF_UNIX));
  for (int family = AF_UNIX + 1; family < AF_NETLINK; ++family)
    RETURN_IF_ERROR(forbid_family(f, SCMP_CMP_EQ, family));
  RETURN_IF_ERROR(forbid_family(f, SCMP_CMP_GT, AF_NETLINK));
  RETURN_IF_ERROR(add_all(f, kRefuse, kSupervisorNever));
  return install(f);
}

}  // namespace modeld::daemon
