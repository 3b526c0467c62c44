// A text in a file, replaced whole once in a while by a thread of its own: a rename may wait for
// the disk's journal longer than a frame may take. Contract: offer() copies into memory made once
// and neither allocates, locks nor waits; a text that comes while the one before is still being
// written is dropped and counted. Whoever reads the file reads one text, never parts of two. The
// destructor waits until the text taken last is written. An error is logged when it begins and
// counted each time; the next text is tried all the same. Threading: one thread offers; the counts
// may be read by any.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>

#include "hal/base/status.h"

namespace modeld::daemon {

class MetricsFile final {
 public:
  // Texts of up to `limit_bytes`. Without a path nothing is written and no thread is started.
  // Made when the daemon's own threads have the class they keep: the writer is not one of those.
  MetricsFile(std::string path, size_t limit_bytes);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  bool is_on() const { return thread_.joinable(); }
  void offer(std::string_view text);

  uint64_t written() const { return written_.load(std::memory_order_relaxed); }
  uint64_t failed() const { return failed_.load(std::memory_order_relaxed); }
  uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  void serve();
  void write_text();
  Status replace_file() const;

  const std::string path_;
  const std::string temp_path_;
  // kFull: text_ is the writer's, else it is the offering thread's.
  std::atomic<uint32_t> state_{0};
  std::string text_;
  bool fails_ = false;  // the writer's
  std::atomic<uint64_t> written_{0};
  std::atomic<uint64_t> failed_{0};
  std::atomic<uint64_t> dropped_{0};
  std::thread thread_;
};

}  // namespace modeld::daemon
