# Topic `vehicle`: what the models need to know about the vehicle, 20 times a second.
# Fields are only ever added at the end.
@0xcfc7f06cf7059495;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("modeld::ipc::schema");

struct Vehicle {
  timeNs @0 :Int64;            # CLOCK_MONOTONIC at which these values held
  calibrationKnown @1 :Bool;
  rpyCalibration @2 :List(Float32);   # 3: roll, pitch, yaw of the device in the vehicle, rad
  desire @3 :List(Float32);           # 8: one-hot none, turnLeft, turnRight, laneChangeLeft, laneChangeRight, keepLeft, keepRight, (spare)
  rightHandDrive @4 :Bool;
  lateralActionTime @5 :Float32;      # s
  longitudinalActionTime @6 :Float32; # s
  speed @7 :Float32;                  # m/s
  source @8 :Text;                    # source string of the publisher (ipc/frame_source.h), empty if unknown
}
