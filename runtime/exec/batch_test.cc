#include "runtime/exec/batch.h"

#include <gtest/gtest.h>

namespace modeld::exec {
namespace {

constexpr GraphDevice kPeer{GraphSupport::kPeers, 0};
constexpr GraphDevice kAlone{GraphSupport::kSingle, 0};
constexpr GraphDevice kPlain{GraphSupport::kNone, 0};

// One kernel that reads its second argument and writes its first; inputs 0..3 on device 0, memory d
// on device d.
CompiledLinear linear_of(size_t devices) {
  CompiledLinear out;
  ProgramRow p;
  p.name = "k";
  p.buffer_args = 2;
  p.outs = {0};
  p.ins = {1};
  out.programs.push_back(p);
  for (uint32_t d = 0; d < devices; ++d) {
    out.devices.push_back({d == 0 ? "CPU" : "CPU:" + std::to_string(d), ""});
    out.memories.push_back({d, 64, false});
  }
  for (int i = 0; i < 4; ++i) out.inputs.push_back({0, 64});
  return out;
}

CallArg memory(uint32_t i) {
  return {{ArgRef::Kind::kBuffer, i, 0}, 64};
}
CallArg input(uint32_t i) {
  return {{ArgRef::Kind::kSlot, i, 0}, 64};
}
void launch(CompiledLinear& l, uint32_t device) {
  l.calls.push_back({CallRow::Kind::kProgram, device, 0, {memory(device), memory(device)}});
}
void copy(CompiledLinear& l, uint32_t to, uint32_t from) {
  l.calls.push_back({CallRow::Kind::kCopy, from, 0, {memory(to), memory(from)}});
}

// "32g 3g 1p": sizes and kinds.
std::string text(const std::vector<Batch>& batches) {
  std::string out;
  uint32_t next = 0;
  for (const Batch& b : batches) {
    EXPECT_EQ(b.first, next) << "batches cover the calls in order";
    next += b.count;
    out += (out.empty() ? "" : " ") + std::to_string(b.count) + (b.is_graph ? "g" : "p");
  }
  return out;
}

TEST(Batch, LimitDoublesWithEveryGraph) {
  CompiledLinear l = linear_of(1);
  for (int i = 0; i < 32 + 64 + 128 + 5; ++i) launch(l, 0);
  ASSERT_TRUE(check_compiled_linear(l).ok());
  EXPECT_EQ(text(batch_calls(l, std::span(&kPeer, 1))), "32g 64g 128g 5g");
  EXPECT_EQ(text(batch_calls(l, std::span(&kPeer, 1), {.limit = 100})), "100g 129g");
  EXPECT_EQ(text(batch_calls(l, std::span(&kPeer, 1), {.limit = 0})), "229g");
}

TEST(Batch, ABatchOfOneIsPlainUnlessAskedFor) {
  CompiledLinear l = linear_of(1);
  EXPECT_EQ(text(batch_calls(l, std::span(&kPeer, 1))), "");
  launch(l, 0);
  EXPECT_EQ(text(batch_calls(l, std::span(&kPeer, 1))), "1p");
  EXPECT_EQ(text(batch_calls(l, std::span(&kPeer, 1), {.graph_one_kernel = true})), "1g");
  for (int i = 0; i < 2; ++i) launch(l, 0);
  EXPECT_EQ(text(batch_calls(l, std::span(&kPeer, 1), {.limit = 2})), "2g 1p")
      << "the one that is left over";
  EXPECT_EQ(text(batch_calls(l, std::span(&kPeer, 1), {.limit = 1})), "1p 1p 1p")
      << "a batch that is no graph does not double the limit";
}

TEST(Batch, UnsupportedCallsStayPlainAndBreakTheBatch) {
  CompiledLinear l = linear_of(2);
  for (const uint32_t d : {0, 0, 1, 0, 0, 0, 1, 1}) launch(l, d);
  const GraphDevice devices[] = {kPeer, kPlain};
  EXPECT_EQ(text(batch_calls(l, devices)), "2g 1p 3g 1p 1p");
  EXPECT_EQ(text(batch_calls(l, devices, {.no_graphs = true})), "1p 1p 1p 1p 1p 1p 1p 1p");
}

TEST(Batch, ASingleDeviceGraphTakesNoCopyAndNoOtherDevice) {
  CompiledLinear l = linear_of(2);
  launch(l, 0);
  launch(l, 0);
  copy(l, 1, 0);
  launch(l, 1);
  launch(l, 1);
  launch(l, 0);
  launch(l, 0);
  ASSERT_TRUE(check_compiled_linear(l).ok());
  const GraphDevice alone[] = {kAlone, kAlone}, peers[] = {kPeer, kPeer};
  EXPECT_EQ(text(batch_calls(l, alone)), "2g 1p 2g 2g");
  EXPECT_EQ(text(batch_calls(l, peers)), "7g");
}

TEST(Batch, DevicesOfAnotherTypeDoNotShareAGraph) {
  CompiledLinear l = linear_of(2);
  for (const uint32_t d : {0, 0, 1, 1}) launch(l, d);
  copy(l, 1, 0);
  const GraphDevice devices[] = {{GraphSupport::kPeers, 0}, {GraphSupport::kPeers, 1}};
  EXPECT_EQ(text(batch_calls(l, devices)), "2g 2g 1p");
}

TEST(Batch, AGraphNamesEachOfItsInputsOnce) {
  CompiledLinear l = linear_of(1);
  for (const uint32_t i : {2, 0, 2, 3})
    l.calls.push_back({CallRow::Kind::kProgram, 0, 0, {memory(0), input(i)}});
  const std::vector<Batch> batches = batch_calls(l, std::span(&kPeer, 1), {.limit = 3});
  ASSERT_EQ(text(batches), "3g 1p");
  EXPECT_EQ(batches[0].inputs, (std::vector<uint32_t>{2, 0}));
}

}  // namespace
}  // namespace modeld::exec
