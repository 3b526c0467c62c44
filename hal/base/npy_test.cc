#include "hal/base/npy.h"

#include "hal/base/bytes.h"
#include "hal/base/fs.h"

namespace modeld {
namespace {

NpyArray sample() {
  NpyArray a;
  a.type = "<f4";
  a.shape = {2, 3};
  for (int i = 0; i < 24; ++i) a.data.push_back(static_cast<std::byte>(i));
  return a;
}

std::vector<std::byte> with_header(const std::string& header,
                                   size_t data_bytes,
                                   uint8_t major = 1) {
  ByteWriter w;
  w.write_string("\x93NUMPY");
  w.write(major);
  w.write(uint8_t{0});
  if (major == 1) {
    w.write(static_cast<uint16_t>(header.size()));
  } else {
    w.write(static_cast<uint32_t>(header.size()));
  }
  w.write_string(header);
  w.write_span(std::vector<std::byte>(data_bytes));
  return w.take();
}

TEST(Npy, RoundTripOfEveryTypeAndRank) {
  for (const char* type :
       {"|b1", "|u1", "|i1", "<u2", "<i2", "<f2", "<u4", "<i4", "<f4", "<u8", "<i8", "<f8"}) {
    for (const std::vector<int64_t>& shape :
         std::vector<std::vector<int64_t>>{{}, {5}, {2, 3}, {1, 0, 4}, {1, 2, 3, 4}}) {
      NpyArray a;
      a.type = type;
      a.shape = shape;
      size_t n = npy_item_bytes(type);
      for (const int64_t d : shape) n *= static_cast<size_t>(d);
      a.data.resize(n, std::byte{3});
      const auto file = format_npy(a);
      ASSERT_TRUE(file.ok()) << file.error().what;
      EXPECT_EQ((file->size() - n) % 64, 0U);
      const auto back = parse_npy(*file, "t");
      ASSERT_TRUE(back.ok()) << back.error().what;
      EXPECT_EQ(back->type, type);
      EXPECT_EQ(back->shape, shape);
      EXPECT_EQ(back->data, a.data);
    }
  }
}

TEST(Npy, FilesRoundTrip) {
  const TempDir dir = *TempDir::create();
  ASSERT_TRUE(write_npy(dir.path() + "/a.npy", sample()).ok());
  EXPECT_EQ(read_npy(dir.path() + "/a.npy")->data, sample().data);
}

TEST(Npy, VersionTwoAndOtherSpacingAreRead) {
  const auto v2 = parse_npy(
      with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", 24, 2), "t");
  ASSERT_TRUE(v2.ok()) << v2.error().what;
  EXPECT_TRUE(
      parse_npy(with_header("{'shape':(2,3),'fortran_order':False,'descr':'<f4'}", 24), "t").ok());
  EXPECT_TRUE(
      parse_npy(with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", 12), "t")
          .ok());
}

TEST(Npy, EveryTruncationIsRefused) {
  const std::vector<std::byte> file = *format_npy(sample());
  for (size_t n = 0; n < file.size(); ++n)
    EXPECT_FALSE(parse_npy(std::span(file).first(n), "t").ok()) << n;
}

TEST(Npy, EveryHeaderBitFlipGivesAnErrorOrAConsistentArray) {
  const std::vector<std::byte> file = *format_npy(sample());
  for (size_t i = 0; i < file.size() - 24; ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::vector<std::byte> bad = file;
      bad[i] ^= static_cast<std::byte>(1 << bit);
      const auto a = parse_npy(bad, "t");
      if (!a.ok()) continue;
      size_t n = npy_item_bytes(a->type);
      for (const int64_t d : a->shape) n *= static_cast<size_t>(d);
      EXPECT_EQ(n, a->data.size()) << i << " " << bit;
    }
  }
}

TEST(Npy, ErrorsSayWhatIsWrong) {
  const std::map<std::string, std::vector<std::byte>> cases = {
      {"big-endian", with_header("{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", 8)},
      {"Fortran order", with_header("{'descr': '<f4', 'fortran_order': True, 'shape': (2,), }", 8)},
      {"'<c8' is not read",
       with_header("{'descr': '<c8', 'fortran_order': False, 'shape': (2,), }", 16)},
      {"'|O' is not read",
       with_header("{'descr': '|O', 'fortran_order': False, 'shape': (2,), }", 16)},
      {"not a plain value",
       with_header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", 8)},
      {"need 8 bytes, the file has 7",
       with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 7)},
      {"need 8 bytes, the file has 9",
       with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 9)},
      {"shape '(-2,)'",
       with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", 8)},
      {"no 'shape'", with_header("{'descr': '<f4', 'fortran_order': False, }", 8)},
      {"version 3", with_header("{}", 8, 3)},
      {"wrong magic", std::vector<std::byte>(100)},
      {"need 18446744073709551615 bytes",
       with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }",
                   0)},
  };
  for (const auto& [text, file] : cases) {
    const auto a = parse_npy(file, "in.npy");
    ASSERT_FALSE(a.ok()) << text;
    EXPECT_THAT(a.error().what, testing::HasSubstr(text));
    EXPECT_THAT(a.error().what, testing::HasSubstr("in.npy"));
  }
}

TEST(Npy, WritingChecksShapeAgainstData) {
  NpyArray a = sample();
  a.shape = {7};
  EXPECT_FALSE(format_npy(a).ok());
  a.shape = {-6};
  EXPECT_FALSE(format_npy(a).ok());
  a = sample();
  a.type = "<f3";
  EXPECT_FALSE(format_npy(a).ok());
}

}  // namespace
}  // namespace modeld
