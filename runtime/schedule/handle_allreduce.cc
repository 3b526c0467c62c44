#include "runtime/schedule/handle_allreduce.h"

#include <algorithm>

#include "runtime/ir/derived.h"
#include "runtime/schedule/multi.h"

namespace modeld::schedule {

using ir::DType;
using ir::Graph;
using ir::Node;
using ir::NodeVec;
using ir::Op;

AllReduceWay allreduce_way(int64_t devices,
                           int64_t elements,
                           bool concrete,
                           const ScheduleOptions& options) {
  // A detour over chunks pays only for many elements on more than two devices.
  const bool large = devices > 2 && elements > options.ring_allreduce_threshold;
  if (!concrete) return AllReduceWay::kNaive;
  if (options.all2all >= 2 || (large && options.all2all >= 1)) return AllReduceWay::kAllToAll;
  if (options.ring >= 2 || (large && options.ring >= 1)) return AllReduceWay::kRing;
  return AllReduceWay::kNaive;
}

std::vector<int64_t> chunk_ends(int64_t elements, int64_t devices) {
  // Chunks are multiples of a vector's width where the count allows it.
  int64_t factor = 1;
  for (const int64_t f : {32, 16, 8, 4, 2}) {
    if (elements % f == 0) {
      factor = f;
      break;
    }
  }
  const int64_t each = elements / factor / devices;
  const int64_t longer = elements / factor % devices;
  std::vector<int64_t> ends;
  int64_t end = 0;
  for (int64_t i = 0; i < devices; i++) {
    end += (i < longer ? each + 1 : each) * factor;
    ends.push_back(end);
  }
  return ends;
}

namespace {

// One ALLREDUCE of a flat value, as nodes. Nothing here has storage yet: the body of a call must
// not depend on buffers.
class AllReduce {
 public:
  AllReduce(Graph& g, const Node* in, const ir::AllReduceArg& arg, const ScheduleOptions& options)
      : g_(g),
        in_(in),
        arg_(arg),
        options_(options),
        devices_(ir::split_devices(ir::device(g, in))),
        targets_(ir::split_devices(arg.device)),
        count_(ir::element_count(g, in)) {}

  const Node* value(AllReduceWay way) {
    if (way == AllReduceWay::kNaive) return naive();
    return reassemble(chunks(way));
  }

  // The effect of writing the result to flat storage `out`: as one value, or chunk by chunk.
  const Node* stored(AllReduceWay way, const Node* out) {
    if (way == AllReduceWay::kNaive || !options_.allreduce_in_place) {
      return store(out, out, value(way));
    }
    const Node* state = out;
    for (const Chunk& c : chunks(way)) state = store(state, cut(state, c.begin, c.end), c.value);
    return state;
  }

 private:
  struct Chunk {
    int64_t begin, end;
    const Node* value;  // on every target
  };

  int64_t n() const { return static_cast<int64_t>(devices_.size()); }
  const std::string& device(int64_t i) const { return devices_[static_cast<size_t>(i)]; }
  const Node* part(int64_t i) { return g_.make(Op::kMSelect, in_->dtype, {in_}, i); }
  const Node* fold(const Node* a, const Node* b) { return ir::alu(g_, arg_.op, {a, b}); }
  const Node* contiguous(const Node* x) { return g_.make(Op::kContiguous, x->dtype, {x}); }

  const Node* store(const Node* state, const Node* place, const Node* value) {
    const Node* s = g_.make(Op::kStore, DType::kVoid, {place, value});
    return g_.make(Op::kAfter, state->dtype, {state, s});
  }
  const Node* cut(const Node* flat, int64_t begin, int64_t end) {
    return g_.make(
        Op::kShrink, flat->dtype,
        {flat, ir::shape_node(g_, ir::Ints{begin}), ir::shape_node(g_, ir::Ints{end - begin})});
  }
  const Node* copy(const Node* x, const std::string& to) {
    return ir::device(g_, x) == to ? x : g_.make(Op::kCopy, x->dtype, {x}, to);
  }
  const Node* on_targets(const NodeVec& per_target) {
    if (per_target.size() == 1) return per_target[0];
    return g_.make(Op::kMStack, in_->dtype, per_target);
  }
  const Node* to_targets(const Node* x) {
    NodeVec all;
    for (const std::string& t : targets_) all.push_back(copy(x, t));
    return on_targets(all);
  }

  const Node* naive() {
    const Node* sum = to_targets(part(0));
    for (int64_t i = 1; i < n(); i++) sum = fold(sum, to_targets(part(i)));
    return sum;
  }

  // A device's own piece. In place it is read where it lies; else it is cut out and received, like
  // any other, in a buffer of its own.
  const Node* own_piece(int64_t i, int64_t begin, int64_t end) {
    const Node* piece = cut(part(i), begin, end);
    if (options_.allreduce_in_place) return piece;
    // A body is a template: the numbers of its temporaries must not differ from call to call.
    const int64_t slot = options_.late_allreduce ? received_++ : g_.fresh();
    const Node* buffer = ir::buffer(g_, slot, in_->dtype, end - begin, ir::AddrSpace::kGlobal,
                                    device(i), options_.late_allreduce ? "received" : "");
    return store(buffer, buffer, contiguous(piece));
  }

