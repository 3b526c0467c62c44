// systemd's watchdog and state lines, fed by the frame loop after a finished step, never by a
// timer. Contract: WATCHDOG=1 at most every quarter of the watchdog's interval; READY=1 once, when
// every model has left LOADING and SELFTEST; EXTEND_TIMEOUT_USEC while one is loading. Without
// systemd nothing happens. Threading: frame loop.
#pragma once

#include <cstdint>
#include <vector>

namespace modeld::daemon {

class ModelPair;

class Watchdog {
 public:
  Watchdog();
  void progress(int64_t now, const std::vector<ModelPair*>& units);
  void stopping();

 private:
  void tell_status(const std::vector<ModelPair*>& units);

  int64_t period_ns_ = 0;  // between WATCHDOG=1 lines, 0: none wanted
  int64_t next_ns_ = 0;
  int64_t next_extend_ns_ = 0;
  bool ready_ = false;
};

}  // namespace modeld::daemon
