// DeviceBan: while one lives, hal::open_device refuses on this thread. Threads that only compile
// hold one, so that "compiling opens no device" is more than a wish.
// Threading: counts per thread; bans may nest.
#pragma once

namespace modeld::hal {

class DeviceBan {
 public:
  DeviceBan() { ++depth(); }
  ~DeviceBan() { --depth(); }
  DeviceBan(const DeviceBan&) = delete;
  DeviceBan& operator=(const DeviceBan&) = delete;

  static bool is_active() { return depth() > 0; }

 private:
  static int& depth() {
    thread_local int depth = 0;
    return depth;
  }
};

}  // namespace modeld::hal
