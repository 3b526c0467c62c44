# Topic `metrics`: counters and latencies, once a second.
# Fields are only ever added at the end.
@0x83f023ac576587c8;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("modeld::ipc::schema");

struct Counter {
  name @0 :Text;                # Prometheus style, with labels: modeld_frames_total{model="road"}
  value @1 :Float64;
}

struct Latency {
  name @0 :Text;                # Prometheus style, as above; unit in the name
  count @1 :UInt64;             # samples in the window
  p50Ns @2 :Int64;
  p90Ns @3 :Int64;
  p99Ns @4 :Int64;
  maxNs @5 :Int64;
}

struct Metrics {
  counters @0 :List(Counter);
  latencies @1 :List(Latency);
}
