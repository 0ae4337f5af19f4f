#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "executor/data/data.h"
#include "executor/data/data_order.h"
#include "executor/data/image_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/io/io.h"

namespace weft::exec {
namespace {

using ::testing::HasSubstr;

std::string WriteTemporary(const std::string& name, const std::string& bytes) {
  const std::string path = ::testing::TempDir() + "/" + name;
  EXPECT_TRUE(WriteFileAtomic(path, bytes).ok());
  return path;
}

DataOptions Options(const std::string& path) {
  return {.path = path, .sequence_length = 16, .seed = 5, .token_type = "", .image_size = 4, .image_channels = 2};
}

// Images of 4 x 4 x 2. All bytes of image i are i.
std::string Images(int count) {
  const ImageLayout layout = {.count = count, .channels = 2, .height = 4, .width = 4, .bytes_per_element = 1};
  std::string bytes = ImageFileHeader(layout);
  for (int i = 0; i < count; ++i) bytes += std::string(32, static_cast<char>(i));
  return bytes;
}

std::string Refusal(const DataOptions& options) {
  const auto data = OpenData(options);
  EXPECT_FALSE(data.ok());
  return std::string(data.status().message());
}

TEST(ImageData, EverySampleIsAnImageInTheOrderOfWindows) {
  const auto data = OpenData(Options(WriteTemporary("seven.img", Images(7))));
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->windows(), 7);
  EXPECT_EQ((*data)->identity().tokens, 7);
  for (int64_t sample = 0; sample < 14; ++sample) {
    std::vector<float> pixels(32);
    ASSERT_TRUE((*data)->Image(sample, absl::MakeSpan(pixels)).ok());
    const auto image = static_cast<float>(WindowOfSample(5, 7, sample));
    for (float pixel : pixels) EXPECT_EQ(pixel, image / 127.5f - 1);
  }
  std::vector<float> few(31);
  EXPECT_FALSE((*data)->Image(0, absl::MakeSpan(few)).ok());
  std::vector<int32_t> tokens(16);
  EXPECT_FALSE((*data)->Sample(0, absl::MakeSpan(tokens), {}).ok());
}

TEST(ImageData, FloatsAreTakenAsTheyAre) {
  const ImageLayout layout = {.count = 1, .channels = 2, .height = 4, .width = 4, .bytes_per_element = 4};
  std::string bytes = ImageFileHeader(layout);
  for (int i = 0; i < 32; ++i) {
    const float value = -0.5f * static_cast<float>(i);
    bytes.append(reinterpret_cast<const char*>(&value), 4);
  }
  const auto data = OpenData(Options(WriteTemporary("floats.img", bytes)));
  ASSERT_TRUE(data.ok()) << data.status();
  std::vector<float> pixels(32);
  ASSERT_TRUE((*data)->Image(3, absl::MakeSpan(pixels)).ok());
  EXPECT_EQ(pixels[31], -15.5f);
  const float infinite = std::numeric_limits<float>::infinity();
  std::memcpy(bytes.data() + 40 + 4 * 9, &infinite, 4);
  EXPECT_THAT(Refusal(Options(WriteTemporary("infinite.img", bytes))), HasSubstr("element 9 of image 0 (byte 76)"));
}

TEST(ImageData, RefusesFilesThatAreNot) {
  EXPECT_THAT(Refusal(Options(WriteTemporary("text.txt", "just text"))), HasSubstr("is not an image file"));
  EXPECT_THAT(Refusal(Options(::testing::TempDir() + "/missing.img")), HasSubstr("missing.img: cannot open"));
  const std::string good = Images(3);
  EXPECT_THAT(Refusal(Options(WriteTemporary("cut.img", good.substr(0, 30)))),
              HasSubstr("cut off: the file has 30 bytes"));
  EXPECT_THAT(Refusal(Options(WriteTemporary("short.img", good.substr(0, good.size() - 1)))),
              HasSubstr("the header says 3 images of 32 bytes; 95 bytes follow it"));
  const auto with = [&](size_t at, char byte) {
    std::string bytes = good;
    bytes[at] = byte;
    return Options(WriteTemporary("changed.img", bytes));
  };
  EXPECT_THAT(Refusal(with(8, 2)), HasSubstr("format version 2"));
  EXPECT_THAT(Refusal(with(12, 9)), HasSubstr("dtype 9; known"));
  EXPECT_THAT(Refusal(with(16, 0)), HasSubstr("channels 0; it must be from 1"));
  EXPECT_THAT(Refusal(with(28, 1)), HasSubstr("bytes 28 to 31 are 1"));
  DataOptions other = Options(WriteTemporary("good.img", good));
  other.image_channels = 3;
  EXPECT_THAT(Refusal(other), HasSubstr("has images of 4 x 4 x 2 (height, width, channels); the model has 4 x 4 x 3"));
  other = Options(WriteTemporary("good.img", good));
  other.token_type = "uint16";
  EXPECT_THAT(Refusal(other), HasSubstr("is for tokens"));
  // A model of tokens refuses images.
  other = {.path = WriteTemporary("good.img", good), .sequence_length = 4, .vocabulary = 256, .token_type = ""};
  EXPECT_THAT(Refusal(other), HasSubstr("is an image file, but the model trains on tokens"));
}

}  // namespace
}  // namespace weft::exec
