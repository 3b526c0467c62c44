// GraphBuilder: appends steps to a program while the eager engine runs along, so that the generator
// knows what it has: shapes, ranges, what is a view of what. Contract: a step that does not fit or
// would not be exact is not appended and gives kNone, which every call passes on.
// Threading: one thread.
#pragma once

#include <optional>

#include "selftest/fuzz/fuzz_main.h"
#include "selftest/fuzz/graph_engine.h"
#include "selftest/fuzz/graph_program.h"

namespace modeld::fuzz {

inline constexpr int64_t kMostElements = 256;  // of one tensor

// Few digits, so that products and sums of many stay exact.
std::vector<double> random_data(Rng& rng, size_t count, ir::DType dtype);

class GraphBuilder {
 public:
  static constexpr size_t kNone = ~size_t{0};

  explicit GraphBuilder(Rng& random) : rng(random) {}

  Rng& rng;
  Program program;
  Engine engine;

  // ---- what is there ----
  const Ints& dims(size_t t) const { return engine.value(t).dims; }
  int64_t count(size_t t) const { return static_cast<int64_t>(engine.value(t).v.size()); }
  ir::DType dtype(size_t t) const { return engine.value(t).dtype; }
  int device(size_t t) const { return engine.device(t); }
  bool is_on_one_device(size_t t) const { return device(t) >= 0 && device(t) < kSeveralDevices; }
  size_t any();                            // with memory or computed; newer ones more often
  size_t any_of(ir::DType type, int dev);  // kNone: there is none
  size_t any_target();                     // a tensor that can be written to
  size_t nodes() const { return node_count(program); }

  // ---- steps ----
  size_t put(Step step);
  size_t input(const Ints& size, ir::DType type, int dev);
  size_t full(double v, ir::DType type);                   // a scalar
  size_t variable(const std::string& name, double value);  // in 1 .. 9
  size_t alu(ir::Op op, std::vector<size_t> args);
  size_t cast(size_t x, ir::DType to);
  size_t move(StepKind kind, size_t x, Ints a, Ints b = {});
  size_t reduce(ir::Op op, size_t x, const Ints& axes);
  size_t cat(const std::vector<size_t>& parts, int64_t axis);
  size_t contiguous(size_t x);
  size_t copy(size_t x, int to);
  size_t shard(size_t x, int64_t axis, int64_t devices);
  void assign(size_t dst, size_t x);
  void drop(size_t t);
  void track(size_t t);
  // False: it may be refused, so nothing is known of memory any more.
  bool realize(std::vector<size_t> wanted, bool must_fail = false);

  // ---- composed ----
  size_t random_move(size_t x);
  size_t fit(size_t x, Ints to);      // repeated and cut until it has these dims
  size_t tame(size_t x);              // a small range and few digits again
  size_t as(size_t x, ir::DType to);  // cast, tamed first where the type needs it
  Ints random_dims(int64_t most);

 private:
  size_t reshaped(size_t x);
  size_t shrunk(size_t x);
  size_t padded(size_t x);
  size_t expanded(size_t x);
};

}  // namespace modeld::fuzz
