#include "runtime/exec/dependency_sync.h"

#include <gtest/gtest.h>

namespace modeld::exec {
namespace {

// Kernels out = f(in) on three devices; memory m lies on device m % 3.
struct Builder {
  CompiledLinear linear;
  Builder() {
    ProgramRow p;
    p.buffer_args = 2;
    p.outs = {0};
    p.ins = {1};
    linear.programs.push_back(p);
    for (uint32_t d = 0; d < 3; ++d) linear.devices.push_back({"CPU:" + std::to_string(d), ""});
    for (uint32_t m = 0; m < 9; ++m) linear.memories.push_back({m % 3, 64, false});
  }
  static CallArg whole(uint32_t m) { return {{ArgRef::Kind::kBuffer, m, 0}, 64}; }
  Builder& launch(uint32_t out, uint32_t in) {
    linear.calls.push_back({CallRow::Kind::kProgram, out % 3, 0, {whole(out), whole(in)}});
    return *this;
  }
  Builder& copy(uint32_t to, uint32_t from) {
    linear.calls.push_back({CallRow::Kind::kCopy, from % 3, 0, {whole(to), whole(from)}});
    return *this;
  }
  // "1<0:0 2!": call 1 waits for call 0 of device 0, call 2 is waited for.
  std::string text() const {
    EXPECT_TRUE(check_compiled_linear(linear).ok());
    std::string out;
    const std::vector<CallSync> sync = sync_calls(linear);
    for (size_t i = 0; i < sync.size(); ++i) {
      for (const QueueWait& w : sync[i].waits) out += strf("%zu<%u:%u ", i, w.device, w.call);
      if (sync[i].is_signalled) out += strf("%zu! ", i);
    }
    return out;
  }
};

TEST(DependencySync, OneDeviceNeedsNoWaits) {
  EXPECT_EQ(Builder().launch(0, 3).launch(3, 0).launch(0, 3).text(), "");
}

TEST(DependencySync, ACopyIsWaitedForWhereItsDataIsUsed) {
  // 0: k on 0, 1: copy 0 -> 1 on 0's queue, 2: k on 1 reads it, 3: copy back on 1's queue.
  EXPECT_EQ(Builder().launch(0, 3).copy(1, 0).launch(4, 1).copy(6, 4).launch(3, 6).text(),
            "1! 2<0:1 3! 4<1:3 ");
}

TEST(DependencySync, ALaterWaitImpliesAnEarlierOne) {
  // Both copies run on device 0: waiting for the second is enough, and once is enough.
  EXPECT_EQ(Builder().copy(1, 0).copy(4, 3).launch(7, 4).launch(7, 1).text(), "1! 2<0:1 ");
}

TEST(DependencySync, AWaitThroughAThirdQueueIsImplied) {
  // Call 2 overwrites what call 0 wrote and call 1 read; call 1 has waited for call 0.
  EXPECT_EQ(Builder().copy(1, 0).copy(2, 1).copy(1, 2).text(), "0! 1<0:0 1! 2<1:1 ");
}

TEST(DependencySync, ACopyInWaitsForReadersOfWhatItOverwrites) {
  // Call 0 on device 1 reads memory 1; the copy on device 0's queue overwrites it.
  EXPECT_EQ(Builder().launch(4, 1).copy(1, 0).text(), "0! 1<1:0 ");
}

}  // namespace
}  // namespace modeld::exec
