#include "selftest/e2e/hostile_kernel.h"

#include <cstddef>
#include <cstdlib>

#include "hal/base/text.h"
#include "hal/target.h"

#include "runtime/compile/compiler.h"

#include "daemon/hop.h"

#include "selftest/e2e/bundle_damage.h"

namespace modeld::e2e {
namespace {

// Freestanding C for x86-64 Linux. Numbers of system calls: asm/unistd_64.h. The words defined on
// top (AFTER_NS, ORIGINAL, MALICE, ...) come from source_of().
constexpr const char* kSource = R"C(
typedef long word;
#define ALWAYS static inline __attribute__((always_inline))
// A text that no compiler takes for one to be shared: images hold constants, but no strings.
#define S(text) ({ static const char s_[] = "\0" text; s_ + 1; })

ALWAYS word sc(word n, word a, word b, word c, word d, word e, word f) {
  register word r10 __asm__("r10") = d;
  register word r8 __asm__("r8") = e;
  register word r9 __asm__("r9") = f;
  word r;
  __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return r;
}

struct line { char text[96]; int used; };
ALWAYS void put(struct line* l, char c) { if (l->used < 95) l->text[l->used++] = c; }

// "hostile: NAME -> RESULT", one write.
ALWAYS void tell(const char* name, word result) {
  struct line l;
  l.used = 0;
  for (const char* p = S("hostile: "); *p; ++p) put(&l, *p);
  for (; *name; ++name) put(&l, *name);
  for (const char* p = S(" -> "); *p; ++p) put(&l, *p);
  unsigned long v = result < 0 ? 0ul - (unsigned long)result : (unsigned long)result;
  if (result < 0) put(&l, '-');
  char digits[24];
  int n = 0;
  do { digits[n++] = (char)('0' + v % 10); v /= 10; } while (v);
  while (n > 0) put(&l, digits[--n]);
  put(&l, '\n');
  sc(1, 2, (word)l.text, l.used, 0, 0, 0);
}
#define TRY(name, ...) tell(name, sc(__VA_ARGS__))

ALWAYS void attempt_everything(void) {
  const word parent = sc(110, 0, 0, 0, 0, 0, 0);
  char buffer[256];
  for (int i = 0; i < 256; ++i) ((volatile char*)buffer)[i] = 0;
  word vec[2] = {(word)buffer, 8};
  // Not an initializer: the image holds no addresses.
  volatile word argv[2];
  argv[0] = (word)S("sh");
  argv[1] = 0;
  // A unix address of a topic's socket.
  buffer[0] = 1;
  const char* topic = S(TOPIC);
  for (int i = 0; topic[i] && i < 100; ++i) buffer[2 + i] = topic[i];
  TRY(S("socket(AF_UNIX)"), 41, 1, 1, 0, 0, 0, 0);
  TRY(S("socket(AF_INET)"), 41, 2, 1, 0, 0, 0, 0);
  TRY(S("socket(AF_CAN)"), 41, 29, 3, 1, 0, 0, 0);
  TRY(S("socketpair"), 53, 1, 1, 0, (word)buffer + 128, 0, 0);
  TRY(S("connect"), 42, 4, (word)buffer, 110, 0, 0, 0);
  TRY(S("bind"), 49, 4, (word)buffer, 110, 0, 0, 0);
  TRY(S("listen"), 50, 4, 1, 0, 0, 0, 0);
  TRY(S("sendto"), 44, 4, (word)buffer, 1, 0x40, (word)buffer, 110);
  TRY(S("io_uring_setup"), 425, 4, (word)buffer + 128, 0, 0, 0, 0);
  TRY(S("open(msgq_sendcan)"), 2, (word)S("/dev/shm/msgq_sendcan"), 0x42, 0600, 0, 0, 0);
  TRY(S("openat(msgq_carControl)"), 257, -100, (word)S("/dev/shm/msgq_carControl"), 0x42, 0600, 0, 0);
  TRY(S("open(/dev/null)"), 2, (word)S("/dev/null"), 2, 0, 0, 0, 0);
  TRY(S("open(own memory)"), 2, (word)S("/proc/self/mem"), 2, 0, 0, 0, 0);
  TRY(S("creat"), 85, (word)S("/tmp/modeld-hostile"), 0600, 0, 0, 0, 0);
  TRY(S("unlink(topic)"), 87, (word)S(TOPIC), 0, 0, 0, 0, 0);
  TRY(S("rename(topic)"), 82, (word)S(TOPIC), (word)S(TOPIC ".gone"), 0, 0, 0, 0);
  TRY(S("memfd_create"), 319, (word)S("x"), 0, 0, 0, 0, 0);
  TRY(S("execve"), 59, (word)S("/bin/sh"), (word)argv, 0, 0, 0, 0);
  TRY(S("fork"), 57, 0, 0, 0, 0, 0, 0);
  TRY(S("vfork"), 58, 0, 0, 0, 0, 0, 0);
  TRY(S("clone"), 56, 17, 0, 0, 0, 0, 0);
  TRY(S("clone3"), 435, (word)buffer + 128, 88, 0, 0, 0, 0);
  TRY(S("mmap(PROT_EXEC)"), 9, 0, 4096, 7, 0x22, -1, 0);
  TRY(S("mprotect(PROT_EXEC)"), 10, SPARE, 4096, 7, 0, 0, 0);
  TRY(S("ptrace(supervisor)"), 101, 0x4206, parent, 0, 0, 0, 0);
  TRY(S("process_vm_writev(supervisor)"), 311, parent, (word)vec, 1, (word)vec, 1, 0);
  TRY(S("process_vm_readv(supervisor)"), 310, parent, (word)vec, 1, (word)vec, 1, 0);
  TRY(S("pidfd_open(supervisor)"), 434, parent, 0, 0, 0, 0, 0);
  TRY(S("kill(supervisor)"), 62, parent, 9, 0, 0, 0, 0);
  TRY(S("tgkill(supervisor)"), 234, parent, parent, 9, 0, 0, 0);
  TRY(S("kill(everybody)"), 62, -1, 9, 0, 0, 0, 0);
  TRY(S("prctl(PR_SET_PDEATHSIG)"), 157, 1, 0, 0, 0, 0, 0);
  TRY(S("ioctl(terminal)"), 16, 2, 0x5412, (word)buffer, 0, 0, 0);
  TRY(S("mount"), 165, (word)S("none"), (word)S("/tmp"), (word)S("tmpfs"), 0, 0, 0);
  TRY(S("unshare"), 272, 0x10000000, 0, 0, 0, 0, 0);
  TRY(S("bpf"), 321, 0, 0, 0, 0, 0, 0);
}

ALWAYS void send_packet(const void* bytes, word size) {
  word part[2] = {(word)bytes, size};
  word message[7] = {0, 0, (word)part, 1, 0, 0, 0};
  sc(46, 4, (word)message, 0x40, 0, 0, 0);
}

ALWAYS void be_malicious(void) {
#if MALICE == 0
  *(volatile int*)0 = 1;
#elif MALICE == 1
  for (;;) __asm__ volatile("pause");
#elif MALICE == 2
  // Every byte of the answer but its number, which is the job's: this one is looked at.
  volatile char* page = (volatile char*)sc(9, 0, PAGE_BYTES, 3, 1, 3, 0);
  const unsigned long number = *(volatile unsigned long*)(page + JOB_NUMBER);
  for (word i = ANSWER; i < PAGE_BYTES; ++i) page[i] = (char)0xff;
  *(volatile unsigned long*)(page + ANSWER_NUMBER) = number;
  unsigned long one = 1;
  for (int i = 0; i < 1000; ++i) sc(1, 6, (word)&one, 8, 0, 0, 0);
  for (;;) __asm__ volatile("pause");
#elif MALICE == 3
  char rubbish[64];
  for (int i = 0; i < 64; ++i) ((volatile char*)rubbish)[i] = (char)(i * 37);
  for (;;) send_packet(rubbish, 64);
#elif MALICE == 4
  const char accusation[] = {ACCUSATION};
  send_packet(accusation, sizeof accusation);
  for (;;) __asm__ volatile("pause");
#endif
}

void hostile(const unsigned long* words, unsigned core) {
  // Memory of its own that outlives the call: a page at a fixed place, made by the first one.
  volatile word* mine = (volatile word*)SPARE;
  word now[2] = {0, 0};
  sc(228, 1, (word)now, 0, 0, 0, 0);
  if (core == 0 && sc(9, SPARE, 4096, 3, 0x100022, -1, 0) == SPARE)
    mine[0] = now[0] * 1000000000 + now[1];
  if (core == 0 && mine[1] == 0 && now[0] * 1000000000 + now[1] - mine[0] > AFTER_NS) {
    mine[1] = 1;
    attempt_everything();
    be_malicious();
  }
  char* self = (char*)&hostile;
  ((void (*)(const unsigned long*, unsigned))(self + ORIGINAL))(words, core);
}
)C";

constexpr uint64_t kSpareAddress = 0x7000'0000'0000;

std::string list_of(std::span<const std::byte> bytes) {
  std::string out;
  for (const std::byte b : bytes)
    out += (out.empty() ? "" : ",") + strf("(char)%d", static_cast<int>(b));
  return out;
}

// `original`: from the hostile function's entry to that of the kernel it stands for.
std::string source_of(Malice malice, int64_t after_ms, int64_t original) {
  using daemon::HopPage;
  using ipc::Reason;
  const std::vector<std::byte> accusation =
      daemon::encode(daemon::WorkerFailure{Reason::kPrivilege, "privilege: none are left"});
  std::string out;
  const auto define = [&](const char* name, const std::string& value) {
    out += std::string("#define ") + name + " " + value + "\n";
  };
  const auto number = [&](const char* name, uint64_t value) {
    define(name, strf("%lluL", static_cast<unsigned long long>(value)));
  };
  number("AFTER_NS", static_cast<uint64_t>(after_ms) * 1'000'000);
  define("ORIGINAL", strf("(%lldL)", static_cast<long long>(original)));
  define("MALICE", std::to_string(static_cast<int>(malice)));
  define("TOPIC", "\"/tmp/modeld-hostile.sock\"");
  define("ACCUSATION", list_of(accusation));
  number("SPARE", kSpareAddress);
  number("PAGE_BYTES", sizeof(HopPage));
  number("JOB_NUMBER", offsetof(HopPage, job) + offsetof(daemon::Job, number));
  number("ANSWER", offsetof(HopPage, answer));
  number("ANSWER_NUMBER", offsetof(HopPage, answer) + offsetof(daemon::Answer, number));
  return out + kSource;
}

Result<compile::CompiledImage> compile_hostile(Malice malice, int64_t after_ms, int64_t original) {
  ASSIGN_OR_RETURN(const hal::Target host, hal::parse_target("cpu"));
  ASSIGN_OR_RETURN(const auto compiler, compile::make_clang_compiler(host));
  const compile::KernelSource kernel{"hostile", source_of(malice, after_ms, original), false};
  ASSIGN_OR_RETURN(std::vector<compile::CompiledImage> images, compiler->do_compile({&kernel, 1}));
  return std::move(images.front());
}

// The kernel's image with the hostile one behind it, entered there.
Result<exec::Image> wrap(const exec::Image& original, Malice malice, int64_t after_ms) {
  const uint64_t room = (original.code.size() + 4095) / 4096 * 4096;
  // The distance is part of the code, and the code's entry part of the distance.
  int64_t distance = -static_cast<int64_t>(room);
  compile::CompiledImage hostile;
  for (int pass = 0; pass < 4; ++pass) {
    ASSIGN_OR_RETURN(hostile, compile_hostile(malice, after_ms, distance));
    const int64_t real = static_cast<int64_t>(original.entry_offset) -
                         static_cast<int64_t>(room + hostile.entry_offset);
    if (real == distance) break;
    distance = real;
  }
  exec::Image out;
  out.code = original.code;
  out.code.resize(room);
  out.code.insert(out.code.end(), hostile.code.begin(), hostile.code.end());
  out.size = out.code.size();
  out.entry_offset = room + hostile.entry_offset;
  out.alignment = 4096;
  return out;
}

}  // namespace

