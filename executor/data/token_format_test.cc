// Tests headers of token files and Megatron indices, byte by byte. data_test.cc tests reading the tokens after them.
#include "executor/data/token_format.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/io/little_endian.h"

namespace weft::exec {
namespace {

using ::testing::HasSubstr;

// Expects the bytes that docs/data.md states.
TEST(TokenFormat, TheHeaderIsThirtyTwoBytesLittleEndian) {
  const std::string header = TokenFileHeader(2, 0x10203, 0x405);
  const std::vector<int> expected = {'W', 'E', 'F', 'T', 'T', 'O', 'K', 'N', 1, 0, 0, 0, 1, 0, 0, 0,
                                     3,   2,   1,   0,   0,   0,   0,   0,   5, 4, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(std::vector<int>(header.begin(), header.end()), expected);
  EXPECT_EQ(static_cast<int64_t>(header.size()), kTokenHeaderBytes);
  EXPECT_EQ(TokenFileHeader(4, 1, 1)[12], 2);
}

TEST(TokenFormat, ReadsWhatWasWritten) {
  for (const int bytes : {2, 4}) {
    for (const int64_t count : {int64_t{0}, int64_t{7}, int64_t{1} << 40}) {
      const auto layout =
          ParseTokenHeader(TokenFileHeader(bytes, 50257, count) + "tokens", kTokenHeaderBytes + bytes * count, "a");
      ASSERT_TRUE(layout.ok()) << layout.status();
      EXPECT_EQ(layout->offset, kTokenHeaderBytes);
      EXPECT_EQ(layout->count, count);
      EXPECT_EQ(layout->bytes_per_token, bytes);
      EXPECT_FALSE(layout->is_signed);
      EXPECT_EQ(layout->vocabulary, 50257);
    }
  }
}

TEST(TokenFormat, RefusesHeadersThatAreNot) {
  const auto refusal = [](const std::string& head, int64_t file_bytes) {
    return std::string(ParseTokenHeader(head, file_bytes, "a.tok").status().message());
  };
  const std::string good = TokenFileHeader(2, 100, 3);
  EXPECT_EQ(refusal("WEFTTOK", 7), "a.tok: token file: it does not begin with WEFTTOKN");
  EXPECT_EQ(refusal(good.substr(0, 31), 31),
            "a.tok: token file: it is cut off: the file has 31 bytes, but the header alone has 32");
  EXPECT_THAT(refusal(good, 37), HasSubstr("the header says 3 tokens of 2 bytes; 5 bytes follow it"));
  const auto with = [&](size_t at, char byte) {
    std::string bytes = good;
    bytes[at] = byte;
    return refusal(bytes, 38);
  };
  EXPECT_EQ(with(24, 3), "");
  EXPECT_THAT(with(8, 2), HasSubstr("format version 2; this weft reads version 1"));
  EXPECT_THAT(with(12, 3), HasSubstr("dtype 3; known: 1 (uint16), 2 (uint32)"));
  EXPECT_THAT(with(16, 0), HasSubstr("vocabulary 0; it must be from 1"));
  EXPECT_THAT(with(20, 1), HasSubstr("vocabulary 4294967396"));
  // 2^63 + 3 tokens of 2 bytes would be 6 bytes if the product wrapped around.
  EXPECT_THAT(with(31, '\x80'), HasSubstr("the header says 9223372036854775811 tokens"));
}

// An index of sequences with these lengths, followed by `documents` numbers.
std::string Index(int code, const std::vector<int32_t>& lengths, int documents, int64_t bytes_per_token) {
  std::string index("MMIDIDX\0\0", 9);
  AppendLittleEndian(1, 8, &index);
  AppendLittleEndian(static_cast<uint64_t>(code), 1, &index);
  AppendLittleEndian(lengths.size(), 8, &index);
  AppendLittleEndian(static_cast<uint64_t>(documents), 8, &index);
  for (const int32_t length : lengths) AppendLittleEndian(static_cast<uint32_t>(length), 4, &index);
  int64_t at = 0;
  for (const int32_t length : lengths) {
    AppendLittleEndian(static_cast<uint64_t>(at), 8, &index);
    at += length * bytes_per_token;
  }
  for (int i = 0; i < documents; ++i) AppendLittleEndian(static_cast<uint64_t>(i), 8, &index);
  return index;
}

TEST(MegatronIndex, EveryTypeOfTokenHasItsBytesAndSign) {
  const struct {
    int code, bytes;
    bool is_signed;
  } types[] = {{1, 1, false}, {2, 1, true}, {3, 2, true}, {4, 4, true}, {5, 8, true}, {8, 2, false}};
  for (const auto& type : types) {
    const auto layout = ParseMegatronIndex(Index(type.code, {3, 0, 4}, 2, type.bytes), 7 * type.bytes, "a.idx");
    ASSERT_TRUE(layout.ok()) << type.code << ": " << layout.status();
    EXPECT_EQ(layout->bytes_per_token, type.bytes);
    EXPECT_EQ(layout->is_signed, type.is_signed);
    EXPECT_EQ(layout->count, 7);
    EXPECT_EQ(layout->offset, 0);
    EXPECT_EQ(layout->vocabulary, 0);
  }
  for (const int code : {0, 6, 7, 9, 255}) {
    EXPECT_THAT(std::string(ParseMegatronIndex(Index(code, {3}, 1, 2), 6, "a.idx").status().message()),
                HasSubstr("dtype " + std::to_string(code) + " holds no token ids"));
  }
}

TEST(MegatronIndex, TheSequencesFillTheDataInOrder) {
  const std::string good = Index(8, {3, 4}, 1, 2);
  const auto refusal = [](const std::string& index, int64_t bin_bytes) {
    return std::string(ParseMegatronIndex(index, bin_bytes, "a.idx").status().message());
  };
  EXPECT_EQ(refusal(good, 14), "");
  EXPECT_THAT(refusal(good, 16), HasSubstr("its sequences take 14 bytes; the .bin has 16"));
  EXPECT_THAT(refusal(good, 12), HasSubstr("its sequences take more than 12 bytes; the .bin has 12"));
  // The second pointer: after 34 bytes of header, two lengths and one pointer.
  std::string gap = good;
  gap[34 + 8 + 8] = 8;
  EXPECT_THAT(refusal(gap, 14), HasSubstr("sequence 1 begins at byte 8 instead of 6"));
  EXPECT_THAT(refusal(Index(8, {3, -1}, 1, 2), 14), HasSubstr("sequence 1 has a length of -1"));
  // A mode for each sequence follows at the end.
  EXPECT_THAT(refusal(good + "\1\1", 14), HasSubstr("multimodal data is not supported"));
  EXPECT_THAT(refusal(good + "\1", 14), HasSubstr("the 33 bytes after it do not match"));
  EXPECT_THAT(refusal(good.substr(0, 33), 14), HasSubstr("cut off: the file has 33 bytes"));
  // The number of bytes for these counts would wrap around.
  std::string many = good;
  many[25] = '\x40';
  EXPECT_THAT(refusal(many, 14), HasSubstr("bytes after it do not match"));
}

}  // namespace
}  // namespace weft::exec
