// Trace zones: a fixed-size ring of begin/end/instant events per thread, dumped as Chrome-trace
// JSON on request. This is not a log: only names, one number and a tag per event; old events are
// overwritten. Rings may lie in memory that another process reads (a worker's in its supervisor's
// page): both count CLOCK_MONOTONIC, so one dump shows both on one axis. Contract: off (the
// default) costs one relaxed load. On, an event writes 64 bytes and never allocates or locks,
// except at a thread's first event (call trace_prepare_thread() before a hot loop). Names are
// copied and cut after 31 characters, tags after 8. Who dumps foreign memory trusts nothing in it.
// Threading: any thread writes its own ring; dump may run at any time from any thread and drops
// events being overwritten.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace modeld {

namespace trace_internal {
extern std::atomic<bool> enabled;
extern std::atomic<bool> kernels;
enum class Kind : uint32_t { kBegin, kEnd, kInstant };
void emit(Kind kind, const char* name, int64_t arg, const char* tag, int64_t time_ns);
}  // namespace trace_internal

void trace_enable(bool on);
inline bool trace_is_enabled() {
  return trace_internal::enabled.load(std::memory_order_relaxed);
}
// A zone per kernel as well, which costs two clock reads each; off unless asked for.
void trace_enable_kernels(bool on);
inline bool trace_kernels_enabled() {
  return trace_is_enabled() && trace_internal::kernels.load(std::memory_order_relaxed);
}
// Makes the calling thread's ring and names its track (31 characters).
void trace_prepare_thread(const char* name);

// `tag` says whose event it is (a model, a stream): then `arg` is a frame id. "" for neither.
inline void trace_instant(const char* name, int64_t arg = 0, const char* tag = "") {
  if (trace_is_enabled()) trace_internal::emit(trace_internal::Kind::kInstant, name, arg, tag, -1);
}
// A zone that is known only once it is over.
void trace_span(const char* name, int64_t begin_ns, int64_t end_ns, int64_t arg, const char* tag);

// ---- memory that another process reads ----

inline constexpr size_t kTraceMemoryBytes = 2 * (64 + 8192 * 64) + 64;
// Threads of this process whose first event comes later write into `memory` (zeroed, page-aligned,
// at least kTraceMemoryBytes, alive as long as they are); those it has no room for keep rings of
// their own, and so do all after a call with no memory.
void trace_use_memory(std::span<std::byte> memory);

struct TraceSource {
  int pid = 0;
  const char* process = "";  // its name in the picture
  std::span<const std::byte> memory;
};

// {"traceEvents":[...]} with times in microseconds since boot; this process's threads, then those
// of the sources; events sorted by thread, then time.
std::string trace_dump_json(const char* process = "", std::span<const TraceSource> sources = {});
// For a program's main: traces from here on if MODELD_TRACE names a file, and writes it at the end
// of the scope.
class TraceFile {
 public:
  TraceFile();
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

 private:
  std::string path_;  // "": not asked for
};

// Forgets everything recorded so far; for tests.
void trace_clear();

class TraceZone {
 public:
  explicit TraceZone(const char* name, int64_t arg = 0, const char* tag = "")
      : TraceZone(trace_is_enabled(), name, arg, tag) {}
  ~TraceZone() {
    if (name_ != nullptr) trace_internal::emit(trace_internal::Kind::kEnd, name_, 0, "", -1);
  }
  TraceZone(const TraceZone&) = delete;
  TraceZone& operator=(const TraceZone&) = delete;

 protected:
  // `name` must live as long as the zone.
  TraceZone(bool on, const char* name, int64_t arg, const char* tag) : name_(on ? name : nullptr) {
    if (name_ != nullptr) trace_internal::emit(trace_internal::Kind::kBegin, name_, arg, tag, -1);
  }

 private:
  const char* name_;
};

// One kernel of a run.
class TraceKernelZone final : public TraceZone {
 public:
  explicit TraceKernelZone(const char* name) : TraceZone(trace_kernels_enabled(), name, 0, "") {}
};

}  // namespace modeld
