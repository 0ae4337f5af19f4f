#include "executor/data/image_format.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::exec {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kSide = kLargestImageExtent;

std::string Refusal(const std::string& header, int64_t file_bytes) {
  const auto layout = ParseImageHeader(header, file_bytes, "a.img");
  EXPECT_FALSE(layout.ok());
  return std::string(layout.status().message());
}

// Expects the bytes that docs/data.md states.
TEST(ImageFormat, TheHeaderIsFortyBytesLittleEndian) {
  const ImageLayout layout = {.count = 0x102, .channels = 3, .height = 5, .width = 0x201, .bytes_per_element = 4};
  const std::string header = ImageFileHeader(layout);
  const std::vector<int> expected = {'W', 'E', 'F', 'T', 'I', 'M', 'G', 'S', 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0,
                                     5,   0,   0,   0,   1,   2,   0,   0,   0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(std::vector<int>(header.begin(), header.end()), expected);
  EXPECT_EQ(static_cast<int64_t>(header.size()), kImageHeaderBytes);
}

TEST(ImageFormat, ReadsWhatWasWritten) {
  for (const int bytes_per_element : {1, 4}) {
    for (const int64_t side : {int64_t{1}, int64_t{7}, kSide}) {
      const ImageLayout written = {
          .count = 3, .channels = 2, .height = side, .width = 4, .bytes_per_element = bytes_per_element};
      const int64_t each = 2 * side * 4 * bytes_per_element;
      EXPECT_EQ(written.elements() * bytes_per_element, each);
      const auto read = ParseImageHeader(ImageFileHeader(written) + "pixels", kImageHeaderBytes + 3 * each, "a.img");
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(read->offset, kImageHeaderBytes);
      EXPECT_EQ(read->count, 3);
      EXPECT_EQ(read->channels, 2);
      EXPECT_EQ(read->height, side);
      EXPECT_EQ(read->width, 4);
      EXPECT_EQ(read->bytes_per_element, bytes_per_element);
    }
  }
}

// No product of the header's numbers wraps around.
TEST(ImageFormat, TheLargestExtentsAreAddedUpExactly) {
  const ImageLayout huge = {.count = 2, .channels = kSide, .height = kSide, .width = kSide, .bytes_per_element = 4};
  const int64_t each = int64_t{1} << 47;
  EXPECT_TRUE(ParseImageHeader(ImageFileHeader(huge), kImageHeaderBytes + 2 * each, "a.img").ok());
  EXPECT_THAT(Refusal(ImageFileHeader(huge), kImageHeaderBytes + each), HasSubstr("the header says 2 images"));
  ImageLayout larger = huge;
  larger.width = kSide + 1;
  EXPECT_EQ(Refusal(ImageFileHeader(larger), kImageHeaderBytes + 2 * each),
            "a.img: image file: width 32769; it must be from 1 to 32768");
  // 2^64 bytes would wrap around to 0.
  ImageLayout many = {.count = int64_t{1} << 62, .channels = 1, .height = 1, .width = 1, .bytes_per_element = 4};
  EXPECT_THAT(Refusal(ImageFileHeader(many), kImageHeaderBytes), HasSubstr("4 bytes; 0 bytes follow it"));
}

TEST(ImageFormat, AHeaderWithoutImagesIsNoFile) {
  const ImageLayout none = {.count = 0, .channels = 1, .height = 2, .width = 2, .bytes_per_element = 1};
  EXPECT_EQ(Refusal(ImageFileHeader(none), kImageHeaderBytes),
            "a.img: image file: the header says 0 images of 4 bytes; 0 bytes follow it; at least one image is "
            "required");
}

TEST(ImageFormat, FilesAreKnownByTheirFirstEightBytes) {
  EXPECT_TRUE(LooksLikeImageFile("WEFTIMGS"));
  EXPECT_TRUE(LooksLikeImageFile("WEFTIMGS and more"));
  for (const char* other : {"", "WEFTIMG", "WEFTIMGT", "weftimgs", " WEFTIMGS"}) {
    EXPECT_FALSE(LooksLikeImageFile(other)) << other;
    EXPECT_EQ(Refusal(other, 100), "a.img: image file: it does not begin with WEFTIMGS");
  }
}

TEST(ImageFormat, RawImages) {
  const auto layout = LayoutOfRawImages("4x3x2", "float32", 24 * 4 * 5);
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->count, 5);
  EXPECT_EQ(layout->height, 4);
  EXPECT_EQ(layout->channels, 2);
  const auto back = ParseImageHeader(ImageFileHeader(*layout), 40 + 24 * 4 * 5, "x");
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->width, 3);
  EXPECT_EQ(back->bytes_per_element, 4);
  for (const char* shape : {"", "4x3", "4x3x0", "4x3x2x1", "axbxc", "99999x1x1", "04x3x2", "+4x3x2"}) {
    EXPECT_THAT(std::string(LayoutOfRawImages(shape, "uint8", 100).status().message()),
                HasSubstr("HEIGHTxWIDTHxCHANNELS"))
        << shape;
  }
  EXPECT_THAT(std::string(LayoutOfRawImages("4x3x2", "int8", 24).status().message()), HasSubstr("uint8, float32"));
  EXPECT_THAT(std::string(LayoutOfRawImages("4x3x2", "uint8", 25).status().message()),
              HasSubstr("not whole images of 4x3x2 uint8, 24 bytes each; nearest: 1 or 2 images"));
  EXPECT_THAT(std::string(LayoutOfRawImages("4x3x2", "uint8", 0).status().message()), HasSubstr("nearest: 1 image"));
}

}  // namespace
}  // namespace weft::exec
