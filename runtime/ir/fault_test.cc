#include "runtime/ir/fault.h"

#include <set>
#include <string>

#include "runtime/ir/graph.h"

namespace modeld::ir {
namespace {

TEST(Fault, EveryRowHasItsOwnNameAndComesBackFromAnError) {
  std::set<std::string> names;
  int rows = 0;
  for (int i = 1; fault_name(static_cast<Fault>(i)) != std::string("none"); i++) {
    const auto f = static_cast<Fault>(i);
    EXPECT_TRUE(names.insert(fault_name(f)).second) << fault_name(f);
    const Error e = fault_error(f, "x");
    EXPECT_EQ(fault_of(e), f);
    EXPECT_EQ(e.code, fault_class(f));
    EXPECT_NE(e.code, Errc::kOk);
    rows++;
  }
  EXPECT_GE(rows, 30);
}

TEST(Fault, OtherErrorsAreNoFaults) {
  EXPECT_EQ(fault_of(Error{}), Fault::kNone);
  Error posix;
  posix.domain = Domain::kPosix;
  posix.sys = 3;
  EXPECT_EQ(fault_of(posix), Fault::kNone);
  Error outside = fault_error(Fault::kBindRange, "x");
  outside.sys = 100000;
  EXPECT_EQ(fault_of(outside), Fault::kNone);
  outside.sys = -1;
  EXPECT_EQ(fault_of(outside), Fault::kNone);
}

TEST(Fault, AGraphLatchesTheFirstOne) {
  Graph g;
  g.fail(Fault::kBindRange, "bind i: value 12, allowed 0 to 10");
  g.fail(Fault::kBindMultiple, "later");
  const Status s = g.status();
  ASSERT_FALSE(s.ok());
  EXPECT_EQ(fault_of(s.error()), Fault::kBindRange);
  EXPECT_EQ(s.error().code, Errc::kInvalid);
  EXPECT_EQ(s.error().what, "bind i: value 12, allowed 0 to 10");
}

}  // namespace
}  // namespace modeld::ir
