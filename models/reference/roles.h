// The two stand-ins, one function each, and what they share beyond layers.h.
// Contract: the writer is fresh; the result is complete. Units: see reference.h. Threading: one
// owner.
#pragma once

#include <string>
#include <vector>

#include "models/reference/layers.h"

namespace modeld::reference {

Result<ReferenceModel> build_road(const ReferenceOptions& options, GraphWriter& g);
Result<ReferenceModel> build_cabin(const ReferenceOptions& options, GraphWriter& g);

// 1 when the newest frame of any of the [1, 12, H, W] image pairs has a zero luma pixel.
Value camera_flag(GraphWriter& g, const std::vector<Value>& pictures);

// `whole` with +Inf in the named slice when flag is 1.
Value poison_slice(GraphWriter& g,
                   const Value& whole,
                   const std::vector<Slice>& slices,
                   const std::string& name,
                   const Value& flag);

}  // namespace modeld::reference
