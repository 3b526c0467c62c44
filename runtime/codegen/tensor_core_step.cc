// Step 1 of the choice of opts: a matrix unit where a reduce is its product, then register tiles of
// its results, so that a factor once loaded serves several steps.
#include "runtime/codegen/heuristics.h"
#include "runtime/codegen/tensor_cores.h"

namespace modeld::codegen {

using ir::OptOp;

namespace {

bool may_use(const Scheduler& s) {
  const CodegenOptions& o = s.options();
  return o.tc > 0 && !o.caps.tensor_cores.empty() &&
         (s.axes_of({ir::AxisType::kReduce}).size() == 1 || o.tc_opt >= 1);
}

bool try_axis(Scheduler& s, int64_t axis) {
  const CodegenOptions& o = s.options();
  return s.apply_opt({OptOp::kTc, axis, tc_number({-1, o.tc_opt, o.tc})}).ok();
}

// The largest of `sizes` that divides what is left of N (0) or M (1); false if none does.
bool split_rest(Scheduler& s, size_t of, OptOp op, std::initializer_list<int64_t> sizes) {
  const auto axis = s.tc_axis(of);
  if (!axis) return false;
  for (int64_t n : sizes) {
    if (s.size(*axis) % n != 0) continue;
    return s.apply_opt({op, static_cast<int64_t>(*axis), n}).ok();
  }
  return false;
}

}  // namespace

bool tensor_core_step(Scheduler& s) {
  if (!may_use(s)) return false;
  for (int64_t axis : {0, 1, 2}) {
    if (!try_axis(s, axis)) continue;
    (void)split_rest(s, 1, OptOp::kUpcast, {5, 4, 3, 2});
    (void)split_rest(s, 0, OptOp::kUpcast, {5, 4, 3, 2});
    (void)split_rest(s, 0, OptOp::kLocal, {4, 2});
    return true;
  }
  return false;
}

bool cpu_tensor_core_step(Scheduler& s, const ir::Node* vector_range) {
  // Sums of halves are left to whoever asks for them: VDPBF16PS flushes denormals, and no path of
  // ours does that unasked.
  if (!may_use(s) || ir::is_float(s.reduces()[0]->dtype)) return false;
  // N must be the axis along which results are contiguous: one register is one store then.
  constexpr int64_t kChoices = 8;
  for (int64_t axis = 0; axis < kChoices; ++axis) {
    Scheduler trial = s;
    if (!try_axis(trial, axis) || trial.tc_range_id(0) != vector_range->as<ir::RangeArg>().id) {
      continue;
    }
    s = std::move(trial);
    // Measured on u8 x i8 products (240 x 256 x 256, one thread): no unit 59 Gop/s, 4 x 1 tiles
    // 223, 4 x 4 277, 6 x 4 306, 8 x 2 379, 12 x 2 435. Tall tiles share the gathered columns.
    const bool tall = split_rest(s, 1, OptOp::kUpcast, {12, 8});
    if (!tall) (void)split_rest(s, 1, OptOp::kUpcast, {6, 5, 4, 3, 2});
    if (tall) (void)split_rest(s, 0, OptOp::kUpcast, {2});
    if (!tall) (void)split_rest(s, 0, OptOp::kUpcast, {4, 3, 2});
    return true;
  }
  return false;
}

}  // namespace modeld::codegen
