// Makes and damages messages for their fuzzer. The damage knows how Cap'n Proto lays out words
// (segment table, struct, list and far pointers), so that it hits pointers and enums, not only
// floats. Contract: pure functions of the generator's state. Threading: one thread.
#pragma once

#include "ipc/message_types.h"

#include "selftest/fuzz/damage.h"

namespace modeld::fuzz {

ipc::VehicleMessage any_vehicle_message(Rng& rng);
ipc::RoadMessage any_road_message(Rng& rng);
ipc::CabinMessage any_cabin_message(Rng& rng);
ipc::StateMessage any_state_message(Rng& rng);
ipc::MetricsMessage any_metrics_message(Rng& rng);

// The same message in two segments, its root behind a far pointer.
Bytes in_two_segments(const Bytes& one_segment);

// One change behind the segment table, which is repaired afterwards.
void damage_message(Bytes& message, Rng& rng);

}  // namespace modeld::fuzz
