#include "ipc/zmq_context.h"

#include <sched.h>
#include <zmq.h>

#include "hal/base/check.h"

namespace modeld::ipc {

// libzmq starts its threads with the first socket, and a thread inherits the class of the one that
// starts it. A sender wakes libzmq's thread, which then copies the message to every subscriber. As
// a batch thread it does so on another processor or once the sender sleeps, never in its place: a
// frame's send returns after the hand-over (on two processors 70 us became 15). The library's own
// option for this ends the process when the class and an inherited priority do not go together.
ZmqContext::ZmqContext() : handle_(zmq_ctx_new()) {
  CHECK(handle_ != nullptr);
  const sched_param none{};
  const bool is_normal = sched_getscheduler(0) == SCHED_OTHER;
  // Where the system refuses, the threads are as the others.
  if (is_normal) sched_setscheduler(0, SCHED_BATCH, &none);
  void* const first = zmq_socket(handle_, ZMQ_PAIR);
  if (is_normal) sched_setscheduler(0, SCHED_OTHER, &none);
  if (first != nullptr) zmq_close(first);
}

ZmqContext::~ZmqContext() {
  zmq_ctx_term(handle_);
}

}  // namespace modeld::ipc
