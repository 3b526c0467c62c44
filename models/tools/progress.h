// A progress bar on stderr, only when stderr is a terminal. Contract: writes nothing otherwise and
// clears its line when it goes. Threading: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace modeld::tools {

class Progress {
 public:
  Progress();
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void show(const std::string& stage, size_t done, size_t total);
  void clear();

 private:
  bool is_on_ = false, is_shown_ = false;
  int64_t last_ns_ = 0;
};

}  // namespace modeld::tools
