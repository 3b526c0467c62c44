#include "hal/base/bytes.h"

namespace modeld {
namespace {

TEST(Bytes, ReadsBackWhatWasWritten) {
  ByteWriter w;
  w.write(uint8_t{7});
  w.write(uint32_t{0x01020304});
  w.write(-1.5F);
  w.write_string("abc");
  w.pad_to(16);
  EXPECT_EQ(w.size(), 16U);
  ByteReader r(w.bytes());
  EXPECT_EQ(*r.read<uint8_t>(), 7);
  EXPECT_EQ(*r.read<uint32_t>(), 0x01020304U);
  EXPECT_EQ(*r.read<float>(), -1.5F);
  EXPECT_EQ(*r.read_string(3), "abc");
  EXPECT_EQ(r.left(), 4U);
  EXPECT_TRUE(r.skip(4).ok());
  EXPECT_TRUE(r.at_end());
}

TEST(Bytes, ShortReadKeepsThePositionAndSaysWhere) {
  const std::vector<std::byte> four(4);
  ByteReader r(four, "packet");
  ASSERT_TRUE(r.skip(2).ok());
  const auto v = r.read<uint32_t>();
  ASSERT_FALSE(v.ok());
  EXPECT_EQ(v.error().code, Errc::kCorrupt);
  EXPECT_EQ(v.error().what, "packet: 4 bytes wanted at offset 2, size is 4");
  EXPECT_EQ(r.pos(), 2U);
  EXPECT_FALSE(r.read_span(UINT64_MAX).ok());
  EXPECT_FALSE(r.skip(3).ok());
  EXPECT_FALSE(r.seek(5).ok());
  EXPECT_TRUE(r.seek(4).ok());
}

TEST(Bytes, BoundsDoNotOverflow) {
  EXPECT_TRUE(in_bounds(4, 4, 8));
  EXPECT_FALSE(in_bounds(5, 4, 8));
  EXPECT_FALSE(in_bounds(UINT64_MAX, 2, 8));
  EXPECT_FALSE(in_bounds(2, UINT64_MAX, 8));
  EXPECT_TRUE(in_bounds(8, 0, 8));
}

}  // namespace
}  // namespace modeld
