#include "hal/base/trace.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>
#include <vector>

#include "hal/base/check.h"
#include "hal/base/clock.h"
#include "hal/base/env.h"
#include "hal/base/fs.h"
#include "hal/base/log.h"
#include "hal/base/status.h"

namespace modeld {

namespace {

using trace_internal::Kind;

constexpr size_t kRingEvents = 8192;  // some 6 s of a daemon with two models at 20 Hz
constexpr size_t kNameWords = 4;
constexpr size_t kTagWords = 1;

// Text as words, so that it can be written and read like a number: what does not fit is cut.
template <size_t N>
using Words = std::array<uint64_t, N>;
template <size_t N>
using AtomicWords = std::array<std::atomic<uint64_t>, N>;

template <size_t N>
Words<N> words_of(const char* text, size_t most) {
  Words<N> out{};
  std::memcpy(out.data(), text, strnlen(text, most));
  return out;
}

// All fields are lock-free atomics, so a dump may race with the writer, in this process or in
// another. `ticket` ((index + 1) * 4 + kind, written last) tells torn events.
struct Event {
  std::atomic<uint64_t> ticket{0};
  std::atomic<int64_t> time_ns{0};
  std::atomic<int64_t> arg{0};
  AtomicWords<kTagWords> tag{};
  AtomicWords<kNameWords> name{};
};
static_assert(sizeof(Event) == 64 && std::atomic<uint64_t>::is_always_lock_free);

struct Ring {
  AtomicWords<kNameWords> thread_name{};
  std::atomic<uint64_t> next{0};
  std::array<uint64_t, 3> unused{};
  std::array<Event, kRingEvents> events;
};

// What trace_use_memory makes of its bytes.
struct SharedRings {
  static constexpr size_t kRings = 2;
  std::atomic<uint64_t> used{0};
  std::array<uint64_t, 7> unused{};
  std::array<Ring, kRings> rings;
};
static_assert(sizeof(SharedRings) == kTraceMemoryBytes);

template <size_t N>
void store(AtomicWords<N>& to, const Words<N>& from) {
  for (size_t i = 0; i < N; ++i) to[i].store(from[i], std::memory_order_release);
}

template <size_t N>
std::array<char, N * 8> load(const AtomicWords<N>& from) {
  Words<N> words{};
  for (size_t i = 0; i < N; ++i) words[i] = from[i].load(std::memory_order_acquire);
  std::array<char, N * 8> out{};
  std::memcpy(out.data(), words.data(), out.size());
  return out;
}

struct Rings {
  std::mutex mutex;
  std::vector<std::shared_ptr<Ring>> list;  // shared: a ring outlives its thread until it is dumped
  std::atomic<SharedRings*> shared{nullptr};
};

// Never destroyed: threads may trace while the process ends.
Rings& rings() {
  static Rings* const all = new Rings;
  return *all;
}

// The next ring of the shared memory, made resident now; null when there is none.
Ring* claim_shared() {
  SharedRings* const shared = rings().shared.load(std::memory_order_acquire);
  if (shared == nullptr) return nullptr;
  const uint64_t mine = shared->used.fetch_add(1);
  return mine < SharedRings::kRings ? new (&shared->rings[mine]) Ring : nullptr;
}

Ring& thread_ring() {
  thread_local Ring* const shared = claim_shared();
  if (shared != nullptr) return *shared;
  thread_local const std::shared_ptr<Ring> ring = [] {
    auto made = std::make_shared<Ring>();
    const std::lock_guard lock(rings().mutex);
    rings().list.push_back(made);
    return made;
  }();
  return *ring;
}

// ---- dump ----

struct Copy {
  int64_t time_ns, arg;
  std::array<char, kNameWords * 8> name;
  std::array<char, kTagWords * 8> tag;
  Kind kind;
};

std::vector<Copy> copy_ring(const Ring& ring) {
  std::vector<Copy> out;
  const uint64_t end = ring.next.load(std::memory_order_acquire);
  const uint64_t begin = end > kRingEvents ? end - kRingEvents : 0;
  out.reserve(end - begin);
  for (uint64_t i = begin; i < end; ++i) {
    const Event& e = ring.events[i % kRingEvents];
    const uint64_t ticket = e.ticket.load(std::memory_order_acquire);
    if (ticket / 4 != i + 1 || ticket % 4 > static_cast<uint64_t>(Kind::kInstant)) continue;
    const Copy c{e.time_ns.load(std::memory_order_acquire), e.arg.load(std::memory_order_acquire),
                 load(e.name), load(e.tag), static_cast<Kind>(ticket % 4)};
    if (e.ticket.load(std::memory_order_acquire) == ticket) out.push_back(c);
  }
  // Spans are told when they are over: their begin comes behind what happened in them.
  std::stable_sort(out.begin(), out.end(),
                   [](const Copy& a, const Copy& b) { return a.time_ns < b.time_ns; });
  return out;
}

// Writes the JSON as it goes: a dump is taken by a loop that has frames to serve, and a tree of
// values would cost it some of them.
class Writer {
 public:
  Writer() { out_ = "{\"traceEvents\":["; }

