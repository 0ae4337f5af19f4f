#include "proto/io/little_endian.h"

#include <limits>

#include "gtest/gtest.h"

namespace weft {
namespace {

TEST(LittleEndianTest, TheFirstByteIsTheLowest) {
  EXPECT_EQ(LittleEndian(""), 0u);
  EXPECT_EQ(LittleEndian(absl::string_view("\x01\x02\x03", 3)), 0x030201u);
  // Bytes from 128 on must not be read as negative numbers.
  EXPECT_EQ(LittleEndian(absl::string_view("\xff\x80", 2)), 0x80ffu);
  std::string out = "x";
  AppendLittleEndian(0x0102030405060708, 3, &out);
  EXPECT_EQ(out, std::string("x\x08\x07\x06"));
}

TEST(LittleEndianTest, ReadsWhatWasWritten) {
  for (int bytes = 1; bytes <= 8; ++bytes) {
    const uint64_t largest = std::numeric_limits<uint64_t>::max() >> (64 - 8 * bytes);
    for (const uint64_t value : {uint64_t{0}, uint64_t{1}, uint64_t{0x80}, largest / 3, largest - 1, largest}) {
      if (value > largest) continue;
      std::string out;
      AppendLittleEndian(value, bytes, &out);
      ASSERT_EQ(out.size(), static_cast<size_t>(bytes));
      EXPECT_EQ(LittleEndian(out), value) << bytes << " bytes";
    }
  }
}

}  // namespace
}  // namespace weft
