# Topic `cabin`: parsed outputs of the cabin model. Every list has its full size in every message, valid or not.
# Fields are only ever added at the end.
@0xbf0df7f109f6eede;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("modeld::ipc::schema");

using Vehicle = import "vehicle.capnp".Vehicle;
using Mdn = import "road.capnp".Mdn;
using Timings = import "road.capnp".Timings;
using RunIdentity = import "road.capnp".RunIdentity;

# One seat: the driver is on the left (left-hand drive) or on the right.
struct Side {
  face @0 :Mdn;                 # 6: orientation 3, position 2, size 1
  faceProb @1 :Float32;
  leftEyeProb @2 :Float32;
  rightEyeProb @3 :Float32;
  leftBlinkProb @4 :Float32;
  rightBlinkProb @5 :Float32;
  sunglassesProb @6 :Float32;
  usingPhoneProb @7 :Float32;
  sleepProb @8 :Float32;
}

struct Cabin {
  cabinFrameId @0 :UInt64;
  timings @1 :Timings;
  run @2 :RunIdentity;
  vehicle @3 :Vehicle;          # the inputs that this run used
  lhd @4 :Side;
  rhd @5 :Side;
  wheelOnRightProb @6 :Float32;
  raw @7 :List(Float32);        # the whole output vector, only with publish.raw
  frameDropPercent @8 :Float32;  # as in road
}