std::string why_no_hostile_kernel() {
#if defined(__x86_64__)
  const auto host = hal::parse_target("cpu");
  if (!host.ok()) return host.error().what;
  const auto compiler = compile::make_clang_compiler(*host);
  return compiler.ok() ? "" : compiler.error().what;
#else
  return "its system calls are x86-64's";
#endif
}

void make_hostile(const std::string& from, const std::string& to, Malice malice, int64_t after_ms) {
  change_first_kernel(from, to, [&](exec::Image& image) {
    auto wrapped = wrap(image, malice, after_ms);
    if (!wrapped.ok()) {
      ADD_FAILURE() << wrapped.error().what;
      return;
    }
    image = std::move(*wrapped);
  });
}

std::vector<AttemptResult> attempts_in(const std::string& log) {
  std::vector<AttemptResult> out;
  constexpr std::string_view kStart = "hostile: ";
  for (const std::string& line : split(log, '\n')) {
    const size_t start = line.find(kStart), arrow = line.find(" -> ");
    if (start == std::string::npos || arrow == std::string::npos) continue;
    const size_t name = start + kStart.size();
    out.push_back(
        {line.substr(name, arrow - name), std::strtol(line.c_str() + arrow + 4, nullptr, 10)});
  }
  return out;
}

}  // namespace modeld::e2e
