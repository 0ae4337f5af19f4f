#include "executor/state/safetensors.h"

#include <sys/stat.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/io/crc32c.h"
#include "proto/io/io.h"

namespace weft::exec {
namespace {

using ::testing::HasSubstr;

std::string Path(const std::string& name) { return ::testing::TempDir() + "/" + name; }

std::string File(const std::string& header, const std::string& data) {
  std::string file(8, '\0');
  for (int i = 0; i < 8; ++i) file[i] = static_cast<char>(static_cast<uint64_t>(header.size()) >> (8 * i));
  return file + header + data;
}

absl::Status OpenBytes(const std::string& bytes) {
  const std::string path = Path("bytes.safetensors");
  std::ofstream(path, std::ios::binary) << bytes;
  return SafetensorsReader::Open(path).status();
}

TEST(SafetensorsTest, ReadsWhatWasWritten) {
  const std::string path = Path("round.safetensors");
  std::remove(path.c_str());
  const std::vector<SafetensorsWriter::Declaration> tensors = {
      {"a\"b", FP32, {2, 3}}, {"empty", FP64, {0, 5}}, {"scalar", BF16, {}}};
  auto writer = SafetensorsWriter::Create(path, tensors, {{"format", "pt"}});
  ASSERT_TRUE(writer.ok()) << writer.status();
  const std::vector<float> a = {1, 2, 3, 4, 5, 6};
  const auto* bytes = reinterpret_cast<const std::byte*>(a.data());
  ASSERT_TRUE((*writer)->Append(absl::MakeConstSpan(bytes, 24)).ok());
  ASSERT_TRUE((*writer)->Append({}).ok());
  ASSERT_TRUE((*writer)->Append(absl::MakeConstSpan(bytes + 4, 2)).ok());
  int64_t size = 0;
  uint32_t crc = 0;
  ASSERT_TRUE((*writer)->Finish(&size, &crc).ok());
  const std::string content = *ReadFile(path);
  EXPECT_EQ(static_cast<int64_t>(content.size()), size);
  EXPECT_EQ(Crc32c(content), crc);
  EXPECT_EQ(content[8], '{');

  const auto reader = *SafetensorsReader::Open(path);
  EXPECT_EQ(reader->metadata().at("format"), "pt");
  ASSERT_EQ(reader->entries().size(), 3u);
  const SafetensorsEntry& entry = reader->entries()[0];
  EXPECT_EQ(entry.name, "a\"b");
  EXPECT_EQ(entry.dtype, FP32);
  EXPECT_EQ(entry.shape, (std::vector<int64_t>{2, 3}));
  std::vector<std::byte> read;
  ASSERT_TRUE(reader->Read(entry, &read).ok());
  EXPECT_EQ(std::memcmp(read.data(), a.data(), 24), 0);
  // An existing file is never overwritten.
  EXPECT_FALSE(SafetensorsWriter::Create(path, tensors, {}).ok());
}

TEST(SafetensorsTest, RefusesWhatIsNotWellFormed) {
  struct Bad {
    std::string file;
    const char* message;
  };
  const std::string four(4, 'x'), eight(8, 'x');
  const std::vector<Bad> corpus = {
      {"", "too few"},
      {"1234567", "too few"},
      {std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10), "not a safetensors file, or truncated"},
      {File("{}", "").substr(0, 9), "truncated"},
      {File("[]", ""), "must be a JSON object"},
      {File("{\"a\":1}", ""), "expected an object"},
      {File("{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", four), "data_offsets"},
      {File("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", four), "unknown key 'x'"},
      {File("{\"a\":{\"dtype\":\"F31\",\"shape\":[1],\"data_offsets\":[0,4]}}", four), "unknown dtype 'F31'"},
      {File("{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", four), "'shape'"},
      {File("{\"a\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,4]}}", four), "'shape'"},
      {File("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", four), "does not fill"},
      {File("{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,4]}}", four),
       "does not fill"},
      {File("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", four), "ascending"},
      {File("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", four), "truncated"},
      {File("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", eight), "belong to no tensor"},
      {File("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", eight), "hole"},
      {File("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
            "\"b\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[2,6]}}",
            std::string(6, 'x')),
       "overlaps"},
      {File("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
            "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
            eight),
       "a"},
      {File("{\"__metadata__\":{\"k\":1}}", ""), "must be a string"},
      {File("{\"a\":", ""), ":1:"},
  };
  for (const Bad& bad : corpus) {
    const absl::Status status = OpenBytes(bad.file);
    EXPECT_FALSE(status.ok()) << bad.message;
    EXPECT_THAT(std::string(status.message()), HasSubstr(bad.message));
    EXPECT_THAT(std::string(status.message()), HasSubstr("bytes.safetensors"));
  }
  EXPECT_TRUE(OpenBytes(File("{}", "")).ok());
  EXPECT_EQ(SafetensorsReader::Open(Path("missing")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(SafetensorsReader::Open(::testing::TempDir()).status().message()),
              HasSubstr("is a directory"));
  // Opening a pipe that nobody writes must not wait either.
  const std::string pipe = Path("pipe");
  std::remove(pipe.c_str());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(std::string(SafetensorsReader::Open(pipe).status().message()), HasSubstr("is not a regular file"));
}

template <typename T>
std::vector<std::byte> BytesOf(const std::vector<T>& values) {
  const auto* begin = reinterpret_cast<const std::byte*>(values.data());
  return {begin, begin + values.size() * sizeof(T)};
}

TEST(ConvertFloatsTest, EveryHalfPrecisionNumberSurvives) {
  for (DType half : {FP16, BF16}) {
    std::vector<uint16_t> all(65536), back(65536);
    for (int i = 0; i < 65536; ++i) all[i] = static_cast<uint16_t>(i);
    for (DType wide : {FP32, FP64}) {
      std::vector<std::byte> widened(65536 * (wide == FP32 ? 4 : 8)), narrowed(65536 * 2);
      ASSERT_TRUE(ConvertFloats(half, BytesOf(all), wide, absl::MakeSpan(widened)).ok());
      ASSERT_TRUE(ConvertFloats(wide, widened, half, absl::MakeSpan(narrowed)).ok());
      std::memcpy(back.data(), narrowed.data(), narrowed.size());
      for (int i = 0; i < 65536; ++i) {
        const int exponent_mask = half == FP16 ? 0x7c00 : 0x7f80;
        const bool nan = (i & exponent_mask) == exponent_mask && (i & ~exponent_mask & 0x7fff) != 0;
        if (nan) {
          EXPECT_EQ(back[i] & exponent_mask, exponent_mask);
          EXPECT_NE(back[i] & ~exponent_mask & 0x7fff, 0);
        } else {
          ASSERT_EQ(back[i], all[i]) << i;
        }
      }
    }
  }
}

TEST(ConvertFloatsTest, RoundsOnceToNearestEven) {
  // 1 + 2^-8 is half way in bf16. A little more than half way must round up, even if fp32 cannot show the difference.
  const std::vector<double> x = {1 + std::ldexp(1, -8),
                                 1 + 3 * std::ldexp(1, -8),
                                 1 + std::ldexp(1, -8) + std::ldexp(1, -40),
                                 1e300,
                                 -1e-300,
                                 65519.999,
                                 65520};
  std::vector<std::byte> out(x.size() * 2);
  ASSERT_TRUE(ConvertFloats(FP64, BytesOf(x), BF16, absl::MakeSpan(out)).ok());
  std::vector<uint16_t> bits(x.size());
  std::memcpy(bits.data(), out.data(), out.size());
  EXPECT_EQ(bits[0], 0x3f80);
  EXPECT_EQ(bits[1], 0x3f82);
  EXPECT_EQ(bits[2], 0x3f81);
  EXPECT_EQ(bits[3], 0x7f80);
  EXPECT_EQ(bits[4], 0x8000);
  ASSERT_TRUE(ConvertFloats(FP64, BytesOf(x), FP16, absl::MakeSpan(out)).ok());
  std::memcpy(bits.data(), out.data(), out.size());
  EXPECT_EQ(bits[5], 0x7bff);
  EXPECT_EQ(bits[6], 0x7c00);
}

TEST(ConvertFloatsTest, RefusesOtherTypesAndSizes) {
  std::vector<std::byte> four(4), eight(8);
  EXPECT_FALSE(ConvertFloats(INT32, four, FP32, absl::MakeSpan(four)).ok());
  EXPECT_FALSE(ConvertFloats(FP32, four, FP64, absl::MakeSpan(four)).ok());
  EXPECT_TRUE(ConvertFloats(FP32, four, FP64, absl::MakeSpan(eight)).ok());
}

}  // namespace
}  // namespace weft::exec