  void name_process(int pid, const char* name) {
    begin(pid, 0, "process_name", "M");
    out_ += ",\"args\":{\"name\":";
    text(name);
    out_ += "}}";
  }
  void ring(int pid, size_t thread, const Ring& ring) {
    begin(pid, thread, "thread_name", "M");
    out_ += ",\"args\":{\"name\":";
    const auto name = load(ring.thread_name);
    text(view(name));
    out_ += "}}";
    for (const Copy& c : copy_ring(ring)) event(pid, thread, c);
  }
  std::string finish() {
    out_ += "]}";
    return std::move(out_);
  }

 private:
  template <size_t N>
  static std::string_view view(const std::array<char, N>& text) {
    return {text.data(), strnlen(text.data(), N)};
  }
  void begin(int pid, size_t thread, std::string_view name, const char* phase) {
    out_ += is_first_ ? "{\"name\":" : ",\n{\"name\":";
    is_first_ = false;
    text(name);
    out_ += ",\"ph\":\"";
    out_ += phase;
    out_ += "\",\"pid\":";
    out_ += std::to_string(pid);
    out_ += ",\"tid\":";
    out_ += std::to_string(thread);
  }
  void event(int pid, size_t thread, const Copy& c) {
    static constexpr const char* kPhase[] = {"B", "E", "i"};
    begin(pid, thread, view(c.name), kPhase[static_cast<size_t>(c.kind)]);
    // Microseconds with all digits; a foreign ring may claim any time.
    const int64_t ns = std::max<int64_t>(c.time_ns, 0);
    out_ += ",\"ts\":";
    out_ += std::to_string(ns / 1000);
    const std::string rest = std::to_string(1000 + ns % 1000);
    out_ += '.';
    out_.append(rest, 1, 3);
    if (c.kind == Kind::kInstant) out_ += ",\"s\":\"t\"";
    if (c.kind != Kind::kEnd) args(c);
    out_ += '}';
  }
  void args(const Copy& c) {
    const std::string_view tag = view(c.tag);
    out_ += ",\"args\":{";
    if (!tag.empty()) {
      out_ += "\"of\":";
      text(tag);
      out_ += ',';
    }
    out_ += tag.empty() ? "\"value\":" : "\"frame\":";
    out_ += std::to_string(c.arg);
    out_ += '}';
  }
  // Printable ASCII stays, anything else could be anything.
  void text(std::string_view s) {
    out_ += '"';
    for (const char c : s) {
      if (c == '"' || c == '\\') out_ += '\\';
      out_ += c >= ' ' && c <= '~' ? c : '?';
    }
    out_ += '"';
  }

