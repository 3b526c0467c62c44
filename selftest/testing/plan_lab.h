// What the tests of whole plans share: a plan's identity as text, and what its entry `run` makes of
// an input x. Not part of the product. Threading: one thread.
#pragma once

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "hal/base/hash.h"

#include "runtime/exec/plan.h"
#include "runtime/exec/realize.h"

namespace modeld::exec::test {

// Two plans with equal texts compute with the same bytes in the same order.
inline std::string text_of(const Plan& p) {
  std::string out;
  for (const ProgramRow& r : p.programs)
    out += r.name + " " + r.key.hex() + " " + r.applied_opts + " " + blake2b(r.image.code).hex() +
           " " + r.ast_text + "\n";
  for (const Entry& e : p.entries)
    for (const CallRow& c : e.calls) out += std::to_string(c.program) + " ";
  return out;
}

// All outputs of `run` for x of `count` floats in -0.5 .. 0.5, one after another.
inline std::vector<double> result_of(const Plan& p, size_t count) {
  std::vector<float> x(count);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 17 % 43) / 43.0f - 0.5f;
  const auto b = std::as_bytes(std::span(x));
  const auto out = run_once(p, "run", {{"x", {b.begin(), b.end()}}});
  EXPECT_TRUE(out.ok()) << out.error().what;
  std::vector<double> all;
  if (out.ok())
    for (const HostTensor& t : *out)
      for (const double v : t.to_doubles()) all.push_back(v);
  return all;
}

}  // namespace modeld::exec::test
