#include "selftest/fuzz/damage.h"

#include <sys/resource.h>
#include <time.h>

#include <bit>
#include <cctype>
#include <cstring>
#include <limits>

namespace modeld::fuzz {
namespace {

double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

void put_number(Bytes& bytes, size_t at, size_t size, Rng& rng) {
  uint64_t v = 0;
  std::memcpy(&v, bytes.data() + at, size);
  v = nasty(rng, v);
  std::memcpy(bytes.data() + at, &v, size);
}

bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

// The number at or after a random place, replaced.
void damage_number(std::string& text, Rng& rng) {
  size_t begin = rng.below(text.size() + 1);
  while (begin < text.size() && !is_digit(text[begin])) ++begin;
  size_t end = begin;
  while (end < text.size() && is_digit(text[end]) && end - begin < 18) ++end;
  if (begin == end) return;
  const uint64_t old = std::strtoull(text.substr(begin, end - begin).c_str(), nullptr, 10);
  std::string fresh = rng.one_in(3)   ? std::to_string(static_cast<int64_t>(nasty(rng, old)))
                      : rng.one_in(2) ? std::to_string(rng.below(2 * old + 3))
                                      : std::to_string(nasty(rng, old));
  if (rng.one_in(30)) fresh.insert(0, rng.below(400), '0');
  text.replace(begin, end - begin, fresh);
}

void swap_lines(std::string& text, Rng& rng) {
  const size_t a = text.find('\n', rng.below(text.size()));
  if (a == std::string::npos) return;
  const size_t b = text.find('\n', a + 1);
  if (b == std::string::npos) return;
  const std::string line = text.substr(a, b - a);
  text.erase(a, b - a);
  const size_t to = text.find('\n', rng.below(text.size()));
  text.insert(to == std::string::npos ? 0 : to, line);
}

}  // namespace

void damage_bytes(Bytes& bytes, Rng& rng, size_t from) {
  if (bytes.size() <= from) {
    bytes.push_back(static_cast<std::byte>(rng.below(256)));
    return;
  }
  const size_t at = from + rng.below(bytes.size() - from);
  switch (rng.below(8)) {
    case 0:
      bytes[at] ^= std::byte{1} << rng.below(8);
      break;
    case 1:
      bytes[at] = static_cast<std::byte>(rng.below(256));
      break;
    case 2:
    case 3:
    case 4: {
      const size_t size = size_t{2} << rng.below(3);
      if (bytes.size() - from < size) break;
      const size_t fits = from + rng.below(bytes.size() - from - size + 1);
      // Numbers mostly lie where their size says.
      put_number(bytes, rng.one_in(4) ? fits : std::max(from, fits / size * size), size, rng);
      break;
    }
    case 5:
      bytes.resize(at);
      break;
    case 6:
      bytes.resize(bytes.size() + 1 + rng.below(16), static_cast<std::byte>(rng.below(256)));
      break;
    default: {
      const size_t n = std::min<size_t>(bytes.size() - at, 1 + rng.below(64));
      const Bytes block(bytes.begin() + static_cast<ptrdiff_t>(at),
                        bytes.begin() + static_cast<ptrdiff_t>(at + n));
      bytes.insert(bytes.begin() + static_cast<ptrdiff_t>(at), block.begin(), block.end());
    }
  }
}

void damage_text(std::string& text, Rng& rng, std::span<const std::string_view> words) {
  if (text.empty()) {
    text = any_word(rng, 8);
    return;
  }
  const size_t at = rng.below(text.size());
  const size_t n = std::min<size_t>(text.size() - at, 1 + rng.below(24));
  switch (rng.below(9)) {
    case 0:
      text[at] = static_cast<char>(rng.below(256));
      break;
    case 1:
    case 2:
    case 3:
      damage_number(text, rng);
      break;
    case 4:
      if (!words.empty())
        text.replace(at, rng.one_in(2) ? 0 : n, std::string(words[rng.below(words.size())]));
      break;
    case 5:
      text.erase(at, n);
      break;
    case 6:
      text.insert(at, text.substr(at, n));
      break;
    case 7:
      swap_lines(text, rng);
      break;
    default:
      if (rng.one_in(4))
        text.resize(at);
      else
        text[at] = ",;.=\"'\n%{}[]() -"[rng.below(17)];
  }
}

float any_float(Rng& rng) {
  if (rng.one_in(6)) return std::bit_cast<float>(static_cast<uint32_t>(rng.next()));
  return (static_cast<float>(rng.below(2001)) - 1000) / 8;
}

double any_double(Rng& rng) {
  if (rng.one_in(6)) return std::bit_cast<double>(rng.next());
  return (static_cast<double>(rng.below(2001)) - 1000) / 8;
}

std::string any_word(Rng& rng, size_t max_bytes) {
  std::string out(rng.below(max_bytes + 1), ' ');
  for (char& c : out) c = static_cast<char>(33 + rng.below(94));
  return out;
}

std::string must_be_clear(const Error& e) {
  if (e.what.empty()) return "error without text";
  if (e.what.size() > 4000) return "error of " + std::to_string(e.what.size()) + " bytes";
  for (const char c : e.what) {
    if (c == '\n') return "error of two lines: " + e.what;
    // A terminal would act on it.
    if (static_cast<unsigned char>(c) < 32 || c == 127)
      return strf("error with control character %d: ", c) + e.what;
  }
  return "";
}

CaseTimer::CaseTimer() : start_s_(cpu_seconds()) {}

std::string CaseTimer::check(double limit_s) const {
  const double seconds = cpu_seconds() - start_s_;
  return seconds > limit_s ? strf("took %.1f s of CPU time", seconds) : "";
}

void limit_memory() {
  // A sanitizer maps terabytes of shadow.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr bool is_sanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  constexpr bool is_sanitized = true;
#else
  constexpr bool is_sanitized = false;
#endif
#else
  constexpr bool is_sanitized = false;
#endif
  if (is_sanitized) return;
  const rlimit limit{uint64_t{4} << 30, uint64_t{4} << 30};
  (void)setrlimit(RLIMIT_AS, &limit);
}

}  // namespace modeld::fuzz
