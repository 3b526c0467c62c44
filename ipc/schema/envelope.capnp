# The one root of every message: what any consumer must look at before the payload.
# Fields are only ever added at the end; a new topic adds one union member.
@0x958871d5c5ab93a9;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("modeld::ipc::schema");

struct Envelope {
  timeNs @0 :Int64;            # CLOCK_MONOTONIC just before the send
  sequence @1 :UInt64;          # per topic and publisher, from 0, without gaps on the sender's side
  frameId @2 :UInt64;           # camera frame that this message belongs to; 0 where there is none
  valid @3 :Bool = false;       # false by default: a truncated or hand-made message never claims validity
  degraded @4 :Bool = false;
  state @5 :import "state.capnp".ModelState;
  reason @6 :import "state.capnp".Reason;  # of `degraded` or of not `valid`
  simulated @7 :Bool = false;   # the numbers come from a simulated device

  union {
    none @8 :Void;
    vehicle @9 :import "vehicle.capnp".Vehicle;
    road @10 :import "road.capnp".Road;
    cabin @11 :import "cabin.capnp".Cabin;
    models @12 :import "state.capnp".State;
    metrics @13 :import "metrics.capnp".Metrics;
  }
}
