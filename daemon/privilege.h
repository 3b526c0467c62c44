// Rights the daemon gives up, and the proof that they are gone: it must not be able to reach an
// actuator. Lock down first, probe second: a probe that opens afterwards is reason `privilege`.
// Contract: drop_to_user is irreversible; probes open nothing for longer than the probe and never
// create or write anything. What they look at is a value, so that a test or the boot self-test can
// point them at something that exists. Threading: at start, one thread.
#pragma once

#include <string>
#include <vector>

#include "hal/base/status.h"

namespace modeld::daemon {

// Started as root with a user configured: a directory that root has just made becomes the user's.
Status give_to_user(const std::string& user, const std::string& dir);
// Started as root with a user configured: becomes that user, groups included. "" = stays as it is.
Status drop_to_user(const std::string& user);

struct SocketKind {
  int family;
  int type;
  int protocol;
};

// What a model process must not be able to open. The defaults are a vehicle's.
struct ActuatorProbes {
  // Shared-memory queues whose writer steers the car.
  std::vector<std::string> queues = {"/dev/shm/msgq_sendcan", "/dev/shm/msgq_carControl",
                                     "/dev/shm/msgq_can"};
  // Raw frames and the broadcast manager of SocketCAN (linux/can.h: family 29, protocols 1 and 2).
  std::vector<SocketKind> sockets = {{29, 3 /* SOCK_RAW */, 1}, {29, 2 /* SOCK_DGRAM */, 2}};
  // CAN adapters are found by vendor in `usb_dir`; their nodes lie below `dev_dir`. SPI nodes of
  // `dev_dir` count as adapters, too.
  std::string dev_dir = "/dev";
  std::string usb_dir = "/sys/bus/usb/devices";
};

struct Probe {
  std::string what;  // "/dev/shm/msgq_sendcan", "a socket of family 29 (type 3, protocol 1)"
  bool opened = false;
  int error = 0;  // errno of the refusal; ENOENT: nothing there to be opened
};

// Tries all of them, in the order above.
std::vector<Probe> run_probes(const ActuatorProbes& probes = {});
// kBusy naming the first one that opened.
Status probe_actuators(const ActuatorProbes& probes = {});

// Nodes of USB CAN adapters ("/dev/bus/usb/001/004").
std::vector<std::string> usb_can_nodes(const std::string& dev_dir, const std::string& usb_dir);
// Nodes of every other USB device.
std::vector<std::string> usb_other_nodes(const std::string& dev_dir, const std::string& usb_dir);

}  // namespace modeld::daemon
