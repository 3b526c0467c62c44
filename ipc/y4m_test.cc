#include "ipc/y4m.h"

#include <fstream>

#include "hal/base/bytes.h"
#include "hal/base/fs.h"

namespace modeld::ipc {
namespace {

constexpr size_t kPicture = 32 * 16 * 3 / 2;

// Picture i: luma 10*i + column, U 50 + i, V 90 + i.
std::string file_of(int pictures,
                    const std::string& header = "YUV4MPEG2 W32 H16 F20:1 Ip A1:1 C420jpeg\n",
                    const std::string& frame = "FRAME\n") {
  std::string out = header;
  for (int i = 0; i < pictures; ++i) {
    out += frame;
    for (int y = 0; y < 16; ++y) {
      for (int x = 0; x < 32; ++x) out.push_back(static_cast<char>(10 * i + x));
    }
    out.append(16 * 8, static_cast<char>(50 + i));
    out.append(16 * 8, static_cast<char>(90 + i));
  }
  return out;
}

class Y4m : public testing::Test {
 protected:
  Y4m() : dir_(std::move(*TempDir::create("ipc"))) {}
  Result<Y4mReader> open(const std::string& bytes) {
    const std::string path = dir_.path() + "/a.y4m";
    std::ofstream(path, std::ios::binary) << bytes;  // no fsync: this test writes hundreds of files
    return Y4mReader::open(path);
  }
  TempDir dir_;
};

TEST_F(Y4m, PicturesBecomeNv12AndLoop) {
  auto reader = open(file_of(3));
  ASSERT_TRUE(reader.ok()) << reader.error().what;
  EXPECT_EQ(reader->picture_count(), 3u);
  const Nv12Geometry& g = reader->geometry();
  EXPECT_EQ(g.width, 32u);
  std::vector<uint8_t> nv12(g.size);
  for (const uint64_t id : {0u, 1u, 2u, 4u, 3000000u}) {
    ASSERT_TRUE(reader->read(id, nv12).ok());
    const auto i = static_cast<uint8_t>(id % 3);
    EXPECT_EQ(nv12[5 * g.stride + 7], 10 * i + 7);
    EXPECT_EQ(nv12[g.uv_offset + 3 * g.stride + 8], 50 + i);
    EXPECT_EQ(nv12[g.uv_offset + 3 * g.stride + 9], 90 + i);
    EXPECT_EQ(nv12[5 * g.stride + 32], 16);
  }
}

TEST_F(Y4m, FrameParametersAreSkipped) {
  EXPECT_TRUE(open(file_of(2, "YUV4MPEG2 W32 H16\n", "FRAME Ip X1\n")).ok());
}

TEST_F(Y4m, AnyCutIsAnError) {
  const std::string good = file_of(2);
  const size_t header = good.find('\n') + 1;
  for (size_t n = 0; n < good.size(); n += n < 120 ? 1 : 61) {
    // A file cut exactly between pictures is a shorter file.
    const bool whole_pictures = n > header && (n - header) % (kPicture + 6) == 0;
    EXPECT_EQ(open(good.substr(0, n)).ok(), whole_pictures) << n;
  }
}

TEST_F(Y4m, BadHeadersAreErrorsThatSayWhat) {
  const auto error_of = [&](const std::string& header) {
    const auto reader = open(file_of(1, header));
    return reader.ok() ? std::string("accepted") : reader.error().what;
  };
  EXPECT_THAT(error_of("YUV4MPEG1 W32 H16\n"), testing::HasSubstr("YUV4MPEG2"));
  EXPECT_THAT(error_of("YUV4MPEG2 W32\n"), testing::HasSubstr("missing"));
  EXPECT_THAT(error_of("YUV4MPEG2 W32 H16 C420p10\n"), testing::HasSubstr("C420p10"));
  EXPECT_THAT(error_of("YUV4MPEG2 W32 H16 C444\n"), testing::HasSubstr("C444"));
  EXPECT_THAT(error_of("YUV4MPEG2 W32 H16 It\n"), testing::HasSubstr("It"));
  EXPECT_THAT(error_of("YUV4MPEG2 W99999999999999999999 H16\n"), testing::HasSubstr("W9999"));
  EXPECT_THAT(error_of("YUV4MPEG2 W-32 H16\n"), testing::HasSubstr("W-32"));
  EXPECT_THAT(error_of("YUV4MPEG2 W33 H16\n"), testing::HasSubstr("even"));
  std::string endless = "YUV4MPEG2 W32 H16";
  endless.resize(400, ' ');
  EXPECT_THAT(error_of(endless), testing::HasSubstr("end of line"));
}

TEST_F(Y4m, AHeaderWithoutPicturesAndAMissingFileAreErrors) {
  EXPECT_FALSE(open("YUV4MPEG2 W32 H16\n").ok());
  EXPECT_FALSE(Y4mReader::open(dir_.path() + "/none").ok());
  EXPECT_FALSE(Y4mReader::open(dir_.path()).ok());
}

TEST(Y4mHeader, ReportsItsLength) {
  const auto header = parse_y4m_header(bytes_of("YUV4MPEG2 W64 H48 C420\nFRAME\n"));
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(header->width, 64u);
  EXPECT_EQ(header->height, 48u);
  EXPECT_EQ(header->header_bytes, 23u);
}

}  // namespace
}  // namespace modeld::ipc
