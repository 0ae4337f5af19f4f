#include "executor/numerics/philox.h"

#include <array>
#include <cstdint>

#include "gtest/gtest.h"

namespace weft::exec {
namespace {

// Known answers that the authors publish with Random123 (kat_vectors, philox4x32 with 10 rounds).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(Philox4x32({0, 0}, {0, 0, 0, 0}),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0xa4093822, 0x299f31d0}, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, KeySplitsSeedAndPurpose) {
  const PhiloxKey key = MakePhiloxKey(0x1122334455667788, PhiloxPurpose::kDropout);
  EXPECT_EQ(key.low, 0x55667788u);
  EXPECT_EQ(key.high, 0x11223344u ^ 2u);
}

}  // namespace
}  // namespace weft::exec
