# Topic `road`: parsed outputs of the road model. Every list has its full size in every message, valid or not.
# Fields are only ever added at the end. Lists are row-major; sizes are given as AxB.
@0xcc9b69b26e232f18;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("modeld::ipc::schema");

using Vehicle = import "vehicle.capnp".Vehicle;

# A quantity with uncertainty: mean and sigma, same length.
struct Mdn {
  mean @0 :List(Float32);
  std @1 :List(Float32);
}

# Times of one run, CLOCK_MONOTONIC ns; 0 where a step was not reached.
struct Timings {
  sofNs @0 :Int64;             # start of frame, road (cabin) camera
  eofNs @1 :Int64;
  receivedNs @2 :Int64;        # recvmsg of the newest frame of the run
  handedOverNs @3 :Int64;      # hand-over to the worker
  answeredNs @4 :Int64;        # answer of the worker seen
  latencyNs @5 :Int64;         # receivedNs to just before this message's zmq_send
  previousLatencyNs @6 :Int64; # receivedNs of the previous message to the return of its zmq_send, 0 on the first
  warpNs @7 :Int64;            # spent by the device on the warp
  runNs @8 :Int64;             # spent by the device on the run
}

# Which run this is: what a recording needs to make it again.
struct RunIdentity {
  resets @0 :UInt64;            # state resets before this run, since start
  sinceReset @1 :UInt64;        # accepted frames since the last reset, this one included
  accepted @2 :Bool;            # the run passed the finite check and its state was committed
}

struct Road {
  roadFrameId @0 :UInt64;
  wideFrameId @1 :UInt64;
  timings @2 :Timings;
  run @3 :RunIdentity;
  vehicle @4 :Vehicle;          # the inputs that this run used

  plan @5 :Mdn;                 # 33x15: position 3, velocity 3, acceleration 3, euler 3, orientation rate 3
  laneLines @6 :Mdn;            # 4x33x2: y, z
  laneLineProbs @7 :List(Float32);  # 4
  roadEdges @8 :Mdn;            # 2x33x2
  leads @9 :Mdn;                # 3x6x4: x, y, v, a at t = 0,2,..10 s
  leadProbs @10 :List(Float32); # 3: a lead at 0, 2, 4 s
  pose @11 :Mdn;                # 6: translation 3, rotation 3
  roadTransform @12 :Mdn;       # 6
  wideFromDeviceEuler @13 :Mdn; # 3
  meta @14 :List(Float32);      # 55 probabilities
  desirePred @15 :List(Float32);   # 4x8
  desireState @16 :List(Float32);  # 8
  action @17 :List(Float32);    # 2: lateral, longitudinal
  hasAction @18 :Bool;          # the model has an `action` slice
  raw @19 :List(Float32);       # the whole output vector, only with publish.raw
  frameDropPercent @20 :Float32;  # camera frames that were not run, filtered over 10 s; 0 for 10 runs after a reset
}
