#include "selftest/fuzz/kernel_crash.h"

#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <initializer_list>

namespace modeld::fuzz {

namespace {

uint64_t g_seed = 0;
thread_local volatile uint64_t t_kernel = 0;

void put_text(const char* text) {
  [[maybe_unused]] const ssize_t n = write(STDOUT_FILENO, text, strlen(text));
}

void put_number(uint64_t v) {
  char digits[24];
  char* at = digits + sizeof digits;
  *--at = '\0';
  do {
    *--at = static_cast<char>('0' + v % 10);
    v /= 10;
  } while (v != 0);
  put_text(at);
}

void on_crash(int sig) {
  put_text("FINDING: crash: repeat with --seed ");
  put_number(g_seed);
  put_text(" --only ");
  put_number(t_kernel);
  put_text("\n");
  signal(sig, SIG_DFL);
  raise(sig);
}

}  // namespace

void catch_kernel_crashes(uint64_t seed) {
  g_seed = seed;
  for (const int sig : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL}) signal(sig, on_crash);
}

void note_kernel(uint64_t number) {
  t_kernel = number;
}

}  // namespace modeld::fuzz
