// The path as a whole: what its code looks like and what it must never do. That its numbers are
// right is kernel_run_x86_test's business.
#include "runtime/isa/x86/x86.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "hal/base/mapping.h"
#include "hal/program.h"

#include "runtime/codegen/to_program.h"
#include "runtime/isa/x86/isel.h"
#include "runtime/isa/x86/pre_isel.h"

#include "selftest/testing/call_kernel.h"
#include "selftest/testing/kernel_builder.h"

namespace modeld {
namespace {

using ir::DType;
using ir::Node;
using ir::Op;
using testing::KernelBuilder;
using N = const Node*;

codegen::CodegenOptions options() {
  auto target = hal::parse_target("cpu:x86-64-v3");
  target->renderer = "x86";
  target->threads = 1;
  return isa::x86::x86_options(*target).value();
}

codegen::Program lowered(N ast, const codegen::CodegenOptions& o = options()) {
  ir::Graph g;
  auto p = codegen::to_program(g, g.import(ast), o);
  EXPECT_TRUE(p.ok()) << p.error().what;
  return p.ok() ? *p : codegen::Program{};
}

size_t count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

// The lines of the listing between the last loop head and the jump back to it.
std::string inner_loop(const std::string& listing) {
  const size_t back = listing.find(" jl .");
  if (back == std::string::npos) return "";
  const std::string label = listing.substr(back + 4, listing.find('\n', back) - back - 4) + ":";
  const size_t head = listing.find("\n" + label);
  return listing.substr(head, back - head);
}

N gemm(KernelBuilder& b, int64_t m, int64_t n, int64_t k) {
  N i = b.loop(m), j = b.loop(n), r = b.reduce_loop(k);
  N product = b.mul(b.at(b.param(1, m * k), b.add(b.times(i, k), r)),
                    b.at(b.param(2, k * n), b.add(b.times(r, n), j)));
  return b.kernel(b.param(0, m * n), b.add(b.times(i, n), j), b.reduce(Op::kAdd, product, {r}),
                  {i, j});
}

TEST(X86, InnerLoopsKeepAccumulatorsInRegisters) {
  ir::Graph g;
  KernelBuilder b(g);
  const std::string listing = lowered(gemm(b, 32, 64, 128)).source;
  const std::string loop = inner_loop(listing);
  EXPECT_GE(count(loop, "vfmadd231ps ymm"), 8U) << listing;
  EXPECT_EQ(count(loop, "rsp"), 0U) << listing;      // nothing is spilled
  EXPECT_EQ(count(loop, "vmovaps"), 0U) << listing;  // no copies
}

TEST(X86, WithoutContractionNoProductIsFused) {
  ir::Graph g;
  KernelBuilder b(g);
  codegen::CodegenOptions o = options();
  o.no_contract = true;
  const codegen::Program p = lowered(gemm(b, 8, 16, 32), o);
  EXPECT_EQ(count(p.source, "vfmadd"), 0U) << p.source;
  EXPECT_GT(count(p.source, "vmulps"), 0U) << p.source;
}

TEST(X86, TheSameKernelGivesTheSameBytes) {
  ir::Graph g;
  KernelBuilder b(g);
  N ast = b.conv(5, 8, 9, 16, 3, 1);
  const codegen::Program first = lowered(ast);
  for (int i = 0; i < 40; ++i) (void)ir::const_int(g, 1000 + i);  // another history
  const codegen::Program second = lowered(ast);
  EXPECT_FALSE(first.code.empty());
  EXPECT_EQ(first.code, second.code);
  EXPECT_EQ(first.source, second.source);
}

TEST(X86, ListingNamesInstructionsRegistersAndConstants) {
  ir::Graph g;
  KernelBuilder b(g);
  N i = b.loop(16);
  const codegen::Program p =
      lowered(b.kernel(b.param(0, 16), i, b.mul(b.at(b.param(1, 16), i), b.f(1.5)), {i}));
  for (const char* part : {"vmulps ymm", "mov rcx, [rdi + 8]", "vmovups [rsi], ymm1",
                           "constant 0: 000000003fc00000", "ret"})
    EXPECT_NE(p.source.find(part), std::string::npos) << part << "\n" << p.source;
  // The last constant ends the image.
  float last = 0;
  std::memcpy(&last, p.code.data() + p.code.size() - 8, sizeof last);
  EXPECT_EQ(last, 1.5F);
}

// Padded reads at both ends of a buffer that lies alone between pages nobody may touch.
TEST(X86, FalseGatesTouchNoMemory) {
  if (!isa::x86::missing_features(*hal::parse_target("cpu")).empty())
    GTEST_SKIP() << "this CPU lacks what the x86 path needs";
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const auto n = static_cast<int64_t>(page / sizeof(float));
  ir::Graph g;
  KernelBuilder b(g);
  N i = b.loop(n + 64);
  N gate = b.inside(i, 32, n + 32);
  N out_gate = b.inside(i, 32, n + 32);
  N at = b.add(i, b.i(-32));
  N value = b.add(b.padded(b.param(1, n), gate, at), b.f(1));
  N store = g.make(Op::kStore, DType::kVoid, {b.at(b.param(0, n), b.gated(out_gate, at)), value});
  const codegen::Program p = lowered(b.kernel({b.end(store, {i})}));

  void* area = mmap(nullptr, 5 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(area, MAP_FAILED);
  auto* const out = reinterpret_cast<float*>(static_cast<char*>(area) + page);
  auto* const in = reinterpret_cast<float*>(static_cast<char*>(area) + 3 * page);
  ASSERT_EQ(mprotect(out, page, PROT_READ | PROT_WRITE), 0);
  ASSERT_EQ(mprotect(in, page, PROT_READ | PROT_WRITE), 0);
  for (int64_t k = 0; k < n; ++k) in[k] = static_cast<float>(k);
  const auto fd = sealed_memfd("kernel", p.code);
  ASSERT_TRUE(fd.ok());
  const auto code = Mapping::map_fd(fd->get(), 0, p.code.size(), MapMode::kReadExec);
  ASSERT_TRUE(code.ok());
  const uint64_t words[] = {reinterpret_cast<uint64_t>(out), reinterpret_cast<uint64_t>(in)};
  testing::call_kernel(code->data(), words, 0);
  for (int64_t k = 0; k < n; ++k) ASSERT_EQ(out[k], static_cast<float>(k + 1)) << k;
  munmap(area, 5 * page);
}

TEST(X86, OperationsWithoutAnInstructionAreErrorsNamingThem) {
  ir::Graph g;
  N x = g.make(Op::kLoad, DType::kF32,
               {g.make(Op::kIndex, DType::kF32,
                       {ir::param(g, 0, DType::kF32, 4),
                        g.make(Op::kCast, DType::kI32, {ir::const_int(g, 1)})})});
  N bad = g.make(Op::kSin, DType::kF32, {x});
  N store = g.make(Op::kStore, DType::kVoid, {x->src(0), bad});
  isa::x86::isel(g, isa::x86::pre_isel(g, ir::sink(g, ir::NodeVec{store})));
  ASSERT_TRUE(g.failed());
  EXPECT_EQ(g.status().error().code, Errc::kUnsupported);
  EXPECT_NE(g.status().error().what.find("sin f32"), std::string::npos) << g.status().error().what;
}

TEST(X86, OtherTargetsAreRefusedNamingWhatTheyLack) {
  const auto made = isa::x86::x86_options(*hal::parse_target("cpu:x86-64+avx"));
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, Errc::kUnsupported);
  EXPECT_NE(made.error().what.find("avx2 bmi bmi2 f16c fma"), std::string::npos)
      << made.error().what;
}

}  // namespace
}  // namespace modeld
