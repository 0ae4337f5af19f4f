#include "proto/io/crc32c.h"

#include <cstdint>
#include <random>
#include <string>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

// Computes the CRC bit by bit, as the polynomial defines it.
uint32_t Slow(absl::string_view bytes) {
  uint32_t crc = 0xffffffff;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78 : 0);
  }
  return ~crc;
}

// Vectors from RFC 3720, appendix B.4. The last one is the usual check value.
TEST(Crc32c, IsThatOfTheStandard) {
  std::string up, down;
  for (int i = 0; i < 32; ++i) {
    up += static_cast<char>(i);
    down += static_cast<char>(31 - i);
  }
  EXPECT_EQ(Crc32c(""), 0u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(Crc32c(up), 0x46dd794eu);
  EXPECT_EQ(Crc32c(down), 0x113fdb5cu);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
}

// Long texts use the processor's instruction if it has one, and short ones use tables. Texts start at any address.
TEST(Crc32c, IsTheSameOfEveryLengthAndPlace) {
  std::mt19937_64 random(1);
  std::string bytes(400, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  for (size_t begin = 0; begin < 9; ++begin) {
    for (size_t size = 0; begin + size <= 300; ++size) {
      const absl::string_view part = absl::string_view(bytes).substr(begin, size);
      ASSERT_EQ(Crc32c(part), Slow(part)) << begin << " " << size;
    }
  }
}

TEST(Crc32c, GoesOnWhereItWas) {
  std::mt19937_64 random(2);
  std::string bytes(300, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  const uint32_t whole = Slow(bytes);
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    const absl::string_view all = bytes;
    ASSERT_EQ(Crc32cExtend(Crc32c(all.substr(0, cut)), all.substr(cut)), whole) << cut;
  }
}

}  // namespace
}  // namespace weft
