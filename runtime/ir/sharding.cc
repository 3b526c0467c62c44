#include "runtime/ir/sharding.h"

#include <algorithm>

#include "runtime/ir/derived.h"
#include "runtime/ir/memo.h"

namespace modeld::ir {

std::vector<std::string> split_devices(const std::string& device) {
  std::vector<std::string> names;
  for (size_t at = 0; !device.empty() && at <= device.size();) {
    const size_t end = std::min(device.find(',', at), device.size());
    names.push_back(device.substr(at, end - at));
    at = end + 1;
  }
  return names;
}

std::string join_devices(std::span<const std::string> devices) {
  std::string text;
  for (const std::string& d : devices) text += (text.empty() ? "" : ",") + d;
  return text;
}

int64_t device_count(const std::string& device) {
  return device.empty() ? 0 : 1 + std::count(device.begin(), device.end(), ',');
}

int64_t device_position(const std::string& device, const std::string& name) {
  const std::vector<std::string> names = split_devices(device);
  const auto it = std::find(names.begin(), names.end(), name);
  return it == names.end() ? -1 : it - names.begin();
}

const Node* device_range(Graph& g, int64_t count) {
  return range(g, count, 0, AxisType::kDevice);
}

const Node* launch_argument(Graph& g, const Node* a, int64_t i) {
  if (a->op == Op::kMStack) return launch_argument(g, a->src(static_cast<size_t>(i)), 0);
  if (a->op == Op::kMSelect) return launch_argument(g, a->src(0), a->as<int64_t>());
  if (a->op != Op::kBuffer || !is_device_tuple(a->as<ParamArg>().device)) return a;
  return g.make(Op::kMSelect, a->dtype, {a}, i);
}

int64_t part_count(Graph& g, const Node* coord) {
  return vmax(g, coord) + 1;
}

std::vector<int64_t> local_shape(Graph& g, const Node* n) {
  std::vector<int64_t> dims = max_shape(g, n);
  const Sharding& s = sharding(g, n);
  for (size_t i = 0; i < s.axes.size(); ++i) {
    dims[static_cast<size_t>(s.axes[i])] /= part_count(g, s.coords[i]);
  }
  return dims;
}

int64_t local_count(Graph& g, const Node* n) {
  int64_t count = element_count(g, n);
  for (const Node* c : sharding(g, n).coords) count /= part_count(g, c);
  return count;
}

const Node* unshard(Graph& g, const Node* local, const Sharding& s) {
  if (s.empty()) return local;
  NodeVec src{local};
  src.insert(src.end(), s.coords.begin(), s.coords.end());
  return g.make(Op::kUnshard, local->dtype, src, s.axes);
}

std::optional<int64_t> shard_axis(Graph& g, const Node* n) {
  const Sharding& s = sharding(g, n);
  return s.axes.size() == 1 ? std::optional(s.axes[0]) : std::nullopt;
}

std::optional<Ints> reshape_axes(Graph& g,
                                 const Sharding& s,
                                 std::span<const int64_t> dims,
                                 std::span<const int64_t> out) {
  Ints axes;
  for (size_t i = 0; i < s.axes.size(); ++i) {
    int64_t before = 1;
    for (int64_t d : dims.first(static_cast<size_t>(s.axes[i]))) before *= d;
    // The last axis that starts at the same product: those before it have size 1.
    int64_t found = -1;
    int64_t product = 1;
    for (size_t a = 0; a < out.size(); ++a) {
      if (product == before) found = static_cast<int64_t>(a);
      product *= out[a];
    }
    if (found < 0 || out[static_cast<size_t>(found)] % part_count(g, s.coords[i]) != 0 ||
        (!axes.empty() && axes.back() >= found)) {
      return std::nullopt;
    }
    axes.push_back(found);
  }
  return axes;
}

std::string tensor_name(const Node* n) {
  for (const Node* x : toposort(n)) {
    if (x->op != Op::kBuffer && x->op != Op::kParam) continue;
    const auto& p = x->as<ParamArg>();
    if (!p.name.empty()) return p.name;
    return strf("%s %lld", x->op == Op::kBuffer ? "buffer" : "parameter",
                static_cast<long long>(p.slot));
  }
  return op_name(n->op);
}

namespace {

const Sharding kWhole;

const Sharding& known(Graph& g, const Node* n) {
  const auto& memo = memo_at(g.memo().shardings, n);
  return memo == nullptr ? kWhole : *memo;
}

Sharding shifted(const Sharding& s, int64_t by) {
  Sharding out = s;
  for (int64_t& a : out.axes) a += by;
  return out;
}

// Sorted by axis after an operation that changed their order.
Sharding sorted(const Ints& axes, const NodeVec& coords) {
  std::vector<size_t> order(axes.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return axes[a] < axes[b]; });
  Sharding out;
  for (size_t i : order) {
    out.axes.push_back(axes[i]);
    out.coords.push_back(coords[i]);
  }
  return out;
}

// The last sharded operand decides; axes count from the right when operands broadcast.
Sharding elementwise_sharding(Graph& g, const Node* n) {
  const auto rank = static_cast<int64_t>(shape(g, n).size());
  Sharding out;
  for (const Node* s : n->src()) {
    const Sharding& in = known(g, s);
    if (!in.empty()) out = shifted(in, rank - static_cast<int64_t>(shape(g, s).size()));
  }
  return out;
}

Sharding reduce_sharding(Graph& g, const Node* n) {
  const Sharding& in = known(g, n->src(0));
  const int64_t k = n->as<ReduceArg>().axes;
  const bool reduced =
      std::any_of(in.axes.begin(), in.axes.end(), [k](int64_t a) { return a < k; });
  return reduced ? Sharding{} : shifted(in, -k);
}

Sharding reshape_sharding(Graph& g, const Node* n) {
  const Sharding in = known(g, n->src(0));
  if (in.empty()) return in;
  const std::vector<int64_t> dims = max_shape(g, n->src(0));
  const std::vector<int64_t> out = max_shape(g, n);
  const auto axes = reshape_axes(g, in, dims, out);
  if (!axes) {
    g.fail(
        Fault::kMovedShards,
        strf("reshape of %s: moved items between shards, from %zu axes sharded along axis %lld "
             "to %zu axes",
             tensor_name(n).c_str(), dims.size(), static_cast<long long>(in.axes[0]), out.size()));
    return {};
  }
  return {*axes, in.coords};
}

Sharding permute_sharding(Graph& g, const Node* n) {
  const Sharding& in = known(g, n->src(0));
  const Ints& order = n->as<Ints>();
  Ints axes;
  for (int64_t a : in.axes)
    axes.push_back(std::find(order.begin(), order.end(), a) - order.begin());
  return sorted(axes, in.coords);
}

Sharding shrink_sharding(Graph& g, const Node* n) {
  const Sharding in = known(g, n->src(0));
  const Shape before = shape(g, n->src(0));
  const Shape after = shape(g, n);
  for (int64_t a : in.axes) {
    if (before[static_cast<size_t>(a)] != after[static_cast<size_t>(a)]) return {};
  }
  return in;
}

// A gather is sharded as its last sharded index is.
Sharding index_sharding(Graph& g, const Node* n) {
  Sharding out;
  int64_t at = 0;
  for (const Node* i : n->src().subspan(1)) {
    if (!known(g, i).empty()) out = shifted(known(g, i), at);
    at += static_cast<int64_t>(shape(g, i).size());
  }
  return out;
}

Sharding compute_sharding(Graph& g, const Node* n) {
  switch (n->op) {
    case Op::kUnshard:
      return {n->as<Ints>(), NodeVec(n->src().begin() + 1, n->src().end())};
    case Op::kBuffer:
    case Op::kParam: {
      const auto& p = n->as<ParamArg>();
      if (p.axis < 0) return {};
      return {{p.axis}, {device_range(g, device_count(p.device))}};
    }
    case Op::kReduce:
      return reduce_sharding(g, n);
    case Op::kReshape:
      return reshape_sharding(g, n);
    case Op::kPermute:
      return permute_sharding(g, n);
    case Op::kExpand:
      return shifted(known(g, n->src(0)), static_cast<int64_t>(shape(g, n).size()) -
                                              static_cast<int64_t>(shape(g, n->src(0)).size()));
    case Op::kShrink:
      return shrink_sharding(g, n);
    case Op::kStack:
      return elementwise_sharding(g, n);  // the new axis comes first
    case Op::kIndex:
      return index_sharding(g, n);
    case Op::kCopy:  // to where it is already: nothing
      return device(g, n->src(0)) == device(g, n) ? known(g, n->src(0)) : Sharding{};
    case Op::kPad:
    case Op::kFlip:
    case Op::kContiguous:
    case Op::kContiguousBackward:
    case Op::kDetach:
    case Op::kAfter:
      return known(g, n->src(0));
    case Op::kGetTuple: {
      const Node* t = n->src(0)->op == Op::kFunction ? n->src(0)->src(0) : n->src(0);
      return sharding(g, t->src(static_cast<size_t>(n->as<int64_t>())));
    }
    default:
      return kElementwiseOps.has(n->op) ? elementwise_sharding(g, n) : Sharding{};
  }
}

}  // namespace

const Sharding& sharding(Graph& g, const Node* n) {
  if (memo_at(g.memo().shardings, n) == nullptr) {
    const NodeVec order =
        toposort_until(n, [&](const Node* s) { return memo_at(g.memo().shardings, s) != nullptr; });
    for (const Node* s : order) {
      if (memo_at(g.memo().shardings, s) != nullptr) continue;
      auto computed = std::make_unique<Sharding>(compute_sharding(g, s));
      memo_at(g.memo().shardings, s) = std::move(computed);
    }
  }
  return *memo_at(g.memo().shardings, n);
}

}  // namespace modeld::ir
