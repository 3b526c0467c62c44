// Values on several devices. A device tuple is its names joined by commas, so that it compares,
// hashes and prints as one device does. A value on a tuple is replicated (the same on each), or
// sharded: UNSHARD(local, coordinates...; axes) says that the local value is one part of a global
// one, cut into equal parts along `axes`. A coordinate is an index expression over device_range():
// which part this device holds; its bound is the number of parts. Axes are sorted. Contract: a
// RESHAPE that moves elements between parts latches Fault::kMovedShards. Threading: as the Graph.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/ir/graph.h"

namespace modeld::ir {

// ---- device tuples ----
inline bool is_device_tuple(const std::string& device) {
  return device.find(',') != std::string::npos;
}
std::vector<std::string> split_devices(const std::string& device);  // one name: itself
std::string join_devices(std::span<const std::string> devices);
int64_t device_count(const std::string& device);  // "": 0
// Position of `name` in the tuple, -1 = not there.
int64_t device_position(const std::string& device, const std::string& name);

// ---- which device: the variable of a kernel that is launched once per device ----
// RANGE(count) of axis type kDevice; inside a finished kernel the variable kDeviceNum.
const Node* device_range(Graph& g, int64_t count);
inline constexpr const char* kDeviceNum = "_device_num";
// The BUFFER, or MSELECT(BUFFER, i) for a BUFFER on a tuple, that launch i of a call sees as this
// argument (BUFFER, MSELECT or MSTACK of those).
const Node* launch_argument(Graph& g, const Node* argument, int64_t i);

// ---- sharding, a derived property ----
struct Sharding {
  Ints axes;       // sorted; empty = whole on every device
  NodeVec coords;  // per axis
  bool empty() const { return axes.empty(); }
  bool operator==(const Sharding&) const = default;
};
const Sharding& sharding(Graph& g, const Node* n);
std::optional<int64_t> shard_axis(Graph& g, const Node* n);  // of a value sharded along one axis
int64_t part_count(Graph& g, const Node* coord);
// Dims of what one device holds: max_shape, divided along the sharded axes.
std::vector<int64_t> local_shape(Graph& g, const Node* n);
int64_t local_count(Graph& g, const Node* n);  // elements of that

const Node* unshard(Graph& g, const Node* local, const Sharding& s);

// Where the axes go when a value of `dims` is seen as `out`; nullopt = elements would change parts.
std::optional<Ints> reshape_axes(Graph& g,
                                 const Sharding& s,
                                 std::span<const int64_t> dims,
                                 std::span<const int64_t> out);

// The name of the tensor a message speaks of: that of its first buffer, else its op.
std::string tensor_name(const Node* n);

}  // namespace modeld::ir
