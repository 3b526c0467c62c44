#include "hal/sim/emulator_request.h"

#include <elf.h>

#include <cstring>

#include "hal/sim/emulator_device.h"

namespace modeld::hal {
namespace {

constexpr size_t kPathBytes = 64;
constexpr uint64_t kLoadAddress = 0x400000;  // where a static AArch64 program usually lies
constexpr uint64_t kCodeOffset = 4096;       // the file's first page holds the headers

template <class T>
void put(std::string& out, size_t at, const T& value) {
  std::memcpy(out.data() + at, &value, sizeof value);
}

}  // namespace

void EmulatorRequest::add(uint64_t entry, uint64_t groups, std::span<const EmulatorArg> args) {
  words_.insert(words_.end(), {entry, groups, args.size()});
  for (const EmulatorArg& a : args)
    words_.insert(words_.end(), {static_cast<uint64_t>(a.is_address), a.word});
}

Result<std::string> EmulatorRequest::text(const std::string& memory_path,
                                          uint64_t memory_bytes) const {
  if (memory_path.size() >= kPathBytes)
    return fail(Errc::kInvalid, strf("emulator: path %s has more than %zu bytes",
                                     memory_path.c_str(), kPathBytes - 1));
  std::string out(kPathBytes, '\0');
  std::memcpy(out.data(), memory_path.data(), memory_path.size());
  const uint64_t sizes[] = {memory_bytes, words_.size() * sizeof(uint64_t)};
  out.append(reinterpret_cast<const char*>(sizes), sizeof sizes);
  out.append(reinterpret_cast<const char*>(words_.data()), words_.size() * sizeof(uint64_t));
  return out;
}

std::string emulator_executable(std::span<const std::byte> code, uint64_t entry_offset) {
  Elf64_Ehdr head{};
  std::memcpy(head.e_ident, ELFMAG, SELFMAG);
  head.e_ident[EI_CLASS] = ELFCLASS64;
  head.e_ident[EI_DATA] = ELFDATA2LSB;
  head.e_ident[EI_VERSION] = EV_CURRENT;
  head.e_type = ET_EXEC;
  head.e_machine = EM_AARCH64;
  head.e_version = EV_CURRENT;
  head.e_entry = kLoadAddress + entry_offset;
  head.e_phoff = sizeof head;
  head.e_ehsize = sizeof head;
  head.e_phentsize = sizeof(Elf64_Phdr);
  head.e_phnum = 1;
  Elf64_Phdr load{};
  load.p_type = PT_LOAD;
  load.p_flags = PF_R | PF_X;
  load.p_offset = kCodeOffset;
  load.p_vaddr = load.p_paddr = kLoadAddress;
  load.p_filesz = load.p_memsz = code.size();
  load.p_align = kCodeOffset;
  std::string out(kCodeOffset, '\0');
  put(out, 0, head);
  put(out, sizeof head, load);
  out.append(reinterpret_cast<const char*>(code.data()), code.size());
  return out;
}

// Freestanding: system calls by number (Linux on AArch64), no library, no data.
const char* emulator_runner_source() {
  return R"(
typedef unsigned long long word_t;
typedef void kernel_t(const word_t*, unsigned);
static inline __attribute__((always_inline)) long system_call(long number, long a, long b, long c, long d, long e) {
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  register long x5 __asm__("x5") = 0;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return x0;
}
static inline __attribute__((always_inline)) void leave(long code) {
  for (;;) system_call(94, code, 0, 0, 0, 0);
}
static inline __attribute__((always_inline)) void read_all(char* to, word_t size) {
  while (size > 0) {
    long got = system_call(63, 0, (long)to, (long)size, 0, 0);
    if (got <= 0) leave(10);
    to += got;
    size -= (word_t)got;
  }
}
static inline __attribute__((always_inline)) char* map_memory(word_t size, long protection, long flags, long fd) {
  long at = system_call(222, 0, (long)size, protection, flags, fd);
  if (at < 0 && at > -4096) leave(12);
  return (char*)at;
}
void emulator_runner(const word_t* unused, unsigned unused_core) {
  word_t head[10];
  read_all((char*)head, sizeof head);
  long fd = system_call(56, -100, (long)head, 2, 0, 0);
  if (fd < 0) leave(11);
  char* memory = map_memory(head[8], 7, 1, fd);
  char* request = map_memory(head[9] + 1, 3, 0x22, -1);
  read_all(request, head[9]);
  word_t args[1024];
  for (char* at = request; at < request + head[9];) {
    const word_t* launch = (const word_t*)at;
    const word_t count = launch[2];
    if (count > 1024) leave(13);
    for (word_t i = 0; i < count; i++)
      args[i] = launch[3 + 2 * i] ? (word_t)memory + launch[4 + 2 * i] : launch[4 + 2 * i];
    for (word_t core = 0; core < launch[1]; core++) ((kernel_t*)(memory + launch[0]))(args, (unsigned)core);
    at += 8 * (3 + 2 * count);
  }
  leave(0);
}
)";
}

}  // namespace modeld::hal
