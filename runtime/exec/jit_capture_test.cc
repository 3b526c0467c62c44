#include "runtime/exec/jit_capture.h"

#include <gtest/gtest.h>

#include <map>

namespace modeld::exec {
namespace {

using ir::Node;
using ir::NodeVec;
using ir::Op;

// LINEARs written down as "out<-in in" over buffers with one-letter names; "x" and "y" are inputs.
class Calls {
 public:
  Calls& add(const std::string& outs, const std::string& ins) {
    ir::ProgramInfo info;
    info.name = "k" + std::to_string(calls_.size());
    NodeVec src{nullptr};
    for (const std::string* names : {&outs, &ins})
      for (const char name : *names) {
        auto& list = names == &outs ? info.outs : info.ins;
        list.push_back(static_cast<int64_t>(src.size() - 1));
        src.push_back(buffer(name));
      }
    src[0] = g.make(Op::kProgram, ir::DType::kVoid, {}, info);
    calls_.push_back(g.make(Op::kCall, ir::DType::kVoid, src));
    return *this;
  }
  const Node* linear() { return g.make(Op::kLinear, ir::DType::kVoid, calls_); }
  // Numbers of the calls that stay.
  std::string kept() {
    const NodeVec inputs{buffer('x'), buffer('y')};
    const auto p = prune(g, linear(), inputs);
    EXPECT_TRUE(p.ok());
    std::string out;
    for (size_t i = 0, k = 0; i < calls_.size(); ++i) {
      if (k >= p->kept->nsrc || p->kept->src(k) != calls_[i]) continue;
      out += std::to_string(i);
      ++k;
    }
    EXPECT_EQ(p->kept->nsrc + p->once->nsrc, calls_.size());
    return out;
  }
  std::string read_first() {
    const auto read = read_before_written(linear());
    EXPECT_TRUE(read.ok());
    std::string out;
    for (const Node* b : *read)
      for (const auto& [name, node] : buffers_)
        if (node == b) out += name;
    return out;
  }

  ir::Graph g;

 private:
  const Node* buffer(char name) {
    const Node*& b = buffers_[name];
    if (b == nullptr)
      b = ir::buffer(g, g.fresh(), ir::DType::kF32, 4, ir::AddrSpace::kGlobal, "CPU",
                     std::string(1, name));
    return b;
  }
  std::map<char, const Node*> buffers_;
  NodeVec calls_;
};

TEST(JitPrune, OnlyWhatInputsReachStays) {
  EXPECT_EQ(Calls().add("t", "w").add("o", "tx").kept(), "1");
  EXPECT_EQ(Calls().add("t", "x").add("u", "w").add("o", "tu").kept(), "02");
  EXPECT_EQ(Calls().add("t", "w").add("o", "t").kept(), "") << "a function of constants";
}

TEST(JitPrune, EverythingBelowAnInputStays) {
  EXPECT_EQ(Calls().add("t", "x").add("u", "t").add("o", "u").kept(), "012");
}

TEST(JitPrune, WritesIntoAnInputStay) {
  EXPECT_EQ(Calls().add("x", "w").add("o", "y").kept(), "01");
}

TEST(JitPrune, StateStays) {
  EXPECT_EQ(Calls().add("c", "c").add("o", "cx").kept(), "01") << "in place";
  EXPECT_EQ(Calls().add("o", "cx").add("c", "w").kept(), "01")
      << "read first and written after: the next run sees it";
  EXPECT_EQ(Calls().add("t", "c").add("c", "t").add("o", "cx").kept(), "012")
      << "through a temporary";
}

TEST(JitPrune, AWriterOfWhatTheKeptPartAlsoWritesStays) {
  // Without call 0 the second run would read what call 2 left in t.
  EXPECT_EQ(Calls().add("t", "w").add("o", "tx").add("t", "x").add("p", "t").kept(), "0123");
}

TEST(JitPrune, AReaderOfAKeptWriterStays) {
  EXPECT_EQ(Calls().add("t", "x").add("u", "t").add("u", "w").add("o", "uy").kept(), "0123");
}

TEST(JitReadFirst, BuffersWhoseOldContentsMatter) {
  EXPECT_EQ(Calls().add("t", "wx").add("o", "tv").add("c", "c").read_first(), "wxvc");
}

TEST(JitCapture, JoinsLinearsAndRefusesTwoValuesOfOneVariable) {
  Calls a, b;
  JitCapture capture;
  ASSERT_TRUE(capture.add_linear(a.add("t", "x").add("o", "t").linear(), {{"n", 1}}).ok());
  ASSERT_TRUE(capture.add_linear(a.g.make(Op::kLinear, ir::DType::kVoid, {}), {{"n", 1}}).ok());
  EXPECT_EQ(capture.joined(a.g)->nsrc, 2u);
  const Status twice = capture.add_linear(a.linear(), {{"n", 2}});
  ASSERT_FALSE(twice.ok());
  EXPECT_EQ(ir::fault_of(twice.error()), ir::Fault::kBindMismatch);
}

TEST(JitCapture, ACallThatIsNotCompiledIsAnError) {
  ir::Graph g;
  const Node* sink = ir::sink(g, {});
  const Node* call = g.make(Op::kCall, ir::DType::kVoid, {sink});
  EXPECT_EQ(buffer_access(call).error().code, Errc::kInternal);
}

}  // namespace
}  // namespace modeld::exec
