#include "runtime/schedule/assert_all_same_devices.h"

#include <string>

#include "runtime/ir/derived.h"
#include "runtime/schedule/create_schedule.h"
#include "runtime/schedule/expr_util.h"

namespace modeld::schedule {

using ir::Graph;
using ir::Node;
using ir::Op;

namespace {

std::string argument_text(Graph& g, const Node* call, size_t i) {
  return strf("argument %zu (%s) is on %s", i, storage_name(base_buffer(call->src(i + 1))).c_str(),
              ir::device(g, call->src(i + 1)).c_str());
}

}  // namespace

Status assert_all_same_devices(Graph& g, const Node* linear) {
  for (size_t i = 0; i < linear->nsrc; i++) {
    const Node* call = linear->src(i);
    if (call->src(0)->op != Op::kSink) continue;
    size_t first = 0;  // source number; 0 = none has a device yet
    for (size_t a = 1; a < call->nsrc; a++) {
      const std::string& device = ir::device(g, call->src(a));
      if (device.empty()) continue;
      if (first == 0) first = a;
      if (ir::device(g, call->src(first)) == device) continue;
      return ir::fail(ir::Fault::kMixedDevices,
                      strf("all buffers must be on the same device: in the kernel of call %zu %s, "
                           "%s",
                           i, argument_text(g, call, first - 1).c_str(),
                           argument_text(g, call, a - 1).c_str()));
    }
  }
  return {};
}

}  // namespace modeld::schedule
