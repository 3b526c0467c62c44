// Payloads between plain structs and schema builders/readers. Private to ipc/message.cc, which
// catches what Cap'n Proto throws inside these functions.
// Threading: pure functions.
#pragma once

#include "hal/base/status.h"

#include "ipc/message_types.h"

// Generated code is not held to our warnings.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wpedantic"
#include "ipc/schema/envelope.capnp.h"
#pragma GCC diagnostic pop

namespace modeld::ipc {

void fill_vehicle(schema::Vehicle::Builder out, const VehicleInputs& in);
void fill_road(schema::Road::Builder out, const RoadMessage& in);
void fill_cabin(schema::Cabin::Builder out, const CabinMessage& in);
void fill_state(schema::State::Builder out, const StateMessage& in);
void fill_metrics(schema::Metrics::Builder out, const MetricsMessage& in);

Status take_vehicle(schema::Vehicle::Reader in, VehicleInputs& out);
Status take_road(schema::Road::Reader in, RoadMessage& out);
Status take_cabin(schema::Cabin::Reader in, CabinMessage& out);
Status take_state(schema::State::Reader in, StateMessage& out);
Status take_metrics(schema::Metrics::Reader in, MetricsMessage& out);

Result<ModelState> take_model_state(schema::ModelState value);
Result<Reason> take_reason(schema::Reason value);

// Text as it may travel: cut to kMaxText bytes.
capnp::Text::Reader cut_text(const std::string& text, char (&buffer)[520]);
Status take_text(const char* what, capnp::Text::Reader in, std::string& out);

}  // namespace modeld::ipc