  std::string out_;
  bool is_first_ = true;
};

}  // namespace

namespace trace_internal {

std::atomic<bool> enabled{false};
std::atomic<bool> kernels{false};

void emit(Kind kind, const char* name, int64_t arg, const char* tag, int64_t time_ns) {
  Ring& ring = thread_ring();
  const uint64_t i = ring.next.load(std::memory_order_relaxed);
  Event& e = ring.events[i % kRingEvents];
  e.ticket.store(0, std::memory_order_relaxed);
  e.time_ns.store(time_ns < 0 ? now_ns() : time_ns, std::memory_order_release);
  e.arg.store(arg, std::memory_order_release);
  store(e.tag, words_of<kTagWords>(tag, kTagWords * 8));
  store(e.name, words_of<kNameWords>(name, kNameWords * 8 - 1));
  e.ticket.store((i + 1) * 4 + static_cast<uint64_t>(kind), std::memory_order_release);
  ring.next.store(i + 1, std::memory_order_release);
}

}  // namespace trace_internal

void trace_enable(bool on) {
  trace_internal::enabled.store(on, std::memory_order_relaxed);
}

void trace_enable_kernels(bool on) {
  trace_internal::kernels.store(on, std::memory_order_relaxed);
}

void trace_prepare_thread(const char* name) {
  store(thread_ring().thread_name, words_of<kNameWords>(name, kNameWords * 8 - 1));
}

void trace_span(const char* name, int64_t begin_ns, int64_t end_ns, int64_t arg, const char* tag) {
  if (!trace_is_enabled()) return;
  trace_internal::emit(Kind::kBegin, name, arg, tag, begin_ns);
  trace_internal::emit(Kind::kEnd, name, 0, "", end_ns);
}

void trace_use_memory(std::span<std::byte> memory) {
  CHECK(memory.empty() || memory.size() >= sizeof(SharedRings));
  // The rings themselves are made when they are claimed; zeroes are a ring without events.
  rings().shared.store(reinterpret_cast<SharedRings*>(memory.data()), std::memory_order_release);
}

std::string trace_dump_json(const char* process, std::span<const TraceSource> sources) {
  std::vector<std::shared_ptr<Ring>> list;
  {
    const std::lock_guard lock(rings().mutex);
    list = rings().list;
  }
  Writer out;
  if (*process != '\0') out.name_process(getpid(), process);
  for (size_t thread = 0; thread < list.size(); ++thread) out.ring(getpid(), thread, *list[thread]);
  for (const TraceSource& s : sources) {
    if (s.memory.size() < sizeof(SharedRings)) continue;
    const auto& shared = *reinterpret_cast<const SharedRings*>(s.memory.data());
    out.name_process(s.pid, s.process);
    const uint64_t used = std::min<uint64_t>(shared.used.load(), SharedRings::kRings);
    for (size_t thread = 0; thread < used; ++thread) out.ring(s.pid, thread, shared.rings[thread]);
  }
  return out.finish();
}

void trace_clear() {
  const std::lock_guard lock(rings().mutex);
  for (const auto& ring : rings().list) {
    for (Event& e : ring->events) e.ticket.store(0, std::memory_order_relaxed);
    ring->next.store(0, std::memory_order_release);
  }
  // Rings of threads that ended go now.
  std::erase_if(rings().list, [](const std::shared_ptr<Ring>& r) { return r.use_count() == 1; });
}

TraceFile::TraceFile() : path_(env_text("MODELD_TRACE")) {
  if (path_.empty()) return;
  trace_enable(true);
  trace_enable_kernels(true);
  trace_prepare_thread("main");
}

TraceFile::~TraceFile() {
  if (path_.empty()) return;
  if (const Status s = write_text_atomic(path_, trace_dump_json()); !s.ok())
    LOG_ERROR("trace", "%s", s.error().what.c_str());
}

}  // namespace modeld
