# Topic `state`: the whole state of every model, 10 times a second and at once on every transition.
# Fields are only ever added at the end. Times are CLOCK_MONOTONIC nanoseconds.
@0xc840c788697ee3c9;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("modeld::ipc::schema");

# Order is part of the contract (ipc/model_state.h mirrors it).
enum ModelState {
  loading @0;
  selftest @1;
  warming @2;
  ready @3;
  degraded @4;
  unavailable @5;
}

enum Reason {
  none @0;
  bundleMissing @1;
  bundleInvalid @2;
  targetMismatch @3;
  compileFailed @4;
  loadFailed @5;
  selftestFailed @6;
  deviceLost @7;
  timeout @8;
  nonFinite @9;
  inputStale @10;
  cameraFault @11;
  privilege @12;
  config @13;
}

struct ModelStatus {
  name @0 :Text;                # road, cabin
  state @1 :ModelState;
  reason @2 :Reason;
  text @3 :Text;                # one line for a person: what happened, on what, the value seen
  sinceNs @4 :Int64;           # when this state was entered
  bundlePath @5 :Text;
  bundleId @6 :Text;            # SHA-256 of the model, hex; empty before a bundle was read
  device @7 :Text;              # device URI
  simulated @8 :Bool;
  contextFrames @9 :UInt32;     # accepted frames needed before READY
  contextFilled @10 :UInt32;    # accepted since the last reset, at most contextFrames
  resets @11 :UInt64;           # state resets since start
  unavailableEntries @12 :UInt64;        # entries into UNAVAILABLE since start
  unavailableAfterReady @13 :UInt64;     # those after the first READY
  framesAccepted @14 :UInt64;
  framesLate @15 :UInt64;
  framesDropped @16 :UInt64;
  timeouts @17 :UInt64;
  nonFinite @18 :UInt64;
  workerStarts @19 :UInt64;
  compiledCalls @20 :UInt64;    # calls compiled on this machine by prepare
  readyOnce @21 :Bool;          # has been READY since start
}

struct State {
  models @0 :List(ModelStatus);
  source @1 :Text;              # source string of the camera server, empty while not connected
  cameraConnected @2 :Bool;
  pid @3 :UInt32;
  startNs @4 :Int64;
  version @5 :Text;
}
