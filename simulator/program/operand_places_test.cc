#include "simulator/program/operand_places.h"

#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/parse_text.h"

namespace weft::sim {
namespace {

// The buffers are [0, 100) and [100, 150) on the device, the same ranges in host memory, an empty buffer at 100 on the
// device, and the first half of [0, 100) on the device.
Template Buffers() {
  return Parse<Template>(R"(
    buffers { offset: 0 bytes: 100 place: DEVICE } buffers { offset: 100 bytes: 50 place: DEVICE }
    buffers { offset: 0 bytes: 100 place: HOST } buffers { offset: 100 bytes: 50 place: HOST }
    buffers { offset: 100 bytes: 0 place: DEVICE } buffers { offset: 0 bytes: 50 place: DEVICE })");
}

bool Apart(const Template& t, const std::vector<int>& operands) {
  Action action;
  action.mutable_operands()->Add(operands.begin(), operands.end());
  return OperandPlaces(t).AreApart(action);
}

TEST(OperandPlacesTest, NeighborsAndOtherMemoryAreApart) {
  const Template t = Buffers();
  EXPECT_TRUE(Apart(t, {}));
  EXPECT_TRUE(Apart(t, {0}));
  EXPECT_TRUE(Apart(t, {1, 0}));
  EXPECT_TRUE(Apart(t, {3, 0, 2, 1}));
  EXPECT_TRUE(Apart(t, {5, 1}));
}

TEST(OperandPlacesTest, OneInAnotherOrTwiceTheSameIsNot) {
  const Template t = Buffers();
  EXPECT_FALSE(Apart(t, {0, 5}));
  EXPECT_FALSE(Apart(t, {1, 5, 0}));
  EXPECT_FALSE(Apart(t, {1, 0, 1}));
  // Buffer 4 is empty and begins where buffer 1 begins.
  EXPECT_FALSE(Apart(t, {1, 4}));
}

TEST(OperandPlacesTest, AddressesTellMemoriesApart) {
  const Template t = Buffers();
  EXPECT_EQ(AddressOf(t.buffers(1)), 100);
  EXPECT_LT(AddressOf(t.buffers(2)), 0);
  EXPECT_NE(AddressOf(t.buffers(2)), AddressOf(t.buffers(3)));
}

// AreApart agrees with a comparison of every two operands, for many actions one after the other.
TEST(OperandPlacesTest, AsTwoByTwo) {
  std::mt19937 random(7);
  const auto below = [&](int n) { return static_cast<int>(random() % n); };
  int apart = 0;
  for (int round = 0; round < 200; ++round) {
    Template t;
    for (int b = 0; b < 12; ++b) {
      Buffer& buffer = *t.add_buffers();
      buffer.set_offset(10 * below(12));
      buffer.set_bytes(10 * (1 + below(3)));
      buffer.set_place(below(2) == 0 ? DEVICE : HOST);
    }
    OperandPlaces places(t);
    for (int trial = 0; trial < 10; ++trial) {
      Action action;
      for (int o = below(5); o >= 0; --o) action.add_operands(below(12));
      bool expected = true;
      for (int i = 0; i < action.operands_size(); ++i) {
        for (int j = 0; j < i; ++j) {
          const Buffer &a = t.buffers(action.operands(i)), &b = t.buffers(action.operands(j));
          const bool meet =
              a.place() == b.place() && a.offset() < b.offset() + b.bytes() && b.offset() < a.offset() + a.bytes();
          expected = expected && !meet;
        }
      }
      EXPECT_EQ(places.AreApart(action), expected) << t.ShortDebugString() << " " << action.ShortDebugString();
      apart += expected;
    }
  }
  // Both answers occur often.
  EXPECT_GT(apart, 400);
  EXPECT_LT(apart, 1600);
}

}  // namespace
}  // namespace weft::sim
