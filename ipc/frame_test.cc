#include "ipc/frame.h"

namespace modeld::ipc {
namespace {

TEST(Nv12Geometry, MatchesTheKnownCameras) {
  const auto big = nv12_geometry(1928, 1208);
  ASSERT_TRUE(big.ok());
  EXPECT_EQ(*big, (Nv12Geometry{1928, 1208, 2048, 1216, 608, 2490368, 4804608}));
  EXPECT_EQ(big->stride * (big->y_height + big->uv_height), 3735552u);
  const auto small = nv12_geometry(1344, 760);
  ASSERT_TRUE(small.ok());
  EXPECT_EQ(*small, (Nv12Geometry{1344, 760, 1408, 768, 384, 1081344, 2428928}));
  EXPECT_EQ(small->stride * (small->y_height + small->uv_height), 1622016u);
}

TEST(Nv12Geometry, RefusesOddAndUnreasonableSides) {
  EXPECT_FALSE(nv12_geometry(1927, 1208).ok());
  EXPECT_FALSE(nv12_geometry(1928, 1207).ok());
  EXPECT_FALSE(nv12_geometry(0, 0).ok());
  EXPECT_FALSE(nv12_geometry(8194, 1208).ok());
  EXPECT_TRUE(nv12_geometry(8192, 8192).ok());
  EXPECT_TRUE(nv12_geometry(16, 16).ok());
}

TEST(Intrinsics, KnownCamerasAndScaledOnes) {
  EXPECT_EQ(default_intrinsics(StreamId::kRoad, 1928, 1208),
            (CameraIntrinsics{2648, 2648, 964, 604}));
  EXPECT_EQ(default_intrinsics(StreamId::kWide, 1928, 1208),
            (CameraIntrinsics{567, 567, 964, 604}));
  EXPECT_EQ(default_intrinsics(StreamId::kRoad, 1344, 760),
            (CameraIntrinsics{1141.5, 1141.5, 672, 380}));
  EXPECT_EQ(default_intrinsics(StreamId::kCabin, 1344, 760),
            (CameraIntrinsics{425.25, 425.25, 672, 380}));
  EXPECT_EQ(default_intrinsics(StreamId::kRoad, 964, 604),
            (CameraIntrinsics{1324, 1324, 482, 302}));
}

TEST(Streams, NamesRoundTrip) {
  for (const StreamId stream : {StreamId::kRoad, StreamId::kWide, StreamId::kCabin})
    EXPECT_EQ(parse_stream(stream_name(stream)), stream);
  EXPECT_FALSE(parse_stream("panda").has_value());
}

}  // namespace
}  // namespace modeld::ipc
