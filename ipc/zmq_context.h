// Owner of a ZeroMQ context: one per process, made by main, handed down.
// Threading: any. Destroy it after every socket made from it.
#pragma once

#include "hal/base/status.h"

namespace modeld::ipc {

class ZmqContext final {
 public:
  ZmqContext();
  ~ZmqContext();
  ZmqContext(const ZmqContext&) = delete;
  ZmqContext& operator=(const ZmqContext&) = delete;
  void* handle() const { return handle_; }

 private:
  void* handle_ = nullptr;
};

}  // namespace modeld::ipc