  std::vector<Chunk> chunks(AllReduceWay way) {
    std::vector<Chunk> out;
    const std::vector<int64_t> ends = chunk_ends(count_, n());
    int64_t begin = 0;
    for (int64_t i = 0; i < n(); begin = ends[static_cast<size_t>(i)], i++) {
      const int64_t end = ends[static_cast<size_t>(i)];
      if (begin == end) continue;
      out.push_back(
          {begin, end,
           way == AllReduceWay::kRing ? around_ring(i, begin, end) : through_owner(i, begin, end)});
    }
    return out;
  }

  const Node* around_ring(int64_t i, int64_t begin, int64_t end) {
    const Node* running = cut(part(i), begin, end);
    for (int64_t step = 0; step + 1 < n(); step++) {
      const int64_t next = (i + step + 1) % n();
      running = contiguous(fold(copy(running, device(next)), own_piece(next, begin, end)));
    }
    if (arg_.device != ir::device(g_, in_)) return to_targets(running);
    // It ended on the device before i and goes around once more.
    NodeVec at(devices_.size());
    const Node* hop = running;
    for (int64_t step = 0; step < n(); step++) {
      const int64_t here = (i + n() - 1 + step) % n();
      hop = copy(hop, device(here));
      at[static_cast<size_t>(here)] = hop;
    }
    return on_targets(at);
  }

  const Node* through_owner(int64_t i, int64_t begin, int64_t end) {
    const Node* sum = nullptr;
    for (int64_t j = 0; j < n(); j++) {
      const Node* piece =
          j == i ? own_piece(i, begin, end) : copy(cut(part(j), begin, end), device(i));
      sum = sum == nullptr ? piece : fold(sum, piece);
    }
    return to_targets(contiguous(sum));
  }

  // Zero padded chunks added up: one kernel.
  const Node* reassemble(const std::vector<Chunk>& chunks) {
    const Node* sum = nullptr;
    for (const Chunk& c : chunks) {
      const Node* padded = g_.make(
          Op::kPad, in_->dtype,
          {c.value, ir::shape_node(g_, ir::Ints{c.begin}), ir::shape_node(g_, ir::Ints{count_})});
      sum = sum == nullptr ? padded : ir::add(g_, sum, padded);
    }
    return sum;
  }

  Graph& g_;
  const Node* in_;
  ir::AllReduceArg arg_;
  const ScheduleOptions& options_;
  std::vector<std::string> devices_, targets_;
  int64_t count_;
  int64_t received_ = 0;
};

const Node* formal(Graph& g, int64_t slot, DType t, int64_t count, const std::string& device) {
  return ir::param(g, slot, t, count, device);
}

// The algorithm as a call of its own.
const Node* packaged(Multi& m, const Node* flat, const ir::AllReduceArg& arg, AllReduceWay way) {
  Graph& g = m.g;
  const int64_t count = ir::element_count(g, flat);
  const Node* out = formal(g, 0, flat->dtype, count, arg.device);
  const Node* in = formal(g, 1, flat->dtype, count, ir::device(g, flat));
  const Node* effect = AllReduce(g, in, arg, m.options).stored(way, out);
  const Node* body = ir::sink(g, NodeVec{effect});
  const Node* buffer =
      ir::buffer(g, g.fresh(), flat->dtype, count, ir::AddrSpace::kGlobal, arg.device);
  const Node* call = g.make(Op::kCall, DType::kVoid, {body, buffer, m.storage.state_of(flat)});
  return g.make(Op::kAfter, flat->dtype, {buffer, call});
}

const Node* reshape(Graph& g, const Node* x, const ir::Ints& dims) {
  return g.make(Op::kReshape, x->dtype, {x, ir::shape_node(g, dims)});
}

}  // namespace

const Node* handle_allreduce(Multi& m, const Node* n) {
  Graph& g = m.g;
  const auto& arg = n->as<ir::AllReduceArg>();
  const Node* x = n->src(0);
  if (!ir::is_device_tuple(ir::device(g, x))) {
    return g.make(Op::kCopy, x->dtype, {x}, arg.device);
  }
  const ir::Shape shape = ir::shape(g, x);
  const ir::Ints dims = ir::max_shape(g, x);
  const bool concrete = std::all_of(shape.begin(), shape.end(), ir::is_const);
  const Node* zeros = ir::shape_node(g, ir::Ints(dims.size(), 0));
  if (!concrete) x = g.make(Op::kPad, x->dtype, {x, zeros, ir::shape_node(g, dims)});
  const auto devices = ir::device_count(ir::device(g, x));
  const int64_t count = ir::element_count(g, x);
  const AllReduceWay way = allreduce_way(devices, count, concrete, m.options);
  const Node* flat = reshape(g, x, {count});
  const Node* all = m.options.late_allreduce
                        ? packaged(m, flat, arg, way)
                        : AllReduce(g, m.storage.state_of(flat), arg, m.options).value(way);
  all = reshape(g, all, dims);
  if (concrete) return all;
  const Node* sizes = g.make(Op::kStack, DType::kWeakInt, shape);
  return g.make(Op::kShrink, all->dtype, {all, zeros, sizes});
}

}  // namespace modeld::schedule
