#include "models/tools/bundle_info.h"

#include <gtest/gtest.h>

#include "models/bundle/sample_bundle.h"

namespace modeld::tools {
namespace {

std::unique_ptr<bundle::Bundle> sample() {
  auto fd = sealed_memfd("info-test", bundle::sample_bundle());
  if (!fd.ok()) return nullptr;
  auto b = bundle::Bundle::open_fd(std::move(*fd), "sample.bundle");
  return b.ok() ? std::move(*b) : nullptr;
}

TEST(BundleInfo, ListingOfTheSampleBundle) {
  const auto b = sample();
  ASSERT_NE(b, nullptr);
  const std::string sha = b->manifest().model_sha256.hex();
  const std::string expected =
      "bundle sample.bundle\n"
      "  role        road\n"
      "  file        FILE, format 1, unsigned\n"
      "  model       sha256 " +
      sha +
      "\n"
      "  target      cpu:x86-64-v3, renderer c, 2 threads\n"
      "  compiler    modeld 0.1.0, clang-19 -O2\n"
      "  self-check  quick\n"
      "  context     24 frames\n"
      "  budget      p50 25 ms, p99 50 ms\n"
      "inputs\n"
      "  img  u8 1x12x4x8  in 2 parts\n"
      "states\n"
      "  s  f32 1x8  fed by next_s\n"
      "outputs\n"
      "  outputs  f32 1x12\n"
      "  next_s   f32 1x8\n"
      "slices of outputs\n"
      "  plan  [0, 8)\n"
      "  pose  [8, 12)\n"
      "entry points\n"
      "  entry                calls  copies  arithmetic  memory\n"
      "  run                  2      1       2.0 kFLOP   864 B\n"
      "  warp/road/1928x1208  1      0       2.0 kFLOP   400 B\n"
      "kernels: 2, without a binary: 0\n"
      "  kernel    calls  launch       arithmetic  memory  image  opts\n"
      "  r_12_32   2      2x1x1/1x1x1  1.0 kFLOP   400 B   140 B  UPCAST(0,4) THREAD(0,2)\n"
      "  warp_192  1      2x1x1/1x1x1  2.0 kFLOP   400 B   180 B  UPCAST(0,4) THREAD(0,2)\n"
      "memory (bound: the most bytes alive at one call)\n"
      "  lane       sum of buffers  arena   bound   over bound\n"
      "  0 compute  8.9 kB          4.1 kB  3.9 kB  +5.0 %\n"
      "  1 copy     100 B           64 B    64 B    +0.0 %\n"
      "  all        9.0 kB          4.2 kB  4.0 kB  +4.9 %\n"
      "  weights   384 B   2 tensors\n"
      "  resident  4.5 kB  arenas and weights\n";
  std::string text = info_text(*b);
  const std::string file = text.substr(text.find("  file        ") + 14);
  const std::string size = file.substr(0, file.find(','));
  text.replace(text.find(size), size.size(), "FILE");  // grows with the schema
  EXPECT_EQ(text, expected);
}

TEST(BundleInfo, JsonHoldsWhatTheTableShows) {
  const auto b = sample();
  ASSERT_NE(b, nullptr);
  const Json j = info_json(*b);
  EXPECT_EQ(j.find("identity")->find("role")->string_or(""), "road");
  EXPECT_EQ(j.find("identity")->find("file_bytes")->int_or(0),
            static_cast<int64_t>(b->header().file_bytes));
  EXPECT_EQ(j.find("interface")->find("inputs")->size(), 1u);
  EXPECT_EQ(j.find("interface")->find("inputs")->items()[0].find("parts")->int_or(0), 2);
  EXPECT_EQ(j.find("kernels")->size(), 2u);
  EXPECT_EQ(j.find("entries")->items()[0].find("copies")->int_or(0), 1);
  const Json& memory = *j.find("memory");
  EXPECT_EQ(memory.find("sum_bytes")->int_or(0), 9000);
  EXPECT_EQ(memory.find("planned_bytes")->int_or(0), 4160);
  EXPECT_EQ(memory.find("bound_bytes")->int_or(0), 3964);
  EXPECT_EQ(memory.find("resident_bytes")->int_or(0), 4544);
  ASSERT_EQ(memory.find("arenas")->size(), 2u);
  const Json& copies = memory.find("arenas")->items()[1];
  EXPECT_TRUE(copies.find("copy")->bool_or(false));
  EXPECT_EQ(copies.find("sum_bytes")->int_or(0), 100);
  EXPECT_EQ(copies.find("bytes")->int_or(0), 64);
  EXPECT_EQ(copies.find("bound_bytes")->int_or(0), 64);
  EXPECT_EQ(j.find("sections")->size(), 5u);
  EXPECT_TRUE(Json::parse(j.dump()).ok());
}

}  // namespace
}  // namespace modeld::tools
