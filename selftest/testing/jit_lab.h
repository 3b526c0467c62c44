// What the tests of the Jit share beside a session: short words for calls. Not part of the product.
// Threading: one thread.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/exec/graph_replay.h"
#include "runtime/exec/jit.h"

#include "selftest/testing/session_lab.h"

namespace modeld::exec::test {

using Lives = std::vector<Live>;

struct JitLab : SessionLab {
  using SessionLab::floats;
  using SessionLab::SessionLab;

  Live floats(const std::vector<float>& v, const std::string& device = "CPU") {
    return floats({static_cast<int64_t>(v.size())}, v, device);
  }
  // A call that must work; its first result.
  Live call(Jit& jit, const JitArgs& args) {
    auto r = jit.call(args);
    EXPECT_TRUE(r.ok()) << (r.ok() ? "" : r.error().what);
    return r.ok() && !r->empty() ? (*r)[0] : Live();
  }
  Values value(Jit& jit, const JitArgs& args) { return read(call(jit, args)); }
};

// The fault of a call that must not work.
inline Fault fault_of_call(Jit& jit, const JitArgs& args) {
  const auto r = jit.call(args);
  EXPECT_FALSE(r.ok());
  return r.ok() ? Fault::kNone : ir::fault_of(r.error());
}

// step(x) = (x + 1) * 2 in two kernels.
inline JitFunction step(int* calls = nullptr) {
  return [calls](Session& s, const JitArgs& a) -> Result<Lives> {
    if (calls != nullptr) ++*calls;
    const Tensor t = (s.value(a.at(0)) + 1.0).contiguous();
    return Lives{s.track(t * 2.0)};
  };
}

}  // namespace modeld::exec::test
